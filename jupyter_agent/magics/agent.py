"""`%%agent`: read the line, run the turn, keep the answer."""

from __future__ import annotations

import difflib
from argparse import Namespace
from keyword import iskeyword
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

from jupyter_agent import config
from jupyter_agent.errors import ConfigError
from jupyter_agent.magics.ask import run_and_show
from jupyter_agent.magics.report import errors_without_secrets
from jupyter_agent.session.registry import sessions_of

WHERE = "%%agent"
TRUST = "--trust"
GO_ON = "Go on with the task where you stopped."
_SETTINGS = {
    "provider": "provider",
    "model": "model",
    "max_steps": "max_steps",
    "approve": "approvals.mode",
    "context": "context.detail",
    "budget": "budget.usd",
}


async def run_agent_cell(shell: Any, magic: Any, line: str, cell: str) -> None:
    """Run one `%%agent` cell.

    Args:
        shell: The IPython shell.
        magic: The magic function, which carries the parser of its arguments.
        line: The rest of the first line.
        cell: The task.
    """
    with errors_without_secrets():
        arguments = parse_line(magic, line)
        answer = await run_and_show(
            sessions_of(shell),
            cell,
            _turn(arguments),
            arguments.session or "default",
            arguments.fresh,
            arguments.skill or (),
        )
    if arguments.into:
        shell.user_ns[arguments.into] = answer


async def resume_turn(shell: Any, magic: Any, line: str) -> None:
    """`%agent resume`: go on with a turn that ended without an answer. Takes `%%agent`'s options.

    After a restart it first brings back the conversation of the earlier kernel; `--trust` also one
    that came with the folder.

    Raises:
        ConfigError: The last turn ended with an answer, or there was none.
        AgentError: The conversation is not this person's, and they did not say `--trust`.
    """
    words = line.split()
    trusted = TRUST in words
    line = " ".join(word for word in words if word != TRUST) if trusted else line
    arguments = parse_line(magic, line)
    sessions, name = sessions_of(shell), arguments.session or "default"
    session = sessions[name]
    wanted = not session.is_restored and (trusted or not session.last_stop)
    came_back = session.restore(trusted) if wanted else ""
    if came_back:
        print(came_back)  # noqa: T201 (a command's output is what the cell prints)
    stop = session.last_stop
    if came_back and stop == "end":
        return
    if stop is None:
        raise ConfigError("%agent resume: no turn has run in this session yet.")
    if stop == "end":
        raise ConfigError("%agent resume: the last turn ended with an answer. Give a new task.")
    with errors_without_secrets():
        answer = await run_and_show(sessions, GO_ON, _turn(arguments), name, fresh=False)
    if arguments.into:
        shell.user_ns[arguments.into] = answer


async def compact_now(shell: Any, rest: str) -> None:
    """`%agent compact [SESSION]`: shorten the conversation, and say by how much.

    Raises:
        ConfigError: There is no such session, or it has no conversation yet.
    """
    sessions, name = sessions_of(shell), rest.strip() or "default"
    if name not in sessions.names or not sessions[name].history:
        raise ConfigError(f"%agent compact: the session {name!r} has no conversation yet.")
    done = await sessions[name].compact()
    if not done.gained:
        print(f"The conversation has about {done.before:,} tokens: nothing can be left out.")  # noqa: T201
        return
    lines = [f"About {done.before:,} tokens, now {done.after:,}.", *done.dropped]
    print("\n".join(lines))  # noqa: T201 (a command's output is what the cell prints)


def _turn(arguments: Namespace) -> config.Layer:
    """The settings that the line gives for its turn."""
    given = {
        key: getattr(arguments, name)
        for name, key in _SETTINGS.items()
        if getattr(arguments, name) is not None
    }
    return config.layer(WHERE, given, text=True)


def parse_line(magic: Any, line: str) -> Namespace:
    """The arguments of the magic's line. Raises `ConfigError` with one line."""
    magic.parser.allow_abbrev = False
    try:
        arguments: Namespace = parse_argstring(magic, line)
    except (UsageError, ValueError) as error:
        raise ConfigError(f"{WHERE}: {_explained(magic, str(error))}") from None
    if arguments.task:
        raise ConfigError(
            f"{WHERE}: unexpected {' '.join(arguments.task)!r}. The first line takes options only; "
            "the task goes on the lines below it."
        )
    if arguments.into and (not arguments.into.isidentifier() or iskeyword(arguments.into)):
        raise ConfigError(f"{WHERE}: --into needs a variable's name, not {arguments.into!r}.")
    return arguments


def _explained(magic: Any, message: str) -> str:
    """The parser's words, with the nearest option for one that does not exist."""
    options = [o for action in magic.parser._actions for o in action.option_strings]
    unknown = next((w for w in message.split() if w.startswith("-") and w not in options), "")
    if "unrecognized" not in message:
        return f"{message}."
    near = difflib.get_close_matches(unknown, options, 1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else f" The options are: {', '.join(options)}."
    return f"there is no option {unknown or message}.{hint}"
