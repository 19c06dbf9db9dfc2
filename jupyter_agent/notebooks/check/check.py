"""Whether notebooks with turns of the agent are whole: recorded, replayable, fit to be published.

    report = check([Path("notebooks")], Plan())

Each notebook is read first, and its tasks are held against its cassettes. Those that have a
recording for each task are then executed in mode `replay`, and what their agent cells show is
compared with what is saved. Outputs and cassettes are searched for secrets and for traces of the
machine. The notebooks and cassettes are not written, and no model is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from jupyter_agent.errors import AgentError
from jupyter_agent.files.workspace import CASSETTE, cassette_of, cassettes_in
from jupyter_agent.notebooks.check.cassettes import UsedCassettes, given_away
from jupyter_agent.notebooks.check.findings import Checked, CheckReport, Finding
from jupyter_agent.notebooks.check.notebook_scan import (
    CellProblem,
    NotebookScan,
    StripSkills,
    scan_notebook,
)
from jupyter_agent.notebooks.check.replay import replayed
from jupyter_agent.notebooks.check.traces import Machine, Trace, strings, this_machine
from jupyter_agent.notebooks.find import find_files, find_notebooks
from jupyter_agent.session.effective_settings import effective_settings


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to check.

    Attributes:
        replays: Whether to execute the notebooks.
        timeout: Seconds for one cell; None waits.
        jobs: How many notebooks are executed at once.
        allowed: Words that may stand in outputs and cassettes although they look like a machine's.
        done: Told of each notebook, in order, as soon as it is checked.
    """

    replays: bool = True
    timeout: float | None = 600.0
    jobs: int = 1
    allowed: tuple[str, ...] = ()
    done: Callable[[Checked], None] = lambda checked: None


def check(
    paths: Sequence[Path],
    plan: CheckOptions | None = None,
    environ: Mapping[str, str] | None = None,
) -> CheckReport:
    """Check the notebooks that `paths` name, and those in the folders among them.

    Raises:
        ConfigError: A path names no notebook, or there is none.
    """
    plan, environ = plan or CheckOptions(), os.environ if environ is None else environ
    notebooks = find_notebooks(paths)
    scans = [_read(path, environ) for path in notebooks]
    whole = [scan for scan in scans if isinstance(scan, NotebookScan)]
    cassettes = UsedCassettes([*whole, *_neighbours(whole, notebooks, environ)])
    machines: dict[Path, Machine] = {}

    def machine(folder: Path) -> Machine:
        if folder not in machines:
            machines[folder] = this_machine(environ, folder, plan.allowed)
        return machines[folder]

    read = [
        _static(scan, cassettes, machine(scan.path.parent))
        if isinstance(scan, NotebookScan)
        else scan
        for scan in scans
    ]
    done = []
    for checked in _all_replayed(scans, read, plan):
        plan.done(checked)
        done.append(checked)
    return CheckReport(tuple(done), tuple(_unused(paths, cassettes, machine)))


# ---------------------------------------------------------------- reading


def _read(path: Path, environ: Mapping[str, str]) -> NotebookScan | Checked:
    """A notebook; or the report on one that cannot be read."""
    try:
        return scan_notebook(path, _loader(path.parent, environ))
    except AgentError as error:
        finding = Finding("error", "unreadable", " ".join(str(error).split()), "", path)
        return Checked(path, 0, findings=(finding,), unreplayed="it cannot be read")


def _loader(folder: Path, environ: Mapping[str, str]) -> StripSkills:
    """Takes the skills out of tasks as a session in this folder would; finds them at first use."""
    from jupyter_agent.skills.discovery import places
    from jupyter_agent.skills.session import Skills

    found: list[Skills] = []

    def strip_skills(task: str, names: tuple[str, ...]) -> str:
        if not names and not task.lstrip().startswith("/"):
            return task
        if not found:
            place = effective_settings(folder, environ)
            tools = place.settings.settings.tools
            where = places(place.workspace, tools.skills_dir) if tools.enable_skills else ()
            found.append(Skills(where))
        return found[0].by_hand(task, names)[1]

    return strip_skills


def _neighbours(
    scans: Sequence[NotebookScan], known: Sequence[Path], environ: Mapping[str, str]
) -> Iterator[NotebookScan]:
    """Notebooks beside the checked ones, which may share a cassette with them."""
    seen = {os.path.realpath(path) for path in known}
    for folder in dict.fromkeys(scan.path.parent for scan in scans if scan.turns):
        for path in sorted(folder.glob("*.ipynb")):
            scan = None if os.path.realpath(path) in seen else _read(path, environ)
            if isinstance(scan, NotebookScan):
                yield scan


# ---------------------------------------------------------------- without running anything


def _static(scan: NotebookScan, cassettes: UsedCassettes, machine: Machine) -> Checked:
    findings = [
        *(_of_problem(scan, problem) for problem in scan.problems),
        *cassettes.findings(scan, machine),
        *_unnamed(scan),
        *(_given_away(scan, machine) if scan.has_turns else ()),
    ]
    return Checked(scan.path, len(scan.turns), cassettes.facts(scan), tuple(findings))


def _of_problem(scan: NotebookScan, problem: CellProblem) -> Finding:
    line = scan.line(problem.cell)
    message = " ".join(problem.message.split())
    return Finding("error", problem.kind, message, problem.remedy, scan.path, line, problem.cell)


def _unnamed(scan: NotebookScan) -> Iterator[Finding]:
    """Plain nbval tells a kernel nothing of the notebook's name, so all cassettes there answer."""
    own = cassette_of(scan.path)
    if scan.is_named or own not in scan.cassettes or not own.exists():
        return
    if len(cassettes_in(own.parent)) < 2:
        return
    cell = scan.turns[0].cell
    yield Finding(
        "warning",
        "unnamed-cassette",
        f"the cassette {own.name} is found by the notebook's name, which nbval and other runners "
        "do not tell the kernel. Without the name, all cassettes of this folder answer, and a task "
        "that two of them answer differently fails.",
        f"Put this line below %load_ext jupyter_agent: %agent cassette {own.name}",
        scan.path,
        scan.line(cell),
        cell,
    )


def _given_away(scan: NotebookScan, machine: Machine) -> Iterator[Finding]:
    """Secrets in the cells and their outputs, and in the outputs what tells of a machine."""
    for number, cell in enumerate(scan.notebook.cells):
        found: dict[Trace, str] = {}
        for text in strings(cell.get("outputs", [])):
            found |= dict.fromkeys(machine.traces(text), "an output holds")
        found |= dict.fromkeys(machine.secrets_in(cell.source), "the cell itself holds")
        for trace, where in found.items():
            yield Finding(
                trace.severity,
                trace.kind,
                f"{where} {trace.message}",
                "Remove it, and revoke the secret: everybody who has the file has it."
                if trace.kind == "secret"
                else "Change the cell so that it does not show that, or allow it with --allow.",
                scan.path,
                scan.line(number),
                number,
            )


def _unused(
    paths: Sequence[Path], cassettes: UsedCassettes, machine: Callable[[Path], Machine]
) -> Iterator[Finding]:
    """Cassettes below the checked folders that no notebook uses."""
    for folder in (path for path in paths if path.is_dir()):
        for path in find_files(folder, f"*{CASSETTE}"):
            if cassettes.is_used(path):
                continue
            yield Finding(
                "warning",
                "unused-cassette",
                f"no notebook uses {path.name}.",
                "Delete it, or give it the name of its notebook.",
                path,
            )
            yield from given_away(path, machine(path.parent))


# ---------------------------------------------------------------- by running it


def _all_replayed(
    scans: Sequence[NotebookScan | Checked], read: Sequence[Checked], plan: CheckOptions
) -> Iterator[Checked]:
    """The notebooks with what their replays find, in their order.

    Several at once are run by processes, each of which ends its kernel when it is interrupted.
    """
    jobs = [_Job(*pair, plan.replays, plan.timeout) for pair in zip(scans, read, strict=True)]
    if plan.jobs == 1 or len(jobs) < 2:
        yield from map(_replayed, jobs)
        return
    with ProcessPoolExecutor(min(plan.jobs, len(jobs)), get_context("spawn")) as pool:
        for job, future in [(job, pool.submit(_replayed, job)) for job in jobs]:
            try:
                yield future.result()
            except BrokenProcessPool:
                yield _failed(job, "the process that executed notebooks died.")


@dataclass(frozen=True, slots=True)
class _Job:
    scan: NotebookScan | Checked
    checked: Checked
    replays: bool
    timeout: float | None


def _replayed(job: _Job) -> Checked:
    scan, checked = job.scan, job.checked
    if not isinstance(scan, NotebookScan):
        return checked
    if not scan.turns and not scan.is_open:
        return replace(checked, unreplayed="it has no turns")
    if not job.replays:
        return replace(checked, unreplayed="--no-replay")
    kinds = {finding.kind for finding in checked.findings if finding.severity == "error"}
    if standing := kinds - {"secret", "machine"}:
        return replace(checked, unreplayed=f"because of: {', '.join(sorted(standing))}")
    try:
        findings, seconds = replayed(scan, job.timeout)
    except AgentError as error:
        return _failed(job, str(error))
    findings = (*checked.findings, *findings)
    return replace(checked, findings=findings, replayed=True, seconds=seconds)


def _failed(job: _Job, why: str) -> Checked:
    finding = Finding("error", "replay-failed", why, "", job.checked.path)
    findings = (*job.checked.findings, finding)
    return replace(job.checked, findings=findings, unreplayed="it could not be executed")
