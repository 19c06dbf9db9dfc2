"""`write_file` and `edit_file`: what is written, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.core.messages import ToolCall
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.replacement import Replacement
from jupyter_agent.tools.toolbox import Toolbox

from .conftest import CallTool


def diff_of(result: object) -> str:
    (shown,) = result.display  # type: ignore[attr-defined]
    assert shown.kind == "diff"
    return str(shown.data["text/plain"])


async def test_create(call: CallTool, root: Path) -> None:
    """A new file is created with its folders, and reported to each audience."""
    result = await call("write_file", path="new/sub/a.txt", content="one\ntwo\n")
    assert (root / "new/sub/a.txt").read_bytes() == b"one\ntwo\n"
    assert result.text == "Created new/sub/a.txt: 2 lines."
    assert diff_of(result) == "--- /dev/null\n+++ b/new/sub/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two"
    assert result.details == {
        "path": "new/sub/a.txt",
        "change": "created",
        "lines_added": 2,
        "lines_removed": 0,
    }


async def test_change(call: CallTool, root: Path) -> None:
    """A changed file's result says how much; the permissions stay, and no other file."""
    path = root / "a.sh"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    path.chmod(0o754)
    result = await call("write_file", path="./a.sh", content="one\n2\nthree")
    assert path.read_bytes() == b"one\n2\nthree"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert result.text == "Changed a.sh: 3 lines, 2 added, 2 removed."
    assert diff_of(result).endswith("-two\n-three\n+2\n+three\n\\ No newline at end of file")
    assert result.details["change"] == "changed"
    assert list(root.iterdir()) == [path]


async def test_unchanged(call: CallTool, root: Path) -> None:
    """Equal content is not written again."""
    (root / "a.txt").write_text("one\n", encoding="utf-8")
    before = (root / "a.txt").stat()
    result = await call("write_file", path="a.txt", content="one\n")
    assert result.text == "a.txt is unchanged: it already has this content."
    assert result.details["change"] == "unchanged"
    assert result.display == ()
    assert (root / "a.txt").stat().st_ino == before.st_ino


async def test_empty_content(call: CallTool, root: Path) -> None:
    """An empty file can be written, and written again."""
    assert (await call("write_file", path="a.txt", content="")).text == "Created a.txt: 0 lines."
    assert (await call("write_file", path="a.txt", content="")).details["change"] == "unchanged"
    assert (root / "a.txt").read_bytes() == b""


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"na\xefve", "caf\u00e9", b"caf\xe9"),
        (b"na\xefve", "\u20ac", "\u20ac".encode()),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"a\nb\n", "c\r\nd\r\n", b"c\r\nd\r\n"),
        (b"\x00\x01", "text\n", b"text\n"),
    ],
)
async def test_a_rewrite_keeps_how_a_file_is_stored(
    call: CallTool, root: Path, old: bytes, content: str, new: bytes
) -> None:
    """Line endings, mark and encoding stay if they can carry the new content."""
    (root / "a.txt").write_bytes(old)
    assert not (await call("write_file", path="a.txt", content=content)).is_error
    assert (root / "a.txt").read_bytes() == new


async def test_read_only_file(call: CallTool, root: Path) -> None:
    """A write-protected file stays, although its folder can be written."""
    path = root / "a.txt"
    path.write_text("one\n", encoding="utf-8")
    path.chmod(0o444)
    for name, arguments in (
        ("write_file", {"content": "two"}),
        ("edit_file", {"old_str": "one", "new_str": "two"}),
    ):
        result = await call(name, path="a.txt", **arguments)
        assert result.is_error
        assert "read-only" in result.text
    assert path.read_text(encoding="utf-8") == "one\n"


LIMITED = """
import asyncio, json, os, resource, sys
from pathlib import Path
from jupyter_agent.core.messages import ToolCall
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.files.workspace import Workspace
box = Toolbox(file_tools(Workspace(Path(sys.argv[1]))))
# What Python loads late must be loaded before it may no more.
asyncio.run(box.run(ToolCall("c", "read_file", '{{"path": "none"}}')))
{limit}
for name, arguments in json.load(sys.stdin):
    result = asyncio.run(box.run(ToolCall("c", name, json.dumps(arguments))))
    print(result.is_error, result.text)
    assert "traceback" not in result.details, result.details
"""


def run_limited(limit: str, root: Path, calls: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Call tools in a process that the system holds back."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=limit), str(root)],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_full_disk(root: Path) -> None:
    """On a full disk the original is whole and no new folder is left."""
    path = root / "a.txt"
    path.write_text("one\n" * 100, encoding="utf-8")
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))"
    long = "x" * 100_000
    answers = run_limited(
        limit,
        root,
        [
            ("write_file", {"path": "a.txt", "content": long}),
            ("edit_file", {"path": "a.txt", "old_str": "one\n" * 100, "new_str": long}),
            ("write_file", {"path": "new/sub/b.txt", "content": long}),
        ],
    )
    assert answers == [
        "True Writing a.txt is not possible: File too large.",
        "True Editing a.txt is not possible: File too large.",
        "True Writing new/sub/b.txt is not possible: File too large.",
    ]
    assert path.read_text(encoding="utf-8") == "one\n" * 100
    assert list(root.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_read_only_folder() -> None:
    """In a read-only folder the file stays, and the error says why."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "a.txt"
        path.write_text("one\n", encoding="utf-8")
        path.chmod(0o666)
        secret = Path(folder) / "secret.txt"
        secret.write_text("x", encoding="utf-8")
        secret.chmod(0o600)
        answers = run_limited(
            "os.setuid(65534)",
            Path(folder),
            [
                ("write_file", {"path": "a.txt", "content": "two"}),
                ("write_file", {"path": "sub/b.txt", "content": "two"}),
                ("edit_file", {"path": "a.txt", "old_str": "one", "new_str": "two"}),
                ("read_file", {"path": "secret.txt"}),
            ],
        )
        assert answers == [
            "True Writing a.txt is not possible: Permission denied.",
            "True Writing sub/b.txt is not possible: Permission denied.",
            "True Editing a.txt is not possible: Permission denied.",
            "True Reading secret.txt is not possible: Permission denied.",
        ]
        assert path.read_text(encoding="utf-8") == "one\n"


async def test_huge_file_is_not_replaced(call: CallTool, root: Path) -> None:
    """Both tools refuse a file too large to compare."""
    with (root / "big.txt").open("wb") as stream:
        stream.truncate(30 * 1024 * 1024)
    for name, arguments in (
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_str": "a", "new_str": "b"}),
    ):
        result = await call(name, path="big.txt", **arguments)
        assert result.is_error
        assert "too " in result.text
    assert (root / "big.txt").stat().st_size == 30 * 1024 * 1024


async def test_long_diff_is_bounded(call: CallTool, root: Path) -> None:
    """A diff of thousands of lines is shortened, and counted in full."""
    (root / "a.txt").write_text("".join(f"a{i}\n" for i in range(5000)), encoding="utf-8")
    content = "".join(f"b{i}\n" for i in range(1000))
    result = await call("write_file", path="a.txt", content=content)
    assert result.details["lines_removed"] == 5000
    assert len(diff_of(result)) < 5000
    lone = await call("write_file", path="b.txt", content=content)
    assert diff_of(lone).endswith("[601 more lines of the diff left out]")


async def test_diff_has_the_line_numbers_of_the_file(call: CallTool, root: Path) -> None:
    """A diff has the line numbers of the file."""
    lines = [f"l{i}\n" for i in range(1, 101)]
    (root / "a.txt").write_text("".join(lines), encoding="utf-8")
    result = await call("edit_file", path="a.txt", old_str="l50\n", new_str="new\n")
    assert "@@ -47,7 +47,7 @@\n l47" in diff_of(result)
    assert (result.details["lines_added"], result.details["lines_removed"]) == (1, 1)


async def test_edit(call: CallTool, root: Path) -> None:
    """A single match is replaced, and the diff shows it."""
    (root / "a.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    result = await call("edit_file", path="a.py", old_str="b = 2", new_str="b = 3\nc = 4")
    assert (root / "a.py").read_text(encoding="utf-8") == "a = 1\nb = 3\nc = 4\n"
    assert result.text == "Changed a.py: 3 lines, 2 added, 1 removed."
    assert "-b = 2\n+b = 3\n+c = 4" in diff_of(result)


@pytest.mark.parametrize(
    ("old", "arguments", "words"),
    [
        ("x\ny\nx\n", ("x", "z"), "occurs 2 times in a.txt: line 1, line 3."),
        ("aaa", ("aa", "b"), "occurs 2 times in a.txt: line 1, line 1."),
        ("x\r\ny\r\nx\r\n", ("x\n", "z"), "occurs 2 times in a.txt: line 1, line 3."),
        ("x\n" * 50, ("x", "z"), "line 20, …"),
        ("value = 1\n", ("valeu = 1", "z"), "The nearest line is: 'value = 1'"),
        ("if x:\n    y\n", ("if x:\n  y", "z"), "other spaces or line breaks, near 'if x:'"),
        ("value\n", ("     1|value", "z"), "Leave out the line numbers"),
        ("value\n", ("####", "z"), "Read the file again."),
        ("", ("x", "z"), "does not occur"),
        ("x", ("", "z"), "old_str is empty"),
        ("x", ("x", "x"), "are the same"),
        ("x\r\n", ("x\r\n", "x\n"), "are the same"),
        ("a\r\nb", ("\r", "x"), "does not occur"),
    ],
)
async def test_refused_edits(
    call: CallTool, root: Path, old: str, arguments: tuple[str, str], words: str
) -> None:
    """No match, or several, is an error that helps to find the right one."""
    (root / "a.txt").write_bytes(old.encode())
    result = await call("edit_file", path="a.txt", old_str=arguments[0], new_str=arguments[1])
    assert result.is_error
    assert words in result.text
    assert (root / "a.txt").read_bytes() == old.encode()


@pytest.mark.parametrize(
    ("old", "arguments", "new"),
    [
        (b"a\r\nb\r\nc\r\n", ("a\nb", "x\ny"), b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", ("b", "x\ny"), b"a\r\nx\ny\nc\r\n"),
        (b"a\r\nb\nc", ("a\n", "x\ny\n"), b"x\r\ny\r\nb\nc"),
        (b"a\nb", ("b", "x\r\ny"), b"a\nx\ny"),
        (b"a\r\nb", ("b", "x\ny"), b"a\r\nx\r\ny"),
        (b"ab", ("b", "x\ny"), b"ax\ny"),
        (b"\xef\xbb\xbfab\r\n", ("a", "\u00fc"), b"\xef\xbb\xbf\xc3\xbcb\r\n"),
        (b"na\xefve caf\xe9", ("na\u00efve", "\u00fc"), b"\xfc caf\xe9"),
        ("a\u20ac\n".encode("utf-16"), ("a", "b"), "b\u20ac\n".encode("utf-16")),
        (b"a\x0cb\rc\n", ("c", "d"), b"a\x0cb\rd\n"),
        (b"a\r\n\r\nb", ("\n\n", "\n"), b"a\r\nb"),
        (b"x.*x", (".*", r"\1"), b"x\\1x"),
    ],
)
async def test_edits_keep_how_a_file_is_stored(
    call: CallTool, root: Path, old: bytes, arguments: tuple[str, str], new: bytes
) -> None:
    """An edit keeps line endings, mark and encoding, and changes nothing else."""
    (root / "a.txt").write_bytes(old)
    result = await call("edit_file", path="a.txt", old_str=arguments[0], new_str=arguments[1])
    assert not result.is_error, result.text
    assert (root / "a.txt").read_bytes() == new


async def test_replace_all(call: CallTool, root: Path) -> None:
    """Each occurrence is replaced, with the line ending of its place."""
    (root / "a.txt").write_bytes(b"x\r\ny\nx\r\n")
    arguments = {"old_str": "x", "new_str": "1\n2", "replace_all": True}
    assert not (await call("edit_file", path="a.txt", **arguments)).is_error
    assert (root / "a.txt").read_bytes() == b"1\r\n2\r\ny\n1\r\n2\r\n"


async def test_many_replacements_are_quick(call: CallTool, root: Path) -> None:
    """Very many replacements far from any line end take little time."""
    (root / "a.txt").write_bytes(b"a\r\n" + b"x" * 200_000 + b"\nb")
    begun = time.monotonic()
    arguments = {"old_str": "x", "new_str": "1\n2", "replace_all": True}
    result = await call("edit_file", path="a.txt", **arguments)
    assert result.details["lines_added"] == 200_001
    assert time.monotonic() - begun < 20


async def test_text_that_the_encoding_cannot_carry(call: CallTool, root: Path) -> None:
    """A latin-1 file is not damaged by a character that it has no byte for."""
    (root / "a.txt").write_bytes(b"na\xefve")
    result = await call("edit_file", path="a.txt", old_str="na", new_str="\u20ac")
    assert result.is_error
    assert "latin-1, which has no character '\\u20ac'" in result.text
    assert (root / "a.txt").read_bytes() == b"na\xefve"


async def test_binary_is_not_edited(call: CallTool, root: Path) -> None:
    """Binary files are not edited."""
    (root / "a.bin").write_bytes(b"a\x00b")
    assert (await call("edit_file", path="a.bin", old_str="a", new_str="b")).is_error
    assert (root / "a.bin").read_bytes() == b"a\x00b"


async def test_edit_through_a_link_inside(call: CallTool, root: Path) -> None:
    """A link stays a link; what it names is edited."""
    (root / "real.txt").write_text("a", encoding="utf-8")
    (root / "link.txt").symlink_to("real.txt")
    result = await call("edit_file", path="link.txt", old_str="a", new_str="b")
    assert result.details["path"] == "real.txt"
    assert (root / "link.txt").is_symlink()
    assert (root / "real.txt").read_text(encoding="utf-8") == "b"


def a_notebook() -> nbformat.NotebookNode:
    outputs = [new_output("stream", text="hello world\n")]
    cells = [
        new_markdown_cell("# Títle\nhello"),
        new_code_cell("a = 1\nprint('x')", outputs=outputs, execution_count=3),
    ]
    return new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "P"}}
    )


@pytest.mark.parametrize("indent", [1, 2, None])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_edit_of_a_notebook(
    call: CallTool, root: Path, indent: int | None, newline: str
) -> None:
    """Only the source of the cell changes; every other byte stays and the notebook is valid."""
    text = json.dumps(a_notebook(), indent=indent, ensure_ascii=indent == 2) + "\n"
    data = text.replace("\n", newline).encode()
    (root / "a.ipynb").write_bytes(data)
    result = await call("edit_file", path="a.ipynb", old_str="print('x')", new_str='print("y")')
    assert not result.is_error, result.text
    expected = data.replace(b"print('x')", b'print(\\"y\\")')
    assert (root / "a.ipynb").read_bytes() == expected
    nbformat.validate(nbformat.read(root / "a.ipynb", as_version=4))
    assert "-print('x')\n+print(\"y\")" in diff_of(result)


async def test_edit_of_a_notebook_with_lists_of_lines(call: CallTool, root: Path) -> None:
    """Sources that are stored as lists of lines stay lists of lines."""
    nbformat.write(a_notebook(), root / "a.ipynb")
    before = json.loads((root / "a.ipynb").read_text(encoding="utf-8"))
    result = await call("edit_file", path="a.ipynb", old_str="a = 1\n", new_str="a = 2\nb = 3\n")
    assert not result.is_error
    after = json.loads((root / "a.ipynb").read_text(encoding="utf-8"))
    assert after["cells"][1].pop("source") == ["a = 2\n", "b = 3\n", "print('x')"]
    before["cells"][1].pop("source")
    assert after == before


async def test_refused_edits_of_a_notebook(call: CallTool, root: Path) -> None:
    """Matches are searched for in sources only, and reported by cell."""
    nbformat.write(a_notebook(), root / "a.ipynb")
    before = (root / "a.ipynb").read_bytes()
    result = await call("edit_file", path="a.ipynb", old_str="e", new_str="x")
    assert "occurs 2 times in a.ipynb: cell 1 line 1, cell 1 line 2." in result.text
    for text in ("hello world", "kernelspec", "a=1"):
        assert (await call("edit_file", path="a.ipynb", old_str=text, new_str="x")).is_error
    assert (root / "a.ipynb").read_bytes() == before


async def test_repair_of_a_torn_notebook(call: CallTool, root: Path) -> None:
    """A notebook that is not JSON can be edited as text if the result is valid."""
    text = json.dumps(a_notebook(), indent=1)
    torn = text.replace('"cells": [', '"cells": [ <<<<', 1)
    (root / "a.ipynb").write_text(torn, encoding="utf-8")
    refused = await call("edit_file", path="a.ipynb", old_str=" <<<<", new_str=" <<")
    assert "would not be a valid notebook" in refused.text
    assert (root / "a.ipynb").read_text(encoding="utf-8") == torn
    assert not (await call("edit_file", path="a.ipynb", old_str=" <<<<", new_str="")).is_error
    assert (root / "a.ipynb").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "content",
    [
        "",
        "print(1)",
        "[]",
        "{}",
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}',
        '{"nbformat": 4, "nbformat_minor": "x", "metadata": {}, "cells": []}',
        '{"nbformat": 99, "nbformat_minor": 0, "metadata": {}, "cells": []}',
        '{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}',
        "[" * 100_000,
    ],
)
async def test_invalid_notebooks_are_not_written(call: CallTool, root: Path, content: str) -> None:
    """Neither a new file nor an old one becomes an invalid notebook."""
    nbformat.write(a_notebook(), root / "a.ipynb")
    before = (root / "a.ipynb").read_bytes()
    for path in ("a.ipynb", "new.IPYNB"):
        result = await call("write_file", path=path, content=content)
        assert "valid notebook" in result.text
        assert "traceback" not in result.details
    assert [file.name for file in root.iterdir()] == ["a.ipynb"]
    assert (root / "a.ipynb").read_bytes() == before


async def test_two_cells_of_one_id(call: CallTool, root: Path) -> None:
    """A notebook with two cells of one id is refused."""
    notebook = a_notebook()
    notebook.cells[0].id = notebook.cells[1].id
    result = await call("write_file", path="a.ipynb", content=json.dumps(notebook))
    assert "same id" in result.text


async def test_write_of_a_notebook(call: CallTool, root: Path) -> None:
    """A valid notebook is written as given, and its diff is one of sources."""
    notebook = a_notebook()
    assert not (await call("write_file", path="a.ipynb", content=json.dumps(notebook))).is_error
    notebook.cells[1].source = "a = 2"
    result = await call("write_file", path="a.ipynb", content=json.dumps(notebook, indent=1))
    assert diff_of(result).endswith(" [cell 2: code]\n-a = 1\n-print('x')\n+a = 2")
    assert nbformat.read(root / "a.ipynb", as_version=4) == notebook


TEXTS = st.text(st.sampled_from("ab \n\r\t\u00e9\u00ff\\.*("), max_size=30)
STORED = [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe")]


@given(before=TEXTS, after=TEXTS, new=TEXTS, stored=st.sampled_from(STORED))
async def test_bytes_outside_of_an_edit_stay(
    before: str, after: str, new: str, stored: tuple[str, bytes]
) -> None:
    """All bytes outside of an edit stay."""
    encoding, mark = stored
    head, tail = mark + before.encode(encoding), after.encode(encoding)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_bytes(head + "OLD".encode(encoding) + tail)
        toolbox = Toolbox(file_tools(Workspace(Path(folder))))
        arguments = json.dumps({"path": "a.txt", "old_str": "OLD", "new_str": new})
        result = await toolbox.run(ToolCall("c", "edit_file", arguments))
        assert not result.is_error, result.text
        edited = path.read_bytes()
    assert edited.startswith(head)
    assert edited.endswith(tail)
    middle = edited[len(head) : len(edited) - len(tail)].decode(encoding)
    # A carriage return before a line's end is part of that end, whichever the file has.
    assert re.sub("\r+\n", "\n", middle) == re.sub("\r+\n", "\n", new)


@given(text=TEXTS, old=TEXTS, new=TEXTS)
def test_replacement_is_that_of_the_normalized_text(text: str, old: str, new: str) -> None:
    """Seen with plain line ends, an edit is what `str.replace` does."""
    try:
        replacement = Replacement(old, new)
    except ToolError:
        return
    if "\r" in old.replace("\r\n", "\n") or "\r" in new.replace("\r\n", "\n"):
        return
    plain = text.replace("\r\n", "\n")
    edited = replacement.apply(text).replace("\r\n", "\n")
    if "\r" not in plain:
        assert edited == plain.replace(replacement.old, replacement.new)
    assert any(True for _ in replacement.positions(text)) == (replacement.old in plain)


def previewed(root: Path, name: str, **arguments: object) -> object:
    """What a call would change, as one text; None for nothing."""
    tools = Toolbox(file_tools(Workspace(root)))
    prepared = tools.prepare(ToolCall("c", name, json.dumps(arguments)))
    outputs = asyncio.run(prepared.preview())  # type: ignore[union-attr]
    return None if outputs is None else "\n".join(o.data["text/plain"] for o in outputs)


def test_a_preview_writes_nothing(root: Path) -> None:
    """Before a write its difference is known; None says that there is none."""
    path = root / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    shown = previewed(root, "write_file", path="a.txt", content="one\n2\n")
    assert str(shown).endswith("@@ -1,2 +1,2 @@\n one\n-two\n+2")
    shown = previewed(root, "edit_file", path="a.txt", old_str="two", new_str="2")
    assert str(shown).endswith("-two\n+2")
    assert previewed(root, "write_file", path="a.txt", content="one\ntwo\n") is None
    assert previewed(root, "edit_file", path="a.txt", old_str="three", new_str="3") == ""
    assert path.read_bytes() == b"one\r\ntwo\r\n"


def test_a_preview_of_what_no_diff_shows(root: Path) -> None:
    """Sizes stand for a binary file, a remark for outputs of a notebook that would be lost."""
    (root / "a.bin").write_bytes(b"\0" * 2048)
    shown = str(previewed(root, "write_file", path="a.bin", content="text"))
    assert shown.endswith("[a binary file: 2.0 KB become 4 bytes]")
    cell = new_code_cell("1", outputs=[new_output("stream", text="1")])
    nbformat.write(new_notebook(cells=[cell]), root / "a.ipynb")
    content = nbformat.writes(new_notebook(cells=[new_code_cell("2")]))
    shown = str(previewed(root, "write_file", path="a.ipynb", content=content))
    assert "-1\n+2" in shown and shown.endswith("[0 of 1 saved output stay]")
