"""Cassettes that came with somebody else's folder: what they allowed is asked about here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from front_end import FrontEnd
from live_kernel import LiveKernel, Running, Turn, execute_code

from jupyter_agent.core.messages import Message, Text
from jupyter_agent.recording.cassette import FORMAT, load, save
from jupyter_agent.recording.trusted import cassettes, is_trusted, trust_as_written

CASSETTE = "theirs.cassette.jsonl"
EXAMPLES = Path(__file__).parents[2] / "example_notebooks"
ASK = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}
RISKY = "!echo risky >> ran.txt"
TASKS = {
    "allowed": [execute_code(RISKY), {"text": "It ran."}],
    "refused": [execute_code("!echo refused >> ran.txt"), {"text": "You said no."}],
    "harmless": [execute_code("twice = 21 * 2\ntwice"), {"text": "42."}],
    # Recorded with approvals.mode auto, so that no question is in the cassette.
    "unasked": [execute_code("!echo unasked >> ran.txt"), {"text": "It ran."}],
    "30 min": [{"text": "12 trips."}],
}
ANSWERS = {"allowed": "y", "refused": "n"}


def say(kernel: LiveKernel, task: str, *typed: str, attended: bool = True) -> Turn:
    """One cell with a person who answers each question by the next of `typed`."""
    logs = kernel.logs()
    running = kernel.start(f"%%agent --fresh\n{task}", allow_stdin=attended)
    for answer in typed:
        running.question()
        running.type(answer)
    cell = running.finish()
    assert cell.status == "ok", cell.error
    return kernel.turn(cell, logs)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LiveKernel]]:
    """A folder with a cassette, and the kernel of the person who recorded it."""
    folder = tmp_path_factory.mktemp("theirs")
    script = [{"task": task, "replies": replies} for task, replies in TASKS.items()]
    (folder / "script.yaml").write_text(yaml.safe_dump(script), encoding="utf-8")
    with LiveKernel(folder, {**ASK, "JUPYTER_AGENT_DISPLAY": "static"}) as kernel:
        kernel.load(f"cassette {CASSETTE}", "config script script.yaml", "config mode record")
        for task in TASKS:
            kernel.helper(f"%agent config approvals.mode {_mode(task)}")
            say(kernel, task, *([ANSWERS[task]] if task in ANSWERS else []))
        kernel.helper("%agent config mode replay", "%agent config approvals.mode ask_risky")
        (folder / "ran.txt").unlink()
        yield folder, kernel


def _mode(task: str) -> str:
    return "auto" if task == "unasked" else "ask_risky"


@pytest.fixture(scope="module")
def theirs(
    recorded: tuple[Path, LiveKernel], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveKernel]:
    """A kernel of somebody who got the cassette with a folder."""
    folder = tmp_path_factory.mktemp("mine")
    shutil.copy(recorded[0] / CASSETTE, folder)
    with LiveKernel(folder, {**ASK, "JUPYTER_AGENT_DISPLAY": "static"}) as kernel:
        kernel.load(f"cassette {CASSETTE}", "config mode replay")
        yield kernel


@pytest.fixture(autouse=True)
def clean(recorded: tuple[Path, LiveKernel], theirs: LiveKernel) -> Iterator[None]:
    """The cassette as it came, and nothing trusted."""
    yield
    shutil.copy(recorded[0] / CASSETTE, theirs.folder)
    for left in ("ran.txt", "empty_config/jupyter_agent_trust.json"):
        (theirs.folder / left).unlink(missing_ok=True)
    theirs.helper("%agent config mode replay", "%agent config approvals.mode ask_risky")


def ran(kernel: LiveKernel) -> str:
    path = kernel.folder / "ran.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_what_was_recorded_here_is_believed(recorded: tuple[Path, LiveKernel]) -> None:
    """A cassette that was recorded here replays without a question."""
    folder, kernel = recorded
    for task in TASKS:
        say(kernel, task)
    assert ran(kernel).split() == ["risky", "unasked"]
    assert "cassette" in (folder / "empty_config/jupyter_agent_trust.json").read_text()


def test_a_yes_of_others_is_asked_about(theirs: LiveKernel) -> None:
    """A recorded yes of somebody else is asked again; a yes gives the recorded turn."""
    turn = say(theirs, "allowed", "y")
    assert ran(theirs) == "risky\n"
    assert not turn.result.is_error
    assert theirs.value("str(_agent)") == "It ran."


def test_a_no_to_what_others_allowed(theirs: LiveKernel) -> None:
    """A no to a recorded yes runs nothing and ends the replay, which needs the other result."""
    running = theirs.start("%%agent --fresh\nallowed", allow_stdin=True)
    running.question()
    running.type("n")
    cell = running.finish()
    assert cell.status == "error" and "ReplayMismatch" in cell.error
    assert ran(theirs) == ""


def test_what_was_never_asked_is_asked_about(theirs: LiveKernel) -> None:
    """A cassette without any question cannot run risky code without one."""
    say(theirs, "unasked", "y")
    assert ran(theirs) == "unasked\n"


def test_a_recorded_no_stays_one(theirs: LiveKernel) -> None:
    """A recorded refusal is a refusal in the replay, without a question."""
    assert say(theirs, "refused").result.state == "refused"
    assert ran(theirs) == ""


def test_harmless_code_just_runs(theirs: LiveKernel) -> None:
    """Harmless code of another person's cassette runs without a question."""
    assert say(theirs, "harmless").result.text == "42"


def test_the_mode_of_the_person_holds(theirs: LiveKernel) -> None:
    """With ask_all harmless code needs an answer, with read_only it is refused."""
    theirs.helper("%agent config approvals.mode ask_all")
    assert say(theirs, "harmless", "y").result.text == "42"
    theirs.helper("%agent config approvals.mode read_only")
    theirs.helper("del twice")
    cell = theirs.start("%%agent --fresh\nharmless", allow_stdin=True).finish()
    assert "error: execute_code is refu" in cell.error
    assert theirs.value("'twice' in globals()") is False


def test_nobody_is_there(theirs: LiveKernel) -> None:
    """Without a person, as in a run by nbclient, a cassette is replayed without questions."""
    for task in TASKS:
        say(theirs, task, attended=False)
    assert ran(theirs).split() == ["risky", "unasked"]


def test_mode_cached(theirs: LiveKernel) -> None:
    """Replayed calls in mode cached are asked about, and stay untrusted in the file."""
    theirs.helper("%agent config mode cached")
    theirs.script("new", {"text": "New."})
    say(theirs, "allowed", "y")
    assert ran(theirs) == "risky\n"
    say(theirs, "new")
    assert len(load(theirs.folder / CASSETTE).turns) == len(TASKS) + 1
    say(theirs, "allowed", "y")
    shutil.copy(theirs.folder / CASSETTE, theirs.folder / "theirs.again")


def test_in_the_widget(theirs: LiveKernel) -> None:
    """A replay is not shown while it runs, but its questions are."""
    theirs.helper("%agent config display auto")
    running: Running = theirs.start("%%agent --fresh\nallowed", allow_stdin=True)
    page = FrontEnd(theirs, running)
    page.until_asked()
    assert "not recorded or trusted here" in json.dumps(page.text)
    page.answer("yes")
    cell = running.finish()
    theirs.helper("%agent config display static")
    assert cell.status == "ok" and ran(theirs) == "risky\n"
    assert "not recorded or trusted" not in cell.transcript


def test_once_it_is_trusted(theirs: LiveKernel) -> None:
    """A trusted cassette asks nothing until the file changes."""
    waiting = "get_ipython().agent_sessions.kernel.untrusted_cassettes()"
    told = theirs.value(f"[(one.name, one.does) for one in {waiting}]")
    ((name, does),) = told
    assert name == CASSETTE and "1 call was allowed" in does and "echo risky" in does
    theirs.helper(f"for one in {waiting}: one.trust()")
    assert theirs.value(f"len({waiting})") == 0
    say(theirs, "allowed")
    assert ran(theirs) == "risky\n"
    path = theirs.folder / CASSETTE
    _say(path, "It ran, they say.")
    assert theirs.value(f"len({waiting})") == 1


def test_a_cassette_that_was_edited_by_hand(theirs: LiveKernel) -> None:
    """A cassette whose code was exchanged by hand is refused before anything runs."""
    path = theirs.folder / CASSETTE
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace("echo risky", "echo worse"), encoding="utf-8")
    cell = theirs.start("%%agent --fresh\nallowed", allow_stdin=True).finish()
    assert "this turn is not as it was recorded" in cell.error and "\n" not in cell.error
    assert theirs.value("len(get_ipython().agent_sessions.kernel.untrusted_cassettes())") == 0
    assert ran(theirs) == ""
    path.write_text(kept, encoding="utf-8")


def _say(path: Path, text: str) -> None:
    """Write another answer into a cassette's first turn, as a program does that knows how."""
    cassette = load(path)
    first, *others = cassette.turns
    *steps, last = first.steps
    said = replace(last.reply, message=Message("assistant", (Text(text),)))
    changed = replace(first, steps=(*steps, replace(last, reply=said)))
    save(replace(cassette, turns=(changed, *others)), path)


def test_what_is_trusted_is_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy, a changed file and a damaged one are not trusted; the store stays small."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    path = tmp_path / "a.cassette.jsonl"
    header = {"cassette": FORMAT, "provider": "p", "model": "m", "source": "recorded"}
    for number in range(5):
        path.write_text(json.dumps({**header, "model": f"m{number}"}) + "\n", encoding="utf-8")
        assert not is_trusted(path)
        trust_as_written(path)
        assert is_trusted(path)
    store = json.loads((tmp_path / "config/jupyter_agent_trust.json").read_text())
    assert [len(digests) for digests in store["trusted"]["cassette"].values()] == [1]
    copy, broken = tmp_path / "b.cassette.jsonl", tmp_path / "c.cassette.jsonl"
    shutil.copy(path, copy)
    broken.write_text("no cassette", encoding="utf-8")
    found = cassettes([path, copy, copy, broken, tmp_path / "gone.cassette.jsonl"])
    assert [one.name for one in found] == [copy.name]
    assert found[0].does.startswith("0 recorded replies")
    found[0].trust()
    assert is_trusted(copy)


def test_what_a_server_said_needs_no_question(tmp_path: Path) -> None:
    """The shipped example calls no server in a replay, asks nobody, and has the same bytes."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    book = json.loads((EXAMPLES / "08_mcp.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    with LiveKernel(tmp_path / "examples", {**ASK, "JUPYTER_AGENT_MODE": "replay"}) as kernel:
        for cell in cells:
            done = kernel.start("".join(cell["source"]), allow_stdin=True).finish()
            assert done.status == "ok", done.error
            saved = [out["data"] for out in cell["outputs"] if "data" in out]
            shown = [out["data"] for out in done.outputs if "data" in out]
            assert [out["text/plain"] for out in shown] == [
                "".join(out["text/plain"]) for out in saved
            ]
