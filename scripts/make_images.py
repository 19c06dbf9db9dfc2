"""Make the pictures of README: the page as it is, in a real JupyterLab, with a scripted model.

    python scripts/make_images.py

It needs chromium, and writes docs/images. Look at the pictures before you commit them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser.lab import Lab, Model, NotebookPage, a_browser, call, code  # noqa: E402
from model_server import Reply  # noqa: E402
from playwright.sync_api import Browser, Locator  # noqa: E402

IMAGES = ROOT / "docs" / "images"
EXAMPLES = ROOT / "example_notebooks"
SIZE = (1240, 1250)
_LOAD = """\
%load_ext jupyter_agent
import pandas as pd

penguins = pd.read_csv("data/penguins.csv")"""
_LIVE = """\
%%agent
Which penguin species is the heaviest? Keep the means in `mean_mass`,
compare them with published values, and write output/report.md."""
_RECEIPT = """\
%%agent
What is the mean body mass by species, and how much heavier is the heaviest?
Keep the means in `mean_mass`, and write them to output/report.md."""
_PLAN = (
    "Look at the table",
    "Mean mass by species",
    "Fetch the published masses",
    "Write output/report.md",
)
_MEANS = """\
mean_mass = penguins.groupby("species")["body_mass_g"].mean().round(1)
mean_mass"""
_FETCH = """\
import pandas as pd

published = pd.read_csv("https://example.org/penguin_masses.csv")
published.head()"""
_REPORT = "# Penguins\n\nGentoo 5076 g, Chinstrap 3733 g, Adelie 3701 g.\n"
_ANSWER = (
    "**Gentoo** are the heaviest: 5076 g on average, some 37 % more than Adelie (3700.7 g) and "
    "36 % more than Chinstrap (3733.1 g). In the wild 41 % of them are heavier than 5.2 kg."
)


def plan(*states: str) -> Reply:
    items = [{"text": text, "state": state} for text, state in zip(_PLAN, states, strict=True)]
    return Reply(text="I look at the table first.", calls=(
        call("update_plan", items=items), call("inspect_variable", name="penguins"),
    ))  # fmt: skip


def live(book: NotebookPage, model: Model) -> Locator:
    """A turn at work, with a question."""
    model.says(
        plan("done", "in_progress", "pending", "pending"),
        code(_MEANS.replace("species", "specie"), "Means by species."),
        code(_MEANS, "The column is called `species`."),
        code(_FETCH, "Now the published masses, to compare with."),
    )
    book.run(1, wait=False)
    cell = book.cell(1)
    cell.get_by_role("button", name="Yes").first.wait_for()
    return cell


def receipt(book: NotebookPage, model: Model) -> Locator:
    """The end of a turn, unfolded, and the turn undone."""
    model.says(
        code(_MEANS, "Means by species."),
        Reply(calls=(call("write_file", path="output/report.md", content=_REPORT),)),
        Reply(text=_ANSWER),
    )
    book.run(1)
    book.cell(1).locator("summary").first.click()
    book.run(2)
    return book.cell(1).or_(book.cell(2))


def quickstart(browser: Browser, lab: Lab) -> None:
    book = lab.open(browser, "01_quickstart.ipynb", SIZE)
    book.run_all()
    number = 4
    book.await_done(number)
    book.await_done(number + 8)
    book.cell(number).locator("summary").first.click()
    picture(book, book.cell(number), "quickstart")
    book.close()


def picture(book: NotebookPage, cells: Locator, name: str) -> None:
    """Write the part of the page that some cells take."""
    cells.first.evaluate("each => each.scrollIntoView({block: 'start'})")
    book.page.mouse.move(0, 0)
    book.page.wait_for_timeout(800)
    boxes = [box for each in cells.all() if (box := each.bounding_box())]
    left, top = boxes[0]["x"], boxes[0]["y"]
    bottom = min(boxes[-1]["y"] + boxes[-1]["height"], SIZE[1] - 30)
    clip = {"x": left, "y": top, "width": boxes[0]["width"], "height": bottom - top}
    book.page.screenshot(path=IMAGES / f"{name}.png", clip=clip)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Model() as model, a_browser() as browser:
        folder = Path(name) / "without_a_key"
        shutil.copytree(EXAMPLES / "data", folder / "data")
        for each in EXAMPLES.glob("01_quickstart.*"):
            shutil.copy(each, folder)
        with Lab(folder) as lab:
            quickstart(browser, lab)
        folder = Path(name) / "with_a_model"
        shutil.copytree(EXAMPLES / "data", folder / "data")
        with Lab(folder, {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "k"}) as lab:
            for title, source, play in (("live", _LIVE, live), ("receipt", _RECEIPT, receipt)):
                lab.notebook(f"{title}.ipynb", [_LOAD, source, "%agent undo"])
                book = lab.open(browser, f"{title}.ipynb", SIZE)
                book.run(0)
                picture(book, play(book, model), title)
                book.close()


if __name__ == "__main__":
    main()
