"""What somebody reads stays where it is while the agent works in a cell above.

In JupyterLab's own way to draw cells, which skips those that are out of sight.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from browser.lab import Lab, Model, NotebookPage, code, words
from model_server import Reply
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

AGENT = "%%agent --fresh\nWork."
FIRST, SECOND = 2, 7
"""The numbers of the agent cells; there are five cells between them."""
READING = "1\n" * 8
LONG = words("\n\n".join(f"Paragraph {number}: " + "some words " * 20 for number in range(9)))
TURN = (
    # The card opens while the code runs, shows sixty lines, and closes.
    code("import time\ntime.sleep(3)\nfor line in range(60): print('line', line)"),
    code("for line in range(40): print(line)", text=LONG, pause=0.01),
    Reply(text=LONG),
)
_WATCH = """number => {
  const cell = () => document.querySelectorAll('.jp-Notebook .jp-Cell')[number];
  window.tops = [];
  const look = () => {
    // The place as it is painted: after all that is laid out and corrected in this frame.
    const painted = new ResizeObserver(() => {
      painted.disconnect();
      window.tops.push(cell().getBoundingClientRect().top);
    });
    painted.observe(cell());
    requestAnimationFrame(look);
  };
  look();
}"""
_IS_DONE = """number => {
  const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[number];
  return /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent);
}"""
_IS_SAVED = """number => {
  const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[number];
  return !cell.querySelector('.ja') && cell.querySelector('.jp-OutputArea details');
}"""
_SCROLL = (
    """number => document.querySelectorAll('.jp-Notebook .jp-Cell')[number].scrollIntoView()"""
)


@pytest.fixture
def book(lab: Lab, browser: Browser) -> Iterator[NotebookPage]:
    """A notebook with two agent cells far above its end."""
    cells = [READING] * 30
    cells[0], cells[FIRST], cells[SECOND] = "%load_ext jupyter_agent", AGENT, AGENT
    lab.notebook(name := f"place_{uuid4().hex}.ipynb", cells)
    with lab.default_windowing():
        book = lab.open(browser, name, (1000, 700))
    book.run(0)
    yield book
    book.check()
    book.close()


def watched(book: NotebookPage, running: int, reading: int) -> list[float]:
    """Where the cell that is read was painted, from then until the turn's end has been drawn."""
    page = book.page
    page.evaluate(_SCROLL, reading)
    page.mouse.move(600, 400)
    page.mouse.wheel(0, -20)
    page.wait_for_timeout(1000)
    page.evaluate(_WATCH, reading)
    for over in (_IS_DONE, _IS_SAVED):
        page.wait_for_function(over, arg=running, timeout=120_000)
    page.wait_for_timeout(1500)
    found: list[float] = page.evaluate("window.tops")
    return found


def assert_stays(tops: list[float]) -> None:
    assert len(tops) > 20
    assert max(tops) - min(tops) < 4


def test_a_cell_far_below_stays(book: NotebookPage, model: Model) -> None:
    """Somebody who reads far below an agent cell sees nothing move, also not at its end."""
    model.says(*TURN)
    book.run(FIRST, wait=False)
    book.live(FIRST).wait_for()
    assert_stays(watched(book, FIRST, 22))


def test_a_cell_between_two_agents_stays(book: NotebookPage, model: Model) -> None:
    """So does who reads between an agent cell that works and one that waits for its turn."""
    model.says(*TURN, Reply(text="Done."))
    book.run(FIRST, wait=False)
    book.live(FIRST).wait_for()
    book.run(SECOND, wait=False)
    assert_stays(watched(book, FIRST, FIRST + 2))
