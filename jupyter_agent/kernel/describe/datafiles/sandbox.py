"""The process in which libraries look at a file of data, so that nothing they do harms the kernel.

A hostile file may make a library use all memory, take for ever or crash. There it does so alone:
memory and time have limits, nothing can be written, and no module of the workspace is found.
Standard input holds a request as JSON, standard output gets the answer.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY = 4_000_000_000
"""Bytes of address space, more than what is used: libraries reserve much of it for each thread."""
_CPU_SECONDS = 120


def ask_apart(kind: str, path: Path, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What is found out about a file in a process of its own.

    Args:
        kind: What to look for, by the names in `main`.
        path: The file: a regular one, without links.
        request: Arguments of the look.
        seconds: How long it may take.

    Returns:
        The answer; `{"problem": …}`, on one line, where there is none.
    """
    # -I leaves out the working folder, but also the user's own packages.
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    package = str(Path(__file__).parents[4])
    # The package that runs comes before one that is installed.
    start = (
        "import sys; "
        "at = next((i for i, p in enumerate(sys.path) if p.endswith('-packages')), len(sys.path)); "
        f"sys.path[at:at] = [{package!r}]; sys.path += {own!r}; "
        "from jupyter_agent.kernel.describe.datafiles.sandbox import main; main()"
    )
    asked = {**request, "look": kind, "path": str(path)}
    environment = {key: value for key, value in os.environ.items() if key in KEPT}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        return {"problem": f"cannot be looked at: {error.strerror or type(error).__name__}"}
    with process:
        try:
            output, _ = process.communicate(json.dumps(asked).encode(), seconds)
        except subprocess.TimeoutExpired:
            return {"problem": f"not looked at: that took more than {seconds:g} seconds"}
        finally:
            process.kill()
    try:
        answer: dict[str, Any] = json.loads(output)
    except (ValueError, RecursionError):
        return {"problem": "damaged, or too large to be looked at"}
    return answer


KEPT = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
    | {"TMPDIR", "TEMP", "TMP"}
)
"""Variables that the process keeps: no keys, no settings of libraries."""


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin.buffer)
    _limit()
    path = Path(request.pop("path"))
    try:
        answer = _answer(request.pop("look"), path, request)
    except MemoryError:
        answer = {"problem": "too large to be looked at"}
    except Exception as error:  # whatever a library makes of a hostile file
        words = " ".join(str(error).split())[:200]
        answer = {"problem": f"damaged: {type(error).__name__}: {words}"}
    sys.stdout.buffer.write(json.dumps(answer, default=str).encode())
    sys.stdout.flush()
    os._exit(0)  # what is left to tidy up would only take time


def _limit() -> None:
    """Limit this process: memory and processor time, no file to be written, no crash report."""
    with suppress(ImportError, OSError, ValueError):  # there is no such module on Windows
        import resource

        for limit, value in (
            (resource.RLIMIT_AS, MEMORY),
            (resource.RLIMIT_CPU, _CPU_SECONDS),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(OSError, ValueError):  # macOS refuses some
                resource.setrlimit(limit, (value, value))


def _answer(look: str, path: Path, request: dict[str, Any]) -> dict[str, Any]:
    if look == "table":
        from jupyter_agent.kernel.describe.datafiles.scan import scan

        return scan(path, **request)
    from jupyter_agent.kernel.describe.datafiles import binary

    return binary.look_at(look, path, **request)
