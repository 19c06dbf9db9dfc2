"""What a small model's code shows in the end, and which outputs are an answer."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.llm.value_blocks import (
    as_answer,
    asks_for_function,
    same_code,
    showing_value,
    uses_any,
    wants_words,
)

SHOWN: dict[str, tuple[str, str]] = {
    # name: the code, and what runs
    "a print": ("x = 1\nprint(x + 1)", "x = 1\nx + 1"),
    "a label": ('print("Mean:", df.x.mean())', "df.x.mean()"),
    "in a text": ('print(f"The mean is {mean}")', "mean"),
    "on many lines": ("print(\n    df\n    .head()\n)", "df.head()"),
    "a comment after it": ("print(x)  # the value", "x"),
    "letters of many bytes": ('größe = "é"\nprint("ä", größe)', 'größe = "é"\ngröße'),
    "a name": ("top = df.head()", "top = df.head()\ntop"),
    "a name with a type": ("n: int = 3", "n: int = 3\nn"),
    "a sum": ("n += 3\n", "n += 3\nn"),
}
KEPT = {
    "two values": "print(a, b)",
    "two values in a text": 'print(f"{a} and {b}")',
    "a rounded value": 'print(f"{a:.2f}")',
    "words": 'print("Hello")',
    "all of a list": "print(*items)",
    "to a file": "print(x, file=f)",
    "an own print": "say.print(x)",
    "an expression": "df.head()",
    "a column": 'df["a"] = 1',
    "several names": "a, b = 1, 2",
    "a function": "def f():\n    print(x)",
    "a loop": "for x in y:\n    print(x)",
    "a function in a name": "f = lambda x: x",
    "a plot": "ax = df.plot()",
    "with another statement": "x = 1; print(x)",
    "a magic": "%time print(x)",
    "what is no Python": "print(x",
    "nothing": "",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_value_is_shown(name: str) -> None:
    """A printed or only named value becomes the last expression."""
    code, wanted = SHOWN[name]
    assert showing_value(code) == wanted


@pytest.mark.parametrize("name", KEPT)
def test_other_code_is_kept(name: str) -> None:
    """Code whose last line does something else is left as it is."""
    assert showing_value(KEPT[name]) == KEPT[name]


def test_a_format_is_printed() -> None:
    """For a task with a format the prints stay; a value that is only named is shown."""
    assert showing_value('print(f"@mean[{x}]")', keep_prints=True) == 'print(f"@mean[{x}]")'
    assert showing_value("mean = 2", keep_prints=True) == "mean = 2\nmean"


@given(st.lists(st.sampled_from(["print(", ")", "x", "f'{x}'", "'a', ", " = ", "\n", "  ", "é"])))
def test_any_code(pieces: list[str]) -> None:
    """Code that was Python stays Python, and no line before the last statement changes."""
    code = "".join(pieces)
    shown = showing_value(code)
    try:
        body = ast.parse(code).body
    except SyntaxError:
        assert shown == code
        return
    changed = ast.parse(shown).body
    kept = max(0, len(body) - 1)
    assert [ast.dump(each) for each in changed[:kept]] == [ast.dump(each) for each in body[:kept]]


def test_the_same_code() -> None:
    """Comments and blanks make no other code; another column does."""
    assert same_code("df['a'] # one\n", 'df["a"]')
    assert not same_code("df['a']", "df['b']")
    assert same_code("%time  x", "%time x") and not same_code("%time x", "%time y")


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("What is the mean of x?", False),
        ("Convert the dates to the format YYYY-MM-DD.", False),
        ("Return the table. The result format is in the following example.", False),
        ("Describe the columns of df.", False),
        ("The mean. Answer in this format: @mean[value]", True),
        ("Explain why the mean is so high.", True),
        ("Which city is it? Answer in one sentence.", True),
    ],
)
def test_tasks_that_want_words(task: str, wanted: bool) -> None:
    """Words and formats of an answer are told from formats of data."""
    assert wants_words(task) is wanted


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("Write a function `def half(x: int) -> int`.", True),
        ("Create a small function that halves.", True),
        ("Use the function half on df.", False),
        ("What is the mean of df?", False),
    ],
)
def test_tasks_that_want_a_function(task: str, wanted: bool) -> None:
    """A function that is to be written is told from one that is to be used."""
    assert asks_for_function(task) is wanted


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("3.5", "3.5"),
        ("np.float64(3.5)", "3.5"),
        ("'Bonn'", "Bonn"),
        ("[stderr] FutureWarning: old\n  df.old()\n", "Done. The code ran"),
        ("(no output)", "Done. The code ran"),
        ("[stderr] a.py:1: FutureWarning: old\n  df.old()\n   a\n0  1", "```text\n   a\n0  1\n```"),
        ("[stderr] loading\n7", "7"),
        ("7\n(hint: `df` is the person's again.)", "7"),
        ("np.True_", "True"),
        ("a  1\nb  2", "```text\na  1\nb  2\n```"),
    ],
)
def test_answers(output: str, answer: str) -> None:
    """A value becomes the answer without the signs of its repr, a table a block."""
    assert as_answer(output).startswith(answer)


def test_answers_that_are_made_up() -> None:
    """Code that reads neither the data nor a file has computed nothing of them."""
    for code in ("print('@mean[2.5]')", "x = [1, 2]\nprint(f'@mean[{sum(x)}]')"):
        assert not uses_any(code, ["df"])
    for code in ("df.x.mean()", "pd.read_csv('x.csv').x", "%time 1", "[df for each in x]"):
        assert uses_any(code, ["df"])
