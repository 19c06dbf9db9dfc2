"""What each agent and delegate does and has done, seen from another kernel of the folder."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_kernel import Json, LiveKernel, execute_code

from jupyter_agent.core.events import (
    Delegated,
    MessageFinished,
    Receipt,
    StepStarted,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult, Usage
from jupyter_agent.memory.scope import MemoryRoot
from jupyter_agent.stores.following import LogFollower
from jupyter_agent.stores.session_accounts import FOLDER, read_record
from jupyter_agent.stores.session_records import SessionRecord

KEY = "sk-ant-api03-abcdefghijklmnop1234"
AWAIT = "import asyncio, os\nwhile not os.path.exists({!r}): await asyncio.sleep(0.02)"
_NUMBERS = itertools.count(1)


def named(folder: Path, notebook: str) -> LiveKernel:
    """The kernel of a notebook."""
    return LiveKernel(folder, {"JPY_SESSION_NAME": str(folder / notebook)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def sales(folder: Path) -> Iterator[LiveKernel]:
    with named(folder, "sales.ipynb") as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(scope="module")
def other(folder: Path) -> Iterator[LiveKernel]:
    """Another kernel in the same folder."""
    with named(folder, "other.ipynb") as kernel:
        kernel.load()
        yield kernel


def assign(*assignments: dict[str, Any], tokens: int = 0) -> Json:
    """A reply with a call of `delegate` for each assignment."""
    calls = [{"name": "delegate", "arguments": each} for each in assignments]
    return {"calls": calls, "usage": {"input_tokens": tokens}}


def used(reply: Json, tokens: int) -> Json:
    return {**reply, "usage": {"input_tokens": tokens}}


def script(kernel: LiveKernel, task: str, replies: list[Json], **delegates: list[Json]) -> None:
    """Script a turn, and for each delegate, by its task, its replies."""
    turns = [{"task": task, "replies": replies}]
    turns += [{"task": name.replace("_", " "), "replies": its} for name, its in delegates.items()]
    name = f"script_{next(_NUMBERS)}.yaml"
    (kernel.folder / name).write_text(yaml.safe_dump(turns), encoding="utf-8")
    kernel.helper("%agent config provider scripted", f"%agent config script {name}")


def rows(kernel: LiveKernel, *wanted: str) -> dict[str, str]:
    """The list of agents, once each of these words is in it: the lines by their agent."""
    end = time.monotonic() + 120
    while True:
        said = kernel.helper("%agent agents").said
        if all(words in said for words in wanted):
            lines = [line.split(None, 1) for line in said.split("\n")[1:] if line.strip()]
            return {line[0]: line[-1] for line in lines}
        assert time.monotonic() < end, said
        time.sleep(0.1)


def test_seen_from_another_kernel(sales: LiveKernel, other: LiveKernel, folder: Path) -> None:
    """While a turn runs, another kernel sees what each delegate does and who waits for a person;
    afterwards steps, tokens, reports and names, in the list and in detail. No key is written.
    """
    sales.helper("rows = [3, 1, 2]")
    counted = f"There are 3, by {KEY}."
    script(
        sales,
        "Sum up.",
        [
            assign(
                {"task": f"count {KEY}", "inputs": ["rows"], "output": ["n"]},
                {"task": "tidy up"},
                tokens=100,
            ),
            used({"text": "Three."}, 50),
        ],
        tidy_up=[used(execute_code("!echo gone > gone.txt"), 7), {"text": "Refused."}],
        **{
            f"count {KEY}": [
                used(execute_code("n = len(rows)"), 20),
                used(execute_code(AWAIT.format("go")), 20),
                used({"text": counted}, 20),
            ]
        },
    )
    running = sales.start("%%agent --approve ask_risky\nSum up.", allow_stdin=True)
    assert "(Delegate 2) Run this code?" in running.question()
    seen = rows(other, "waiting for a person", "step 2: execute_code")
    assert "turn 1" in seen["1"] and "sales.ipynb" in seen["1"] and "this kernel" not in seen["1"]
    assert "working: 2 delegates at work" in seen["1"] and "Sum up." in seen["1"]
    assert "Delegate 1" in seen["1.1"] and "working: step 2: execute_code" in seen["1.1"]
    assert "waiting for a person: Run this code?" in seen["1.2"] and "tidy up" in seen["1.2"]
    running.type("no: not today")
    (folder / "go").touch()
    cell = running.finish()
    assert cell.status == "ok", cell.error
    seen = rows(other)
    assert [seen[key].split("done")[1].split()[:2] for key in ("1", "1.1", "1.2")] == [
        ["2", "217"], ["3", "60"], ["2", "7"],
    ]  # fmt: skip
    assert "include those of its delegates" in other.helper("%agent agents").said
    told = other.helper("%agent agents sales:1.1").said
    for words in ("Delegate 1 of turn 1", "handed over", "step 1: execute_code n = len(rows)"):
        assert words in told, told
    assert "There are 3, by [redacted]." in told and "count [redacted]" in told
    assert other.helper("%agent agents 1.1").said == told
    whole = other.helper("%agent agents sales").said
    assert "Three." in whole and "Delegate 2" in whole and "step 1: delegate count" in whole
    assert "sales.ipynb (this kernel)" in sales.helper("%agent agents").said
    (shown,) = other.helper("%agent agents").displays
    assert "<td" in shown["text/html"]
    assert "1.2" in other.complete("%agent agents ")[1]
    assert "sales:1.2" in other.complete("%agent agents sal")[1]
    assert "no agent 'nobody'" in other.run("%agent agents nobody").error
    records = (folder / ".jupyter_agent" / FOLDER).glob("*.jsonl")
    assert not any(KEY in path.read_text("utf-8") for path in records)


def test_a_kernel_that_is_killed(other: LiveKernel, folder: Path) -> None:
    """After a kill -9 in the middle of two delegates the one that had ended is done, the other one
    ended with its kernel; a process that its code forked, and that lives, makes no difference.
    """
    forked = (
        "import os, time\nif not (child := os.fork()):\n    time.sleep(120)\n    os._exit(0)\n"
        "open('child', 'w').write(str(child))\n"
    )
    with named(folder, "lost.ipynb") as kernel:
        kernel.load()
        script(
            kernel,
            "Get lost.",
            [assign({"task": "one"}, {"task": "two"}), {"text": "-"}],
            one=[{"text": "Found it."}],
            two=[execute_code(forked + AWAIT.format("never")), {"text": "-"}],
        )
        pid = kernel.value("__import__('os').getpid()")
        kernel.start("%%agent\nGet lost.")
        try:
            kernel.await_file("child")
            rows(other, "lost.ipynb", "working: 1 delegate at work", "done")
            os.kill(pid, signal.SIGKILL)
            kernel.await_death()
            seen = rows(other, "ended with its kernel")
        finally:
            with suppress(OSError, ValueError):
                os.kill(int((folder / "child").read_text()), signal.SIGKILL)
        (number,) = (key for key, line in seen.items() if "lost.ipynb" in line)
        assert "ended with its kernel" in seen[number]
        assert "done" in seen[f"{number}.1"] and "ended with its kernel" in seen[f"{number}.2"]
    assert "lost.ipynb, session default" in (said := other.helper("%agent memory sessions").said)
    assert ": gone" in said


def test_code_that_waits_for_a_person(sales: LiveKernel, other: LiveKernel, folder: Path) -> None:
    """A question in the middle of running code counts as waiting: the agent's, a delegate's."""
    (folder / "old.txt").touch()
    (folder / "own_tools.py").write_text("import os\ndef remove(path): os.remove(path)\n")
    sales.helper("import own_tools")
    removes = execute_code("own_tools.remove('old.txt')")
    delegate = [removes, {"text": "It stays."}]
    script(sales, "Clean.", [removes, assign({"task": "clean"}), {"text": "-"}], clean=delegate)
    running = sales.start("%%agent --approve ask_risky\nClean.", allow_stdin=True)
    assert "deletes old.txt" in running.question()
    number = "waiting for a person: The agent's code is about to do"
    assert number in rows(other, "Clean.", "waiting for a person")["1"]
    running.type("no")
    assert "deletes old.txt" in running.question()
    seen = rows(other, "Delegate 1", "waiting for a person: (Delegate 1)")
    assert "working: 1 delegate at work" in seen["1"] and "waiting for a person" in seen["1.1"]
    running.type("no")
    assert running.finish().status == "ok" and (folder / "old.txt").exists()
    assert "waiting" not in "".join(rows(other).values())


def turn(record: SessionRecord, task: str, *delegates: str) -> None:
    """Write the lines of a turn, whose delegates all end but the last one."""
    calls = tuple(ToolCall(f"c{n}", "delegate", "{}") for n, _ in enumerate(delegates))
    record(TurnStarted(task, "p", "m"))
    record(StepStarted(1, 5))
    record(MessageFinished(Message("assistant", calls), Usage(), "tool_use"))
    for call, name in zip(calls, delegates, strict=True):
        record(Delegated(call.id, TurnStarted(name, "p", "m")))
        if call is not calls[-1]:
            record(Delegated(call.id, TurnFinished("end", Usage())))
            record(ToolFinished(ToolResult(call.id, (Text("x"),)), 0.1))


def test_what_was_not_handed_over_is_not_done(tmp_path: Path) -> None:
    """A delegate reports, and then the turn is stopped, or its call fails, before its objects are
    handed over: it did not end by itself. Its tokens are those of its last event, which counts
    summaries of its conversation, too."""
    record = SessionRecord(MemoryRoot(tmp_path))
    calls = tuple(ToolCall(f"c{n}", "delegate", "{}") for n in range(3))
    record(TurnStarted("Give away.", "p", "m"))
    record(MessageFinished(Message("assistant", calls), Usage(), "tool_use"))
    for call, details in zip(calls, ({"state": "interrupted"}, {}, None), strict=True):
        record(Delegated(call.id, TurnStarted("part", "p", "m")))
        record(Delegated(call.id, MessageFinished(Message("assistant", ()), Usage(20, 5), "end")))
        record(Delegated(call.id, TurnFinished("end", Usage(120, 15))))
        record(
            ToolFinished(
                ToolResult(call.id, (Text("x"),), details is not None, details=details or {}), 0.1
            )
        )
    assert record.path is not None
    account = read_record(record.path)
    assert account is not None
    (work,) = account.turns
    assert [each.stop_reason for each in work.delegates] == ["interrupted", "error", "end"]
    assert {each.tokens for each in work.delegates} == {135}


def test_bounds_and_strangers(other: LiveKernel, folder: Path) -> None:
    """Many turns, many delegates, a record of hundreds of megabytes, and lines by anybody: the list
    is short, says what is left out, shows who is at work first, and takes a moment.
    """
    root = MemoryRoot(folder / ".jupyter_agent")
    record = SessionRecord(root, "many.ipynb", number=lambda: 7)
    turn(record, "The one at work.", *(f"part {n}" for n in range(40)))
    ended = SessionRecord(root, "ended.ipynb")
    for number in range(30):
        turn(ended, f"Turn {number}.")
        ended(TurnFinished("end", Usage(), Receipt()))
    assert ended.path is not None and record.path is not None
    with ended.path.open("a", encoding="utf-8") as stream:
        stream.write('{"type": "delegate_step"}\n[]\n{"type": "step", "tool": 7}\n{"type"')
    huge = root.path / FOLDER / "20200101_000000-huge-default.jsonl"
    first = ended.path.read_text("utf-8").split("\n")[0]
    step = '{"type":"step","number":1,"tool":"x","what":"y"}\n'
    with huge.open("w", encoding="utf-8") as stream:
        stream.write(f'{first}\n{{"type":"turn_started","task":"<b>unread</b>"}}\n')
        for _ in range(200):
            stream.write(step * 20_000)
        last = '"task":"<b>The last</b>\\u001b[2J","time":"9999-12-31T23:59:59+00:00","number":[]'
        stream.write(f'{{"type":"turn_started",{last}}}\n')
        stream.write(f'{{"type":"step","number":true,"tokens":{"9" * 4_000}}}\n')
    (root.path / FOLDER / "20200101_000001-link-default.jsonl").symlink_to("/etc/passwd")
    seconds = "__import__('time').process_time()"
    began = other.value(seconds)
    cell = other.helper("%agent agents")
    said = cell.said.split("\n")
    assert "many.ipynb" in "".join(said[1:3]) and "turn 7" in "".join(said[1:3])
    assert sum("Delegate " in line for line in said) <= 24
    assert "30 delegates left out" in cell.said and "older turns left out." in cell.said
    assert any("Delegate 40" in line and "working: thinking" in line for line in said)
    assert "<b>The last</b>" in cell.said and "\x1b" not in cell.said and "unread" not in cell.said
    assert "<b>" not in cell.displays[0]["text/html"]
    assert "9,999,999" not in cell.said
    assert other.value(seconds) - began < 5
    huge.unlink()
    record.finish()
    assert "ended with its kernel" in other.helper("%agent agents many:7.40").said


def promoted(kernel: LiveKernel) -> str:
    """The cell that `%agent cells` makes."""
    (payload,) = kernel.run("%agent cells").reply["payload"]
    return str(payload["text"])


MINE = "rows = [3, 1, 2]\ntable = {'a': [1, 2]}\nalias = table['a']\nbest = 0"
MADE = "total, first, best, both, rows, table, alias"


def test_the_promoted_cell(other: LiveKernel) -> None:
    """What delegates handed over is made again by the cell, run where the person's variables are as
    before the turn; what they changed or bound for themselves alone stays as the person has it.
    """
    other.helper("%reset -f", "%load_ext jupyter_agent", MINE)
    script(
        other,
        "Work.",
        [
            assign(
                {"task": "add", "inputs": ["rows"], "output": ["total", "best"]},
                {"task": "sort", "inputs": ["rows"], "output": ["first", "both"]},
            ),
            execute_code("report = [total, first, best, both]"),
            {"text": "Done."},
        ],
        add=[
            execute_code("import math\nbest = best + max(rows)\nhelper = 2"),
            execute_code("total = math.prod([sum(rows), helper])\nprint(total)"),
            {"text": "12."},
        ],
        sort=[
            execute_code("rows.sort()\ntable['a'].append(9)\nhelper = 5"),
            execute_code("first, both = rows[0] * helper, [alias, table['a'], best]"),
            {"text": "5."},
        ],
    )
    cell = other.run("%%agent\nWork.")
    assert cell.status == "ok", cell.error
    made = other.value(f"{MADE}, report")
    assert made[:4] == (12, 5, 3, [[1, 2, 9], [1, 2, 9], 0]) and made[4] == [3, 1, 2]
    text = promoted(other)
    assert "# Step 1, Delegate 1: add" in text and "# Step 1, Delegate 2: sort" in text
    assert "print" not in text and "from copy import deepcopy" in text
    code = other.value("'\\n'.join(_agent.code)")
    for again in (text, code):
        other.helper("%reset -f", "%load_ext jupyter_agent", MINE)
        ran = other.run(again)
        assert ran.status == "ok", again
        assert other.value(f"{MADE}, report") == made, again
        assert other.value("table['a'] is alias and both[0] is both[1] is not alias")


def test_what_no_cell_can_make_again(other: LiveKernel) -> None:
    """Where a delegate's code cannot stand in the person's names it is told with the name, as a
    comment; the cell runs, and leaves the name as it is."""
    heavy = {"task": "double", "inputs": ["rows"], "output": ["big"], "where": "process"}
    other.helper("%reset -f", "%load_ext jupyter_agent", MINE)
    script(
        other,
        "Work.",
        [assign({"task": "sort", "output": ["first"]}, heavy), {"text": "Done."}],
        sort=[execute_code("%time rows.sort()\nfirst = rows[0]"), {"text": "1."}],
        double=[execute_code("rows.reverse()\nbig = [2 * row for row in rows]"), {"text": "2."}],
    )
    cell = other.run("%%agent\nWork.")
    assert cell.status == "ok", cell.error
    assert other.value("first, rows, big") == (1, [3, 1, 2], [4, 2, 6])
    assert "Delegate 2 (process)" in other.helper("%agent agents").said
    text = promoted(other)
    assert "# `big`: made by Delegate 2 (double) in a process of its own, not by this cell." in text
    assert "# `first`: made by Delegate 1 (sort) in names of its own, not by this cell." in text
    assert "#     %time rows.sort()\n#     first = rows[0]" in text
    assert other.run(text).status == "ok" and other.value("first, rows") == (1, [3, 1, 2])
    other.helper("%agent export made.ipynb")
    assert "made by Delegate 1" in (other.folder / "made.ipynb").read_text("utf-8")


def test_told_once(other: LiveKernel) -> None:
    """Steps and tokens of delegates are counted once: in the answer, `usage`, `show`, the log as
    it is followed, and the conversation, which holds their reports alone.
    """
    other.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    script(
        other,
        "Count.",
        [assign({"task": "one"}, {"task": "two"}, tokens=1000), used({"text": "Done."}, 200)],
        one=[used(execute_code("a = 1"), 30), used({"text": "First."}, 4)],
        two=[used({"text": "Second."}, 5)],
    )
    follower = LogFollower(other.folder / ".jupyter_agent" / "logs")
    cell = other.run("%%agent\nCount.")
    assert cell.status == "ok", cell.error
    assert other.value("_agent.usage.total_tokens, _agent.receipt.steps") == (1239, 2)
    follower.look()
    progress = follower.progress("other.ipynb")
    assert progress is not None and (progress.steps, progress.tokens) == (2, 1239)
    assert "1,239" in other.helper("%agent usage").said
    (line,) = [
        each for each in other.helper("%agent show").said.split("\n") if each.endswith("Count.")
    ]
    assert line.split()[4:6] == ["2", "1,239"], line
    number = line.split()[0]
    seen = other.helper(f"%agent agents other:{number}").said
    assert "1,239" in seen and "34" in seen
    history = "str(get_ipython().agent_sessions['default'].history)"
    assert other.value(f"{history}.count('First.'), 'a = 1' in {history}") == (1, False)
    assert other.helper("%agent status").said.count("1 turn") == 1
