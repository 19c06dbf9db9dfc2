"""The live view over the comm: what reaches a front end, and what it may send back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ipykernel
import pytest
import yaml
from front_end import FrontEnd
from live_kernel import Json, LiveKernel, Running, execute_code
from model_server import Call, ModelServer, Reply

DEFAULTS = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky", "ANTHROPIC_API_KEY": "k"}
GOING = "print('go' + 'ing', flush=True)\n"
WAIT = "await __import__('asyncio').sleep(0.5)\n"
"""The page's first message arrives meanwhile, as it does while a model thinks."""


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel"), DEFAULTS) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def clean(kernel: LiveKernel) -> None:
    (kernel.folder / "ran.txt").unlink(missing_ok=True)


def start(kernel: LiveKernel, *replies: Json, line: str = "--fresh") -> tuple[Running, FrontEnd]:
    """A cell with scripted replies, and a page that has the widget."""
    task = f"Ask {time.monotonic_ns()}"
    kernel.script(task, *replies)
    running = kernel.start(f"%%agent {line}\n{task}", allow_stdin=True)
    return running, FrontEnd(kernel, running)


@contextmanager
def served(kernel: LiveKernel, replies: Sequence[Reply] | Any) -> Iterator[ModelServer]:
    """A model over HTTP for the cells inside."""
    with ModelServer(replies) as server:
        kernel.helper(
            "%agent config provider anthropic",
            "%agent config model test-model",
            f"%agent config api_base {server.anthropic_url}",
        )
        yield server
    kernel.helper("%agent config provider scripted")


def begin(kernel: LiveKernel, task: str, line: str = "--fresh") -> tuple[Running, FrontEnd]:
    running = kernel.start(f"%%agent {line}\n{task}", allow_stdin=True)
    return running, FrontEnd(kernel, running)


def run_code(code: str) -> Reply:
    return Reply(calls=(Call("execute_code", json.dumps({"code": code})),))


def texts_sent(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


# What is shown ----------------------------------------------------------------------------------


def test_the_state_after_a_turn(kernel: LiveKernel) -> None:
    """Watch a turn with text, code, an error and a plan: the page shows it, and the page's state
    is what the operations say; nothing stays open afterwards."""
    items = [{"text": "Look", "state": "done"}, {"text": "Tell", "state": "pending"}]
    running, page = start(
        kernel,
        {"text": "I look.", **execute_code("print('seen')\nvalue = 1")},
        {"calls": [{"name": "update_plan", "arguments": {"items": items}}]},
        execute_code("1 / 0"),
        execute_code(GOING + "await __import__('asyncio').sleep(0.6)"),
        {"text": "All **done**."},
    )
    page.until(lambda: page.calls and page.calls[-1]["state"] == "running" and "going" in page.text)
    states = [call["state"] for call in page.calls]
    assert states == ["done", "done", "failed", "running"]
    first, _, failed, _ = page.calls
    assert page.state["steps"][0]["text"] == "I look."
    assert [output["text"] for output in first["outputs"]] == ["seen"]
    assert failed["note"] == "error ZeroDivisionError: division by zero"
    assert "1 / 0" in failed["body"]
    assert [item["state"] for item in page.state["plan"]] == ["done", "pending"]
    assert page.state["running"] is True and page.state["task"].startswith("Ask")
    cell = running.finish()
    assert cell.status == "ok"
    page.until_closed()
    assert all("widget" not in kind for data in cell.displays for kind in data)
    assert "jupyter-agent-live" not in str(cell.displays)


def test_two_turns_in_a_row(kernel: LiveKernel) -> None:
    """Two agent cells have a view each, and none stays open."""
    pages = []
    for word in ("first", "second"):
        running, page = start(kernel, execute_code(WAIT + GOING + WAIT), {"text": word})
        page.until(lambda page=page: "going" in page.text)
        assert running.finish().status == "ok"
        page.until_closed()
        pages.append(page)
    assert not pages[0].opened & pages[1].opened


def test_a_widget_goes_after_the_next_one_came(kernel: LiveKernel) -> None:
    """Run three turns in one cell: between them some widget is always open, so that JupyterLab
    keeps the subshell in which the next turn's messages are read; at the end all are closed."""
    replies = [run_code(WAIT + GOING + WAIT), Reply(text="Gone.")]
    code = "from jupyter_agent import ask\nfor _ in range(3):\n    await ask('Go.', fresh=True)"
    with served(kernel, replies * 3):
        running = kernel.start(code, allow_stdin=True)
        page = FrontEnd(kernel, running)
        cell = running.finish()
    assert cell.status == "ok" and not cell.stderr, cell.error
    page.until_closed()
    assert len(page.opened) == 6 and page.open_counts.index(0) == len(page.open_counts) - 1


def test_operations_make_the_state(kernel: LiveKernel) -> None:
    """In the middle of a streamed reply the whole state equals the result of the operations."""
    pieces = tuple(f"word {number} " for number in range(120))
    with served(kernel, [Reply(text=pieces, pause=0.01)]):
        running, page = begin(kernel, "Stream.")
        page.until(lambda: "word 40" in page.text)
        made = page.state["steps"][0]["text"]
        whole = len([1 for _, content in page.received if content["t"] == "state"])
        page.send({"t": "ready"})
        page.until(lambda: len([1 for _, c in page.received if c["t"] == "state"]) > whole)
        assert page.state["steps"][0]["text"].startswith(made)
        page.until(lambda: "word 100" in page.text)
        assert "".join(pieces).startswith(page.state["steps"][0]["text"].rstrip())
        assert running.finish().status == "ok"


@pytest.mark.deep
def test_streaming_costs_little(kernel: LiveKernel) -> None:
    """Stream 2,000 tokens: all messages together cost at most three times the text, and come at
    most twenty times a second."""
    pieces = tuple(f"token{number % 10} " for number in range(2_000))
    with served(kernel, [Reply(text=pieces, pause=0.004)]):
        running, page = begin(kernel, "Stream a lot.")
        cell = running.finish()
    text = "".join(pieces)
    assert text.strip() in str(cell.displays)
    shown = page.state["steps"][0]["text"]
    assert text.startswith(shown) and len(shown) > len(text) * 0.8
    assert page.size <= 3 * len(text), f"{page.size} bytes for {len(text)} characters"
    times = [at for at, _ in page.received]
    seconds = times[-1] - times[0]
    assert len(times) <= 20 * seconds + 2, f"{len(times)} messages in {seconds:.1f} s"


@pytest.mark.deep
def test_ten_megabytes_do_not_cross_the_wire(kernel: LiveKernel) -> None:
    """Print 10 MB in long and in short lines: less than 100 kB of it is sent live."""
    code = (
        f"{WAIT}print('x' * 5_000_000)\nfor i in range(100_000): print('line', i, '.' * 40)\n{WAIT}"
    )
    running, page = start(kernel, execute_code(code), {"text": "Done."})
    assert running.finish().status == "ok"
    assert page.calls and 1_000 < page.size < 100_000


# What comes back --------------------------------------------------------------------------------


def test_yes(kernel: LiveKernel) -> None:
    """After Yes the code runs."""
    running, page = start(kernel, execute_code("!touch ran.txt"), {"text": "Done."})
    call = page.until_asked()
    assert call["question"]["text"] == "Run this code?"
    assert call["question"]["always"] == "shell commands" and call["question"]["reasons"]
    assert not (kernel.folder / "ran.txt").exists()
    page.answer("yes")
    cell = running.finish()
    assert (kernel.folder / "ran.txt").exists() and "allowed by you" in cell.transcript


def test_no_with_a_reason(kernel: LiveKernel) -> None:
    """After No with a reason nothing runs, and the next request has the reason."""
    with served(kernel, [run_code("!touch ran.txt"), Reply(text="All right.")]) as server:
        running, page = begin(kernel, "Touch.")
        page.until_asked()
        page.answer("no", "because I said so")
        cell = running.finish()
    assert not (kernel.folder / "ran.txt").exists() and cell.status == "ok"
    assert "They say: because I said so" in texts_sent(server.bodies[-1])
    assert "refused by you" in cell.transcript


def test_always(kernel: LiveKernel) -> None:
    """After Always the next calls of the kind, also in the next turn, run without a question."""
    running, page = start(
        kernel, execute_code("!touch ran.txt"), execute_code("!touch again.txt"), {"text": "Done."}
    )
    page.until_asked()
    page.answer("always")
    assert "allowed by you for this session" in running.finish().transcript
    running, page = start(kernel, execute_code("!touch third.txt"), {"text": "Done."}, line="")
    assert running.finish().status == "ok" and not page.asking
    assert (kernel.folder / "third.txt").exists()
    kernel.helper("%agent reset")


def test_a_question_times_out_in_the_widget(kernel: LiveKernel) -> None:
    """Leave the question in the widget open: it ends as a refusal; a late click does nothing."""
    kernel.helper("%agent config approvals.timeout 1")
    running, page = start(
        kernel,
        execute_code("!touch ran.txt"),
        execute_code(GOING + WAIT),
        {"text": "Done."},
    )
    call = page.until_asked()
    page.until(lambda: "going" in page.text)
    page.send({"t": "answer", "call": call["id"], "answer": "yes"})
    cell = running.finish()
    kernel.helper("%agent config approvals.timeout 600")
    assert "refused: no answer in time" in cell.transcript
    assert not (kernel.folder / "ran.txt").exists()


def test_steering_reaches_the_next_request(kernel: LiveKernel) -> None:
    """Type into the field while code runs: the next request and the transcript hold it."""
    code = GOING + "while not __import__('os').path.exists('go.txt'): await asyncio.sleep(0.02)"
    with served(
        kernel, [run_code("import asyncio\n" + code), Reply(text="As you wish.")]
    ) as server:
        running, page = begin(kernel, "Work.")
        page.until(lambda: "going" in page.text)
        page.steer("Rather the median.")
        page.until(lambda: page.state["unread"] == ["Rather the median."])
        (kernel.folder / "go.txt").touch()
        cell = running.finish()
    assert len(server.bodies) == 2 and "Rather the median." in texts_sent(server.bodies[1])
    assert "Rather the median." in cell.transcript


def test_steering_in_the_last_step(kernel: LiveKernel) -> None:
    """Words typed while the model answers are read, and the turn goes on."""
    slow = Reply(text=tuple(f"{n} " for n in range(60)), pause=0.02)
    with served(kernel, [slow, Reply(text="In euros: 7.")]) as server:
        running, page = begin(kernel, "Sum up.")
        page.until(lambda: "10 " in page.text)
        page.steer("In euros, please.")
        cell = running.finish()
    assert len(server.bodies) == 2 and "In euros, please." in texts_sent(server.bodies[1])
    assert "In euros: 7." in str(cell.displays[-1])


def test_words_typed_too_late(kernel: LiveKernel) -> None:
    """Words that a stopped turn did not read reach the next turn's model."""
    slow = Reply(text=tuple(f"{n} " for n in range(600)), pause=0.02)
    with served(kernel, [slow, Reply(text="Here it is.")]) as server:
        running, page = begin(kernel, "Sum up again.")
        page.until(lambda: "10 " in page.text)
        page.steer("Mind the outliers.")
        page.until(lambda: page.state["unread"])
        page.stop()
        cell = running.finish(15)
        assert "The agent was interrupted." in cell.error
        running, _ = begin(kernel, "Go on.", line="")
        assert running.finish().status == "ok"
    assert "Mind the outliers." in texts_sent(server.bodies[-1])
    assert "Mind the outliers." in cell.transcript


# Stop -------------------------------------------------------------------------------------------


def test_stop_in_mid_stream(kernel: LiveKernel) -> None:
    """Press Stop while text streams: the turn ends within a second or two, the server's connection
    is closed, the kernel works."""
    slow = Reply(text=tuple(f"{n} " for n in range(3_000)), pause=0.02)
    with served(kernel, [slow]):
        running, page = begin(kernel, "Tell.")
        page.until(lambda: "10 " in page.text)
        started = time.monotonic()
        page.stop()
        cell = running.finish(15)
    assert time.monotonic() - started < 14 and "The agent was interrupted." in cell.error
    page.until_closed()
    assert kernel.run("6 * 7").result == "42"


def test_stop_in_mid_code(kernel: LiveKernel) -> None:
    """Press Stop while the agent's code awaits: it is interrupted, the kernel works."""
    code = GOING + "await __import__('asyncio').sleep(60)"
    running, page = start(kernel, execute_code(code), {"text": "Never said."})
    page.until(lambda: "going" in page.text)
    started = time.monotonic()
    page.stop()
    cell = running.finish(15)
    assert time.monotonic() - started < 14 and "The agent was interrupted." in cell.error
    assert "Interrupted" in cell.transcript
    page.until_closed()
    assert kernel.run("6 * 7").result == "42"


def test_stop_while_code_holds_the_kernel(kernel: LiveKernel) -> None:
    """Press Stop while code holds the kernel: ipykernel keeps the message until the code ends, and
    the interrupt that the page sends a little later through the server ends the code."""
    code = WAIT + GOING + "import time\nwhile True: time.sleep(0.01)"
    running, page = start(kernel, execute_code(code), {"text": "Never said."})
    page.until(lambda: "going" in page.text)
    page.stop()
    kernel.interrupt()
    cell = running.finish(15)
    assert "The agent was interrupted." in cell.error
    page.until_closed()
    assert kernel.run("6 * 7").result == "42"


@pytest.mark.skipif(ipykernel.version_info[:2] < (7, 4), reason="the messages wait for the code")
def test_a_page_that_comes_while_code_holds_the_kernel(kernel: LiveKernel) -> None:
    """While code holds the main thread a new page learns the state, and its Stop ends the code."""
    code = GOING + "import time\nwhile True: time.sleep(0.01)"
    running, page = start(kernel, execute_code(code), {"text": "Never said."})
    page.until(lambda: "going" in page.text)
    page.state = {}
    page.send({"t": "ready", "served": False})
    page.until(lambda: page.state.get("running"))
    page.stop()
    cell = running.finish(15)
    assert "The agent was interrupted." in cell.error
    page.until_closed()
    assert kernel.run("6 * 7").result == "42"


def test_a_question_by_the_line_is_in_the_state(kernel: LiveKernel) -> None:
    """While the input line asks, the state has its prompt and the seconds left, and the clock of
    the turn stands; afterwards it has neither.
    """
    (kernel.folder / "precious.csv").write_text("a", encoding="utf-8")
    code = WAIT + "import os\nvars(os)['re' + 'move']('precious.csv')"
    running, page = start(kernel, execute_code(code), execute_code(WAIT), {"text": "Done."})
    prompt = running.question()
    page.until(lambda: page.state.get("wait") and page.state["wait"]["line"])
    wait = page.state["wait"]
    assert wait["line"] == prompt and "deletes precious.csv" in wait["text"]
    assert 590 <= wait["left"] <= 600
    time.sleep(1.5)
    running.type("n")
    page.until(lambda: len(page.calls) == 2)
    assert page.state["wait"] is None
    cell = running.finish()
    assert page.state["elapsed"] < time.monotonic() - page.received[0][0] - 1.4
    assert cell.status == "ok" and (kernel.folder / "precious.csv").exists()


def test_a_line_that_is_no_longer_read(kernel: LiveKernel) -> None:
    """At Stop the state has no line any more, so that the page gives it up; what the page then
    sends answers no question of the person's own code.
    """
    (kernel.folder / "precious.csv").write_text("a", encoding="utf-8")
    code = WAIT + "import os\nvars(os)['re' + 'move']('precious.csv')"
    running, page = start(kernel, execute_code(code), {"text": "Never said."})
    running.question()
    page.until(lambda: page.state.get("wait") and page.state["wait"]["line"])
    old = running.asked
    kernel.interrupt()
    page.until(lambda: not (page.state["wait"] or {}).get("line"))
    running.type("(not answered)", about=old)
    assert "The agent was interrupted." in running.finish(15).error
    running = kernel.start("input('Mine? ')", allow_stdin=True)
    assert running.question() == "Mine? "
    running.type("mine")
    assert running.finish().result == "'mine'"


def test_stop_while_a_question_waits(kernel: LiveKernel) -> None:
    """Press Stop instead of an answer: the turn ends, and nothing ran."""
    running, page = start(kernel, execute_code("!touch ran.txt"), {"text": "Never said."})
    page.until_asked()
    page.stop()
    cell = running.finish(15)
    assert "The agent was interrupted." in cell.error
    page.until_closed()
    assert not (kernel.folder / "ran.txt").exists()


def test_what_was_only_asked_about_has_not_run(kernel: LiveKernel) -> None:
    """After Stop at the question, transcript and model say that the call has not run,
    unlike an earlier one.
    """
    asked = Reply(text="I look.", calls=(Call("execute_code", '{"code": "!touch ran.txt"}'),))
    with served(kernel, [asked, run_code(WAIT * 60), Reply(text="Well.")]) as server:
        running, page = begin(kernel, "Touch.")
        page.until_asked()
        page.stop()
        cell = running.finish(15)
        running, page = begin(kernel, "Wait.", line="")
        page.until(lambda: page.calls and page.calls[-1]["state"] == "running")
        page.stop()
        ran = running.finish(15)
        assert kernel.run("%%agent\nGo on.").status == "ok"
    results = [
        block["content"][0]["text"]
        for message in server.bodies[-1]["messages"]
        for block in message["content"]
        if message["role"] == "user" and block["type"] == "tool_result"
    ]
    assert "– execute_code Not run: " in cell.transcript and "1 not run" in cell.transcript
    assert "■ execute_code interrupted" in ran.transcript
    assert results[0].startswith("Not run: ") and results[1].startswith("Interrupted")


# Hostile messages -------------------------------------------------------------------------------

HOSTILE: list[object] = [
    None,
    7,
    "stop",
    [],
    ["stop"],
    {},
    {"t": None},
    {"t": 7},
    {"t": ["stop"]},
    {"t": "STOP"},
    {"t": "eval", "code": "1/0"},
    {"t": "steer"},
    {"t": "steer", "text": 7},
    {"t": "steer", "text": None},
    {"t": "steer", "text": "   "},
    {"t": "answer"},
    {"t": "answer", "call": 7, "answer": "yes"},
    {"t": "answer", "call": "nobody's", "answer": "yes"},
    {"t": "answer", "call": None, "answer": "always"},
    {"t": "answer", "call": ["c1"], "number": 1, "answer": "yes"},
    {"t": "answer", "call": "c1", "number": [1], "answer": "yes"},
    {"t": "patch", "ops": [["set", ["running"], False]]},
    {"t": "state", "state": {}},
    {"t" * 1000: "x"},
    {"t": "x" * 1_000_000},
]


def test_hostile_messages_do_nothing(kernel: LiveKernel) -> None:
    """Malformed messages do not end a question; the right answer does."""
    running, page = start(kernel, execute_code("!touch ran.txt"), {"text": "Done."})
    call = page.until_asked()
    wrong = [
        {"t": "answer", "call": call["id"], "answer": answer}
        for answer in ("YES", True, None, ["yes"])
    ]
    wrong += [
        {"t": "answer", "call": call["id"], "number": number, "answer": "yes"}
        for number in (0, 2, "1", [])
    ]
    before = page.text
    for content in [*HOSTILE, *wrong]:
        page.send(content)
    whole = len(page.received)
    page.send({"t": "ready"})
    page.until(lambda: len(page.received) > whole)
    clocks = {"elapsed": 0, "wait": {}}
    assert page.asking and {**json.loads(before), **clocks} == {**page.state, **clocks}
    assert not (kernel.folder / "ran.txt").exists()
    page.answer("yes")
    assert running.finish().status == "ok" and (kernel.folder / "ran.txt").exists()


def delegating(kernel: LiveKernel, task: str, **delegates: list[Json]) -> None:
    """Script a turn that gives each task away at once, and answers."""
    tasks = [name.replace("_", " ") for name in delegates]
    calls = [{"name": "delegate", "arguments": {"task": each}} for each in tasks]
    main = {"task": task, "replies": [{"calls": calls}, {"text": "Well."}]}
    theirs = zip(tasks, delegates.values(), strict=True)
    turns = [main, *({"task": each, "replies": replies} for each, replies in theirs)]
    name = f"delegates_{time.monotonic_ns()}.yaml"
    (kernel.folder / name).write_text(yaml.safe_dump(turns), encoding="utf-8")
    kernel.helper("%agent config provider scripted", f"%agent config script {name}")


def test_eight_delegates(kernel: LiveKernel) -> None:
    """What eight delegates do side by side comes in few messages, and nothing of it comes twice:
    all that is sent is about as long as the state that is seen at the end.
    """
    steps = [execute_code(f"import asyncio\nawait asyncio.sleep(0.02)\n{n}") for n in range(8)]
    names = [f"part_{n}" for n in range(8)]
    delegating(kernel, "Parts.", **{name: [*steps, {"text": "Read."}] for name in names})
    running, page = begin(kernel, "Parts.")
    began = time.monotonic()
    page.until(lambda: len(page.calls) == 8)
    assert running.finish().status == "ok"
    seconds = time.monotonic() - began
    its = [call["delegate"] for call in page.calls]
    assert [each["now"] for each in its] == ["9 steps"] * 8
    assert {len(each["steps"]) for each in its} == {9}
    assert len(page.received) <= 20 * seconds + 5
    assert page.size <= 6 * len(page.text)


def test_questions_of_a_delegate(kernel: LiveKernel) -> None:
    """Each is at its card, with its name and its code; an answer to the first that comes late is no
    answer to the second. What was seen of its steps is in the saved form.
    """
    replies = [execute_code("!touch ran.txt"), execute_code("!touch not.txt"), {"text": "Tidy."}]
    delegating(kernel, "Clean.", tidy_up=replies)
    running, page = begin(kernel, "Clean.")
    card = page.until_asked()
    assert card["name"] == "Delegate 1" and card["outputs"][0]["text"] == "!touch ran.txt"
    assert page.state["wait"]["text"] == "(Delegate 1) Run this code?"
    first = {"t": "answer", "call": card["id"], "number": card["question"]["number"]}
    page.send({**first, "answer": "yes"})
    page.until(lambda: page.asking and page.asking[0]["question"]["number"] == 2)
    page.send({**first, "answer": "yes"})
    page.steer("Read after it.")
    page.until(lambda: page.state["unread"])
    assert page.asking[0]["question"]["about"] == "!touch not.txt"
    page.answer("no", "not that")
    cell = running.finish()
    assert (kernel.folder / "ran.txt").exists() and not (kernel.folder / "not.txt").exists()
    assert "refused by you: not that" in cell.transcript and "Delegate 1" in cell.transcript


def test_a_question_waits_while_another_delegates_code_asks(kernel: LiveKernel) -> None:
    """The input line asks about what runs; once it is answered the first question is seen again,
    and its answer counts."""
    (kernel.folder / "precious.csv").write_text("a", encoding="utf-8")
    (kernel.folder / "go.txt").unlink(missing_ok=True)
    waits = "import asyncio, os\nwhile not os.path.exists('go.txt'): await asyncio.sleep(0.02)"
    deletes = execute_code(f"{waits}\nvars(os)['re' + 'move']('precious.csv')")
    delegating(
        kernel,
        "Two.",
        tidy_up=[execute_code("!touch ran.txt"), {"text": "Tidy."}],
        delete=[deletes, {"text": "Refused."}],
    )
    running, page = begin(kernel, "Two.")
    assert page.until_asked()["name"] == "Delegate 1"
    (kernel.folder / "go.txt").touch()
    assert "deletes precious.csv" in running.question()
    page.until(lambda: page.state["wait"]["line"])
    running.type("n")
    page.until(lambda: not (page.state["wait"] or {}).get("line"))
    assert page.state["wait"]["text"] == "(Delegate 1) Run this code?"
    page.answer("yes")
    assert running.finish().status == "ok" and (kernel.folder / "ran.txt").exists()
    assert (kernel.folder / "precious.csv").exists()


def test_endless_words_are_cut(kernel: LiveKernel) -> None:
    """10 MB of pasted words are cut, and the turn goes on."""
    running, page = start(
        kernel, execute_code("!touch ran.txt"), {"text": "Done."}, {"text": "Yes."}
    )
    page.until_asked()
    page.steer("s" * 10_000_000)
    page.answer("no", "r" * 10_000_000)
    cell = running.finish()
    assert cell.status == "ok" and page.size < 150_000
    assert len(cell.transcript) < 200_000
