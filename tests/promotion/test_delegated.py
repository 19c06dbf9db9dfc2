"""The code of delegates, put into the person's names; or into a comment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_agent.promotion import Executed, cell
from jupyter_agent.promotion.delegated import DelegateCode, for_the_person


def made(*parts: DelegateCode, **names: Any) -> dict[str, Any]:
    """The names after the cell of some delegates ran where these names are."""
    wanted = [name for part in parts for name in part.kept]
    exec(cell(for_the_person(parts, set()), wanted, set()), names)
    del names["__builtins__"]
    return names


def part(number: int, *codes: str, **facts: Any) -> DelegateCode:
    runs = tuple(Executed(code, 1, by=f"Delegate {number}") for code in codes)
    return DelegateCode(f"Delegate {number}", "do it", runs, **facts)


def test_each_works_on_what_was_there_before() -> None:
    """Delegates side by side read what the person had, not what another one hands over."""
    first = part(1, "x = x + 1", "x *= 2", kept=("x",), shadows=("x",))
    second = part(2, "rows.append(x)\nn = len(rows)", kept=("n",), mutated=("rows",))
    third = part(3, "y = [x]\ny.append(n)", kept=("y",))
    rows = [0]
    names = made(first, second, third, x=1, n=7, rows=rows)
    assert (names["x"], names["n"], names["y"], rows) == (4, 2, [1, 7], [0])


def test_functions_of_one_name() -> None:
    """Each delegate calls its own function; where the person has one of that name, too, which
    must stay, the code is only told."""
    codes = "def clean(x): return x\na = clean(1)", "def clean(x): return -x\nb = clean(1)"
    first, second = part(1, codes[0], kept=("a",)), part(2, codes[1], kept=("b",))
    names = made(first, second)
    assert (names["a"], names["b"]) == (1, -1)
    theirs = [replace(each, shadows=("clean",)) for each in (first, second)]
    assert made(*theirs, clean=abs) == {"clean": abs}
    text = cell(for_the_person(theirs, set()), ["a", "b"], set())
    assert "# `b`: made by Delegate 2 (do it) in names of its own" in text


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\f", "\x0b", "\u2028", "\x85"])
def test_a_comment_is_a_comment(end: str) -> None:
    """Whatever ends a line, code that is only told does not run."""
    assert made(part(1, f"a = 1{end}big = 2", kept=("big",), is_elsewhere=True)) == {}
