"""The reducer: from events to what a turn looks like."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FileChange,
    MessageFinished,
    Preparing,
    Receipt,
    ReplyStop,
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
    TurnStop,
)
from jupyter_agent.core.messages import (
    Block,
    Message,
    Output,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.core.transcript import CallView, LiveTranscript, StepView, TurnView, reduce
from jupyter_agent.promotion.turn import executed
from jupyter_agent.session.answer import TurnFindings

START = TurnStarted("Count.", "anthropic", "claude")
CALL = ToolCall("c1", "look", '{"path": "a.csv"}')
OTHER = ToolCall("c2", "execute_code", '{"code": "x = 1\\nx"}')
GOOD = ToolResult("c1", (Text("3"),))
BAD = ToolResult("c2", (Text("It failed."),), is_error=True)


def view_of(*events: Event) -> TurnView:
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    return view


def says(*blocks: Block, stop: ReplyStop = "end") -> MessageFinished:
    return MessageFinished(Message("assistant", blocks), Usage(10, 1), stop)


def ended(stop: TurnStop = "end") -> TurnFinished:
    return TurnFinished(stop, Usage(10, 1))


def test_nothing_yet() -> None:
    """A view without events is empty and has no answer."""
    assert (view_of().answer, view_of().calls, view_of().stop_reason) == ("", (), None)


def test_a_whole_turn() -> None:
    """Steps, calls, usage and receipt are all there at the end."""
    receipt = Receipt(files=(FileChange("a.md", "created", 3),))
    view = view_of(
        START,
        StepStarted(1, 5),
        says(Thinking("Hm."), Text("I look."), CALL, OTHER, stop="tool_use"),
        ToolStarted(CALL),
        ToolFinished(GOOD, 0.1),
        ToolStarted(OTHER),
        ToolFinished(BAD, 0.1),
        StepStarted(2, 5),
        says(Text("3.")),
        TurnFinished("end", Usage(20, 2), receipt),
    )
    calls = (CallView(CALL, "done", GOOD, seconds=0.1), CallView(OTHER, "failed", BAD, seconds=0.1))
    assert view == TurnView(
        task="Count.",
        provider="anthropic",
        model="claude",
        steps=(StepView(1, "Hm.", "I look.", calls), StepView(2, text="3.")),
        max_steps=5,
        usage=Usage(20, 2),
        stop_reason="end",
        receipt=receipt,
    )
    assert (view.answer, view.calls) == ("3.", calls)


def test_deltas_grow_and_the_message_takes_their_place() -> None:
    """Streamed text is shown at once and replaced by the finished message."""
    deltas = (START, StepStarted(1, 5), ThinkingDelta("H"), ThinkingDelta("m"), TextDelta("3"))
    assert view_of(*deltas).steps == (StepView(1, "Hm", "3"),)
    assert view_of(*deltas, says(Thinking("Hm."), Text("3."))).steps == (StepView(1, "Hm.", "3."),)


@pytest.mark.parametrize(
    "next_one", [TextDelta("3"), ThinkingDelta("Hm"), says(Text("3.")), Retrying("Reset.", 1, 2.0)]
)
def test_what_is_prepared_passes(next_one: Event) -> None:
    """The last progress line of a loading model is shown until its first words."""
    events = (START, StepStarted(1, 5), Preparing("loading: 1 %"), Preparing("loading: 99 %"))
    assert view_of(*events).steps[0].preparing == "loading: 99 %"
    assert view_of(*events, next_one).steps[0].preparing == ""


def test_the_usage_while_a_turn_runs() -> None:
    """Tokens add up step by step, and the end's sum is not added on top."""
    steps = (StepStarted(1, 5), says(CALL), StepStarted(2, 5), says(Text("3.")))
    assert view_of(START, *steps).usage == Usage(20, 2)
    assert view_of(START, *steps, TurnFinished("end", Usage(20, 2))).usage == Usage(20, 2)


def test_the_states_of_a_call() -> None:
    """A call is waiting, running, done or failed."""
    events = [START, StepStarted(1, 5), says(CALL), ToolStarted(CALL), ToolFinished(GOOD, 0)]
    states = [view_of(*events[:n]).calls[0].state for n in (3, 4, 5)]
    assert states == ["waiting", "running", "done"]


def test_side_by_side() -> None:
    """Calls that finish in another order keep their own results."""
    other = ToolCall("c2", "look", "{}")
    view = view_of(
        START, StepStarted(1, 5), says(CALL, other), ToolFinished(BAD, 0), ToolFinished(GOOD, 0)
    )
    assert [(call.call.id, call.state) for call in view.calls] == [("c1", "done"), ("c2", "failed")]


def test_a_retry_discards_what_was_streamed() -> None:
    """A retry discards partial words and thoughts, with a notice that says why."""
    view = view_of(
        START, StepStarted(1, 5), ThinkingDelta("Hm"), TextDelta("It"), Retrying("Reset.", 1, 2.0)
    )
    notice = "Try 1 failed and was repeated: Reset. What it had said was discarded."
    assert view.steps == (StepView(1, notices=(notice,)),)
    again = reduce(reduce(view, TextDelta("It is")), says(Text("It is 3.")))
    assert again.steps == (StepView(1, text="It is 3.", notices=(notice,)),)


@pytest.mark.parametrize(
    ("stop", "notice"),
    [
        ("max_tokens", "The reply was cut off at its token limit."),
        ("refused", "The model refused to go on."),
    ],
)
def test_a_reply_that_did_not_end_well(stop: ReplyStop, notice: str) -> None:
    """A cut-off reply and a refusal are noted in their step."""
    view = view_of(START, StepStarted(1, 5), says(Text("It"), stop=stop))
    assert view.steps == (StepView(1, text="It", notices=(notice,)),)


@pytest.mark.parametrize("stop", ["step_limit", "budget", "interrupted", "refused", "error"])
def test_why_a_turn_ended(stop: TurnStop) -> None:
    """The reason and the error's line are kept."""
    view = view_of(START, TurnFinished(stop, Usage(), error="Quota used up."))
    assert (view.stop_reason, view.error) == (stop, "Quota used up.")


def test_a_call_that_was_only_asked_about() -> None:
    """After an interrupt at the question, the call counts as not run, and so does its code."""
    call = ToolCall("c1", "execute_code", '{"code": "x = 1"}')
    details = {"state": "interrupted", "ran": False}
    result = ToolResult("c1", (Text("Not run."),), True, details=details)
    events = [START, StepStarted(1, 5), says(call), ToolStarted(call), ToolFinished(result, 0)]
    view, findings = view_of(*events, ended("interrupted")), TurnFindings()
    for event in events:
        findings(event)
    assert [each.state for each in view.calls] == ["not_run"]
    assert executed(view) == () and findings.ran == []


def test_an_interrupted_call() -> None:
    """A call stopped in the middle and one that never began have different states."""
    stopped = ToolResult("c1", (Text("Interrupted."),), True, details={"state": "interrupted"})
    never = ToolResult("c2", (Text("Not run."),), True, details={"state": "not_run"})
    view = view_of(
        START,
        StepStarted(1, 5),
        says(CALL, OTHER),
        ToolStarted(CALL),
        ToolFinished(stopped, 0),
        ToolFinished(never, 0),
        ended("interrupted"),
    )
    told = [(call.state, call.failure) for call in view.calls]
    assert told == [("interrupted", ""), ("not_run", "Not run.")]


ASKED = ApprovalAsked("c1", "Look?", ("network",), "network", (Output("diff", {}),))


@pytest.mark.parametrize(
    "answered",
    [
        ApprovalAnswered("c1", "yes"),
        ApprovalAnswered("c1", "always"),
        ApprovalAnswered("c1", "no", "person", "Not now."),
        ApprovalAnswered("c1", "no", "time_out"),
        ApprovalAnswered("c1", "no", "nobody"),
    ],
)
def test_a_question_and_its_answer(answered: ApprovalAnswered) -> None:
    """A call waits for the person, then goes on; both are kept with the call."""
    before = (START, StepStarted(1, 5), says(CALL, OTHER), ToolStarted(CALL))
    assert view_of(*before, ASKED).calls[0] == CallView(CALL, "asking", asked=ASKED, questions=1)
    decided = view_of(*before, ASKED, answered)
    running = CallView(CALL, "running", None, ASKED, answered, questions=1)
    assert decided.calls == (running, CallView(OTHER))


def test_a_refused_call() -> None:
    """A refused call keeps the person and the reason, and is not a failure."""
    answered = ApprovalAnswered("c1", "no", "person", "Not now.")
    result = ToolResult("c1", (Text("No."),), True, details={"state": "refused"})
    events = (START, StepStarted(1, 5), says(CALL), ASKED, answered, ToolFinished(result, 0.5))
    assert view_of(*events).calls == (
        CallView(CALL, "refused", result, ASKED, answered, "", "", 0.5, questions=1),
    )


def test_what_the_person_said() -> None:
    """The person's words appear in the step that read them, in the order of typing."""
    view = view_of(
        START,
        StepStarted(1, 5),
        says(CALL),
        StepStarted(2, 5),
        Steered("By month."),
        Steered("And plot it."),
        says(Text("3.")),
    )
    assert [step.said for step in view.steps] == [(), ("By month.", "And plot it.")]
    assert view.answer == "3."


def test_what_the_person_said_survives_a_retry() -> None:
    """A repeated model call discards its deltas and keeps the person's words."""
    view = view_of(START, StepStarted(1, 5), Steered("By month."), Retrying("Reset.", 1, 2.0))
    assert view.steps[0].said == ("By month.",)


def test_output_as_it_comes() -> None:
    """The output of one call grows, its progress line is replaced, other calls stay."""
    view = view_of(
        START,
        StepStarted(1, 5),
        says(CALL, OTHER),
        ToolOutput("c1", "1\n", "10 %"),
        ToolOutput("c2", "x"),
        ToolOutput("c1", "2\n", "20 %"),
        ToolOutput("c9", "of nobody"),
    )
    shown = [(call.output, call.latest) for call in view.calls]
    assert shown == [("1\n2\n", "20 %"), ("x", "")]


def test_a_turn_that_ended_in_a_call_has_no_answer() -> None:
    """Words beside a tool call are no answer."""
    assert view_of(START, StepStarted(1, 5), says(Text("I look."), CALL), ended()).answer == ""


def test_the_best_answer_so_far_after_the_limit() -> None:
    """The last call of a turn at its limit adds to the view and removes nothing."""
    view = view_of(
        START,
        StepStarted(1, 1),
        says(Text("I look."), CALL, stop="tool_use"),
        ToolFinished(GOOD, 0),
        StepStarted(2, 1),
        TextDelta("So far"),
        says(Text("So far: 3.")),
        ended("step_limit"),
    )
    assert view.calls == (CallView(CALL, "done", GOOD, seconds=0),)
    assert view.answer == "So far: 3."
    assert any(step.text == "I look." for step in view.steps)


def test_a_new_turn_starts_from_nothing() -> None:
    """`TurnStarted` clears the view."""
    before = view_of(START, StepStarted(1, 5), says(Text("3.")), ended())
    assert reduce(before, START) == TurnView(task="Count.", provider="anthropic", model="claude")


def test_events_before_a_step_change_nothing() -> None:
    """An event before the first step is ignored."""
    stray: list[Event] = [TextDelta("a"), ToolStarted(CALL), ToolFinished(GOOD, 0)]
    assert view_of(START, *stray) == view_of(START)


def test_the_reducer_is_pure() -> None:
    """The reducer does not change the given view."""
    before = view_of(START, StepStarted(1, 5))
    reduce(before, TextDelta("a"))
    assert before == view_of(START, StepStarted(1, 5))


@pytest.mark.parametrize(
    ("arguments", "gist"),
    [
        ('{"path": "a.csv", "limit": 3}', "a.csv"),
        ('{"code": "\\n\\nx = 1\\nx"}', "x = 1"),
        ('{"n": 3}', "n=3"),
        ('{"a": 2, "b": "x"}', "a=2, b=x"),
        ('{"scope": {"workspace": "w", "domain": "d"}, "topics": []}', "w / d"),
        ("{}", ""),
        ("", ""),
        ("[1]", "[1]"),
        ("null", "null"),
        ('{"path": "a', '{"path": "a'),
        ('{"code": "' + "x" * 200 + '"}', "x" * 79 + "…"),
        ('{"code": "\\u001b[31mred"}', "red"),
    ],
)
def test_the_gist_of_a_call(arguments: str, gist: str) -> None:
    """The gist is one line of the first argument, or of any other text of the model."""
    assert CallView(ToolCall("c", "look", arguments)).gist == gist


@pytest.mark.parametrize(
    ("code", "gist"),
    [
        ("import os\nimport matplotlib.pyplot as plt\n\nplt.plot(x)", "plt.plot(x)"),
        ("from a import (\n    b,\n    c,\n)\nb(c)", "b(c)"),
        ("from a import b, \\\n    c\nb(c)", "b(c)"),
        ("import a; a.go()", "a.go()"),
        ("# Why.\n%matplotlib inline\nimport warnings\nwarnings.filterwarnings('ignore')\nx", "x"),
        ('"""What it does."""\n@cache\ndef f(x): ...', "def f(x): ..."),
        ("%%time\nx = 1", "%%time"),
        ("!ls", "!ls"),
        ("importance = 3", "importance = 3"),
        ("import os\n# nothing", "import os"),
        ("from x import (", "from x import ("),
        ("", ""),
    ],
)
def test_the_gist_of_code(code: str, gist: str) -> None:
    """The gist of code is the first line that does something, so that cards differ."""
    call = ToolCall("c", "execute_code", json.dumps({"code": code}))
    assert CallView(call).gist == gist


@pytest.mark.parametrize(
    ("name", "shown", "failure"),
    [
        ("KeyError", "agent code 1, line 1\n    d['x']\nKeyError: 'x'", "error KeyError: 'x'"),
        (
            "LinAlgError",
            "line 1\nnumpy.linalg.LinAlgError: no",
            "error numpy.linalg.LinAlgError: no",
        ),
        (
            "SyntaxError",
            "line 1\n    x(\n     ^\nSyntaxError: never closed",
            "error SyntaxError: never closed",
        ),
        ("KeyError", "something else", "error KeyError"),
    ],
)
def test_the_error_of_a_call(name: str, shown: str, failure: str) -> None:
    """A failed call names the error with its message."""
    display = (Output("error", {"text/plain": shown}),)
    result = ToolResult("c", (Text(shown),), True, display, {"error_name": name})
    assert CallView(CALL, "failed", result).failure == failure


def test_arguments_of_a_hundred_thousand_brackets() -> None:
    """Arguments that no parser accepts are shown as they are, without an error."""
    call = CallView(ToolCall("c", "look", "[" * 100_000))
    assert call.gist == "[" * 79 + "…"


def test_the_failure_of_a_call() -> None:
    """The error's name where there is one, else the first line of the text."""
    named = ToolResult("c", (Text("long"),), True, details={"error_name": "KeyError"})
    words = ToolResult("c", (Text("\nNo such file.\nmore"),), True)
    failures = [
        CallView(CALL, state, result).failure
        for state, result in (("failed", named), ("failed", words), ("done", GOOD))
    ]
    assert failures == ["error KeyError", "No such file.", ""]


_PIECES: list[Event] = [
    START,
    StepStarted(1, 5),
    TextDelta("a"),
    TextDelta("b"),
    ThinkingDelta("t"),
    Preparing("fetching"),
    says(CALL, OTHER),
    ToolStarted(CALL),
    ToolOutput("c1", "1\n", "10 %"),
    ToolOutput("c1", "2\n"),
    ToolOutput("c2", "x", "now"),
    Retrying("busy", 1, 0.0),
    ToolFinished(GOOD, 0),
    ended(),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=40), st.integers(1, 7))
def test_a_watch_sees_what_the_reducer_makes(events: list[Event], every: int) -> None:
    """However events are joined, and whenever it is read, a watch has the reducer's view."""
    watch = LiveTranscript()
    for number, event in enumerate(events):
        watch(event)
        if number % every == 0:
            assert watch.view == view_of(*events[: number + 1])
    assert watch.view == view_of(*events)


def test_a_watch_that_nobody_looks_at_stays_small() -> None:
    """A watch that is never read reduces its waiting events after a while."""
    watch = LiveTranscript()
    for event in (START, StepStarted(1, 5), *[TextDelta("a")] * 10_000):
        watch(event)
    assert len(watch._coming) < 1_000
    assert watch.view.steps[0].text == "a" * 10_000


def test_a_watch_that_is_looked_at_from_another_thread() -> None:
    """Reading from another thread loses no event and reduces none twice."""
    watch = LiveTranscript()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            assert set(watch.view.answer) <= {"a"}

    looking = threading.Thread(target=look)
    looking.start()
    for event in (START, StepStarted(1, 5), *[TextDelta("a")] * 5_000):
        watch(event)
    over.set()
    looking.join()
    assert watch.view.answer == "a" * 5_000


class _Acting(str):
    """A text that does something when it is added to another."""

    act: Callable[[], None]

    def __radd__(self, other: str) -> str:
        self.act()
        return other + str(self)


def _acting(act: Callable[[], None]) -> TextDelta:
    text = _Acting("c")
    text.act = act
    return TextDelta(text)


def test_an_interrupt_while_events_are_taken_in() -> None:
    """After an interrupt the remaining events are reduced at the next read."""
    watch = LiveTranscript()
    strikes = [KeyboardInterrupt]

    def strike() -> None:
        if strikes:
            raise strikes.pop()

    for event in (START, StepStarted(1, 5), TextDelta("ab"), StepStarted(2, 5)):
        watch(event)
    watch(_acting(strike))
    with pytest.raises(KeyboardInterrupt):
        _ = watch.view
    assert watch.view.steps == (StepView(1, text="ab"), StepView(2, text="c"))


def test_an_event_amid_the_taking_in() -> None:
    """Code that prints during garbage collection, while events are reduced, causes no deadlock."""
    watch = LiveTranscript()
    more = [TextDelta("d")] * 1_000

    def printed() -> None:
        while more:
            watch(more.pop())

    for event in (START, StepStarted(1, 5), _acting(printed)):
        watch(event)
    assert watch.view.steps[0].text == "c"
    assert watch.view.steps[0].text == "c" + "d" * 1_000


def test_an_event_that_cannot_be_shown() -> None:
    """An event that cannot be shown is skipped once and affects no other."""
    watch = LiveTranscript()
    broken = ToolResult("c1", (), details={"plan": [{"text": "no state"}]})
    for event in (START, StepStarted(1, 5), says(CALL), ToolFinished(broken, 0), ended()):
        watch(event)
    assert watch.view.stop_reason == "end"
    assert watch.view == watch.view
