"""How Sphinx builds these pages: `make docs`. Nothing is fetched, neither now nor by a reader."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import nbformat
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from jupyter_agent.version import __version__  # noqa: E402

project = "jupyter_agent"
author = "The authors of jupyter_agent"
release = version = __version__
language = "en"

extensions = ["myst_nb"]
# What the examples link to is there to be downloaded.
exclude_patterns = ["examples/files/**"]

# ---------------------------------------------------------------- Markdown and notebooks

# Plain Markdown, as code hosts show it: these pages are read there, too. No formulas, since they
# would be set by a script from another server, and a dollar is mostly money here.
myst_enable_extensions: list[str] = []
myst_heading_anchors = 3
# The notebooks are shown as they were saved.
nb_execution_mode = "off"
nb_render_markdown_format = "gfm"
nb_merge_streams = True

EXAMPLES, PLACE = HERE.parent / "example_notebooks", HERE / "examples"
LICENCE = "data/LICENSE.md"
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def copy_examples() -> None:
    """Put the executed examples below this folder, where Sphinx looks for pages."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        # Cells of magics are no plain Python to look at.
        notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = LINK.sub(_relinked, cell.source)
        nbformat.write(notebook, PLACE / path.name)
    _copy(LICENCE, PLACE / LICENCE)


def _relinked(link: re.Match[str]) -> str:
    """A link of an example as it leads from its place here: to a page, or to a download."""
    target = link[1]
    if target.startswith("../docs/"):
        return f"](../{target.removeprefix('../docs/')}{link[2] or ''})"
    if not (EXAMPLES / target).is_file() or target.endswith(".ipynb") or target == LICENCE:
        return link[0]
    _copy(target, PLACE / "files" / target)
    return f"](path:files/{target})"


def _copy(name: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(EXAMPLES / name, to)


copy_examples()

# ---------------------------------------------------------------- the look

html_theme = "furo"
html_title = f"jupyter_agent {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"


# ---------------------------------------------------------------- pages that may not be there


def for_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """A page as it is on a code host, with its links as they are here."""
    source[0] = source[0].replace("](../example_notebooks/", "](examples/")


def setup(app: Sphinx) -> None:
    """What Sphinx calls when it has read this file."""
    app.connect("source-read", for_the_site)
