"""SIGINT at any line of a turn's own code leaves nothing half open."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from generated import PROFILE, seed
from live_kernel import LiveKernel

TRACER = """
import os as _os, signal as _signal, sys as _sys
import jupyter_agent as _package

class _Tracer:
    '''Counts the lines of the package that run in a turn, and sends SIGINT at one of them.'''

    def __init__(self, at):
        self.at, self.lines, self.began, self.where = at, 0, False, ''

    def __call__(self, frame, event, arg):
        code = frame.f_code
        if not code.co_filename.startswith(_os.path.dirname(_package.__file__)):
            return None
        self.began = self.began or code.co_name == 'run_and_show'
        return self.line if self.began else None

    def line(self, frame, event, arg):
        if event == 'line':
            self.lines += 1
            if self.lines == self.at:
                self.where = f'{frame.f_code.co_filename}:{frame.f_lineno}'
                _sys.settrace(None)
                _os.kill(_os.getpid(), _signal.SIGINT)
        return self.line
"""
CODE = "from pathlib import Path\nkept = [1]\nPath('made.txt').write_text('made')\nprint(kept)"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as kernel:
        script = [
            {
                "task": "Go.",
                "replies": [
                    {"calls": [{"name": "execute_code", "arguments": {"code": CODE}}]},
                    {
                        "calls": [
                            {
                                "name": "write_file",
                                "arguments": {"path": "note.txt", "content": "a\n"},
                            }
                        ]
                    },
                    {"text": "Gone."},
                ],
            },
            {"task": "Again.", "replies": [{"text": "All is well."}]},
        ]
        # A script answers each of its turns once.
        (tmp_path / "script.yaml").write_text(yaml.safe_dump(script * 1_100), encoding="utf-8")
        kernel.load("config provider scripted", "config script script.yaml")
        kernel.helper(TRACER)
        yield kernel


def interrupted_at(kernel: LiveKernel, line: int) -> str:
    """Run a turn with SIGINT at the line with this number; gives where that was."""
    kernel.helper(f"_tracer = _Tracer({line})", "_sys.settrace(_tracer)")
    cell = kernel.run("%%agent --fresh\nGo.", timeout=60)
    kernel.helper("_sys.settrace(None)")
    where = str(kernel.value("_tracer.where"))
    if cell.status == "error":
        name = str(cell.reply["ename"])
        assert name in ("TurnInterrupted", "KeyboardInterrupt", "CancelledError"), where
        assert "package" not in cell.error and "Traceback" not in cell.stderr, where
    return where


def check_whole(kernel: LiveKernel, where: str) -> None:
    """Nothing runs, the conversation goes on, and undo does, too."""
    listed = kernel.run("%agent undo list")
    assert listed.status == "ok", (where, listed.error)
    again = kernel.run("%%agent\nAgain.", timeout=60)
    assert again.status == "ok", (where, again.error)
    assert "All is well." in str(again.outputs), where
    undone = kernel.run("%agent undo 2" if "  2 " in listed.said else "%agent undo")
    assert undone.status == "ok", (where, undone.error)
    assert kernel.value("__import__('signal').getsignal(2) is not None") is True


def test_at_any_line(desk: LiveKernel) -> None:
    """The signal comes at lines all over the turn: the kernel, the history, undo and the next turn
    work each time."""
    assert interrupted_at(desk, 10**9) == ""
    lines = int(desk.value("_tracer.lines"))
    assert lines > 1_000
    most = 12 if PROFILE == "commit" else 1_000
    for line in sorted(random.Random(seed()).sample(range(1, lines), most)):
        check_whole(desk, interrupted_at(desk, line))
