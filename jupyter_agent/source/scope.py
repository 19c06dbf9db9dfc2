"""Names of a piece of code: which ones it binds, and which ones come from outside of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WITH_OWN_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.comprehension)
_BINDERS = (
    *(ast.Name, *_SCOPES, ast.arg, ast.Import, ast.ImportFrom, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)


_OUTSIDE_OF_NODES = frozenset({"ctx", "op", "ops"})


def nodes_of(*trees: ast.AST) -> list[ast.AST]:
    """The nodes of some trees, level by level: `ast.walk` without operators and contexts.

    Those are a third of all nodes, and each piece of code is walked several times.
    """
    nodes = list(trees)
    for node in nodes:
        nodes += _below(node)
    return nodes


def _below(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node."""
    found: list[ast.AST] = []
    for name in node._fields:
        if name in _OUTSIDE_OF_NODES:
            continue
        part = getattr(node, name, None)
        if isinstance(part, list):
            found += [each for each in part if isinstance(each, ast.AST)]
        elif isinstance(part, ast.AST):
            found.append(part)
    return found


def free_names(tree: ast.Module) -> set[str]:
    """Names that are read where the code itself has not surely bound them before.

    A name that is bound on one branch only counts as free: the kernel's value may still be there.
    """
    free: set[str] = set()
    _block(tree.body, set(), free)
    return free


def _block(statements: Iterable[ast.stmt], bound: set[str], free: set[str]) -> None:
    """Add to `free` the free names of statements, and to `bound` those that they surely bind."""
    for statement in statements:
        blocks = [] if isinstance(statement, _SCOPES) else list(_blocks(statement))
        local: set[str] = set()
        loads: set[str] = set()
        header: set[str] = set()
        for node in _outside_of_blocks(statement) if blocks else nodes_of(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                loads.add(node.id)
                continue
            if isinstance(node, _WITH_OWN_NAMES):
                local |= _local_names(node)
            header.update(bound_by(node))
        header -= local
        free |= loads - local - bound
        if isinstance(statement, ast.AugAssign):
            free |= stored_names(statement.target) - bound
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            bound |= header
            _block(statement.body, bound, free)
            continue
        for block in blocks:
            _block(block, bound | header, free)
        if not blocks:
            bound |= header


def loop_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Names that the code binds as variables of its loops, and those that it binds otherwise.

    A name may be in both. Functions and classes have names of their own, which do not count.
    """
    loops: set[str] = set()
    others: set[str] = set()
    left: list[ast.AST] = [*tree.body]
    while left:
        node = left.pop()
        if isinstance(node, (ast.For, ast.AsyncFor)):
            loops |= stored_names(node.target)
            left += [*node.body, *node.orelse]
            continue
        others.update(bound_by(node))
        if not isinstance(node, (ast.ClassDef, *_WITH_OWN_NAMES)):
            left += _below(node)
    return loops, others


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements in a compound statement."""
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(part, name, None):
                yield block


def _outside_of_blocks(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a compound statement without the statements in it."""
    nodes: list[ast.AST] = [statement]
    for node in nodes:
        yield node
        nodes += (child for child in _below(node) if not isinstance(child, ast.stmt))


def _local_names(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.comprehension,
) -> set[str]:
    """The names that a function or a comprehension binds for itself."""
    if isinstance(node, ast.comprehension):
        return stored_names(node.target)
    names = {argument.arg for argument in parameters(node.args)}
    for part in node.body if isinstance(node.body, list) else ():
        names |= stored_names(part)
        for found in nodes_of(part):
            if isinstance(found, (ast.Global, ast.Nonlocal)):
                names -= set(found.names)
    return names


def stored_names(node: ast.AST) -> set[str]:
    """The names that a node assigns or deletes, wherever below it."""
    return {
        found.id
        for found in nodes_of(node)
        if isinstance(found, ast.Name) and not isinstance(found.ctx, ast.Load)
    }


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, in order."""
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def bound_by(node: ast.AST) -> tuple[str, ...]:
    """The names that one node binds itself, without the nodes below it."""
    if not isinstance(node, _BINDERS):  # most nodes: a match takes longer to say so
        return ()
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
