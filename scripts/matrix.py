"""Run the project on each Python and each ipykernel that people have.

    python scripts/matrix.py [--only python | --only ipykernel] [--python PATH ...]
    python scripts/matrix.py --only ipykernel [-n WORKERS] [--versions 6.31 7.4] [TESTS ...]

With each Python, `make demo` and `make test` run in a fresh clone of the last commit. Looked for
are python3.11, python3.12 and python3.13, on PATH and among the versions of pyenv; where there are
several 3.11, the oldest one is taken. One that is not here is named and left out; one that
`--python` names must be here.

With each ipykernel, the magics, the interrupts and the clicks run in a virtual environment with
everything else at the version that `constraints.txt` names.

All of it is under `build/matrix/`, with a log of each run. Prints one line a run; fails where one
of them failed, or where nothing ran.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "matrix"
VERSIONS = ("6.31", "7.3", "7.4")
PYTHONS = ("3.11", "3.12", "3.13")
COMMANDS = ("demo", "test")
TESTS = ("tests/magics", "tests/kernel/test_interrupts.py")
CLICKS = "tests/browser"
NEEDED = (
    *("hypothesis", "jupyterlab", "matplotlib", "pandas", "pexpect", "playwright"),
    *("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist"),
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_SUMMARY = re.compile(r"^=+ (\d.* in [\d.]+s.*?) =+$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def find(minor: str) -> str | None:
    """The path of the oldest interpreter of a minor version; None where there is none.

    Version managers leave a `python3.12` on PATH that only says how to switch it on, so each
    candidate has to answer.
    """
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += [folder / "bin" for folder in sorted(pyenv.glob(f"{minor}.*"))]
    answers = {version_of(str(folder / f"python{minor}")): folder for folder in reversed(folders)}
    known = [version for version in answers if version and version.startswith(f"{minor}.")]
    if not known:
        return None
    oldest = min(known, key=lambda version: [int(n) for n in re.findall(r"\d+", version)])
    return str(answers[oldest] / f"python{minor}")


def version_of(python: str) -> str | None:
    """`3.11.2`, or None where there is no interpreter that answers."""
    code = "import platform; print(platform.python_version())"
    try:
        said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


def run_python(python: str, version: str) -> bool:
    """Run both commands in a clone with one Python and print what came of each."""
    clone = BUILD / f"python-{version}"
    shutil.rmtree(clone, ignore_errors=True)
    clone.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    went = [make(python, version, clone, command) for command in COMMANDS]
    return all(went)


def make(python: str, version: str, clone: Path, command: str) -> bool:
    log = BUILD / f"python-{version}-{command}.log"
    left_out = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            ["make", f"PYTHON={python}", command],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            check=False,
        )
    said = log.read_text(encoding="utf-8", errors="replace")
    told = "well" if done.returncode == 0 else f"failed with exit code {done.returncode}"
    told = "; ".join([told, *_SUMMARY.findall(said)])
    print(f"Python {version}: make {command}: {told} ({log.relative_to(ROOT)})", flush=True)
    for name in _FAILED.findall(said):
        print(f"    {name}", flush=True)
    return done.returncode == 0


def pythons(named: list[str]) -> Iterator[bool]:
    """Run each Python that is named, or each that is here; yields whether it went well."""
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%h %s"]
    subject = subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip()
    print(f"Clones of {subject}; what is not committed is left out.", flush=True)
    for python in named:
        path = shutil.which(python)
        if path is None or (version := version_of(path)) is None:
            print(f"{python}: no Python answers there", flush=True)
            yield False
        else:
            yield run_python(path, version)
    for minor in () if named else PYTHONS:
        found = find(minor)
        if found is None:
            print(f"Python {minor}: skipped, there is no python{minor} here", flush=True)
        else:
            yield run_python(found, str(version_of(found)))


def environment(version: str) -> Path:
    """The interpreter of a virtual environment with that ipykernel."""
    folder = BUILD / f"ipykernel-{version}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run(
        [
            *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("-c", constraints(), "-e", str(ROOT), f"ipykernel=={version}.*", *NEEDED),
        ],
        check=True,
    )
    return python


def constraints() -> Path:
    """`constraints.txt` without the line that this script varies."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    path = BUILD / "constraints.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [line for line in lines if not _is_ipykernel(line)]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path


def _is_ipykernel(line: str) -> bool:
    name = _NAME.match(line)
    return name is not None and name[0] == "ipykernel"


def run(version: str, tests: list[str], workers: int) -> bool:
    """Run the tests on one version and print what came of it."""
    try:
        python = environment(version)
    except subprocess.CalledProcessError as error:
        print(f"ipykernel {version}: could not be installed ({error})", flush=True)
        return False
    report, log = BUILD / f"{version}.xml", BUILD / f"{version}.log"
    report.unlink(missing_ok=True)
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            [
                *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("-n", str(workers), f"--junit-xml={report}", *tests),
            ],
            cwd=ROOT,
            stdout=stream,
            stderr=stream,
            check=False,
        )
    print(f"ipykernel {installed(python)}: {counts(report)} ({log.relative_to(ROOT)})", flush=True)
    for name in failures(report):
        print(f"    {name}", flush=True)
    return done.returncode == 0


def installed(python: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('ipykernel'))"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def counts(report: Path) -> str:
    """`61 passed, 2 failed, 1 skipped`, from pytest's report."""
    if not report.exists():
        return "pytest did not run"
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total, failed, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    parts = [f"{total - failed - errors - skipped} passed", f"{failed + errors} failed"]
    return ", ".join([*parts, *([f"{skipped} skipped"] if skipped else [])])


def failures(report: Path) -> list[str]:
    if not report.exists():
        return []
    cases = ET.parse(report).getroot().iter("testcase")
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def has_browser() -> bool:
    return bool(shutil.which("chromium") or shutil.which("chromium-browser"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "tests", nargs="*", help="on each ipykernel, instead of the magics, interrupts and clicks"
    )
    parser.add_argument("-n", "--workers", type=int, default=2, help="tests at the same time")
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), help="of ipykernel")
    parser.add_argument("--python", action="append", default=[], help="a path; may be repeated")
    parser.add_argument("--only", choices=["python", "ipykernel"], help="leave out the other one")
    options = parser.parse_args()
    good: list[bool] = []
    if options.only != "ipykernel":
        good += pythons(options.python)
    if options.only != "python":
        good += ipykernels(options.versions, options.tests, options.workers)
    return 0 if good and all(good) else 1


def ipykernels(versions: list[str], tests: list[str], workers: int) -> list[bool]:
    """Run the tests on each version; whether each went well."""
    if not tests and not has_browser():
        print("Chromium is not here (on Debian: apt-get install chromium): no clicks.")
    chosen = tests or [*TESTS, *([CLICKS] if has_browser() else [])]
    return [run(version, chosen, workers) for version in versions]


if __name__ == "__main__":
    sys.exit(main())
