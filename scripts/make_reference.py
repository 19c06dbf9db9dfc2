"""Make the reference pages, docs/reference/*.md, from the code that they describe.

    python scripts/make_reference.py            write them
    python scripts/make_reference.py --check    write nothing, fail where a page is out of date

`make docs` writes them, and a test runs the check.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import BaseModel

from jupyter_agent import config, errors
from jupyter_agent.cli import main as command_line
from jupyter_agent.config import Settings
from jupyter_agent.core import events, messages
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.core.messages import EDIT_CELLS
from jupyter_agent.magics import parser as magic_parser
from jupyter_agent.magics.commands import COMMANDS, HEADINGS
from jupyter_agent.recording import cassette
from jupyter_agent.session.options import option_rows
from jupyter_agent.tools.cells import CellEditor, CellSight, StoredCells, cell_tools

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
MADE = "<!-- Made by scripts/make_reference.py from the code. Changes belong there. -->"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):\n((?:[ ]{4}.*\n|\n)*)", re.M)


def main() -> None:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    pages = {PAGES / f"{name}.md": text() for name, text in ALL.items()}
    present = set(PAGES.glob("*.md"))
    stale = sorted(
        {p for p, text in pages.items() if p not in present or p.read_text("utf-8") != text}
        | (present - pages.keys())
    )
    if check:
        if stale:
            names = ", ".join(path.name for path in stale)
            sys.exit(f"Out of date: {names}. Run python scripts/make_reference.py")
        return
    PAGES.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in pages:
            path.write_text(pages[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(pages)} pages in {PAGES.name}, {len(stale)} of them new or changed.")


# ---------------------------------------------------------------- Markdown


def page(title: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", MADE, *(part for part in parts if part)]) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; empty where there are no rows."""
    lines = ["| " + " | ".join(_cell(text) for text in row) + " |" for row in rows]
    marks = "|" + "---|" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", marks, *lines]) if lines else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as code, on one line."""
    words = " ".join(str(text).split())
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def doc_of(thing: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """A docstring's prose, and its sections by title: names with what is said of them."""
    text = inspect.cleandoc(thing.__doc__ or "") + "\n"
    name = getattr(thing, "__name__", "")
    if text.startswith(f"{name}("):  # what dataclasses write where nobody wrote anything
        return "", {}
    sections = {match[1]: _entries(match[2]) for match in _SECTION.finditer(text)}
    return _SECTION.sub("", text).strip(), sections


def _entries(block: str) -> dict[str, str]:
    """`name: text` lines, each with those that are indented below it; other text under ""."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(block).split("\n"):
        match = re.match(r"(\*{0,2}\w+): (.*)", line)
        name, words = match.groups() if match else (name, line.strip())
        found[name] = f"{found.get(name, '')} {words}".strip()
    return {name: text for name, text in found.items() if text}


def dataclass_section(kind: type, level: str = "###") -> str:
    """A dataclass: what it is, its fields with types and defaults."""
    prose, sections = doc_of(kind)
    said = sections.get("Args", {}) | sections.get("Attributes", {})
    rows = [
        (code(f.name), code(f.type), _default(f), said.get(f.name, ""))
        for f in fields(kind)
        if f.name != "type"
    ]
    head: tuple[str, ...] = ("field", "type", "default", "")
    if not any(row[3] for row in rows):
        head, rows = head[:3], [row[:3] for row in rows]
    (tag,) = [f.default for f in fields(kind) if f.name == "type"] or ("",)
    tagged = f" `{tag}`" if tag else ""
    return "\n\n".join(
        part for part in (f"{level} {kind.__name__}{tagged}", prose, table(head, rows)) if part
    )


def _default(field: Any) -> str:
    if field.default is not MISSING:
        value = field.default
        is_empty = is_dataclass(value) or value == ()
        return "empty" if is_empty else "`None`" if value is None else code(json.dumps(value))
    return "empty" if field.default_factory is not MISSING else "(needed)"


def words_of(module: ModuleType) -> str:
    """The module's names for a choice of words, with the words."""
    rows = [
        (code(name), ", ".join(code(word) for word in get_args(value)))
        for name, value in vars(module).items()
        if get_origin(value) is Literal
    ]
    return table(("type", "one of"), rows)


# ---------------------------------------------------------------- the pages


def settings() -> str:
    """Every setting, group by group."""
    parts = [
        "Later wins: the defaults below, `jupyter_agent.yaml` in Jupyter's configuration folder "
        "(`jupyter --config-dir`), the workspace's `.jupyter_agent/config.yaml`, the environment, "
        "`c.AgentMagics` or `%config AgentMagics`, `%agent config KEY VALUE`, the options of one "
        "`%%agent` line. In files a dot is a level: `retry.max_retries` is `max_retries` below "
        "`retry`. For IPython's configuration a dot is two underscores: `retry__max_retries`. "
        "`none` means nothing.",
        f"{len(config.keys())} settings. `%agent config` shows their values and where each comes "
        "from.",
        "## General",
    ]
    group = ""
    for key in config.keys():  # noqa: SIM118 (a module, no dictionary)
        head = key.rpartition(".")[0]
        if head != group:
            group = head
            owner = Settings.model_fields[group].annotation
            assert isinstance(owner, type) and issubclass(owner, BaseModel)
            parts += [f"## {group}", doc_of(owner)[0]]
        parts.append(_setting(key))
    return page("Settings", *parts)


def _setting(key: str) -> str:
    known = config.describe(key)
    variable = ENVIRONMENT_PREFIX + key.upper().replace(".", "__")
    default = "none" if known.default in (None, []) else known.default
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    secret = "\n- never shown, and never written anywhere" if config.is_secret(key) else ""
    return (
        f"### {key}\n\n{known.description}\n\n"
        f"- takes: {known.type}\n- default: {code(shown)}\n- variable: `{variable}`{secret}"
    )


def magics() -> str:
    """`%%agent` with its options, `%agent` with its commands."""
    options = [(code(option), meaning) for option, meaning in option_rows()]
    commands = []
    for heading in HEADINGS:
        rows = [
            (code(magic_parser.usage(command, name)), magic_parser.about(command))
            for name, command in COMMANDS.items()
            if command.heading == heading
        ]
        commands += [f"### {heading}", table(("command", "what it does"), rows)]
    return page(
        "Magics",
        "`%load_ext jupyter_agent` makes both known; `%unload_ext jupyter_agent` takes them away.",
        "## %%agent",
        "The first line takes options only; the task goes on the lines below it. `@name` in the "
        "task attaches a description of that variable, `/NAME` at its beginning loads a skill. "
        "The answer is also in `_agent`.",
        table(("option", "meaning"), options),
        "## %agent",
        "A word in capitals stands for one of yours; what is in brackets may be left out. Tab "
        "completes commands, their words, settings and values. `%agent help COMMAND` says what the "
        "words of a command mean, with examples.",
        *commands,
    )


def tools() -> str:
    """Every tool that a session with the default settings offers where a page has the notebook."""
    with _session_tools() as known:
        parts = [_tool(each) for each in known]
    return page(
        "Tools",
        "What the model can call. The effect is what a tool does at most: tools that read run side "
        "by side, those that write or execute alone and in order, and the "
        "[approvals](../approvals.md) go by it. Tools of [MCP servers](../mcp.md) are called "
        "`server__tool`. `edit_cells` is offered where [a page has the notebook]"
        "(../kernel.md#the-open-notebook). `%agent tools` lists those of a session.",
        *parts,
    )


@contextmanager
def _session_tools() -> Iterator[list[Any]]:
    """The tools of a real session in a shell of its own, where nothing is configured."""
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
            del os.environ[name]
        os.environ |= {"JUPYTER_CONFIG_DIR": f"{folder}/jupyter", "IPYTHONDIR": f"{folder}/ipython"}
        os.environ.pop("JPY_SESSION_NAME", None)
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        from jupyter_agent.session.registry import sessions_of

        before = Path.cwd()
        os.chdir(folder)
        try:
            shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
            shell.extension_manager.load_extension("jupyter_agent")
            yield list(_with_edits(sessions_of(shell)["default"].setup.preview().tools))
            shell.extension_manager.unload_extension("jupyter_agent")
        finally:
            os.chdir(before)


def _with_edits(offered: Iterable[Any]) -> Iterator[Any]:
    """The tools, and after `read_cells` the one for which there must be a page."""
    editor = CellEditor(lambda: None, lambda: None, [], lambda edits: None)
    stored = StoredCells(None, ())
    found = cell_tools(lambda: None, editor, lambda: CellSight(False), lambda: stored)
    (edits,) = [each for each in found if each.name == EDIT_CELLS]
    for each in offered:
        yield each
        if each.name == "read_cells":
            yield edits


def _tool(tool: Any) -> str:
    schema = tool.spec.parameters
    needed = schema.get("required", ())
    rows = [
        (
            code(name),
            code(_json_type(field)),
            "(needed)" if name in needed else code(json.dumps(field.get("default"))),
            field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    described = tool.spec.description
    arguments = table(("argument", "type", "default", ""), rows) or "No arguments."
    note = "<!-- test: no code, a text for models -->"
    more = f"\n\nBy `tool_help`:\n\n{note}\n```text\n{tool.more}\n```" if tool.more else ""
    return f"## {tool.name}\n\nEffect: {tool.effect}.\n\n{described}\n\n{arguments}{more}"


def _json_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(json.dumps(word) for word in field["enum"])
    if field.get("type") == "array":
        return f"list of {_json_type(field.get('items', {}))}"
    if field.get("type") == "object" and "properties" in field:
        inner = (f"{n}: {_json_type(f)}" for n, f in field["properties"].items())
        return "{" + "; ".join(inner) + "}"
    return str(field.get("type", "anything"))


def event_types() -> str:
    """Every event of a turn, and what events hold."""
    members = get_args(events.Event)
    inner = [
        value
        for value in vars(events).values()
        if is_dataclass(value) and value.__module__ == events.__name__ and value not in members
    ]
    held = [
        messages.Message,
        *get_args(messages.Block),
        messages.Output,
        messages.Usage,
    ]
    return page(
        "Events",
        "Everything that happens in a turn is an event: an immutable value, made by "
        "`jupyter_agent.core.events`. The live view, the transcript and the run log are made from "
        "them, and nothing else. A start and its finish have the same call id. An event has no "
        "time; the [run log](../runlog.md) adds `seq` and `time`, and writes each event as a JSON "
        "object with its `type`, which is given here beside its name.",
        "## Events of a turn",
        *(dataclass_section(kind) for kind in members),
        "## What they hold",
        *(dataclass_section(kind) for kind in inner),
        "## Messages",
        *(dataclass_section(kind) for kind in held),
        "## Words",
        words_of(events),
    )


def cassette_format() -> str:
    """The lines of a cassette, and what is in them."""
    kinds = [
        value
        for name, value in vars(cassette).items()
        if is_dataclass(value)
        and value.__module__ == cassette.__name__
        and not name.startswith("_")
    ]
    return page(
        "Cassette format",
        f"Format version {cassette.FORMAT}. [Cassettes](../cassettes.md) explains what they are "
        "for. A cassette is UTF-8 text with one JSON object on each line. Fields with their "
        "default values are left out.",
        "## An example",
        f"```json\n{_example_cassette()}```",
        "The first line is the header. Each turn is a block with a blank line before it: a line of "
        "the kind `turn`, a line of the kind `step` for each model call, and a line of the kind "
        "`end`. A step's `reply` is the event "
        "[MessageFinished](events.md#messagefinished-message-finished).",
        "`digest` is the SHA-256 digest of the turn's lines as JSON with sorted keys, without "
        "`digest` itself and without the marks of varying spans; 32 hexadecimal digits. "
        "`before` is the digest of the conversation before the turn. It tells turns with the same "
        "task apart, and a replay does without it.",
        "In `text`, `shown` and `summary` a span between ⟨ and ⟩ varies from run to run. A bracket "
        "that belongs to the text has a backslash before it.",
        "## Later versions",
        "A later version may add fields, which this one ignores. It may add kinds of lines: one "
        'with `"optional": true` is kept and not used; any other is refused, with a line that asks '
        "to update the package. Any other change gives the format a new number.",
        "## What the lines hold",
        "By the names that the code has for them.",
        *(dataclass_section(kind) for kind in kinds),
        "## Words",
        words_of(cassette),
    )


def _example_cassette() -> str:
    """A cassette as `save` writes it."""
    code = '{"code": "%timeit -n 10 len(penguins)\\nlen(penguins)"}'
    call = messages.ToolCall("call_1", "execute_code", code)
    reply = messages.Message("assistant", (messages.Text("I count."), call))
    answer = messages.Message("assistant", (messages.Text("It has 344 rows."),))
    usage = messages.Usage(900, 20)
    text = "⟨170 ns⟩ ± ⟨12 ns⟩ per loop (mean ± std. dev. of ⟨7⟩ runs, ⟨10 loops each⟩)\n344"
    result = cassette.RecordedResult("execute_code", "4f3c1d0a9b2e7f65", text, call=0)
    steps = (
        cassette.RecordedStep(events.MessageFinished(reply, usage, "tool_use"), results=(result,)),
        cassette.RecordedStep(events.MessageFinished(answer, usage, "end")),
    )
    turn = cassette.RecordedTurn("How many rows has `penguins`?", steps=steps, runs=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example.cassette.jsonl"
        cassette.save(cassette.Cassette("openai", "some-model", "recorded", (turn,)), path)
        return path.read_text(encoding="utf-8")


def commands() -> str:
    """`jupyter agent` and everything below it."""
    parts = list(_command(command_line, "jupyter agent", None))
    return page("Command line", "`jupyter agent` and `jupyter-agent` are the same program.", *parts)


def _command(command: click.Command, called: str, above: click.Context | None) -> Iterator[str]:
    context = command.make_context(called, [], above, resilient_parsing=True, terminal_width=200)
    usage = command.get_usage(context).removeprefix("Usage: ")
    records = (
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False)
    )
    rows = [(code(record[0]), record[1]) for record in records if record]
    prose = _help(command.help or "")
    options = table(("option", "meaning"), rows)
    yield "\n\n".join(
        part for part in (f"## {context.command_path}", code(usage), prose, options) if part
    )
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _command(found, child, context)


def _help(text: str) -> str:
    """Click's help text: a paragraph that begins with `\\b` keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    kept = [
        "  \n".join(line.strip() for line in each.split("\n")[1:])
        if each.startswith("\b")
        else each
        for each in paragraphs
    ]
    return "\n\n".join(kept)


def error_types() -> str:
    """Every exception that the package raises on purpose."""
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    tree = (errors.__doc__ or "").partition("\n\n")[2].strip()
    parts = []
    for kind in kinds:
        prose, sections = doc_of(kind)
        rows = [(code(name), text) for name, text in sections.get("Args", {}).items()]
        parents = [base.__name__ for base in kind.__bases__]
        parts += [f"## {kind.__name__}", f"A kind of `{parents[0]}`. {prose}"]
        parts.append(table(("attribute", "meaning"), rows))
    return page(
        "Errors",
        "All are in `jupyter_agent.errors`. A notebook shows an `AgentError` as one line.",
        f"<!-- test: no code, it is a picture of the tree -->\n```text\n{tree}\n```",
        *parts,
    )


def python() -> str:
    """What Python code can use."""
    from jupyter_agent import ask, delegate, register_describer
    from jupyter_agent.session.answer import Answer
    from jupyter_agent.stores.runs import read_run, runs

    prose, sections = doc_of(Answer)
    answer = table(
        ("attribute", "type", "meaning"),
        [
            (code(name), code(Answer.__annotations__[name]), text)
            for name, text in sections["Attributes"].items()
        ],
    )
    return page(
        "Python",
        "## In a notebook",
        _function("jupyter_agent", ask),
        _function("jupyter_agent", delegate),
        _function("jupyter_agent", register_describer),
        "## Answer",
        prose,
        answer,
        dataclass_section(events.Receipt, "##"),
        "## Run logs",
        _function("jupyter_agent", runs),
        _function("jupyter_agent", read_run),
    )


def _function(module: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    prose, sections = doc_of(function)
    lists = []
    for title, said in sections.items():
        rows = [f"- {code(n) + ': ' if n else ''}{text}" for n, text in said.items()]
        lists.append(f"{title.replace('Args', 'Arguments')}:\n\n" + "\n".join(rows))
    name = function.__name__
    declared = code(f"{module}.{name}{_plain(signature)}")
    return "\n\n".join([f"### {name}", declared, prose, *lists])


def _plain(signature: inspect.Signature) -> str:
    """A signature without quotes around its types, and without their modules."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature))
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text)


def index() -> str:
    """The first page of the reference."""
    listed = "\n".join(f"- [{title}]({name}.md)" for name, title in TITLES.items())
    names = "\n".join(TITLES)
    return page(
        "Reference",
        "Made from the code, so it says what this version does.",
        f"{listed}\n- [Faults](../faults.md): what a model's server may do wrong, and what you see",
        f"```{{toctree}}\n:hidden:\n\n{names}\n../faults\n```",
    )


TITLES = {
    "settings": "Settings",
    "magics": "Magics",
    "commands": "Command line",
    "tools": "Tools",
    "python": "Python",
    "events": "Events",
    "cassette": "Cassette format",
    "errors": "Errors",
}
ALL: dict[str, Callable[[], str]] = {
    "index": index,
    "settings": settings,
    "magics": magics,
    "commands": commands,
    "tools": tools,
    "python": python,
    "events": event_types,
    "cassette": cassette_format,
    "errors": error_types,
}

if __name__ == "__main__":
    main()
