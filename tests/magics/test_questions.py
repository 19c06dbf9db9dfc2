"""`ask_user` in a real kernel: who is asked, what comes of the answer, and what a replay gives."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from front_end import FrontEnd
from live_kernel import Cell, Json, LiveKernel, Running, Turn

ENVIRON = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_all", "OTHER_API_TOKEN": "hunter2-hunter2"}
CHOICES = ["2019", "2020", "2019"]
GO_ON = "Go on with the most likely reading"
CASSETTE = "asked.cassette.jsonl"


def asks(question: str, *choices: str) -> Json:
    """A scripted reply that asks the person."""
    arguments: Json = {"question": question, **({"choices": [*choices]} if choices else {})}
    return {"text": "Two readings.", "calls": [{"name": "ask_user", "arguments": arguments}]}


YEAR = asks("Which <b>year</b>?", *CHOICES)


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("questions"), ENVIRON) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture
def by_line(kernel: LiveKernel) -> Iterator[None]:
    """A front end without widgets."""
    kernel.helper("%agent config display static")
    yield
    kernel.helper("%agent config display auto")


def start(
    kernel: LiveKernel, *replies: Json, is_attended: bool = True
) -> tuple[Running, set[Path]]:
    task = f"Sum it up {time.monotonic_ns()}."
    kernel.script(task, *(replies or (YEAR,)), {"text": "Done."})
    logs = kernel.logs()
    return kernel.start(f"%%agent --fresh\n{task}", allow_stdin=is_attended), logs


def typed(kernel: LiveKernel, reply: Json, *lines: str) -> tuple[Turn, list[str]]:
    """A turn whose prompts are answered with lines, and the prompts."""
    running, logs = start(kernel, reply)
    prompts = []
    for line in lines:
        prompts.append(running.question())
        running.type(line)
    return kernel.turn(running.finish(), logs), prompts


# In the page -------------------------------------------------------------------------------------


def test_a_choice_in_the_page(kernel: LiveKernel) -> None:
    """A click on a choice is the answer: in the result, the log, and the transcript of the page,
    the notebook and a terminal. What names no choice is no answer.
    """
    running, logs = start(kernel)
    page = FrontEnd(kernel, running)
    call = page.until_asked()
    assert call["question"]["choices"] == ["2019", "2020"]
    assert page.state["wait"]["text"] == call["question"]["text"] == "Which <b>year</b>?"
    assert 500 < page.state["wait"]["left"] <= 600
    for wrong in ({"choice": 2}, {"choice": -1}, {"choice": "1"}, {"text": "  "}, {}, {"text": 1}):
        page.send({"t": "reply", "call": call["id"], **wrong})
    page.send({"t": "answer", "call": call["id"], "answer": "yes"})
    page.send({"t": "reply", "call": call["id"], "choice": 1})
    turn = kernel.turn(running.finish(), logs)
    assert turn.result.text == "The person answered: 2020"
    assert _told(turn) == [("question_asked", None), ("question_answered", "2020")]
    assert "Asked: Which <b>year</b>? (2019 / 2020 / 2019)\n" in turn.cell.transcript
    assert "│ You: 2020" in turn.cell.transcript
    markup = turn.cell.displays[0]["text/html"]
    assert "You: 2020" in markup and "Which <b>" not in markup
    shown = kernel.run("%agent show last")
    assert "You: 2020" in shown.transcript


def test_another_answer_in_the_page(kernel: LiveKernel) -> None:
    """Any text is an answer. It is shown as text, and a secret in it goes nowhere."""
    running, logs = start(kernel)
    page = FrontEnd(kernel, running)
    call = page.until_asked()
    page.send({"t": "reply", "call": call["id"], "text": "<img src=x> hunter2-hunter2 \u202e"})
    turn = kernel.turn(running.finish(), logs)
    assert turn.result.text.startswith("The person answered: <img src=x> ")
    assert "<img" not in turn.cell.displays[0]["text/html"]
    kept = [json.dumps(turn.cell.outputs), *(each.read_text("utf-8") for each in kernel.logs())]
    assert not any("hunter2" in each for each in kept)


def test_two_questions_of_one_reply(kernel: LiveKernel) -> None:
    """Questions come one after the other, each with its own choices."""
    first, second = asks("Which year?", "2019"), asks("Which unit?", "km", "miles")
    running, logs = start(kernel, {"calls": first["calls"] + second["calls"]})
    page = FrontEnd(kernel, running)
    for question, text in (("Which year?", "all"), ("Which unit?", "")):
        page.until(lambda q=question: page.asking and page.asking[0]["question"]["text"] == q)
        (call,) = page.asking
        answer = {"text": text} if text else {"choice": 1}
        page.send({"t": "reply", "call": call["id"], **answer})
    turn = kernel.turn(running.finish(), logs)
    assert [each.text.rpartition(": ")[2] for each in turn.results] == ["all", "miles"]


def test_an_answer_with_the_first_message(kernel: LiveKernel) -> None:
    """A page that answers in the moment in which it says that it is there is heard."""
    running, logs = start(kernel)
    page = FrontEnd(kernel, running, greets=False)
    page.until(lambda: page.asking)
    page.send({"t": "ready"})
    page.send({"t": "reply", "call": page.asking[0]["id"], "choice": 1})
    turn = kernel.turn(running.finish(), logs)
    assert turn.result.text == "The person answered: 2020"


def test_nobody_answers_in_time(kernel: LiveKernel) -> None:
    """After `approvals.timeout` the model goes on and says which reading it took."""
    kernel.helper("%agent config approvals.timeout 1")
    running, logs = start(kernel)
    page = FrontEnd(kernel, running)
    page.until_asked()
    turn = kernel.turn(running.finish(), logs)
    kernel.helper("%agent config approvals.timeout 600")
    assert turn.result.text.startswith(f"The person did not answer in time. {GO_ON}")
    assert not turn.result.is_error and turn.stop_reason == "end"


def test_an_interrupt_ends_the_turn(kernel: LiveKernel) -> None:
    """Stop at a question ends the turn; the next one runs."""
    running, _ = start(kernel)
    page = FrontEnd(kernel, running)
    page.until_asked()
    kernel.interrupt()
    cell = running.finish()
    assert "TurnInterrupted" in cell.error and "interrupted" in cell.transcript
    running, logs = start(kernel, is_attended=False)
    assert kernel.turn(running.finish(), logs).stop_reason == "end"


# By a line of text -------------------------------------------------------------------------------


@pytest.mark.usefixtures("by_line")
def test_the_input_line(kernel: LiveKernel) -> None:
    """The choices are numbered: a number, a choice or any text is an answer, an empty line none."""
    turn, (prompt, again) = typed(kernel, YEAR, " ", "2")
    assert prompt == (
        "The agent asks: Which <b>year</b>?\n  1. 2019\n  2. 2020\n"
        "Type a number or another answer, and press Enter: "
    )
    assert again.startswith("An empty line is no answer.")
    assert turn.result.text == "The person answered: 2020"
    for line, answer in (("2019", "2019"), ("3", "3"), ("both, please", "both, please")):
        turn, _ = typed(kernel, YEAR, line)
        assert turn.result.text == f"The person answered: {answer}"
    turn, (prompt,) = typed(kernel, asks("How many?"), "12")
    assert prompt.endswith("How many?\nType your answer, and press Enter: ")
    assert turn.result.text == "The person answered: 12"
    turn, _ = typed(kernel, YEAR, "", "", "")
    assert turn.result.text.startswith(f"The person gave no answer. {GO_ON}")


def test_nobody_is_there(kernel: LiveKernel) -> None:
    """Where nobody can be asked, as under nbclient, the model goes on; questions without words or
    with too many choices ask nobody.
    """
    wrong = asks(" "), asks("x" * 1001), asks("Which?", *"abcdef")
    running, logs = start(kernel, YEAR, *wrong, is_attended=False)
    turn = kernel.turn(running.finish(), logs)
    first, *others = turn.results
    assert first.text.startswith(f"Nobody could be asked. {GO_ON}") and not first.is_error
    assert all(each.is_error for each in others) and "at most 5" in others[-1].text
    assert len(_told(turn)) == 2 and turn.stop_reason == "end"
    assert "Nobody could be asked." in turn.cell.transcript


# Recorded ----------------------------------------------------------------------------------------


def test_a_recorded_answer(tmp_path: Path) -> None:
    """A replay gives the recorded answer with the same bytes and asks nobody: where nobody is
    there, where it was recorded, and before a person who got the cassette from somebody else.
    """
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    with LiveKernel(mine, ENVIRON) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        kernel.script("Sum it up.", YEAR, asks("And why?"), {"text": "Done."})
        kernel.helper("%agent config mode record")
        running = kernel.start("%%agent --fresh\nSum it up.", allow_stdin=True)
        page = FrontEnd(kernel, running)
        red = "hunter2-hunter2, in \x1b[31m<b>red</b>"
        for words, answer in (("year", {"choice": 0}), ("why", {"text": red})):
            page.until(lambda w=words: page.asking and w in page.asking[0]["question"]["text"])
            page.send({"t": "reply", "call": page.asking[0]["id"], **answer})
        recorded = running.finish()
        assert recorded.status == "ok", recorded.error
        kernel.helper("%agent config mode replay")
        assert _replayed(kernel, is_attended=True) == _bytes(recorded)
    text = (mine / CASSETTE).read_text(encoding="utf-8")
    assert "The person answered: 2019" in text and "hunter2" not in text
    shutil.copy(mine / CASSETTE, theirs)
    with LiveKernel(theirs, {**ENVIRON, "JUPYTER_AGENT_MODE": "replay"}) as kernel:
        kernel.load(f"cassette {CASSETTE}")
        for is_attended in (False, True):
            assert _replayed(kernel, is_attended=is_attended) == _bytes(recorded)


def _replayed(kernel: LiveKernel, *, is_attended: bool) -> str:
    running = kernel.start("%%agent --fresh\nSum it up.", allow_stdin=is_attended)
    page = FrontEnd(kernel, running)
    cell = running.finish()
    assert cell.status == "ok", cell.error
    assert not page.asking
    return _bytes(cell)


def _bytes(cell: Cell) -> str:
    outputs = json.loads(json.dumps(cell.outputs))
    for output in outputs:
        output.pop("transient", None)  # it is in no notebook
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return json.dumps(outputs)


def _told(turn: Turn) -> list[tuple[str, Any]]:
    found = (event for event in turn.events if event["type"].startswith("question_"))
    return [(event["type"], event.get("text")) for event in found]
