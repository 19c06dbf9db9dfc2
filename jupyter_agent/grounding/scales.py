"""What may follow a number and changes what it says: percent, thousands and millions, units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

_PERCENT = re.compile(r"\s?(?:\\?[%％]|(?:percent|per cent|pct|Prozent|percentage points?|pp)\b)")
_PER_MILLE = re.compile(r"\s?‰")
_RANGE = re.compile(r"\s?(?:[-–—]|\b(?:to|and|or|bis|und)\b)\s?[0-9][0-9.,]{0,20}(?![0-9])")
_MAGNITUDES = {
    10**3: "k K thousand Tsd Tsd. tausend",
    10**6: "M mn mio Mio Mio. million millions Million Millionen",
    10**9: "bn B billion billions Mrd Mrd. Milliarde Milliarden",
    10**12: "tn T trillion trillions",
}
_UNITS: dict[str, tuple[float, ...]] = {
    "kg km kW kB kHz kV kWh kJ kPa kN": (1e3,),
    "t tonnes": (1e3, 1e6),
    "g m W Hz V J L l ml": (1e-3,),
    "mm mg mL mV mA ms": (1e-3, 1e3),
    "cm": (1e-2, 1e1),
    "µm µg µs μm μg μs us": (1e-6, 1e-3),
    "ns nm": (1e-9, 1e-6, 1e-3),
    "KB KiB": (1e3, 1024.0),
    "MB MiB": (1e6, 2.0**20, 1e3, 1024.0),
    "GB GiB": (1e9, 2.0**30, 1e6, 2.0**20, 1e3, 1024.0),
    "TB TiB": (1e12, 2.0**40, 1e9, 2.0**30, 1e3, 1024.0),
    "MW MHz MPa MJ": (1e6, 1e3),
    "GW GHz GJ": (1e9, 1e6, 1e3),
    # Time is said in a larger unit than it was measured in, never in a smaller one.
    "s sec secs second seconds": (1e3, 1e6),
    "min mins minute minutes": (60.0,),
    "h hr hrs hour hours": (3600.0, 60.0),
    "d day days": (86400.0, 24.0),
    "week weeks": (7.0,),
    "°C °F °": (),
    "€ £ $": (),
    "x × times": (),
}
_MAGNITUDE = {word: Decimal(size) for size, words in _MAGNITUDES.items() for word in words.split()}
_UNIT = {word: factors for words, factors in _UNITS.items() for word in words.split()}
_WORD = re.compile(r"[ \u00a0\u202f\u2009]?([A-Za-zµμ°€£$×]{1,12}\.?)(?![A-Za-z0-9_])")


@dataclass(frozen=True, slots=True)
class Suffix:
    """What follows a number, up to `end`.

    Args:
        end: Where what belongs to the number ends: its percent sign or its magnitude.
        magnitude: What the number is to be multiplied by.
        factors: By what the value may be multiplied, besides.
        is_share: Whether it is a percentage.
        is_unit: Whether a unit follows, so that the number is no mere count.
    """

    end: int
    magnitude: Decimal = Decimal(1)
    factors: tuple[float, ...] = ()
    is_share: bool = False
    is_unit: bool = False


def suffix_after(text: str, end: int) -> Suffix:
    """What follows the number that ends at `end`. The first of a range has the unit of both."""
    if found := _share(text, end):
        return found
    suffix = _of_word(text, end)
    if suffix.is_unit:
        return suffix
    other = _RANGE.match(text, end)
    if other is None:
        return suffix
    behind = _share(text, other.end()) or _of_word(text, other.end())
    return Suffix(end, behind.magnitude, behind.factors, behind.is_share, behind.is_unit)


def is_suffix(word: str) -> bool:
    """Whether letters right after a number are a magnitude or a unit."""
    return word in _MAGNITUDE or word in _UNIT


def _share(text: str, end: int) -> Suffix | None:
    if match := _PERCENT.match(text, end):
        return Suffix(match.end(), factors=(0.01,), is_share=True, is_unit=True)
    if match := _PER_MILLE.match(text, end):
        return Suffix(match.end(), factors=(0.001, 0.1), is_share=True, is_unit=True)
    return None


def _of_word(text: str, end: int) -> Suffix:
    match = _WORD.match(text, end)
    if match is None:
        return Suffix(end)
    word = match[1] if match[1] in _MAGNITUDE else match[1].rstrip(".")
    if word in _MAGNITUDE:
        size = _MAGNITUDE[word]
        # The column may have been in thousands or millions already.
        return Suffix(match.start(1) + len(word), size, (1 / float(size),), False, True)
    if word in _UNIT:
        belongs = match.start(1) == end and word.isalpha()
        after = match.start(1) + len(word) if belongs else end
        return Suffix(after, Decimal(1), _UNIT[word], False, True)
    return Suffix(end)
