"""`%agent undo` in a real kernel: files and variables go back, and forth again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel

SESSION = "get_ipython().agent_sessions['default']"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    (tmp_path / "mine.txt").write_text("precious\n", encoding="utf-8")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        kernel.run("x = 1\nrows = [1, 2]")
        yield kernel


def call(name: str, /, **arguments: object) -> Json:
    return {"name": name, "arguments": arguments}


def change(kernel: LiveKernel, task: str = "Change.") -> None:
    """A turn that writes by tool and by code, and makes, binds and changes variables."""
    code = (
        "x = 2\nrows.append(3)\nmade = 'new'\n"
        "open('data.csv', 'a').write('3,4\\n')\nopen('plot.txt', 'w').write('plot')"
    )
    kernel.script(
        task,
        {"calls": [call("read_file", path="mine.txt")]},
        {"calls": [call("write_file", path="mine.txt", content="overwritten\n")]},
        {"calls": [call("execute_code", code=code)]},
        {"text": "Changed."},
    )
    cell = kernel.run(f"%%agent\n{task}")
    assert cell.status == "ok", cell.error


def test_back_and_forth(desk: LiveKernel, tmp_path: Path) -> None:
    """Undo: files and names are as before, made files lie in the trash. Redo: all is back."""
    change(desk)
    told = desk.value("[(f.path, f.kind, f.lines_added) for f in _agent.receipt.files]")
    assert sorted(told) == [
        ("data.csv", "changed", 1),
        ("mine.txt", "changed", 1),
        ("plot.txt", "created", 1),
    ]
    planned = desk.run("%agent undo show").said
    assert all(name in planned for name in ("mine.txt", "data.csv", "plot.txt", "made", "rows"))
    assert (tmp_path / "mine.txt").read_text() == "overwritten\n"  # shown, not done
    said = desk.run("%agent undo").said
    assert "mine.txt" in said and "rows" in said
    assert (tmp_path / "mine.txt").read_text() == "precious\n"
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"
    assert not (tmp_path / "plot.txt").exists()
    assert list((tmp_path / ".jupyter_agent" / "trash").rglob("plot.txt"))
    assert desk.value("x, rows, 'made' in globals()") == (1, [1, 2], False)
    desk.helper("%agent undo redo")
    assert (tmp_path / "mine.txt").read_text() == "overwritten\n"
    assert (tmp_path / "plot.txt").read_text() == "plot"


def test_the_model_is_told(desk: LiveKernel) -> None:
    """The next task says what was undone, once."""
    change(desk)
    desk.run("%agent undo")
    for task, expected in (("Go on.", 1), ("And on.", 0)):
        desk.script(task, {"text": "Fine."})
        desk.run(f"%%agent\n{task}")
        last = f"[m for m in {SESSION}.history if m.role == 'user' and m.text][-1].blocks"
        told = desk.value(f"sum('mine.txt' in b.text for b in {last})")
        assert told == expected


def test_what_the_person_changed_since_stays(desk: LiveKernel, tmp_path: Path) -> None:
    """A file that was edited after the turn is a conflict: it stays, and a diff shows why."""
    change(desk)
    (tmp_path / "mine.txt").write_text("mine again\n", encoding="utf-8")
    said = desk.run("%agent undo").said
    assert "mine again" in said and (tmp_path / "mine.txt").read_text() == "mine again\n"
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_several_turns(desk: LiveKernel, tmp_path: Path) -> None:
    """`undo 2` goes back two turns at once."""
    change(desk)
    write = call("write_file", path="mine.txt", content="twice\n")
    desk.script("Again.", {"calls": [write]}, {"text": "Done."})
    desk.run("%%agent\nAgain.")
    desk.helper("%agent undo 2")
    assert (tmp_path / "mine.txt").read_text() == "precious\n"
    assert "no turn to undo" in desk.run("%agent undo").error


def test_an_interrupted_turn(desk: LiveKernel, tmp_path: Path) -> None:
    """A turn that was stopped in the middle of its code can be undone."""
    code = "open('data.csv', 'w').write('gone')\nopen('begun', 'w').close()\nwhile True: pass"
    running, _ = desk.start_agent(code)
    desk.await_file("begun")
    desk.interrupt()
    running.finish()
    desk.helper("%agent undo")
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_a_killed_kernel(desk: LiveKernel, tmp_path: Path) -> None:
    """The kernel died in the middle of a turn: after the restart its files go back."""
    code = "open('data.csv', 'w').write('gone')\nopen('begun', 'w').close()\nwhile True: pass"
    desk.start_agent(code)
    desk.await_file("begun")
    desk.restart()
    desk.helper("%agent undo")
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_switched_off_and_by_the_agent(desk: LiveKernel) -> None:
    """Where it is off one line says so; the agent's own code may not undo."""
    change(desk)
    code = "get_ipython().run_line_magic('agent', 'undo')"
    turn = desk.agent(code)
    assert turn.results[0].is_error and "A turn is running already" in turn.results[0].text
    desk.helper("%agent config undo.enabled false")
    assert "undo.enabled is false" in desk.run("%agent undo").error
