"""`jupyter agent run` with a list of tasks: real kernels, a scripted model, real kills."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import yaml
from generated import seed
from notebooks.notebooks import (
    agent,
    begun,
    environment,
    finish,
    script,
    started,
    wait_until,
    wait_until_gone,
    write,
)
from notebooks.task_lists import hold, listed, records, scripted, table, turns

pytestmark = pytest.mark.timeout(300)


def run(folder: Path, *options: str, **more: str) -> tuple[int, str]:
    home = folder / "home"
    given = {**scripted(folder), **more}
    return agent("run", "tasks.yaml", *options, cwd=folder, home=home, **given)


def sources(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells]


def texts(path: Path) -> str:
    return json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"], ensure_ascii=False)


def test_tasks_in_their_order(tmp_path: Path) -> None:
    """A notebook is executed before its task, inputs are bound as literals, tasks wait for others,
    and the same command runs nothing twice; what changed runs anew, with what comes after it."""
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "first.ipynb", "import os\nhere = os.path.basename(os.getcwd())")
    looks = {"name": "execute_code", "arguments": {"code": "print(here, rows, hint)"}}
    one = {
        "notebook": "sub/first.ipynb",
        "task": "Look.",
        "inputs": {"rows": [1, "zwei"], "hint": "__import__('os')._exit(3)"},
        "options": "--max-steps 4",
    }
    told = {"name": "execute_code", "arguments": {"code": "print(earlier_answers['first'] * 2)"}}
    two = {"name": "then", "task": "Go on.", "after": "first"}
    listed(tmp_path, two, one)
    used = {"input_tokens": 1200, "output_tokens": 34}
    script(
        tmp_path / "script.yaml",
        ("Look.", [{"calls": [looks], "usage": used}, {"text": "Seen."}]),
        ("Go on.", [{"calls": [told]}, {"text": "Gone on."}]),
    )
    code, said = run(tmp_path, "--jobs", "2")
    assert code == 0, said
    assert said.index("done               first") < said.index("running            then")
    rows = table(said)
    assert rows["first"][:3] == ["done", "2", "1,234"]
    assert rows["first"][-1] == "Seen."
    first = tmp_path / "tasks-runs" / "first.ipynb"
    assert sources(first)[1:] == [
        "%load_ext jupyter_agent",
        "rows = [1, 'zwei']\nhint = \"__import__('os')._exit(3)\"",
        "%%agent --max-steps 4\nLook.",
    ]
    assert "sub [1, 'zwei'] __import__('os')._exit(3)" in texts(first)
    assert "Seen.Seen." in texts(tmp_path / "tasks-runs" / "then.ipynb")
    assert "%load_ext" not in texts(tmp_path / "sub" / "first.ipynb")

    before = first.read_bytes()
    code, said = run(tmp_path)
    assert (code, "2 tasks in 0 s: 2 done before." in said) == (0, True), said
    assert first.read_bytes() == before

    write(tmp_path / "sub" / "first.ipynb", "import os\nhere = 'changed'")
    code, said = run(tmp_path)
    assert code == 0, said
    assert "first runs anew: its notebook changed" in said
    assert "then runs anew: a task before it changed" in said
    assert "changed [1, 'zwei']" in texts(first)

    code, said = run(tmp_path, "--again")
    assert (code, "2 done." in said) == (0, True), said


def test_a_failure_in_the_middle(tmp_path: Path) -> None:
    """Tasks after one that failed are skipped, also those after them; the others run. What failed
    is run anew only when that is said, and then what was skipped runs, too."""
    listed(
        tmp_path,
        {"name": "a", "task": "Task a."},
        {"name": "b", "task": "Task b.", "after": ["a"]},
        {"name": "c", "task": "Task c.", "after": ["b"]},
        {"name": "d", "task": "Task d.", "after": ["c", "a"]},
        {"name": "e", "task": "Task e.", "options": "--max-steps 1"},
        {"name": "f", "task": "Task f."},
    )
    works = [("Task a.", [{"text": "A."}]), ("Task f.", [{"text": "F."}])]
    loops = {"calls": [{"name": "execute_code", "arguments": {"code": "1"}}]}
    script(tmp_path / "script.yaml", *works, ("Task b.", []), ("Task e.", [loops, loops]))
    code, said = run(tmp_path, "--jobs", "2")
    assert code == 1, said
    rows = table(said)
    assert {name: row[0] for name, row in rows.items()} == {
        "a": "done",
        "b": "failed",
        "c": "skipped",
        "d": "skipped",
        "e": "failed",
        "f": "done",
    }
    assert "no further reply" in " ".join(rows["b"])
    assert rows["c"][-2:] == ["b", "failed"]
    assert rows["d"][-3:] == ["c", "was", "skipped"]
    assert "limit of steps (max_steps)" in said
    ended = turns(tmp_path)

    script(
        tmp_path / "script.yaml",
        *((f"Task {name}.", [{"text": name.upper()}]) for name in "abcdef"),
    )
    code, said = run(tmp_path)
    assert (code, table(said)["b"][:2]) == (1, ["failed", "before"]), said
    assert turns(tmp_path) == ended
    code, said = run(tmp_path, "--retry-failed")
    assert code == 0, said
    assert "4 done" in said
    assert "2 done before" in said
    assert turns(tmp_path)["Task a."] == 1


def test_the_command_is_killed(tmp_path: Path) -> None:
    """A kill of the command loses the running tasks alone: the next one runs these again, and none
    of those that were done; the first one's kernels do not go on beside it."""
    hold(tmp_path, "a", "b")
    entries = yaml.safe_load((tmp_path / "tasks.yaml").read_text())
    listed(tmp_path, {"name": "first", "task": "Task first."}, *entries)
    arguments = "run", "tasks.yaml", "--jobs", "2"
    given = scripted(tmp_path)
    with started(*arguments, cwd=tmp_path, home=tmp_path / "home", **given) as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both notebooks wait")
        command.send_signal(signal.SIGKILL)
        command.wait(30)
        killed = begun(tmp_path)
        with started(*arguments, cwd=tmp_path, home=tmp_path / "home", **given) as second:
            wait_until(lambda: len(begun(tmp_path)) == 4, "both run again")
            for _, kernel, _ in killed:
                wait_until_gone(kernel)
            (tmp_path / "hold").unlink()
            code, said = finish(second)
    assert code == 0, said
    assert "2 done, 1 done before" in said or "1 done before, 2 done" in said
    assert turns(tmp_path) == {"Task first.": 1, "Task a.": 1, "Task b.": 1}


def test_two_commands_at_once(tmp_path: Path) -> None:
    """Both go through the list, each task runs to its end once, and both say what came of all."""
    names = ["a", "b", "c", "d", "e"]
    hold(tmp_path, *names)
    given = scripted(tmp_path)
    one = started("run", "tasks.yaml", cwd=tmp_path, home=tmp_path / "home", **given)
    two = started("run", "tasks.yaml", cwd=tmp_path, home=tmp_path / "home", **given)
    with one as first, two as second:
        wait_until(lambda: len(begun(tmp_path)) == 2, "each has begun a task")
        (tmp_path / "hold").unlink()
        ends = [finish(first), finish(second)]
    for code, said in ends:
        assert code == 0, said
        assert {name: row[0] for name, row in table(said).items()} == dict.fromkeys(names, "done")
        assert "running elsewhere" in said
    assert turns(tmp_path) == {f"Task {name}.": 1 for name in names}
    assert Counter(each["state"] for each in records(tmp_path)) == {"running": 5, "done": 5}


@pytest.mark.deep
def test_commands_killed_at_random(tmp_path: Path) -> None:
    """Three commands at one list, of which one is killed again and again and takes another's place:
    each task comes to its end once, and none is lost."""
    names = [f"t{number}" for number in range(14)]
    listed(
        tmp_path,
        *(
            {"name": name, "task": f"Task {name}.", "after": ["t2"] if name in ("t5", "t9") else []}
            for name in names
        ),
    )
    given = {"cwd": tmp_path, "home": tmp_path / "home", **scripted(tmp_path)}
    chance = random.Random(seed())
    with ExitStack() as commands:
        running = [commands.enter_context(started("run", "tasks.yaml", **given)) for _ in range(3)]
        for _ in range(5):
            time.sleep(chance.uniform(2, 5))
            killed = running.pop(chance.randrange(3))
            killed.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            killed.communicate(timeout=60)
            running.append(commands.enter_context(started("run", "tasks.yaml", **given)))
        for command in running:
            code, said = finish(command)
            assert code == 0, said
    assert turns(tmp_path) == {f"Task {name}.": 1 for name in names}
    done = [each["task"] for each in records(tmp_path) if each["state"] == "done"]
    assert sorted(done) == sorted(names)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.deep)],
)
def test_interrupted(tmp_path: Path, number: int, code: int) -> None:
    """No process goes on, the record says what was interrupted, and the same command goes on."""
    hold(tmp_path, "a", "b")
    given = scripted(tmp_path)
    with started("run", "tasks.yaml", cwd=tmp_path, home=tmp_path / "home", **given) as command:
        wait_until(lambda: begun(tmp_path), "a notebook waits")
        children = psutil.Process(command.pid).children(recursive=True)
        command.send_signal(number)
        ended, said = finish(command)
        for child in children:
            wait_until_gone(child.pid)
    assert ended == code
    assert [row[0] for row in table(said).values()] == ["interrupted", "waiting"]
    assert "To go on: the same command" in said
    assert [each["state"] for each in records(tmp_path)] == ["running", "interrupted"]
    (tmp_path / "hold").unlink()
    code, said = run(tmp_path)
    assert (code, "2 done." in said) == (0, True), said


@pytest.mark.parametrize("many", [5, pytest.param(40, marks=pytest.mark.deep)])
def test_many_at_once(tmp_path: Path, many: int) -> None:
    """Forty tasks by two processes: each is done once, and no more than two run at a time."""
    listed(tmp_path, *({"name": f"t{n}", "task": f"Task {n}."} for n in range(many)))
    code, said = run(tmp_path, "--jobs", "2")
    assert code == 0, said
    assert f"{many} done." in said
    assert turns(tmp_path) == {f"Task {n}.": 1 for n in range(many)}
    running, most = set[str](), 0
    for each in records(tmp_path):
        running = (
            running | {each["task"]} if each["state"] == "running" else running - {each["task"]}
        )
        most = max(most, len(running))
    assert most == 2


def test_recorded_and_replayed(tmp_path: Path) -> None:
    """A task is recorded beside its notebook under the task's name, and replayed without a model;
    a run of another mode does not count as this one."""
    listed(tmp_path, {"name": "count", "task": "How many?", "inputs": {"rows": [1, 2]}})
    reply = {"calls": [{"name": "execute_code", "arguments": {"code": "len(rows)"}}]}
    script(tmp_path / "script.yaml", ("How many?", [reply, {"text": "Two rows."}]))
    code, said = run(tmp_path, "--mode", "record")
    assert code == 0, said
    assert (tmp_path / "count.cassette.jsonl").exists()
    made = tmp_path / "tasks-runs" / "count.ipynb"
    recorded = made.read_bytes()
    (tmp_path / "script.yaml").unlink()
    code, said = run(
        tmp_path, "--mode", "replay", JUPYTER_AGENT_PROVIDER="", JUPYTER_AGENT_SCRIPT=""
    )
    assert code == 0, said
    assert table(said)["count"][:2] == ["done", "2"]
    assert made.read_bytes() == recorded
    code, said = run(tmp_path)
    assert (code, "1 done before." in said) == (0, True), said


def test_what_the_steps_are_is_seen(tmp_path: Path) -> None:
    """In a terminal the table changes in place and shows the tool that runs; names and answers
    cannot steer the terminal."""
    (tmp_path / "go").touch()
    waits = "import os, time\nwhile os.path.exists('go'):\n    time.sleep(0.05)"
    call = {"name": "execute_code", "arguments": {"code": waits}}
    listed(tmp_path, {"name": "one", "task": "Wait."})
    evil = "It is [red]over\x1b]0;x\x07."
    script(tmp_path / "script.yaml", ("Wait.", [{"calls": [call]}, {"text": evil}]))
    ours, theirs = pty.openpty()
    given = scripted(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_agent.cli", "run", "tasks.yaml"],
        cwd=tmp_path,
        env=environment(tmp_path / "home", TERM="xterm", COLUMNS="120", LINES="30", **given),
        stdout=theirs,
        stderr=theirs,
    ) as command:
        os.close(theirs)
        said = b""
        with suppress(OSError):
            while piece := os.read(ours, 4096):
                said += piece
                if b"step 1: execute_code" in said:
                    (tmp_path / "go").unlink(missing_ok=True)
        os.close(ours)
        assert command.wait(60) == 0, said
    assert not (tmp_path / "go").exists(), said
    assert b"\x1b]0;" not in said
    assert b"[red]over" in said
    assert b"1 task in" in said


BAD: dict[str, tuple[str, str]] = {
    "empty": ("", "It is empty. Write a list of tasks"),
    "no list": ("task: x", "It holds a mapping"),
    "no YAML": ("- task: [x", "not valid YAML"),
    "a tag": ("- task: !!python/object/apply:os.system [ls]", "tags (with !) are not allowed"),
    "twice": ("- task: x\n  task: y", "line 2: not valid YAML (the key task is there twice)"),
    "no entry": ("- task: x\n- 3", "line 2, task 2: it is 3"),
    "no task": ("- name: a\n", "line 1, task 1: it has no `task`"),
    "no words": ("- task: ' '", "`task` is empty"),
    "unknown field": ("- task: x\n  input: {a: 1}", "Did you mean inputs?"),
    "a number": ("- task: 3", "`task` must be text, not 3. Put it in quotes"),
    "a time of nothing": ("- task: x\n  timeout: 0", "`timeout` must be a number of seconds above"),
    "an option": ("- task: x\n  options: --sampels 3", "Did you mean --samples?"),
    "a value": ("- task: x\n  options: --samples many", "answers.samples must be"),
    "code in options": ("- task: x\n  options: --model {evil()}", "`options` has {"),
    "a name": ("- task: x\n  inputs: {a b: 1}", "'a b' is not fit for the name of a variable"),
    "a date": ("- task: x\n  inputs: {day: 2024-01-01}", "day is a date to YAML"),
    "a name of ours": ("- task: x\n  inputs: {earlier_answers: 1}", "Take another name"),
    "no number": ("- task: x\n  inputs: {n: .nan}", "n is not a finite number"),
    "a circle in a value": ("- task: x\n  inputs: {n: &a [*a]}", "nested too deeply"),
    "outside": ("- task: x\n  notebook: ../b.ipynb", "is outside of the list's folder"),
    "a link out": ("- task: x\n  notebook: link.ipynb", "is outside of the list's folder"),
    "missing": ("- task: x\n  notebook: no.ipynb", "there is no notebook 'no.ipynb'"),
    "another language": ("- task: x\n  notebook: r.ipynb", "agent cells need Python"),
    "no notebook": ("- task: x\n  notebook: tasks.yaml", "is no notebook"),
    "a broken one": ("- task: x\n  notebook: broken.ipynb", "cannot be read as a notebook"),
    "a path for a name": ("- task: x\n  name: ../a", "the name '../a' is not fit for a file"),
    "one notebook": ("- {task: x, name: A}\n- {task: y, name: a}", "same notebook as task 1"),
    "nobody": ("- {task: x, name: load}\n- {task: y, after: laod}", "Did you mean load?"),
    "a circle": (
        "- {task: x, name: a, after: b}\n- {task: y, name: b, after: a}",
        "wait for each other: ",
    ),
    "a billion": (
        "- task: x\n  inputs:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)),
        "longer than 100,000 characters",
    ),
    "deep": ("- task: x\n  inputs: {a: " + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
}


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "lists"
    write(folder.parent / "b.ipynb", "1")
    write(folder / "r.ipynb", "1", kernelspec={"name": "ir", "language": "R", "display_name": "R"})
    (folder / "link.ipynb").symlink_to(folder.parent / "b.ipynb")
    (folder / "broken.ipynb").write_text("{", encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", BAD)
def test_bad_lists(kind: str, around: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is one line with the place and the remedy, exit code 2, and nothing was begun."""
    from click.testing import CliRunner

    from jupyter_agent.cli import main

    monkeypatch.chdir(around)
    text, words = BAD[kind]
    (around / "tasks.yaml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["run", "tasks.yaml"])
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert len(result.output.strip().splitlines()[-1]) < 700
    assert not (around / "tasks-runs").exists()


USAGES: Sequence[tuple[list[str], str]] = (
    (["tasks.yaml", "b.ipynb"], "is a list of tasks, which is run alone"),
    (["tasks.yaml", "--in-place"], "--in-place is for notebooks"),
    (["b.ipynb", "--again"], "are for a list of tasks"),
    (["no.yaml"], "There is no list of tasks no.yaml"),
    (["other.yaml", "--to", "tasks-runs"], "holds the notebooks of another list (../tasks.yaml)"),
    (["own.yaml", "--to", "."], "b.ipynb would be replaced by what this command"),
    (["foreign.yaml"], "is there already, and no run has written it"),
)


def test_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2 and one line, before any kernel is started."""
    from click.testing import CliRunner

    from jupyter_agent.cli import main
    from jupyter_agent.notebooks.tasks.store import TaskRecord, TaskStore

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "b.ipynb", "1")
    for name in ("tasks", "other"):
        (tmp_path / f"{name}.yaml").write_text("- task: x", encoding="utf-8")
    (tmp_path / "own.yaml").write_text("- {task: x, notebook: b.ipynb}", encoding="utf-8")
    write(tmp_path / "foreign-runs" / "task-1.ipynb", "mine")
    (tmp_path / "foreign.yaml").write_text("- task: x", encoding="utf-8")
    store = TaskStore(tmp_path / "tasks-runs", tmp_path / "tasks.yaml")
    store.open()
    store.add(TaskRecord("task-1", "done"))
    for arguments, words in USAGES:
        result = CliRunner().invoke(main, ["run", *arguments])
        assert (result.exit_code, words in result.output) == (2, True), result.output
