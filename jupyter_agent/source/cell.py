"""From the source of a notebook cell to Python and to its syntax tree, as IPython reads it.

The policy, the look for changed files and the promotion read the same code: it is read once for
all of them. Nobody changes a tree that is shared.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.inputtransformer2 import TransformerManager

PLACEHOLDER = "…"
_SPECIAL = re.compile(r"[%!?]|>>>|\.\.\.|In \[|^[ \t]*[,;/]|^[ \t]+$", re.MULTILINE)
_OTHER_LINE_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What `str.splitlines` takes for the end of a line besides a newline."""
_KEPT = 16
_LONGEST_KEPT = 20_000
"""Characters of a code whose tree is kept: that of a longer one takes megabytes."""


@cache
def transformer() -> TransformerManager:
    """IPython's own transformations, without those that a shell's extensions add."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


def is_plain(source: str) -> bool:
    """Whether a cell is Python as it stands: nothing in it could be IPython's own syntax.

    False for any single line: only the kernel knows whether its first word is a magic.
    """
    lines = source.count("\n") - source.endswith("\n")
    if lines == 0 or source[0].isspace() or _OTHER_LINE_ENDS.search(source):
        return False
    return _SPECIAL.search(source) is None


@lru_cache(_KEPT)
def to_python(source: str) -> str:
    """A cell as Python, with magics and shell commands as calls of `get_ipython()`.

    A cell that IPython rejects comes back unchanged.

    Raises:
        RecursionError, MemoryError, ValueError: IPython cannot transform the cell.
    """
    if is_plain(source):
        return source if source.endswith("\n") else f"{source}\n"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return transformer().transform_cell(source)
    except SyntaxError:
        return source


def parse_python(code: str) -> ast.Module | None:
    """The syntax tree of Python code; None where it is no Python. Warnings are not shown.

    The tree is shared with other callers, who rely on it: make a copy of what you change.

    Raises:
        RecursionError, MemoryError: The code is nested too deeply.
    """
    code = code if code.endswith("\n") else f"{code}\n"
    return _kept_tree(code) if len(code) <= _LONGEST_KEPT else _tree(code)


def _tree(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError):
        return None


_kept_tree = lru_cache(_KEPT)(_tree)


def parse_cell(source: str) -> tuple[str, ast.Module] | None:
    """A cell as Python, and its syntax tree; None where it cannot run or is nested too deeply."""
    try:
        code = to_python(source)
        tree = parse_python(code)
    except (ValueError, RecursionError, MemoryError):
        return None
    return None if tree is None else (code, tree)


@dataclass(frozen=True, slots=True)
class MagicCall:
    """A call of a method of `get_ipython()`, which is what a magic or shell command becomes.

    Attributes:
        method: `run_line_magic`, `run_cell_magic`, `system`, `getoutput`, or any other method.
        name: The magic's name; None for other methods, and where it is computed.
        line: The words behind the name, or the shell command. Empty where they are computed.
        body: The text below a cell magic; None for anything else.
    """

    method: str
    name: str | None = None
    line: str = ""
    body: str | None = None


def magic_call(node: ast.AST) -> MagicCall | None:
    """The magic or shell command that a call runs; None for any other node."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=method)
        ):
            texts = [_text(argument) for argument in node.args]
            if not method.endswith("_magic"):
                return MagicCall(method, line=(texts or [""])[0] or "")
            name, line, body, *_ = [*texts, None, None, None]
            return MagicCall(method, name, line or "", body)
    return None


def without_literals(source: str) -> str:
    """A cell as Python in which each string and number is `…`, and no comment is left.

    Of a magic or a shell command only the name stays. A cell that is no Python is replaced as a
    whole: nothing tells its names from its data.
    """
    try:
        tree = _tree(to_python(source))
        if tree is None:
            return PLACEHOLDER
        return ast.unparse(ast.fix_missing_locations(_LiteralRemover().visit(tree)))
    except (ValueError, RecursionError, MemoryError):
        return PLACEHOLDER


class _LiteralRemover(ast.NodeTransformer):
    """Puts a name that looks like `…` in the place of each literal."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        known = node.value is None or isinstance(node.value, (bool, type(...)))
        return node if known else _name(PLACEHOLDER)

    def visit_JoinedStr(self, node: ast.AST) -> ast.expr:
        return _name(PLACEHOLDER)

    visit_TemplateStr = visit_JoinedStr

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match magic_call(node):
            case MagicCall(method="system" | "getoutput"):
                return _name(f"!{PLACEHOLDER}")
            case MagicCall(method="run_line_magic", name=str(name)):
                return _name(f"%{name} {PLACEHOLDER}")
            case MagicCall(method="run_cell_magic", name=str(name)):
                return _name(f"%%{name} {PLACEHOLDER}")
        self.generic_visit(node)
        return node


def _name(text: str) -> ast.expr:
    return ast.Name(text, ast.Load())


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
