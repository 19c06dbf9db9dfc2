"""The agent in a real JupyterLab: what a person does there, and what they see."""

from __future__ import annotations

import json
import re

import pytest
from browser.lab import Lab, Model, NotebookPage, call, code, spoken, words
from browser.test_live_js import CONTRAST
from model_server import Fault, Reply
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser

SAVED = "details"
TALK = words("I look at the table first, then I take the means by species. " * 8)
DONE = Reply(text="All done.")


def start(book: NotebookPage, task: str = "Work.", line: str = "--fresh") -> int:
    """Run an agent cell and do not wait for it; gives its number."""
    return book.do(f"%%agent {line}\n{task}", wait=False)


def stop(book: NotebookPage, number: int) -> None:
    book.live(number).get_by_role("button", name="Stop").click()


def card(book: NotebookPage, number: int, which: int = 0) -> Locator:
    return book.live(number).locator(".ja-card").nth(which)


def answer(book: NotebookPage, number: int, label: str) -> None:
    book.live(number).get_by_role("button", name=label, exact=True).click()


# ---- what streams --------------------------------------------------------------------------------


def test_words_appear_while_the_model_speaks(book: NotebookPage, model: Model) -> None:
    """A person sees the words as they stream, and in the end the saved form with the answer."""
    model.says(Reply(text=(*TALK, "END"), hold="END", fault=Fault("stall", seconds=60)))
    cell = start(book)
    expect(book.live(cell)).to_contain_text("I look at the table")
    assert "END" not in book.live(cell).inner_text()
    model.goes_on.set()
    expect(book.live(cell)).to_contain_text("END")
    model.goes_on.set()
    book.await_done(cell)
    expect(book.live(cell)).to_have_count(0)
    expect(book.output(cell).locator(SAVED).first).to_be_visible()
    expect(book.output(cell)).to_contain_text("END")


def test_a_turn_leaves_nothing_behind(book: NotebookPage, model: Model) -> None:
    """After three turns there are no more threads, comms and widgets than after one."""
    look = (
        "import asyncio, threading, comm\nfrom ipywidgets.widgets import widget\n"
        "while any(type(w).__name__ == 'Front' for w in widget._instances.values()):\n"
        "    await asyncio.sleep(0.05)\n"
        "print(len([t for t in threading.enumerate() if 'jupyter-agent' in t.name]),"
        " len(comm.get_comm_manager().comms), len(widget._instances))"
    )
    model.says(*[DONE] * 4)
    book.await_done(start(book))
    before = book.said(look)
    for _ in range(3):
        book.await_done(start(book))
    assert book.said(look) == before
    assert before.startswith("0 ")


def test_cards_stay_as_the_person_left_them(book: NotebookPage, model: Model) -> None:
    """An opened card stays open, and what is typed in the field stays, while more streams in."""
    model.says(
        code("print('first')", "One."),
        Reply(text=TALK, pause=0.03, fault=Fault("stall", seconds=60)),
    )
    cell = start(book)
    details = card(book, cell).locator("details")
    expect(book.live(cell)).to_contain_text("I look at the table")
    details.locator("summary").click()
    field = book.live(cell).get_by_label("Steer the agent")
    field.click()
    # In command mode these keys delete, insert and change cells.
    cells = book.page.locator(".jp-Notebook .jp-Cell").count()
    book.page.keyboard.type("dd a b m x 00 ", delay=30)
    expect(book.live(cell)).to_contain_text("by species. I look")
    assert field.input_value() == "dd a b m x 00 "
    assert field.evaluate("e => e === document.activeElement")
    assert details.get_attribute("open") == ""
    assert book.page.locator(".jp-Notebook .jp-Cell").count() == cells
    stop(book, cell)
    book.await_done(cell)


def test_a_figure_is_shown_and_stays(book: NotebookPage, model: Model) -> None:
    """The figure that the agent draws is in its card at once, and an output of the cell later."""
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);"
    model.says(
        code("%matplotlib inline\n" + plot), Reply(text="Up.", fault=Fault("stall", seconds=60))
    )
    cell = start(book, line="--fresh --approve auto")
    expect(book.live(cell)).to_contain_text("Up.")  # until then the card is open by itself
    card(book, cell).locator("summary").click()
    image = card(book, cell).locator("img")
    expect(image).to_be_visible()
    assert image.evaluate("i => i.decode().then(() => i.naturalWidth)") > 100
    model.goes_on.set()
    book.await_done(cell)
    outputs = book.save()["cells"][cell]["outputs"]
    assert [list(o["data"]) for o in outputs if "image/png" in o["data"]]
    expect(book.output(cell).locator("img")).to_be_visible()


# ---- Stop ----------------------------------------------------------------------------------------


def test_stop_while_the_model_speaks(book: NotebookPage, model: Model) -> None:
    """Stop closes the model's stream; a second click does no harm; the next cells work."""
    model.says(
        code("kept = 1"),
        Reply(text=TALK, fault=Fault("stall", seconds=60)),
        DONE,
    )
    cell = start(book)
    expect(book.live(cell)).to_contain_text("I look at the table")
    book.live(cell).get_by_role("button", name="Stop").dblclick()
    book.await_done(cell)
    book.await_that(model.hung_up.is_set, "the model's stream was not closed")
    expect(book.output(cell)).to_contain_text("Interrupted.")
    expect(book.output(cell)).to_contain_text("The agent was interrupted")
    assert book.said("kept") == "1"
    after = start(book, "Go on.", "")
    book.await_done(after)
    expect(book.output(after)).to_contain_text("All done.")


HANGS = {
    "sleep": "import time\nprint('begun')\ntime.sleep(60)",
    "busy": "print('begun')\nwhile True: pass",
    "await": "import asyncio\nprint('begun')\nawait asyncio.sleep(60)",
    "shell": "print('begun')\n!sleep 60",
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind == "busy" else [pytest.mark.deep]) for kind in HANGS],
)
def test_stop_while_code_runs(book: NotebookPage, model: Model, kind: str) -> None:
    """Stop ends the code, whatever holds it; the transcript names what was interrupted."""
    model.says(code("kept = 2"), code(HANGS[kind]), DONE)
    cell = start(book, line="--fresh --approve auto")
    expect(card(book, cell, 1)).to_contain_text("begun")
    stop(book, cell)
    book.await_done(cell, 15)
    saved = book.output(cell).locator(SAVED).first
    saved.locator("summary").first.click()
    expect(saved.locator("summary", has_text="■")).to_contain_text("execute_code")
    expect(book.output(cell)).to_contain_text("The agent was interrupted")
    assert book.said("kept") == "2"
    after = start(book, "Go on.", "")
    book.await_done(after)
    expect(book.output(after)).to_contain_text("All done.")


def test_the_toolbar_stops_too(book: NotebookPage, model: Model) -> None:
    """The notebook's own interrupt button does what Stop does."""
    model.says(code("kept = 3"), Reply(text=TALK, fault=Fault("stall", seconds=60)))
    cell = start(book)
    expect(book.live(cell)).to_contain_text("I look at the table")
    book.press_interrupt()
    book.await_done(cell, 15)
    book.await_that(model.hung_up.is_set, "the model's stream was not closed")
    expect(book.output(cell)).to_contain_text("The agent was interrupted")


def test_stop_while_the_agent_asks(book: NotebookPage, model: Model) -> None:
    """A stop instead of an answer ends the turn; nothing was run."""
    model.says(code("!touch ran.txt"))
    cell = start(book)
    expect(book.live(cell).get_by_role("group", name="The agent asks")).to_be_visible()
    stop(book, cell)
    book.await_done(cell, 15)
    assert not (book.path.parent / "ran.txt").exists()


# ---- questions -----------------------------------------------------------------------------------


def test_yes_and_always(book: NotebookPage, model: Model) -> None:
    """Yes allows one command; Always allows the next ones of its kind without a question."""
    model.says(*[code(f"!echo {n}; touch ran{n}.txt") for n in "abc"], DONE)
    cell = start(book)
    answer(book, cell, "Yes")
    second = card(book, cell, 1)
    expect(second).to_have_attribute("data-state", "asking")
    assert (book.path.parent / "rana.txt").exists()
    assert not (book.path.parent / "ranb.txt").exists()
    answer(book, cell, "Always in this session")
    book.await_done(cell)
    assert (book.path.parent / "ranc.txt").exists()
    kept = spoken([book.save()["cells"][cell]])
    assert "allowed by you" in kept and "allowed by you for this session" in kept


def test_no_with_the_keyboard(book: NotebookPage, model: Model) -> None:
    """Tab and Enter alone refuse with a reason, which the model reads; they also press Yes."""
    model.says(code("!touch never.txt"), code("!touch kept.txt"), DONE)
    cell = start(book)
    yes = book.live(cell).get_by_role("button", name="Yes")
    expect(yes).to_be_enabled()
    book.live(cell).get_by_role("button", name="Stop").focus()
    _tab_to(book, "No, because …")
    book.page.keyboard.press("Enter")
    book.page.keyboard.type("not on this machine")
    book.page.keyboard.press("Enter")
    expect(card(book, cell, 1)).to_have_attribute("data-state", "asking")
    expect(yes).to_be_enabled()
    assert "not on this machine" in model.heard()
    _tab_to(book, "Yes")
    book.page.keyboard.press("Enter")
    book.await_done(cell)
    assert not (book.path.parent / "never.txt").exists()
    assert (book.path.parent / "kept.txt").exists()
    assert "refused by you" in spoken([book.save()["cells"][cell]])


@pytest.mark.deep
def test_no_without_a_reason(book: NotebookPage, model: Model) -> None:
    """A refusal needs no reason: the model is told that the person refused."""
    model.says(code("!touch never.txt"), DONE)
    cell = start(book)
    book.live(cell).get_by_role("button", name="No, because …").click()
    book.live(cell).get_by_role("button", name="Refuse").click()
    book.await_done(cell)
    assert "The person refused this call" in model.heard()
    assert not (book.path.parent / "never.txt").exists()


def _tab_to(book: NotebookPage, label: str) -> None:
    for _ in range(30):
        book.page.keyboard.press("Tab")
        if book.page.evaluate("document.activeElement.textContent").strip() == label:
            return
    raise AssertionError(f"Tab never came to {label!r}")


def test_steering_reaches_the_next_step(lab: Lab, book: NotebookPage, model: Model) -> None:
    """What is typed while code runs is in the next request, and stays in the transcript."""
    waiting = "import os, time\nwhile not os.path.exists('steered.txt'): time.sleep(0.05)"
    (lab.folder / "steered.txt").unlink(missing_ok=True)
    model.says(code(waiting), DONE)
    cell = start(book)
    field = book.live(cell).get_by_label("Steer the agent")
    card(book, cell).wait_for()
    field.fill("Use medians, <b>please</b>.")
    field.press("Enter")
    expect(book.live(cell)).to_contain_text("Use medians, <b>please</b>. (read at the next step)")
    (lab.folder / "steered.txt").touch()
    book.await_done(cell)
    assert "Use medians, <b>please</b>." in model.heard()
    assert "Use medians, " in spoken([book.save()["cells"][cell]])
    expect(book.output(cell).locator(SAVED).first).to_contain_text("Use medians, <b>please</b>.")


# ---- saved, reopened, reloaded -------------------------------------------------------------------


def test_saved_and_opened_again(
    lab: Lab, browser: Browser, book: NotebookPage, model: Model
) -> None:
    """The next day the transcript is there, without a kernel, and nothing asks for a widget."""
    model.says(code("6 * 7", "I compute."), Reply(text="It is **42**."))
    cell = start(book)
    book.await_done(cell)
    saved = book.save()
    assert "widgets" not in saved["metadata"]
    kinds = {kind for o in saved["cells"][cell]["outputs"] for kind in o["data"]}
    assert kinds <= {"text/html", "text/markdown", "text/plain"}
    (lab.folder / "next_day.ipynb").write_text(json.dumps(saved), encoding="utf-8")
    again = lab.open(browser, "next_day.ipynb")
    output = again.output(cell)
    expect(output.locator("strong", has_text="42")).to_be_visible()
    output.locator("summary").first.click()
    expect(output.locator("summary", has_text="6 * 7")).to_be_visible()
    again.check()
    again.close()


def test_a_plan_is_run_by_a_click(lab: Lab, book: NotebookPage, model: Model) -> None:
    """`%agent go` is offered with a button, which a person presses and no script, and which is
    gone once the cell has run.
    """
    book.do("planned = 4")
    model.says(code("planned = planned * 2"), Reply(text="I write it into a file."))
    cell = start(book, line="--fresh --plan")
    book.await_done(cell)
    button = book.cell(cell + 1).get_by_role("button", name="Run the plan")
    button.evaluate("button => button.click()")
    assert book.said("planned") == "4"  # it would have run before this
    expect(button).to_be_visible()
    model.says(code("open('plan.txt', 'w').write(str(planned))"), DONE)
    button.click()
    book.await_done(cell + 1)
    expect(book.output(cell + 1)).to_contain_text("All done.")
    assert (lab.folder / "plan.txt").read_text(encoding="utf-8") == "4"
    expect(button).to_be_hidden()


@pytest.mark.deep
def test_closed_while_it_works(lab: Lab, browser: Browser, model: Model) -> None:
    """A tab closed in mid-turn leaves a plain line, and `%agent show last` brings all of it."""
    model.says(code("print('long' + 'gone')", "I begin."), Reply(text="It is over.", delay=2.0))
    lab.notebook("closed.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork."])
    book = lab.open(browser, "closed.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("I begin.")
    saved = book.save()
    assert re.search("The agent was at work here|I begin", spoken(saved["cells"]))
    assert "widgets" not in saved["metadata"]
    book.check()
    book.close()
    again = lab.open(browser, "closed.ipynb")
    expect(again.output(1)).to_contain_text(
        re.compile("The agent was at work here|I begin|It is over")
    )
    shown = again.do("%agent show last")
    expect(again.output(shown)).to_contain_text("It is over.")
    assert "longgone" in spoken([again.save()["cells"][shown]])
    again.check()
    again.close()


def test_any_turn_again(lab: Lab, browser: Browser, model: Model) -> None:
    """A turn whose page was lost: by its number in another tab, and after a restart."""
    model.says(code("print('long' + 'gone')", "I begin."), Reply(text="It is over.", delay=2.0))
    lab.notebook("lost.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork."])
    book = lab.open(browser, "lost.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("I begin.")
    book.close()
    again = lab.open(browser, "lost.ipynb")
    model.says(Reply(text="Another answer."))
    again.do("%%agent\nWork again.")
    for number, text in ((1, "It is over."), (2, "Another answer."), (1, "It is over.")):
        shown = again.do(f"%agent show {number}")
        expect(again.output(shown)).to_contain_text(text)
    again.restart()
    shown = again.do("%agent show 1")
    expect(again.output(shown)).to_contain_text("It is over.")
    assert "longgone" in spoken([again.save()["cells"][shown]])
    listed = again.do("%agent show")
    expect(again.output(listed).locator("th", has_text="steps")).to_be_visible()
    again.check()
    again.close()


@pytest.mark.deep
def test_reloaded_while_it_works(lab: Lab, browser: Browser, model: Model) -> None:
    """Reloading the page in the middle breaks nothing: the cell ends with the turn."""
    model.says(code("1", "I begin."), Reply(text=(*TALK, "END"), pause=0.04))
    lab.notebook("reload.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork."])
    book = lab.open(browser, "reload.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("I begin.")
    book.save()
    book.page.reload()
    book.await_kernel()
    expect(book.live(1)).to_have_count(0)
    expect(book.output(1)).to_contain_text("END")
    kept = book.save()["cells"][1]["outputs"]
    assert ["text/html" in output["data"] for output in kept] == [True, False]
    shown = book.do("%agent show last")
    expect(book.output(shown)).to_contain_text("END")
    book.check()
    book.close()


@pytest.mark.deep
def test_saved_while_it_works_and_the_kernel_gone(lab: Lab, browser: Browser, model: Model) -> None:
    """A notebook saved in mid-turn is readable after its kernel has ended."""
    model.says(Reply(text=TALK, fault=Fault("stall", seconds=60)))
    lab.notebook("middle.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork."])
    book = lab.open(browser, "middle.ipynb")
    book.run(0)
    book.run(1, wait=False)
    expect(book.live(1)).to_contain_text("I look at the table")
    saved = book.save()
    book.close()
    (lab.folder / "later.ipynb").write_text(json.dumps(saved), encoding="utf-8")
    later = lab.open(browser, "later.ipynb")
    # Where the machine was so slow that no widget answered in time: the words so far.
    expect(later.output(1)).to_contain_text(
        re.compile("The agent was at work here when this was saved|I look at the table")
    )
    later.check()
    later.close()


def test_run_all(lab: Lab, browser: Browser) -> None:
    """Run All goes through several agent cells; each has its own saved form, in order."""
    script = lab.folder / "script.yaml"
    script.write_text(
        "- task: First.\n  replies:\n"
        "  - calls: [{name: execute_code, arguments: {code: 'print(1)'}}]\n  - text: First done.\n"
        "- task: Third.\n  replies:\n  - text: Third done.\n",
        encoding="utf-8",
    )
    cells = [
        f"%load_ext jupyter_agent\n%agent config provider scripted\n%agent config script {script}",
        "%agent cassette all.cassette.jsonl\n%agent config mode record",
        "%%agent\nFirst.",
        "%agent config mode replay",
        "%%agent --fresh\nFirst.",
        "%agent config mode live",
        "%%agent --fresh\nThird.",
        "1 + 1",
    ]
    lab.notebook("all.ipynb", cells)
    book = lab.open(browser, "all.ipynb")
    book.run_all()
    book.await_done(len(cells) - 1)
    saved = book.save()["cells"]
    for number, text in ((2, "First done."), (4, "First done."), (6, "Third done.")):
        assert text in spoken([saved[number]])
        expect(book.output(number).locator(SAVED).first).to_be_visible()
    assert saved[2]["outputs"] == saved[4]["outputs"]  # recorded, then replayed
    assert book.output(7).inner_text().split()[-1] == "2"
    book.check()
    book.close()


# ---- where the widget is missing -----------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        ("anywidget",),
        pytest.param(("anywidget", "@jupyter-widgets/jupyterlab-manager"), marks=pytest.mark.deep),
    ],
)
@pytest.mark.deep
def test_without_the_widget(
    lab: Lab, browser: Browser, model: Model, missing: tuple[str, ...]
) -> None:
    """Without the widget a turn is visible all the same, and asks in the cell."""
    model.says(
        Reply(
            text=TALK,
            calls=(call("execute_code", code="!echo asked > fallback.txt"),),
            pause=0.06,
        ),
        Reply(text=("I wait.",), fault=Fault("stall", seconds=60)),
    )
    (lab.folder / "fallback.txt").unlink(missing_ok=True)
    lab.disable(*missing)
    lab.notebook("bare.ipynb", ["%load_ext jupyter_agent", "%%agent\nWork."])
    try:
        book = lab.open(browser, "bare.ipynb")
        book.run(0)
        book.run(1, wait=False)
        expect(book.output(1)).to_contain_text("The agent was at work here")
        expect(book.output(1)).to_contain_text("I look at the table")
        assert book.live(1).count() == 0
        asked = book.cell(1).locator(".jp-Stdin-input")
        asked.wait_for()
        assert "The agent asks: Run this code?" in book.output(1).inner_text()
        asked.fill("y")
        asked.press("Enter")
        expect(book.output(1)).to_contain_text("I wait.")
        assert (lab.folder / "fallback.txt").exists()
        book.press_interrupt()
        book.await_done(1)
        expect(book.output(1)).to_contain_text("allowed by you")
        expect(book.output(1)).to_contain_text("The agent was interrupted")
        assert "widgets" not in book.save()["metadata"]
        book.check()
        book.close()
    finally:
        lab.disable()


# ---- hostile text --------------------------------------------------------------------------------

CANARY = "http://canary.invalid/x"
EVIL = (
    "<script>window.pwned=1</script>"
    f"<img src='{CANARY}' onerror='window.pwned=2'><svg onload=window.pwned=3>"
    f"</details></pre></div><a href='javascript:window.pwned=4'>x</a>"
    "[x](javascript:window.pwned=5) "
    f"![y]({CANARY}) <iframe src='{CANARY}'></iframe>"
    "\x1b[31mred\x1b[0m \u202eback\u2066 \ud800 end"
)
UNTIL_LOOKED_AT = (
    "import asyncio, os\nwhile not os.path.exists('looked_at'): await asyncio.sleep(0.05)"
)
DRAWS = "script, svg, iframe, a[href^='javascript'], img[onerror], [onload], [onclick]"


def test_nothing_hostile_runs(lab: Lab, browser: Browser, book: NotebookPage, model: Model) -> None:
    """Markup in any text is shown as text: while it streams, when saved, and after reopening."""
    shown = EVIL.replace("\ud800", "").replace("\x1b", "")
    source = f"print({shown!r})\nraise ValueError({shown!r})"
    model.says(
        Reply(
            text=words(EVIL),
            pause=0.02,
            calls=(
                call("execute_code", code=source),
                call("read_file", path=shown),
                call("write_file", path="x<img src=q onerror=window.pwned=6>.md", content=shown),
                call("<b onclick=alert(1)>", **{"<i>": shown}),
                call("update_plan", items=[{"text": shown, "state": "in_progress"}]),
                call("execute_code", code=UNTIL_LOOKED_AT),
            ),
        ),
        Reply(text=words(EVIL), pause=0.02),
    )
    (lab.folder / "looked_at").unlink(missing_ok=True)
    cell = start(book, f"Look: {shown}", "--fresh --approve auto")
    expect(book.live(cell)).to_contain_text("<script>window.pwned=1</script>")
    expect(card(book, cell, 4)).to_be_visible()
    for summary in book.live(cell).locator("details:not([open]) > summary:visible").all()[::-1]:
        summary.click()
    assert book.live(cell).locator(DRAWS).count() == 0
    (lab.folder / "looked_at").touch()
    book.await_done(cell)
    assert _drawn(book, cell) == 0
    expect(book.output(cell).first).to_contain_text("<script>window.pwned=1</script>")
    saved = book.save()
    (lab.folder / "evil.ipynb").write_text(json.dumps(saved), encoding="utf-8")
    again = lab.open(browser, "evil.ipynb")
    expect(again.output(cell).first).to_contain_text("<script>window.pwned=1</script>")
    assert _drawn(again, cell) == 0
    again.check()
    again.close()


def _drawn(book: NotebookPage, cell: int) -> int:
    """How much of what must stay text is an element in the cell's saved outputs."""
    return book.output(cell).locator(f".jp-OutputArea-output :is({DRAWS})").count()


# ---- looks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["Light", "Dark"])  # and both in test_live_js.py
def test_a_theme_is_legible(book: NotebookPage, model: Model, theme: str) -> None:
    """In both themes of JupyterLab each word stands out from what is behind it."""
    plan = [{"text": "Look at it", "state": "done"}, {"text": "Plot it", "state": "in_progress"}]
    model.says(
        Reply(text="A look **first**, with `code`.", calls=(call("update_plan", items=plan),)),
        code("import math\nprint(math.pi)  # 3.14", "I compute."),
        code("1 / 0", "I divide."),
        Reply(text="A command.", calls=(call("execute_code", code="!ls -l  # look"),)),
    )
    book.theme(theme)
    cell = start(book)
    expect(book.live(cell).get_by_role("button", name="Yes")).to_be_visible()
    for number in (1, 2):
        card(book, cell, number).locator("summary").click()
    book.page.wait_for_function(
        "dark => getComputedStyle(document.querySelector('.ja')).colorScheme === dark",
        arg=theme.lower(),
    )
    worst = book.page.evaluate(CONTRAST)
    book.live(cell).evaluate("e => e.scrollIntoView()")
    book.shot(f"lab-{theme.lower()}")
    assert worst[0][0] >= 4.5, worst
    stop(book, cell)
    book.await_done(cell)
    book.shot(f"lab-{theme.lower()}-saved")


def test_a_narrow_window(book: NotebookPage, model: Model) -> None:
    """In a window of 400 px all controls are within reach, and nothing is cut off."""
    model.says(code("!ls " + "averylongname" * 20, "A command."))
    book.page.set_viewport_size({"width": 400, "height": 900})
    book.page.keyboard.press("Control+b")  # without the file browser
    try:
        cell = start(book)
        expect(book.live(cell).get_by_role("button", name="Yes")).to_be_visible()
        view = book.live(cell)
        for part in view.locator(".ja-head, .ja-body, .ja-foot, .ja-card, .ja-question").all():
            assert part.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
        for control in view.locator("button:visible, input:visible").all():
            box = control.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= 400
        view.evaluate("e => e.scrollIntoView()")
        book.shot("lab-400")
        stop(book, cell)
        book.await_done(cell)
    finally:
        book.page.keyboard.press("Control+b")
        book.page.set_viewport_size({"width": 1000, "height": 1100})
