"""A conversation that is too long for the model: shortened once, asked once more, then the end."""

from __future__ import annotations

import json

import pytest
from faults.bench import Bench, adapter, check_history
from faults.cases import QUICK, SAID
from faults.hostile import Answer, Hostile, Wire
from model_server import Call, check_anthropic, check_openai

from jupyter_agent.core.events import Compacted

LONG = "x" * 20_000


def too_long(wire: Wire) -> Answer:
    return wire.failed(400, "prompt is too long: 9 tokens > 8 maximum")


def asking(wire: Wire, *words: str) -> Answer:
    return wire.good("", [Call("note", json.dumps({"word": word})) for word in words])


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("again", [False, True])
async def test_overflow(kind: str, again: bool) -> None:
    """The long results are cut and the call is made once more; if that is no help, it ends."""
    wire = Wire(kind)
    refusals = [too_long(wire)] * (2 if again else 1)
    script = [asking(wire, LONG, "b"), *refusals, wire.good(SAID), wire.good("Next.")]
    with Hostile(script[: 1 + len(refusals)] + script[-1 if again else -2 :]) as server:
        async with adapter(kind, server.url(kind)) as provider:
            bench = Bench(provider, QUICK)
            outcome = await bench.turn("Do it.")
            assert len(server.requests) == 3
            assert outcome.stop_reason == ("error" if again else "end")
            assert "too long" in " ".join(bench.lines)
            assert len([e for e in bench.events if isinstance(e, Compacted)]) == 1
            assert not bench.retries and bench.noted == [LONG, "b"]
            check_history(bench)
            assert (await bench.turn("And now?")).stop_reason == "end"
        before, after = (len(r.raw) for r in server.requests[1:3])
        assert after < before - 10_000
        assert "noted b" in json.dumps(server.requests[-1].body)
        for request in server.requests:
            (check_anthropic if kind == "anthropic" else check_openai)(request.body)
