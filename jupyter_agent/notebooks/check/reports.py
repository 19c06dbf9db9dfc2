"""A report as people and as programs read it: text, GitHub's annotations, JSON, JUnit's XML.

What comes from notebooks and cassettes is data: control characters are made visible, and marks
that mean something to the reader of a form are escaped in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.notebooks.check.findings import CassetteSummary, Checked, CheckReport, Finding
from jupyter_agent.version import __version__

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_text(report: CheckReport) -> str:
    """Notebook by notebook, for a terminal."""
    blocks = [notebook_text(checked) for checked in report.notebooks]
    return "\n".join([*blocks, ending(report)])


def notebook_text(checked: Checked) -> str:
    """One notebook: a line about it, then its findings."""
    lines = [f"{place(checked.path)}: {_state(checked)}"]
    return "\n".join([*lines, *map(_finding_text, checked.findings)])


def ending(report: CheckReport) -> str:
    """What belongs to no notebook, and the sum."""
    asking = [book for book in report.notebooks if book.asked or book.findings]
    replayed = sum(book.replayed for book in report.notebooks)
    total = (
        f"{_count(len(report.notebooks), 'notebook')}, {len(asking)} with turns of the agent, "
        f"{replayed} replayed: {_count(report.errors, 'error')}, "
        f"{_count(report.warnings, 'warning')}."
    )
    return "\n".join([*map(_finding_text, report.beside), total])


def as_github(report: CheckReport) -> str:
    """A workflow command for each finding, which GitHub shows at its line; then the sum."""
    lines = [
        f"::{found.severity} file={_property(_in_repository(found.file))},line={found.line},"
        f"title={_property(_title(found))}::{_data(_words(found))}"
        for found in report.findings
    ]
    states = [f"{place(book.path)}: {_state(book)}" for book in report.notebooks]
    return "\n".join([*map(_inert, states), *lines, ending(CheckReport(report.notebooks, ()))])


def as_json(report: CheckReport) -> str:
    """Everything, for programs."""
    return json.dumps(
        {
            "jupyter_agent": __version__,
            "errors": report.errors,
            "warnings": report.warnings,
            "notebooks": [_notebook_json(book) for book in report.notebooks],
            "beside": [_finding_json(found) for found in report.beside],
        },
        ensure_ascii=False,
        indent=1,
    )


def as_junit(report: CheckReport, strict: bool = False) -> str:
    """A suite for each notebook: a case for each cell with a finding, and one for the notebook."""
    root = ElementTree.Element("testsuites", name="jupyter agent check")
    for book in report.notebooks:
        _suite(root, place(book.path), book.findings, strict, book.seconds)
    if report.beside:
        _suite(root, "cassettes", report.beside, strict)
    ElementTree.indent(root)
    # The declaration by hand: ElementTree's would name the encoding of this machine.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}'


def as_summary(report: CheckReport) -> str:
    """Markdown for the page of a CI job."""
    rows = "".join(
        f"| {_markdown(place(book.path))} | {_markdown(_recorded(book.tapes))} | "
        f"{_markdown(_outcome(book))} | {book.errors} | {book.warnings} |\n"
        for book in report.notebooks
    )
    found = "".join(
        f"- **{found.severity}** {_markdown(_where(found))}: {_markdown(_words(found))}\n"
        for found in report.findings
    )
    return (
        "## Notebooks with agent cells\n\n"
        "| notebook | replies | replay | errors | warnings |\n|---|---|---|---|---|\n"
        f"{rows}\n{found}\n{_markdown(ending(CheckReport(report.notebooks)))}\n"
    )


Form = Callable[[CheckReport], str]
FORMS: dict[str, Form] = {
    "text": as_text,
    "github": as_github,
    "json": as_json,
    "junit": as_junit,
}


def place(path: Path) -> str:
    """A path from the working folder where it lies below it."""
    return _from(Path.cwd(), path)


# ---------------------------------------------------------------- parts


def _state(checked: Checked) -> str:
    if not checked.asked and not checked.findings:
        return "no turns of the agent"
    words = [_count(checked.asked, "turn")]
    if checked.tapes:
        words.append(_recorded(checked.tapes))
    return ", ".join([*words, _outcome(checked)])


def _outcome(checked: Checked) -> str:
    if checked.replayed:
        failed = any(found.kind == "replay-failed" for found in checked.findings)
        parted = any(found.kind == "output-differs" for found in checked.findings)
        word = "replay failed" if failed else "replayed, differently" if parted else "replayed"
        return f"{word} in {checked.seconds:.0f} s"
    return f"not replayed ({checked.unreplayed})" if checked.unreplayed else "not replayed"


def _recorded(tapes: tuple[CassetteSummary, ...]) -> str:
    """Who replied: never more than the cassette's header says."""
    return "; ".join(
        f"{_count(tape.replies, 'reply')} "
        + (
            f"recorded from {plain(tape.model)}"
            if tape.source == "recorded"
            else "scripted by hand"
        )
        for tape in tapes
    )


def _finding_text(found: Finding) -> str:
    remedy = f"\n           {_inert(found.remedy)}" if found.remedy else ""
    return f"  {found.severity:<8} {_inert(f'{_where(found)}: {found.message}')}{remedy}"


def _words(found: Finding) -> str:
    return _inert(f"{found.message} {found.remedy}".strip())


def _where(found: Finding) -> str:
    cell = f", cell {found.cell + 1}" if found.cell is not None else ""
    return f"{place(found.file)}:{found.line}{cell}"


def _title(found: Finding) -> str:
    cell = f" (cell {found.cell + 1})" if found.cell is not None else ""
    return f"{found.kind}{cell}"


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _inert(text: str) -> str:
    """On one line, without control characters."""
    return " ".join(redact(plain(text), secret_values()).split())


def _from(folder: Path, path: Path) -> str:
    try:
        shown = path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        shown = str(path)
    # GitHub takes a line that begins with two colons for a command.
    return _inert(f"./{shown}" if shown.startswith(":") else shown)


def _in_repository(path: Path) -> str:
    """A path as GitHub wants it: from the root of the repository."""
    root = os.environ.get("GITHUB_WORKSPACE")
    return _from(Path(root) if root else Path.cwd(), path)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _inert(text))


def _finding_json(found: Finding) -> dict[str, object]:
    return {
        "severity": found.severity,
        "kind": found.kind,
        "file": place(found.file),
        "line": found.line,
        "cell": None if found.cell is None else found.cell + 1,
        "message": _inert(found.message),
        "remedy": _inert(found.remedy),
    }


def _notebook_json(book: Checked) -> dict[str, object]:
    return {
        "path": place(book.path),
        "turns": book.asked,
        "cassettes": [
            {
                "path": place(tape.path),
                "source": tape.source,
                "provider": tape.provider,
                "model": tape.model,
                "turns": tape.turns,
                "replies": tape.replies,
            }
            for tape in book.tapes
        ],
        "replayed": book.replayed,
        "unreplayed": book.unreplayed,
        "seconds": round(book.seconds, 3),
        "findings": [_finding_json(found) for found in book.findings],
    }


def _suite(
    root: ElementTree.Element,
    name: str,
    findings: tuple[Finding, ...],
    strict: bool,
    seconds: float = 0.0,
) -> None:
    """One suite, in which a warning fails only where it is strict."""
    cells: dict[int | None, list[Finding]] = {None: []}
    for found in findings:
        cells.setdefault(found.cell, []).append(found)
    suite = ElementTree.SubElement(root, "testsuite", name=_xml(name), time=f"{seconds:.3f}")
    failures = 0
    for cell, those in cells.items():
        title = "notebook" if cell is None else f"cell {cell + 1}"
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(name), name=title)
        failing = [
            found
            for found in those
            if found.severity == "error" or (strict and found.severity == "warning")
        ]
        if failing:
            failures += 1
            kinds = ", ".join(dict.fromkeys(found.kind for found in failing))
            node = ElementTree.SubElement(case, "failure", message=_xml(kinds))
            node.text = _xml("\n".join(_finding_lines(failing)))
        if passing := [found for found in those if found not in failing]:
            node = ElementTree.SubElement(case, "system-out")
            node.text = _xml("\n".join(_finding_lines(passing)))
    suite.set("tests", str(len(cells)))
    suite.set("failures", str(failures))


def _finding_lines(findings: list[Finding]) -> Iterator[str]:
    for found in findings:
        yield f"{found.severity} {_where(found)}: {_words(found)}"


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
