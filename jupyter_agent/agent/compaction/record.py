"""Describes the agent's steps from their messages, without a model.

Provides the material from which a model writes a summary, the lines of output that a summary
quotes, and the plain summary if no model writes one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jupyter_agent.core.messages import Block, Context, Image, Message, Text, ToolCall, ToolResult
from jupyter_agent.core.plaintext import defused, one_line, plain, shorten, without_tags
from jupyter_agent.core.redact import redact, secret_values

LINE = 160
"""Characters of one line that is quoted."""
_SHOWN_CALL = 800
_SHOWN_RESULT = 3_000
_BYTES_A_WORD = 8
"""Bytes that count as a word in text without spaces: Chinese, or base64."""

_NUMBER = re.compile(r"\d[\d.,_]*")
_LABELLED = re.compile(r"[^\W\d_][^=:→]{0,60}(?:[:=→]|\b(?:is|was|of|are)\b)\s?[^\w\s]?\s?[\d.]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_NAMED = re.compile(r"[^\W\d_][\w ./-]{1,40}[:=]\s*\w")
_NOISE = re.compile(r"^(?:File |Traceback|Cell In|-+>)|\bline \d+|0x[0-9a-f]{6}")


@dataclass
class ExecutionRecord:
    """Steps in short: each entry is one line.

    `found` are lines of results with numbers, `answers` the agent's texts at the ends of rounds,
    `said` is its last text.
    """

    done: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    said: str = ""
    tools: Counter[str] = field(default_factory=Counter)


def record(messages: Sequence[Message]) -> ExecutionRecord:
    """The record of whole steps: replies with the results of their calls."""
    found = ExecutionRecord()
    calls: dict[str, ToolCall] = {}
    for message in messages:
        for call in message.tool_calls:
            calls[call.id] = call
            found.tools[call.name] += 1
        if message.role == "assistant" and message.text.strip():
            found.said = one_line(message.text, 2 * LINE)
            if not message.tool_calls:
                found.answers.append(found.said)
            found.found += findings(message.text)
        for result in message.tool_results:
            _read(found, calls.get(result.call_id), result)
    return found


def findings(text: str) -> list[str]:
    """The sentences of a text that contain a number with its name."""
    lines = (line.lstrip("-*# ") for line in _lines(_SENTENCE.sub("\n", text)))
    return [line for line in _without_series(list(lines)) if _worth(line) >= 2]


def _read(found: ExecutionRecord, call: ToolCall | None, result: ToolResult) -> None:
    made = gist(call) if call else ""
    lines = _lines(result.text)
    if result.is_error:
        error = next((line for line in reversed(lines) if _LETTERS.search(line)), "failed")
        found.failed.append(f"{made}: {error}"[: 2 * LINE])
        return
    found.done.append(made)
    if len(lines) == 1 and not _LETTERS.search(lines[0]):
        # A bare number means nothing without the expression that it is the value of.
        found.found.append(f"{_asked(call)} → {lines[0]}")
    else:
        found.found += [line for line in _without_series(lines) if _worth(line)]


def _without_series(lines: Sequence[str]) -> list[str]:
    """The lines; of a series that differs only in its numbers (logs, tables) the first and last."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault(_shape(line), []).append(index)
    kept = {index for found in places.values() for index in (found[0], found[-1])}
    return [lines[index] for index in sorted(kept)]


def _shape(line: str) -> str:
    """The shape of a line, equal within a series: its beginning, and its count of numbers."""
    name = _NUMBER.split(line, maxsplit=1)[0]
    return f"{name}{len(_NUMBER.findall(line))}"


def gist(call: ToolCall) -> str:
    """A call in a line: its tool, and the first line of its code or its first argument."""
    said = _argument(call)
    return f"{call.name}: {one_line(said, LINE)}" if said.strip() else call.name


def _asked(call: ToolCall | None) -> str:
    """The last line of a call's code: the expression of its value."""
    lines = _argument(call).strip().split("\n") if call else []
    return one_line(lines[-1], LINE // 2) if lines else ""


def _argument(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    texts = [value for value in arguments.values() if isinstance(value, str)]
    code = arguments.get("code")
    return code if isinstance(code, str) else next(iter(texts), call.arguments if arguments else "")


def _lines(text: str) -> list[str]:
    # Otherwise lines of a private key might be chosen, which no longer look like a secret.
    whole = redact(plain(text), secret_values())
    stripped = (line.strip() for line in whole.split("\n"))
    return [one_line(line, LINE) for line in stripped if line]


def _worth(line: str) -> int:
    """The value of a line for a summary: most for a number with its name, 0 for prose."""
    if _NOISE.search(line):
        return 0
    numbers = len(_NUMBER.findall(line))
    if not numbers:
        return int(_NAMED.match(line) is not None)
    if numbers <= 4 and _LABELLED.search(line):
        return 3
    return 2 if numbers <= 4 and _LETTERS.search(line) else 1


def best_lines(lines: Iterable[str], words: int, covered: str = "") -> list[str]:
    """The most valuable lines, in their order and each once.

    Args:
        lines: Candidates, oldest first. Among equals, lines unlike the others come first, and the
            newer ones.
        words: The most words of all of them.
        covered: A text; lines whose numbers it all contains are left out.
    """
    there = set(_numbers(covered))
    distinct = [
        line
        for line in dict.fromkeys(lines)
        if line not in covered and not (_numbers(line) and there.issuperset(_numbers(line)))
    ]
    alike: Counter[str] = Counter()
    order: list[tuple[int, int, int]] = []
    for index in reversed(range(len(distinct))):
        shape = _shape(distinct[index])
        order.append((-_worth(distinct[index]), alike[shape], -index))
        alike[shape] += 1
    chosen: set[int] = set()
    for index in (-place for *_, place in sorted(order)):
        size = word_count(distinct[index]) + 1
        if size <= words:
            chosen.add(index)
            words -= size
        if words < 2:
            break
    return [distinct[index] for index in sorted(chosen)]


def _numbers(text: str) -> list[str]:
    return [number.rstrip(".,_") for number in _NUMBER.findall(text)]


def excerpt(text: str, limit: int) -> str:
    """The first line, the most valuable lines, and the last one: about `limit` characters."""
    lines = _lines(text)
    ends = {0, len(lines) - 1}
    room = limit - sum(len(lines[index]) for index in ends if 0 <= index < len(lines))
    telling = set(_without_series(lines))
    order = sorted(range(len(lines)), key=lambda i: (lines[i] not in telling, -_worth(lines[i]), i))
    for index in order:
        if index in ends or room < len(lines[index]) or not _worth(lines[index]):
            continue
        ends.add(index)
        room -= len(lines[index]) + 1
    return "\n".join(lines[index] for index in sorted(ends) if 0 <= index < len(lines))


def word_count(text: str) -> int:
    """The number of words by white space; overlong words count as several."""
    return max(len(text.split()), -(-len(text.encode("utf-8", "replace")) // _BYTES_A_WORD))


def within(text: str, words: int) -> str:
    """The first `words` words of a text, with its line breaks."""
    if word_count(text) <= words:
        return text
    kept: list[str] = []
    room = words - 1
    for line in text.split("\n"):
        if word_count("\n".join([*kept, line])) > room:
            kept.append(_first_words(line, room - word_count("\n".join([*kept, ""]))))
            break
        kept.append(line)
    return "\n".join(kept).rstrip() + " […]"


def _first_words(line: str, words: int) -> str:
    taken = " ".join(line.split()[: max(0, words)])
    return taken.encode("utf-8", "replace")[: max(0, words) * _BYTES_A_WORD].decode(errors="ignore")


def plain_record(messages: Sequence[Message], goal: str, words: int) -> str:
    """A summary without a model: all of the `ExecutionRecord` except `found`."""
    found = record(messages)
    tools = ", ".join(f"{name} ×{count}" for name, count in found.tools.most_common())
    parts = [
        f"Goal: {within(one_line(goal, 400), words // 8)}" if goal.strip() else "",
        f"Done, by calling {within(tools, words // 8)}:" if tools else "",
        *_newest(found.done, words // 4),
        "Failed approaches:" if found.failed else "",
        *_newest(found.failed, words // 5),
        "Answers given:" if found.answers else "",
        *_newest(found.answers, words // 5),
        f"Open; the last that was said: {found.said}" if found.said else "",
    ]
    return within("\n".join(part for part in parts if part), words)


def _newest(lines: Sequence[str], words: int) -> Iterator[str]:
    """The last lines that have room, each once, after the number of those left out."""
    distinct = list(dict.fromkeys(lines))
    taken: list[str] = []
    for line in reversed(distinct):
        words -= word_count(line) + 1
        if words < 0:
            break
        taken.append(f"- {line}")
    if len(taken) < len(distinct):
        yield f"- ({len(distinct) - len(taken)} earlier ones are not listed)"
    yield from reversed(taken)


def rendered(messages: Sequence[Message]) -> Iterator[str]:
    """Steps as text for a model to summarize, one piece for each block."""
    for message in messages:
        for block in message.blocks:
            text = _rendered(block, message.role == "assistant")
            if text.strip():
                yield inert(text)


def inert(text: str) -> str:
    """The text, unable to end its section of the prompt."""
    return without_tags(defused(text), "execution")


def _rendered(block: Block, by_agent: bool) -> str:
    match block:
        case Text() if by_agent:
            return f"Assistant: {block.text.strip()}"
        case ToolCall():
            return f"→ {block.name} {shorten(block.arguments, _SHOWN_CALL)}"
        case ToolResult():
            kind = "error" if block.is_error else "result"
            pictures = sum(isinstance(inner, Image) for inner in block.content)
            shown = f" ({pictures} pictures)" if pictures else ""
            return f"← {kind}{shown}: {shorten(plain(block.text), _SHOWN_RESULT)}"
        case Context() if not block.text.startswith("<context>"):
            return f"(The session told the agent: {shorten(block.text, _SHOWN_CALL)})"
    return ""
