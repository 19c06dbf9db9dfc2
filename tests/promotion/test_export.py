"""The notebook of a turn, the two commands, and the law on all example notebooks."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_agent.core.events import (
    Event,
    MessageFinished,
    Receipt,
    StepStarted,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.magics.commands import run_line
from jupyter_agent.promotion import (
    executed,
    export,
    notebook,
    opaque_names,
    results,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "example_notebooks"
ERROR = "agent code 2, line 2\n    b = a[7]\nIndexError: list index out of range"


def call(
    number: int, name: str, arguments: Any, words: str, *outputs: Output, **details: Any
) -> list[Event]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    request = ToolCall(f"c{number}", name, text)
    bad = details.get("state", "done") != "done"
    result = ToolResult(f"c{number}", (Text("ok"),), bad, outputs, details)
    return [
        StepStarted(number, 9),
        MessageFinished(Message("assistant", (Text(words), request)), Usage(), "tool_use"),
        ToolFinished(result, 0.1),
    ]


def ran(
    number: int, code: str, words: str = "", *outputs: Output, state: str = "done"
) -> list[Event]:
    return call(number, "execute_code", {"code": code}, words, *outputs, state=state)


def turn(*steps: list[Event], names: str = "a b", answer: str = "**Done.**") -> TurnView:
    changes = tuple(VariableChange(name, "added") for name in names.split())
    last = [
        StepStarted(9, 9),
        MessageFinished(Message("assistant", (Text(answer),)), Usage(), "end"),
    ]
    events: list[Event] = [TurnStarted("Count\nthem.", "anthropic", "m")]
    for step in (*steps, last):
        events += step
    view = TurnView()
    for event in [*events, TurnFinished("end", Usage(), Receipt(changes))]:
        view = reduce(view, event)
    return view


TURN = turn(
    ran(1, "a = start[:]\nprint(a)", "I look."),
    ran(
        2,
        "a.append(1)\nb = a[7]",
        "Now this.",
        Output("error", {"text/plain": ERROR}),
        state="failed",
    ),
    call(3, "inspect_variable", {"name": "a"}, "I inspect."),
    ran(4, "import math\nb = math.fsum(a)\nb", "I repair it. <script>x</script>"),
    call(5, "write_file", {"path": "r.md"}, "The report.", path="out/r.md", change="created"),
    ran(6, "import math", "Refused.", state="refused"),
)
BEFORE = ["import os", "k = 3", "start = [4, 5]\nother = k", "more = other + 1", "%load_ext x"]


def said(
    line: str,
    view: TurnView | None,
    workspace: Workspace | None = None,
    before: Sequence[str] = (),
) -> str:
    """What `%agent cells` puts into a cell, or what `%agent export` says."""
    put: list[str] = []
    shell = SimpleNamespace(user_ns={}, set_next_input=lambda text, replace: put.append(text))
    notebook = SimpleNamespace(
        shell=shell,
        workspace=workspace,
        recent=SimpleNamespace(worked=before),
        refuse_while_busy=lambda: None,
    )
    sessions: Any = SimpleNamespace(last=view, kernel=notebook)
    printed = str(run_line(sessions, line))
    return printed or "".join(put)


def sources(made: Any) -> list[tuple[str, str]]:
    return [(each.cell_type, each.source) for each in made.cells]


def test_what_ran_in_a_turn() -> None:
    """Executed code has its words, end and failing line; unexecuted code is left out."""
    found = [(each.step, each.state, each.failed_line, each.words) for each in executed(TURN)]
    assert found == [
        (1, "done", None, "I look."),
        (2, "failed", 2, "Now this."),
        (4, "done", None, "I repair it. <script>x</script>"),
    ]
    assert results(TURN) == {"a", "b"}


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"code": 1}', '{"code": " "}', "[" * 9_999])
def test_arguments_that_are_none(arguments: str) -> None:
    """Calls with malformed arguments are skipped."""
    assert executed(turn(call(1, "execute_code", arguments, "", state="done"))) == ()


def test_the_notebook() -> None:
    """The notebook has the task, earlier needed cells, a cell for each step, words and files."""
    made = notebook(TURN, set(), BEFORE)
    assert sources(made) == [
        ("markdown", "**Task**\n\n> Count\n> them."),
        ("markdown", "What was there before:"),
        ("code", "k = 3"),
        ("code", "start = [4, 5]\nother = k"),
        ("code", "%load_ext x"),
        ("code", "import math"),
        ("markdown", "I look."),
        ("code", "a = start[:]\nprint(a)"),
        ("markdown", "Now this."),
        ("code", "a.append(1)"),
        ("markdown", "I repair it. &lt;script>x&lt;/script>"),
        ("code", "b = math.fsum(a)\nb"),
        ("markdown", "The report.\n\n*(created by the agent: out/r.md)*"),
        ("markdown", "**Done.**"),
    ]
    assert nbformat.writes(made) == nbformat.writes(notebook(TURN, set(), BEFORE))


def test_export(tmp_path: Path) -> None:
    """The notebook is written into the workspace, with its folders; no cell was run."""
    text = said("export new/turn.ipynb", TURN, Workspace(tmp_path), BEFORE)
    assert text == "new/turn.ipynb: 14 cells. None of them has run yet."
    made = nbformat.read(tmp_path / "new" / "turn.ipynb", as_version=4)
    nbformat.validate(made)
    assert all(not each.get("outputs") for each in made.cells)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["turn.ipynb"]


def test_export_overwrites_nothing(tmp_path: Path) -> None:
    """An existing file, broken link or folder stays, and one line says so."""
    (tmp_path / "a.ipynb").write_text("mine")
    (tmp_path / "c.ipynb").mkdir()
    for name in ("a.ipynb", "c.ipynb"):
        with pytest.raises(ConfigError, match=rf"{name} is there already\. Give another name"):
            said(f"export {name}", TURN, Workspace(tmp_path))
    assert (tmp_path / "a.ipynb").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "%agent: a file is needed. Usage: %agent export FILE.ipynb"),
        (["a.ipynb", "b"], "%agent: unexpected 'b'. Usage: %agent export FILE.ipynb"),
        (["a.txt"], "'a.txt' is no notebook"),
        (["../a.ipynb"], "outside of the workspace"),
        (["/etc/a.ipynb"], "outside of the workspace"),
        ([".jupyter_agent/a.ipynb"], "must not write"),
        (["x" * 300 + ".ipynb"], "too long"),
    ],
)
def test_export_to_nowhere(words: list[str], line: str, tmp_path: Path) -> None:
    """Each mistake is told in one line, and leaves no file."""
    with pytest.raises(ConfigError) as raised:
        said(shlex.join(["export", *words]), TURN, Workspace(tmp_path))
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in place of the folder is one line, and the file stays."""
    (tmp_path / "a").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written|is there already"):
        export(notebook(TURN), "a/b.ipynb", Workspace(tmp_path))
    assert (tmp_path / "a").read_text() == "mine"


def test_cells() -> None:
    """The cell has the code, below the task."""
    assert said("cells", TURN) == (
        "# What the agent ran for: Count\n\nimport math\n\n# Step 1: I look.\na = start[:]\n\n"
        "# Step 2: Now this.\na.append(1)\n\n# Step 4: I repair it. <script>x</script>\n"
        "b = math.fsum(a)"
    )


@pytest.mark.parametrize(
    ("words", "view", "line"),
    [
        ([], None, "%agent cells: no turn has run yet"),
        (["x"], TURN, "%agent: unexpected 'x'. Usage: %agent cells"),
        ([], turn(), "ran no code that made or changed anything"),
        ([], turn(ran(1, "print(a)"), names=""), "ran no code that made or changed anything"),
    ],
)
def test_no_cells(words: list[str], view: TurnView | None, line: str) -> None:
    """If there is nothing to promote, one line says why."""
    with pytest.raises(ConfigError) as raised:
        said(shlex.join(["cells", *words]), view)
    assert line in str(raised.value)


def test_secrets_do_not_get_into_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the code is taken out, and the cell says so."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2" * 2)
    view = turn(ran(1, f"a = connect({'hunter2' * 2!r})", "With hunter2hunter2."))
    text = said("cells", view)
    assert "hunter2" not in text
    assert "[redacted]: a secret stood here" in text
    said("export a.ipynb", view, Workspace(tmp_path), ["start = 'hunter2hunter2'"])
    assert "hunter2" not in (tmp_path / "a.ipynb").read_text()


def test_functions_that_only_the_agent_has() -> None:
    """Code that called tools gets a comment that they are missing outside of a turn."""
    made = [{"tool": "read_file", "state": "done"}]
    code = {"code": "a = read_file('x')"}
    view = turn(call(1, "execute_code", code, "", state="done", calls=made))
    assert "These functions are the agent's; put your own in their place: read_file\n" in (
        said("cells", view)
    )


def test_which_names_are_opaque() -> None:
    """The person's own functions, classes and iterators; not what a library has, nor data."""
    space: dict[str, Any] = {"__name__": "__main__", "json": json, "dumps": json.dumps}
    exec("def f(): pass\nclass C: pass\ni = iter([])\ng = (x for x in [])\nn = [1]\nc = C()", space)
    assert opaque_names(space) == {"f", "C", "i", "g"}


# ------------------------------------------------------------------ in real kernels

STORE = """\
import pickle as _pickle, re as _re
from types import ModuleType as _Module
def _shown(value):
    if hasattr(value, "to_json"):
        return type(value).__name__, value.to_json(double_precision=15), str(value.index)
    return type(value).__name__, _re.sub(r"0x[0-9a-f]+", "0x", repr(value))
_left = {
    name: _shown(value) for name, value in list(globals().items())
    if not name.startswith("_") and not isinstance(value, _Module)
    and name not in ("In", "Out", "exit", "quit", "get_ipython", "open") and name not in _apart
}
with open("left.pickle", "wb") as _file:
    _pickle.dump(_left, _file)
"""
PROMOTE = """\
from types import SimpleNamespace as _Space
from jupyter_agent.files.workspace import Workspace as _Workspace
from jupyter_agent.magics.commands import run_line as _run_line
_shell, _put = get_ipython(), []
_book = _Space(
    shell=_Space(user_ns=_shell.user_ns, set_next_input=lambda text, replace: _put.append(text)),
    workspace=_Workspace("."),
    recent=_Space(worked=[{before}]),
    refuse_while_busy=lambda: None,
)
_sessions = _Space(last=_shell.agent_sessions.last, kernel=_book)
try:
    _run_line(_sessions, "cells")
except Exception as _error:
    _put.append(f"# {{_error}}")
with open("promoted_{number}.py", "w") as _file:
    _file.write(_put[-1])
_run_line(_sessions, "export turn_{number}.ipynb")
"""


def run(cells: list[str], folder: Path) -> dict[str, Any]:
    """Run cells in a fresh kernel, and give the variables that they leave."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    environ = {
        k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_AGENT_", "PYTEST"))
    }
    environ |= {"JUPYTER_AGENT_MODE": "replay", "PYTHONPATH": str(ROOT)}
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(book, timeout=120, kernel_name="python3", resources=place).execute(env=environ)
    left: dict[str, Any] = pickle.loads((folder / "left.pickle").read_bytes())
    return left


# Those whose other cells use nothing of a turn but its variables.
@pytest.mark.parametrize(
    "name",
    [
        "01_quickstart",
        pytest.param("03_plotting", marks=pytest.mark.deep),
        pytest.param("11_local_model", marks=pytest.mark.deep),
    ],
)
@pytest.mark.timeout(300)
def test_the_law_on_the_examples(name: str, tmp_path: Path) -> None:
    """Each example's promoted cells and exported notebooks give the same variables in fresh
    kernels.
    """
    folder = tmp_path / "book"
    shutil.copytree(EXAMPLES, folder)
    book = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    codes = [each.source for each in book.cells if each.cell_type == "code"]
    with_promotion: list[str] = []
    theirs: list[str] = []
    turns = 0
    for code in codes:
        with_promotion.append(code)
        if code.startswith("%%agent"):
            turns += 1
            before = ", ".join(map(repr, theirs))
            with_promotion.append(PROMOTE.format(number=turns, before=before))
        elif "agent" not in code:
            theirs.append(code)
    apart = {"label", "answer"}
    original = run([*with_promotion, f"_apart = {apart}", STORE], folder)

    number = 0
    again: list[str] = []
    for code in codes:
        if code.startswith("%%agent"):
            number += 1
            again.append((folder / f"promoted_{number}.py").read_text(encoding="utf-8"))
        elif "agent" not in code and not any(each in code for each in apart):
            again.append(code)
    assert any("Step" in code for code in again)
    # What only a tool wrote, no code writes again.
    again = [code.replace('shutil.rmtree("output"', 'shutil.rmtree("none"') for code in again]
    assert run([*again, f"_apart = {apart}", STORE], folder) == original

    first = nbformat.read(folder / "turn_1.ipynb", as_version=4)
    cells = [each.source for each in first.cells if each.cell_type == "code"]
    exported = run([*cells, f"_apart = {apart}", STORE], folder)
    assert exported == {name: original[name] for name in exported}
    assert {"mean_mass"} <= set(exported) or name != "01_quickstart"
