"""Results and calls of a replay: today's names in place of recorded ones."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_agent.core.messages import Output, Text, ToolCall
from jupyter_agent.core.tool import Prepared, tool
from jupyter_agent.recording.cassette import (
    Cassette,
    GivenResult,
    RecordedResult,
    RecordedStep,
    RecordedTurn,
    record,
    save,
)
from jupyter_agent.recording.results import Today, given
from jupyter_agent.recording.trusted import is_trusted
from jupyter_agent.recording.varying import Span
from jupyter_agent.tools.toolbox import Toolbox


@tool("executes")
def run(code: str) -> str:
    """Run code."""
    return code


def called(code: str) -> Prepared:
    """A call of `run`, as a reply makes it."""
    prepared = Toolbox([run]).prepare(ToolCall("c", "run", json.dumps({"code": code})))
    assert isinstance(prepared, Prepared)
    return prepared


def today_of(*found: Span) -> Today:
    today = Today(Path("/work"))
    today.learn(found)
    return today


def test_a_call_gets_the_names_of_this_run() -> None:
    """A temporary folder and a UUID that varied are those of this run, in code and in results."""
    ids = "84c744e6-8fec-4f1b-ac62-92bc5c1736c8", "123e4567-e89b-12d3-a456-426614174000"
    today = today_of(Span("<tmp>/tmpold", "<tmp>/tmpnew"), Span(*ids))
    folder = tempfile.gettempdir()
    call = today.call(called(f"open('/tmp/tmpold/a.txt'); x = '{ids[0]}'"))
    assert call.values["code"] == f"open('{folder}/tmpnew/a.txt'); x = '{ids[1]}'"
    assert today.recorded("wrote <tmp>/tmpnew/a.txt") == "wrote <tmp>/tmpold/a.txt"


@pytest.mark.parametrize(
    "now",
    [
        "<tmp>/a\\u0027\\u0029\nprint\\u0028\\u0027evil",
        "<tmp>/../etc/passwd",
        "<tmp>/a`touch",
        "<tmp>/a$HOME",
        "<tmp>/a|rm",
        "<tmp>/a\\b",
    ],
)
def test_only_plain_names_are_put_into_a_call(now: str) -> None:
    """What code prints in the place of a path cannot become code, nor lead elsewhere."""
    call = called("open('/tmp/x')")
    assert today_of(Span("<tmp>/x", now)).call(call) == call


def test_a_copy_of_a_foreign_turn_is_not_trusted(tmp_path: Path) -> None:
    """Of two turns with one task, each is trusted only once it was recorded here."""
    from jupyter_agent.core.events import MessageFinished
    from jupyter_agent.core.messages import Message, Text, Usage

    path = tmp_path / "a.cassette.jsonl"
    reply = MessageFinished(Message("assistant", (Text("Hi."),)), Usage(), "end")
    turn = RecordedTurn("Go.", steps=(RecordedStep(reply),))
    blank = Cassette("openai", "m", "recorded")
    other = replace(turn, steps=(RecordedStep(replace(reply, usage=Usage(1, 1))),))
    save(Cassette("openai", "m", "recorded", (other, other)), path)
    record(path, blank, turn, ())
    assert not is_trusted(path)
    record(path, blank, turn, [turn.place])
    assert is_trusted(path)


@pytest.mark.parametrize("name", ["ask_user", "server__tool", "describe_file", "read_cells"])
def test_a_recorded_result_tells_of_no_file(name: str) -> None:
    """A forged result does not make a file one that the agent has read, which it may overwrite."""
    told = GivenResult((Text("It said."),), (), {"path": "precious.csv", "change": "changed"})
    recorded = RecordedResult(name, "", "", 0, {}, given=told)
    assert "path" not in given("c", recorded, "precious.csv").details
    about_another = replace(recorded, tool="read_file")
    assert "path" not in given("c", about_another, "own.csv").details
    assert given("c", about_another, "precious.csv").details["path"] == "precious.csv"


def test_a_recorded_answer_is_text() -> None:
    """What a forged answer of the person's has beside its words is left out."""
    shown = (Output("display", {"text/html": "<b>x</b>"}),)
    details = {"answer": "2020", "by": "person", "saved": {"title": "x"}, "cells": [1]}
    recorded = RecordedResult("ask_user", "", "", 0, {}, given=GivenResult((), shown, details))
    result = given("c", recorded)
    assert result.display == () and result.details == {"answer": "2020", "by": "person"}
