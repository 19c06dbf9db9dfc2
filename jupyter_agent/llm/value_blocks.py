"""The value that a block of code shows, and the answer that its output makes.

Small models print where a value was asked for, or leave it in a name; and they forget the format
that the task asks for. Pure functions on texts, for `brief_protocol`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection

from jupyter_agent.core.error_hints import HINTED
from jupyter_agent.core.markdown import code_fence
from jupyter_agent.core.plaintext import shorten
from jupyter_agent.llm.wire import NO_OUTPUT

_LONGEST_ANSWER = 2_000
"""Characters of an output that become an answer; the transcript has the whole."""
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
_READS = re.compile(r"\b(?:read|load)\w*\(|\bopen\(|\bglobals\(|\beval\(")
"""Code that takes its data from elsewhere."""
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


def uses_any(code: str, names: Collection[str]) -> bool:
    """True if code reads one of some names, or a file; also if it is no plain Python.

    An answer that a model makes up is code, too: `print("@mean[2.5]")`.
    """
    tree = code_tree(code)
    if tree is None:
        return True
    return not names_in(tree, ast.Load).isdisjoint(names) or _READS.search(code) is not None


def wants_words(task: str) -> bool:
    """True if a task asks for words, where a value alone does not do."""
    return _WORDS_WANTED.search(task) is not None


def asks_for_function(task: str) -> bool:
    """True if a task asks for a function to be written."""
    return _FUNCTION_WANTED.search(task) is not None


def shown_value(output: str) -> str:
    """What the code showed, without warnings, notices, hints; empty if it showed nothing."""
    text = HINTED.sub("", _NOTICE.sub("", _WARNING.sub("", output))).strip("\n")
    return "" if text.strip() == NO_OUTPUT else plain_numbers(text)


def plain_numbers(text: str) -> str:
    """The text with `np.float64(1.5)` as `1.5`, and `np.True_` as `True`."""
    return _TRUTH.sub(r"\1", _SCALAR.sub(r"\1", text))


def as_answer(output: str) -> str:
    """The answer that an output makes, as Markdown."""
    value = unquoted(shown_value(output))
    if not value.strip():
        return "Done. The code ran without an error and showed no value."
    if "\n" not in value:
        return value.strip()
    value = shorten(value, _LONGEST_ANSWER)
    ticks = code_fence(value)
    return f"{ticks}text\n{value}\n{ticks}"


def unquoted(value: str) -> str:
    """A text without the quotes of its repr."""
    if value[:1] in "'\"" and value[-1:] == value[:1]:
        read = literal(value)
        return read if isinstance(read, str) else value
    return value


def literal(text: str) -> object:
    """The value that a text stands for as a literal of Python; None if it is none."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def names_in(node: ast.AST, how: type[ast.expr_context]) -> set[str]:
    """The names that code reads (`how` is `ast.Load`), binds (`ast.Store`) or deletes."""
    found = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in found if isinstance(each.ctx, how)}


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
