"""Side effects of the agent's code in a real kernel: they are judged when they happen.

The person's module `tools` does what the code asks of it: no look at the code's text shows that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel, Turn, execute_code

ASKS = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}
TOOLS = """
import asyncio, os, shutil, socket, subprocess, threading, urllib.request, webbrowser
def remove(path): os.remove(path)
def clear(path): shutil.rmtree(path, ignore_errors=True)
def write(path, mode="w"):
    with open(path, mode) as file: file.write("x")
def move(path, to): os.rename(path, to)
def run(*words): return subprocess.run(words, capture_output=True, text=True).stdout
def fetch(host): return urllib.request.urlopen(f"http://{host}/a.csv", timeout=2).read()
def connect(host): return socket.create_connection((host, 80), timeout=2)
def set_variable(name): os.environ[name] = "x"
def browse(address): return webbrowser.GenericBrowser("true").open(address)
def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        return socket.gethostbyname("localhost")
def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()
def later(seconds, function, *arguments):
    threading.Timer(seconds, function, arguments).start()
async def in_task(function, *arguments):
    async def call(): function(*arguments)
    await asyncio.create_task(call())
"""
HAPPENS = "tools.remove('data.csv')"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel"), ASKS) as kernel:
        yield kernel


@pytest.fixture
def desk(module_kernel: LiveKernel, tmp_path: Path) -> LiveKernel:
    """A kernel in a folder with a table, a folder and the person's module."""
    (tmp_path / "data.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / ("x" * 120)).write_text("mine", encoding="utf-8")
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "a.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    module_kernel.begin_anew(tmp_path)
    module_kernel.helper(
        "%agent config display static",
        "import sys",
        "sys.modules.pop('tools', None)",
        f"sys.path.insert(0, {str(tmp_path)!r})",
        "import tools",
        "LONG = 'x' * 120",
    )
    return module_kernel


def asked(desk: LiveKernel, code: str, *answers: str, fresh: bool = True) -> tuple[Turn, list[str]]:
    """A turn before a person who gives these answers; with the questions."""
    task = f"Ask {len(desk.logs()) + 1}"
    desk.script(task, execute_code(code), {"text": "Done."})
    logs, questions = desk.logs(), []
    first = "%%agent --fresh" if fresh else "%%agent"
    running = desk.start(f"{first}\n{task}", allow_stdin=True)
    for answer in answers:
        questions.append(running.question(60))
        running.type(answer)
    return desk.turn(running.finish(60), logs), questions


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("tools.remove('data.csv')", "deletes data.csv"),
        ("tools.clear('plots')", "deletes plots"),
        ("tools.write('data.csv')", "writes over data.csv"),
        ("tools.write('data.csv', 'a')", "writes over data.csv"),
        ("tools.write(LONG)", "writes over xxx"),
        ("tools.move('data.csv', 'gone.csv')", "moves data.csv to gone.csv"),
        ("tools.write('/etc/agent.txt')", "writes outside the workspace: /etc/agent.txt"),
        ("tools.write('.jupyter_agent/config.yaml')", "which steers the agent itself"),
        ("tools.run('id', '-u')", "runs id -u"),
        ("tools.run('pip', 'install', 'x')", "installs packages: pip install x"),
        ("tools.fetch('data.example')", "connects to http://data.example/a.csv"),
        ("tools.connect('data.example')", "connects to data.example"),
        ("tools.set_variable('HTTPS_PROXY')", "steers other programs: HTTPS_PROXY"),
        ("tools.browse('http://data.example')", "opens in your browser: http://data.example"),
        ("tools.in_thread(tools.remove, 'data.csv')", "deletes data.csv"),
        ("await tools.in_task(tools.remove, 'data.csv')", "deletes data.csv"),
        ("import asyncio; await asyncio.to_thread(tools.remove, 'data.csv')", "deletes data.csv"),
    ],
)
def test_where_nobody_is(desk: LiveKernel, tmp_path: Path, code: str, what: str) -> None:
    """Each kind of side effect is refused and told, and did not happen."""
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}
    turn = desk.agent(code)
    assert what in turn.result.text
    assert "nobody can be asked here" in turn.result.text
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")} == before
    assert (tmp_path / "plots" / "a.svg").exists()
    (decided,) = [event for event in turn.events if event["type"] == "effect_decided"]
    assert (decided["answer"], decided["by"]) == ("no", "nobody")


def test_a_refusal_that_the_code_swallows(desk: LiveKernel) -> None:
    """The model is told what did not happen, also where the code goes on and claims success."""
    code = "try:\n    tools.remove('data.csv')\nexcept OSError:\n    pass\nprint('All removed.')"
    turn = desk.agent(code)
    assert not turn.result.is_error
    assert "This did not happen, since it was refused: deletes data.csv." in turn.result.text
    assert "deletes data.csv (refused: nobody could be asked)" in turn.cell.transcript


def test_yes_and_no(desk: LiveKernel, tmp_path: Path) -> None:
    """The front end's input line asks while the code runs; it goes on, or gets an error."""
    turn, (question,) = asked(desk, "tools.remove('plots/a.svg')\nprint('gone')", "y")
    assert "about to do this: deletes plots/a.svg. Allow it?" in question
    assert turn.result.text == "gone"
    assert "deletes plots/a.svg (allowed by you)" in turn.cell.transcript
    assert not (tmp_path / "plots" / "a.svg").exists()
    turn, _ = asked(desk, HAPPENS, "no: it is the only copy")
    assert "The person said no. They say: it is the only copy" in turn.result.text
    assert (tmp_path / "data.csv").exists()


def test_always_is_for_a_kind_and_a_place(desk: LiveKernel, tmp_path: Path) -> None:
    """Always in one folder asks about no other deletion there, but about one elsewhere."""
    for number in range(3):
        (tmp_path / "plots" / f"{number}.svg").write_text("<svg/>", encoding="utf-8")
    code = "for number in range(3):\n    tools.remove(f'plots/{number}.svg')"
    turn, (question,) = asked(desk, code, "a")
    assert "deletions in plots/" in question
    assert not turn.result.is_error
    turn, (question,) = asked(desk, f"tools.remove('plots/a.svg'); {HAPPENS}", "n", fresh=False)
    assert "deletes data.csv" in question
    assert not (tmp_path / "plots" / "a.svg").exists()


def test_once_is_enough(desk: LiveKernel, tmp_path: Path) -> None:
    """What was allowed before the code ran, and the same thing twice, is not asked again."""
    code = "import os, shutil\nshutil.rmtree('plots')\nprint(os.path.exists('plots'))"
    turn, (question,) = asked(desk, code, "y")
    assert "Run this code?" in question
    assert turn.result.text == "False"
    code = "for attempt in range(3):\n    tools.write('data.csv')"
    turn, questions = asked(desk, code, "y")
    assert len(questions) == 1
    assert not turn.result.is_error
    code = "for attempt in range(3):\n    try: tools.run('id')\n    except OSError: print('no')"
    turn, questions = asked(desk, code, "n")
    assert turn.result.text.startswith("no\nno\nno")


@pytest.mark.parametrize(
    "code",
    [
        "tools.write('new.txt'); tools.write('new.txt', 'a'); tools.move('new.txt', 'b.txt')",
        "tools.write('new.txt'); tools.remove('new.txt')",
        "import os; os.makedirs('out/a'); tools.write('out/a/b.txt'); tools.clear('out')",
        "import sqlite3; sqlite3.connect('own.db').close(); tools.remove('own.db')",
        "import tempfile\nwith tempfile.TemporaryDirectory() as d: tools.write(d + '/x')",
        "import os; os.makedirs('a/b'); tools.write('a/b/c.txt')",
        "import os; tools.write(os.devnull)",
        "tools.loopback()",
        "tools.set_variable('OMP_NUM_THREADS')",
        "import concurrent.futures as c\n"
        "with c.ThreadPoolExecutor() as p: p.submit(len, []).result()",
        "import multiprocessing as m\np = m.get_context('fork').Process(target=len, args=([],)); "
        "p.start(); p.join()",
        "import sqlite3; sqlite3.connect('own.db').execute('create table t(a)')",
        "import platform, os; platform.platform(); os.cpu_count()",
    ],
)
def test_harmless(desk: LiveKernel, code: str) -> None:
    """Own and temporary files, loopback, pools and probes of the machine need no question."""
    turn = desk.agent(code)
    assert not turn.result.is_error, turn.result.text
    assert not [event for event in turn.events if event["type"] == "effect_decided"]


def test_the_persons_own_cells(desk: LiveKernel, tmp_path: Path) -> None:
    """Cells and threads of the person are never stopped, also while the agent's code runs."""
    desk.helper("import threading", "go, done = threading.Event(), threading.Event()")
    desk.helper(
        "def mine():",
        "    go.wait(60)",
        "    tools.write('data.csv')",
        "    done.set()",
        "threading.Thread(target=mine).start()",
    )
    turn = desk.agent("go.set()\nprint(done.wait(60))")
    assert turn.result.text == "True"
    assert (tmp_path / "data.csv").read_text() == "x"
    assert desk.run("tools.run('id')\ntools.remove('data.csv')").status == "ok"


def test_pools(desk: LiveKernel, tmp_path: Path) -> None:
    """A pool works for whoever submits: the agent's calls are judged, the person's are not."""
    desk.helper("from concurrent.futures import ThreadPoolExecutor", "pool = ThreadPoolExecutor(1)")
    desk.helper("pool.submit(len, []).result()")
    assert (
        "deletes data.csv"
        in desk.agent("pool.submit(tools.remove, 'data.csv').result()").result.text
    )
    code = "own = ThreadPoolExecutor(1)\nprint(own.submit(len, []).result())"
    assert desk.agent(code).result.text == "0"
    assert (
        "deletes data.csv"
        in desk.agent("own.submit(tools.remove, 'data.csv').result()").result.text
    )
    assert desk.run("own.submit(tools.remove, 'data.csv').result()").status == "ok"
    assert not (tmp_path / "data.csv").exists()


def test_a_loop_that_the_agent_left(desk: LiveKernel, tmp_path: Path) -> None:
    """The person's calls in an event loop of the agent's thread are the person's."""
    code = (
        "import asyncio, threading\nloop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, daemon=True).start()"
    )
    assert not desk.agent(code).result.is_error
    mine = "async def mine(): tools.remove('data.csv')\n"
    assert desk.run(f"{mine}asyncio.run_coroutine_threadsafe(mine(), loop).result()").status == "ok"
    assert not (tmp_path / "data.csv").exists()


def test_children_may_be_ended(desk: LiveKernel) -> None:
    """Processes that the code started itself are ended without a question."""
    code = (
        "import multiprocessing, time\n"
        "p = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "p.start(); p.terminate(); p.join(); print(p.exitcode)"
    )
    assert desk.agent(code).result.text == "-15"


def test_an_answer_to_an_earlier_question(desk: LiveKernel, tmp_path: Path) -> None:
    """A line that is left on the page from a question before answers no other one."""
    desk.script("Old", execute_code(HAPPENS), {"text": "Done."})
    running = desk.start("%%agent --fresh\nOld", allow_stdin=True)
    running.question(60)
    old = running.asked
    desk.interrupt()
    running.finish(60)
    desk.script("New", execute_code("tools.remove('plots/a.svg')"), {"text": "Done."})
    running = desk.start("%%agent --fresh\nNew", allow_stdin=True)
    running.question(60)
    running.type("y", about=old)
    time.sleep(0.5)
    assert (tmp_path / "plots" / "a.svg").exists()
    running.type("n")
    running.finish(60)
    assert (tmp_path / "plots" / "a.svg").exists()


def test_a_thread_that_still_asks(desk: LiveKernel, tmp_path: Path) -> None:
    """A question ends with its call, and does not take the person's next input."""
    code = (
        "import threading, time\n"
        "threading.Thread(target=tools.remove, args=('data.csv',)).start()\ntime.sleep(1)"
    )
    desk.script("Late", execute_code(code), {"text": "Done."})
    running = desk.start("%%agent --fresh\nLate", allow_stdin=True)
    running.question(60)
    running.finish(60)
    running = desk.start("input('Again? ')", allow_stdin=True)
    assert running.question(60) == "Again? "
    running.type("y")
    assert running.finish(60).result == "'y'"
    assert (tmp_path / "data.csv").exists()


def test_what_outlives_its_call(desk: LiveKernel, tmp_path: Path) -> None:
    """A timer and a task that the code leaves behind are refused later on."""
    code = (
        "import asyncio\n"
        "async def late():\n    await asyncio.sleep(0.3)\n    tools.remove('data.csv')\n"
        "tools.later(0.3, tools.remove, 'data.csv')\n"
        "left = asyncio.create_task(late())"
    )
    desk.agent(code)
    end = time.monotonic() + 30
    while "Refused" not in desk.run("print(left.exception() if left.done() else '')").said:
        assert time.monotonic() < end
    assert (tmp_path / "data.csv").exists()


def test_what_is_written_into_a_folder_of_the_agents_own(desk: LiveKernel, tmp_path: Path) -> None:
    """A folder that the agent made is not removed unasked with a file of the person's in it."""
    desk.agent("import os; os.makedirs('out'); tools.write('out/a.txt')")
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    assert "deletes out" in desk.agent("tools.clear('out')").result.text
    assert (tmp_path / "out" / "mine.txt").exists()


def test_a_forked_process(desk: LiveKernel, tmp_path: Path) -> None:
    """In a process that the code forked nobody can be asked: it is refused there."""
    code = (
        "import multiprocessing\n"
        "p = multiprocessing.get_context('fork').Process(target=tools.remove, args=('data.csv',))\n"
        "p.start(); p.join(); print(p.exitcode)"
    )
    assert "1" in desk.agent(code).result.text
    assert (tmp_path / "data.csv").exists()


def test_interrupted_at_the_question(desk: LiveKernel, tmp_path: Path) -> None:
    """An interrupt in place of an answer ends the code and the turn; nothing happened."""
    task = "Interrupted"
    desk.script(task, execute_code(HAPPENS), {"text": "Done."})
    logs = desk.logs()
    running = desk.start(f"%%agent --fresh\n{task}", allow_stdin=True)
    running.question(60)
    desk.interrupt()
    turn = desk.turn(running.finish(60), logs)
    assert turn.stop_reason == "interrupted"
    assert "This did not happen, since nobody allowed it: deletes data.csv" in turn.result.text
    assert (tmp_path / "data.csv").exists()
    assert desk.run("1 + 1").result == "2"


def test_the_clock_stands_still_at_a_question(desk: LiveKernel) -> None:
    """The time for an answer does not count against the code's own time limit."""
    desk.script(
        "Slow", execute_code({"code": HAPPENS + "\nprint('ok')", "timeout": 2}), {"text": "."}
    )
    logs = desk.logs()
    running = desk.start("%%agent --fresh\nSlow", allow_stdin=True)
    running.question(60)
    time.sleep(3)
    running.type("y")
    assert desk.turn(running.finish(60), logs).result.text == "ok"


def test_settings_that_ask_nothing(desk: LiveKernel, tmp_path: Path) -> None:
    """In mode auto nothing is asked or refused."""
    desk.helper("%agent config approvals.mode auto")
    try:
        assert not desk.agent(HAPPENS).result.is_error
    finally:
        desk.helper("%agent config approvals.mode ask_risky")
    assert not (tmp_path / "data.csv").exists()


def test_decisions_are_recorded(desk: LiveKernel, tmp_path: Path) -> None:
    """A replay refuses what was refused, and asks nobody about what was allowed."""
    desk.helper("%agent cassette tape.jsonl", "%agent config mode record")
    code = (
        "tools.write('data.csv')\ntry:\n    tools.remove('plots/a.svg')\n"
        "except PermissionError as error:\n    print(error)"
    )
    turn, questions = asked(desk, code, "y", "no: keep it")
    assert len(questions) == 2
    (tmp_path / "data.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    desk.helper("%agent config mode replay")
    cell = desk.run(f"%%agent --fresh\n{turn.events[0]['task']}")
    assert "They say: keep it" in cell.transcript
    assert (tmp_path / "plots" / "a.svg").exists()
    assert (tmp_path / "data.csv").read_text() == "x"
    desk.helper("%agent config mode live")


LIBRARIES = """
numpy pandas matplotlib.pyplot sklearn.linear_model sklearn.ensemble scipy.stats scipy.optimize
polars pyarrow.parquet duckdb dask.dataframe dask.distributed xarray PIL.Image joblib sqlalchemy
requests httpx fsspec yaml bs4 lxml.etree jinja2 tqdm.auto networkx statsmodels.api seaborn
plotly.express altair bokeh.plotting numba torch xgboost lightgbm ibis openpyxl h5py tables nltk
spacy geopandas sympy ipywidgets nbformat nbclient papermill tiktoken huggingface_hub psutil
"""


def test_imports_ask_nothing(tmp_path: Path) -> None:
    """Libraries of data work are imported in a home without caches, and nothing is asked."""
    home = tmp_path / "home"
    home.mkdir()
    places = {"HOME": str(home), "MPLCONFIGDIR": None, "XDG_CACHE_HOME": None}
    with LiveKernel(tmp_path, {**ASKS, **places}) as kernel:
        kernel.load()
        lines = [
            f"try:\n    import {name}\nexcept ImportError:\n    pass" for name in LIBRARIES.split()
        ]
        turn = kernel.agent("\n".join(lines), "import sys\nprint('pandas' in sys.modules)")
    assert not [event for event in turn.events if event["type"] == "effect_decided"]
    assert [result.is_error for result in turn.results] == [False, False]
    assert turn.results[1].text == "True"


def decided(turn: Turn) -> list[tuple[str, str, str]]:
    found = [event for event in turn.events if event["type"] == "effect_decided"]
    return [(event["what"], event["answer"], event["by"]) for event in found]


def test_a_stop_at_the_question_is_told(desk: LiveKernel) -> None:
    """The transcript says that a side effect did not happen, since the turn was stopped there."""
    desk.script("Stopped", execute_code(HAPPENS), {"text": "Done."})
    logs = desk.logs()
    running = desk.start("%%agent --fresh\nStopped", allow_stdin=True)
    running.question(60)
    desk.interrupt()
    turn = desk.turn(running.finish(60), logs)
    assert decided(turn) == [("deletes data.csv", "no", "stopped")]
    assert "deletes data.csv (nobody answered: stopped)" in turn.cell.transcript


def test_empty_lines_are_no_answer(desk: LiveKernel, tmp_path: Path) -> None:
    """An empty line is asked again; three of them are told as no answer, not as the person's no."""
    turn, questions = asked(desk, HAPPENS, "", " ", "")
    assert [question.startswith("An empty line is no answer.") for question in questions] == [
        False,
        True,
        True,
    ]
    assert decided(turn) == [("deletes data.csv", "no", "no_answer")]
    assert "Nobody answered the question." in turn.result.text
    assert "person said no" not in turn.result.text
    assert (tmp_path / "data.csv").exists()


def test_other_words_are_a_no_with_a_reason(desk: LiveKernel, tmp_path: Path) -> None:
    """Whoever never writes a yes means no; their words reach the model."""
    turn, _ = asked(desk, HAPPENS, "keep it", "", "please keep it")
    assert decided(turn) == [("deletes data.csv", "no", "person")]
    assert "The person said no. They say: please keep it" in turn.result.text
    assert (tmp_path / "data.csv").exists()


def test_the_line_says_what_will_happen(desk: LiveKernel) -> None:
    """The prompt begins with what will happen and ends with the choices, in plain words."""
    _, (question,) = asked(desk, HAPPENS, "n")
    first, *_, last = question.splitlines()
    assert first == "The agent's code is about to do this: deletes data.csv. Allow it?"
    assert last.startswith("Type y for yes, n for no (or n: and why), a for always in this session")


@pytest.mark.parametrize(
    "code",
    [
        "import contextvars\ncontextvars.Context().run(tools.remove, 'data.csv')",
        "import asyncio, contextvars\nasync def f(): tools.remove('data.csv')\n"
        "await asyncio.get_running_loop().create_task(f(), context=contextvars.Context())",
    ],
)
def test_another_context_hides_nothing(desk: LiveKernel, code: str) -> None:
    """The code calls a function in an empty context, where its mark is missing."""
    text = desk.agent(code).result.text
    assert "PermissionError" in text and "deletes data.csv" in text
    assert (desk.folder / "data.csv").exists()


def test_the_channel_of_the_notebooks_page_is_closed_to_code(desk: LiveKernel) -> None:
    """The code opens the channel by which the tools edit cells, to edit them without a question."""
    code = (
        "import comm\nchannel = comm.create_comm(target_name='jupyter_agent.notebook', data={})\n"
        "channel.send({'t': 'edit'})"
    )
    assert "this channel to the page is for the agent's tools" in desk.agent(code).result.text
