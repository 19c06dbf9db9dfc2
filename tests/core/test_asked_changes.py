"""Whether a task asks to change a variable, or only reads it."""

from __future__ import annotations

import pytest

from jupyter_agent.core.asked_changes import asked_change


@pytest.mark.parametrize(
    "task",
    [
        "What is the mean of the column price in df?",
        "How many rows of `df` have a missing age? Answer with a number.",
        "Plot df.price against df.area",
        "In the data set df, which species is heaviest?",
        "Show the added value of each row of df.",
        "Without changing df, compute what is left when rows without a price go.",
        "Drop the missing rows in a copy of df.",
        "Sort df by price, but do not change it.",
        "Fill the gaps. Leave `df` as it is.",
        "Don't modify the original df; drop rows with gaps in another one.",
        "Merge other with df into both.",
        "Group df by region and show the means.",
        "Compute the correlation of a and b in df, and print it with two decimals.",
    ],
)
def test_inputs(task: str) -> None:
    """A task that asks about a variable, or says that it stays, names it as an input."""
    assert asked_change(task, "df") == "input"


@pytest.mark.parametrize(
    "task",
    [
        "Add a column total to df.",
        "Sort `df` by price, in place.",
        "Sort df without changing the order of its columns.",
        "add column b to df",
        "Rename the columns of df to lower case",
        "Drop the rows of df without a price.",
        "Replace missing ages in df by the median.",
        "df = df without duplicates",
        "Load prices.csv into df.",
        "Read the file as `df`",
        "Create a new column in df with the ratio.",
        "Create a data frame df with ten rows.",
        "Store the sorted frame in df.",
        "Update @df with the new prices",
        "Fill the gaps of df['age'].",
        "Concatenate a and b, call it df: df += b",
    ],
)
def test_changes(task: str) -> None:
    """An imperative of changing beside the name, or the name as the place of a result."""
    assert asked_change(task, "df") == "change"


@pytest.mark.parametrize(
    "task",
    [
        "Look at df. Then sort it by price and show the first row.",
        "Filter df to the rows of 2020.",
        "Extract the year of df.date as year.",
        "Round the mean of price in df to two decimals.",
    ],
)
def test_doubts(task: str) -> None:
    """A word of changing elsewhere, or one that may make a new value, decides nothing."""
    assert asked_change(task, "df") == "unsure"


def test_names_are_whole_words() -> None:
    """A longer name, or an attribute of that name, is another one."""
    assert asked_change("Sort df2 by x. How long is df?", "df") == "unsure"
    assert asked_change("Is x.df as long as df?", "df") == "input"
