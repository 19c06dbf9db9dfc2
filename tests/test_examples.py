"""Every example gives the same bytes again, whoever runs it, and changes nothing in git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "example_notebooks"
NAMES = sorted(path.stem for path in EXAMPLES.glob("[0-9]*.ipynb"))
SOME = ("01_quickstart", "08_mcp", "09_approvals")
"""Those that each tool executes for each commit; `make notebooks` executes all of them."""
PROVIDERS = ("ANTHROPIC_", "OPENAI_", "JUPYTER_AGENT_", "GEMINI_", "MINIMAX_")
MADE = ("output", "scratch", ".jupyter_agent", ".ipynb_checkpoints", "__pycache__")
PICTURES = ("image/png", "image/jpeg")
WORKED_OUT = {"01_quickstart": ["1,300"]}
"""Numbers that an answer worked out by itself, which the quickstart shows to be named."""
PAPERMILL = """
import sys
import papermill
for path in sys.argv[2:]:
    papermill.execute_notebook(
        path, f"{sys.argv[1]}/{path}", kernel_name="python3", progress_bar=False
    )
"""

pytestmark = pytest.mark.timeout(900)
EACH = pytest.mark.parametrize(
    "names",
    [pytest.param(SOME, id="some"), pytest.param(NAMES, id="all", marks=pytest.mark.deep)],
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The examples as a fresh clone has them, in a git repository of their own."""
    folder = tmp_path / "clone"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns(*MADE))
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "examples")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout


def environment(folder: Path) -> dict[str, str]:
    """No keys, no settings of ours, and a home without configuration."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PROVIDERS)}
    for name in [name for name in kept if name.startswith(("PYTEST_", "JPY_"))]:
        del kept[name]
    # Matplotlib's list of fonts takes long to make, and has no bearing on what is shown here.
    fonts = os.environ.get("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))
    return {
        **kept,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
        "MPLCONFIGDIR": fonts,
        "PYTHONPATH": str(ROOT),
    }


def run(folder: Path, *arguments: str) -> str:
    """`python -m ...` in the clone, which has to succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def shown(notebook: Any, pictures: bool = True) -> list[str]:
    """The outputs of each cell as text, without what is known to differ.

    Args:
        notebook: What was executed.
        pictures: Whether pictures count: their bytes are those of the fonts of a machine.
    """
    return [_as_text(c.outputs, pictures) for c in notebook.cells if c.cell_type == "code"]


def _as_text(outputs: Sequence[Any], pictures: bool) -> str:
    found: list[Any] = []
    for output in json.loads(json.dumps(outputs)):
        output.pop("execution_count", None)
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
        if not pictures:
            output["data"] = {k: v for k, v in output.get("data", {}).items() if k not in PICTURES}
        # Where a stream is cut into pieces is a matter of time.
        if found and output["output_type"] == "stream" and found[-1].get("name") == output["name"]:
            found[-1]["text"] += output["text"]
        else:
            found.append(output)
    return json.dumps(found, indent=1, sort_keys=True)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def replayed(folder: Path, name: str) -> Any:
    notebook = read(folder / f"{name}.ipynb")
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=500, kernel_name="python3", resources=resources)
    client.execute(env=environment(folder))
    return notebook


def assert_committed(folder: Path, made: Path, names: Sequence[str]) -> None:
    """What was executed into `made` shows what the notebooks in git show, and git is clean."""
    for name in names:
        expected = shown(read(EXAMPLES / f"{name}.ipynb"), pictures=False)
        assert shown(read(made / f"{name}.ipynb"), pictures=False) == expected, name
    assert git(folder, "status", "--porcelain") == ""


@EACH
def test_by_nbconvert(clone: Path, tmp_path: Path, names: Sequence[str]) -> None:
    """`jupyter nbconvert --execute` runs some of the examples, or all."""
    files = [f"{name}.ipynb" for name in names]
    made = ["--to", "notebook", "--output-dir", str(tmp_path / "made")]
    run(clone, "-m", "jupyter", "nbconvert", "--execute", *made, *files)
    assert_committed(clone, tmp_path / "made", names)


@EACH
def test_by_papermill(clone: Path, tmp_path: Path, names: Sequence[str]) -> None:
    """papermill runs some of the examples, or all."""
    (tmp_path / "made").mkdir()
    run(clone, "-c", PAPERMILL, str(tmp_path / "made"), *[f"{name}.ipynb" for name in names])
    assert_committed(clone, tmp_path / "made", names)


@pytest.mark.deep
def test_by_nbval_side_by_side(clone: Path) -> None:
    """`pytest --nbval -n 2 --dist loadscope`: notebooks side by side do not disturb each other."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    said = run(clone, "-m", "pytest", "--nbval", "-n", "2", "--dist", "loadscope", *options, ".")
    assert " passed" in said and " failed" not in said
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_twice_by_nbclient(name: str, clone: Path) -> None:
    """Two replays in one folder give the bytes of the notebook in git, which stays unchanged."""
    first, second = replayed(clone, name), replayed(clone, name)
    assert shown(first) == shown(second)
    assert shown(first, pictures=False) == shown(read(EXAMPLES / f"{name}.ipynb"), pictures=False)
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", NAMES)
def test_what_a_reader_sees(name: str) -> None:
    """Each notebook names the author of its replies, and shows no unseen number, error or
    path of a machine.
    """
    notebook, cassette = read(EXAMPLES / f"{name}.ipynb"), EXAMPLES / f"{name}.cassette.jsonl"
    source = json.loads(cassette.read_text(encoding="utf-8").partition("\n")[0])["source"]
    assert f"**{source}**" in notebook.cells[0].source
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    facts = [o["metadata"]["jupyter_agent"] for o in outputs if _has_receipt(o)]
    assert len(facts) >= 2
    unseen = [number for f in facts for number in f["receipt"]["ungrounded"]]
    assert unseen == WORKED_OUT.get(name, [])
    text = "".join(shown(notebook, pictures=False)) + cassette.read_text(encoding="utf-8")
    assert not [place for place in ("/home/", "/Users/", "/tmp/", str(ROOT)) if place in text]
    assert (EXAMPLES / f"{name}.ipynb").stat().st_size < 400_000


def _has_receipt(output: Any) -> bool:
    return "receipt" in output.get("metadata", {}).get("jupyter_agent", {})


def test_the_data_are_made_as_stated(tmp_path: Path) -> None:
    """`scripts/make_data.py` makes exactly the shipped bytes."""
    spec = spec_from_file_location("make_data", ROOT / "scripts" / "make_data.py")
    assert spec and spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    for name in ("field_notes", "diabetes"):
        made.write(getattr(made, name)(), tmp_path / f"{name}.csv")
        assert (tmp_path / f"{name}.csv").read_bytes() == (
            EXAMPLES / "data" / f"{name}.csv"
        ).read_bytes()


def test_all_data_have_a_licence() -> None:
    """`data/LICENSE.md` names every file beside it."""
    text = (EXAMPLES / "data" / "LICENSE.md").read_text(encoding="utf-8")
    files = [path.name for path in (EXAMPLES / "data").iterdir() if path.name != "LICENSE.md"]
    assert files and not [name for name in files if f"`{name}`" not in text]
