"""`%agent COMMAND`: see and steer the agent."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from jupyter_agent import config
from jupyter_agent.codec import message_to_json
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.pricing import cost, in_dollars
from jupyter_agent.llm.tokens import count_tokens
from jupyter_agent.magics.ask import Sessions, publish, sessions_of
from jupyter_agent.mcp.command import mcp_command
from jupyter_agent.memory.commands import memory_command, notes_command
from jupyter_agent.messages import Context, Usage
from jupyter_agent.skills.report import skills_command
from jupyter_agent.version import __version__
from jupyter_agent.widgets.saved import plain_transcript

Command = Callable[[Sessions, list[str]], str]


def run_command(shell: Any, line: str) -> None:
    """Run one command and print what it says. Raises `ConfigError` with one line."""
    name, _, rest = line.strip().partition(" ")
    name = name or "help"
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"The commands are: {', '.join(COMMANDS)}."
        raise ConfigError(f"%agent: there is no command {name!r}. {hint}")
    try:
        # A task is written as people write: an apostrophe opens no quotation there.
        words = rest.split() if name == "context" else shlex.split(rest)
    except ValueError as error:
        raise ConfigError(f"%agent: {error}.") from None
    text = COMMANDS[name](sessions_of(shell), words)
    if text:
        print(text)  # noqa: T201 (a command's output is what the cell prints)


def _help(sessions: Sessions, words: list[str]) -> str:
    """what the commands are"""
    lines = [f"  %agent {name:<10} {command.__doc__}" for name, command in COMMANDS.items()]
    return "\n".join(
        ["%%agent on the first line of a cell gives the agent the task below it.", *lines]
    )


def _status(sessions: Sessions, words: list[str]) -> str:
    """the model, the mode, the workspace, the sessions"""
    _takes(words, 0, "status")
    notebook, settings = sessions.notebook, sessions.notebook.settings().settings
    cassette = notebook.cassette
    names = [f"{name} ({sessions[name].turns} turns)" for name in sessions.names]
    granted = sorted(
        {kind for name in sessions.names for kind in sessions[name].permissions.granted}
    )
    return "\n".join(
        [
            f"jupyter_agent {__version__}",
            f"mode       {settings.mode}",
            f"provider   {settings.provider or '(by the environment)'}",
            f"model      {settings.model or '(the default)'}",
            f"workspace  {notebook.workspace.root}",
            f"cassette   {cassette.name if cassette else '(none)'}",
            f"sessions   {', '.join(names) or '(none yet)'}",
            f"approvals  {settings.approvals.mode}"
            + (f"; allowed in this session: {', '.join(granted)}" if granted else ""),
            *(f"notice     {notice}" for notice in sessions["default"].knowledge.notices),
        ]
    )


def _config(sessions: Sessions, words: list[str]) -> str:
    """the settings; with KEY one of them; with KEY VALUE set it"""
    if len(words) > 2:
        raise ConfigError("%agent config takes KEY, or KEY VALUE. Put quotes around spaces.")
    if len(words) == 2:
        sessions.notebook.set(*words)
        return ""
    resolved = sessions.notebook.settings()
    keys = [config.describe(words[0]).key] if words else config.keys()
    rows = []
    for key in keys:
        note = " (no effect in this version)" if config.describe(key).reserved else ""
        value = config.shown(resolved.settings, key)
        rows.append(f"{key:<24} {value:<20} {resolved.source_of(key)}{note}")
    return "\n".join(rows)


def _cassette(sessions: Sessions, words: list[str]) -> str:
    """the cassette in use; with FILE use that one"""
    from jupyter_agent.llm.cassette import load

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
    return (
        f"Cassette {path.name}: {len(tape.turns)} turns, {tape.replies} {tape.source} replies"
        + (f" of {tape.model}." if tape.source == "recorded" else ".")
    )


def _context(sessions: Sessions, words: list[str]) -> str:
    """what the next turn would send; with TASK for that task; with all [TASK] the request"""
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
    counts = [f"{name:<24} {count_tokens(text):>7,} tokens" for name, text in rows]
    more = "The first turn adds the tools of MCP servers." if session.awaits_servers else ""
    parts = [more, rules, context or "Nothing is told of the kernel."]
    return "\n\n".join(["\n".join(counts), *(part for part in parts if part)])


def _show(sessions: Sessions, words: list[str]) -> str:
    """the transcript of the last turn"""
    _takes(words, 1, "show [last]")
    if words and words[0] != "last":
        raise ConfigError(f"%agent: unexpected {words[0]!r}. Usage: %agent show [last]")
    if sessions.last is None:
        return "No turn has run yet."
    if not hasattr(sessions.notebook.shell, "kernel"):
        return plain_transcript(sessions.last)
    publish(sessions.last)
    return ""


def _tools(sessions: Sessions, words: list[str]) -> str:
    """the tools that the model may call"""
    _takes(words, 0, "tools")
    tools = sessions["default"].tools
    return "\n".join(
        f"{tool.name:<16} {tool.effect:<9} {tool.spec.description.splitlines()[0]}"
        for tool in tools
    )


def _usage(sessions: Sessions, words: list[str]) -> str:
    """tokens and cost so far, by session and turn"""
    _takes(words, 0, "usage")
    rows: list[str] = []
    base = sessions.notebook.settings().settings.api_base
    begun = [(name, sessions[name]) for name in sessions.names if sessions[name].turns]
    for name, session in begun:
        costs = [cost(t.provider, t.model, t.usage, base) for t in session.turn_usages]
        known = [amount for amount in costs if amount is not None]
        total = sum(known, Decimal(0)) if len(known) == len(costs) else None
        rows.append(f"{name:<12} {session.turns} turns, {_tokens(session.usage, total)}")
        rows += [
            f"  turn {number:<5} {_tokens(turn.usage, amount)}, {turn.model}"
            for number, (turn, amount) in enumerate(zip(session.turn_usages, costs, strict=True), 1)
        ]
    return "\n".join(rows) or "No turn has run yet."


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
    """where the run log of the last turn is"""
    _takes(words, 0, "log")
    path = sessions.notebook.log_path
    return str(path) if path else "No turn has been logged yet."


def _takes(words: list[str], most: int, usage: str) -> None:
    if len(words) > most:
        raise ConfigError(f"%agent: unexpected {words[most]!r}. Usage: %agent {usage}")


def _skills(sessions: Sessions, words: list[str]) -> str:
    """the skills; with NAME one of them; check [FOLDER]; trust NAME; revoke NAME"""
    notebook = sessions.notebook
    if words[:1] in (["trust"], ["revoke"]):
        notebook.refuse_while_busy()  # the agent's code must not trust what it found or wrote
    return skills_command(words, notebook.skill_places, notebook.workspace.root)


def _notes(sessions: Sessions, words: list[str]) -> str:
    """the notes; show N; edit N TEXT; delete N"""
    if words[:1] in (["edit"], ["delete"]):
        sessions.notebook.refuse_while_busy()
    return notes_command(sessions["default"].knowledge.notes, words)


def _memory(sessions: Sessions, words: list[str]) -> str:
    """workspace memory: show SCOPE; search WORDS; review; confirm SCOPE ID; rebuild; sessions"""
    if words[:1] in (["confirm"], ["rebuild"]):
        sessions.notebook.refuse_while_busy()
    knowledge = sessions["default"].knowledge
    if knowledge.memory is None:
        raise ConfigError(knowledge.problem)
    return memory_command(knowledge.memory.store, knowledge.memory.search, words)


def _mcp(sessions: Sessions, words: list[str]) -> str:
    """the MCP servers; tools NAME; restart NAME; trust NAME; revoke NAME"""
    if words[:1] in (["restart"], ["trust"], ["revoke"]):
        sessions.notebook.refuse_while_busy()
    return mcp_command(sessions.notebook.servers, words)


def _resume(sessions: Sessions, words: list[str]) -> str:
    """go on with a turn that ended without an answer; takes the options of %%agent"""
    raise ConfigError("%agent resume stands on a line of its own.")


COMMANDS: dict[str, Command] = {
    "help": _help,
    "status": _status,
    "config": _config,
    "cassette": _cassette,
    "context": _context,
    "show": _show,
    "tools": _tools,
    "skills": _skills,
    "notes": _notes,
    "memory": _memory,
    "mcp": _mcp,
    "usage": _usage,
    "reset": _reset,
    "resume": _resume,
    "log": _log,
}
