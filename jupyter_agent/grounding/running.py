"""Which numbers of a Markdown text stand where a reader sees words.

Found out by trying: a letter of no language is put after each number, and Markdown is asked where
it came out. In code, in an address, in a heading it does not count; where it changes what the text
is made of (a list's number, the end of emphasis), it does not either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FIRST, _LAST = 0xF0000, 0xFFFFD
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")
_MOST_TRIES = 24
_CHECKED = 100_000
"""Characters of an answer that are looked at; what comes after is left alone."""
_MATH = re.compile(
    r"\$\$[^$]{1,2000}\$\$|(?<![\\$0-9A-Za-z])\$(?![\s$])[^$\n]{1,500}(?<![\s\\])\$(?![0-9$])"
    r"|\\\([^\n]{1,500}?\\\)|\\\[[^$]{1,2000}?\\\]"
)


def running(text: str, ends: Sequence[int]) -> list[bool]:
    """Whether each of the numbers that end at `ends` stands in running words or in a formula."""
    text = _PRIVATE.sub("\ufffd", text[:_CHECKED])
    formulas = [match.span() for match in _MATH.finditer(text)]
    wanted = [_outside(end, formulas) if end <= len(text) else None for end in ends]
    numbered = [(index, place) for index, place in enumerate(wanted) if place is not None]
    plain = list(_structure(_parsed(text), set()))
    good: set[int] = set()
    tries = _MOST_TRIES
    waiting = [numbered[: _LAST - _FIRST]]
    while waiting and tries:
        tries -= 1
        part = waiting.pop()
        seen: set[int] = set()
        if list(_structure(_parsed(_with_letters(text, part)), seen)) == plain:
            good |= seen & {index for index, _ in part}
        elif len(part) > 1:  # one of them is in the way
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
    return [index in good for index in range(len(wanted))]


def _outside(end: int, formulas: Iterable[tuple[int, int]]) -> int:
    return next((after for start, after in formulas if start < end <= after), end)


def _with_letters(text: str, numbered: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    last = 0
    for index, place in sorted(numbered, key=lambda pair: pair[1]):
        parts += [text[last:place], chr(_FIRST + index)]
        last = place
    return "".join([*parts, text[last:]])


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _parsed(text: str) -> list[Token]:
    return _markdown().parse(text)


def _structure(tokens: Iterable[Token], seen: set[int]) -> Iterator[str]:
    """What a text is made of, without the letters; those in running words are added to `seen`."""
    heading = False
    for token in tokens:
        heading = token.type == "heading_open" or (heading and token.type != "heading_close")
        yield _bare(token)
        links = 0
        for child in token.children or ():
            links += child.nesting * (child.type in ("link_open", "link_close"))
            if child.type == "text" and not links and not heading:
                seen.update(ord(letter) - _FIRST for letter in _PRIVATE.findall(child.content))
            yield _bare(child)


def _bare(token: Any) -> str:
    attributes = ",".join(f"{key}={value}" for key, value in token.attrs.items())
    # An address has its letters percent-encoded: it differs, as it should.
    parts = (token.type, str(token.nesting), token.markup, attributes, token.info, token.content)
    joined = "\x00".join(parts)
    return joined if joined.isascii() else _PRIVATE.sub("", joined)
