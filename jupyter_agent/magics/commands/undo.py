"""`%agent undo`: go back, see what that would do, take it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click

from jupyter_agent.config import UndoSettings
from jupyter_agent.magics.parser import Command, PositiveNumber, Rest, argument, family
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.undo.command import UndoReport


@family(
    "undo",
    heading="Undo",
    is_named=True,
    examples={
        "%agent undo show": "see what undoing the last turn would change",
        "%agent undo": "undo the last turn",
        "%agent undo redo": "take the undo back",
        "%agent undo 2 --over report.md": "undo two turns, and restore report.md, which you edited",
    },
)
@argument(
    "turns",
    metavar="N",
    type=PositiveNumber("unexpected {!r}"),
    default=1,
    help="how many turns; without it, the last one",
)
@click.option(
    "--over",
    cls=Rest,
    metavar="FILE ...",
    help="restore these files too, although they were changed after the turn",
)
@click.pass_obj
def undo(sessions: KernelSessions, turns: int, over: Sequence[str]) -> Any:
    """take back what turns did to files, variables and cells, or show first what would change

    Files that you changed after the turn stay as they are, unless you name them after --over; so do
    cells. What an undo removes lies in the trash, .jupyter_agent/trash.
    """
    settings = _settings(sessions)
    edited = sessions.kernel.undo.cell_edits(settings, turns)

    def undo_others() -> UndoReport:
        return sessions.kernel.undo.undo(settings, turns, over)

    return _with_cells(sessions, undo_others, edited) if edited else _done(sessions, undo_others())


@click.pass_obj
def _show(sessions: KernelSessions, turns: int, over: Sequence[str]) -> str:
    """what undoing would change; nothing is changed"""
    return sessions.kernel.undo.preview(_settings(sessions), turns, over)


undo.add_command(Command("show", callback=_show, params=undo.own_params, help=_show.__doc__))


@undo.command("list", cls=Command)
@click.pass_obj
def _list(sessions: KernelSessions) -> str:
    """the turns that can be undone"""
    return sessions.kernel.undo.listed(_settings(sessions))


@undo.command("redo", cls=Command)
@click.pass_obj
def _redo(sessions: KernelSessions) -> Any:
    """take back the last undo, if no turn has run since"""
    settings = _settings(sessions)
    edited = sessions.kernel.undo.cell_edits(settings, forth=True)

    def redo_others() -> UndoReport:
        return sessions.kernel.undo.redo(settings)

    if edited:
        return _with_cells(sessions, redo_others, edited, forth=True)
    return _done(sessions, redo_others())


async def _with_cells(
    sessions: KernelSessions,
    others: Callable[[], UndoReport],
    edited: Sequence[str],
    forth: bool = False,
) -> str:
    """Undo files and variables, then the edits of the notebook, which its page carries out."""
    kernel = sessions.kernel
    report = others()
    found = await kernel.undo.cells.restore(kernel.page, edited, forth)
    done = "made again" if forth else "taken back"
    lines = [
        f"notebook, {title}: {f'left as it is: {why}' if why else done}" for title, why in found
    ]
    news = "\n".join([report.news, *lines])
    return _done(sessions, replace(report, changes=(*report.changes, *lines), news=news))


def _settings(sessions: KernelSessions) -> UndoSettings:
    sessions.kernel.refuse_while_busy()
    return sessions.kernel.settings().settings.undo


def _done(sessions: KernelSessions, report: UndoReport) -> str:
    if report.news:
        for name in sessions.names:
            sessions[name].setup.news.append(report.news)
    return report.text
