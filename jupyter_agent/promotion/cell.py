"""One clean cell of what the agent ran in a turn."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.promotion.executed import Executed, Statement, parsed, statements
from jupyter_agent.promotion.slicing import needed
from jupyter_agent.source.dataflow import Facts

_ENVIRONMENT = re.compile(
    r"\b(?:sys|os|importlib|site|warnings|subprocess|builtins|runpy|shutil|environ|chdir|use)\b"
    r"|get_ipython|(?:^|=)\s*!|^\s*%(?!matplotlib|precision|config|colors|xmode)|\.py\b",
    re.MULTILINE,
)
"""Code that may change which module an import finds, or what the import does."""
_WORDS = 100
FAILS = "# This failed half way then; what it had done by then is needed."
Kept = tuple[Statement, Facts]


def cell(
    executions: Sequence[Executed],
    wanted: Collection[str],
    opaque: Collection[str] | None = None,
) -> str:
    """One clean cell with the code of some executions that the results depend on.

    Leaves out failed attempts and statements that only look at something. Imports come first, each
    once; comments name the step that the code is from. Empty where no statement is needed.

    Args:
        executions: The code that ran, in order.
        wanted: The names of the variables that are the results.
        opaque: Names of the kernel that may read or change anything when they are used, such as the
            person's own functions; None where they are not known.
    """
    kept = needed(statements(executions), wanted, opaque)
    first, rest = hoisted(kept)
    missing = [*_interrupted(executions, wanted), *notes(executions)]
    if not kept:
        return "\n".join(missing)
    blocks = ["\n".join([*missing, *borrowed(kept), *joined_imports(first)])]
    for words, part in _by_step(rest):
        blocks.append("\n".join([f"# {words}", *sources(part, is_last=part[-1] is rest[-1])]))
    return "\n\n".join(block for block in blocks if block)


def pieces(
    executions: Sequence[Executed],
    wanted: Collection[str],
    opaque: Collection[str] | None = None,
) -> tuple[str, ...]:
    """The code that the results depend on, a text for each execution, in order.

    As `cell`, but nothing moves, code of which nothing is left out is unchanged, and the last
    statement stays if it showed something.
    """
    all_ = statements(executions)
    own = [place for place, ran in enumerate(executions) if not ran.is_added]
    done = [place for place in own if executions[place].state == "done"]
    if done and executions[done[-1]].ends_shown:
        last = max((i for i, each in enumerate(all_) if each.origin == done[-1]), default=None)
        if last is not None:
            all_[last] = replace(all_[last], is_shown=True)
    kept: dict[int, list[Kept]] = {}
    for each in needed(all_, wanted, opaque):
        kept.setdefault(each[0].origin, []).append(each)
    lengths = Counter(statement.origin for statement in all_)
    return tuple(
        executions[origin].code
        if len(part) == lengths[origin] and executions[origin].state == "done"
        else "\n".join(sources(part, is_last=True))
        for origin, part in kept.items()
    )


def hoisted(kept: Sequence[Kept]) -> tuple[list[Statement], list[Kept]]:
    """Splits statements into imports that may move to the top, and the rest in order.

    Drops an import that repeats an earlier one.
    """
    first: list[Statement] = []
    rest: list[Kept] = []
    before: set[str] = set()  # names that the statements so far read
    imported: set[str] = set()
    sealed = starred = False
    ambiguous = _ambiguous(kept)
    for statement, known in kept:
        tree = statement.tree
        if not isinstance(tree, (ast.Import, ast.ImportFrom)):
            rest.append((statement, known))
            before |= known.reads | known.deferred
            sealed = sealed or _seals(statement, known)
            starred = starred or known.opaque
            continue
        bound = tree.names[0].asname or tree.names[0].name
        name = bound.partition(".")[0]
        future = isinstance(tree, ast.ImportFrom) and tree.module == "__future__"
        starred = starred or bound == "*"
        stays = not future and (starred or name in ambiguous)
        if not stays and statement.source in imported:
            continue
        if stays or name in before or (sealed and not future and not _is_standard(tree)):
            rest.append((statement, known))
            before.add(name)
        else:
            first.append(statement)
        imported.add(statement.source)
    return first, rest


def _ambiguous(kept: Sequence[Kept]) -> set[str]:
    """Names that are bound by imports and by something else, or by imports of several things."""
    others: set[str] = set()
    imports: dict[str, str] = {}
    for statement, known in kept:
        if not isinstance(statement.tree, (ast.Import, ast.ImportFrom)):
            others |= known.binds | known.deletes | known.rebinds
            continue
        name = statement.tree.names[0].asname or statement.tree.names[0].name
        if imports.setdefault(name, statement.source) != statement.source:
            others.add(name)
    return others


def joined_imports(first: Sequence[Statement]) -> list[str]:
    """The lines of import statements: `__future__` first, the names of a module on one line."""
    plain: list[str] = []
    of_module: dict[str, list[str]] = {}
    for statement in first:
        tree = statement.tree
        if isinstance(tree, ast.ImportFrom):
            module = "." * tree.level + (tree.module or "")
            of_module.setdefault(module, []).append(ast.unparse(tree.names[0]))
        else:
            plain.append(statement.source)
    lines = [f"from {module} import {', '.join(names)}" for module, names in of_module.items()]
    future = [line for line in lines if line.startswith("from __future__")]
    return [*future, *plain, *(line for line in lines if line not in future)]


def sources(part: Sequence[Kept], is_last: bool) -> Iterator[str]:
    """The texts of statements: a comment above one that failed, `display(…)` around a shown value.

    The last expression of a cell (`is_last`) shows its value without `display`.
    """
    for index, (statement, _) in enumerate(part):
        if statement.failed:
            yield FAILS
        at_end = is_last and index == len(part) - 1
        if statement.is_shown and not at_end and isinstance(statement.tree, ast.Expr):
            yield f"display({ast.unparse(statement.tree)})"
        else:
            yield statement.source


def borrowed(kept: Sequence[Kept]) -> list[str]:
    """A comment that names the agent's own functions that the code calls; nothing without any."""
    tools = set().union(*(statement.ran.tools & facts.reads for statement, facts in kept))
    names = ", ".join(sorted(tools))
    return [f"# These functions are the agent's; put your own in their place: {names}"] * bool(
        tools
    )


def heading(ran: Executed) -> str:
    """The number of a step, with the delegate that ran it, and the model's words if it said any."""
    words, step = comment(ran.words), f"Step {ran.step}"
    by = f"{step}, {ran.by}" if ran.by else step
    return f"{by}: {words}" if words else by


def comment(text: str) -> str:
    """A text on one line and shortened, so that it fits into a comment."""
    return " ".join(one_line(text, _WORDS).split())


def _by_step(rest: Sequence[Kept]) -> Iterator[tuple[str, list[Kept]]]:
    part: list[Kept] = []
    for each in rest:
        if part and _place(part[-1][0]) != _place(each[0]):
            yield heading(part[0][0].ran), part
            part = []
        part.append(each)
    if part:
        yield heading(part[0][0].ran), part


def _place(statement: Statement) -> tuple[int, str]:
    return statement.ran.step, statement.ran.by


def notes(executions: Sequence[Executed]) -> list[str]:
    """The comments in the place of code that cannot stand in a cell."""
    return [ran.note for ran in executions if ran.note]


def _is_standard(tree: ast.Import | ast.ImportFrom) -> bool:
    """Whether it is a module of the standard library, which is always found."""
    module = tree.names[0].name if isinstance(tree, ast.Import) else tree.module or ""
    return module.partition(".")[0] in sys.stdlib_module_names


def _seals(statement: Statement, known: Facts) -> bool:
    """Whether no later import may move in front of a statement."""
    return known.effect and bool(_ENVIRONMENT.search(statement.source))


def _interrupted(executions: Sequence[Executed], wanted: Collection[str]) -> list[str]:
    """A comment for each interrupted execution whose code mentions a wanted name."""
    names = [
        f"# Code of step {ran.step} was interrupted; what it had done by then is missing here."
        for ran in executions
        if ran.state == "interrupted" and _mentions(ran.code, wanted)
    ]
    return list(dict.fromkeys(names))


def _mentions(code: str, names: Collection[str]) -> bool:
    found = parsed(code)
    if found is None:
        return False
    return any(
        isinstance(node, ast.Name) and node.id in names
        for tree in found[1]
        for node in ast.walk(tree)
    )
