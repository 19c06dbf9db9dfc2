"""A small model's code leaves the person's tables as they are."""

from __future__ import annotations

import pytest

from jupyter_agent.core.asked_changes import may_ask_for_change, may_ask_for_data
from jupyter_agent.llm.spared import sparing, with_loaded, without_made_up_data

HALF = "def half(x):\n    return x / 2"


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        ("df = pd.DataFrame({'x': [1, 2, 3, 4]})\nhalved = half(df)\nprint(halved)", ""),
        ("data = {\n    'x': [1, 2, 3],\n}\nprint(half(data['x'][0]))", ""),
        ("df['half'] = df.x.apply(half)", "df['half'] = df.x.apply(half)"),
        ("LIMITS = [1, 2]", "LIMITS = [1, 2]"),
    ],
)
def test_made_up_data(after: str, kept: str) -> None:
    """Data that are written out after a function go, with all that uses them; the rest stays."""
    assert without_made_up_data(f"{HALF}\n\n{after}") == f"{HALF}\n\n{kept}".strip()


def test_data_that_a_function_uses() -> None:
    """A table that the function itself reads stays; so does code without a function."""
    for code in ("SIZES = [1, 2, 3, 4]\ndef f(n):\n    return SIZES[n]", "x = [1, 2, 3, 4]\nx"):
        assert without_made_up_data(code) == code


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("df = df[df.x > 1]\ndf.x.mean()", "df = df[df.x > 1]\ndf.x.mean()"),
        ("df['y'] = df.x * 2\ndf.y.sum()", "df['y'] = df.x * 2\ndf.y.sum()"),
        ("df.loc[0, 'x'] = 9\ndf.x.sum()", "df.loc[0, 'x'] = 9\ndf.x.sum()"),
        ("df.drop(columns='y', inplace=True)\nlen(df)", "df.drop(columns='y', inplace=True)"),
        ("df.columns = ['a']\nlen(df)", "df.columns = ['a']\nlen(df)"),
        ("del df['x']\nlen(df)", "del df['x']\nlen(df)"),
        ("for df in [df]:\n    pass", "for df in [df]:\n    pass"),
    ],
)
def test_a_changed_table_is_a_copy(code: str, wanted: str) -> None:
    """The same code for a copy, also where it is changed in place."""
    copied = sparing(code, ("df", "other"))
    assert copied.startswith("df_copy = df.copy()\n")
    assert wanted.replace("df", "df_copy") in copied


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("df = pd.read_csv('x.csv')\ndf.x.mean()", "df.x.mean()"),
        ("data = {'x': [1, 2]}\ndf = pd.DataFrame(data)\ndf.x", "data = {'x': [1, 2]}\n\ndf.x"),
        ("df.x.mean()", "df.x.mean()"),
        ("df = df[df.x > 1]\ndf.x", "df = df[df.x > 1]\ndf.x"),
        ("%time df = 1", "%time df = 1"),
    ],
)
def test_a_table_that_is_loaded(code: str, kept: str) -> None:
    """It is not made up or read again."""
    assert with_loaded(code, ["df"]) == kept


@pytest.mark.parametrize(
    "code",
    [
        "df.x.mean()",
        "top = df.head()\ntop['y'] = 1",
        "def f(df):\n    df = df.head()\n    return df\nf(df)",
        "f = lambda df: df\ndf.x = 1",
        "%time df = 1",
        "df = ",
    ],
)
def test_code_that_changes_no_table(code: str) -> None:
    """It stays as it is."""
    assert sparing(code, ["df"]) == code


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("What is the mean of x by group?", False),
        ("Show the five largest ones, sorted by x.", False),
        ("How many rows have a missing x?", False),
        ("Add a column y.", True),
        ("Rename x to y in df.", True),
        ("Sort df by x, in place.", True),
        ("Read the table again.", True),
        ("Fill what is missing with 0.", True),
        ("The file is already loaded as df. Is x normally distributed?", False),
        ("Test x for normality; an alpha of 0.05 is important.", False),
        ("The rows should be removed.", True),
    ],
)
def test_tasks_that_change_something(task: str, wanted: bool) -> None:
    """A task with a word for a change may change a table; a question may not."""
    assert may_ask_for_change(task) is wanted


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("The table x.csv is loaded as the DataFrame `df`. What is the mean of y?", False),
        ("Create a new column y, and give its mean.", False),
        ("Load x.csv again and give the mean of y.", True),
        ("Reading x.csv, what is the mean of y?", True),
        ("Make a DataFrame with the numbers from 1 to 5.", True),
        ("Show it with random data.", True),
    ],
)
def test_tasks_that_want_other_data(task: str, wanted: bool) -> None:
    """A task that reads a file or makes up data gets them, under whatever name."""
    assert may_ask_for_data(task) is wanted
