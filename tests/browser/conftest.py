"""One JupyterLab, one browser and one model for each module of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from uuid import uuid4

import pytest
from browser.lab import Lab, Model, NotebookPage, a_browser, chromium
from playwright.sync_api import Browser, Error, expect

# A bound for what never comes. Beside other work a page may take long for what is right.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture(scope="module")
def lab(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if find_spec("jupyterlab") is None:
        pytest.skip("there is no JupyterLab: pip install jupyterlab")
    environ = {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "k"}
    with Lab(tmp_path_factory.mktemp("lab"), environ) as lab:
        yield lab


@pytest.fixture(scope="module")
def desk(lab: Lab, browser: Browser) -> Iterator[NotebookPage]:
    """A notebook that stays open for a module, with the extension loaded."""
    lab.notebook(name := f"desk_{uuid4().hex}.ipynb", ["%load_ext jupyter_agent"])
    book = lab.open(browser, name)
    book.run(0)
    yield book
    book.close()


@pytest.fixture
def book(desk: NotebookPage, model: Model) -> Iterator[NotebookPage]:
    """The open notebook. After each test its kernel works, and nothing ugly was ever seen."""
    model.says()
    yield desk
    try:
        assert desk.said("6 * 7") == "42"
    except (Error, TimeoutError):
        desk.restart()
        raise
    desk.check()
