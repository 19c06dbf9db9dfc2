"""`jupyter agent record` of code that shows something else each time."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from live_kernel import LiveKernel
from model_server import Call, Json, ModelServer, Reply
from nbclient import NotebookClient
from notebooks.notebooks import agent, environment, script, write

from jupyter_agent.notebooks.one import execute, read
from jupyter_agent.notebooks.outputs import differences
from jupyter_agent.recording.cassette import Cassette, load

pytestmark = pytest.mark.timeout(400)
TOP = "%load_ext jupyter_agent\n%agent cassette v.cassette.jsonl\n%agent config approvals.mode auto"
TAPE = "v.cassette.jsonl"

KINDS = {
    "%%time": "%%time\ny = sum(range(100000))",
    "now": "from datetime import datetime\nprint(datetime.now())",
    "elapsed": "import time\nt = time.perf_counter(); sum(range(10000))\n"
    "elapsed = time.perf_counter() - t\nprint(f'took {elapsed:.6f} s'); elapsed",
    "folder": "import tempfile\nd = tempfile.mkdtemp(); print(d)",
    "random": "import random\nrandom.random()",
    "list of a set": "list({'alpha', 'beta', 'gamma', 'delta'})",
    "uuid": "import uuid\nu = uuid.uuid4(); print(u)",
    "html": "from IPython.display import HTML, display\nimport random\n"
    "display(HTML(f'<b>{random.randint(10, 10**6)}</b>'))",
}
"""What each commit tries."""
MORE_KINDS = {
    "%timeit": "%timeit -n 10 -r 3 sum(range(100))",
    "%timeit by itself": "%timeit sum(range(1000))",
    "%time": "%time x = sum(range(100000))",
    "today": "from datetime import date\nprint('on', date.today())",
    "clock": "import time\nprint(time.strftime('%d %B %Y, %H:%M'))",
    "seconds": "import time\ntime.time()",
    "file": "import tempfile\nf = tempfile.NamedTemporaryFile(delete=False); f.name",
    "array": "import numpy as np\nnp.random.rand(3)",
    "table": "import pandas as pd, numpy as np\n"
    "pd.DataFrame(np.random.randn(3, 2), columns=list('ab'))",
    "set": "print({'alpha', 'beta', 'gamma', 'delta'})",
    "value of a set": "{'alpha', 'beta', 'gamma', 'delta'}",
    "joined set": "print(', '.join({'alpha', 'beta', 'gamma', 'delta'}))",
    "address": "class A: pass\na = A(); print(a, id(a)); a",
    "hash": "hash('alpha')",
    "process": "import os\nos.getpid()",
    "working folder": "import os\nos.getcwd()",
    "token": "import secrets\nsecrets.token_urlsafe(12)",
    "hexadecimal token": "import secrets\nsecrets.token_hex(8)",
    "shuffled": "import random\nl = list(range(8)); random.shuffle(l); l",
    "styled": "import pandas as pd\npd.DataFrame({'a': [1, 2]}).style.highlight_max()",
    "warning": "import warnings, time\nwarnings.warn(f'slow {time.time():.3f}')",
    "traceback": "import random\nraise ValueError(f'bad {random.randint(1000, 99999)}')",
    "drawing": "%config InlineBackend.figure_formats = ['svg']\n"
    "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
    "difference": "from datetime import datetime\n"
    "t = datetime.now(); sum(range(10**6))\ndatetime.now() - t",
}
UNVARIED = {"working folder", "set", "value of a set"}
"""What is the same in each run, or compared without its order."""

Turn = tuple[str, list[dict[str, Any]]]


def turn(task: str, code: str, answer: str = "Done.") -> Turn:
    call = {"name": "execute_code", "arguments": {"code": code}}
    return task, [{"text": "I look.", "calls": [call]}, {"text": answer}]


def notebook(folder: Path, *turns: Turn, before: str = "") -> Path:
    """A notebook with a cell for each turn, and the script of its replies beside the folder."""
    script(folder.parent / "script.yaml", *turns)
    cells = [f"%%agent --fresh\n{task}" for task, _ in turns]
    return write(folder / "v.ipynb", TOP, *([before] if before else []), *cells)


def counting(folder: Path) -> str:
    """A cell that counts in `runs` how often the notebook was executed, by a file elsewhere."""
    return (
        f"from pathlib import Path\ncount = Path({str(folder / 'count')!r})\n"
        "runs = int(count.read_text()) + 1 if count.exists() else 1\n"
        "_ = count.write_text(str(runs))"
    )


def record(folder: Path, *options: str, **environ: str) -> tuple[int, str]:
    """`jupyter agent record v.ipynb`, with what it says in one line."""
    code, said = agent("record", "v.ipynb", *options, cwd=folder, home=folder.parent, **environ)
    return code, " ".join(said.split())


def recorded(folder: Path, *options: str) -> str:
    """Record from the script. Gives what the command says."""
    code, said = record(folder, "--script", str(folder.parent / "script.yaml"), *options)
    assert code == 0, said
    return said


def moved(folder: Path, into: Path) -> Path:
    """The notebook and its cassette alone, in another folder."""
    into.mkdir()
    for name in ("v.ipynb", TAPE):
        shutil.copyfile(folder / name, into / name)
    return into


def nbval(folder: Path, seed: int) -> None:
    """Plain `pytest --nbval`, where nothing is configured, with another order of sets."""
    plain = ("-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "-q", *plain, "v.ipynb"],
        cwd=folder,
        env=environment(folder.parent, PYTHONHASHSEED=str(seed)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def nbclient(folder: Path, seed: int) -> Any:
    """The notebook as plain nbclient executes it."""
    executed = nbformat.read(folder / "v.ipynb", as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(executed, timeout=120, kernel_name="python3", resources=resources)
    asyncio.run(client.async_execute(env=environment(folder.parent, PYTHONHASHSEED=str(seed))))
    return executed


def same_elsewhere(folder: Path, tmp_path: Path, times: int = 2) -> None:
    """nbval passes in another folder, and nbclient gives the same bytes there."""
    elsewhere = moved(folder, tmp_path / "elsewhere")
    for seed in range(times):
        nbval(elsewhere, 70 + seed)
    assert list(differences(read(folder / "v.ipynb"), nbclient(elsewhere, 90))) == []


def tape(folder: Path) -> Cassette:
    return load(folder / TAPE)


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without what the product keeps there of each turn."""
    names = (path for path in folder.rglob("*") if path.is_file())
    kept = (p for p in names if ".jupyter_agent" not in p.parts and "home" not in p.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(kept)}


def shown(folder: Path, cell: int) -> str:
    """The transcript of a cell in the file; the first cell is 1."""
    outputs = read(folder / "v.ipynb").cells[cell - 1].outputs
    return "\n".join(str(o.get("data", {}).get("text/plain", "")) for o in outputs)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own, and an order of sets that is another in each kernel."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    for name in [name for name in os.environ if name.startswith("JUPYTER_AGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the notebook."""
    (tmp_path / "here").mkdir()
    yield tmp_path / "here"


# ---- volatile code -------------------------------------------------------------------------------


def _replays(folder: Path, tmp_path: Path, kinds: Iterable[tuple[str, str]]) -> None:
    turns = [turn(f"Run {name}.", code, f"Done {name}.") for name, code in kinds]
    notebook(folder, *turns)
    said = recorded(folder)
    for number, (task, _) in enumerate(turns, 2):
        is_told = f"varies: cell {number}, step 1:" in said
        assert is_told == (task[4:-1] not in UNVARIED), (task, said)
    assert {each.runs for each in tape(folder).turns} <= {2, 3}  # 3 if a second one was slower
    same_elsewhere(folder, tmp_path)


def test_volatile_code(folder: Path, tmp_path: Path) -> None:
    """Eight kinds of code that shows something else each time: recorded and told, then the same
    under nbval and nbclient, in another folder, with another order of sets."""
    _replays(folder, tmp_path, KINDS.items())


@pytest.mark.deep
@pytest.mark.parametrize("part", range(3))
def test_more_volatile_code(folder: Path, tmp_path: Path, part: int) -> None:
    """Twenty-four further kinds, in three notebooks."""
    _replays(folder, tmp_path, list(MORE_KINDS.items())[part::3])


@pytest.mark.deep
def test_numbers_from_what_varies(folder: Path, tmp_path: Path) -> None:
    """Of an answer's numbers, the receipt marks the one from a varying span, and no other."""
    code = "print(f'took {runs}.25 s')\nprint('42 rows')"
    notebook(folder, turn("Time.", code, "1.25 s for 42 rows."), before=counting(tmp_path))
    recorded(folder)
    transcript = shown(folder, 3)
    assert re.search(r"1\.25[^·\n]*step 1 \(varies\)", transcript), transcript
    assert transcript.count("(varies)") == 1 and "42" in transcript
    same_elsewhere(folder, tmp_path, 1)


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.deep
def test_once(folder: Path, tmp_path: Path) -> None:
    """`--once` runs the code once, says that nothing is known of what varies, and how to learn."""
    notebook(folder, turn("Count.", "runs"), before=counting(tmp_path))
    said = recorded(folder, "--once")
    assert (tmp_path / "count").read_text() == "1"
    assert "three times" not in said and "varies:" not in said
    assert "recorded in one run: what varies is not known" in said
    assert "jupyter agent record v.ipynb --prove" in said
    assert [each.runs for each in tape(folder).turns] == [1]
    assert "1" in shown(folder, 3)


@pytest.mark.deep
def test_three_times(folder: Path, tmp_path: Path) -> None:
    """Without it the code runs three times, which is said beforehand."""
    notebook(folder, turn("Count.", "runs"), before=counting(tmp_path))
    said = recorded(folder)
    assert (tmp_path / "count").read_text() == "3"
    beforehand, _, _ = said.partition("to learn what varies from run")
    assert "its code runs three times" in said.partition("running its code again")[0], beforehand


@pytest.mark.deep
def test_strict(folder: Path, tmp_path: Path) -> None:
    """`--strict` refuses what varies, with its cell and step, and takes what does not."""
    notebook(folder, turn("Steady.", "6 * 7"), turn("Count.", "runs"), before=counting(tmp_path))
    before = files(folder)
    code, said = record(folder, "--script", str(tmp_path / "script.yaml"), "--strict")
    assert code == 1
    assert "it varies from run to run: cell 4, step 1: ⟨1⟩ (set a seed" in said, said
    assert files(folder) == before
    notebook(folder, turn("Steady.", "6 * 7"))
    assert "varies" not in recorded(folder, "--strict").partition("recorded ")[2]


@pytest.mark.deep
def test_prove(folder: Path, tmp_path: Path) -> None:
    """A notebook that a kernel recorded says so when it misses; `--prove` learns, without a model;
    proven again, it keeps what is known."""
    path = notebook(folder, turn("Count.", "runs"), before=counting(tmp_path))
    settings = {"mode": "record", "provider": "scripted", "script": str(tmp_path / "script.yaml")}
    done = execute(path, settings)
    assert not done.error, done.error
    nbformat.write(done.notebook, path)
    assert [each.runs for each in tape(folder).turns] == [1]
    missed = execute(path, {"mode": "replay"})
    assert "It was recorded in a single run" in missed.error and "--prove" in missed.error

    code, said = record(folder, "--prove")
    assert code == 0, said
    assert "its code runs twice" in said and "varies: cell 3, step 1: ⟨1⟩" in said
    assert [each.runs for each in tape(folder).turns] == [2]
    same_elsewhere(folder, tmp_path)
    before = files(folder)
    code, said = record(folder, "--prove", "--strict")
    assert code == 1 and files(folder) == before, said


@pytest.mark.deep
def test_prove_in_an_open_notebook(folder: Path, tmp_path: Path) -> None:
    """`%agent cassette prove` learns without a model what a kernel recorded once, and leaves the
    open notebook's file as it is.
    """
    path = notebook(folder, turn("Count.", "runs"), before=counting(tmp_path))
    code, before = "%%agent --fresh\nCount.", path.read_bytes()
    with LiveKernel(folder, {"JPY_SESSION_NAME": str(path)}) as kernel:
        kernel.load(f"cassette {TAPE}", "config mode record")
        kernel.load("config provider scripted", f'config script "{tmp_path / "script.yaml"}"')
        kernel.helper(counting(tmp_path))
        # The command stands in the notebook, too: executed for itself it proves nothing again.
        book = nbformat.read(path, as_version=4)
        book.cells.append(nbformat.v4.new_code_cell("%agent cassette prove"))
        nbformat.write(book, path)
        before = path.read_bytes()
        recorded = kernel.run(code)
        assert recorded.status == "ok", recorded.error
        assert "1 turn ran only once: %agent cassette prove" in kernel.run("%agent cassette").said
        proved = kernel.run("%agent cassette prove")
        assert proved.status == "ok", proved.error
        assert "1 turn in v.cassette.jsonl" in proved.said
        assert "varies: cell 3, step 1: ⟨1⟩ (set a seed" in proved.said
        assert "the saved outputs of cell 3 are others now" in proved.said
        assert path.read_bytes() == before
        assert [each.runs for each in tape(folder).turns] == [2]
        kernel.helper("%agent config mode replay", "runs = 17")
        replayed = kernel.run(code)
        assert replayed.status == "ok", replayed.error
        assert replayed.transcript == recorded.transcript
        assert "Varies: step 1: ⟨1⟩" in kernel.run("%agent cassette").said


@pytest.mark.deep
def test_what_varies_rarely(folder: Path, tmp_path: Path) -> None:
    """What is the same in two runs by chance shows in the proof, and is learned by further runs."""
    notebook(folder, turn("Count.", "print('row', runs // 3)"), before=counting(tmp_path))
    said = recorded(folder)
    assert "the replay differs: running the code again" in said and "row ⟨0⟩" in said
    assert (tmp_path / "count").read_text(encoding="utf-8") == "5"
    same_elsewhere(folder, tmp_path, 1)


@pytest.mark.deep
def test_a_proof_grows(folder: Path, tmp_path: Path) -> None:
    """A later proof adds what it sees to the spans that are known."""
    code = "print('first', runs // 10)\nprint('second', runs)"
    notebook(folder, turn("Count.", code), before=counting(tmp_path))
    said = recorded(folder)
    assert "second ⟨1⟩" in said and "first 0" not in said.partition("recorded ")[2]
    (tmp_path / "count").write_text("20", encoding="utf-8")
    status, said = record(folder, "--prove")
    assert status == 0 and "first ⟨0⟩" in said and "second ⟨1⟩" in said, said
    assert [each.runs for each in tape(folder).turns] == [3]


@pytest.mark.deep
def test_one_cell_of_several(folder: Path, tmp_path: Path) -> None:
    """What varies is learned of the cell that is recorded again; the other turns stay as they are,
    byte by byte.
    """
    turns = [turn(f"Count to {word}.", "runs") for word in ("one", "two", "three")]
    notebook(folder, *turns, before=counting(tmp_path))
    recorded(folder)
    before = (folder / TAPE).read_text(encoding="utf-8").split("\n\n")
    again = turn("Count to two.", "print('now', runs + 5)", "Counted.")
    script(tmp_path / "script.yaml", again)
    said = recorded(folder, "--cell", "4")
    after = (folder / TAPE).read_text(encoding="utf-8").split("\n\n")
    assert [then == now for then, now in zip(before, after, strict=True)] == [
        True,
        True,
        False,
        True,
    ]
    assert "cell 4, step 1: now ⟨9⟩" in said and "Counted." in shown(folder, 4)
    same_elsewhere(folder, tmp_path, 1)


@pytest.mark.deep
def test_options_that_exclude_each_other(folder: Path) -> None:
    """`--once` excludes `--strict`, and `--prove` takes no options of a recording."""
    notebook(folder, turn("Count.", "1"))
    for options in (("--once", "--strict"), ("--prove", "--once"), ("--prove", "--cell", "2")):
        code, said = record(folder, *options)
        assert code == 2 and "Usage" in said, said


# ---- what cannot be recorded ---------------------------------------------------------------------


def test_a_result_of_another_form(folder: Path, tmp_path: Path) -> None:
    """More lines in the second run are no variation: it fails with cell, step and line, and leaves
    cassette, notebook and folder as they were."""
    (folder / "log.txt").write_text("one\n", encoding="utf-8")
    notebook(folder, turn("Rows.", "print('one row')"), before=counting(tmp_path))
    recorded(folder)
    code = (
        "for n in range(runs): print('row', n)\n"
        "open('log.txt', 'a').write('more\\n'); open('new.txt', 'w').close()"
    )
    (tmp_path / "count").unlink()
    notebook(folder, turn("Rows.", code), before=counting(tmp_path))
    before = files(folder)
    status, said = record(folder, "--script", str(tmp_path / "script.yaml"))
    assert status == 1
    assert "v.ipynb, cell 3, step 1 of 'Rows.': the second run gives a result of another" in said
    assert "'row 1' was added" in said, said
    assert files(folder) == before


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.deep
def test_files_are_put_back(folder: Path, tmp_path: Path) -> None:
    """Each run finds the files of the first: what is appended to has one more line at the end, what
    is deleted was there each time."""
    (folder / "log.txt").write_text("before\n", encoding="utf-8")
    (folder / "old.txt").write_text("old\n", encoding="utf-8")
    code = (
        "import os\nfor name in ('log.txt', 'new.txt'):\n"
        "    with open(name, 'a') as file: file.write('line\\n')\n"
        "    print(name, len(open(name).readlines()))\n"
        "os.remove('old.txt')"
    )
    notebook(folder, turn("Append.", code))
    said = recorded(folder)
    assert "varies" not in said.partition("recorded ")[2]
    assert (folder / "log.txt").read_text(encoding="utf-8") == "before\nline\n"
    assert (folder / "new.txt").read_text(encoding="utf-8") == "line\n"
    assert not (folder / "old.txt").exists()


# ---- calls that name what varies -----------------------------------------------------------------


def _code(source: str) -> Reply:
    return Reply(calls=(Call("execute_code", json.dumps({"code": source})),))


def _model(body: Json) -> Reply:
    """A model that names in its code what an earlier result showed."""
    results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
    said = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in results)
    folders = re.findall(r"/\S*made-\w+", said)
    names = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", said)
    match len(results):
        case 0:
            return _code("import tempfile\nd = tempfile.mkdtemp(prefix='made-')\nprint(d)")
        case 1:
            return _code(
                f"from pathlib import Path\nassert Path({folders[0]!r}).samefile(d)\n"
                f"_ = (Path({folders[0]!r}) / 'a.txt').write_text('kept')\n"
                f"print(sorted(p.name for p in Path(d).iterdir()), {folders[0]!r})"
            )
        case 2:
            return _code("import uuid\njob = uuid.uuid4()\nprint(f'job {job}')")
        case 3:
            return _code(f"print(str(job) == {names[0]!r}, {names[0]!r})")
        case _:
            return Reply(text="All is in place.")


@pytest.mark.deep
def test_calls_that_name_what_varies(folder: Path, tmp_path: Path) -> None:
    """A recorded call that names a folder of `tempfile.mkdtemp()`, or a UUID, runs with that of
    today, and shows the recorded one; the recorded folder is not made."""
    write(folder / "v.ipynb", TOP, "%%agent --fresh\nMake a folder.")
    with ModelServer(_model) as server:
        status, said = record(
            folder,
            *("--provider", "openai", "--model", "m"),
            JUPYTER_AGENT_API_BASE=server.openai_url,
            JUPYTER_AGENT_API_KEY="dummy-" + "key",
        )
        assert status == 0, said
        assert len(server.requests) == 5  # no model is asked twice
        made = re.search(r"/\S*made-\w+", json.dumps(server.bodies[1]))
    assert made is not None
    then = Path(made[0])
    assert (then / "a.txt").read_text(encoding="utf-8") == "kept"
    shutil.rmtree(then)
    transcript = shown(folder, 2)
    assert "['a.txt']" in transcript and f"<tmp>/{then.name}" in transcript
    assert re.search(r"True [0-9a-f]{8}-", transcript), transcript
    same_elsewhere(folder, tmp_path)
    assert not then.exists()


@pytest.mark.deep
def test_servers_are_asked_once(folder: Path, tmp_path: Path) -> None:
    """An MCP server is asked in the first run alone; its results are given, and vary in nothing."""
    program = Path(__file__).parents[1] / "mcp" / "good_server.py"
    starts = tmp_path / "starts"
    line = f'echo started >> "{starts}"; exec "{sys.executable}" "{program}" stdio'
    config = {"mcpServers": {"good": {"command": "sh", "args": ["-c", line]}}}
    (tmp_path / "jupyter").mkdir()
    (tmp_path / "jupyter" / "jupyter_agent_mcp.json").write_text(json.dumps(config))
    calls = [
        {"name": "good__process", "arguments": {}},
        {"name": "good__add", "arguments": {"a": 2, "b": 3}},
    ]
    replies = [{"text": "I ask.", "calls": calls}, {"text": "Asked."}]
    notebook(folder, ("Ask it.", replies), before="%agent config mcp.connect_timeout 30")
    said = recorded(folder)
    assert "varies:" not in said
    assert starts.read_text() == "started\n"
    (tmp_path / "jupyter" / "jupyter_agent_mcp.json").unlink()
    same_elsewhere(folder, tmp_path, 1)
