"""OpenTelemetry's spans of a turn: their names, parents and attributes, and no content unasked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    Event,
    MessageFinished,
    Requested,
    Retrying,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.stores.tracing import CAPTURE, NO_API, NO_PROVIDER, TurnSpans, open_spans

KEY = "sk-" + "ant-" + "Abc1" * 8
LOOK = ToolCall("c1", "execute_code", json.dumps({"code": f"look('{KEY}')"}))
ASK = ToolCall("c2", "write_file", "{}")
TURN: list[Event] = [
    TurnStarted("marked-task", "anthropic", "claude-9"),
    StepStarted(1, 5),
    Requested("claude-9", 1, 3, 20),
    Retrying("marked-reason", 1, 0.5),
    Requested("claude-9", 1, 3, 20, attempt=2),
    MessageFinished(
        Message("assistant", (Thinking("marked-thought"), Text("marked-words"), LOOK, ASK)),
        Usage(900, 100, 800, 50),
        "tool_use",
    ),
    ToolStarted(LOOK),
    ToolFinished(
        ToolResult("c1", (Text(f"marked-result {KEY}"),), True, details={"error_name": "KeyError"}),
        0.5,
    ),
    ToolStarted(ASK),
    ApprovalAsked("c2", "marked-question"),
    ApprovalAnswered("c2", "no"),
    ToolFinished(ToolResult("c2", (Text("No."),), True, details={"state": "refused"}), 0),
    Requested("claude-9", 4, 3, 90),
    Compacted(9_000, 100),
    Requested("claude-9", 4, 3, 40),
    MessageFinished(Message("assistant", (Text("marked-answer"),)), Usage(50, 5), "end"),
    TurnFinished("end", Usage(950, 105, 800, 50)),
]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def traced(
    exporter: InMemorySpanExporter, events: list[Event], with_content: bool = False
) -> list[ReadableSpan]:
    """The finished spans of some events, in the order of their beginnings."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = TurnSpans(provider.get_tracer("test"), with_content)
    for event in events:
        spans(event)
    spans.close()
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_the_tree(exporter: InMemorySpanExporter) -> None:
    """A turn has one span, with a span for each model call and each tool call below it."""
    turn, *below = traced(exporter, TURN)
    assert (turn.name, turn.kind, turn.parent) == ("invoke_agent", SpanKind.INTERNAL, None)
    assert [(span.name, span.kind) for span in below] == [
        ("chat claude-9", SpanKind.CLIENT),
        ("execute_tool execute_code", SpanKind.INTERNAL),
        ("execute_tool write_file", SpanKind.INTERNAL),
        ("chat claude-9", SpanKind.CLIENT),
        ("chat claude-9", SpanKind.CLIENT),
    ]
    for span in below:
        assert span.parent is not None and span.parent.span_id == turn.context.span_id
        assert (turn.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0)
        assert (span.end_time or 0) <= (turn.end_time or 0)


def test_the_attributes(exporter: InMemorySpanExporter) -> None:
    """Each span has the names and values of the convention."""
    turn, chat, code, write, overflow, last = traced(exporter, TURN)
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-9",
        "gen_ai.usage.input_tokens": 950,
        "gen_ai.usage.output_tokens": 105,
        "gen_ai.usage.cache_read.input_tokens": 800,
        "gen_ai.usage.cache_creation.input_tokens": 50,
        "jupyter_agent.source": "live",
        "jupyter_agent.stop_reason": "end",
    }
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-9",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 800,
        "gen_ai.usage.cache_creation.input_tokens": 50,
        "gen_ai.response.finish_reasons": ("tool_call",),
    }
    assert [(event.name, dict(event.attributes or {})) for event in chat.events] == [
        ("retry", {"attempt": 1, "delay": 0.5})
    ]
    assert attributes(code) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "execute_code",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "error.type": "KeyError",
    }
    assert attributes(write)["error.type"] == "refused"
    assert attributes(overflow)["error.type"] == "ContextOverflow"
    assert attributes(last)["gen_ai.response.finish_reasons"] == ("stop",)
    codes = [span.status.status_code for span in (turn, chat, code, write, overflow, last)]
    error, unset = StatusCode.ERROR, StatusCode.UNSET
    assert codes == [unset, unset, error, error, error, unset]


def everything(spans: list[ReadableSpan]) -> str:
    return "\n".join(span.to_json() for span in spans)


def test_no_content(exporter: InMemorySpanExporter) -> None:
    """By default no span holds anything that was said, asked, answered or computed."""
    assert "marked" not in everything(traced(exporter, TURN))


def test_content_where_it_is_wanted(exporter: InMemorySpanExporter) -> None:
    """The task, the replies, arguments and results, in the form of the convention, no secrets."""
    turn, chat, code, *_ = spans = traced(exporter, TURN, with_content=True)
    assert json.loads(attributes(turn)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "marked-task"}]}
    ]
    (reply,) = json.loads(attributes(chat)["gen_ai.output.messages"])
    assert (reply["role"], reply["finish_reason"]) == ("assistant", "tool_call")
    assert [part["type"] for part in reply["parts"]] == [
        "reasoning", "text", "tool_call", "tool_call",
    ]  # fmt: skip
    assert attributes(code)["gen_ai.tool.call.result"] == "marked-result [redacted]"
    assert "look('[redacted]')" in attributes(code)["gen_ai.tool.call.arguments"]
    assert KEY not in everything(spans)
    assert "marked-reason" not in everything(spans)


@pytest.mark.parametrize(
    ("stop", "error"), [("error", "ProviderError"), ("interrupted", "interrupted")]
)
def test_a_turn_that_failed(exporter: InMemorySpanExporter, stop: Any, error: str) -> None:
    """The call of the model that it ended in, and the turn, say what kind of error it was."""
    turn, chat = traced(exporter, [*TURN[:3], TurnFinished(stop, Usage(), error="marked")])
    for span in (turn, chat):
        assert attributes(span)["error.type"] == error
        assert span.status.status_code is StatusCode.ERROR
        assert not span.status.description


def test_a_turn_that_broke_off(exporter: InMemorySpanExporter) -> None:
    """Closing ends the open spans, each once."""
    assert [span.name for span in traced(exporter, TURN[:3])] == ["invoke_agent", "chat claude-9"]


def test_calls_that_never_began(exporter: InMemorySpanExporter) -> None:
    """A call that was cut off with its reply has a result and no span."""
    cut = ToolFinished(ToolResult("c9", (Text("Not run."),), True, details={"state": "not_run"}), 0)
    names = [span.name for span in traced(exporter, [*TURN[:6], cut, TURN[-1]])]
    assert names == ["invoke_agent", "chat claude-9"]


def test_the_persons_time_is_not_the_tools(exporter: InMemorySpanExporter) -> None:
    """The span of an approved call begins with the answer."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = TurnSpans(provider.get_tracer("test"))
    spans(TURN[0])
    spans(ToolStarted(ASK))
    spans(ApprovalAsked("c2", "Write?"))
    time.sleep(0.2)
    spans(ApprovalAnswered("c2", "yes"))
    spans(ToolFinished(ToolResult("c2", (Text("ok"),)), 0.0))
    (span,) = exporter.get_finished_spans()
    assert (span.end_time or 0) - (span.start_time or 0) < 100_000_000


def test_error_names_that_are_none(exporter: InMemorySpanExporter) -> None:
    """An error's name is recorded only if it looks like a class name."""
    bad = {"error_name": "the secret is 42"}
    events = [
        TURN[0],
        ToolStarted(LOOK),
        ToolFinished(ToolResult("c1", (), True, details=bad), 0),
        TURN[-1],
    ]
    assert attributes(traced(exporter, events)[1])["error.type"] == "ToolError"


# A tracer provider can be set once in a process, so these have processes of their own.

SET_UP = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
from jupyter_agent.stores.tracing import open_spans
"""


def python(code: str, **environ: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), **environ},
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("value", "is_wanted"),
    [
        ("", False),
        ("false", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("true", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
    ],
)
def test_when_content_is_wanted(value: str, is_wanted: bool) -> None:
    """As the convention's variable says, whose default is no."""
    code = SET_UP + f"spans, notice = open_spans({{{CAPTURE!r}: {value!r}}})\n"
    code += "print(spans._with_content, repr(notice))"
    assert python(code) == f"{is_wanted} ''"


def test_without_a_provider() -> None:
    """Without a tracer provider one line says so."""
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert open_spans() == (None, NO_PROVIDER)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, one line says so and nothing fails."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_spans() == (None, NO_API)
    assert "\n" not in NO_API + NO_PROVIDER


def test_it_is_imported_when_it_is_wanted() -> None:
    """The module alone imports nothing of it."""
    code = "import sys, jupyter_agent.stores.tracing\nprint('opentelemetry' in sys.modules)"
    assert python(code) == "False"
