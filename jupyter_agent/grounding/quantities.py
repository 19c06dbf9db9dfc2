"""The numbers of an answer as quantities to compute anew: named, and taken out of its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from jupyter_agent.grounding.index import Index
from jupyter_agent.grounding.numbers import Number, NumberReading, numbers_in
from jupyter_agent.grounding.running import running

Agreement = Literal["agrees", "sign", "differs"]
"""How a number that was computed anew fits: it is the same but for rounding and unit; it is so but
for its sign; it is another one."""
_HIDDEN = "…"
_UNIT = re.compile(r"[^0-9⁰¹²³⁴⁵⁶⁷⁸⁹}]*$")
_FENCED = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*[(=\[][^`\n]*`")
_EXACT = 1e-12


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of an answer.

    Args:
        name: Its name in the text without numbers: `q1`.
        text: The number as the answer writes it, with its sign and its unit.
        start: Its first character in the answer.
        end: The character after its last one.
        readings: The ways to read it.
    """

    name: str
    text: str
    start: int
    end: int
    readings: tuple[NumberReading, ...]

    @property
    def value(self) -> Decimal:
        """Its value, by the first way to read it."""
        return self.readings[0].signed

    def compare(self, computed: float) -> Agreement:
        """How a number that was computed anew fits: rounded as the answer rounds, in any unit that
        the answer's may stand for (`36 %` is 0.36, too)."""
        found: Agreement = "differs"
        for reading in self.readings:
            if _fits(reading, abs(computed)):
                if not computed or (computed < 0) == reading.negative:
                    return "agrees"
                found = "sign"
        return found


def quantities(answer: str, index: Index, most: int) -> tuple[list[Quantity], int]:
    """The numbers of an answer that are to be computed anew, and how many are left out.

    Those are all that claim something, bare counts among them; but not what the task alone says,
    which is no result.

    Args:
        answer: The answer, in Markdown.
        index: What the turn has seen.
        most: Numbers that are taken at the most, the first ones.
    """
    numbers = [each for each in numbers_in(answer, with_small=True) if _single(each)]
    in_words = running(answer, [number.end for number in numbers])
    wanted = [
        number
        for number, is_one in zip(numbers, in_words, strict=True)
        if is_one and not _is_of_task(number, index)
    ]
    found = [
        Quantity(f"q{place}", number.text, number.start, number.end, _single(number))
        for place, number in enumerate(wanted[:most], 1)
    ]
    return found, len(wanted) - len(found)


def without_numbers(answer: str, wanted: Sequence[Quantity], index: Index) -> str:
    """The answer with names in the place of its quantities, and without its code.

    Other numbers that claim something are hidden, wherever they stand; what the task says stays.

    Args:
        answer: The answer.
        wanted: Its quantities.
        index: What the turn has seen.
    """
    names = {each.start: each for each in wanted}
    parts, end = [], 0
    for number in numbers_in(answer, with_small=True):
        if number.start < end:
            continue
        named = names.get(number.start)
        if named is None and _is_of_task(number, index):
            continue
        unit = _UNIT.search(number.text)
        shown = f"[{named.name}]" if named else _HIDDEN
        parts += [answer[end : number.start], shown, unit[0] if unit else ""]
        end = number.end
    text = "".join([*parts, answer[end:]])
    return _CODE.sub(f"`{_HIDDEN}`", _FENCED.sub(_HIDDEN, text)).strip()


def _single(number: Number) -> tuple[NumberReading, ...]:
    """The ways to read it as one number."""
    return tuple(way[0] for way in number.ways if len(way) == 1)


def _is_of_task(number: Number, index: Index) -> bool:
    """True if the task says it, and no output does."""
    found = (index.find(reading) for reading in _single(number)[:1])
    return any(each is not None and each.source.kind == "task" for each in found)


def _fits(reading: NumberReading, size: float) -> bool:
    value, slack = float(reading.value), float(reading.slack)
    return any(
        abs(size - value * factor) <= slack * factor * (1 + 1e-9) + abs(value * factor) * _EXACT
        for factor in (1.0, *reading.factors)
    )
