"""The live view's state: what is sent brings the front end exactly up to date, and costs little."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from widgets.hostile import check_plain, strings

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delegated,
    Event,
    MessageFinished,
    Noticed,
    Preparing,
    Receipt,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Output, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.widgets.pace import INTERVAL, PATIENCE, is_due, whole_interval
from jupyter_agent.widgets.saved import running_line
from jupyter_agent.widgets.state import Operation, ViewState, difference, merged

IDS = st.sampled_from(["c1", "c2", "c3"])
WORDS = st.sampled_from(["", "a", "ab\n", "\x1b[31mred", "\ud800", "\u202ex", "<b>", "\r9 %"]) | (
    st.text(max_size=5)
)
PICTURES = st.sampled_from(["AA==", "A" * 3_000_001])
OUTPUTS = st.builds(
    Output,
    st.sampled_from(["stdout", "stderr", "result", "display", "error", "diff"]),
    st.fixed_dictionaries({}, optional={"text/plain": WORDS, "image/png": PICTURES}),
)
CALLS = st.builds(
    ToolCall,
    IDS,
    WORDS | st.sampled_from(["delegate", "execute_code"]),
    WORDS | st.sampled_from(["{}", '{"code": "x\\ny"}', '{"path": 3}']),
)
PLANS = st.lists(
    st.fixed_dictionaries(
        {"text": WORDS, "state": st.sampled_from(["pending", "in_progress", "done"])}
    ),
    max_size=3,
)
DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["failed", "refused", "interrupted", "not_run"]),
        "error_name": WORDS,
        "whereabouts": WORDS,
        "plan": PLANS,
    },
)
RESULTS = st.builds(
    ToolResult,
    IDS,
    st.tuples(st.builds(Text, WORDS)),
    st.booleans(),
    st.lists(OUTPUTS, max_size=2).map(tuple),
    DETAILS,
)
BLOCKS = st.lists(st.builds(Text, WORDS) | st.builds(Thinking, WORDS) | CALLS, max_size=4)
MESSAGES = st.builds(lambda blocks: Message("assistant", tuple(blocks)), BLOCKS)
USAGES = st.builds(Usage, st.integers(0, 99), st.integers(0, 99))
OWN_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStarted, WORDS, WORDS, WORDS),
    st.builds(StepStarted, st.integers(1, 9), st.just(9)),
    st.builds(TextDelta, WORDS),
    st.builds(ThinkingDelta, WORDS),
    st.builds(
        MessageFinished,
        MESSAGES,
        USAGES,
        st.sampled_from(["end", "tool_use", "max_tokens", "refused"]),
    ),
    st.builds(ToolStarted, CALLS),
    st.builds(ToolOutput, IDS, WORDS, WORDS),
    st.builds(ApprovalAsked, IDS, WORDS, st.tuples(WORDS), WORDS, st.tuples(OUTPUTS)),
    st.builds(
        ApprovalAnswered,
        IDS,
        st.sampled_from(["yes", "no", "always"]),
        st.sampled_from(["person", "time_out", "no_answer", "stopped", "nobody"]),
        WORDS,
    ),
    st.builds(Steered, WORDS),
    st.builds(ToolFinished, RESULTS, st.floats(0, 9)),
    st.builds(Retrying, WORDS, st.integers(1, 3), st.floats(0, 9)),
    st.builds(
        TurnFinished,
        st.sampled_from(["end", "step_limit", "budget", "interrupted", "refused", "error"]),
        USAGES,
        st.just(Receipt()),
        WORDS,
    ),
)
EVENTS = OWN_EVENTS | st.builds(Delegated, IDS, OWN_EVENTS)


def applied(state: Any, operations: list[Operation]) -> Any:
    """What `live.js` does with operations."""
    state = copy.deepcopy(state)
    for kind, path, value in copy.deepcopy(operations):
        target = state
        for key in path[:-1]:
            target = target[key]
        if kind == "set":
            target[path[-1]] = value
        elif kind == "append":
            target[path[-1]] += value
        else:
            assert kind == "push"
            target[path[-1]].append(value)
    return state


def view_of(*events: Event) -> TurnView:
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    return view


def size(operations: list[Operation]) -> int:
    return len(json.dumps(operations, ensure_ascii=False))


# ---------------------------------------------------------------- any turn


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=25), st.lists(WORDS, max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_the_front_end_has_what_the_kernel_has(
    events: list[tuple[Event, bool]], unread: list[str]
) -> None:
    """After any events, in any batches, both sides hold the same state."""
    picture, view = ViewState(), TurnView()
    front_end = copy.deepcopy(picture.state)
    for event, is_sent in [*events, (Steered(""), True)]:
        view = reduce(view, event)
        if is_sent:
            front_end = applied(front_end, merged(picture.update(view, tuple(unread))))
            assert front_end == picture.state
    fresh = ViewState()
    fresh.update(view, tuple(unread))
    if len(fresh.state["steps"]) == len(picture.state["steps"]):
        assert fresh.state == picture.state


@given(st.lists(EVENTS, max_size=25))
@settings(max_examples=examples(100), deadline=None)
def test_any_state_can_be_sent_and_read(events: list[Event]) -> None:
    """Any state is JSON and UTF-8, without control characters and pictures over the limit."""
    picture = ViewState()
    picture.update(view_of(*events))
    text = json.dumps(picture.state, allow_nan=False, ensure_ascii=False)
    assert len(text) < 1_000_000
    for each in strings(json.loads(text)):
        check_plain(each)


# ---------------------------------------------------------------- what it costs

START = (TurnStarted("Count.", "anthropic", "claude"), StepStarted(1, 5))
CALL = ToolCall("c1", "execute_code", '{"code": "x"}')
ASKS = (*START, MessageFinished(Message("assistant", (CALL,)), Usage(), "tool_use"))


@pytest.mark.parametrize("delta", [TextDelta, ThinkingDelta])
def test_a_token_costs_its_letters(delta: Any) -> None:
    """2,000 streamed tokens, sent at the pace of the live view, are at most 3 times their text."""
    picture, view = ViewState(), view_of(*START)
    picture.update(view)
    tokens = [f"word{n} " for n in range(2_000)]
    view = reduce(view, delta(tokens[0]))
    picture.update(view)
    sent, pending, since = 0, [], 0.0
    for token in tokens[1:]:
        view = reduce(view, delta(token))
        pending += picture.update(view)
        since += 0.01
        if is_due(pending, since):
            sent += len(json.dumps({"t": "patch", "n": 999, "ops": merged(pending)}))
            pending, since = [], 0.0
    assert sent <= 3 * len("".join(tokens))


def test_printed_text_costs_its_letters() -> None:
    """A printed line is appended to the earlier text."""
    view = view_of(*ASKS, ToolStarted(CALL), ToolOutput("c1", "1\n" * 1_000))
    picture = ViewState()
    picture.update(view)
    operations = picture.update(reduce(view, ToolOutput("c1", "2\n")))
    assert operations == [["append", ["steps", 0, "calls", 0, "outputs", 0, "text"], "2\n"]]


def test_steps_that_are_over_cost_nothing() -> None:
    """A word of step 20 is one operation, however much the steps before it hold."""
    steps: list[Event] = []
    for number in range(1, 20):
        steps += [StepStarted(number, 50), *ASKS[2:], ToolOutput("c1", "x" * 10_000)]
    view = view_of(*steps, StepStarted(20, 50), TextDelta("On"))
    picture = ViewState()
    picture.update(view)
    assert picture.update(view) == []
    operations = picture.update(reduce(view, TextDelta("ward")))
    assert operations == [["append", ["steps", 19, "text"], "ward"]]


@pytest.mark.parametrize("kind", ["stdout", "stderr", "result", "error", "diff"])
def test_ten_megabytes_of_output(kind: Any) -> None:
    """Run code that prints 10 MB: the live view gets a bounded part that says what is missing."""
    output = Output(kind, {"text/plain": "x" * 10_000_000})
    result = ToolResult("c1", (Text("ok"),), False, (output,))
    picture, view = ViewState(), view_of(*ASKS)
    picture.update(view)
    operations = picture.update(reduce(view, ToolFinished(result, 1.0)))
    assert size(operations) < 25_000 and "characters left out" in json.dumps(operations)


def test_ten_megabytes_of_arguments() -> None:
    """A call with 10 MB of arguments is shown in part, and so is what it printed so far."""
    call = ToolCall("c1", "execute_code", json.dumps({"code": "x\n" * 5_000_000}))
    message = MessageFinished(Message("assistant", (call,)), Usage(), "tool_use")
    picture = ViewState()
    operations = picture.update(view_of(*START, message, ToolOutput("c1", "y" * 10_000_000)))
    assert size(operations) < 60_000


@pytest.mark.parametrize(("length", "is_sent"), [(3_000_000, True), (3_000_001, False)])
def test_large_pictures(length: int, is_sent: bool) -> None:
    """A picture over the limit is replaced by its name and left to the saved form."""
    data = {"image/png": "A" * length, "text/plain": "<Figure size 640x480>"}
    result = ToolResult("c1", (Text("ok"),), False, (Output("display", data),))
    picture = ViewState()
    picture.update(view_of(*ASKS, ToolFinished(result, 1.0)))
    (shown,) = picture.state["steps"][0]["calls"][0]["outputs"]
    assert (shown["kind"] == "image") is is_sent
    assert is_sent or shown["text"] == "<Figure size 640x480>"


def test_a_question_is_there_while_it_is_open() -> None:
    """The buttons appear with the question and go with the answer; the decision stays."""
    asked = ApprovalAsked("c1", "Run this?", ("network",), "network")
    picture, view = ViewState(), view_of(*ASKS, ToolStarted(CALL), asked)
    picture.update(view)
    question = picture.state["steps"][0]["calls"][0]["question"]
    about = {"reasons": ["network"], "diffs": [], "always": "network", "byPart": False}
    assert question == {"text": "Run this?", "number": 1, "about": "x", **about}
    picture.update(reduce(view, ApprovalAnswered("c1", "no", "person", "Not now.")))
    call = picture.state["steps"][0]["calls"][0]
    assert (call["question"], call["note"]) == (None, "refused by you: Not now.")


# ---------------------------------------------------------------- delegates


def delegating(*tasks: str) -> list[Event]:
    """A turn that has begun with a delegate for each task: the calls d1, d2 and so on."""
    calls = [
        ToolCall(f"d{n}", "delegate", json.dumps({"task": task})) for n, task in enumerate(tasks, 1)
    ]
    message = Message("assistant", tuple(calls))
    started = [ToolStarted(call) for call in calls]
    return [*START, MessageFinished(message, Usage(), "tool_use"), *started]


def works(call_id: str, step: int, code: str, *after: Event, tokens: int = 0) -> list[Event]:
    """A step of a delegate that calls `execute_code`, and what comes after that."""
    call = ToolCall("e1", "execute_code", json.dumps({"code": code}))
    message = MessageFinished(Message("assistant", (call,)), Usage(tokens), "tool_use")
    own = [StepStarted(step, 50), message, ToolStarted(call), *after]
    return [Delegated(call_id, event) for event in own]


def printed(text: str) -> Event:
    output = Output("stdout", {"text/plain": text})
    return ToolFinished(ToolResult("e1", (Text(text),), False, (output,)), 0.1)


def cards(picture: ViewState) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = picture.state["steps"][-1]["calls"]
    return found


def test_what_a_delegates_card_says() -> None:
    """Its name and task, what it does now, its tokens and their price; at the end what it took."""
    picture = ViewState(lambda view: f"${view.usage.total_tokens / 1000:.2f}")
    view = view_of(*delegating("Count them.", "Sum them."))
    picture.update(view)
    assert [card["name"] for card in cards(picture)] == ["Delegate 1", "Delegate 2"]
    waiting = [(card["came"], card["delegate"]["now"]) for card in cards(picture)]
    assert waiting == [("", "waiting for a place")] * 2
    begins = [Delegated("d2", Noticed("Mind: x.")), Delegated("d2", TurnStarted("Sum.", "p", "m"))]
    for event in (*begins, *works("d2", 1, "import os\ntotal = sum(rows)", tokens=1_204)):
        view = reduce(view, event)
    picture.update(view)
    its = cards(picture)[1]["delegate"]
    assert (its["now"], its["facts"]) == (
        "step 1: execute_code total = sum(rows)",
        "1,204 tokens · $1.20",
    )
    assert its["notices"] == ["Mind: x."] and its["running"] and cards(picture)[1]["came"] == ""
    for event in (printed("6"), StepStarted(2, 50)):
        view = reduce(view, Delegated("d2", event))
    picture.update(view)
    assert cards(picture)[1]["delegate"]["now"] == "step 2: waiting for the model"
    ends = TurnFinished("budget", Usage(1_204), error="The budget is used up.")
    for event in (Delegated("d2", ends), ToolFinished(ToolResult("d2", (Text("Six."),)), 3.0)):
        view = reduce(view, event)
    picture.update(view)
    card = cards(picture)[1]
    assert (card["state"], card["name"]) == ("done", "Delegate 2")
    assert card["delegate"]["now"] == "2 steps · budget used up" and not card["delegate"]["running"]
    assert card["delegate"]["notices"] == ["Mind: x.", "The budget is used up."]
    (outputs,) = card["delegate"]["steps"][0]["calls"][0]["outputs"]
    assert outputs["text"] == "6" and card["outputs"][0]["text"] == "Six."


def test_a_delegate_that_cannot_begin() -> None:
    """A call that is refused by its tool is no delegate: an error like that of any other call."""
    picture, view = ViewState(), view_of(*delegating("", "Sum."))
    picture.update(view)
    failed = ToolResult("d1", (Text("Give the delegate a task."),), True)
    picture.update(reduce(view, ToolFinished(failed, 0.0)))
    first, second = cards(picture)
    assert (first["name"], first["delegate"], first["state"]) == ("delegate", None, "failed")
    assert second["name"] == "Delegate 2"


def test_a_delegates_question_is_at_its_card() -> None:
    """With its name and all of the code that it is about; a second one is another question."""
    code = "!rm x\n" + "# a line of the code\n" * 2_000
    asked = ApprovalAsked(
        "d1", "(Delegate 1) Run this?", (), "", (Output("result", {"text/plain": code}),)
    )
    picture, view = ViewState(), view_of(*delegating("Tidy."), *works("d1", 1, code))
    view = reduce(reduce(view, Delegated("d1", ApprovalAsked("e1", "Run this?"))), asked)
    picture.update(view)
    (card,) = cards(picture)
    assert (card["state"], card["name"]) == ("asking", "Delegate 1")
    assert card["question"]["text"].startswith("(Delegate 1) Run this? (About 2,0")
    assert (card["question"]["about"], card["question"]["number"]) == ("!rm x", 1)
    assert card["outputs"][0]["text"].count("# a line") == 2_000
    assert card["delegate"]["now"] == "step 1: waiting for you: execute_code !rm x"
    inner = card["delegate"]["steps"][0]["calls"][0]
    assert (inner["question"], inner["id"]) == (None, "d1/e1")
    picture.update(reduce(view, ApprovalAnswered("d1", "no", "person")))
    assert (cards(picture)[0]["question"], cards(picture)[0]["state"]) == (None, "running")
    picture.update(reduce(reduce(view, ApprovalAnswered("d1", "yes")), asked))
    assert cards(picture)[0]["question"]["number"] == 2


def test_a_delegates_history_costs_nothing() -> None:
    """An event of one of eight delegates makes neither the others anew nor its own earlier steps,
    and sends little, however long all of them have been at work.
    """
    events = delegating(*(f"part {n}" for n in range(8)))
    for step in range(1, 31):
        for n in range(1, 9):
            events += works(f"d{n}", step, f"x = {step}", printed("x" * 10_000))
    picture, view = ViewState(), view_of(*events)
    picture.update(view)
    assert size([["set", [], picture.state]]) < 2_000_000
    before = cards(picture)
    picture.update(view := reduce(view, Delegated("d3", StepStarted(31, 50))))
    after = cards(picture)
    assert [n for n in range(8) if after[n] is not before[n]] == [2]
    old, new = (each[2]["delegate"]["steps"] for each in (before, after))
    assert len(new) == 31 and all(a is b for a, b in zip(old, new[:30], strict=True))
    more = works("d3", 32, "y = 1")
    view = reduce(view, more[0])
    picture.update(view)
    operations = picture.update(reduce(view, more[1]))
    assert size(operations) < 1_500
    assert {tuple(path[:4]) for _, path, _ in operations} <= {("steps", 0, "calls", 2)} | {
        (name,) for name in ("tokens", "activity", "cost")
    }


def test_a_delegates_pictures_are_words() -> None:
    """A picture inside of a delegate is named: it would be among many, and none is the person's."""
    data = {"image/png": "AAAA", "text/plain": "<Figure size 640x480>"}
    shown = ToolResult("e1", (Text("ok"),), False, (Output("display", data),))
    events = [*delegating("Plot."), *works("d1", 1, "plot()", ToolFinished(shown, 1.0))]
    picture = ViewState()
    picture.update(view_of(*events))
    (output,) = cards(picture)[0]["delegate"]["steps"][0]["calls"][0]["outputs"]
    assert (output["kind"], output["text"]) == ("text", "<Figure size 640x480>")


# ---------------------------------------------------------------- operations by value


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        ("a", "a", []),
        ("a", "ab", [["append", ["k"], "b"]]),
        ("", "ab", [["set", ["k"], "ab"]]),
        ("ab", "a", [["set", ["k"], "a"]]),
        (1, 2, [["set", ["k"], 2]]),
        (None, {"a": 1}, [["set", ["k"], {"a": 1}]]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [["set", ["k", "b"], 3]]),
        ({"a": 1}, {"b": 1}, [["set", ["k"], {"b": 1}]]),
        ([1], [1, 2], [["push", ["k"], 2]]),
        (["a"], ["ab", "c"], [["append", ["k", 0], "b"], ["push", ["k"], "c"]]),
        ([1, 2], [1], [["set", ["k"], [1]]]),
        ([], [], []),
    ],
)
def test_difference(old: Any, new: Any, operations: list[Operation]) -> None:
    """As few and as small operations as there can be."""
    assert list(difference(old, new, ["k"])) == operations
    assert applied({"k": old}, operations) == {"k": new}


JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=9,
)


@given(JSON, JSON, JSON)
def test_difference_of_anything(first: Any, second: Any, third: Any) -> None:
    """Two differences after each other, merged, lead from the first to the last."""
    operations = [*difference(first, second, ["k"]), *difference(second, third, ["k"])]
    assert applied({"k": first}, merged(copy.deepcopy(operations))) == {"k": third}


@pytest.mark.parametrize(
    ("operations", "fewer"),
    [
        ([], []),
        ([["append", ["a"], "x"], ["append", ["a"], "y"]], [["append", ["a"], "xy"]]),
        (
            [["append", ["a"], "x"], ["append", ["b"], "y"], ["append", ["a"], "z"]],
            [["append", ["a"], "x"], ["append", ["b"], "y"], ["append", ["a"], "z"]],
        ),
        (
            [["push", ["a"], "x"], ["push", ["a"], "y"]],
            [["push", ["a"], "x"], ["push", ["a"], "y"]],
        ),
        ([["set", ["a"], 1], ["set", ["a"], 2]], [["set", ["a"], 1], ["set", ["a"], 2]]),
    ],
)
def test_merged(operations: list[Operation], fewer: list[Operation]) -> None:
    """Only what is appended to the same text, one after the other, is joined."""
    before = copy.deepcopy(operations)
    assert merged(operations) == fewer
    assert operations == before


# ---------------------------------------------------------------- when to send

SHORT, LONG = ["append", ["a"], "x"], ["append", ["a"], "x" * 90]
SET = ["set", ["a"], 1]


@pytest.mark.parametrize(
    ("operations", "since", "due"),
    [
        ([], 9.0, False),
        ([SET], INTERVAL - 0.01, False),
        ([SET], INTERVAL, True),
        ([SHORT], INTERVAL, False),
        ([SHORT], PATIENCE, True),
        ([LONG], INTERVAL, True),
        ([LONG], INTERVAL - 0.01, False),
        ([SHORT] * 90, INTERVAL, True),
        ([SHORT, SET], INTERVAL, True),
    ],
)
def test_when_to_send(operations: list[Operation], since: float, due: bool) -> None:
    """Messages keep the interval; a few letters wait for more, but not long."""
    assert is_due(operations, since) is due


@pytest.mark.parametrize(("characters", "seconds"), [(0, 0.5), (75_000, 0.5), (1_500_000, 10.0)])
def test_when_to_send_a_whole(characters: int, seconds: float) -> None:
    """The longer a text that is sent whole, the less often it is sent."""
    assert whole_interval(characters) == seconds


def test_a_wait_is_counted_in_the_heading() -> None:
    """While a provider asks to wait, the heading says how long, and after it what goes on."""
    view = reduce(reduce(TurnView(), TurnStarted("Go.", "openai", "m")), StepStarted(1, 5))
    for event in (TextDelta("Hal"), Retrying("429: slow", 1, 2.0)):
        view = reduce(view, event)
    state = ViewState()
    for words in ("The provider asks to wait: 2 s, attempt 2 of 4", "waiting for the model"):
        view = reduce(view, Preparing(words))
        state.update(view)
        assert state.state["activity"] == words
        assert running_line(view) == f"Agent: step 1 of 5 · {words}"
