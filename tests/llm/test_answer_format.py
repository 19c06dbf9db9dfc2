"""Answers in the format that a task asks for."""

from __future__ import annotations

import pytest

from jupyter_agent.llm.answer_format import (
    as_fitting_answer,
    fits,
    has_places,
    in_its_place,
    printing_places,
    shows_places,
)

TASK = "Answer in this format: @mean_a[mean], @kind[name of the kind]"


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("@mean_a[m]", 'print(f"@mean_a[{m}]")'),
        ("@mean_a[{m}], where m is rounded", 'print(f"@mean_a[{m}]")'),
        ("@mean_a[x], @kind[y] = 1, 2", 'x, y = 1, 2\nprint(f"@mean_a[{x}], @kind[{y}]")'),
        ("@mean_a = 1 + 1", 'mean_a = 1 + 1\nprint(f"@mean_a[{mean_a}]")'),
        ("@mean_a[not python!]", "@mean_a[not python!]"),
        ("@cache\ndef f(): pass", "@cache\ndef f(): pass"),
        ("x = (", "x = ("),
    ],
)
def test_a_format_as_code(line: str, runs: str) -> None:
    """A line of the format in place of code prints it; what cannot be mended stays."""
    assert printing_places(f"m = 1\n{line}", TASK) == f"m = 1\n{runs}"
    assert printing_places(line, "The mean of x?") == line


@pytest.mark.parametrize(
    ("output", "fitting"),
    [
        ("@mean_a[3.5], @kind[normal]", True),
        ("@mean_a[np.float64(3.5)]\n@kind[normal]", True),
        ("@mean_a[3.5]", False),
        ("@mean_a[mean], @kind[normal]", False),
        ("@mean_a[{mean}], @kind[normal]", False),
        ("@mean_a[], @kind[normal]", False),
        ("@mean_a[[]], @kind[normal]", True),
        ("3.5", False),
        ("name: the answer is @mean_a[9], @kind[normal]\nn: 3", False),
    ],
)
def test_outputs_that_fit(output: str, fitting: bool) -> None:
    """An output fits if each place of the format holds a value, not the words for it."""
    assert fits(TASK, output) is fitting


def test_a_fitting_answer() -> None:
    """Of an output with more in it the answer is the lines with the values."""
    output = "loading\n@mean_a[np.float64(3.5)]\n@kind[normal]\n\nbye"
    assert as_fitting_answer(TASK, output) == "@mean_a[3.5]\n@kind[normal]"
    assert as_fitting_answer(TASK, "'@mean_a[1]'") == "@mean_a[1]"
    assert as_fitting_answer(TASK, "@names[['a', 'b']], @n[2]") == "@names[a, b], @n[2]"
    assert as_fitting_answer(TASK, "@rows[ [] ]") == "@rows[]"


@pytest.mark.parametrize(
    ("printed", "runs"),
    [
        ('print("@mean_a[mean]")', "print(f'@mean_a[{mean}]')"),
        ('print(f"@kind[x]", "{")', "print(f'@kind[{kind}]', '{')"),
        ('print("@mean_a[mean], {@kind[k]}")', "print(f'@mean_a[{mean}], {{@kind[{kind}]}}')"),
        ('print("@mean_a[2.5], @other[words]")', None),
        ('print(f"@mean_a[{mean}]")', None),
        ('x = "@mean_a[mean]"', None),
    ],
)
def test_a_format_without_values(printed: str, runs: str | None) -> None:
    """A print of the format's own words prints the values that the code has for them."""
    code = f"mean = 1  # the mean\nkind = 'a'\n{printed}"
    mended = printing_places(code, TASK)
    assert mended == (code if runs is None else code.replace(printed, runs))


def test_words_in_place_of_values() -> None:
    """An output of the format's own words has no value; one value is enough."""
    assert shows_places(TASK, "@mean_a[mean], @kind[name of the kind]")
    assert not shows_places(TASK, "@mean_a[1], @kind[name of the kind]")
    assert not shows_places(TASK, "mean")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("@a[x] rounded to two decimal places", "@a[3.14]"),
        ("@a[x], to the nearest tenth", "@a[3.1]"),
        ("@a[x] with 6 decimals", "@a[3.14159]"),
        ("@a[x]", "@a[3.14159]"),
        ("@a[x] with 2 decimals, @b[y]", "@a[3.14159]"),
        ("@a[x], @b[y], each rounded to 2 decimal places", "@a[3.14]"),
        ("@a[x] with 2 decimals, @b[y] with 3 decimals", "@a[3.14159]"),
    ],
)
def test_rounding(words: str, answer: str) -> None:
    """Values are rounded as the task says, if it says the same of all places."""
    assert has_places(words)
    assert as_fitting_answer(words, "@a[3.14159]") == answer
    assert as_fitting_answer(words, "@a[Bonn 3.14159]") == "@a[Bonn 3.14159]"


def test_places() -> None:
    """Places for values are told from what is marked as an object."""
    assert has_places("Give @mean[value] and @count[value].")
    assert not has_places('The mean of @df["weight"] and of @df[0].')


@pytest.mark.parametrize(
    ("task", "output", "placed"),
    [
        ("@mean[m]", "np.float64(3.5)", "@mean[3.5]"),
        ("@is_normal[true or false]", "True", "@is_normal[True]"),
        ("@mean[m]", "The mean is 3.5", "The mean is 3.5"),
        ("@mean[m], @sum[s]", "3.5", "3.5"),
        ("@mean[m]", "@mean[3.5]", "@mean[3.5]"),
    ],
)
def test_a_lonely_value(task: str, output: str, placed: str) -> None:
    """The only value goes to the only place."""
    assert in_its_place(task, output) == placed
