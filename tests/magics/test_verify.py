"""`%%agent --verify` in a real kernel: a delegate computes the answer's numbers anew."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel
from model_server import Call, Fault, ModelServer, Reply

from jupyter_agent.core.events import (
    VERIFY,
    Delegated,
    MessageFinished,
    StepStarted,
    ToolStarted,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, ToolCall, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.widgets.state import ViewState

MINE = "prices = [12.5, 15.25, 9, 31]\nshops = {'north': 395, 'south': 230}"
TASK = "What is the mean of `prices`, and how much did the shops sell?"
ANSWER = "The mean is **16.94** over 4 prices. The shops sold 625, the north 63.2 % of it."
CASSETTE = "verify.cassette.jsonl"
CHECK = "Compute the quantities of a text anew"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("verify")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    yield
    kernel.helper("%agent config mode auto")


def act(code: str) -> Reply:
    return Reply(calls=(Call("execute_code", json.dumps({"code": code})),))


def told(body: Json) -> str:
    """The first message of a request's user, as text."""
    return str(next(each["content"] for each in body["messages"] if each["role"] == "user"))


def served(main: list[Reply], check: list[Reply]) -> Callable[[Json], Reply]:
    """A model server's script: the replies of the turn, and those of the delegate that checks."""

    def reply(body: Json) -> Reply:
        last = [each for each in body["messages"] if each["role"] == "user"]
        replies = check if any(CHECK in str(each["content"]) for each in last[:1]) else main
        return replies[sum(each["role"] == "assistant" for each in body["messages"])]

    return reply


def use(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper("%agent config provider openai", f"%agent config api_base {server.openai_url}")


MAIN = [
    act("mean = sum(prices) / len(prices)\nsold = sum(shops.values())\nprint(mean, len(prices))"),
    act("share = shops['north'] / sold\nshops['north'] = 0\nprices.sort()\nprint(sold, share)"),
    Reply(text=ANSWER),
]


def recompute(code: str) -> list[Reply]:
    return [act(code), Reply(text="Done, with the plain mean.")]


RIGHT = recompute(
    "assert 'mean' not in globals() and 'sold' not in globals()\n"
    "assert shops['north'] == 395 and prices == [12.5, 15.25, 9, 31]\n"
    "total = sum(shops.values())\n"
    "prices.append(0)\n"
    "recomputed = {'q1': sum(prices) / (len(prices) - 1), 'q2': len(prices) - 1,\n"
    "              'q3': total, 'q4': shops['north'] / total}"
)


def test_agreement_is_told_by_number(kernel: LiveKernel) -> None:
    """The delegate reads the task, the names of its inputs and the answer without numbers; its
    names are those of before the turn, and what it does to them is its own. Each number is told
    beneath the transcript, in all forms, and tokens are counted once.
    """
    with ModelServer(served(MAIN, RIGHT)) as server:
        use(kernel, server)
        cell = kernel.run(f"%%agent --verify\n{TASK}")
        asked = [told(each.body) for each in server.requests if CHECK in told(each.body)]
        calls = len(server.requests)
    assert cell.status == "ok", cell.error
    first = asked[0]
    assert TASK in first and "`prices`, `shops`" in first
    assert "The mean is **[q1]** over [q2] prices" in first and "[q4] % of it" in first
    assert not any(each in first for each in ("16.94", "625", "63.2", "sum(prices)"))
    for kind in ("text/plain", "text/html", "text/markdown"):
        shown = cell.displays[0][kind]
        assert "A delegate computed the numbers anew: 4 of 4 agree." in shown, kind
    assert "Agree: 16.94 (16.9375) · 4 (4) · 625 (625) · 63.2 % (0.632)" in cell.transcript
    assert "✓ verify → 2 steps · 30 tokens" in cell.transcript
    assert "Done, with the plain mean." in cell.transcript
    assert kernel.value("shops['north'], prices") == (0, [9, 12.5, 15.25, 31])
    assert kernel.value("[n for n in ('recomputed', 'total') if n in globals()]") == []
    assert kernel.value("[c.outcome for c in _agent.checks]") == ["agrees"] * 4
    assert kernel.value("_agent.usage.total_tokens") == 15 * calls == 75
    receipt = kernel.value("[(n.text, n.seen, n.step) for n in _agent.receipt.numbers]")
    assert receipt == [("16.94", "output", 1), ("625", "output", 2), ("63.2 %", "output", 2)]
    listed = kernel.helper("%agent agents").said
    assert "Compute the numbers of the answer anew." in listed, listed
    assert "Delegate 1" in listed, listed


def test_disagreement_is_told_by_number(kernel: LiveKernel) -> None:
    """Another number, the other sign, and none at all are told apart, each with what came out."""
    other = recompute("recomputed = {'q1': 16.9, 'q2': -4, 'q3': None, 'q4': 63.24}")
    with ModelServer(served(MAIN, other)) as server:
        use(kernel, server)
        cell = kernel.run(f"%%agent --verify\n{TASK}")
    assert "computed the numbers anew: 1 of 4 agree." in cell.transcript
    disagree = "Disagree: 16.94, recomputed 16.9 · 4, recomputed -4 (the other sign)"
    assert disagree in cell.transcript
    assert "Agree: 63.2 % (63.24)" in cell.transcript and "Not recomputed: 625" in cell.transcript


@pytest.mark.parametrize(
    ("line", "main", "check", "why"),
    [
        ("", [Reply(text="It is fine.")], [], "the answer has no number to compute anew"),
        (
            "tools.enable_code false true",
            [Reply(text="It is 16.94.")],
            [],
            "no code can run (tools.enable_code is false)",
        ),
        ("", MAIN, [Reply(text="I could not.")], "the delegate computed nothing"),
        ("", MAIN, recompute("recomputed = {'q9': 1}"), "could compute none of 4 numbers"),
        ("", MAIN, recompute("recomputed = {'q1': True, 'q2': '4'}"), "compute none of 4 numbers"),
        (
            "budget.tokens 40 none",
            MAIN,
            [],
            "the budget of 40 tokens is used up",
        ),
        (
            "budget.tokens 55 none",
            MAIN,
            [act("recomputed = {'q1': 16.94}"), act("1"), act("2")],
            "the delegate did not finish (budget): The budget of 10 tokens is used up",
        ),
        (
            "retry.max_retries 0 3",
            MAIN,
            [Reply(fault=Fault("status", 500, "broken"))],
            "the delegate failed: ",
        ),
    ],
)
def test_what_was_not_verified_is_said(
    kernel: LiveKernel, line: str, main: list[Reply], check: list[Reply], why: str
) -> None:
    """Nothing to compute, no code, no result, no budget, a failure: said plainly, and the answer
    stays; none of it passes for agreement."""
    key, value, default = line.split() if line else ("max_steps", "50", "50")
    kernel.helper(f"%agent config {key} {value}")
    try:
        with ModelServer(served(main, check)) as server:
            use(kernel, server)
            cell = kernel.run(f"%%agent --verify\n{TASK}")
    finally:
        kernel.helper(f"%agent config {key} {default}")
    assert cell.status == "ok", cell.error
    assert f"Not verified: {why}" in cell.transcript or (
        "Not verified: " in cell.transcript and why in cell.transcript
    ), cell.transcript
    assert "agree" not in cell.transcript.split("Not verified")[1].lower()
    assert kernel.value("str(_agent)") == main[-1].pieces[0]
    assert kernel.value("{c.outcome for c in _agent.checks} - {'not_computed'}") == set()


def test_a_check_changes_nothing(kernel: LiveKernel) -> None:
    """Calls of the delegate that would write are refused whatever the mode, and it has no tool that
    remembers, asks or delegates."""
    (kernel.folder / "kept.txt").touch()
    tries = [
        act("open('made.txt', 'w').write('x')"),
        act("import os\nname = 'ma' + 'de.txt'\nopen(name, 'w').write('x')"),
        act("import os\nvars(os)['re' + 'move']('kept.txt')"),  # seen only as it happens
        Reply(calls=(Call("write_file", json.dumps({"path": "made.txt", "content": "x"})),)),
        *RIGHT,
    ]
    with ModelServer(served(MAIN, tries)) as server:
        use(kernel, server)
        cell = kernel.run(f"%%agent --verify\n{TASK}")
        last = server.requests[-1].body
    assert "4 of 4 agree" in cell.transcript and not (kernel.folder / "made.txt").exists()
    assert (kernel.folder / "kept.txt").exists()
    names = {each["function"]["name"] for each in last["tools"]}
    assert names == {
        *("execute_code", "inspect_variable", "read_file"),
        *("describe_file", "list_files", "search_files"),
    }
    results = [each["content"] for each in last["messages"] if each["role"] == "tool"]
    refused = "ou check an answer and change nothing but your own variables"
    assert [refused in str(each) for each in results] == [True, True, True, False, False]


@pytest.mark.parametrize("is_computed", [True, False], ids=["computed", "failed"])
def test_what_may_not_be_as_before_is_told(kernel: LiveKernel, is_computed: bool) -> None:
    """An input whose changes inside nobody sees is named, and what the check itself changed,
    also if it computes nothing."""
    kernel.helper("class Box: pass\nbox, own = Box(), Box()\nbox.rows = [1, 2]")
    main = [act("box.rows.append(37)\nprint(sum(box.rows))"), Reply(text="The sum is 40.")]
    own = act("own.rows = 1\nrecomputed = {'q1': sum(box.rows)}")
    check = [own, Reply(text="Done.")] if is_computed else [act("own.rows = 1"), Reply(text="No.")]
    with ModelServer(served(main, check)) as server:
        use(kernel, server)
        cell = kernel.run("%%agent --verify\nWhat is the sum of the rows in `box`?")
    assert cell.status == "ok", cell.error
    assert "Not checked for changes inside: box (Box)." in cell.transcript
    assert "Changed in place by the check, and could not be put back: own." in cell.transcript
    assert ("1 of 1 agree" in cell.transcript) is is_computed


def test_a_replay_is_the_same_bytes(kernel: LiveKernel) -> None:
    """Recorded with its check, and replayed without a model: the same outputs. A recording without
    a check cannot verify, and says so by a mismatch."""
    (kernel.folder / CASSETTE).unlink(missing_ok=True)
    kernel.helper(f"%agent cassette {CASSETTE}", "%agent config mode record")
    with ModelServer(served(MAIN, RIGHT)) as server:
        use(kernel, server)
        recorded = kernel.run(f"%%agent --verify\n{TASK}")
    assert recorded.status == "ok", recorded.error
    assert "4 of 4 agree" in recorded.transcript
    text = (kernel.folder / CASSETTE).read_text("utf-8")
    assert text.count(f'"of": {json.dumps(TASK)}') == 1
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    kernel.helper("%agent config mode replay")
    replayed = kernel.run(f"%%agent --verify\n{TASK}")
    assert replayed.status == "ok", replayed.error
    assert replayed.displays == recorded.displays
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    plain = kernel.run(f"%%agent\n{TASK}")
    assert plain.status == "ok" and "agree" not in plain.transcript
    (kernel.folder / CASSETTE).unlink()
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    kernel.helper("%agent config mode record")
    with ModelServer(served(MAIN, [])) as server:
        use(kernel, server)
        kernel.run(f"%%agent\n{TASK}")
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    kernel.helper("%agent config mode replay")
    unrecorded = kernel.run(f"%%agent --verify\n{TASK}")
    assert "ReplayMismatch" in unrecorded.error and "agree" not in unrecorded.transcript


def test_a_check_in_mode_cached_and_proved(kernel: LiveKernel) -> None:
    """Cached: the second run asks no model. Proved: what varies is learned by a run of its own, and
    the replay stays the same."""
    (kernel.folder / CASSETTE).unlink(missing_ok=True)
    kernel.helper(f"%agent cassette {CASSETTE}", "%agent config mode cached")
    with ModelServer(served(MAIN, RIGHT)) as server:
        use(kernel, server)
        first = kernel.run(f"%%agent --verify\n{TASK}")
        assert len(server.requests) == 5
        kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
        second = kernel.run(f"%%agent --verify\n{TASK}")
        assert len(server.requests) == 5
    assert first.displays == second.displays and "4 of 4 agree" in second.transcript


def test_questions_of_a_check(kernel: LiveKernel) -> None:
    """Where every call is asked about, its calls are, with its name and its code."""
    with ModelServer(served(MAIN, RIGHT)) as server:
        use(kernel, server)
        running = kernel.start(f"%%agent --verify --approve ask_all\n{TASK}", allow_stdin=True)
        for _ in MAIN[:-1]:
            assert "The check" not in running.question()
            running.type("y")
        question = running.question()
        assert "(The check) Run this code?" in question and "recomputed = {'q1'" in question
        running.type("no")
        cell = running.finish()
    assert cell.status == "ok", cell.error
    assert "Not verified: the delegate computed nothing" in cell.transcript


def test_a_check_is_stopped_with_the_turn(kernel: LiveKernel) -> None:
    """Stop during the check: it is said, the answer and the tokens so far stay, and the next turn
    works."""
    stalled = [Reply(text="I beg", fault=Fault("stall", seconds=120))]
    with ModelServer(served(MAIN, stalled)) as server:
        use(kernel, server)
        running = kernel.start(f"%%agent --verify\n{TASK}")
        running.await_that(lambda: len(server.requests) == 4)
        kernel.interrupt()
        server.goes_on.set()
        cell = running.finish()
        assert "TurnInterrupted" in cell.error
        assert "Not verified: you stopped the check." in cell.transcript
        assert kernel.value("str(_agent), _agent.usage.total_tokens") == (ANSWER, 45)
        assert kernel.run("%%agent --fresh\nAgain.").status == "ok"


def test_the_check_is_seen_while_it_runs() -> None:
    """The live view has a card of the check below the answer, with what it does."""
    call = ToolCall("c1", "execute_code", '{"code": "sum(prices)"}')
    events = [
        TurnStarted("How many?", "openai", "m"),
        StepStarted(1, 50),
        MessageFinished(Message("assistant", (Text("They are 42."),)), Usage(7), "end"),
        *(
            Delegated(VERIFY, each)
            for each in (
                TurnStarted("Compute.", "openai", "m"),
                StepStarted(1, 50),
                MessageFinished(Message("assistant", (call,)), Usage(5), "tool_use"),
                ToolStarted(call),
            )
        ),
    ]
    view = functools.reduce(reduce, events, TurnView())
    assert view.answer == "They are 42." and view.usage == Usage(12)
    state = ViewState()
    state.update(view)
    first, second = state.state["steps"]
    assert first["text"] == "They are 42."
    (card,) = second["calls"]
    assert (card["name"], card["state"]) == ("verify", "running")
    assert card["delegate"]["now"] == "step 1: execute_code sum(prices)"


def test_files_are_named_as_inputs(kernel: LiveKernel) -> None:
    """Files that the turn read are named, a file that it made is named as not to be read."""
    (kernel.folder / "sales.csv").write_text("shop,sold\na,120\nb,88\n", encoding="utf-8")
    write = json.dumps({"path": "made.md", "content": "208"})
    main = [
        act("import csv\nrows = list(csv.DictReader(open('sales.csv')))\nprint(120 + 88)"),
        Reply(calls=(Call("write_file", write),)),
        Reply(text="They sold 208."),
    ]
    check = recompute("import csv\nlines = csv.DictReader(open('sales.csv'))\n"
                      "recomputed = {'q1': sum(int(each['sold']) for each in lines)}")  # fmt: skip
    with ModelServer(served(main, check)) as server:
        use(kernel, server)
        cell = kernel.run("%%agent --verify\nHow much was sold?")
        asked = next(told(each.body) for each in server.requests if CHECK in told(each.body))
    Path(kernel.folder / "made.md").unlink()
    assert "Files that are inputs: sales.csv." in asked
    assert "so do not read them: made.md." in asked
    assert "1 of 1 agree" in cell.transcript and "Agree: 208 (208)" in cell.transcript


def test_options_that_do_not_go_together(kernel: LiveKernel) -> None:
    """A plan has no answer, and several attempts are no single one: refused in one line."""
    plan = kernel.run("%%agent --verify --plan\nLook.")
    assert "--verify checks an answer, and --plan ends with a plan. Use one." in plan.error
    votes = kernel.run("%%agent --verify --samples 3\nLook.")
    assert "--verify checks one attempt, and --samples compares several" in votes.error
    kernel.helper("%agent config answers.samples 3")
    try:
        both = kernel.run("%%agent --verify\nLook.")
    finally:
        kernel.helper("%agent config answers.samples 1")
    assert "answers.samples compares 3. Switch one of them off." in both.error
