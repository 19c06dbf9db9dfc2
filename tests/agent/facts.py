"""Compaction put to the proof: the seed's algorithm beside ours, on facts planted in a transcript.

Used by the tests and by `benchmarks/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.transcripts import Transcript, user

from jupyter_agent.agent.compaction import Summarize, compact, should_compact
from jupyter_agent.agent.compaction.rounds import SUMMARY
from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.llm.tokens import TokenCounter

COUNTER = TokenCounter()
_WITHIN = re.compile(r"(?:within|at most) (\d+) words")
_RECORD = re.compile(r"<execution>\n(.*)\n</execution>", re.DOTALL)


def scripted(choose: Callable[[list[str], int], list[str]]) -> Summarize:
    """A model that copies words out of the record that it is given, as many as it is told.

    It is the same for both ways of compaction: it reads the record between its marks and the
    number of words in the prompt.
    """

    async def summarize(prompt: str) -> str:
        allowed, record = _WITHIN.search(prompt), _RECORD.search(prompt)
        assert allowed and record
        return "\n".join(choose(record[1].split("\n"), int(allowed[1])))

    return summarize


def first_words(lines: list[str], words: int) -> list[str]:
    """Reads from the top until it has enough."""
    kept: list[str] = []
    for line in lines:
        if (words := words - len(line.split())) < 0:
            break
        kept.append(line)
    return kept


def last_words(lines: list[str], words: int) -> list[str]:
    """Remembers what it read last."""
    return first_words(lines[::-1], words)[::-1]


def skims(lines: list[str], words: int) -> list[str]:
    """Takes lines at even distances from the whole."""
    total = sum(len(line.split()) for line in lines)
    every = max(1, -(-total // max(1, words)))
    return first_words(lines[::every], words)


def reads_words(lines: list[str], words: int) -> list[str]:
    """Keeps sentences and names with values, leaves tables and listings out."""
    spoken = [line for line in lines if re.search(r"[a-z]{2}.*(?: was |: |→)", line)]
    return skims(spoken, words)


async def plain_algorithm(
    history: list[Message], summarize: Summarize, limit: int
) -> list[Message]:
    """The seed's: every run of execution between two user messages becomes one summary.

    The summaries are user messages, so the next time they stay as they are.
    """
    if COUNTER.messages(history) <= limit:
        return history
    shortened: list[Message] = []
    execution: list[Message] = []
    for message in [*history, Message("user", (Text("the end"),))]:
        if message.role == "assistant" or message.tool_results:
            execution.append(message)
            continue
        if execution:
            text = await summarize(_seeds_prompt(execution, len(shortened)))
            shortened.append(user(Text(f"{SUMMARY}\n\n{text}")))
            execution = []
        shortened.append(message)
    return shortened[:-1]


def _seeds_prompt(execution: Sequence[Message], number: int) -> str:
    lines = [f"Round {number} execution process:", ""]
    for message in execution:
        if message.text:
            lines.append(f"Assistant: {message.text}")
        if message.tool_calls:
            lines.append(f"  → Called tools: {', '.join(c.name for c in message.tool_calls)}")
        lines += [f"  ← Tool returned: {result.text}" for result in message.tool_results]
    record = "\n".join(lines)
    return f"Summarize within 1000 words.\n\n<execution>\n{record}\n</execution>"


async def played(
    transcript: Transcript, summarize: Summarize | None, limit: int, ours: bool
) -> list[Message]:
    """What the model is sent at the end, when the transcript comes step by step."""
    history: list[Message] = []
    for message in (*transcript.messages, Message("assistant", (Text("The answer."),))):
        if message.role == "assistant":  # a model call is about to be made
            if not ours:
                assert summarize
                history = await plain_algorithm(history, summarize, limit)
            elif should_compact(COUNTER.messages(history), 0, limit):
                result = await compact(history, summarize, COUNTER, limit, keep)
                history = list(result.history)
                assert COUNTER.messages(history) <= limit
                assert repair(history) == history
        history.append(message)
    return history


def within(history: list[Message], limit: int) -> list[Message]:
    """The messages that fit into the budget, of execution and summaries the newest."""
    room = limit - COUNTER.messages(m for m in history if _is_persons(m))
    kept: list[Message] = []
    for message in reversed(history):
        if not _is_persons(message):
            room -= COUNTER.message(message)
            if room < 0:
                continue
        kept.insert(0, message)
    return kept


def _is_persons(message: Message) -> bool:
    return message.role == "user" and bool(message.text) and not message.text.startswith(SUMMARY)


def keep(text: str, name: str) -> str:
    return f".jupyter_agent/outputs/{name}.txt"
