"""The spans of a result that vary from run to run: how they are marked, learned and matched.

In a marked text each varying span stands between two brackets: `took ⟨3.21⟩ s`. A bracket that
belongs to the text itself has a backslash before it.

Results are compared line by line and token by token. A varying span matches a token of its own
kind: a number another number, a time another time, a name another name. All other tokens match
themselves alone. Two things are never compared: the order of a printed set, and how many blanks
align a varying number.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby

OPEN, CLOSE = "⟨", "⟩"
_BRACKET = re.compile(r"(?<!\\)(\\*+)([⟨⟩])")
_LAST_BACKSLASHES = re.compile(r"(?<!\\)\\++\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """A varying span that was matched: the recorded text, and the text of this run."""

    recorded: str
    now: str


# ---- marked texts --------------------------------------------------------------------------------


_Line = Sequence[tuple[str, bool]]
"""The pieces of a marked text or line, each with True if it varies."""


def parse(marked_text: str) -> list[tuple[str, bool]]:
    """The pieces of a marked text, each with True if it varies.

    A bracket without its partner is text.
    """
    pieces: list[tuple[str, bool]] = []
    held, before, end = "", "", 0
    is_open = False
    for found in _BRACKET.finditer(marked_text):
        backslashes, bracket = found.groups()
        held += marked_text[end : found.start()] + "\\" * (len(backslashes) // 2)
        end = found.end()
        is_mark = len(backslashes) % 2 == 0
        if is_mark and bracket == (CLOSE if is_open else OPEN):
            if is_open:
                pieces += [(before, False), (held, True)]
            else:
                before = held
            held, is_open = "", not is_open
        else:
            held += bracket
    rest = held + marked_text[end:]
    pieces.append((f"{before}{OPEN}{rest}" if is_open else rest, False))
    return [(text, varies) for text, varies in pieces if text]


def marked(pieces: _Line) -> str:
    """The marked text of some pieces, each with True if it varies."""
    written = []
    for number, (text, varies) in enumerate(pieces, 1):
        escaped = _BRACKET.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)
        if varies or (number < len(pieces) and pieces[number][1]):
            # A mark follows, to which these backslashes would seem to belong.
            escaped = _LAST_BACKSLASHES.sub(lambda found: found[0] * 2, escaped)
        written.append(f"{OPEN}{escaped}{CLOSE}" if varies else escaped)
    return "".join(written)


def unmarked(marked_text: str) -> str:
    """The text without its marks."""
    return "".join(text for text, _ in parse(marked_text))


def spans(marked_text: str) -> tuple[str, ...]:
    """The varying spans of a marked text."""
    return tuple(text for text, varies in parse(marked_text) if varies)


# ---- tokens --------------------------------------------------------------------------------------

_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_CLOCK = rf"\d{{1,2}}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AP]M)?{_ZONE}"
_DATE = (
    r"(?:\d{4}-\d\d-\d\d|\d{4}/\d\d?/\d\d?|\d\d?[./]\d\d?[./]\d{4}"
    rf"|(?:{_DAY},? )?(?:\d\d? {_MONTH},? \d{{4}}|{_MONTH} +\d\d?,? \d{{4}}))"
)
# Possessive: otherwise a long row of digits would be split in each possible way.
_NUMBER = r"(?:(?:\d{1,3}(?:,\d{3}){1,12}+(?!\d)|\d++)(?:\.\d++|\.)?|\.\d++)(?:[eE][-+]?\d++)?"
_UNIT = r"(?:ns|[µμ]s|us|ms|seconds?|secs?|s|minutes?|mins?|hours?|h|days?)"
_KINDS = {
    "path": r"<tmp>[^\s'\":,;)\]>]*",
    "uuid": r"(?i:\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)",
    "time": (
        rf"\b(?:{_DATE}(?:(?:T|,? (?:at )?){_CLOCK})?"
        rf"|{_DAY} {_MONTH} +\d\d? {_CLOCK} \d{{4}}|\d{{8}}[T_-]?\d{{6}}|{_CLOCK})(?![\w:])"
    ),
    "loops": r"(?<![\w,])\d[\d,]*+ loops? each\b",
    "rate": rf"(?:(?<![\w.]){_NUMBER}|\?) ?(?:it/s|s/it|[kMGT]?i?B/s)(?!\w)",
    "duration": (
        rf"(?:(?<![\w.])[-+])?(?<![\w.]){_NUMBER} ?{_UNIT}(?!\w)(?: {_NUMBER} ?{_UNIT}(?!\w))*"
    ),
    "number": rf"(?:(?<![\w.)\]])[-+])?(?<![\w.]){_NUMBER}(?!\w)|(?<![\w.])[-+]?(?:nan|NaN|inf)\b",
    "name": r"\w+",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_COARSE = re.compile(r"(?P<text>'[^'\n]*'|\"[^\"\n]*\"|[^\s,;()\[\]{}]+)")
_REPORT = re.compile(r"per loop \(mean ± std\. dev\.|^(?:CPU times|Wall time): |(?:it/s|s/it)\]$")
"""Lines by `%timeit`, `%%timeit`, `%time`, `%%time` and tqdm's bars."""
_MEASURED = ("duration", "loops", "rate", "time")
_PLAIN = {"number", "duration", "time"}
_NAMED = {"path", "uuid"}
_JOINED = re.compile(rf"{CLOSE}[-+/~=]+{OPEN}")
"""Two spans that are one name, of random letters with punctuation among them."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a line: its text, the blanks before it, its kind, and where it begins.

    Punctuation is a token of its own, whose kind is empty.
    """

    text: str
    blanks: str
    kind: str
    start: int
    varies: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _tokens(line: str, pattern: re.Pattern[str]) -> list[Token]:
    found: list[Token] = []
    end = 0

    def punctuation(until: int) -> int:
        """Add the single characters before the next match; returns where its blanks begin."""
        blank = end
        for place in range(end, until):
            if line[place] not in " \t":
                found.append(Token(line[place], line[blank:place], "", place))
                blank = place + 1
        return blank

    for match in pattern.finditer(line):
        blank = punctuation(match.start())
        kind = match.lastgroup or ""
        found.append(Token(match[0], line[blank : match.start()], kind, match.start()))
        end = match.end()
    blank = punctuation(len(line))
    found.append(Token("", line[blank:], "end", len(line)))
    return found


def _is_same_kind(a: Token, b: Token) -> bool:
    if a.kind != b.kind or not a.kind:
        return False
    if a.kind != "text":
        return True
    kinds = {_kind_of(a.text), _kind_of(b.text)}
    if len(kinds) == 1 or not kinds & (_PLAIN | _NAMED):
        return True
    # A random name may happen to consist of digits alone.
    return not kinds & _NAMED and len(a.text) == len(b.text)


# ---- matching ------------------------------------------------------------------------------------


def match(recorded: str, now: str) -> list[Span] | None:
    """Match this run's text with a marked one.

    Args:
        recorded: The recorded text with its marks.
        now: The text of this run.

    Returns:
        The varying spans; None if the text differs outside of them.
    """
    if recorded == now and OPEN not in now and CLOSE not in now:
        return []
    lines = _marked_lines(recorded)
    current = now.split("\n")
    if len(lines) != len(current):
        return None
    is_aligned = any(_has_number(line) for line in lines)
    found: list[Span] = []
    for line, text in zip(lines, current, strict=True):
        matched = _match_line(line, text, is_aligned)
        if matched is None:
            return None
        found += matched
    return found


def _marked_lines(text: str) -> list[list[tuple[str, bool]]]:
    """The pieces of each line. A span never crosses a line's end: its rest is a span again."""
    lines: list[list[tuple[str, bool]]] = [[]]
    for piece, varies in parse(text):
        first, *others = piece.split("\n")
        lines[-1].append((first, varies))
        lines += [[(other, varies)] for other in others]
    return [[(piece, varies) for piece, varies in line if piece] for line in lines]


def _has_number(line: _Line) -> bool:
    return any(varies and _kind_of(text) in ("number", "duration") for text, varies in line)


@lru_cache(maxsize=1024)
def _kind_of(text: str) -> str:
    found = _TOKEN.fullmatch(text)
    return (found.lastgroup or "") if found else ""


def _match_line(line: _Line, now: str, is_aligned: bool) -> list[Span] | None:
    plain = _plain(line)
    varying = [text for text, varies in line if varies]
    if plain == now:
        return [Span(text, text) for text in varying]
    if unordered(plain) == unordered(now) and not varying:
        return []
    sorted_line = [(text if varies else unordered(text), varies) for text, varies in line]
    for pieces, text in ((line, now), (sorted_line, unordered(now))):
        for pattern in (_TOKEN, _COARSE):
            recorded = _with_marks(_tokens(_plain(pieces), pattern), pieces)
            if recorded is None:
                continue
            found = _match_tokens(recorded, _tokens(text, pattern), is_aligned)
            if found is not None:
                return found
    are_tokens = _with_marks(_tokens(plain, _TOKEN), line) is not None
    return _match_around(line, now) if varying and not are_tokens else None


def _plain(line: _Line) -> str:
    return "".join(text for text, _ in line)


def _with_marks(tokens: Sequence[Token], line: _Line) -> list[Token] | None:
    """The tokens with what varies; None if a mark begins or ends inside of a token."""
    ranges, place = [], 0
    for text, varies in line:
        if varies:
            ranges.append((place, place + len(text)))
        place += len(text)
    found, waiting = [], deque(ranges)
    for token in tokens:
        while waiting and waiting[0][1] <= token.start:
            waiting.popleft()
        varies = bool(waiting) and waiting[0][0] < token.end
        if varies and waiting[0] != (token.start, token.end):
            return None
        found.append(replace(token, varies=varies))
    return found


def _match_tokens(
    recorded: Sequence[Token], now: Sequence[Token], is_aligned: bool
) -> list[Span] | None:
    if len(recorded) != len(now):
        return None
    found, beside = [], True
    for old, new in zip(recorded, now, strict=True):
        if old.varies:
            if not _is_same_kind(old, new):
                return None
            found.append(Span(old.text, new.text))
        elif old.text != new.text:
            return None
        is_number = old.varies and old.kind in ("number", "duration")
        if old.blanks != new.blanks and not (
            is_aligned and _are_alignment(old.blanks, new.blanks, beside or is_number)
        ):
            return None
        beside = is_number
    return found


def _are_alignment(old: str, new: str, beside_number: bool) -> bool:
    """True if blanks may differ because they align a number that varies."""
    return beside_number or (max(len(old), len(new)) > 1 and bool(old) and bool(new))


def _match_around(line: _Line, now: str) -> list[Span] | None:
    """Match spans that are no tokens, such as those that a person marked: any text fits there."""
    found: list[Span] = []
    place, waiting = 0, ""
    for number, (text, varies) in enumerate(line):
        if varies:
            waiting += text
            continue
        is_last = number == len(line) - 1
        start = len(now) - len(text) if is_last and waiting else now.find(text, place)
        if start < place or not now.startswith(text, start) or (start > place and not waiting):
            return None
        if waiting:
            found.append(Span(waiting, now[place:start]))
        place, waiting = start + len(text), ""
    if waiting:
        found.append(Span(waiting, now[place:]))
        place = len(now)
    is_permuted = all(_has_same_items(span) for span in found)
    return found if place == len(now) and is_permuted else None


def _has_same_items(span: Span) -> bool:
    """False if a list that was recorded in any order has other items now."""
    is_list = ", " in span.recorded
    return not is_list or sorted(span.recorded.split(", ")) == sorted(span.now.split(", "))


_SET = re.compile(r"\{[^{}\n]*\}")
_DEEPEST_SET = 8


def unordered(text: str) -> str:
    """The text with the items of each printed set in alphabetical order."""
    if "{" not in text or "\x00" in text:
        return text
    done: list[str] = []

    def resolved(part: str) -> str:
        while "\x00" in part:
            part = _PUT_ASIDE.sub(lambda found: done[int(found[1])], part)
        return part

    def put_aside(found: re.Match[str]) -> str:
        items = _items(found[0][1:-1])
        is_set = len(items) > 1 and not any(_is_pair(item) for item in items)
        inside = ", ".join(sorted(map(resolved, items))) if is_set else found[0][1:-1]
        done.append("{" + inside + "}")
        return f"\x00{len(done) - 1}\x00"

    for _ in range(_DEEPEST_SET):
        text = _SET.sub(put_aside, text)
    return resolved(text)


_PUT_ASIDE = re.compile("\x00(\\d+)\x00")


def _items(inside: str) -> list[str]:
    """The items of a printed collection: the texts between commas that stand in nothing else."""
    items, depth, quote, start, place = [], 0, "", 0, 0
    while place < len(inside):
        character = inside[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0 and inside[place : place + 2] == ", ":
            items.append(inside[start:place])
            start = place + 2
        place += 1
    return [*items, inside[start:]]


def _is_pair(item: str) -> bool:
    """True for `key: value`, an item of a dictionary."""
    return ": " in re.sub(r"'[^']*'|\"[^\"]*\"", "''", item)


# ---- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """What is known of the second run: patterns of its day, and whether it measured time."""

    today: re.Pattern[str] | None = None
    measures: bool = False


def learn(
    recorded: str, now: str, days: Iterable[datetime] = (), measures: bool = False
) -> str | None:
    """Mark the spans in which a second run of the same code differs.

    Args:
        recorded: The recorded text, which may have marks already.
        now: The text of the second run.
        days: The times of the runs: the same day in both texts is today's, and varies as well.
        measures: True if the code looks at a clock: then an elapsed time in a line that calls it so
            varies, too.

    Returns:
        The marked text; None if the texts have other lines, or tokens of other kinds.
    """
    lines, current = _marked_lines(recorded), now.split("\n")
    if len(lines) != len(current):
        return None
    run = _Run(_forms_of(days), measures)
    pairs = list(zip(lines, current, strict=True))
    for is_aligned in (False, True):  # blanks that align are seen once a number is known to vary
        found = [_learn_line(line, text, run, is_aligned) for line, text in pairs]
        learned = [line for line in found if line is not None]
        if is_aligned and not any(map(_has_number, learned)):
            return None
        if len(learned) == len(found):
            return "\n".join(marked(_joined(line)) for line in _with_chance(learned))
    return None


_SHORT = re.compile(r"[-+]?\d{1,3}|\D.*")
"""What may be the same in two runs by chance: a short number, a word."""


def _with_chance(lines: Sequence[_Line]) -> list[_Line]:
    """The lines with marks also where the two runs agreed by chance.

    Where several values of a list or of a table's column vary, so do the other short ones.
    """
    tokens = [_with_marks(_tokens(_plain(line), _TOKEN), line) for line in lines]
    groups = [group for line in tokens if line for group in _lists(line)]
    for signature, rows in groupby(tokens, key=_signature):
        table = [row for row in rows if row]
        if signature and len(table) > 2:
            groups += [list(column) for column in zip(*table, strict=True)]
    chance = {
        id(token)
        for group in groups
        if (varying := sum(token.varies for token in group)) > 1 and 4 * varying >= len(group)
        for token in group
        if token.kind and _SHORT.fullmatch(token.text)
    }
    return [
        line
        if row is None or not any(id(token) in chance for token in row)
        else _pieces(
            _plain(line),
            [(token.start, token.end) for token in row if token.varies or id(token) in chance],
        )
        for line, row in zip(lines, tokens, strict=True)
    ]


def _signature(tokens: Sequence[Token] | None) -> tuple[str, ...]:
    """The kinds of a line's tokens: lines of one table have the same."""
    return tuple(token.kind or token.text for token in tokens or ())


def _lists(tokens: Sequence[Token]) -> list[list[Token]]:
    """The items of each list on a line whose items are single tokens of one kind."""
    found: list[list[Token]] = []
    items: list[Token] | None = None
    for token in tokens:
        if token.text in ("[", "("):
            items = []
        elif token.text in ("]", ")") and items is not None:
            if len({item.kind for item in items}) == 1:
                found.append(items)
            items = None
        elif token.kind and token.kind != "end" and items is not None:
            items.append(token)
        elif token.text not in (",", "'", '"'):
            items = None
    return found


def _joined(line: _Line) -> list[tuple[str, bool]]:
    """The pieces with neighbours that are fixed in one."""
    joined: list[tuple[str, bool]] = []
    for varies, group in groupby(line, key=lambda piece: piece[1]):
        pieces = list(group)
        joined += pieces if varies else [("".join(text for text, _ in pieces), False)]
    return joined


def _learn_line(line: _Line, now: str, run: _Run, is_aligned: bool) -> _Line | None:
    """The line with its marks and new ones; None if the texts have no common form."""
    plain = _plain(line)
    if unordered(plain) == unordered(now) and not _REPORT.search(plain):
        return _mark_today(line, run) if plain == now else line
    for pattern in (_TOKEN, _COARSE):
        old = _with_marks(_tokens(plain, pattern), line)
        new = _tokens(now, pattern)
        if old is None or len(old) != len(new):
            continue
        if not all(a.text == b.text or _is_same_kind(a, b) for a, b in zip(old, new, strict=True)):
            continue
        learned = _learn_tokens(plain, old, new, run)
        if pattern is _TOKEN and _JOINED.search(marked(learned)):
            continue
        if _match_line(learned, now, is_aligned) is not None:
            return learned
    return line if _match_line(line, now, is_aligned) is not None else None


def _learn_tokens(
    plain: str, old: Sequence[Token], new: Sequence[Token], run: _Run
) -> list[tuple[str, bool]]:
    is_report = bool(_REPORT.search(plain))
    varying = [
        token
        for token, other in zip(old, new, strict=True)
        if token.varies
        or token.text != other.text
        or (is_report and token.kind in _MEASURED)
        or _is_of_this_run(token, run, plain)
    ]
    ranges = [(token.start, token.end) for token in varying if token.text]
    differing = [pair for pair in zip(old, new, strict=True) if pair[0].text != pair[1].text]
    if _is_permuted(differing) and _are_distinct(
        plain, whole := _list_around(plain, differing[0][0].start, differing[-1][0].end)
    ):
        ranges = [whole, *(r for r in ranges if r[1] <= whole[0] or r[0] >= whole[1])]
    return _pieces(plain, sorted(ranges))


def _is_permuted(differing: Sequence[tuple[Token, Token]]) -> bool:
    """True if the differing tokens are the same in another order, as those of a set are."""
    then, now = [old.text for old, _ in differing], [new.text for _, new in differing]
    least = 2 if all(old.kind == "number" for old, _ in differing) else 1  # two dice may agree
    return len(then) > least and sorted(then) == sorted(now)


_ENDS_ITEM = re.compile(r"[\s,:]")
_NEXT_ITEM = re.compile(r", [^\s,:]+")


def _are_distinct(line: str, span: tuple[int, int]) -> bool:
    """True if a list has no item twice: one that has is random, and no set in another order."""
    items = line[span[0] : span[1]].split(", ")
    return len(items) == len(set(items))


def _list_around(line: str, start: int, end: int) -> tuple[int, int]:
    """The range of the list that a range lies in: up to the brackets, or to other words."""
    first = max(line.rfind(bracket, 0, start) for bracket in "([{") + 1
    rest = [place for bracket in ")]}" if (place := line.find(bracket, end)) >= 0]
    if first and rest:
        return first, min(rest)
    while start > 2 and line.startswith(", ", start - 2):
        before = start - 2
        while before and not _ENDS_ITEM.match(line, before - 1):
            before -= 1
        if before == start - 2:
            break
        start = before
    while after := _NEXT_ITEM.match(line, end):
        end = after.end()
    return start, end


def _pieces(line: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    pieces, place = [], 0
    for start, end in ranges:
        pieces += [(line[place:start], False), (line[start:end], True)]
        place = end
    pieces.append((line[place:], False))
    return [(text, varies) for text, varies in pieces if text]


def _mark_today(line: _Line, run: _Run) -> _Line:
    if any(varies for _, varies in line):
        return line
    plain = _plain(line)
    found = [token for token in _tokens(plain, _TOKEN) if _is_of_this_run(token, run, plain)]
    return _pieces(plain, [(token.start, token.end) for token in found]) if found else line


def _is_of_this_run(token: Token, run: _Run, line: str) -> bool:
    """True for the day of the run, and for a time that the code says it measured."""
    if token.kind == "time":
        return run.today is not None and bool(run.today.search(token.text))
    is_measured = run.measures and token.kind == "duration" and _ELAPSED.search(line)
    return bool(is_measured and _SECONDS.search(token.text))


_ELAPSED = re.compile(r"(?i)\b(?:elapsed|runtime|(?:ran|done|finished|completed) in)\b")
_SECONDS = re.compile(r"(?:ns|[µμ]s|us|ms|seconds?|secs?|\ds|\d s)$")
_DAY_FORMS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d"),
    *("%d %B %Y", "%B %d, %Y", "%B %d %Y", "%d %b %Y", "%b %d, %Y", "%b %d %Y"),
)


def _forms_of(times: Iterable[datetime]) -> re.Pattern[str] | None:
    """A pattern for the days of these times, and for the minutes, in the ways they are printed."""
    forms = set()
    for time in times:
        for local in (time.astimezone(), time.astimezone(UTC)):
            forms |= {re.escape(local.strftime(form)) for form in _DAY_FORMS}
            forms |= {re.escape(local.strftime(form).lstrip("0")) for form in _DAY_FORMS}
            forms |= {rf"^0?{local.hour}:{local:%M}\b"}
    return re.compile("|".join(sorted(forms))) if forms else None


# ---- words for people ----------------------------------------------------------------------------

_HINTS = {
    "number": "set a seed if it is random",
    "duration": "a measured time",
    "loops": "a measured time",
    "rate": "a measured time",
    "time": "the time of the run",
    "path": "a temporary name",
    "uuid": "a new identifier in each run",
    "list": "sort it: the order of a set depends on PYTHONHASHSEED",
    "": "another text in each run",
    "name": "another text in each run: set a seed, or sort what comes from a set",
}


def hint(span: str) -> str:
    """Words for the likely reason why a span varies, and for the remedy."""
    return _HINTS["list" if ", " in span and not _kind_of(span) else _kind_of(span)]


def kind(span: str) -> str:
    """The kind of a span: `number`, `time`, `path`, … Empty if it is no single token."""
    return _kind_of(span)
