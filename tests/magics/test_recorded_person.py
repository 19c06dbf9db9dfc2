"""What a person decided and typed, and what failed before a reply, is the same in a replay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from front_end import FrontEnd
from generated import wires
from live_kernel import Cell, Json, LiveKernel, Running
from model_server import Call, Fault, ModelServer, Reply, failed

from jupyter_agent.errors import ConfigError
from jupyter_agent.recording.cassette import load

CASSETTE = "person.cassette.jsonl"
ASK = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
MINE = "old\nlines\n"
WAIT = "import asyncio\nprint('go' + 'ing', flush=True)\nawait asyncio.sleep(1)"


def run_code(*codes: str) -> Reply:
    calls = (Call("execute_code", json.dumps({"code": code})) for code in codes)
    return Reply(text="I try.", calls=tuple(calls))


def slow(text: str) -> Reply:
    return Reply(text=(text, *(f" {number}" for number in range(100))), pause=0.02)


TURNS: dict[str, tuple[str, list[Reply]]] = {
    "allowed": ("", [run_code("!echo allowed >> ran.txt"), Reply(text="It ran.")]),
    "overwritten": (
        "",
        [run_code("n = open('mine.txt', 'w').write('new\\n')"), Reply(text="It is new.")],
    ),
    "refused": ("", [run_code("!echo refused >> ran.txt"), Reply(text="You said no.")]),
    "timed out": ("", [run_code("!echo late >> ran.txt"), Reply(text="Nobody spoke.")]),
    "nobody": ("", [run_code("!echo nobody >> ran.txt"), Reply(text="Nobody there.")]),
    "steered": ("", [run_code(WAIT), Reply(text="In euros, then.")]),
    "steered at the end": ("", [slow("Dollars:"), Reply(text="Euros: 7.")]),
    "typed too late": ("--max-steps 1", [run_code("1 + 1"), slow("So far:")]),
    "typed before": ("", [Reply(text="I read it.")]),
    "two calls": (
        "",
        [run_code("!echo one >> ran.txt", "!echo two >> ran.txt"), Reply(text="One of two.")],
    ),
    "always": (
        "",
        [
            run_code("!echo always >> ran.txt"),
            run_code("!echo more >> ran.txt"),
            Reply(text="Both."),
        ],
    ),
    "tried again": ("", [failed(503, retry_after="0"), Reply(text="It answers now.")]),
    "broken off": (
        "",
        [
            Reply(text="Half an", fault=Fault("cut")),
            failed(529, retry_after="0"),
            Reply(text="A whole answer."),
        ],
    ),
}


def line(task: str) -> str:
    return f"%%agent {TURNS[task][0]}\n{task}"


def act(task: str, running: Running, page: FrontEnd) -> None:
    """What the person does in each turn."""
    match task:
        case "allowed":
            page.until_asked()
            page.answer("yes")
        case "overwritten":
            (diff,) = page.until_asked()["question"]["diffs"]
            assert diff == {
                "title": "mine.txt",
                "added": 1,
                "removed": 2,
                "lines": ["-old", "-lines", "+new"],
            }
            page.answer("yes")
        case "refused":
            page.until_asked()
            page.answer("no", "it is\nmine \u202e and \x1b[31mstrange")
        case "steered" | "steered at the end" | "typed too late":
            word = {"steered": "going", "steered at the end": "Dollars: 0"}.get(task, "So far: 0")
            page.until(lambda: word in page.text)
            page.steer(f"Words: {task}.")
        case "two calls":
            first = page.until_asked()
            page.answer("no", "not this one")
            page.until(lambda: page.asking and page.asking[0]["id"] != first["id"])
            page.answer("yes")
        case "always":
            page.until_asked()
            page.answer("always")


@dataclass(frozen=True)
class Recording:
    folder: Path
    cells: dict[str, Cell]
    ran: str

    @property
    def cassette(self) -> Path:
        return self.folder / CASSETTE


@pytest.fixture(scope="module", params=wires())
def recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    """All turns, recorded over HTTP with a person who decides and types."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "mine.txt").write_text(MINE, encoding="utf-8")
    replies = [reply for _, replies in TURNS.values() for reply in replies]
    environ = {**ASK, **KEYS, "JUPYTER_AGENT_MODE": "record"}
    with ModelServer(replies) as server, LiveKernel(folder, environ) as kernel:
        base = server.anthropic_url if request.param == "anthropic" else server.openai_url
        kernel.load(
            f"cassette {CASSETTE}",
            f"config provider {request.param}",
            "config model test-model",
            f"config api_base {base}",
        )
        cells = {task: _recorded(kernel, task) for task in TURNS}
        assert len(server.requests) == len(replies)
    yield Recording(folder, cells, (folder / "ran.txt").read_text(encoding="utf-8"))


def _recorded(kernel: LiveKernel, task: str) -> Cell:
    seconds = 1 if task == "timed out" else 600
    kernel.helper(f"%agent config approvals.timeout {seconds}")
    running = kernel.start(line(task), allow_stdin=task != "nobody")
    page = FrontEnd(kernel, running)
    act(task, running, page)
    return running.finish()


def test_what_was_recorded(recording: Recording) -> None:
    """The recorded turns went as the person decided, and the cassette holds the decisions."""
    assert all(cell.status == "ok" for cell in recording.cells.values())
    assert recording.ran.split() == ["allowed", "two", "always", "more"]
    turns = dict(zip(TURNS, load(recording.cassette).turns, strict=True))
    decided = {
        task: [(d.call, d.answer, d.by) for step in turn.steps for d in step.decisions]
        for task, turn in turns.items()
    }
    assert {task: found for task, found in decided.items() if found} == {
        "allowed": [(0, "yes", "person")],
        "overwritten": [(0, "yes", "person")],
        "refused": [(0, "no", "person")],
        "timed out": [(0, "no", "time_out")],
        "nobody": [(0, "no", "nobody")],
        "two calls": [(0, "no", "person"), (1, "yes", "person")],
        "always": [(0, "always", "person")],
    }
    assert turns["steered"].steps[1].said == ("Words: steered.",)
    assert turns["steered at the end"].steps[1].said == ("Words: steered at the end.",)
    assert turns["typed too late"].steps[1].said_after == ("Words: typed too late.",)
    (tried,), broken_off = (
        turns["tried again"].steps[0].retries,
        turns["broken off"].steps[0].retries,
    )
    assert "503" in tried.reason and not tried.had_spoken
    assert [retry.had_spoken for retry in broken_off] == [True, False]
    assert "503" in json.dumps(recording.cells["tried again"].outputs)


def test_the_replay_is_the_same(recording: Recording, tmp_path: Path) -> None:
    """Without server and person the replay has the same bytes and runs the same calls."""
    shutil.copy(recording.cassette, tmp_path)
    (tmp_path / "mine.txt").write_text(MINE, encoding="utf-8")
    with LiveKernel(tmp_path, {**ASK, "JUPYTER_AGENT_MODE": "replay"}) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        for task, recorded in recording.cells.items():
            replayed = kernel.run(line(task))
            assert replayed.status == "ok", (task, replayed.error)
            assert _bytes(replayed) == _bytes(recorded), task
    assert (tmp_path / "ran.txt").read_text(encoding="utf-8") == recording.ran


def test_a_replay_before_a_person(recording: Recording) -> None:
    """Where it was recorded, a replay asks no question in the widget, either.

    What a question showed is shown as it was then, although the file has changed since.
    """
    (recording.folder / "ran.txt").unlink()
    with LiveKernel(recording.folder, {**ASK, "JUPYTER_AGENT_MODE": "replay"}) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        for task in ("allowed", "overwritten", "refused"):
            running = kernel.start(line(task), allow_stdin=True)
            page = FrontEnd(kernel, running)
            replayed = running.finish()
            assert not page.asking and _bytes(replayed) == _bytes(recording.cells[task])


def test_a_replay_under_stricter_settings(recording: Recording, tmp_path: Path) -> None:
    """With approvals.mode read_only a replay runs nothing."""
    shutil.copy(recording.cassette, tmp_path)
    environ = {"JUPYTER_AGENT_APPROVALS__MODE": "read_only", "JUPYTER_AGENT_MODE": "replay"}
    with LiveKernel(tmp_path, environ) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        cell = kernel.run(line("allowed"))
    why, remedy = cell.error.split("\n")
    assert why.startswith("ReplayMismatch: Step 2 went another way")
    assert remedy == "jupyter agent record person.ipynb --task allowed"
    assert not (tmp_path / "ran.txt").exists()


Change = Callable[[Json], object]
DECISIONS: dict[str, Change] = {
    "a no that becomes a yes": lambda step: step["decisions"][0].update(answer="yes"),
    "no question any more": lambda step: step.pop("decisions"),
    "another call": lambda step: step["decisions"][0].update(call=1),
}


@pytest.mark.parametrize("change", DECISIONS)
def test_a_decision_that_was_edited(recording: Recording, tmp_path: Path, change: str) -> None:
    """A cassette with a decision that was edited by hand is not read."""
    path = tmp_path / CASSETTE
    rows = recording.cassette.read_text(encoding="utf-8").split("\n")
    number = next(n for n, row in enumerate(rows) if '"decisions"' in row and '"no"' in row)
    step = json.loads(rows[number])
    DECISIONS[change](step)
    rows[number] = json.dumps(step, ensure_ascii=False)
    path.write_text("\n".join(rows), encoding="utf-8")
    first = max(n for n in range(number) if not rows[n]) + 2  # the line below the blank one
    with pytest.raises(ConfigError, match=rf"{CASSETTE}, line {first}: this turn is not as it was"):
        load(path)


def test_a_cassette_of_the_first_format(recording: Recording, tmp_path: Path) -> None:
    """A cassette of format 1 is refused in one line, with the command that records it anew."""
    rows = recording.cassette.read_text(encoding="utf-8").split("\n")
    header = {**json.loads(rows[0]), "cassette": 1}
    (tmp_path / CASSETTE).write_text(json.dumps(header) + "\n{}\n", encoding="utf-8")
    with LiveKernel(tmp_path, {**ASK, "JUPYTER_AGENT_MODE": "replay"}) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        cell = kernel.run(line("allowed"))
    assert cell.error.startswith(f"ConfigError: {CASSETTE} has cassette format 1")
    assert cell.error.endswith("Record it anew: jupyter agent record NOTEBOOK")
    assert "\n" not in cell.error


def test_failed_tries_in_mode_cached(tmp_path: Path) -> None:
    """A turn that mode cached goes on with, and records anew, keeps the failed tries before."""
    replies = [failed(503, retry_after="0"), run_code("n"), Reply(text="One."), Reply(text="Two.")]
    shown = []
    with ModelServer(replies) as server:
        for n, mode in ((1, "cached"), (2, "cached"), (2, "replay")):
            with LiveKernel(tmp_path, {**KEYS, "JUPYTER_AGENT_MODE": mode}) as kernel:
                kernel.load(
                    f"cassette {CASSETTE}",
                    "config provider openai",
                    "config model test-model",
                    f"config api_base {server.openai_url}",
                )
                kernel.helper(f"n = {n}")
                cell = kernel.run("%%agent\nSay n.")
                assert cell.status == "ok", cell.error
                shown.append(_bytes(cell))
        assert len(server.requests) == len(replies)
    assert all("503" in each for each in shown)
    assert "Two." in shown[1] and shown[1] == shown[2]


def _bytes(cell: Cell) -> str:
    """What was shown; what is known to differ from run to run stands apart in the metadata."""
    outputs = json.loads(json.dumps(cell.outputs))
    for output in outputs:
        output.pop("transient", None)  # it is in no notebook
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return json.dumps(outputs)
