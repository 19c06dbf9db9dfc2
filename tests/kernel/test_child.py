"""Code in a child process: what it gets and gives, what it may do, how it ends. Real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import psutil
import pyarrow as pa
import pytest
import pytest_asyncio
from live_kernel import LiveKernel

from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.child import ChildKernel
from jupyter_agent.kernel.execute import Execution
from jupyter_agent.kernel.interrupts import Interrupts

pytestmark = pytest.mark.asyncio(loop_scope="module")
PREFIX = "jupyter_agent-child-"
SALES = pd.DataFrame(
    {"n": [1, 2, 3], "when": pd.date_range("2024", periods=3, tz="Europe/Berlin")},
    index=pd.Index(list("abc"), name="shop"),
)
INPUTS: dict[str, Any] = {
    "sales": SALES,
    "table": pa.table({"a": [1, 2]}),
    "frame": pl.DataFrame({"a": [1, 2]}),
    "matrix": np.arange(6.0).reshape(2, 3),
    "options": {"limit": 3},
}


def folders() -> set[Path]:
    """The folders of children of this process."""
    return set(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def text(execution: Execution, kind: str = "stdout") -> str:
    return "".join(o.data["text/plain"] for o in execution.outputs if o.kind == kind)


@asynccontextmanager
async def a_child(folder: Path, interrupts: Interrupts | None = None) -> AsyncIterator[ChildKernel]:
    """A child of its own, and afterwards a look that nothing of it is left."""
    before, running = folders(), {each.pid for each in children()}
    child = ChildKernel(folder, interrupts or Interrupts(), startup_timeout=120)
    try:
        await child.start({})
        yield child
    finally:
        await child.close()
    assert folders() == before
    assert {each.pid for each in children()} <= running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def child(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChildKernel]:
    """A child with inputs. Its environment has keys that it must not get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-of-the-person-1234567890")
        patch.setenv("DATABASE", "postgres://me:hunter2222@db.example/it")
        patch.setenv("SEASON", "summer")
        startup = tmp_path_factory.mktemp("startup") / "startup.py"
        startup.write_text("from_startup = 1\n")
        patch.setenv("PYTHONSTARTUP", str(startup))
        child = ChildKernel(tmp_path_factory.mktemp("work"), Interrupts(), startup_timeout=120)
        assert await child.start(INPUTS) == tuple(INPUTS)
    yield child
    await child.close()
    assert not folders()


# Values ------------------------------------------------------------------------------------------


async def test_values_go_there_and_back(child: ChildKernel) -> None:
    """Inputs arrive equal; changes stay there; results come back by name, others with a reason."""
    ran = await child.run(
        "sales.loc['a', 'n'] = 100\nmatrix[0, 0] = 9\ntotals = sales.n.sum()\n"
        "import pyarrow as pa\nwider = table.append_column('b', pa.array([3, 4]))\n"
        "def helper(): pass\nclass Own: pass\nown = [Own()]\nlines = (i for i in 'ab')\n"
        "matrix.sum(), options, type(frame).__module__"
    )
    assert ran.state == "done", ran.error
    assert text(ran, "result") == "(np.float64(24.0), {'limit': 3}, 'polars.dataframe.frame')"
    assert (SALES.n.tolist(), INPUTS["matrix"][0, 0]) == ([1, 2, 3], 0)
    assert await child.names() == ("totals", "wider", "helper", "Own", "own", "lines")

    fetched = await child.fetch(["sales", "totals", "wider", "helper", "own", "lines", "nothing"])
    expected = SALES.assign(n=[100, 2, 3])
    pd.testing.assert_frame_equal(fetched.values["sales"], expected)  # type: ignore[arg-type]
    assert fetched.values["totals"] == 105
    assert fetched.values["wider"] == pa.table({"a": [1, 2], "b": [3, 4]})
    assert list(fetched.failed) == ["helper", "own", "lines", "nothing"]
    assert "the function helper, which only exists where" in fetched.failed["helper"]
    assert "the class Own, which only exists where" in fetched.failed["own"]
    assert fetched.failed["nothing"] == "there is no such variable"
    (place,) = folders()
    assert len(list(place.glob("value_*"))) == len(list(place.glob("value_[1-5]*")))


async def test_a_value_that_would_act_here_is_refused(child: ChildKernel, tmp_path: Path) -> None:
    """A value whose reading calls os.system, or hangs in the child, does neither here."""
    made = tmp_path / "made"
    await child.run(
        "import os\nclass Trap:\n"
        f"    def __reduce__(self): return os.system, ('touch {made}',)\n"
        "class Broken:\n    def __reduce__(self): raise SystemExit('no')\n"
        "trap, broken, fine = Trap(), Broken(), 1"
    )
    fetched = await child.fetch(["trap", "broken", "fine"])
    assert (dict(fetched.values), made.exists()) == ({"fine": 1}, False)
    assert "system, which must not run here" in fetched.failed["trap"]
    assert fetched.failed["broken"] == "SystemExit: no"


async def test_inputs_that_cannot_go_are_named(tmp_path: Path) -> None:
    """Two inputs of three cannot be handed over: both are named, and no process is left."""
    running, before = {each.pid for each in children()}, folders()
    child = ChildKernel(tmp_path, Interrupts())
    with pytest.raises(ToolError) as told:
        await child.start({"lock": threading.Lock(), "fine": 1, "items": iter(()).__iter__})
    assert str(told.value).count("\n") == 0
    assert "`lock`: " in str(told.value) and "`fine`" not in str(told.value)
    assert (folders(), {each.pid for each in children()}) == (before, running)
    with pytest.raises(ToolError, match="only be started once"):
        await child.start({})
    with pytest.raises(ToolError, match="has ended"):
        await child.run("1")


async def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """The working folder does not exist: one line says so, and nothing is left."""
    before = folders()
    with pytest.raises(ToolError, match=r"cannot be started \(No such file"):
        await ChildKernel(tmp_path / "gone", Interrupts()).start({})
    assert folders() == before


# What its code does ------------------------------------------------------------------------------


async def test_outputs_are_those_of_the_live_kernel(child: ChildKernel) -> None:
    """Streams, displays, errors with their frames, and hints, as from code in the live kernel."""
    ran = await child.run(
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\ndisplay('three')\n'four'"
    )
    assert [o.kind for o in ran.outputs] == ["stdout", "stderr", "display", "result"]
    assert set(ran.described) <= {id(output) for output in ran.outputs} and ran.described
    failed = await child.run("def halve(x):\n    return x / 0\nhalve(1)")
    assert (failed.state, failed.error_name) == ("failed", "ZeroDivisionError")
    assert "line 2, in halve\n    return x / 0\nZeroDivisionError" in failed.error
    assert "sales" in (await child.run("salse")).hint
    awaited = await child.run("import asyncio\nawait asyncio.sleep(0)\nprint('after')")
    assert text(awaited) == "after\n"
    assert "cannot end the kernel" in (await child.run("exit()")).error
    assert text(await child.run("1"), "result") == "1"


async def test_it_asks_nobody(child: ChildKernel) -> None:
    """`input()` fails with a line that says why."""
    ran = await child.run("input('name? ')")
    assert ran.error.splitlines()[-1] == (
        "RuntimeError: input() is not available in the agent's code: nobody could answer."
    )


async def test_a_flood_is_bounded_and_blocks_nothing(child: ChildKernel) -> None:
    """Code prints 40 MB: head and tail are kept, parts are told live, the loop goes on."""
    heard: list[str] = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.02)

    ticking = asyncio.ensure_future(tick())
    began = time.monotonic()
    code = "for n in range(40):\n    print('x' * 1_000_000)\nprint('the end')"
    ran = await child.run(code, printed=heard.append)
    seconds = time.monotonic() - began
    ticking.cancel()
    assert "characters left out" in text(ran) and text(ran).endswith("the end\n")
    assert len(text(ran)) < 101_000
    assert "".join(heard).endswith("the end\n") and sum(map(len, heard)) < 10_001 * len(heard)
    assert ticks > 1 and ticks > seconds * 5


async def test_printed_text_is_told_while_it_runs(child: ChildKernel) -> None:
    """What code prints is told before the code has ended."""
    heard: list[str] = []
    began = asyncio.Event()

    def printed(words: str) -> None:
        heard.append(words)
        began.set()

    code = "import time\nprint('begun')\nwhile not stop.exists(): time.sleep(0.01)\nprint('over')"
    with tempfile.TemporaryDirectory() as folder:
        stop = Path(folder) / "stop"
        ran = await child.run(f"from pathlib import Path\nstop = Path({str(stop)!r})")
        running = asyncio.ensure_future(child.run(code, printed=printed))
        await asyncio.wait_for(began.wait(), 60)
        assert not running.done()
        stop.touch()
        ran = await running
    assert (text(ran), "".join(heard)) == ("begun\nover\n",) * 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("open('new.txt', 'w')", "writing to "),
        ("from pathlib import Path; Path('kept.txt').unlink()", "deleting "),
        ("import os; os.rename('kept.txt', 'other.txt')", "moving "),
        ("import os; os.mkdir('new')", "making the folder "),
        ("import subprocess; subprocess.run(['touch', 'new'])", "running touch new"),
        ("!touch new", "running touch new"),
        ("import os; os.fork()", "starting another process"),
        ("import urllib.request as r; r.urlopen('http://example.com/x')", "connecting to "),
        ("import os; os.kill(os.getppid(), 15)", "sending a signal to process "),
        ("import sqlite3; sqlite3.connect('new.db')", "making the database "),
    ],
)
async def test_side_effects_are_refused(child: ChildKernel, code: str, words: str) -> None:
    """Code that would change something outside of its folder gets one line."""
    await _kept(child)
    ran = await child.run(code)
    assert ran.error_name == "PermissionError"
    last = ran.error.splitlines()[-1]
    assert last.startswith(f"PermissionError: not allowed in a delegate's process: {words}")
    assert text(await child.run("import os; sorted(os.listdir())"), "result") == "['kept.txt']"


async def _kept(child: ChildKernel) -> None:
    """A file in the child's working folder."""
    where = text(await child.run("import os; print(os.getcwd())")).strip()
    (Path(where) / "kept.txt").write_text("kept")


async def test_what_its_code_may_do(child: ChildKernel) -> None:
    """Reading, temporary files, databases in memory, variables, and servers of this machine."""
    await _kept(child)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = await child.run(
            "import os, socket, sqlite3, tempfile\nprint(open('kept.txt').read())\n"
            "with tempfile.NamedTemporaryFile('w') as file: print('made', file=file)\n"
            "with tempfile.TemporaryDirectory() as folder: open(f'{folder}/a', 'w').close()\n"
            "sqlite3.connect(':memory:').execute('select 1')\nos.environ['MINE'] = '1'\n"
            f"socket.create_connection(('localhost', {port})).close()\n"
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])"
        )
    assert (ran.state, text(ran)) == ("done", "kept\n"), ran.error
    assert any("image/png" in o.data for o in ran.outputs)


async def test_its_environment(child: ChildKernel) -> None:
    """Interpreter, paths and variables are those of the parent; keys and startup files are not."""
    ran = await child.run(
        "import json, os, sys, tempfile\n"
        "print(json.dumps([sys.executable, sys.path, os.environ.get('SEASON'), "
        "'OPENAI_API_KEY' in os.environ, 'DATABASE' in os.environ, 'from_startup' in globals(), "
        "tempfile.gettempdir(), 'In' in globals() and len(In), os.environ['IPYTHONDIR']]))"
    )
    executable, paths, season, key, database, startup, temporary, count, ipython = json.loads(
        text(ran)
    )
    (place,) = folders()
    assert (executable, season) == (sys.executable, "summer")
    assert [p for p in sys.path if p] == [p for p in paths if p]
    assert (key, database, startup) == (False, False, False)
    assert (Path(temporary).parent, Path(ipython).parent) == (place, place)
    assert count == 1  # nothing is in the history
    assert not list(place.rglob("history.sqlite"))
    assert place.stat().st_mode & 0o777 == 0o700
    connection = json.loads((place / "connection.json").read_text())
    assert (connection["transport"], bool(connection["key"])) == ("ipc", True)


# Interrupts, time-outs, ends ---------------------------------------------------------------------


async def test_time_outs_leave_it_usable(child: ChildKernel) -> None:
    """Code over its time is interrupted; its variables are still there."""
    before = time.monotonic()
    ran = await child.run("half = 1\nprint('begun')\nwhile True: pass", timeout=0.5)
    assert time.monotonic() - before < 30
    assert (ran.state, ran.error_name, text(ran)) == ("timed_out", "TimeoutError", "begun\n")
    assert ran.error == "The code was interrupted after its time-out of 0.5 s."
    assert text(await child.run("half"), "result") == "1"


async def test_a_loop_that_is_held_is_no_time_out(tmp_path: Path) -> None:
    """Other code holds the event loop for longer than a limit: what the child answered counts."""
    async with a_child(tmp_path) as child:
        running = asyncio.ensure_future(child.run("done = 1", timeout=0.2))
        await asyncio.sleep(0.01)
        time.sleep(3)
        assert (await running).state == "done"
        assert await child.names() == ("done",)


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(99)"])
async def test_cancelling_the_caller_interrupts_the_code(child: ChildKernel, code: str) -> None:
    """The task that waits is cancelled: the code ends, the task is cancelled, the child lives."""
    running = asyncio.ensure_future(child.run(f"print('begun')\n{code}", printed=_Told()))
    await _begun(running)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert text(await child.run("6 * 7"), "result") == "42"


class _Told:
    """Set when something is printed."""

    event = asyncio.Event()

    def __call__(self, words: str) -> None:
        self.event.set()


async def _begun(running: asyncio.Future[Any]) -> None:
    await asyncio.wait(
        {running, asyncio.ensure_future(_Told.event.wait())},
        timeout=60,
        return_when=asyncio.FIRST_COMPLETED,
    )
    _Told.event.clear()
    assert not running.done()


async def test_ctrl_c_interrupts_the_code(tmp_path: Path) -> None:
    """SIGINT while the turn waits for delegates: outputs are kept, and the turn is cancelled."""
    interrupts = Interrupts()
    async with a_child(tmp_path, interrupts) as child:
        ran: list[Execution] = []

        async def delegate() -> None:
            ran.append(await child.run("mine = 1\nprint('begun')\nwhile True: pass", None, _Told()))
            await asyncio.sleep(60)  # the next model call

        async def turn() -> None:
            task = asyncio.current_task()
            assert task is not None
            with interrupts.installed(), interrupts.cancelling(task):
                running = asyncio.ensure_future(delegate())
                await _begun(running)
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.gather(running)

        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(turn())
        assert time.monotonic() - began < 30
        assert [(r.state, r.error, text(r)) for r in ran] == [
            ("interrupted", "Interrupted by the person.", "begun\n")
        ]
        # Of an interrupted turn nothing begins any more.
        assert (await child.run("raise SystemExit")).state == "interrupted"


DEAF = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"


async def test_code_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    """Code that takes no interrupt, after its time-out: its process is killed, which is told."""
    async with a_child(tmp_path) as child:
        ran = await child.run(f"{DEAF}print('begun')\nwhile True: pass", timeout=0.5)
        assert (ran.state, text(ran)) == ("timed_out", "begun\n")
        assert ran.error.endswith("its process was ended, and its variables are gone.")
        with pytest.raises(ToolError, match="was ended, since its code did not stop"):
            await child.run("1")


async def test_cancelling_code_that_does_not_stop(tmp_path: Path) -> None:
    """The same when the caller is cancelled, once or again: it ends, and so does the process."""
    async with a_child(tmp_path) as child:
        code = f"{DEAF}print('begun')\nimport time\nwhile True: time.sleep(1)"
        running = asyncio.ensure_future(child.run(code, printed=_Told()))
        await _begun(running)
        running.cancel()
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os._exit(3)", "ended with exit code 3"),
        ("import ctypes; ctypes.string_at(0)", "was ended by signal 11 (SIGSEGV"),
        ("import signal; signal.raise_signal(9)", "(SIGKILL, as when memory runs out)"),
    ],
)
async def test_a_process_that_dies(tmp_path: Path, code: str, words: str) -> None:
    """The process crashes: the code has failed with one line, and later calls say the same."""
    async with a_child(tmp_path) as child:
        ran = await child.run(f"print('before', flush=True)\nimport time; time.sleep(0.5)\n{code}")
        assert (ran.state, ran.error_name, text(ran)) == ("failed", "ProcessDied", "before\n")
        assert words in ran.error and "\n" not in ran.error
        for call in (child.run("1"), child.names(), child.fetch(["a"])):
            with pytest.raises(ToolError) as told:
                await call
            assert words in str(told.value)


async def test_a_process_that_dies_at_its_start(tmp_path: Path) -> None:
    """An input whose own code ends the process: it is told how, and nothing is left."""
    before = folders()
    with pytest.raises(ToolError, match="ended with exit code 7"):
        await ChildKernel(tmp_path, Interrupts(), startup_timeout=120).start({"deadly": _Deadly()})
    assert folders() == before


class _Deadly:
    """Ends the process that reads it."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return os._exit, (7,)


async def test_closing_ends_what_runs(tmp_path: Path) -> None:
    """`close` while code runs, twice at once: the code has failed, and nothing is left."""
    async with a_child(tmp_path) as child:
        running = asyncio.ensure_future(
            child.run("print('begun')\nwhile True: pass", None, _Told())
        )
        await _begun(running)
        await asyncio.gather(child.close(), child.close())
        assert (await running).state == "failed"
        with pytest.raises(ToolError, match="delegate's process"):
            await child.names()


async def test_ctrl_c_while_inputs_are_copied(tmp_path: Path) -> None:
    """SIGINT reaches an input's own code, which takes long: nothing is started."""
    interrupts, before = Interrupts(), folders()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    with interrupts.installed():
        timer.start()
        with pytest.raises(asyncio.CancelledError):
            await ChildKernel(tmp_path, interrupts).start({"slow": _Slow()})
    assert (interrupts.requested, folders()) == (True, before)


class _Slow:
    """Takes long to be copied."""

    def __reduce__(self) -> str:
        time.sleep(60)
        return ""


async def test_cancelling_a_fetch(child: ChildKernel) -> None:
    """The caller is cancelled while a value's own code takes long: the child lives."""
    await child.run(
        "class Slow:\n    def __reduce__(self):\n        import time; time.sleep(60)\nslow = Slow()"
    )
    fetching = asyncio.ensure_future(child.fetch(["slow"]))
    await asyncio.sleep(0.5)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert "slow" in await child.names()


async def test_cancelling_the_start_leaves_nothing(tmp_path: Path) -> None:
    """The caller is cancelled at several moments of the start: no process and no folder is left."""
    before, running = folders(), {each.pid for each in children()}
    for seconds in (0.0, 0.05, 0.3):
        starting = asyncio.ensure_future(ChildKernel(tmp_path, Interrupts()).start({"a": 1}))
        await asyncio.sleep(seconds)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert (folders(), {each.pid for each in children()}) == (before, running)


async def test_eight_side_by_side(tmp_path: Path) -> None:
    """Eight start, run, give and end together; the next eight take no more open files."""
    counts = []
    for _ in range(2):
        many = [ChildKernel(tmp_path, Interrupts(), startup_timeout=120) for _ in range(8)]
        try:
            await asyncio.gather(*(each.start({"n": n}) for n, each in enumerate(many)))
            await asyncio.gather(*(each.run("m = n * n") for each in many))
            fetched = await asyncio.gather(*(each.fetch(["m"]) for each in many))
            assert [each.values["m"] for each in fetched] == [n * n for n in range(8)]
        finally:
            await asyncio.gather(*(each.close() for each in many))
        counts.append(psutil.Process().num_fds())
    assert counts[1] <= counts[0] + 2


SCRIPT = """
import asyncio, pathlib, sys
from jupyter_agent.kernel.child import ChildKernel
from jupyter_agent.kernel.interrupts import Interrupts

async def main():
    child = ChildKernel(pathlib.Path.cwd(), Interrupts(), startup_timeout=120)
    await child.start({})
    code = "import os, pathlib; print(os.getpid(), pathlib.Path(os.environ['TMPDIR']).parent)"
    await child.run(code, printed=lambda words: print(words, flush=True))
    if sys.argv[1] == "wait":
        await child.run("while True: pass")

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["wait", "leave"])
async def test_it_ends_with_its_parent(tmp_path: Path, end: str) -> None:
    """The parent is killed while code runs, or ends without a word: the child and its folder go."""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCRIPT, end), stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert parent.stdout is not None
    number, place = (await asyncio.wait_for(parent.stdout.readline(), 120)).decode().split()
    if end == "wait":
        assert psutil.pid_exists(int(number))
        parent.kill()
    await parent.wait()
    until = time.monotonic() + 60
    while (psutil.pid_exists(int(number)) or Path(place).exists()) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert not psutil.pid_exists(int(number))
    assert not Path(place).exists()


async def test_in_a_live_kernel(kernel: LiveKernel) -> None:
    """A cell of a real kernel starts a child and hands a value back and forth; Stop ends it."""
    ran = kernel.run(
        "from pathlib import Path\n"
        "from jupyter_agent.kernel.child import ChildKernel\n"
        "from jupyter_agent.kernel.interrupts import Interrupts\n"
        "interrupts = Interrupts()\n"
        "child = ChildKernel(Path.cwd(), interrupts, startup_timeout=120)\n"
        "await child.start({'rows': [1, 2]})\n"
        "await child.run('total = sum(rows)')\n"
        "(await child.fetch(['total'])).values['total']"
    )
    assert ran.result == "3", ran.error
    running = kernel.start(
        "import asyncio\n"
        "async def turn():\n"
        "    code = \"print('begun')\\nwhile True: pass\"\n"
        "    ran.append(await child.run(code, None, lambda words: Path('begun').touch()))\n"
        "ran, task = [], asyncio.ensure_future(turn())\n"
        "with interrupts.installed(), interrupts.cancelling(task):\n"
        "    await asyncio.wait({task})"
    )
    kernel.await_file("begun")
    kernel.interrupt()
    assert running.finish(timeout=60).status == "ok"
    assert kernel.run("ran[0].state, task.cancelled()").result == "('interrupted', True)"
    assert (
        kernel.run("await child.close(); list(child._place.parent.glob(child._place.name))").result
        == "[]"
    )
    assert kernel.run("6 * 7").result == "42"


async def test_stale_folders_go_at_the_next_start(tmp_path: Path) -> None:
    """The folder of a process that is gone is removed by the next start; others' stay."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    temporary = Path(tempfile.gettempdir())
    stale, other = temporary / f"{PREFIX}{gone.pid}-x", temporary / f"{PREFIX}{os.getppid()}-x"
    for each in (stale, other):
        each.mkdir()
        (each / "value_1").write_text("data")
    try:
        async with a_child(tmp_path):
            assert (stale.exists(), other.exists()) == (False, True)
    finally:
        (other / "value_1").unlink()
        other.rmdir()
