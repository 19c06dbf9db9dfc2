"""The code in replies. Nothing but the standard library is imported."""

from __future__ import annotations

import ast
import re

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)


def code_of(reply: str) -> str:
    """The first fenced block of a reply, also one that breaks off; empty if there is none."""
    found = _BLOCK.search(reply)
    return found[1].strip() if found else ""


def with_value(code: str) -> str:
    """The code with the argument of `final_answer`, smolagents' last call, in place of the call."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return code
    return ast.unparse(_Unwrapped().visit(tree))


class _Unwrapped(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        return values[0] if name == "final_answer" and values else node
