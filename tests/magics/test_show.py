"""`%agent show`: any turn of the notebook again, in the same form, from memory or from its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_kernel import Cell, LiveKernel, execute_code

from jupyter_agent.stores.runs import log_files

WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTS = """
from IPython.display import HTML, display
import ipywidgets
display(HTML("<b>bold</b><script>1</script>"))
display({"application/vnd.plotly.v1+json": {"data": []}}, raw=True)
display(ipywidgets.IntSlider(7, description="years"))
open("made.txt", "w").write("x\\n" * 3)
print("printed")
"""


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


@pytest.fixture
def desk(module_kernel: LiveKernel, tmp_path: Path) -> LiveKernel:
    module_kernel.begin_anew(tmp_path)
    return module_kernel


def turns(desk: LiveKernel, *codes: str) -> list[Cell]:
    """Turns named "Task 1", "Task 2" …, each of which runs one code."""
    cells = []
    for number, code in enumerate(codes, 1):
        desk.script(f"Task {number}", execute_code(code), {"text": f"Answer {number}."})
        cells.append(desk.run(f"%%agent\nTask {number}"))
    return cells


def logs(desk: LiveKernel) -> list[Path]:
    """The run logs, the oldest first."""
    return log_files(desk.folder / ".jupyter_agent" / "logs")[::-1]


def outputs(cell: Cell, keep_widgets: bool = True) -> list[tuple[Any, Any]]:
    """The MIME bundles of a cell with their metadata."""
    return [
        (
            {kind: value for kind, value in o["data"].items() if keep_widgets or kind != WIDGET},
            o["metadata"],
        )
        for o in cell.outputs
        if o["type"] == "display_data"
    ]


def as_new(desk: LiveKernel, folder: Path) -> None:
    """Go on like a kernel that was restarted in the same folder."""
    desk.begin_anew(folder)
    desk.helper(
        "import sys",
        "getattr(sys.modules.get('ipywidgets.widgets.widget'), '_instances', {}).clear()",
    )


def test_any_turn_in_the_same_form(desk: LiveKernel, tmp_path: Path) -> None:
    """Each turn by its number, byte for byte: now, and from the log after a restart."""
    first, second, third = turns(desk, PLOTS, "1 / 0", "x = [1]\nx")
    for number, cell in enumerate((first, second, third), 1):
        assert outputs(desk.run(f"%agent show {number}")) == outputs(cell)
    assert outputs(desk.run("%agent show last")) == outputs(third)
    as_new(desk, tmp_path)
    for number, cell in enumerate((first, second, third), 1):
        again = desk.run(f"%agent show {number}")
        assert outputs(again) == outputs(cell, keep_widgets=False)
        assert again.stdout == ""
    assert outputs(desk.run("%agent show last")) == outputs(third)
    (slider,) = [d for d, _ in outputs(desk.run("%agent show 1")) if "IntSlider" in str(d)][-1:]
    assert WIDGET not in slider and "years 7" in slider["text/html"]


def test_the_list(desk: LiveKernel, tmp_path: Path) -> None:
    """The turns with their numbers, the newest first; a restart goes on counting."""
    turns(desk, "1", "2")
    as_new(desk, tmp_path)
    turns(desk, "3")
    rows = desk.run("%agent show").said.splitlines()
    assert rows[0].split() == ["when", "end", "steps", "tokens", "seconds", "task"]
    assert [(row.split()[0], row.split()[-1]) for row in rows[1:4]] == [
        ("3", "1"),
        ("2", "2"),
        ("1", "1"),
    ]
    (shown,) = desk.run("%agent show").displays
    assert "<th" in shown["text/html"]
    found = desk.helper("print(get_ipython().complete(None, '%agent show ', 12)[1])").stdout
    assert "'1', '2', '3', 'last', 'widgets'" in found


@pytest.mark.parametrize("number", ["7", "99999", "0", "-1"])
def test_a_number_without_a_turn(desk: LiveKernel, number: str) -> None:
    """One line with the turns that exist; those whose logs were removed are left out."""
    turns(desk, *"1234")
    assert desk.run("%agent show x").error.endswith("Usage: %agent show [N | last | widgets]")
    desk.helper("get_ipython().agent_sessions.views.clear()")
    logs(desk)[2].unlink()
    error = desk.run(f"%agent show {number}").error
    assert f"there is no turn {number}. There are turns 1 to 2, 4." in error


def test_before_the_first_turn(desk: LiveKernel, tmp_path: Path) -> None:
    """Nothing has run: one line; a log of another notebook is not taken for this one's."""
    for command in ("show", "show last", "show 1"):
        assert desk.run(f"%agent {command}").said.strip() == "No turn has run yet."
    desk.helper("%agent config log.enabled true")
    turns(desk, "1")
    log = logs(desk)[0]
    log.write_text(log.read_text().replace('"turn":1', '"turn":1,"notebook":"other.ipynb"'))
    as_new(desk, tmp_path)
    said = desk.run("%agent show last").said.strip()
    assert said == "No turn has run yet. %agent log lists those of other notebooks."


def test_a_turn_that_never_ended(desk: LiveKernel, tmp_path: Path) -> None:
    """What its log lacks is said in a line above it."""
    turns(desk, "print('seals')")
    log = logs(desk)[0]
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-3]) + b'{"seq": 99, "type": "tool_')
    as_new(desk, tmp_path)
    cell = desk.run("%agent show 1")
    assert "This turn has no end in its log" in cell.stdout
    assert "The last line of the log is incomplete." in cell.stdout
    assert "print('seals')" in cell.transcript


def test_without_logs(desk: LiveKernel, tmp_path: Path) -> None:
    """With log.enabled false the turns of this kernel can be shown, and none after a restart."""
    desk.helper("%agent config log.enabled false")
    first, second = turns(desk, "1", "2")
    assert outputs(desk.run("%agent show 1")) == outputs(first)
    assert outputs(desk.run("%agent show last")) == outputs(second)
    assert "Task 2" in desk.run("%agent show").said
    as_new(desk, tmp_path)
    assert desk.run("%agent show 1").said.strip() == "No turn has run yet."


def test_a_turn_without_a_step(desk: LiveKernel, tmp_path: Path) -> None:
    """A turn that failed before its first step has no transcript: its error is said."""
    turns(desk, "1")
    assert desk.run("%%agent\nNot in the script.").status == "error"
    for _ in range(2):
        said = desk.run("%agent show 2").said
        assert said.startswith("Turn 2 ended before its first step: "), said
        assert "no reason" not in said
        assert "Answer 1." in str(desk.run("%agent show 1").displays)
        as_new(desk, tmp_path)
