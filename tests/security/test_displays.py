"""Displays of the agent's code are data: what of them becomes an output of the notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from live_kernel import Cell, LiveKernel, Turn, execute_code
from pace import processor_seconds
from security.hostile_displays import acting, loading

from jupyter_agent.core.displays import WIDGET, shown_displays
from jupyter_agent.core.events import MessageFinished, StepStarted, ToolFinished
from jupyter_agent.core.frames import LIBRARY_HOSTS
from jupyter_agent.core.markup import cleaned_html, scoped_css
from jupyter_agent.core.messages import Message, Output, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.recording.cassette import load, save
from jupyter_agent.widgets.saved import saved_outputs

_DRAWN = frozenset({"srcdoc", "data-document"})
_ADDRESSES = ("src", "href", "xlink:href", "srcset", "poster", "background", "action", "data")


class Page(HTMLParser):
    """What a page makes of HTML: its elements, the scripts, and the frames with their documents.

    Attributes:
        tags: The names of all elements.
        attributes: The attributes of all elements; handlers are among them.
        scripts: The texts of the scripts.
        frames: The attributes of the frames.
        sheets: The texts of the style sheets.
    """

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.frames: list[dict[str, str]] = []
        self.sheets: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = {name: value or "" for name, value in attrs}
        if tag == "iframe":
            self.frames.append(given)
        self.attributes += given.items()

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        if self.tags and self.tags[-1] == "style":
            self.sheets.append(data)


def shown(*outputs: dict[str, Any]) -> list[dict[str, Any]]:
    """What becomes of MIME bundles that the agent's code displays."""
    return [dict(one.data) for one in shown_displays(Output("display", data) for data in outputs)]


def page(markup: str) -> Page:
    """What a page makes of a display's HTML."""
    (only,) = shown({"text/html": markup})
    return Page(str(only["text/html"]))


OURS = page("<script></script>").scripts
"""The script of ours that gives frames their height."""


def assert_inert(found: Page) -> None:
    """Fails if the page would run or load something by itself, outside of the sandbox."""
    assert [script for script in found.scripts if script not in OURS] == []
    for frame in found.frames:
        assert frame["sandbox"] == "allow-scripts"
        assert len(_DRAWN & set(frame)) == 1
        assert "src" not in frame
    for name, value in found.attributes:
        assert not name.startswith("on")
        assert not name.startswith("data-") or name == "data-document"
        if name in _ADDRESSES:
            assert re.match(r"(?:data:image/|#|[\w./-]+$|https?://)", value)
        if name in ("src", "srcset", "poster", "background", "action", "data"):
            assert "//" not in value.replace("http://www.w3.org/2000/svg", "")
        if name == "style":
            assert "canary" not in value
    assert not set(found.tags) & {"form", "object", "embed", "base", "meta", "link", "math"}
    assert not any("canary" in sheet for sheet in found.sheets)


@pytest.mark.parametrize("name", loading())
def test_nothing_loads_by_itself(name: str) -> None:
    """HTML that loads something: it is taken out, or waits in a frame for the person."""
    found = page(loading()[name])
    assert_inert(found)
    for frame in found.frames:
        document = frame.get("srcdoc", "")
        if "canary" in document:  # a script, in a frame that forbids every unknown host
            policy = re.search(r'content="([^"]*)"', document)
            assert policy is not None
            assert policy[1].startswith("default-src 'none'")
            assert "frame-src 'none'" in policy[1]
            assert "*;" not in policy[1]


@pytest.mark.parametrize("name", acting("alert(1)"))
def test_nothing_runs_in_the_page(name: str) -> None:
    """HTML with scripts, in any spelling: they run in the sandbox, or not at all."""
    found = page(acting("alert(1)")[name])
    assert_inert(found)
    assert not any("javascript:" in value for name, value in found.attributes if name not in _DRAWN)


def test_a_page_reads_attributes_as_the_test_does() -> None:
    """The tests above find a handler, a script and a picture where there are some."""
    for markup in ("<p onclick=x>", "<script>x</script>", "<img src=http://a/b>", "<form>"):
        with pytest.raises(AssertionError):
            assert_inert(Page(markup))


@pytest.mark.parametrize("kind", ["application/javascript", "text/javascript"])
def test_a_script_by_itself_goes_into_a_frame(kind: str) -> None:
    """A script that is displayed is no script for the page any more."""
    (data,) = shown({kind: "element.append('x')</script><img src=y onerror=z>", "text/plain": "p"})
    assert set(data) == {"text/html", "text/plain"}
    assert_inert(Page(data["text/html"]))
    assert "element.append" in data["text/html"]


def test_a_script_is_joined_with_the_elements_that_it_draws_into() -> None:
    """Bokeh displays an element and then a script that fills it: both are in one frame."""
    outputs = shown(
        {"application/javascript": "LIBRARY", "application/vnd.bokehjs_load.v0+json": "LIBRARY"},
        {"text/html": '<div id="0123-abcd"></div>'},
        {"application/javascript": "fill('0123-abcd')", "application/vnd.bokehjs_exec.v0+json": ""},
        {"text/html": "<b>another</b>"},
    )
    assert [set(data) for data in outputs] == [{"text/html"}] * 3
    assert all(word in outputs[1]["text/html"] for word in ("0123-abcd", "fill", "LIBRARY"))
    assert Page(outputs[2]["text/html"]).frames == []


def test_the_library_of_a_plot_from_an_earlier_turn() -> None:
    """A plot of Bokeh's whose library was loaded elsewhere gets it from Bokeh's own host."""
    (data,) = shown(
        {
            "application/javascript": 'draw({"version":"3.9.2"})',
            "application/vnd.bokehjs_exec.v0+json": "",
        }
    )
    assert "https://cdn.bokeh.org/bokeh/release/bokeh-3.9.2.min.js" in data["text/html"]
    assert "cdn.bokeh.org" in LIBRARY_HOSTS


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("application/vnd.plotly.v1+json", {"data": [{"x": [1]}], "layout": {}}),
        ("application/vnd.vegalite.v5+json", {"mark": "bar", "data": {"values": [{"url": "h"}]}}),
        ("application/vnd.vegalite.v6.json", {"mark": "bar"}),
        ("application/json", {"a": 1}),
        ("image/png", "AAAA"),
        ("image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>'),
        ("text/plain", "<script>"),
    ],
)
def test_what_front_ends_draw_themselves_passes(kind: str, value: Any) -> None:
    """Plots travel as their own MIME types, pictures and text as they are."""
    (data,) = shown({kind: value})
    assert data[kind] == value
    assert shown({kind: value, "text/plain": "mine"}) == [{kind: value, "text/plain": "mine"}]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("application/vnd.plotly.v1+json", {"data": []}, "[a plot of plotly]"),
        (
            "application/vnd.plotly.v1+json",
            {"layout": {"title": {"text": "Sales\nby year"}}},
            "[a plot of plotly: Sales]",
        ),
        ("application/vnd.vegalite.v5+json", {"title": "Rain"}, "[a plot of Vega: Rain]"),
        ("application/vnd.vega.v5+json", {"title": ["a", "b"]}, "[a plot of Vega]"),
    ],
)
def test_a_plot_without_words_gets_some(kind: str, value: Any, words: str) -> None:
    """A program that cannot draw a plot of plotly or Vega shows what it was."""
    assert shown({kind: value})[0]["text/plain"] == words


def test_each_host_is_named_once() -> None:
    """A display that loads from the same server in two ways."""
    markup = (
        "<iframe src='https://a.example/1'></iframe><script src='https://a.example/2'></script>"
        "<script src='https://b.example/3'></script>"
    )
    (data,) = shown({"text/html": markup})
    assert "loads from a.example, b.example. Show it." in data["text/html"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("application/vnd.holoviews_exec.v0+json", "alert(1)"),
        ("application/vnd.bokehjs_exec.v0+json", ""),
        ("application/x-unknown", "alert(1)"),
        ("image/png", '"><script>alert(1)</script>'),
        ("application/vnd.jupyter.widget-view+json", {"model_id": "<img>"}),
        (
            "application/vnd.plotly.v1+json",
            {"data": [], "layout": {"images": [{"source": "http://canary.example/a.png"}]}},
        ),
        ("application/vnd.vegalite.v5+json", {"data": {"url": "http://canary.example/a.json"}}),
        ("application/vnd.vega.v5+json", {"marks": [{"encode": {"url": "//canary.example"}}]}),
    ],
)
def test_what_acts_or_loads_is_left_out(kind: str, value: Any) -> None:
    """MIME types that run something, and plots that load something, leave their plain text."""
    assert shown({kind: value, "text/plain": "text"}) == [{"text/plain": "text"}]
    (alone,) = shown({kind: value})
    assert set(alone) == {"text/plain"}


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 60_000,
        "<style>" * 40_000,
        "<script>" * 40_000,
        "src=" + " " * 300_000,
        "<style>a {b: " + "(" * 100_000 + "}</style>",
    ],
)
def test_a_display_that_would_take_long(markup: str) -> None:
    """HTML that is nested or repeated without end costs seconds at most, and does not act."""
    assert processor_seconds(lambda: page(markup), times=1) < 10
    assert_inert(page(markup))


SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{}</svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<rect onclick="alert(1)"/>',
        '<image href="http://canary.example/a.png"/>',
        '<a xlink:href="javascript:alert(1)"><text>x</text></a>',
        '<a xlink:href="&#106;avascript:alert(1)"><text>x</text></a>',
        "<style>@import 'http://canary.example/a.css';</style>",
        "<foreignObject><p>x</p></foreignObject>",
        '<animate attributeName="href" values="javascript:alert(1)"/>',
    ],
)
def test_a_drawing_that_acts_becomes_a_picture(inside: str) -> None:
    """In a picture nothing runs and nothing is loaded."""
    (data,) = shown({"image/svg+xml": SVG.format(inside)})
    assert set(data) == {"text/html"}
    assert re.fullmatch(
        r'<img alt="drawing" src="data:image/svg\+xml;base64,[\w+/=]+">', data["text/html"]
    )


def test_markdown_and_formulas_are_inert() -> None:
    """Displayed Markdown has no HTML and no remote picture, a formula no link."""
    (data,) = shown(
        {
            "text/markdown": "![a](http://canary.example/a.png) <script>alert(1)</script>",
            "text/latex": r"$\href{javascript:alert(1)}{x} <img src=y onerror=z>$",
        }
    )
    assert "<script" not in data["text/markdown"]
    assert "![a](http" not in data["text/markdown"]
    assert r"\href" not in data["text/latex"]
    assert "<img" not in data["text/latex"]


def test_metadata_steers_no_renderer() -> None:
    """Of a display's metadata the sizes of pictures stay."""
    metadata = {
        "image/png": {"width": 3, "height": '1" onload="x'},
        "isolated": True,
        "application/geo+json": {"url_template": "http://canary.example/{x}"},
        "needs_background": "light",
    }
    (output,) = shown_displays([Output("display", {"image/png": "AAAA"}, metadata)])
    assert output.metadata == {"image/png": {"width": 3}, "needs_background": "light"}


@pytest.mark.parametrize("kind", ["text/html", "application/javascript", "image/svg+xml"])
def test_a_recording_or_a_server_shows_data_only(kind: str) -> None:
    """A display that no code made, but a cassette, a log or an MCP server: the same holds."""
    result = ToolResult("c1", (), display=(Output("display", {kind: "<script>alert(1)</script>"}),))
    view = reduce(TurnView(), StepStarted(1, 1))
    message = Message("assistant", (ToolCall("c1", "server__draw", "{}"),))
    for event in (MessageFinished(message, Usage(), "tool_use"), ToolFinished(result, 0.0)):
        view = reduce(view, event)
    (_, display) = saved_outputs(view)
    assert_inert(Page(str(display.data["text/html"])))


@pytest.mark.parametrize(
    ("sheet", "kept"),
    [
        ("td { color: red }", ".s td {color:red}"),
        ("a, #T_x > b { color: red !important }", ".s a, .s #T_x > b {color:red!important}"),
        (":root { --c: 1 }", ".s {--c:1}"),
        ("html[data-theme=dark] .x { color: red }", "html[data-theme=dark] .s .x {color:red}"),
        ("@media print { td { color: red } }", "@media print {.s td {color:red}}"),
        ("+ .ja-question { display: none }", ""),
        ("body ~ .x { display: none }", ""),
        ("} body { display: none }", ""),
        ("p { body:has(&) .x { display: none } }", ""),
        ("p { position: fixed }", ""),
        ("@keyframes ja { to { opacity: 0 } }", ""),
        ("@font-face { font-family: x; src: url(x) }", ""),
        ("p { content: '</style><script>' }", r".s p {content:'\3c /style>\3c script>'}"),
    ],
)
def test_style_sheets_count_in_their_display_only(sheet: str, kept: str) -> None:
    """Rules of a display reach nothing else on the page, and load nothing."""
    found = scoped_css(sheet, ".s")
    assert re.sub(r"\s+", " ", found).replace('"', "'") == kept or (not kept and ".s" in found)
    for rule in re.findall(r"([^{}]+)\{[^{}]*\}", found.replace("@media print {", "")):
        assert all(".s" in selector for selector in rule.split(","))
    assert "display:" not in found or ".s body" in found or not kept


LIBRARIES = {
    "a table of pandas": """
import pandas
display(pandas.DataFrame({"a": [1, 2], "b": ["x", "<script>alert(1)</script>"]}))
""",
    "a table with styles": """
import pandas
display(pandas.DataFrame({"a": [1, 2]}).style.highlight_max(color="gold").set_caption("best"))
""",
    "a data set of xarray": """
import numpy, xarray
display(xarray.Dataset({"t": (("x", "y"), numpy.arange(6).reshape(2, 3))}))
""",
}
"""Code that displays a table, and what must be left of it."""
LEFT = {
    "a table of pandas": ["<table", "dataframe", "<th>a</th>", "&lt;script&gt;alert(1)", "<style>"],
    "a table with styles": ["background-color:gold", "<caption", "best", "data row1 col0"],
    "a data set of xarray": ["xr-wrap", 'type="checkbox"', "<svg", "icon-database", "--xr-font"],
}


@pytest.fixture
def loaded(kernel: LiveKernel) -> LiveKernel:
    kernel.load()
    return kernel


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_libraries_show_is_left(loaded: LiveKernel, name: str) -> None:
    """Tables and data sets keep classes, styles, checkboxes and drawings, outside of frames."""
    turn = loaded.agent("from IPython.display import display" + LIBRARIES[name])
    (markup,) = [d["text/html"] for d in turn.cell.displays[1:] if "text/html" in d]
    assert [part for part in LEFT[name] if part not in markup] == []
    assert_inert(Page(markup))
    assert "iframe" not in markup


def test_the_same_display_gives_the_same_output() -> None:
    """Cleaning twice changes nothing, so replays show the same bytes."""
    markup = "<style>p {color: red}</style><p title='x'>text</p><script>1</script>"
    assert shown({"text/html": markup}) == shown({"text/html": markup})
    assert cleaned_html("<p>a<b>b") == cleaned_html("<p>a<b>b")


LATE = """
import asyncio, threading, time
from IPython.display import HTML, display
def later():
    display(HTML("<b>thread</b><script>alert(1)</script>"))
async def soon():
    await asyncio.sleep(0.2)
    display(HTML("<b>task</b><img src=x onerror=alert(2)>"))
threading.Timer(0.2, later).start()
kept = asyncio.get_running_loop().create_task(soon())
await asyncio.sleep(0)
"""


def test_what_the_code_leaves_behind_is_cleaned_too(loaded: LiveKernel) -> None:
    """A thread and a task that display something after their turn show data, no scripts.

    The person's own displays in the same cell stay as they are.
    """
    loaded.script(
        "Work.",
        {"calls": [{"name": "execute_code", "arguments": {"code": LATE}}]},
        {"text": "Done."},
    )
    own = "<script>alert(3)</script>"
    cell = loaded.run(
        "from jupyter_agent import ask\nimport asyncio\nfrom IPython.display import HTML, display\n"
        f"answer = await ask('Work.')\ndisplay(HTML({own!r}))\nawait asyncio.sleep(1)"
    )
    texts = [data.get("text/html", "") for data in cell.displays]
    (thread,) = [text for text in texts if "thread" in text and "later()" not in text]
    (task,) = [text for text in texts if "task" in text and "soon()" not in text]
    assert_inert(Page(thread))
    assert_inert(Page(task))
    assert own in texts


OWN_WIDGETS = """
import ipywidgets
from IPython.display import display
bold = ipywidgets.HTML("<b>bold</b><img src=x onerror=alert(1)>")
picture = ipywidgets.Image(value=b"http://canary.example/a.png", format="url")
out = ipywidgets.Output(outputs=[{"output_type": "display_data", "metadata": {},
                                  "data": {"text/html": "<script>alert(1)</script>"}}])
display(ipywidgets.VBox([bold, picture, out]))
bold.value = "<i>new</i><img src=x onerror=alert(1)>"
"""


def test_widgets_of_ipywidgets_are_shown_cleaned(loaded: LiveKernel) -> None:
    """What the page hears of them has no handlers, scripts and addresses; Python's values stay."""
    running, logs = loaded.start_agent(OWN_WIDGETS)
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    turn = loaded.turn(running.finish(), logs)
    assert any("application/vnd.jupyter.widget-view+json" in data for data in turn.cell.displays)
    states = [m["content"]["data"].get("state", {}) for m in heard if m["content"].get("data")]
    values = [state["value"] for state in states if isinstance(state.get("value"), str)]
    assert any(value.startswith("<b>bold</b>") for value in values)
    assert any(value.startswith("<i>new</i>") for value in values)
    assert not any("onerror" in value for value in values)
    assert not any(state.get("format") == "url" for state in states)
    (shown_there,) = [state["outputs"] for state in states if state.get("outputs")]
    assert_inert(Page(shown_there[0]["data"]["text/html"]))
    assert "onerror" in loaded.value("bold.value")


LABEL_DRAWN_AS_HTML = """
import ipywidgets, traitlets
class Label(ipywidgets.Label):
    _view_name = traitlets.Unicode("HTMLView").tag(sync=True)
Label("<img src=x onerror=alert(1)>")
"""


def test_a_widget_is_drawn_as_what_it_is(loaded: LiveKernel) -> None:
    """A label that asks to be drawn as HTML, which is not cleaned in labels: it is not."""
    running, logs = loaded.start_agent(LABEL_DRAWN_AS_HTML)
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    loaded.turn(running.finish(), logs)
    states = [m["content"]["data"].get("state", {}) for m in heard if m["content"].get("data")]
    assert any("onerror" in str(state.get("value")) for state in states)
    assert not any(state.get("_view_name") == "HTMLView" for state in states)


SCRIPTED_WIDGET = """
import anywidget, ipywidgets
class Counter(anywidget.AnyWidget):
    _esm = "export default {render({el}) {el.textContent = 'SCRIPT'}}"
counter = Counter()
display(counter)
ipywidgets.VBox([counter])
"""


def test_a_widget_with_a_script_waits_for_the_person(loaded: LiveKernel) -> None:
    """Its script reaches no page, nor what holds it; `%agent show widgets` shows both."""
    running, logs = loaded.start_agent(SCRIPTED_WIDGET)
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    turn = loaded.turn(running.finish(), logs)
    assert "SCRIPT" not in json.dumps(heard, default=str)
    said = [data["text/plain"] for data in turn.cell.displays[1:-1]]
    assert said == [
        f"{name} brings a script of its own, so it waits: %agent show widgets shows it."
        for name in ("__main__.Counter", "ipywidgets.VBox")
    ]
    assert (
        loaded.value("__import__('ipywidgets').widgets.widget._instances.get(counter.model_id)")
        is None
    )
    running = loaded.start("%agent show widgets")
    running.watch = heard.append
    shown_now = running.finish()
    assert "SCRIPT" in json.dumps(heard, default=str)
    assert len(shown_now.displays) == 2
    assert "No widget waits." in loaded.run("%agent show widgets").said


def asked(
    kernel: LiveKernel, code: str, *answers: str, options: str = "--fresh"
) -> tuple[Turn, list[str], str]:
    """A turn before a person with these answers: the turn, the questions, what the page heard."""
    task, logs = f"Ask {len(kernel.logs()) + 1}", kernel.logs()
    kernel.script(task, execute_code(code), {"text": "Done."})
    running = kernel.start(f"%%agent {options}\n{task}", allow_stdin=True)
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    questions = []
    for answer in answers:
        questions.append(running.question(60))
        running.type(answer)
    return kernel.turn(running.finish(60), logs), questions, json.dumps(heard, default=str)


@pytest.fixture
def asking(loaded: LiveKernel) -> Iterator[LiveKernel]:
    loaded.helper("%agent config display static", "%agent config approvals.mode ask_risky")
    yield loaded
    loaded.helper("%agent config display auto", "%agent config approvals.mode auto")


def test_a_widget_with_a_script_asks(asking: LiveKernel) -> None:
    """A yes shows it at once, also in a box; the transcript says who allowed it."""
    turn, (question,), heard = asked(asking, SCRIPTED_WIDGET, "y")
    assert "shows the widget __main__.Counter, whose own script then runs in this page" in question
    assert "(widgets with exactly this script: the widget __main__.Counter)" in question
    assert heard.count("SCRIPT") == 1
    views = [data for data in turn.cell.displays if WIDGET in data]
    assert len(views) == 2
    assert "allowed by you" in turn.cell.transcript
    assert "No widget waits." in asking.run("%agent show widgets").said


def test_always_is_for_one_script(asking: LiveKernel) -> None:
    """After "always" the same script asks no more, another one of the same name does."""
    asked(asking, SCRIPTED_WIDGET, "a")
    _, _, heard = asked(asking, SCRIPTED_WIDGET, options="")
    assert "SCRIPT" in heard
    changed = SCRIPTED_WIDGET.replace("'SCRIPT'", "'ANOTHER'")
    _, questions, heard = asked(asking, changed, "n", options="")
    assert len(questions) == 1 and "ANOTHER" not in heard


def test_a_widget_that_the_person_refuses(asking: LiveKernel) -> None:
    """It stays out, with what holds it, and a line says so; the code goes on."""
    turn, _, heard = asked(asking, f"{SCRIPTED_WIDGET}\nprint('went on')", "no: not now")
    assert "SCRIPT" not in heard and "went on" in turn.result.text
    said = "__main__.Counter brings a script of its own. The answer was no, so it is not shown."
    assert said in [data["text/plain"] for data in turn.cell.displays]
    assert "refused by you" in turn.cell.transcript
    assert "No widget waits." in asking.run("%agent show widgets").said


def test_widgets_of_an_extension_ask_once(asking: LiveKernel) -> None:
    """Widgets whose script is in an extension of the page: one question for all of its kinds."""
    code = """
import ipywidgets, traitlets
class Map(ipywidgets.DOMWidget):
    _model_module = traitlets.Unicode("jupyter-maps").tag(sync=True)
    _model_module_version = traitlets.Unicode("1.0").tag(sync=True)
    _model_name = traitlets.Unicode("MapModel").tag(sync=True)
class Layer(Map):
    _model_name = traitlets.Unicode("LayerModel").tag(sync=True)
kept = [Layer(), Map(), Map()]
"""
    _, questions, heard = asked(asking, code, "y")
    assert len(questions) == 1
    assert "shows a widget of jupyter-maps, whose own script" in questions[0]
    assert heard.count('"MapModel"') == 2 and "LayerModel" in heard


def test_only_the_script_that_was_let_in_is_sent(asking: LiveKernel) -> None:
    """Code may not exchange it later; a page that is loaded anew gets it with the state."""
    asked(asking, SCRIPTED_WIDGET, "y")
    _, _, heard = asked(asking, "counter.send_state()", options="")
    assert "SCRIPT" in heard
    code = "counter._esm = 'EXCHANGED'\ncounter.send_state()"
    _, _, heard = asked(asking, code, options="")
    assert "EXCHANGED" not in heard
    asking.helper("counter._esm = type(counter)._esm.default_value")
    assert "SCRIPT" in heard_by_a_new_page(asking)
    asking.helper("counter._esm = 'EXCHANGED'")
    assert "EXCHANGED" not in heard_by_a_new_page(asking)


def heard_by_a_new_page(kernel: LiveKernel) -> str:
    """What a page hears that has just been loaded and asks for all widgets."""
    running = kernel.start(
        "import comm\nfrom ipywidgets.widgets.widget import Widget\n"
        "Widget._control_comm = comm.create_comm(target_name='jupyter.widget.control')\n"
        "Widget._handle_control_comm_msg({'content': {'data': {'method': 'request_states'}}})"
    )
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    assert running.finish().status == "ok"
    return json.dumps(heard, default=str)


@pytest.mark.parametrize(
    ("answer", "is_shown", "words"),
    [("y", True, "allowed by you"), ("n", False, "The answer was no, so it is not shown.")],
)
def test_the_decision_is_recorded(
    asking: LiveKernel, tmp_path: Path, answer: str, is_shown: bool, words: str
) -> None:
    """A replay does what was decided, and asks nobody; without the decision the widget waits."""
    tape = tmp_path / "tape.jsonl"
    asking.helper(f"%agent cassette {tape}", "%agent config mode record")
    try:
        turn, _, _ = asked(asking, SCRIPTED_WIDGET, answer)
        (decision,) = [d for step in load(tape).turns[0].steps for d in step.decisions]
        assert decision.effect == "widget"
        asking.helper("%agent config mode replay")
        cell, heard = replayed(asking, turn)
        assert ("SCRIPT" in heard) is is_shown
        assert words in str(cell.displays)
        if is_shown:
            allowed = without_decisions(tape)
            cell, heard = replayed(asking, turn)
            assert "SCRIPT" not in heard
            assert "so it waits: %agent show widgets shows it" in str(cell.displays)
            tape.write_bytes(allowed)
    finally:
        asking.helper("%agent config mode auto", "%agent cassette other.jsonl")


def replayed(kernel: LiveKernel, turn: Turn) -> tuple[Cell, str]:
    """The turn again, where nobody can be asked; what the page hears."""
    running = kernel.start(f"%%agent --fresh\n{turn.events[0]['task']}")
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    return running.finish(60), json.dumps(heard, default=str)


def without_decisions(tape: Path) -> bytes:
    """Make the cassette one of before widgets asked; return what it was."""
    before, cassette = tape.read_bytes(), load(tape)
    turns = tuple(
        replace(turn, steps=tuple(replace(step, decisions=()) for step in turn.steps))
        for turn in cassette.turns
    )
    save(replace(cassette, turns=turns), tape)
    return before


def test_plain_widgets_ask_nothing(asking: LiveKernel) -> None:
    """Sliders and progress bars are shown without a question, with HTML for later."""
    code = """
import ipywidgets
from IPython.display import display
from tqdm.notebook import tqdm
display(ipywidgets.HBox([ipywidgets.IntSlider(3, description="years<b>"), ipywidgets.Label("ok")]))
for _ in tqdm(range(3)): pass
"""
    turn, questions, _ = asked(asking, code)
    assert questions == []
    box, bar = (data for data in turn.cell.displays if WIDGET in data)
    assert "years&lt;b&gt; 3" in box["text/html"] and "ok" in box["text/html"]
    assert "text/html" not in turn.result.text  # the model reads what it read before
    (later,) = [d for d in turn.cell.displays if "Widgets end with their kernel" in str(d)]
    assert "years&lt;b&gt; 3" in later["text/html"] and WIDGET not in later
    assert "of 3" in bar["text/html"] and "0/3" in bar["text/plain"]


def test_the_agent_cannot_release_its_widgets(loaded: LiveKernel) -> None:
    """`%agent show widgets` in the agent's own code is refused."""
    running, logs = loaded.start_agent(SCRIPTED_WIDGET + "\n%agent show widgets")
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    turn = loaded.turn(running.finish(), logs)
    assert "SCRIPT" not in json.dumps(heard, default=str)
    assert "a turn is running" in turn.results[0].text.lower()


def test_the_persons_own_widgets_are_not_touched(loaded: LiveKernel) -> None:
    """A widget with a script that the person makes is sent as it is, also after a turn."""
    loaded.agent("1")
    running = loaded.start(SCRIPTED_WIDGET)
    heard: list[dict[str, Any]] = []
    running.watch = heard.append
    running.finish()
    assert "SCRIPT" in json.dumps(heard, default=str)
