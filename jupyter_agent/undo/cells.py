"""Edits of the open notebook: taken back on its page, and made again.

They are kept in memory: a page can be asked only while the kernel lives, and the notebook's file is
the person's to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_agent.kernel.notebook_page import CellEdit, NotebookPage, Refusal
from jupyter_agent.undo.namespace import KEPT_TURNS

_WHY: dict[Refusal, str] = {
    "changed": "the cell was changed since",
    "gone": "the cell is gone",
    "running": "the cell is the running one",
    "failed": "the page could not do it",
}
_NO_PAGE = "no page with the notebook and jupyter_agent's extension answers"


@dataclass
class _Noted:
    """An edit, and whether it stands."""

    edit: CellEdit
    stands: bool = True


class CellEdits:
    """The edits that the turns of one kernel made in the open notebook."""

    def __init__(self) -> None:
        self._of: dict[str, list[_Noted]] = {}

    def note(self, turn: str, edits: Iterable[CellEdit]) -> None:
        """Note edits that a turn has made."""
        self._of.setdefault(turn, []).extend(_Noted(edit) for edit in edits)
        for old in list(self._of)[:-KEPT_TURNS]:
            del self._of[old]

    def titles(self, turns: Sequence[str], forth: bool = False) -> list[str]:
        """What would be taken back, or made again (`forth`)."""
        return [each.edit.title for each in self._wanted(turns, forth)]

    async def restore(
        self, page: NotebookPage, turns: Sequence[str], forth: bool = False
    ) -> list[tuple[str, str]]:
        """Take the edits of turns back on the page, or make them again (`forth`).

        Args:
            page: The page.
            turns: Ids of turns, the newest first.
            forth: True makes edits again that were taken back.

        Returns:
            The title of each edit, and why it was left; an empty text if it was not.
        """
        wanted = self._wanted(turns, forth)
        edits = [each.edit if forth else each.edit.inverse() for each in wanted]
        outcomes = await page.apply(edits) if edits else []
        if outcomes is None:
            return [(each.edit.title, _NO_PAGE) for each in wanted]
        found = []
        for each, outcome in zip(wanted, outcomes, strict=True):
            title = each.edit.title
            if outcome.refused is None:
                each.stands = forth
                if forth:
                    each.edit = outcome.edit
            found.append((title, _WHY[outcome.refused] if outcome.refused else ""))
        return found

    def _wanted(self, turns: Sequence[str], forth: bool) -> list[_Noted]:
        if forth:
            noted = [each for turn in reversed(turns) for each in self._of.get(turn, ())]
        else:
            noted = [each for turn in turns for each in reversed(self._of.get(turn, ()))]
        return [each for each in noted if each.stands is not forth]
