"""smolagents: its ToolCallingAgent, streaming."""

from __future__ import annotations

import time
from typing import Any

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

from benchmarks import chain
from benchmarks.line import serve


def turn(request: dict[str, Any]) -> dict[str, Any]:
    namespace = chain.Namespace()

    @tool
    def execute_code(code: str) -> str:
        """Run Python code. Variables persist. Returns what it printed.

        Args:
            code: The code.
        """
        return namespace.run(code)

    model = OpenAIModel("model", api_base=f"{request['base']}/v1", api_key="none")
    agent = ToolCallingAgent(
        [execute_code], model, stream_outputs=True, verbosity_level=LogLevel.OFF, max_steps=1_000
    )
    began = time.perf_counter()
    answer = agent.run(chain.TASK)
    return {"seconds": time.perf_counter() - began, "answer": str(answer)}


if __name__ == "__main__":
    serve(turn)
