"""The tool that runs code in the notebook's own kernel."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jupyter_agent.kernel.execute import Execution, Executor
from jupyter_agent.messages import Output
from jupyter_agent.plaintext import plain, shorten
from jupyter_agent.tools.tool import Tool, ToolReturn, tool

MODEL_LIMIT = 30_000
"""Characters of one execution's output that the model gets to read."""


def code_tools(executor: Executor) -> list[Tool]:
    """`execute_code`, bound to the kernel that `executor` runs in."""

    @tool("executes")
    async def execute_code(
        code: Annotated[str, Field(description="The text of a notebook cell.")],
        timeout: Annotated[
            float | None, Field(gt=0, description="Seconds after which the code is interrupted.")
        ] = None,
    ) -> ToolReturn:
        """Run code in the live kernel of the person's notebook, where their variables are.

        Python, %magics, !commands and top-level await work as in a cell. Variables persist.
        Returns stdout, stderr, the value of the last expression, displays, and the error if any.
        """
        return _returned(await executor.run(code, timeout))

    return [execute_code]


def _returned(execution: Execution) -> ToolReturn:
    parts = [text for output in execution.outputs if (text := _text(output))]
    if execution.error:
        parts.append(execution.error)
    text = shorten("\n".join(parts), MODEL_LIMIT, "print less to see it") or "(no output)"
    failed = execution.state != "done"
    display = execution.outputs
    if failed:
        display = (*display, Output("error", {"text/plain": execution.error}))
    details = {"state": execution.state, "error_name": execution.error_name}
    return ToolReturn(text, display, details, is_error=failed)


def _text(output: Output) -> str:
    """What the model reads of one output."""
    if "text/plain" in output.data:
        text = plain(str(output.data["text/plain"])).strip("\n")
    else:
        text = ""
    if output.kind == "stderr" and text:
        return f"[stderr] {text}"
    shown = [kind for kind in output.data if kind != "text/plain" and output.kind == "display"]
    if shown:
        return f"{text} [shown to the person: {', '.join(shown)}]".strip()
    return text
