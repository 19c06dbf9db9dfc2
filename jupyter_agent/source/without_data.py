"""The source of a cell without the data in it."""

from __future__ import annotations

import ast
import warnings

from IPython.core.inputtransformer2 import TransformerManager

PLACEHOLDER = "…"
_MAGICS = {"run_line_magic": "%", "run_cell_magic": "%%"}
_SHELL = {"system": "!", "getoutput": "!"}


def without_literals(source: str) -> str:
    """Python source in which each string and number is `…`, and no comment is left.

    Of a magic or a shell command only the name stays. Source that Python cannot read is replaced
    as a whole: nothing tells its words from its data.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the person has seen them when the cell ran
            tree = ast.parse(TransformerManager().transform_cell(source))
        return ast.unparse(ast.fix_missing_locations(_Bare().visit(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PLACEHOLDER


class _Bare(ast.NodeTransformer):
    """Puts a name that looks like `…` in the place of each literal."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        known = node.value is None or isinstance(node.value, (bool, type(...)))
        return node if known else _words(PLACEHOLDER)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return _words(PLACEHOLDER)

    def visit_TemplateStr(self, node: ast.AST) -> ast.expr:
        return _words(PLACEHOLDER)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _of_the_shell(node)
        if name in _SHELL:
            return _words(f"{_SHELL[name]}{PLACEHOLDER}")
        match node.args:
            case [ast.Constant(value=str(magic)), *_] if name in _MAGICS:
                return _words(f"{_MAGICS[name]}{magic} {PLACEHOLDER}")
        self.generic_visit(node)
        return node


def _words(text: str) -> ast.expr:
    return ast.Name(text, ast.Load())


def _of_the_shell(node: ast.Call) -> str:
    """The method's name in `get_ipython().method(…)`, which is what a magic becomes."""
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=name):
            return name
    return ""
