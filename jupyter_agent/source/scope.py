"""Names of a piece of code: which ones it binds, and which ones come from outside of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def free_names(tree: ast.Module) -> set[str]:
    """Names that are read where the code itself has not surely bound them before.

    A name that is bound on one branch only counts as free: the kernel's value may still be there.
    """
    free: set[str] = set()
    _body(tree.body, set(), free)
    return free


def stored_names(node: ast.AST) -> set[str]:
    """The names that a node assigns or deletes, wherever below it."""
    return {
        found.id
        for found in ast.walk(node)
        if isinstance(found, ast.Name) and not isinstance(found.ctx, ast.Load)
    }


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, in order."""
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def bound_by(node: ast.AST) -> tuple[str, ...]:
    """The names that one node binds itself, without the nodes below it."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return (node.id,)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.arg():
            return (node.arg,)
        case ast.Import() | ast.ImportFrom():
            return tuple(name for name, _ in imports(node))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return (name,)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return (name,)
    return ()


def imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with the full name of what it stands for.

    `import a.b` binds `a`; `from ..a import *` binds `*`, which stands for `..a.*`.
    """
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, f"{module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            first = alias.name.partition(".")[0]
            yield first, first


def _body(statements: Iterable[ast.stmt], bound: set[str], free: set[str]) -> None:
    for statement in statements:
        _statement(statement, bound, free)


def _statement(node: ast.stmt, bound: set[str], free: set[str]) -> None:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            _function(node, bound, free)
            bound.update(bound_by(node))
        case ast.ClassDef():
            _read([*node.bases, *node.keywords, *node.decorator_list], bound, free)
            _body(node.body, set(bound), free)
            bound.update(bound_by(node))
        case ast.Import() | ast.ImportFrom():
            bound.update(bound_by(node))
        case ast.For() | ast.AsyncFor():
            _read([node.iter, node.target], bound, free)
            _body(node.body, bound | stored_names(node.target), free)
            _body(node.orelse, set(bound), free)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                _read([item], bound, free)
                bound |= stored_names(item)
            _body(node.body, bound, free)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            _assignment(node, bound, free)
        case _:
            _other(node, bound, free)


def _assignment(
    node: ast.Assign | ast.AnnAssign | ast.AugAssign, bound: set[str], free: set[str]
) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    _read([*([node.value] if node.value else []), *targets], bound, free)
    if isinstance(node, ast.AnnAssign):
        _read([node.annotation], bound, free)
    if isinstance(node, ast.AugAssign):
        free |= stored_names(node.target) - bound
    elif node.value is not None:
        for target in targets:
            bound |= stored_names(target)


def _other(node: ast.AST, bound: set[str], free: set[str]) -> None:
    """Branches, loops and the like: what they bind is not sure to be bound afterwards."""
    bound = set(bound)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            _statement(child, bound, free)
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            _other(child, bound | stored_names(child), free)
        else:
            _read([child], bound, free)


def _function(node: _Function, bound: set[str], free: set[str]) -> None:
    arguments = node.args
    outside = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults]
    hints = [argument.annotation for argument in parameters(arguments)]
    _read([part for part in [*outside, *hints, node.returns] if part], bound, free)
    own = {argument.arg for argument in parameters(arguments)}
    for statement in node.body:
        own |= stored_names(statement)
    for found in ast.walk(node):
        if isinstance(found, (ast.Global, ast.Nonlocal)):
            own -= set(found.names)
    _body(node.body, bound | own, free)


def _read(nodes: Iterable[ast.AST], bound: set[str], free: set[str]) -> None:
    """Note the free names in expressions."""
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and node.id not in bound:
                free.add(node.id)
        elif isinstance(node, ast.Lambda):
            defaults = [part for part in (*node.args.defaults, *node.args.kw_defaults) if part]
            _read(defaults, bound, free)
            own = {argument.arg for argument in parameters(node.args)}
            _read([node.body], bound | own, free)
        elif isinstance(node, _Comprehension):
            _comprehension(node, bound, free)
        else:
            _read(ast.iter_child_nodes(node), bound, free)


def _comprehension(node: ast.expr, bound: set[str], free: set[str]) -> None:
    own = set(bound)
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.comprehension):
            _read([part.iter], own, free)
            own |= stored_names(part.target)
            _read(part.ifs, own, free)
    _read([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)], own, free)
