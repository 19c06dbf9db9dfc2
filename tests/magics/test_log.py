"""`%agent log`: runs found and shown, of this kernel and of others, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_agent.core.events import (
    Event,
    MessageFinished,
    Requested,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.errors import AgentError
from jupyter_agent.magics.commands import run_line, turns
from jupyter_agent.stores.runlog import RunLog

SAID = "The capital of walruses is Ny-Ålesund, where they lie on the beach in heaps all day long."


def events(task: str, said: str = SAID) -> list[Event]:
    call = ToolCall("c1", "execute_code", json.dumps({"code": "look()"}))
    result = ToolResult("c1", (Text(said),), display=(Output("stdout", {"text/plain": said}),))
    return [
        TurnStarted(task, "openai", "gpt-9"),
        StepStarted(1, 5),
        Requested("gpt-9", 1, 3, 20),
        MessageFinished(Message("assistant", (Text("I look."), call)), Usage(900, 100), "tool_use"),
        ToolStarted(call),
        ToolFinished(result, 0.5),
        StepStarted(2, 5),
        Requested("gpt-9", 3, 3, 150),
        MessageFinished(Message("assistant", (Text("There."),)), Usage(950, 50), "end"),
        TurnFinished("end", Usage(1_850, 150)),
    ]


def logged(folder: Path, happened: Sequence[Event]) -> Path:
    log = RunLog(folder)
    for event in happened:
        log(event)
        if isinstance(event, TurnStarted):
            log.prompt("Walruses everywhere.", (), [])
    log.close()
    assert log.path is not None
    return log.path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs, the second of which never ended."""
    folder = tmp_path / "logs"
    logged(folder, events("First task.\nWith more.", "seals"))
    logged(folder, events("Second\x1b[31m task.")[:6])
    logged(folder, events("Third task."))
    return folder


def said(folder: Path, words: str, last: Path | None = None, shell: object = None) -> str:
    """What `%agent log WORDS` says, in a terminal unless the shell has a kernel."""
    workspace = SimpleNamespace(state_folder=folder.parent)
    notebook = SimpleNamespace(workspace=workspace, logs=folder, log_path=last, shell=shell)
    sessions: Any = SimpleNamespace(kernel=notebook)
    return str(run_line(sessions, f"log {words}"))


def test_nothing_yet(tmp_path: Path) -> None:
    """Without a run or a folder each command says so, and creates no folder."""
    folder = tmp_path / "logs"
    assert said(folder, "") == said(folder, "list") == "No turn has been logged yet."
    assert said(folder, "grep word") == "Nothing was found."
    for words in ("show", "show 1", "path", "path 2"):
        with pytest.raises(
            AgentError, match=r"^%agent log: no turn has been logged yet\. Give .* %%agent$"
        ):
            said(folder, words)
    assert not folder.exists()
    assert said(folder, "", tmp_path / "elsewhere.jsonl") == str(tmp_path / "elsewhere.jsonl")


def test_the_overview(folder: Path) -> None:
    """The last turn's path comes first, then a row for each run, the newest first."""
    last = folder / "agent_run_x.jsonl"
    first, _, head, *rows, _, hint = said(folder, "", last).splitlines()
    assert first == str(last)
    assert head.split() == ["when", "end", "steps", "tokens", "seconds", "model", "task"]
    assert hint.startswith("Show one: %agent log show N.")
    day = datetime.now().astimezone().strftime("%Y-%m-%d")
    assert [row.split()[:2] for row in rows] == [[str(n), day] for n in (1, 2, 3)]
    assert rows[0].endswith("gpt-9  Third task.")
    assert rows[0].split()[3:6] == ["end", "2", "2,000"]
    assert rows[1].split()[3:7] == ["not", "ended", "1", "?"]
    assert rows[1].endswith("Second task.") and rows[2].endswith("First task.")
    assert said(folder, "").splitlines()[0] == "No turn of this kernel has been logged yet."


def test_a_list(folder: Path) -> None:
    """The list has as many rows as asked for, and counts the rest."""
    _, *rows = said(folder, "list 2").splitlines()
    assert [row.split()[0] for row in rows[:2]] == ["1", "2"]
    assert rows[3].strip() == "1 older ones: %agent log list COUNT"
    assert len(said(folder, "list 9").splitlines()) == 4


def test_show(folder: Path) -> None:
    """A run's transcript is shown below its task; without a number the newest run's."""
    text = said(folder, "show 3")
    assert text.splitlines()[1:3] == ["Task: First task.", "With more."]
    assert "seals" in text and text.endswith("There.")
    assert "Task: Third task." in said(folder, "show")


def test_show_what_never_ended(folder: Path) -> None:
    """The run of a killed kernel says so, and shows its transcript."""
    path = Path(said(folder, "path 2"))
    path.write_bytes(path.read_bytes() + b'{"seq": 9, "type": "tool_fin')
    text = said(folder, "show 2")
    assert "Task: Second task." in text and SAID in text
    assert "This turn has no end in its log" in text
    assert "The last line of the log is incomplete." in text
    assert "not ended" in said(folder, "list").splitlines()[2]


def test_show_in_a_notebook(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the transcript is published, only the heading is printed."""
    published: list[TurnView] = []
    monkeypatch.setattr(turns, "publish", published.append)
    assert said(folder, "show 1", shell=SimpleNamespace(kernel=object())) == ""
    assert capsys.readouterr().out.splitlines()[1:] == ["Task: Third task."]
    assert [view.answer for view in published] == ["There."]


def test_grep(folder: Path) -> None:
    """All words are searched in one event, in any case; repeated texts are found once."""
    rows = said(folder, "grep WALRUSES heaps").splitlines()
    assert [row.split()[:4] for row in rows] == [
        ["1", "step", "1", "tool_finished"],
        ["2", "step", "1", "tool_finished"],
    ]
    assert all("capital of walruses is Ny-Ålesund" in row for row in rows)
    assert [row.split()[0] for row in said(folder, "grep seals").splitlines()] == ["3"]
    assert said(folder, "grep look()").count("message_finished") == 3
    assert said(folder, "grep everywhere") == "Nothing was found."
    assert said(folder, "grep walruses seals") == "Nothing was found."
    assert said(folder, "grep $same tool_result") == "Nothing was found."


def test_much_to_find(tmp_path: Path) -> None:
    """The results are limited, with a line that says so."""
    turn, folder = events("Find."), tmp_path / "logs"
    logged(folder, [turn[0], *turn[1:6] * 40, turn[-1]])
    rows = said(folder, "grep look").splitlines()
    assert len(rows) == 31 and rows[-1] == "(there are more results; give more words)"


def test_path(folder: Path) -> None:
    """The path is that of this kernel's last turn, or of a run by its number."""
    last = folder / "last.jsonl"
    assert said(folder, "path", last) == str(last)
    paths = [said(folder, f"path {n}", last) for n in (1, 2, 3)]
    assert said(folder, "path") == paths[0]
    assert sorted(paths) == sorted(str(path) for path in folder.iterdir())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("shwo 1", "%agent log: there is no 'shwo'. Did you mean show?"),
        ("xyz", "%agent log: there is no 'xyz'. Usage: %agent log [list"),
        ("show 4", "%agent log: there is no run 4. Give 1 to 3."),
        ("show 0", "%agent log: '0' is no number from 1. Usage: "),
        ("show -1", "%agent log: '-1' is no number from 1."),
        ("show ²", "%agent log: '²' is no number from 1."),
        ("path x", "%agent log: 'x' is no number from 1."),
        ("show 1 2", "%agent: unexpected '2'. Usage: %agent log"),
        ("list 1 2", "%agent: unexpected '2'. Usage: %agent log"),
        ("list 99999999999999", "%agent log: '99999999999999' is no number"),
        ("grep", "%agent log grep: give words to look for."),
    ],
)
def test_mistakes(folder: Path, words: str, line: str) -> None:
    """A mistake is one line that says what is possible."""
    with pytest.raises(AgentError) as raised:
        said(folder, words)
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_a_log_without_a_turn(tmp_path: Path) -> None:
    """An empty or foreign file is listed, and reported as one without events."""
    (folder := tmp_path / "logs").mkdir()
    (folder / "agent_run_20260101_000000.jsonl").write_text("{}\nx\n")
    assert "(no date)" in said(folder, "list")
    with pytest.raises(AgentError, match="holds no events of a turn"):
        said(folder, "show 1")
