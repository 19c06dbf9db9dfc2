"""What `jupyter nbconvert` makes of a notebook with turns of the agent."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from live_kernel import clean_environment
from markdown_it import MarkdownIt
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter, WebPDFExporter
from traitlets.config import Config
from widgets.hostile import Inert

from jupyter_agent.recording.cassette import load, save

TASK = "Look at the sales, plot them and write a report."
STEERING = "By month, please. It costs $5, not $6."
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SETUP = f"""
import base64
class Figure:
    def _repr_png_(self): return base64.b64decode("{PNG}")
    def __repr__(self): return "<Figure>"
class Table:
    def _repr_html_(self): return "<table><tr><td>May</td><td>7</td></tr></table>"
    def __repr__(self): return "May 7"
"""
FAILING = "sales = {'May': 7}\n\n\nprint('# of sales')\nsales['June']"
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("I look at the table.\n\nThen I *plot* it.", "execute_code", {"code": FAILING}),
    ("June is missing.", "execute_code", {"code": "display(Figure(), Table())\nsales"}),
    ("", "write_file", {"path": "report.md", "content": "# Sales\n\nMay: **7**\n"}),
    ("", "execute_code", {"code": "!rm -rf sales"}),
]
ANSWER = "May was the best month: **7**.\n\n| month | sales |\n|---|---|\n| May | 7 |"


def execute(cells: list[str], folder: Path, **settings: str) -> Any:
    """The notebook, executed in a real kernel as nbclient does it."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(book, timeout=60, kernel_name="python3", resources=resources)
    variables = {f"JUPYTER_AGENT_{key.upper()}": value for key, value in settings.items()}
    client.execute(env={**clean_environment(folder), **variables})
    return book


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A notebook with text, code, a failure, a figure, a table, a new file, a refusal, steering."""
    folder = tmp_path_factory.mktemp("book")
    replies = [
        {"text": text, "calls": [{"name": name, "arguments": arguments}]}
        for text, name, arguments in CALLS
    ]
    turn = {"task": TASK, "replies": [*replies, {"text": ANSWER}]}
    (folder / "script.yaml").write_text(json.dumps([turn]), encoding="utf-8")
    cells = [SETUP, "%load_ext jupyter_agent\n%agent cassette a.jsonl", f"%%agent\n{TASK}"]
    execute(cells, folder, mode="record", provider="scripted", script="script.yaml")
    _steer(folder / "a.jsonl")
    (folder / "report.md").unlink()
    return execute(cells, folder, mode="replay")


def _steer(cassette: Path) -> None:
    """Put what a person typed in front of the second model call, as a recording has it."""
    recorded = load(cassette)
    (turn,) = recorded.turns
    first, second, *others = turn.steps
    steps = (first, replace(second, said=(STEERING,)), *others)
    save(replace(recorded, turns=(replace(turn, steps=steps),)), cassette)


def _check(html: str) -> None:
    """Only our own elements, well nested."""
    parser = Inert()
    parser.feed(html)
    parser.close()
    assert parser.open == []


def in_html(book: Any) -> str:
    html, _ = HTMLExporter(theme="light").from_notebook_node(book)
    return str(html)


def in_markdown(book: Any, *kinds: str) -> str:
    config = Config({"NbConvertBase": {"display_data_priority": list(kinds)}} if kinds else {})
    text, _ = MarkdownExporter(config=config).from_notebook_node(book)
    return str(text)


def transcript(page: str) -> str:
    """The first transcript of a page, to the last `</details>` of its line."""
    found = re.search(r"<details.*</details>", page, re.DOTALL)
    assert found is not None
    return found[0]


EVERYTHING = [
    "5 steps · 4 tool calls (1 failed, 1 refused) · 1 file",
    "I look at the table.",
    "KeyError",
    "You:",
    "By month, please. It costs $5, not $6.",
    "sales[",
    "refused: nobody could be asked",
    "+# Sales",
    "report.md",
]


def test_to_html(book: Any) -> None:
    """The HTML has the transcript, the figure, the table and the answer, as in the notebook."""
    page = in_html(book)
    inside = transcript(page)
    for words in EVERYTHING:
        assert words in inside, words
    _check(inside)
    assert f"data:image/png;base64,{PNG}" in page.replace("\n", "")
    assert "<td>May</td><td>7</td>" in page
    assert "<strong>7</strong>" in page


def test_to_markdown(book: Any) -> None:
    """In the Markdown, as a code host shows it, no code line becomes a heading."""
    page = in_markdown(book)
    rendered = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(page)
    inside = transcript(rendered)
    _check(inside)
    for words in EVERYTHING:
        assert words in inside, words
    assert "<h1>" not in rendered
    assert "<strong>7</strong>" in rendered and "<td>7</td>" in rendered


def test_unfolded(book: Any) -> None:
    """With the Markdown twin, as docs/transcript.md says for paper, everything is unfolded."""
    page = in_markdown(book, "text/markdown", "text/html", "image/png", "text/plain")
    assert "<details" not in page
    rendered = MarkdownIt("gfm-like", {"html": False, "linkify": False}).render(page)
    for words in EVERYTHING:
        assert words in rendered, words
    assert 'class="language-diff"' in rendered


@pytest.fixture
def browsers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chromium of the system in the place where Playwright looks for its own."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not here")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with playwright.sync_playwright() as driver, pytest.raises(playwright.Error) as missing:
        driver.chromium.launch()
    wanted = re.search(rf"{re.escape(str(tmp_path))}\S+", str(missing.value))
    assert wanted is not None
    place = Path(wanted[0])
    place.parent.mkdir(parents=True)
    place.symlink_to(chromium)


@pytest.mark.usefixtures("browsers")
def test_to_pdf(book: Any) -> None:
    """The notebook converts to PDF by way of HTML."""
    exporter = WebPDFExporter(disable_sandbox=hasattr(os, "getuid") and os.getuid() == 0)
    exporter.mathjax_url = exporter.require_js_url = ""
    data, _ = exporter.from_notebook_node(book)
    assert data.startswith(b"%PDF") and len(data) > 10_000
