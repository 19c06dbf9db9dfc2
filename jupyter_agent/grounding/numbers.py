"""The numbers of an answer that claim something: what each says, and how precisely.

Left alone is what only looks like a claim: years, dates and times, ordinals, list numbers,
citations, versions, file names, identifiers (x2, H2O, utf-8), counts up to ten, and levels by
convention (95 % interval, p < 0.05). No pattern here has nested repetition: the time is linear.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from jupyter_agent.grounding.context import is_left_alone, spans_of_dates
from jupyter_agent.grounding.scales import Suffix, suffix_after

_GAPS = ",.'’_\u00a0\u202f\u2009"
_CHUNK = re.compile(
    rf"\.?[0-9](?:[0-9]|[{_GAPS}](?=[0-9])| (?=[0-9]{{3}}(?![0-9])))*(?:[eE][+\-\u2212]?[0-9]+)?"
)
_POWER = re.compile(
    r"\s?(?:[×x·⋅*]|\\times|\\cdot)\s?10(?:\^\{?|\*\*)([+\-\u2212]?[0-9]{1,4})\}?"
    r"|\s?[×x·⋅]\s?10([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})"
)
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_THOUSANDS = {
    mark: re.compile(rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+(\{other}[0-9]+)?")
    for mark, other in ((",", "."), (r"\.", ","), ("['’]", "."), ("_", "."))
}
_SPACED = re.compile("[0-9]{1,3}(?:[ \u00a0\u202f\u2009][0-9]{3})+([.,][0-9]+)?")
_PLAIN = re.compile(r"[0-9]*(\.[0-9]+)?|[0-9]+")
_DECIMAL_COMMA = re.compile(r"[0-9]+(,[0-9]+)")
_FOREIGN_DIGIT = re.compile(r"[^\x00-\x7f]")
_ABOUT = re.compile(
    r"(?i)(?:[~≈∼]|\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|over|under|some"
    r"|circa|ca\.?|more than|less than|fewer than|at least|at most|up to|well over|just over"
    r"|just under|etwa|rund|fast|knapp|über|gut))\s?[$€£¥₹]?$"
)
_CURRENCY = re.compile(r"(?:[$€£¥₹]|\b(?:USD|EUR|GBP|CHF|JPY))\s?$")
_MOST_DIGITS = 5_000
_LONGEST_EXPONENT = 4


@dataclass(frozen=True, slots=True)
class NumberReading:
    """One way to read a number.

    Args:
        value: What it says, without its sign.
        slack: How far what it was rounded from may be away.
        negative: Whether a minus stands before it.
        factors: By what the value may be multiplied, for its unit: 0.01 for a percentage.
    """

    value: Decimal
    slack: Decimal
    negative: bool = False
    factors: tuple[float, ...] = ()

    @property
    def signed(self) -> Decimal:
        return -self.value if self.negative else self.value


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a text. `ways` are the ways to read it, each of one or more readings in a row."""

    text: str
    start: int
    end: int
    ways: tuple[tuple[NumberReading, ...], ...]


def numbers_in(text: str, with_small: bool = False) -> Iterator[Number]:
    """The numbers in a text that claim something, in order.

    Args:
        text: The text.
        with_small: True takes bare counts up to ten for claims, too.
    """
    text = western(text)
    dates = spans_of_dates(text)
    end = 0
    for match in _CHUNK.finditer(text):
        if match.start() < end or dates.covers(match.start()):
            continue
        for number in _numbers(text, *match.span()):
            end = max(end, number.end)
            is_small = not with_small and _is_small(text, number)
            if not is_left_alone(text, number.start, number.end, is_small):
                yield number


def western(text: str) -> str:
    """The same text, character by character, with the digits of all scripts as 0 to 9."""
    if text.isascii():
        return text
    return _FOREIGN_DIGIT.sub(
        lambda m: str(unicodedata.decimal(m[0])) if m[0].isdecimal() else m[0], text
    )


def spellings(chunk: str) -> list[tuple[str, int]]:
    """The numbers that digits with marks between them may be, as plain text and decimals.

    `1,234` is 1234 and, as in German, 1.234; which one is meant cannot be told from it alone.
    """
    if _PLAIN.fullmatch(chunk):
        found = [(chunk, len(chunk.partition(".")[2]))]
        if _THOUSANDS[r"\."].fullmatch(chunk):
            found.append((chunk.replace(".", ""), 0))
        return found
    found = []
    for mark, pattern in (*_THOUSANDS.items(), (" ", _SPACED)):
        match = pattern.fullmatch(chunk)
        if match:
            tail = match[1] or ""
            whole = re.sub(r"[^0-9]", "", chunk[: len(chunk) - len(tail)])
            decimals = tail[1:]
            found.append((f"{whole}.{decimals}" if decimals else whole, len(decimals)))
            if mark == " ":
                break
    if comma := _DECIMAL_COMMA.fullmatch(chunk):
        found.append((chunk.replace(",", "."), len(comma[1]) - 1))
    return found


def _numbers(text: str, start: int, end: int) -> Iterator[Number]:
    """What one run of digits with marks between them holds: a number, or several."""
    chunk, exponent = _mantissa(text[start:end])
    if end - start > _MOST_DIGITS:
        return
    ways = [(way, decimals) for way, decimals in spellings(chunk) if way]
    if not ways:
        if not exponent and chunk.count(".") < 2:  # otherwise a version, an address
            yield from _parts(text, start, chunk)
        return
    power = _POWER.match(text, end) if not exponent else None
    if power:
        exponent = (power[1] or power[2] or "").translate(_SUPERSCRIPT).replace("\u2212", "-")
        end = power.end()
    suffix = suffix_after(text, end)
    negative = _is_negative(text, start)
    readings: list[tuple[NumberReading, ...]] = []
    for way, decimals in ways:
        reading = _reading(way, decimals, exponent, negative, suffix, _is_about(text, start))
        if reading is not None:
            readings.append((reading,))
    if _may_be_several(text, start, chunk):
        apart = [_reading(part, 0, "", False, suffix) for part in re.split("[ ,]", chunk)]
        if all(part.isdigit() for part in re.split("[ ,]", chunk)):
            readings.append(tuple(part for part in apart if part is not None))
    if readings:
        start -= negative
        yield Number(text[start : suffix.end], start, suffix.end, tuple(readings))


def _may_be_several(text: str, start: int, chunk: str) -> bool:
    """True if a chunk may be several numbers in a row: `[12,47]`, `in 2015 344 rows`."""
    if " " not in chunk and "," not in chunk:
        return False
    is_grouped = _THOUSANDS[","].fullmatch(chunk) or _SPACED.fullmatch(chunk)
    return not is_grouped or text[max(0, start - 1) : start] in ("[", "(", "{")


def _mantissa(chunk: str) -> tuple[str, str]:
    parts = re.split("[eE]", chunk, maxsplit=1)
    return parts[0], (parts[1] if len(parts) == 2 else "").replace("\u2212", "-")


def _parts(text: str, start: int, chunk: str) -> Iterator[Number]:
    """The numbers of a list without spaces, or of two that stand side by side."""
    for match in re.finditer(r"[0-9]+(?:\.[0-9]+)?", chunk):
        yield from _numbers(text, start + match.start(), start + match.end())


def _reading(
    way: str, decimals: int, exponent: str, negative: bool, suffix: Suffix, about: bool = False
) -> NumberReading | None:
    if len(exponent.lstrip("+-")) > _LONGEST_EXPONENT:
        return None
    try:
        weight = Decimal(1).scaleb(-decimals + int(exponent or 0))
        value = Decimal(f"{way}e{exponent or 0}")
        if suffix.magnitude != 1:  # which rounds what has many digits
            weight, value = weight * suffix.magnitude, value * suffix.magnitude
    except (InvalidOperation, ValueError, ArithmeticError):
        return None
    slack = weight / 2
    digits = way.replace(".", "").lstrip("0")
    significant = digits.rstrip("0") if not decimals and not exponent else digits
    zeros = len(digits) - len(significant)
    if zeros and about:
        slack = weight.scaleb(zeros) / (1 if len(significant) > 1 else 2)
    elif zeros and len(significant) > 1 and len(digits) > 3:
        slack = weight.scaleb(zeros) / 2  # 5,100 for 5,076
    factors = suffix.factors if len(digits) > 1 or suffix.is_share else ()
    return NumberReading(value, slack, negative, factors)


def _is_negative(text: str, start: int) -> bool:
    """Whether a minus belongs to the number: not a dash between two, nor one with a space."""
    if text[start - 1 : start] not in ("-", "\u2212", "–") or not start:
        return False
    before = text[start - 2 : start - 1] if start > 1 else ""
    return not (before.isalnum() or before in ("%", ")", "-", "^", "{"))


def _is_about(text: str, start: int) -> bool:
    return _ABOUT.search(text[max(0, start - 24) : start]) is not None


def _is_small(text: str, number: Number) -> bool:
    """Whether it is a bare count up to ten, which people and models alike make by themselves."""
    if not number.text.isdigit() or len(number.text) > 2 or int(number.text) > 10:
        return False
    before = text[max(0, number.start - 4) : number.start]
    return not (_CURRENCY.search(before) or suffix_after(text, number.end).is_unit)
