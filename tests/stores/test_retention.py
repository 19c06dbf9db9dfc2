"""How long files are kept: what goes, in which order, and what never does."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_agent.core.events import TurnStarted
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.stores.conversations import Conversations
from jupyter_agent.stores.retention import DAY, LOGS, OUTPUTS, SESSIONS, Limit, remove, surplus
from jupyter_agent.stores.runlog import RunLog

PLENTY = 1_000.0


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def put(workspace: Workspace, name: str, days: float, size: int = 100) -> Path:
    """A file of the state folder that was changed so many days ago."""
    path = workspace.state_folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    aged(path, days)
    return path


def aged(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def cleaned(workspace: Workspace, named: frozenset[str] = frozenset(), **limits: Limit) -> set[str]:
    """The names of what was removed."""
    found = [one for one in surplus(workspace, limits, lambda: named) if one]
    return {one.path.name for one in found if remove(one) and not one.path.exists()}


def log(number: int) -> str:
    return f"logs/agent_run_20240101_{number:06}.jsonl"


def test_what_is_too_old_goes(workspace: Workspace) -> None:
    """Files go by their last change, not a day too early, and not from a folder without a limit."""
    for number, days in enumerate((0, 2, 29, 31, 400)):
        put(workspace, log(number), days)
    put(workspace, "sessions/work.jsonl", 400)
    gone = cleaned(workspace, logs=Limit(30, PLENTY))
    assert gone == {Path(log(3)).name, Path(log(4)).name}
    assert (workspace.state_folder / "sessions/work.jsonl").exists()


def test_the_oldest_go_where_it_is_too_much(workspace: Workspace) -> None:
    """The oldest files go until the limit holds; files changed within a day stay."""
    mega = 1024 * 1024
    for number, days in enumerate((0.5, 2, 3, 4)):
        put(workspace, log(number), days, mega)
    assert cleaned(workspace, logs=Limit(30, 2.5)) == {Path(log(n)).name for n in (2, 3)}
    assert cleaned(workspace, logs=Limit(30, 0.1)) == {Path(log(1)).name}
    assert (workspace.state_folder / log(0)).exists()


def test_what_is_dated_in_the_future_stays(workspace: Workspace) -> None:
    """Files dated in the future stay, and drive out no others."""
    put(workspace, log(1), -400, 10 * 1024 * 1024)
    put(workspace, log(2), 2)
    assert cleaned(workspace, logs=Limit(1.5, 1)) == {Path(log(2)).name}
    put(workspace, log(3), 2)
    assert cleaned(workspace, logs=Limit(30, 1)) == set()


@pytest.mark.parametrize(
    "name",
    [
        "config.yaml",
        "mcp.json",
        "rules/old.md",
        "logs/mine.jsonl",
        "logs/mcp-server.log",
        "logs/sub/agent_run_20240101_000000.jsonl",
        "outputs/mine.csv",
        "sessions/notes.md",
        "trash/work.jsonl",
        "cache/index.sqlite",
        "../.agent_memory.json",
        "../work.cassette.jsonl",
    ],
)
def test_what_is_not_ours_stays(workspace: Workspace, name: str) -> None:
    """Settings, rules, memory, cassettes and other files stay, however old."""
    path = put(workspace, name, 4_000)
    put(workspace, log(1), 400)
    limits = {each: Limit(1, 0.0001) for each in (LOGS, SESSIONS, OUTPUTS)}
    assert cleaned(workspace, **limits) == {Path(log(1)).name}
    assert path.exists()


def test_conversations_that_were_set_aside_go(workspace: Workspace) -> None:
    """Under the names of this version and of the first one."""
    names = (
        "corrupt-20240101_120000_123456",
        "corrupt-20240101-120000",
        "foreign-20240101-120000-2",
    )
    for name in names:
        put(workspace, f"sessions/work.jsonl.{name}", 400)
    gone = cleaned(workspace, sessions=Limit(30, PLENTY))
    assert gone == {f"work.jsonl.{name}" for name in names}


def test_links_are_not_followed(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Links to folders or files are not followed, and a pipe does not block."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for path in (elsewhere / Path(log(1)).name, elsewhere / "out.txt"):
        path.write_text("mine", encoding="utf-8")
        aged(path, 400)
    workspace.state_folder.mkdir()
    (workspace.state_folder / "logs").symlink_to(elsewhere)
    outputs = workspace.state_folder / "outputs"
    outputs.mkdir()
    (outputs / "link.txt").symlink_to(elsewhere / "out.txt")
    os.mkfifo(outputs / "pipe.txt")
    aged(outputs / "pipe.txt", 400)
    assert cleaned(workspace, logs=Limit(1, PLENTY), outputs=Limit(1, PLENTY)) == set()
    assert len(list(elsewhere.iterdir())) == 2 and len(list(outputs.iterdir())) == 2


def test_what_kernels_use_stays(workspace: Workspace) -> None:
    """Open logs, conversations in use and the outputs that they name stay."""
    running = RunLog(workspace.state_folder / "logs")
    running(TurnStarted("task", "p", "m"))
    held = Conversations(workspace.state_folder / "sessions", "work.ipynb")
    told = (
        "[... 9 characters left out; the whole is in .jupyter_agent/outputs/agent_code_1.txt ...]"
    )
    held.keep("default", [Message("user", (Text(told),))])
    assert running.path and held.path
    for path in (running.path, held.path):
        aged(path, 400)
    put(workspace, "sessions/other.jsonl", 400)
    for number in (1, 2, 3):
        put(workspace, f"outputs/agent_code_{number}.txt", 400)
    limits = {each: Limit(30, PLENTY) for each in (LOGS, SESSIONS, OUTPUTS)}
    gone = cleaned(workspace, frozenset({"agent_code_3.txt"}), **limits)
    assert gone == {"other.jsonl", "agent_code_2.txt"}
    running.close()
    held.close()
    assert cleaned(workspace, **limits) >= {running.path.name, "work.jsonl", "agent_code_1.txt"}
    assert not list((workspace.state_folder / "sessions").iterdir())


def test_two_at_once(workspace: Workspace) -> None:
    """Two kernels that remove the same files do not fail, and count each file once."""
    for number in range(300):
        put(workspace, log(number), 400)
        put(workspace, f"sessions/{number}.jsonl", 400)
    limits = {LOGS: Limit(30, PLENTY), SESSIONS: Limit(30, PLENTY)}

    def clean(_: int) -> int:
        found = [one for one in surplus(workspace, limits) if one]
        return sum(map(remove, found))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(clean, range(4))) == 600


def test_it_can_be_stopped_at_any_time(workspace: Workspace) -> None:
    """Each step looks at one file, so that a caller may stop after a moment and go on later."""
    for number in range(2_000):
        put(workspace, log(number), 400)
    steps = surplus(workspace, {LOGS: Limit(30, PLENTY)})
    longest, last, found = 0.0, time.perf_counter(), 0
    for one in steps:
        found += one is not None and remove(one)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    assert found == 2_000
    assert longest < 0.25


def test_a_log_without_its_first_one(workspace: Workspace) -> None:
    """A log that named another for its schemas is readable after that one has gone."""
    path = put(workspace, log(1), 0)
    path.write_text(json.dumps({"type": "prompt", "tools": {"file": "gone.jsonl"}}) + "\n", "utf-8")
    from jupyter_agent.stores.runs import read_run

    assert read_run(path).prompt["tools"]["file"] == "gone.jsonl"
