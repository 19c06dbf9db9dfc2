"""`%%agent` in terminal IPython: a real process behind a pseudo-terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
import yaml
from live_kernel import clean_environment, execute_code

if sys.platform == "win32":
    pytest.skip("pexpect.spawn needs a POSIX terminal", allow_module_level=True)

PROMPT = r"In \[\d+\]: $"
TURNS = [
    {
        "task": "Say hello.",
        "replies": [
            execute_code("greeting = 'hello ' + 'there'\nprint(greeting)"),
            {"text": "I said **hello**."},
        ],
    },
    *(
        {"task": task, "replies": [execute_code(code), {"text": "Never said."}]}
        for task, code in (
            (
                "Loop.",
                "import os; os.write(1, b'go' + b'ing')\nwhile True: pass",
            ),
            (
                "Wait.",
                "import asyncio\nimport os; os.write(1, b'go' + b'ing')\nawait asyncio.sleep(60)",
            ),
        )
    ),
    {"task": "Are you there?", "replies": [{"text": "Yes, " + "indeed."}]},
]


class Terminal:
    """IPython at its prompt. `enter` gives what is on the screen up to the next prompt."""

    def __init__(self, folder: Path) -> None:
        environ = {**clean_environment(folder), "TERM": "dumb", "NO_COLOR": "1"}
        arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
        self.child = pexpect.spawn(
            sys.executable,
            arguments,
            cwd=str(folder),
            env=environ,
            encoding="utf-8",
            timeout=20,
            dimensions=(50, 200),
            echo=False,
        )
        self.child.expect(PROMPT)

    def send(self, *lines: str) -> None:
        for line in lines:
            self.child.sendline(line)

    def task(self, first_line: str, text: str) -> None:
        """Type an %%agent cell. At the simple prompt two blank lines end a cell magic."""
        self.send(first_line, text, "", "")

    def seen(self) -> str:
        """What was shown up to the prompt."""
        self.child.expect(PROMPT)
        return str(self.child.before).replace("\r\n", "\n")

    def enter(self, *lines: str) -> str:
        self.send(*lines)
        return self.seen()

    def close(self) -> None:
        self.child.close(force=True)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "script.yaml").write_text(yaml.safe_dump(TURNS), encoding="utf-8")
    ipython = Terminal(folder)
    ipython.enter("%load_ext jupyter_agent")
    ipython.enter("%agent config provider scripted")
    ipython.enter("%agent config script script.yaml")
    yield ipython
    ipython.close()


def test_a_task_at_the_prompt(terminal: Terminal) -> None:
    """Type an %%agent cell: the transcript and the answer are shown as text."""
    terminal.task("%%agent", "Say hello.")
    screen = terminal.seen()
    assert "Agent: 2 steps · 1 tool call" in screen
    assert "✓ execute_code" in screen
    assert "│ hello there" in screen
    assert screen.rstrip().endswith("I said **hello**.")
    assert "<details" not in screen and "<IPython" not in screen
    assert "hello there" in terminal.enter("greeting")
    assert "Traceback" not in screen


def test_an_error_is_one_line(terminal: Terminal) -> None:
    """Type a task that cannot be done: one line tells why, without a traceback."""
    terminal.task("%%agent --modle x", "Say hello.")
    screen = terminal.seen()
    line = "ConfigError: %%agent: there is no option --modle. Did you mean --model?"
    assert line in screen and "Traceback" not in screen


@pytest.mark.parametrize("task", ["Loop.", "Wait."])
def test_ctrl_c_ends_the_turn(terminal: Terminal, task: str) -> None:
    """Press Ctrl-C while the agent's code is busy or waits: the turn ends, the prompt is back."""
    terminal.task("%%agent --fresh", task)
    terminal.child.expect("going")
    started = time.monotonic()
    terminal.child.sendintr()
    screen = terminal.seen()
    assert time.monotonic() - started < 3
    assert "TurnInterrupted: The agent was interrupted." in screen
    assert "Traceback" not in screen
    assert "42" in terminal.enter("6 * 7")


def test_the_next_turn_works(terminal: Terminal) -> None:
    """Give a task after the interrupts: it is answered."""
    terminal.task("%%agent --fresh", "Are you there?")
    assert "Yes, indeed." in terminal.seen()


def test_ctrl_c_at_an_ordinary_input(terminal: Terminal) -> None:
    """Press Ctrl-C in code of one's own after a turn: it ends with KeyboardInterrupt."""
    # Short sleeps: a signal that comes just before a long one is only handled after it.
    code = "import time; print('lo' + 'op', flush=True); [time.sleep(0.1) for _ in range(600)]"
    terminal.send(code)
    terminal.child.expect("loop")
    terminal.child.sendintr()
    assert "KeyboardInterrupt" in terminal.seen()
    assert "42" in terminal.enter("6 * 7")
