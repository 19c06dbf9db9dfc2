"""The code that the agent ran in a turn, and its statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jupyter_agent.source.cell import parse_cell

State = Literal["done", "failed", "interrupted"]
_SAME_AS_CODE = ("%%time", "%%timeit -n1 -r1")


@dataclass(frozen=True, slots=True)
class Executed:
    """One piece of code that ran.

    Args:
        code: The text of the cell, with magics and `!` lines.
        step: The step of the turn; 0 for a cell of the person's.
        state: How it ended.
        words: The model's text before it.
        failed_line: The line at which it failed, counted from 1, where that is known.
        shows: Whether it showed a picture or another rich display.
        shows_value: Whether that was the value of its last expression.
        tools: Functions of the agent's that it called, which are there only while it runs.
        ends_shown: Whether it showed anything, so that its last statement may be what it is for.
        is_added: Whether it is no code of the model's, but stands for what the package did.
        restores: The name of the person's that added code keeps for later, or binds again.
        by: The delegate that ran it; empty for the turn's own agent.
        note: A comment in the place of code that cannot stand here.
    """

    code: str
    step: int = 0
    state: State = "done"
    words: str = ""
    failed_line: int | None = None
    shows: bool = False
    shows_value: bool = False
    tools: frozenset[str] = frozenset()
    ends_shown: bool = False
    is_added: bool = False
    restores: str = ""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that ran, wholly or in part.

    Args:
        source: Its text, with the comment above it.
        tree: Its syntax tree, with magics as the calls that IPython makes of them.
        origin: The place in the turn of the code that it comes from.
        ran: The code that it comes from.
        failed: Whether it failed half way.
        is_shown: Whether it is an expression whose value was shown as a picture.
        bare: Its text without the comment.
    """

    source: str
    tree: ast.stmt
    origin: int
    ran: Executed
    failed: bool = False
    is_shown: bool = False
    bare: str = ""


def statements(executions: Sequence[Executed]) -> list[Statement]:
    """The statements that ran, in order, with a statement for each imported name.

    Code that failed gives the statements up to the failed one, or all of them as one where that one
    is not known. Code that was interrupted gives none, since nobody knows how far it came.
    """
    found: list[Statement] = []
    for origin, ran in enumerate(executions):
        if ran.state != "interrupted":
            found += _of_one(origin, ran)
    return found


def parsed(code: str) -> tuple[str, list[ast.stmt]] | None:
    """Code as Python, and its statements; None where it cannot run."""
    found = parse_cell(_body(code))
    return None if found is None else (found[0], found[1].body)


def _body(code: str) -> str:
    """The code below a magic that runs it unchanged; any other code as it is."""
    first, newline, rest = code.lstrip().partition("\n")
    if newline and first.strip() in _SAME_AS_CODE:
        return rest
    return code


def _of_one(origin: int, ran: Executed) -> list[Statement]:
    found = parsed(ran.code)
    if found is None:
        return []  # it did not begin
    text, trees = found
    if not trees:
        return []
    source_of = _Lines(_body(ran.code), text).source
    if ran.state == "failed":
        return _of_failed(origin, ran, trees, source_of)
    whole = [part for tree in trees for part in _split(Statement("", tree, origin, ran), source_of)]
    if ran.shows_value and isinstance(trees[-1], ast.Expr):
        whole[-1] = replace(whole[-1], is_shown=True)
    return whole


def _of_failed(
    origin: int,
    ran: Executed,
    trees: list[ast.stmt],
    source_of: Callable[[ast.stmt], tuple[str, str]],
) -> list[Statement]:
    line = ran.failed_line
    at = next(
        (i for i, t in enumerate(trees) if line and _first_line(t) <= line <= (t.end_lineno or 0)),
        None,
    )
    if at is None:
        attempt = _attempt(trees)
        return [Statement(ast.unparse(attempt), attempt, origin, ran, failed=True)]
    before = [
        part for tree in trees[:at] for part in _split(Statement("", tree, origin, ran), source_of)
    ]
    attempt = _attempt([trees[at]])
    return [*before, Statement(ast.unparse(attempt), attempt, origin, ran, failed=True)]


def _attempt(trees: list[ast.stmt]) -> ast.Try:
    """The statements in a `try` that ignores their failure."""
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
    return ast.fix_missing_locations(ast.Try(trees, [handler], [], []))


def _split(
    statement: Statement, source_of: Callable[[ast.stmt], tuple[str, str]]
) -> Iterator[Statement]:
    tree = statement.tree
    if not isinstance(tree, (ast.Import, ast.ImportFrom)):
        comment, bare = source_of(tree)
        yield replace(statement, source=f"{comment}{bare}", bare=bare)
        return
    for alias in tree.names:
        one: ast.stmt
        if isinstance(tree, ast.Import):
            one = ast.copy_location(ast.Import([alias]), tree)
        else:
            one = ast.copy_location(ast.ImportFrom(tree.module, [alias], tree.level), tree)
        yield replace(statement, source=ast.unparse(one), tree=one, bare=ast.unparse(one))


def _first_line(tree: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(tree, "decorator_list", [])
    return min([tree.lineno, *(decorator.lineno for decorator in decorators)])


class _Lines:
    """Finds the text of a statement, as it was written where IPython kept the lines in place."""

    def __init__(self, code: str, text: str) -> None:
        self._lines = text.split("\n")
        raw = code.strip("\n").split("\n")
        length = len(self._lines) - (self._lines[-1:] == [""])
        self._raw = raw if len(raw) == length else self._lines
        self._used = 0

    def source(self, tree: ast.stmt) -> tuple[str, str]:
        """The comment lines right above a statement, and its text."""
        first, last = _first_line(tree) - 1, (tree.end_lineno or tree.lineno) - 1
        comment = self._comment(first)
        self._used = last + 1
        own = self._lines[first : last + 1]
        raw = self._raw[first : last + 1]
        if raw != own:
            return comment, "\n".join(raw).strip()
        start, end = tree.col_offset, tree.end_col_offset or 0
        if _first_line(tree) < tree.lineno:
            start = 0  # a decorator
        tail = own[-1].encode()[end:].decode()
        kept = tail if tail.lstrip(" \t;").startswith("#") else ""
        if len(own) == 1:
            return comment, own[0].encode()[start:end].decode() + kept
        head = own[0].encode()[start:].decode()
        return comment, "\n".join([head, *own[1:-1], own[-1].encode()[:end].decode() + kept])

    def _comment(self, first: int) -> str:
        start = first
        while start > self._used and self._raw[start - 1 : start] and self._is_comment(start - 1):
            start -= 1
        return "".join(f"{line.strip()}\n" for line in self._raw[start:first])

    def _is_comment(self, at: int) -> bool:
        return self._raw[at].startswith("#")
