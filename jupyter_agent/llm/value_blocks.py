"""The value that a block of code shows, and the answer that its output makes.

Small models print where a value was asked for, or leave it in a name; and they forget the format
that the task asks for. Pure functions on texts, for `brief_protocol`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from jupyter_agent.core.markdown import code_fence
from jupyter_agent.core.plaintext import shorten
from jupyter_agent.core.quoting import HINTED
from jupyter_agent.llm.wire import NO_OUTPUT

_LONGEST_ANSWER = 2_000
"""Characters of an output that become an answer; the transcript has the whole."""
_PLACE = re.compile(r"@(\w+)\[([^\W\d][^\[\]\n]*)\]")
"""A place for a value in a task's format: `@name[value]`. A quoted `@df["a"]` is none."""
_FIELD = re.compile(r"@(\w+)\[([^\[\]\n]*)\]")
"""A value in its place, in an output."""
_WORDS_WANTED = re.compile(
    r"(?i)\b(?:answer|reply|respond)\b[^.\n]{0,40}\b(?:format|form|words|sentences?|markdown|json)\b"
    r"|\bin (?:your own |a few |plain )?words\b|\bin (?:one|two|three|a) (?:short )?sentences?\b"
    r"|\b(?:explain|interpret|discuss)\b|\bwhy\b"
)
_FUNCTION_WANTED = re.compile(
    r"\bdef \w+\(|(?i:\b(?:write|define|create|implement|make) (?:me )?an?(?: \w+){0,2} function\b)"
)
_WARNING = re.compile(
    r"(?m)^\[stderr\] (?:.*Warning.*(?:\n.*){0,7}?\n  \S.*(?:\n\(the same \d+ times\))?|.*)\n?"
)
"""A warning, up to the line of code that it quotes; or one line of another kind."""
_NOTICE = re.compile(r" ?\[shown to the person[^\]\n]*\]")
_SCALAR = re.compile(r"\bnp\.(?:float|int|uint|str|bool)\w*\(([^()\n]*)\)")
_TRUTH = re.compile(r"\bnp\.(True|False)_")
"""How numpy writes its own numbers and truths."""
_WORDS = 3
"""Words of a place that make a name in code."""
_NO_WORD = re.compile(r"[^a-z0-9]+")
_NO_VALUE = re.compile(r"\bplt\.|\.(?:plot|hist|boxplot|savefig)\b")
"""Code that draws: the value of its last line is an object that says nothing."""


def showing_value(code: str, keep_prints: bool = False) -> str:
    """The code with its value as the last expression, where it prints it or only names it.

    `print(x)`, `print("Mean:", x)` and `print(f"Mean: {x}")` at the end become `x`; after
    `x = …` at the end comes the line `x`. Other code, and code that is not plain Python, is
    returned unchanged.

    Args:
        code: The code.
        keep_prints: True leaves what is printed, for a task that asks for a printed format.
    """
    tree = code_tree(code)
    body = tree.body if tree is not None else []
    if not body or _NO_VALUE.search(code):
        return code
    last = body[-1]
    if (name := _bound_name(last)) and not isinstance(getattr(last, "value", None), ast.Lambda):
        return f"{code.rstrip()}\n{name}"
    value = None if keep_prints else _printed(last)
    shares_its_line = any(each.end_lineno == last.lineno for each in body[:-1])
    if value is None or shares_its_line:
        return code
    # Not the source's own text: before Python 3.12 a value inside an f-string has no right place.
    return "\n".join([*code.split("\n")[: last.lineno - 1], ast.unparse(value)])


def same_code(one: str, other: str) -> bool:
    """True if two pieces of code do the same but for comments and blanks."""
    trees = code_tree(one), code_tree(other)
    if None in trees:
        return one.split() == other.split()
    first, second = (ast.dump(tree) for tree in trees if tree is not None)
    return first == second


def wants_words(task: str) -> bool:
    """True if a task asks for words or for a format, where a value alone does not do."""
    return has_places(task) or _WORDS_WANTED.search(task) is not None


def has_places(task: str) -> bool:
    """True if a task gives a format with places for values: `@name[value]`."""
    return _PLACE.search(task) is not None


def asks_for_function(task: str) -> bool:
    """True if a task asks for a function to be written."""
    return _FUNCTION_WANTED.search(task) is not None


def print_line(task: str) -> str:
    """The line of code that prints the places of a task's format, each with a name in it."""
    places = dict(_PLACE.findall(task))
    return _print_of({name: _identifier(place, name) for name, place in places.items()})


def printing_places(code: str, task: str) -> str:
    """The code with its lines of the answer's format as Python, if it is no Python otherwise.

    Models write the format itself as a line of code: `@mean[m]` becomes `print(f"@mean[{m}]")`,
    and `@mean[m], @sum[s] = …` an assignment to `m, s` with that print at the end.
    """
    if code_tree(code) is not None or not has_places(task):
        return code
    lines, is_assigned = [], False
    for line in code.split("\n"):
        head, equals, value = line.partition("] = ")
        fields = _FIELD.findall(head + "]" if equals else line)
        if not line.startswith("@") or not fields:
            lines.append(line)
        elif equals:
            is_assigned = True
            lines.append(
                f"{', '.join(_identifier(place, name) for name, place in fields)} = {value}"
            )
        else:
            lines.append(_print_of({name: value.strip("{}") for name, value in fields}))
    if is_assigned:
        lines.append(print_line(task))
    mended = "\n".join(lines)
    return code if code_tree(mended) is None else mended


def _identifier(place: str, name: str) -> str:
    """The words of a place as a name in code; the name of the place where they are many."""
    words = _NO_WORD.sub("_", place.lower()).strip("_")
    return words if words.isidentifier() and words.count("_") < _WORDS else name


def _print_of(values: Mapping[str, str]) -> str:
    parts = (f"@{name}[{{{value}}}]" for name, value in values.items())
    return 'print(f"' + ", ".join(parts) + '")'


def fits(task: str, output: str) -> bool:
    """True if an output is the answer in the format of the task, `@name[value]` for each name."""
    wanted = dict(_PLACE.findall(task))
    given = dict(found for each in _answer_lines(output) for found in _FIELD.findall(each))
    return bool(wanted) and all(
        given.get(name, "").strip() not in ("", place) and "{" not in given[name]
        for name, place in wanted.items()
    )


def shown_value(output: str) -> str:
    """What the code showed, without warnings, notices, hints; empty if it showed nothing."""
    text = HINTED.sub("", _NOTICE.sub("", _WARNING.sub("", output))).strip("\n")
    return "" if text.strip() == NO_OUTPUT else plain_numbers(text)


def plain_numbers(text: str) -> str:
    """The text with `np.float64(1.5)` as `1.5`, and `np.True_` as `True`."""
    return _TRUTH.sub(r"\1", _SCALAR.sub(r"\1", text))


def as_answer(output: str) -> str:
    """The answer that an output makes, as Markdown."""
    value = _unquoted(shown_value(output))
    if not value.strip():
        return "Done. The code ran without an error and showed no value."
    if "\n" not in value:
        return value.strip()
    value = shorten(value, _LONGEST_ANSWER)
    ticks = code_fence(value)
    return f"{ticks}text\n{value}\n{ticks}"


def as_fitting_answer(output: str) -> str:
    """The lines of an output that give values in their places."""
    return "\n".join(line.strip() for line in _answer_lines(output))


def _answer_lines(output: str) -> list[str]:
    """The lines that begin with a place: elsewhere `@name[value]` may be a cell of the data."""
    lines = _unquoted(shown_value(output)).split("\n")
    return [line for line in lines if _FIELD.match(line.lstrip(" *-'\""))]


def _unquoted(value: str) -> str:
    """A text without the quotes of its repr."""
    if value[:1] in "'\"" and value[-1:] == value[:1]:
        try:
            read = ast.literal_eval(value)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return value
        return read if isinstance(read, str) else value
    return value


def code_tree(code: str) -> ast.Module | None:
    """The tree of a code; None if it is no plain Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound_name(statement: ast.stmt) -> str:
    """The only name that a statement binds to a value; empty if there is none."""
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
        target = statement.target
    return target.id if isinstance(target, ast.Name) else ""


def _printed(statement: ast.stmt) -> ast.expr | None:
    """The only value that a statement prints, beside constant texts; None if there is none."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        return None
    if call.func.id != "print" or call.keywords:
        return None
    values = [each for given in call.args for each in _values_of(given)]
    if len(values) != 1 or isinstance(values[0], (ast.Starred, ast.JoinedStr)):
        return None
    return values[0]


def _values_of(printed: ast.expr) -> list[ast.expr]:
    """The values in what is printed; a formatted number counts as a text of its own."""
    if isinstance(printed, ast.Constant) and isinstance(printed.value, str):
        return []
    if not isinstance(printed, ast.JoinedStr):
        return [printed]
    parts = [each for each in printed.values if isinstance(each, ast.FormattedValue)]
    plain = all(each.format_spec is None and each.conversion == -1 for each in parts)
    return [each.value for each in parts] if plain else [printed]
