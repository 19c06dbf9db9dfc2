"""Run the magics, the interrupts and the clicks on each ipykernel that people have.

    python scripts/matrix.py [-n WORKERS] [--versions 6.31 7.4] [TESTS ...]

Each version gets a virtual environment under `build/matrix/`, with everything else at the version
that `constraints.txt` names. Prints one line a version; fails where one of them failed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "matrix"
VERSIONS = ("6.31", "7.3", "7.4")
TESTS = ("tests/magics", "tests/kernel/test_interrupts.py")
CLICKS = "tests/browser"
NEEDED = (
    *("hypothesis", "jupyterlab", "matplotlib", "pandas", "pexpect", "playwright"),
    *("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist"),
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


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
    parser.add_argument("tests", nargs="*", help="instead of the magics, interrupts and clicks")
    parser.add_argument("-n", "--workers", type=int, default=2, help="tests at the same time")
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), help="of ipykernel")
    options = parser.parse_args()
    tests = options.tests or [*TESTS, *([CLICKS] if has_browser() else [])]
    if not options.tests and not has_browser():
        print("Chromium is not here (on Debian: apt-get install chromium): no clicks.")
    good = [run(version, tests, options.workers) for version in options.versions]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
