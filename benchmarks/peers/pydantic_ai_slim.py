"""pydantic-ai: its Agent, streaming, by either wire format."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterable
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.usage import UsageLimits

from benchmarks import chain
from benchmarks.line import serve


def model(kind: str, base: str) -> Any:
    if kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("model", provider=AnthropicProvider(api_key="none", base_url=base))
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel("model", provider=OpenAIProvider(f"{base}/v1", api_key="none"))


async def watch(context: RunContext[None], events: AsyncIterable[Any]) -> None:
    """Somebody who reads the stream makes it one."""
    async for _ in events:
        pass


async def turn(kind: str, base: str) -> dict[str, Any]:
    namespace = chain.Namespace()
    agent = Agent(model(kind, base), instructions=chain.SYSTEM)

    @agent.tool_plain
    async def execute_code(code: str) -> str:
        """Run Python code. Variables persist. Returns what it printed.

        Args:
            code: The code.
        """
        return namespace.run(code)

    began = time.perf_counter()
    result = await agent.run(
        chain.TASK, event_stream_handler=watch, usage_limits=UsageLimits(request_limit=None)
    )
    return {"seconds": time.perf_counter() - began, "answer": result.output}


if __name__ == "__main__":
    kind = sys.argv[1]
    with asyncio.Runner() as runner:
        serve(lambda request: runner.run(turn(kind, request["base"])))
