"""Shortening a conversation: what is cut first, and what is cut last."""

from __future__ import annotations

from jupyter_agent.agent.compaction import shortened
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult


def rounds(*calls: tuple[str, int]) -> list[Message]:
    """A conversation in which each tool gave so many characters."""
    history = [Message("user", (Text("Do it."),))]
    for number, (name, size) in enumerate(calls):
        call = ToolCall(f"c{number}", name, "{}")
        result = ToolResult(call.id, (Text(f"{name} " + "x" * size),))
        history += [Message("assistant", (call,)), Message("user", (result,))]
    return history


def sizes(history: list[Message] | None) -> list[int]:
    assert history is not None
    return [len(result.text) for message in history for result in message.tool_results]


def test_skills_stay_whole() -> None:
    """A skill loaded long ago stays whole in a shortened conversation; other results do not."""
    history = rounds(("get_skill", 9_000), *[("execute_code", 9_000)] * 6)
    skill, *others = sizes(shortened(history))
    assert skill == sizes(history)[0]
    assert all(size < 600 for size in others[:-2]) and others[-1] == sizes(history)[-1]


def test_skills_are_cut_last() -> None:
    """If nothing else is long, the skill is cut, so that the conversation fits."""
    skill, result = sizes(shortened(rounds(("get_skill", 60_000), ("execute_code", 100))))
    assert skill < 5_000 and result < 200


def test_nothing_to_gain() -> None:
    """If nothing is long, there is no shorter conversation."""
    assert shortened(rounds(("execute_code", 100))) is None
