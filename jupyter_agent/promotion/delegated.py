"""The code of delegates, as code for the person's namespace.

A delegate binds names of its own, and what it changes in place is its own, too: the person gets
only what it hands over. So names of the person's that mean something else to it have other names
here, those that it changes in place begin as copies, and what it hands over is bound at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_agent.promotion.executed import Executed, parsed
from jupyter_agent.promotion.renaming import added, free, renaming, words_of
from jupyter_agent.source.scope import stored_names


@dataclass(frozen=True, slots=True)
class DelegateCode:
    """What one delegate ran.

    Args:
        name: Its name: `Delegate 1`.
        task: Its task in a few words.
        runs: Its code, in order.
        kept: The names that it handed over.
        shadows: The person's names that meant something else to it.
        mutated: The person's names whose objects it changed in place, and that were put back.
        is_elsewhere: True if the code ran in another process, with copies of what it was given.
    """

    name: str
    task: str
    runs: tuple[Executed, ...]
    kept: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    is_elsewhere: bool = False

    @property
    def words(self) -> set[str]:
        """The words of its code that may be names."""
        return {word for ran in self.runs for word in words_of(ran.code)}


def for_the_person(parts: Sequence[DelegateCode], words: set[str]) -> list[Executed]:
    """The code of delegates that worked side by side, one after the other, as for one namespace.

    Where that cannot be exact there is a note with the code in its place.

    Args:
        parts: The delegates.
        words: All words of the turn's code, which no new name may be; new names are added.
    """
    made: list[Executed] = []
    handed_over: list[Executed] = []
    for part in parts:
        others = [each for each in parts if each is not part]
        found = None if part.is_elsewhere else _renamed(part, others, words)
        if found is not None:
            made += found[0]
            handed_over += found[1]
        elif part.kept:
            made.append(Executed("", part.runs[0].step, is_added=True, note=_note(part)))
    return made + handed_over


def _renamed(
    part: DelegateCode, others: Sequence[DelegateCode], words: set[str]
) -> tuple[list[Executed], list[Executed]] | None:
    """The code, and the lines that hand over; None if its names cannot be replaced exactly."""
    elsewhere = {word for other in others for word in other.words}
    bound = {name for ran in part.runs for name in _bound(ran)}
    direct = {*part.kept} - elsewhere - {*part.mutated}
    local = ({*part.shadows, *part.mutated} | (bound & elsewhere)) - direct
    new = {name: free(f"new_{name}", words) for name in sorted(local)}
    beside = part.runs[0]
    runs = []
    for ran in part.runs:
        if (code := renaming(ran.code, new)) is None:
            return None
        runs.append(replace(ran, code=code))
    copied = [name for name in part.mutated if name in new]
    shared = [name for name in part.shadows if name in new and name not in copied]
    first = [added(f"{new[name]} = {name}", beside) for name in shared]
    if copied:
        ours, theirs = ", ".join(new[name] for name in copied), ", ".join(copied)
        values = f"({theirs})" if len(copied) > 1 else theirs
        first += [added("from copy import deepcopy", beside)]
        first += [added(f"{ours} = deepcopy({values})", beside)]
    last = [added(f"{name} = {new[name]}", beside) for name in part.kept if name in new]
    return [*first, *runs], last


def _bound(ran: Executed) -> set[str]:
    """The names that code binds, but by imports: the same import gives each delegate the same."""
    found = parsed(ran.code)
    trees = found[1] if found else []
    own = (tree for tree in trees if not isinstance(tree, (ast.Import, ast.ImportFrom)))
    return {name for tree in own for name in stored_names(tree)}


def _note(part: DelegateCode) -> str:
    """A comment about names that no code here makes, with the code that made them."""
    names = ", ".join(f"`{name}`" for name in part.kept)
    where = "a process of its own" if part.is_elsewhere else "names of its own"
    lines = [f"{names}: made by {part.name} ({part.task}) in {where}, not by this cell. Its code:"]
    for ran in part.runs:
        lines += [f"    {line}" for line in ran.code.strip("\n").splitlines()]  # also at a `\r`
    return "\n".join(f"# {line}".rstrip() for line in lines)
