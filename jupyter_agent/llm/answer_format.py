"""The format that a task asks its answer in: `@name[value]` for each value.

Small models forget it, write it as code, print it with the words of the task in place of values,
or leave the rounding out. Pure functions on texts, for `brief_protocol`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from jupyter_agent.llm.value_blocks import (
    code_tree,
    literal,
    names_in,
    shown_value,
    unquoted,
)

_PLACE = re.compile(r"@(\w+)\[([^\W\d][^\[\]\n]*)\]")
"""A place for a value in a task's format: `@name[value]`. A quoted `@df["a"]` is none."""
_FIELD = re.compile(r"@(\w+)\[([^\[\]\n]*)\]")
"""A value in its place, in an output."""
_TARGET = re.compile(r"@(\w+)")
_LIST_FIELD = re.compile(r"@(\w+)\[\s*(\[[^\[\]\n]*\])\s*\]")
"""A list in its place. The brackets are the format's, and its own are too many."""
_DECIMALS = re.compile(r"(?i)\b(\w+)[- ]decimals?(?:[- ](?:places?|points?|digits?))?\b")
_NEAREST = re.compile(r"(?i)\bnearest (tenth|hundredth|thousandth)s?\b")
_FOR_ALL = re.compile(r"(?i)\b(?:all|both|each|every)\b[^.\n]*\bdecimal")
_NAMED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = {
    **{word: number for number, word in enumerate(_NAMED)},
    **{str(number): number for number in range(len(_NAMED))},
    "tenth": 1,
    "hundredth": 2,
    "thousandth": 3,
}
"""The words for a number of decimals."""
_LONG_FLOAT = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
_PLAIN = re.compile(r"-?\d[\d.]*(?:e[-+]?\d+)?|True|False")
_WORDS = 3
"""Words of a place that make a name in code."""
_NO_WORD = re.compile(r"[^a-z0-9]+")


def has_places(task: str) -> bool:
    """True if a task gives a format with places for values: `@name[value]`."""
    return _PLACE.search(task) is not None


def printing_places(code: str, task: str) -> str:
    """The code with the answer's format printed, where the model wrote it as something else.

    `@mean[m]` as a line of code becomes `print(f"@mean[{m}]")`; `@mean[m], @sum[s] = …` an
    assignment to `m, s`, and `@mean = …` one to `mean`, with the print of all at the end; and
    `print("@mean[m]")`, which prints no value, prints that of `m`, or of `mean`.
    """
    if not has_places(task):
        return code
    tree = code_tree(code)
    if tree is not None:
        return _with_values(code, tree)
    lines: list[str] = []
    assigned: dict[str, str] = {}
    for line in code.split("\n"):
        target, equals, value = line.partition(" = ")
        fields = _FIELD.findall(target if equals else line)
        if not line.startswith("@"):
            lines.append(line)
        elif equals:
            named = {name: _identifier(place, name) for name, place in fields}
            named = named or {name: name for name in _TARGET.findall(target)}
            assigned |= named
            lines.append(f"{', '.join(named.values())} = {value}")
        elif fields:
            lines.append(_print_of({name: value.strip("{}") for name, value in fields}))
        else:
            lines.append(line)
    if assigned:
        lines.append(_print_of(assigned))
    mended = "\n".join(lines)
    return code if code_tree(mended) is None else mended


def _identifier(place: str, name: str) -> str:
    """The words of a place as a name in code; the name of the place where they are many."""
    words = _NO_WORD.sub("_", place.lower()).strip("_")
    return words if words.isidentifier() and words.count("_") < _WORDS else name


def _print_of(values: Mapping[str, str]) -> str:
    parts = (f"@{name}[{{{value}}}]" for name, value in values.items())
    return 'print(f"' + ", ".join(parts) + '")'


class _Filled(ast.NodeTransformer):
    """Puts values for the words in the places of constant texts.

    Args:
        names: The names that may stand for a value.
    """

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        text, end = node.value, 0
        parts: list[ast.expr] = []
        if not isinstance(text, str):
            return node
        for field in _FIELD.finditer(text):
            name, place = field.groups()
            known = [each for each in (_identifier(place, name), name) if each in self._names]
            if known:
                value = ast.FormattedValue(ast.Name(known[0]), conversion=-1)
                parts += [ast.Constant(text[end : field.start(2)]), value]
                end = field.end(2)
        return ast.JoinedStr([*parts, ast.Constant(text[end:])]) if parts else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        match node.values:
            case [ast.Constant() as text]:
                filled = self.visit_Constant(text)
                return node if filled is text else filled
        return node


def _with_values(code: str, tree: ast.Module) -> str:
    """The code with `print("@mean[m]")` as `print(f"@mean[{m}]")`, if it binds `m` or `mean`."""
    bound = names_in(tree, ast.Store)
    lines = code.split("\n")
    for statement in reversed(tree.body):
        before = ast.unparse(statement)
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        is_alone = sum(n.lineno <= last and first <= (n.end_lineno or 0) for n in tree.body) == 1
        if before.startswith("print(") and is_alone:
            after = ast.unparse(_Filled(bound).visit(statement))
            lines[first - 1 : last] = [after] if after != before else lines[first - 1 : last]
    return "\n".join(lines)


def fits(task: str, output: str) -> bool:
    """True if an output is the answer in the format of the task, `@name[value]` for each name."""
    wanted = dict(_PLACE.findall(task))
    given = dict(found for each in _answer_lines(output) for found in _FIELD.findall(each))
    lists = {name for name, _ in _LIST_FIELD.findall(output)}
    return bool(wanted) and all(
        given.get(name, "").strip() not in ("", place) and "{" not in given[name]
        for name, place in wanted.items()
        if name not in lists  # its value is a list: an empty one is a value, too
    )


def shows_places(task: str, output: str) -> bool:
    """True if an output has the words of the task's format in place of all values."""
    wanted = dict(_PLACE.findall(task))
    given = [found for line in _answer_lines(output) for found in _FIELD.findall(line)]
    return bool(given) and all(wanted.get(name) == place.strip() for name, place in given)


def in_its_place(task: str, output: str) -> str:
    """An output as the value in the only place of a task's format, if it is a number or a truth.

    Other outputs are returned unchanged.
    """
    names, value = {name for name, _ in _PLACE.findall(task)}, unquoted(shown_value(output)).strip()
    if len(names) != 1 or not _PLAIN.fullmatch(value):
        return output
    return f"@{names.pop()}[{value}]"


def as_fitting_answer(task: str, output: str) -> str:
    """The lines of an output that give values in their places, rounded as the task says.

    Numbers are rounded if the task gives one number of decimals, and no other.
    """
    digits = _decimals(task)

    def rounded(field: re.Match[str]) -> str:
        value = field[2].strip()
        if digits is None or not _LONG_FLOAT.fullmatch(value):
            return field[0]
        is_longer = "e" in value or len(value.partition(".")[2]) > digits
        return f"@{field[1]}[{float(value):.{digits}f}]" if is_longer else field[0]

    return "\n".join(_FIELD.sub(rounded, line.strip()) for line in _answer_lines(output))


def _decimals(task: str) -> int | None:
    """The decimals that a task asks for in all its places; None if they differ or are not told."""
    words = [*map(str.lower, _DECIMALS.findall(task)), *map(str.lower, _NEAREST.findall(task))]
    told = [_DIGITS[word] for word in words if word in _DIGITS]
    is_for_all = len(told) >= len(_PLACE.findall(task)) or _FOR_ALL.search(task) is not None
    return told[0] if is_for_all and len(set(told)) == 1 else None


def _answer_lines(output: str) -> list[str]:
    """The lines that begin with a place: elsewhere `@name[value]` may be a cell of the data."""
    lines = _LIST_FIELD.sub(_unwrapped, unquoted(shown_value(output))).split("\n")
    return [line for line in lines if _FIELD.match(line.lstrip(" *-'\""))]


def _unwrapped(field: re.Match[str]) -> str:
    """`@names[['a', 'b']]` as `@names[a, b]`."""
    values = literal(field[2])
    if not isinstance(values, list):
        return field[0]
    return f"@{field[1]}[{', '.join(map(str, values))}]"
