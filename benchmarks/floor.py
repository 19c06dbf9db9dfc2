"""The floor: the shortest loop around an SDK that streams, calls the tool and goes on.

`python -m benchmarks.floor anthropic` is asked line by line: {"base": …} is one turn,
{"base": …, "first": true} also tells when the first token was there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from benchmarks import chain
from benchmarks.line import serve

Json = dict[str, Any]


async def with_anthropic(base: str) -> Json:
    """A turn by the Messages API."""
    import anthropic

    client = anthropic.AsyncAnthropic(api_key="none", base_url=base, max_retries=0)
    tool = {
        "name": chain.TOOL,
        "description": chain.TOOL_DESCRIPTION,
        "input_schema": chain.SCHEMA,
    }
    messages: list[Any] = [{"role": "user", "content": chain.TASK}]
    namespace, first = chain.Namespace(), 0.0
    began = time.perf_counter()
    while True:
        stream = await client.messages.create(
            model="model",
            max_tokens=16_000,
            system=chain.SYSTEM,
            messages=messages,
            tools=[tool],  # type: ignore[list-item]
            stream=True,
        )
        blocks: list[Json] = []
        async for event in stream:
            if event.type == "content_block_start":
                blocks.append(event.content_block.model_dump() | {"pieces": []})
            elif event.type == "content_block_delta":
                delta = event.delta
                first = first or time.monotonic()
                text = delta.text if delta.type == "text_delta" else delta.partial_json
                blocks[-1]["pieces"].append(text)
        content, results = [], []
        for block in blocks:
            whole = "".join(block["pieces"])
            if block["type"] == "text":
                content.append({"type": "text", "text": whole})
                continue
            call = {"type": "tool_use", "id": block["id"], "name": block["name"]}
            content.append(call | {"input": json.loads(whole)})
            shown = namespace.run(json.loads(whole)["code"])
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": shown})
        messages.append({"role": "assistant", "content": content})
        if not results:
            break
        messages.append({"role": "user", "content": results})
    took = time.perf_counter() - began
    await client.close()
    return {"seconds": took, "first": first, "answer": content[0]["text"]}


async def with_openai(base: str) -> Json:
    """A turn by chat completions."""
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=f"{base}/v1", max_retries=0)
    function = {
        "name": chain.TOOL,
        "description": chain.TOOL_DESCRIPTION,
        "parameters": chain.SCHEMA,
    }
    messages: list[Any] = [
        {"role": "system", "content": chain.SYSTEM},
        {"role": "user", "content": chain.TASK},
    ]
    namespace, first = chain.Namespace(), 0.0
    began = time.perf_counter()
    while True:
        stream = await client.chat.completions.create(
            model="model",
            messages=messages,
            tools=[{"type": "function", "function": function}],  # type: ignore[list-item]
            stream=True,
            stream_options={"include_usage": True},
        )
        words: list[str] = []
        calls: list[Json] = []
        async for chunk in stream:
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            if delta.content:
                first = first or time.monotonic()
                words.append(delta.content)
            for part in delta.tool_calls or ():
                if part.id:
                    calls.append({"id": part.id, "name": part.function.name, "pieces": []})
                calls[part.index]["pieces"].append(part.function.arguments or "")
        said: Json = {"role": "assistant", "content": "".join(words)}
        messages.append(said)
        if not calls:
            break
        said["tool_calls"] = []
        for call in calls:
            arguments = "".join(call["pieces"])
            called = {"name": call["name"], "arguments": arguments}
            said["tool_calls"].append({"id": call["id"], "type": "function", "function": called})
            shown = namespace.run(json.loads(arguments)["code"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": shown})
    took = time.perf_counter() - began
    await client.close()
    return {"seconds": took, "first": first, "answer": said["content"]}


LOOPS = {"anthropic": with_anthropic, "openai": with_openai}


if __name__ == "__main__":
    loop = LOOPS[sys.argv[1]]
    with asyncio.Runner() as runner:
        serve(lambda request: runner.run(loop(request["base"])))
