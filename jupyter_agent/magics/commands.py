"""`%agent COMMAND`: see and steer the agent."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from IPython.display import display

from jupyter_agent import config
from jupyter_agent.core import legible
from jupyter_agent.core.codec import message_to_json
from jupyter_agent.core.messages import Context, Message, Said, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import CallView, TurnView
from jupyter_agent.core.wording import count
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.pricing import cost, in_dollars
from jupyter_agent.llm.tokens import count_tokens
from jupyter_agent.magics.ask import publish
from jupyter_agent.magics.log import WORDS as LOG_WORDS
from jupyter_agent.magics.log import clean_command, log_command
from jupyter_agent.magics.mcp import mcp_command
from jupyter_agent.magics.memory import MEMORY_USAGE, NOTES_USAGE, memory_command, notes_command
from jupyter_agent.magics.promotion import cells_command, export_command
from jupyter_agent.magics.report import (
    Report,
    errors_without_secrets,
    report,
    table,
    without_secrets,
)
from jupyter_agent.magics.skills import skills_command
from jupyter_agent.magics.trust import USAGE as TRUST_USAGE
from jupyter_agent.magics.trust import trust_command
from jupyter_agent.promotion import opaque_names
from jupyter_agent.session.registry import Sessions, sessions_of
from jupyter_agent.version import __version__
from jupyter_agent.widgets.saved import plain_transcript

_HELP = frozenset({"-h", "--help", "?"})


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it does, and the words that it takes."""

    run: Callable[[Sessions, list[str]], Report | str]
    words: str = ""

    @property
    def about(self) -> str:
        return self.run.__doc__ or ""

    def row(self, name: str) -> tuple[str, str]:
        """The command under its name, as the help lists it."""
        return f"%agent {name} {self.words}".rstrip(), self.about


@errors_without_secrets()
def run_command(shell: Any, line: str) -> None:
    """Run one command and show what it says. Raises `ConfigError` with one line."""
    name, _, rest = line.strip().partition(" ")
    name = name or "help"
    _check_known(name)
    if rest.strip() in _HELP:
        name, rest = "help", name
    try:
        # A task is written as people write: an apostrophe opens no quotation there.
        words = rest.split() if name == "context" else shlex.split(rest)
    except ValueError as error:
        raise ConfigError(f"%agent: {error}.") from None
    said = without_secrets(COMMANDS[name].run(sessions_of(shell), words))
    if not str(said):
        return
    if isinstance(said, Report) and hasattr(shell, "kernel"):
        display({"text/plain": str(said), "text/html": said.html}, raw=True)
    else:
        print(said)  # noqa: T201 (a command's output is what the cell prints)


def _check_known(name: str) -> None:
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"The commands are: {', '.join(COMMANDS)}."
        raise ConfigError(f"%agent: there is no command {name!r}. {hint}")


def _help(sessions: Sessions, words: list[str]) -> Report:
    """what the commands are, or one of them"""
    _takes(words, 1, "help [COMMAND]")
    if words:
        _check_known(words[0])
    chosen = words or list(COMMANDS)
    rows = [
        (f"%agent {name} {COMMANDS[name].words}".rstrip(), COMMANDS[name].about) for name in chosen
    ]
    head = "%%agent on the first line of a cell gives the agent the task below it."
    return report("" if words else head, table(rows))


def _status(sessions: Sessions, words: list[str]) -> Report:
    """the model, the mode, the workspace, the sessions"""
    _takes(words, 0, "status")
    notebook, settings = sessions.notebook, sessions.notebook.settings().settings
    cassette = notebook.cassette
    names = [f"{name} ({count(sessions[name].turns, 'turn')})" for name in sessions.names]
    granted = sorted(
        {kind for name in sessions.names for kind in sessions[name].equipment.permissions.granted}
    )
    allowed = f"; allowed in this session: {', '.join(granted)}" if granted else ""
    notices = [*sessions["default"].equipment.knowledge.notices, notebook.ignored]
    return report(
        table(
            [
                ("jupyter_agent", __version__),
                ("mode", settings.mode),
                ("provider", settings.provider or "(by the environment)"),
                ("model", settings.model or "(the default)"),
                ("workspace", str(notebook.workspace.root)),
                ("cassette", cassette.name if cassette else "(none)"),
                ("sessions", ", ".join(names) or "(none yet)"),
                ("approvals", settings.approvals.mode + allowed),
                *(("notice", notice) for notice in notices if notice),
            ]
        )
    )


def _config(sessions: Sessions, words: list[str]) -> Report | str:
    """the settings, or one of them; with a value set it"""
    if len(words) > 2:
        raise ConfigError("%agent config takes KEY, or KEY VALUE. Put quotes around spaces.")
    if len(words) == 2:
        sessions.notebook.set(*words)
        return ""
    resolved = sessions.notebook.settings()
    keys = [config.describe(words[0]).key] if words else config.keys()
    return report(
        table((key, config.shown(resolved.settings, key), resolved.source_of(key)) for key in keys),
        sessions.notebook.ignored,
    )


def _cassette(sessions: Sessions, words: list[str]) -> str:
    """the cassette in use, or use another one"""
    from jupyter_agent.recording.cassette import load

    _takes(words, 1, "cassette [FILE]")
    if words:
        # Nothing is said, since a cassette that is about to be recorded would say something else.
        sessions.notebook.use_cassette(words[0])
        return ""
    path = sessions.notebook.cassette
    if path is None:
        return "No cassette. Name one: %agent cassette FILE"
    if not path.exists():
        return f"Cassette {path.name}: not recorded yet."
    tape = load(path)
    turns = count(len(tape.turns), "turn")
    replies = f"{tape.replies} {tape.source} {'reply' if tape.replies == 1 else 'replies'}"
    model = f" of {tape.model}" if tape.source == "recorded" else ""
    return f"Cassette {path.name}: {turns}, {replies}{model}."


def _context(sessions: Sessions, words: list[str]) -> Report | str:
    """what the next turn would send; with all the whole request"""
    session = sessions["default"]
    if words[:1] == ["all"]:
        _, body = session.preview(" ".join(words[1:]) or "(your task)", with_body=True)
        return json.dumps(body, ensure_ascii=False, indent=1) if body else "Nothing is sent."
    request, _ = session.preview(" ".join(words) or "(your task)")
    told = [b.text for b in request.messages[-1].blocks if isinstance(b, Context)]
    rules = "\n\n".join(text for text in told if text.startswith("<rules "))
    context = "\n\n".join(text for text in told if not text.startswith("<rules "))
    history = json.dumps([message_to_json(message) for message in request.messages[:-1]])
    tools = "".join(f"{s.name} {s.description} {json.dumps(s.parameters)}" for s in request.tools)
    detail = sessions.notebook.settings().settings.context.detail
    rows = [
        ("system prompt", request.system),
        (f"tools ({len(request.tools)})", tools),
        (f"history ({len(request.messages) - 1} messages)", history),
        (f"context ({detail})", context),
        *([("rules", rules)] if rules else []),
    ]
    counts = table((name, f"{count_tokens(text):,} tokens") for name, text in rows)
    waits = session.equipment.awaits_servers
    more = "The first turn adds the tools of MCP servers." if waits else ""
    return report(counts, more, rules, context or "Nothing is told of the kernel.")


def _history(sessions: Sessions, words: list[str]) -> Report | str:
    """the conversation so far, a line for each thing that was said or done"""
    _takes(words, 1, "history [SESSION]")
    name = words[0] if words else "default"
    if words and name not in sessions.names:
        raise ConfigError(f"%agent history: there is no session {name!r}.")
    rows = [row for message in sessions[name].history for row in _told(message)]
    return report(table(rows)) if rows else "Nothing has been said yet."


def _told(message: Message) -> Iterator[tuple[str, str]]:
    for block in message.blocks:
        match block:
            case Text(text=text) if text.strip():
                yield "you" if message.role == "user" else "agent", legible.line(text, 110)
            case Said(text=text):
                yield "you", legible.line(text, 110)
            case ToolCall():
                yield "calls", f"{block.name} {CallView(block).gist}"
            case ToolResult(is_error=True):
                # A traceback says at its end what it was.
                yield "failed", legible.line(block.text.strip().rpartition("\n")[2], 110)
            case Context(text=text) if message.role == "user" and len(message.blocks) == 1:
                yield "told", legible.line(text, 110)


def _show(sessions: Sessions, words: list[str]) -> str:
    """the transcript of the last turn"""
    _takes(words, 1, "show [last]")
    if words and words[0] != "last":
        raise ConfigError(f"%agent: unexpected {words[0]!r}. Usage: %agent show [last]")
    if sessions.last is None:
        return "No turn has run yet."
    return _shown(sessions, "", sessions.last)


def _shown(sessions: Sessions, heading: str, view: TurnView) -> str:
    """A transcript below a heading: published in a notebook, as text in a terminal."""
    if not hasattr(sessions.notebook.shell, "kernel"):
        return "\n".join([*([heading] if heading else []), plain_transcript(view)])
    if heading:
        print(without_secrets(heading))  # noqa: T201 (above what is published)
    publish(view)
    return ""


def _tools(sessions: Sessions, words: list[str]) -> Report:
    """the tools that the model may call"""
    _takes(words, 0, "tools")
    tools = sessions["default"].equipment.tools
    return report(
        table((tool.name, tool.effect, tool.spec.description.splitlines()[0]) for tool in tools)
    )


def _usage(sessions: Sessions, words: list[str]) -> Report | str:
    """tokens and cost so far, by session and turn"""
    _takes(words, 0, "usage")
    rows: list[tuple[str, str, str]] = []
    base = sessions.notebook.settings().settings.api_base
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


def _reset(sessions: Sessions, words: list[str]) -> str:
    """forget the conversation; variables and files stay"""
    _takes(words, 1, "reset [SESSION]")
    name = words[0] if words else "default"
    if words and name not in sessions.names:
        raise ConfigError(f"%agent reset: there is no session {name!r}.")
    sessions[name].reset()
    return ""


def _log(sessions: Sessions, words: list[str]) -> str:
    """the run logs: list, show, search; remove what is kept no longer, conversations, too"""
    notebook = sessions.notebook
    if words[:1] == ["clean"]:
        return clean_command(words[1:], notebook)
    folder = notebook.workspace.state_folder / "logs"
    return log_command(
        words, folder, notebook.log_path, lambda heading, view: _shown(sessions, heading, view)
    )


def _takes(words: list[str], most: int, usage: str) -> None:
    if len(words) > most:
        raise ConfigError(f"%agent: unexpected {words[most]!r}. Usage: %agent {usage}")


def _skills(sessions: Sessions, words: list[str]) -> str:
    """the skills, or one of them; what is wrong with them; trust or no longer trust one"""
    notebook = sessions.notebook
    if words[:1] in (["trust"], ["revoke"]):
        notebook.refuse_while_busy()  # the agent's code must not trust what it found or wrote
    return skills_command(words, notebook.skill_places, notebook.workspace.root)


def _notes(sessions: Sessions, words: list[str]) -> str:
    """the notes: list, show, edit, delete"""
    if words[:1] in (["edit"], ["delete"]):
        sessions.notebook.refuse_while_busy()
    return notes_command(sessions["default"].equipment.knowledge.notes, words)


def _memory(sessions: Sessions, words: list[str]) -> str:
    """workspace memory: show, search, review, rebuild; what other sessions do"""
    if words[:1] in (["confirm"], ["rebuild"]):
        sessions.notebook.refuse_while_busy()
    knowledge = sessions["default"].equipment.knowledge
    if knowledge.memory is None:
        raise ConfigError(knowledge.problem)
    return memory_command(knowledge.memory.store, knowledge.memory.search, words)


def _mcp(sessions: Sessions, words: list[str]) -> str:
    """the MCP servers, their tools; end one, trust one"""
    if words[:1] in (["restart"], ["trust"], ["revoke"]):
        sessions.notebook.refuse_while_busy()
    return mcp_command(sessions.notebook.servers, words)


def _trust(sessions: Sessions, words: list[str]) -> str:
    """show what this folder's settings, servers, skills and recordings would do, and trust them"""
    sessions.notebook.refuse_while_busy()
    return trust_command(sessions.notebook, words)


def _undo(sessions: Sessions, words: list[str]) -> str:
    """take back what turns did to files and variables; see what that would do"""
    notebook = sessions.notebook
    notebook.refuse_while_busy()
    done = notebook.safekeeping.undo(words, notebook.settings().settings.undo)
    if done.news:
        for name in sessions.names:
            sessions[name].equipment.news.append(done.news)
    return done.text


def _cells(sessions: Sessions, words: list[str]) -> str:
    """put what the agent ran in the last turn into a cell below, cleaned"""
    shell = sessions.notebook.shell
    text = cells_command(words, sessions.last, opaque_names(shell.user_ns))
    shell.set_next_input(text, replace=False)
    return ""


def _export(sessions: Sessions, words: list[str]) -> str:
    """write the last turn to a notebook, a cell for each step"""
    notebook = sessions.notebook
    notebook.refuse_while_busy()
    opaque = opaque_names(notebook.shell.user_ns)
    before = notebook.recent.worked
    return export_command(words, sessions.last, notebook.workspace, opaque, before)


def _compact(sessions: Sessions, words: list[str]) -> str:
    """shorten the conversation now"""
    raise ConfigError("%agent compact stands on a line of its own.")


def _resume(sessions: Sessions, words: list[str]) -> str:
    """go on with a turn that ended without an answer, also after a restart"""
    raise ConfigError("%agent resume stands on a line of its own.")


COMMANDS: dict[str, Command] = {
    "help": Command(_help, "[COMMAND]"),
    "status": Command(_status),
    "config": Command(_config, "[KEY [VALUE]]"),
    "cassette": Command(_cassette, "[FILE]"),
    "context": Command(_context, "[all] [TASK]"),
    "history": Command(_history, "[SESSION]"),
    "show": Command(_show, "[last]"),
    "tools": Command(_tools),
    "skills": Command(_skills, "[NAME | check [FOLDER] | trust NAME | revoke NAME]"),
    "notes": Command(_notes, NOTES_USAGE.removeprefix("notes ")),
    "memory": Command(_memory, MEMORY_USAGE.removeprefix("memory ")),
    "mcp": Command(_mcp, "[tools NAME | restart NAME | trust NAME | revoke NAME]"),
    "trust": Command(_trust, TRUST_USAGE.removeprefix("trust ")),
    "usage": Command(_usage),
    "reset": Command(_reset, "[SESSION]"),
    "resume": Command(_resume, "[--trust] [OPTIONS]"),
    "undo": Command(_undo, "[show] [N] [--over FILE ...] | list | redo"),
    "compact": Command(_compact, "[SESSION]"),
    "cells": Command(_cells),
    "export": Command(_export, "FILE.ipynb"),
    "log": Command(_log, LOG_WORDS),
}
