"""`list_files` and `search_files`: what is found, what is left out, what is bounded."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.core.messages import ToolCall
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.search import search_tools
from jupyter_agent.tools.toolbox import Toolbox

from .conftest import CallTool


def fill(root: Path, *names: str, text: str = "needle\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def listed(call: CallTool, **arguments: str) -> list[str]:
    result = await call("list_files", **arguments)
    assert not result.is_error, result.text
    return result.text.split("\n")


async def test_list(call: CallTool, root: Path) -> None:
    """All files below a folder, sorted, with forward slashes."""
    fill(root, "z.txt", "a.txt", "sub/b.txt", "sub/deep/c.txt", ".env", "B.txt")
    assert await listed(call) == [
        ".env",
        "B.txt",
        "a.txt",
        "sub/b.txt",
        "sub/deep/c.txt",
        "z.txt",
    ]
    assert await listed(call, path="sub") == ["sub/b.txt", "sub/deep/c.txt"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["a.csv", "data/b.csv", "data/deep/c.csv"]),
        ("data/*.csv", ["data/b.csv"]),
        ("./data/*.csv", ["data/b.csv"]),
        ("data/**/*.csv", ["data/b.csv", "data/deep/c.csv"]),
        ("[ab].*", ["a.csv", "a.txt", "data/b.csv"]),
        ("!a.txt", ["!a.txt"]),
        ("*.none", ["There are no files that fit '*.none' in .."]),
    ],
)
async def test_list_pattern(call: CallTool, root: Path, pattern: str, found: list[str]) -> None:
    """A glob without a slash fits names, one with a slash paths."""
    fill(root, "a.csv", "a.txt", "!a.txt", "data/b.csv", "data/deep/c.csv")
    assert await listed(call, pattern=pattern) == found


async def test_bad_glob(call: CallTool, root: Path) -> None:
    """An invalid glob is refused with an example."""
    assert "not a valid glob" in (await call("list_files", pattern="a\\")).text


async def test_what_is_never_listed(call: CallTool, root: Path) -> None:
    """Files that appear while a notebook runs are left out, so that replays are equal."""
    fill(
        root,
        "a.txt",
        ".git/config",
        "sub/.git/config",
        ".jupyter_agent/rules/a.md",
        ".ipynb_checkpoints/a-checkpoint.ipynb",
        "__pycache__/a.pyc",
        ".agent_memory.json",
        "nb.cassette.jsonl",
    )
    assert await listed(call) == ["a.txt"]
    assert (await call("search_files", pattern="needle")).text == "a.txt:1: needle"
    for path in (".git", ".jupyter_agent", "sub/.git"):
        assert "neither listed nor searched" in (await call("list_files", path=path)).text


async def test_gitignore(call: CallTool, root: Path) -> None:
    """Nested .gitignore files count as in git: the nearest decides."""
    fill(root, ".gitignore", text="*.log\n/build/\n!keep.log\nfoo/**bar[\n\\\n")
    fill(root, "sub/.gitignore", text="\ufeff!b.log\n*.tmp\n")
    fill(root, "a.log", "keep.log", "build/x", "sub/build/x", "sub/b.log", "sub/c.log", "a.tmp")
    fill(root, "sub/d.tmp", "sub/deep/e.tmp")
    assert await listed(call) == [
        ".gitignore",
        "a.tmp",
        "keep.log",
        "sub/.gitignore",
        "sub/b.log",
        "sub/build/x",
    ]
    assert await listed(call, path="sub") == ["sub/.gitignore", "sub/b.log", "sub/build/x"]
    assert "a.log" not in (await call("search_files", pattern="needle")).text


async def test_an_ignored_folder_that_is_asked_for(call: CallTool, root: Path) -> None:
    """An ignored folder is listed if it is named."""
    fill(root, ".gitignore", text="data/\n*.csv\n")
    fill(root, "data/a.csv", "data/sub/b.csv")
    assert await listed(call) == [".gitignore"]
    assert await listed(call, path="data") == ["data/a.csv", "data/sub/b.csv"]
    assert (
        "data/sub/b.csv:1" in (await call("search_files", pattern="needle", path="data/sub")).text
    )


async def test_symlinks(call: CallTool, root: Path) -> None:
    """Links out and cycles are left out silently; links to files inside are listed."""
    fill(root.parent, "secret.txt")
    fill(root, "real/a.txt")
    (root / "inside.txt").symlink_to("real/a.txt")
    (root / "out.txt").symlink_to(root.parent / "secret.txt")
    (root / "dangling.txt").symlink_to(root.parent / "none.txt")
    (root / "outdir").symlink_to(root.parent)
    (root / "real" / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    assert await listed(call) == ["inside.txt", "real/a.txt"]
    found = (await call("search_files", pattern="needle")).text
    assert found == "inside.txt:1: needle\nreal/a.txt:1: needle"


async def test_link_to_a_file_with_keys(call: CallTool, root: Path) -> None:
    """A link to the configuration does not open it."""
    fill(root, ".jupyter_agent/config.yaml", ".jupyter_agent/logs/a.jsonl")
    (root / "a.yaml").symlink_to(".jupyter_agent/config.yaml")
    (root / "a.jsonl").symlink_to(".jupyter_agent/logs/a.jsonl")
    assert "Nothing in 0 files" in (await call("search_files", pattern="needle")).text


async def test_long_list(call: CallTool, root: Path) -> None:
    """A long list is cut, and says where the rest is."""
    fill(root, *(f"a/{i:04}.txt" for i in range(450)), *(f"b/{i:04}.txt" for i in range(100)))
    lines = await listed(call)
    assert len(lines) == 501
    assert lines[-1] == "[50 more files left out: b/ 50. Narrow with path or pattern.]"


async def test_list_refusals(call: CallTool, root: Path) -> None:
    """A file, or nothing, in place of a folder is an error."""
    fill(root, "a.txt")
    assert "a.txt is a file" in (await call("list_files", path="a.txt")).text
    assert "no folder none" in (await call("list_files", path="none")).text
    assert "no file none" in (await call("search_files", pattern="a", path="none")).text
    os.mkfifo(root / "pipe")
    assert "a pipe" in (await call("search_files", pattern="a", path="pipe")).text


async def test_names_stay_on_one_line(call: CallTool, root: Path) -> None:
    """A line break in a name cannot fake another file."""
    fill(root, "a\nb.txt", "\x1b[31m.txt")
    assert await listed(call) == ["\\x1b[31m.txt", "a\\nb.txt"]


async def test_names_that_are_not_text(call: CallTool, root: Path) -> None:
    """A name in another encoding is listed, and its file searched."""
    fill(root, os.fsdecode(b"caf\xe9.txt"))
    assert not (await call("list_files")).is_error
    assert ":1: needle" in (await call("search_files", pattern="needle")).text


async def test_search(call: CallTool, root: Path) -> None:
    """Matching lines come with path and number, in order."""
    fill(root, "b.txt", text="x\nfirst needle\r\nsecond needle")
    fill(root, "a/a.py", text="needle = 1\n")
    assert (await call("search_files", pattern=r"need\w+")).text == (
        "a/a.py:1: needle = 1\nb.txt:2: first needle\nb.txt:3: second needle"
    )
    assert (await call("search_files", pattern="needle$", path="b.txt")).text.count("\n") == 1
    assert (await call("search_files", pattern="needle", glob="*.py")).text.startswith("a/a.py")
    assert (await call("search_files", pattern="^$")).text == "Nothing in 2 files fits '^$'."


async def test_search_in_notebooks(call: CallTool, root: Path) -> None:
    """Sources are searched, outputs are not: they change with each run."""
    outputs = [new_output("stream", text="needle\n")]
    cells = [new_markdown_cell("text\nneedle"), new_code_cell("1", outputs=outputs)]
    nbformat.write(new_notebook(cells=cells), root / "a.ipynb")
    assert (await call("search_files", pattern="needle")).text == "a.ipynb:cell 1:2: needle"


async def test_search_encodings(call: CallTool, root: Path) -> None:
    """Latin-1 files and files with a byte-order mark are searched as text."""
    (root / "a.txt").write_bytes(b"caf\xe9")
    (root / "b.txt").write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9")
    text = (await call("search_files", pattern="^caf\u00e9$")).text
    assert text == "a.txt:1: caf\u00e9\nb.txt:1: caf\u00e9"


async def test_search_skips(call: CallTool, root: Path) -> None:
    """Binary and huge files are counted and skipped; long lines are searched in part."""
    (root / "a.bin").write_bytes(b"needle\x00")
    (root / "big.txt").write_bytes(b"needle\n" * 2_000_000)
    fill(root, "long.txt", text="x" * 30_000 + "needle\n")
    text = (await call("search_files", pattern="needle")).text
    assert text == (
        "Nothing in 3 files fits 'needle'.\n"
        "[1 binary files skipped]\n"
        "[1 files of more than 10.0 MB skipped]\n"
        "[1 lines searched only up to character 20000]"
    )


async def test_search_is_bounded(call: CallTool, root: Path) -> None:
    """Many matches are cut with a notice, wide lines around the match."""
    fill(root, "a.txt", text=("x" * 1000 + "needle" + "y" * 1000 + "\n") * 300)
    lines = (await call("search_files", pattern="needle")).text.split("\n")
    assert len(lines) == 201
    assert lines[-1].startswith("[stopped at 200 matches")
    assert "xneedley" in lines[0]
    assert len(lines[0]) < 400


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing ), unterminated subpattern at position 0"),
        ("a{2,1}", "at position"),
        ("*", "nothing to repeat at position 0"),
        ("(?P<n", "position"),
        ("", "pattern is empty"),
        ("a{99999999999999999999}", "too complex"),
    ],
)
async def test_bad_expression(call: CallTool, root: Path, pattern: str, words: str) -> None:
    """An invalid regular expression is refused with the position."""
    result = await call("search_files", pattern=pattern)
    assert result.is_error
    assert words in result.text
    assert "traceback" not in result.details


async def test_expression_that_python_warns_about(call: CallTool, root: Path) -> None:
    """An expression with a compiler warning works."""
    fill(root, "a.txt", text="[a]\n")
    assert not (await call("search_files", pattern="[[a]")).is_error


async def test_catastrophic_expression(root: Path) -> None:
    """Endless backtracking is stopped, and the event loop stays responsive."""
    fill(root, "a.txt", text="a" * 60 + "!\n")
    toolbox = Toolbox(search_tools(Workspace(root), seconds=3.0))
    call = ToolCall("c", "search_files", json.dumps({"pattern": "(a+)+$"}))
    begun = time.monotonic()
    search = asyncio.create_task(toolbox.run(call))
    longest, last = 0.0, begun
    while not search.done():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    result = await search
    assert result.is_error
    assert "took more than 3 seconds" in result.text
    assert time.monotonic() - begun < 20
    assert longest < 1.5


async def test_modules_in_the_workspace_are_not_run(
    call: CallTool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search's process imports nothing from the searched folder."""
    marker = root / "ran"
    fill(root, "json.py", "re.py", "jupyter_agent.py", text=f"open({str(marker)!r}, 'w')\n")
    monkeypatch.chdir(root)
    assert not (await call("search_files", pattern="needle")).is_error
    assert not marker.exists()
