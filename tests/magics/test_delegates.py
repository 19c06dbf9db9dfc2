"""Delegates in a real kernel: they work in names of their own, and hand over objects."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from live_kernel import Json, LiveKernel, execute_code
from model_server import Call, ModelServer, Reply

MINE = "rows = [3, 1, 2]\ntable = {'a': [1, 2]}\nalias = table['a']"
CASSETTE = "delegates.cassette.jsonl"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("delegates")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    yield
    kernel.helper("%agent config mode auto")


def assign(*assignments: dict[str, Any]) -> Json:
    """A reply with a call of `delegate` for each assignment."""
    return {"calls": [{"name": "delegate", "arguments": each} for each in assignments]}


def script(kernel: LiveKernel, task: str, replies: list[Json], **delegates: list[Json]) -> None:
    """Script a turn, and for each delegate, by its task, its replies."""
    turns = [{"task": task, "replies": replies}]
    turns += [{"task": name.replace("_", " "), "replies": its} for name, its in delegates.items()]
    name = f"script_{next(_NUMBERS)}.yaml"
    (kernel.folder / name).write_text(yaml.safe_dump(turns), encoding="utf-8")
    kernel.helper("%agent config provider scripted", f"%agent config script {name}")


def test_a_delegate_hands_over_objects(kernel: LiveKernel) -> None:
    """What it was asked for is bound for the person, the very object; what else it bound is not.
    The caller reads its report, and the turn counts its tokens, changes and undo as one binding.
    """
    script(
        kernel,
        "Sum up.",
        [
            assign({"task": "add them", "inputs": ["rows"], "output": ["total", "kept"]}),
            {"text": "It is 6."},
        ],
        add_them=[
            {
                **execute_code("helper = 1\ntotal = sum(rows)\nkept = rows"),
                "usage": {"input_tokens": 7},
            },
            {"text": "The sum is 6.", "usage": {"output_tokens": 5}},
        ],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nSum up."), logs)
    assert turn.cell.status == "ok", turn.cell.error
    assert kernel.value("total, kept is rows, 'helper' in globals()") == (6, True, False)
    text = turn.result.text
    assert text.startswith("The sum is 6.") and "total: int" in text and "kept: list" in text
    assert kernel.value("sorted(_agent.variables)") == ["kept", "total"]
    assert kernel.value("_agent.usage.total_tokens") == 12
    kernel.run("%agent undo")
    assert kernel.value("'total' in globals() or 'kept' in globals()") is False


def test_the_persons_objects_stay(kernel: LiveKernel) -> None:
    """What its code changes in place is put back after each piece of code, aliases too, and stays
    with the delegate, which is told; what has no copy is named beforehand and afterwards.
    """
    kernel.helper("class Box: pass", "box = Box()\nbox.items = [1]")
    script(
        kernel,
        "Sort.",
        [
            assign({"task": "sort them", "inputs": ["rows", "box"], "output": ["first"]}),
            {"text": "1."},
        ],
        sort_them=[
            execute_code("rows.sort()\ntable['a'].append(9)\nbox.items.append(2)"),
            execute_code("rows = rows + [0]\nfirst = [rows, len(alias), len(table['a'])]"),
            {"text": "Sorted."},
        ],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nSort."), logs)
    assert kernel.value("rows, table, alias") == ([3, 1, 2], {"a": [1, 2]}, [1, 2])
    assert kernel.value("table['a'] is alias, first") == (True, [[1, 2, 3, 0], 3, 3])
    said = [
        e["event"]["result"]
        for e in turn.events
        if e["type"] == "delegated" and "result" in e["event"]
    ]
    assert "the person has alias, rows, table as before" in str(said[0])
    assert "Not checked for changes inside: box (Box)" in turn.result.text
    beforehand = [e["event"].get("text", "") for e in turn.events if e["type"] == "delegated"]
    assert any("Not protected from changes inside: box (Box)" in text for text in beforehand)
    assert kernel.value("_agent.variables") == ("first",)


def test_what_the_turn_changed_itself_is_told(kernel: LiveKernel) -> None:
    """A delegate changes in place what its caller has made or changed before, twice: it is put back
    to what the caller left, and the receipt has the caller's changes, and no others."""
    script(
        kernel,
        "Change.",
        [
            execute_code("rows.append(9)\nmade = [2, 1]"),
            assign({"task": "sort", "inputs": ["rows", "made", "table"]}),
            {"text": "Done."},
        ],
        sort=[
            execute_code("rows.sort()\nmade.sort()\ntable.clear()"),
            execute_code("__import__('__main__').table.clear()"),
            {"text": "Sorted."},
        ],
    )
    cell = kernel.run("%%agent\nChange.")
    assert cell.status == "ok", cell.error
    assert kernel.value("rows, made, table") == ([3, 1, 2, 9], [2, 1], {"a": [1, 2]})
    assert kernel.value("sorted(_agent.variables)") == ["made", "rows"]


def test_the_persons_namespace_stays(kernel: LiveKernel) -> None:
    """Its code binds the person's names by no way around: not by exchanging the shell's namespace,
    by the module, or by a reset; what is not its own is put back."""
    ways = [
        "shell = get_ipython()\nshell.user_ns = {'rows': 'theirs'}",
        "import __main__\n__main__.rows = 'theirs'\n__main__.unasked = 1\ndel __main__.alias",
        "get_ipython().push({'rows': 'theirs'})\nglobals()['table'] = 1",
        "%reset -f",
    ]
    replies = [*map(execute_code, ways), {"text": "Tried."}]
    script(kernel, "Bind.", [assign({"task": "bind them"}), {"text": "No."}], bind_them=replies)
    kernel.run("%%agent\nBind.")
    assert kernel.value("get_ipython().user_ns is globals()")
    assert kernel.value("rows, table, alias") == ([3, 1, 2], {"a": [1, 2]}, [1, 2])
    assert kernel.value("'unasked' in globals()") is False


def test_names_that_cannot_be_meant(kernel: LiveKernel) -> None:
    """Two delegates for one name, an unknown input, no task: each is one line, and nothing ran."""
    script(
        kernel,
        "Try.",
        [
            assign(
                {"task": "one", "output": ["x"]},
                {"task": "two", "output": ["x"]},
                {"task": "three", "inputs": ["nothing_like_it"]},
                {"task": " "},
                {"task": "five", "output": ["class"]},
            ),
            {"text": "Well."},
        ],
        one=[execute_code("x = 1"), {"text": "Done."}],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nTry."), logs)
    texts = sorted(result.text for result in turn.results)
    assert [text.split(".")[0] for text in texts] == [
        "'class' cannot be the name of a variable that is handed over",
        "Another delegate hands over `x` at the same time",
        "Done",
        "Give the delegate a task",
        "There is no variable 'nothing_like_it' to give to the delegate",
    ]
    assert kernel.value("x") == 1


def test_what_it_has_and_has_not(kernel: LiveKernel) -> None:
    """It has the tools of the conversation but none to delegate, and none for plan and page; an
    error of its own is no error of the turn, and what it did not make is named."""
    script(
        kernel,
        "Try.",
        [assign({"task": "dig", "output": ["made", "Kind"]}), {"text": "Well."}],
        dig=[
            {"calls": [{"name": "delegate", "arguments": {"task": "deeper"}}]},
            execute_code("1 / 0"),
            execute_code("class Kind: pass"),
            {"text": "I could not."},
        ],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nTry."), logs)
    inner = [e["event"] for e in turn.events if e["type"] == "delegated"]
    results = [e["result"]["content"][0]["text"] for e in inner if e["type"] == "tool_finished"]
    assert "There is no tool named 'delegate'" in results[0] and "update_plan" not in results[0]
    assert "agent code 1.1, line 1" in results[1] and "ZeroDivisionError" in results[1]
    assert turn.result.text.startswith("I could not.\n\nNot handed over: Kind (a class")
    assert "Not made: made." in turn.result.text and not turn.result.is_error
    assert re.match(r"agent code \d+, line 1\n", kernel.agent("1 / 0").result.text)


def test_a_replay_is_the_same_bytes(kernel: LiveKernel) -> None:
    """Recorded and replayed, with two delegates of one task and another: the same outputs, and the
    same objects, though no model answers; the cassette names whose delegates they are.
    """
    kernel.helper(f"%agent cassette {CASSETTE}", "%agent config mode record")
    delegate = [execute_code("part = len(rows)\nprint(part)"), {"text": "There are 3."}]
    replies: list[Json] = [
        assign(
            {"task": "count", "output": ["part"]},
            {"task": "square", "inputs": ["rows"], "output": ["squares", "biggest"]},
        ),
        {"text": "Three, the biggest is 9."},
    ]
    square = [
        execute_code("squares = [x * x for x in rows]"),
        execute_code("biggest = max(squares)"),
        {"text": "Done."},
    ]
    script(kernel, "Look.", replies, count=delegate, square=square)
    recorded = kernel.run("%%agent\nLook.")
    assert recorded.status == "ok", recorded.error
    text = (kernel.folder / CASSETTE).read_text("utf-8")
    assert text.count('"of": "Look."') == 2
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    kernel.helper("%agent config mode replay", "%agent config script nothing.yaml")
    replayed = kernel.run("%%agent\nLook.")
    assert replayed.status == "ok", replayed.error
    assert kernel.value("part, squares, biggest") == (3, [9, 1, 4], 9)
    assert replayed.displays == recorded.displays


def served(task: str, main: list[Reply], **delegates: list[Reply]) -> Callable[[Json], Reply]:
    """A model server's script: the replies to a task, and by its task those to each delegate."""
    scripts = {task: main} | {name.replace("_", " "): its for name, its in delegates.items()}

    def reply(body: Json) -> Reply:
        first = next(i for i, each in enumerate(body["messages"]) if each["role"] == "user")
        told = str(body["messages"][first]["content"])
        replies = next(its for name, its in scripts.items() if told.startswith(name))
        return replies[sum(each["role"] == "assistant" for each in body["messages"])]

    return reply


def await_file(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} was not made"
        time.sleep(0.02)


def act(code: str) -> Reply:
    return Reply(calls=(Call("execute_code", json.dumps({"code": code})),))


def give(*assignments: dict[str, Any]) -> Reply:
    return Reply(calls=tuple(Call("delegate", json.dumps(each)) for each in assignments))


def use(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper("%agent config provider openai", f"%agent config api_base {server.openai_url}")


def test_side_by_side(kernel: LiveKernel) -> None:
    """Eight delegates over eight files: all models are asked at the same time, and each hands over
    its own, in the order of the calls.
    """
    for number in range(8):
        (kernel.folder / f"part_{number}.txt").write_text("x" * number, encoding="utf-8")
    all_there = threading.Barrier(8)
    codes = {
        f"part_{n}": [
            act(f"size_{n} = len(open('part_{n}.txt').read())"),
            Reply(text=f"It is {n}."),
        ]
        for n in range(8)
    }
    main = [
        give(*({"task": f"part {n}", "output": [f"size_{n}"]} for n in range(8))),
        Reply(text="Done."),
    ]
    answer = served("Read all.", main, **codes)

    def reply(body: Json) -> Reply:
        if "Read all." not in str(body["messages"]):
            all_there.wait(60)  # raises where fewer are asked at once
        return answer(body)

    with ModelServer(reply) as server:
        use(kernel, server)
        cell = kernel.run("%%agent\nRead all.")
    assert cell.status == "ok", cell.error
    assert kernel.value("[globals()[f'size_{n}'] for n in range(8)]") == [*range(8)]
    names = kernel.value("[name for name in globals() if name.startswith('size_')]")
    assert names == [f"size_{n}" for n in range(8)]


def test_stop(kernel: LiveKernel) -> None:
    """An interrupt ends all delegates: nothing is handed over, and the next turn works."""
    (kernel.folder / "went.txt").unlink(missing_ok=True)
    script(
        kernel,
        "Long.",
        [assign({"task": "one", "output": ["a"]}, {"task": "two", "output": ["b"]}), {"text": "-"}],
        one=[execute_code("a = 1\nopen('went.txt', 'w').close()\nwhile True: pass"), {"text": "-"}],
        two=[execute_code("b = 1\nimport asyncio\nawait asyncio.sleep(60)"), {"text": "-"}],
    )
    running = kernel.start("%%agent\nLong.")
    await_file(kernel.folder / "went.txt")
    kernel.interrupt()
    cell = running.finish()
    assert "TurnInterrupted" in cell.error
    assert kernel.value("[n for n in ('a', 'b') if n in globals()]") == []
    assert kernel.agent("c = len(rows)\nc").result.text == "3"


def test_questions_bubble_up(kernel: LiveKernel) -> None:
    """A delegate's risky call is asked about with its name and its code; a no is its result."""
    script(
        kernel,
        "Clean.",
        [assign({"task": "tidy up"}), {"text": "Well."}],
        tidy_up=[execute_code("!echo gone > gone.txt"), {"text": "It was refused."}],
    )
    running = kernel.start("%%agent --approve ask_risky\nClean.", allow_stdin=True)
    question = running.question(20)
    assert (
        "The agent asks: (Delegate 1) Run this code?" in question
        and "!echo gone > gone.txt" in question
    )
    running.type("no: not today")
    cell = running.finish()
    assert cell.status == "ok" and not (kernel.folder / "gone.txt").exists()
    assert "refused by you: not today" in cell.transcript


def test_a_budget_is_shared(kernel: LiveKernel) -> None:
    """What is left of the turn's tokens is divided; who used its part stops, and what it made is
    handed over all the same.
    """
    spend = {"input_tokens": 300}
    loop = [{**execute_code(f"a = {n}"), "usage": spend} for n in range(9)]
    script(
        kernel,
        "Spend.",
        [
            {**assign({"task": "loop", "output": ["a"]}, {"task": "short"}), "usage": spend},
            {"text": "Well."},
        ],
        loop=loop,
        short=[{"text": "Quick.", "usage": {"input_tokens": 10}}],
    )
    logs = kernel.logs()
    kernel.helper("%agent config budget.tokens 3000")
    turn = kernel.turn(kernel.run("%%agent\nSpend."), logs)
    kernel.helper("%agent config budget.tokens none")
    assert "The budget of 900 tokens is used up after 3 steps" in turn.results[-1].text
    assert kernel.value("a, str(_agent)") == (2, "Well.")


def test_heavy_code_in_a_process(kernel: LiveKernel) -> None:
    """It has copies of its inputs alone, hands over values, and leaves nothing behind."""
    before = processes()
    script(
        kernel,
        "Heavy.",
        [
            assign(
                {"task": "sort", "inputs": ["rows"], "output": ["best", "f"], "where": "process"}
            ),
            {"text": "It is done."},
        ],
        sort=[
            execute_code(
                "import os\nrows.sort()\nbest = rows[-1], os.getpid()\nf = lambda: 1\nrows"
            ),
            execute_code("table"),
            execute_code("open('leaked.txt', 'w')"),
            {"text": "Sorted."},
        ],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nHeavy."), logs)
    (result,) = turn.results
    assert result.text.startswith("Sorted.") and "`f`: " in result.text
    best, pid = kernel.value("best")
    assert best == 3 and pid != kernel.value("__import__('os').getpid()")
    assert kernel.value("rows") == [3, 1, 2]
    transcript = turn.cell.transcript
    assert "[1, 2, 3]" in transcript and "NameError: name 'table' is not defined" in transcript
    assert "not allowed in a delegate's process" in transcript
    assert not (kernel.folder / "leaked.txt").exists()
    assert processes() == before


def test_a_process_that_ends_is_stopped_or_cannot_have_its_input(kernel: LiveKernel) -> None:
    """A crash, an input that cannot be copied, an interrupt: each is told, and no process stays."""
    before = processes()
    kernel.helper("handle = open(__import__('os').devnull)")
    script(
        kernel,
        "Break.",
        [
            assign(
                {"task": "crash", "output": ["a"], "where": "process"},
                {"task": "copy", "inputs": ["handle"], "output": ["b"], "where": "process"},
            ),
            {"text": "Well."},
        ],
        crash=[execute_code("a = 1\nimport os\nos._exit(3)"), {"text": "It crashed."}],
        copy=[{"text": "Never asked."}],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nBreak."), logs)
    crashed, uncopied = sorted(turn.results, key=lambda result: "inputs" in result.text)
    assert "ended with exit code 3: its variables are gone" in turn.cell.transcript
    assert "Not handed over from its process: `a`: " in crashed.text
    assert "These inputs cannot be handed over" in uncopied.text and "`handle`" in uncopied.text
    (kernel.folder / "began.txt").unlink(missing_ok=True)
    script(
        kernel,
        "Endless.",
        [assign({"task": "loop", "output": ["a"], "where": "process"}), {"text": "-"}],
        loop=[execute_code("print('on', flush=True)\nwhile True: pass"), {"text": "-"}],
    )
    running = kernel.start("%%agent\nEndless.")
    end = time.monotonic() + 60
    while processes() == before:
        assert time.monotonic() < end, "no process was started"
        time.sleep(0.05)
    time.sleep(2)
    kernel.interrupt()
    assert "TurnInterrupted" in running.finish(30).error
    assert processes() == before
    assert kernel.value("[n for n in ('a', 'b') if n in globals()]") == []


def test_stop_waits_for_a_process(kernel: LiveKernel) -> None:
    """One delegate ends at once, the other's process only when it is killed: the turn ends after
    both, and nothing of them reaches the next one."""
    before = processes()
    endless = (
        "import os, time\nopen(os.environ['TMPDIR'] + '/on', 'w').close()\nwhile True:\n"
        "    try: time.sleep(60)\n    except KeyboardInterrupt: pass"
    )
    script(
        kernel,
        "Both.",
        [assign({"task": "loop", "where": "process"}, {"task": "wait"}), {"text": "-"}],
        loop=[execute_code(endless), {"text": "-"}],
        wait=[execute_code("import asyncio\nawait asyncio.sleep(600)"), {"text": "-"}],
    )
    logs = kernel.logs()
    running = kernel.start("%%agent\nBoth.")
    end = time.monotonic() + 60
    while not [*Path(tempfile.gettempdir()).glob("jupyter_agent-child-*/temporary/on")]:
        assert time.monotonic() < end, "the process runs no code"
        time.sleep(0.05)
    kernel.interrupt()
    turn = kernel.turn(running.finish(60), logs)
    assert processes() == before
    assert "TurnInterrupted" in turn.cell.error
    ends = [e["event"]["type"] for e in turn.events if e["type"] == "delegated"]
    assert ends.count("turn_finished") == 2


def test_a_process_starts_beside_other_code(kernel: LiveKernel) -> None:
    """An input takes its time to be read in the process: the code of another delegate runs
    meanwhile. What its code changed of its copy is handed over, if that was asked for."""
    gate = kernel.folder / "gate.txt"
    gate.unlink(missing_ok=True)
    waits = "import os, time\nwhile not os.path.exists('gate.txt'): time.sleep(0.02)"
    kernel.helper(
        f"class Gate:\n    def __reduce__(self): return exec, ({waits!r},)", "gate = Gate()"
    )
    inputs = {"inputs": ["gate", "rows"], "output": ["rows"]}
    script(
        kernel,
        "Open.",
        [assign({"task": "sort", "where": "process", **inputs}, {"task": "open"}), {"text": "-"}],
        sort=[execute_code("rows.sort()"), {"text": "Sorted."}],
        open=[execute_code("open('gate.txt', 'w').close()"), {"text": "Opened."}],
    )
    cell = kernel.run("%%agent\nOpen.")
    assert cell.status == "ok", cell.error
    assert gate.exists() and kernel.value("rows") == [1, 2, 3]


def processes() -> set[int]:
    """The processes that this one started, and those that they started."""
    return {each.pid for each in psutil.Process().children(recursive=True)}


def test_a_delegate_of_the_persons(kernel: LiveKernel) -> None:
    """`await delegate(…)` runs one without an agent above it, and binds names in the notebook."""
    delegates = [{"task": "one", "output": ["a"]}, {"task": "two", "output": ["b"]}]
    script(
        kernel,
        "No agent is asked.",
        [],
        sum_up=[execute_code("total = sum(rows)\ntotal"), {"text": "The sum is 6."}],
        one=[execute_code("a = 1"), {"text": "First."}],
        two=[execute_code("b = 2"), {"text": "Second."}],
    )
    kernel.helper("from jupyter_agent import delegate")
    cell = kernel.run("said = await delegate('sum up', ['rows'], ['total'])")
    assert cell.status == "ok", cell.error
    assert kernel.value("total, said.variables") == (6, ("total",))
    assert kernel.value("str(said)") == "The sum is 6.\n\ntotal: int"
    assert "total = sum(rows)" in cell.transcript
    assert kernel.run(f"both = await delegate({delegates})").status == "ok"
    assert kernel.value("a, b, str(both)") == (1, 2, "First.\n\na: int\n\nSecond.\n\nb: int")
    kernel.run("%agent undo")
    assert kernel.value("[n for n in ('a', 'b', 'total') if n in globals()]") == ["total"]
    for wrong, words in (
        ("'x', [rows]", "inputs takes names, such as 'df', and no list itself."),
        ("'x', ['nothing']", "There is no variable 'nothing' to give to the delegate."),
        ("'x', where='moon'", "where is 'kernel' or 'process', not 'moon'."),
        ("{'task': 'x'}", "give a task in words, or a list of mappings"),
        ("[{'tusk': 'x'}]", "'tusk' is none of task, inputs, output, where."),
        ("' '", "Give the delegate a task."),
    ):
        assert f"delegate(): {words}"[:40] in kernel.run(f"await delegate({wrong})").error, wrong
    failed = kernel.run("await delegate('unknown to the script')")
    assert "has no turn for the task" in failed.error


def test_forty_at_once(kernel: LiveKernel) -> None:
    """Forty delegates in one reply: eight run at a time, and each hands over its own."""
    numbers = range(40)
    open_now, most, lock = set[str](), [0], threading.Lock()
    codes = {f"item_{n}.": [act(f"v{n} = {n}"), Reply(text=f"Did {n}.")] for n in numbers}
    calls = give(*({"task": f"item {n}.", "output": [f"v{n}"]} for n in numbers))
    answer = served("Do forty.", [calls, Reply(text="Done.")], **codes)

    def reply(body: Json) -> Reply:
        told = str(body["messages"])
        who = next((f"item {n}." for n in numbers if f"item {n}." in told), "")
        with lock:
            if who and "Do forty." not in told:
                open_now.add(who)
                most[0] = max(most[0], len(open_now))
        given = answer(body)
        if given.text:
            with lock:
                open_now.discard(who)
        return given

    with ModelServer(reply) as server:
        use(kernel, server)
        cell = kernel.run("%%agent\nDo forty.")
    assert cell.status == "ok", cell.error
    assert kernel.value("[globals()[f'v{n}'] for n in range(40)]") == [*numbers]
    assert kernel.value("[n for n in globals() if n[0] == 'v' and n[1:].isdigit()]") == [
        f"v{n}" for n in numbers
    ]
    assert 2 <= most[0] <= 8


def test_one_that_loops_and_one_that_floods(kernel: LiveKernel) -> None:
    """Going in circles ends a delegate, not the turn; ten megabytes of output reach nobody."""
    script(
        kernel,
        "Odd.",
        [
            assign({"task": "circle"}, {"task": "flood"}, {"task": "fine", "output": ["ok"]}),
            {"text": "-"},
        ],
        circle=[execute_code("rows[0]")] * 60,
        flood=[execute_code("print('x' * 10_000_000)"), {"text": "y" * 100_000}],
        fine=[execute_code("ok = 1"), {"text": "Fine."}],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nOdd."), logs)
    assert turn.cell.status == "ok", turn.cell.error
    texts = [result.text for result in turn.results]
    assert any("It did not end by itself" in text and "circles" in text for text in texts), texts
    assert max(map(len, texts)) < 8_000
    assert kernel.value("ok") == 1
    assert len(turn.cell.transcript) < 400_000
    assert sum(path.stat().st_size for path in kernel.logs() - logs) < 2_000_000


def test_the_budget_ends_in_the_middle_of_three(kernel: LiveKernel) -> None:
    """All three stop at their part, what they made is the person's, and the turn ends with it."""
    spend = {"input_tokens": 400}
    loops = {
        f"work_{n}": [{**execute_code(f"w{n} = {step}"), "usage": spend} for step in range(9)]
        for n in range(3)
    }
    calls = assign(*({"task": f"work {n}", "output": [f"w{n}"]} for n in range(3)))
    script(kernel, "Three.", [{**calls, "usage": spend}, {"text": "Summed up."}], **loops)
    kernel.helper("%agent config budget.tokens 4100")
    logs = kernel.logs()
    cell = kernel.run("%%agent\nThree.")
    kernel.helper("%agent config budget.tokens none")
    turn = kernel.turn(cell, logs)
    assert [
        text.count("budget of 925 tokens is used up")
        for text in (result.text for result in turn.results)
    ] == [1, 1, 1]
    assert kernel.value("w0, w1, w2") == (2, 2, 2)
    assert turn.stop_reason == "end" and kernel.value("str(_agent)") == "Summed up."


def test_a_delegate_asks_in_words(kernel: LiveKernel) -> None:
    """`ask_user` of a delegate names it, and its answer goes to it alone."""
    script(
        kernel,
        "Which?",
        [assign({"task": "choose", "output": ["unit"]}), {"text": "Well."}],
        choose=[
            {"calls": [{"name": "ask_user", "arguments": {"question": "Metres or feet?"}}]},
            execute_code("unit = 'm'"),
            {"text": "Metres."},
        ],
    )
    running = kernel.start("%%agent\nWhich?", allow_stdin=True)
    assert "(Delegate 1) Metres or feet?" in running.question(20)
    running.type("metres")
    cell = running.finish(30)
    assert cell.status == "ok" and kernel.value("unit") == "m"
    assert "metres" in cell.transcript


def test_whatever_order_they_ended_in(kernel: LiveKernel) -> None:
    """Three recordings with another slowest delegate show the same, as do their replays."""
    shown = []
    for slowest in range(3):
        parts = {
            f"share_{n}": [
                replace(act(f"part_{n} = rows[{n}]\npart_{n}"), delay=0.6 * (n == slowest)),
                replace(Reply(text=f"It is part {n}."), delay=0.3 * (n == slowest)),
            ]
            for n in range(3)
        }
        calls = give(*({"task": f"share {n}", "output": [f"part_{n}"]} for n in range(3)))
        replies = served("Split.", [calls, Reply(text="Done.")], **parts)
        kernel.helper(f"%agent cassette order_{slowest}.jsonl", "%agent config mode record")
        with ModelServer(replies) as server:
            use(kernel, server)
            recorded = kernel.run("%%agent\nSplit.")
        assert recorded.status == "ok", recorded.error
        names = kernel.value("[name for name in globals() if name.startswith('part_')]")
        assert names == ["part_0", "part_1", "part_2"]
        kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
        kernel.helper("%agent config mode replay")
        replayed = kernel.run("%%agent\nSplit.")
        assert kernel.value("part_0, part_1, part_2") == (3, 1, 2)
        shown += [recorded.displays, replayed.displays]
        kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    assert all(each == shown[0] for each in shown)
    cassettes = [(kernel.folder / f"order_{n}.jsonl").read_text("utf-8") for n in range(3)]
    assert cassettes[0].count("share") == cassettes[1].count("share") == cassettes[2].count("share")
