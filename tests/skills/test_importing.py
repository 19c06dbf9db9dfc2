"""Scripts of skills as modules, in this process and in a real IPython."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_agent.policy import PolicyContext, judge
from jupyter_agent.skills import importing
from jupyter_agent.skills.discovery import Place

Write = Callable[..., Path]
SCRIPT = "from . import other\n\ndef f():\n    return other.VALUE\n"


def test_a_script_is_imported(
    root: Path, write: Write, trusted: Callable[[], None], importable: importing.SkillFinder
) -> None:
    """A trusted skill's scripts are modules that import each other, and leave no caches."""
    files = {"scripts/read.py": SCRIPT, "scripts/other.py": "VALUE = 1\n", "root.py": "X = 2\n"}
    folder = write(root / ".agents/skills", "3d-pdf", **files)
    with pytest.raises(ImportError, match="not trusted"):
        importlib.import_module("jupyter_agent_skills._3d_pdf.read")
    trusted()
    assert importlib.import_module("jupyter_agent_skills._3d_pdf.read").f() == 1
    assert importlib.import_module("jupyter_agent_skills._3d_pdf.root").X == 2
    assert importlib.import_module("jupyter_agent_skills._3d_pdf.scripts.other").VALUE == 1
    module = importlib.import_module("jupyter_agent_skills")
    assert module.path("3d-pdf/scripts/read.py") == str(folder / "scripts/read.py")
    assert module.path("skill:3d-pdf") == str(folder)
    with pytest.raises(FileNotFoundError, match="has no file"):
        module.path("3d-pdf/../../../x")
    with pytest.raises(FileNotFoundError, match="There is no skill"):
        module.path("nope/x")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jupyter_agent_skills.nope")
    assert not list(root.rglob("__pycache__"))


def test_compiled_files_are_not_believed(
    root: Path, write: Write, trusted: Callable[[], None], importable: importing.SkillFinder
) -> None:
    """A planted compiled file, which the digest does not cover, is ignored: the source runs."""
    folder = write(root / ".agents/skills", "own", **{"scripts/a.py": "VALUE = 'evil'\n"})
    source = folder / "scripts/a.py"
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert list(root.rglob("*.pyc"))
    source.write_text("VALUE = 'good'\n")
    trusted()
    assert importlib.import_module("jupyter_agent_skills.own.a").VALUE == "good"


def test_a_link_or_a_change_is_not_imported(
    root: Path, write: Write, trusted: Callable[[], None], importable: importing.SkillFinder
) -> None:
    """A script that leads out of the skill, or came after it was trusted, is not run."""
    (root / "evil.py").write_text("raise SystemExit\n")
    folder = write(root / ".agents/skills", "own", **{"scripts/a.py": "VALUE = 1\n"})
    (folder / "scripts/linked.py").symlink_to(root / "evil.py")
    trusted()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jupyter_agent_skills.own.linked")
    (folder / "scripts/late.py").write_text("raise SystemExit\n")
    with pytest.raises(ImportError, match="has changed"):
        importlib.import_module("jupyter_agent_skills.own.late")


def test_shell_lines_find_the_script(
    root: Path,
    write: Write,
    trusted: Callable[[], None],
    importable: importing.SkillFinder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The form that a shell command of a skill is rewritten to works in an IPython cell."""
    # Some systems have no `python` but that of a virtual environment.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    write(root / ".agents/skills", "own", **{"scripts/a.py": "print('it ran')\n"})
    trusted()
    shell = InteractiveShell.instance()
    try:
        shell.run_cell(
            'import jupyter_agent_skills\n!python {jupyter_agent_skills.path("own/scripts/a.py")}'
        ).raise_error()
    finally:
        InteractiveShell.clear_instance()
    assert "it ran" in capfd.readouterr().out


def test_approvals_do_not_ask(tmp_path: Path) -> None:
    """Importing a skill's script and reading its files needs no answer."""
    code = (
        "from jupyter_agent_skills.exploring_tables import overview\n"
        "import jupyter_agent_skills\nprint(overview.summary(df))\n"
        'open(jupyter_agent_skills.path("a/references/x.md")).read()\n'
    )
    around = PolicyContext(tmp_path, tmp_path)
    assert (
        judge("execute_code", "executes", {"code": code}, "ask_risky", around).decision == "allow"
    )


def test_installing_twice(where: list[Place], importable: importing.SkillFinder) -> None:
    """A second session replaces the finder, and removing it leaves nothing."""
    before = len(sys.meta_path)
    importing.install(importable.catalogue)
    assert len(sys.meta_path) == before
    importing.uninstall()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("jupyter_agent_skills")
