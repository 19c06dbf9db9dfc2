"""A program that runs a server and ends it, and all that it started, with the kernel.

    python -I -S supervise.py PID_OF_THE_KERNEL COMMAND ARGUMENT …

Its stdin and stderr are the server's own; its stdout is passed on, because a line without an end
would fill the kernel's memory: a server that sends one is ended. A kernel that is shut down,
restarted or killed cannot clean up: this process notices that its parent is another one, gives the
server a moment to end by itself (its stdin is closed, too), then ends its process group. POSIX
only: on Windows the SDK puts servers into a job that ends with the kernel.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

_EVERY = 0.25
_LONGEST_LINE = 32_000_000
_CHUNK = 65_536
_GRACE = 1.0
_MOMENT = 0.05


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    from_server, to_us = os.pipe()
    server = os.fork()
    if server == 0:
        os.dup2(to_us, 1)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    os.close(to_us)
    # Or this process would keep the server's end of the pipe open after the server's end.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    passed_on = _thread.allocate_lock()
    passed_on.acquire()
    _thread.start_new_thread(_watch, (parent,))
    _thread.start_new_thread(_pass_on, (from_server, passed_on))
    _, status = os.waitpid(server, 0)
    # What it started may hold the pipe open: its last words are not waited for without end.
    passed_on.acquire(timeout=_GRACE)
    _end_group()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _pass_on(from_server: int, passed_on: _thread.LockType) -> None:
    length = 0
    try:
        while chunk := os.read(from_server, _CHUNK):
            end = chunk.rfind(b"\n")
            length = length + len(chunk) if end < 0 else len(chunk) - end - 1
            if length > _LONGEST_LINE:
                os.write(2, b"a message of more than 32 MB; the server was ended\n")
                _end_group()
                break
            while chunk:
                chunk = chunk[os.write(1, chunk) :]
    except OSError:
        pass  # the kernel is gone, or closed the connection
    passed_on.release()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    time.sleep(_GRACE)
    _end_group()


def _end_group() -> None:
    """End the server's process group, from outside of it: by this program with the group alone.

    It is no fork: this process has threads, and Python would warn about it on the server's stderr.
    """
    words = [sys.executable, "-I", "-S", __file__, str(os.getpgrp())]
    nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    os.posix_spawn(sys.executable, words, os.environ, file_actions=nowhere, setsid=True)


def _end(group: int) -> None:
    """SIGTERM, then SIGKILL to a process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        time.sleep(_MOMENT)
        try:
            os.killpg(group, number)
        except OSError:
            break  # nobody is left
        time.sleep(_GRACE)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        _end(int(sys.argv[1]))
    else:
        main()
