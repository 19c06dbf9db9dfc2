"""Agent cells as prose in a real JupyterLab: the front-end extension in the folder labextension."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser.lab import Lab, NotebookPage
from browser.test_live_js import CONTRAST
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser

NAME = "jupyter-agent"
TASK = """%%agent --approve read_only *not* _emphasis_
---
# Compare the **rents**

Take @rent_data, and don't (yet) draw it:

- the `mean` of each
- the rest

```python
for row in rows: print(row)
```
"""
CODE = "def f(x):\n    return 'not @this # but code'"
NOTE = "# a note\n%%agent\n# *code*"
CELLS = ["%load_ext jupyter_agent", TASK + "long " * 60, NOTE, CODE, "%%agentic\nno", "%%agent"]
LOAD, AGENT, NOTED, PYTHON, OTHER, BARE = range(6)


@pytest.fixture(scope="module")
def desk(lab: Lab, browser: Browser) -> Iterator[NotebookPage]:
    """A notebook with cells of each kind, for a person who lets brackets close themselves."""
    lab.configure(
        "notebook-extension/tracker.jupyterlab-settings",
        {"codeCellConfig": {"autoClosingBrackets": True}},
    )
    lab.configure(
        # Beside other tests a kernel takes longer to answer than JupyterLab waits.
        "completer-extension/manager.jupyterlab-settings",
        {"providerTimeout": 60_000},
    )
    lab.notebook("prose.ipynb", CELLS)
    book = lab.open(browser, "prose.ipynb")
    book.run(LOAD)
    yield book
    book.close()


def content(book: NotebookPage, number: int) -> Locator:
    return book.cell(number).locator(".cm-content")


def expect_prose(book: NotebookPage, number: int) -> None:
    """The cell is Markdown, wrapped, and its first line is marked."""
    expect(content(book, number)).to_have_attribute("data-language", "agent")
    expect(content(book, number)).to_have_class(re.compile("cm-lineWrapping"))
    mark = book.cell(number).locator(".cm-line:first-child.jp-AgentCell-line .jp-AgentCell-magic")
    expect(mark).to_have_text("%%agent")
    expect(book.cell(number).locator(".jp-AgentCell-line")).to_have_count(1)


def expect_code(book: NotebookPage, number: int, language: str = "python") -> None:
    """The cell is as JupyterLab makes it."""
    expect(content(book, number)).to_have_attribute("data-language", language)
    expect(book.cell(number).locator(".jp-AgentCell-line")).to_have_count(0)
    if language == "python":
        expect(content(book, number)).not_to_have_class(re.compile("cm-lineWrapping"))


def text(book: NotebookPage, number: int) -> str:
    """The cell's lines; an empty one is a line break to the browser."""
    lines = content(book, number).locator(".cm-line").all_inner_texts()
    return "\n".join(line.strip("\n") for line in lines)


def weight(line: Locator, word: str) -> int:
    """How bold a word of a line is."""
    look = "e => Number(getComputedStyle(e).fontWeight)"
    found: int = line.get_by_text(word, exact=True).evaluate(look)
    return found


@pytest.fixture
def fresh(book: NotebookPage) -> int:
    """A new, empty code cell with the cursor in it."""
    return book.write("")


# ---- which cells ---------------------------------------------------------------------------------


def test_agent_cells_are_prose(book: NotebookPage) -> None:
    """In an opened notebook the agent cells are Markdown, all others are as they were."""
    for number in (AGENT, BARE):
        expect_prose(book, number)
    for number in (LOAD, NOTED, PYTHON, OTHER):
        expect_code(book, number)
    lines = content(book, AGENT).locator(".cm-line")
    assert lines.nth(0).locator("span").count() == 1  # the mark: no option is an emphasis
    assert weight(lines.nth(0), "%%agent") > 400
    # The line of dashes makes no heading of the first line, and the next one is a heading.
    assert weight(lines.nth(2), "rents") > 400
    assert weight(lines.nth(10), "for") > 400  # Python in a fence


def test_other_cells_are_not_touched(lab: Lab, browser: Browser, book: NotebookPage) -> None:
    """A cell of code has the very elements that it has without the extension; so has the page."""

    def elements(page: NotebookPage, number: int) -> str:
        html = page.cell(number).locator(".cm-editor").evaluate("e => e.outerHTML")
        shown = re.sub(r" ?ͼ\w+", "", re.sub(r' (style|id|aria-\w+)="[^"]*"', "", html))
        return re.sub(r'<div class="cm-(cursor|selection)Layer.*', "", shown)

    expect_code(book, PYTHON)
    with disabled(lab):
        plain = lab.open(browser, "prose.ipynb")
        expect_code(plain, PYTHON)
        for number in (PYTHON, NOTED, OTHER):
            assert elements(plain, number) == elements(book, number)
        expect_code(plain, AGENT)
        plain.close()


@contextmanager
def disabled(lab: Lab) -> Iterator[None]:
    """Let pages that are opened in here lack the extension."""
    lab.disable(NAME)
    try:
        yield
    finally:
        lab.disable()


def test_each_type_of_cell(book: NotebookPage, fresh: int) -> None:
    """A cell that becomes Markdown or raw text is no agent cell, and is one again as code."""
    book.page.keyboard.insert_text("%%agent\n# Work")
    expect_prose(book, fresh)
    for key, language in (("m", "markdown"), ("y", "agent"), ("r", None), ("y", "agent")):
        book.cell(fresh).locator(".jp-InputPrompt").click()
        book.page.keyboard.press(key)
        if language == "agent":
            expect_prose(book, fresh)
        elif language:
            expect_code(book, fresh, language)
        else:
            expect(book.cell(fresh)).to_have_class(re.compile("jp-RawCell"))
            expect(book.cell(fresh).locator(".jp-AgentCell-line")).to_have_count(0)


# ---- changes -------------------------------------------------------------------------------------


def test_the_first_line_decides(book: NotebookPage, fresh: int) -> None:
    """A cell turns to prose with the last letter of `%%agent`, and back with the next one."""
    keys = book.page.keyboard
    keys.type("%%agen")
    expect_code(book, fresh)
    keys.type("t")
    expect_prose(book, fresh)
    keys.type("s")
    expect_code(book, fresh)
    keys.press("Backspace")
    expect_prose(book, fresh)
    keys.press("Home")
    keys.insert_text("# a comment\n")
    expect_code(book, fresh)


def test_undo_and_redo(book: NotebookPage, fresh: int) -> None:
    """Undoing and redoing change the cell's language with its first line."""
    keys = book.page.keyboard
    keys.insert_text("%%agent\nWork")
    expect_prose(book, fresh)
    book.page.wait_for_timeout(700)  # what is typed within half a second is undone at once
    keys.press("Control+Home")
    keys.insert_text("x = 1\n")
    expect_code(book, fresh)
    keys.press("Control+z")
    expect_prose(book, fresh)
    keys.press("Control+Shift+z")
    expect_code(book, fresh)


def test_a_second_view(book: NotebookPage, fresh: int) -> None:
    """A second view of the notebook follows the first line, too."""
    book.page.keyboard.insert_text("%%agen")
    book.page.click("text=File >> nth=0")
    book.page.click("text=New View for Notebook")
    panels = book.page.locator(".jp-NotebookPanel")
    second = panels.nth(1).locator(".jp-Cell").nth(fresh).locator(".cm-content")
    expect(second).to_have_attribute("data-language", "python")
    content(book, fresh).click()
    book.page.keyboard.press("Control+End")
    book.page.keyboard.type("t")
    expect(second).to_have_attribute("data-language", "agent")
    panels.nth(1).locator(".jp-InputPrompt").first.click()
    book.page.click("text=File >> nth=0")
    book.page.click("text=Close Tab")
    expect(panels).to_have_count(1)


def test_pasted_cells(book: NotebookPage, fresh: int) -> None:
    """A cell that is copied, cut or split is prose by its own first line."""
    keys = book.page.keyboard
    keys.insert_text("%%agent\nWork")
    for shortcut in ("c", "v"):
        book.cell(fresh).locator(".jp-InputPrompt").click()
        keys.press(shortcut)
    expect_prose(book, fresh + 1)
    content(book, fresh + 1).click()
    keys.press("Control+End")
    keys.press("Control+Shift+Minus")
    expect_prose(book, fresh + 1)
    expect(book.cell(fresh + 2).locator(".jp-AgentCell-line")).to_have_count(0)


# ---- typing --------------------------------------------------------------------------------------


def test_no_rules_of_python(book: NotebookPage, fresh: int) -> None:
    """Nothing closes or indents itself in prose; in code it does as the settings say."""
    keys = book.page.keyboard
    keys.type('if f("x')
    assert text(book, fresh) == 'if f("x")'
    keys.press("Control+a")
    keys.insert_text("%%agent\n")
    expect_prose(book, fresh)
    keys.type('If it\'s (as "said" [here]:')
    keys.press("Enter")
    keys.type("don't {stop")
    assert text(book, fresh) == "%%agent\nIf it's (as \"said\" [here]:\ndon't {stop"


def test_completion(book: NotebookPage, fresh: int) -> None:
    """Tab completes variables, skills and options in prose, and never a paragraph."""
    keys, offered = book.page.keyboard, book.page.locator(".jp-Completer-item")
    keys.insert_text("rental_data = rented_flats = 1")
    keys.press("Control+Enter")
    book.await_done(fresh)
    cell = book.write("%%agent\n\nLoad the table.\n\nThen ")
    keys.type("@")
    keys.press("Tab")
    expect(offered).to_have_count(2)
    for word in ("@rental_data", "@rented_flats"):
        expect(offered.get_by_text(word, exact=True)).to_be_visible()
    book.shot("prose-completion")
    keys.type("rented")
    expect(offered).to_have_count(1)
    keys.press("Enter")
    expect(content(book, cell)).to_contain_text("Then @rented_flats")
    for source, word in (("%%agent\n/clean", "/cleaning-tables"), ("%%agent --budg", "--budget")):
        cell = book.write(source)
        keys.press("Tab")
        expect(offered.get_by_text(word, exact=True)).to_be_visible()
        keys.press("Enter")
        expect(content(book, cell)).to_contain_text(word)


# ---- themes and sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_themes(book: NotebookPage, theme: str) -> None:
    """The marked line can be read in both themes, and stands out."""
    try:
        book.theme(theme)
        book.cell(AGENT).scroll_into_view_if_needed()
        expect_prose(book, AGENT)
        book.shot(f"prose-{theme.lower()}")
        worst = book.page.evaluate(CONTRAST.replace("'.ja'", "'.jp-AgentCell-line'"))
        assert worst[0][0] >= 4.5, worst
        backs = (
            book.cell(AGENT)
            .locator(".cm-line")
            .evaluate_all("lines => lines.map(line => getComputedStyle(line).backgroundColor)")
        )
        assert backs[0] not in backs[1:]
    finally:
        book.theme("Light")


# Each change as long as CodeMirror takes for it, without what the page draws afterwards.
_PACE = """element => {
  const view = element.cmView.view, times = [];
  for (let i = 0; i < 60; i++) {
    const from = performance.now();
    view.dispatch({changes: {from: view.state.doc.line(2500).to, insert: "x"}});
    times.push(performance.now() - from);
  }
  return times.sort((a, b) => a - b)[20];
}"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = [1, 2]\n" * 5000, id="code"),
        pytest.param("%%agent\n" + "Two words\n\n" * 2500, id="prose"),
    ],
)
def test_long_cells(lab: Lab, browser: Browser, source: str) -> None:
    """Typing in a cell of 5,000 lines takes as long as without the extension."""
    lab.notebook("long.ipynb", [source])

    def pace(language: str) -> float:
        book = lab.open(browser, "long.ipynb", idle=False)
        expect_code(book, 0) if language == "python" else expect_prose(book, 0)
        found: float = content(book, 0).evaluate(_PACE)
        book.close()
        return found

    language = "agent" if source.startswith("%%") else "python"
    with disabled(lab):
        without = pace("python")
    # Other work on the machine may fall on one of the two measurements: the better of some counts.
    assert any(pace(language) < 3 * without + 1 for _ in range(3))


# ---- what fails ----------------------------------------------------------------------------------


def test_a_broken_module_leaves_the_others(lab: Lab, browser: Browser, tmp_path: Path) -> None:
    """A module that cannot be loaded is one line in the console; the others work."""
    module = lab.extension / "cells.js"
    intact = module.read_text(encoding="utf-8")
    lab.notebook("broken.ipynb", ["%%agent\nWork", "1"])
    try:
        module.write_text("export function activate() { throw new Error('no') }", encoding="utf-8")
        book = lab.open(browser, "broken.ipynb", idle=False)
        expect_prose(book, 0)
        expect_code(book, 1)
        ours = [line for line in book.complaints if line.startswith(f"{NAME}:")]
        assert len(ours) == 1
        assert "cells.js does not work here, the rest does: Error: no" in ours[0]
        book.close()
    finally:
        module.write_text(intact, encoding="utf-8")
