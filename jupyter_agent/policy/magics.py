"""What a magic command does, told by its name and its line."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_agent.core.effects import RiskKind
from jupyter_agent.core.plaintext import all_in_one_line
from jupyter_agent.policy import catalogue

_OPTIONS = re.compile(
    r"\s*(?:-[nrpl]\s*\d+|-s\s*\w+|--no-raise|--no-\w+|-[a-zA-Z]{1,4})(?=\s|$)", re.ASCII
)
_PLAIN_SHELLS = frozenset(["sx", "sc", "system", "!", "bash", "sh", "zsh"])
"""Magics that run their line or their cell as it stands in a shell."""
_MARKUP = frozenset(["html", "HTML", "svg", "SVG", "markdown", "latex"])
_SAFE_LISTING = re.compile(r"[\w./\-\s*?~,+=:@]*")
_PATH = re.compile(r"""(?:-\w+\s+)*(?:"([^"]*)"|'([^']*)'|(\S+))""")


@dataclass(frozen=True, slots=True)
class Magic:
    """What is to be judged of one magic command.

    Args:
        risks: Kinds and words.
        place: The command that a shell magic runs, or the folder that a magic goes to.
        code: Cell texts that it runs, and how many lines below the magic each begins.
        writes: Paths that it writes.
        markup: HTML or Markdown that it shows.
        sql: SQL that it runs.
    """

    risks: tuple[tuple[RiskKind, str], ...] = ()
    code: tuple[tuple[str, int], ...] = ()
    writes: tuple[str, ...] = ()
    place: str = ""
    markup: str = ""
    sql: str = ""


def is_known(name: str) -> bool:
    """Whether a word is a magic command that the catalogue names."""
    return bool(
        name in catalogue.HARMLESS_MAGICS
        or name in catalogue.LISTING_MAGICS
        or name in catalogue.CODE_MAGICS
        or name in catalogue.WRITING_MAGICS
        or any(name in names for names in catalogue.MAGICS.values())
    )


def judge_magic(name: str, line: str, cell: str | None) -> Magic:
    """What a magic does. `cell` is the text below a cell magic, None for a line magic."""
    expanded = tuple((text, 0) for text in _expanded(line))
    if name.startswith("%") and name != "%":  # `%%bash` that is not the cell's first line
        name = name.lstrip("%")
    if name in catalogue.CODE_MAGICS:
        return _running(name, line, cell)
    if name in catalogue.WRITING_MAGICS:
        return _writing(name, line, expanded)
    first = f"{'%' if cell is None else '%%'}{name} {line}".rstrip()
    shown = all_in_one_line(f"{first}\n{cell or ''}")
    risks = _risks(name, line, cell, shown)
    place = (line if cell is None else cell).strip()
    if name not in _PLAIN_SHELLS:
        place = f"{name} {line}".strip()
    writes = re.findall(r"-f\s+(\S+)", line) if name in ("history", "hist") else ()
    return Magic(
        tuple(risks),
        expanded,
        tuple(writes),
        place,
        markup=(cell or "") if name in _MARKUP else "",
        sql=(line if cell is None else cell) if name in catalogue.MAGICS["network"] else "",
    )


def _risks(name: str, line: str, cell: str | None, shown: str) -> Iterator[tuple[RiskKind, str]]:
    kinds = [kind for kind, names in catalogue.MAGICS.items() if name in names]
    for kind in kinds:
        yield kind, catalogue.MAGIC_WORDS.get(name, f"{catalogue.VERBS[kind]}: {shown}")
    if kinds:
        return
    if name in catalogue.LISTING_MAGICS:
        if not _SAFE_LISTING.fullmatch(line):
            yield "shell", f"runs a shell command: {shown}"
    elif name not in catalogue.HARMLESS_MAGICS:
        yield "hidden", f"uses a magic command that is not known: {shown}"
    else:
        yield from _risks_of_line(name, line, shown)


def _risks_of_line(name: str, line: str, shown: str) -> Iterator[tuple[RiskKind, str]]:
    """Magics that are harmless or not by what their line says."""
    if name == "config" and "=" in line and not line.strip().startswith("InlineBackend."):
        yield "settings", f"changes IPython's settings: {shown}"
    if name in ("load_ext", "reload_ext") and line.strip() not in catalogue.EXTENSIONS:
        kind: RiskKind = "agent" if "jupyter_agent" in line else "settings"
        yield kind, f"loads an extension: {shown}"
    if name in ("load", "loadpy") and catalogue.URL.search(line):
        yield "network", f"fetches from the network: {shown}"


def _running(name: str, line: str, cell: str | None) -> Magic:
    """A magic around Python code: what it runs, without its options."""
    below = ((cell, 1),) if cell else ()
    if name == "capture":
        return Magic(code=below)
    writes: tuple[str, ...] = ()
    if name in ("prun", "lprun", "mprun"):
        writes = tuple(re.findall(r"(?:^|\s)-[TD]\s*(\S+)", line))
        line = re.sub(r"(?:^|\s)-[fmTDls]\s*\S+", " ", line)
    while match := _OPTIONS.match(line):
        line = line[match.end() :]
    if re.match(r"\s*-", line):
        return Magic((("hidden", f"runs code with options that are not known: %{name}"),))
    return Magic(code=((line.strip(), 0), *below), writes=writes)


def _writing(name: str, line: str, expanded: tuple[tuple[str, int], ...]) -> Magic:
    match = _PATH.match(line.strip())
    path = next((part for part in match.groups() if part), "") if match else ""
    if not path or path.startswith("-") or "{" in path or "$" in path:
        return Magic(code=expanded)
    if name == "save" and not path.endswith((".py", ".ipy")):
        path += ".py"
    return Magic(code=expanded, writes=(path,))


def _expanded(line: str) -> Iterator[str]:
    """The expressions in braces, which IPython evaluates in a magic's line."""
    if "{" not in line:
        return
    try:
        for _, field, spec, _ in string.Formatter().parse(line):
            yield from (part for part in (field, spec) if part)
    except ValueError:
        return  # IPython leaves such a line as it is
