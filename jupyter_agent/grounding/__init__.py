"""Whether the numbers of an answer were seen before: in outputs, variables, the task.

Nothing is computed on the answer's behalf, but for `36 % (123 of 342)`: a difference or a sum that
no code has printed is just what a reader should look at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from jupyter_agent.events import Grounded
from jupyter_agent.grounding.index import Index, Source
from jupyter_agent.grounding.numbers import Number, Reading, numbers_in
from jupyter_agent.grounding.running import ends_in_fence, is_kept, places

__all__ = ["MARK", "UNSEEN", "Index", "Source", "grounded", "marked_markdown"]

MARK = "ˀ"
"""Stands behind a number that was not seen. A letter for Unicode and Markdown, so that emphasis
begins and ends where it did; a small raised question mark for readers."""
UNSEEN = "not seen in any output"
MOST = 1_000
"""Numbers of an answer that are looked for."""
_SHARE_OF = (
    r"([0-9][0-9,.]{0,20})\s?(?:\bof\b|\bout of\b|\bvon\b|/)\s?(?:the |all )?([0-9][0-9,.]{0,20})"
)
_BEFORE = re.compile(_SHARE_OF + r"[^0-9.;:]{0,40}$")
_AFTER = re.compile(r"[)*_,:\s]{0,4}[(\[]?\s?" + _SHARE_OF)


def grounded(answer: str, sources: Sequence[Source] | Index) -> tuple[Grounded, ...]:
    """The numbers of the answer that claim something, in order, with where each was seen.

    Args:
        answer: The answer, in Markdown.
        sources: What was seen; an `Index` that was filled along the way makes it quick.
    """
    index = sources if isinstance(sources, Index) else Index(sources)
    numbers = _numbers(answer)
    return tuple(_grounded(answer, number, index) for number in numbers)


def marked_markdown(answer: str, numbers: Sequence[Grounded]) -> str:
    """The answer with a mark behind each number that was seen nowhere, and a line that explains it.

    The rest stays as it is, byte for byte: code, links, tables and formulas have no marks inside.

    Args:
        answer: The answer, or what it became when it was made legible.
        numbers: What `grounded` gave for it.
    """
    unseen = {number.text for number in numbers if number.seen is None}
    if not unseen:
        return answer
    if all(answer[number.start : number.end] == number.text for number in numbers):
        ends = [number.end for number in numbers if number.seen is None]
    else:  # it was made legible meanwhile, so that they stand elsewhere
        ends = [number.end for number in _numbers(answer) if number.text in unseen]
    found = sorted({at for at in places(answer, ends) if at is not None})
    if not found:
        return answer
    pieces = [answer[a:b] for a, b in zip([0, *found], [*found, len(answer)], strict=True)]
    text = MARK.join(pieces)
    if not is_kept(answer, text, MARK):
        return answer
    fence = ends_in_fence(text)
    closed = f"{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}" if fence else text
    return f"{closed}\n\n{MARK} {UNSEEN}"


def _numbers(answer: str) -> list[Number]:
    numbers = list(numbers_in(answer))[:MOST]
    seen = places(answer, [number.end for number in numbers])
    return [number for number, place in zip(numbers, seen, strict=True) if place is not None]


def _grounded(answer: str, number: Number, index: Index) -> Grounded:
    first = number.ways[0]
    found = Grounded(number.text, number.start, number.end, first[0].signed)
    for way in number.ways:
        sources = [index.find(reading) for reading in way]
        source = sources[0] if sources else None
        if source is not None and all(sources):
            return replace(found, seen=source.kind, step=source.step, call_id=source.call_id)
    if _is_computed(answer, number, index):
        return replace(found, seen="computed")
    return found


def _is_computed(answer: str, number: Number, index: Index) -> bool:
    """Whether it is the share that the numbers beside it make: `36 % (123 of 342)`."""
    if not number.text.endswith(("%", "％", "percent")):
        return False
    match = _BEFORE.search(answer[max(0, number.start - 90) : number.start])
    match = match or _AFTER.match(answer, number.end, number.end + 60)
    if match is None:
        return False
    parts = [_seen(text.rstrip(".,"), index) for text in match.groups()]
    return any(
        part and whole and _is_share(number.ways[0][0], part, whole)
        for part in parts[0]
        for whole in parts[1]
    )


def _seen(text: str, index: Index) -> list[float]:
    """What a number beside the share says, where it was seen."""
    ways = [way[0] for number in numbers_in(f"{text} ,") for way in number.ways if len(way) == 1]
    if not ways and text.isdigit():  # a small count
        return [float(text)]
    return [float(way.value) for way in ways if index.find(way) is not None]


def _is_share(reading: Reading, part: float, whole: float) -> bool:
    share = 100 * part / whole
    return abs(share - float(reading.value)) <= float(reading.slack) * (1 + 1e-9)
