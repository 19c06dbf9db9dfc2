"""`read_cells` and `edit_cells` in a real kernel, with a page that answers over a real comm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Cell, Json, LiveKernel
from open_notebook import OpenPage

from jupyter_agent.recording.cassette import load

SOURCES = ["import os", "a = 1", "%%agent --fresh\nEdit.", "b = 2", "c = 3"]
AGENT = 2
SESSION = "get_ipython().agent_sessions['default']"


def call(name: str, /, **arguments: object) -> Json:
    return {"calls": [{"name": name, "arguments": arguments}]}


def change(page: OpenPage, number: int, source: str) -> Json:
    return {"do": "change", "cell": page.ref(number), "source": source}


def results(kernel: LiveKernel) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = kernel.value(
        f"[(b.text, b.is_error) for m in {SESSION}.history for b in m.tool_results]"
    )
    return found


@pytest.fixture
def page(kernel: LiveKernel, tmp_path: Path) -> Iterator[OpenPage]:
    kernel.begin_anew(tmp_path)
    kernel.helper("%agent config display static")
    yield OpenPage(kernel, SOURCES)


def asked(page: OpenPage, *replies: Json, answer: str = "") -> Cell:
    """Run the agent's cell with scripted replies; `answer` is typed into its question."""
    page.kernel.script("Edit.", *replies, {"text": "Done."})
    running = page.start(AGENT)
    if answer:
        running.question()
        running.type(answer)
    return running.finish()


def test_cells_are_read_as_the_page_has_them(page: OpenPage) -> None:
    """Each cell with its state and its ref, the agent's own marked; outputs if they may be told."""
    page.cells[1] |= {"count": 4, "outputs": [{"output_type": "stream", "text": "secret 7\n"}]}
    page.active, page.selected = "cell1id", "a ="
    assert asked(page, call("read_cells"), call("read_cells", cells="4-5")).status == "ok"
    (every, _), (two, _) = results(page.kernel)
    assert (
        f"[cell 2: code, In [4], ref {page.ref(1)}, active]\na = 1\n[selected in it: a =]" in every
    )
    assert f"[cell 3: code, ref {page.ref(2)}, you run here]" in every
    assert f"[cell 4: code, not run, ref {page.ref(3)}]\nb = 2" in two and "a = 1" not in two
    assert "secret" not in every and "context.detail is schema" in every
    page.kernel.helper("%agent config context.detail sample")
    asked(page, call("read_cells", cells="A = 1"), call("read_cells", cells="no such"))
    (found, _), (nothing, is_error) = results(page.kernel)
    assert "[output: stream]\nsecret 7" in found and "b = 2" not in found
    assert is_error and "The notebook has 5 cells" in nothing
    page.kernel.helper("%agent config privacy.outputs shapes")
    asked(page, call("read_cells"))
    assert "secret" not in results(page.kernel)[0][0]


def test_edits_in_mode_auto_are_made_unasked(page: OpenPage) -> None:
    """All kinds of edits; the receipt names them, `%agent undo` and `redo` go back and forth."""
    page.kernel.helper("%agent config approvals.mode auto")
    wanted = [
        change(page, 1, "a = 10"),
        {"do": "insert", "after": page.ref(1), "source": "x = 1"},
        {"do": "insert", "after": page.ref(1), "source": "*y*", "kind": "markdown"},
        {"do": "move", "cell": page.ref(4), "after": "top"},
        {"do": "delete", "cell": page.ref(3)},
    ]
    cell = asked(page, call("edit_cells", edits=wanted))
    edited = ["c = 3", "import os", "a = 10", "x = 1", "*y*", SOURCES[2]]
    assert page.sources == edited, results(page.kernel)
    assert "Change cell 2, +1 −1 lines" in cell.transcript
    assert "3. New markdown cell below cell 2: done" in results(page.kernel)[0][0]
    assert (
        "notebook, Delete cell 4: would be taken back" in page.kernel.run("%agent undo show").said
    )
    said = page.run(5, "%agent undo").said
    assert "notebook, Move cell 5 to the top: taken back" in said
    assert page.sources == SOURCES
    page.run(AGENT, "%agent undo redo")
    assert page.sources == edited
    page.cells[2]["source"] = "a = 11"
    said = page.run(5, "%agent undo").said
    assert "notebook, Change cell 2: left as it is: the cell was changed since" in said
    assert page.sources == [SOURCES[0], "a = 11", *SOURCES[2:]]


def test_undo_without_a_page_says_what_stays(page: OpenPage) -> None:
    """Where no page answers, files and variables go back, and the edits are named as left."""
    page.kernel.helper("%agent config approvals.mode auto")
    asked(
        page, call("execute_code", code="z = 1"), call("edit_cells", edits=[change(page, 1, "a")])
    )
    inside = page.kernel.run("%%time\n%agent undo")
    assert "Put it on a line of its own" in inside.error
    said = page.kernel.run("%agent undo").said
    assert "left as it is: no page with the notebook" in said and "z: removed" in said
    assert page.sources[1] == "a"


def test_secrets(page: OpenPage) -> None:
    """A key of the person's stays in their cell; the agent saves none into another one."""
    key = "sk-ant-" + "api03-" + "a1B2c3D4e5F6g7H8" * 5
    page.kernel.helper("%agent config approvals.mode auto")
    page.cells[1]["source"] = f"key = '{key}'"
    edits = [
        change(page, 1, f"key = '{key}'  # mine"),
        {"do": "insert", "after": "top", "source": f"other = '{key}'"},
    ]
    cell = asked(page, call("edit_cells", edits=edits))
    assert page.sources[2] == f"key = '{key}'  # mine" and key not in page.sources[0]
    assert key not in json.dumps(cell.outputs)


def test_the_question_counts_all_lines(page: OpenPage) -> None:
    """A long insertion is asked about whole; a deletion says that the outputs go, too."""
    page.kernel.helper("%agent config approvals.mode ask_risky")
    page.cells[1]["outputs"] = [{"output_type": "stream", "text": "7\n"}]
    lines = "\n".join(f"x{number} = {number}" for number in range(1_000))
    edits = [
        {"do": "insert", "after": "top", "source": lines},
        {"do": "delete", "cell": page.ref(1)},
        {"do": "delete", "cell": page.ref(3)},
    ]
    page.kernel.script("Edit.", call("edit_cells", edits=edits), {"text": "Done."})
    running = page.start(AGENT)
    prompt = running.question()
    assert "+1,000" in prompt and "+x999 = 999" in prompt and "left out" not in prompt
    assert prompt.count("its outputs go, too") == 1
    running.type("y")
    cell = running.finish()
    assert "New code cell at the top, +1000 lines" in cell.transcript


@pytest.mark.parametrize("mode", ["ask_risky", "ask_all"])
def test_other_modes_always_ask(page: OpenPage, mode: str) -> None:
    """The question shows the difference and offers no "always"; a no edits nothing."""
    page.kernel.helper(f"%agent config approvals.mode {mode}")
    edit = call("edit_cells", edits=[change(page, 1, "a = 10")])
    page.kernel.script("Edit.", edit, edit, {"text": "Done."})
    running = page.start(AGENT)
    prompt = running.question()
    assert "-a = 1" in prompt and "+a = 10" in prompt and "Edit the notebook?" in prompt
    running.type("n: not now")
    running.question()
    assert page.sources == SOURCES
    running.type("y")
    running.finish()
    refused, made = results(page.kernel)
    assert refused[1] and "They say: not now" in refused[0]
    assert made == ("1. Change cell 2: done", False)
    assert page.sources[1] == "a = 10"


def test_what_cannot_be_edited_is_told_before_anybody_is_asked(page: OpenPage) -> None:
    """Each problem in one line; the page gets no edit, the person no question."""
    page.kernel.helper("%agent config approvals.mode ask_risky")
    stale = page.ref(1).rpartition(".")[0] + ".000000"
    double = [change(page, 1, "a"), {"do": "delete", "cell": page.ref(1)}]
    cases = {
        "there is no cell with the ref": [{"do": "delete", "cell": "nothing.123456"}],
        "cell 2 has changed": [{"do": "delete", "cell": stale}],
        "the one in which you run": [change(page, AGENT, "mine")],
        "in two edits": double,
        "has this source already": [change(page, 1, "a = 1")],
        "it needs `after`": [{"do": "insert", "source": "x"}],
        "an insertion needs a source": [{"do": "insert", "after": "top"}],
        "below itself": [{"do": "move", "cell": page.ref(1), "after": page.ref(1)}],
        "is deleted by an edit before": [
            {"do": "delete", "cell": page.ref(1)},
            {"do": "insert", "after": page.ref(1), "source": "x"},
        ],
        "between 1 and 50": [],
    }
    asked(page, *(call("edit_cells", edits=edits) for edits in cases.values()))
    for (text, is_error), words in zip(results(page.kernel), cases, strict=True):
        assert is_error and words in text and "Nothing was edited." in text and "\n" not in text
    assert "edit" not in page.kinds and page.sources == SOURCES


def test_a_cell_that_changes_meanwhile_is_refused(page: OpenPage) -> None:
    """The page decides at the moment of the edit, whatever was shown and accepted before."""
    page.kernel.helper("%agent config approvals.mode ask_risky")
    edits = [change(page, 1, "a = 10"), change(page, 3, "b = 20")]
    page.kernel.script("Edit.", call("edit_cells", edits=edits), {"text": "Done."})
    running = page.start(AGENT)
    running.question()
    page.cells[1]["source"] = "a = the person's"
    running.type("y")
    running.finish()
    assert page.sources[1] == "a = the person's" and page.sources[3] == "b = 20"
    ((text, is_error),) = results(page.kernel)
    assert "1. Change cell 2: refused: the cell has changed meanwhile" in text and not is_error


def test_without_the_extension(page: OpenPage, tmp_path: Path) -> None:
    """`edit_cells` is not offered; `read_cells` tells the inputs that ran, and says so."""
    page.lacks_extension = True
    page.run(1, "a = 1")
    asked(page, call("read_cells"), call("edit_cells", edits=[change(page, 1, "a")]))
    (told, _), (refused, is_error) = results(page.kernel)
    assert "a = 1" in told and "The notebook cannot be seen from here" in told
    assert is_error and "There is no tool named 'edit_cells'" in refused
    assert "propose_cell" in refused and page.heard == []


def test_without_anybody(tmp_path: Path) -> None:
    """Under nbclient no page is looked for; `read_cells` tells the file as it was saved."""
    book = {
        "cells": [
            {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Title\n", "more"]},
            {"cell_type": "code", "id": "c1", "metadata": {}, "source": "a = 1",
             "execution_count": 3, "outputs": []},
        ],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    (tmp_path / "work.ipynb").write_text(json.dumps(book), encoding="utf-8")
    with LiveKernel(tmp_path, {"JPY_SESSION_NAME": str(tmp_path / "work.ipynb")}) as kernel:
        kernel.load()
        kernel.run("late = 2")
        kernel.script("Look.", call("read_cells"), {"text": "Done."})
        kernel.run("%%agent\nLook.")
        ((text, _),) = results(kernel)
    assert "[cell 1: markdown" in text and "# Title\nmore" in text and "In [3]" in text
    assert "From the notebook's file as it was last saved" in text
    assert "In [1]: late = 2" in text


def test_a_page_that_is_gone(page: OpenPage) -> None:
    """If the page leaves during the turn, the new sources become proposals."""
    page.kernel.helper("%agent config approvals.mode ask_risky")
    page.kernel.helper(
        "import jupyter_agent.kernel.notebook_page as p", "p.REPLY = p.JUPYTERLAB = 0.3"
    )
    script = [call("read_cells"), call("edit_cells", edits=[change(page, 1, "a = 10")])]
    page.kernel.script("Edit.", *script, {"text": "Done."})
    running = page.start(AGENT)
    running.await_that(lambda: "read" in page.kinds)
    page.is_deaf = True
    cell = running.finish()
    page.kernel.helper("p.REPLY, p.JUPYTERLAB = 10.0, 6.0", "del p")
    text, is_error = results(page.kernel)[-1]
    assert not is_error and "1 cells are offered to the person instead" in text
    assert cell.reply["payload"][0]["text"] == "a = 10" and page.sources == SOURCES


def test_reading_only_edits_nothing(page: OpenPage) -> None:
    """In mode `read_only` edits are refused."""
    page.kernel.helper("%agent config approvals.mode read_only")
    asked(page, call("edit_cells", edits=[change(page, 1, "a = 10")]))
    assert results(page.kernel)[0][1] and page.sources == SOURCES


def test_a_replay_asks_no_page(page: OpenPage, tmp_path: Path) -> None:
    """Both calls are recorded with their results; a replay shows them and edits nothing."""
    kernel = page.kernel
    kernel.helper("%agent cassette one.cassette.jsonl", "%agent config mode record")
    kernel.helper("%agent config approvals.mode ask_risky")
    edits = call("edit_cells", edits=[change(page, 1, "a = 10"), change(page, 3, "b = 20")])
    recorded = asked(page, call("read_cells"), edits, answer="y")
    assert recorded.status == "ok", recorded.error
    first = results(kernel)
    assert page.sources[1] == "a = 10"
    cassette = load(tmp_path / "one.cassette.jsonl")
    assert [r.tool for step in cassette.turns[0].steps for r in step.results] == [
        "read_cells",
        "edit_cells",
    ]
    other = tmp_path / "other"
    other.mkdir()
    kernel.begin_anew(other)
    kernel.helper(
        "%agent config display static", "%agent cassette ../one.cassette.jsonl",
        "%agent config mode replay",
    )  # fmt: skip
    again = OpenPage(kernel, SOURCES)
    replayed = again.run(AGENT)
    assert replayed.status == "ok", replayed.error
    assert results(kernel) == first and replayed.transcript == recorded.transcript
    assert again.heard == [] and again.sources == SOURCES
    unattended = kernel.run(SOURCES[AGENT])
    assert unattended.transcript == recorded.transcript


def test_the_cells_that_the_task_means(page: OpenPage) -> None:
    """This cell, above, below and the selection are attached, within context.detail."""
    page.active, page.selected = "cell4id", "c ="
    kernel = page.kernel
    task = "Compare this cell with the cell above and the selected text."
    kernel.script(task, {"text": "Done."})
    cell = page.run(AGENT, f"%%agent --fresh\n{task}")
    context = kernel.value(f"{SESSION}.history[0].blocks[-1].text")
    assert "Cell 5 of the notebook (where the person was before: this cell; code" in context
    assert "Cell 2 of the notebook (above; code" in context and "a = …" in context
    assert "Attached: cell 5, cell 2, the selection." in cell.transcript
    kernel.helper("%agent config context.detail sample")
    page.run(AGENT, f"%%agent --fresh\n{task}")
    context = kernel.value(f"{SESSION}.history[0].blocks[-1].text")
    assert "a = 1" in context and "The text that is selected there:\nc =" in context
    kernel.helper("%agent config context.detail none")
    page.heard.clear()
    page.run(AGENT, f"%%agent --fresh\n{task}")
    assert page.heard == []
