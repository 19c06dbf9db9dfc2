"""`%agent undo`: what a person reads, and what the model is told."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from live_kernel import LiveKernel
from undo.conftest import write

from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.changes import snapshot
from jupyter_agent.magics.commands import run_line
from jupyter_agent.undo import Checkpoints
from jupyter_agent.undo.cells import CellEdits
from jupyter_agent.undo.command import listed, preview, redo, undo
from jupyter_agent.undo.namespace import Bindings


class Notebook:
    """Files and variables, and turns that change both."""

    def __init__(self, root: Path, checkpoints: Checkpoints) -> None:
        self.root = root
        self.checkpoints = checkpoints
        self.bindings = Bindings()
        self.names: dict[str, Any] = {"numbers": [1], "thing": object(), "kept": 1}

    async def turn(self, task: str, files: dict[str, str], **names: Any) -> None:
        checkpoint = self.checkpoints.begin(task)
        self.bindings.begin(checkpoint.id, snapshot(self.names), self.names)
        for path, text in files.items():
            await write(checkpoint, self.root, path, text)
        self.names["numbers"].append(2)
        self.names.update(names)
        self.bindings.end(checkpoint.id, snapshot(self.names), self.names)
        checkpoint.end()

    def undo(self, *words: str) -> Said:
        """What `%agent undo WORDS` says, and what the model is told of it."""
        news: list[str] = []
        sessions: Any = Sessions(self, news)
        return Said(run_line(sessions, shlex.join(["undo", *words])), "".join(news))


class Said(NamedTuple):
    """What the command said: to the person, and to the model."""

    text: str
    news: str


class Sessions:
    """As much of a kernel's sessions as `%agent undo` uses."""

    names = ("default",)

    def __init__(self, of: Notebook, news: list[str]) -> None:
        self._news = news
        parts = (of.checkpoints, of.bindings, of.names)
        self.kernel = SimpleNamespace(
            refuse_while_busy=lambda: None,
            settings=lambda: SimpleNamespace(settings=SimpleNamespace(undo=None)),
            undo=SimpleNamespace(
                undo=lambda settings, turns, over: undo(*parts, turns, over),
                redo=lambda settings: redo(*parts),
                preview=lambda settings, turns, over: preview(*parts[:2], turns, over),
                listed=lambda settings: listed(*parts[:2], CellEdits()),
                cell_edits=lambda settings, turns=1, forth=False: (),
            ),
        )

    def __getitem__(self, name: str) -> object:
        return SimpleNamespace(setup=SimpleNamespace(news=self._news))


@pytest.fixture
def notebook(root: Path, checkpoints: Checkpoints) -> Notebook:
    return Notebook(root, checkpoints)


async def test_there_and_back(notebook: Notebook) -> None:
    """Undo and redo report files and variables, and how to take them back."""
    (notebook.root / "a.txt").write_text("old\n")
    (notebook.root / "mine.txt").write_text("old\n")
    await notebook.turn(
        "tidy\x1b[31m up", {"a.txt": "new\n", "b.txt": "b\n", "mine.txt": "new\n"}, made=1, kept=2
    )
    (notebook.root / "mine.txt").write_text("mine\n")
    shown = notebook.undo("show")
    assert shown.news == ""
    assert shown.text == (
        "Would be undone: the turn “tidy up”\n"
        "  a.txt: would be restored\n"
        "  mine.txt: would be left as it is: it was changed after the turn\n"
        "    --- a/mine.txt\n"
        "    +++ b/mine.txt\n"
        "    @@ -1 +1 @@\n"
        "    -mine\n"
        "    +old\n"
        "  b.txt: would go to the trash\n"
        "  numbers, kept, made: would be as before"
    )
    assert (notebook.root / "a.txt").read_text() == "new\n"
    report = notebook.undo()
    (trash,) = (notebook.root / ".jupyter_agent" / "trash").iterdir()
    assert report.text == (
        "Undone: the turn “tidy up”\n"
        "  a.txt: restored\n"
        "  b.txt: removed, to the trash\n"
        "  mine.txt: left as it is: it was changed after the turn\n"
        "    --- a/mine.txt\n"
        "    +++ b/mine.txt\n"
        "    @@ -1 +1 @@\n"
        "    -mine\n"
        "    +old\n"
        "  kept: bound as before\n"
        "  made: removed\n"
        "  numbers: bound to a copy from before, since they were changed in place\n"
        "The trash is the newest folder in .jupyter_agent/trash\n"
        "To restore a file that was left: %agent undo redo, then %agent undo 1 --over FILE"
    )
    assert report.news == (
        "The person undid your last turn. What you did there is not so any more.\n"
        "Files put back as they were: a.txt\n"
        "Files removed: b.txt\n"
        "Files that were left as they are: mine.txt\n"
        "Variables bound as before: numbers, kept\n"
        "Variables removed: made"
    )
    assert (notebook.names["numbers"], notebook.names["kept"]) == ([1], 1)
    assert (trash / "b.txt").exists()
    back = notebook.undo("redo")
    assert back.text.startswith("Taken back: the last undo\n  a.txt: restored\n")
    assert (notebook.names["numbers"], notebook.names["kept"]) == ([1, 2], 2)
    assert (notebook.root / "b.txt").read_text() == "b\n"
    notebook.undo("1", "--over", "mine.txt")
    assert (notebook.root / "mine.txt").read_text() == "old\n"


async def test_several_turns(notebook: Notebook) -> None:
    """The turns are listed, and a number goes back that many."""
    for number in range(3):
        await notebook.turn(f"task {number}", {"a.txt": str(number)}, kept=number)
    assert notebook.undo("list").text.splitlines() == [
        "%agent undo N goes back N turns:",
        "  1  “task 2”  1 file",
        "  2  “task 1”  1 file",
        "  3  “task 0”  1 file",
    ]
    report = notebook.undo("2")
    assert report.text.startswith("Undone: 2 turns, back to before “task 1”\n  a.txt: restored\n")
    assert report.news.startswith("The person undid your last 2 turns.")
    assert notebook.names["kept"] == 0
    assert notebook.names["numbers"] == [1, 2]


async def test_variables_of_an_earlier_kernel(notebook: Notebook, root: Path) -> None:
    """After a restart the files are restored, and the report says that the variables are not."""
    await notebook.turn("task", {"a.txt": "new"}, kept=2)
    again = Notebook(root, Checkpoints(Workspace(root), "a.ipynb"))
    assert "  variables: their values are not kept, so none would change" in again.undo("show").text
    report = again.undo()
    assert "a.txt: removed, to the trash" in report.text
    assert "variables: their values are not kept any more, so they stay as they are" in report.text


def test_nothing_to_undo(notebook: Notebook) -> None:
    """Without turns each form says so in one line."""
    assert notebook.undo("list").text == "There is no turn to undo."
    for words in ((), ("show",), ("3",)):
        with pytest.raises(AgentError, match=r"^There is no turn to undo\.$"):
            notebook.undo(*words)
    with pytest.raises(AgentError, match="There is no undo to take back"):
        notebook.undo("redo")


@pytest.mark.parametrize(
    "words", [["0"], ["-1"], ["nonsense"], ["1", "2"], ["--over"], ["redo", "2"], ["list", "x"]]
)
def test_words_that_make_no_sense(notebook: Notebook, words: list[str]) -> None:
    """Wrong words are one line with the usage."""
    with pytest.raises(ConfigError, match=r"^%agent undo: unexpected .*Usage: ") as caught:
        notebook.undo(*words)
    assert "\n" not in str(caught.value)


def test_in_a_live_kernel(kernel: LiveKernel) -> None:
    """`execute_code` in a real kernel, in a checkpoint: its files and variables are undone."""
    cell = kernel.run(
        """\
from pathlib import Path
from jupyter_agent.undo import Checkpoints
from jupyter_agent.undo.command import undo
from jupyter_agent.undo.namespace import Bindings
from jupyter_agent.kernel.changes import snapshot
from jupyter_agent.kernel.execute import Executor
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.tools.code import code_tools
from jupyter_agent.files.workspace import Workspace

_ip = get_ipython()
_take = lambda: snapshot(user_variables(_ip))
_checkpoints, _bindings = Checkpoints(Workspace(Path("."))), Bindings()
rows = [1, 2]
_ = Path("rows.txt").write_text("1 2")
_turn = _checkpoints.begin("work")
_bindings.begin(_turn.id, _take(), _ip.user_ns)
(_tool,) = code_tools(Executor(_ip, Interrupts()), around=_turn.code)
for _code in (
    "import asyncio; await asyncio.sleep(0); rows.append(3); made = 1",
    "Path('rows.txt').write_text('1 2 3')",
    "Path('made.txt').write_text('x'); 1 / 0",
):
    await _tool.function(code=_code)
_bindings.end(_turn.id, _take(), _ip.user_ns)
_turn.end()
print([each.path for each in _turn.touched], rows, made)
_report = undo(_checkpoints, _bindings, _ip.user_ns)
print(Path("rows.txt").read_text(), Path("made.txt").exists(), rows, "made" in globals())
"""
    )
    assert cell.stdout.splitlines() == [
        "['rows.txt', 'made.txt'] [1, 2, 3] 1",
        "1 2 False [1, 2] False",
    ], cell.error
