"""Summarizes finished rounds: by a model, or without one if it fails."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from jupyter_agent.agent.compaction.record import (
    best_lines,
    findings,
    inert,
    plain_record,
    record,
    rendered,
    within,
    word_count,
)
from jupyter_agent.agent.compaction.rounds import SUMMARY
from jupyter_agent.agent.prompts import render
from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Message, Text, Usage
from jupyter_agent.core.plaintext import defused, one_line
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.errors import ProviderError
from jupyter_agent.llm.retry import RetryPolicy, stream_with_retry
from jupyter_agent.llm.tokens import TokenCounter

LIMIT = 1_000
"""Words of a whole summary."""
BODY = 550
"""Words that the model is asked to keep to. The rest is for lines of output, word for word."""
SLACK = 50
"""Words beyond the limit before the summary's end is cut to make room for quoted lines."""
_LEAST = 80
"""The least words for the summary of one of several parts."""
HEADING = "Printed results, word for word:"

Summarize = Callable[[str], Awaitable[str]]
"""Sends a prompt to a model and returns its text. After any exception the summary is plain."""

_A_CALL = re.compile(r"\s*(?:<\|?(?:tool|function)|```(?:tool|json\s*\{\s*\"name)|\{\s*\"name\")")


class SummaryFailed(ProviderError):
    """A model wrote no summary."""


@dataclass(frozen=True, slots=True)
class Round:
    """The agent's steps for one task."""

    task: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary. `problem` is the reason why the model that was asked did not write it."""

    text: str
    by_model: bool
    problem: str = ""


async def summary(
    rounds: Sequence[Round],
    earlier: Sequence[str],
    summarize: Summarize | None,
    counter: TokenCounter,
    part: int,
) -> Summary:
    """Summarize rounds together with earlier summaries, within `LIMIT` words.

    Printed lines with numbers that the summary lacks follow it, as far as there is room, since
    models drop and round numbers.

    Args:
        rounds: The rounds to summarize, oldest first.
        earlier: The summaries of earlier rounds, oldest first.
        summarize: Asks the model; None does without.
        counter: Counts the tokens of the material.
        part: The most tokens of one request's material.
    """
    bodies = [body for text in earlier if (body := text.partition(HEADING)[0].strip())]
    lines = [
        *_quoted(earlier),
        *(line for text in bodies for line in findings(text)),  # merging them may lose some
        *(line for round_ in rounds for line in record(round_.messages).found),
    ]
    problem, text = "", ""
    if summarize is not None:
        try:
            text = await _by_model(rounds, bodies, summarize, counter, part)
        except Exception as error:  # a failed summary must not end the turn
            problem = one_line(str(error) or type(error).__name__, 200)
    text, by_model = text or _plain(rounds, bodies), bool(text)
    room = LIMIT - word_count(f"{SUMMARY}{HEADING}") - 4
    least = best_lines(lines, room - BODY - SLACK, text)
    body = within(text, room - sum(word_count(line) + 1 for line in least))
    quoted = best_lines(lines, room - word_count(body), body)
    if quoted:
        body = "\n".join([body, "", HEADING, *(f"- {line}" for line in quoted)])
    return Summary(f"{SUMMARY}\n\n{defused(body)}", by_model, problem)


def _quoted(earlier: Iterable[str]) -> list[str]:
    """The lines that earlier summaries quoted."""
    after = [text.partition(HEADING)[2] for text in earlier]
    lines = (line for text in after for line in text.split("\n"))
    return [line.removeprefix("- ").strip() for line in lines if line.startswith("- ")]


def _plain(rounds: Sequence[Round], bodies: Sequence[str]) -> str:
    messages = [message for round_ in rounds for message in round_.messages]
    goal = rounds[-1].task
    if not bodies:
        return plain_record(messages, goal, BODY)
    before = within("\n\n".join(bodies), BODY // 2)
    return f"{before}\n\nSince then:\n{plain_record(messages, goal, BODY // 2)}"


async def _by_model(
    rounds: Sequence[Round],
    bodies: Sequence[str],
    summarize: Summarize,
    counter: TokenCounter,
    part: int,
) -> str:
    """The summary by one call if everything fits; else one for each part, and one to merge."""
    before = [inert(f"Earlier summary:\n{body}") for body in bodies]
    parts = _parts([*before, *_material(rounds)], counter, part)
    while len(parts) > 1:
        share = max(_LEAST, BODY // len(parts))
        texts = [await _said(summarize, material, share) for material in parts]
        merged = _parts(
            [f"Summary of part {i} of {len(texts)}:\n{t}" for i, t in enumerate(texts, 1)],
            counter,
            part,
        )
        if len(merged) >= len(parts):
            raise SummaryFailed("The summaries of the parts are as long as the parts.")
        parts = merged
    return await _said(summarize, parts[0] if parts else "", BODY)


def _material(rounds: Sequence[Round]) -> Iterator[str]:
    """The rounds as text, each under its task for orientation."""
    for number, round_ in enumerate(rounds, 1):
        task = inert(one_line(round_.task, 300)) or "(none)"
        yield f"Round {number}; the person's task, for orientation: {task}"
        yield from rendered(round_.messages)


def _parts(pieces: Iterable[str], counter: TokenCounter, most: int) -> list[str]:
    """The pieces joined to parts of at most `most` tokens. A larger piece is divided."""
    parts: list[list[str]] = []
    room = 0
    for piece in _divided(pieces, counter, most):
        size = counter.text(piece) + 2
        if size > room or not parts:
            parts.append([])
            room = most
        parts[-1].append(piece)
        room -= size
    return ["\n".join(part) for part in parts]


def _divided(pieces: Iterable[str], counter: TokenCounter, most: int) -> Iterable[str]:
    for piece in pieces:
        size = counter.text(piece)
        length = len(piece) if size <= most else max(1, len(piece) * most // (size + 1))
        for start in range(0, len(piece), length):
            yield piece[start : start + length]


async def _said(summarize: Summarize, material: str, words: int) -> str:
    prompt = render("summary", WORDS=str(words), MATERIAL=material)
    text = (await summarize(prompt)).strip().removeprefix(SUMMARY).strip()
    if not text:
        raise SummaryFailed("The model's summary was empty.")
    if _A_CALL.match(text):
        raise SummaryFailed("The model tried to call a tool instead of summarizing.")
    return text


class ModelSummary:
    """Asks a model for summaries, without tools.

    Attributes:
        usage: The tokens of its calls.
    """

    def __init__(self, provider: Model, retry: RetryPolicy) -> None:
        self.usage = Usage()
        self._provider = provider
        self._retry = retry

    async def __call__(self, prompt: str) -> str:
        """The model's text. Raises `ProviderError` if the call fails or the reply has no text."""
        message = Message("user", (Text(prompt),))
        request = Request(render("summarizer"), (message,), tools_allowed=False, purpose="summary")
        async with aclosing(stream_with_retry(self._provider, request, self._retry)) as stream:
            async for part in stream:
                if isinstance(part, MessageFinished):
                    self.usage += part.usage
                    return _words(part)
        raise SummaryFailed("The model's stream ended without a summary.")


def _words(reply: MessageFinished) -> str:
    if reply.message.tool_calls:
        raise SummaryFailed("The model tried to call a tool instead of summarizing.")
    if reply.stop_reason == "refused":
        raise SummaryFailed("The model refused to summarize.")
    return reply.message.text
