"""`%agent show`, `usage`, `cells` and `export`: see what turns did, and keep their code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import click
from IPython.display import display

from jupyter_agent.core.messages import Usage
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.core.redact import MARK, redact, secret_values
from jupyter_agent.core.tables import Table, table
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.errors import ConfigError
from jupyter_agent.kernel.widget_messages import release_widgets
from jupyter_agent.llm.pricing import cost, in_dollars
from jupyter_agent.magics.ask import lasting_outputs, publish
from jupyter_agent.magics.parser import Command, Unexpected, argument, command, family
from jupyter_agent.magics.report import CommandReport, report, without_secrets
from jupyter_agent.promotion import opaque_names
from jupyter_agent.promotion.cell import cell, comment
from jupyter_agent.promotion.export import export as export_notebook
from jupyter_agent.promotion.export import notebook as notebook_of
from jupyter_agent.promotion.turn import executed, results
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.session.session import Session
from jupyter_agent.stores.runs import Run, RunSummary, log_files, read_run, summary_of
from jupyter_agent.widgets.saved import plain_transcript

_NO_TURN = "no turn has run yet. Give the agent a task first: %%agent"
_LISTED = 20


def _numbers(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    return [str(number) for number in _turns(ctx.obj)]


@family(
    "show",
    heading="What happened",
    examples={
        "%agent show": "list the turns of this notebook, also those before a restart",
        "%agent show 2": "see the second turn again, with its displays and its answer",
        "%agent show widgets": "see the widgets that bring a script of their own",
    },
)
@argument(
    "number",
    metavar="N",
    required=False,
    help="the number of a turn; without it, the turns are listed",
    shell_complete=_numbers,
)
@click.pass_obj
def show(sessions: KernelSessions, number: str | None) -> CommandReport | str:
    """the turns of this notebook, or one of them again"""
    if number is not None and not re.fullmatch(r"-?[0-9]{1,9}", number):
        raise Unexpected(number)
    found = _turns(sessions)
    if not found:
        return _no_turn(sessions)
    if number is None:
        return _listed(sessions, found)
    if int(number) not in found:
        raise ConfigError(
            f"%agent show: there is no turn {number}. There {_existing(sorted(found))}."
        )
    return _shown_again(sessions, int(number), found[int(number)])


@show.command("last", cls=Command)
@click.pass_obj
def _last(sessions: KernelSessions) -> str:
    """the last turn again"""
    found = _turns(sessions)
    return _shown_again(sessions, *next(iter(found.items()))) if found else _no_turn(sessions)


def _turns(sessions: KernelSessions) -> dict[int, Path | None]:
    """The notebook's turns that can be shown, by number, the newest first, with their logs."""
    own: dict[int, Path | None] = dict.fromkeys(sessions.views)
    return dict(sorted({**own, **sessions.kernel.logged_turns()}.items(), reverse=True))


def _no_turn(sessions: KernelSessions) -> str:
    others = log_files(sessions.kernel.logs)
    return "No turn has run yet." + (
        " %agent log lists those of other notebooks." if others else ""
    )


def _shown_again(sessions: KernelSessions, number: int, path: Path | None) -> str:
    """Show a turn: from memory, or from its log, with what is missing there."""
    view, lines = sessions.views.get(number), []
    if view is None:
        assert path is not None
        run = read_run(path)
        view, lines = run.view, list(missing(run))
    if not lasting_outputs(view):
        why = one_line(view.error, 200) or "no reason is known."
        return "\n".join([*lines, f"Turn {number} ended before its first step: {why}"])
    return shown(sessions, "\n".join(lines), view)


def missing(run: Run) -> Iterator[str]:
    """What a log lacks of its turn, a line each."""
    if not run.has_ended:
        yield "This turn has no end in its log: it is still running, or its kernel was stopped."
    if run.is_torn:
        yield "The last line of the log is incomplete."
    if run.missing:
        why = f" ({one_line(run.why_missing, 100)})" if run.why_missing else ""
        yield f"Lines of the log that could not be written: {run.missing:,}{why}."
    if run.passed_over:
        yield f"Lines that are no events and are not shown: {run.passed_over:,}."
    if run.lost:
        yield f"Texts that are missing in the log: {run.lost:,}."


def _listed(sessions: KernelSessions, found: Mapping[int, Path | None]) -> CommandReport:
    rows = []
    for number, path in [*found.items()][:_LISTED]:
        run = summary_of(path) if path is not None else RunSummary(Path())
        if (view := sessions.views.get(number)) is not None:
            steps, task = len(view.steps), one_line(view.task, 80)
            run = replace(run, task=task, steps=steps, usage=view.usage, stop=view.stop_reason)
        rows.append((f"{number}", *run_cells(run), one_line(run.task, 60)))
    older = len(found) - len(rows)
    more = f"{older:,} older ones: %agent show N." if older else ""
    return report(table(rows, ("", *RUN_HEAD, "task")), "Show one again: %agent show N.", more)


RUN_HEAD = ("when", "end", "steps", "tokens", "seconds")
"""The names of `run_cells`."""


def run_cells(run: RunSummary) -> tuple[str, ...]:
    """The facts about a run, each in a cell; `?` for what its log does not tell."""
    return (
        run.started.astimezone().strftime("%Y-%m-%d %H:%M") if run.started else "(no date)",
        run.stop or "not ended",
        "?" if run.steps is None else f"{run.steps:,}",
        "?" if run.usage is None else f"{run.usage.total_tokens:,}",
        "?" if run.seconds is None else f"{run.seconds:,.0f}",
    )


def _existing(numbers: Sequence[int]) -> str:
    """`are turns 1 to 3, 5`."""
    runs = [[first := numbers[0], first]]
    for number in numbers[1:]:
        if number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs)
    return f"is turn {words}" if len(numbers) == 1 else f"are turns {words}"


@show.command("widgets", cls=Command)
@click.pass_obj
def _widgets(sessions: KernelSessions) -> str:
    """the agent's widgets that wait, since they bring a script of their own"""
    sessions.kernel.refuse_while_busy()
    widgets = release_widgets()
    for bundle in widgets:
        display(bundle, raw=True)
    return "" if widgets else "No widget waits."


def shown(sessions: KernelSessions, heading: str, view: TurnView) -> str:
    """Show a transcript below a heading: publish it in a notebook, return it in a terminal."""
    if not hasattr(sessions.kernel.shell, "kernel"):
        return "\n".join([*([heading] if heading else []), plain_transcript(view)])
    if heading:
        print(without_secrets(heading))  # noqa: T201 (above what is published)
    publish(view)
    return ""


@command(
    "usage",
    heading="What happened",
    examples={"%agent usage": "see what the conversation cost so far"},
)
@click.pass_obj
def usage(sessions: KernelSessions) -> CommandReport | str:
    """tokens, cost and time so far, by session and turn"""
    base = sessions.kernel.settings().settings.api_base
    begun = [sessions[name] for name in sessions.names if sessions[name].turns]
    return report(*(_used(each, base) for each in begun)) if begun else "No turn has run yet."


def _used(session: Session, base: str | None) -> Table:
    """The tokens and the cost of a session's turns, and their sum."""
    costs = [cost(t.provider, t.model, t.usage, base) for t in session.turn_usages]
    known = [amount for amount in costs if amount is not None]
    total = sum(known, Decimal(0)) if len(known) == len(costs) else None
    rows = []
    for used, amount in zip(session.turn_usages, costs, strict=True):
        numbered = f"turn {used.number}" if used.number else "an earlier turn"
        label = numbered if used.is_turn else "compaction"
        took = "" if used.seconds is None else f"{used.seconds:,.1f} s"
        rows.append((label, *_tokens(used.usage, amount), took, used.model))
    rows.append((count(session.turns, "turn"), *_tokens(session.usage, total), "", ""))
    head = (session.name, *_TOKENS, "cost", "time", "model")
    needless = {*_CACHE, _TIME}
    some = [
        n for n in range(len(head)) if n not in needless or {row[n] for row in rows} - {"0", ""}
    ]
    return table(([row[n] for n in some] for row in rows), [head[n] for n in some])


_TOKENS = ("tokens in", "from the cache", "to the cache", "tokens out")
_CACHE = (2, 3)
"""The columns that are left out if they are zero."""
_TIME = 6
"""The column that is left out if every turn was replayed."""


def _tokens(usage: Usage, amount: Decimal | None) -> tuple[str, ...]:
    """The tokens by kind and their cost, each in a cell."""
    counts = (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    )
    return *(f"{number:,}" for number in counts), in_dollars(amount) or "unknown"


@command(
    "cells",
    heading="What happened",
    examples={"%agent cells": "get the code of the last turn, to keep it and run it yourself"},
)
@click.pass_obj
def cells(sessions: KernelSessions) -> str:
    """put what the agent ran in the last turn into a cell below, cleaned"""
    shell, turn = sessions.kernel.shell, sessions.last
    if turn is None:
        raise ConfigError(f"%agent cells: {_NO_TURN}")
    text = cell(executed(turn), results(turn), opaque_names(shell.user_ns))
    if not text:
        raise ConfigError("%agent cells: the last turn ran no code that made or changed anything.")
    text = f"# What the agent ran for: {comment(turn.task)}\n\n{text}"
    shell.set_next_input(_without_secrets(text), replace=False)
    return ""


@command(
    "export",
    heading="What happened",
    examples={"%agent export total.ipynb": "make a notebook of the last turn, in the workspace"},
)
@argument(
    "file", metavar="FILE.ipynb", help="the name of the new notebook", needed="a file is needed"
)
@click.pass_obj
def export(sessions: KernelSessions, file: str) -> str:
    """write the last turn to a notebook, one cell for each step"""
    kernel, turn = sessions.kernel, sessions.last
    kernel.refuse_while_busy()
    if turn is None:
        raise ConfigError(f"%agent export: {_NO_TURN}")
    before = [_without_secrets(code) for code in kernel.recent.worked]
    made = notebook_of(turn, opaque_names(kernel.shell.user_ns), before)
    for each in made.cells:
        each.source = _without_secrets(each.source)
    written = export_notebook(made, file, kernel.workspace)
    return f"{written}: {len(made.cells)} cells. None of them has run yet."


def _without_secrets(code: str) -> str:
    text = redact(code, secret_values())
    if text == code:
        return code
    return f"# {MARK}: a secret stood here. Read it from the environment instead.\n{text}"
