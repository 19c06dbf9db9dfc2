"""Notebooks on a real Dask cluster: a scheduler and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from notebooks.notebooks import (
    agent,
    begun,
    completed,
    environment,
    finish,
    started,
    wait_until,
    wait_until_gone,
    write,
    write_holding,
)
from notebooks.task_lists import hold, listed, scripted, table, turns

from jupyter_agent.notebooks.cluster import _task
from jupyter_agent.notebooks.jobs import Job

pytestmark = pytest.mark.timeout(400)


@dataclass
class Cluster:
    """A scheduler and its workers."""

    folder: Path
    processes: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return str(json.loads((self.folder / "scheduler.json").read_text())["address"])

    def begin(self, module: str, *arguments: str) -> None:
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
                    cwd=self.folder,
                    env=environment(self.folder / "home", JUPYTER_AGENT_MODE="live"),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def add_worker(self) -> None:
        self.begin(
            "dask_worker",
            *("--scheduler-file", str(self.folder / "scheduler.json")),
            *("--nthreads", "1", "--no-nanny", "--no-dashboard"),
        )

    def repair(self) -> None:
        """Two workers again."""
        alive = sum(process.poll() is None for process in self.processes[1:])
        for _ in range(2 - alive):
            self.add_worker()


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with began(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@contextmanager
def began(folder: Path) -> Iterator[Cluster]:
    """A scheduler; workers come by `repair`."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder, [])
    place = cluster.folder / "scheduler.json"
    cluster.begin(
        "dask_scheduler",
        *("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"),
        *("--scheduler-file", str(place)),
    )
    try:
        wait_until(place.exists, "the scheduler is there")
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.terminate()
        for process in cluster.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


@pytest.fixture
def cluster(one_cluster: Cluster) -> Cluster:
    one_cluster.repair()
    return one_cluster


@pytest.mark.deep
def test_a_worker_is_killed_midway(cluster: Cluster, tmp_path: Path) -> None:
    """A killed worker's notebook runs again elsewhere, once, and no kernel stays."""
    names = ["a", "b", "c", "d"]
    write_holding(tmp_path, *names)
    arguments = "run", ".", "--scheduler", cluster.address, "--to", "made"
    with started(*arguments, cwd=tmp_path, home=tmp_path / "home") as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both workers are busy")
        (name, kernel, worker), other = begun(tmp_path)
        assert worker != other[2]
        os.kill(worker, signal.SIGKILL)
        wait_until_gone(kernel)
        (tmp_path / "hold").unlink()
        code, said = finish(command)
    assert code == 0, said
    assert "4 passed, 0 failed" in said
    assert completed(tmp_path) == names
    assert sorted(n for n, _, _ in begun(tmp_path)) == sorted([*names, name])
    copies = [json.loads((tmp_path / "made" / f"{n}.ipynb").read_text()) for n in names]
    assert all(copy["cells"][1]["execution_count"] == 2 for copy in copies)


@pytest.mark.deep
def test_a_worker_that_dies_with_its_outcome(cluster: Cluster, tmp_path: Path) -> None:
    """Dask computes the task again, but the notebook does not run a second time."""
    from distributed import Client, Variable

    write_holding(tmp_path, "once")
    (tmp_path / "hold").unlink()
    job, key = Job(tmp_path / "once.ipynb", "once"), "test-with-its-outcome"
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2)
        future = client.submit(_task, job, key, key=key, pure=False)
        wait_until(future.done, "it is done")
        ((_, _, worker),) = begun(tmp_path)
        (holder,) = client.who_has()[key]
        os.kill(worker, signal.SIGKILL)
        wait_until(
            lambda: not {holder, None} & {*(client.who_has()[key] or [None])},
            "another worker has computed it",
        )
        assert future.result(timeout=60) is None
        Variable(key, client=client).delete()
    assert completed(tmp_path) == ["once"]
    assert len(begun(tmp_path)) == 1


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.deep), signal.SIGKILL]
)
def test_who_asked_goes_away(cluster: Cluster, tmp_path: Path, number: int) -> None:
    """After SIGTERM, or a kill of the command, the kernels on the cluster end."""
    write_holding(tmp_path, "a", "b", "c")
    arguments = "run", ".", "--scheduler", cluster.address
    with started(*arguments, cwd=tmp_path, home=tmp_path / "home") as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both workers are busy")
        command.send_signal(number)
        code, said = finish(command)
    assert code == (143 if number == signal.SIGTERM else -number), said
    for _, kernel, _ in begun(tmp_path):
        wait_until_gone(kernel)
    assert completed(tmp_path) == []
    assert len(begun(tmp_path)) == 2


def test_settings_go_along_and_failures_come_back(cluster: Cluster, tmp_path: Path) -> None:
    """The given mode overrides the workers' own; a failure is reported with its cell."""
    write(
        tmp_path / "mode.ipynb", "import os", "assert os.environ['JUPYTER_AGENT_MODE'] == 'replay'"
    )
    write(tmp_path / "bad.ipynb", "# a heading", "1 / 0")
    code, said = agent(
        *("run", ".", "--scheduler", cluster.address),
        cwd=tmp_path,
        home=tmp_path / "home",
        JUPYTER_AGENT_MODE="replay",
    )
    assert code == 1
    assert "1 passed, 1 failed" in said
    assert "cell 2: 1 / 0" in said
    assert "ZeroDivisionError" in said


def test_tasks_on_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """No more tasks run than the workers have threads. A killed worker's task runs again, each
    comes to its end once, with its steps, and the next command has nothing left to do."""
    hold(tmp_path, "a", "b", "c")
    entries = yaml.safe_load((tmp_path / "tasks.yaml").read_text(encoding="utf-8"))
    listed(tmp_path, {"name": "all", "task": "Task all.", "after": ["a", "c"]}, *entries)
    arguments = "run", "tasks.yaml", "--scheduler", cluster.address
    given = scripted(tmp_path)
    with started(*arguments, cwd=tmp_path, home=tmp_path / "home", **given) as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both workers are busy")
        (_, kernel, worker), _ = begun(tmp_path)
        os.kill(worker, signal.SIGKILL)
        wait_until_gone(kernel)
        (tmp_path / "hold").unlink()
        code, said = finish(command)
    assert code == 0, said
    assert {name: row[:2] for name, row in table(said).items()} == {
        key: ["done", "1"] for key in ("all", "a", "b", "c")
    }
    assert turns(tmp_path) == {f"Task {name}.": 1 for name in ("all", "a", "b", "c")}
    code, said = agent(*arguments, cwd=tmp_path, home=tmp_path / "home", **given)
    assert (code, "4 done before." in said) == (0, True), said


@pytest.mark.deep
def test_the_scheduler_goes_away(tmp_path: Path) -> None:
    """What ran is interrupted and has not failed: with another scheduler, the command goes on."""
    hold(tmp_path, "a", "b")
    given = scripted(tmp_path)
    with began(tmp_path / "first") as first:
        first.repair()
        arguments = "run", "tasks.yaml", "--scheduler", first.address
        with started(*arguments, cwd=tmp_path, home=tmp_path / "home", **given) as command:
            wait_until(lambda: len(begun(tmp_path)) == 2, "both workers are busy")
            first.processes[0].kill()
            code, said = finish(command)
    assert code == 1
    assert {name: row[0] for name, row in table(said).items()} == dict.fromkeys("ab", "interrupted")
    (tmp_path / "hold").unlink()
    with began(tmp_path / "second") as second:
        second.repair()
        arguments = "run", "tasks.yaml", "--scheduler", second.address
        code, said = agent(*arguments, cwd=tmp_path, home=tmp_path / "home", **given)
    assert (code, "2 done." in said) == (0, True), said


def test_an_address_that_is_none(tmp_path: Path) -> None:
    """A wrong address is one line, without a traceback."""
    write(tmp_path / "a.ipynb", "1")
    code, said = agent(
        "run", "a.ipynb", "--scheduler", "nonsense://x", cwd=tmp_path, home=tmp_path / "home"
    )
    assert code == 1
    assert "No Dask scheduler can be reached at nonsense://x" in said
