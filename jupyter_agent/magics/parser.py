"""The declaration of a `%agent` command: click's, with usage, help and errors in one line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from jupyter_agent.core.plaintext import plain
from jupyter_agent.errors import AgentError, ConfigError, ToolError

OWN = ""
"""The name of a family's own form among its commands."""


class Unexpected(click.UsageError):
    """A word that the command does not take."""

    def __init__(self, word: str, context: click.Context | None = None) -> None:
        super().__init__(f"unexpected {plain(word)!r}", context)


class Unknown(click.UsageError):
    """A word in the place of a command that does not exist."""

    def __init__(self, word: str, context: click.Context) -> None:
        super().__init__("", context)
        self.word = word


class Word(click.types.StringParamType):
    """One of a few fixed words.

    Args:
        meanings: The words, each with its description.
    """

    name = "word"

    def __init__(self, meanings: Mapping[str, str]) -> None:
        self.meanings = meanings

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.meanings:
            raise Unexpected(value, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.meanings]


class PositiveNumber(click.types.IntParamType):
    """A number from 1.

    Args:
        error: The error about any other word, with `{!r}` for that word.
    """

    name = "number"

    def __init__(self, error: str = "{!r} is no number from 1") -> None:
        self._error = error

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        word = str(value)
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word)):
            raise click.UsageError(self._error.format(plain(word)), ctx)
        return int(word)


class Argument(click.Argument):
    """A positional word whose value the user chooses.

    Args:
        help: The description of the word.
        needed: The error if the word is left out.
    """

    def __init__(self, *args: Any, help: str = "", needed: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.help = help
        self.needed = needed


class Rest(click.Option):
    """An option that takes all words after it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        more["multiple"] = True
        super().__init__(*args, **more)


class _Described:
    """The attributes of a command that click does not have.

    Args:
        heading: The heading of the command in the help.
        examples: Lines to type, each with its effect.
        is_named: True if errors about unexpected words begin with the command's own name and end
            with its own usage; others begin with `%agent` and end with the whole usage.
        is_prose: True if the words are plain text, in which an apostrophe opens no quotation.
    """

    ignore_unknown_options = True

    def __init__(
        self,
        *args: Any,
        heading: str = "",
        examples: Mapping[str, str] | None = None,
        is_named: bool = False,
        is_prose: bool = False,
        **more: Any,
    ) -> None:
        more["add_help_option"] = False
        super().__init__(*args, **more)
        self.heading = heading
        self.examples = examples or {}
        self.is_named = is_named
        self.is_prose = is_prose


class Command(_Described, click.Command):
    """A command: a function with the declaration of its words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = self._repeated(args)
        # Without an option the words are the user's text: `--` in it is a word, too.
        ctx.allow_interspersed_args = any(isinstance(p, click.Option) for p in self.params)
        if not ctx.resilient_parsing:
            try:
                _, surplus, _ = self.make_parser(ctx).parse_args(args=list(args))
            except click.BadOptionUsage as error:
                raise Unexpected(error.option_name, ctx) from None
            if surplus:
                raise Unexpected(surplus[0], ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ToolError as error:
            raise AgentError(f"{' '.join(_names(_contexts(ctx)))}: {error}") from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        open_ended = [param for param in self.params if param.nargs == -1]
        items = [item for param in open_ended for item in param.shell_complete(ctx, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *items]

    def _repeated(self, args: list[str]) -> list[str]:
        """`--over a b` as `--over a --over b`, which click reads."""
        for option in self.params:
            if isinstance(option, Rest) and option.opts[0] in args[:-1]:
                at = args.index(option.opts[0])
                values = [word for value in args[at + 1 :] for word in (option.opts[0], value)]
                return [*args[:at], *values]
        return args


_NOTHING = Command("")
"""The command for an unknown word on Tab: nothing can follow it."""


class Family(_Described, click.Group):
    """A command with commands of its own, such as `%agent log show`.

    Args:
        own: The form that runs if the first word is none of the commands.
        default: The command that runs without words if there is no own form.
    """

    def __init__(
        self, *args: Any, own: click.Command | None = None, default: str = OWN, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.own_params = own.params if own is not None else []
        self.default = default
        if own is not None:
            self.commands[OWN] = own

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and self.own_params:
            args = [OWN, *args]
        if not args and not ctx.resilient_parsing:  # on Tab the commands are offered instead
            args = [self.default]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = self.commands.get(args[0])
        if found is None and not ctx.resilient_parsing:
            raise Unknown(args[0], ctx)
        return args[0], found or _NOTHING, args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        params = self.own_params
        own = [item for param in params for item in param.shell_complete(ctx, incomplete)]
        options = [CompletionItem(p.opts[0]) for p in params if isinstance(p, click.Option)]
        return [*(CompletionItem(name) for name in self.commands if name), *own, *options]


def argument(*args: Any, **more: Any) -> Callable[..., Any]:
    """Declare a word of a command, with `Argument`'s arguments."""
    return click.argument(*args, cls=Argument, **more)


def command(name: str, **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command, with `Command`'s arguments."""
    return click.command(name, cls=Command, **more)


def family(name: str, **more: Any) -> Callable[[Callable[..., Any]], Family]:
    """Make a function the own form of a family, with `Family`'s arguments."""

    def made(function: Callable[..., Any]) -> Family:
        own = command(name)(function)
        return Family(name, own=own, help=own.help, **more)

    return made


# Usage and help ----------------------------------------------------------------------------------


def words(command: click.Command) -> str:
    """The words of a command, as its usage shows them."""
    if not isinstance(command, Family):
        return _words(command.params)
    own = _words(command.own_params)
    others = {name: words(each) for name, each in command.commands.items() if name}
    # `undo [N]` and `undo show [N]` are shown as `undo [show] [N]`.
    prefixes = [name for name, each in others.items() if own and each == own]
    rest = [f"{name} {each}".rstrip() for name, each in others.items() if name not in prefixes]
    if prefixes:
        return " | ".join([f"[{' | '.join(prefixes)}] {own}", *rest])
    return f"[{' | '.join([*([own[1:-1]] if own else []), *rest])}]"


def _words(params: Sequence[click.Parameter]) -> str:
    text = ""
    after: click.Parameter | None = None
    for param in reversed(params):
        shown = _shown(param)
        if isinstance(param, click.Option):
            text = text if param.hidden else f"[{shown}] {text}"
        elif param.required:
            text = f"{shown} {text}"
        elif isinstance(after, click.Argument):  # the next word is allowed only after this one
            text = f"[{shown} {text}]"
        else:
            text = f"[{shown}] {text}"
        text, after = text.strip(), param
    return text


def _shown(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return param.opts[0] if param.is_flag else f"{param.opts[0]} {param.metavar}"
    if isinstance(param.type, Word):
        return (" | " if param.nargs == 1 else "] [").join(param.type.meanings)
    return param.metavar or ""


def usage(command: click.Command, name: str) -> str:
    """The line of a command with its words: `%agent config [KEY [VALUE]]`."""
    return f"%agent {name} {words(command)}".rstrip()


def about(command: click.Command) -> str:
    """The description of a command in a line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def details(command: click.Command) -> str:
    """The further description of a command, in paragraphs."""
    paragraphs = (command.help or "").split("\n\n")[1:]
    return "\n\n".join(" ".join(text.split()) for text in paragraphs)


def meanings(command: click.Command) -> list[tuple[str, str]]:
    """The commands, words and options of a command, each with its description."""
    if not isinstance(command, Family):
        return _meanings(command.params)
    rows, own = [], _meanings(command.own_params)
    for name, each in command.commands.items():
        if name:
            rows.append((f"{name} {words(each)}".rstrip(), about(each)))
            for word, meaning in _meanings(each.params):
                # A fixed word or an option belongs to its command; `N` means the same in each.
                shown = word if word[0].isupper() else f"{name} {word}"
                own += [(shown, meaning)] if (word, meaning) not in own else []
    return [*rows, *dict.fromkeys(own)]


def _meanings(params: Iterable[click.Parameter]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for param in params:
        if isinstance(param.type, Word):
            rows += param.type.meanings.items()
        elif isinstance(param, Argument | click.Option) and param.help:
            rows.append((_shown(param), param.help))
    return rows


# Running and completing --------------------------------------------------------------------------


def run(root: Family, args: Sequence[str], sessions: Any) -> Any:
    """Run a command and return what its function returns.

    Args:
        root: The family of all commands.
        args: The words.
        sessions: The kernel's sessions, the first argument of each function.

    Raises:
        ConfigError: The words are wrong; the message is one line with the error and the usage.
    """
    try:
        with root.make_context("%agent", list(args), obj=sessions) as context:
            return root.invoke(context)
    except click.UsageError as error:
        raise ConfigError(explained(error)) from None


def completions(
    command: click.Command, args: Sequence[str], begun: str, sessions: Any
) -> Iterable[str]:
    """The completions after some words, by the declarations; options if there is nothing else."""
    asked = ShellComplete(command, {"obj": sessions}, "%agent", "")
    found = asked.get_completions(list(args), begun)
    if not found and not begun:
        found = asked.get_completions(list(args), "--")
    return [item.value for item in found]


def explained(error: click.UsageError) -> str:
    """An error in one line: the wrong word, and the right form."""
    context = error.ctx
    assert context is not None
    contexts = _contexts(context)
    if isinstance(error, Unknown):
        return _unknown(error, contexts)
    # The last command with errors of its own (`is_named`), else the one after `%agent`.
    depth = max(
        (n for n, each in enumerate(contexts) if getattr(each.command, "is_named", False)),
        default=1,
    )
    names, command = _names(contexts[: depth + 1]), contexts[depth].command
    shown = f"Usage: {usage(command, ' '.join(names[1:]))}"
    is_named = getattr(command, "is_named", False)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        what = getattr(error.param, "needed", "") or f"{_shown(error.param)} is needed"
        path = _names(contexts)
        head = " ".join(path) if len(path) > 2 else "%agent"
        return f"{head}: {what}. {shown}"
    is_general = isinstance(error, Unexpected) and not is_named
    return f"{'%agent' if is_general else ' '.join(names)}: {error.message}. {shown}"


def _unknown(error: Unknown, contexts: Sequence[click.Context]) -> str:
    family, names = contexts[-1].command, _names(contexts)
    assert isinstance(family, Family)
    commands = [name for name in family.commands if name]
    near = difflib.get_close_matches(error.word, commands, 1)
    is_root = len(contexts) == 1
    others = f"The commands are: {', '.join(commands)}." if is_root else ""
    hint = f"Did you mean {near[0]}?" if near else others or f"Usage: {usage(family, names[-1])}"
    return f"{' '.join(names)}: there is no {'command ' * is_root}{plain(error.word)!r}. {hint}"


def _names(contexts: Iterable[click.Context]) -> list[str]:
    """The words that lead to a command: `%agent`, `log`, `show`."""
    return [each.info_name for each in contexts if each.info_name]


def _contexts(context: click.Context) -> list[click.Context]:
    """A context and those above it, the outermost first."""
    return [*(_contexts(context.parent) if context.parent is not None else ()), context]
