"""The size and the shape of the package: `python scripts/measure_house.py`.

Counts files, lines, floors, modules at the root, types of one name, functions by length, and what
one turn crosses: files, calls, changes of file. The turn is a scripted one with one execution of
code, the second in its process, without a page.
"""

from __future__ import annotations

import ast
import asyncio
import os
import statistics
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from check_names import PACKAGE, public_types

SCRIPT = """
- task: Go.
  replies:
    - calls: [{name: execute_code, arguments: {code: "x = 1\\nprint(x)"}}]
    - text: Done.
"""


def functions(package: Path) -> list[int]:
    """The lines of each function of a package."""
    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                found.append(node.end_lineno - node.lineno + 1)
    return sorted(found)


def floors(package: Path) -> int:
    """How many floors the contract has, the root's aside."""
    settings = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(len(each["layers"]) for each in contracts if each["type"] == "layers") - 1


class Trace:
    """Counts the calls between the package's files on the main thread.

    Attributes:
        calls: Functions that were called.
        files: Files in which they are.
        changes: Calls from one file to another.
    """

    def __init__(self) -> None:
        self.calls = self.changes = 0
        self.files: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(str(PACKAGE)):
            return
        self.calls += 1
        self.files[name] += 1
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        self.changes += caller.startswith(str(PACKAGE)) and caller != name


def traced_turn() -> Trace:
    """What a warm turn crosses."""
    from IPython.core.interactiveshell import InteractiveShell

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["JUPYTER_CONFIG_DIR"] = folder
        Path("script.yaml").write_text(SCRIPT * 2, encoding="utf-8")
        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "jupyter_agent")
        for words in ("provider scripted", "script script.yaml", "approvals.mode auto"):
            shell.run_line_magic("agent", f"config {words}")
        trace, cell = Trace(), "%%agent\nGo."

        async def turn() -> Any:
            return await shell.run_cell_async(cell, transformed_cell=shell.transform_cell(cell))

        asyncio.run(turn())
        sys.setprofile(trace)
        try:
            asyncio.run(turn())
        finally:
            sys.setprofile(None)
        os.chdir("/")
    return trace


def main() -> None:
    """Print each number on a line."""
    files = list(PACKAGE.rglob("*.py"))
    lines = [path.read_text(encoding="utf-8").count("\n") for path in files]
    lengths = functions(PACKAGE)
    twice = sum(len(places) > 1 for places in public_types(PACKAGE).values())
    print(f"files                {len(files):>7,}")
    print(f"lines                {sum(lines):>7,}")
    print(f"modules: median      {statistics.median(lines):>7,.0f}   longest {max(lines):,}")
    print(f"floors               {floors(PACKAGE):>7,}")
    print(f"modules at the root  {len(list(PACKAGE.glob('*.py'))):>7,}")
    print(f"names of two types   {twice:>7,}")
    shares = [lengths[int(len(lengths) * share)] for share in (0.5, 0.9, 0.95)]
    print(f"functions            {len(lengths):>7,}   median, 90 %, 95 %, longest: ", end="")
    print(*shares, lengths[-1])
    trace = traced_turn()
    print(f"one turn: files      {len(trace.files):>7,}")
    print(f"one turn: calls      {trace.calls:>7,}")
    print(f"one turn: changes of file {trace.changes:>2,}")


if __name__ == "__main__":
    main()
