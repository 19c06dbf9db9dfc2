"""Turns of several attempts in a real kernel: the values are compared, and one is taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from live_kernel import Json, LiveKernel, Turn, execute_code
from model_server import Call, ModelServer, Reply, failed

from jupyter_agent.stores.runs import read_run
from jupyter_agent.widgets.saved import plain_transcript

MINE = "rows = [3, 1, 2]\nrate = 2\ndef grow():\n    rows.append(9)\n    return len(rows)"
CASSETTE = "votes.cassette.jsonl"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("votes")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    yield
    kernel.helper("%agent config mode auto", "%agent config instructions auto")


def vote(kernel: LiveKernel, *codes: str, task: str = "What is it?") -> Turn:
    """A turn with an attempt for each code, whose answer has the attempt's number."""
    replies: list[Json] = []  # of all attempts
    for number, code in enumerate(codes, 1):
        replies += [execute_code(code), {"text": f"Answer {number}."}]
    kernel.script(task, *replies)
    logs = kernel.logs()
    cell = kernel.run(f"%%agent --samples {len(codes)}\n{task}")
    assert cell.status == "ok", cell.error
    return kernel.turn(cell, logs)


def test_the_majority_is_taken(kernel: LiveKernel) -> None:
    """Most values win, whatever their rounding: the attempt's names are the person's, as objects,
    its code and its words are the answer's; the others are in the transcript alone.
    """
    turn = vote(
        kernel,
        "wrong = [len(rows)]\nhelp_1 = 1\nwrong[0] - 0.7",
        "made = object()\nruns = 1\nright = [0.1 + 0.2]\nfor i in right: pass\nright[0]",
        "other = 3\nprint(0.3)",
    )
    assert kernel.value("right, runs, str(_agent)") == ([0.30000000000000004], 1, "Answer 2.")
    names = ("wrong", "help_1", "other")
    assert kernel.value(f"[name for name in {names} if name in globals()]") == []
    assert kernel.value("_agent.values") == ("2.3", "0.30000000000000004", "0.3")
    assert kernel.value("[each.partition(' =')[0] for each in _agent.code]")[0] == "made"
    assert not kernel.value("any('wrong' in code or 'other' in code for code in _agent.code)")
    said = turn.cell.transcript
    assert "2 of 3 attempts agree on 0.30000000000000004; the other: 2.3." in said
    assert all(f"Attempt {n} of 3" in said for n in (1, 2, 3)), said
    assert [e["number"] for e in turn.events if e["type"] == "step_started"] == [1, 2, 3, 4, 5, 6]
    assert "Answer 1." in said and "Answer 2." not in said  # it is below
    view = read_run(max(kernel.logs())).view  # as a later kernel shows it
    assert "\n".join(plain_transcript(view).split("\n")[:-2]) == said
    cell = kernel.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    kernel.helper("del right, runs, made", payload["text"])
    assert kernel.value("right[0], runs") == (0.1 + 0.2, 1)


def test_the_conversation_goes_on_from_one_attempt(kernel: LiveKernel) -> None:
    """The next turn knows the attempt that was taken, and nothing of the others."""
    vote(kernel, "one = 1\none", "two = 2\ntwo", "2")
    with ModelServer([Reply(text="Hello.")]) as server:
        kernel.helper(
            "%agent config provider openai", f"%agent config api_base {server.openai_url}"
        )
        kernel.run("%%agent\nAnd now?")
        (body,) = server.bodies
    sent = str(body["messages"])
    assert "two = 2" in sent and "What it bound is the person's now: two." in sent
    assert "one = 1" not in sent and "Answer 3" not in sent
    assert "temperature" not in body and "seed" not in body


def test_an_attempt_that_spoils_variables(kernel: LiveKernel) -> None:
    """It loses against an intact one, though most agree with it, and what it did is put back: a
    change in place, what a function of the person's did, what `global` wrote.
    """
    turn = vote(
        kernel,
        "rows.append(4)\nlen(rows)",
        "grow()",
        "count = len(rows)\ncount",
    )
    assert kernel.value("rows, count, str(_agent)") == ([3, 1, 2], 3, "Answer 3.")
    assert "Only attempt 3 of 3 counts. 2 attempts changed your variables" in turn.cell.transcript
    assert "rows" not in kernel.value("_agent.variables")


def test_a_change_that_is_asked_for(kernel: LiveKernel) -> None:
    """Where all attempts change an object, as they should, it is changed once."""
    vote(kernel, "rows.append(4)\nrows", "rows.append(5)\nrows", "rows.append(5)\nrows")
    assert kernel.value("rows, _agent.values[1]") == ([3, 1, 2, 5], "[3, 1, 2, 5]")
    kernel.helper("%agent undo")
    assert kernel.value("rows") == [3, 1, 2]


def test_inputs_stay(kernel: LiveKernel) -> None:
    """A name that the task only reads stays the person's, and the code of the answer leaves it
    alone; one that it asks for is bound anew. One undo takes a turn's names back.
    """
    code = "rows = rows + [1]\ntotal = sum(rows)\ntotal"
    turn = vote(kernel, code, code, task="What is the sum of rows and 1?")
    assert kernel.value("rows, total") == ([3, 1, 2], 7)
    assert "All 2 attempts agree." in turn.cell.transcript
    kernel.helper("code = [str.__str__(each) for each in _agent.code]", "del total")
    kernel.helper("exec('\\n'.join(code))")
    assert kernel.value("rows, total") == ([3, 1, 2], 7)
    double = "rate = rate * 2\ntwice = rate\nrate"
    vote(kernel, double, double, task="Set rate to its double.")
    assert kernel.value("rate, twice") == (4, 4)
    kernel.helper("%agent undo")
    assert kernel.value("rate, 'twice' in globals()") == (2, False)


def test_functions_leave_scratch(kernel: LiveKernel) -> None:
    """A function sees the person's variables from then on; one that needs a class does not leave
    scratch, nor does the class, and the person is told.
    """
    code = (
        "factor = 10\n"
        "def scaled(x: int, by=2, *, more=1) -> int:\n    'Scales.'\n"
        "    return low(x) * by * more\n"
        "def low(x):\n    return factor * x\n"
        "class Point: pass\n"
        "def made():\n    return Point()\n"
        "scaled(1)"
    )
    turn = vote(kernel, code, code)
    kernel.helper("factor = 100")
    assert kernel.value("scaled(1), scaled(1, more=3), scaled.__doc__") == (200, 600, "Scales.")
    assert kernel.value("scaled.__annotations__ == {'x': int, 'return': int}") is True
    assert kernel.value("'Point' in globals() or 'made' in globals()") is False
    assert "Point (a class: its methods see the names of scratch)" in turn.cell.transcript
    assert "made (a function that uses `Point`" in turn.cell.transcript


def test_different_values_and_failures(kernel: LiveKernel) -> None:
    """The earliest of equally many is taken; failed attempts have no vote; if none succeeds the
    first one's words are shown and nothing is kept.
    """
    turn = vote(kernel, "a = 1\na", "b = '<b>2</b>'\nb", "c = 3\nc", "1 / 0")
    said = turn.cell.transcript
    assert "3 attempts, 3 different values: 1, <b>2</b>, 3. The first is taken." in said
    assert "1 attempt did not succeed." in said
    assert "<b>2</b>" not in turn.cell.displays[0]["text/html"]
    assert kernel.value("a, 'b' in globals(), _agent.values[3]") == (1, False, "")
    turn = vote(kernel, "z = 1\n1 / 0", "z = 2\n1 / 0")
    assert "None of 2 attempts succeeded." in turn.cell.transcript
    assert kernel.value("'z' in globals(), str(_agent)") == (False, "Answer 1.")


def test_tools_see_scratch(kernel: LiveKernel) -> None:
    """Within an attempt all code and tools see what it bound; exploring code gives the person only
    what it is told to keep, and a name that the attempt deletes stays the person's.
    """
    replies = [
        execute_code({"code": "noise = 1\nspare = 2", "scratch": True, "keep": ["spare"]}),
        execute_code("more = noise + spare\ndel rate"),
        {"calls": [{"name": "inspect_variable", "arguments": {"name": "more"}}]},
        execute_code("more, 'rate' in globals()"),
        {"text": "Three."},
    ]
    kernel.script("Try.", *replies, *replies)
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent --samples 2\nTry."), logs)
    assert not any(result.is_error for result in turn.results), turn.results
    assert [result.text for result in turn.results[3::4]] == ["(3, False)"] * 2
    assert kernel.value("more, spare, rate, 'noise' in globals()") == (3, 2, 2, False)


def test_nothing_else_is_changed(kernel: LiveKernel) -> None:
    """Files are neither written by tools nor by code, and the model reads why."""
    write = {"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}}
    kernel.script(
        "Save it.",
        {"calls": [write]},
        execute_code("open('new.txt', 'w').write('x')"),
        {"text": "No."},
        execute_code("1"),
        {"text": "One."},
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent --samples 2\nSave it."), logs)
    assert not (kernel.folder / "new.txt").exists()
    for result in turn.results[:2]:
        assert "compares several attempts" in result.text, result.text


def test_an_interrupt_in_the_second_attempt(kernel: LiveKernel) -> None:
    """It ends the turn: nothing is kept, and the conversation can go on."""

    def run(code: str) -> Reply:
        return Reply(calls=(Call("execute_code", json.dumps({"code": code})),))

    first, second = run("first = 1\nfirst"), run("rows.append(4)\nsecond = 2\nsecond")
    held = Reply(text=("So far: ", "2."), hold="2.")
    with ModelServer([first, Reply(text="One."), second, held, Reply(text="Hello.")]) as server:
        kernel.helper("%agent config provider openai", "%agent config model m")
        kernel.helper(f"%agent config api_base {server.openai_url}")
        running = kernel.start("%%agent --samples 3\nHow many?")
        running.await_that(lambda: len(server.bodies) == 4)
        kernel.interrupt()
        cell = running.finish()
        assert "Nothing of its attempts is kept." in cell.error
        assert kernel.value("rows, 'first' in globals()") == ([3, 1, 2], False)
        assert kernel.run("%%agent\nGo on.").status == "ok"
        sent = str(server.bodies[-1]["messages"])
    assert "The person interrupted the turn here" in sent and "second = 2" not in sent


def test_record_and_replay(kernel: LiveKernel) -> None:
    """Attempts with equal requests are replayed in their order, to the same bytes."""
    kernel.helper(f"%agent cassette {CASSETTE}", "%agent config mode record")
    vote(kernel, "x = 1\nx", "x = 2\nx", "x = 2\nx")
    assert (kernel.folder / CASSETTE).exists()
    shown = {}
    for mode in ("record", "replay", "cached"):
        kernel.helper("%agent reset", f"%agent config mode {mode}", "globals().pop('x', None)")
        if mode == "record":
            shown[mode] = vote(kernel, "x = 1\nx", "x = 2\nx", "x = 2\nx").cell
        else:
            kernel.helper("%agent config provider scripted")
            shown[mode] = kernel.run("%%agent --samples 3\nWhat is it?")
        assert kernel.value("x, str(_agent)") == (2, "Answer 2.")
    assert shown["replay"].displays == shown["record"].displays == shown["cached"].displays
    assert "2 of 3 attempts agree on 2; the other: 1." in shown["replay"].transcript
    recorded = (kernel.folder / CASSETTE).read_bytes()
    kernel.helper("%agent config mode record")
    kernel.script("Once.", execute_code("1"), {"text": "One."})
    cell = kernel.run("%%agent --samples 2\nOnce.")
    assert "Only attempt 1 of 2 counts. 1 attempt did not succeed." in cell.transcript
    assert (kernel.folder / CASSETTE).read_bytes() == recorded
    shutil.move(kernel.folder / CASSETTE, kernel.folder / "done.jsonl")


def test_a_small_model_is_drawn_differently(kernel: LiveKernel) -> None:
    """The first attempt is the likeliest reply, the others have a temperature and a seed; one that
    the server fails leaves the vote to the others.
    """
    kernel.helper("%agent config tool_protocol code", "%agent config instructions short")
    kernel.helper("%agent config model m", "%agent config provider openai")
    kernel.helper("%agent config retry.enabled false")

    def block(code: str) -> Reply:
        return Reply(text=f"```python\n{code}\n```")

    replies = [block("rate + 1"), block("rate * 2"), failed(400, "no"), block("half = rate * 2")]
    with ModelServer(replies) as server:
        kernel.helper(f"%agent config api_base {server.openai_url}")
        cell = kernel.run("%%agent --samples 4\nTwice the rate?")
        bodies = server.bodies
    assert cell.status == "ok", cell.error
    drawn = [(body.get("temperature"), body.get("seed")) for body in bodies]
    assert drawn == [(0, None), (0.8, 1), (0.8, 2), (0.8, 3)]
    assert len({str(body["messages"]) for body in bodies}) == 1
    assert kernel.value("str(_agent)") == "4"
    assert "2 of 4 attempts agree on 4; the other: 3. 1 attempt did not succeed." in cell.transcript
    assert kernel.value("'half' in globals()") is False
