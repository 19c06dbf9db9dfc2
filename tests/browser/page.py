"""A page that plays the notebook: it loads live.js with a small stand-in for anywidget's model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser.lab import FLAGS
from playwright.sync_api import Browser, Page, Playwright, Route

ROOT = Path(__file__).parents[2]
WIDGETS = ROOT / "jupyter_agent" / "widgets"
SCREENSHOTS = ROOT / "build" / "screenshots"
ORIGIN = "http://notebook.test"

# The themes as JupyterLab sets them: an attribute of the body, and colours that outputs inherit.
THEMES = {
    "light": ("true", "#ffffff", "rgba(0, 0, 0, 0.87)"),
    "dark": ("false", "#111111", "rgba(255, 255, 255, 1)"),
}
HTML = """<!doctype html><html><head><meta charset="utf-8"><title>notebook</title>
<script id="jupyter-config-data" type="application/json">
{"baseUrl": "/user/me/", "token": "t0"}</script>
<style>STYLE</style><style>body{margin:16px;background:BACKGROUND;color:COLOUR;font-family:system-ui,sans-serif}</style>
</head><body data-jp-theme-light="LIGHT"><main id="notebook">
<div class="jupyter-agent-live jupyter-agent-live-h1"><div>The agent is at work.</div></div>
</main><script type="module">
import live from "/live.js";
class Model {
  lost = [];
  constructor(values) { this.values = values; this.sent = []; this.handlers = new Set(); }
  get(name) { return this.values[name]; }
  on(name, handler) { if (name === "msg:custom") this.handlers.add(handler);
    if (name === "comm_live_update") this.lost.push(handler); }
  off(name, handler) { this.handlers.delete(handler); }
  send(content) { this.sent.push(JSON.parse(JSON.stringify(content))); }
  receive(content) { for (const one of this.handlers) one(structuredClone(content), []); }
}
window.test = { live, Model, model: new Model(VALUES) };
window.test.cleanup = await live.initialize({ model: window.test.model });
window.test.loaded = true;
</script></body></html>"""


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)


class Notebook:
    """What a test does: send what the kernel would send, look at what a person would see."""

    def __init__(self, page: Page, requests: list[str]) -> None:
        self.page = page
        self.requests = requests
        self.view = page.locator(".ja").first
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def receive(self, *messages: dict[str, Any]) -> None:
        self.page.evaluate(
            "messages => messages.forEach(m => test.model.receive(m))", list(messages)
        )
        self.settle()

    def show(self, state: dict[str, Any]) -> None:
        self.receive({"t": "state", "state": state})

    def patch(self, *ops: list[Any]) -> None:
        self.receive({"t": "patch", "ops": list(ops)})

    def settle(self) -> None:
        """Wait until what was received is drawn."""
        self.page.evaluate(
            "() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )

    def sent(self) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = self.page.evaluate("() => test.model.sent.splice(0)")
        return sent

    def unfold(self) -> None:
        """Open every card, as a person would."""
        for summary in self.page.locator("details:not([open]) > summary:visible").all()[::-1]:
            summary.click()
        self.settle()

    def text(self) -> str:
        return self.view.inner_text()

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@contextmanager
def notebook(
    browser: Browser, theme: str = "light", width: int = 860, before: str = "", **values: object
) -> Iterator[Notebook]:
    """A notebook whose cell output waits for the widget with the model id `h1`.

    `before` is a script that the page runs first.
    """
    light, background, colour = THEMES[theme]
    css = (WIDGETS / "live.css").read_text(encoding="utf-8")
    model = {"host": "h1", "kernel_id": "k-1", **values}
    html = HTML.replace("LIGHT", light).replace("BACKGROUND", background).replace("COLOUR", colour)
    html = html.replace("STYLE", css).replace("VALUES", json.dumps(model).replace("<", "\\u003c"))
    requests: list[str] = []

    def serve(route: Route) -> None:
        url = route.request.url
        if url == f"{ORIGIN}/":
            route.fulfill(body=html, content_type="text/html")
        elif url == f"{ORIGIN}/live.js":
            route.fulfill(path=WIDGETS / "live.js", content_type="text/javascript")
        else:
            headers = route.request.headers
            keys = " ".join(headers.get(key, "-") for key in ("x-xsrftoken", "authorization"))
            requests.append(f"{route.request.method} {url} {keys}")
            route.fulfill(status=204)

    if not browser.contexts:  # one for all pages, since a new one takes as long as a test
        browser.new_context().add_cookies([{"name": "_xsrf", "value": "x1", "url": ORIGIN}])
    page = browser.contexts[0].new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.route("**/*", serve)
    page.add_init_script(before)
    book = Notebook(page, requests)
    page.goto(f"{ORIGIN}/")
    page.wait_for_function("window.test?.loaded")
    try:
        yield book
        assert book.errors == []
    finally:
        page.close()


def call(name: str = "execute_code", **changes: object) -> dict[str, Any]:
    """A tool call that is done."""
    plain = {
        "id": "call_1",
        "name": name,
        "gist": "df.mean()",
        "state": "done",
        "note": "",
        "seconds": 0.1,
        "language": "python",
        "body": "df.mean()",
        "outputs": [{"kind": "text", "text": "3.5"}],
        "question": None,
        "delegate": None,
    }
    return {**plain, **changes}


def delegate(number: int, *steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A delegate at work; `delegate` changes what is said of its conversation."""
    its = {
        "running": True,
        "now": f"step {max(len(steps), 1)}: waiting for the model",
        "facts": "1,204 tokens · $0.004",
        "notices": [],
        "steps": list(steps),
        **changes.pop("delegate", {}),
    }
    name = changes.pop("name", f"Delegate {number}")
    plain = {"id": f"d{number}", "gist": f"Read part {number}.", "body": f"task: Read {number}."}
    plain |= {"state": "running", "seconds": None, "language": "text", "outputs": []}
    return call(name, **{**plain, "delegate": its, **changes})


def step(number: int = 1, **changes: object) -> dict[str, Any]:
    plain = {"number": number, "thinking": "", "text": "", "said": [], "notices": [], "calls": []}
    return {**plain, **changes}


def state(*steps: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A turn in the middle of its work."""
    plain = {
        "running": True,
        "ending": "",
        "task": "Which penguin species is heaviest?",
        "model": "claude-test",
        "notices": [],
        "step": max(len(steps), 1),
        "max_steps": 50,
        "tokens": 6120,
        "cost": "$0.021",
        "elapsed": 18.2,
        "activity": "",
        "plan": [],
        "unread": [],
        "steps": list(steps),
    }
    return {**plain, **changes}
