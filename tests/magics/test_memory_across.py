"""Memory across workspaces in a real kernel: asked for, shared, forbidden, replayed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from live_kernel import Cell, Json, LiveKernel

from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.cassette import save as save_cassette

SESSION = "get_ipython().agent_sessions['default']"
OUT = "saves to your own memory from this workspace"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("first")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture
def desk(kernel: LiveKernel, tmp_path: Path) -> LiveKernel:
    """The kernel in a new workspace; Jupyter's data folder stays, and with it the own memory."""
    folder = tmp_path / "work"
    folder.mkdir()
    kernel.begin_anew(folder)
    kernel.helper("%agent config display static")
    return kernel


def call(name: str, /, **arguments: object) -> Json:
    return {"calls": [{"name": name, "arguments": arguments}]}


def save(title: str, **more: object) -> Json:
    words = {"content": f"What is known of {title}.", **more}
    return call("memory_save", type="lesson", title=title, **words)


def asked(kernel: LiveKernel, task: str, *steps: Json, typed: str = "") -> tuple[Cell, list[str]]:
    """A turn at whose questions somebody types the letters of `typed`; its cell, its prompts."""
    kernel.script(task, *steps, {"text": "Done."})
    running = kernel.start(f"%%agent\n{task}", allow_stdin=True)
    prompts = []
    for letter in typed:
        prompts.append(running.question(60))
        running.type(letter)
    return running.finish(60), prompts


def results(kernel: LiveKernel) -> list[str]:
    """What the tools of the session said to the model, in order."""
    found: list[str] = kernel.value(
        f"[b.content[0].text for m in {SESSION}.history for b in m.tool_results]"
    )
    return found


def own(kernel: LiveKernel) -> str:
    """All that is written in the person's own memory."""
    home = Path(kernel.value("__import__('os').environ['JUPYTER_DATA_DIR']"))
    return "".join(path.read_text(encoding="utf-8") for path in home.rglob("*.md"))


def test_nobody_is_asked(desk: LiveKernel) -> None:
    """Where nobody is there nothing leaves the workspace, in any mode; searching needs nobody."""
    before = own(desk)
    for mode in ("auto", "ask_risky", "ask_all", "read_only"):
        desk.helper(f"%agent config approvals.mode {mode}")
        desk.script(mode, save("Nobody"), call("memory_search", query="Nobody"), {"text": "No."})
        desk.run(f"%%agent --fresh\n{mode}")
        refused, found = results(desk)
        assert "efused" in refused and "beforehand" not in refused, refused
        assert "Nothing was found" in found or mode == "ask_all"
    assert own(desk) == before


@pytest.mark.parametrize(
    ("mode", "typed"), [("auto", "y"), ("ask_risky", "yny"), ("ask_risky", "a"), ("ask_all", "a")]
)
def test_it_is_asked_once(desk: LiveKernel, mode: str, typed: str) -> None:
    """In mode auto a yes stands for the session, else for one call; "always" for the workspace in
    this session. A no saves nothing."""
    desk.helper(f"%agent config approvals.mode {mode}")
    titles = [f"{word} {mode}{len(typed)}" for word in ("Quarry", "Meadow", "Harbour")]
    cell, prompts = asked(desk, f"{mode} {typed}", *map(save, titles), typed=typed)
    assert cell.status == "ok" and len(prompts) == len(typed)
    assert "Keep this in your own memory" in prompts[0]
    assert (
        "where your other workspaces find it" in str(cell.outputs) + prompts[0] or mode == "ask_all"
    )
    # In auto "y" and in the other modes "a" stand for the calls that nobody was asked about.
    answers = dict(zip(titles, typed, strict=False))
    for title in titles:
        assert (f"] {title}\n" in own(desk)) == (answers.get(title) != "n"), title
    asks_again = mode == "ask_risky" and typed == "yny"
    _, prompts = asked(desk, "Again.", save(f"Later {titles[0]}"), typed="n" if asks_again else "")
    assert bool(prompts) == asks_again


def test_another_workspace_finds_it(desk: LiveKernel, tmp_path: Path) -> None:
    """What one workspace keeps is found in the next one by its questions, and whole by its id; the
    person lists, reads, copies and forgets entries by commands."""
    cell, _ = asked(
        desk,
        "Keep it.",
        save("Lighthouse gauges", questions=["why do the lamps flicker?"]),
        typed="y",
    )
    assert "Lighthouse gauges saved as a lesson" in cell.transcript
    (tmp_path / "other").mkdir()
    desk.begin_anew(tmp_path / "other")
    asked(
        desk,
        "Find it.",
        call("memory_search", query="lamps that flicker"),
        call(
            "workspace_save_memory",
            scope={"workspace": "harbour"},
            type="lesson",
            title="Lighthouse gauges",
            content="Here they are right.",
        ),
        call("memory_search", query="lighthouse gauges"),
    )
    found, local, both = results(desk)
    assert "workspace: work" in found and "flicker" not in found
    assert "side_by_side" in both and "kept_in: this workspace" in both and "harbour" in both
    kept = found.partition("document_id: ")[2].split()[0]
    asked(desk, "Read it.", call("memory_get", document_ids=[kept]))
    assert "What is known of Lighthouse gauges." in results(desk)[-1]

    assert kept in desk.run("%agent memory mine").said
    assert "Answers: why do the lamps flicker?" in desk.run(f"%agent memory entry {kept}").said
    shown = desk.run("%agent memory search lighthouse").said
    assert "Your own memory:" in shown and "from different workspaces" in shown
    here = local.partition("document_id: ")[2].rstrip(")")
    assert "Kept as" in desk.run(f"%agent memory keep harbour {here}").said
    assert "has it already" in desk.run(f"%agent memory keep harbour {here}").said
    assert "harbour; agent, workspace other" in desk.run("%agent memory mine harbour").said
    assert "Deleted: Lighthouse gauges" in desk.run(f"%agent memory forget {here}").said
    gone = desk.run(f"%agent memory forget {here}")
    assert "no entry" in gone.error and "\n" not in gone.error
    assert "Here they are right" not in own(desk) and "Lighthouse gauges" in own(desk)
    assert "Lighthouse" in desk.run("%agent memory show harbour").said


def test_a_workspace_forbids_it(desk: LiveKernel) -> None:
    """A folder's own setting takes the tools and commands away, and a change in the midst of a
    session refuses; what the person forbids, no folder allows."""
    asked(desk, "First.", save("Secret garden"), typed="y")
    desk.helper("%agent config memory.across_workspaces read")
    desk.script("Now.", save("More"), call("memory_search", query="garden"), {"text": "No."})
    desk.run("%%agent\nNow.")
    refused, found = results(desk)[-2:]
    assert "memory.across_workspaces is read" in refused and "Secret garden" in found
    assert "is read" in desk.run("%agent memory keep a b").error
    desk.begin_anew(desk.folder)
    state = desk.folder / ".jupyter_agent"
    state.mkdir(exist_ok=True)
    (state / "config.yaml").write_text("memory: {across_workspaces: 'off'}\n", encoding="utf-8")
    assert "memory_" not in desk.run("%agent tools").said.replace("_memory", "")
    assert "is off" in desk.run("%agent memory mine").error
    assert "Your own memory:" not in desk.run("%agent memory search garden").said
    config = Path(desk.value("__import__('os').environ['JUPYTER_CONFIG_DIR']"))
    (config / "jupyter_agent.yaml").write_text(
        "memory: {across_workspaces: 'off'}\n", encoding="utf-8"
    )
    (state / "config.yaml").write_text("memory: {across_workspaces: 'on'}\n", encoding="utf-8")
    desk.begin_anew(desk.folder)
    desk.helper("%agent trust")
    assert "is off" in desk.run("%agent memory mine").error
    (config / "jupyter_agent.yaml").unlink()


def test_a_replay_saves_and_reads_nothing(tmp_path: Path) -> None:
    """A replay shows what was recorded, asks nobody, and neither reads nor changes the own memory
    of whoever replays it."""
    outputs = []
    for name, mode in (("author", "record"), ("reader", "replay")):
        folder = tmp_path / name
        folder.mkdir()
        with LiveKernel(folder) as kernel:
            kernel.load(f'cassette "{tmp_path / "tape.jsonl"}"', "config display static")
            kernel.helper(f"%agent config mode {mode}")
            steps = (save("Orchard"), call("memory_search", query="orchard"))
            cell, _ = asked(kernel, "Keep it.", *steps, typed="y" if mode == "record" else "")
            outputs.append([output.get("data") for output in cell.outputs])
            assert ("Orchard" in own(kernel)) == (mode == "record")
            assert (folder / "own_data").exists() == (mode == "record")
    assert outputs[0] == outputs[1] and "Orchard" in str(outputs[0])


def test_a_cassette_with_a_yes_alone(tmp_path: Path) -> None:
    """A made-up recording, with a yes to a save and no result of it, saves nothing where nobody is
    there, and asks nobody."""
    tape = tmp_path / "tape.jsonl"
    with LiveKernel(tmp_path) as kernel:
        kernel.load(f'cassette "{tape}"', "config display static", "config mode record")
        asked(kernel, "Keep it.", save("Orchard"), typed="y")
    shutil.rmtree(tmp_path / "own_data")
    cassette = load(tape)
    steps = [replace(step, results=()) for step in cassette.turns[0].steps]
    kept = steps[0].decisions[0].answer
    made_up = replace(cassette, turns=(replace(cassette.turns[0], steps=tuple(steps)),))
    save_cassette(made_up, tape)
    with LiveKernel(tmp_path) as kernel:
        kernel.load(f'cassette "{tape}"', "config mode replay")
        cell = kernel.run("%%agent\nKeep it.")
    assert kept == "yes" and "has no result in the recording" in str(cell.outputs)
    assert not (tmp_path / "own_data").exists()
