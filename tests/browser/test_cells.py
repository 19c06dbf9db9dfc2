"""The agent reads and edits the notebook that it lives in, in a real JupyterLab."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from browser.lab import Lab, Model, NotebookPage, call
from generated import examples, seed
from model_server import Reply
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

SOURCES = ["%load_ext jupyter_agent", "a = 1", "%%agent\nEdit the cells.", "b = 2", "c = 3"]
AGENT = 2


def ref(cell: dict[str, Any]) -> str:
    """The name of a cell in its present state, as `read_cells` gives it."""
    digest = hashlib.sha256("".join(cell["source"]).encode()).hexdigest()[:6]
    return f"{cell['id'][:8]}.{digest}"


def sources(cells: Sequence[dict[str, Any]]) -> list[str]:
    return ["".join(cell["source"]) for cell in cells]


def opened(lab: Lab, browser: Browser, name: str, cells: Sequence[str] = SOURCES) -> NotebookPage:
    lab.notebook(name, cells)
    book = lab.open(browser, name)
    book.run(0)
    return book


def saved(book: NotebookPage) -> list[dict[str, Any]]:
    """The cells of the file after Ctrl+S. What had the focus may be gone, as a button is."""
    book.cell(0).locator(".jp-InputPrompt").click()
    cells: list[dict[str, Any]] = book.save()["cells"]
    return cells


def edits(*wanted: dict[str, Any]) -> Reply:
    return Reply(calls=(call("edit_cells", edits=list(wanted)),))


def test_edits_are_shown_accepted_and_rejected(lab: Lab, browser: Browser, model: Model) -> None:
    """Each edit is shown as a diff; what is accepted is in the notebook, the rest is not."""
    book = opened(lab, browser, "edits.ipynb")
    cells = saved(book)
    model.says(
        Reply(calls=(call("read_cells"),)),
        edits(
            {"do": "change", "cell": ref(cells[1]), "source": "a = 10"},
            {"do": "insert", "after": ref(cells[1]), "source": "new = 1"},
            {"do": "delete", "cell": ref(cells[3])},
            {"do": "move", "cell": ref(cells[4]), "after": "top"},
        ),
        Reply(text="Edited."),
    )
    book.run(AGENT, wait=False)
    question = book.live(AGENT).locator(".ja-question")
    expect(question).to_contain_text("Edit the notebook?")
    book.shot("cells-question")
    parts = question.locator(".ja-part")
    expect(parts).to_have_count(4)
    for number, choice in enumerate(("Accept", "Accept", "Reject", "Accept")):
        parts.nth(number).get_by_role("button", name=choice).click()
    expect(book.live(AGENT + 2)).to_have_count(0)
    expect(book.page.locator(".jp-Notebook")).to_contain_text("Edited.")
    found = saved(book)
    assert sources(found) == ["c = 3", SOURCES[0], "a = 10", "new = 1", SOURCES[2], "b = 2"]
    book.shot("cells-edited")
    heard = model.heard()
    assert "3. Delete cell 4: rejected by the person" in heard and "1. Change cell 2: done" in heard
    assert "Change cell 2, +1 −1 lines" in json.dumps(found[4]["outputs"], ensure_ascii=False)
    book.check()
    book.close()


def change(cell: dict[str, Any], source: str) -> dict[str, Any]:
    return {"do": "change", "cell": ref(cell), "source": source}


def test_the_editors_own_undo_takes_edits_back(lab: Lab, browser: Browser, model: Model) -> None:
    """Ctrl+Z in a cell takes back its source; Z in command mode insertion, deletion and move."""
    book = opened(lab, browser, "undone.ipynb")
    page = book.page
    cells = saved(book)
    model.says(edits(change(cells[1], "a = 10")), Reply(text="Changed."))
    book.run(AGENT, wait=False)
    page.get_by_role("button", name="Accept", exact=True).click()
    book.await_text(AGENT, "Changed.")
    assert sources(saved(book))[1] == "a = 10"
    book.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+z")
    assert sources(saved(book))[1] == "a = 1"
    for wanted in (
        {"do": "insert", "after": ref(cells[1]), "source": "new = 1"},
        {"do": "delete", "cell": ref(cells[3])},
        {"do": "move", "cell": ref(cells[4]), "after": "top"},
    ):
        model.says(edits(wanted), Reply(text=f"Done: {wanted['do']}."))
        book.run(AGENT, wait=False)
        page.get_by_role("button", name="Accept", exact=True).click()
        expect(page.locator(".jp-Notebook")).to_contain_text(f"Done: {wanted['do']}.")
        assert sources(saved(book)) != SOURCES
        page.locator(".jp-Notebook .jp-Cell", has_text="b = 2").or_(
            page.locator(".jp-Notebook .jp-Cell", has_text="c = 3")
        ).first.locator(".jp-InputPrompt").click()
        page.keyboard.press("z")
        restored = saved(book)
        assert sources(restored) == SOURCES, wanted
    book.check()
    book.close()


def test_undo_by_command(lab: Lab, browser: Browser, model: Model) -> None:
    """`%agent undo` takes edits back, but for a cell that the person changed; redo makes them."""
    book = opened(lab, browser, "command.ipynb")
    cells = saved(book)
    model.says(
        edits(
            change(cells[1], "a = 10"),
            change(cells[4], "c = 30"),
            {"do": "delete", "cell": ref(cells[3])},
            {"do": "insert", "after": "top", "source": "# Title", "kind": "markdown"},
        ),
        Reply(text="Edited."),
    )
    book.run(AGENT, wait=False)
    book.page.get_by_role("button", name="Accept all").click()
    book.await_text(AGENT + 1, "Edited.")
    edited = ["# Title", SOURCES[0], "a = 10", SOURCES[2], "c = 30"]
    assert sources(saved(book)) == edited
    book.cell(4).locator(".cm-content").click()
    book.page.keyboard.press("End")
    book.page.keyboard.insert_text("0")
    said = book.said("%agent undo")
    assert "notebook, Change cell 5: left as it is: the cell was changed since" in said
    assert "notebook, Delete cell 4: taken back" in said
    assert sources(saved(book))[:5] == [*SOURCES[:4], "c = 300"]
    assert "notebook, Change cell 2: made again" in book.said("%agent undo redo")
    assert sources(saved(book))[:5] == [*edited[:4], "c = 300"]
    book.check()
    book.close()


# ---- many sequences ------------------------------------------------------------------------------


class Sheet:
    """A notebook as it ought to be: the type, the id and the source of each cell.

    An insertion has no id before it is made: None.
    """

    def __init__(self, cells: Sequence[dict[str, Any]]) -> None:
        self.cells = [(cell["cell_type"], cell["id"], "".join(cell["source"])) for cell in cells]

    def after(self, wanted: Sequence[dict[str, Any]], accepted: Sequence[bool]) -> Sheet:
        """The notebook after the accepted ones of some edits, each worked out by itself."""
        result = Sheet([])
        result.cells = list(self.cells)
        inserted: dict[str, list[object]] = {}
        for edit, is_accepted in zip(wanted, accepted, strict=True):
            if is_accepted:
                result._make(edit, inserted)
        return result

    def _make(self, edit: dict[str, Any], inserted: dict[str, list[object]]) -> None:
        if edit["do"] == "insert":
            # Below the cell, and below what these edits have inserted there before.
            before = inserted.setdefault(edit["after"], [])
            place = self._below(edit["after"])
            if before:
                place = self.cells.index(before[-1]) + 1  # type: ignore[arg-type]
            cell = (edit["kind"], None, edit["source"])
            self.cells.insert(place, cell)
            before.append(cell)
            return
        at = next(n for n, cell in enumerate(self.cells) if str(cell[1])[:8] == edit["cell"][:8])
        kind, name, source = self.cells[at]
        if edit["do"] == "change":
            self.cells[at] = (kind, name, edit["source"])
        else:
            del self.cells[at]
        if edit["do"] == "move":
            self.cells.insert(self._below(edit["after"]), (kind, name, source))

    def _below(self, after: str) -> int:
        names = [str(cell[1])[:8] for cell in self.cells]
        return 0 if after == "top" else names.index(after[:8]) + 1


def drawn(chance: random.Random, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One to four edits that fit the notebook; the agent's cell stays, and one other."""
    others = [cell for cell in cells if not "".join(cell["source"]).startswith("%%agent")]
    chosen = chance.sample(others, min(len(others) - 1, chance.randint(1, 4)))
    deleted: set[str] = set()
    wanted = []
    for number, cell in enumerate(chosen):
        source = f"v{chance.randrange(10**9)} = {number}\n# é"
        places = ["top", *(ref(each) for each in cells if each["id"] not in {*deleted, cell["id"]})]
        do = chance.choice(["change", "insert", "insert", "delete", "move"])
        if do == "insert":
            kind = chance.choice(["code", "markdown"])
            wanted.append(
                {"do": do, "after": chance.choice(places), "source": source, "kind": kind}
            )
        elif do == "move":
            wanted.append({"do": do, "cell": ref(cell), "after": chance.choice(places)})
        else:
            wanted.append({"do": do, "cell": ref(cell)})
            if do == "change":
                wanted[-1]["source"] = source
            else:
                deleted.add(cell["id"])
    return wanted


def decide(book: NotebookPage, accepted: Sequence[bool]) -> None:
    """Click as a person who decides edit by edit."""
    question = book.page.locator(".ja-question")
    expect(question.locator(".ja-part")).to_have_count(len(accepted))
    if len(accepted) > 1:
        for number, is_accepted in enumerate(accepted):
            name = "Accept" if is_accepted else "Reject"
            question.locator(".ja-part").nth(number).get_by_text(name, exact=True).click()
        return
    answer = book.page.get_by_role("group", name="Your answer")
    if accepted[0]:
        answer.get_by_role("button", name="Accept", exact=True).click()
    else:
        answer.get_by_role("button", name="Reject, because …").click()
        answer.get_by_role("button", name="Refuse").click()


@pytest.mark.timeout(60 + 30 * examples(100))
def test_random_sequences(lab: Lab, browser: Browser, model: Model) -> None:
    """After each of many random sequences of accepted and rejected edits the file is right."""
    chance = random.Random(seed())
    first = [*SOURCES, *(f"d{number} = {number}" for number in range(4))]
    first[AGENT] = "%%agent --fresh\nEdit the cells."
    book = opened(lab, browser, "random.ipynb", first)
    cells = saved(book)
    for number in range(examples(100)):
        wanted = drawn(chance, cells)
        accepted = [chance.random() < 0.6 for _ in wanted]
        expected = Sheet(cells).after(wanted, accepted)
        model.says(edits(*wanted), Reply(text=f"Round {number}."))
        agent = book.page.locator(".jp-Notebook .jp-Cell", has_text="%%agent")
        agent.locator(".cm-content").click()
        book.page.keyboard.press("Control+Enter")
        decide(book, accepted)
        expect(agent).to_contain_text(f"Round {number}.")
        expect(book.page.locator(".ja")).to_have_count(0)
        before, cells = {cell["id"]: cell for cell in cells}, saved(book)
        found = Sheet(cells)
        known = [(kind, name if name in before else None, text) for kind, name, text in found.cells]
        assert known == expected.cells, (number, wanted, accepted)
        for cell in cells:
            was = before.get(cell["id"])
            if was and not "".join(cell["source"]).startswith("%%agent"):
                assert cell | {"source": 0} == was | {"source": 0}
    book.shot("cells-random")
    book.check()
    book.close()


# ---- what the person looks at --------------------------------------------------------------------


def test_this_cell_and_the_selection(lab: Lab, browser: Browser, model: Model) -> None:
    """The cell where the person was before is meant, not the one that Shift+Enter made active."""
    task = "%%agent --fresh --context sample\nExplain the selected part of this cell."
    book = opened(lab, browser, "place.ipynb", [*SOURCES[:2], "b = 2\nbb = 22", task, "c = 3"])
    book.run(1)
    book.cell(2).locator(".cm-content").click()
    book.page.keyboard.press("Control+Home")
    book.page.keyboard.press("Shift+End")
    model.says(Reply(text="It is two."))
    book.run(3, wait=False)
    book.await_text(3, "It is two.")
    expect(book.live(3)).to_have_count(0)
    expect(book.output(3)).to_contain_text("Attached: cell 3, the selection.")
    heard = model.heard(0)
    assert "Cell 3 of the notebook (where the person was before: this cell" in heard
    assert "selected there:\\\\nb = 2\\\\n" in heard or "selected there:\\nb = 2" in heard
    # Run again from the next cell, which is active by itself: it is the same cell as before.
    model.says(Reply(text="It is still two."))
    book.run(3, wait=False)
    book.await_text(3, "It is still two.")
    assert "Cell 3 of the notebook" in model.heard(0)
    told = book.said("%agent context Explain this cell.")
    assert "The turn adds the cells of the notebook that the task means." in told
    book.check()
    book.close()


def test_a_page_that_is_loaded_again(lab: Lab, browser: Browser, model: Model) -> None:
    """After a reload in mid-turn the new page shows the question, and makes the edit."""
    book = opened(lab, browser, "again.ipynb")
    cells = saved(book)
    model.says(edits(change(cells[1], "a = 10")), Reply(text="Edited."))
    book.run(AGENT, wait=False)
    expect(book.live(AGENT)).to_contain_text("Edit the notebook?")
    book.page.reload()
    book.await_cells()
    expect(book.live(AGENT)).to_contain_text("Edit the notebook?")
    book.page.get_by_role("button", name="Accept", exact=True).last.click()
    book.await_text(AGENT, "Edited.")
    assert sources(saved(book)) == ["%load_ext jupyter_agent", "a = 10", *SOURCES[2:]]
    book.check()
    book.close()


def test_without_the_extension(lab: Lab, browser: Browser, model: Model) -> None:
    """JupyterLab without our module closes the comm at once: `edit_cells` is not offered."""
    lab.disable("jupyter-agent:cells")
    try:
        book = opened(lab, browser, "without.ipynb")
        model.says(Reply(calls=(call("read_cells"),)), Reply(text="Read."))
        book.run(AGENT, wait=False)
        book.await_text(AGENT, "Read.")
        tools = json.dumps(model.bodies[0]["tools"])
        assert "read_cells" in tools and "edit_cells" not in tools and "propose_cell" in tools
        assert "From the notebook's file as it was last saved" in model.heard()
        book.close()
    finally:
        lab.disable()
