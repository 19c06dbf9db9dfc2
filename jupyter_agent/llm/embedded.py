"""The kernel's side of the embedded model's server: one child process, started on demand."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from jupyter_agent.core.events import Noticed, Preparing
from jupyter_agent.errors import ProviderError
from jupyter_agent.llm.serving import Wish

_POLL = 0.1
_MOMENTS = 5
_LOOK = 0.3
"""Seconds in which the machine is looked at before a model is started."""
_GRACE = 3.0
"""Seconds in which a download that is given up may tidy up."""
_TAIL = 20_000
"""Bytes of llama.cpp's last words that are looked at."""
_COMPLAINT = re.compile(r"^\S+ E \s*[^:]*:\s*(?P<text>.+)$", re.MULTILINE)
_LINE = 300
_CGROUP = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Serving:
    """The model to serve, and its options. One of `path` and `repo` is given.

    Args:
        name: The model's name.
        path: Its GGUF file.
        repo, files: The hub's repository, and the file or its parts in it.
        download: True if the files may be fetched.
        context: Tokens of a conversation and its reply.
        threads: Threads that compute; None: one for each core that is free as it starts.
        gpu_layers: Layers on a GPU; None: as many as fit.
    """

    name: str
    path: str = ""
    repo: str = ""
    files: tuple[str, ...] = ()
    download: bool = True
    context: int = 8192
    threads: int | None = None
    gpu_layers: int | None = None

    def wish(self, key: str, threads: int) -> Wish:
        """The options for the server's process."""
        return Wish(**asdict(self) | {"key": key, "threads": threads})


class Embedded:
    """The server of one kernel. It runs from the first call of a model until the kernel ends.

    Attributes:
        address: Its address, once it is ready; a new one after each start.
        key: The key that it requires.
    """

    def __init__(self) -> None:
        self.address = ""
        self.key = ""
        self._serving: Serving | None = None
        self._running: _Running | None = None

    @property
    def is_running(self) -> bool:
        """True if there is a server, ready or starting."""
        return self._running is not None and self._running.is_alive

    @property
    def process_id(self) -> int | None:
        """The id of the server's process; None if there is none."""
        running = self._running
        return running.process.pid if running is not None and running.is_alive else None

    async def ready(self, serving: Serving) -> AsyncGenerator[Noticed | Preparing, None]:
        """Start the server if it does not serve this model; yields its progress.

        If the caller stops before the server is ready, the server ends, too.

        Raises:
            ProviderError: The model cannot be served.
        """
        if self.is_running and self._serving == serving and self.address:
            return
        self.stop()
        threads = serving.threads or await free_cores()
        self.key = secrets.token_urlsafe(32)
        self._serving = serving
        self._running = running = _Running(serving.wish(self.key, threads))
        try:
            async for part in self._started(running):
                yield part
        finally:
            if not self.address:
                self.stop()

    async def _started(self, running: _Running) -> AsyncGenerator[Noticed | Preparing, None]:
        yield Preparing("starting the embedded model")
        last = ""
        while not self.address:
            for message in running.said():
                if "ready" in message:
                    self.address = message["ready"]
                    return
                if "failed" in message:
                    raise ProviderError(_failed(message["failed"], running))
                if "fetching" in message:
                    yield Noticed(_to_be_fetched(message))
                running.state = message
            if not running.is_alive and running.has_said_all:
                raise ProviderError(_failed(f"it {running.ending}", running))
            if (text := running.progress) != last:
                last = text
                yield Preparing(text)
            await asyncio.sleep(_POLL)

    async def explained(self, error: ProviderError) -> ProviderError:
        """The error of a call; if the server died, an error about that."""
        running = self._running
        if running is None or error.status is not None or not await running.is_dying():
            return error
        why = running.complaint()
        self.stop()
        return ProviderError(
            f"The embedded model {running.ending}{f' ({why})' if why else ''}. "
            "The next call starts it again.",
            retryable=True,
        )

    def stop(self) -> None:
        """End the server and clean up. The next call starts another one."""
        if self._running is not None:
            self._running.end()
        self._running = self._serving = None
        self.address = self.key = ""


class _Running:
    """One child process."""

    def __init__(self, wish: Wish) -> None:
        self.state: dict[str, Any] = {}
        self._wish = wish
        self._messages: deque[dict[str, Any]] = deque()
        # Without a name, so that no file remains, whatever happens to the kernel.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jupyter_agent.llm.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._end = weakref.finalize(self, _end, self.process, self._log, os.getpid())
        with suppress(OSError):  # it died at once: `ready` finds that
            self._put(json.dumps(asdict(wish)))

    @property
    def is_alive(self) -> bool:
        return self._end.alive and self.process.poll() is None

    async def is_dying(self) -> bool:
        """True if it has ended, or does so within a moment: its connections break before."""
        for _ in range(_MOMENTS):
            if not self.is_alive:
                return True
            await asyncio.sleep(_POLL)
        return False

    @property
    def has_said_all(self) -> bool:
        return not self._reader.is_alive() and not self._messages

    @property
    def ending(self) -> str:
        """Words for its end, to follow its name."""
        code = self.process.poll()
        if code is not None and code < 0:
            hint = ", perhaps for want of memory" if code == -9 else ""
            return f"was ended by signal {-code}{hint}"
        return f"ended with code {code}"

    @property
    def progress(self) -> str:
        """Its progress in a line."""
        state, name = self.state, self._wish.name
        if "fetched" in state and state["size"]:
            share = min(100, state["fetched"] * 100 // state["size"])
            return f"fetching {name}: {share} % of {_megabytes(state['size'])}"
        if "loading" in state:
            share = min(99, self._memory() * 100 // max(1, state["size"]))
            return f"loading {name}: {share} % of {_megabytes(state['size'])}"
        return f"starting {name}"

    def said(self) -> Iterator[dict[str, Any]]:
        """Its messages since the last call."""
        while self._messages:
            yield self._messages.popleft()

    def complaint(self) -> str:
        """llama.cpp's own first line about an error; mostly empty."""
        with suppress(OSError, ValueError):
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _TAIL))
            text = self._log.read().decode("utf-8", "replace")
            found = _COMPLAINT.search(text)
            lines = [found["text"]] if found else text.strip().splitlines()[-1:]
            return "".join(lines).strip()[:_LINE]
        return ""

    def end(self) -> None:
        """End the process, by force if needed."""
        self._end()

    def _put(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):
            for line in self.process.stdout:
                self._messages.append(json.loads(line))

    def _memory(self) -> int:
        """The bytes of the process in memory: mostly the weights loaded so far."""
        import psutil  # type: ignore[import-untyped]

        with suppress(psutil.Error):
            return int(psutil.Process(self.process.pid).memory_info().rss)
        return 0


def _end(process: subprocess.Popen[bytes], log: IO[bytes], owner: int) -> None:
    """End a server, unless this process is a fork of its owner."""
    if os.getpid() != owner:
        return
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, log):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _environment() -> dict[str, str]:
    """The kernel's environment, extended so that the server imports the same packages."""
    path = os.pathsep.join(place for place in sys.path if place)
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": path}


def _failed(reason: str, running: _Running) -> str:
    why = reason or running.complaint() or "llama.cpp does not say why"
    return f"The embedded model cannot be used: {why}"


def _to_be_fetched(message: dict[str, Any]) -> str:
    return (
        f"The weights {message['fetching']} are fetched once from {message['source']}: "
        f"{_megabytes(message['size'])}, into {message['folder']}. Interrupt to stop it."
    )


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.0f} MB"


async def free_cores() -> int:
    """The number of idle cores, at least one.

    A model's threads wait for each other several hundred times for each token. If one of them
    must share its core, all are slowed down, and more threads are many times slower than one.
    """
    import psutil

    before = psutil.cpu_times()
    await asyncio.sleep(_LOOK)
    spent = [after - then for after, then in zip(psutil.cpu_times(), before, strict=True)]
    named = dict(zip(before._fields, spent, strict=True))
    idle = named["idle"] + named.get("iowait", 0.0)
    total = sum(value for name, value in named.items() if not name.startswith("guest"))
    free = (psutil.cpu_count() or 1) * idle / total if total > 0 else 1.0
    return max(1, min(cores(), round(free)))


def cores() -> int:
    """The physical cores that this process may use. More threads than that make a model slower."""
    import psutil

    counted = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        counted = min(counted, len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):  # a container's share; "max" is no number
        quota, period = _CGROUP.read_text(encoding="ascii").split()
        counted = min(counted, int(quota) // int(period))
    return max(1, counted)
