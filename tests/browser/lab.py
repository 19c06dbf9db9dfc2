"""A real JupyterLab and a person in front of it, in headless Chromium.

    with Lab(folder) as lab, a_browser() as browser:
        lab.notebook("work.ipynb", ["%load_ext jupyter_agent", "%%agent\\nWork."])
        book = lab.open(browser, "work.ipynb")
        book.run(0)

The model is the package's scripted one, or a `Model` behind HTTP.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
from live_kernel import clean_environment
from model_server import Call, ModelServer, Reply, failed
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    sync_playwright,
)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "browser-test"
START = 60.0
_UGLY = "ugly: "
# Whatever appears anywhere on the page, however briefly.
_WATCH = """(() => {
  const bad = /loading widget|model not found|error displaying widget|jupyter-agent-live-/i;
  const look = (node) => {
    const text = node.textContent || "";
    if (bad.test(text)) console.log("ugly: " + text.match(bad)[0] + " in " + text.slice(0, 300));
  };
  const watch = () => new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === "characterData") look(record.target);
      else record.addedNodes.forEach(look);
    }
  }).observe(document.documentElement, {childList: true, subtree: true, characterData: true});
  document.documentElement ? watch() : addEventListener("DOMContentLoaded", watch);
})()"""
_PRINTED = ".jp-OutputArea-output:not([data-mime-type='application/vnd.jupyter.stderr'])"
_NUMBER = re.compile(r"\[\d+\]")
_ROOT = Path(__file__).parents[2]
SHOTS = _ROOT / "build" / "screenshots"


def chromium() -> str | None:
    """The system's browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def a_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


_WINDOWING = "notebook-extension/tracker.jupyterlab-settings"
_SETTINGS: dict[str, dict[str, Any]] = {
    # A cell that is out of sight must be as testable as one in sight.
    _WINDOWING: {"windowingMode": "none"},
    "apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "docmanager-extension/plugin.jupyterlab-settings": {"autosave": False},
}


class Lab:
    """JupyterLab in a folder of its own.

    Args:
        folder: Where its notebooks are.
        environ: Variables for the server and its kernels.

    Attributes:
        extension: The front-end extension as this JupyterLab finds it.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._environ = {**clean_environment(folder), **(environ or {})}
        self.extension = folder / "jupyter_data" / "labextensions" / "jupyter-agent"
        self._workspaces = 0
        self._window: BrowserContext | None = None

    def __enter__(self) -> Lab:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name, values in _SETTINGS.items():
            self.configure(name, values)
        # An editable install does not carry the front-end extension.
        shutil.copytree(_ROOT / "labextension", self.extension)
        self._log = (self.folder / "lab.log").open("w")
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={self.port}"),
            *("--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
            f"--ServerApp.root_dir={self.folder}",
            *(["--allow-root"] if hasattr(os, "getuid") and os.getuid() == 0 else []),
        ]
        self._process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self._environ, "JUPYTER_PATH": str(self.extension.parents[1])},
            stdout=self._log,
            stderr=self._log,
        )
        self._await_answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _await_answer(self) -> None:
        address = f"http://127.0.0.1:{self.port}/api/status?token={TOKEN}"
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(address, timeout=5):
                return
            time.sleep(0.2)
        raise TimeoutError((self.folder / "lab.log").read_text(encoding="utf-8")[-4000:])

    def configure(self, name: str, values: Mapping[str, object]) -> None:
        """Set what a person sets in the settings editor, for pages that are opened from now on."""
        path = self.folder / "empty_config" / "lab" / "user-settings" / "@jupyterlab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**_SETTINGS.get(name, {}), **values}), encoding="utf-8")

    def disable(self, *extensions: str) -> None:
        """Let pages that are opened from now on lack these front-end extensions."""
        path = self.folder / "empty_config" / "labconfig" / "page_config.json"
        path.parent.mkdir(exist_ok=True)
        disabled = dict.fromkeys(extensions, True)
        path.write_text(json.dumps({"disabledExtensions": disabled}), encoding="utf-8")

    @contextmanager
    def default_windowing(self) -> Iterator[None]:
        """Let pages that are opened meanwhile draw their cells as JupyterLab does by default."""
        settings = self.folder / "empty_config" / "lab" / "user-settings"
        path = settings / "@jupyterlab" / _WINDOWING
        path.unlink()
        try:
            yield
        finally:
            path.write_text(json.dumps(_SETTINGS[_WINDOWING]), encoding="utf-8")

    def shut_down_kernels(self) -> None:
        """Stop all kernels, as after a night."""
        for kernel in json.loads(self._api("GET", "kernels")):
            self._api("DELETE", f"kernels/{kernel['id']}")

    def _api(self, method: str, path: str) -> bytes:
        address = f"http://127.0.0.1:{self.port}/api/{path}"
        headers = {"Authorization": f"token {TOKEN}"}
        request = urllib.request.Request(address, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            found: bytes = answer.read()
            return found

    def notebook(self, name: str, cells: Sequence[str]) -> Path:
        """Write a notebook of code cells."""
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
        }
        book.cells = [nbformat.v4.new_code_cell(source) for source in cells]
        path = self.folder / name
        nbformat.write(book, path)
        return path

    def open(
        self,
        browser: Browser,
        name: str,
        size: tuple[int, int] = (1000, 1100),
        *,
        idle: bool = True,
    ) -> NotebookPage:
        """Open a notebook in a new window, and wait for its kernel, or for its cells only."""
        self._workspaces += 1
        if self._window is None:  # one for all pages: its cache makes them quick to open
            self._window = browser.new_context()
            self._window.add_init_script(_WATCH)
        page = self._window.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        where = f"lab/workspaces/w{self._workspaces}"
        opened = NotebookPage(page, self.folder / name, f"http://127.0.0.1:{self.port}")
        page.goto(f"http://127.0.0.1:{self.port}/{where}/tree/{name}?token={TOKEN}&reset")
        opened.await_kernel() if idle else opened.await_cells()
        return opened


class NotebookPage:
    """A notebook as a person has it before them.

    Attributes:
        ugly: Whatever the page ever showed that nobody should see.
        foreign: Requests to anywhere but JupyterLab.
        dialogs: What the browser's own dialogs said.
        errors: Exceptions in the page that name our module.
        complaints: What the console says as a warning or an error.
    """

    def __init__(self, page: Page, path: Path, origin: str) -> None:
        self.page = page
        self.path = path
        self.ugly: list[str] = []
        self.foreign: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.complaints: list[str] = []
        self._origin = origin
        page.on("dialog", self._answer)
        page.on("console", self._hear)
        page.on("request", self._look)
        page.on("pageerror", lambda error: self.errors.append(f"{error}\n{error.stack}"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.text.startswith(_UGLY):
            self.ugly.append(message.text.removeprefix(_UGLY))
        if message.type in ("warning", "error"):
            self.complaints.append(message.text)

    def _answer(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":  # who closes or reloads means it
            dialog.accept()
        else:
            self.dialogs.append(dialog.message)
            dialog.dismiss()

    def _look(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:", "blob:", "about:")):
            self.foreign.append(request.url)

    def check(self) -> None:
        """Fail where a person would have seen, or suffered, what nobody should."""
        assert self.page.evaluate("window.pwned") is None
        assert (self.ugly, self.foreign, self.dialogs) == ([], [], [])
        assert [error for error in self.errors if "live" in error or "agent" in error] == []

    def await_cells(self) -> None:
        """Wait until the notebook is there, whatever its kernel does."""
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)

    def await_kernel(self) -> None:
        """Wait for what the status bar says when a notebook is ready to run."""
        self.await_cells()
        self.page.wait_for_selector("#jp-main-statusbar >> text=/ipykernel.*Idle/", timeout=60_000)

    def cell(self, number: int) -> Locator:
        """A cell, counted from 0."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea")

    def live(self, number: int) -> Locator:
        """The live view in a cell."""
        return self.cell(number).locator(".ja")

    def await_text(self, number: int, text: str | re.Pattern[str], timeout: float = 60) -> None:
        """Wait until a cell's output says `text`."""
        self.output(number).filter(has_text=text).wait_for(timeout=timeout * 1000)

    def write(self, source: str) -> int:
        """Write a new cell at the end; gives its number."""
        number = self.page.locator(".jp-Notebook .jp-Cell").count()
        last = self.cell(number - 1)
        last.locator(".jp-InputPrompt").click()
        if last.locator(".cm-content").inner_text().strip():
            self.page.keyboard.press("b")
            self.cell(number).wait_for()
        else:
            number -= 1
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.insert_text(source)
        return number

    def run(self, number: int, wait: bool = True) -> None:
        """Press Shift+Enter in a cell."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        if wait:
            self.await_done(number)

    def do(self, source: str, wait: bool = True) -> int:
        """Write a cell and run it; gives its number."""
        number = self.write(source)
        self.page.keyboard.press("Shift+Enter")
        if wait:
            self.await_done(number)
        return number

    def said(self, source: str) -> str:
        """What a cell prints or gives when it is run, whatever is warned of beside it."""
        cell = self.cell(self.do(source))
        return cell.locator(_PRINTED).first.inner_text().strip()

    def restart(self) -> None:
        """Restart a kernel that hangs, and load the extension again."""
        if self.page.locator(".jp-Dialog").count():
            self.page.locator(".jp-Dialog button").last.click()
            self.page.locator(".jp-Dialog").wait_for(state="detached")
        self.page.click("text=Kernel >> nth=0")
        self.page.click("text=Restart Kernel…")
        self.page.click(".jp-Dialog .jp-mod-accept")
        self.await_kernel()
        self.do("%load_ext jupyter_agent")

    def run_all(self) -> None:
        """Choose Run All Cells from the menu."""
        self.page.click("text=Run >> nth=0")
        self.page.click("text=Run All Cells")

    def press_interrupt(self) -> None:
        """Click the square in the notebook's toolbar."""
        self.page.locator(
            "[data-command='notebook:interrupt-kernel'], [data-jp-item-name='interrupt']"
        ).first.click()

    def await_done(self, number: int, timeout: float = 60) -> None:
        """Wait until the cell has its number: `[3]`, not `[*]`."""
        self.cell(number).locator(".jp-InputPrompt", has_text=_NUMBER).wait_for(
            timeout=timeout * 1000
        )

    def save(self) -> dict[str, Any]:
        """Press Ctrl+S; gives the notebook as it is in the file."""
        before = self.path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        found: dict[str, Any] = {}

        def is_saved() -> bool:
            if self.path.stat().st_mtime_ns == before:
                return False
            with suppress(ValueError):  # half of it is written
                found.update(json.loads(self.path.read_text(encoding="utf-8")))
            return bool(found)

        self.await_that(is_saved, "the notebook was not saved")
        return found

    def theme(self, name: str) -> None:
        """Choose a theme: `Light` or `Dark`."""
        self.page.click("text=Settings >> nth=0")
        self.page.hover(".lm-Menu >> text=Theme >> nth=0")
        self.page.click(f"text=JupyterLab {name} >> nth=0")
        light = str(name == "Light").lower()
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def await_that(self, fact: Callable[[], object], what: str, timeout: float = 60) -> None:
        """Wait until something outside the page is so."""
        end = time.monotonic() + timeout
        while not fact():
            if time.monotonic() > end:
                raise TimeoutError(what)
            self.page.wait_for_timeout(50)

    def shot(self, name: str) -> Path:
        """Keep a picture of the page for who looks at the results."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def close(self) -> None:
        self.page.close()


class Model(ModelServer):
    """A model whose script each test writes anew."""

    def __init__(self) -> None:
        self._script: Iterator[Reply] = iter(())
        super().__init__(lambda body: next(self._script, failed(400, "the script is over")))

    def says(self, *replies: Reply) -> None:
        self._script = iter(replies)
        self.requests.clear()
        self.hung_up.clear()
        self.goes_on.clear()

    def heard(self, number: int = -1) -> str:
        """One request as text."""
        return json.dumps(self.bodies[number], ensure_ascii=False)


def code(source: str, text: str = "", **changes: Any) -> Reply:
    """A reply that runs code."""
    return Reply(text=text, calls=(call("execute_code", code=source),), **changes)


def call(name: str, /, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments))


def words(text: str) -> tuple[str, ...]:
    """The pieces in which a model streams a text."""
    return tuple(re.findall(r"\S+\s*", text))


def spoken(cells: Iterable[Mapping[str, Any]]) -> str:
    """All outputs of saved cells, as JSON text."""
    return json.dumps([cell.get("outputs") for cell in cells], ensure_ascii=False)
