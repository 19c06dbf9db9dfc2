"""What is remembered of the cells that the person ran: in a real kernel, next to the agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel

LAST = "get_ipython().agent_magics.recent._cells[-1]"
COUNT = "get_ipython().agent_magics.recent.count"


def last(kernel: LiveKernel) -> Json:
    """The cell that was remembered last."""
    text = f"{{n: getattr({LAST}, n) for n in ('source', 'output', 'error', 'error_name')}}"
    found: Json = kernel.value(text)
    return found


def sources(kernel: LiveKernel) -> list[str]:
    found: list[str] = kernel.value("[c.source for c in get_ipython().agent_magics.recent._cells]")
    return found


def pure(kernel: LiveKernel) -> bool:
    """Whether the methods of streams and publishers are their own, between cells."""
    names: list[str] = kernel.value(
        "[m.__qualname__.rpartition('.')[0] for m in (__import__('sys').stdout.write, "
        "__import__('sys').stderr.write, get_ipython().display_pub.publish, "
        "get_ipython().displayhook.write_format_data)]"
    )
    return all(name and "<locals>" not in name for name in names)


# What is remembered ------------------------------------------------------------------------------


def test_source_and_output(kernel: LiveKernel) -> None:
    """A cell's prints, displays and value are remembered, and all are shown."""
    source = (
        "import sys\nprint('printed')\nprint('warned', file=sys.stderr)\n"
        "display('displayed')\n'end'"
    )
    cell = kernel.run(source)
    assert (cell.stdout, cell.stderr, cell.result) == ("printed\n", "warned\n", "'end'")
    assert cell.displays == [{"text/plain": "'displayed'"}]
    assert last(kernel) == {
        "source": source,
        "output": "printed\nwarned\n'displayed'\n'end'\n",
        "error": "",
        "error_name": "",
    }
    assert pure(kernel)


def test_errors(kernel: LiveKernel) -> None:
    """A cell prints and fails: what it printed, its error and the frames are remembered."""
    kernel.run("print('before')\ndef fail():\n    raise KeyError('a key')\nfail()")
    found = last(kernel)
    assert found["output"] == "before\n" and found["error_name"] == "KeyError"
    assert "in fail" in found["error"] and found["error"].endswith("KeyError: 'a key'")
    assert "in fail" in kernel.value("get_ipython().agent_magics.recent.last_failed.error")
    assert pure(kernel)


def test_a_syntax_error(kernel: LiveKernel) -> None:
    """A cell is no Python: it is remembered with its error."""
    kernel.run("x = (1,")
    assert (last(kernel)["source"], last(kernel)["error_name"]) == ("x = (1,", "SyntaxError") or (
        last(kernel)["error_name"] == "_IncompleteInputError"
    )


def test_an_interrupt(kernel: LiveKernel) -> None:
    """A cell is interrupted: it is remembered so, and the next one as usual."""
    running = kernel.start("import time\nprint('on it', flush=True)\ntime.sleep(30)")
    running.wait_for("on it")
    kernel.interrupt()
    running.finish()
    assert last(kernel)["error_name"] == "KeyboardInterrupt"
    kernel.run("print('next')")
    assert last(kernel)["output"] == "next\n" and pure(kernel)


def test_twenty_cells(kernel: LiveKernel) -> None:
    """Thirty cells run: the last twenty are remembered, all are counted."""
    before = kernel.value(COUNT)
    for number in range(30):
        kernel.run(f"number = {number}")
    assert sources(kernel) == [f"number = {number}" for number in range(10, 30)]
    assert kernel.value(COUNT) == before + 30


def test_empty_cells_are_left_out(kernel: LiveKernel) -> None:
    """Cells of nothing or blanks run: they are not remembered, what comes after is."""
    before = kernel.value(COUNT)
    for source in ("", "  \n ", "x = 1"):
        kernel.run(source)
    assert kernel.value(COUNT) == before + 1 and last(kernel)["source"] == "x = 1"


# Long output -------------------------------------------------------------------------------------


def test_five_megabytes(kernel: LiveKernel) -> None:
    """A cell prints five megabytes at once: they are shown whole, and some remembered."""
    cell = kernel.run("print('x' * 5_000_000)")
    assert len(cell.stdout) == 5_000_001
    output = last(kernel)["output"]
    assert len(output) < 4_100 and "4,99" in output and "characters left out" in output


def test_many_lines(kernel: LiveKernel) -> None:
    """A cell prints twenty thousand lines: the first and the very last are remembered."""
    kernel.run("for n in range(20_000):\n    print('line', n)\n'the value'")
    output = last(kernel)["output"]
    assert len(output) < 4_200 and output.startswith("line 0\nline 1\n")
    assert output.endswith("line 19999\n'the value'\n")


# Whose cells -------------------------------------------------------------------------------------


def test_the_agents_cells_are_left_out(kernel: LiveKernel) -> None:
    """The agent runs code, and commands are given: the person's cells alone are remembered."""
    kernel.run("mine = 1")
    before = kernel.value(COUNT)
    kernel.agent("print('of the agent')", "1 / 0", "!echo of the agent")
    kernel.run("%agent status")
    assert kernel.value(COUNT) == before
    assert last(kernel)["source"] == "mine = 1"
    kernel.run("yours = 2")
    assert (last(kernel)["source"], kernel.value(COUNT)) == ("yours = 2", before + 1)


@pytest.mark.parametrize("code", ["", " \n", "# only a comment", "x = (", "%nosuchmagic"])
def test_odd_code_of_the_agent(kernel: LiveKernel, code: str) -> None:
    """The agent runs nothing, or what cannot run: the person's cells are not counted anew."""
    kernel.run("mine = 1")
    before = kernel.value(COUNT)
    kernel.agent(code, "2")
    assert kernel.value(COUNT) == before
    kernel.run("print('after')")
    assert last(kernel)["output"] == "after\n" and kernel.value(COUNT) == before + 1


@pytest.mark.parametrize("inner", ["'x = 1'", "''", "'1 / 0'", "'x ='"])
def test_a_cell_in_a_cell(kernel: LiveKernel, inner: str) -> None:
    """A cell runs another one: it is remembered once, with all of its output."""
    before = kernel.value(COUNT)
    source = f"print('one')\nget_ipython().run_cell({inner})\nprint('two')"
    kernel.run(source)
    assert kernel.value(COUNT) == before + 1
    found = last(kernel)
    assert found["source"] == source
    assert found["output"].startswith("one\n") and found["output"].endswith("two\n")
    assert pure(kernel)


def test_scripts(kernel: LiveKernel) -> None:
    """A cell runs a script and a notebook file: it is one cell, with what they printed."""
    (kernel.folder / "script.py").write_text("print('from a script')\n", encoding="utf-8")
    (kernel.folder / "cells.ipy").write_text("print('from cells')\n!echo shell\n", encoding="utf-8")
    before = kernel.value(COUNT)
    kernel.run("%run script.py\n%run cells.ipy")
    assert kernel.value(COUNT) == before + 1
    assert "from a script\nfrom cells\n" in last(kernel)["output"]


def test_redirected_output(kernel: LiveKernel) -> None:
    """A cell captures its own output: nothing of that is remembered, and streams are put back."""
    kernel.run(
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as held:\n"
        "    print('hidden')\nprint('seen')"
    )
    assert last(kernel)["output"] == "seen\n" and pure(kernel)


def test_a_cell_that_replaces_the_stream(kernel: LiveKernel) -> None:
    """A cell puts its own stream in the place of stdout: the kernel's is left as it was."""
    kernel.run("import sys, io\nkept = sys.stdout\nsys.stdout = io.StringIO()\nprint('a')")
    kernel.run("sys.stdout = kept")
    assert pure(kernel)
    assert kernel.run("print('b')").stdout == "b\n" and last(kernel)["output"] == "b\n"


# Loading -----------------------------------------------------------------------------------------


def test_unload_and_load(tmp_path: Path) -> None:
    """The extension is unloaded and loaded again: cells after that are remembered, once."""
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        kernel.run("first = 1")
        kernel.run("%unload_ext jupyter_agent")
        kernel.run("unseen = 1")
        kernel.load()
        kernel.run("print('second')")
        assert sources(kernel) == ["print('second')"] and pure(kernel)
        kernel.run("%reload_ext jupyter_agent")
        kernel.run("print('third')")
        assert sources(kernel) == ["print('third')"]
        assert last(kernel)["output"] == "third\n"
        kernel.run("print('unloading')\n%unload_ext jupyter_agent")
        kernel.run("x = 1")
        assert pure(kernel)


def test_a_request_tells_of_the_cells_since(kernel: LiveKernel) -> None:
    """Cells run between two turns: the second turn is told of those alone."""
    kernel.run("before = 1")
    kernel.script("A.", {"text": "Fine."})
    kernel.run("%%agent --fresh\nA.")
    kernel.run("after = 1")
    told = kernel.run("%agent context").said
    assert "- after = …" in told and "before = …" not in told
    assert json.dumps(told).count("Cells that the person ran") == 1
