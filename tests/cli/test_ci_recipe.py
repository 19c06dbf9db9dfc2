"""docs/ci.md followed to the letter in a scratch repository, which is then broken.

One line is replaced, in sight: the package, which the recipe installs from an index, is installed
here already.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.command import ROOT, environment, run
from recorded import CELLS, DOUBLE, Recorded, record

DOC = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
INSTALL = "python -m pip install jupyter-agent-magics nbval"
INSTALLED = "echo 'not installed: it is here already'"
DUMMY = "dummy-" + "for-tests"
# A model that was asked all the same would be asked there, where nothing answers.
KEYS = {"OPENAI_API_KEY": DUMMY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}

pytestmark = pytest.mark.timeout(400)


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language in the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)


def shell_recipe() -> str:
    (_, script) = blocks("bash")
    assert script.count(INSTALL) == 1
    return str(script).replace(INSTALL, INSTALLED)


def commit(folder: Path) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "as it is"], check=True)


def follow(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a CI machine does with a script."""
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=environment(folder.parent, **KEYS, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A repository as the page wants it: recorded, prepared by `init`, committed."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    book = record(folder)
    said = run("init", folder=folder, home=home)
    assert said.returncode == 0, said.stderr
    commit(folder)
    return book


@pytest.fixture
def book(original: Recorded, tmp_path: Path) -> Recorded:
    """A clone of it to break."""
    folder = tmp_path / "clone"
    shutil.copytree(original.path.parent, folder)
    return Recorded(folder / original.path.name)


def test_the_recipe_passes(book: Recorded) -> None:
    """The shell recipe passes even with a key set; GitHub's workflow has the same commands."""
    said = follow(shell_recipe(), book.path.parent)
    assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-3000:]
    assert "1 replayed: 0 errors, 0 warnings." in said.stdout
    assert "6 passed" in said.stdout
    _, scripts = _workflow(book)
    shell = blocks("bash")[1]
    for line in (scripts[0].splitlines()[-1], *scripts[1:]):
        assert line.strip().replace(" --format github", "") in shell, line


@pytest.mark.deep
def test_the_workflow_passes(book: Recorded) -> None:
    """GitHub's workflow passes twice in the same clone, even with a key set."""
    workflow, scripts = _workflow(book)
    assert scripts[0].count(INSTALL) == 1
    scripts[0] = scripts[0].replace(INSTALL, INSTALLED)
    for script in scripts * 2:
        said = follow(script, book.path.parent, **workflow["env"])
        assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-3000:]


def _workflow(book: Recorded) -> tuple[Any, list[str]]:
    """What `init` wrote, which is what the page shows, and its four scripts."""
    written = book.path.parent / ".github" / "workflows" / "notebooks.yml"
    text = written.read_text(encoding="utf-8")
    assert text == blocks("yaml")[0], "the page and `init` differ"
    workflow = yaml.safe_load(text)
    scripts = [step["run"] for step in workflow["jobs"]["validate"]["steps"] if "run" in step]
    assert len(scripts) == 4
    return workflow, scripts


def test_gitlabs_file_says_the_same() -> None:
    """GitLab's script has the shell's commands, except for the report that GitLab shows."""
    (_, text) = blocks("yaml")
    job = yaml.safe_load(text)["notebooks"]
    shell = blocks("bash")[1].splitlines()
    install, check, nbval, status = job["script"]
    assert job["variables"] == {
        "JUPYTER_AGENT_MODE": "replay",
        "JUPYTER_AGENT_TRUST": "workspace",
    }
    assert install in shell
    assert check.replace(" --format junit --output check.xml", "") in shell
    assert nbval in shell
    assert status.replace(" -- . ':!check.xml'", "") in shell


def test_the_commands_of_the_page() -> None:
    """Every option of `check` is on the page, and every one on the page exists."""
    from jupyter_agent.cli.check import check

    options = {word for option in check.params for word in option.opts if word.startswith("--")}
    options |= {word for option in check.params for word in option.secondary_opts}
    usage = DOC.partition("## What `check` says")[2]
    named = set(re.findall(r"--[a-z][a-z-]*", usage.partition("## When it fails")[0]))
    assert named <= options
    assert options - {"--replay"} <= named


def _edited_task(book: Recorded) -> None:
    book.edit(CELLS[DOUBLE], "%%agent\nDouble x, please.")


def _conflict(book: Recorded) -> None:
    book.cassette.write_text("<<<<<<< HEAD\n" + book.cassette.read_text(encoding="utf-8"))


def _edited_answer(book: Recorded) -> None:
    book.say(0, "It is 43.")


def _edited_cassette(book: Recorded) -> None:
    text = book.cassette.read_text(encoding="utf-8")
    assert "It is 42." in text
    book.cassette.write_text(text.replace("It is 42.", "It is 43."), encoding="utf-8")


def _other_output(book: Recorded) -> None:
    notebook = book.read()
    notebook.cells[3].outputs[0].data["text/plain"] = "41"
    book.save(notebook)


def _leftover(book: Recorded) -> None:
    notebook = book.read()
    notebook.cells[0].source = "x = 21\nfile = open('left.txt', 'w')\nfile.close()"
    book.save(notebook)


BREAKS: dict[str, tuple[Callable[[Recorded], None], str]] = {
    "a task was edited": (_edited_task, "not replayed (because of: not-recorded)"),
    "a merge conflict in the cassette": (_conflict, "its first line is not a cassette header"),
    "an answer was edited": (_edited_cassette, "this turn is not as it was recorded"),
    "an answer is another": (_edited_answer, "43"),
    "an ordinary output is another": (_other_output, "1 failed"),
    "a file is left behind": (_leftover, "?? left.txt"),
}


# One for each tool of the recipe; what `check` finds has tests of its own.
STAGES = ("a task was edited", "an ordinary output is another")


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=[] if what in STAGES else [pytest.mark.deep]) for what in BREAKS],
)
@pytest.mark.deep
def test_it_fails_where_something_is_broken(book: Recorded, what: str) -> None:
    """Each way to break the repository fails the recipe with the words that name it."""
    change, words = BREAKS[what]
    change(book)
    commit(book.path.parent)
    said = follow(shell_recipe(), book.path.parent)
    assert said.returncode != 0
    assert words in said.stdout + said.stderr
