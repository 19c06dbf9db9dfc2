"""openai-agents: its Runner, streaming, by chat completions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from benchmarks import chain
from benchmarks.line import serve


async def turn(base: str) -> dict[str, Any]:
    namespace = chain.Namespace()

    @function_tool
    async def execute_code(code: str) -> str:
        """Run Python code. Variables persist. Returns what it printed.

        Args:
            code: The code.
        """
        return namespace.run(code)

    client = AsyncOpenAI(api_key="none", base_url=f"{base}/v1", max_retries=0)
    model = OpenAIChatCompletionsModel(model="model", openai_client=client)
    agent = Agent(name="agent", instructions=chain.SYSTEM, tools=[execute_code], model=model)
    began = time.perf_counter()
    result = Runner.run_streamed(agent, chain.TASK, max_turns=1_000)
    async for _ in result.stream_events():
        pass
    took = time.perf_counter() - began
    await client.close()
    return {"seconds": took, "answer": result.final_output}


if __name__ == "__main__":
    # Its traces would go to a server that is not there.
    set_tracing_disabled(True)
    with asyncio.Runner() as runner:
        serve(lambda request: runner.run(turn(request["base"])))
