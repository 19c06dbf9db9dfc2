"""The program that serves the embedded model: a child process of the kernel.

    python -m jupyter_agent.llm.serving

A process of its own, since llama.cpp holds Python's lock while it loads, and since its crash (a
broken file, too little memory) must not destroy the user's variables. The first line of its input
is a JSON object with the members of `Wish`; the input stays open while the kernel lives, and its
end ends the server. Its output is lines of JSON, each with one of the members `fetching`,
`fetched`, `loading`, `ready` or `failed`. llama.cpp's own messages go to stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from jupyter_agent.llm.weights import Unavailable, fetched

_POLL = 1.0
"""Seconds between two checks that the kernel is alive."""
_CACHE_MIB = 512
"""Memory for the states of conversations other than the last one."""
_BATCH = 512
"""Tokens that are read before an interrupt is seen."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The model to serve, and its options.

    Args:
        name: The model's name.
        path: The GGUF file; empty if it is at the hub.
        repo, files: The hub's repository, and the file or its parts in it.
        download: True if the files may be fetched.
        key: The key that a request must have, so that nobody else on the machine is served.
        context: Tokens of a conversation and its reply.
        threads: Threads that compute.
        gpu_layers: Layers on a GPU; None: as many as fit.
    """

    name: str
    path: str
    repo: str
    files: tuple[str, ...]
    download: bool
    key: str
    context: int
    threads: int
    gpu_layers: int | None


def main() -> None:
    """Serve until the kernel ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the kernel's own code
    _end_with(os.getppid())
    wish = Wish(**json.loads(sys.stdin.readline()))
    report = _reporter()
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    try:
        path = Path(wish.path) if wish.path else _fetch(wish, report)
        report({"loading": wish.name, "size": _size(path)})
        server = _start(wish, path)
    except Unavailable as error:
        report({"failed": str(error)})
        return
    except ImportError as error:
        report({"failed": f"llama.cpp cannot be used here: {error}."})
        return
    except RuntimeError:
        report({"failed": ""})  # llama.cpp's own message has the reason
        return
    report({"ready": server.listening_address})
    threading.Event().wait()


def _reporter() -> Callable[[dict[str, Any]], None]:
    """A function that writes messages to the original stdout; llama.cpp's output goes to stderr."""
    stream: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def report(message: dict[str, Any]) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()

    return report


def _fetch(wish: Wish, report: Callable[[dict[str, Any]], None]) -> Path:
    """Fetch the files; returns the path of the first. SIGTERM releases unfinished ones."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return fetched(wish.repo, wish.files, wish.download, report)
    finally:
        signal.signal(signal.SIGTERM, before)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from None


def _start(wish: Wish, path: Path) -> Any:
    """Start llama.cpp's server on loopback, at a free port."""
    import xllamacpp  # type: ignore[import-untyped]

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {wish.name}
    params.n_ctx = wish.context
    params.n_batch = params.n_ubatch = _BATCH
    params.cache_ram_mib = _CACHE_MIB
    if wish.gpu_layers is not None:
        params.n_gpu_layers = wish.gpu_layers
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = wish.threads
        # Threads that spin while they wait are faster on an idle machine, and many times slower
        # on one where anything else runs.
        pool.poll = 0
    params.sampling.temp = 0.0  # equal requests have equal replies
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wish.key]
    params.ui = False
    params.offline = True
    return xllamacpp.Server(params)


# The kernel's life is this one's -----------------------------------------------------------------


def _end_with(parent: int) -> None:
    """On Linux, let the system end this process with its parent, even during a load."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def _watch(parent: int) -> None:
    """End this process when its input ends, or when it has a new parent.

    The input alone does not suffice: a process that the kernel forked holds it open, too.
    """
    while os.getppid() == parent and not _input_has_ended():
        pass
    # First so that a download cleans up after itself.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_POLL)
    os._exit(1)


def _input_has_ended() -> bool:
    if sys.platform == "win32":  # there `select` takes sockets alone
        return not sys.stdin.readline()
    readable, _, _ = select.select([sys.stdin], [], [], _POLL)
    return bool(readable) and not os.read(0, 1)


if __name__ == "__main__":
    main()
