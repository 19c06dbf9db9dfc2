"""`%agent context`, `history`, `reset`, `resume` and `compact`: the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from jupyter_agent.core import legible
from jupyter_agent.core.codec import message_to_json
from jupyter_agent.core.history import NO_REPLY
from jupyter_agent.core.messages import Context, Message, Said, Text, ToolCall, ToolResult
from jupyter_agent.core.plaintext import count
from jupyter_agent.core.tables import Folded, Part, table
from jupyter_agent.core.transcript import CallView
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.tokens import count_tokens
from jupyter_agent.magics.ask import run_and_show
from jupyter_agent.magics.parser import Command, argument, command, completions, family
from jupyter_agent.magics.report import CommandReport, report
from jupyter_agent.session.options import (
    CARRY_OUT,
    GO_ON,
    OPTIONS,
    TurnKind,
    TurnOptions,
    parse_options,
)
from jupyter_agent.session.registry import KernelSessions

_HEADING = "The conversation"
_NO_TASK = "(your task)"


def _task(function: Any) -> Any:
    task = argument(
        "task", nargs=-1, metavar="TASK", help="the task, as you would write it below %%agent"
    )
    return task(click.pass_obj(function))


@family(
    "context",
    heading=_HEADING,
    is_prose=True,
    examples={
        "%agent context": "see what the next turn sends about your variables",
        "%agent context all Plot @sales": "see the whole request for the task `Plot @sales`",
    },
)
@_task
def context(sessions: KernelSessions, task: tuple[str, ...]) -> CommandReport:
    """what the next turn would send to the model; with all, the whole request"""
    session = sessions["default"]
    request, _ = session.preview(" ".join(task) or _NO_TASK)
    told = [b.text for b in request.messages[-1].blocks if isinstance(b, Context)]
    rules = "\n\n".join(text for text in told if text.startswith("<rules "))
    sent = "\n\n".join(text for text in told if not text.startswith("<rules "))
    history = json.dumps([message_to_json(message) for message in request.messages[:-1]])
    tools = "".join(f"{s.name} {s.description} {json.dumps(s.parameters)}" for s in request.tools)
    detail = sessions.kernel.settings().settings.context.detail
    rows = [
        ("system prompt", request.system),
        (f"tools ({len(request.tools)})", tools),
        (f"history ({len(request.messages) - 1} messages)", history),
        (f"context ({detail})", sent),
        *([("rules", rules)] if rules else []),
    ]
    counts = table((name, f"{count_tokens(text):,} tokens") for name, text in rows)
    more = "\n".join(session.setup.comes_later(" ".join(task)))
    return report(counts, more, rules, sent or "Nothing about the kernel is sent.")


@context.command("all", cls=Command)
@_task
def _all(sessions: KernelSessions, task: tuple[str, ...]) -> CommandReport | str:
    """the whole request, exactly as it would be sent"""
    _, body = sessions["default"].preview(" ".join(task) or _NO_TASK, with_body=True)
    if not body:
        return "Nothing is sent."
    text = json.dumps(body, ensure_ascii=False, indent=1)
    return report(*_parts(body), Folded("The same as JSON, as it is sent", (text,)), text=text)


def _parts(value: object) -> Iterator[Part]:
    """A value of a request, for reading: short values in a table, long ones folded."""
    if not isinstance(value, (dict, list)):
        yield _in_words(value)
        return
    if _is_data(value):
        yield json.dumps(value, ensure_ascii=False, indent=1)
        return
    listed = isinstance(value, list)
    named = [(_title(each), each) for each in value] if listed else list(value.items())  # type: ignore[union-attr]
    short = [(name, _in_words(each)) for name, each in named if _is_short(each)]
    if short:
        yield table(short)
    long = [(name, each) for name, each in named if not _is_short(each)]
    for name, each in long:
        if len(long) == 1 and isinstance(each, str):
            yield each
        else:
            yield Folded(f"{name}{_size(each)}", tuple(_parts(each)))


def _in_words(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_short(value: object) -> bool:
    """True for a value that fits into a line."""
    return not isinstance(value, (dict, list)) and len(str(value)) < 100 and "\n" not in str(value)


def _is_data(value: object) -> bool:
    """True for nested values without long texts, such as a schema."""
    if isinstance(value, dict):
        return not {"role", "content"} <= set(value) and all(map(_is_data, value.values()))
    if isinstance(value, list):
        return all(map(_is_data, value))
    return not isinstance(value, str) or ("\n" not in value and len(value) < 300)


def _title(value: object) -> str:
    """A message, a block or a tool of a request in a line."""
    found = value.get("function", value) if isinstance(value, dict) else value
    if not isinstance(found, dict):
        return legible.line(str(found), 80)
    words = [str(found[key]) for key in ("role", "name", "type") if key in found][:1]
    said = next((found[key] for key in ("description", "content", "text") if key in found), "")
    said = said[0] if isinstance(said, list) and said else said
    text = said.get("text", "") if isinstance(said, dict) else said
    return " · ".join([*words, *([legible.line(str(text), 80)] if text else [])])


def _size(value: object) -> str:
    """The length of a list or a text."""
    if isinstance(value, list):
        return f" ({len(value)})"
    return f" ({len(value):,} characters)" if isinstance(value, str) else ""


def _names(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    return list(ctx.obj.names)


def _session(function: Any) -> Any:
    named = argument(
        "name",
        default="default",
        metavar="SESSION",
        help="the conversation's name; without it, the conversation named default",
        shell_complete=_names,
    )
    return named(click.pass_obj(function))


def _check_begun(sessions: KernelSessions, name: str, command: str) -> None:
    if name != "default" and name not in sessions.names:
        raise ConfigError(
            f"%agent {command}: there is no session {name!r}. %agent status lists them."
        )


@command(
    "history",
    heading=_HEADING,
    examples={
        "%agent history": "read the conversation again",
        "%agent history plots": "read the conversation of `%%agent --session plots`",
    },
)
@_session
def history(sessions: KernelSessions, name: str) -> CommandReport | str:
    """the conversation so far, one line for each message and tool call"""
    _check_begun(sessions, name, "history")
    rows = [row for message in sessions[name].history for row in _told(message)]
    return report(table(rows)) if rows else "Nothing has been said yet."


def _told(message: Message) -> Iterator[tuple[str, str]]:
    for text in (b.text for b in message.blocks if isinstance(b, Context)):
        if text.startswith(NO_REPLY):
            yield "no reply", legible.line(text.removeprefix(NO_REPLY), 110)
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


@command(
    "reset",
    heading=_HEADING,
    examples={"%agent reset": "start a new conversation, for example on another subject"},
)
@_session
def reset(sessions: KernelSessions, name: str) -> str:
    """forget the conversation; variables and files stay"""
    _check_begun(sessions, name, "reset")
    turns = sessions[name].turns
    sessions[name].reset()
    if not turns:
        return f"The conversation {name} has not begun: there is nothing to forget."
    return f"The conversation {name} ({count(turns, 'turn')}) is forgotten; all else stays."


def _options_of_go(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    return [*completions(OPTIONS, ctx.params["options"] or (), begun, ctx.obj)]


def _options(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    found = _options_of_go(ctx, param, begun)
    return [*found, *(["--trust"] if "--model" in found else [])]


@command(
    "resume",
    heading=_HEADING,
    examples={
        "%agent resume": "continue where the turn stopped",
        "%agent resume --max-steps 80": "continue, with more steps than before",
    },
)
@click.option(
    "--trust",
    is_flag=True,
    help="continue a conversation even if it came with the folder",
)
@argument(
    "options",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="OPTIONS",
    help="the options of %%agent; %%agent? lists them",
    shell_complete=_options,
)
@click.pass_obj
async def resume(sessions: KernelSessions, trust: bool, options: tuple[str, ...]) -> str:
    """continue a turn that ended without an answer, also after a restart

    After a restart, it first brings back the conversation of the earlier kernel.
    """
    turn = parse_options(options, "%agent resume")
    session = sessions[turn.session]
    wanted = not session.is_restored and (trust or not session.last_stop)
    came_back = session.restore(trust) if wanted else ""
    if came_back:
        print(came_back)  # noqa: T201 (a command's output is what the cell prints)
    stop = session.last_stop
    if came_back and stop == "end":
        return ""
    if stop is None:
        raise ConfigError(
            "%agent resume: no turn has run in this session yet. Give a task first: %%agent"
        )
    if stop == "end":
        raise ConfigError("%agent resume: the last turn ended with an answer. Give a new task.")
    kind: TurnKind = "plan" if turn.kind == "plan" or session.is_planning else "work"
    await _run(sessions, GO_ON, turn, kind)
    return ""


async def _run(sessions: KernelSessions, task: str, turn: TurnOptions, kind: TurnKind) -> None:
    """Run a turn whose task a command gives."""
    answer = await run_and_show(
        sessions, task, turn.settings, turn.session, fresh=False, skills=turn.skills, kind=kind
    )
    if turn.into:
        sessions.kernel.shell.user_ns[turn.into] = answer


@command(
    "go",
    heading=_HEADING,
    examples={
        "%agent go": "carry out the plan of the last `%%agent --plan`",
        "%agent go --approve ask_all": "carry it out, and ask before each call",
    },
)
@argument(
    "options",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="OPTIONS",
    help="the options of %%agent; %%agent? lists them",
    shell_complete=_options_of_go,
)
@click.pass_obj
async def go(sessions: KernelSessions, options: tuple[str, ...]) -> str:
    """carry out the plan that `%%agent --plan` made, also after a restart"""
    turn = parse_options(options, "%agent go")
    if turn.kind == "plan" or turn.fresh:
        raise ConfigError(
            "%agent go carries a plan out: it takes neither --plan nor --fresh. "
            "For a new plan: %%agent --plan"
        )
    session = sessions[turn.session]
    if not session.is_restored and not session.last_stop and (back := session.restore()):
        print(back)  # noqa: T201 (a command's output is what the cell prints)
    if not session.plan_waits:
        raise ConfigError(
            "%agent go: no plan waits in this conversation. Make one first: %%agent --plan"
        )
    await _run(sessions, CARRY_OUT, turn, "go")
    return ""


@command(
    "compact",
    heading=_HEADING,
    examples={"%agent compact": "shorten the old parts before you go on"},
)
@_session
async def compact(sessions: KernelSessions, name: str) -> str:
    """shorten the conversation now"""
    if name not in sessions.names or not sessions[name].history:
        raise ConfigError(
            f"%agent compact: the session {name!r} has no conversation yet. "
            "%agent status lists the sessions."
        )
    done = await sessions[name].compact()
    if not done.gained:
        return f"The conversation has about {done.before:,} tokens: nothing can be left out."
    return "\n".join([f"About {done.before:,} tokens, now {done.after:,}.", *done.dropped])
