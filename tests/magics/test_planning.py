"""`%%agent --plan` and `%agent go` in a real kernel: nothing changes, then the plan is done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Cell, Json, LiveKernel, execute_code

from jupyter_agent.session.options import CARRY_OUT, GO_ON

ASK = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}
CASSETTE = "plan.cassette.jsonl"
MINE = "def leave(path):\n    open(path, 'w').write('made')\n    return path\n"
"""A function of the person's, whose effect no look at the agent's code shows."""
GIVEN = f"x, frame, keep = [1], {{'a': 1}}, 'mine'\n{MINE}"
COMPUTES = "import json as j\nx.append(2)\nframe = None\nmade = _hidden = len(x)\nprint(made)"
TRIES = "try:\n    leave('hidden.txt')\nexcept PermissionError as error:\n    print(error)"
PLAN: Json = {
    "calls": [
        {
            "name": "update_plan",
            "arguments": {"items": [{"text": "Write x to out.txt."}, {"text": "Check it."}]},
        }
    ]
}
WRITES = {"calls": [{"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}}]}
NOTES = {"calls": [{"name": "record_note", "arguments": {"content": "c"}}]}
REFUSED = "this turn only plans and changes nothing"
TO_GO = "This is a plan. To carry it out: %agent go"
DOES = execute_code("open('out.txt', 'w').write(str(x)); done = True")


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("planning"), ASK) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%agent reset", "globals().pop('done', None)", *GIVEN.splitlines())
    yield
    kernel.helper("%agent config mode live", "%agent config undo.enabled true")
    for path in kernel.folder.glob("*.txt"):
        path.unlink()


def plan(kernel: LiveKernel, *replies: Json, line: str = "") -> Cell:
    """A turn that plans."""
    kernel.script("Keep x.", *replies, PLAN, {"text": "First I write x, then I check it."})
    cell = kernel.run(f"%%agent --plan {line}\nKeep x.")
    assert cell.status == "ok", cell.error
    return cell


def go(kernel: LiveKernel, line: str = "%agent go", *replies: Json) -> Cell:
    kernel.script(CARRY_OUT, *(replies or (DOES,)), {"text": "Done."})
    return kernel.run(line)


def files(kernel: LiveKernel) -> set[str]:
    return {path.name for path in kernel.folder.glob("*.txt")}


def state(kernel: LiveKernel) -> object:
    names = ("j", "made", "_hidden", "keep")
    return kernel.value(f"x, frame, [n for n in {names} if n in globals()]")


UNCHANGED = ([1], {"a": 1}, ["keep"])


@pytest.mark.parametrize("undo", ["true", "false"])
def test_a_plan_changes_nothing(kernel: LiveKernel, undo: str) -> None:
    """Code computes, and its names are put back, with undo and without; the plan is shown, and
    `%agent go` is offered as the next cell.
    """
    kernel.helper(f"%agent config undo.enabled {undo}")
    logs = kernel.logs()
    turn = kernel.turn(plan(kernel, execute_code(COMPUTES)), logs)
    assert turn.results[0].text == "2"
    assert state(kernel) == UNCHANGED
    assert "○ Write x to out.txt." in turn.cell.transcript and TO_GO in turn.cell.transcript
    assert "Changed:" not in turn.cell.transcript
    assert turn.cell.reply["payload"][0]["text"] == "%agent go"
    assert kernel.value("_agent.receipt.variables") == ()


def test_what_would_change_something_is_refused(kernel: LiveKernel) -> None:
    """Tools that write are refused, and so are side effects of code, whether the code shows them
    or not and whatever the mode allows; what was allowed for the session does not count.
    """
    hidden = execute_code("import tempfile\nprint(leave(tempfile.mktemp()))\nleave('hidden.txt')")
    shown = execute_code("open('shown.txt', 'w').write('x')"), execute_code("!touch shell.txt")
    for mode in ("ask_risky", "auto"):
        logs = kernel.logs()
        cell = plan(kernel, WRITES, NOTES, *shown, hidden, line=f"--fresh --approve {mode}")
        *refused, code, _ = kernel.turn(cell, logs).results
        assert [each.state for each in refused] == ["refused"] * 4
        assert all(REFUSED in each.text and "\n" not in each.text for each in refused)
        assert "PermissionError" in code.text and REFUSED in code.text.casefold()
        assert files(kernel) == set()
        assert "Refused: " in cell.transcript and "hidden.txt" in cell.transcript


def test_no_process_outlives_a_plan(kernel: LiveKernel) -> None:
    """A process of `multiprocessing`, which no turn is asked about, is refused in one that plans;
    temporary files are made without a question.
    """
    forks = "import multiprocessing, time\ncontext = multiprocessing.get_context('fork')\n"
    forks += "context.Process(target=time.sleep, args=(600,)).start()"
    draft = "import tempfile\nwith tempfile.NamedTemporaryFile() as f: print(f.write(b'x'))"
    logs = kernel.logs()
    refused, drafted, _ = kernel.turn(
        plan(kernel, execute_code(forks), execute_code(draft)), logs
    ).results
    assert "PermissionError" in refused.text and REFUSED in refused.text.casefold()
    assert drafted.text == "1"
    assert kernel.value("__import__('multiprocessing').active_children()") == []


def test_what_cannot_be_put_back_is_named(kernel: LiveKernel) -> None:
    """An object without a copy, a generator, and a database that a function of the person's
    changes unseen; undo takes the file back.
    """
    kernel.helper(
        "import sqlite3",
        "class Box: pass",
        "box, steps = Box(), iter([1])",
        "def query(text):",
        "    with sqlite3.connect('mine.db') as base: base.execute(text)",
        "    base.close()",
        "query('create table t (a)')",
    )
    before = (kernel.folder / "mine.db").read_bytes()
    cell = plan(
        kernel, execute_code("box.a = next(steps)\nquery(f'in{\"sert\"} into t values (1)')")
    )
    assert "box: cannot be restored, since it was changed in place" in cell.transcript
    assert "steps (list_iterator): not checked for changes inside" in cell.transcript
    assert "Changed although this turn only plans: mine.db. To take it back" in cell.transcript
    kernel.helper("%agent undo")
    assert (kernel.folder / "mine.db").read_bytes() == before


def test_the_plan_is_carried_out(kernel: LiveKernel) -> None:
    """`%agent go` runs the plan with the usual permissions, once; undo takes it back, and the turn
    before the plan, too.
    """
    kernel.agent("before = 1\nx.append(5)")
    plan(kernel, execute_code(COMPUTES))
    answer = go(kernel, "%agent go --into result")
    assert answer.status == "ok", answer.error
    assert kernel.value("str(result), done, x") == ("Done.", True, [1, 5])
    assert (kernel.folder / "out.txt").read_text(encoding="utf-8") == "[1, 5]"
    again = kernel.run("%agent go").error
    assert again.startswith("ConfigError: %agent go: no plan waits") and "\n" not in again
    said = kernel.run("%agent undo 3").said
    assert "left as it is" not in said
    assert kernel.value("x, [n for n in ('done', 'before') if n in globals()]") == ([1], [])
    assert files(kernel) == set()


def test_the_model_is_told(kernel: LiveKernel) -> None:
    """Each of the two turns says to the model what it is for, also after a turn that got no reply;
    an ordinary task after that is none of them.
    """
    kernel.script("Another task.", {"text": "Done."})
    assert kernel.run("%%agent --plan\nKeep x.").status == "error"  # the script has no such task
    kernel.run("%%agent\nAnother task.")
    plan(kernel)
    go(kernel)
    kernel.helper("from jupyter_agent.session.registry import sessions_of")
    texts = kernel.value(
        "[[b.text.split('.')[0] for b in m.blocks if b.type == 'context' and b.text[0] == '(']"
        " for m in sessions_of(get_ipython())['default'].history if m.role == 'user'"
        " and m.blocks[0].type == 'text']"
    )
    assert texts == [
        [],
        ["(This turn only plans"],
        ["(The person starts your plan: carry it out now, and keep its list up to date"],
    ]


def test_a_plan_that_was_broken_off_stays_one(kernel: LiveKernel) -> None:
    """`%agent resume` of a turn that only planned changes nothing, either."""
    kernel.script("Keep x.", execute_code(COMPUTES))
    assert kernel.run("%%agent --plan\nKeep x.").status == "error"
    assert state(kernel) == UNCHANGED
    assert "no plan waits" in kernel.run("%agent go").error
    kernel.script(GO_ON, WRITES, PLAN, {"text": "This I would do."})
    cell = kernel.run("%agent resume")
    assert files(kernel) == set() and TO_GO in cell.transcript


def test_go_after_a_restart(tmp_path: Path) -> None:
    """The plan is kept with the conversation: another kernel of the notebook carries it out."""
    with LiveKernel(tmp_path, ASK) as kernel:
        kernel.load()
        kernel.helper(*GIVEN.splitlines())
        plan(kernel)
        kernel.restart()
        kernel.helper("x = [7]")
        cell = go(kernel)
        assert cell.status == "ok", cell.error
        assert "is back" in cell.stdout
        assert (kernel.folder / "out.txt").read_text(encoding="utf-8") == "[7]"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%agent go", "no plan waits in this conversation. Make one first: %%agent --plan"),
        ("%agent go --plan", "it takes neither --plan nor --fresh"),
        ("%agent go now", "%agent go: unexpected 'now'"),
        ("%%capture\n%agent go", "cannot run inside another magic"),
    ],
)
def test_nothing_to_carry_out(kernel: LiveKernel, line: str, words: str) -> None:
    """Without a plan, or with words that mean something else, one line says so."""
    kernel.agent("1")
    assert words in kernel.run(line).error


def test_recorded_and_replayed(kernel: LiveKernel, tmp_path: Path) -> None:
    """Plan and go are two turns of a cassette, and a replay of both has the same bytes."""
    kernel.helper(f"%agent cassette {CASSETTE}", "%agent config mode record")
    (kernel.folder / "out.txt").unlink(missing_ok=True)
    recorded = [
        plan(kernel, execute_code(COMPUTES), WRITES, execute_code(TRIES)),
        go(kernel),
    ]
    shutil.copy(kernel.folder / CASSETTE, tmp_path)
    with LiveKernel(tmp_path, {**ASK, "JUPYTER_AGENT_MODE": "replay"}) as other:
        other.load(f"cassette {CASSETTE}")
        other.helper(*GIVEN.splitlines())
        replayed = [other.run("%%agent --plan\nKeep x."), other.run("%agent go")]
        assert [cell.error for cell in replayed] == ["", ""]
        assert not any(cell.reply["payload"] for cell in replayed)
        assert state(other) == UNCHANGED
    for again, first in zip(replayed, recorded, strict=True):
        assert _bytes(again) == _bytes(first)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "[1]"
    assert not (tmp_path / "new.txt").exists() and not (tmp_path / "hidden.txt").exists()


def _bytes(cell: Cell) -> str:
    outputs = json.loads(json.dumps(cell.outputs))
    for output in outputs:
        output.pop("transient", None)  # it is in no notebook
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return json.dumps(outputs)
