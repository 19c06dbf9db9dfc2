"""Record once against a live server: replays give the same bytes, wherever and however often."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from model_server import Call, ModelServer, Reply

from jupyter_agent.notebooks import NotebookExecution, execute
from jupyter_agent.recording.cassette import load

pytestmark = pytest.mark.timeout(300)
CLOSED = "http://127.0.0.1:9/v1"
CSV = "import pandas as pd\npd.DataFrame({'a': [1, 2]}).to_csv('table.csv', index=False)"
PNG = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('figure.png')"


def call(name: str, **arguments: Any) -> Reply:
    return Reply(text="I go on.", calls=(Call(name, json.dumps(arguments)),))


def edit(old: str, new: str) -> Reply:
    return call("edit_file", path="tool.py", old_str=old, new_str=new)


@dataclass(frozen=True)
class Turn:
    task: str
    replies: tuple[Reply, ...]


TURNS = [
    Turn(
        "Look around and write a report.",
        (
            call("list_files"),
            call("search_files", pattern="total"),
            call("write_file", path="out/report.md", content="# Report\n\nA total of 3.\n"),
            call("list_files"),
            Reply(text="The report is written."),
        ),
    ),
    Turn(
        "Mend the tool.",
        (
            call("read_file", path="tool.py"),
            edit("def doble(", "def double("),
            edit("x + x", "2 * x"),
            call("read_file", path="tool.py"),
            Reply(text="It is mended."),
        ),
    ),
    Turn(
        "Save the table and plot it.",
        (
            call("execute_code", code=CSV),
            call("execute_code", code=PNG),
            call("list_files"),
            Reply(text="Both are saved."),
        ),
    ),
    Turn(
        "Write the report anew, and remember what it is for.",
        (
            call("write_file", path="out/report.md", content="# Report\n\nNothing.\n"),
            call("record_note", content="The report is for Ada.", category="project_info"),
            call("recall_notes"),
            call(
                "workspace_save_memory",
                type="decision",
                title="Reports are short",
                content="One line is enough.",
            ),
            Reply(text="Done, and noted."),
        ),
    ),
]


def source(number: int, turn: Turn) -> str:
    return f"%%agent\n{turn.task}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with a notebook, and a file that the agent will change."""
    return repository(tmp_path / "repository")


def repository(made: Path) -> Path:
    made.mkdir()
    cells = [nbformat.v4.new_code_cell("%load_ext jupyter_agent", id="load")]
    cells += [
        nbformat.v4.new_code_cell(source(n, turn), id=f"turn{n}") for n, turn in enumerate(TURNS)
    ]
    cells.append(nbformat.v4.new_code_cell("print(_agent.files, _agent.usage)", id="last"))
    cells.insert(1, nbformat.v4.new_code_cell("%agent cassette story.cassette.jsonl", id="tape"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, made / "story.ipynb")
    (made / "tool.py").write_text("def doble(x):\n    return x + x\n")
    (made / ".gitignore").write_text(
        "out/\n.jupyter_agent/\n.agent_memory.json\n.ipynb_checkpoints\n"
    )
    return made


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    command = ["git", *name, *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def lasting(notebook: Any) -> str:
    """The outputs, byte by byte, without what the metadata call volatile."""
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    for output in (each for some in outputs for each in some):
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return json.dumps(outputs, indent=1, sort_keys=True)


def run(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, base: str = CLOSED
) -> NotebookExecution:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", base)
    done = execute(path, {"mode": mode, "provider": "openai", "model": "m"}, timeout=120)
    assert not done.error, done.error
    return done


def recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "record"
) -> NotebookExecution:
    """The notebook recorded against a server, saved and committed."""
    path = folder / "story.ipynb"
    with ModelServer([reply for turn in TURNS for reply in turn.replies]) as server:
        done = run(path, monkeypatch, mode, server.openai_url)
    nbformat.write(done.notebook, path)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "recorded")
    return done


@dataclass(frozen=True)
class Recorded:
    """What was recorded once for several tests, which leave its folder as git knows it."""

    folder: Path
    first: NotebookExecution


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = repository(tmp_path_factory.mktemp("golden") / "repository")
    with pytest.MonkeyPatch.context() as patch:
        _quiet(patch, folder.parent)
        return Recorded(folder, recorded(folder, patch))


@pytest.fixture
def once(golden: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The recording, for the person who made it."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(golden.folder.parent / "jupyter"))
    return golden


@pytest.fixture
def clone(once: Recorded, tmp_path: Path) -> Path:
    """Only what is committed of the recording."""
    git(tmp_path, "clone", "-q", str(once.folder), "clone")
    return tmp_path / "clone"


def nbval(path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(path)],
        cwd=path.parent,
        env={**environment, "JUPYTER_AGENT_MODE": "replay"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_in_the_same_folder(once: Recorded, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """In the folder of the recording a replay has the same bytes and leaves nothing to commit."""
    folder, first = once.folder, once.first
    path = folder / "story.ipynb"
    for _ in range(times):
        again = run(path, monkeypatch, "replay")
        assert lasting(again.notebook) == lasting(first.notebook)
        assert git(folder, "status", "--porcelain") == ""
    for _ in range(times):
        nbval(path)
    assert git(folder, "status", "--porcelain") == ""


def test_in_a_fresh_clone(once: Recorded, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With only the committed files a replay has the same outputs."""
    away = once.folder.rename(once.folder.with_name("away"))
    try:
        for _ in range(2):
            again = run(clone / "story.ipynb", monkeypatch, "replay")
            assert lasting(again.notebook) == lasting(once.first.notebook)
    finally:
        away.rename(once.folder)
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.deep
def test_recorded_where_it_was_executed_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second recording finds the files of the first; its replay in a fresh clone is the same."""
    recorded(folder, monkeypatch)
    (folder / "tool.py").write_text("def doble(x):\n    return x + x\n")
    shutil.rmtree(folder / ".git")
    (folder / ".gitignore").write_text("out/\ntable.csv\nfigure.png\n.jupyter_agent/\n.agent*\n")
    turns = [turn for turn in TURNS if turn.task != TURNS[0].task]
    notebook = nbformat.read(folder / "story.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "Look around" not in cell.source]
    nbformat.write(notebook, folder / "story.ipynb")
    (folder / "story.cassette.jsonl").unlink()
    monkeypatch.setattr(sys.modules[__name__], "TURNS", turns)
    second = recorded(folder, monkeypatch)
    git(tmp_path, "clone", "-q", str(folder), "clone")
    path = tmp_path / "clone" / "story.ipynb"
    for _ in range(2):
        again = run(path, monkeypatch, "replay")
        assert lasting(again.notebook) == lasting(second.notebook)
    assert git(path.parent, "status", "--porcelain") == ""


def test_a_file_that_the_person_changed_is_not_hidden(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the text of an edit is gone, the replay fails as a live turn would, in one line."""
    (clone / "tool.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.setenv("OPENAI_BASE_URL", CLOSED)
    done = execute(clone / "story.ipynb", {"mode": "replay"}, timeout=120)
    assert "ReplayMismatch" in done.error
    assert "Step 2" in done.error and "triple" in done.error
    assert (clone / "tool.py").read_text() == "def triple(x):\n    return 3 * x\n"


@pytest.mark.deep
def test_cached_asks_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode cached the first run asks and records, the second asks nobody and is the same."""
    first = recorded(folder, monkeypatch, "cached")
    again = run(folder / "story.ipynb", monkeypatch, "cached")
    assert lasting(again.notebook) == lasting(first.notebook)
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.deep
def test_cached_asks_for_what_is_new(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode cached a new cell is asked for, and then all cells are recorded."""
    recorded(folder, monkeypatch, "cached")
    path = folder / "story.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("%%agent\nSay more.", id="new"))
    nbformat.write(notebook, path)
    with ModelServer([Reply(text="More.")]) as server:
        first = run(path, monkeypatch, "cached", server.openai_url)
        assert len(server.requests) == 1
    again = run(path, monkeypatch, "replay")
    assert lasting(again.notebook) == lasting(first.notebook)
    assert len(load(folder / "story.cassette.jsonl").turns) == len(TURNS) + 1


@pytest.mark.deep
def test_what_was_looked_at_before_it_was_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files read, searched or missing before a later turn changed them replay correctly."""
    edit = "file.write_text(file.read_text().replace('doble', 'double'));"
    change = f"import pathlib\nfile = pathlib.Path('tool.py')\n{edit}"
    look = [
        call("search_files", pattern="doble"),
        call("read_file", path="tool.py"),
        call("read_file", path="story.ipynb"),
        call("read_file", path="new.txt"),
        call("write_file", path="new.txt", content="1\n"),
        Reply(text="Seen."),
    ]
    both = Reply(
        calls=(
            Call("read_file", json.dumps({"path": "new.txt"})),
            Call("edit_file", json.dumps({"path": "new.txt", "old_str": "1", "new_str": "2"})),
            Call("read_file", json.dumps({"path": "new.txt"})),
        )
    )
    turns = [
        Turn(TURNS[0].task, tuple(look)),
        Turn(TURNS[1].task, (call("execute_code", code=change), both, Reply(text="Done."))),
    ]
    notebook = nbformat.read(folder / "story.ipynb", as_version=4)
    unwanted = [turn.task for turn in TURNS[2:]]
    notebook.cells = [c for c in notebook.cells if not any(task in c.source for task in unwanted)]
    nbformat.write(notebook, folder / "story.ipynb")
    monkeypatch.setattr(sys.modules[__name__], "TURNS", turns)
    first = recorded(folder, monkeypatch)
    for _ in range(2):
        again = run(folder / "story.ipynb", monkeypatch, "replay")
        assert lasting(again.notebook) == lasting(first.notebook)
        assert git(folder, "status", "--porcelain") == ""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings of the person's own."""
    _quiet(monkeypatch, tmp_path)
    yield


def _quiet(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("JUPYTER_CONFIG_DIR", str(folder / "jupyter"))
    for name in [name for name in os.environ if name.startswith("JUPYTER_AGENT_")]:
        patch.delenv(name)


def one_turn(path: Path, task: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded notebook of one agent cell, which does not name its cassette."""
    cells = [nbformat.v4.new_code_cell("%load_ext jupyter_agent", id="load")]
    cells.append(nbformat.v4.new_code_cell(f"%%agent\n{task}", id="turn"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)
    with ModelServer([Reply(text=answer)]) as server:
        nbformat.write(run(path, monkeypatch, "record", server.openai_url).notebook, path)


@pytest.mark.deep
def test_notebooks_that_name_no_cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a known notebook the cassettes beside it answer, each its own tasks."""
    one_turn(tmp_path / "a.ipynb", "Count the files.", "Some.", monkeypatch)
    nbval(tmp_path / "a.ipynb")
    one_turn(tmp_path / "b.ipynb", "List the files.", "Here.", monkeypatch)
    nbval(tmp_path / "b.ipynb")


@pytest.mark.deep
def test_two_cassettes_with_the_same_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two cassettes answer a task differently, neither is used."""
    for name, answer in (("a", "Some."), ("b", "None.")):
        (tmp_path / name).mkdir()
        one_turn(tmp_path / name / f"{name}.ipynb", "Count the files.", answer, monkeypatch)
    shutil.copyfile(tmp_path / "b" / "b.cassette.jsonl", tmp_path / "a" / "b.cassette.jsonl")
    monkeypatch.chdir(tmp_path / "a")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", "a.ipynb"],
        env={**os.environ, "JUPYTER_AGENT_MODE": "replay"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a.cassette.jsonl and b.cassette.jsonl answer this task" in done.stdout
