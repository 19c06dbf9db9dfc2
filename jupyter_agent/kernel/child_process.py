"""The process of a `ChildKernel`: an IPython kernel that runs an agent's code for another kernel.

Its requests are execute requests whose code is a JSON object: `do` names what to do. The code of an
agent runs as in the live kernel, by the same `Executor`, under a judge that refuses side effects
outside of this process's own folder. The process ends with the one that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jupyter_agent.kernel.confined import Confined
from jupyter_agent.kernel.effects import judged
from jupyter_agent.kernel.execute import Execution, Executor
from jupyter_agent.kernel.handover import NotHandedOver, pack, unpack
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.kernel.marks import agents_code
from jupyter_agent.kernel.variables import user_variables

PRINTED = b"delegate.printed"
"""The topic of messages with what running code prints."""
TEMPORARY = "temporary"
"""The folder, inside of the process's own, that its code may write to."""
WHERE = "a delegate's process"
_LOOK_SECONDS = 0.25
_PRINT_SECONDS = 0.1
_MOST_PRINTED = 10_000
"""Characters of one message with what was printed: the last ones."""

_Json = dict[str, Any]


def main(start: _Json) -> None:
    """Run the kernel until the process is killed.

    Args:
        start: `folder`, the process's own; `connection_file`; `parent`, the id of the process that
            started this one.
    """
    folder = Path(start["folder"])
    _end_with(int(start["parent"]), folder)
    _limit()
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelapp import IPKernelApp
    from traitlets.config import Config

    class Kernel(IPythonKernel):
        """Answers requests instead of running code."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)  # type: ignore[no-untyped-call]
            self._answers = _Answers(self.shell, folder, self._say)

        async def do_execute(self, code: str, silent: bool, *args: Any, **more: Any) -> _Json:
            answer = await self._answers.answer(json.loads(code))
            count = {"execution_count": 0, "payload": [], "user_expressions": {}}
            return {"status": "ok", **count, "answer": answer}

        def _say(self, text: str) -> None:
            content = {"name": "stdout", "text": text}
            session: Any = self.session
            session.send(self.iopub_socket, "stream", content, ident=PRINTED)

        def pre_handler_hook(self) -> None:
            """Leave SIGINT ignored: only running code is interrupted."""

        def post_handler_hook(self) -> None:
            """Nothing to put back."""

    class App(IPKernelApp):
        """A kernel without files of settings of the person's."""

        def load_config_file(self, *args: Any, **options: Any) -> None:
            """Read none."""

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShellApp.exec_PYTHONSTARTUP = False
    settings.IPKernelApp.log_level = "ERROR"
    application: Any = App.instance(
        config=settings, connection_file=start["connection_file"], kernel_class=Kernel
    )
    application.initialize([])
    application.start()


def _limit() -> None:
    """Write no memory dump after a crash."""
    with suppress(ImportError, OSError, ValueError):  # there is no such module on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with(parent: int, folder: Path) -> None:
    """End this process, its children and its folder soon after its parent has ended.

    ipykernel's own watch knows no folder, and does nothing where process 1 is the parent.
    """
    if not hasattr(os, "killpg"):
        return  # on Windows ipykernel watches its parent

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()


class _Answers:
    """Answers the requests of the parent.

    Args:
        shell: The IPython shell.
        folder: The process's own folder.
        say: Sends a text that running code printed.
    """

    def __init__(self, shell: Any, folder: Path, say: Callable[[str], None]) -> None:
        self._shell = shell
        self._say = say
        self._interrupts = Interrupts()
        self._executor = Executor(shell, self._interrupts)
        self._judge = Confined(folder / TEMPORARY, WHERE)
        self._inputs: dict[str, object] = {}
        self._kinds: dict[str, Callable[[_Json], Awaitable[_Json]]] = {
            "load": self._load,
            "run": self._run,
            "names": self._names,
            "fetch": self._fetch,
        }

    async def answer(self, request: _Json) -> _Json:
        """The answer; `{"interrupted": True}` if an interrupt came before there was one."""
        answers: list[_Json] = []

        async def work() -> None:
            try:
                answers.append(await self._kinds[request["do"]](request))
            except KeyboardInterrupt:  # it must not reach the event loop
                answers.append({"interrupted": True})

        with self._interrupts.installed():
            # In a task of its own: at the end of interrupted code its task is cancelled.
            task = asyncio.ensure_future(work())
            with self._interrupts.cancelling(task):
                await asyncio.wait({task})
        if not answers and not task.cancelled() and (error := task.exception()):
            return {"broken": f"{type(error).__name__}: {error}"}
        return answers[0] if answers else {"interrupted": True}

    async def _load(self, request: _Json) -> _Json:
        failed = {}
        with self._as_agent():
            for name, (record, path) in request["values"].items():
                try:
                    self._inputs[name] = unpack(record, Path(path), restricted=False)
                except NotHandedOver as error:
                    failed[name] = str(error)
        self._shell.user_ns.update(self._inputs)
        return {"failed": failed}

    async def _run(self, request: _Json) -> _Json:
        relay = _Relay(self._say)
        try:
            execution = await self._executor.run(
                request["code"], request["timeout"], relay.add, self._judge
            )
        finally:
            sent = relay.close()
        return {**_as_json(execution), "printed": sent}

    async def _names(self, request: _Json) -> _Json:
        missing = object()
        bound = user_variables(self._shell)
        return {
            "names": [n for n, v in bound.items() if self._inputs.get(n, missing) is not v],
        }

    async def _fetch(self, request: _Json) -> _Json:
        values, failed = {}, {}
        with self._as_agent():
            for name, path in request["paths"].items():
                if name not in self._shell.user_ns:
                    failed[name] = "there is no such variable"
                    continue
                try:
                    values[name] = pack(self._shell.user_ns[name], Path(path))
                except NotHandedOver as error:
                    failed[name] = str(error)
        return {"values": values, "failed": failed}

    @contextmanager
    def _as_agent(self) -> Iterator[None]:
        """Judge the values' own code, and let an interrupt reach it."""
        with agents_code(), judged(self._judge), self._interrupts.held():
            yield


class _Relay:
    """Sends what code prints while it runs: at once, but no more than ten messages a second.

    Of a flood only the last characters of each message are sent.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pending = ""
        self._sent = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send_often, daemon=True)
        self._thread.start()

    def add(self, text: str) -> None:
        with self._lock:
            self._pending = (self._pending + text)[-_MOST_PRINTED:]

    def close(self) -> int:
        """Send the rest. Returns the number of messages."""
        self._ended.set()
        self._thread.join()
        self._send()
        return self._sent

    def _send_often(self) -> None:
        while not self._ended.wait(_PRINT_SECONDS):
            self._send()

    def _send(self) -> None:
        with self._lock:
            text, self._pending = self._pending, ""
        if text:
            self._say(text)
            self._sent += 1


def _as_json(execution: Execution) -> _Json:
    """The execution as JSON; descriptions by the number of their output."""
    places = {id(output): number for number, output in enumerate(execution.outputs)}
    return {
        "outputs": [[o.kind, dict(o.data), dict(o.metadata)] for o in execution.outputs],
        "state": execution.state,
        "error": execution.error,
        "error_name": execution.error_name,
        "hint": execution.hint,
        "described": [
            [places[key], words] for key, words in execution.described.items() if key in places
        ],
    }
