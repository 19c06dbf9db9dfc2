"""The live transcript in Chromium, as a person sees and uses it. The test plays the kernel."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from browser.page import WIDGETS, Notebook, call, delegate, launch, notebook, state, step
from playwright.sync_api import Browser, expect, sync_playwright

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhf"
    "DwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
QUESTION = {
    "text": "Run this code?",
    "reasons": ["runs a shell command: ls (line 2)"],
    "always": "shell commands",
}
HOSTILE = [
    "<script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=1">',
    "</details></pre></div><b>out</b>",
    "javascript:window.pwned=1",
    "[x](javascript:window.pwned=1) **<b onclick=alert(1)>** `<svg/onload=alert(1)>`",
    "\u202eevil\u2066\x1b[31m red \ud800 lone",
    "]]><!--<style>*{display:none}</style>",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def book(browser: Browser) -> Iterator[Notebook]:
    with notebook(browser) as book:
        yield book


def asking(**changes: object) -> dict[str, Any]:
    return call(
        id="call_9",
        state="asking",
        seconds=None,
        outputs=[],
        body="!ls",
        question=QUESTION,
        **changes,
    )


def rich_state() -> dict[str, Any]:
    """The turn of the mock, with a bit of everything."""
    means = (
        'mean_mass = penguins.groupby("species")["body_mass_g"].mean().round(1)  # grams\nmean_mass'
    )
    table = "species\nAdelie       3700.7\nChinstrap    3733.1\nGentoo       5076.0"
    plan = [
        {"text": "Look at the table", "state": "done"},
        {"text": "Mean mass by species", "state": "done"},
        {"text": "Write report.md", "state": "in_progress"},
        {"text": "Propose a plot", "state": "pending"},
    ]
    first = step(
        1,
        thinking="Mass is missing for two rows; say so.",
        text=(
            "I look at the **table** first, then take means by `species`:\n\n"
            "- count what is missing\n- take the means"
        ),
        calls=[
            call(
                "inspect_variable",
                id="c1",
                gist="penguins: DataFrame, 344 rows, 7 columns",
                seconds=0.0,
                language="text",
            )
        ],
    )
    gist = 'penguins.groupby("specie")["body_mass_g"].mean()'
    failed = call(
        id="c2",
        state="failed",
        note="KeyError",
        gist=gist,
        body=gist,
        outputs=[{"kind": "error", "text": "KeyError: 'specie'   line 1"}],
    )
    good = call(id="c3", gist=means, body=means, outputs=[{"kind": "text", "text": table}])
    added = ["+# Penguins by mass", "+Gentoo are heaviest: 5,076 g on average."]
    lines = ["@12 unchanged lines", *added, "-old line", " same"]
    its = step(1, text="I count.", calls=[call(id="d1/a", gist="len(rows)", came="3")])
    over = {"running": False, "now": "2 steps · budget used up", "notices": ["No tokens are left."]}
    outputs = [{"kind": "text", "text": "There are 3 rows."}]
    worked = delegate(1, its, state="done", seconds=4.0, outputs=outputs, delegate=over)
    diff = {"title": "report.md", "added": 2, "removed": 1, "lines": lines}
    ask = call(
        "write_file",
        id="c4",
        gist="report.md (new, 4 lines)",
        state="asking",
        seconds=None,
        language="text",
        body="",
        outputs=[],
        question={
            "text": "Write this file?",
            "reasons": ["writes over report.md, which the agent has not read"],
            "diffs": [diff],
            "always": "new files",
        },
    )
    return state(
        first,
        step(2, notices=["The provider is busy; trying again in 2 s."], calls=[failed]),
        step(3, said=["Round the means, please."], calls=[good, worked, delegate(2, its)]),
        step(4, calls=[ask]),
        plan=plan,
        unread=["and add the counts"],
        activity="waiting for you",
    )


# ---- what streams --------------------------------------------------------------------------------


def test_ready_is_sent_once_the_output_is_there(book: Notebook) -> None:
    """The view asks the kernel for its state once, and the state replaces the fallback text."""
    assert book.sent() == [{"t": "ready"}]
    assert "The agent is at work." in book.page.inner_text("#notebook")
    book.show(state(step(text="hello")))
    assert "The agent is at work." not in book.page.inner_text("#notebook")


def test_no_output_no_ready(browser: Browser) -> None:
    """Without its output the module waits; it draws as soon as the output appears."""
    with notebook(browser, host="later") as book:
        assert book.sent() == []
        book.page.evaluate("""() => {
          notebook.append(document.createElement('div'));
          notebook.lastChild.className = 'jupyter-agent-live jupyter-agent-live-later';
        }""")
        book.settle()
        assert book.sent() == [{"t": "ready"}]
        book.show(state(step(text="hello")))
        assert "hello" in book.page.inner_text(".jupyter-agent-live-later")


def test_header_tells_step_tokens_cost_and_time(book: Notebook) -> None:
    """The header shows step, tokens, cost and time; the clock runs by itself."""
    book.show(state(step(), step(), activity="waiting for the model"))
    first = re.search(r"step 2 of 50 · 6,120 tokens · \$0\.021 · (\d\d) s", book.text())
    assert first and int(first[1]) >= 18
    assert "waiting for the model" in book.text()
    expect(book.page.locator(".ja-facts")).not_to_contain_text(f"{first[1]} s")
    later = re.search(r"(\d\d) s", book.text())
    assert later and int(later[1]) > int(first[1])


def test_streamed_text_appears_in_the_same_node(book: Notebook) -> None:
    """Words appear as they stream; existing nodes are not drawn again."""
    book.show(state(step(text="Gentoo ")))
    book.page.evaluate("window.node = document.querySelector('.ja-prose p span span').firstChild")
    book.patch(
        ["append", ["steps", 0, "text"], "penguins "], ["append", ["steps", 0, "text"], "win."]
    )
    assert "Gentoo penguins win." in book.text()
    assert book.page.evaluate("node.isConnected && node.data") == "Gentoo penguins win."


def test_text_is_shown_with_lists_code_and_bold(book: Notebook) -> None:
    """Lists, code and bold are formatted; an open fence is shown as code already."""
    book.show(
        state(step(text="# Plan\nuse `np` and **care**\n\n1. one\n- two\n\n```python\nx = 1\n"))
    )
    assert book.page.inner_text(".ja-prose .ja-h") == "Plan"
    assert book.page.inner_text(".ja-prose code") == "np"
    assert book.page.inner_text(".ja-prose b") == "care"
    assert "x = 1" in book.page.inner_text(".ja-prose pre")
    assert "• two" in book.page.inner_text(".ja-prose")


def test_thinking_is_folded(book: Notebook) -> None:
    """Thinking is folded, and its label says when it still streams."""
    book.show(state(step(thinking="Mass is missing.")))
    thought = book.page.locator(".ja-thinking")
    assert thought.get_attribute("open") is None
    assert thought.locator("summary").inner_text() == "Thinking …"
    book.patch(["append", ["steps", 0, "text"], "So:"])
    assert thought.locator("summary").inner_text() == "Thinking"


def test_plan_is_a_checklist(book: Notebook) -> None:
    """The plan shows finished and open items, also to a screen reader."""
    book.show(rich_state())
    items = book.page.get_by_role("list", name="Plan").get_by_role("listitem")
    assert items.count() == 4
    assert items.nth(2).text_content() == "◐Write report.md (in progress)"
    book.patch(["set", ["plan", 2, "state"], "done"])
    assert items.nth(2).text_content() == "●Write report.md (done)"


# ---- cards ---------------------------------------------------------------------------------------


def test_a_card_keeps_what_the_person_chose(book: Notebook) -> None:
    """A card stays open or folded as the person left it, while others stream."""
    book.show(state(step(calls=[call(id="a"), call(id="b", state="running", seconds=30)])))
    first, second = book.page.locator(".ja-card details").all()
    assert (first.get_attribute("open"), second.get_attribute("open")) == (None, "")
    first.locator("summary").click()
    second.locator("summary").click()
    for index in range(5):
        book.patch(["append", ["steps", 0, "calls", 1, "outputs", 0, "text"], f"line {index}\n"])
    book.patch(["push", ["steps"], step(2, text="next")])
    assert (first.get_attribute("open"), second.get_attribute("open")) == ("", None)
    book.show(state(step(calls=[call(id="a"), call(id="b")]), step(2)))
    assert (first.get_attribute("open"), second.get_attribute("open")) == ("", None)


def test_a_running_card_opens_itself_and_folds_when_the_agent_goes_on(book: Notebook) -> None:
    """The card of slow code opens to show its output, and folds with the next step."""
    book.show(state(step(calls=[call(state="running", seconds=None)])))
    card = book.page.locator(".ja-card details")
    expect(card).to_have_attribute("open", "")
    assert "running" in card.locator("summary").inner_text()
    book.patch(["set", ["steps", 0, "calls", 0, "state"], "done"])
    assert card.get_attribute("open") == ""
    book.patch(["push", ["steps"], step(2)])
    assert card.get_attribute("open") is None


def test_a_failed_card_is_marked_and_stays_folded(book: Notebook) -> None:
    """A failure is visible without opening anything, and audible to a screen reader."""
    book.show(state(step(calls=[call(state="failed", note="KeyError")])))
    summary = book.page.locator(".ja-card summary")
    assert "✗" in summary.inner_text() and "KeyError" in summary.inner_text()
    assert summary.locator(".ja-sr").text_content() == "failed: KeyError"
    assert book.page.locator(".ja-card details").get_attribute("open") is None


@pytest.mark.parametrize("name", ["waiting", "running", "asking", "refused", "interrupted", "done"])
def test_every_state_is_heard(book: Notebook, name: str) -> None:
    """Each state has words beside its glyph."""
    book.show(state(step(calls=[call(state=name, seconds=None)])))
    heard = book.page.locator(".ja-card .ja-sr").first.text_content()
    assert heard == {"asking": "waiting for you"}.get(name, name)


def test_code_is_highlighted_without_changing_it(book: Notebook) -> None:
    """Python has colours; its text is exactly what the agent wrote."""
    code = (
        "%matplotlib inline\n@cache\ndef f(x):  # note\n    '''doc\n    more'''\n"
        "    return f\"{x!r}\" + rb'\\'' + str(0x1F) + \"open\nprint(1.5e3)\n'''never closed"
    )
    book.show(state(step(calls=[call(body=code)])))
    book.unfold()
    assert book.page.locator(".ja-code").text_content() == code
    spans = book.page.eval_on_selector_all(
        ".ja-code span", "all => all.map(s => [s.className, s.textContent])"
    )
    assert ["ja-k", "def"] in spans and ["ja-c", "# note"] in spans and ["ja-b", "print"] in spans
    assert ["ja-d", "%matplotlib inline"] in spans and ["ja-s", "'''doc\n    more'''"] in spans


ODD = ["'''", "\\", "rb", "f'", " ", "\n@"]
ODDER = ['"', "#", "(", "`", "**", "1e", "é"]


@pytest.mark.parametrize("unit", [*ODD, *(pytest.param(u, marks=pytest.mark.deep) for u in ODDER)])
def test_highlighting_takes_linear_time(book: Notebook, unit: str) -> None:
    """No text, however odd, freezes the page."""
    text = (unit * 45_000)[:45_000]
    book.show(state(step(text=text, calls=[call(body=text, state="asking", question=QUESTION)])))
    started = time.monotonic()
    book.patch(["set", ["steps", 0, "calls", 0, "body"], text + "x"])
    assert book.page.locator(".ja-code").text_content() == text + "x"
    assert time.monotonic() - started < 20


def test_diff_and_figure(book: Notebook) -> None:
    """A write shows its lines in two colours, a figure is shown; a bad payload is no image."""
    outputs = [
        {"kind": "diff", "title": "a.txt", "added": 1, "removed": 2_000, "lines": ["-old", "+new"]},
        {"kind": "image", "mime": "image/png", "data": PIXEL, "alt": "A plot"},
        {"kind": "image", "mime": "image/svg+xml", "data": "PHN2Zz4=", "alt": "no"},
        {"kind": "image", "mime": "image/png", "data": 'x" onerror="window.pwned=1', "alt": "no"},
    ]
    book.show(state(step(calls=[call(outputs=outputs)])))
    book.unfold()
    assert book.page.locator("ins").text_content() == "+new"
    assert book.page.locator("del").text_content() == "-old"
    assert book.page.locator(".ja-counts").text_content() == "a.txt+1−2,000"
    assert book.page.get_by_role("group", name="Changes of a.txt: 1 added, 2000 removed").count()
    images = book.page.locator("img")
    assert images.nth(0).get_attribute("alt") == "A plot"
    assert images.nth(0).evaluate("i => i.complete && i.naturalWidth") == 1
    assert images.nth(1).get_attribute("src") is None
    assert images.nth(2).get_attribute("src") is None


def test_a_finished_figure_stays_in_sight(book: Notebook) -> None:
    """A figure is small below a folded card, and large in an open one."""
    figure = {"kind": "image", "mime": "image/png", "data": PIXEL, "alt": "A plot"}
    book.show(state(step(calls=[call(outputs=[figure], came="1 figure"), call(id="b")])))
    image = book.page.locator("img")
    expect(image).to_be_visible()
    assert (image.bounding_box() or {})["height"] == 150
    assert book.page.locator(".ja-came").first.text_content() == "→ 1 figure"
    book.page.locator(".ja-card summary").first.click()
    expect(image).to_be_visible()
    assert (image.bounding_box() or {})["height"] < 10


def test_a_table_scrolls(book: Notebook) -> None:
    """A data frame is a table with labels above and beside it, of limited height."""
    head = [[["", 1, 1, True], ["mass", 2, 1, True]]]
    rows = [[[str(n), 1, 1, True], [f"<b>{n}", 1, 1, False], ["x", 1, 1, False]] for n in range(60)]
    book.show(
        state(step(calls=[call(outputs=[{"kind": "table", "rows": head + rows, "head": 1}])]))
    )
    book.unfold()
    table = book.page.locator(".ja-table")
    assert table.locator("thead th").all_text_contents() == ["", "mass"]
    assert table.locator("thead th").nth(1).get_attribute("colspan") == "2"
    assert table.locator("tbody td").first.text_content() == "<b>0"
    assert table.evaluate("e => e.clientHeight <= 220 && e.scrollHeight > 900")


def test_the_plan_stays_when_the_steps_scroll(book: Notebook) -> None:
    """The plan is above the part that scrolls."""
    turn = rich_state()
    turn["steps"][0]["text"] = "line\n\n" * 200
    book.show(turn)
    plan = book.page.get_by_role("list", name="Plan")
    assert not plan.evaluate("e => e.closest('.ja-body')")
    assert plan.evaluate("e => e.getBoundingClientRect().top >= 0 && e.clientHeight < 90")


def test_copy_code_and_answer(book: Notebook) -> None:
    """Copy puts a code, and the answer, on the clipboard as they were written."""
    code = "import os\nx = '<b>'  # why"
    answer = "**3.5** of `x`"
    book.show(state(step(calls=[call(body=code)]), step(2, text=answer)))
    book.unfold()
    book.page.evaluate(
        "document.addEventListener('copy', e => (window.copied = document.activeElement.value))"
    )
    for what, text in (("this code", code), ("this answer", answer)):
        copy = book.page.get_by_role("button", name=f"Copy {what}")
        copy.click()
        expect(copy).to_have_text("Copied")
        assert book.page.evaluate("window.copied") == text
        assert copy.evaluate("e => e === document.activeElement")
    assert book.page.locator(".ja textarea").count() == 0
    book.show(state(step(calls=[asking()])))
    assert book.page.locator(".ja-copy:visible").count() == 0


def test_long_output_follows_its_end_until_the_person_scrolls(book: Notebook) -> None:
    """The newest line is in view until the person scrolls up; the page itself does not move."""
    lines = "".join(f"line {index}\n" for index in range(100))
    running = call(state="running", seconds=30, outputs=[{"kind": "text", "text": lines}])
    book.show(state(step(calls=[running])))
    path = ["steps", 0, "calls", 0, "outputs", 0, "text"]
    at = "pre => pre.scrollHeight - pre.scrollTop - pre.clientHeight"
    pre = book.page.locator(".ja-out")
    book.patch(["append", path, lines])
    assert pre.evaluate(at) < 3
    pre.evaluate("pre => { pre.scrollTop = 50; }")
    book.settle()
    book.patch(["append", path, lines])
    assert pre.evaluate("pre => pre.scrollTop") == 50
    assert book.page.evaluate("scrollY") == 0


def test_the_transcript_follows_its_end(book: Notebook) -> None:
    """New steps come into view unless the person reads further up; a button jumps to the end."""
    book.show(state(*[step(n, text=f"step {n}\n\n" * 8) for n in range(1, 12)]))
    body = book.page.locator(".ja-body")
    at = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    assert body.evaluate(at) < 3
    latest = book.page.get_by_role("button", name="Latest")
    assert not latest.is_visible()
    body.evaluate("e => { e.scrollTop = 10; }")
    book.settle()
    book.patch(["push", ["steps"], step(12, text="more\n\n" * 9)])
    assert body.evaluate("e => e.scrollTop") == 10
    latest.click()
    assert body.evaluate(at) < 3


# ---- what the person does ------------------------------------------------------------------------


def test_stop_is_sent_at_once(book: Notebook) -> None:
    """Stop reacts to the click; a kernel that reads messages is not interrupted by the server."""
    book.show(state(step()))
    book.sent()
    book.page.evaluate("""() => {
      const send = test.model.send.bind(test.model);
      test.model.send = (message) => {
        send(message);
        queueMicrotask(() => test.model.receive({t: 'stopping'}));
      };
    }""")
    book.page.get_by_role("button", name="Stop").click()
    assert book.sent() == [{"t": "stop"}]
    book.settle()
    stop = book.page.locator(".ja-stop")
    assert stop.inner_text() == "Stopping…" and stop.is_disabled()
    book.page.wait_for_timeout(700)
    assert book.requests == []
    book.patch(["set", ["running"], False], ["set", ["ending"], "Interrupted."])
    assert not stop.is_visible()
    assert "Interrupted." in book.text()


def test_stop_interrupts_a_kernel_that_does_not_listen(book: Notebook) -> None:
    """Where blocking code holds the kernel, the server interrupts it, with the page's own keys."""
    book.show(state(step()))
    with book.page.expect_request("**/interrupt"):
        book.page.get_by_role("button", name="Stop").click()
    book.settle()
    assert book.requests == [
        "POST http://notebook.test/user/me/api/kernels/k-1/interrupt x1 token t0"
    ]


@pytest.mark.parametrize("kernel", ["", None, "../../shutdown", "a b"])
def test_no_interrupt_for_an_odd_kernel_id(browser: Browser, kernel: object) -> None:
    """A malformed kernel id makes no request."""
    with notebook(browser, kernel_id=kernel) as book:
        book.show(state(step()))
        book.page.get_by_role("button", name="Stop").click()
        book.page.wait_for_timeout(600)
        assert book.requests == []


def test_steering_is_sent_cleared_and_listed(book: Notebook) -> None:
    """Enter sends the typed words, which stay listed until the agent has read them."""
    book.show(state(step()))
    book.sent()
    field = book.page.get_by_label("Steer the agent")
    field.fill("  use medians ")
    field.press("Enter")
    assert book.sent() == [{"t": "steer", "text": "use medians"}]
    assert field.input_value() == ""
    book.settle()
    unread = book.page.get_by_role("list", name="Not read yet")
    assert unread.inner_text() == "You: use medians (read at the next step)"
    book.patch(["push", ["unread"], "use medians"])
    assert unread.inner_text() == "You: use medians (read at the next step)"
    book.patch(["set", ["unread"], []], ["push", ["steps"], step(2, said=["use medians"])])
    assert not unread.is_visible()
    assert "You: use medians" in book.text()
    field.press("Enter")
    assert book.sent() == []


def test_what_was_not_read_stays_in_sight_at_the_end(book: Notebook) -> None:
    """At the end the field disappears; words that the agent never read stay visible."""
    book.show(state(step(), running=False, ending="Done.", unread=["and the counts"]))
    assert not book.page.get_by_label("Steer the agent").is_visible()
    assert "You: and the counts (not read)" in book.text()


@pytest.mark.parametrize(
    ("label", "answer"), [("Yes", "yes"), ("Always in this session", "always")]
)
def test_a_question_is_answered_once(book: Notebook, label: str, answer: str) -> None:
    """The card opens with the question; a click answers it, and it cannot be answered twice."""
    book.show(state(step(calls=[asking()])))
    book.sent()
    question = book.page.get_by_role("group", name="The agent asks")
    assert "Run this code?" in question.inner_text()
    assert "runs a shell command: ls (line 2)" in question.inner_text()
    assert "shell commands" in question.inner_text()
    assert book.page.locator(".ja-card details").get_attribute("open") == ""
    choices = book.page.get_by_role("group", name="Your answer")
    choices.get_by_role("button", name=label, exact=True).click()
    assert book.sent() == [{"t": "answer", "call": "call_9", "answer": answer, "reason": ""}]
    book.settle()
    assert f"answered: {answer}" in question.inner_text()
    assert all(button.is_disabled() for button in choices.get_by_role("button").all())
    book.patch(
        ["set", ["steps", 0, "calls", 0, "question"], None],
        ["set", ["steps", 0, "calls", 0, "state"], "done"],
        ["set", ["steps", 0, "calls", 0, "note"], "allowed by you"],
    )
    assert not question.is_visible() and not choices.is_visible()
    assert "allowed by you" in book.text()


@pytest.mark.parametrize("text", ["2019", *HOSTILE])
def test_a_question_is_answered_in_words(book: Notebook, text: str) -> None:
    """Each choice is a button that sends its number, any other answer is typed; no text becomes
    markup, and what a script types is not sent.
    """
    question = {"text": f"Which {text}?", "choices": [text, "all"], "reasons": [], "diffs": []}
    ask = {**asking(name="ask_user", gist=f"Which {text}?"), "question": question}
    book.show(state(step(calls=[ask]), wait={"text": f"Which {text}?", "line": "", "left": 75}))
    book.sent()
    header = book.page.get_by_role("group", name="Your answer")
    assert "Waiting for you" in header.inner_text() and "s left" in header.inner_text()
    buttons = header.get_by_role("button")
    assert [each.text_content() for each in buttons.all()][1:] == ["all", "Answer"]
    plain = text.replace("\ud800", "\ufffd")
    shown = buttons.first.text_content() or ""
    assert shown.replace("\ud800", "\ufffd") == plain
    assert (header.text_content() or "").replace("\ud800", "\ufffd").count(plain) == 2
    assert book.page.locator(".ja script, .ja img, .ja svg, .ja style").count() == 0
    field = header.get_by_label("Your answer to the agent")
    field.evaluate("field => field.value = 'typed by a script'")
    buttons.last.click()
    assert book.sent() == []
    book.page.keyboard.press("Alt+Shift+A")
    assert buttons.first.evaluate("b => document.activeElement === b")
    field.fill(" both ")
    field.press("Enter")
    assert book.sent() == [{"t": "reply", "call": "call_9", "text": "both"}]
    assert all(each.is_disabled() for each in buttons.all())
    second = {**ask, "id": "call_10", "question": {**question, "text": "And?"}}
    book.patch(
        ["set", ["steps", 0, "calls", 0], call(id="call_9")],
        ["push", ["steps", 0, "calls"], second],
    )
    expect(buttons.first).to_be_enabled()
    buttons.first.click()
    assert book.sent() == [{"t": "reply", "call": "call_10", "choice": 0}]
    assert book.page.evaluate("window.pwned") is None


def test_an_answer_that_went_astray_can_be_given_again(book: Notebook) -> None:
    """After ten seconds without an effect the buttons can be pressed again."""
    book.show(state(step(calls=[asking()])))
    yes = book.page.get_by_role("button", name="Yes")
    yes.click()
    book.settle()
    assert yes.is_disabled()
    book.page.evaluate("""() => {
      const now = performance.now.bind(performance);
      performance.now = () => now() + 11_000;
    }""")
    expect(yes).to_be_enabled()
    book.sent()
    yes.click()
    assert [message["t"] for message in book.sent()] == ["answer"]


def test_a_second_click_does_not_answer_the_next_question(book: Notebook) -> None:
    """The buttons stay in their place: those of the next question wait for a moment."""
    book.show(state(step(calls=[asking()])))
    yes = book.page.get_by_role("button", name="Yes")
    yes.click()
    second = {**asking(), "id": "call_10", "question": {**QUESTION, "text": "And this?"}}
    book.patch(
        ["set", ["steps", 0, "calls", 0], call(id="call_9")],
        ["push", ["steps", 0, "calls"], second],
    )
    assert yes.is_disabled()
    expect(yes).to_be_enabled()
    book.sent()
    yes.click()
    assert [message["call"] for message in book.sent()] == ["call_10"]


WAIT = {"text": "It deletes data.csv. Allow it?", "line": "Type y: ", "left": 75}
LINE = """() => {
  const area = Object.assign(document.createElement("div"), {className: "jp-OutputArea"});
  const shown = notebook;
  shown.replaceWith(area);
  area.append(shown);
  area.insertAdjacentHTML("beforeend", `<pre class="jp-Stdin-prompt">Type y: <input
    class="jp-Stdin-input"></pre><pre class="jp-Stdin-prompt">Mine? <input
    class="jp-Stdin-input"></pre><input id="editor">`);
  window.lines = [];
  area.addEventListener("keydown", (e) => e.target.matches(".jp-Stdin-input")
    && lines.push([e.key, e.target.value]));
}"""


def test_a_line_that_is_no_longer_read_is_submitted(book: Notebook) -> None:
    """While the input line asks, the view points at it and its clocks stand; when the kernel no
    longer reads it, it is submitted, once, and no other line is.
    """
    book.show(state(step(calls=[call(state="running", seconds=None)])))
    book.page.evaluate(LINE)
    book.settle()
    book.patch(["set", ["wait"], WAIT])
    assert "Waiting for you" in book.text() and "Answer in the input line" in book.text()
    assert re.search(r"1 min (1[0-5]|[0-9]) s left", book.text())
    assert book.page.title() == "(?) notebook"
    assert book.page.get_by_label("Steer the agent").is_disabled()
    spoken = book.page.locator("[aria-live=polite]").text_content() or ""
    assert spoken.startswith("Waiting for you. It deletes data.csv. Allow it?")
    clock = book.view.locator(".ja-facts").inner_text()
    book.page.wait_for_timeout(1200)
    assert book.view.locator(".ja-facts").inner_text() == clock
    assert book.page.evaluate("lines") == []
    book.page.locator("#editor").focus()
    book.patch(["set", ["wait"], None])
    assert book.page.evaluate("lines") == [["Enter", "(not answered)"]]
    assert book.page.evaluate("document.activeElement.id") == "editor"
    assert not book.page.get_by_role("group", name="Your answer").is_visible()
    assert book.page.title() == "notebook"
    assert book.page.get_by_label("Steer the agent").is_enabled()


def test_a_line_that_was_soon_over(book: Notebook) -> None:
    """A line that no state told of is submitted when the kernel says that it is over, and once."""
    book.show(state(step(calls=[call(state="running", seconds=None)])))
    book.page.evaluate(LINE)
    book.settle()
    for _ in range(2):
        book.receive({"t": "line_over", "prompt": WAIT["line"]})
    book.patch(["set", ["wait"], None])
    assert book.page.evaluate("lines") == [["Enter", "(not answered)"]]


def test_the_line_of_a_kernel_that_is_gone(book: Notebook) -> None:
    """With the kernel goes its question: all open input lines of the cell are submitted."""
    book.show(state(step(calls=[call(state="running", seconds=None)]), wait=WAIT))
    book.page.evaluate(LINE)
    book.settle()
    book.page.evaluate("test.model.lost.forEach((lose) => lose())")
    assert book.page.evaluate("lines") == [["Enter", "(not answered)"]] * 2


def test_no_with_a_reason(book: Notebook) -> None:
    """No asks why; Escape takes it back, Enter sends the reason along."""
    book.show(state(step(calls=[asking()])))
    book.sent()
    no = book.page.get_by_role("button", name="No, because …")
    reason = book.page.get_by_label("Reason for refusing")
    assert not reason.is_visible()
    no.click()
    reason.press("Escape")
    assert not reason.is_visible()
    no.click()
    book.page.keyboard.type("not on this machine")
    book.page.keyboard.press("Enter")
    assert book.sent() == [
        {"t": "answer", "call": "call_9", "answer": "no", "reason": "not on this machine"}
    ]
    book.settle()
    assert "answered: no, not on this machine" in book.text()


def test_a_folded_card_still_shows_its_question(book: Notebook) -> None:
    """Folding the code away does not hide what the agent waits for."""
    book.show(state(step(calls=[asking()])))
    book.page.locator(".ja-card summary").click()
    book.settle()
    assert not book.page.locator(".ja-code").is_visible()
    assert book.page.get_by_role("button", name="Yes").is_visible()


def test_questions_are_announced_and_steal_no_focus(book: Notebook) -> None:
    """A screen reader announces the question once; a person who types elsewhere keeps the focus."""
    book.show(state(step(calls=[call()])))
    book.page.evaluate(
        "notebook.prepend(Object.assign(document.createElement('input'), {id: 'editor'}))"
    )
    book.page.locator("#editor").focus()
    book.patch(["push", ["steps", 0, "calls"], asking()])
    spoken = book.page.locator("[aria-live=polite]")
    assert "The agent asks: Run this code?" in (spoken.text_content() or "")
    assert book.page.evaluate("document.activeElement.id") == "editor"
    book.patch(["append", ["steps", 0, "text"], "token"])
    assert "The agent asks" in (spoken.text_content() or "")
    book.patch(["set", ["running"], False], ["set", ["ending"], "Interrupted."])
    assert spoken.text_content() == "Interrupted."


def test_the_keyboard_alone_is_enough(book: Notebook) -> None:
    """Tab visits everything in reading order; no key reaches the notebook."""
    book.show(state(step(thinking="hm", calls=[call(id="a"), asking()])))
    book.page.evaluate(
        "window.leaked = []; for (const t of ['keydown', 'keyup', 'keypress'])"
        " notebook.addEventListener(t, e => leaked.push(e.key))"
    )
    seen = []
    for _ in range(11):
        book.page.keyboard.press("Tab")
        name = "(e => e.ariaLabel || e.textContent.trim().slice(0, 12))(document.activeElement)"
        seen.append(book.page.evaluate(name))
    order = [
        "Stop",
        "Yes",
        "Always in th",
        "No, because ",
        "Thinking",
        "execute_code",
        "execute_code",
    ]
    assert [name for name in seen if name][:7] == order
    assert seen.index("Steer the agent") < seen.index("Send")
    book.sent()
    book.page.locator(".ja-card summary").first.focus()
    book.page.keyboard.press("Enter")
    assert book.page.locator(".ja-card details").first.get_attribute("open") == ""
    book.page.keyboard.type("abdd")
    book.page.get_by_role("button", name="Yes").focus()
    book.page.keyboard.press("Enter")
    assert [message["t"] for message in book.sent()] == ["answer"]
    assert book.page.evaluate("leaked") == []
    assert book.view.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_focus_stays_in_the_view_after_an_answer(book: Notebook) -> None:
    """An answer by keyboard keeps the focus beside the buttons, which are disabled; on no other
    button, which a second press of the key would meet.
    """
    book.show(state(step(calls=[asking()])))
    book.page.get_by_role("button", name="Yes").focus()
    book.page.keyboard.press("Enter")
    book.settle()
    assert book.page.evaluate("document.activeElement.className") == "ja-top"


def test_everything_has_a_name(book: Notebook) -> None:
    """Each button, field, image and region tells a screen reader what it is."""
    book.show(rich_state())
    book.unfold()
    assert book.page.get_by_role("region", name="Agent at work").count() == 1
    for control in book.page.locator(".ja button, .ja input, .ja summary").all():
        name = control.evaluate("e => e.ariaLabel || e.textContent")
        assert name.strip(), control.evaluate("e => e.outerHTML")
    assert book.page.locator(".ja img:not([alt])").count() == 0
    assert book.page.locator(".ja button:not([type=button])").count() == 0


# ---- delegates -----------------------------------------------------------------------------------

QUESTION_OF_2 = {
    "text": "(Delegate 2) Run this code?",
    "number": 1,
    "about": "!touch x",
    "reasons": [],
    "diffs": [],
    "always": "",
    "byPart": False,
}


def cards_of(book: Notebook) -> list[dict[str, Any]]:
    """Where the delegates' cards are, and how high."""
    boxes = [box.bounding_box() for box in book.page.locator("[data-delegate]").all()]
    return [dict(box) for box in boxes if box]


def test_eight_delegates_stay_calm(book: Notebook) -> None:
    """Whatever they do, for however long, their cards stay folded, where they are, as high as they
    are; what each does now and what it has cost is in sight.
    """
    book.show(state(step(calls=[delegate(n, step(1)) for n in range(1, 9)])))
    assert "Delegate 3" in book.text() and "step 1: waiting for the model" in book.text()
    assert book.text().count("1,204 tokens · $0.004") == 8
    before = cards_of(book)
    assert len({box["height"] for box in before}) == 1 and before[0]["height"] < 60
    for number in range(40):
        at = ["steps", 0, "calls", number % 8]
        book.page.evaluate(
            "ops => test.model.receive({t: 'patch', ops})",
            [
                ["push", [*at, "delegate", "steps"], step(number, calls=[call(id=f"x{number}")])],
                ["set", [*at, "delegate", "now"], "a very long word " * (number % 7)],
                ["set", [*at, "delegate", "facts"], f"{10**number:,} tokens"[:30]],
            ],
        )
    book.page.wait_for_timeout(1_300)  # longer than it takes for a card of code to open itself
    assert cards_of(book) == before
    assert book.page.locator("[data-delegate] details[open]:not(.ja-steps)").count() == 0
    assert book.page.locator(".ja-its .ja-card").count() == 0  # what nobody looks at is not drawn


def test_a_delegates_steps(book: Notebook) -> None:
    """Its steps are drawn once its card is opened and go on there; the earlier ones are not touched
    again, and a card inside that somebody opened stays open.
    """
    one = call(id="d1/a", gist="len(rows)", body="len(rows)")
    book.show(state(step(calls=[delegate(1, step(1, text="I look.", calls=[one]))])))
    book.page.locator("[data-delegate] summary").first.click()
    inner = book.page.locator(".ja-its .ja-card")
    expect(inner).to_have_count(1)
    inner.locator("summary").click()
    expect(inner.locator("pre").first).to_have_text("len(rows)")
    path = ["steps", 0, "calls", 0, "delegate", "steps"]
    running = call(id="d1/b", gist="sum(rows)", state="running", seconds=30, outputs=[])
    book.patch(["push", path, step(2, calls=[running])])
    book.page.evaluate(
        "window.changes = 0; new MutationObserver((all) => (changes += all.length)).observe("
        "document.querySelector('.ja-its [role=group]'), "
        "{subtree: true, childList: true, characterData: true, attributes: true})"
    )
    book.patch(["set", [*path, 1, "calls", 0, "state"], "done"], ["push", path, step(3)])
    expect(inner).to_have_count(2)
    expect(inner.last).to_have_attribute("data-state", "done")
    assert inner.first.locator("details").get_attribute("open") == ""
    assert inner.last.locator("details").get_attribute("open") is None
    assert book.page.evaluate("changes") == 0


def test_a_delegate_asks(book: Notebook) -> None:
    """Its card alone opens, with the code; the header names it, and the keyboard leads there; the
    same question again is another one, which is asked and announced anew.
    """
    code = [{"kind": "text", "text": "# first\n!touch x"}]
    book.show(state(step(calls=[delegate(1), delegate(2), delegate(3)])))
    book.sent()
    cards = book.page.locator("[data-delegate] > details")
    spoken = book.page.locator("[aria-live=polite]")
    yes = book.page.get_by_role("button", name="Yes", exact=True)
    at = ["steps", 0, "calls", 1]
    for number in (1, 2):
        book.patch(
            ["set", [*at, "state"], "asking"],
            ["set", [*at, "outputs"], code],
            ["set", [*at, "question"], {**QUESTION_OF_2, "number": number}],
        )
        assert [card.get_attribute("open") is not None for card in cards.all()] == [
            False,
            True,
            False,
        ]
        assert "!touch x" in cards.nth(1).inner_text()
        header = book.page.get_by_role("group", name="Your answer")
        assert "(Delegate 2) Run this code? !touch x" in header.inner_text()
        assert "(Delegate 2) Run this code? !touch x" in (spoken.text_content() or "")
        expect(yes).to_be_enabled()
        book.page.keyboard.press("Alt+Shift+A")
        expect(yes).to_be_focused()
        book.page.keyboard.press("Enter")
        answer = {"t": "answer", "call": "d2", "number": number, "answer": "yes", "reason": ""}
        assert book.sent() == [answer]
        if number == 1:  # answered and asked again between two looks of the page
            book.page.evaluate("document.querySelector('[aria-live=polite]').textContent = ''")
    book.patch(
        ["set", [*at, "state"], "running"],
        ["set", [*at, "outputs"], []],
        ["set", [*at, "question"], None],
    )
    assert cards.nth(1).get_attribute("open") is None


def test_a_delegates_code_asks_by_the_input_line(book: Notebook) -> None:
    """Only the delegate whose code asks waits for the person; the others go on."""
    book.show(state(step(calls=[delegate(1), delegate(2)]), wait={**WAIT, "call": "d2"}))
    states = book.page.locator("[data-delegate]").evaluate_all(
        "all => all.map(e => e.dataset.state)"
    )
    assert states == ["running", "asking"]


def test_delegates_of_a_kernel_that_is_gone(book: Notebook) -> None:
    """Neither a delegate nor what it had begun looks as if it went on."""
    inner = step(1, calls=[call(id="d1/a", state="running"), call(id="d1/b", state="waiting")])
    book.show(state(step(calls=[delegate(1, inner)])))
    book.page.locator("[data-delegate] summary").first.click()
    book.page.evaluate("test.model.lost.forEach((lose) => lose())")
    book.settle()
    assert book.page.locator(".ja-now").inner_text() == "interrupted"
    heard = book.page.locator(".ja-card > details > summary > .ja-sr").all_text_contents()
    assert heard == ["interrupted", "interrupted", "not run"]


# ---- hostile text --------------------------------------------------------------------------------


def everywhere(text: str) -> dict[str, Any]:
    outputs = [{"kind": kind, "text": text} for kind in ("text", "error", "notice", text)]
    diff = {"title": text, "added": text, "removed": text, "lines": [text, f"+{text}"]}
    outputs.append({"kind": "diff", **diff})
    outputs.append({"kind": "image", "mime": text, "data": text, "alt": text})
    rows = [[[text, text, text, text], text, None], text, [[text, 2, 2, True]]]
    outputs.append({"kind": "table", "rows": rows, "head": text})
    question = {"text": text, "reasons": [text], "diffs": [diff, text, None], "always": text}
    question |= {"about": text, "number": text}
    done = call(
        text, id=text, gist=text, note=text, came=text, body=text, language=text, outputs=outputs
    )
    ask = call(text, id="q", gist=text, state="asking", note=text, body=text, question=question)
    odd = call(text, id="o", state=text, note=text, outputs=[None, 3], question=text)
    its = {"now": text, "facts": text, "notices": [text], "running": text}
    inner = step(1, thinking=text, text=text, notices=[text], calls=[done, odd])
    works = delegate(1, inner, text, delegate=its, name=text, gist=text, body=text)
    calls = [done, odd, ask, works, call("x", id="y", delegate=text)]
    busy = step(1, thinking=text, text=text, said=[text], notices=[text], calls=calls)
    texts = dict.fromkeys(("ending", "task", "model", "cost", "activity"), text)
    plan = [{"text": text, "state": text}]
    lists = {"unread": [text], "notices": [text]}
    return state(busy, step(text, text=text), **texts, plan=plan, **lists)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(book: Notebook, text: str) -> None:
    """Whatever the model, a tool or a file name says is shown as it is; nothing of it runs."""
    book.receive(
        {"t": "state", "state": everywhere(text)},
        {"t": "patch", "ops": [["append", ["steps", 0, "text"], text]]},
    )
    book.unfold()
    book.page.wait_for_timeout(100)
    assert book.page.evaluate("window.pwned") is None
    assert book.requests == []
    unsafe = ".ja script, .ja svg, .ja style, .ja a, .ja [onerror], .ja [onclick], .ja iframe"
    assert book.page.locator(unsafe).count() == 0
    shown = book.page.locator(".ja").text_content() or ""
    plain = text.replace("\ud800", "\ufffd")
    assert shown.replace("\ud800", "\ufffd").count(plain) >= 30


def test_an_override_in_one_field_leaves_the_next_alone(book: Notebook) -> None:
    """A right-to-left override in a gist does not turn the note and the time around."""
    book.show(state(step(calls=[call(gist="\u202eevil", note="n\u202eote")])))
    isolated = "e => getComputedStyle(e).unicodeBidi"
    for part in (".ja-gist", ".ja-note", ".ja-name"):
        assert book.page.locator(part).evaluate(isolated) == "isolate"


@pytest.mark.parametrize(
    "message",
    [
        {"t": "patch", "ops": [["append", ["steps", 7, "text"], "x"]]},
        {"t": "patch", "ops": [["push", ["steps", 0, "text"], "x"]]},
        {"t": "patch", "ops": [["set", ["__proto__", "polluted"], 1]]},
        {"t": "patch", "ops": [["set", ["steps", 9], {}], None, 5]},
        {"t": "patch", "ops": [["set", [], 1]]},
        {"t": "patch", "ops": [None]},
        {"t": "patch", "ops": "no"},
        {"t": "what"},
        {},
    ],
)
def test_a_message_that_fits_nothing_asks_for_the_state_again(
    book: Notebook, message: dict[str, Any]
) -> None:
    """After an unusable message the view asks for the state, at most once a second, and goes on."""
    book.show(state(step(text="before")))
    book.sent()
    book.receive(*[message] * 20)
    book.page.wait_for_timeout(1100)
    assert book.sent() in ([{"t": "ready"}], [{"t": "ready"}] * 2)
    assert book.page.evaluate("({}).polluted") is None
    book.show(state(step(text="after")))
    assert "after" in book.text()


# ---- patches, mounting ---------------------------------------------------------------------------

OPS: list[list[Any]] = [
    ["set", ["step"], 2],
    ["append", ["steps", 0, "text"], "I look `at` it.\n\n- one"],
    ["append", ["steps", 0, "text"], " more\n```\ncode"],
    ["append", ["steps", 0, "thinking"], "hm"],
    ["push", ["steps", 0, "calls"], call(id="a", state="waiting", seconds=None, outputs=[])],
    ["append", ["steps", 0, "calls", 0, "body"], "\nprint('x')"],
    ["set", ["steps", 0, "calls", 0, "state"], "running"],
    ["push", ["steps", 0, "calls", 0, "outputs"], {"kind": "text", "text": "1"}],
    ["append", ["steps", 0, "calls", 0, "outputs", 0, "text"], "2\n"],
    ["push", ["steps", 0, "calls", 0, "outputs"], {"kind": "diff", "lines": ["+a", "-b"]}],
    ["set", ["steps", 0, "calls", 0, "outputs", 1, "lines"], ["+c", " d"]],
    ["set", ["steps", 0, "calls", 0, "state"], "failed"],
    ["set", ["steps", 0, "calls", 0, "note"], "KeyError"],
    ["push", ["plan"], {"text": "one", "state": "pending"}],
    ["set", ["plan"], [{"text": "two", "state": "done"}]],
    ["push", ["unread"], "faster"],
    ["push", ["steps"], step(2, said=["faster"])],
    ["set", ["unread"], []],
    ["push", ["steps", 1, "notices"], "retrying…"],
    ["push", ["steps", 1, "calls"], asking()],
    ["set", ["steps", 1, "calls", 0, "question"], None],
    ["set", ["steps", 1, "calls", 0, "state"], "refused"],
    ["push", ["steps", 1, "calls"], delegate(1, step(1, calls=[call(id="d1/a", state="running")]))],
    ["set", ["steps", 1, "calls", 1, "delegate", "steps", 0, "calls", 0, "state"], "done"],
    ["push", ["steps", 1, "calls", 1, "delegate", "steps"], step(2, text="Now I sum.")],
    ["push", ["steps", 1, "calls", 1, "delegate", "steps", 1, "calls"], call(id="d1/b")],
    ["set", ["steps", 1, "calls", 1, "delegate", "steps"], [step(1, text="Another one.")]],
    ["set", ["steps", 0], step(1, text="replaced", calls=[call(id="z")])],
    ["set", ["steps"], [step(1, text="only one left")]],
    ["set", ["running"], False],
    ["set", ["ending"], "Interrupted."],
]


def apply(value: dict[str, Any], op: list[Any]) -> None:
    """The same operations in Python: what the kernel's side means by them."""
    verb, path, new = op
    target: Any = value
    for key in path[:-1]:
        target = target[key]
    if verb == "push":
        target[path[-1]].append(copy.deepcopy(new))
    else:
        target[path[-1]] = target[path[-1]] + new if verb == "append" else copy.deepcopy(new)


def test_patches_show_what_the_whole_state_would_show(browser: Browser) -> None:
    """A view that joins in the middle shows the same as one that was there from the start."""
    start = state(step(), elapsed=1)
    watched = copy.deepcopy(start)
    visible = (
        "e => [e.querySelector('.ja-body').textContent, e.querySelector('.ja-foot').textContent]"
    )
    with notebook(browser) as first, notebook(browser) as second:
        both = (first, second)
        first.show(start)
        for op in OPS:
            first.patch(op)
            first.unfold()
            apply(watched, op)
            second.show(watched)
            second.unfold()
            # The clock of a running call is each page's own.
            shown = [
                re.sub(r"running \d+ s", "running", str(b.view.evaluate(visible))) for b in both
            ]
            assert shown[0] == shown[1], op


def test_drawing_again_keeps_the_place(book: Notebook) -> None:
    """Redrawing an output keeps open cards, typed words, scroll position and focus."""
    long = "".join(f"line {index}\n" for index in range(200))
    book.show(state(step(calls=[call(outputs=[{"kind": "text", "text": long}])])))
    book.page.locator(".ja-card summary").click()
    book.page.locator(".ja-out").evaluate("pre => { pre.scrollTop = 77; }")
    book.page.get_by_label("Steer the agent").fill("half a sen")
    book.settle()
    book.sent()
    again = """() => {
      const old = document.querySelector('.jupyter-agent-live-h1');
      const host = old.cloneNode(false);
      host.textContent = 'The agent is at work.';
      old.replaceWith(host);
    }"""
    book.page.evaluate(again)
    book.settle()
    assert book.sent() == []
    assert book.page.locator(".ja").count() == 1
    assert book.page.locator(".ja-card details").get_attribute("open") == ""
    assert book.page.locator(".ja-out").evaluate("pre => pre.scrollTop") == 77
    field = book.page.get_by_label("Steer the agent")
    assert field.input_value() == "half a sen"
    assert field.evaluate("e => e === document.activeElement")


def test_scrolled_away_and_back(book: Notebook) -> None:
    """A cell that leaves the page and returns shows what happened in between."""
    book.show(state(step(text="before")))
    book.page.evaluate(
        "window.host = document.querySelector('.jupyter-agent-live-h1'); host.remove()"
    )
    book.patch(["append", ["steps", 0, "text"], " and after"])
    book.page.evaluate("notebook.append(host)")
    book.settle()
    assert "before and after" in book.text()


def test_a_second_view_shows_the_same(book: Notebook) -> None:
    """A “New View for Output” is live too, and an answer in one view counts in both."""
    book.show(state(step(text="hello", calls=[asking()])))
    book.page.evaluate(
        "notebook.append(document.querySelector('.jupyter-agent-live-h1').cloneNode(false))"
    )
    book.settle()
    book.patch(["append", ["steps", 0, "text"], " both"])
    views = book.page.locator(".ja").all()
    assert ["hello both" in view.inner_text() for view in views] == [True, True]
    views[1].get_by_role("button", name="Yes").click()
    book.settle()
    assert "answered: yes" in views[0].inner_text()


def test_two_turns_side_by_side(book: Notebook) -> None:
    """Two agent cells draw into their own outputs."""
    book.page.evaluate("""async () => {
      notebook.append(document.createElement('div'));
      notebook.lastChild.className = 'jupyter-agent-live jupyter-agent-live-h2';
      test.other = new test.Model({host: 'h2'});
      await test.live.initialize({model: test.other});
    }""")
    book.show(state(step(text="first")))
    other = {"t": "state", "state": state(step(text="second"))}
    book.page.evaluate("m => test.other.receive(m)", other)
    book.settle()
    assert "first" in book.page.inner_text(".jupyter-agent-live-h1 .ja")
    assert "second" in book.page.inner_text(".jupyter-agent-live-h2 .ja")


def test_cleanup_leaves_nothing(book: Notebook) -> None:
    """When the comm closes, the view disappears and no timer or listener stays."""
    book.show(state(step(text="hello")))
    book.page.evaluate("test.cleanup()")
    assert book.page.locator(".ja").count() == 0
    assert book.page.evaluate("test.model.handlers.size") == 0
    book.page.evaluate(
        "notebook.append(document.querySelector('.jupyter-agent-live-h1').cloneNode())"
    )
    book.settle()
    assert book.page.locator(".ja").count() == 0


# ---- looks ---------------------------------------------------------------------------------------


def figures_of(turn: dict[str, Any]) -> dict[str, Any]:
    """The longest words a person may meet, to see what they do to the layout."""
    long = "averyveryverylongwordwithoutanyplacetobreakit" * 6
    turn["steps"][0]["calls"].append(
        call(
            long,
            id="long",
            gist=long,
            note=long,
            body=long,
            outputs=[{"kind": "text", "text": long}],
        )
    )
    turn["steps"][0]["text"] += f"\n{long}\n\n```\n{long}\n```"
    turn["plan"].append({"text": long, "state": "pending"})
    return {**turn, "activity": long}


@pytest.mark.parametrize("width", [320, 400, 1000])
def test_nothing_sticks_out(browser: Browser, width: int) -> None:
    """The view fits a phone and a wide screen; the page never scrolls sideways."""
    with notebook(browser, width=width) as book:
        book.show(figures_of(rich_state()))
        book.unfold()
        inside = "document.documentElement.scrollWidth <= innerWidth"
        assert book.page.evaluate(inside)
        boxes = book.page.locator(".ja-head, .ja-body, .ja-foot, .ja-card, .ja-question")
        for box in boxes.all():
            assert box.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
        for control in book.page.locator(".ja button:visible, .ja input:visible").all():
            box = control.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= width


CONTRAST = r"""() => {
  const parse = c => {
    const n = (c.match(/[\d.]+/g) || []).map(Number);
    const scale = c.startsWith('color(') ? 255 : 1;
    return [n[0] * scale, n[1] * scale, n[2] * scale, n[3] ?? 1];
  };
  const over = (top, under, a) => under.map((v, i) => top[i] * a + v * (1 - a));
  const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = c => .2126 * linear(c[0]) + .7152 * linear(c[1]) + .0722 * linear(c[2]);
  const found = [];
  const look = (e, colour, opacity, text) => {
    const chain = [];
    for (let at = e; at; at = at.parentElement) chain.unshift(at);
    let back = [255, 255, 255];
    for (const at of chain) {
      const style = getComputedStyle(at);
      const b = parse(style.backgroundColor);
      back = over(b, back, b[3]);
      opacity *= Number(style.opacity);
    }
    const c = parse(colour);
    const [a, b] = [light(over(c, back, c[3] * opacity)), light(back)].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), text.trim().slice(0, 30), e.className, colour]);
  };
  const walk = document.createTreeWalker(document.querySelector('.ja'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data;
    const e = walk.currentNode.parentElement;
    if (!text.trim() || e.closest('.ja-sr') || !e.getClientRects().length) continue;
    look(e, getComputedStyle(e).color, 1, text);
  }
  for (const e of document.querySelectorAll('.ja input')) {
    const style = getComputedStyle(e, '::placeholder');
    look(e, style.color, Number(style.opacity), e.placeholder);
  }
  return found.sort((x, y) => x[0] - y[0]).slice(0, 5);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_is_legible(browser: Browser, theme: str) -> None:
    """Each word has a contrast of at least 4.5 against what is behind it, faint ones included."""
    turn = rich_state()
    calls = [
        call(id=f"s{name}", state=name, note="a note")
        for name in ("refused", "interrupted", "waiting")
    ]
    code = "%time\n# note\nprint('s', 1, None)"
    calls.append(call(id="r", state="running", seconds=30, body=code))
    turn["steps"][0]["calls"] += calls
    turn["steps"][0]["text"] += "\n\n```\ncode\n```"
    turn["steps"][0]["calls"][0]["outputs"].append({"kind": "notice", "text": "left out: 3 lines"})
    with notebook(browser, theme=theme) as book:
        book.show(turn)
        book.unfold()
        book.page.get_by_role("button", name="No, because").click()
        worst = book.page.evaluate(CONTRAST)
        assert worst[0][0] >= 4.5, worst
        assert book.view.evaluate("e => getComputedStyle(e).colorScheme") == theme


def test_a_new_theme_is_followed(book: Notebook) -> None:
    """After a switch of the theme during a turn the view is still readable."""
    book.show(state(step(text="hello")))
    book.page.evaluate("Object.assign(document.body.style, {background: '#111', color: '#fff'})")
    expect(book.view).to_have_css("color-scheme", "dark")


def test_no_motion_for_who_wants_none(book: Notebook) -> None:
    """The dot does not pulse for a person who prefers less motion."""
    book.show(state(step()))
    animation = "e => getComputedStyle(e).animationName"
    assert book.page.locator(".ja-dot").evaluate(animation) == "ja-pulse"
    book.page.emulate_media(reduced_motion="reduce")
    assert book.page.locator(".ja-dot").evaluate(animation) == "none"


@pytest.mark.deep
@pytest.mark.parametrize("width", [860, 400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_screenshots(browser: Browser, theme: str, width: int) -> None:
    """A picture of a busy turn is kept for people to look at."""
    with notebook(browser, theme=theme, width=width) as book:
        turn = rich_state()
        book.show(turn)
        book.page.locator(".ja-card summary").nth(2).click()
        book.page.locator(".ja-body").evaluate("e => { e.style.maxHeight = 'none'; }")
        book.settle()
        book.screenshot(f"live-{theme}-{width}")


# ---- speed ---------------------------------------------------------------------------------------


@pytest.mark.deep
def test_two_thousand_patches_stay_smooth(book: Notebook) -> None:
    """A long stream in a long turn never holds the page: no frame takes longer than a blink."""
    old = [step(n, text="text\n" * 5, calls=[call(id=f"c{n}")]) for n in range(1, 200)]
    running = call(id="r", state="running", seconds=30, outputs=[{"kind": "text", "text": ""}])
    book.show(state(*old, step(200, calls=[running])))
    took = book.page.evaluate("""async () => {
      const started = performance.now();
      const output = ['steps', 199, 'calls', 0, 'outputs', 0, 'text'];
      let last = started, slowest = 0;
      for (let i = 0; i < 2000; i++) {
        const path = i % 2 ? ['steps', 199, 'text'] : output;
        const ops = [['append', path, `token ${i} `], ['set', ['tokens'], i]];
        test.model.receive({t: 'patch', ops});
        if (i % 10 < 9) continue;
        await new Promise(requestAnimationFrame);
        slowest = Math.max(slowest, performance.now() - last);
        last = performance.now();
      }
      return [last - started, slowest];
    }""")
    print(f"2,000 patches: {took[0]:.0f} ms, slowest frame {took[1]:.0f} ms")
    assert took[0] < 30_000
    assert took[1] < 2_000
    assert "token 1999" in book.text()


def test_no_markup_is_ever_parsed() -> None:
    """The module has no way to turn a string into elements, nor one to run it."""
    source = (WIDGETS / "live.js").read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", source
    )


# ---- scripts -------------------------------------------------------------------------------------

SCRIPT = """() => {
  for (const node of document.querySelectorAll(".ja button, .ja input, .ja summary")) {
    if (node.matches("input")) node.value = "typed by a script";
    node.focus();
    node.click();
    for (const type of ["pointerdown", "mousedown", "mouseup", "click", "input", "change"])
      node.dispatchEvent(new Event(type, {bubbles: true}));
    for (const type of ["keydown", "keypress", "keyup"])
      for (const key of ["Enter", " ", "Escape"])
        node.dispatchEvent(new KeyboardEvent(type, {key, code: key, bubbles: true}));
  }
}"""


def test_what_a_script_does_counts_for_nothing(book: Notebook) -> None:
    """Clicks, keys and words made by a script are ignored; a person's are not."""
    book.show(state(step(calls=[asking()])))
    assert book.sent() == [{"t": "ready"}]
    book.page.evaluate(SCRIPT)
    book.settle()
    assert book.sent() == []
    # A person presses Send below words that a script has put into the field.
    book.page.evaluate("document.querySelector('.ja-foot input').value = 'typed by a script'")
    book.page.get_by_role("button", name="Send").click()
    assert book.sent() == []
    book.page.get_by_label("Steer the agent").fill("mine")
    book.page.get_by_role("button", name="Send").click()
    book.page.get_by_role("button", name="Yes", exact=True).click()
    sent = [message for message in book.sent() if message["t"] != "ready"]
    assert [message["t"] for message in sent] == ["steer", "answer"]
    assert sent[0]["text"] == "mine" and sent[1]["answer"] == "yes"


def test_a_listener_that_a_script_got_hold_of(browser: Browser) -> None:
    """A script that has listened in on our listeners cannot call them with an event of its own."""
    spy = """const add = EventTarget.prototype.addEventListener; window.listeners = [];
      EventTarget.prototype.addEventListener = function (type, act, ...more) {
        window.listeners.push({ node: this, type, act });
        return add.call(this, type, act, ...more);
      };"""
    with notebook(browser, before=spy) as book:
        book.show(state(step(calls=[asking()])))
        book.sent()
        book.page.evaluate("""() => {
          for (const { node, type, act } of window.listeners)
            if (node instanceof HTMLElement && node.closest(".ja")) {
              const fake = { isTrusted: true, target: node, key: "Enter", type };
              try { act.call(node, fake); } catch {}
            }
        }""")
        book.settle()
        assert book.sent() == []


def test_when_the_kernel_is_gone(book: Notebook) -> None:
    """After a restart of the kernel a line says so, without dead buttons; a call that was
    only asked about counts as not run, a running one as interrupted.
    """
    ran = call(id="ran", state="running", seconds=None)
    told = "Settings of this folder are ignored until you trust them: api_base"
    book.show(state(step(calls=[ran, asking()]), in_sight=[told]))
    assert book.page.locator(".ja > div > p.ja-in-sight").inner_text() == told
    book.page.evaluate("test.model.lost.forEach((lose) => lose())")
    book.settle()
    heard = book.page.locator(".ja-card .ja-sr").all_text_contents()
    assert heard == ["interrupted", "not run"]
    assert "The kernel restarted; the turn is over." in book.text()
    left = ".ja button:visible:not(.ja-copy), .ja input:visible"
    assert book.page.locator(left).count() == 0
