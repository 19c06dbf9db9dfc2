"""The options of a turn, as the first line of an `%%agent` cell gives them."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem

from jupyter_agent import config
from jupyter_agent.agent.prompts import render
from jupyter_agent.errors import ConfigError

if TYPE_CHECKING:
    from jupyter_agent.session.registry import KernelSessions

CELL_MAGIC = "%%agent"
GO_ON = "Go on with the task where you stopped."
"""The task of a turn that `%agent resume` starts."""
CARRY_OUT = "Carry out your plan."
"""The task of a turn that `%agent go` starts."""
TurnKind = Literal["work", "plan", "go", "vote", "verify"]
"""What a turn is for: `plan` looks and changes nothing, `go` carries out the plan of one before,
`vote` compares several attempts (`answers.samples`). `verify` is a delegate's, which computes the
numbers of an answer anew (`answers.verify`)."""


def note_of(kind: TurnKind) -> str:
    """What the model reads beside the task about the kind of its turn; empty for `work`."""
    return "" if kind == "work" else render(kind)


def is_note(text: str, *kinds: TurnKind) -> bool:
    """True for the note of one of these kinds, also of another version of the package."""
    return any(text.startswith(note_of(kind).partition(".")[0]) for kind in kinds)


def go_line(session_name: str) -> str:
    """The line that carries out a session's plan."""
    named = "" if session_name == "default" else f" --session {shlex.quote(session_name)}"
    return f"%agent go{named}"


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """The options of one turn.

    Attributes:
        settings: The settings for this turn only.
        session: The name of the conversation.
        fresh: True forgets that conversation first.
        skills: The names of the skills to load for the task.
        into: The variable that gets the answer; empty for none.
        kind: What the turn is for.
    """

    settings: config.Layer
    session: str = "default"
    fresh: bool = False
    skills: tuple[str, ...] = ()
    into: str = ""
    kind: TurnKind = "work"


class _Value(click.types.StringParamType):
    """The value of an option. Another option in its place is an error, not its value."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value.startswith("--") and param is not None:
            raise click.BadOptionUsage(param.opts[0], "", ctx)
        return value


class _Option(click.Option):
    """An option of a turn.

    Args:
        name: The option's flag, for instance `--model`.
        value: The word for its value; empty for a flag.
        help: The description of the option.
        setting: The key of the setting that it sets; empty if it sets none.
    """

    def __init__(self, name: str, value: str, help: str, setting: str = "", **more: Any) -> None:
        kind = {"metavar": value, "type": _Value()} if value else {"is_flag": True}
        super().__init__([name], help=help, **kind, **more)
        self.setting = setting

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if self.setting:
            return [CompletionItem(word) for word in config.choices(self.setting)]
        return super().shell_complete(ctx, incomplete)


def _sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    sessions: KernelSessions = ctx.obj
    return list(sessions.names)


def _skills(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from jupyter_agent.skills.discovery import discover

    sessions: KernelSessions = ctx.obj
    return [skill.name for skill in discover(sessions.kernel.skill_places()).skills]


OPTIONS = click.Command(
    "agent",
    params=[
        _Option("--provider", "P", "anthropic, openai, local or scripted", "provider"),
        _Option("--model", "M", "the model's id", "model"),
        _Option("--max-steps", "N", "the most model calls of the turn", "max_steps"),
        _Option("--approve", "MODE", "read_only, ask_risky, ask_all or auto", "approvals.mode"),
        _Option(
            "--context",
            "LEVEL",
            "what is sent of variables and cells: none, names, schema or sample",
            "context.detail",
        ),
        _Option("--samples", "N", "attempts; the most frequent value is taken", "answers.samples"),
        _Option(
            "--verify",
            "",
            "a delegate computes the answer's numbers anew, without seeing code or numbers",
            "answers.verify",
            default=None,
        ),
        _Option("--budget", "USD", "the most that the turn may cost, in US dollars", "budget.usd"),
        _Option(
            "--session",
            "NAME",
            "the conversation to continue; default without it",
            shell_complete=_sessions,
        ),
        _Option("--fresh", "", "forget the conversation first"),
        _Option(
            "--skill", "NAME", "a skill to load for the task", multiple=True, shell_complete=_skills
        ),
        _Option("--into", "NAME", "a variable that gets the answer"),
        _Option("--plan", "", "change nothing: look, compute, and end with a plan for %agent go"),
        click.Argument(["task"], nargs=-1, metavar=""),
    ],
    add_help_option=False,
    help="Give the agent a task in plain words, on the lines below. It works in this kernel.",
)


def option_rows() -> list[tuple[str, str]]:
    """Each option with its value's word, and its description."""
    return [
        (f"{option.opts[0]} {option.metavar or ''}".rstrip(), option.help or "")
        for option in OPTIONS.params
        if isinstance(option, click.Option)
    ]


def options_help() -> str:
    """The list of options that `%%agent?` shows."""
    context = click.Context(OPTIONS, info_name=CELL_MAGIC, terminal_width=100)
    return OPTIONS.get_help(context)


def parse_line(line: str) -> TurnOptions:
    """Read the rest of the first line of an `%%agent` cell.

    Raises:
        ConfigError: An option does not exist or lacks its value, or the line holds other words.
    """
    lexer = shlex.shlex(line, posix=False)  # an apostrophe within a word opens no quotation
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise ConfigError(f"{CELL_MAGIC}: {error}.") from None
    return parse_options(words)


def parse_options(words: Sequence[str], where: str = CELL_MAGIC) -> TurnOptions:
    """Read the options of a turn.

    Args:
        words: The options and their values.
        where: The place that errors name.

    Raises:
        ConfigError: An option does not exist or lacks its value, or there are other words.
    """
    try:
        given = OPTIONS.make_context(where, list(words)).params
    except click.NoSuchOption as error:
        raise ConfigError(f"{where}: {_unknown(error.option_name)}") from None
    except click.BadOptionUsage as error:
        raise ConfigError(f"{where}: {_misused(error.option_name)}") from None
    if given["task"]:
        raise ConfigError(
            f"{where}: unexpected {' '.join(given['task'])!r}. The first line takes options only; "
            "the task goes on the lines below it."
        )
    into = given["into"] or ""
    if into and (not into.isidentifier() or iskeyword(into)):
        raise ConfigError(f"{where}: --into needs a variable's name, not {into!r}.")
    if given["verify"] and given["plan"]:
        raise ConfigError(
            f"{where}: --verify checks an answer, and --plan ends with a plan. Use one."
        )
    if given["verify"] and given["samples"] not in (None, "1"):
        raise ConfigError(
            f"{where}: --verify checks one attempt, and --samples compares several. Use one."
        )
    return TurnOptions(
        settings=config.layer(where, _settings(given), text=True),
        session=given["session"] or "default",
        fresh=given["fresh"],
        skills=tuple(given["skill"]),
        into=into,
        kind="plan" if given["plan"] else "work",
    )


def _settings(given: Mapping[str, Any]) -> dict[str, object]:
    options = (option for option in OPTIONS.params if isinstance(option, _Option))
    values = {option.setting: given[option.name or ""] for option in options if option.setting}
    return {key: value for key, value in values.items() if value is not None}


def _unknown(name: str) -> str:
    options = [option.opts[0] for option in OPTIONS.params if isinstance(option, click.Option)]
    near = difflib.get_close_matches(name, options, 1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"The options are: {', '.join(options)}."
    return f"there is no option {name}. {hint}"


def _misused(name: str) -> str:
    is_flag = any(
        name in option.opts and getattr(option, "is_flag", 0) for option in OPTIONS.params
    )
    return f"{name} takes no value." if is_flag else f"argument {name}: expected one argument."
