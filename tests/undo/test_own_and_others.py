"""Undo takes back turns of its own kernel, nothing that others wrote, and no planted journal."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from undo.conftest import redo, run, tree, undo, write

from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import Checkpoints, StorageLimits
from jupyter_agent.undo.command import undo as command
from jupyter_agent.undo.differences import NOT_SEEN
from jupyter_agent.undo.namespace import Bindings
from jupyter_agent.undo.plan import BY_ANOTHER, NO_PLACE
from jupyter_agent.undo.versions import kind_mark, mark_of

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def kernel(root: Path, code: str, owner: str = "a.ipynb") -> Iterator[subprocess.Popen[str]]:
    """Another process with a turn in which `code` ran. It runs on until it reads a line."""
    script = f"""
        import sys
        from pathlib import Path
        from jupyter_agent.undo import Checkpoints
        from jupyter_agent.files.workspace import Workspace
        root = Path({str(root)!r})
        checkpoints = Checkpoints(Workspace(root), {owner!r})
        turn = checkpoints.begin("theirs")
        with turn.code():
            {code}
        turn.end()
        print("done", flush=True)
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    try:
        yield process
    finally:
        process.communicate("\n")


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["a.ipynb", ""])
def test_each_kernel_its_own_turns(root: Path, owner: str) -> None:
    """Two kernels of one notebook have turns of their own until one of them ends."""
    checkpoints = Checkpoints(Workspace(root), owner)
    turn = checkpoints.begin("mine")
    run(turn, lambda: (root / "mine.txt").write_text("1"))
    turn.end()
    with kernel(root, "(root / 'theirs.txt').write_text('1')", owner):
        assert [record.task for record in checkpoints.turns()] == ["mine"]
        assert [record.task for record in checkpoints.turns_of_others()] == ["theirs"]
        assert undo(checkpoints) == {"mine.txt": "removed"}
        with pytest.raises(AgentError, match="1 turn of other running kernels: undo them there"):
            checkpoints.plan()
        assert redo(checkpoints) == {"mine.txt": "restored"}
    assert [record.task for record in checkpoints.turns()] == ["theirs", "mine"]
    assert undo(checkpoints) == {"theirs.txt": "removed"}


def test_what_another_kernel_wrote_as_well(root: Path, checkpoints: Checkpoints) -> None:
    """If another kernel writes the same text into a file, the file is left to it."""
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("the same"))
    turn.end()
    code = "(root / 'a.txt').unlink(); (root / 'a.txt').write_text('the same')"
    with kernel(root, code, "b.ipynb"):
        # To that kernel nothing has changed: the file is as it was before its turn.
        pass
    (root / "a.txt").unlink()
    with kernel(root, "(root / 'a.txt').write_text('the same')", "b.ipynb"):
        (step,) = checkpoints.plan().steps
        assert (step.outcome, step.why) == ("conflict", BY_ANOTHER)


# Others who write meanwhile ----------------------------------------------------------------------


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> None:
    """A process without children, which would speak for each file whose writer nobody saw.

    Where tests before left some in this one (multiprocessing's tracker stays), the test runs in a
    process of its own.
    """
    if psutil.Process().children():
        test = f"{Path(__file__)}::{request.node.name}"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
        pytest.skip("passed in a process of its own")


@pytest.mark.usefixtures("alone")
def test_what_others_write_meanwhile_stays(root: Path, checkpoints: Checkpoints) -> None:
    """Files that another process changes while code runs are left and named."""
    for name in ("changed.txt", "gone.txt", "ours.txt"):
        (root / name).write_text("0")
    script = """
        import sys, time
        from pathlib import Path
        root = Path(sys.argv[1])
        while not (root / "ours.txt").read_text() == "1":
            time.sleep(0.01)
        (root / "made.txt").write_text("theirs")
        (root / "folder").mkdir()
        (root / "folder" / "x.txt").write_text("theirs")
        (root / "changed.txt").write_text("theirs")
        (root / "gone.txt").unlink()
    """
    # A process of somebody else's, which init has adopted: no child of this kernel.
    code = textwrap.dedent(script)
    subprocess.run(
        ["sh", "-c", '"$0" -c "$1" "$2" >/dev/null 2>&1 &', sys.executable, code, str(root)],
        check=True,
    )
    turn = checkpoints.begin()

    def wait() -> None:
        (root / "ours.txt").write_text("1")
        while (root / "gone.txt").exists():
            threading.Event().wait(0.01)

    run(turn, wait)
    assert [touched.path for touched in turn.touched] == ["ours.txt"]
    turn.end()
    undone = checkpoints.apply(checkpoints.plan())
    assert {done.path: done.why or done.outcome for done in undone.steps} == {
        "ours.txt": "restored",
        "made.txt": NOT_SEEN,
        "folder/x.txt": NOT_SEEN,
        "changed.txt": NOT_SEEN,
        "gone.txt": NOT_SEEN,
    }
    assert {name: text for name, (text, _) in tree(root).items()} == {
        "ours.txt": "0",
        "made.txt": "theirs",
        "folder/x.txt": "theirs",
        "changed.txt": "theirs",
    }
    redo(checkpoints)
    over = checkpoints.plan(1, ["made.txt", "gone.txt"])
    checkpoints.apply(over)
    assert not (root / "made.txt").exists()
    assert (root / "gone.txt").read_text() == "0"


def _natively(root: Path) -> None:
    """Make a file without Python's knowledge, as a native library does."""
    import ctypes

    library = ctypes.CDLL(None)
    library.fclose.argtypes = [ctypes.c_void_p]
    library.fopen.restype = ctypes.c_void_p
    library.fclose(library.fopen(os.fsencode(root / "new.txt"), b"w"))


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("", lambda root: subprocess.run(["touch", str(root / "new.txt")], check=True)),
        ("", lambda root: os.system(f"echo x > '{root}/new.txt'")),
        ("df.to_parquet('sub/new.txt')", _natively),
        ("for i in (1,):\n  write(f'ne{i}.txt')", _natively),
        ("write('n%s.txt' % 'ew')", _natively),
        ("!tool > new.txt", _natively),
        ("", lambda root: (root / "old.txt").rename(root / "new.txt")),
        ("", lambda root: shutil.copy(root / "old.txt", root / "new.txt")),
        ("", lambda root: os.close(os.open(root / "new.txt", os.O_WRONLY | os.O_CREAT))),
        ("", lambda root: (root / "new.txt").hardlink_to(root / "old.txt")),
        ("", lambda root: (root / "new.txt").symlink_to("old.txt")),
    ],
)
def test_what_the_code_does_in_other_ways(
    root: Path, checkpoints: Checkpoints, code: str, change: Callable[[Path], object]
) -> None:
    """Changes by child processes, native writers and links of the code belong to the turn."""
    (root / "old.txt").write_text("0")
    before = tree(root)
    turn = checkpoints.begin()
    with turn.code(code.replace("ne{i}", "n{i}")):
        change(root)
    turn.end()
    assert tree(root) != before
    undo(checkpoints)
    assert tree(root) == before


@pytest.mark.usefixtures("alone")
def test_written_by_a_library_under_a_computed_name(root: Path, checkpoints: Checkpoints) -> None:
    """A file without evidence for its writer is left and named; --over undoes it."""
    turn = checkpoints.begin()
    with turn.code("save(folder)"):
        _natively(root)
    turn.end()
    (step,) = checkpoints.plan().steps
    assert (step.outcome, step.why) == ("conflict", NOT_SEEN)
    (step,) = checkpoints.plan(1, ["new.txt"]).steps
    assert step.outcome == "removed"


def test_a_file_that_was_open_before(root: Path, checkpoints: Checkpoints) -> None:
    """A write of code into a file that the person's cell opened belongs to the turn."""
    with (root / "log.txt").open("a") as stream:
        stream.write("before\n")
        stream.flush()
        turn = checkpoints.begin()
        run(turn, lambda: (stream.write("during\n"), stream.flush()))
        turn.end()
    undo(checkpoints)
    assert (root / "log.txt").read_text() == "before\n"


def test_a_tree_that_is_removed(root: Path, checkpoints: Checkpoints) -> None:
    """A tree removed by `shutil.rmtree`, which works by descriptors, is restored."""
    for name in ("a/b/c.txt", "a/d.txt", "a/b/e/f.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    before = tree(root)
    turn = checkpoints.begin()
    run(turn, lambda: shutil.rmtree(root / "a"))
    turn.end()
    undo(checkpoints)
    assert tree(root) == before


# What undo does not look at ----------------------------------------------------------------------


def test_ignored_files_are_named(root: Path, checkpoints: Checkpoints) -> None:
    """Changed files that git ignores, and a notebook, are named."""
    (root / ".gitignore").write_text("out/\n*.log\n")
    (root / "out").mkdir()
    (root / "old.log").write_text("0")

    def code() -> None:
        (root / "out" / "data.csv").write_text("1")
        (root / "old.log").unlink()
        (root / "made.ipynb").write_text("{}")
        (root / "__pycache__").mkdir()
        (root / "__pycache__" / "m.pyc").write_text("")
        (root / "a.tmp").write_text("1")
        (root / "a.tmp").rename(root / "a.txt")

    turn = checkpoints.begin()
    run(turn, code)
    turn.end()
    assert turn.notices == tuple(
        f"{name}: cannot be restored, since undo does not look at it"
        for name in ("made.ipynb", "old.log", "out/data.csv")
    )


def test_more_files_than_are_looked_at(root: Path) -> None:
    """Beyond the limit a notice says so, and files written by Python code are named."""
    (root / "deep").mkdir()
    for number in range(6):
        (root / f"{number}.txt").write_text("0")
    (root / "deep" / "x.txt").write_text("0")
    checkpoints = Checkpoints(Workspace(root), limits=StorageLimits(scanned_files=4))
    turn = checkpoints.begin()
    run(turn, lambda: (root / "deep" / "x.txt").write_text("1"))
    turn.end()
    assert turn.notices == (
        "Only 4 files were looked at: changes of other files cannot be undone.",
        "deep/x.txt: cannot be restored, since undo does not look at it",
    )
    report = command(checkpoints, Bindings(), {})
    assert all(f"  {notice}" in report.text for notice in turn.notices)


# Planted things ----------------------------------------------------------------------------------


ID = "20260101_000000_000000_abcdef"


def plant(
    root: Path, name: str = ID, path: str = "a.txt", line: dict[str, object] | None = None
) -> Path:
    """A journal as somebody may put it into a folder: undoing it would write a file."""
    folder = root / ".jupyter_agent" / "checkpoints" / name
    folder.mkdir(parents=True)
    data = b"planted"
    digest = mark_of(data).partition(":")[2]
    blob = root / ".jupyter_agent" / "checkpoints" / "blobs" / digest[:2] / digest[2:]
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    state = [mark_of(data), 0o100755, len(data), "blob", "", 0]
    lines = [
        {
            "line": "begin",
            "checkpoint": 2,
            "id": name,
            "kind": "turn",
            "owner": "a.ipynb",
            "task": "planted",
            "undoes": [],
            "kernel": "",
        },
        {"line": "before", "path": path, "state": state, "folders": 0},
        {"line": "left", "path": path, "state": ["", 0, 0, "", "", 0]},
        line or {"line": "end"},
    ]
    seal = secrets.token_hex(16)
    text = "".join(f"{json.dumps(line)}\t{seal}\n" for line in lines)
    (folder / "journal.jsonl").write_text(text)
    return folder


@pytest.mark.parametrize("path", ["a.txt", ".git/hooks/pre-commit", "{outside}/planted", "../x"])
def test_a_planted_journal_does_nothing(root: Path, path: str) -> None:
    """A journal that came with the folder is named and not undone."""
    path = path.format(outside=root.parent)
    plant(root, path=path)
    checkpoints = Checkpoints(Workspace(root), "a.ipynb")
    assert checkpoints.turns() == []
    with pytest.raises(AgentError, match=r"There is no turn to undo\. 1 turn in .* not undone"):
        checkpoints.plan()
    turn = checkpoints.begin()
    run(turn, lambda: (root / "b.txt").write_text("1"))
    turn.end()
    assert undo(checkpoints) == {"b.txt": "removed"}
    assert not (root / path).exists()


def test_a_journal_of_the_version_before(root: Path) -> None:
    """A journal without seals is treated like a foreign one."""
    folder = plant(root)
    path = folder / "journal.jsonl"
    lines = [line.partition("\t")[0] for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines).replace('"checkpoint": 2', '"checkpoint": 1'))
    assert len(Checkpoints(Workspace(root), "a.ipynb").remarks()) == 1


@pytest.mark.parametrize("how", ["copied into another folder", "moved with its folder"])
def test_a_journal_counts_in_its_own_folder(
    root: Path, checkpoints: Checkpoints, tmp_path: Path, how: str
) -> None:
    """A copied journal of the person is not undone elsewhere, but in its own folder."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("1"))
    turn.end()
    other = tmp_path / "other"
    if how.startswith("moved"):
        root.rename(other)
    else:
        shutil.copytree(root, other)
    elsewhere = Checkpoints(Workspace(other), "a.ipynb")
    assert elsewhere.turns() == []
    with pytest.raises(AgentError, match=r"There is no turn to undo\. 1 turn in .* in this folder"):
        elsewhere.plan()
    assert (other / "a.txt").read_text() == "1"
    if how.startswith("moved"):
        other.rename(root)
    assert undo(Checkpoints(Workspace(root), "a.ipynb")) == {"a.txt": "restored"}


def test_a_changed_line_counts_for_nothing(root: Path, checkpoints: Checkpoints) -> None:
    """Changed or added lines in this kernel's journal are ignored."""
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("1"))
    turn.end()
    path = root / ".jupyter_agent" / "checkpoints" / turn.id / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    moved = [line.replace(b"a.txt", b"b.txt") for line in lines if b"a.txt" in line]
    path.write_bytes(b"".join([*lines, *moved]))
    (root / "b.txt").write_text("1")
    assert undo(checkpoints) == {"a.txt": "removed"}
    assert (root / "b.txt").exists()


@pytest.mark.parametrize(
    "name",
    [
        "99991231_235959_999999_abcdef",
        "99999999_999999_999999_abcdef",
        "00000000_000000_000000_abcdef",
        "20260101_000000_000000_ABCDEF",
        "٢٠٢٦٠١٠١_٠٠٠٠٠٠_٠٠٠٠٠٠_abcdef",
    ],
)
def test_names_that_are_no_records(root: Path, name: str) -> None:
    """Folders with impossible dates break no turn."""
    plant(root, name=name)
    checkpoints = Checkpoints(Workspace(root), "a.ipynb")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "b.txt").write_text("1"))
    turn.end()
    assert turn.id.startswith("20")
    assert turn.id < "2100"
    assert undo(checkpoints) == {"b.txt": "removed"}


def test_pipes_and_links_in_place_of_our_files(root: Path, tmp_path: Path) -> None:
    """A pipe, link or folder in place of a journal or content does not block."""
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    checkpoints_folder = root / ".jupyter_agent" / "checkpoints"
    kinds: list[Callable[[Path], object]] = [
        os.mkfifo,
        lambda path: path.symlink_to(outside),
        lambda path: path.symlink_to("/dev/zero"),
        Path.mkdir,
    ]
    for number, make in enumerate(kinds):
        folder = plant(root, name=f"2026010{number + 1}_000000_000000_abcdef")
        (folder / "journal.jsonl").unlink()
        make(folder / "journal.jsonl")
        known = checkpoints_folder / "known.json"
        known.unlink(missing_ok=True)
        if make is not Path.mkdir:
            make(known)
        checkpoints = Checkpoints(Workspace(root), "a.ipynb")
        turn = checkpoints.begin()
        run(turn, lambda: (root / "b.txt").write_text("1"))
        turn.end()
        assert undo(checkpoints) == {"b.txt": "removed"}
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", ["blobs", "kernels", ".lock", ""])
def test_links_in_place_of_our_folders(root: Path, tmp_path: Path, name: str) -> None:
    """Each folder of ours that is a link is refused in one line; nothing outside is touched."""
    outside = tmp_path / "outside"
    (outside / "aa").mkdir(parents=True)
    (outside / "aa" / "precious").write_text("precious")
    place = root / ".jupyter_agent" / "checkpoints" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside if name != ".lock" else outside / "aa" / "precious")
    with pytest.raises(ConfigError, match="is a link") as caught:
        Checkpoints(Workspace(root), "a.ipynb")
    assert "\n" not in str(caught.value)
    assert (outside / "aa" / "precious").read_text() == "precious"
    assert [path.name for path in outside.rglob("*")] == ["aa", "precious"]


def test_a_folder_of_contents_that_is_a_link(root: Path, tmp_path: Path) -> None:
    """Nothing is swept away through a link among the contents."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    blobs = root / ".jupyter_agent" / "checkpoints" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "aa").symlink_to(outside)
    checkpoints = Checkpoints(Workspace(root), "a.ipynb")
    checkpoints.begin().end()
    assert (outside / "precious").read_text() == "precious"


def test_a_planted_content_is_replaced(root: Path) -> None:
    """A wrong content under the digest of a file costs the person nothing."""
    (root / "a.txt").write_text("mine")
    digest = mark_of(b"mine").partition(":")[2]
    blob = root / ".jupyter_agent" / "checkpoints" / "blobs" / digest[:2] / digest[2:]
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"evil")
    checkpoints = Checkpoints(Workspace(root), "a.ipynb")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("1"))
    turn.end()
    assert undo(checkpoints) == {"a.txt": "restored"}
    assert (root / "a.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/x", ".jupyter_agent/a.yaml", "sub/.git/config", "../x", "{outside}/x", "a//b"],
)
def test_places_that_nothing_is_put_into(root: Path, checkpoints: Checkpoints, path: str) -> None:
    """Even this kernel's journal never writes into the state folder, .git, or outside."""
    path = path.format(outside=root.parent)
    turn = checkpoints.begin()
    state = [mark_of(b"x"), 0o100755, 1, "blob", "", 0]
    before = {"line": "before", "path": path, "state": state, "folders": 0}
    left = {"line": "left", "path": path, "state": ["", 0, 0, "", "", 0]}
    turn._journal.write(before, left)
    turn.end()
    (step,) = checkpoints.plan().steps
    assert (step.outcome, step.why) == ("not_restorable", NO_PLACE)
    undo(checkpoints)
    assert not (root / path).exists()


async def test_a_pipe_in_a_files_place(root: Path, checkpoints: Checkpoints) -> None:
    """A pipe in place of a file is left."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "1")
    turn.end()
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    assert undo(checkpoints) == {"a.txt": "not_restorable"}
    assert kind_mark((root / "a.txt").lstat().st_mode) != kind_mark(0o040000)


# Going back and forth ----------------------------------------------------------------------------


def test_back_and_forth_costs_no_turn(root: Path) -> None:
    """Any number of undos and redos keeps all turns, and accumulates nothing."""
    checkpoints = Checkpoints(Workspace(root), "a.ipynb", StorageLimits(records=6))
    for number in range(6):
        turn = checkpoints.begin(f"task {number}")
        turn.before_write(root / "a.txt", str(number).encode())
        (root / "a.txt").write_text(str(number))
        turn.end()
    for _ in range(8):
        undo(checkpoints, 2)
        redo(checkpoints)
    for _ in range(5):
        undo(checkpoints)
    assert (root / "a.txt").read_text() == "0"
    for _ in range(5):
        redo(checkpoints)
    assert (root / "a.txt").read_text() == "5"
    assert len(checkpoints.turns()) == 6
    folder = root / ".jupyter_agent" / "checkpoints"
    assert len([path for path in folder.iterdir() if path.name.startswith("20")]) == 6
    for _ in range(3):
        undo(checkpoints)
    turn = checkpoints.begin("another")
    turn.end()
    assert [record.task for record in checkpoints.turns()] == [
        "another",
        "task 2",
        "task 1",
        "task 0",
    ]
