"""Spans of OpenTelemetry for a turn, by its conventions for generative AI. Off unless asked for.

One span `invoke_agent` for the turn; below it `chat MODEL` for each model call, with its retries,
and `execute_tool NAME` for each call of a tool, without the time of waiting for the user. They go
to the user's own tracer provider: this package sets up none.

The spans hold no content, unless `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is
`SPAN_ONLY`, `SPAN_AND_EVENT` or `true`; secrets are always removed. `error.type` is the class
of an error that code raised, or one of `ProviderError`, `ContextOverflow`, `ToolError`, `refused`,
`interrupted`, `not_run`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_agent.core.events import (
    ApprovalAnswered,
    Compacted,
    Event,
    MessageFinished,
    QuestionAnswered,
    ReplyStop,
    Requested,
    Retrying,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.core.redact import redact, redact_arguments, redact_json, secret_values
from jupyter_agent.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURING = ("true", "span_only", "span_and_event")
NO_API = (
    "tracing is on, but opentelemetry is not installed, so nothing is traced. "
    "Install it (pip install opentelemetry-sdk), or set tracing to false."
)
NO_PROVIDER = (
    "tracing is on, but this kernel has no tracer provider, so nothing is traced. Set one up with "
    "opentelemetry.trace.set_tracer_provider(...), or set tracing to false."
)
_FINISHES: Mapping[ReplyStop, str] = {
    "end": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "refused": "content_filter",
}
_STATES = ("refused", "interrupted", "not_run")
_CLASS_NAME = re.compile(r"[A-Za-z_][\w.]{0,99}")
Attributes = dict[str, str | int | list[str]]


def open_spans(environ: Mapping[str, str] | None = None) -> tuple[TurnSpans | None, str]:
    """A sink for one turn; or None, with a line that gives the reason.

    Args:
        environ: The environment, which may allow content in spans.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return None, NO_API
    provider = trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None, NO_PROVIDER
    asked = (os.environ if environ is None else environ).get(CAPTURE, "")
    tracer = trace.get_tracer("jupyter_agent", __version__)
    return TurnSpans(tracer, asked.strip().lower() in _CAPTURING), ""


@dataclass(slots=True)
class _Running:
    """A tool call with its start in nanoseconds."""

    call: ToolCall
    began: int


class TurnSpans:
    """A sink that makes spans of one turn's events.

    A span begins and ends when its event comes, so they are not made from a `TurnView`.

    Args:
        tracer: The tracer of the spans.
        with_content: True adds the texts of the conversation to the spans.
    """

    def __init__(self, tracer: Tracer, with_content: bool = False) -> None:
        self._tracer = tracer
        self._with_content = with_content
        self._secrets = secret_values()
        self._turn: Span | None = None
        self._chat: Span | None = None
        self._provider: Attributes = {}
        self._calls: dict[str, _Running] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._begin(event)
            case Requested(attempt=1):
                self._end_chat()
                self._begin_chat(event.model)
            case Retrying() if self._chat is not None:
                self._chat.add_event("retry", {"attempt": event.attempt, "delay": event.delay})
            case Compacted():
                self._end_chat("ContextOverflow")
            case MessageFinished():
                self._reply(event)
            case ToolStarted(call=call):
                self._calls[call.id] = _Running(call, time.time_ns())
            case ApprovalAnswered() | QuestionAnswered() if event.call_id in self._calls:
                self._calls[event.call_id].began = time.time_ns()
            case ToolFinished(result=result):
                self._end_call(result)
            case TurnFinished():
                self._end(event)

    def close(self) -> None:
        """End the open spans of a turn that broke off."""
        self._end_chat("interrupted")
        if self._turn is not None:
            self._turn.end()
            self._turn = None

    def _begin(self, event: TurnStarted) -> None:
        self._provider = {"gen_ai.provider.name": event.provider}
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            **self._provider,
            "gen_ai.request.model": event.model,
            "jupyter_agent.source": event.source,
        }
        if self._with_content:
            asked = {"role": "user", "parts": [{"type": "text", "content": event.task}]}
            attributes["gen_ai.input.messages"] = self._json([asked])
        self._turn = self._started("invoke_agent", "INTERNAL", attributes)

    def _begin_chat(self, model: str) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            **self._provider,
            "gen_ai.request.model": model,
        }
        self._chat = self._started(f"chat {model}", "CLIENT", attributes)

    def _reply(self, event: MessageFinished) -> None:
        if self._chat is None:
            return
        finish = _FINISHES[event.stop_reason]
        self._chat.set_attributes(_tokens(event.usage))
        self._chat.set_attribute("gen_ai.response.finish_reasons", [finish])
        if self._with_content:
            said = {"role": "assistant", "parts": _parts(event.message), "finish_reason": finish}
            self._chat.set_attribute("gen_ai.output.messages", self._json([said]))
        self._end_chat()

    def _end_chat(self, error: str = "") -> None:
        if self._chat is not None:
            _end(self._chat, error)
            self._chat = None

    def _end_call(self, result: ToolResult) -> None:
        running = self._calls.pop(result.call_id, None)
        if running is None:
            return  # it never began
        call = running.call
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if self._with_content:
            self._secrets = secret_values(also=self._secrets)
            attributes["gen_ai.tool.call.arguments"] = redact_arguments(
                call.arguments, self._secrets
            )
            attributes["gen_ai.tool.call.result"] = redact(result.text, self._secrets)
        span = self._started(f"execute_tool {call.name}", "INTERNAL", attributes, running.began)
        _end(span, _failure(result))

    def _end(self, event: TurnFinished) -> None:
        error = {"error": "ProviderError", "interrupted": "interrupted"}.get(event.stop_reason, "")
        self._end_chat(error)
        if self._turn is None:
            return
        self._turn.set_attributes(_tokens(event.usage))
        self._turn.set_attribute("jupyter_agent.stop_reason", event.stop_reason)
        _end(self._turn, error)
        self._turn = None

    def _started(
        self, name: str, kind: str, attributes: Attributes, began: int | None = None
    ) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        above = None if self._turn is None else set_span_in_context(self._turn)
        return self._tracer.start_span(
            name, above, SpanKind[kind], attributes=attributes, start_time=began
        )

    def _json(self, messages: list[dict[str, Any]]) -> str:
        self._secrets = secret_values(also=self._secrets)
        return json.dumps(redact_json(messages, self._secrets), ensure_ascii=False)


def _end(span: Span, error: str) -> None:
    if error:
        from opentelemetry.trace import Status, StatusCode

        span.set_attribute("error.type", error)
        # Without a description: the text of an error may hold content.
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _tokens(usage: Usage) -> dict[str, int]:
    cached = {
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        **{name: count for name, count in cached.items() if count},
    }


def _parts(message: Message) -> list[dict[str, Any]]:
    """A reply's blocks in the form of the convention."""
    parts: list[dict[str, Any]] = []
    for block in message.blocks:
        if isinstance(block, Text):
            parts.append({"type": "text", "content": block.text})
        elif isinstance(block, Thinking) and block.text:
            parts.append({"type": "reasoning", "content": block.text})
        elif isinstance(block, ToolCall):
            call = {"id": block.id, "name": block.name, "arguments": block.arguments}
            parts.append({"type": "tool_call", **call})
    return parts


def _failure(result: ToolResult) -> str:
    """The kind of a call's error; empty if it did not fail."""
    if not result.is_error:
        return ""
    state, name = result.details.get("state"), result.details.get("error_name")
    if result.details.get("ran") is False:
        return "not_run"
    if state in _STATES:
        return str(state)
    return name if isinstance(name, str) and _CLASS_NAME.fullmatch(name) else "ToolError"
