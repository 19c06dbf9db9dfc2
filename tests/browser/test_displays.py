"""Hostile displays of the agent's code in a real browser: live, saved, opened again, exported."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from browser.elsewhere import Elsewhere
from browser.lab import Lab, Model, NotebookPage, code
from model_server import Reply
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, expect
from security.hostile_displays import acting, loading

pytestmark = pytest.mark.browser

AGENT = "%%agent --fresh --approve auto\nWork."
FRAME = "iframe.jupyter-agent-frame"
SHOWS = """
import json, pathlib
from IPython.display import HTML, SVG, Javascript, Markdown, display
for markup in json.loads(pathlib.Path({name!r}).read_text()):
    display(HTML(markup))
"""
OTHERS = """
from IPython.display import SVG, Javascript, Latex, Markdown
import pandas, ipywidgets
display(Javascript("top.pwned = 1"), Markdown("<script>top.pwned = 1</script>"))
display(Latex(r"$\\href{javascript:top.pwned=1}{x}$"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'><script>top.pwned = 1</script></svg>"))
display(pandas.DataFrame({"a": ["<img src=data:, onerror=top.pwned=1>"]}).style)
display({"application/javascript": "top.pwned = 1"}, raw=True)
display(ipywidgets.HTML("<img src=data:, onerror=top.pwned=1>"))
"""
CLICKS = """<script>
for (const page of [window, parent, top, parent.parent]) setInterval(() => {
  for (const button of page.document.querySelectorAll(".ja button")) button.click();
}, 50);
</script><style>.ja-question, .ja-waiting, .ja-foot { display: none !important; }</style>
<p style="position:fixed;inset:0;z-index:99999;background:white">covers</p>"""


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


def shown(lab: Lab, browser: Browser, model: Model, name: str, *codes: str) -> NotebookPage:
    """A notebook whose second cell is an agent's that ran code with displays."""
    model.says(code("\n".join(codes)), Reply(text="All is shown."))
    lab.notebook(f"{name}.ipynb", ["%load_ext jupyter_agent", AGENT])
    book = lab.open(browser, f"{name}.ipynb")
    book.run(0)
    book.run(1)
    return book


def click_all(book: NotebookPage) -> None:
    """Click whatever a person might click in the displays of the cell, in frames too."""
    for frame in book.page.frames:
        for link in frame.locator("text=click").all():
            if link.is_visible():
                link.click(timeout=5000, no_wait_after=True)


def test_no_script_reaches_the_page(lab: Lab, browser: Browser, model: Model) -> None:
    """Scripts, handlers and links in any spelling: live, opened again, and as exported HTML."""
    texts = list(acting("top.pwned=1").values())
    (lab.folder / "acting.json").write_text(json.dumps(texts), encoding="utf-8")
    book = shown(lab, browser, model, "acting", SHOWS.format(name="acting.json"), OTHERS)
    assert book.output(1).locator(FRAME).count() >= 10
    click_all(book)
    book.page.wait_for_timeout(500)  # for what must not happen
    assert book.page.evaluate("window.pwned") is None
    assert book.dialogs == []
    book.cell(0).locator(".jp-InputPrompt").click()  # the keyboard was in a frame
    book.save()
    book.close()
    again = lab.open(browser, "acting.ipynb", idle=False)
    expect(again.output(1).locator(FRAME).first).to_be_attached()
    again.page.wait_for_timeout(500)
    assert again.page.evaluate("window.pwned") is None
    exported = lab.folder / "acting.html"
    exported.write_text(HTMLExporter().from_filename(again.path)[0], encoding="utf-8")
    again.page.goto(exported.as_uri(), wait_until="domcontentloaded")
    expect(again.page.locator(FRAME).first).to_be_attached()
    again.page.wait_for_timeout(500)
    assert again.page.evaluate("window.pwned") is None
    assert again.dialogs == []
    again.close()


def test_nothing_is_loaded_from_elsewhere(
    lab: Lab, browser: Browser, model: Model, elsewhere: Elsewhere
) -> None:
    """No display asks another server for something, until the person unfolds it."""
    texts = list(loading(elsewhere.address).values())
    (lab.folder / "loading.json").write_text(json.dumps(texts), encoding="utf-8")
    book = shown(lab, browser, model, "loading", SHOWS.format(name="loading.json"))
    book.page.wait_for_timeout(500)
    book.save()
    book.close()
    again = lab.open(browser, "loading.ipynb")
    expect(again.output(1).locator(FRAME).first).to_be_attached()
    again.page.wait_for_timeout(500)
    assert elsewhere.asked == set()
    folded = again.output(1).locator("summary", has_text="Not loaded from").first
    folded.click()
    again.await_that(lambda: elsewhere.asked, "what the person unfolds is loaded")
    own = again.do(f"from IPython.display import HTML\nHTML('<img src={elsewhere.address}/own>')")
    again.await_that(
        lambda: "/own" in elsewhere.asked, "the person's own display loads its picture"
    )
    assert again.output(own).locator("img").count() == 1
    again.close()


def test_a_display_of_the_agent_answers_no_question(
    lab: Lab, browser: Browser, model: Model
) -> None:
    """A script that clicks Yes, a style that hides the question, a cover over the page: in vain."""
    book = shown(
        lab, browser, model, "clicks", f"from IPython.display import HTML\nHTML({CLICKS!r})"
    )
    model.says(code("!touch clicked.txt", "I touch."), Reply(text="It is over."))
    cell = book.do("%%agent --fresh --approve ask_risky\nWork.", wait=False)
    no = book.live(cell).get_by_role("button", name="No, because …", exact=True)
    expect(no).to_be_visible()
    book.page.wait_for_timeout(500)
    assert not (lab.folder / "clicked.txt").exists()
    no.click()
    book.live(cell).get_by_role("button", name="Refuse", exact=True).click()
    book.await_done(cell)
    assert not (lab.folder / "clicked.txt").exists()
    book.close()


WIDGET = """
import anywidget
from IPython.display import display
class Counter(anywidget.AnyWidget):
    _esm = "export default {render({el}) {el.textContent = 'drawn by its ' + 'script'}}"
display(Counter())
"""


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_widget_asks_before_its_script_runs(
    lab: Lab, browser: Browser, model: Model, answer: str
) -> None:
    """It is drawn after a yes, also by a page that is loaded later, and not after a no."""
    model.says(code(WIDGET), Reply(text="All is shown."))
    name = f"asks_{answer}.ipynb"
    lab.notebook(name, ["%load_ext jupyter_agent", "%%agent --approve ask_risky\nWork."])
    book = lab.open(browser, name)
    book.run(0)
    book.run(1, wait=False)
    line = book.page.locator(".jp-Stdin-input")
    expect(line).to_be_visible()
    expect(book.page.get_by_text("drawn by its script")).to_have_count(0)
    line.fill(answer)
    line.press("Enter")
    book.await_done(1)
    if answer == "y":
        expect(book.output(1)).to_contain_text("drawn by its script")
        book.save()
        book.page.reload()
        book.await_kernel()
        expect(book.output(1)).to_contain_text("drawn by its script")
    else:
        expect(book.output(1)).to_contain_text("The answer was no, so it is not shown.")
        assert "drawn by its script" not in book.output(1).inner_text()
    book.close()


def test_a_display_that_leaves_its_page(lab: Lab, browser: Browser, model: Model) -> None:
    """A sentence stands in the place of the browser's error page; other frames stay."""
    leaves = "<p>here</p><script>setTimeout(() => location = 'https://a.example/', 200)</script>"
    stays = "<p id=p>stays</p><script>p.textContent += ' here'</script>"
    source = (
        f"from IPython.display import HTML, display\ndisplay(HTML({leaves!r}), HTML({stays!r}))"
    )
    book = shown(lab, browser, model, "leaves", source)
    first, second = (book.output(1).frame_locator(f"{FRAME}[srcdoc]").nth(n) for n in (0, 1))
    expect(first.locator("body")).to_have_text(
        "This display tried to open another page, which it may not."
    )
    expect(second.frame_locator("iframe").locator("#p")).to_have_text("stays here")
    book.close()


def test_a_frame_is_as_high_as_its_content(lab: Lab, browser: Browser, model: Model) -> None:
    """A display that draws by a script is shown whole, live and opened again."""
    drawn = "<div id=d></div><script>d.style = 'height: 437px; background: teal'</script>"
    source = f"from IPython.display import HTML\nHTML({drawn!r})"
    book = shown(lab, browser, model, "high", source)
    for page in (book, None):
        if page is None:
            book.save()
            book.close()
            book = lab.open(browser, "high.ipynb")
        frame = book.output(1).locator(FRAME)
        book.await_that(lambda at=frame: at.bounding_box()["height"] == 437, "437 pixels high")
    book.close()


TAKES = """<input id=field><script>
setInterval(() => {field.focus(); window.focus()}, 30);
</script>"""


def test_a_frame_does_not_keep_the_keyboard(lab: Lab, browser: Browser, model: Model) -> None:
    """A script that puts the focus into its frame is closed; the person types on in their cell."""
    book = shown(lab, browser, model, "keys", f"from IPython.display import HTML\nHTML({TAKES!r})")
    frame = book.output(1).frame_locator(FRAME)
    cell = book.write("typed = 'here'")
    expect(frame.locator("body")).to_contain_text("took the keyboard")
    book.page.keyboard.type("  # by me")
    expect(book.cell(cell).locator(".cm-content")).to_contain_text("# by me")
    book.close()
