"""Texts that a run log says once: what stands in it already is named where it comes again.

In a line, a text may be replaced by

    {"$same": ADDRESS}              a text that was there before
    {"$lines": [PIECE, ...]}        lines that were there before, with others between; a piece is
                                    a text, or {"$of": ADDRESS, "at": FIRST, "n": COUNT} with
                                    "before" and "after", what each of those lines begins and ends
                                    with in addition
    {"$left_out": CHARACTERS}       nothing: a smaller copy of a picture that is in the same line
    {"$json": VALUE}                a text that is JSON, spaced as Python's `json` does it; with
                                    "$compact" for "$json" one without spaces

and a dictionary that looks like one of these, but is a tool's own, by {"$plain": DICTIONARY}.

An address is the number of a line (`seq`) and a JSON pointer into that line as it was meant:
`12/result/content/0/text`. Where it leads into a text, that text is JSON: in
`9/message/blocks/1/arguments/code` the code is an argument of a call.
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
"""Characters below which a text is written again: naming it takes about as many."""
_SHORTEST_RUN = 100
"""The same for lines."""
_PLACES = 4
"""Places of one line that are looked at."""
_MOST_RESTORED = 100_000_000
"""Characters of a log's texts with everything in its place: a forged one could grow without end."""
_MARKS = "+- "
_SPACING = {JSON: (", ", ": "), COMPACT: (",", ":")}
_FORMS = frozenset({SAME, LINES, LEFT_OUT, PLAIN, JSON, COMPACT})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Stands in a line's data for a text that is not to be written."""

    characters: int


class Repeats:
    """Writes the lines of one log, and knows where each long text stands.

    What it keeps is a digest for each text; what a line costs does not depend on those before it.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def shorten(
        self, number: int, line: dict[str, Any], near: Iterable[tuple[str, str]] | None = None
    ) -> dict[str, Any]:
        """The line with names for what stands in the log already.

        Args:
            number: The line's number.
            line: JSON, but for `LeftOut`.
            near: Earlier texts, by address, of which this line may repeat a part. With None only
                whole texts are looked for; otherwise also lines of the texts in this line itself.
        """
        parts = None
        if near is not None:
            parts = _Lines()
            for address, text in near:
                parts.add(address, text)
        shortened: dict[str, Any] = self._walk(line, str(number), parts, is_top=True)
        return shortened

    def _walk(self, value: Any, address: str, parts: _Lines | None, is_top: bool = False) -> Any:
        if isinstance(value, str):
            return self._text(value, address, parts) if len(value) >= SHORTEST else value
        if isinstance(value, dict):
            walked = {
                key: self._walk(item, f"{address}/{_escaped(key)}", parts)
                for key, item in value.items()
            }
            return walked if is_top or not _is_form(value) else {PLAIN: walked}
        if isinstance(value, list):
            return [self._walk(item, f"{address}/{i}", parts) for i, item in enumerate(value)]
        if isinstance(value, LeftOut):
            return {LEFT_OUT: value.characters}
        return value

    def _text(self, text: str, address: str, parts: _Lines | None) -> Any:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        known = self._known.setdefault(digest, address)
        if known != address:
            return {SAME: known}
        if text.startswith('{"'):
            return _as_value(text)
        if parts is None:
            return text
        pieces = parts.pieces(text)
        parts.add(address, text)
        return text if pieces is None else {LINES: pieces}


class Restoring:
    """Reads the lines of one log, in their order, and puts back what is only named.

    Attributes:
        lost: How many names led nowhere, since their line is missing or no longer what it was.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._lines: dict[str, Any] = {}
        self._parsed: dict[str, Any] = {}
        self._room = _MOST_RESTORED

    def restore(self, line: dict[str, Any]) -> dict[str, Any]:
        """The line as it was meant. A name that leads nowhere is left as words in brackets."""
        self._parsed.clear()
        number = str(line.get("seq", ""))
        whole: dict[str, Any] = {}
        self._lines[number] = whole
        # A line may name what stands further up in it, so it is filled in its order.
        for key, item in line.items():
            self._put(whole, key, item)
        return whole

    def _put(self, into: Any, key: Any, value: Any) -> None:
        """Put a value at its place, then what is in it: places are addressed while they fill."""
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
    """A JSON text as the value that it stands for, if that gives the same text back.

    So the quotation marks and line breaks in it need not be written with two backslashes.
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
    """The longer texts in a text that is JSON, each with its address."""
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


@dataclass(frozen=True, slots=True)
class _Run:
    """Lines that follow each other as they do in a source."""

    address: str
    at: int
    count: int
    before: str
    after: str

    @property
    def piece(self) -> dict[str, Any]:
        around = {"before": self.before, "after": self.after}
        named = {OF: self.address, "at": self.at, "n": self.count}
        return named | {name: text for name, text in around.items() if text}


class _Lines:
    """The lines of some texts, to be found again in another."""

    def __init__(self) -> None:
        self._sources: list[tuple[str, list[str]]] = []
        self._places: dict[str, list[tuple[int, int]]] = {}

    def add(self, address: str, text: str) -> None:
        lines = text.split("\n")
        for at, line in enumerate(lines):
            places = self._places.setdefault(line, [])
            if line and len(places) < _PLACES:
                places.append((len(self._sources), at))
        self._sources.append((address, lines))

    def pieces(self, text: str) -> list[Any] | None:
        """The text as pieces; None where it is as well written out."""
        lines = text.split("\n")
        pieces: list[Any] = []
        own: list[str] = []
        index = 0
        while index < len(lines):
            run = self._longest(lines, index)
            count = run.count if run else 1
            taken = lines[index : index + count]
            index += count
            if run is None or sum(map(len, taken)) < _SHORTEST_RUN:
                own += taken
                continue
            if own:
                pieces.append("\n".join(own))
                own = []
            pieces.append(run.piece)
        if not pieces:
            return None
        if own:
            pieces.append("\n".join(own))
        return pieces if len(json.dumps(pieces, ensure_ascii=False)) < len(text) else None

    def _longest(self, lines: Sequence[str], index: int) -> _Run | None:
        best: _Run | None = None
        for before, line, after in _readings(lines[index]):
            for source, at in self._places.get(line, ()):
                address, there = self._sources[source]
                count = _common(lines, index, there, at, before, after)
                if best is None or count > best.count:
                    best = _Run(address, at, count, before, after)
        return best


def _readings(line: str) -> Iterator[tuple[str, str, str]]:
    """How a line may come from another: as it is, marked in a diff, with a carriage return."""
    yield "", line, ""
    if line[:1] in _MARKS and line[1:]:
        yield line[0], line[1:], ""
    if line.endswith("\r"):
        yield "", line[:-1], "\r"


def _common(
    lines: Sequence[str], index: int, there: Sequence[str], at: int, before: str, after: str
) -> int:
    most = min(len(lines) - index, len(there) - at)
    for count in range(most):
        if lines[index + count] != f"{before}{there[at + count]}{after}":
            return count
    return most


def _is_form(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _FORMS


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
