"""`jupyter agent demo`: the quickstart in a real kernel, without a key and without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
DUMMY = "dummy-" + "for-tests"
CLOSED = "http://127.0.0.1:9"
# Whatever is configured, and however the network is reached: nothing answers there.
NO_NETWORK = {
    "ANTHROPIC_API_KEY": DUMMY,
    "ANTHROPIC_BASE_URL": CLOSED,
    "OPENAI_API_KEY": DUMMY,
    "OPENAI_BASE_URL": f"{CLOSED}/v1",
    "HTTP_PROXY": CLOSED,
    "HTTPS_PROXY": CLOSED,
    "ALL_PROXY": CLOSED,
    "NO_PROXY": "",
}

pytestmark = pytest.mark.timeout(200)


def run(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER_AGENT_")}
    kept |= {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "jupyter")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "jupyter_agent.cli", *arguments],
        cwd=home,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=150,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def demo(home: Path) -> subprocess.CompletedProcess[str]:
    """One run of the demonstration, where no server can be reached."""
    return run("demo", "--to", str(home / "there"), home=home, **NO_NETWORK)


def test_it_succeeds_quietly(demo: subprocess.CompletedProcess[str]) -> None:
    """The demo ends with exit code 0 and no traceback."""
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
    assert "Traceback" not in demo.stdout + demo.stderr


def test_it_says_what_it_is(demo: subprocess.CompletedProcess[str]) -> None:
    """The demo says that replies are replayed, their source, and how to run it live."""
    assert "replayed" in demo.stdout
    assert "scripted by hand" in demo.stdout or "recorded from" in demo.stdout
    assert "ANTHROPIC_API_KEY" in demo.stdout
    assert "jupyter lab" in demo.stdout


def test_it_shows_the_work(demo: subprocess.CompletedProcess[str]) -> None:
    """Cells, steps and the answer are on the terminal, without control characters."""
    assert "%%agent" in demo.stdout
    assert "execute_code" in demo.stdout
    assert "Gentoo penguins are the heaviest" in demo.stdout
    assert "\x1b" not in demo.stdout


def test_it_leaves_an_executed_notebook(demo: subprocess.CompletedProcess[str], home: Path) -> None:
    """In the written notebook each code cell was run, none failed, and transcripts are saved."""
    notebook = nbformat.read(home / "there" / "01_quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    numbers = [cell.execution_count for cell in cells]
    assert numbers == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert "error" not in kinds
    asked = [cell for cell in cells if cell.source.startswith("%%agent")]
    assert asked
    assert all("text/html" in cell.outputs[0].data for cell in asked)


def test_it_leaves_the_report(demo: subprocess.CompletedProcess[str], home: Path) -> None:
    """The agent's report is a real file."""
    report = home / "there" / "output" / "report.md"
    assert report.read_text(encoding="utf-8").startswith("# Penguins by mass")


def test_it_logs_the_turns(demo: subprocess.CompletedProcess[str], home: Path) -> None:
    """Each turn has a run log, whose source is the cassette."""
    logs = sorted((home / "there" / ".jupyter_agent" / "logs").glob("agent_run_*.jsonl"))
    started = [json.loads(log.read_text(encoding="utf-8").split("\n")[0]) for log in logs]
    assert len(started) == 2
    assert {line["provider"] for line in started} == {"replay"}


def test_it_leaves_the_checkout_alone(demo: subprocess.CompletedProcess[str], home: Path) -> None:
    """Only the named folder is written to."""
    assert {path.name for path in home.iterdir()} <= {
        "there",
        "jupyter",
        ".ipython",
        ".cache",
        ".config",
        ".local",
        ".matplotlib",
    }


@pytest.mark.deep
def test_a_second_run_in_the_same_folder(
    demo: subprocess.CompletedProcess[str], home: Path
) -> None:
    """A second run works, whatever the mode in the environment."""
    again = run(
        "demo", "--to", str(home / "there"), home=home, JUPYTER_AGENT_MODE="live", **NO_NETWORK
    )
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-3000:]


def test_a_file_in_the_place_of_the_folder(home: Path) -> None:
    """A file in place of the folder is one line and an exit code, without a traceback."""
    (home / "there.txt").write_text("x", encoding="utf-8")
    failed = run("demo", "--to", str(home / "there.txt"), home=home)
    (home / "there.txt").unlink()
    assert failed.returncode != 0
    assert "Traceback" not in failed.stderr


def test_help(home: Path) -> None:
    """The help lists the commands, and --version shows the version."""
    assert "demo" in run("--help", home=home).stdout
    assert run("--version", home=home).stdout.startswith("jupyter-agent, version ")


def test_live(home: Path) -> None:
    """With `--live` the configured provider is asked, and the output mentions no replay."""
    script = ROOT / "example_notebooks" / "scripts" / "01_quickstart.yaml"
    settings = {"JUPYTER_AGENT_PROVIDER": "scripted", "JUPYTER_AGENT_SCRIPT": str(script)}
    ran = run("demo", "--live", "--to", str(home / "live"), home=home, **settings)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "with the configured model" in ran.stdout
    assert "replayed" not in ran.stdout
    assert "Gentoo penguins are the heaviest" in ran.stdout
