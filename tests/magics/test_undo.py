"""`%agent undo` in a real kernel: files and variables go back, and forth again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel

SESSION = "get_ipython().agent_sessions['default']"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.txt").write_text("precious\n", encoding="utf-8")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def desk(kernel: LiveKernel, folder: Path) -> LiveKernel:
    kernel.begin_anew(folder)
    kernel.run("x = 1\nrows = [1, 2]")
    return kernel


@pytest.fixture
def mortal(folder: Path) -> Iterator[LiveKernel]:
    """A kernel of its own, for a test that kills it, or needs two of one person."""
    with LiveKernel(folder) as kernel:
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
    """Undo restores files and names and moves new files to the trash; redo brings all back."""
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
    """The next task says once what was undone."""
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
    """A turn that was stopped amid its code can be undone."""
    code = "open('data.csv', 'w').write('gone')\nopen('begun', 'w').close()\nwhile True: pass"
    running, _ = desk.start_agent(code)
    desk.await_file("begun")
    desk.interrupt()
    running.finish()
    desk.helper("%agent undo")
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_a_killed_kernel(mortal: LiveKernel, tmp_path: Path) -> None:
    """The files of a turn whose kernel died are restored after the restart."""
    code = "open('data.csv', 'w').write('gone')\nopen('begun', 'w').close()\nwhile True: pass"
    mortal.start_agent(code)
    mortal.await_file("begun")
    mortal.restart()
    mortal.helper("%agent undo")
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    "cell", ["%%agent\nWrite.", "await __import__('jupyter_agent').ask('Write.')"]
)
def test_a_killed_turn_is_listed_with_its_files(mortal: LiveKernel, cell: str) -> None:
    """The list counts the files of a turn whose kernel died."""
    code = "open('data.csv', 'w').write('gone')\nopen('begun', 'w').close()\nwhile True: pass"
    mortal.script("Write.", {"calls": [call("execute_code", code=code)]})
    mortal.start(cell)
    mortal.await_file("begun")
    mortal.restart()
    # The folder also holds what the kernel itself writes to its stderr.
    assert re.search("“Write.”  [23] files", mortal.run("%agent undo list").said)


def test_switched_off_and_by_the_agent(desk: LiveKernel) -> None:
    """With undo switched off one line says so; the agent's code cannot undo."""
    change(desk)
    code = "get_ipython().run_line_magic('agent', 'undo')"
    turn = desk.agent(code)
    assert turn.results[0].is_error and "A turn is running already" in turn.results[0].text
    desk.helper("%agent config undo.enabled false")
    assert "undo.enabled is false" in desk.run("%agent undo").error


def test_one_turn_at_a_time(desk: LiveKernel) -> None:
    """Turns that change a list and a table in place are undone one by one and redone."""
    desk.run(
        "import pandas as pd\nl = [1]; also = l; nest = {'l': l}\ndf = pd.DataFrame({'a': [1, 2]})"
    )
    state = "(l, list(df.columns), df.attrs, also is l is nest['l'])"
    values = [desk.value(state)]
    for code in ("l.append(2); df['b'] = 1; df.attrs['n'] = 1", "l.append(3); df['c'] = l[:2]"):
        desk.agent(code)
        values.append(desk.value(state))
    assert values[2] == ([1, 2, 3], ["a", "b", "c"], {"n": 1}, True)
    for number in (1, 0):
        assert "left as it is" not in desk.run("%agent undo").said
        assert desk.value(state) == values[number]
    desk.run("%agent undo redo")
    desk.run("%agent undo redo")
    assert desk.value(state) == values[2]


def test_what_cannot_be_restored_is_named(desk: LiveKernel, tmp_path: Path) -> None:
    """A large array, a generator and ignored files are named in the turn and by undo."""
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    desk.run(
        "import numpy as np, os, random\nbig = np.zeros(2_000_000)\nsteps = (n for n in range(9))\n"
        "pairs = zip([1, 2], [3, 4])\nnext(steps)\nos.environ.pop('MADE', None)\nhere = os.getcwd()"
    )
    code = (
        "big[5] = 1\nnext(steps)\nnext(pairs)\nopen('x.log', 'w').close()\n"
        "os.environ['MADE'] = '1'\nos.makedirs('sub'); os.chdir('sub')"
    )
    turn = desk.agent(code)
    for said in (turn.cell.said, *(desk.run(f"%agent undo {w}").said for w in ("show", ""))):
        assert all(name in said for name in ("big", "steps", "x.log")), said
    assert "nothing had changed" not in said
    assert "pairs (zip)" in said
    now = "'MADE' in os.environ, os.getcwd() == here, os.path.isdir('sub')"
    assert desk.value(now) == (False, True, False)
    kinds = desk.value("{v.name: v.kind for v in _agent.receipt.variables}")
    assert kinds == {"big": "mutated", "steps": "mutated"}


def test_functions_with_something_inside_are_named(desk: LiveKernel) -> None:
    """A function and a class whose inner values change are named by undo."""
    desk.run(
        "def seen(x, all=[]):\n    all.append(x)\nclass Box:\n    items = []\ndef idle(): pass"
    )
    code = "seen(1); Box.items.append(1); idle()"
    desk.script("Fill.", {"calls": [call("execute_code", code=code)]}, {"text": "Done."})
    desk.run("%%agent\nFill.")
    said = desk.run("%agent undo").said
    assert "not checked for changes inside: Box (type), seen (function)" in said


def test_a_turn_without_a_change(desk: LiveKernel) -> None:
    """Undoing a turn without changes says so; the next undo continues with the turn before."""
    desk.agent("x = 7")
    desk.agent("print(x)")
    assert "no change was seen" in desk.run("%agent undo list").said
    assert "no change was seen, so nothing was put back" in desk.run("%agent undo").said
    assert desk.value("x") == 7
    desk.run("%agent undo")
    assert desk.value("x") == 1


def test_two_kernels(mortal: LiveKernel, tmp_path: Path) -> None:
    """Each kernel undoes its own turns; later writes of the other one stay."""
    with LiveKernel(tmp_path) as other:
        other.load()
        other.agent("open('theirs.txt', 'w').write('1')")
        code = (
            "open('begun', 'w').close()\nimport time, os\n"
            "while not os.path.exists('written.txt'): time.sleep(0.01)"
        )
        running, _ = mortal.start_agent(code)
        mortal.await_file("begun")
        other.run("open('later.txt', 'w').write('mine'); open('written.txt', 'w').close()")
        running.finish()
        assert "of another kernel" in mortal.run("%agent undo list").said
        said = mortal.run("%agent undo").said
        assert "later.txt: left as it is" in said
        assert not (tmp_path / "begun").exists()
        assert "other running kernels" in mortal.run("%agent undo").error
        assert (tmp_path / "later.txt").read_text() == "mine"
        other.run("%agent undo")
        assert not (tmp_path / "theirs.txt").exists()


def test_state_folders_that_cannot_be_used(desk: LiveKernel, tmp_path: Path) -> None:
    """A link in place of the state folder gives one notice, and the turn runs."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / ".jupyter_agent").mkdir(exist_ok=True)
    (tmp_path / ".jupyter_agent" / "checkpoints").symlink_to(outside)
    turn = desk.agent("x = 5")
    assert desk.value("x") == 5
    assert turn.cell.said.count("This turn cannot be undone: ") == 1
    assert "is a link" in turn.cell.said
    assert list(outside.iterdir()) == []
