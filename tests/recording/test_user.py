"""Decisions and words in a cassette file: what is taken, and what is a damaged line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Message, Text, ToolCall, Usage
from jupyter_agent.errors import ConfigError
from jupyter_agent.recording.cassette import load, save
from jupyter_agent.recording.cassette_model import Cassette, Decision, RecordedCall

REPLY = MessageFinished(
    Message("assistant", (Text("I try."), ToolCall("c1", "execute_code", "{}"))),
    Usage(1, 1),
    "tool_use",
)
DECISION = Decision(0, "Run this code?", ("runs a shell command",), "no", "person", "mine")


def saved(tmp_path: Path, **fields: object) -> Path:
    """A cassette of one line, with some of its fields replaced in the file."""
    path = tmp_path / "a.cassette.jsonl"
    entry = RecordedCall("c", "t", 1, (), REPLY, said=("Before.",), decisions=(DECISION,))
    save(Cassette("anthropic", "m", "recorded", ((entry,),)), path)
    header, row = path.read_text(encoding="utf-8").splitlines()
    changed = {**json.loads(row), **fields}
    path.write_text(f"{header}\n{json.dumps(changed)}\n", encoding="utf-8")
    return path


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """Save a decision and words, and load them: they are the same."""
    ((entry,),) = load(saved(tmp_path)).turns
    assert entry.decisions == (DECISION,) and entry.said == ("Before.",)


WHOLE = {"call": 0, "question": "?", "reasons": [], "answer": "yes", "by": "person"}


@pytest.mark.parametrize(
    "fields",
    [
        {"decisions": None},
        {"decisions": "yes"},
        {"decisions": 7},
        {"decisions": {"call": 0}},
        {"decisions": [WHOLE, "yes"]},
        {"decisions": [{**WHOLE, "answer": "sure"}]},
        {"decisions": [{**WHOLE, "by": "the agent"}]},
        {"decisions": [{**WHOLE, "call": "first"}]},
        {"decisions": [{**WHOLE, "call": -1}]},
        {"decisions": [{**WHOLE, "call": 1}]},
        {"decisions": [{**WHOLE, "reasons": "because"}]},
        {"decisions": [WHOLE, WHOLE]},
        {"decisions": [{"call": 0}]},
        {"said": None},
        {"said": 7},
        {"said": "words"},
        {"said": [7]},
        {"said": [None]},
        {"said": {"a": 1}},
        {"said_after": [["a"]]},
        {"said_after": "late"},
    ],
    ids=json.dumps,
)
def test_damaged_decisions(tmp_path: Path, fields: dict[str, object]) -> None:
    """Damage what a person did in a cassette: one line says which line of the file is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(saved(tmp_path, **fields))
    text = str(caught.value)
    assert text.startswith("a.cassette.jsonl, line 2: ") and "\n" not in text
