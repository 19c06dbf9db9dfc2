"""`%agent COMMAND`: see and steer the agent. A module for each command or small family."""

from __future__ import annotations

import inspect
import shlex
from typing import Any

import click
from IPython.display import display

from jupyter_agent.core.tables import table
from jupyter_agent.errors import ConfigError
from jupyter_agent.magics import parser
from jupyter_agent.magics.commands.agents import agents
from jupyter_agent.magics.commands.conversation import (
    compact,
    context,
    go,
    history,
    reset,
    resume,
)
from jupyter_agent.magics.commands.log import log
from jupyter_agent.magics.commands.mcp import mcp
from jupyter_agent.magics.commands.memory import memory, notes
from jupyter_agent.magics.commands.settings import cassette, config, status, tools
from jupyter_agent.magics.commands.skills import skills
from jupyter_agent.magics.commands.trust import trust
from jupyter_agent.magics.commands.turns import cells, export, show, usage
from jupyter_agent.magics.commands.undo import undo
from jupyter_agent.magics.report import (
    CommandReport,
    errors_without_secrets,
    report,
    without_secrets,
)
from jupyter_agent.session.registry import KernelSessions, sessions_of

HEADINGS = (
    "The conversation",
    "What happened",
    "Undo",
    "What it may do",
    "Settings",
    "Memory and skills",
    "Help",
)
"""The headings of `%agent help`, in their order."""
_HELP = frozenset({"-h", "--help", "?"})


def _commands(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    return list(COMMANDS)


@parser.command(
    "help",
    heading="Help",
    examples={"%agent help undo": "see what undo does, its arguments, and examples"},
)
@parser.argument(
    "name", required=False, metavar="COMMAND", help="a command", shell_complete=_commands
)
@click.pass_context
def help_(ctx: click.Context, name: str | None) -> CommandReport:
    """the commands, or one of them explained"""
    if name is None:
        return _overview()
    if name not in COMMANDS:
        raise parser.Unknown(name, ctx.find_root())
    return _help_of(name, COMMANDS[name])


def _overview() -> CommandReport:
    rows: list[tuple[str, ...]] = []
    for heading in HEADINGS:
        rows.append((f"{heading}:",))
        rows += [
            (f"%agent {name}", parser.about(command))
            for name, command in COMMANDS.items()
            if command.heading == heading
        ]
        rows.append(("",))
    return report(
        "%%agent on the first line of a cell gives the agent the task below it.",
        table(rows[:-1]),
    )


def _help_of(name: str, command: parser.Command | parser.Family) -> CommandReport:
    return report(
        table([(parser.usage(command, name), parser.about(command))]),
        parser.details(command),
        table(parser.meanings(command)),
        table(
            [("Examples:" if len(command.examples) > 1 else "Example:",), *command.examples.items()]
        ),
    )


_ALL: tuple[parser.Command | parser.Family, ...] = (
    help_, status, config, cassette, context, history, show, tools, skills, notes, memory, mcp,
    trust, usage, reset, resume, go, undo, compact, cells, export, log, agents,
)  # fmt: skip
_AGENT = parser.Family("%agent", commands=_ALL, default="help")
COMMANDS = {command.name or "": command for command in _ALL}


@errors_without_secrets()
def run_command(shell: Any, line: str) -> None:
    """Run one command and show its result.

    Args:
        shell: The kernel's IPython shell.
        line: The words after `%agent`.

    Raises:
        AgentError: The words are wrong, or the command fails; one line says why.
    """
    result = run_line(sessions_of(shell), line)
    if inspect.iscoroutine(result):
        result.close()  # it has not begun
        raise ConfigError(
            f"%agent {line.strip()}: this waits for the notebook's page, since the turn edited "
            "cells. Put it on a line of its own, outside of functions and other magics."
        )
    _publish(shell, result)


async def run_awaited(shell: Any, line: str) -> None:
    """Run a command that may call the model, with `run_command`'s arguments and errors."""
    with errors_without_secrets():
        result = run_line(sessions_of(shell), line)
        _publish(shell, await result if inspect.isawaitable(result) else result)


def run_line(sessions: KernelSessions, line: str) -> Any:
    """Run one command and return what it says, or what must be awaited for it.

    Args:
        sessions: The kernel's sessions.
        line: The words after `%agent`.

    Raises:
        AgentError: The words are wrong, or the command fails; one line says why.
    """
    name, _, rest = line.strip().partition(" ")
    if name in COMMANDS and rest.strip() in _HELP:
        name, rest = "help", name
    try:
        # A task is written as people write: an apostrophe opens no quotation there.
        is_prose = name in COMMANDS and COMMANDS[name].is_prose
        words = rest.split() if is_prose else shlex.split(rest)
    except ValueError as error:
        raise ConfigError(f"%agent: {error}.") from None
    return parser.run(_AGENT, [name, *words] if name else [], sessions)


def completions(sessions: KernelSessions, line: str) -> list[str]:
    """The words that may stand at the end of a line: all that are possible there.

    Args:
        sessions: The kernel's sessions.
        line: The words after `%agent`, up to the cursor.
    """
    words = line.split()
    begun = words.pop() if words and not line[-1].isspace() else ""
    return list(parser.completions(_AGENT, words, begun, sessions))


def _publish(shell: Any, said: CommandReport | str) -> None:
    said = without_secrets(said)
    if not str(said):
        return
    if isinstance(said, CommandReport) and hasattr(shell, "kernel"):
        display({"text/plain": str(said), "text/html": said.html}, raw=True)
    else:
        print(said)  # noqa: T201 (a command's output is what the cell prints)
