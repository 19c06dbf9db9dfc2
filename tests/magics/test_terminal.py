"""`%%agent` in terminal IPython: a real process behind a pseudo-terminal."""

from __future__ import annotations

import re
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
    *(
        {"task": task, "replies": [execute_code("!echo ran >> ran.txt"), {"text": "Well."}]}
        for task in ("Shell yes.", "Shell no.", "Shell always.", "Shell stop.")
    ),
    {
        "task": "Ask me.",
        "replies": [
            {
                "calls": [
                    {
                        "name": "ask_user",
                        "arguments": {"question": "Which year?", "choices": ["2019", "2020"]},
                    }
                ]
            },
            {"text": "Well."},
        ],
    },
    {"task": "Are you there?", "replies": [{"text": "Yes, " + "indeed."}]},
]


class Terminal:
    """IPython at its prompt. `enter` gives what is on the screen up to the next prompt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environ = {**clean_environment(folder), "TERM": "dumb", "NO_COLOR": "1"}
        arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
        self.child = pexpect.spawn(
            sys.executable,
            arguments,
            cwd=str(folder),
            env=environ,
            encoding="utf-8",
            timeout=60,
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

    def interrupt(self) -> None:
        """Press Ctrl-C, as late as a person does.

        A signal that comes just before readline, or a sleep, begins to wait is only handled after
        it: that is Python's, and lasts microseconds, or longer on a busy machine.
        """
        time.sleep(0.5)
        self.child.sendintr()

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
    """Type an %%agent cell: what the agent does and its answer come as compact text, once, without
    colours on a terminal that has none."""
    terminal.task("%%agent", "Say hello.")
    screen = terminal.seen()
    lines = [line.rstrip() for line in screen.splitlines()]
    first = next(index for index, line in enumerate(lines) if "✓ execute_code" in line)
    assert lines[first + 1 : first + 7] == [
        "    greeting = 'hello ' + 'there'",
        "    print(greeting)",
        "    │ hello there",
        "I said **hello**.",
        "Changed: greeting new str, 11 characters",
        "2 steps · 1 tool call · script",
    ]
    assert screen.count("I said") == screen.count("hello there") == 1
    assert "\x1b" not in screen and "<details" not in screen and "<IPython" not in screen
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
    terminal.interrupt()
    screen = terminal.seen()
    assert time.monotonic() - started < 15
    assert "TurnInterrupted: The agent was interrupted." in screen
    assert "Traceback" not in screen
    assert "42" in terminal.enter("6 * 7")


def _ask(terminal: Terminal, task: str) -> str:
    """Give a task that needs to be allowed; gives what is shown up to the end of the question."""
    (terminal.folder / "ran.txt").unlink(missing_ok=True)
    terminal.task("%%agent --fresh", task)
    terminal.child.expect(r"in this session \(shell commands\), and press Enter: ")
    return str(terminal.child.before).replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("task", "typed", "note", "runs"),
    [
        ("Shell yes.", "y", "✓ execute_code allowed by you", True),
        ("Shell no.", "no: because it is late", "⊘ execute_code refused by you", False),
        ("Shell always.", "a", "✓ execute_code allowed by you for this session", True),
    ],
)
def test_a_question_at_the_prompt(
    terminal: Terminal, task: str, typed: str, note: str, runs: bool
) -> None:
    """The agent wants to run a shell command: its code and the reason are shown once, and the
    answer typed at the prompt holds."""
    asked = _ask(terminal, task)
    assert asked.count("!echo ran >> ran.txt") == 1
    assert "The agent asks: Run this code?" in asked
    screen = terminal.enter(typed)
    said = re.split("Changed|Refused:", screen)[0]
    assert note in screen and "Well." in screen and "!echo" not in said
    assert (terminal.folder / "ran.txt").exists() is runs
    assert "They say: it is late" in screen or runs


def test_a_question_in_words(terminal: Terminal) -> None:
    """The agent's own question has numbered choices; the answer stands below its call."""
    terminal.task("%%agent --fresh", "Ask me.")
    terminal.child.expect("Type a number or another answer, and press Enter: ")
    asked = str(terminal.child.before).replace("\r\n", "\n")
    assert asked.count("Which year?") == 1 and "  1. 2019\n  2. 2020\n" in asked
    screen = terminal.enter("2")
    assert "✓ ask_user" in screen and "│ You: 2020" in screen and "Well." in screen


def test_ctrl_c_at_the_question(terminal: Terminal) -> None:
    """Press Ctrl-C instead of an answer: the turn ends, nothing ran, the prompt is back."""
    _ask(terminal, "Shell stop.")
    terminal.interrupt()
    screen = terminal.seen()
    assert "TurnInterrupted: The agent was interrupted." in screen and "Traceback" not in screen
    assert not (terminal.folder / "ran.txt").exists()
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
    terminal.interrupt()
    assert "KeyboardInterrupt" in terminal.seen()
    assert "42" in terminal.enter("6 * 7")
