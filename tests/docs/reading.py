"""What can be said of a block without running it: whether what it names exists.

Each function raises `Wrong` with one line, or an error of the real parser that reads such text.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import yaml
from docs.blocks import ROOT, Block
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_agent import config
from jupyter_agent.cli import main as command_line
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.magics import parser
from jupyter_agent.magics.commands import COMMANDS
from jupyter_agent.mcp.definitions import read_definitions
from jupyter_agent.notebooks.tasks.listed import read_tasks
from jupyter_agent.session.options import CARRY_OUT, parse_line
from jupyter_agent.skills.frontmatter import parse as parse_skill

_TARGET = re.compile(r"^([a-z-]+):", re.M)
_ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.S)
_SEPARATORS = {";", "|", "&&", "||", "&", "(", ")", "{", "}", "<", ">", ">>"}
_KEYWORDS = {"if", "then", "else", "elif", "fi", "for", "do", "done", "while", "!", "in"}
_OTHERS = {"git", "cd", "mkdir", "set", "test", "[", "exit", "echo", "chromium", "playwright"}
"""Programs whose options are not looked at: none of them is ours, or of a Jupyter project."""
_APPLICATIONS = {
    "lab": "jupyterlab.labapp:LabApp",
    "labextension": "jupyterlab.labextensions:LabExtensionApp",
    "nbconvert": "nbconvert.nbconvertapp:NbConvertApp",
}
_JUPYTER_OPTIONS = {"--config-dir"}


class Wrong(AssertionError):
    """A block or a sentence names what does not exist; the message says what."""


# ---------------------------------------------------------------- cells


def read_cell(text: str) -> None:
    """A cell: its Python, and each line of it that is one of our magics."""
    first = text.partition("\n")[0]
    if first.startswith("%%agent"):
        read_agent_cell(text)
        return
    if "\n%%" in text:
        raise Wrong("a cell magic must stand on the first line of its block.")
    ast.parse(TransformerManager().transform_cell(text))
    for line in text.split("\n"):
        if line.startswith("%agent"):
            read_agent_line(line)


def read_agent_cell(text: str) -> None:
    """An `%%agent` cell: its options exist, their values are valid, and it has a task."""
    line, _, task = text.partition("\n")
    parse_line(line.removeprefix("%%agent"))
    if not task.strip():
        raise Wrong("an %%agent cell without a task.")


def read_agent_line(line: str) -> None:
    """An `%agent` line: the command exists, takes such words, and a setting takes its value."""
    name, *words = shlex.split(line.partition("  #")[0].removeprefix("%agent")) or ["help"]
    if name not in COMMANDS:
        raise Wrong(f"there is no command %agent {name}.")
    if name == "config" and words:
        config.describe(words[0])
        if len(words) > 1:
            config.layer("%agent config", {words[0]: words[1]}, text=True)
    grammar = parser.words(COMMANDS[name])
    if words and not grammar:
        raise Wrong(f"%agent {name} takes no words.")
    fixed = set(re.findall(r"\b[a-z]+\b", grammar))
    if words and words[0].islower() and fixed and not re.search(r"\b[A-Z]", grammar):
        known = words[0] in fixed or words[0].isdigit()
        if not known:
            raise Wrong(f"%agent {name} {words[0]}: its words are {grammar}.")


def tasks_of(text: str) -> list[str]:
    """The tasks that a cell gives the agent: below `%%agent`, by `%agent go`, in calls of `ask`."""
    if text.startswith("%agent go"):
        return [CARRY_OUT]
    if text.startswith("%%agent"):
        return [text.partition("\n")[2].strip()]
    tree = ast.parse(TransformerManager().transform_cell(text))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "ask"
        and isinstance(call.args[0], ast.Constant)
    ]


# ---------------------------------------------------------------- shells


def read_shell(text: str) -> None:
    """Shell commands: ours exist with these options, so do those of Jupyter, pip and pytest."""
    for words in shell_commands(text):
        read_command(words)


def shell_commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, without what redirects and joins them."""
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        # What `$(…)` runs is a command of its own; here its result is one word.
        inner = re.findall(r"\$\(([^()]*)\)", line)
        for each in inner:
            yield from shell_commands(each)
        lexer = shlex.shlex(
            re.sub(r"\$\([^()]*\)", "RESULT", line), posix=True, punctuation_chars=True
        )
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _SEPARATORS:
                if words:
                    yield words
                words = []
            elif words or word not in _KEYWORDS:
                words.append(word)


def read_command(words: list[str]) -> None:
    """One command with its arguments. Raises `Wrong` where it does not exist."""
    words = [*words]
    if words[0] == "export":
        words = words[1:]
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        read_variable(match[1], match[2])
        words = words[1:]
    if not words:
        return
    program, *rest = words
    if program in ("python", "python3") and rest[:1] == ["-m"]:
        program, *rest = rest[1:]
    if program == "jupyter" and rest[:1] == ["agent"]:
        program, rest = "jupyter-agent", rest[1:]
    if program not in _READERS:
        raise Wrong(f"{program}: not a program that these tests know.")
    _READERS[program](rest)


def read_variable(name: str, value: str = "") -> None:
    """A variable of the environment: a setting with its value, or one that our code reads."""
    if name.startswith(ENVIRONMENT_PREFIX):
        if value:
            config.environment_layer({name: value})
        elif name not in set(map(variable_of, config.keys())):
            raise Wrong(f"{name} is no setting.")
    elif name not in _sources():
        raise Wrong(f"{name} is read nowhere in the package.")


def variable_of(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "__")


@cache
def _sources() -> str:
    package = ROOT / "jupyter_agent"
    return "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))


def read_ours(words: list[str]) -> None:
    """`jupyter agent …`, by the parser of the program itself."""
    command: click.Command = command_line
    context = command.make_context("jupyter agent", [], resilient_parsing=True)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            raise Wrong(f"there is no command {context.command_path} {name}.")
        command, above = found, context
        context = command.make_context(name, [], above, resilient_parsing=True)
    try:
        command.make_context(context.info_name, words, context.parent)
    except click.exceptions.Exit:
        pass  # --help and --version
    except click.BadParameter as error:
        if "does not exist" not in error.message:  # the files of an example
            raise Wrong(f"{context.command_path}: {error.message}") from None
    except click.UsageError as error:
        raise Wrong(f"{context.command_path}: {error.message}") from None


def read_make(words: list[str]) -> None:
    """`make`: the target is in the Makefile."""
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for word in words:
        if not _ASSIGNMENT.fullmatch(word) and word not in targets:
            raise Wrong(f"there is no target {word} in the Makefile.")


def _read_jupyter(words: list[str]) -> None:
    name, *rest = words
    if name in _JUPYTER_OPTIONS:
        return
    if name not in _APPLICATIONS:
        raise Wrong(f"jupyter {name}: not a command that these tests know.")
    if not any(word.startswith("-") for word in rest):
        return
    module, _, kind = _APPLICATIONS[name].partition(":")
    application = getattr(importlib.import_module(module), kind)
    known = {f"--{each}" for each in (*application.flags, *application.aliases)}
    known |= {f"-{each}" for each in (*application.flags, *application.aliases)}
    for word in (word.partition("=")[0] for word in rest):
        if word.startswith("-") and "." not in word and word not in known:
            raise Wrong(f"jupyter {name} has no option {word}.")


def _read_pytest(words: list[str]) -> None:
    for word in (word.partition("=")[0] for word in words):
        if word.startswith("-") and not re.search(rf"(?<!\S){word}(?![\w-])", _pytest_help()):
            raise Wrong(f"pytest has no option {word}.")


@cache
def _pytest_help() -> str:
    run = [sys.executable, "-m", "pytest", "--help"]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _read_pip(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    pinned = set(re.findall(r"^([\w.-]+)==", pins, re.M))
    if words[0] != "install":
        raise Wrong(f"pip {words[0]}: not a command that these tests know.")
    for before, word in pairwise(words):
        if before in ("-r", "-c"):
            continue
        match = re.fullmatch(r"([\w./-]+?)(?:\[([\w,-]+)\])?", word)
        if word.startswith("-") or match is None:
            continue
        name, extras = match[1], (match[2] or "").split(",")
        if name == project["name"] or name.startswith((".", "/")):
            missing = set(extras) - {"", *project["optional-dependencies"]}
            if missing:
                raise Wrong(f"there is no extra {', '.join(missing)}.")
        elif name.lower().replace("_", "-") not in pinned:
            raise Wrong(f"{name}: a package that is not in constraints.txt.")


def _read_xargs(words: list[str]) -> None:
    rest = words
    while rest and rest[0].startswith("-"):
        rest = rest[1:]
    read_command(rest)


_READERS: dict[str, Callable[[list[str]], object]] = {
    "jupyter-agent": read_ours,
    "make": read_make,
    "jupyter": _read_jupyter,
    "pytest": _read_pytest,
    "pip": _read_pip,
    "xargs": _read_xargs,
    **dict.fromkeys(_OTHERS, lambda words: None),
}


# ---------------------------------------------------------------- data


def read_yaml(text: str, folder: Path) -> None:
    """YAML: settings, a script of replies, a list of tasks, or a workflow with its commands."""
    data = yaml.safe_load(text)
    if isinstance(data, list) and not any("replies" in entry for entry in data):
        (folder / "tasks.yaml").write_text(text, encoding="utf-8")
        read_tasks(folder / "tasks.yaml")
    elif isinstance(data, list):
        Scripted((turn["task"], turn["replies"]) for turn in data)
    elif isinstance(data, dict) and (scripts := list(_scripts(data))):
        for script in scripts:
            read_shell(script)
    elif isinstance(data, dict):
        config.layer("the block", data)
    else:
        raise Wrong("neither settings, nor a script, nor a list of tasks, nor a workflow.")


def _scripts(data: object) -> Iterator[str]:
    """The shell commands of a CI file, wherever they stand."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "run" and isinstance(value, str):
                yield value
            elif key in ("script", "before_script") and isinstance(value, list):
                yield from value
            else:
                yield from _scripts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _scripts(value)


def read_json(text: str, folder: Path) -> None:
    """JSON: the servers of `mcp.json`, one value, or a value on each line that is not blank."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        for line in filter(None, text.split("\n")):
            json.loads(line)
        return
    if isinstance(data, Mapping) and "mcpServers" in data:
        (folder / "mcp.json").write_text(text, encoding="utf-8")
        found = read_definitions(folder)
        if found.problems:
            raise Wrong("; ".join(found.problems))


def read_markdown(text: str) -> None:
    """The SKILL.md of a skill, which is without fault."""
    name = yaml.safe_load(text.split("---")[1])["name"]
    front, _ = parse_skill(text, name)
    if front.warnings:
        raise Wrong("; ".join(front.warnings))


def read_usage(text: str) -> None:
    """A line of `%agent help`; or the options of a command of `jupyter agent`, each of them."""
    shown = " ".join(text.split())
    if shown.startswith("jupyter agent "):
        read_options(shown)
        return
    name = shown.split()[1]
    if name not in COMMANDS or shown != parser.usage(COMMANDS[name], name):
        raise Wrong(f"not what %agent help {name} says.")


def read_options(shown: str) -> None:
    """The summary of a command: all of its options and no others."""
    name, words = shown.split()[2], set(re.findall(r"--[\w-]+", shown))
    read_ours([name, "--help"])
    assert isinstance(command_line, click.Group)
    for option in (p for p in command_line.commands[name].params if isinstance(p, click.Option)):
        names = {*option.opts, *option.secondary_opts}
        if not names & words:
            raise Wrong(f"jupyter agent {name} also has {option.opts[0]}.")
        words -= names
    if words:
        raise Wrong(f"jupyter agent {name} has no option {', '.join(sorted(words))}.")


def read(block: Block, folder: Path) -> None:
    """What can be said of a block without running it.

    Args:
        block: Any block.
        folder: An empty one, for readers that want files.
    """
    readers: dict[str, Callable[[str], Any]] = {
        "python": read_cell,
        "ipython": read_cell,
        "bash": read_shell,
        "yaml": lambda text: read_yaml(text, folder),
        "json": lambda text: read_json(text, folder),
        "toml": tomllib.loads,
        "markdown": read_markdown,
        "text": read_text(block),
    }
    if block.language not in readers:
        raise Wrong(f"{block.language}: a language that no test reads.")
    readers[block.language](block.text)


def read_text(block: Block) -> Callable[[str], None]:
    """Plain text must say what it is."""

    def check(text: str) -> None:
        if block.note("usage") is not None:
            read_usage(text)
        elif block.note("output") is None and block.note("no code") is None:
            raise Wrong("text that does not say what it is: output, usage, or no code and why.")

    return check
