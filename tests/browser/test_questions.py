"""Questions while a turn runs in a real JupyterLab: noticed, answered, stopped, and gone."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import pytest
from browser.lab import Lab, Model, NotebookPage, call, code, spoken, words
from model_server import Fault, Reply
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser

TOOLS = "import os\ndef remove(path): os.remove(path)\n"
REMOVES = "import tools\ntools.remove('data.csv')\nprint('removed')"
"""No look at the code shows what it does: the question comes while it runs."""
BY_LINE = "Answer in the input line of this cell"
ELSEWHERE = "this page cannot answer it"
DONE = Reply(text="All done.")
STALLS = Fault("stall", seconds=60)


@pytest.fixture(autouse=True)
def table(lab: Lab) -> Iterator[None]:
    (lab.folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (lab.folder / "data.csv").write_text("a,b\n", encoding="utf-8")
    yield


def start(book: NotebookPage, line: str = "--fresh", before: str = "") -> int:
    return book.do(f"%%agent {line}\nWork.{before}", wait=False)


def line_of(book: NotebookPage, cell: int) -> Locator:
    return book.cell(cell).locator(".jp-Stdin-input")


def header(book: NotebookPage, cell: int) -> Locator:
    return book.live(cell).locator(".ja-top")


def is_in_sight(part: Locator) -> bool:
    """True if a person sees it: in the window, and nothing lies over it."""
    return bool(
        part.evaluate(
            """e => { const b = e.getBoundingClientRect();
            const at = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);
            return b.height > 0 && e.contains(at); }"""
        )
    )


# ---- asked by the input line ---------------------------------------------------------------------


def test_answered_by_the_line(book: NotebookPage, model: Model, lab: Lab) -> None:
    """The view points at the input line, its clock stands, and nothing is typed into the wrong
    field; a no goes to the code, and the line is gone.
    """
    model.says(code(REMOVES, "I remove."), DONE)
    cell = start(book)
    line_of(book, cell).wait_for()
    expect(header(book, cell)).to_contain_text("Waiting for you")
    expect(header(book, cell)).to_contain_text(BY_LINE)
    expect(header(book, cell)).to_contain_text("deletes data.csv")
    expect(book.live(cell).get_by_label("Steer the agent")).to_be_disabled()
    book.shot("question-line")
    facts = book.live(cell).locator(".ja-facts")
    before = facts.inner_text(), book.live(cell).locator(".ja-time").first.inner_text()
    book.page.wait_for_timeout(2500)
    after = facts.inner_text(), book.live(cell).locator(".ja-time").first.inner_text()
    assert before == after
    line_of(book, cell).fill("n: I need it")
    line_of(book, cell).press("Enter")
    book.await_done(cell)
    assert "I need it" in model.heard()
    assert (lab.folder / "data.csv").exists()
    expect(line_of(book, cell)).to_have_count(0)


@pytest.mark.parametrize("end", ["stop", "time-out"])
def test_the_next_cell_runs(book: NotebookPage, model: Model, lab: Lab, end: str) -> None:
    """A question that nobody answered leaves no input line: JupyterLab runs the next cell."""
    if end == "time-out":
        book.do("%agent config approvals.timeout 3")
    model.says(code(REMOVES, "I remove."), DONE)
    cell = start(book)
    line_of(book, cell).wait_for()
    line_of(book, cell).fill("y")  # and not sent
    if end == "stop":
        book.live(cell).get_by_role("button", name="Stop").click()
    book.await_done(cell)
    if end == "time-out":
        book.do("%agent config approvals.timeout 600")
    expect(line_of(book, cell)).to_have_count(0)
    assert book.said("6 * 7") == "42"
    assert book.page.locator(".jp-Dialog").count() == 0
    assert (lab.folder / "data.csv").exists()
    told = "nobody answered: stopped" if end == "stop" else "refused: no answer in time"
    kept = spoken([book.save()["cells"][cell]])
    assert told in kept and "(not sent: y)" in kept
    asked = book.do("input('Mine? ')", wait=False)
    line_of(book, asked).wait_for()
    book.page.wait_for_timeout(300)
    line_of(book, asked).fill("mine")
    line_of(book, asked).press("Enter")
    book.await_done(asked)
    expect(book.output(asked)).to_contain_text("'mine'")


def test_reloaded_at_the_question(lab: Lab, browser: Browser, model: Model) -> None:
    """A page that is loaded at a question says that it cannot answer it, and Stop there ends it."""
    model.says(code(REMOVES, "I remove."), DONE)
    lab.notebook("reload_question.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork.", "6 * 7"])
    book = lab.open(browser, "reload_question.ipynb")
    book.run(0)
    book.run(1, wait=False)
    line_of(book, 1).wait_for()
    book.page.reload()
    book.await_cells()
    expect(header(book, 1)).to_contain_text("Waiting for you")
    expect(header(book, 1)).to_contain_text(ELSEWHERE)
    book.shot("question-reloaded")
    book.live(1).get_by_role("button", name="Stop").click()
    expect(book.live(1)).to_have_count(0)
    expect(book.output(1)).to_contain_text("nobody answered: stopped")
    book.run(2)
    expect(book.output(2)).to_contain_text("42")
    assert (lab.folder / "data.csv").exists()
    book.check()
    book.close()


# ---- asked by the buttons ------------------------------------------------------------------------

ASKS = code("!touch asked.txt\n" + "# a line of the code\n" * 40, "A command.")
SIZES = [(1366, 620), (1280, 1000)]
NOTES = """window.notes = [];
window.Notification = class { static permission = "granted";
  constructor(title, more) { notes.push(`${title}: ${more.body}`); }
  close() { notes.push("closed"); } };
document.hasFocus = () => false;"""


@pytest.mark.parametrize("size", SIZES)
def test_a_question_is_noticed(
    book: NotebookPage, model: Model, lab: Lab, size: tuple[int, int]
) -> None:
    """A question below the window comes into sight with its buttons; the tab's title and, where
    the browser allows it, a notification say that the agent waits.
    """
    (lab.folder / "asked.txt").unlink(missing_ok=True)
    model.says(code("print('one')\n" + "#\n" * 30, "First."), ASKS, DONE)
    book.page.set_viewport_size({"width": size[0], "height": size[1]})
    book.page.evaluate(f"window.was = [Notification, document.hasFocus]; {NOTES}")
    try:
        title = book.page.title()
        cell = start(book, before="\n" * 25)
        yes = header(book, cell).get_by_role("button", name="Yes", exact=True)
        expect(yes).to_be_visible()
        expect(header(book, cell)).to_contain_text("Waiting for you")
        expect(header(book, cell)).to_contain_text(re.compile(r"\d+ (min|s) .*left"))
        book.await_that(lambda: is_in_sight(yes), "the buttons are in sight")
        question = book.live(cell).locator(".ja-question")
        book.await_that(lambda: is_in_sight(question), "the question is in sight")
        book.shot(f"question-{size[0]}x{size[1]}")
        book.await_that(lambda: book.page.title() == f"(?) {title}", "the title says it")
        (note,) = book.page.evaluate("notes")
        assert note.startswith("The agent waits for you: Run this code?")
        yes.click()
        book.await_done(cell)
        assert (lab.folder / "asked.txt").exists()
        book.await_that(lambda: book.page.title() == title, "the title is as it was")
        assert book.page.evaluate("notes")[1:] == ["closed"]
    finally:
        book.page.evaluate("[window.Notification, document.hasFocus] = window.was")
        book.page.set_viewport_size({"width": 1000, "height": 1100})


def test_a_question_in_words(book: NotebookPage, model: Model) -> None:
    """A choice is clicked, another answer typed; both reach the model and stay in the notebook."""
    first = call("ask_user", question="Which year?", choices=["2019", "2020"])
    second = call("ask_user", question="Which unit?")
    model.says(Reply(calls=(first,)), Reply(calls=(second,)), DONE)
    cell = start(book)
    header(book, cell).get_by_role("button", name="2020", exact=True).click()
    expect(header(book, cell)).to_contain_text("Which unit?")
    field = header(book, cell).get_by_label("Your answer to the agent")
    expect(field).to_be_enabled()
    field.press_sequentially("miles, please")
    field.press("Enter")
    book.await_done(cell)
    assert "The person answered: 2020" in model.heard()
    assert "The person answered: miles, please" in model.heard()
    kept = spoken([book.save()["cells"][cell]])
    assert "You: 2020" in kept and "You: miles, please" in kept


@pytest.fixture(params=["contentVisibility", "full"])
def windowed(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """The ways in which JupyterLab leaves out cells that are not in sight; tests have none else."""
    place = lab.folder / "empty_config/lab/user-settings/@jupyterlab/notebook-extension"
    path = place / "tracker.jupyterlab-settings"
    before = path.read_text(encoding="utf-8")
    path.write_text(json.dumps({"windowingMode": request.param}), encoding="utf-8")
    yield request.param
    path.write_text(before, encoding="utf-8")


def test_the_buttons_stay_in_sight(lab: Lab, browser: Browser, model: Model, windowed: str) -> None:
    """The header sticks to the top of the window while a cell that is taller scrolls by."""
    model.says(ASKS, DONE)
    lab.notebook("tall.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork.", *["#\n" * 60] * 4])
    book = lab.open(browser, "tall.ipynb", (1366, 620))
    book.run(0)
    book.run(1, wait=False)
    yes = header(book, 1).get_by_role("button", name="Yes", exact=True)
    expect(yes).to_be_visible()
    scroller = book.page.locator(".jp-WindowedPanel-outer").first
    height = scroller.evaluate("e => e.clientHeight")
    view = book.live(1)
    assert view.evaluate("e => e.offsetHeight") > height
    for block in ("start", "center", "end"):
        view.locator(".ja-foot").evaluate("(e, block) => e.scrollIntoView({block})", block)
        if block == "start":
            scroller.evaluate("e => e.scrollBy(0, -150)")
        book.await_that(lambda: is_in_sight(yes), f"the buttons are in sight ({block})")
    book.shot(f"question-sticky-{windowed}")
    yes.click()
    book.await_done(1)
    book.close()


def test_whoever_scrolls_is_left_alone(book: NotebookPage, model: Model) -> None:
    """A person who has scrolled away meanwhile is not taken to the question."""
    model.says(Reply(text=words("I think."), calls=ASKS.calls, delay=0.1, hold="think."), DONE)
    book.page.set_viewport_size({"width": 1366, "height": 620})
    cell = start(book, before="\n" * 25)
    scroller = book.page.locator(".jp-WindowedPanel-outer").first
    expect(book.live(cell)).to_be_visible()
    scroller.hover()
    book.page.mouse.wheel(0, -5000)
    book.await_that(lambda: scroller.evaluate("e => e.scrollTop") == 0, "it is at the top")
    model.goes_on.set()
    expect(header(book, cell)).to_contain_text("Waiting for you")
    book.await_that(lambda: book.page.title().startswith("(?) "), "the title says so")
    assert scroller.evaluate("e => e.scrollTop") == 0
    book.live(cell).get_by_role("button", name="Stop").evaluate("e => e.scrollIntoView()")
    book.live(cell).get_by_role("button", name="Stop").click()
    book.await_done(cell)
    book.page.set_viewport_size({"width": 1000, "height": 1100})


@pytest.mark.parametrize("way", ["buttons", "line"])
def test_the_keyboard_alone(book: NotebookPage, model: Model, lab: Lab, way: str) -> None:
    """Alt+Shift+A leads to what waits for an answer; when the view goes, the focus stays in its
    cell, from where the arrow keys go on.
    """
    (lab.folder / "asked.txt").unlink(missing_ok=True)
    model.says(ASKS if way == "buttons" else code(REMOVES, "I remove."), DONE)
    cell = start(book)
    expect(header(book, cell)).to_contain_text("Waiting for you")
    if way == "line":
        line_of(book, cell).wait_for()
        book.cell(cell).locator(".jp-InputPrompt").click()
    expect(book.live(cell).locator(".ja-card[data-state='asking']")).to_contain_text("waiting")
    book.page.keyboard.press("Alt+Shift+A")
    if way == "line":
        expect(line_of(book, cell)).to_be_focused()
        book.page.keyboard.type("n")
    else:
        yes = header(book, cell).get_by_role("button", name="Yes", exact=True)
        expect(yes).to_be_focused()
    book.page.keyboard.press("Enter")
    book.await_done(cell)
    expect(book.live(cell)).to_have_count(0)
    book.page.wait_for_timeout(300)
    here = book.page.evaluate(
        "document.activeElement.closest('.jp-Cell')?.dataset.windowedListIndex"
    )
    assert here == str(cell)
    assert (lab.folder / "asked.txt").exists() is (way == "buttons")
    assert (lab.folder / "data.csv").exists()


# ---- the kernel goes, the turn ends --------------------------------------------------------------


@pytest.mark.parametrize("how", ["restarted", "died"])
def test_the_kernel_goes(lab: Lab, browser: Browser, model: Model, how: str) -> None:
    """A view whose kernel is gone says so, and `%agent resume` goes on from there."""
    model.says(
        code("kept = 5\nkept", "I keep."),
        Reply(text=words("I go on."), fault=STALLS),
        Reply(text="Resumed."),
    )
    cells = ["%load_ext jupyter_agent\nimport os; pid = os.getpid(); pid", "%%agent\nWork."]
    lab.notebook(f"{how}.ipynb", [*cells, "%load_ext jupyter_agent", "%agent resume"])
    book = lab.open(browser, f"{how}.ipynb")
    book.run(0)
    pid = int(book.output(0).inner_text().split()[-1])
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("I go on.")
    book.live(1).get_by_label("Steer the agent").fill("half a th")
    if how == "restarted":
        book.page.click("text=Kernel >> nth=0")
        book.page.click("text=Restart Kernel…")
        book.page.click(".jp-Dialog .jp-mod-accept")
    else:
        os.kill(pid, signal.SIGKILL)
    expect(header(book, 1)).to_contain_text(f"The kernel {how}")
    expect(header(book, 1)).to_contain_text("%agent resume")
    book.shot(f"kernel-{how}")
    assert book.live(1).locator("button:not(.ja-copy):visible, input:visible").count() == 0
    clock = book.live(1).locator(".ja-facts").inner_text()
    book.page.wait_for_timeout(1500)
    assert book.live(1).locator(".ja-facts").inner_text() == clock
    expect(book.output(1)).to_contain_text("half a th")
    if book.page.locator(".jp-Dialog .jp-mod-accept").count():
        book.page.click(".jp-Dialog .jp-mod-accept")
    book.await_kernel()
    book.run(2)
    book.run(3)
    expect(book.output(3)).to_contain_text("Resumed.")
    book.shot(f"kernel-{how}-resumed")
    assert "kept = 5" in model.heard()
    book.close()


def test_the_kernel_dies_at_the_question(lab: Lab, browser: Browser, model: Model) -> None:
    """With the kernel goes the input line: the new kernel runs the next cell."""
    model.says(code(REMOVES, "I remove."))
    cells = ["%load_ext jupyter_agent\nimport os; os.getpid()", "%%agent\nWork.", "6 * 7"]
    lab.notebook("dies.ipynb", cells)
    book = lab.open(browser, "dies.ipynb")
    book.run(0)
    pid = int(book.output(0).inner_text().split()[-1])
    book.run(1, wait=False)
    line_of(book, 1).wait_for()
    os.kill(pid, signal.SIGKILL)
    book.page.click(".jp-Dialog .jp-mod-accept")
    expect(header(book, 1)).to_contain_text("The kernel")
    expect(line_of(book, 1)).to_have_count(0)
    assert not book.page.title().startswith("(?)")
    book.await_kernel()
    book.run(2)
    expect(book.output(2)).to_contain_text("42")
    book.close()


def test_words_that_were_not_sent_stay(book: NotebookPage, model: Model) -> None:
    """What is typed into the steering field when the turn ends is still there to be copied."""
    model.says(Reply(text=(*words("I think."), "END"), hold="END"))
    cell = start(book)
    field = book.live(cell).get_by_label("Steer the agent")
    field.click()
    book.page.keyboard.type("Look at <b>2024</b> as we")
    model.goes_on.set()
    book.await_done(cell)
    expect(book.live(cell)).to_have_count(0)
    kept = book.output(cell).locator(".ja-kept")
    expect(kept).to_contain_text("Look at <b>2024</b> as we")
    book.shot("unsent")
    assert "2024" not in json.dumps(book.save())
    kept.get_by_role("button", name="Dismiss").click()
    expect(kept).to_have_count(0)
