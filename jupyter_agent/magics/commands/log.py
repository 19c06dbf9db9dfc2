"""`%agent log`: find and show the turns that were logged, also those of other kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from jupyter_agent.core.plaintext import count, one_line, plain
from jupyter_agent.core.tables import Part, table
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.magics.commands.turns import RUN_HEAD, missing, run_cells, shown
from jupyter_agent.magics.parser import Command, PositiveNumber, Unexpected, Word, argument, family
from jupyter_agent.magics.report import CommandReport, report
from jupyter_agent.session.kernel import retention_limits
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.stores.retention import LOGS, MEGABYTE, OUTPUTS, SESSIONS, Limit, remove
from jupyter_agent.stores.runs import Run, log_files, read_lines, read_run, runs

_LISTED = 20
_SEARCHED = 300
"""Logs that are searched: the newest."""
_HITS = 30
_AROUND = 60
"""Characters that are shown before what was found."""
_UNSAID = frozenset({"type", "time", "seq", "id", "call_id", "metadata", "media_type", "data"})
"""Fields whose texts nobody looks for; `data` is a picture unless it has kinds of its own."""
_STEP = {"step_started": "number", "requested": "step"}
_UNDO = "undo"
KINDS = {
    LOGS: "run log",
    SESSIONS: "conversation",
    OUTPUTS: "long output",
    _UNDO: "undoable turn",
}
"""What `clean` removes, by the words of the command."""


@family(
    "log",
    heading="What happened",
    examples={
        "%agent log": "see the newest turns, also those of other kernels",
        "%agent log show 3": "see the transcript of the third newest",
        "%agent log grep heaviest penguin": "find places that contain both words",
        "%agent log clean show": "see what would be removed; nothing is removed",
        "%agent log clean logs --days 7": "remove the logs that are older than a week",
    },
)
@click.pass_obj
def log(sessions: KernelSessions) -> CommandReport | str:
    """the logs of turns: list, show or search them; remove old logs, conversations and outputs"""
    last = sessions.kernel.log_path
    parts = _table(sessions.kernel.logs, _LISTED)
    if not parts:
        return str(last) if last else "No turn has been logged yet."
    first = str(last) if last else "No turn of this kernel has been logged yet."
    hint = "Show one: %agent log show N. Search them: %agent log grep WORDS."
    return report(first, *parts, hint)


@log.command("list", cls=Command)
@argument(
    "most",
    metavar="COUNT",
    type=PositiveNumber(),
    default=_LISTED,
    help="how many turns; without it, 20",
)
@click.pass_obj
def _list(sessions: KernelSessions, most: int) -> CommandReport | str:
    """the newest turns, one line each"""
    parts = _table(sessions.kernel.logs, most)
    return report(*parts) if parts else "No turn has been logged yet."


_NUMBER = argument(
    "number",
    metavar="N",
    type=PositiveNumber(),
    required=False,
    help="the number of a turn in the list; 1 is the newest",
)


@log.command("show", cls=Command)
@_NUMBER
@click.pass_obj
def _show(sessions: KernelSessions, number: int | None) -> str:
    """the transcript of a turn"""
    path = _chosen(sessions.kernel.logs, number or 1)
    run = read_run(path)
    if not run.events:
        raise AgentError(
            f"%agent log show: {path.name} holds no events of a turn. %agent log lists the others."
        )
    return shown(sessions, "\n".join(_heading(run)), run.view)


@log.command("grep", cls=Command)
@argument(
    "words",
    nargs=-1,
    required=True,
    metavar="WORDS",
    help="what to look for; a result contains all of the words",
    needed="give words to look for",
)
@click.pass_obj
def _grep(sessions: KernelSessions, words: tuple[str, ...]) -> str:
    """find words in the logs"""
    files = log_files(sessions.kernel.logs)
    wanted = [word.casefold() for word in words]
    found: list[str] = []
    for number, path in enumerate(files[:_SEARCHED], 1):
        for hit in _hits(path, wanted):
            if len(found) == _HITS:
                return "\n".join([*found, "(there are more results; give more words)"])
            found.append(f"{number:>4} {hit}")
    if len(files) > _SEARCHED:
        found.append(f"(only the newest {_SEARCHED} logs were searched)")
    return "\n".join(found) or "Nothing was found."


@log.command("path", cls=Command)
@_NUMBER
@click.pass_obj
def _path(sessions: KernelSessions, number: int | None) -> str:
    """the file of a turn's log"""
    last = sessions.kernel.log_path
    if number is None and last is not None:
        return str(last)
    return str(_chosen(sessions.kernel.logs, number or 1))


_WHAT = Word(
    {
        "show": "show what would be removed; nothing is removed",
        LOGS: "remove run logs",
        SESSIONS: "remove conversations",
        OUTPUTS: "remove long outputs",
        _UNDO: "remove what %agent undo needs; those turns cannot be undone any more",
    }
)


def _what(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    given = ctx.params["what"] or ()
    return [word for word in (*_WHAT.meanings, "--days", "--all") if word not in given]


@log.command("clean", cls=Command, is_named=True)
@argument("what", nargs=-1, type=_WHAT, shell_complete=_what)
@click.option(
    "--days",
    metavar="N | --all",
    type=PositiveNumber(),
    help="only what is older than N days, or than one day; without either, what the settings say",
)
@click.option("--all", "everything", is_flag=True, hidden=True)
@click.pass_obj
def _clean(
    sessions: KernelSessions, what: tuple[str, ...], days: int | None, everything: bool
) -> str:
    """remove old files, of all kinds or of those that you name"""
    if everything and days is not None:
        raise Unexpected("--all")
    kernel = sessions.kernel
    kernel.refuse_while_busy()
    days, is_shown = 1 if everything else days, "show" in what
    kinds = [word for word in what if word != "show"] or list(KINDS)
    settings = kernel.settings().settings
    limits = {name: limit for name, limit in retention_limits(settings).items() if name in kinds}
    if days is not None:
        limits = {name: Limit(days, limit.megabytes) for name, limit in limits.items()}
    files = [one for one in kernel.surplus(limits) if is_shown or remove(one)]
    told = [_sum_of(name, [one.size for one in files if one.folder == name]) for name in limits]
    if _UNDO in kinds:
        age = settings.undo.keep_days if days is None else days
        turns = kernel.undo.forget(settings.undo, age, is_shown)
        told.append(count(turns, KINDS[_UNDO]) if turns else "")
    told = [each for each in told if each]
    stays = "What is in use or was changed within a day stays."
    if not told:
        return f"There is nothing to remove. {stays}"
    return f"{'Would be removed' if is_shown else 'Removed'}: {', '.join(told)}. {stays}"


def _sum_of(name: str, sizes: Sequence[int]) -> str:
    if not sizes:
        return ""
    return f"{count(len(sizes), KINDS[name])} ({sum(sizes) / MEGABYTE:,.1f} MB)"


def _table(folder: Path, most: int) -> list[Part]:
    """The newest runs, and a line about the others; empty if there are none."""
    found = runs(folder, most)
    rows = [
        (f"{number}", *run_cells(run), one_line(run.model, 30), one_line(run.task, 60))
        for number, run in enumerate(found, 1)
    ]
    more = len(log_files(folder)) - len(found)
    older = f"{more:,} older ones: %agent log list COUNT" if more > 0 else ""
    return [table(rows, ("", *RUN_HEAD, "model", "task")), older] if rows else []


def _heading(run: Run) -> Iterator[str]:
    began = next((logged.time for logged in run.events if logged.time), None)
    when = began.astimezone().strftime("%Y-%m-%d %H:%M:%S") if began else "at an unknown time"
    yield f"{run.path.name}, {when}"
    yield f"Task: {plain(run.view.task)}"
    yield from missing(run)


def _hits(path: Path, wanted: Sequence[str]) -> Iterator[str]:
    """Where all of the words stand together in one event, the prompt aside."""
    step = 0
    try:
        for line in read_lines(path):
            step = line.get(_STEP.get(line["type"], ""), step)
            if line["type"] in ("prompt", "requested"):
                continue
            text = "\n".join(_texts(line))
            low = text.casefold()
            if all(word in low for word in wanted):
                yield f"step {step:<3} {one_line(line['type'], 20):<17} {_snippet(text, wanted)}"
    except OSError:
        return


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            is_text = key not in _UNSAID or (key == "data" and isinstance(item, dict))
            if is_text and not key.startswith("image/"):
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _snippet(text: str, wanted: Sequence[str]) -> str:
    """What was found with some words around it, in one line."""
    flat = " ".join(plain(text).split())
    places = [place for word in wanted if (place := flat.casefold().find(word)) >= 0]
    start = max(0, min(places, default=0) - _AROUND)
    return ("… " if start else "") + one_line(flat[start:], 2 * _AROUND)


def _chosen(folder: Path, number: int) -> Path:
    """The log of the run with a number, 1 being the newest."""
    files = log_files(folder)
    if not files:
        raise AgentError(
            "%agent log: no turn has been logged yet. Give the agent a task first: %%agent"
        )
    if number > len(files):
        raise ConfigError(f"%agent log: there is no run {number:,}. Give 1 to {len(files):,}.")
    return files[number - 1]
