"""The tool that runs code in the notebook's own kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Protocol

from pydantic import Field

from jupyter_agent.core.asked_changes import SPOILT
from jupyter_agent.core.displays import WIDGET
from jupyter_agent.core.effects import SideEffect
from jupyter_agent.core.error_hints import HINT
from jupyter_agent.core.messages import Image, JsonObject, Output, Text
from jupyter_agent.core.plaintext import plain, shorten
from jupyter_agent.core.tool import Tool, ToolReturn, call_id, report, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.execute import Execution, Executor
from jupyter_agent.kernel.images import LONGEST_SIDE, picture
from jupyter_agent.kernel.named_inputs import Spoilt
from jupyter_agent.kernel.scratch import Adopted, Scratch

MODEL_LIMIT = 30_000
"""Characters of one execution's output that the model gets to read."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How much of an execution the model sees.

    Args:
        shapes_only: Whether data is withheld: the model learns what kinds of outputs there were.
        longest_side: Pixels to which a picture is scaled down; 0 gives a line of text instead.
    """

    shapes_only: bool = False
    longest_side: int = LONGEST_SIDE


class CodeGuard(Protocol):
    """Judges the side effects of running code. `refused` are those that did not happen."""

    refused: list[str]

    def __call__(self, effect: SideEffect) -> None: ...


class RunsCode(Protocol):
    """Runs code somewhere else, as `Executor.run` does here."""

    async def __call__(
        self, code: str, timeout: float | None, printed: Callable[[str], None] | None, /
    ) -> Execution: ...


def code_tools(
    executor: Executor,
    sight: Callable[[], Sight] = Sight,
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
    guarded: Callable[[str], AbstractContextManager[CodeGuard | None]] = lambda call: nullcontext(),
    noticed: Callable[[str], Spoilt] = lambda code: Spoilt(),
    is_same: Callable[[str, object], bool] = lambda name, value: False,
) -> list[Tool]:
    """`execute_code`, bound to the kernel that `executor` runs in.

    Args:
        executor: Runs the code.
        sight: Gives what the settings allow the model to see, asked for each call.
        around: Gives for a code what it is executed in: a checkpoint that notes changed files.
        guarded: Gives for a call's id the judge of its side effects; None lets all of them happen.
        noticed: Tells what a code that has run did to the inputs of the task.
        is_same: Whether a variable is known to have the content of before the turn.
    """

    @tool("executes")
    async def execute_code(
        code: Annotated[str, Field(description="The text of a notebook cell.")],
        timeout: Annotated[
            float | None,
            Field(gt=0, le=86_400, description="Seconds after which the code is interrupted."),
        ] = None,
        scratch: Annotated[
            bool, Field(description="Explore: what it binds is discarded with the turn.")
        ] = False,
        keep: Annotated[list[str], Field(description="Scratch names to hand to the person.")] = [],  # noqa: B006 (never changed; pydantic copies it)
    ) -> ToolReturn:
        """Run code in the live kernel of the person's notebook, where their variables are.

        Python, %magics, !commands and top-level await work as in a cell. Variables persist.
        Returns stdout, stderr, the value of the last expression, displays, and the error if any.
        """
        if keep and not scratch:
            raise ToolError("keep takes names out of scratch: it needs scratch=true.")
        space = executor.scratch
        before = space.looked_at(code) if scratch or space.holds else None
        noting = space.noting() if space.holds and not scratch else nullcontext()
        with around(code), guarded(call_id.get()) as guard:
            with noting:
                execution = await executor.run(
                    code, timeout, report.get(), guard, in_scratch=before is not None
                )
            adopted = space.adopt(keep) if keep and execution.state == "done" else Adopted()
        returned = _returned(execution, sight(), guard.refused if guard else ())
        spoilt = noticed(code)
        if before is not None:
            mutated = space.mutated(before, is_same)
            returned = _of_scratch(
                returned, space, adopted, [n for n in mutated if n not in spoilt.mutated]
            )
        return _with_spoilt(returned, spoilt)

    return [execute_code]


def delegate_code_tools(
    executor: Executor,
    sight: Callable[[], Sight],
    around: Callable[[str], AbstractContextManager[object]],
    guarded: Callable[[str], AbstractContextManager[CodeGuard | None]],
    within: Callable[[str], AbstractAsyncContextManager[Sequence[str]]],
) -> list[Tool]:
    """`execute_code` for a delegate, whose names are its own.

    Args:
        executor: Runs the code.
        sight: As for `code_tools`.
        around: As for `code_tools`.
        guarded: As for `code_tools`.
        within: Gives for a code the place where it runs. Once it is left, the lines that it
            yielded say what the code did to the person's objects.
    """

    @tool("executes")
    async def execute_code(
        code: Annotated[str, Field(description="The text of a notebook cell.")],
        timeout: Annotated[
            float | None,
            Field(gt=0, le=86_400, description="Seconds after which the code is interrupted."),
        ] = None,
    ) -> ToolReturn:
        """Run code in the kernel of the person's notebook, in names of your own.

        You read the person's variables; what you bind stays yours, and persists. Python, %magics,
        !commands and top-level await work as in a cell. Returns stdout, stderr, the value of the
        last expression, displays, and the error if any.
        """
        async with within(code) as lines:
            with around(code), guarded(call_id.get()) as guard:
                execution = await executor.run(code, timeout, report.get(), guard, in_scratch=True)
        returned = _returned(execution, sight(), guard.refused if guard else ())
        return _with_lines(returned, lines, {})

    return [execute_code]


def process_code_tools(run: RunsCode, sight: Callable[[], Sight]) -> list[Tool]:
    """`execute_code` for a delegate whose code runs in a child process.

    Args:
        run: Runs a code there, in at most a number of seconds, and passes on what it prints.
        sight: As for `code_tools`.
    """

    @tool("executes")
    async def execute_code(
        code: Annotated[str, Field(description="The text of a notebook cell.")],
        timeout: Annotated[
            float | None,
            Field(gt=0, le=86_400, description="Seconds after which the code is interrupted."),
        ] = None,
    ) -> ToolReturn:
        """Run code in your own process, which holds copies of the inputs and nothing else.

        Variables persist; nothing but what you hand over leaves the process. It can read files, and
        changes nothing outside of its temporary folder. Python, %magics and top-level await work as
        in a cell. Returns stdout, stderr, the value of the last expression, displays, and the error
        if any.
        """
        return _returned(await run(code, timeout, report.get()), sight(), ())

    return [execute_code]


def _of_scratch(
    returned: ToolReturn, scratch: Scratch, adopted: Adopted, mutated: Sequence[str]
) -> ToolReturn:
    """The result of scratch code, with a line for each way in which it reached the person."""
    lines = []
    if adopted.kept:
        lines.append(f"Kept for the person: {_code_names(adopted.kept)}.")
    if adopted.left:
        lines.append(f"Not kept: {'; '.join(adopted.left)}.")
    if mutated:
        names = _code_names(mutated)
        lines.append(f"Changed in place, so outside of scratch, too: {names}. Copy before you do.")
    details = {"scratch": True, "kept": [*adopted.kept], "shadows": [*scratch.shadows()]}
    return _with_lines(returned, lines, details)


def _with_spoilt(returned: ToolReturn, spoilt: Spoilt) -> ToolReturn:
    if not spoilt.lines:
        return returned
    found = {"mended": spoilt.mended, "rebound": spoilt.rebound, "mutated": spoilt.mutated}
    details = {SPOILT: {key: [*names] for key, names in found.items() if names}}
    return _with_lines(returned, [HINT.format(line) for line in spoilt.lines], details)


def _with_lines(returned: ToolReturn, lines: Sequence[str], details: JsonObject) -> ToolReturn:
    content = (*returned.content, *map(Text, lines))
    return replace(returned, content=content, details={**returned.details, **details})


def _code_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _returned(execution: Execution, sight: Sight, refused: Sequence[str]) -> ToolReturn:
    failed = execution.state != "done"
    content = _shapes(execution) if sight.shapes_only else _content(execution, sight)
    if refused and execution.state in ("done", "interrupted"):
        # The code may have gone on in spite of the error, and say that all went well.
        why = "since it was refused" if not failed else "since nobody allowed it"
        content = (*content, Text(f"This did not happen, {why}: {'; '.join(refused)}."))
    display = execution.outputs
    if failed:
        display = (*display, Output("error", {"text/plain": execution.error}))
    details = {"state": execution.state, "error_name": execution.error_name}
    if execution.whereabouts:
        details["whereabouts"] = execution.whereabouts
    return ToolReturn(content, display, details, is_error=failed)


def _content(execution: Execution, sight: Sight) -> tuple[Text | Image, ...]:
    """Everything that was shown, as text and pictures."""
    parts: list[str] = []
    images: list[Image] = []
    for output in execution.outputs:
        image = picture(output.data, sight.longest_side) if sight.longest_side else None
        if image is not None:
            images.append(image)
        if text := _text(output, as_image=image is not None):
            parts.append(text)
    if execution.error:
        parts.append(execution.error)
    if execution.hint:
        parts.append(HINT.format(execution.hint))
    whole = execution.whereabouts or "print less to see it"
    text = shorten("\n".join(parts), MODEL_LIMIT, whole) or "(no output)"
    return (Text(text), *images)


def _shapes(execution: Execution) -> tuple[Text, ...]:
    """What kinds of things were shown, without any of their data."""
    lines = [_shape(output, execution.described) for output in execution.outputs]
    if execution.state == "failed":
        lines.append(f"error: {execution.error_name}{_line_of(execution.error)}")
    elif execution.error:
        lines.append(execution.error)
    withheld = "(privacy.outputs is shapes: the data itself is withheld from you)"
    return (Text("\n".join([*(lines or ["no output"]), withheld])),)


def _shape(output: Output, described: Mapping[int, str]) -> str:
    return described.get(id(output)) or f"{output.kind}: {', '.join(_kinds(output))}"


def _kinds(output: Output) -> list[str]:
    """The MIME types of an output, without the HTML that a widget gets for the time after it."""
    return [kind for kind in output.data if kind != "text/html" or WIDGET not in output.data]


def _line_of(error: str) -> str:
    """Where in the agent's code an error came up, without what its message says."""
    match = re.search(r"^agent code [\d.]+, line (\d+)", error, re.MULTILINE)
    return f" in line {match[1]}" if match else ""


def _text(output: Output, as_image: bool) -> str:
    """What the model reads of one output."""
    if "text/plain" in output.data:
        text = plain(str(output.data["text/plain"])).strip("\n")
    else:
        text = ""
    if output.kind == "stderr" and text:
        return f"[stderr] {_once(text)}"
    if as_image:
        return f"{text} [shown to the person; the picture is below]".strip()
    shown = [kind for kind in _kinds(output) if kind != "text/plain" and output.kind == "display"]
    if shown:
        return f"{text} [shown to the person: {', '.join(shown)}]".strip()
    return text


def _once(text: str) -> str:
    """Each warning once: blocks of lines that follow themselves are counted instead."""
    blocks = re.split(r"\n(?=\S)", text)
    lines: list[str] = []
    for block, group in groupby(blocks):
        times = len(list(group))
        lines.append(block if times == 1 else f"{block}\n(the same {times} times)")
    return "\n".join(lines)
