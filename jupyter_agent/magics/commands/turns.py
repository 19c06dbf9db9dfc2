"""`%agent show`, `usage`, `cells` and `export`: see what turns did, and keep their code."""

from __future__ import annotations

from decimal import Decimal

import click
from IPython.display import display

from jupyter_agent.core.messages import Usage
from jupyter_agent.core.plaintext import count
from jupyter_agent.core.redact import MARK, redact, secret_values
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.errors import ConfigError
from jupyter_agent.kernel.widget_messages import release_widgets
from jupyter_agent.llm.pricing import cost, in_dollars
from jupyter_agent.magics.ask import publish
from jupyter_agent.magics.parser import Word, argument, command
from jupyter_agent.magics.report import CommandReport, report, table, without_secrets
from jupyter_agent.promotion import opaque_names
from jupyter_agent.promotion.cell import cell, comment
from jupyter_agent.promotion.export import export as export_notebook
from jupyter_agent.promotion.export import notebook as notebook_of
from jupyter_agent.promotion.turn import executed, results
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.widgets.saved import plain_transcript

_NO_TURN = "no turn has run yet. Give the agent a task first: %%agent"


@command(
    "show",
    heading="What happened",
    examples={
        "%agent show": "see the steps of the last turn again",
        "%agent show widgets": "see the widgets that bring a script of their own",
    },
)
@argument(
    "which",
    required=False,
    type=Word(
        {
            "last": "the last turn, the same as without this word",
            "widgets": "the agent's widgets that wait, since they bring a script of their own",
        }
    ),
)
@click.pass_obj
def show(sessions: KernelSessions, which: str | None) -> str:
    """the transcript of the last turn, or the widgets that wait"""
    if which == "widgets":
        return _show_widgets(sessions)
    if sessions.last is None:
        return "No turn has run yet."
    return shown(sessions, "", sessions.last)


def _show_widgets(sessions: KernelSessions) -> str:
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
    """tokens and cost so far, by session and turn"""
    rows: list[tuple[str, str, str]] = []
    base = sessions.kernel.settings().settings.api_base
    begun = [(name, sessions[name]) for name in sessions.names if sessions[name].turns]
    for name, session in begun:
        costs = [cost(t.provider, t.model, t.usage, base) for t in session.turn_usages]
        known = [amount for amount in costs if amount is not None]
        total = sum(known, Decimal(0)) if len(known) == len(costs) else None
        turns = count(session.turns, "turn")
        rows.append((name, f"{turns}, {_tokens(session.usage, total)}", ""))
        number = 0
        for used, amount in zip(session.turn_usages, costs, strict=True):
            number += used.is_turn
            label = f"turn {number}" if used.is_turn else "compaction"
            rows.append((label, _tokens(used.usage, amount), used.model))
    return report(table(rows)) if rows else "No turn has run yet."


def _tokens(usage: Usage, amount: Decimal | None) -> str:
    cached = f"{usage.cache_read_tokens:,} from the cache"
    if usage.cache_write_tokens:
        cached += f", {usage.cache_write_tokens:,} written to it"
    price = in_dollars(amount) or "cost unknown"
    return f"{usage.input_tokens:,} tokens in ({cached}), {usage.output_tokens:,} out, {price}"


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
