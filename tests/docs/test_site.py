"""`make docs` in small: the site is built without a warning, and a reader's browser asks nobody."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs.blocks import ROOT

pytestmark = [pytest.mark.timeout(400), pytest.mark.deep]
_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy of what belongs to it."""
    place = tmp_path_factory.mktemp("site")
    for folder in ("docs", "example_notebooks"):
        made = shutil.ignore_patterns(".jupyter_agent", ".ipynb_checkpoints", "examples", "output")
        shutil.copytree(ROOT / folder, place / folder, ignore=made)
    built = place / "built"
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", built],
        cwd=place,
        env={**os.environ, **closed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return built


def test_every_page_is_there(site: Path) -> None:
    """Each Markdown page and each example is a page of the site, and can be reached."""
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    examples = [Path("examples", p.name) for p in (ROOT / "example_notebooks").glob("*.ipynb")]
    assert examples
    index = (site / "index.html").read_text(encoding="utf-8")
    for path in [*pages, *examples]:
        if path.parts[0] != "examples" or path in examples:
            made = path.with_suffix(".html")
            assert (site / made).is_file(), made
            assert made.name == "index.html" or made.as_posix() in index, made


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    """No page loads a script, a style or a picture of another server."""
    for page in site.rglob("*.html"):
        assert _LOADED.findall(page.read_text(encoding="utf-8")) == [], page


def test_examples_show_their_turns(site: Path) -> None:
    """Transcripts are foldable on the page, as they are in the notebook, and the answer follows."""
    page = (site / "examples" / "01_quickstart.html").read_text(encoding="utf-8")
    assert page.count("<details") > 4
    assert "execute_code" in page
    assert "Gentoo penguins are the heaviest" in page
