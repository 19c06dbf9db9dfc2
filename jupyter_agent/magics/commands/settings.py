"""`%agent status`, `config`, `cassette` and `tools`: how the agent is set up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

import click

from jupyter_agent import config as configuration
from jupyter_agent.core.plaintext import count, plain
from jupyter_agent.core.tables import table
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.magics.hints import KEY_IN_CELL
from jupyter_agent.magics.parser import Command, argument, command, family
from jupyter_agent.magics.report import CommandReport, report
from jupyter_agent.recording.learning import variations
from jupyter_agent.session.provider_choice import model_rows
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.version import __version__


@command(
    "status",
    heading="Settings",
    examples={"%agent status": "see which model answers, and what is allowed"},
)
@click.pass_obj
def status(sessions: KernelSessions) -> CommandReport:
    """the model, the mode, the workspace, the sessions"""
    kernel, settings = sessions.kernel, sessions.kernel.settings().settings
    cassette = kernel.cassette
    names = [f"{name} ({count(sessions[name].turns, 'turn')})" for name in sessions.names]
    granted = sorted(
        {kind for name in sessions.names for kind in sessions[name].setup.approvals.granted}
    )
    allowed = f"; allowed in this session: {', '.join(granted)}" if granted else ""
    notices = sessions["default"].setup.preview().resources.notices
    inert = kernel.inert()
    has_cassette = any(path.exists() for path in kernel.cassettes)
    return report(
        table(
            [
                ("jupyter_agent", __version__),
                ("mode", settings.mode),
                *model_rows(settings, os.environ, has_cassette),
                ("workspace", str(kernel.workspace.root)),
                ("cassette", cassette.name if cassette else "(none)"),
                ("sessions", ", ".join(names) or "(none yet)"),
                ("approvals", settings.approvals.mode + allowed),
                *(("notice", notice) for notice in notices if notice),
                *(("not in use", line) for line in inert),
            ]
        )
    )


def _keys(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    return list(configuration.keys())


def _values(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    key, is_first = ctx.params["key"], not ctx.params["value"]
    return list(configuration.choices(key)) if is_first and key in set(configuration.keys()) else []


@command(
    "config",
    heading="Settings",
    examples={
        "%agent config": "list all settings, their values and where those come from",
        "%agent config max_steps 20": "allow 20 model calls a turn, in this kernel",
        "%agent config model none": "go back to the default",
    },
)
@argument("key", required=False, metavar="KEY", help="the name of a setting", shell_complete=_keys)
@argument(
    "value",
    nargs=-1,
    metavar="VALUE",
    help="the new value; in quotes if it contains spaces",
    shell_complete=_values,
)
@click.pass_obj
def config(
    sessions: KernelSessions, key: str | None, value: tuple[str, ...]
) -> CommandReport | str:
    """the settings, or one of them; with VALUE, set it for this kernel"""
    if len(value) > 1:
        raise ConfigError(
            "%agent config takes KEY, or KEY VALUE. Put a value with spaces in quotes."
        )
    if key is not None and value:
        sessions.kernel.set(key, value[0])
        return _set(sessions, key)
    resolved = sessions.kernel.settings()
    keys: Iterable[str] = configuration.keys()
    if key is not None:
        keys = [configuration.describe(key).key]
    return report(
        table(
            (each, configuration.shown(resolved.settings, each), resolved.source_of(each))
            for each in keys
        ),
        sessions.kernel.ignored,
    )


def _set(sessions: KernelSessions, key: str) -> str:
    """The line that confirms a setting: its value, and where it is kept."""
    key = configuration.describe(key).key
    value = configuration.shown(sessions.kernel.settings().settings, key)
    said = f"{key} is {value}, in the memory of this kernel only."
    secret = key in ("api_key", "http.headers", "http.proxy") and value != "none"
    if not secret:
        return said
    sessions.kernel.shell.agent_magics.has_warned_of_key = True  # and so not below the cell, too
    return f"{said} {KEY_IN_CELL}"


@family(
    "cassette",
    heading="Settings",
    examples={
        "%agent cassette": "see which cassette is in use, and what it holds",
        "%agent cassette analysis.cassette.jsonl": "use this file: record into it, or replay it",
        "%agent cassette prove": "run the recorded turns again, to learn what varies",
    },
)
@argument("file", required=False, metavar="FILE", help="a cassette file; it need not exist yet")
@click.pass_obj
def cassette(sessions: KernelSessions, file: str | None) -> str:
    """the cassette in use; with FILE, use another one"""
    from jupyter_agent.recording.cassette import load

    if file is not None:
        # Nothing is said, since a cassette that is about to be recorded would say something else.
        sessions.kernel.use_cassette(file)
        return ""
    path = sessions.kernel.cassette
    if path is None:
        return "No cassette. Name one: %agent cassette FILE"
    if not path.exists():
        return f"Cassette {path.name}: not recorded yet."
    tape = load(path)
    turns = count(len(tape.turns), "turn")
    replies = f"{tape.replies} {tape.source} {'reply' if tape.replies == 1 else 'replies'}"
    model = f" of {tape.model}" if tape.source == "recorded" else ""
    once = sum(turn.runs < 2 for turn in tape.turns)
    unknown = f" {count(once, 'turn')} ran only once: %agent cassette prove" if once else ""
    varying = "".join(f"\nVaries: {each.words}" for each in variations(tape))
    return f"Cassette {path.name}: {turns}, {replies}{model}.{unknown}{varying}"


@cassette.command("prove", cls=Command)
@click.pass_obj
def _prove(sessions: KernelSessions) -> str:
    """execute the saved notebook again, without a model, and learn what varies"""
    kernel = sessions.kernel
    kernel.refuse_while_busy()
    if kernel.is_being_recorded:
        return ""  # the cell with this command is executed, too
    if kernel.path is None:
        raise ConfigError(
            "The notebook's name is not known here. In a terminal: "
            "jupyter agent record NOTEBOOK --prove"
        )
    if any(each.path == kernel.cassette for each in kernel.untrusted_cassettes()):
        raise ConfigError(
            f"{kernel.cassette.name if kernel.cassette else 'The cassette'} was not recorded or "
            "trusted here, and nobody is asked while it is proved. To trust it: %agent trust."
        )
    # A process of its own: executing a notebook takes the signals and the event loop.
    command = [sys.executable, "-m", "jupyter_agent.cli", "record", str(kernel.path)]
    options = ["--prove", "--keep-outputs"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().split("\n")
        raise AgentError(plain(said[-1].removeprefix("FAILED ")))
    return plain(done.stdout.strip())


@command(
    "tools",
    heading="What it may do",
    examples={"%agent tools": "list each tool with what it does at most: reads, writes, executes"},
)
@click.pass_obj
def tools(sessions: KernelSessions) -> CommandReport:
    """the tools that the model may call"""
    known = sessions["default"].setup.preview().tools
    return report(
        table((tool.name, tool.effect, tool.spec.description.splitlines()[0]) for tool in known)
    )
