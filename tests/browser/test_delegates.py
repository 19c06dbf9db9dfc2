"""Two delegates at work in a real JupyterLab: seen, asked about, kept, and there after a reload."""

from __future__ import annotations

from typing import Any

import pytest
from browser.lab import Lab, NotebookPage, call, spoken
from model_server import Call, ModelServer, Reply
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser

MAIN = "Tidy up, and count the rows."
COUNT, TIDY = "Count the <b>rows</b>.", "Tidy up the folder, with a command if need be."
ABOVE = "rows = [3, 1, 2]\nprint('\\n'.join(f'a line above {n}' for n in range(4)))"
BELOW = "print('\\n'.join(f'a line below {n}' for n in range(4)))"


def act(code: str, text: str = "", tokens: int = 0) -> Reply:
    return Reply(
        text=text, calls=(call("execute_code", code=code),), input_tokens=tokens, output_tokens=30
    )


SCRIPTS = {
    MAIN: [
        Reply(
            text="I give both parts away.",
            calls=(
                Call("delegate", f'{{"task": "{COUNT}", "output": ["total"]}}'),
                Call("delegate", f'{{"task": "{TIDY}"}}'),
            ),
        ),
        Reply(text="There are 3 rows, and the folder is tidy."),
    ],
    COUNT: [
        act("len(rows)", "I look at it first.", 1_000),
        act("total = len(rows)\ntotal", tokens=1_400),
        Reply(text=("I have counted", " twice:", " there are 3."), hold="twice"),
    ],
    TIDY: [
        act("import os\nlen(os.listdir())", tokens=900),
        act("# a new file\n!touch tidied.txt", tokens=1_100),
        act("!touch tidied.txt", tokens=1_200),
        Reply(text="It is tidy now."),
    ],
}


def reply(body: dict[str, Any]) -> Reply:
    """The next reply to whoever asks, known by the task."""
    asked = [each for each in body["messages"] if each["role"] == "user"]
    told = str(asked[0]["content"])
    script = next(its for task, its in SCRIPTS.items() if told.startswith(task))
    return script[sum(each["role"] == "assistant" for each in body["messages"])]


def card(book: NotebookPage, name: str) -> Locator:
    """The card of a delegate in the live view of the cell with the turn."""
    return book.live(2).locator("[data-delegate]", has=book.page.get_by_text(name, exact=True))


def in_dark(book: NotebookPage, name: str) -> None:
    """Keep a picture in the dark theme."""
    splash = book.page.locator("#jupyterlab-splash")
    book.theme("Dark")
    expect(splash).to_have_count(0)
    if book.live(2).count():  # it follows the theme within a second
        expect(book.live(2)).to_have_css("color-scheme", "dark")
    book.shot(name)
    book.theme("Light")
    expect(splash).to_have_count(0)


def test_two_delegates(lab: Lab, browser: Browser) -> None:
    """Each has a card with its name, what it does now, its tokens and its steps; one asks, by name,
    twice the same, and the keyboard leads there; all of it is in the file and there after a reload.
    """
    with ModelServer(reply) as server:
        cells = [
            f"%load_ext jupyter_agent\n%agent config api_base {server.openai_url}",
            *(ABOVE, f"%%agent --fresh\n{MAIN}", BELOW),
        ]
        lab.notebook("delegates.ipynb", cells)
        book = lab.open(browser, "delegates.ipynb", (1000, 1250))
        for number in (0, 1, 3):
            book.run(number)
        book.run(2, wait=False)
        first, second = card(book, "Delegate 1"), card(book, "Delegate 2")
        header = book.live(2).locator(".ja-top")
        expect(header).to_contain_text("(Delegate 2) Run this code?")
        expect(header).to_contain_text("!touch tidied.txt")
        expect(first.locator(".ja-does")).to_contain_text("step 3: waiting for the model")
        expect(first.locator(".ja-spent")).to_contain_text("2,460 tokens")
        expect(second).to_have_attribute("data-state", "asking")
        expect(second.locator(".ja-does")).to_contain_text("waiting for you: execute_code !touch")
        expect(second.locator(".ja-text").last).to_contain_text("# a new file\n!touch tidied.txt")
        expect(first.locator("> details")).not_to_have_attribute("open", "")
        book.shot("delegates-asking-light")
        first.locator("summary").first.click()
        steps = first.locator(".ja-its")
        expect(steps).to_contain_text("I look at it first.")
        expect(steps.locator(".ja-card")).to_have_count(2)
        steps.locator(".ja-card summary").last.click()
        expect(steps.locator(".ja-card").last).to_contain_text("total = len(rows)")
        in_dark(book, "delegates-asking-dark")
        for _ in range(2):  # the second question has the same words
            expect(header).to_contain_text("Waiting for you")
            expect(header.get_by_role("button", name="Yes", exact=True)).to_be_enabled()
            book.page.keyboard.press("Alt+Shift+A")
            expect(header.get_by_role("button", name="Yes", exact=True)).to_be_focused()
            book.page.keyboard.press("Enter")
            # Taken: the button waits, or is gone already.
            expect(header.locator("button:enabled", has_text="Yes")).to_have_count(0)
        expect(second.locator(".ja-does")).to_contain_text("4 steps")
        book.shot("delegates-at-work-light")
        server.goes_on.set()
        book.await_done(2)
        expect(book.live(2)).to_have_count(0)
    assert (lab.folder / "tidied.txt").exists()
    turn = book.save()["cells"][2]
    kept = spoken([turn])
    for words in ("Delegate 1", "Delegate 2", "Its steps", "total = len(rows)", "2,4"):
        assert words in kept
    markdown = "".join(turn["outputs"][0]["data"]["text/markdown"])
    assert "> *Its steps*" in markdown and "> `execute_code` ✓ → 3" in markdown
    book.page.reload()
    book.await_cells()
    saved = book.output(2)
    for summary in ("Agent", "Delegate 2", "Delegate 1"):
        saved.locator("summary", has_text=summary).first.click()
    for its in saved.locator("summary", has_text="Its steps").all():
        its.click()
    expect(saved).to_contain_text("I look at it first.")
    expect(saved).to_contain_text("total = len(rows)")
    expect(saved).to_contain_text("Count the <b>rows</b>.")
    expect(saved).to_contain_text("allowed by you")
    book.shot("delegates-reloaded-light")
    in_dark(book, "delegates-reloaded-dark")
    book.check()
    book.close()
