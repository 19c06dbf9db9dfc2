"""What the page keeps and what it refuses: outputs, reloads, clicks of scripts, remote pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browser.elsewhere import Elsewhere
from browser.hostile_markdown import CONTROL, ORDINARY, spellings
from browser.lab import Lab, Model, NotebookPage, code
from model_server import Reply
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

expect.set_options(timeout=20_000)
WAITS = (
    "import asyncio, os\nprint('wait' + 'ing')\nwhile not os.path.exists('{}'):"
    " await asyncio.sleep(0.05)"
)
CELL = "%%agent --fresh --approve auto\nWork."
PICTURE = """
import matplotlib.pyplot as plt, pandas
from IPython.display import display
from jupyter_agent import ask
%matplotlib inline
print('mine')
display(pandas.DataFrame({'a': [1]}))
plt.plot([1, 2]); plt.show()
a = await ask('x')
print('mid')
b = await ask('y')
print(a, b)
"""


def kinds(cell: dict[str, Any]) -> list[str]:
    """Each saved output of a cell in a word: what it is, or what it says."""
    words = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            words.append("".join(output["text"]).strip())
        elif "image/png" in data:
            words.append("figure")
        elif "<details" in "".join(data.get("text/html", "")):
            words.append("transcript")
        else:
            words.append("table" if "text/html" in data else "".join(data["text/plain"]))
    return words


# ---- the person's own outputs --------------------------------------------------------------------


def test_ask_leaves_the_cell_as_it_is(
    lab: Lab, browser: Browser, book: NotebookPage, model: Model
) -> None:
    """Prints, tables and figures around `ask()` stay in order: on the page, saved, opened again."""
    model.says(Reply(text="It is one."), Reply(text="It is two."))
    cell = book.do(PICTURE)
    turns = ["transcript", "It is one.", "mid", "transcript", "It is two.", "It is one. It is two."]
    expect(book.output(cell)).to_contain_text("It is one. It is two.")
    saved = book.save()
    assert kinds(saved["cells"][cell]) == ["mine", "table", "figure", *turns]
    assert "widgets" not in saved["metadata"] and book.live(cell).count() == 0
    (lab.folder / "kept.ipynb").write_text(json.dumps(saved), encoding="utf-8")
    again = lab.open(browser, "kept.ipynb")
    seen = again.output(cell).locator(".jp-OutputArea-child")
    expect(seen).to_have_count(9)
    book.output(cell).evaluate("e => e.scrollIntoView()")
    book.shot("ask-in-a-cell")
    again.check()
    again.close()


def test_a_refused_call_takes_nothing_away(book: NotebookPage, model: Model) -> None:
    """Of two calls at once the second is refused; the first still ends in its place."""
    model.says(code(WAITS.format("gathered.txt"), "I begin."), Reply(text="It is one."))
    cell = book.do(
        "import asyncio\nfrom jupyter_agent import ask\nprint('mine')\n"
        "await asyncio.gather(ask('x', approvals__mode='auto'), ask('y'))",
        wait=False,
    )
    expect(book.output(cell)).to_contain_text("A turn is running already")
    assert book.said("print('another cell')") == "another cell"
    (book.path.parent / "gathered.txt").touch()
    expect(book.live(cell)).to_have_count(0)
    expect(book.output(cell)).to_contain_text("It is one.")
    expect(book.output(cell)).to_contain_text("1 tool call")
    words = book.output(cell).inner_text()
    assert words.index("mine") < words.index("1 tool call") < words.index("It is one.")


# ---- a page that comes back ----------------------------------------------------------------------


def test_reloaded_before_it_was_saved(lab: Lab, browser: Browser, model: Model) -> None:
    """After a reload the view goes on in its cell, which ends with its transcript and answer."""
    name = "reload"
    model.says(code(WAITS.format(name), "I begin."), Reply(text="It is over."))
    lab.notebook(f"{name}.ipynb", ["%load_ext jupyter_agent", CELL, "print('after')"])
    book = lab.open(browser, f"{name}.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("waiting")
    book.page.reload()
    book.await_cells()
    expect(book.live(1)).to_contain_text("I begin.")
    book.shot(f"{name}-middle")
    (lab.folder / name).touch()
    expect(book.live(1)).to_have_count(0)
    expect(book.output(1)).to_contain_text("It is over.")
    assert kinds(book.save()["cells"][1]) == ["transcript", "It is over."]
    assert book.cell(1).locator(".jp-InputPrompt").inner_text() == "[2]:"
    book.shot(f"{name}-end")
    book.run(2)
    expect(book.output(2)).to_contain_text("after")
    saved = book.save()
    assert "widgets" not in saved["metadata"] and book.live(1).count() == 0
    book.check()
    book.close()


@pytest.mark.deep
def test_two_tabs(lab: Lab, browser: Browser, model: Model) -> None:
    """A second tab opened in mid-turn shows the turn and its end; the first one saves."""
    model.says(code(WAITS.format("two_tabs"), "I begin."), Reply(text="It is over."))
    lab.notebook("tabs.ipynb", ["%load_ext jupyter_agent", CELL])
    first = lab.open(browser, "tabs.ipynb")
    first.run(0)
    first.run(1, wait=False)
    expect(first.live(1)).to_contain_text("waiting")
    first.save()
    second = lab.open(browser, "tabs.ipynb", idle=False)
    expect(second.live(1)).to_contain_text("I begin.")
    (lab.folder / "two_tabs").touch()
    for page in (first, second):
        expect(page.live(1)).to_have_count(0)
        expect(page.output(1)).to_contain_text("It is over.")
    assert second.page.locator(".jp-mod-dirty").count() == 0
    assert kinds(first.save()["cells"][1]) == ["transcript", "It is over."]
    for page in (first, second):
        page.check()
        page.close()


@pytest.mark.deep
def test_opened_again_when_the_turn_is_over(lab: Lab, browser: Browser, model: Model) -> None:
    """If a turn ends while no page is open, the next page puts its outputs into the cells."""
    asks = "from jupyter_agent import ask\nprint('mine')\n" + "".join(
        f"await ask('{task}', approvals__mode='auto')\nprint('{task}')\n" for task in "xy"
    )
    waits = code(WAITS.format("nobody"), "I begin.")
    over = Reply(text="It is over.")
    model.says(waits, over, over)
    lab.notebook("away.ipynb", ["%load_ext jupyter_agent", asks])
    book = lab.open(browser, "away.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("waiting")
    book.save()
    book.close()
    (lab.folder / "nobody").touch()
    again = lab.open(browser, "away.ipynb")
    turn = ["transcript", "It is over."]
    expect(again.output(1).get_by_text("It is over.", exact=True)).to_have_count(2)
    assert kinds(again.save()["cells"][1]) == ["mine", *turn, *turn]
    again.check()
    again.close()


# ---- scripts on the page -------------------------------------------------------------------------

CLICKS = """
from IPython.display import HTML, display
display(HTML('''<div id="attack">display</div><script>
function attack() {
  for (const node of document.querySelectorAll(".ja button, .ja input")) {
    if (node.matches("input")) node.value = "typed by a script";
    node.focus();
    node.click();
    for (const type of ["pointerdown", "mousedown", "mouseup", "click", "input", "change"])
      node.dispatchEvent(new Event(type, {bubbles: true}));
    for (const type of ["keydown", "keypress", "keyup"])
      for (const key of ["Enter", " ", "y"])
        node.dispatchEvent(new KeyboardEvent(type, {key, code: key, bubbles: true}));
  }
  window.attacks = (window.attacks || 0) + document.querySelectorAll(".ja button").length;
}
setInterval(attack, 50);
</script>'''))
"""


@pytest.mark.deep
def test_a_display_cannot_click(lab: Lab, browser: Browser, model: Model) -> None:
    """A script in a cell's output answers no question, types nothing and stops nothing."""
    model.says(code("!touch clicked.txt", "I touch."), Reply(text="It is over."))
    agent = "%%agent --fresh --approve ask_risky\nWork."
    lab.notebook("clicks.ipynb", ["%load_ext jupyter_agent", CLICKS, agent])
    book = lab.open(browser, "clicks.ipynb")
    book.run(0)
    book.run(1)
    book.run(2, wait=False)
    yes = book.live(2).get_by_role("button", name="Yes", exact=True)
    expect(yes).to_be_visible()
    book.page.wait_for_function("window.attacks > 20")
    expect(yes).to_be_enabled()
    assert not (lab.folder / "clicked.txt").exists()
    yes.click()
    book.await_done(2)
    expect(book.output(2)).to_contain_text("It is over.")
    assert (lab.folder / "clicked.txt").exists()
    assert "typed by a script" not in model.heard()
    book.close()


# ---- pictures from elsewhere ---------------------------------------------------------------------


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


SHOWS = """
import json
from IPython.display import display, Markdown
from jupyter_agent.session.answer import make_answer
from jupyter_agent.core.events import Receipt
from jupyter_agent.core.messages import Usage
texts = json.load(open('texts.json'))
for text in texts[{start}:{end}]:
    display(make_answer(text, (), Receipt(), Usage(), 'end'))
"""
MOST = 40
"""JupyterLab shows no more than fifty outputs of a cell at once."""


def test_no_answer_loads_a_picture(lab: Lab, browser: Browser, elsewhere: Elsewhere) -> None:
    """However a picture is spelled, a shown answer loads nothing from a server; a control does."""
    texts = [*spellings(elsewhere.address), *ORDINARY]
    (lab.folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (lab.folder / "x.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    cells = [SHOWS.format(start=at, end=at + MOST) for at in range(0, len(texts), MOST)]
    control = f"display(Markdown({CONTROL.replace('URL', elsewhere.address + '/control')!r}))"
    lab.notebook("pictures.ipynb", [*cells, control])
    book = lab.open(browser, "pictures.ipynb")
    book.run_all()
    last = len(cells) - 1
    book.await_done(len(cells), 60)
    # What is last in the texts is drawn last: then all before it had its time.
    expect(book.output(last).locator("strong", has_text="the last")).to_be_visible()
    expect(book.output(last).locator("mjx-container").first).to_be_visible()
    expect(book.output(last).locator("img[alt='mine']")).to_be_visible()
    expect(book.output(last).locator(".jp-RenderedMermaid")).to_have_count(1)
    expect(book.output(last).locator("table")).to_have_count(1)
    book.await_that(lambda: "/control" in elsewhere.asked, "the control loads nothing")
    book.shot("pictures")
    assert elsewhere.asked == {"/control"}
    assert [url for url in book.foreign if not url.startswith(elsewhere.address)] == []
    book.close()
