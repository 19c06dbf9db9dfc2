"""Trust in recordings goes by turn: a pull that changed harmless ones asks nobody anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml
from live_kernel import Cell, LiveKernel, execute_code

from jupyter_agent.core.messages import Message, Text
from jupyter_agent.recording import trusted
from jupyter_agent.recording.cassette import Decision, load, save

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "example_notebooks"
NAMES = sorted(path.stem for path in EXAMPLES.glob("[0-9]*.ipynb"))
CASSETTE = "talk.cassette.jsonl"
ASK = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky", "JUPYTER_AGENT_DISPLAY": "static"}
TASKS = {
    "clean up": [execute_code("!echo cleaned >> ran.txt"), {"text": "Cleaned."}],
    "count": [execute_code("birds = 3 * 7\nbirds"), {"text": "21 birds."}],
}


def run(kernel: LiveKernel, source: str, *typed: str) -> Cell:
    """Run a cell with a person in front of it, who types these answers and no more.

    Raises:
        TimeoutError: There was another question.
    """
    running = kernel.start(source, allow_stdin=True)
    for answer in typed:
        running.question()
        running.type(answer)
    return running.finish(120)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """The kernel of somebody who recorded a turn that asks, and one that does not."""
    folder = tmp_path_factory.mktemp("own")
    script = [{"task": task, "replies": replies} for task, replies in TASKS.items()]
    (folder / "script.yaml").write_text(yaml.safe_dump(script), encoding="utf-8")
    with LiveKernel(folder, ASK) as kernel:
        kernel.load(f"cassette {CASSETTE}", "config script script.yaml", "config mode record")
        run(kernel, "%%agent --fresh\nclean up", "y")
        run(kernel, "%%agent --fresh\ncount")
        kernel.helper("%agent config mode replay")
        yield kernel


def pull(path: Path, task: str, text: str) -> None:
    """Change a turn's answer as the recording of somebody else has it."""
    cassette = load(path)
    turns = []
    for turn in cassette.turns:
        *steps, last = turn.steps
        said = replace(last.reply, message=Message("assistant", (Text(text),)))
        changed = replace(turn, steps=(*steps, replace(last, reply=said)))
        turns.append(changed if turn.task == task else turn)
    save(replace(cassette, turns=tuple(turns)), path)


def test_a_pull_of_harmless_recordings_asks_nobody(own: LiveKernel) -> None:
    """After another turn was pulled, the own yes still counts, and harmless code just runs."""
    pull(own.folder / CASSETTE, "count", "Twenty-one birds.")
    assert run(own, "%%agent --fresh\nclean up").status == "ok"
    assert "Twenty-one" in str(run(own, "%%agent --fresh\ncount").outputs)
    assert (own.folder / "ran.txt").read_text(encoding="utf-8").split() == ["cleaned"] * 2
    assert "that are new here" in own.helper("%agent trust show").said


def test_a_pulled_turn_that_asks_is_asked_about(own: LiveKernel) -> None:
    """A yes in a turn that somebody else changed does not count, and those beside it do."""
    kept = (own.folder / CASSETTE).read_bytes()
    pull(own.folder / CASSETTE, "clean up", "Cleaned, they say.")
    assert "they say" in str(run(own, "%%agent --fresh\nclean up", "y").outputs)
    (own.folder / CASSETTE).write_bytes(kept)
    assert run(own, "%%agent --fresh\nclean up").status == "ok"


@pytest.mark.parametrize(
    "decisions",
    [
        (),
        (Decision(0, "", (), "no", "person"),),
        (Decision(0, "Run this code?", (), "yes", "person"),),
        (Decision(0, "Allow it?", (), "yes", "person", effect="process"),),
    ],
    ids=["none", "an empty no", "a yes", "a yes to an effect"],
)
def test_what_a_stranger_recorded_is_no_yes(
    own: LiveKernel, decisions: tuple[Decision, ...]
) -> None:
    """Whatever somebody else's recording says was decided, the person is asked."""
    path = own.folder / CASSETTE
    kept = path.read_bytes()
    cassette = load(path)
    turns = [
        replace(turn, steps=(replace(turn.steps[0], decisions=decisions), *turn.steps[1:]))
        if turn.task == "clean up"
        else turn
        for turn in cassette.turns
    ]
    save(replace(cassette, turns=tuple(turns)), path)
    before = (own.folder / "ran.txt").read_text()
    try:
        run(own, "%%agent --fresh\nclean up", "n")
    finally:
        path.write_bytes(kept)
    assert (own.folder / "ran.txt").read_text() == before


def test_an_editor_that_saves_the_same_file_asks_nothing(own: LiveKernel) -> None:
    """Written again with other line ends and with a blank line more, a recording is the same."""
    path = own.folder / CASSETTE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert run(own, "%%agent --fresh\nclean up").status == "ok"


def test_the_package_knows_its_examples() -> None:
    """The digests in the package are those of the example notebooks, as `make examples` wrote."""
    spec = spec_from_file_location("make_examples", ROOT / "scripts" / "make_examples.py")
    assert spec is not None and spec.loader is not None
    make_examples = module_from_spec(spec)
    spec.loader.exec_module(make_examples)
    known = Path(trusted.__file__).with_name(trusted.EXAMPLES)
    assert known.read_text(encoding="ascii") == make_examples.digests()


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_ask_nobody(tmp_path: Path, name: str) -> None:
    """A person opens a copy of an example without a key and runs all cells: no question comes."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns(".jupyter_agent", "scratch"))
    book = json.loads((folder / f"{name}.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    session = {"JPY_SESSION_NAME": str(folder / f"{name}.ipynb")}
    with LiveKernel(folder, {**ASK, **session}) as kernel:
        for source in sources:
            cell = run(kernel, source)
            assert cell.status == "ok" or "raises-exception" in str(book), cell.error
