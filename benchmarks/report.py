"""The report: for the terminal while it runs, and `docs/benchmarks.md` when it is over."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.result import Result, verdict

_INTRODUCTION = """# What it costs

Made by `{command}` on {day}; nothing here is written by hand. Every number is measured in one \
run on one machine, against the same scripted model server, with the same tool chain; each is the \
median of {runs} runs that alternate with those of the floor, unless its section says otherwise. \
The ratios hold on other machines; the milliseconds do not.

The floor is a loop of some forty lines around the same SDK: it streams, calls the tool and goes \
on. Ours is an `%%agent` cell in a real kernel with a page that answers, and with nothing switched \
off: log, checkpoints, receipt, saved conversation, live view. The peers live in environments of \
their own, in their own processes, and stream where they can.
"""


def line(result: Result) -> str:
    """One line for the terminal."""
    return f"{result.id:<10} {verdict(result.met):<7} {result.title}: {result.measured}"


def document(
    results: Sequence[Result],
    versions: Mapping[str, str],
    command: str,
    runs: int,
    before: Mapping[str, str],
    problems: Sequence[str] = (),
) -> str:
    """The whole report as Markdown. `before` is the machine as it was before the first measure."""
    head = _INTRODUCTION.format(command=command, day=time.strftime("%d %B %Y"), runs=runs)
    summary = [_row(each) for each in results]
    parts = [head, markdown_table(("", "measure", "target", "measured", ""), summary)]
    if problems:
        parts.append("Not measured:\n\n" + "\n".join(f"- {_cell(each)}" for each in problems))
    parts.append("## The machine and the versions")
    parts.append(markdown_table(("", ""), [*before.items(), *versions.items()]))
    for each in results:
        parts += _section(each)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def refreshed(text: str, results: Sequence[Result], command: str) -> str:
    """An earlier report with some measures made anew; each of them says so.

    Raises:
        ValueError: The report lacks a measure.
    """
    for each in results:
        row = markdown_table(_row(each), ()).splitlines()[0]
        title, _, body = "\n\n".join(part.strip("\n") for part in _section(each)).partition("\n")
        day = f"Measured anew by `{command}` on {time.strftime('%d %B %Y')}."
        whole = f"{title}\n\n{day}\n{body}\n\n"
        mark = re.escape(f"## {each.id}: ")
        text, rows = re.subn(
            rf"(?m)^\| {re.escape(each.id)} \|.*$", lambda _, row=row: row, text, count=1
        )
        text, sections = re.subn(
            rf"(?ms)^{mark}.*?(?=^## |\Z)", lambda _, whole=whole: whole, text, count=1
        )
        if not rows or not sections:
            raise ValueError(f"the report has no {each.id}: measure all of it")
    return text.rstrip("\n") + "\n"


def _row(each: Result) -> tuple[str, ...]:
    return each.id, each.title, each.target, each.measured, verdict(each.met)


def _section(result: Result) -> list[str]:
    title = f"## {result.id}: {result.title}"
    target = f"Target: {result.target}. " if result.target else ""
    found = f"{target}Measured: {result.measured}."
    parts = [title, found + (f" {verdict(result.met).capitalize()}." if result.target else "")]
    if result.rows:
        parts.append(markdown_table(result.head, result.rows))
    if result.note:
        parts.append(result.note)
    return parts


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    return {
        "processor": _named("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": sys.version.split()[0],
        "load before": ", ".join(f"{each:.2f}" for each in os.getloadavg()),
    }


def _memory() -> str:
    kilobytes = _named("/proc/meminfo", "MemTotal").split(" ")[0]
    return f"{int(kilobytes) / 1e6:.0f} GB" if kilobytes.isdigit() else "unknown"


def _named(path: str, key: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
    for row in text.splitlines():
        name, _, value = row.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
