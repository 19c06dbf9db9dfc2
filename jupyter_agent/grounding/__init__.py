"""Whether the numbers of an answer were seen before: in outputs, variables, the task.

A number that is found only where nearly any number would be found (an index column, a thousand
numbers) counts as weakly seen.

Nothing is computed on the answer's behalf, but for `36 % (123 of 342)`: a difference or a sum that
no code has printed is just what a reader should look at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from jupyter_agent.core.events import Grounded
from jupyter_agent.grounding.context import names_counted
from jupyter_agent.grounding.index import Index, Sighting, Source
from jupyter_agent.grounding.numbers import Number, NumberReading, numbers_in
from jupyter_agent.grounding.running import running

__all__ = ["Index", "Source", "grounded"]

MOST = 1_000
"""Numbers of an answer that are looked for."""
_SHARE_OF = (
    r"([0-9][0-9,.]{0,20})\s?(?:\bof\b|\bout of\b|\bvon\b|/)\s?(?:the |all )?([0-9][0-9,.]{0,20})"
)
_BEFORE = re.compile(_SHARE_OF + r"[^0-9.;:]{0,40}$")
_SENTENCE_END = re.compile(r"[.;!?]\s|\n")
_NEARBY = 120
_HALF = Decimal("0.5")
_NO_SLACK = Decimal(0)
_MOST_BESIDE = 6
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


def _numbers(answer: str) -> list[Number]:
    numbers = list(numbers_in(answer))[:MOST]
    in_words = running(answer, [number.end for number in numbers])
    return [number for number, is_one in zip(numbers, in_words, strict=True) if is_one]


def _grounded(answer: str, number: Number, index: Index) -> Grounded:
    first = number.ways[0]
    found = Grounded(number.text, number.start, number.end, first[0].signed)
    weak: Sighting | None = None
    for way in number.ways:
        sightings = [each for each in map(index.find, way) if each is not None]
        if not way or len(sightings) < len(way):
            continue
        doubtful = [each for each in sightings if each.only]
        if not doubtful or names_counted(answer, number.start):
            return _seen_in(found, sightings[0].source)
        weak = weak or doubtful[0]
    if _is_computed(answer, number, index):
        return replace(found, seen="computed")
    if weak is not None:
        return replace(_seen_in(found, weak.source), seen="weak", only=weak.only)
    return found


def _seen_in(found: Grounded, source: Source) -> Grounded:
    return replace(found, seen=source.kind, step=source.step, call_id=source.call_id)


def _is_computed(answer: str, number: Number, index: Index) -> bool:
    """Whether it is the share that the numbers beside it make: `36 % (123 of 342)`."""
    if not number.text.endswith(("%", "％", "percent")):
        return False
    match = _BEFORE.search(answer[max(0, number.start - 90) : number.start])
    match = match or _AFTER.match(answer, number.end, number.end + 60)
    if match is None:
        return _is_share_in_sentence(answer, number, index)
    parts = [_seen(text.rstrip(".,"), index) for text in match.groups()]
    return any(
        part and whole and _is_share(number.ways[0][0], part, whole)
        for part in parts[0]
        for whole in parts[1]
    )


def _is_share_in_sentence(answer: str, number: Number, index: Index) -> bool:
    """Whether two other numbers of its sentence make the share: `Of 344, 123 (35.8 %) are …`.

    Without decimals only two numbers may stand there: of more, some two would make any share.
    """
    before = answer[max(0, number.start - _NEARBY) : number.start]
    before = _SENTENCE_END.split(before)[-1]
    after = _SENTENCE_END.split(answer[number.end : number.end + _NEARBY], maxsplit=1)[0]
    others = [n for text in (before, after) for n in numbers_in(text) if not n.text.endswith("%")]
    most = _MOST_BESIDE if number.ways[0][0].slack < _HALF else 2
    values = {float(way[0].value) for n in others for way in n.ways[:1] if len(way) == 1}
    seen = [each for each in values if index.find(NumberReading(Decimal(each), _NO_SLACK))]
    if not 2 <= len(seen) <= most:
        return False
    pairs = ((part, whole) for part in seen for whole in seen if part < whole)
    return any(_is_share(number.ways[0][0], part, whole) for part, whole in pairs)


def _seen(text: str, index: Index) -> list[float]:
    """What a number beside the share says, where it was seen."""
    ways = [way[0] for number in numbers_in(f"{text} ,") for way in number.ways if len(way) == 1]
    if not ways and text.isdigit():  # a small count
        return [float(text)]
    return [float(way.value) for way in ways if index.find(way) is not None]


def _is_share(reading: NumberReading, part: float, whole: float) -> bool:
    share = 100 * part / whole
    return abs(share - float(reading.value)) <= float(reading.slack) * (1 + 1e-9)
