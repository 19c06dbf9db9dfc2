"""`execute_code` in scratch, in a real kernel: what stays there, what reaches the person, what is
kept."""

from __future__ import annotations

import pytest
from live_kernel import Json, LiveKernel

START = """
import threading
rows = [3, 1, 2]
rate = 2
calls = []
def scaled():
    return [rate * each for each in rows]
def counted():
    global count
    count = 1
"""


@pytest.fixture
def desk(kernel: LiveKernel) -> LiveKernel:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent config approvals.mode auto")
    kernel.helper("%agent config mode auto", START)
    return kernel


def scratch(code: str, *keep: str) -> Json:
    return {"code": code, "scratch": True} | ({"keep": [*keep]} if keep else {})


def test_what_scratch_binds_stays_there(desk: LiveKernel) -> None:
    """Scratch code binds, deletes, imports and uses magics: the next scratch cell sees it, plain
    code and the next turn do not.
    """
    turn = desk.agent(
        scratch("rate = 10\nimport math\ndef root(): return math.sqrt(rate + six)\ndel calls"),
        scratch(
            "six = 6\n%time slow = 1\nlines = !echo hello\nimport asyncio\n"
            "await asyncio.sleep(0)\nlate = root()\nlate, lines[0], slow, 'calls' in globals()"
        ),
        "rate, calls, [n for n in ('six', 'slow', 'lines', 'late', 'root', 'math') "
        "if n in globals()]",
    )
    assert turn.results[1].text.endswith("(4.0, 'hello', 1, False)"), turn.results[1].text
    assert turn.results[2].text == "(2, [], [])"
    assert "added" not in turn.cell.transcript
    assert desk.agent(scratch("late")).result.error_name == "NameError"


def test_reads_fall_through(desk: LiveKernel) -> None:
    """Scratch sees what plain code binds meanwhile, unless it has bound the name itself."""
    turn = desk.agent(scratch("mine = rate"), "rate = 5\nmine = 7", scratch("(rate, mine)"))
    assert turn.results[2].text == "(5, 2)"
    assert desk.value("rate, mine") == (5, 7)


def test_the_limits(desk: LiveKernel) -> None:
    """A person's function sees its own globals and writes them; a change in place is named."""
    turn = desk.agent(
        scratch("rate = 10\ncounted()\nscaled()"),
        scratch("more = rows\nmore.append(4)\nlen(rows)"),
        scratch("sorted(rows)"),
    )
    assert turn.results[0].text == "[6, 2, 4]"
    assert desk.value("count, rows") == (1, [3, 1, 2, 4])
    assert "Changed in place, so outside of scratch, too: `rows`." in turn.results[1].text
    assert turn.results[2].text == "[1, 2, 3, 4]"


def test_errors_and_figures(desk: LiveKernel) -> None:
    """An error has its frame and the nearest scratch name, or what scratch cannot do; a figure is
    shown, `_` stays.
    """
    desk.run("'mine'")
    turn = desk.agent(
        scratch("total_price = 1\ntotal_prise"),
        scratch(
            "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"
        ),
        scratch("print(_)\n1 + 1"),
        scratch("import pickle\ndef f(): pass\npickle.dumps(f)"),
    )
    assert "line 2" in turn.results[0].text and "total_price" in turn.results[0].text
    assert any("image/png" in output["data"] for output in turn.results[1].display)
    assert turn.results[2].text == "mine\n2"
    assert turn.results[3].text.endswith("define and use them without scratch.)")
    assert desk.value("_") == "mine"


def test_kept_names(desk: LiveKernel) -> None:
    """`keep` binds the very objects without another run; a function sees the person's names from
    then on; classes, unknown names and failed code keep nothing. The code of the answer and the
    promoted cell have what led to them.
    """
    turn = desk.agent(
        scratch("noise = 1"),
        scratch("calls.append(1)\nrows = sorted(rows)\ntop = rows[-1:]\nclass C: pass"),
        scratch("here = id(top)\ndef f(): return rate", "top", "here", "f", "C", "nothing"),
        scratch("def g(): return rows", "g"),
        scratch("bad = 1\n1 / 0", "bad"),
        "top == [3] and here == id(top)",
    )
    text = turn.results[2].text
    assert "Kept for the person: `top`, `here`, `f`." in text and "C (a class" in text
    assert "nothing (scratch code has not bound it)" in text
    assert "g (a function that uses `rows`, which is another object" in turn.results[3].text
    assert turn.results[5].text == "True"
    desk.helper("rate = 7")
    assert desk.value("f()") == 7
    assert desk.value("calls, rows, 'bad' in globals()") == ([1], [3, 1, 2], False)
    assert desk.value("any('1 / 0' in code for code in _agent.code)") is False
    cell = desk.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    assert "noise" not in payload["text"]
    desk.helper("del top, here", payload["text"])
    assert desk.value("top, rows") == ([3], [3, 1, 2])


def test_the_promoted_cell_of_several_keeps(desk: LiveKernel) -> None:
    """Names that are kept one after the other are computed once each in the promoted cell, from the
    scratch values of their time.
    """
    turn = desk.agent(
        scratch("rate = rate * 10\nfirst = rate + 1", "first"),
        scratch("rate = rate + 5\nrows = rows + [9]\nsecond = rate + first", "second"),
        scratch("rate = rate * 2", "rate"),
        "third = rate + second\nthird",
    )
    wanted = (21, 46, 50, 96, [3, 1, 2])
    assert turn.results[-1].text == "96"
    assert desk.value("first, second, rate, third, rows") == wanted
    cell = desk.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    for code in (payload["text"], desk.value("'\\n'.join(map(str.__str__, _agent.code))")):
        desk.helper("del first, second, third", "rate = 2", code)
        assert desk.value("first, second, rate, third, rows") == wanted


def test_the_promoted_cell_of_effects(desk: LiveKernel) -> None:
    """What scratch code did outside of scratch is in the promoted cell though nothing was kept,
    with the scratch values of its time; names stay the person's, where magics hide them, too.
    """
    desk.agent(
        scratch("rate = rate + 1"),
        scratch("%time rate = rate * 10\nnoise = rate"),
        scratch("open('seen.txt', 'w').write(str(rate))\ncalls.append(rate)"),
    )
    assert (desk.folder / "seen.txt").read_text() == "30"
    cell = desk.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    (desk.folder / "seen.txt").unlink()
    desk.run(payload["text"])
    assert (desk.folder / "seen.txt").read_text() == "30", payload["text"]
    assert desk.value("rate, calls") == (2, [30, 30])


def test_what_ends_early_stays_in_scratch(desk: LiveKernel) -> None:
    """What code bound before its time-out is in scratch alone, and nothing of it is kept."""
    late = scratch("half = rate * 2\nrate = 0\nwhile True: pass", "half") | {"timeout": 1}
    turn = desk.agent(late, scratch("(half, rate)"), "rate, 'half' in globals()")
    assert turn.results[0].state == "timed_out"
    assert [each.text for each in turn.results[1:]] == ["(4, 0)", "(2, False)"]


def test_undo_of_kept_names(desk: LiveKernel) -> None:
    """Undo takes kept names back, and a list that scratch code changed in place."""
    desk.agent(scratch("rate = 9\nrows.append(4)\nextra = 1", "rate", "extra"))
    assert desk.value("rate, rows, extra") == (9, [3, 1, 2, 4], 1)
    desk.helper("%agent undo")
    assert desk.value("rate, rows, 'extra' in globals()") == (2, [3, 1, 2], False)


def test_keep_needs_scratch(desk: LiveKernel) -> None:
    """`keep` in a plain call is an error that says so, and nothing runs."""
    turn = desk.agent({"code": "ran = 1", "keep": ["ran"]})
    assert turn.result.is_error and "scratch=true" in turn.result.text
    assert desk.value("'ran' in globals()") is False


def test_other_threads_keep_their_namespace(desk: LiveKernel) -> None:
    """While scratch code runs, a thread of the person's that asks the shell gets their names."""
    desk.run(
        "seen, asked = [], threading.Event()\nshell = get_ipython()\n"
        "def look():\n    asked.wait()\n    seen.append(shell.user_ns.get('inner'))\n"
        "watcher = threading.Thread(target=look)\nwatcher.start()"
    )
    turn = desk.agent(
        scratch("inner = 1\nasked.set(); watcher.join()\nget_ipython().user_ns['inner']")
    )
    assert turn.result.text == "1" and desk.value("seen") == [None]
    assert desk.value("'user_ns' in vars(type(get_ipython()))") is False


def test_the_policy_knows_scratch_names(desk: LiveKernel) -> None:
    """A module that an earlier scratch cell imported under another name is asked about; deleting a
    name in scratch is not.
    """
    desk.helper("%agent config approvals.mode ask_risky")
    (desk.folder / "mine.txt").write_text("precious", encoding="utf-8")
    turn = desk.agent(
        scratch("import os as quiet\ndel rows"), scratch("quiet.remove('mine.txt')"), "rows"
    )
    assert not turn.results[0].is_error
    assert turn.results[1].state == "refused"
    assert (desk.folder / "mine.txt").exists() and turn.results[2].text == "[3, 1, 2]"


def test_recorded_scratch(desk: LiveKernel) -> None:
    """A replay runs scratch code again, keeps the same names, and gives the same bytes."""
    desk.helper("%agent cassette scratch.cassette.jsonl", "%agent config mode record")
    task = "Find the top."
    steps = (
        scratch("calls.append(1)\nordered = sorted(rows)"),
        scratch("top = ordered[-1]", "top"),
    )
    calls = [{"calls": [{"name": "execute_code", "arguments": step}]} for step in steps]
    desk.script(task, *calls, {"text": "It is 3."})
    recorded = desk.run(f"%%agent --fresh\n{task}")
    assert recorded.status == "ok" and desk.value("top, calls") == (3, [1])
    desk.helper("del top", "calls.clear()", "%agent config mode replay")
    again = desk.run(f"%%agent --fresh\n{task}")
    assert again.status == "ok", again.error
    assert desk.value("top, calls") == (3, [1])
    assert again.displays == recorded.displays
