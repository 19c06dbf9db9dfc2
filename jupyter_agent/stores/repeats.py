"""Replaces repeated text in a run log by a reference to its first occurrence.

In a line, a text may be replaced by

    {"$same": ADDRESS}              the text at that address
    {"$lines": [PIECE, ...]}        lines of earlier texts, with others between; a piece is a text,
                                    or {"$of": ADDRESS, "at": FIRST, "n": COUNT} with "before" and
                                    "after", which each of those lines begins and ends with here
    {"$left_out": CHARACTERS}       nothing: a smaller copy of a picture that is in the same line
    {"$json": VALUE}                the text of that value, spaced as Python's `json` does it; with
                                    "$compact" for "$json" without spaces

and a dictionary of a tool that looks like one of these by {"$plain": DICTIONARY}.

An address is the number of a line (`seq`) and a JSON pointer into that line as it was before:
`12/result/content/0/text`. Where it leads into a text, that text is JSON: in
`9/message/blocks/1/arguments/code` the code is an argument of a call.

In a hundred steps of five kinds of work a log is 1.2 to 2.3 times as long as its distinct text
with `$same` alone, and 1.2 to 1.8 times with `$lines` and `$json`. `$json` matters for written
files: 1.32 in place of 1.39 (`tests/test_runlog_size.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SAME, LINES, LEFT_OUT, PLAIN = "$same", "$lines", "$left_out", "$plain"
JSON, COMPACT = "$json", "$compact"
OF = "$of"
SHORTEST = 60
"""Characters below which a text is written again: a reference takes about as many."""
_SHORTEST_RUN = 100
"""The fewest characters of a run of lines for a reference."""
_MOST_RESTORED = 100_000_000
"""Characters that references to lines may add to a log: a forged one could grow without end."""
_MARKS = "+- "
_SPACING = {JSON: (", ", ": "), COMPACT: (",", ":")}
_FORMS = frozenset({SAME, LINES, LEFT_OUT, PLAIN, JSON, COMPACT})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A placeholder for a text that is not written."""

    characters: int


class Repeats:
    """Shortens the lines of one log by references to texts in earlier lines.

    It keeps a digest of each text, so that the cost of a line does not grow with the log.
    """

    def __init__(self) -> None:
        self._addresses: dict[bytes, str] = {}

    def shorten(
        self, number: int, line: dict[str, Any], near: Iterable[tuple[str, str]] | None = None
    ) -> dict[str, Any]:
        """The line with references in place of texts that the log has already.

        Args:
            number: The line's number.
            line: JSON, except for `LeftOut`.
            near: Earlier texts, by address, whose single lines may be referred to, as well as those
                of texts earlier in this line. None: references to whole texts alone.
        """
        places: _Places = {}
        for address, text in near or ():
            _add_places(places, address, text)
        lines = None if near is None else places
        return {
            key: self._walk(item, f"{number}/{_escaped(key)}", lines) for key, item in line.items()
        }

    def _walk(self, value: Any, address: str, places: _Places | None) -> Any:
        if isinstance(value, str):
            return self._text(value, address, places) if len(value) >= SHORTEST else value
        if isinstance(value, dict):
            walked = {
                key: self._walk(item, f"{address}/{_escaped(key)}", places)
                for key, item in value.items()
            }
            return {PLAIN: walked} if _is_form(value) else walked
        if isinstance(value, list):
            return [self._walk(item, f"{address}/{i}", places) for i, item in enumerate(value)]
        return {LEFT_OUT: value.characters} if isinstance(value, LeftOut) else value

    def _text(self, text: str, address: str, places: _Places | None) -> Any:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        first = self._addresses.setdefault(digest, address)
        if first != address:
            return {SAME: first}
        if text.startswith('{"'):
            return _as_value(text)
        if places is None:
            return text
        pieces = _pieces(text, places)
        _add_places(places, address, text)
        return text if pieces is None else {LINES: pieces}


_Places = dict[str, tuple[str, list[str], int]]
"""The first place of each line: the address of its text, the text's lines, and its index there."""


def _add_places(places: _Places, address: str, text: str) -> None:
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line:
            places.setdefault(line, (address, lines, at))


def _pieces(text: str, places: _Places) -> list[Any] | None:
    """The text as pieces; None if they are no shorter."""
    lines = text.split("\n")
    pieces: list[Any] = []
    own: list[str] = []
    index = 0
    while index < len(lines):
        count, piece = _run(lines, index, places)
        taken = lines[index : index + count]
        index += count
        if sum(map(len, taken)) < _SHORTEST_RUN or not piece:
            own += taken
            continue
        if own:
            pieces.append("\n".join(own))
            own = []
        pieces.append(piece)
    if not pieces:
        return None
    if own:
        pieces.append("\n".join(own))
    return pieces if len(json.dumps(pieces, ensure_ascii=False)) < len(text) else None


def _run(lines: Sequence[str], index: int, places: _Places) -> tuple[int, dict[str, Any]]:
    """The length of the run of lines from `index` that follow each other in an earlier text.

    With the piece for them. They may differ in a diff's mark before each line, or in a carriage
    return after it.
    """
    best: tuple[int, dict[str, Any]] = 1, {}
    line = lines[index]
    ways = [("", line, "")]
    if line[:1] in _MARKS and line[1:]:
        ways.append((line[0], line[1:], ""))
    if line.endswith("\r"):
        ways.append(("", line[:-1], "\r"))
    for before, inner, after in ways:
        if inner not in places:
            continue
        address, there, at = places[inner]
        most = min(len(lines) - index, len(there) - at)
        count = 1
        while count < most and lines[index + count] == f"{before}{there[at + count]}{after}":
            count += 1
        if count > best[0] or not best[1]:
            around = {"before": before, "after": after}
            piece = {OF: address, "at": at, "n": count}
            best = count, piece | {name: text for name, text in around.items() if text}
    return best


class Restoring:
    """Replaces references by their texts. Takes the lines of one log in order.

    Attributes:
        lost: The number of dangling references, whose line is missing or has changed.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._lines: dict[str, Any] = {}
        self._parsed: dict[str, Any] = {}
        self._room = _MOST_RESTORED

    def restore(self, line: dict[str, Any]) -> dict[str, Any]:
        """The original line; a dangling reference becomes words in brackets."""
        self._parsed.clear()
        number = str(line.get("seq", ""))
        whole: dict[str, Any] = {}
        self._lines[number] = whole
        # A line may refer to its own earlier texts, so it is filled in order.
        for key, item in line.items():
            self._put(whole, key, item)
        return whole

    def _put(self, into: Any, key: Any, value: Any) -> None:
        """Put a value at its place before its content, which may refer into it."""
        if isinstance(value, dict) and _is_form(value):
            ((form, inner),) = value.items()
            if form == PLAIN and isinstance(inner, dict):
                value = inner
            else:
                into[key] = self._text(form, inner)
                return
        if isinstance(value, dict):
            into[key] = {}
            for name, item in value.items():
                self._put(into[key], name, item)
        elif isinstance(value, list):
            into[key] = [None] * len(value)
            for index, item in enumerate(value):
                self._put(into[key], index, item)
        else:
            into[key] = value

    def _text(self, form: str, inner: Any) -> str:
        try:
            if form == LEFT_OUT:
                return ""
            if form == SAME:
                return self._at(inner)
            if form in _SPACING:
                return _json_text(inner, form)
            if form != LINES or not isinstance(inner, list):
                raise ValueError(form)
            return self._counted("\n".join(self._piece(piece) for piece in inner))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            self.lost += 1
            return "[a text that is missing in this log]"

    def _piece(self, piece: Any) -> str:
        if isinstance(piece, str):
            return piece
        lines = self._at(piece[OF]).split("\n")
        first, count = int(piece["at"]), int(piece["n"])
        chosen = lines[first : first + count]
        if len(chosen) != count or first < 0:
            raise LookupError(piece[OF])
        before, after = str(piece.get("before", "")), str(piece.get("after", ""))
        return self._counted("\n".join(f"{before}{line}{after}" for line in chosen))

    def _counted(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            raise ValueError("too long")
        return text

    def _at(self, address: str) -> str:
        number, *path = address.split("/")
        place, way = self._lines[number], number
        for step in path:
            if isinstance(place, str):
                if way not in self._parsed:
                    self._parsed[way] = json.loads(place)
                place = self._parsed[way]
            way = f"{way}/{step}"
            place = place[int(step)] if isinstance(place, list) else place[_unescaped(step)]
        if not isinstance(place, str):
            raise LookupError(address)
        return place


def _as_value(text: str) -> Any:
    """A JSON text as `$json` or `$compact`, if that restores the same text; else the text.

    Saves the backslashes before quotation marks and line breaks.
    """
    try:
        value = json.loads(text)
        for form in _SPACING:
            if _json_text(value, form) == text:
                return {form: value}
    except (ValueError, RecursionError):
        pass
    return text


def _json_text(value: Any, form: str) -> str:
    return json.dumps(value, ensure_ascii=False, separators=_SPACING[form])


def texts_in(address: str, text: str) -> Iterator[tuple[str, str]]:
    """The longer texts in a JSON text, each with its address; none if it is no JSON."""
    try:
        yield from _texts_in(address, json.loads(text))
    except (ValueError, RecursionError):
        return


def _texts_in(address: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and len(value) >= SHORTEST:
        yield address, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts_in(f"{address}/{_escaped(key)}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_in(f"{address}/{index}", item)


def _is_form(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _FORMS


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
