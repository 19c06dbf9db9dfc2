"""What stands around a number, and whether it makes the number something else than a claim."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from jupyter_agent.grounding.scales import is_suffix, suffix_after

_NEAR = 24
_MONTHS = (
    "Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?|Juli"
    "|Aug(?:ust)?|Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?"
)
_DATES = re.compile(
    r"(?<![0-9.])(?:"
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}"
    r"(?:[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
    r"|[0-9]{1,2}[./][0-9]{1,2}[./](?:[0-9]{4}|[0-9]{2})(?![0-9])"
    r"|(?:1[5-9]|20)[0-9]{2}-(?:0[1-9]|1[0-2])(?![0-9])"
    r"|(?:1[5-9]|20)[0-9]{2}\s?[-–—/]\s?(?:(?:1[5-9]|20)[0-9]{2}|[0-9]{2})(?![0-9%]|[.,][0-9])"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?![0-9])"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?:{_MONTHS})\b\.?(?:,?\s[0-9]{{4}}(?![0-9]))?"
    r")"
    rf"|\b(?:{_MONTHS})\.?\s[0-9]{{1,2}}(?:st|nd|rd|th)?(?![0-9.%])(?:,?\s[0-9]{{4}}(?![0-9]))?"
    rf"|\b(?:{_MONTHS})\.?\s[0-9]{{4}}(?![0-9])"
)
_LIST_NUMBER = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?$")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|ster|ste|ter|te)\b")
_WORD_CHARACTERS = 100
_FILE_NAME = re.compile(r"[A-Za-z_~*\-][^\s]{0,100}\.[A-Za-z][A-Za-z0-9]{0,5}$|\.[A-Za-z]{2,5}$")
_LABEL = re.compile(
    r"(?i)(?:\b(?:steps?|sections?|sec\.|figures?|figs?\.|tables?|tab\.|chapters?|ch\.|pages?|pp?\."
    r"|lines?|appendix|equations?|eqs?\.|cells?|versions?|release|issues?|no\.|nr\.|exercise|task"
    r"|phase|parts?|items?|options?|questions?|notes?|levels?|python|iso|rfc|sha|port|schritt"
    r"|abbildung|abb\.|tabelle|kapitel|seite|zeile|teil|top|quarter|q|seed"
    r"|random_state)[ \u00a0]|№\s?)$"
)
_COUNTED_THING = re.compile(
    r"(?i)\b(?:rows?|index|indices|ids?|records?|entry|entries|observations?|hours?|days?|weeks?"
    r"|months?|epochs?|iterations?|folds?|batch|batches|trials?|runs?|clusters?|class|classes"
    r"|groups?|bins?|deciles?|percentiles?|aged?|ages|lags?|depth|degree|rank|k|zeile|stunde|tag"
    r"|woche|monat|alter)(?:[ \u00a0]#?|\s?={1,2}\s?)"
    r"(?:[0-9]{1,6}(?:\s?[-–—,]\s?|\s(?:and|to|or|und|bis|oder)\s)){0,3}$"
)
_PRODUCT = re.compile(
    r"(?i)(?:\b(?:version|release|python|pandas|numpy|scipy|matplotlib|sklearn|scikit-learn|polars"
    r"|torch|pytorch|tensorflow|jupyter|jupyterlab|ipython|cuda|ubuntu|debian|node|java|r|gpt|claude"
    r"|llama|gemini)[ \u00a0]v?|\bv\.?\s?)$"
)
_YEAR_BEFORE = re.compile(
    r"(?i)\b(?:in|since|from|until|till|by|of|year|years|and|to|between|after|before|during|around"
    r"|late|early|mid|fy|q[1-4]|summer|winter|spring|autumn|fall|season|jahr|seit|bis|von|vor|nach)"
    r"[ \u00a0-]$"
)
_NOT_COUNTED = re.compile(
    r"(?i)\s(?:was|is|were|are|to|and|the|had|has|have|when|with|for|in|at|on|as|by|there|but|or|it"
    r"|compared|vs\.?|than|while|where|which|who|we|through|until|onwards?|data|season|edition|survey"
    r"|census|report|election|levels?|bis|und|war|ist|im|mit)\b"
)
_DECADE = re.compile(r"(?:1[5-9]|20)[0-9]0s")
_COUNTED = re.compile(r"\s(?:[a-z]{2,})")
_LEVELS = frozenset({"80", "90", "95", "99", "99.9", "68"})
_LEVEL_AFTER = re.compile(
    r"(?i)\s?(?:%|percent|prozent)[- ]{0,2}(?:[\w-]{1,20} ){0,2}(?:intervals?|confidence|ci\b|cis\b"
    r"|credible|prediction|margin|level|konfidenz|vertrauens|significance)"
)
_LEVEL_BEFORE = re.compile(r"(?i)\b(?:ci|interval|confidence|level)[\s:(=]{1,3}$")
_THRESHOLD_BEFORE = re.compile(r"(?i)\b(?:p(?:-?values?)?|α|alpha)[)*_\s]{0,2}[<≤>≥=]{1,2}\s?$")
_THRESHOLDS = frozenset({"0.1", "0.05", "0.01", "0.005", "0.001", "0.0001", ".05", ".01", ".001"})


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches of a text, in order, that do not overlap."""

    starts: list[int]
    ends: list[int]

    def covers(self, place: int) -> bool:
        index = bisect_right(self.starts, place) - 1
        return index >= 0 and place < self.ends[index]


def spans_of_dates(text: str) -> Spans:
    """Where dates, times and ranges of years stand."""
    found = [match.span() for match in _DATES.finditer(text)]
    return Spans([start for start, _ in found], [end for _, end in found])


def is_left_alone(text: str, start: int, end: int, is_small: bool) -> bool:
    """Whether the number at these places is no claim.

    Args:
        text: The whole text.
        start: Where the number begins, its sign included.
        end: Where it ends, its percent sign or magnitude included.
        is_small: Whether it is a bare count up to ten.
    """
    digits = text[start:end]
    return (
        is_small
        or _is_part_of_a_word(text, start, end)
        or _is_numbering(text, start, end)
        or _is_year(text, start, end)
        or _is_convention(text, start, digits)
    )


def names_counted(text: str, start: int) -> bool:
    """True if the number at this place names what an output numbers: `row 17`, `k = 12`."""
    return _COUNTED_THING.search(text[max(0, start - 2 * _NEAR) : start]) is not None


def _is_part_of_a_word(text: str, start: int, end: int) -> bool:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if before.isalnum() or before in "_#@^\\&~" or after == "_":
        return before != "~"
    if before in "-–" and start > 1 and (text[start - 2].isalpha() or text[start - 2] == "^"):
        return True  # utf-8, top-5, 10^-3
    if before in ".:/" and start > 1 and text[start - 2].isalpha():
        return True  # model.3, localhost:8888
    if before == "{" and start > 1 and text[start - 2] in "^_":
        return True
    if after == "^" or _ORDINAL.match(text, end):
        return True
    if after.isalpha():
        letters = re.compile(r"[^\W\d_]{1,20}").match(text, end)
        return letters is None or not is_suffix(letters[0])
    return _is_in_a_name(text, start, end)


def _is_in_a_name(text: str, start: int, end: int) -> bool:
    """Whether what stands around it without a space is an address or the name of a file."""
    left = text[max(0, start - _WORD_CHARACTERS) : start].rpartition(" ")[2]
    left = re.split(r"\s", left)[-1]
    right = re.split(r"\s", text[end : end + _WORD_CHARACTERS], maxsplit=1)[0]
    word = f"{left}{text[start:end]}{right}".strip("()[]{}<>\"'*,;:!?.`")
    if "://" in word or "@" in word or "\\" in left or word.startswith("www."):
        return True
    return bool(re.search("[A-Za-z]", word)) and _FILE_NAME.search(word) is not None


def _is_numbering(text: str, start: int, end: int) -> bool:
    number = text[start:end]
    if not number.isdigit():
        return _PRODUCT.search(text[max(0, start - _NEAR) : start]) is not None
    before = text[max(0, start - _NEAR) : start]
    line = before.rpartition("\n")[2]
    after = text[end : end + 2]
    at_start = start <= len(line) or len(line) < len(before)
    is_listed = after[:1] in (".", ")") and after[1:] in ("", " ", "\t", "\n")
    if at_start and is_listed and _LIST_NUMBER.fullmatch(line):
        return True
    if before.endswith(("[", "[^")) and after[:1] == "]":
        return True
    return bool(_LABEL.search(before) or _PRODUCT.search(before))


def _is_year(text: str, start: int, end: int) -> bool:
    number = text[start:end]
    if _DECADE.fullmatch(number):
        return True
    if not (number.isdigit() and len(number) == 4 and 1500 <= int(number) <= 2100):
        return False
    if suffix_after(text, end).is_unit:
        return False
    if _YEAR_BEFORE.search(text[max(0, start - _NEAR) : start]):
        return True
    return not _COUNTED.match(text, end) or _NOT_COUNTED.match(text, end) is not None


def _is_convention(text: str, start: int, number: str) -> bool:
    before = text[max(0, start - _NEAR) : start]
    share = number.rstrip("%％ \\")
    if share in _LEVELS:
        place = start + len(share)
        return bool(_LEVEL_AFTER.match(text, place) or _LEVEL_BEFORE.search(before))
    if number.rstrip("\u00a0 ") != share and share == "100":
        return True
    return number in _THRESHOLDS and _THRESHOLD_BEFORE.search(before) is not None
