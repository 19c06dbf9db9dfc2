"""Approvals in a real kernel: what is asked, by whom it can be answered, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel, Running, Turn, execute_code
from model_server import Call, ModelServer, Reply, check_anthropic

from jupyter_agent.config import Settings

DEFAULTS = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky", "ANTHROPIC_API_KEY": "k"}
NOBODY = "nobody can be asked here"
RISKY = {
    "a shell command": ("!touch ran.txt", "shell commands"),
    "a subprocess": ("import subprocess; subprocess.run(['touch', 'ran.txt'])", "other processes"),
    "a deletion": ("import os; os.remove('mine.txt'); open('ran.txt', 'w')", "deletions"),
    "the network": (
        "import urllib.request as u; open('ran.txt', 'w'); u.urlopen('http://127.0.0.1:9')",
        "network access",
    ),
    "a write over an unread file": (
        "open('mine.txt', 'w').write('gone'); open('ran.txt', 'w')",
        "writes over files that the agent has not read",
    ),
    "a write outside": (
        "open('/etc/../outside.txt', 'w') if 0 else open('ran.txt', 'w')",
        "writes outside the workspace",
    ),
    "an install": ("%pip --version\nopen('ran.txt', 'w')", "package installs"),
}


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel"), DEFAULTS) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def mine(kernel: LiveKernel) -> Path:
    """A file of the person's, and no trace of an earlier test."""
    (kernel.folder / "ran.txt").unlink(missing_ok=True)
    path = kernel.folder / "mine.txt"
    path.write_text("precious", encoding="utf-8")
    return path


@pytest.fixture
def no_view(kernel: LiveKernel) -> Iterator[None]:
    """Where no widget answers, a question waits two seconds for one: not where no view is tried."""
    kernel.helper("%agent config display static")
    yield
    kernel.helper("%agent config display auto")


def ran(kernel: LiveKernel) -> bool:
    return (kernel.folder / "ran.txt").exists()


def ask(kernel: LiveKernel, *codes: str | Json, line: str = "--fresh") -> tuple[Running, set[Path]]:
    """Send a cell as a person who can be asked does."""
    task = f"Ask {time.monotonic_ns()}"
    steps = [execute_code(code) if isinstance(code, str) else code for code in codes]
    kernel.script(task, *steps, {"text": "Done."})
    logs = kernel.logs()
    return kernel.start(f"%%agent {line}\n{task}", allow_stdin=True), logs


def answered(kernel: LiveKernel, typed: str) -> Turn:
    """A turn in which the one question is answered with `typed`."""
    running, logs = ask(kernel, RISKY["a shell command"][0])
    running.question()
    running.type(typed)
    return kernel.turn(running.finish(), logs)


# Nobody is there -------------------------------------------------------------------------------


def test_the_default_asks_for_what_is_risky() -> None:
    """By default risky calls need an answer."""
    assert Settings().approvals.mode == "ask_risky"


def test_plain_computation_needs_nobody(kernel: LiveKernel) -> None:
    """Computing, reading and new files in the folder need no answer."""
    turn = kernel.agent(
        "import math\nroot = math.sqrt(2)\nprint(open('mine.txt').read(), round(root, 3))",
        "open('new_by_agent.txt', 'w').write('mine'); open('new_by_agent.txt', 'w').write('again')",
    )
    assert [result.is_error for result in turn.results] == [False, False]
    assert turn.results[0].text == "precious 1.414"


@pytest.mark.parametrize("name", RISKY)
def test_nobody_can_be_asked(kernel: LiveKernel, name: str, mine: Path) -> None:
    """Without a person a risky call is refused in one clear line, and nothing ran."""
    code, kind = RISKY[name]
    turn = kernel.agent(code, "after = 6 * 7")
    refused, after = turn.results
    assert refused.is_error and refused.state == "refused"
    assert NOBODY in refused.text and kind in refused.text and "\n" not in refused.text
    assert not after.is_error and turn.stop_reason == "end" and turn.cell.status == "ok"
    assert not ran(kernel) and mine.read_text(encoding="utf-8") == "precious"
    assert "refused: nobody could be asked" in turn.cell.transcript


def test_the_model_reads_why(kernel: LiveKernel) -> None:
    """After a refusal the next request says why, and that nothing ran."""
    replies = [Reply(calls=(Call("execute_code", '{"code": "!ls"}'),)), Reply(text="I could not.")]
    with ModelServer(replies) as server:
        use(kernel, server)
        cell = kernel.run("%%agent --fresh\nList.")
        scripted(kernel)
    assert cell.status == "ok"
    for body in server.bodies:
        check_anthropic(body)
    (result,) = server.bodies[-1]["messages"][-1]["content"]
    assert result["is_error"] and NOBODY in result["content"][0]["text"]
    assert "Nothing was run or written." in result["content"][0]["text"]


def test_auto_lets_it_run(kernel: LiveKernel) -> None:
    """With --approve auto the same code runs without a question."""
    task = "Let it run."
    kernel.script(task, execute_code(RISKY["a shell command"][0]), {"text": "Done."})
    cell = kernel.run(f"%%agent --fresh --approve auto\n{task}")
    assert cell.status == "ok" and ran(kernel)


def test_read_only_refuses_without_asking(kernel: LiveKernel) -> None:
    """With --approve read_only code is refused without a question; reading is not."""
    read = {"calls": [{"name": "read_file", "arguments": {"path": "mine.txt"}}]}
    kernel.script("Look.", execute_code("open('ran.txt', 'w')"), read, {"text": "Done."})
    logs = kernel.logs()
    running = kernel.start("%%agent --fresh --approve read_only\nLook.", allow_stdin=True)
    turn = kernel.turn(running.finish(), logs)
    refused, looked = turn.results
    assert "approvals.mode is read_only" in refused.text and refused.state == "refused"
    assert "precious" in looked.text and not ran(kernel)


@pytest.mark.usefixtures("no_view")
def test_ask_all_asks_for_reading(kernel: LiveKernel) -> None:
    """With --approve ask_all reading a file needs an answer, keeping a plan does not."""
    read = {"calls": [{"name": "read_file", "arguments": {"path": "mine.txt"}}]}
    items = [{"text": "Look", "state": "done"}]
    plan = {"calls": [{"name": "update_plan", "arguments": {"items": items}}]}
    kernel.script("Look at all.", plan, read, {"text": "Done."})
    logs = kernel.logs()
    running = kernel.start("%%agent --fresh --approve ask_all\nLook at all.", allow_stdin=True)
    assert "read_file" in running.question()
    running.type("y")
    turn = kernel.turn(running.finish(), logs)
    assert [result.is_error for result in turn.results] == [False, False]


def test_a_write_over_an_unread_file(kernel: LiveKernel, mine: Path) -> None:
    """A write over an unread file shows the difference and asks; after a read it does not ask."""
    arguments = {"path": "mine.txt", "content": "better"}
    write = {"calls": [{"name": "write_file", "arguments": arguments}]}
    kernel.script("Better it.", write, {"text": "Done."})
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent --fresh\nBetter it."), logs)
    assert turn.result.state == "refused" and mine.read_text(encoding="utf-8") == "precious"
    read = {"calls": [{"name": "read_file", "arguments": {"path": "mine.txt"}}]}
    kernel.script("Read and better it.", read, write, {"text": "Done."})
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent --fresh\nRead and better it."), logs)
    assert not turn.results[1].is_error and mine.read_text(encoding="utf-8") == "better"


WRITES: dict[str, Callable[[str], Json]] = {
    "write_file": lambda text: {
        "calls": [{"name": "write_file", "arguments": {"path": "mine.txt", "content": text}}]
    },
    "open": lambda text: execute_code(f"n = open('mine.txt', 'w').write({text!r})"),
    "write_text": lambda text: execute_code(
        f"from pathlib import Path\ntext = {text!r}\nn = Path('mine.txt').write_text(text)"
    ),
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.usefixtures("no_view")
def test_a_question_shows_what_is_lost(kernel: LiveKernel, mine: Path, how: str) -> None:
    """A question about a write over a file, by a tool or by code, shows the lines that change."""
    mine.write_text("keep\nprecious\nkeep, too\n", encoding="utf-8")
    running, logs = ask(kernel, WRITES[how]("keep\nmore\nstill more\nkeep, too\n"))
    prompt = running.question()
    assert "? (+2 −1)" in prompt and "\n-precious\n+more\n+still more\n" in prompt
    running.type("y")
    turn = kernel.turn(running.finish(), logs)
    assert not turn.result.is_error and "more" in mine.read_text(encoding="utf-8")
    shown = "".join(str(display) for display in turn.cell.displays)
    assert ">-precious<" in shown.replace("\\n", "") and "+2 −1" in turn.cell.transcript


@pytest.mark.parametrize("how", WRITES)
def test_a_write_that_changes_nothing(kernel: LiveKernel, mine: Path, how: str) -> None:
    """Who would write over a file what it holds already is not asked about it."""
    task = f"Write the same by {how}."
    kernel.script(task, WRITES[how]("precious"), {"text": "Done."})
    logs = kernel.logs()
    turn = kernel.turn(kernel.run(f"%%agent --fresh\n{task}"), logs)
    assert not turn.result.is_error and mine.read_text(encoding="utf-8") == "precious"
    assert "Asked" not in turn.cell.transcript


@pytest.mark.usefixtures("no_view")
def test_a_binary_file_has_a_size(kernel: LiveKernel, mine: Path) -> None:
    """Of a binary file that is written over the question shows sizes, and what is written."""
    mine.write_bytes(b"\0\1\2" * 1000)
    running, _ = ask(kernel, WRITES["write_file"]("text"))
    prompt = running.question()
    assert "a binary file: 2.9 KB become 4 bytes" in prompt and "content: text" in prompt
    running.type("n")
    running.finish()


# By a line of text ------------------------------------------------------------------------------


def test_a_person_without_a_widget(kernel: LiveKernel) -> None:
    """Without the widget, after two seconds the view is plain HTML, and the question a line
    of text.
    """
    started = time.monotonic()
    running, logs = ask(kernel, RISKY["a shell command"][0])
    prompt = running.question()
    assert 1.5 < time.monotonic() - started < 30
    assert "The agent asks: Run this code?" in prompt and "shell" in prompt
    assert "a for always in this session (shell commands)" in prompt
    running.wait_for("touch ran.txt")
    running.type("y")
    turn = kernel.turn(running.finish(), logs)
    assert ran(kernel) and not turn.result.is_error
    assert "allowed by you" in turn.cell.transcript
    assert "jupyter-agent-live" not in str(turn.cell.displays)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("n", "The person refused this call (shell commands). Nothing was run or written."),
        ("no: because it is mine, and old", "They say: it is mine, and old"),
        ("No, use Python instead", "They say: use Python instead"),
    ],
)
@pytest.mark.usefixtures("no_view")
def test_a_refusal_by_a_line(kernel: LiveKernel, typed: str, told: str) -> None:
    """A typed no, with or without a reason, runs nothing; the model reads the reason."""
    turn = answered(kernel, typed)
    assert turn.result.state == "refused" and told in turn.result.text
    assert not ran(kernel) and "refused by you" in turn.cell.transcript


@pytest.mark.usefixtures("no_view")
def test_a_question_without_a_view(kernel: LiveKernel) -> None:
    """With display: static the question itself shows the code."""
    running, logs = ask(kernel, RISKY["a shell command"][0])
    prompt = running.question()
    assert RISKY["a shell command"][0] in prompt and "The agent asks: Run this code?" in prompt
    running.type("n")
    assert kernel.turn(running.finish(), logs).result.state == "refused"


@pytest.mark.usefixtures("no_view")
def test_nonsense_is_asked_again(kernel: LiveKernel) -> None:
    """After nonsense and an empty line the question is repeated, and a y counts."""
    running, logs = ask(kernel, RISKY["a shell command"][0])
    running.question()
    for typed in ("perhaps", "", "y"):
        running.type(typed)
        if typed != "y":
            hint = "" if typed else "An empty line is no answer. "
            assert running.question() == f"{hint}Please answer y, n or a: "
    turn = kernel.turn(running.finish(), logs)
    assert not turn.result.is_error and ran(kernel)


@pytest.mark.usefixtures("no_view")
def test_nonsense_for_ever_is_no(kernel: LiveKernel) -> None:
    """Three nonsense answers count as no."""
    running, logs = ask(kernel, RISKY["a shell command"][0])
    for typed in ("yes please do", "ja", "  "):
        running.question()
        running.type(typed)
    turn = kernel.turn(running.finish(), logs)
    assert turn.result.state == "refused" and not ran(kernel)


def test_an_interrupt_at_the_question(kernel: LiveKernel) -> None:
    """An interrupt at the question ends the turn, and the kernel works."""
    running, logs = ask(kernel, RISKY["a shell command"][0])
    running.question()
    kernel.interrupt()
    turn = kernel.turn(running.finish(10), logs)
    assert turn.stop_reason == "interrupted" and "The agent was interrupted." in turn.cell.error
    assert turn.result.state == "interrupted" and not ran(kernel)
    assert kernel.run("6 * 7").result == "42"


def test_a_question_that_nobody_answers(kernel: LiveKernel) -> None:
    """After its time an open question is a refusal; the turn goes on without a late answer."""
    kernel.helper("%agent config approvals.timeout 1")
    running, logs = ask(kernel, RISKY["a shell command"][0], "after = 1")
    running.question()
    turn = kernel.turn(running.finish(20), logs)
    kernel.helper("%agent config approvals.timeout 600")
    refused, after = turn.results
    assert "nobody answered the question" in refused.text and refused.state == "refused"
    assert not after.is_error and not ran(kernel)
    assert "refused: no answer in time" in turn.cell.transcript
    running.type("y")  # it goes nowhere
    assert answered(kernel, "n").result.state == "refused"


@pytest.mark.usefixtures("no_view")
def test_the_time_of_all_tries_counts(kernel: LiveKernel) -> None:
    """The time-out is for the whole question, not for each answer."""
    kernel.helper("%agent config approvals.timeout 6")
    running, logs = ask(kernel, RISKY["a shell command"][0])
    running.question()
    started = time.monotonic()
    time.sleep(4.5)  # a person takes their time
    running.type("what?")
    running.question()
    turn = kernel.turn(running.finish(60), logs)
    assert time.monotonic() - started < 10.4
    kernel.helper("%agent config approvals.timeout 600")
    assert "nobody answered" in turn.result.text


@pytest.mark.usefixtures("no_view")
def test_always_holds_for_its_kind_and_session(kernel: LiveKernel) -> None:
    """Always covers one kind in one session; other kinds, sessions and a reset ask again."""
    running, logs = ask(kernel, "!touch ran.txt", "!touch ran_again.txt")
    running.question()
    running.type("a")
    turn = kernel.turn(running.finish(), logs)
    assert [result.is_error for result in turn.results] == [False, False]
    assert "allowed by you for this session" in turn.cell.transcript
    # The next turn of the session: no question either, so nobody is needed.
    kernel.script("Again.", execute_code("!touch third.txt"), {"text": "Done."})
    logs = kernel.logs()
    assert not kernel.turn(kernel.run("%%agent\nAgain."), logs).result.is_error
    kernel.script("Delete.", execute_code(RISKY["a deletion"][0]), {"text": "Done."})
    logs = kernel.logs()
    assert NOBODY in kernel.turn(kernel.run("%%agent\nDelete."), logs).result.text
    kernel.script("Elsewhere.", execute_code("!ls"), {"text": "Done."})
    logs = kernel.logs()
    cell = kernel.run("%%agent --session other\nElsewhere.")
    assert NOBODY in kernel.turn(cell, logs).result.text
    kernel.helper("%agent reset")
    kernel.script("After.", execute_code("!ls"), {"text": "Done."})
    logs = kernel.logs()
    assert NOBODY in kernel.turn(kernel.run("%%agent\nAfter."), logs).result.text


def use(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper(
        "%agent config provider anthropic",
        "%agent config model test-model",
        f"%agent config api_base {server.anthropic_url}",
    )


def scripted(kernel: LiveKernel) -> None:
    kernel.helper("%agent config provider scripted")
