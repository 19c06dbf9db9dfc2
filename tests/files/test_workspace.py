"""Path confinement, the state folder, notebook discovery, atomic writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.files.atomic import atomic_write, open_private, private_folder, temporary_of
from jupyter_agent.files.workspace import Workspace, notebook_path, refused_on_windows


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "workspace"
    root.mkdir()
    return Workspace(root)


def refusal(workspace: Workspace, path: str) -> str:
    with pytest.raises(ToolError) as caught:
        workspace.resolve(path)
    return str(caught.value)


@pytest.mark.parametrize("path", ["a.txt", "sub/a.txt", "./sub/../a.txt", "new/folder/a.txt", "~"])
def test_paths_inside(workspace: Workspace, path: str) -> None:
    """A relative path resolves below the root, whether or not something is there."""
    assert workspace.resolve(path) == Path(os.path.normpath(workspace.root / path))


def test_absolute_path_inside(workspace: Workspace) -> None:
    """An absolute path is fine as long as it is inside."""
    target = workspace.root / "sub" / "a.txt"
    assert workspace.resolve(str(target)) == target
    assert workspace.relative(target) == "sub/a.txt"
    assert workspace.relative(workspace.root) == "."


def test_outside_is_one_message(workspace: Workspace, tmp_path: Path) -> None:
    """Everything outside is refused in the same words, which do not tell whether it exists."""
    evil = tmp_path / "workspace-evil"
    evil.mkdir()
    (evil / "secret.txt").write_text("s", encoding="utf-8")
    (workspace.root / "file").symlink_to(evil / "secret.txt")
    (workspace.root / "dangling").symlink_to(evil / "nothing")
    (workspace.root / "folder").symlink_to(evil)
    (workspace.root / "a").symlink_to("b")
    (workspace.root / "b").symlink_to("a")
    outside = [
        "../x",
        "..",
        "sub/../../x",
        "../workspace-evil/secret.txt",
        "../workspace-evil/nothing.txt",
        str(evil / "secret.txt"),
        str(evil / "nothing.txt"),
        "/",
        "/etc/passwd",
        "/etc/" + "n" * 300,
        "file",
        "dangling",
        "folder/secret.txt",
        "folder/new.txt",
        "a",
        "a/x",
        "\ud800",
    ]
    messages = {refusal(workspace, path).replace(repr(path), "PATH") for path in outside[:9]}
    assert len(messages) == 1
    for path in outside:
        assert "is outside of the workspace" in refusal(workspace, path)


def test_cycle_does_not_hide_a_way_out(workspace: Workspace, tmp_path: Path) -> None:
    """A cycle makes `realpath` give up, and the link that follows it is still refused."""
    (workspace.root / "loop").symlink_to("loop")
    (workspace.root / "out").symlink_to(tmp_path)
    assert "outside" in refusal(workspace, "loop/../out/x")


def test_long_chain_of_symlinks(workspace: Workspace) -> None:
    """Thousands of links, each to the next, are refused without a traceback."""
    for number in range(3000):
        (workspace.root / f"l{number}").symlink_to(f"l{number + 1}")
    try:
        workspace.resolve("l0")
    except ToolError as error:
        assert "outside" in str(error)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("a\0b", "NUL"),
        ("n" * 300, "too long"),
        ("ü" * 200, "too long"),
        ("sub/" + "n" * 300 + "/x", "too long"),
        ("a/" * 100_000, "too long"),
    ],
)
def test_impossible_names(workspace: Workspace, path: str, words: str) -> None:
    """A name that no file system accepts is refused in one short line."""
    message = refusal(workspace, path)
    assert words in message
    assert len(message) < 300


def test_symlinks_inside(workspace: Workspace) -> None:
    """A link that stays inside resolves to what it names."""
    (workspace.root / "real").mkdir()
    (workspace.root / "link").symlink_to("real")
    assert workspace.resolve("link/new.txt") == workspace.root / "real" / "new.txt"


def test_root_behind_a_symlink(tmp_path: Path) -> None:
    """The root is kept without symlinks, so that paths given through one still fit."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    workspace = Workspace(tmp_path / "link")
    assert workspace.root == tmp_path.resolve() / "real"
    assert workspace.resolve(str(tmp_path / "link" / "x")) == workspace.root / "x"


def test_relative_refuses_outside(workspace: Workspace, tmp_path: Path) -> None:
    """A path outside has no name relative to the root."""
    with pytest.raises(ToolError, match="outside"):
        workspace.relative(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        ".jupyter_agent",
        ".jupyter_agent/config.yaml",
        ".Jupyter_Agent/x",
        "sub/.jupyter_agent/x",
        ".git/config",
        ".GIT/hooks/pre-commit",
        "vendored/.git/config",
    ],
)
def test_not_writable(workspace: Workspace, path: str) -> None:
    """State folders and .git are no place for tools, at any depth and in any case."""
    with pytest.raises(ToolError, match="must not write"):
        workspace.writable(path)


def test_state_folder_by_another_name(workspace: Workspace) -> None:
    """A state folder that is a link is guarded under its real name as well."""
    (workspace.root / "state").mkdir()
    (workspace.root / ".jupyter_agent").symlink_to("state")
    (workspace.root / "state" / "config.yaml").write_text("api_key: x", encoding="utf-8")
    with pytest.raises(ToolError, match="must not write"):
        workspace.writable("state/new.txt")
    with pytest.raises(ToolError, match="keys"):
        workspace.readable("state/config.yaml")


def test_names_near_the_guarded_ones(workspace: Workspace) -> None:
    """Only the exact folders are guarded."""
    for path in (".gitignore", ".github/x", "jupyter_agent/x", ".jupyter_agent_x"):
        assert workspace.writable(path) == workspace.root / path


def test_readable(workspace: Workspace) -> None:
    """Only files of the state folder that may hold keys are unreadable."""
    for path in (
        ".jupyter_agent/config.yaml",
        ".jupyter_agent/MCP.json",
        "s/.jupyter_agent/mcp.json",
    ):
        with pytest.raises(ToolError, match="keys"):
            workspace.readable(path)
    assert workspace.readable(".jupyter_agent/rules/a.md").name == "a.md"
    assert workspace.readable("config.yaml").name == "config.yaml"


def test_state_folder_is_invisible_to_git(workspace: Workspace) -> None:
    """`git status` stays clean with logs and sessions, and shows what is meant for git."""
    state = workspace.ensure_state_folder()
    (state / "logs").mkdir()
    (state / "logs" / "a.jsonl").write_text("{}", encoding="utf-8")

    def status() -> str:
        done = subprocess.run(
            ["git", "status", "--porcelain", "-uall"],
            cwd=workspace.root,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    subprocess.run(["git", "init", "-q"], cwd=workspace.root, check=True)
    assert status() == ""
    (state / "config.yaml").write_text("{}", encoding="utf-8")
    assert ".jupyter_agent/config.yaml" in status()


def test_state_folder_keeps_an_edited_gitignore(workspace: Workspace) -> None:
    """A `.gitignore` that a person changed is not written again."""
    path = workspace.ensure_state_folder() / ".gitignore"
    path.write_text("mine\n", encoding="utf-8")
    workspace.ensure_state_folder()
    assert path.read_text(encoding="utf-8") == "mine\n"


def test_state_folder_in_the_way(workspace: Workspace) -> None:
    """A file in its place is one clear error."""
    workspace.state_folder.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be made"):
        workspace.ensure_state_folder()


def test_state_folder_must_not_lead_out(workspace: Workspace, tmp_path: Path) -> None:
    """A state folder that is a link out of the checkout gets no files."""
    (tmp_path / "elsewhere").mkdir()
    workspace.state_folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="out of the workspace"):
        workspace.ensure_state_folder()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "NUL",
        "con.txt",
        "sub/COM1",
        "aux .txt",
        "a.txt:stream",
        "a.txt.",
        "a ",
        "D:\\x",
        "D:x",
        "C:x",
        "\\\\server\\share\\x",
        "//server/share/x",
        "\\\\?\\C:\\x",
        "LPT¹",
    ],
)
def test_refused_on_windows(path: str) -> None:
    """Devices, data streams, other drives and servers are refused before Windows resolves them."""
    assert refused_on_windows(path, PureWindowsPath("C:/work"))


@pytest.mark.parametrize(
    "path", ["a.txt", "..\\x", "./a", "c:\\work\\x", "console.txt", ".git", "."]
)
def test_plain_on_windows(path: str) -> None:
    """Ordinary paths pass; whether they are inside is decided afterwards."""
    assert not refused_on_windows(path, PureWindowsPath("C:/work"))


def test_notebook_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VS Code's variable comes first, then the server's; anything else is no notebook."""
    monkeypatch.chdir(tmp_path)
    book = str(tmp_path / "a.ipynb")
    assert notebook_path({"__vsc_ipynb_file__": book}, {"JPY_SESSION_NAME": "b.ipynb"}) == Path(
        book
    )
    assert notebook_path({}, {"JPY_SESSION_NAME": book}) == Path(book)
    assert notebook_path({}, {"JPY_SESSION_NAME": "sub/b.ipynb"}) == tmp_path / "sub" / "b.ipynb"
    assert notebook_path({}, {"JPY_SESSION_NAME": "console-1"}) is None
    assert notebook_path({"__vsc_ipynb_file__": 7}, {}) is None
    assert notebook_path({}, {}) is None


def test_notebook_path_from_a_server_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path from the server's root names the notebook beside which the kernel runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.ipynb").write_text("{}", encoding="utf-8")
    assert notebook_path({}, {"JPY_SESSION_NAME": "sub/b.ipynb"}) == tmp_path / "b.ipynb"


def test_atomic_write_keeps_permissions(tmp_path: Path) -> None:
    """An existing file keeps its bits, a new one gets what the umask leaves."""
    path = tmp_path / "a.sh"
    atomic_write(path, b"1")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o751)
    atomic_write(path, b"2")
    assert path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_atomic_write_replaces_a_symlink(tmp_path: Path) -> None:
    """A link that slipped in is replaced, and what it points to stays."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink()


def test_atomic_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Where the rename fails, the temporary file is gone."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        atomic_write(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_atomic_write_after_a_killed_writer(tmp_path: Path) -> None:
    """A writer with a fixed temporary name removes a killed writer's file; others leave it."""
    left = temporary_of(tmp_path / "a.txt", "fixed")
    left.write_bytes(b"half")
    atomic_write(tmp_path / "a.txt", b"1")
    assert left.read_bytes() == b"half"
    atomic_write(tmp_path / "a.txt", b"2", token="fixed", durable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"2"


def test_a_folder_in_whose_place_is_a_link(tmp_path: Path) -> None:
    """A link to a folder is followed unless forbidden; a file in its place is an error."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    private_folder(tmp_path / "link" / "new")
    assert (tmp_path / "real" / "new").is_dir()
    private_folder(tmp_path / "link")
    with pytest.raises(OSError, match="link is a link and no folder"):
        private_folder(tmp_path / "link", follow_link=False)
    (tmp_path / "file").write_text("x")
    for follow in (True, False):
        with pytest.raises(OSError):
            private_folder(tmp_path / "file", follow_link=follow)


def test_atomic_write_on_a_full_disk(tmp_path: Path) -> None:
    """A write that the system cuts off leaves the old file whole and no other beside it."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    code = f"""
import resource
from pathlib import Path
from jupyter_agent.files.atomic import atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    atomic_write(Path({str(path)!r}), b"x" * 100_000)
except OSError as error:
    print("refused", error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_state_folder_is_the_owners(tmp_path: Path, umask: int) -> None:
    """Whatever the umask: folders 0700, files 0600; new files beside them are as the umask says."""
    before = os.umask(umask)
    try:
        state = Workspace(tmp_path).ensure_state_folder()
        private_folder(state / "logs" / "deep")
        with open_private(state / "logs" / "a.jsonl", "x", encoding="utf-8") as stream:
            stream.write("x")
        atomic_write(state / "config.yaml", b"x")
        atomic_write(tmp_path / "mine.txt", b"x")
    finally:
        os.umask(before)
    for path in (state, state / "logs", state / "logs" / "deep"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for name in (".gitignore", "config.yaml", "logs/a.jsonl"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "mine.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_an_open_state_folder_is_closed(tmp_path: Path) -> None:
    """What an earlier version left open is closed at the first use; no link is followed."""
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    state = tmp_path / "work" / ".jupyter_agent"
    (state / "logs" / "mcp").mkdir(parents=True)
    (state / "logs" / "old.jsonl").write_text("x")
    (state / "logs" / "link").symlink_to(outside)
    for path in (outside, state, state / "logs", state / "logs" / "mcp", state / "logs/old.jsonl"):
        path.chmod(0o755)
    Workspace(tmp_path / "work").ensure_state_folder()
    for path in (state, state / "logs", state / "logs" / "mcp", state / "logs/old.jsonl"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "work").stat().st_mode) & 0o055


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_a_copy_is_never_more_open(tmp_path: Path) -> None:
    """While a file is replaced its bytes are as private as the file, and so is what is restored."""
    path = tmp_path / "key.txt"
    path.write_bytes(b"old")
    path.chmod(0o600)
    script = f"""
import os, stat, sys
from pathlib import Path
seen = []
def look(event, args):
    if event == "os.rename":
        seen.append(stat.S_IMODE(os.stat(args[0]).st_mode))
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        if str(args[0]).endswith(".tmp"):
            seen.append("opened")
from jupyter_agent.files.atomic import atomic_write
os.umask(0)


sys.addaudithook(look)
atomic_write(Path({str(path)!r}), b"new")
atomic_write(Path({str(path)!r} + "2"), b"new", mode=0o640)
print(seen)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"['opened', {0o600}, 'opened', {0o640}]"
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o600
