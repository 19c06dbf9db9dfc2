"""Killed at every point: run as a script, it prints a line of JSON with what it found.

    python crashes.py FOLDER [SAMPLE SEED]

With a sample, only so many points of each act are met, chosen by the seed. A child is forked for
each point. It ends itself with SIGKILL at the n-th thing that it asks of the
file system (Python's audit events). Then the parent goes on as a new kernel would.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import STATE_FOLDER, atomic_write
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import Checkpoints

WORK = "work"
"""The folder's name in which all happens: journals count in their own place only."""
EVENTS = ("open", "os.", "shutil.")


def tree(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and STATE_FOLDER not in path.relative_to(root).parts
        and not path.name.startswith(".jupyter_agent-")
    }


def fill(root: Path) -> None:
    (root / "data").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "data/c.txt"):
        (root / name).write_text(f"the first {name}")


def turn(root: Path) -> None:
    """A turn with tools and code."""
    checkpoint = Checkpoints(Workspace(root), "n.ipynb").begin("work")
    for name, text in (("a.txt", "by a tool"), ("new.txt", "made by a tool")):
        checkpoint.before_write(root / name, text.encode())
        atomic_write(root / name, text.encode())
    with checkpoint.code():
        (root / "b.txt").write_text("by code")
        (root / "data" / "c.txt").unlink()
        (root / "made").mkdir()
        (root / "made" / "d.txt").write_text("made by code")
    checkpoint.before_write(root / "b.txt", b"by a tool, too")
    atomic_write(root / "b.txt", b"by a tool, too")
    checkpoint.end()


def replacing(root: Path) -> None:
    """A turn whose code puts a file in a folder's place."""
    checkpoint = Checkpoints(Workspace(root), "n.ipynb").begin("work")
    with checkpoint.code():
        shutil.rmtree(root / "data")
        (root / "data").write_text("now a file")
    checkpoint.end()


def undo(root: Path) -> None:
    checkpoints = Checkpoints(Workspace(root), "n.ipynb")
    checkpoints.apply(checkpoints.plan())


def redo(root: Path) -> None:
    checkpoints = Checkpoints(Workspace(root), "n.ipynb")
    checkpoints.apply(checkpoints.plan_back())


def killed_at(number: int, act: Callable[[], None]) -> bool:
    """Run `act` in a child that dies at its n-th event; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, _: object) -> None:
            nonlocal left
            if event.startswith(EVENTS):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and status != 0:
        raise RuntimeError("the child failed")
    return os.WIFSIGNALED(status)


def again(act: Callable[[Path], None], root: Path) -> str:
    """Do it once more, as a person would. What it says where there is nothing to do."""
    try:
        act(root)
    except AgentError as error:
        return str(error)
    return ""


def points_of(folder: Path, before: Path, act: Callable[[Path], None]) -> tuple[int, list[int]]:
    """How many things `act` asks of the file system, done in a child and to its end.

    Returns:
        Their number, and which of them concern a file that is being written beside another one.
    """
    root, counted = folder / WORK, folder / "points"
    shutil.copytree(before, root, symlinks=True)
    child = os.fork()
    if child == 0:
        seen, beside = 0, []

        def count(event: str, arguments: object) -> None:
            nonlocal seen
            seen += event.startswith(EVENTS)
            if event.startswith(EVENTS) and "/.jupyter_agent-" in str(arguments):
                beside.append(seen)

        sys.addaudithook(count)
        act(root)
        found = json.dumps([seen, beside])
        counted.write_text(found)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError("the child failed")
    shutil.rmtree(root)
    total, numbers = json.loads(counted.read_text())
    return total, numbers


def each_point(
    folder: Path,
    before: Path,
    act: Callable[[Path], None],
    then: Callable[[Path], str],
    choose: Callable[[int], Iterable[int]],
) -> dict[str, object]:
    """Kill `act` at chosen points, each time with a copy of `before`; `then` says what is wrong.

    The points at which a file is being written beside another one are met in any case.
    """
    total, beside = points_of(folder, before, act)
    wrong, met = [], []
    root = folder / WORK
    for number in sorted({*choose(total), *beside}):
        shutil.copytree(before, root, symlinks=True)
        if killed_at(number, lambda: act(root)):
            met.append(number)
        if problem := then(root):
            wrong.append(f"point {number}: {problem}")
        shutil.rmtree(root)
    return {"points": total, "met": met, "wrong": wrong}


def compared(root: Path, expected: dict[str, str]) -> str:
    found = tree(root)
    return "" if found == expected else f"{found} instead of {expected}"


def main(folder: Path, choose: Callable[[int], Iterable[int]]) -> dict[str, object]:
    work, start, replaced = folder / WORK, folder / "start", folder / "replaced"
    done, undone = folder / "done", folder / "undone"
    fill(work)
    first = tree(work)
    shutil.copytree(work, start)
    turn(work)
    last = tree(work)
    shutil.copytree(work, done)
    undo(work)
    work.rename(undone)
    shutil.copytree(start, work)
    replacing(work)
    with_a_file = tree(work)
    work.rename(replaced)

    def after_turn(root: Path) -> str:
        again(undo, root)
        return compared(root, first)

    def after_undo(root: Path) -> str:
        again(undo, root)
        problem = compared(root, first)
        redo(root)
        return problem or compared(root, last)

    def after_redo(root: Path) -> str:
        again(redo, root)
        problem = compared(root, last)
        undo(root)
        return problem or compared(root, first)

    def after_coming_back(root: Path) -> str:
        again(undo, root)
        problem = compared(root, first)
        redo(root)
        return problem or compared(root, with_a_file)

    return {
        "turn": each_point(folder, start, turn, after_turn, choose),
        "undo": each_point(folder, done, undo, after_undo, choose),
        "redo": each_point(folder, undone, redo, after_redo, choose),
        "undo of a replaced folder": each_point(folder, replaced, undo, after_coming_back, choose),
    }


def all_of(total: int) -> Iterable[int]:
    """Each point, and one beyond the last: there nobody is killed."""
    return range(1, total + 2)


def sample(size: int, seed: int) -> Callable[[int], Iterable[int]]:
    """So many points, and the one beyond the last."""
    chance = random.Random(seed)
    return lambda total: [*sorted(chance.sample(range(1, total + 1), size)), total + 1]


if __name__ == "__main__":
    chosen = sample(*map(int, sys.argv[2:])) if sys.argv[2:] else all_of
    print(json.dumps(main(Path(sys.argv[1]).resolve(), chosen)))
