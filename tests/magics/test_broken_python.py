"""Code that breaks Python's own functions: a turn ends with one clear line, the next works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_kernel import LiveKernel


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("broken")) as kernel:
        kernel.load()
        yield kernel


BREAK = """
import {module}
_kept = {name}
def broken(*args, **kwargs):
    raise RuntimeError("replaced")
{name} = broken
"""


@pytest.mark.parametrize("by", ["the agent", "the person"])
@pytest.mark.parametrize(
    "name",
    ["asyncio.sleep", "pathlib.Path.open", "pathlib.Path.mkdir", "os.open", "os.scandir"],
)
def test_a_function_that_was_replaced(desk: LiveKernel, name: str, by: str) -> None:
    """The cell ends with its answer or one line; after a repair the conversation continues."""
    code = BREAK.format(module=name.partition(".")[0], name=name)
    desk.helper("%agent reset")
    if by == "the person":
        desk.helper(code)
        code = "1"
    arguments = {"calls": [{"name": "execute_code", "arguments": {"code": code}}]}
    desk.script("first", arguments, {"text": "Done."})
    cell = desk.run("%%agent\nfirst")
    desk.helper(f"{name} = _kept")
    assert cell.status == "ok" or cell.error.startswith(
        "AgentError: The turn broke off (RuntimeError: replaced)"
    ), cell.error
    assert "\n" not in cell.error
    assert "Traceback" not in cell.stderr, cell.stderr
    desk.script("second", {"text": "Fine."})
    cell = desk.run("%%agent\nsecond")
    assert cell.status == "ok" and "Fine." in cell.said, cell.error


FAILS = "def f(n):\n    return f(n - 1) if n else {'a': [1, 2, (3, 4)]}[n]['b']\n"


@pytest.mark.parametrize("limit", [110, 120, 150])
@pytest.mark.parametrize("depth", [3, 1000])
def test_a_low_recursion_limit(desk: LiveKernel, limit: int, depth: int) -> None:
    """A traceback beyond the recursion limit is shown plainly; the turn goes on."""
    desk.helper("%agent reset")
    arguments = {"calls": [{"name": "execute_code", "arguments": {"code": f"{FAILS}f({depth})"}}]}
    desk.script("first", arguments, {"text": "Done."})
    desk.helper(f"import sys\nsys.setrecursionlimit({limit})")
    cell = desk.run("%%agent\nfirst")
    desk.helper("sys.setrecursionlimit(3000)")
    assert cell.status == "ok", cell.error
    assert "formatting exception" not in cell.said and "site-packages" not in cell.said
    assert ("KeyError: 0" if depth == 3 else "RecursionError") in cell.said
