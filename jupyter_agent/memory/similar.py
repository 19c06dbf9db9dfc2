"""Compares the meaning of two short texts: fast, deterministic, with few false matches.

Texts that differ in a number, in a name with digits, or in a negation are different, however
similar their words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Likeness = Literal["same", "near"]

NEAR = 0.75
"""Share of common words from which a text that only adds or drops words counts as near."""
NEAR_WITH_OTHERS = 0.85
"""The threshold for texts with replaced words, which may carry the meaning."""
_FEWEST = 3

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[^\W{_CJK}]+(?:['’][^\W{_CJK}]+)?|[{_CJK}]")
_NUMBER_OR_NAME = re.compile(r"\d")
_STOP = frozenset(
    re.findall(
        r"\S+",
        "a an the of to in on at by for from with and or is are was were be been being it its this "
        "that these those as will would should can could has have had do does did we i you they he "
        "she our your their my me us them please so then very also just",
    )
)
_NEGATIONS = frozenset(
    re.findall(
        r"\S+",
        "not no never none nor without cannot neither avoid stop dont doesnt didnt isnt arent "
        "wasnt wont cant shouldnt mustnt 不 没 無 无 非 别 未 勿",
    )
)


@dataclass(frozen=True, slots=True)
class TextFingerprint:
    """The compared parts of a text."""

    exact: str
    words: frozenset[str]
    numbers: tuple[str, ...]
    negations: tuple[str, ...]


@lru_cache(maxsize=20_000)
def fingerprint(text: str) -> TextFingerprint:
    """The parts of a text that carry its meaning.

    Cached, since each save compares with all stored texts.
    """
    tokens = _WORD.findall(text.casefold())
    words: list[str] = []
    numbers: list[str] = []
    negations: list[str] = []
    for token in tokens:
        if _NUMBER_OR_NAME.search(token):
            numbers.append(token)
            continue
        bare = token.replace("'", "").replace("’", "")
        if bare in _NEGATIONS:
            negations.append(bare)
        elif bare not in _STOP:
            words.append(_singular(bare))
    return TextFingerprint(" ".join(tokens), frozenset(words), tuple(numbers), tuple(negations))


def likeness(one: TextFingerprint, other: TextFingerprint) -> Likeness | None:
    """`same` up to case, punctuation and space; `near` up to minor words; None if different."""
    if one.exact == other.exact:
        return "same" if one.exact else None
    if one.numbers != other.numbers or one.negations != other.negations:
        return None
    return "near" if _alike(one.words, other.words) else None


def contradicts(one: TextFingerprint, other: TextFingerprint) -> bool:
    """True if both have the same subject, and only one of them a negation."""
    return (
        one.negations != other.negations
        and one.numbers == other.numbers
        and _alike(one.words, other.words)
    )


def same_subject(one: TextFingerprint, other: TextFingerprint) -> bool:
    """True if both are about the same thing, whatever numbers and negations they hold.

    For short texts such as titles, equal words suffice.
    """
    return (bool(one.words) and one.words == other.words) or _alike(one.words, other.words)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    smaller, larger = sorted((len(one), len(other)))
    if smaller < _FEWEST or smaller < NEAR * larger:
        return False
    common = len(one & other)
    share = common / (smaller + larger - common)
    return share >= (NEAR if common == smaller else NEAR_WITH_OTHERS)


def _singular(word: str) -> str:
    """The word without a plural's or a verb's `s`: a sufficient stem for comparison."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "sui" else word
