"""Notebooks in processes of their own: what happens where one of them dies, or all must end."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from notebooks.notebooks import (
    agent,
    begun,
    completed,
    finish,
    started,
    wait_until,
    wait_until_gone,
    write,
    write_holding,
)

UNLUCKY = """
import os, sys
from pathlib import Path
if Path("unlucky").exists():
    Path("unlucky").unlink()
    sys.exit("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:1')")
os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", "-f", sys.argv[1]])
"""
"""A kernel that finds its port taken, once."""
DEAF = """
import os, time
from pathlib import Path
(Path("begun") / f"deaf {os.getpid()} {os.getppid()}").touch()
while True:
    try:
        time.sleep(0.1)
    except KeyboardInterrupt:
        pass
"""
pytestmark = pytest.mark.timeout(180)


@pytest.mark.deep
def test_a_process_is_killed(tmp_path: Path) -> None:
    """Its notebook runs again, another one that brings its process down each time fails, and the
    rest is as if nothing had been."""
    write_holding(tmp_path, "a", "b")
    write(tmp_path / "suicide.ipynb", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
    with started("run", ".", "--jobs", "2", cwd=tmp_path, home=tmp_path / "home") as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both notebooks are begun")
        name, kernel, process = begun(tmp_path)[0]
        os.kill(process, signal.SIGKILL)
        wait_until_gone(kernel)
        (tmp_path / "hold").unlink()
        code, said = finish(command)
    assert code == 1
    assert "2 passed, 1 failed" in said
    assert f"again      {name}.ipynb" in said
    assert "the process that executed it was killed by signal 9, 2 times" in said
    assert completed(tmp_path) == ["a", "b"]


def test_a_port_that_another_took(tmp_path: Path) -> None:
    """A kernel that lost its port before it began is started again."""
    place = tmp_path / "share" / "kernels" / "unlucky"
    place.mkdir(parents=True)
    (tmp_path / "kernel.py").write_text(UNLUCKY, encoding="utf-8")
    (tmp_path / "unlucky").touch()
    arguments = [sys.executable, str(tmp_path / "kernel.py"), "{connection_file}"]
    spec = {"argv": arguments, "display_name": "Unlucky", "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    write(tmp_path / "a.ipynb", "1", kernelspec={"name": "unlucky", "display_name": "Unlucky"})
    paths = {"JUPYTER_PATH": str(tmp_path / "share")}
    code, said = agent("run", "a.ipynb", cwd=tmp_path, home=tmp_path / "home", **paths)
    assert (code, "1 passed" in said) == (0, True), said
    assert not (tmp_path / "unlucky").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.deep)],
)
def test_all_end(tmp_path: Path, number: int, code: int) -> None:
    """After Ctrl-C in a terminal, which reaches all of them, and where the command is killed, no
    process and no kernel goes on, whatever a cell does."""
    write_holding(tmp_path, "a")
    write(
        tmp_path / "deaf.ipynb",
        DEAF,
    )
    with started("run", ".", "--jobs", "2", cwd=tmp_path, home=tmp_path / "home") as command:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both notebooks are begun")
        children = psutil.Process(command.pid).children(recursive=True)
        if number == signal.SIGINT:
            os.killpg(command.pid, number)
        else:
            command.send_signal(number)
        for child in children:
            wait_until_gone(child.pid)
        ended, said = finish(command)
    assert ended == code
    assert ("What was running has ended" in said) == (number != signal.SIGKILL)
    assert completed(tmp_path) == []
    assert len(begun(tmp_path)) == 2
