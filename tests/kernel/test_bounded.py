"""Long output in bounded memory, with the whole of it on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_kernel import LiveKernel, execute_code

from jupyter_agent.kernel.bounded import OVERFLOW, BoundedText, Overflow


def bounded(
    texts: list[str], head: int, tail: int, overflow: Overflow | None = None
) -> BoundedText:
    text = BoundedText(head, tail, overflow)
    for piece in texts:
        text.add(piece)
    return text


# The text ----------------------------------------------------------------------------------------


@given(st.lists(st.text("abc\n", max_size=30), max_size=20), st.integers(1, 40), st.integers(1, 40))
def test_any_pieces(texts: list[str], head: int, tail: int) -> None:
    """Within the limit all pieces are kept; beyond it the start, a count, and the end."""
    whole, text = "".join(texts), bounded(texts, head, tail)
    assert text.length == len(whole)
    if len(whole) <= head + tail:
        assert str(text) == whole
    else:
        left_out = len(whole) - head - tail
        notice = f"\n[... {left_out:,} characters left out ...]\n"
        assert str(text) == whole[:head] + notice + whole[-tail:]


def test_many_small_pieces_take_little_memory() -> None:
    """A million single characters are held in few pieces."""
    text = bounded(["x"] * 100_000, 100, 100)
    assert len(text._tail) <= 101 and len(str(text)) < 300


def test_the_whole_goes_to_a_file(tmp_path: Path) -> None:
    """Text beyond the limit goes to a file, whole, and the notice names it."""
    overflow = Overflow(lambda: tmp_path / "made" / "here", "long.txt")
    pieces = [f"line {n} ☃\r\n" for n in range(100)]
    text = bounded(pieces, 20, 20, overflow)
    overflow.close()
    written = (tmp_path / "made" / "here" / "long.txt").read_bytes().decode("utf-8")
    assert written == "".join(pieces)
    assert "left out; the whole is in .jupyter_agent/outputs/long.txt ...]" in str(text)


def test_no_file_without_need(tmp_path: Path) -> None:
    """Text of exactly the limit makes no file."""
    overflow = Overflow(lambda: tmp_path / "none", "long.txt")
    assert str(bounded(["x" * 20, "y" * 20], 20, 20, overflow)) == "x" * 20 + "y" * 20
    overflow.close()
    assert not (tmp_path / "none").exists()


def test_lone_surrogates_in_the_file(tmp_path: Path) -> None:
    """Characters that UTF-8 cannot carry are written as replacement marks."""
    overflow = Overflow(lambda: tmp_path, "long.txt")
    bounded(["\ud800" * 50], 10, 10, overflow)
    overflow.close()
    assert len((tmp_path / "long.txt").read_text(encoding="utf-8")) == 50


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """If the file cannot be written, the text is bounded all the same and names no file."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    overflow = Overflow(lambda: tmp_path / "file" / "below", "long.txt")
    text = bounded(["x" * 100, "y" * 100], 10, 10, overflow)
    overflow.close()
    assert "180 characters left out ...]" in str(text)


# In the kernel -----------------------------------------------------------------------------------

MEMORY = """
import re
def in_memory(key):
    with open("/proc/self/status") as file:
        return int(re.search(rf"{key}:\\s+(\\d+)", file.read())[1]) / 1024
try:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
except OSError:
    pass
start = in_memory("VmRSS")
"""


@pytest.fixture
def outputs(kernel: LiveKernel) -> Path:
    return kernel.folder / ".jupyter_agent" / "outputs"


def named(text: str) -> str:
    """The file that a notice names."""
    (name,) = set(re.findall(r"\.jupyter_agent/outputs/(agent_code_\d+\.txt)", text))
    return str(name)


def log_size(kernel: LiveKernel) -> int:
    return max(kernel.logs(), key=lambda path: path.stat().st_mtime_ns).stat().st_size


def test_a_hundred_megabytes(kernel: LiveKernel, outputs: Path) -> None:
    """The agent prints 100 MB: memory stays bounded, and the first 50 million are on disk."""
    kernel.agent("len('warm')")
    kernel.helper(*MEMORY.splitlines())
    turn = kernel.agent(
        "line = 'x' * 999 + '\\n'\nfor n in range(1_000):\n"
        "    print(f'{n:09d} ' + line * 100, end='')"
    )
    grown = kernel.value("max(in_memory('VmRSS'), in_memory('VmHWM')) - start")
    assert grown < 60
    (output,) = turn.result.display
    shown = output["data"]["text/plain"]
    assert len(shown) < 101_000 and shown.startswith("000000000 xxx")
    assert f"the first 50 MB are in .jupyter_agent/outputs/{named(shown)}" in shown
    assert sum(len(str(o)) for o in turn.cell.outputs) < 500_000
    assert log_size(kernel) < 1_000_000
    path = outputs / named(shown)
    assert path.stat().st_size == OVERFLOW
    with path.open(encoding="utf-8") as file:
        assert file.read(15) == "000000000 xxxxx"


def test_the_model_can_read_the_file(kernel: LiveKernel, outputs: Path) -> None:
    """The agent prints 300 kB: the file has all of it, and read_file finds what was left out."""
    printing = "for n in range(30_000):\n    print(f'row {n:05d}')"
    shown = kernel.agent(printing).result.display[0]["data"]["text/plain"]
    assert "the whole is in .jupyter_agent/outputs/" in shown
    path = outputs / named(shown)
    assert path.read_text(encoding="utf-8") == "".join(f"row {n:05d}\n" for n in range(30_000))
    arguments = {"path": f".jupyter_agent/outputs/{path.name}", "offset": 15_000, "limit": 5}
    kernel.script(
        "Read.", {"calls": [{"name": "read_file", "arguments": arguments}]}, {"text": "."}
    )
    before = kernel.logs()
    read = kernel.turn(kernel.run("%%agent --fresh\nRead."), before).result
    assert not read.is_error and "row 14999" in read.text and "row 15003" in read.text


def test_the_model_is_told_of_the_file(kernel: LiveKernel, outputs: Path) -> None:
    """The agent prints 300 kB: what the model reads is cut, and names the file with the whole."""
    result = kernel.agent("for n in range(30_000):\n    print(f'row {n:05d}')").result
    assert len(result.text) < 31_000 and "row 00000" in result.text and "row 29999" in result.text
    assert (outputs / named(result.text)).is_file()


def test_output_of_middle_length(kernel: LiveKernel, outputs: Path) -> None:
    """The agent prints less than is kept: no file is made for it."""
    before = set(outputs.glob("*")) if outputs.exists() else set()
    shown = kernel.agent("print('x' * 90_000)").result.display[0]["data"]["text/plain"]
    assert (
        len(shown) == 90_001 and (set(outputs.glob("*")) if outputs.exists() else set()) == before
    )


def test_two_streams_in_turn(kernel: LiveKernel) -> None:
    """The agent prints to both streams in turn, 20 MB in all: the transcript stays bounded."""
    kernel.helper(*MEMORY.splitlines())
    turn = kernel.agent(
        "import sys\nfor _ in range(2_000):\n"
        "    print('x' * 5_000)\n    print('y' * 5_000, file=sys.stderr)"
    )
    assert kernel.value("max(in_memory('VmRSS'), in_memory('VmHWM')) - start") < 60
    assert sum(len(str(output)) for output in turn.result.display) < 1_000_000
    assert sum(len(str(output)) for output in turn.cell.outputs) < 1_000_000
    assert len(turn.result.text) < 31_000 and "characters left out" in turn.result.text


def test_a_huge_value(kernel: LiveKernel) -> None:
    """The agent's code ends in a text of 5 MB: the transcript, the log and the model get a part."""
    turn = kernel.agent("'x' * 5_000_000")
    assert len(turn.result.text) < 31_000 and log_size(kernel) < 500_000
    assert sum(len(str(output)) for output in turn.cell.outputs) < 500_000


def test_a_state_folder_that_leads_outside(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The state folder is a link to elsewhere: nothing is written there, and printing works."""
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / ".jupyter_agent").symlink_to(outside)
    with LiveKernel(tmp_path) as kernel:
        kernel.load("config log.enabled false")
        kernel.script(
            "Print.", execute_code("print('x' * 300_000)\nprinted = 1"), {"text": "Done."}
        )
        cell = kernel.run("%%agent\nPrint.")
        assert cell.status == "ok", cell.error
        assert "ConfigError" not in cell.transcript
        assert kernel.value("printed") == 1
    assert list(outside.iterdir()) == []
