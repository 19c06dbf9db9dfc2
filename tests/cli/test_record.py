"""`jupyter agent record`: recorded once, proven at once, and nothing lost where that fails."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from model_server import Call, ModelServer, Reply
from notebooks.notebooks import agent, finish, script, started, wait_until, write

from jupyter_agent.cli import main
from jupyter_agent.errors import AgentError
from jupyter_agent.files.trust import store_path
from jupyter_agent.notebooks.one import read
from jupyter_agent.notebooks.recording import cell_with_task, record
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.trusted import is_trusted

pytestmark = pytest.mark.timeout(180)
LOAD = "%load_ext jupyter_agent"


def say(text: str) -> list[dict[str, Any]]:
    return [{"text": text}]


def compute(code: str, text: str) -> list[dict[str, Any]]:
    return [{"calls": [{"name": "execute_code", "arguments": {"code": code}}]}, {"text": text}]


def run_record(folder: Path, *arguments: str, **more: str) -> tuple[int, str]:
    return agent("record", *arguments, cwd=folder, home=folder / ".home", **more)


def tasks(path: Path) -> list[str]:
    return [turn.task for turn in load(path).turns]


def answers(path: Path) -> list[str]:
    return [turn.steps[-1].reply.message.text for turn in load(path).turns]


def shown(path: Path, number: int) -> str:
    """What a cell of a file shows, as JSON; the first is 1."""
    return json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"][number - 1]["outputs"])


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what runs in this process: no settings but the test's own."""
    for name in [name for name in os.environ if name.startswith("JUPYTER_AGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))


def test_from_a_model_then_without_it(tmp_path: Path) -> None:
    """A recording over real HTTP asks each turn once, and replays to the same bytes without
    the server.
    """
    path = write(tmp_path / "a.ipynb", LOAD, "%%agent\nWhat is 6 * 7?", "# done")
    replies = [Reply(calls=(Call("execute_code", '{"code": "6 * 7"}'),)), Reply(text="It is 42.")]
    with ModelServer(replies) as server:
        code, said = run_record(
            tmp_path,
            *("a.ipynb", "--provider", "openai", "--model", "m-1"),
            JUPYTER_AGENT_API_BASE=server.openai_url,
            JUPYTER_AGENT_API_KEY="dummy-" + "key",
        )
        assert code == 0, said
        assert len(server.requests) == 2
    assert "1 turn in a.cassette.jsonl" in said
    assert load(tmp_path / "a.cassette.jsonl").model == "m-1"
    assert "It is 42." in shown(path, 2)
    before = path.read_bytes()
    code, said = agent(
        "run", ".", "--mode", "replay", "--in-place", cwd=tmp_path, home=tmp_path / ".home"
    )
    assert code == 0, said
    assert path.read_bytes() == before


@pytest.mark.deep
def test_turns_that_no_cell_asks_for_are_dropped(tmp_path: Path) -> None:
    """Unused turns are dropped from the notebook's cassette; a failure afterwards leaves
    cassette and notebook unchanged, and keeps the recording elsewhere.
    """
    top = f"{LOAD}\n%agent cassette tape.jsonl\n%agent config mode replay"
    path = write(tmp_path / "a.ipynb", top, "%%agent\nFirst", "%%agent\nSecond")
    place = script(tmp_path / "s.yaml", ("First", say("one")), ("Second", say("two")))
    settings = {"provider": "scripted", "script": str(place)}
    told: list[str] = []
    assert record(path, settings).turns == 2
    tape = tmp_path / "tape.jsonl"
    assert tasks(tape) == ["First", "Second"]

    write(path, top, "%%agent\nSecond")
    place = script(place, ("Second", say("two, again")))
    recording = record(path, settings)
    assert tasks(tape) == ["Second"]
    assert recording.notes == ("tape.jsonl has lost a turn that no cell asked for",)
    assert "two, again" in shown(path, 2)

    write(path, top, "%%agent\nSecond", "1 / 0")
    place = script(place, ("Second", say("three")))
    before = tape.read_bytes(), path.read_bytes()
    with pytest.raises(AgentError, match=r"a\.ipynb, cell 3: ZeroDivisionError"):
        record(path, settings, tell=told.append)
    assert (tape.read_bytes(), path.read_bytes()) == before
    assert answers(Path(told[-1].rpartition(" in ")[2])) == ["three"]
    # What was recorded here is trusted, and nothing of the takes stays in the store.
    assert is_trusted(tape)
    store = json.loads(store_path().read_text(encoding="utf-8"))
    assert [place for place, held in store["trusted"]["cassette"].items() if held] == [str(tape)]


@pytest.mark.deep
def test_a_replay_that_shows_something_else(tmp_path: Path) -> None:
    """A turn whose replay differs is not kept; a cell of the person's own that differs is named."""
    elsewhere = tmp_path.with_name(f"{tmp_path.name} elsewhere")
    counting = (
        f"import time\nprint(time.time_ns())\nfile = open({str(elsewhere)!r}, 'a')\n"
        "_ = file.write('+')\nruns = file.tell()\nfile.close()"
    )
    path = write(tmp_path / "a.ipynb", LOAD, counting, "%%agent\nTime")
    # What only the third run shows cannot be learned from the first two.
    place = script(tmp_path / "s.yaml", ("Time", compute("print(runs == 3)", "now")))
    before = path.read_bytes()
    with pytest.raises(AgentError, match=r"cell 3: in the replay, .*went another way"):
        record(path, {"provider": "scripted", "script": str(place)})
    assert not (tmp_path / "a.cassette.jsonl").exists()
    assert path.read_bytes() == before

    place = script(place, ("Time", compute("print(1)", "now")))
    recording = record(path, {"provider": "scripted", "script": str(place)})
    assert [(cell.number, cell.of_agent) for cell in recording.unsteady] == [(2, False)]


def test_one_cell_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two cells with the same words only the second is recorded; the others are
    replayed, and their turns keep their places and their trust.
    """
    same = "%%agent --fresh\nSame words"
    path = write(tmp_path / "a.ipynb", LOAD, same, "# heading", same, "%%agent\nLast")
    told = [("Same words", say("one")), ("Same words", say("two")), ("Last", say("three"))]
    place = script(tmp_path / "s.yaml", *told)
    settings = {"provider": "scripted", "script": str(place)}
    assert record(path, settings).turns == 3
    tape = tmp_path / "a.cassette.jsonl"
    assert answers(tape) == ["one", "two", "three"]

    script(place, ("Same words", say("two, better")))
    code, said = run_record(tmp_path, "a.ipynb", "--script", str(place), "--cell", "4")
    assert code == 0, said
    assert answers(tape) == ["one", "two, better", "three"]
    assert "two, better" in shown(path, 4)

    before = tape.read_bytes()
    message = r"cell 3 is not an agent cell\. The agent cells are: 2 \(Sam"
    with pytest.raises(AgentError, match=message):
        record(path, settings, cell=3)
    with pytest.raises(AgentError, match="2 agent cells have 'same  WORDS'"):
        cell_with_task(read(path), "same  WORDS")
    assert cell_with_task(read(path), "last") == 5
    assert tape.read_bytes() == before
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / ".home" / "jupyter"))
    assert not is_trusted(tape)  # the other cells are not of who recorded this one


@pytest.mark.deep
def test_a_cassette_of_two_notebooks(tmp_path: Path) -> None:
    """Recording one of them keeps the turns of the other."""
    top = f"{LOAD}\n%agent cassette both.cassette.jsonl"
    place = script(tmp_path / "s.yaml", ("A", say("a")), ("B", say("b")))
    settings = {"provider": "scripted", "script": str(place)}
    for name in "AB":
        record(write(tmp_path / f"{name}.ipynb", top, f"%%agent\n{name}"), settings)
    assert tasks(tmp_path / "both.cassette.jsonl") == ["A", "B"]
    assert is_trusted(tmp_path / "both.cassette.jsonl")


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a recording leaves the old cassette as it was."""
    write(tmp_path / "a.ipynb", LOAD, "%%agent\nFirst", "open('here', 'w')\nwhile True: pass")
    place = script(tmp_path / "s.yaml", ("First", say("new")))
    tape = tmp_path / "a.cassette.jsonl"
    tape.write_text("an old recording, even a damaged one", encoding="utf-8")
    arguments = "record", "a.ipynb", "--script", str(place)
    with started(*arguments, cwd=tmp_path, home=tmp_path / ".home") as command:
        wait_until((tmp_path / "here").exists, "the last cell runs")
        os.killpg(command.pid, signal.SIGINT)
        code, said = finish(command)
    assert code == 130
    assert tape.read_text(encoding="utf-8") == "an old recording, even a damaged one"
    assert "The cassette is unchanged. The failed recording is in " in said


def test_what_cannot_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook without agent cells is no failure; a cassette named too late fails before
    a kernel starts; wrong usage has exit code 2.
    """
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "plain.ipynb", "1")
    late = "%agent cassette x\nfrom jupyter_agent import ask\nawait ask('A')"
    write(tmp_path / "late.ipynb", late)
    for code, words, *arguments in (
        (0, "plain.ipynb: no agent cell; left as it is", "plain.ipynb"),
        (1, "cell 1: name the cassette in a cell of its own", "late.ipynb"),
        (1, "No agent cell has 'x y' in the task", "late.ipynb", "--task", "x y"),
        (2, "for one notebook", ".", "--cell", "1"),
        (2, "exclude each other", "late.ipynb", "--cell", "1", "--task", "x"),
        (2, "There is no notebook missing.ipynb", "missing.ipynb"),
    ):
        result = CliRunner().invoke(main, ["record", *arguments])
        said = " ".join(result.output.split())
        assert (result.exit_code, words in said) == (code, True), said
