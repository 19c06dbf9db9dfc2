"""Whether the model goes in circles."""

from __future__ import annotations

from jupyter_agent.agent.repetition import END, REPEATS, RepetitionDetector
from jupyter_agent.core.messages import Text, ToolCall, ToolResult


def step(
    circles: RepetitionDetector,
    code: str = "x",
    text: str = "1",
    *,
    failed: str = "",
    name: str = "execute",
) -> str:
    call = ToolCall("c", name, code)
    details = {"error_name": failed} if failed else {}
    result = ToolResult("c", (Text(text),), is_error=bool(failed), details=details)
    return circles.look([call], [result])


def test_the_same_call_with_the_same_result() -> None:
    """The third identical call is advised against; two calls later the turn ends."""
    circles = RepetitionDetector()
    advice = [step(circles) for _ in range(END)]
    assert advice == ["", "", "tell", "", "end"]
    assert f"the same call {END} times" in circles.words


def test_other_results_are_progress() -> None:
    """The same call may poll for something that changes."""
    circles = RepetitionDetector()
    assert not any(step(circles, text=str(number)) for number in range(10))


def test_another_call_between() -> None:
    """A different call in between starts the count again."""
    circles = RepetitionDetector()
    advice = [step(circles, code) for code in ("x", "x", "y", "x", "x", "y")]
    assert not any(advice)


def test_the_same_call_beside_others() -> None:
    """A repeated call counts even beside new calls."""
    circles = RepetitionDetector()
    same, result = ToolCall("a", "look", "{}"), ToolResult("a", (Text("1"),))
    for number in range(REPEATS):
        other = ToolCall("b", "look", str(number))
        found = circles.look([same, other], [result, ToolResult("b", (Text(str(number)),))])
    assert found == "tell"


def test_failures_of_one_kind() -> None:
    """Three failing steps of one kind are reported, whatever the code was."""
    circles = RepetitionDetector()
    advice = [step(circles, f"try {n}", f"{n}", failed="KeyError") for n in range(END)]
    assert advice == ["", "", "tell", "", "end"]
    assert "execute: KeyError" in circles.words


def test_failures_of_other_kinds() -> None:
    """Failures of different kinds do not count together; one success starts the count again."""
    circles = RepetitionDetector()
    kinds = ["KeyError", "TypeError", "KeyError", "KeyError", "", "KeyError", "KeyError"]
    assert not any(step(circles, str(n), str(n), failed=kind) for n, kind in enumerate(kinds))
