"""The statements that the results depend on, found backwards by the names that they read.

A statement stays if it may have an effect, or binds a needed name. A failed statement stays, inside
of a `try`, if it may have changed a needed object. Statements that only look at something go.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from jupyter_agent.promotion.executed import Statement
from jupyter_agent.source.dataflow import Facts, Program


def needed(
    statements: Sequence[Statement],
    wanted: Iterable[str],
    opaque: Collection[str] | None = None,
    lookups: bool = False,
) -> list[tuple[Statement, Facts]]:
    """The statements to keep, in order, each with its facts.

    Names are kept and restored only around statements that bind them.

    Args:
        statements: The statements that ran.
        wanted: The names whose values are the results.
        opaque: As for `Program`.
        lookups: Whether to keep statements that only look, unless their code failed.
    """
    names = {statement.ran.restores for statement in statements} - {""}
    if not names:
        return _needed(statements, wanted, opaque, lookups)
    own = [statement for statement in statements if not statement.ran.restores]
    bound = _bound(_needed(own, wanted, opaque, lookups)) & names
    rest = [each for each in statements if not each.ran.restores or each.ran.restores in bound]
    return _needed(rest, {*wanted, *bound}, opaque, lookups)


def _bound(kept: Sequence[tuple[Statement, Facts]]) -> set[str]:
    return set().union(*(facts.binds | facts.deletes for _, facts in kept))


def _needed(
    statements: Sequence[Statement],
    wanted: Iterable[str],
    opaque: Collection[str] | None,
    lookups: bool,
) -> list[tuple[Statement, Facts]]:
    program = Program([statement.tree for statement in statements], opaque)
    facts = [program.facts(each.tree, each.ran.shows) for each in statements]
    _allow_for_doubt(statements, facts)
    carried = _carried(facts)
    wanted = set(wanted)
    live = _with_carried(wanted, carried)
    everything = False
    kept: list[tuple[Statement, Facts]] = []
    final: dict[int, set[str]] = {}  # names that are to be gone in the end
    for statement, known in zip(reversed(statements), reversed(facts), strict=True):
        stays = _stays(statement, known, live, carried, everything)
        if not stays and not (lookups and statement.ran.state == "done"):
            continue
        kept.append((statement, known))
        final[id(statement)] = known.deletes & live & wanted
        if not statement.failed:
            live -= known.kills
        live |= _with_carried(known.reads, carried)
        if known.effect:
            live |= _with_carried(known.deferred, carried)
        everything = everything or known.opaque
    kept.reverse()
    return _without_vain_deletions(kept, statements, facts, final)


def _stays(
    statement: Statement,
    known: Facts,
    live: set[str],
    carried: dict[str, set[str]],
    everything: bool,
) -> bool:
    if statement.failed:
        return _left_something(statement, known, live, carried, everything)
    if known.effect or statement.is_shown or isinstance(statement.tree, ast.Delete):
        return True
    return bool(known.binds & live) or (everything and bool(known.binds))


def _left_something(
    statement: Statement,
    known: Facts,
    live: set[str],
    carried: dict[str, set[str]],
    everything: bool,
) -> bool:
    """Whether a failed statement may have changed a needed name or object before it failed."""
    assert isinstance(statement.tree, ast.Try)
    body = statement.tree.body
    changed = _with_carried(known.touches, carried)
    if len(body) > 1 or not _is_at_once(body[0]):
        changed |= known.binds | known.deletes
        changed |= _with_carried(known.reads, carried) if known.effect else set()
    if known.opaque or known.deletes:
        return True
    return bool(changed & live) or (everything and bool(changed))


def _is_at_once(tree: ast.stmt) -> bool:
    """Whether a statement binds its names last, so that it bound none if it failed."""
    match tree:
        case ast.Expr() | ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Raise():
            return not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()):
            return not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            return not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))
    return False


def _allow_for_doubt(statements: Sequence[Statement], facts: Sequence[Facts]) -> None:
    """Mark deletions and imports as effects where an unknown statement may have bound their names.

    Without them, such a name would keep another value. A `del` reads the names that it deletes.
    """
    unsure: set[str] = set()
    everything = any(known.opaque for known in facts)
    for statement, known in zip(statements, facts, strict=True):
        if not isinstance(statement.tree, (ast.Import, ast.ImportFrom)):
            certain = set() if statement.failed else known.kills
            unsure |= (known.binds | known.deletes) - certain
    for statement, known in zip(statements, facts, strict=True):
        if everything and isinstance(statement.tree, (ast.Import, ast.ImportFrom)):
            known.effect = True
        if everything or not unsure.isdisjoint(known.deletes):
            known.reads |= known.deletes
            known.effect = known.effect or bool(known.deletes)


def _carried(facts: Sequence[Facts]) -> dict[str, set[str]]:
    """For each name, the names that its object may read when it is called, directly or not."""
    carried: dict[str, set[str]] = {}
    grows = True
    while grows:
        grows = False
        for known in facts:
            flows = set(known.deferred)
            for name in known.reads | known.deferred:
                flows |= carried.get(name, set())
            for name in known.binds | (known.reads if known.effect else set()):
                own = carried.setdefault(name, set())
                if not flows <= own:
                    own |= flows
                    grows = True
    return carried


def _with_carried(names: Iterable[str], carried: dict[str, set[str]]) -> set[str]:
    names = set(names)
    return names.union(*(carried.get(name, set()) for name in names))


def _without_vain_deletions(
    kept: Sequence[tuple[Statement, Facts]],
    all_: Sequence[Statement],
    facts: Sequence[Facts],
    final: dict[int, set[str]],
) -> list[tuple[Statement, Facts]]:
    """Drops `del` of names that only dropped statements had bound, not of names from before."""
    place = {id(statement): index for index, statement in enumerate(all_)}
    bound: set[str] = set()
    result: list[tuple[Statement, Facts]] = []
    for statement, known in kept:
        if not isinstance(statement.tree, ast.Delete) or known.effect:
            bound = (bound - known.deletes) | known.binds
            result.append((statement, known))
            continue
        earlier = facts[: place[id(statement)]]
        made_here = set().union(*(each.binds | each.deletes for each in earlier))
        there = bound | final[id(statement)]
        names = [n for n in _deleted(statement.tree) if n in there or n not in made_here]
        bound -= known.deletes
        if names:
            result.append((_deleting(statement, names), known))
    return result


def _deleted(tree: ast.Delete) -> list[str]:
    return [target.id for target in tree.targets if isinstance(target, ast.Name)]


def _deleting(statement: Statement, names: list[str]) -> Statement:
    if names == _deleted(statement.tree):  # type: ignore[arg-type]
        return statement
    text = f"del {', '.join(names)}"
    return replace(statement, source=text, bare=text)
