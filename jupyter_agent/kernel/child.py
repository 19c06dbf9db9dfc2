"""Runs code in a child process: an IPython kernel that gets named values, and gives some back.

For heavy code that must not touch the person's objects. The process has the interpreter, the import
paths and the working folder of this one, but no keys in its environment. Its code may read files
and reach servers of this machine; all other side effects outside of its own temporary folder are
refused, since nobody can be asked there. That is a guard rail and no sandbox: the process has the
rights of the person.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from jupyter_agent.core.messages import JsonObject, Output
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.redact import without_secrets
from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.bounded import BoundedText
from jupyter_agent.kernel.child_process import PRINTED, TEMPORARY, WHERE
from jupyter_agent.kernel.confined import Confined
from jupyter_agent.kernel.effects import judged
from jupyter_agent.kernel.execute import Execution
from jupyter_agent.kernel.handover import NotHandedOver, pack, unpack
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.kernel.marks import agents_code, own

GRACE_SECONDS = 2.0
"""Seconds in which interrupted code must stop before its process is killed."""
_AGAIN_SECONDS = 1.0
"""Seconds after which an interrupt is sent once more: it may have come before the code began."""
_LOOK_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 1.0
_LAST_TEXT_SECONDS = 0.5
_END_SECONDS = 10.0
_PREFIX = "jupyter_agent-child-"
_LONGEST_SOCKET = 90
"""Bytes of the path of a Unix socket: some systems take a hundred."""
_LAST_WORDS = 4_000
"""Bytes at the end of what the process wrote, among which its last words are looked for."""
_START = (
    "import json, sys; start = json.load(open(sys.argv[1], encoding='utf-8'));"
    " sys.path[:] = start['path'];"
    " from jupyter_agent.kernel.child_process import main; main(start)"
)
_INTERRUPTED = "Interrupted by the person."
_TIMED_OUT = "The code was interrupted after its time-out of {:g} s."
_ENDED = "It did not stop, so its process was ended, and its variables are gone."


@dataclass(frozen=True, slots=True)
class Fetched:
    """Values from a child process.

    Attributes:
        values: The values by name.
        failed: The names whose values cannot be handed over, each with the reason.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


class ChildKernel:
    """One child process. Its calls follow one another; `close` ends it at any time.

    The process ends, with all that it started, with `close`, with this object, and with this
    process, however that ends.

    Args:
        folder: The working folder of the process: that of this kernel.
        interrupts: The interrupts of the turn.
        startup_timeout: Seconds that the process may take to start and to load its inputs. Of
            many at once some wait for others first.
    """

    def __init__(
        self, folder: Path, interrupts: Interrupts, *, startup_timeout: float = 30.0
    ) -> None:
        self._folder = folder
        self._interrupts = interrupts
        self._startup_timeout = startup_timeout
        self._calls = asyncio.Lock()
        self._numbers = 0
        self._place: Path | None = None
        self._manager: Any = None
        self._client: Any = None
        self._process: Any = None
        self._ended = "The delegate's process has not been started."
        self._listening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._clean: weakref.finalize[..., ChildKernel] | None = None
        self._printed: Callable[[str], None] | None = None
        self._shown = BoundedText()
        self._heard = 0

    async def start(
        self,
        inputs: Mapping[str, object],
        alone: AbstractAsyncContextManager[object] | None = None,
    ) -> tuple[str, ...]:
        """Start the process, and bind copies of the inputs in it. Call it once.

        Args:
            inputs: The values by name.
            alone: Held while the inputs are copied: a lock that keeps other code from changing
                them. The process starts after that.

        Returns:
            The names of the inputs.

        Raises:
            ToolError: An input cannot be handed over (each is named, with the reason), or the
                process does not start. No process is left.
        """
        if self._place is not None or self._closing is not None:
            raise ToolError("A delegate's process can only be started once.")
        if self._interrupts.requested:
            raise asyncio.CancelledError
        try:
            with own():
                _remove_stale()
                self._place = place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
                self._clean = weakref.finalize(self, _remove, place)
                (place / TEMPORARY).mkdir()
                (place / "ipython").mkdir()
            async with alone or nullcontext():
                values, failed = await self._packed(inputs)
            _tell_failed(failed)
            async with _starts():
                await self._launch(place)
                answer = await self._ask({"do": "load", "values": values}, self._startup_timeout)
            _tell_failed(answer["failed"])
        except KeyboardInterrupt:
            await self.close()
            raise asyncio.CancelledError from None
        except _Unanswered as error:
            stopped = self._stopped(error, "The delegate's process did not start")
            await self.close()
            raise stopped from None
        except BaseException:
            await self.close()
            raise
        return tuple(inputs)

    async def run(
        self,
        code: str,
        timeout: float | None = None,
        printed: Callable[[str], None] | None = None,
    ) -> Execution:
        """Execute `code`: Python, magics and top-level await, as `Executor.run` does.

        After an interrupt by the person, returns the outputs so far, and cancels the running task
        at its next await. Code that neither stops after an interrupt nor after its time-out is
        killed with its process; then only what it printed is left.

        Args:
            code: The text of a cell.
            timeout: Seconds after which the code is interrupted; None waits for ever.
            printed: Called with the text written to the streams; of a flood, with parts of it.

        Raises:
            ToolError: There is no process any more.
        """
        async with self._calls:
            if self._interrupts.requested:
                self._interrupts.cancel_turn()
                return Execution((), "interrupted", _INTERRUPTED, "Interrupted")
            self._printed, self._shown = printed, BoundedText()
            limit = None if timeout is None else timeout + GRACE_SECONDS
            task = asyncio.current_task()
            before = task.cancelling() if task is not None else 0
            try:
                answer = await self._ask({"do": "run", "code": code, "timeout": timeout}, limit)
                execution = _execution(answer)
            except _Unanswered as error:
                execution = self._unanswered(error, timeout)
            finally:
                self._printed = None
            is_cancelled = task is not None and task.cancelling() > before
            if not self._interrupts.requested and not is_cancelled:
                return execution
            if not self._interrupts.requested:
                raise asyncio.CancelledError
            if task is not None and is_cancelled:
                task.uncancel()
                task.cancel()  # at its next await
            else:
                self._interrupts.cancel_turn()
            words = execution.error if execution.state == "interrupted" else _INTERRUPTED
            return replace(execution, state="interrupted", error=words, error_name="Interrupted")

    async def names(self) -> tuple[str, ...]:
        """The variables that its code bound, in order; without modules and names with `_` first.

        Raises:
            ToolError: There is no process any more.
        """
        return tuple((await self._answer({"do": "names"}))["names"])

    async def fetch(self, names: Sequence[str]) -> Fetched:
        """Copies of its values, read as those of an agent: see `handover`.

        Raises:
            ToolError: There is no process any more.
        """
        paths = {name: self._next_path() for name in names}
        values: dict[str, object] = {}
        try:
            request = {"do": "fetch", "paths": {name: str(path) for name, path in paths.items()}}
            answer = await self._answer(request)
            failed = dict(answer["failed"])
            for name, record in answer["values"].items():
                try:
                    values[name] = self._read(record, paths[name])
                except NotHandedOver as error:
                    failed[name] = str(error)
                await asyncio.sleep(0)
        except KeyboardInterrupt:
            raise asyncio.CancelledError from None
        finally:
            with own():
                for path in paths.values():
                    for each in path.parent.glob(f"{path.name}*"):
                        each.unlink(missing_ok=True)
        return Fetched(values, {name: failed[name] for name in names if name in failed})

    async def close(self) -> None:
        """End the process and its children, and remove its folder. May be called again."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        cancelled = False
        while not self._closing.done():
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError:
                cancelled = True
        self._closing.result()
        if cancelled:
            raise asyncio.CancelledError

    # Start and end --------------------------------------------------------------------------------

    def _next_path(self) -> Path:
        if self._place is None:
            raise ToolError(self._ended)
        self._numbers += 1
        return self._place / f"value_{self._numbers}"

    async def _packed(
        self, inputs: Mapping[str, object]
    ) -> tuple[dict[str, tuple[JsonObject, str]], dict[str, str]]:
        """Write the inputs to files. Returns how and where, and why others cannot be."""
        values, failed = {}, {}
        for name, value in inputs.items():
            path = self._next_path()
            try:
                with self._interrupts.held():
                    values[name] = pack(value, path), str(path)
            except NotHandedOver as error:
                failed[name] = str(error)
            await asyncio.sleep(0)
        return values, failed

    async def _launch(self, place: Path) -> None:
        """Start the process. It is not ready yet: its first answer takes longest."""
        import zmq.asyncio
        from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager

        start, connection, said = place / "start.json", place / "connection.json", place / "said"
        arguments = [sys.executable, *_flags(), "-c", _START, str(start)]
        spec = KernelSpec(
            argv=arguments,
            display_name="delegate",
            language="python",
            metadata={"kernel_provisioner": {"provisioner_name": "local-provisioner"}},
        )

        class OneSpec(KernelSpecManager):
            """Knows the one kernel that is started."""

            def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
                return spec

        manager = AsyncKernelManager(
            kernel_name="delegate",
            kernel_spec_manager=OneSpec(),
            connection_file=str(connection),
            # One for all: each context has a thread and files of its own.
            context=zmq.asyncio.Context.instance(),
            **_transport(place),
        )
        self._manager = manager
        settings = {
            "folder": str(place),
            "connection_file": str(connection),
            "parent": os.getpid(),
            "path": sys.path,
        }
        with own():
            start.write_text(json.dumps(settings), encoding="utf-8")
            with said.open("wb") as output:
                await self._start_process(output, place)
        provisioner: Any = manager.provisioner
        self._process = provisioner.process
        if self._clean is not None:
            self._clean.detach()
        self._clean = weakref.finalize(self, _end_process, self._process, place)
        self._client = client = manager.client()
        client.start_channels(stdin=False, hb=False, control=False)
        # The rest would fill the memory of a parent that does not read it.
        client.iopub_channel.socket.unsubscribe(b"")
        client.iopub_channel.socket.subscribe(PRINTED)
        self._listening = asyncio.ensure_future(self._listen(client))
        self._ended = ""

    async def _start_process(self, output: IO[bytes], place: Path) -> None:
        try:
            await self._manager.start_kernel(
                cwd=str(self._folder), env=_environment(place), stdout=output, stderr=output
            )
        except OSError as error:
            words = f"{error.strerror or type(error).__name__}: {error.filename or sys.executable}"
            raise ToolError(f"The delegate's process cannot be started ({words}).") from None

    async def _close(self) -> None:
        self._ended = "The delegate's process has ended."
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        process, place = self._process, self._place
        with own():
            if process is not None:
                _kill(process)
                await _until(lambda: process.poll() is not None, _END_SECONDS)
            if self._client is not None:
                self._client.stop_channels()
            if self._manager is not None:
                await self._manager.shutdown_kernel(now=True)
            if place is not None:
                _remove(place)
        if self._clean is not None:
            self._clean.detach()

    # Requests -------------------------------------------------------------------------------------

    async def _answer(self, request: Mapping[str, Any]) -> JsonObject:
        """The answer to a request that is no code; an interrupt cancels the caller."""
        async with self._calls:
            try:
                return await self._ask(request, None)
            except _Unanswered as error:
                raise self._stopped(error, "The delegate's process did not answer") from None

    def _stopped(self, error: _Unanswered, words: str) -> BaseException:
        if error.why in ("interrupted", "cancelled"):
            return asyncio.CancelledError()
        return ToolError(self._ended if error.why == "died" else f"{words} in time.")

    async def _ask(self, request: Mapping[str, Any], limit: float | None) -> JsonObject:
        """Send a request, and wait for its answer.

        The child is interrupted with the turn, and when the caller is cancelled. It is killed if it
        does not answer within the grace, or `limit`. Code gets its answer nevertheless, and
        `task.cancelling` shows the cancellation.

        Raises:
            _Unanswered: There is no answer.
            ToolError: There is no process.
        """
        if self._ended:
            raise ToolError(self._ended)
        message = self._client.execute(json.dumps(request), silent=True, stop_on_error=False)
        reply = asyncio.ensure_future(self._reply(message))
        watch = _Watch(self._interrupts, limit)
        try:
            while not reply.done():
                try:
                    await asyncio.wait({reply}, timeout=_LOOK_SECONDS)
                except asyncio.CancelledError:
                    watch.is_cancelled = True
                if reply.done():
                    break
                if self._process.poll() is not None:
                    self._note_death()
                    raise _Unanswered(watch.why_stopped or "died")
                await self._interrupt_if_due(watch)
        finally:
            reply.cancel()
        if reply.cancelled() or reply.exception() is not None:  # it was closed meanwhile
            raise _Unanswered(watch.why_stopped or "died")
        answer: JsonObject = reply.result()
        if answer.get("interrupted"):
            raise _Unanswered(watch.why_stopped or "interrupted")
        if broken := answer.get("broken"):
            raise ToolError(f"The delegate's process failed: {one_line(broken, 300)}")
        if request["do"] != "run" and watch.why_stopped:
            raise _Unanswered(watch.why_stopped)
        await self._hear_rest(answer.get("printed", 0))
        return answer

    async def _interrupt_if_due(self, watch: _Watch) -> None:
        match watch.due():
            case "interrupt":
                with suppress(RuntimeError, OSError):  # it has just ended
                    await self._manager.interrupt_kernel()
            case "kill":
                _kill(self._process)
                self._ended = "The delegate's process was ended, since its code did not stop."
                raise _Unanswered(watch.why, killed=True)

    async def _reply(self, message: str) -> JsonObject:
        while True:
            reply = await self._client.get_shell_msg()
            if reply["parent_header"].get("msg_id") == message:
                content = reply["content"]
                broken = {"broken": content.get("evalue") or "it gave no answer"}
                answer: JsonObject = content.get("answer", broken)
                return answer

    async def _listen(self, client: Any) -> None:
        """Take what running code prints."""
        while True:
            text = (await client.get_iopub_msg())["content"].get("text")
            if text is None:
                continue  # the greeting
            self._heard += 1
            self._shown.add(text)
            if self._printed is not None:
                self._printed(text)

    async def _hear_rest(self, sent: int) -> None:
        """Wait for the last messages with printed text: they take another way than the answer."""
        await _until(lambda: self._heard >= sent, _LAST_TEXT_SECONDS)

    def _note_death(self) -> None:
        if self._closing is not None:
            return
        place = self._place
        said = _last_words(place / "said") if place is not None else ""
        how = _how_it_ended(self._process.returncode)
        self._ended = f"The delegate's process {how}: its variables are gone{said}."

    def _unanswered(self, error: _Unanswered, timeout: float | None) -> Execution:
        """The execution of code that gave no answer."""
        text = str(self._shown)
        outputs = (Output("stdout", {"text/plain": text}),) if text else ()
        ended = f" {_ENDED}" if error.killed else ""
        if error.why == "died":
            return Execution(outputs, "failed", self._ended, "ProcessDied")
        if error.why == "overdue":
            words = _TIMED_OUT.format(timeout or 0) + ended
            return Execution(outputs, "timed_out", words, "TimeoutError")
        return Execution(outputs, "interrupted", _INTERRUPTED + ended, "Interrupted")

    def _read(self, record: JsonObject, path: Path) -> object:
        """A value of the agent's; its code is judged, and an interrupt reaches it."""
        judge = Confined(None, "what a delegate returns")
        with agents_code(), judged(judge), self._interrupts.held():
            return unpack(record, path, restricted=True)


class _Unanswered(Exception):
    """A request got no answer.

    Args:
        why: `died`, `interrupted` (with the turn), `cancelled` (the caller) or `overdue`.
        killed: Whether the process was killed for it.
    """

    def __init__(self, why: str, killed: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.killed = killed


class _Watch:
    """Tells what is due while a request runs. Ask it often.

    Its clock goes on by a second at most from one look to the next: while other code held the event
    loop, an answer may have come that nobody could take.

    Args:
        interrupts: The interrupts of the turn.
        limit: Seconds after which the process is to be killed; None for no limit.
    """

    def __init__(self, interrupts: Interrupts, limit: float | None) -> None:
        self.is_cancelled = False
        self._interrupts = interrupts
        self._limit = limit
        self._looked = time.monotonic()
        self._clock = 0.0
        self._since: float | None = None
        self._sent = 0

    @property
    def why_stopped(self) -> str:
        """`interrupted` or `cancelled`, if somebody stopped the request."""
        if self._interrupts.requested:
            return "interrupted"
        return "cancelled" if self.is_cancelled else ""

    @property
    def why(self) -> str:
        """Why the request ends early; empty if it need not."""
        if self.why_stopped:
            return self.why_stopped
        return "overdue" if self._limit is not None and self._clock > self._limit else ""

    def due(self) -> str:
        """`interrupt`, `kill`, or nothing."""
        now = time.monotonic()
        self._clock += min(now - self._looked, _LONGEST_LOOK_SECONDS)
        self._looked = now
        why = self.why
        if why == "overdue":
            return "kill"
        if not why:
            return ""
        if self._since is None:
            self._since = self._clock
        if self._clock - self._since > GRACE_SECONDS:
            return "kill"
        if self._clock - self._since < _AGAIN_SECONDS * self._sent:
            return ""
        self._sent += 1
        return "interrupt"


def _execution(answer: JsonObject) -> Execution:
    outputs = tuple(Output(kind, data, metadata) for kind, data, metadata in answer["outputs"])
    return Execution(
        outputs,
        answer["state"],
        answer["error"],
        answer["error_name"],
        {id(outputs[number]): words for number, words in answer["described"]},
        hint=answer["hint"],
    )


async def _until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds, or a time has passed."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


def _tell_failed(failed: Mapping[str, str]) -> None:
    if failed:
        told = "; ".join(f"`{name}`: {reason}" for name, reason in failed.items())
        raise ToolError(f"These inputs cannot be handed over to {WHERE}: {told}.")


# The process and its folder ----------------------------------------------------------------------


_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _starts() -> asyncio.Semaphore:
    """Lets as many processes start at once as there are processors: a start keeps one busy."""
    loop = asyncio.get_running_loop()
    return _gates.setdefault(loop, asyncio.Semaphore(max(2, os.cpu_count() or 1)))


def _flags() -> list[str]:
    """The options of this interpreter, such as `-W` and `-X`."""
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _environment(place: Path) -> dict[str, str]:
    """This process's variables, without keys; temporary files and IPython's are the child's own."""
    temporary = str(place / TEMPORARY)
    return {
        **without_secrets(os.environ),
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary),
        "IPYTHONDIR": str(place / "ipython"),
    }


def _transport(place: Path) -> dict[str, str]:
    """Unix sockets in the private folder; where there are none, ports of this machine."""
    path = place / "socket"
    if sys.platform != "win32" and len(os.fsencode(path)) < _LONGEST_SOCKET:
        return {"transport": "ipc", "ip": str(path)}
    return {"transport": "tcp", "ip": "127.0.0.1"}


def _kill(process: Any) -> None:
    """Kill a process with its group and all that it started."""
    import psutil  # type: ignore[import-untyped]

    children = []
    is_alive = process.poll() is None
    if is_alive:
        with suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
    # It leads a group of its own. If it is gone, its number may be another process's by now.
    if hasattr(os, "killpg") and (is_alive or not psutil.pid_exists(process.pid)):
        with suppress(OSError):
            os.killpg(process.pid, 9)
    with suppress(OSError):
        process.kill()
    for child in children:
        with suppress(psutil.Error):
            child.kill()


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _end_process(process: Any, place: Path) -> None:
    """End the process of an object that was not closed."""
    _kill(process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    _remove(place)


def _remove_stale() -> None:
    """Remove the folders of processes that ended without removing them."""
    import psutil

    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        number = place.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError, psutil.Error):
            # A younger process may have the number now.
            if number.isdigit() and not (
                psutil.pid_exists(int(number))
                and psutil.Process(int(number)).create_time() < place.stat().st_mtime + 5
            ):
                _remove(place)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    import signal

    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    memory = ", as when memory runs out" if name == "SIGKILL" else ""
    return f"was ended by signal {-code} ({name}{memory})"


def _last_words(said: Path) -> str:
    """The last line that the process wrote where no output shows it."""
    try:
        with said.open("rb") as file:  # it may be long
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    last = next((one_line(line, 200) for line in reversed(text.split("\n")) if line.strip()), "")
    return f" ({last})" if last else ""
