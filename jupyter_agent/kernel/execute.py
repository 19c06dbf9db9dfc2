"""Runs code in the live kernel from inside a running cell, like an ordinary cell."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import getpass
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from IPython.core import interactiveshell

from jupyter_agent.core.effects import SideEffect, SideEffectJudge
from jupyter_agent.core.messages import Output
from jupyter_agent.kernel.bounded import Overflow
from jupyter_agent.kernel.capture import Capture, rich_output
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.kernel.effects import announce, judged
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.kernel.marks import AGENT_FILE, is_agents, is_marked, own
from jupyter_agent.kernel.redirect import capturing
from jupyter_agent.kernel.repair_hints import repair_hint
from jupyter_agent.kernel.scratch import Scratch, scratch_hint
from jupyter_agent.kernel.shadow import swapped
from jupyter_agent.kernel.tracebacks import cell_name, error_name, format_error
from jupyter_agent.source.cell import is_plain, transformer

_WRITES_TO_DESCRIPTORS = re.compile(r"subprocess|os\.system|popen|ctypes|multiprocessing")
DESCRIPTOR_SECONDS = 0.05
"""Seconds to wait for a subprocess's output to the kernel's own file descriptors."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The outputs and the end of one execution.

    `error` is the text of the exception, with its useful frames; `error_name` the class's name.
    `described` has descriptions of values and streams without their data, by the `id` of their
    output; `whereabouts` the place of the full text of a shortened output; `hint` what exists in
    the place of what the error says is missing.
    """

    outputs: tuple[Output, ...]
    state: Literal["done", "failed", "interrupted", "timed_out"]
    error: str = ""
    error_name: str = ""
    described: Mapping[int, str] = field(default_factory=dict)
    whereabouts: str = ""
    hint: str = ""


@dataclass(slots=True)
class Numbering:
    """Numbers pieces of code for their tracebacks: `agent code 3`, of a delegate `agent code 2.3`.

    Attributes:
        prefix: What stands before each number.
        count: The pieces so far.
    """

    prefix: str = ""
    count: int = 0

    def __str__(self) -> str:
        return f"{self.prefix}{self.count}"


class Executor:
    """Runs code in one shell's namespace.

    Neither the execution counter nor `In`, `Out` and `_` change. The shell's own execution events
    fire, as they do for every cell.

    Args:
        shell: The IPython shell.
        interrupts: The interrupts of the turn.
        outputs: Returns the folder for outputs too long for memory; None drops their middle.

    Attributes:
        scratch: The namespace of code that runs in scratch.
        numbering: The numbers of the pieces of code that run.
    """

    def __init__(
        self, shell: Any, interrupts: Interrupts, outputs: Callable[[], Path] | None = None
    ) -> None:
        self.scratch = Scratch(shell)
        self._shell = shell
        self._outputs = outputs
        self._interrupts = interrupts
        self.numbering = Numbering()
        self._cancelled = self._began = False

    async def run(
        self,
        code: str,
        timeout: float | None = None,
        printed: Callable[[str], None] | None = None,
        judge: SideEffectJudge | None = None,
        in_scratch: bool = False,
    ) -> Execution:
        """Execute `code`: Python, magics, `!commands` and top-level await.

        Args:
            code: The text of a cell.
            timeout: Seconds after which the code itself is interrupted; None waits for ever.
            printed: Called with the text written to the streams.
            judge: Called before each side effect of the code; None lets all of them happen.
            in_scratch: Whether it runs in `scratch` instead of the person's namespace.

        After an interrupt by the user, returns the outputs so far, and cancels the turn's task at
        its next await.
        """
        self._cancelled = False
        hook = _DisplayHook(self._shell, code)
        with (
            capturing(self._shell, hook, self._overflow(), printed) as capture,
            self._contained(capture) as shown,
            self.scratch.in_use() if in_scratch else nullcontext(),
        ):
            with self._interrupts.limited(timeout) as limit:
                error = await self._run_cell(code, judge)
            self._interrupts.executions += 1
            if _WRITES_TO_DESCRIPTORS.search(code):
                await asyncio.sleep(DESCRIPTOR_SECONDS)
            timed_out = limit is not None and limit.expired
            self._finish_cell()
        outputs = tuple(o for o in capture.outputs() if shown.get(id(o)) is not error or not error)
        execution = self._execution(outputs, error, timed_out, timeout)
        if execution.state == "failed" and error is not None:
            names = self.scratch.names() if in_scratch else self._shell.user_ns
            hint = repair_hint(error, names) or (scratch_hint(error) if in_scratch else "")
            execution = replace(execution, hint=hint)
        described = {**hook.described, **capture.sizes}
        execution = replace(execution, described=described, whereabouts=capture.whereabouts)
        if self._interrupts.requested or (self._cancelled and not timed_out):
            self._interrupts.cancel_turn()
        return execution

    def _overflow(self) -> Callable[[int], Overflow] | None:
        """Makes the files for outputs of this execution that are too long for memory."""
        folder = self._outputs
        if folder is None:
            return None
        numbering = self.numbering
        name = f"agent_code_{numbering.prefix}{numbering.count + 1}"
        return lambda number: Overflow(
            folder, f"{name}.txt" if number == 1 else f"{name}_{number}.txt"
        )

    @contextmanager
    def _paged(self, capture: Capture) -> Iterator[None]:
        """Show a pager's text (`len?`) as an output of the code, not in the user's notebook."""
        payloads = getattr(self._shell, "payload_manager", None)
        if payloads is None:
            yield
            return
        write = payloads.write_payload

        def write_payload(data: Any, single: bool = True) -> None:
            if data.get("source") == "page" and is_agents():
                capture.show(rich_output("result", data.get("data", {})))
            else:
                write(data, single)

        with swapped(payloads, "write_payload", write_payload):
            yield

    async def _run_cell(self, code: str, judge: SideEffectJudge | None) -> BaseException | None:
        shell = self._shell
        self._began = False
        try:
            transformed = _transformed(shell, code)
        except Exception as error:
            return error
        run = shell.run_cell_async(code, store_history=False, transformed_cell=transformed)
        self._interrupts.blocking = not _may_await(shell, code, transformed)
        if self._interrupts.requested:
            # The interrupt came before the code could begin: it must not start.
            self._interrupts.blocking = False
            run.close()
            return KeyboardInterrupt()
        self._began = bool(code.strip())  # IPython does not begin a blank cell
        try:
            with judged(judge) if judge else nullcontext():
                result = await self._awaited(run)
        except KeyboardInterrupt as error:
            return error
        finally:
            self._interrupts.blocking = False
        failure: BaseException | None = result.error_before_exec or result.error_in_exec
        return failure

    async def _awaited(self, run: Any) -> Any:
        """Await code that the user or its time-out may cancel."""
        with self._named():
            result = await run
        if isinstance(result.error_in_exec, asyncio.CancelledError):
            # IPython turned the cancellation into a result; the task must not stay marked.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                task.uncancel()
                self._cancelled = True
        return result

    def _finish_cell(self) -> None:
        """Fire IPython's events after a cell, which show open figures."""
        if not self._began:
            return
        with contextlib.suppress(KeyboardInterrupt):
            self._shell.events.trigger("post_execute")
            self._shell.events.trigger("post_run_cell", self._shell.last_execution_result)

    def _execution(
        self,
        outputs: tuple[Output, ...],
        error: BaseException | None,
        timed_out: bool,
        timeout: float | None,
    ) -> Execution:
        if timed_out:
            message = f"The code was interrupted after its time-out of {timeout:g} s."
            return Execution(outputs, "timed_out", message, "TimeoutError")
        if self._interrupts.requested:
            return Execution(outputs, "interrupted", "Interrupted by the person.", "Interrupted")
        if error is None:
            return Execution(outputs, "done")
        text = format_error(error, self._name_of)
        return Execution(outputs, "failed", text, error_name(error))

    def _name_of(self, filename: str) -> str | None:
        return cell_name(self._shell, filename)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Compile under a file name of the agent's own.

        Tracebacks and `inspect.getsource` find the source under it. Otherwise IPython would use
        the number of the user's running cell.
        """
        self.numbering.count += 1
        name, compiler = f"{AGENT_FILE}{self.numbering}>", self._shell.compile
        theirs = compiler.get_code_name

        def code_name(*arguments: Any) -> Any:
            # The person may run another cell while this code awaits something.
            return name if is_marked() else theirs(*arguments)

        with swapped(compiler, "get_code_name", code_name):
            yield
        getattr(compiler, "_filename_map", {}).pop(name, None)

    @contextmanager
    def _contained(self, capture: Capture) -> Iterator[dict[int, BaseException]]:
        """Keep the shell from publishing errors and from ending the kernel.

        Yields the errors shown during the run (for instance of a `__repr__`) by the `id` of their
        output.
        """
        shown: dict[int, BaseException] = {}

        publish = self._shell._showtraceback

        def show(etype: type[BaseException], error: BaseException, lines: object) -> None:
            if not is_agents():
                publish(etype, error, lines)
                return
            output = Output("error", {"text/plain": format_error(error, self._name_of)})
            shown[id(output)] = error
            capture.show(output)

        show_traceback = self._shell.showtraceback

        def show_current(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            """IPython prints groups of exceptions by itself, with the paths of its own files."""
            error = (exc_tuple or sys.exc_info())[1]
            if is_agents() and isinstance(error, BaseExceptionGroup):
                show(type(error), error, ())
            else:
                show_traceback(exc_tuple, *args, **kwargs)

        with (
            swapped(self._shell, "showtraceback", show_current),
            swapped(self._shell, "_showtraceback", show),
            swapped(
                self._shell.InteractiveTB,
                "structured_traceback",
                _or_plain(self._shell.InteractiveTB.structured_traceback),
            ),
            swapped(self._shell, "ask_exit", _refuse_exit),
            # IPython would print it; the error's text has it already.
            swapped(self._shell, "show_usage_error", lambda error: None),
            self._paged(capture),
            swapped(self._shell, "system", _announced(self._shell.system)),
            swapped(builtins, "input", _refuse_input(builtins.input, "input()")),
            swapped(getpass, "getpass", _refuse_input(getpass.getpass, "getpass()")),
            swapped(interactiveshell, "warn", _warn_unless_exit),
        ):
            yield shown


def _announced(system: Callable[[str], Any]) -> Callable[[str], Any]:
    """`shell.system`, which `!commands` use: reports the command, not how the shell is started."""

    def run(command: str) -> Any:
        if not is_agents():
            return system(command)
        announce(SideEffect("run", command))
        with own():
            return system(command)

    return run


def _or_plain(colourful: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Falls back to a plain traceback if the coloured one fails, as with a low recursion limit."""

    def lines(etype: Any, error: Any, trace: Any, *args: Any, **kwargs: Any) -> list[str]:
        try:
            return colourful(etype, error, trace, *args, **kwargs)
        except Exception:
            return traceback.format_exception(etype, error, trace)

    return lines


def _transformed(shell: Any, code: str) -> str:
    """The code as Python. Skips IPython's slow transformer for code that is Python already."""
    if not is_plain(code) or not _knows_ipython_only(shell):
        return str(shell.transform_cell(code))
    lines = (code if code.endswith("\n") else f"{code}\n").splitlines(keepends=True)
    for transform in shell.input_transformers_post:
        lines = transform(lines)
    return "".join(lines)


def _knows_ipython_only(shell: Any) -> bool:
    """True if the shell has no input transformers besides IPython's and ours."""
    manager, own = shell.input_transformer_manager, transformer()
    transforms = getattr(shell.transform_cell, "__func__", None)
    return (
        transforms is interactiveshell.InteractiveShell.transform_cell
        and type(manager) is type(own)
        and bool(vars(manager) == vars(own))
    )


def _may_await(shell: Any, code: str, transformed: str) -> bool:
    """True if the code may await. Code without the keywords cannot."""
    if "await" not in transformed and "async" not in transformed:
        return False
    return bool(shell.should_run_async(code, transformed_cell=transformed))


def _warn_unless_exit(message: object, *args: Any, **kwargs: Any) -> None:
    """`warnings.warn` without IPython's advice about `exit`, which does not help the agent."""
    if not str(message).startswith("To exit"):
        warnings.warn(message, *args, **kwargs)  # type: ignore[call-overload]


def _refuse_input(real: Callable[..., str], name: str) -> Callable[..., str]:
    """An `input` that fails in the agent's code, where nobody answers; other code may ask."""

    def ask(*args: Any, **kwargs: Any) -> str:
        if not is_agents():
            return real(*args, **kwargs)
        raise RuntimeError(f"{name} is not available in the agent's code: nobody could answer.")

    return ask


def _refuse_exit() -> None:
    raise SystemExit("The agent's code cannot end the kernel.")


class _DisplayHook:
    """Shows the value of the last expression without touching `Out` or `_`."""

    def __init__(self, shell: Any, code: str) -> None:
        self._shell = shell
        self._silent = _ends_with_semicolon(shell, code)
        self.described: dict[int, str] = {}

    def __call__(self, capture: Capture, value: object) -> None:
        if value is None or self._silent:
            return
        data, metadata = self._shell.display_formatter.format(value)
        if data:
            output = rich_output("result", data, metadata)
            self.described[id(output)] = f"value: {one_line(value, 'schema')}"
            capture.show(output)


def _ends_with_semicolon(shell: Any, code: str) -> bool:
    if ";" not in code:
        return False  # spares nearly every cell a second reading by the tokenizer
    try:
        return bool(shell.displayhook.semicolon_at_end_of_expression(code))
    except Exception:
        return False  # text that Python's tokenizer rejects
