"""Code of small models, changed so that it spoils nothing of the person's.

They overwrite a table with a part of it, put example data in its place, or add a column to it for
a sum. Pure functions on texts, for `brief_protocol`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable

from jupyter_agent.llm.value_blocks import code_tree, names_in

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda)
_WRITTEN_OUT = 4
"""Constants in an assignment's lists and dicts from which on they are data and no setting."""


def without_made_up_data(code: str) -> str:
    """The code without the example of its functions: data written out there, and what uses them.

    Models append such examples to a function, with names that the person's data have. Code without
    a function, and code that is not plain Python, is returned unchanged.
    """
    tree = code_tree(code)
    body = tree.body if tree is not None else []
    if not any(isinstance(each, _DEFINITIONS) for each in body):
        return code
    made_up: set[str] = set()
    dropped: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, (*_DEFINITIONS, ast.Import, ast.ImportFrom)):
            continue
        if _is_written_out(statement) or names_in(statement, ast.Load) & made_up:
            made_up |= names_in(statement, ast.Store)
            dropped.append(statement)
    if not dropped:
        return code
    kept = [each for each in body if each not in dropped]
    used = {name for each in kept for name in names_in(each, ast.Load)}
    if used & made_up:
        return code
    return _without(code, body, dropped)


def with_loaded(code: str, tables: Collection[str]) -> str:
    """The code without what makes up or reads anew a table that is loaded: the loaded one is used.

    Code that is not plain Python is returned unchanged.

    Args:
        code: The code.
        tables: The names of the tables that are loaded.
    """
    tree = code_tree(code)
    replaced = list(_replaced(tree.body, tables)) if tree is not None else []
    return _without(code, tree.body, replaced) if tree is not None and replaced else code


def sparing(code: str, tables: Collection[str]) -> str:
    """The code so that it leaves the person's tables as they are.

    One that is rebound or changed is copied first, and the copy is changed. Code that is not plain
    Python is returned unchanged.

    Args:
        code: The code.
        tables: The names of the tables that are loaded.
    """
    tree = code_tree(code)
    if tree is None:
        return code
    changed = sorted(_changed(tree) & set(tables))
    bound = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    if not changed or bound & set(changed) or not tree.body:
        return code
    copies = {name: f"{name}_copy" for name in changed}
    _Renamed(copies).visit(tree)
    lines = [f"{copy} = {name}.copy()" for name, copy in copies.items()]
    return "\n".join([*lines, ast.unparse(tree)])


def _replaced(body: Iterable[ast.stmt], tables: Collection[str]) -> Iterable[ast.stmt]:
    """The statements that bind a table's name to something that does not come from any table."""
    derived = set(tables)
    for statement in body:
        stored = names_in(statement, ast.Store)
        if names_in(statement, ast.Load) & derived:
            derived |= stored
        elif (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and len(stored) == 1
            and stored <= set(tables)
        ):
            yield statement


def _changed(tree: ast.Module) -> set[str]:
    """The names that code outside of functions binds, deletes, or changes the object of."""
    found: set[str] = set()
    for node in _outside_of_functions(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            found |= set() if isinstance(node.ctx, ast.Load) else _root(node)
        if isinstance(node, ast.Call) and _is_in_place(node):
            found |= _root(node.func)
    return found


def _outside_of_functions(node: ast.AST) -> Iterable[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _outside_of_functions(child)


def _root(node: ast.expr) -> set[str]:
    """The name that an attribute or an item belongs to: `df` of `df.loc[0, "a"]`."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_in_place(call: ast.Call) -> bool:
    """True for `df.sort_values("a", inplace=True)`, and for `df.insert` and `df.pop`."""
    inplace = (each.value for each in call.keywords if each.arg == "inplace")
    given = any(isinstance(each, ast.Constant) and each.value is True for each in inplace)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return bool(method) and (given or method in {"insert", "pop", "update"})


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node


def _is_written_out(statement: ast.stmt) -> bool:
    """True for an assignment of data that stand in the code: `{...}`, `[...]`, a table of them."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or value is None:
        return False
    literals = [each for each in ast.walk(value) if isinstance(each, (ast.Dict, ast.List))]
    constants = [
        each for part in literals for each in ast.walk(part) if isinstance(each, ast.Constant)
    ]
    return len(constants) >= _WRITTEN_OUT


def _without(code: str, body: Iterable[ast.stmt], dropped: Collection[ast.stmt]) -> str:
    """The code without some of its statements, but for those that share a line with others."""
    kept = {number for each in body if each not in dropped for number in _lines(each)}
    gone = {number for each in dropped for number in _lines(each)} - kept
    lines = ["" if n in gone else line for n, line in enumerate(code.split("\n"), 1)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _lines(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
