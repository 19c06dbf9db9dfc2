"""The agent's code in a live kernel: what it shows, what it must not touch, how it ends."""

from __future__ import annotations

import time

import pytest
from generated import examples
from live_kernel import LiveKernel, Result


def shown(result: Result, kind: str) -> str:
    """The text of all outputs of one kind."""
    return "".join(o["data"]["text/plain"] for o in result.display if o["kind"] == kind)


# What code shows ---------------------------------------------------------------------------------


def test_outputs_keep_their_order(kernel: LiveKernel) -> None:
    """Code prints to both streams, displays and ends in a value: all is seen, in that order."""
    turn = kernel.agent(
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\n"
        "display('three')\nprint('four')\n'five'"
    )
    assert turn.result.kinds == ["stdout", "stderr", "display", "stdout", "result"]
    assert turn.result.text.splitlines() == ["one", "[stderr] two", "'three'", "four", "'five'"]


def test_a_semicolon_silences_the_value(kernel: LiveKernel) -> None:
    """A last expression that ends in a semicolon shows nothing, as in an ordinary cell."""
    assert kernel.agent("6 * 7;").result.text == "(no output)"


def test_a_display_that_is_updated_stays_one(kernel: LiveKernel) -> None:
    """Code updates a display in a loop, as a progress bar does: the last state is kept."""
    turn = kernel.agent(
        "handle = display('0 %', display_id=True)\n"
        "for share in (50, 100):\n    handle.update(f'{share} %')"
    )
    assert turn.result.text == "'100 %'"


def test_clear_output_forgets_what_came_before(kernel: LiveKernel) -> None:
    """Code clears its output: only what was shown after that is left."""
    turn = kernel.agent(
        "from IPython.display import clear_output\n"
        "print('old')\nclear_output(wait=True)\nprint('new')"
    )
    assert turn.result.text == "new"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("!echo from the shell", "from the shell"),
        ("lines = !printf 'a\\nb\\n'\nlines", "['a', 'b']"),
        ("%%bash\necho from bash", "from bash"),
        ("%env NAME_OF_NOBODY=1\n%env NAME_OF_NOBODY", "env: NAME_OF_NOBODY=1\n'1'"),
        ("?len", "Return the number of items in a container."),
    ],
)
def test_magics_and_commands(kernel: LiveKernel, code: str, text: str) -> None:
    """The agent uses magics, `!commands` and `?help` as in a cell, and reads what they show."""
    result = kernel.agent(code).result
    assert (result.state, text in result.text) == ("done", True), result.text


OWN_SYNTAX = {
    "a transform of lines": """
def with_arrows(lines): return [line.replace("<-", "=") for line in lines]
get_ipython().input_transformers_cleanup.append(with_arrows)
def restore(): get_ipython().input_transformers_cleanup.remove(with_arrows)
""",
    "one afterwards": """
def with_arrows(lines): return [line.replace("<-", "=") for line in lines]
get_ipython().input_transformers_post.append(with_arrows)
def restore(): get_ipython().input_transformers_post.remove(with_arrows)
""",
    "another manager": """
from IPython.core.inputtransformer2 import TransformerManager
class WithArrows(TransformerManager):
    def transform_cell(self, cell): return super().transform_cell(cell.replace("<-", "="))
_former = get_ipython().input_transformer_manager
get_ipython().input_transformer_manager = WithArrows()
def restore(): get_ipython().input_transformer_manager = _former
""",
    "another method": """
_transform = get_ipython().transform_cell
get_ipython().transform_cell = lambda cell: _transform(cell.replace("<-", "="))
def restore(): del get_ipython().transform_cell
""",
}


@pytest.mark.parametrize("own", OWN_SYNTAX.values(), ids=OWN_SYNTAX)
def test_the_persons_own_syntax(kernel: LiveKernel, own: str) -> None:
    """What the person has taught IPython holds for the agent's code, too."""
    kernel.run(own)
    result = kernel.agent("number <- 41\nprint('is', number + 1)").result
    kernel.run("restore()")
    assert (result.state, "is 42" in result.text) == ("done", True), result.text


def test_help_opens_no_pager(kernel: LiveKernel) -> None:
    """The agent asks for help on an object: no pager opens in the person's notebook."""
    assert kernel.agent("?len").cell.reply["payload"] == []


def test_an_unknown_magic_is_one_line(kernel: LiveKernel) -> None:
    """The agent uses a magic that does not exist: one line says so."""
    result = kernel.agent("%nosuchmagic").result
    assert result.error_name == "UsageError"
    assert result.text == "UsageError: Line magic function `%nosuchmagic` not found."


def test_top_level_await(kernel: LiveKernel) -> None:
    """Code awaits at its top level: the value that comes after it is shown."""
    turn = kernel.agent("import asyncio\nawait asyncio.sleep(0.01)\nawaited = 41\nawaited + 1")
    assert turn.result.text == "42"
    assert kernel.value("awaited") == 41


def test_a_figure_is_an_output_of_the_cell(kernel: LiveKernel) -> None:
    """Code plots without calling show(): the figure stands below the transcript, once."""
    turn = kernel.agent(
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 3, 2]);"
    )
    pictures = [data for data in turn.cell.displays if "image/png" in data]
    assert len(pictures) == 1
    assert turn.cell.displays.index(pictures[0]) == 1
    assert "shown to the person; the picture is below" in turn.result.text
    assert kernel.run("1").displays == []


# Long output -------------------------------------------------------------------------------------

BIG = {
    "one stream": "for _ in range(200_000):\n    print('x' * 100)",
    "one write": "print('x' * 20_000_000)",
    "two streams in turn": (
        "import sys\nfor _ in range(10_000):\n"
        "    print('x' * 1_000)\n    print('y' * 1_000, file=sys.stderr)"
    ),
    "a value": "'x' * 20_000_000",
}


@pytest.mark.parametrize("code", BIG.values(), ids=BIG.keys())
def test_twenty_megabytes_stay_bounded(kernel: LiveKernel, code: str) -> None:
    """Code puts out 20 MB: the model and the notebook get a part, with a notice."""
    turn = kernel.agent(code)
    assert len(turn.result.text) < 31_000
    assert "characters left out" in turn.result.text
    notebook = sum(len(str(output)) for output in turn.cell.outputs)
    assert notebook < 500_000
    log = sum(len(str(event)) for event in turn.events)
    assert log < (21_000_000 if code == BIG["a value"] else 2_000_000)


# Errors ------------------------------------------------------------------------------------------


def test_an_error_shows_the_persons_frames_only(kernel: LiveKernel) -> None:
    """Code fails inside a library: the frames of its own lines are shown, the library's are not."""
    turn = kernel.agent("import json\ndef parse(text):\n    return json.loads(text)\nparse('{')")
    lines = turn.result.text.splitlines()
    assert turn.result.error_name == "JSONDecodeError"
    assert [line for line in lines if "json.loads" in line] == ["    return json.loads(text)"]
    assert lines[0].startswith("agent code ") and lines[0].endswith(", line 4")
    assert lines[2].endswith(", line 3, in parse")
    assert lines[-1].startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert len(lines) == 5


def test_a_function_of_the_persons_is_named_by_its_cell(kernel: LiveKernel) -> None:
    """Code calls a function from the person's cell, which fails: the frame names that cell."""
    count = kernel.run("def half(n):\n    return n / 0").reply["execution_count"]
    lines = kernel.agent("half(2)").result.text.splitlines()
    assert lines[2] == f"Cell In[{count}], line 2, in half"
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_a_chain_of_errors_is_shown(kernel: LiveKernel) -> None:
    """Code raises an error from another one: both are there, the cause first."""
    text = kernel.agent(
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no') from error"
    ).result.text
    assert text.index("ZeroDivisionError: division by zero") < text.index("ValueError: no")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import asyncio\nawait asyncio.sleep(0)\n{}['a']", "KeyError"),
        ("def f(:", "SyntaxError"),
        ("if True:\nx = 1", "IndentationError"),
        ("'''", "SyntaxError"),
        ("assert False", "AssertionError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("import asyncio\nawait asyncio.sleep(0)\nraise asyncio.CancelledError", "CancelledError"),
        ("raise BaseExceptionGroup('two', [KeyboardInterrupt(), ValueError()])", "Group"),
        ("def f():\n    return f()\nf()", "RecursionError"),
    ],
)
def test_an_error_leaves_the_cell_ok(kernel: LiveKernel, code: str, name: str) -> None:
    """Code fails in any way: the model is told, the cell publishes no error and ends well."""
    turn = kernel.agent(code, "print('went on')")
    assert turn.results[0].is_error and turn.results[0].error_name.endswith(name)
    assert turn.results[1].text == "went on"
    assert (turn.cell.status, turn.cell.error) == ("ok", "")
    assert turn.cell.displays[-1]["text/plain"] == "Done."


FAILING = "class Shy:\n    def __repr__(self):\n        raise RuntimeError('no repr')\n"


def test_input_where_nobody_can_answer(kernel: LiveKernel) -> None:
    """Code asks for input under a front end that has none: an error, and no waiting."""
    assert kernel.agent("input('name? ')").result.error_name == "RuntimeError"


@pytest.mark.parametrize("use", ["Shy()", "display(Shy())", "print(Shy())"])
def test_a_failing_repr(kernel: LiveKernel, use: str) -> None:
    """Code shows an object whose __repr__ fails: the model reads why, the cell ends well."""
    turn = kernel.agent(FAILING + use, "1 + 1")
    assert "RuntimeError: no repr" in turn.results[0].text
    assert (turn.cell.status, turn.cell.error, turn.results[1].text) == ("ok", "", "2")


def test_an_object_that_fails_at_everything(kernel: LiveKernel) -> None:
    """Code makes an object whose attributes all raise: it becomes a variable like any other."""
    turn = kernel.agent(
        "class Hostile:\n    def __getattr__(self, name):\n        raise RuntimeError(name)\n"
        "    def __eq__(self, other):\n        raise RuntimeError('eq')\n"
        "    __hash__ = None\nhostile = Hostile()",
        "print(type(hostile).__name__)",
    )
    assert turn.results[1].text == "Hostile"
    assert "hostile new Hostile" in turn.cell.transcript


def test_an_error_whose_message_fails(kernel: LiveKernel) -> None:
    """Code raises an error whose own __str__ fails: its name is shown all the same."""
    turn = kernel.agent(
        "class Bad(Exception):\n    def __str__(self):\n        raise RuntimeError('x')\nraise Bad"
    )
    assert turn.result.error_name == "Bad"
    assert "Bad" in turn.result.text and turn.cell.status == "ok"


# Ways to end the kernel --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "exit()",
        "quit()",
        "exit",
        "raise SystemExit(3)",
        "import sys\nsys.exit('bye')",
        "get_ipython().ask_exit()",
        "import asyncio\nawait asyncio.sleep(0)\nraise SystemExit",
    ],
)
def test_exit_does_not_end_the_kernel(kernel: LiveKernel, code: str) -> None:
    """Code tries to leave: it is refused, the variables stay, and the kernel goes on."""
    kernel.run("kept = 5")
    turn = kernel.agent(code, "kept")
    assert turn.results[0].is_error
    assert turn.results[1].text == "5"
    assert (turn.cell.status, turn.cell.reply["payload"]) == ("ok", [])
    assert kernel.run("kept").result == "5"


def test_a_script_that_exits(kernel: LiveKernel) -> None:
    """Code runs a script that ends itself: the exit is shown, the kernel and the turn go on."""
    (kernel.folder / "leave.py").write_text("import sys\nsys.exit(4)\n", encoding="utf-8")
    turn = kernel.agent("%run leave.py", "print('went on')")
    assert turn.results[0].text.endswith("SystemExit: 4")
    assert (turn.results[1].text, turn.cell.error) == ("went on", "")


def test_what_a_subprocess_prints(kernel: LiveKernel) -> None:
    """Code runs a process that prints by itself: its words are seen, as in an ordinary cell."""
    code = "import subprocess, time\nsubprocess.run(['echo', 'from afar'])\ntime.sleep(0.3)"
    turn = kernel.agent(code)
    assert "from afar" in turn.result.text + turn.cell.stdout


def test_a_subprocess_may_end_as_it_likes(kernel: LiveKernel) -> None:
    """Code runs a process that calls os._exit: only that process is gone."""
    turn = kernel.agent(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import os; os._exit(3)']).returncode"
    )
    assert turn.result.text == "3"


# The agent inside of the agent -------------------------------------------------------------------

BUSY = "A turn is running already. Wait for it, or interrupt the kernel."


@pytest.mark.parametrize(
    "code",
    ["%%agent\nGo on.", "%%agent --fresh\nGo on.", "from jupyter_agent import ask\nawait ask('x')"],
)
def test_a_turn_inside_a_turn_is_refused(kernel: LiveKernel, code: str) -> None:
    """Code starts an agent of its own: refused in one line, and the outer turn goes on."""
    turn = kernel.agent(code, "print('outer')")
    assert turn.results[0].text.splitlines()[-1].endswith(f"AgentError: {BUSY}")
    assert turn.results[1].text == "outer"
    assert turn.cell.status == "ok"


def test_resetting_the_conversation_from_inside(kernel: LiveKernel) -> None:
    """Code runs `%agent reset`: refused while the turn runs, which goes on to its answer."""
    turn = kernel.agent("%agent reset", "print('outer')")
    assert (turn.results[0].is_error, turn.results[1].text) == (True, "outer")
    assert (turn.cell.status, turn.cell.error) == ("ok", "")


@pytest.mark.parametrize("magic", ["%reload_ext jupyter_agent", "%reset -f", "%autoawait off"])
def test_magics_that_change_the_ground(kernel: LiveKernel, magic: str) -> None:
    """Code reloads the extension or empties the namespace: this turn and the next go on."""
    turn = kernel.agent(magic, "print('outer')")
    kernel.helper("%autoawait asyncio")
    assert turn.results[-1].text == "outer"
    assert kernel.agent("1 + 1").result.text == "2"


def test_a_call_of_the_magic_that_is_not_awaited(kernel: LiveKernel) -> None:
    """Code calls run_cell_magic by hand: refused with a reason, and no coroutine is left over."""
    turn = kernel.agent("get_ipython().run_cell_magic('agent', '', 'Go on.')", "print('outer')")
    assert turn.results[0].error_name in ("ConfigError", "AgentError")
    assert "never awaited" not in turn.results[0].text + turn.cell.stderr
    assert turn.results[1].text == "outer"


# What must stay as it was ------------------------------------------------------------------------


def test_the_persons_history_is_untouched(kernel: LiveKernel) -> None:
    """The agent runs values and prompts: In, Out, _ and the counter do not show it."""
    first = kernel.run("40 + 2").reply["execution_count"]
    before = kernel.value("(len(In), sorted(Out), _, __, ___)")
    turn = kernel.agent("7 * 6 * 2", "'other'", "import asyncio\nawait asyncio.sleep(0)\n99", "1/0")
    after = kernel.value("(len(In), sorted(Out), _, __, ___)")
    assert (after[0], after[1:]) == (before[0] + 1, before[1:])
    assert "run_cell_magic('agent'" in kernel.value("In[-1]")
    assert turn.cell.reply["execution_count"] == first + 1
    assert kernel.run("_").reply["execution_count"] == first + 2
    raw = kernel.value("get_ipython().history_manager.input_hist_raw[-3:]")
    assert [raw[0], raw[1][:7], raw[2]] == ["40 + 2", "%%agent", "_"]


def test_the_persons_hooks_fire(kernel: LiveKernel) -> None:
    """The person has cell hooks: they see the agent's code too, and nothing breaks."""
    kernel.run(
        "seen = []\ndef before(info): seen.append(('pre', info.raw_cell))\n"
        "def after(result): seen.append(('post', result.info.raw_cell))\n"
        "events = get_ipython().events\n"
        "events.register('pre_run_cell', before)\nevents.register('post_run_cell', after)"
    )
    turn = kernel.agent("1 + 1", "import asyncio\nawait asyncio.sleep(0)")
    kernel.run(
        "events.unregister('pre_run_cell', before)\nevents.unregister('post_run_cell', after)"
    )
    assert [result.state for result in turn.results] == ["done", "done"]
    assert kernel.value("seen.count(('pre', '1 + 1')), seen.count(('post', '1 + 1'))") == (1, 1)


def test_a_hook_that_fails(kernel: LiveKernel) -> None:
    """A hook of the person's fails at each cell: the agent's code still runs and is shown."""
    kernel.run("def broken(*_): raise RuntimeError('hook')")
    kernel.run("get_ipython().events.register('post_run_cell', broken)")
    turn = kernel.agent("print('ran')")
    kernel.run("get_ipython().events.unregister('post_run_cell', broken)")
    assert "ran" in turn.result.text
    assert turn.cell.displays[-1]["text/plain"] == "Done."


def test_the_source_of_a_function_of_the_agents(kernel: LiveKernel) -> None:
    """The agent defines a function: it and the person can read its source later."""
    source = "def area(r):\n    return 3 * r * r\n"
    turn = kernel.agent(source, "import inspect\nprint(inspect.getsource(area), end='')")
    assert turn.results[1].text == source.strip()
    assert kernel.run("print(inspect.getsource(area), end='')").stdout == source


@pytest.mark.parametrize("name", ["display", "print", "ask", "_agent", "jupyter_agent", "sys"])
def test_a_name_that_the_person_shadowed(kernel: LiveKernel, name: str) -> None:
    """The person uses a common name for a value: the agent works, and the answer is shown."""
    kernel.run(f"{name} = 5")
    turn = kernel.agent("6 * 7")
    kernel.run(f"del {name}")
    assert turn.result.text == "42"
    assert turn.cell.displays[-1]["text/plain"] == "Done."


def test_get_ipython_shadowed_by_the_agents_code(kernel: LiveKernel) -> None:
    """Code overwrites get_ipython: the turn ends well, and deleting the name repairs magics."""
    turn = kernel.agent("get_ipython = None", "6 * 7")
    assert (turn.results[1].text, turn.cell.status) == ("42", "ok")
    kernel.run("del get_ipython")
    assert kernel.agent("1 + 1").result.text == "2"
    kernel.helper("get_ipython = get_ipython")  # from the builtins, as the next test expects it


REPLACED = "import io, sys\nsys.stdout = sys.stderr = io.StringIO()\nsys.displayhook = print"


def test_replaced_streams_are_put_back(kernel: LiveKernel) -> None:
    """Code replaces sys.stdout and more: the person's next cell prints and shows as ever."""
    turn = kernel.agent(REPLACED, "print('again')")
    assert turn.results[1].text == "again"
    cell = kernel.run("import sys\nprint('hello')\nprint('oops', file=sys.stderr)\n42")
    assert (cell.stdout, cell.stderr, cell.result) == ("hello\n", "oops\n", "42")


def test_streams_that_the_person_replaced_stay_so(kernel: LiveKernel) -> None:
    """The person redirected sys.stdout: it stays so, without the agent's prints."""
    kernel.run("import io, sys\nreal, sys.stdout = sys.stdout, io.StringIO()")
    turn = kernel.agent("print('to the model')")
    kernel.run("print('to the person')\nkept, sys.stdout = sys.stdout, real")
    assert turn.result.text == "to the model"
    kept = kernel.value("kept.getvalue()")
    assert kept.endswith("\nto the person\n") and "to the model" not in kept, kept


def test_logging_that_the_agent_set_up(kernel: LiveKernel) -> None:
    """The agent configures logging: warnings of the person's later cells are seen."""
    kernel.agent("import logging\nlogging.basicConfig(force=True)\nlogging.warning('first')")
    assert "second" in kernel.run("logging.warning('second')").stderr


def test_logging_that_the_person_set_up(kernel: LiveKernel) -> None:
    """The person's logging writes to the notebook: what the agent's code logs is seen."""
    kernel.run("import logging\nlogging.basicConfig(force=True)")
    turn = kernel.agent("import logging\nlogging.warning('careful')")
    assert "careful" in turn.result.text + turn.cell.stderr


def test_a_changed_folder(kernel: LiveKernel) -> None:
    """Code changes the working folder: it stays changed, workspace and logs stay where they are."""
    turn = kernel.agent(
        "import os\nhome = os.getcwd()\nos.makedirs('away', exist_ok=True)\n%cd away"
    )
    assert turn.result.state == "done"
    assert kernel.value("os.path.basename(os.getcwd())") == "away"
    again = kernel.agent("print(os.path.basename(os.getcwd()))")  # finds its log in the workspace
    kernel.run("os.chdir(home)")
    assert again.result.text == "away"


def test_the_working_folder_is_deleted(kernel: LiveKernel) -> None:
    """Code deletes the folder that it works in: the turn still ends well."""
    turn = kernel.agent(
        "import os\nhome = os.getcwd()\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')",
        "1 + 1",
        "os.chdir(home)",
    )
    assert [result.state for result in turn.results] == ["done"] * 3


# Time-outs ---------------------------------------------------------------------------------------

ENDLESS = {
    "busy loop": "while True: pass",
    "sleep": "import time\ntime.sleep(60)",
    "await": "import asyncio\nawait asyncio.sleep(60)",
    "busy loop after await": "import asyncio\nawait asyncio.sleep(0.01)\nwhile True: pass",
    "sleep after await": "import asyncio, time\nawait asyncio.sleep(0.01)\ntime.sleep(60)",
    "command": "!sleep 60",
    "waiting thread": "import threading\nthreading.Event().wait(60)",
    "gathered tasks": "import asyncio\nawait asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_time_out_ends_the_code_and_not_the_turn(kernel: LiveKernel, code: str) -> None:
    """Endless code has a time-out: what it printed is kept, and the turn goes on."""
    started = time.monotonic()
    turn = kernel.agent({"code": f"print('begun', flush=True)\n{code}", "timeout": 0.5}, "1 + 1")
    assert time.monotonic() - started < 20
    result = turn.results[0]
    assert result.state == "timed_out"
    assert result.text.startswith("begun\n")
    assert result.text.endswith("\nThe code was interrupted after its time-out of 0.5 s.")
    assert turn.results[1].text == "2"
    assert (turn.cell.status, turn.stop_reason) == ("ok", "end")


def test_a_time_out_that_is_not_reached(kernel: LiveKernel) -> None:
    """Quick code with a time-out ends as usual, and no late interrupt comes."""
    turn = kernel.agent({"code": "1 + 1", "timeout": 0.2}, "import time\ntime.sleep(0.4)\n'whole'")
    assert [result.text for result in turn.results] == ["2", "'whole'"]


@pytest.mark.parametrize("wait", ["time.sleep(0.01)", "await asyncio.sleep(0.01)"])
def test_time_outs_that_come_as_the_code_ends(kernel: LiveKernel, wait: str) -> None:
    """Code ends just when its time is up, many times: each ends one way or the other."""
    code = f"import asyncio, time\n{wait}\nprint('whole')"
    calls: list[str | dict[str, object]] = []
    for number in range(0, 80, 80 // examples(80)):
        # What works in between shows that the model does not go in circles.
        calls += [{"code": code, "timeout": 0.008 + number / 20_000}, f"{number}"]
    kernel.helper("%agent config max_steps 200")
    turn = kernel.agent(*calls, "1 + 1")
    assert {result.state for result in turn.results} <= {"done", "timed_out"}
    assert (turn.results[-1].text, turn.stop_reason) == ("2", "end")


def test_a_time_out_that_is_no_number_above_zero(kernel: LiveKernel) -> None:
    """The model sends a time-out of zero: refused, and nothing is run."""
    turn = kernel.agent({"code": "never_made = 1", "timeout": 0})
    assert turn.result.is_error and "timeout" in turn.result.text
    assert kernel.value("'never_made' in globals()") is False


def test_a_group_of_exceptions(kernel: LiveKernel) -> None:
    """Code raises a group: its members are told, and no frame of IPython's."""
    result = kernel.agent("raise ExceptionGroup('g', [ValueError('a'), KeyError('b')])").result
    assert result.text.endswith("- ValueError: a\n  - KeyError: 'b'")
    assert "interactiveshell" not in result.text


def test_a_thread_of_the_persons(kernel: LiveKernel) -> None:
    """A thread that a cell started prints while the agent's code runs: it is not the agent's."""
    kernel.helper(
        "import threading, time",
        "go, done = threading.Event(), threading.Event()",
        "def tick():",
        "    go.wait(20); print('tick of mine'); done.set()",
        "threading.Thread(target=tick, daemon=True).start()",
    )
    turn = kernel.agent("go.set(); done.wait(20); print('the code')")
    assert turn.result.text == "the code"


@pytest.mark.parametrize(
    "code",
    [
        "pool.submit(print, 'said').result()",
        "import asyncio\nasyncio.get_running_loop().call_soon(print, 'said')\n"
        "await asyncio.sleep(0.1)",
        "import asyncio, threading\nasync def say(): print('said')\n"
        "t = threading.Thread(target=lambda: asyncio.run(say())); t.start(); t.join()",
        "import _thread, threading\ndone = threading.Event()\n"
        "_thread.start_new_thread(lambda: (print('said'), done.set()), ())\ndone.wait(20);",
    ],
)
def test_what_the_code_has_others_do(kernel: LiveKernel, code: str) -> None:
    """What it starts prints for it, in any mode of approvals: also a pool of the person's."""
    kernel.helper(
        "from concurrent.futures import ThreadPoolExecutor",
        "pool = ThreadPoolExecutor(1)",
        "pool.submit(len, []).result()",
    )
    assert kernel.agent(code).result.text == "said"


def test_what_an_earlier_call_left_running(kernel: LiveKernel) -> None:
    """A thread and a task of an earlier call print while another one runs: it is not its output."""
    kernel.agent(
        "import asyncio, threading\ngo, done = threading.Event(), threading.Event()\n"
        "def late(): go.wait(20); print('late'); done.set()\n"
        "async def later():\n    while not go.is_set(): await asyncio.sleep(0.01)\n"
        "    print('later'); ended.set()\n"
        "ended = asyncio.Event()\n"
        "threading.Thread(target=late, daemon=True).start()\nleft = asyncio.create_task(later())"
    )
    turn = kernel.agent("go.set()\ndone.wait(20)\nawait ended.wait()\nprint('the code')")
    assert turn.result.text == "the code"


def test_an_object_that_lies_about_its_class(kernel: LiveKernel) -> None:
    """A variable fails when it is asked for its class: the turn goes on."""
    kernel.helper(
        "class Liar:",
        "    @property",
        "    def __class__(self): raise RuntimeError('no class')",
        "liar = Liar()",
    )
    turn = kernel.agent("1 + 1")
    kernel.helper("del liar")
    assert (turn.cell.status, turn.result.text) == ("ok", "2")


def test_what_json_does_not_hold(kernel: LiveKernel) -> None:
    """Code displays dates, numpy numbers and a set in rich data: the turn is saved all the same."""
    code = (
        "import numpy as np, datetime\n"
        "display({'application/json': {'a': np.int64(3), 'b': datetime.date(2026, 1, 2)},"
        " 'text/plain': 'x'}, raw=True, metadata={'odd': {1, 2}})\n"
        "display({'application/json': {'s': {1}}, 'text/plain': 'y'}, raw=True)"
    )
    turn = kernel.agent(code)
    assert turn.cell.status == "ok" and "Fine" not in turn.cell.error
    shown = [display for display in turn.cell.displays if "application/json" in display]
    assert shown[0]["application/json"] == {"a": 3, "b": "2026-01-02"}
