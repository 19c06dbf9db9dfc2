"""A real Jupyter kernel to run cells in, and the agent in it with scripted replies.

    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        assert kernel.run("1 + 1").result == "2"
        turn = kernel.agent("print('hello')")  # one %%agent cell, one execute_code call
        assert turn.results[0].text == "hello"

Helper cells run without history, so that `In`, `Out` and the counter hold what a test ran.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import yaml
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from pydantic import ValidationError

from jupyter_agent.core.codec import event_from_json, event_to_json
from jupyter_agent.core.events import StepStarted
from jupyter_agent.stores.runs import read_lines

Json = dict[str, Any]
_CLEANED = ("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_", "JPY_", "PYTEST_")
_OUTPUTS = ("stream", "display_data", "execute_result", "error")
START_TIMEOUT = 180.0


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment without keys, our settings and traces of pytest, which ipykernel minds.

    Jupyter's folders of settings and data are empty ones in `folder`.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_CLEANED)}
    config, ipython = folder / "empty_config", folder / "ipython"
    for place in (config, ipython):
        place.mkdir(exist_ok=True)
    own = {"JUPYTER_CONFIG_DIR": str(config), "IPYTHONDIR": str(ipython)}
    return {**kept, **own, "JUPYTER_DATA_DIR": str(folder / "own_data")}


@dataclass(frozen=True)
class Cell:
    """What one cell did.

    Attributes:
        status: `ok`, `error` or `aborted`.
        outputs: What a notebook would store, with `clear_output` and updates carried out.
        reply: The content of the kernel's reply: `payload`, `evalue` and so on.
    """

    status: str
    outputs: tuple[Json, ...]
    reply: Json

    @property
    def stdout(self) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == "stdout")

    @property
    def said(self) -> str:
        """What a command says: what it printed, then what it showed, as plain text."""
        shown = [str(data.get("text/plain", "")) for data in self.displays]
        return "\n".join([*([self.stdout] if self.stdout else []), *shown])

    @property
    def stderr(self) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == "stderr")

    @property
    def result(self) -> str:
        """The text of the value of the last expression."""
        found = [o["data"]["text/plain"] for o in self.outputs if o["type"] == "execute_result"]
        return found[-1] if found else ""

    @property
    def displays(self) -> list[Json]:
        """The MIME bundles of what was displayed."""
        return [o["data"] for o in self.outputs if o["type"] == "display_data"]

    @property
    def transcript(self) -> str:
        """The plain text of the first display: of a turn's saved form it is the transcript."""
        return str(self.displays[0]["text/plain"]) if self.displays else ""

    @property
    def error(self) -> str:
        """What a person sees of the error, line by line."""
        shown = [o["traceback"] for o in self.outputs if o["type"] == "error"]
        return "\n".join("\n".join(lines) for lines in shown)


@dataclass(frozen=True)
class Result:
    """One tool result as the run log holds it."""

    text: str
    is_error: bool
    state: str
    error_name: str
    display: tuple[Json, ...]

    @property
    def kinds(self) -> list[str]:
        return [output["kind"] for output in self.display]


@dataclass(frozen=True)
class Turn:
    """One %%agent cell and what its run log says."""

    cell: Cell
    events: tuple[Json, ...]

    @property
    def results(self) -> list[Result]:
        return [_result(e["result"]) for e in self.events if e["type"] == "tool_finished"]

    @property
    def result(self) -> Result:
        """The only tool result."""
        (only,) = self.results
        return only

    @property
    def stop_reason(self) -> str:
        return str(self.events[-1]["stop_reason"])


def logged(path: Path) -> Iterator[Json]:
    """The lines of a run log with all that is only named or left out in them."""
    for line in read_lines(path):
        if "step" in line:
            told = StepStarted(line["step"], line["limit"])
            yield {"seq": line["seq"], "time": line["time"], **event_to_json(told)}
        try:
            yield line | event_to_json(event_from_json(line))
        except ValidationError:
            yield line


def _result(data: Json) -> Result:
    text = "\n".join(block["text"] for block in data["content"] if block["type"] == "text")
    details = data["details"]
    return Result(
        text,
        data["is_error"],
        details.get("state", ""),
        details.get("error_name", ""),
        tuple(data["display"]),
    )


class Running:
    """A cell that was sent to the kernel and has not been waited for."""

    def __init__(
        self, client: BlockingKernelClient, message_id: str, stacks: Callable[[], str]
    ) -> None:
        self.shown: list[Json] = []
        self.asked: Json = {}
        """The header of the kernel's last question."""
        self.watch: Callable[[Json], None] = lambda message: None
        """Takes each message about a comm, whatever it belongs to."""
        self._client = client
        self._id = message_id
        self._stacks = stacks
        self._idle = False
        self._clear_next = False

    def finish(self, timeout: float = 180) -> Cell:
        """Wait until the kernel is idle again. Raises TimeoutError where it stays busy."""
        self._read(timeout, until=lambda: self._idle)
        while True:
            reply = self._client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == self._id:
                content = reply["content"]
                return Cell(content["status"], tuple(self.shown), content)

    def wait_for(self, text: str, timeout: float = 180) -> None:
        """Wait until `text` is somewhere in what the cell shows."""
        self._read(timeout, until=lambda: text in json.dumps(self.shown, ensure_ascii=False))

    def question(self, timeout: float = 180) -> str:
        """Wait until the kernel asks for a line of text, and give its prompt."""
        asked: list[str] = []

        def is_asked() -> bool:
            with suppress(queue.Empty):
                request = self._client.get_stdin_msg(timeout=0.02)
                self.asked = request["header"]
                asked.append(request["content"]["prompt"])
            return bool(asked)

        self._read(timeout, until=is_asked, pause=0.05)
        return asked[0]

    def type(self, text: str, about: Json | None = None) -> None:
        """Answer the kernel's question, or type into the line of another one (`about`)."""
        if about is None:
            self._client.input(text)
            return
        reply = self._client.session.msg("input_reply", {"value": text}, parent={"header": about})
        self._client.stdin_channel.send(reply)

    def await_that(self, condition: Callable[[], bool], timeout: float = 180) -> None:
        """Wait until something holds of what `watch` has seen."""
        self._read(timeout, until=condition)

    def _read(self, timeout: float, until: Callable[[], bool], pause: float = 1) -> None:
        end = time.monotonic() + timeout
        while not until():
            with suppress(queue.Empty):
                left = max(0.0, end - time.monotonic())
                self._take(self._client.get_iopub_msg(timeout=min(left, pause)))
            if time.monotonic() > end:
                late = f"not seen after {timeout:g} s; shown so far: {self.shown}"
                raise TimeoutError(f"{late}\n{self._stacks()}")

    def _take(self, message: Json) -> None:
        if message["header"]["msg_type"].startswith("comm_"):
            self.watch(message)
        if message["parent_header"].get("msg_id") != self._id:
            return
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "status":
            self._idle = content["execution_state"] == "idle"
        elif kind == "clear_output":
            self._clear_next = True
            self._clear_if_due(not content["wait"])
        elif kind == "update_display_data":
            self._update(content)
        elif kind in _OUTPUTS:
            self._clear_if_due(True)
            self.shown.append({"type": kind, **content})

    def _clear_if_due(self, now: bool) -> None:
        if self._clear_next and now:
            self.shown.clear()
            self._clear_next = False

    def _update(self, content: Json) -> None:
        display_id = content["transient"]["display_id"]
        for index, output in enumerate(self.shown):
            if output.get("transient", {}).get("display_id") == display_id:
                self.shown[index] = {"type": "display_data", **content}


class LiveKernel:
    """A kernel of its own process, to be used as a context manager.

    Args:
        folder: Its working folder.
        environ: Variables besides those of `clean_environment`; None takes one away.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str | None] | None = None) -> None:
        self.folder = folder
        # Nobody is there to be asked; what tests of the approvals set by command comes later.
        allowed = {"JUPYTER_AGENT_APPROVALS__MODE": "auto"}
        given = {**clean_environment(folder), **allowed, **(environ or {})}
        self._environ = {name: value for name, value in given.items() if value is not None}
        self._manager = KernelManager(kernel_name="python3")
        self._stderr: IO[str]
        self._client: BlockingKernelClient
        self._scripts = 0

    def __enter__(self) -> LiveKernel:
        self._stderr = (self.folder / "kernel_stderr.txt").open("w+")
        try:
            self._start()
        except RuntimeError:
            # Its ports were free when they were chosen: another kernel has just taken one.
            self._client.stop_channels()
            self._manager.shutdown_kernel(now=True)
            self._manager.cleanup_resources()
            self._manager = KernelManager(kernel_name="python3")
            self._start()
        return self

    def _start(self) -> None:
        # On SIGABRT a kernel that hangs says where: see `stacks`.
        environ = {**self._environ, "PYTHONFAULTHANDLER": "1"}
        self._manager.start_kernel(cwd=str(self.folder), env=environ, stderr=self._stderr)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=START_TIMEOUT)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        self._stderr.close()

    def load(self, *commands: str) -> None:
        """Load the extension, then run `%agent` commands such as `config max_steps 3`."""
        self.helper("%load_ext jupyter_agent", *(f"%agent {command}" for command in commands))

    def begin_anew(self, folder: Path) -> None:
        """Go on in `folder` as a new kernel would: no variables, settings and conversation.

        It takes a tenth of a kernel's start. `restart` would go back to the first folder.
        """
        leave = f"os.chdir({str(folder)!r})"
        self.helper("%unload_ext jupyter_agent", "%reset -f", "import os", leave, "del os")
        self.folder = folder
        self.load()

    def answers(self, timeout: float = 30) -> bool:
        """Whether the kernel lives and is not stuck in a cell."""
        if not self._manager.is_alive():
            return False
        try:
            self.start("", history=False).finish(timeout)
        except (TimeoutError, queue.Empty):
            return False
        return True

    def await_death(self, timeout: float = 180) -> None:
        """Wait until the process has ended by itself."""
        end = time.monotonic() + timeout
        while self._manager.is_alive():
            if time.monotonic() > end:
                raise TimeoutError(f"the kernel lives\n{self.stacks()}")
            time.sleep(0.05)

    def restart(self) -> None:
        """A new process with the extension loaded."""
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=START_TIMEOUT)
        self.load()

    def start(
        self, code: str, *, history: bool = True, allow_stdin: bool = False, cell_id: str = ""
    ) -> Running:
        """Send a cell and do not wait for it.

        Args:
            code: The cell.
            history: Whether it counts.
            allow_stdin: Whether a person is there to be asked.
            cell_id: Its id, as JupyterLab sends it; empty: nothing is sent, as by a console.
        """
        if not cell_id:
            message_id = self._client.execute(code, store_history=history, allow_stdin=allow_stdin)
            return Running(self._client, message_id, self.stacks)
        content = {"code": code, "silent": False, "store_history": history}
        content |= {"user_expressions": {}, "allow_stdin": allow_stdin, "stop_on_error": True}
        metadata = {"cellId": cell_id, "deletedCells": []}
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        self._client.shell_channel.send(message)
        return Running(self._client, message["header"]["msg_id"], self.stacks)

    def tell(self, comm_id: str, content: object) -> None:
        """What a widget's front end does when it sends a message to its model in the kernel."""
        self.send_comm(comm_id, {"method": "custom", "content": content})

    def send_comm(self, comm_id: str, data: object, kind: str = "comm_msg") -> None:
        """Send a front end's message over a comm."""
        message = self._client.session.msg(kind, {"comm_id": comm_id, "data": data})
        self._client.shell_channel.send(message)

    def stacks(self) -> str:
        """Where the kernel hangs, thread by thread. It does not survive the question."""
        self._manager.signal_kernel(signal.SIGABRT)
        time.sleep(1)
        return Path(self._stderr.name).read_text(encoding="utf-8", errors="replace")[-20_000:]

    def run(self, code: str, timeout: float = 180) -> Cell:
        """Run a cell as a person does."""
        return self.start(code).finish(timeout)

    def helper(self, *lines: str) -> Cell:
        """Run a cell that leaves no history, and fail where it fails."""
        cell = self.start("\n".join(lines), history=False).finish()
        assert cell.status == "ok", cell.error
        return cell

    def value(self, expression: str) -> Any:
        """The value of an expression that is a Python literal, without running a cell."""
        message_id = self._client.execute("", silent=True, user_expressions={"it": expression})
        reply = Running(self._client, message_id, self.stacks).finish().reply
        found = reply["user_expressions"]["it"]
        assert found["status"] == "ok", found
        return ast.literal_eval(found["data"]["text/plain"])

    def complete(self, code: str) -> tuple[str, list[str]]:
        """What Tab offers at the end of a cell: the text that is replaced, and the words."""
        self._client.complete(code, len(code))
        reply = self._client.get_shell_msg(timeout=180)["content"]
        return code[reply["cursor_start"] : reply["cursor_end"]], reply["matches"]

    def interrupt(self) -> None:
        """What the Stop button does."""
        self._manager.interrupt_kernel()

    def script(self, task: str, *replies: Json) -> None:
        """Let the scripted model answer `task` with `replies`."""
        self._scripts += 1
        path = self.folder / f"script_{self._scripts}.yaml"
        turn = {"task": task, "replies": list(replies)}
        path.write_text(yaml.safe_dump([turn], allow_unicode=True), encoding="utf-8")
        self.helper("%agent config provider scripted", f'%agent config script "{path}"')

    def agent(self, *codes: str | Json, timeout: float = 180) -> Turn:
        """Run an %%agent cell in which the model calls `execute_code` with each of `codes`.

        A code may be a dict of all the arguments. The last reply is the answer "Done.".
        """
        running, logs = self.start_agent(*codes)
        return self.turn(running.finish(timeout), logs)

    def start_agent(self, *codes: str | Json) -> tuple[Running, set[Path]]:
        """Send the cell of `agent`; gives it with the logs that were there before."""
        task = f"Task {self._scripts + 1}"
        self.script(task, *map(execute_code, codes), {"text": "Done."})
        logs = self.logs()
        return self.start(f"%%agent --fresh\n{task}"), logs

    def logs(self) -> set[Path]:
        """The run logs so far."""
        return set((self.folder / ".jupyter_agent" / "logs").glob("*.jsonl"))

    def turn(self, cell: Cell, logs_before: set[Path]) -> Turn:
        """What the one new run log says."""
        (new,) = self.logs() - logs_before
        return Turn(cell, tuple(logged(new)))

    def await_file(self, name: str, timeout: float = 180) -> None:
        """Wait until code in the kernel has made a file: it says how far it is."""
        end = time.monotonic() + timeout
        while not (self.folder / name).exists():
            if time.monotonic() > end:
                raise TimeoutError(f"no {name} after {timeout:g} s")
            time.sleep(0.01)


def execute_code(code: str | Json) -> Json:
    """A scripted reply with one call of `execute_code`."""
    arguments = {"code": code} if isinstance(code, str) else code
    return {"calls": [{"name": "execute_code", "arguments": arguments}]}
