"""The source of a cell without the data in it."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

PLACEHOLDER = "…"
_MAGIC = re.compile(r"^\s*(%{1,2}\w+|!)")
_ASSIGNED = re.compile(r"=\s*(?:!|%\w).*")
_DATA = {tokenize.STRING, tokenize.NUMBER}
_FSTRING = {
    getattr(tokenize, name)
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if hasattr(tokenize, name)
}


def without_literals(source: str) -> str:
    """Python source in which each string and number is `…`, and each comment is gone.

    Of a magic or a shell command only the name stays. Source that Python cannot read is replaced
    as a whole.
    """
    lines = source.split("\n")
    if _MAGIC.match(lines[0]) and lines[0].lstrip().startswith("%%"):
        return f"{_magic_name(lines[0])} {PLACEHOLDER}"
    python = "\n".join(_magic_as_comment(line) for line in lines)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(python).readline))
    except (tokenize.TokenError, SyntaxError):
        return PLACEHOLDER
    bare = "".join(_pieces(tokens)).split("\n")
    shown = [
        f"{_magic_name(line)} {PLACEHOLDER}" if _MAGIC.match(line) else text.rstrip()
        for line, text in zip(lines, [*bare, *([""] * len(lines))], strict=False)
    ]
    return "\n".join(line for line in shown if line.strip())


def _magic_name(line: str) -> str:
    match = _MAGIC.match(line)
    return match[1] if match else ""


def _magic_as_comment(line: str) -> str:
    """A line that Python can read in the place of one with a magic or a shell command."""
    return "#" if _MAGIC.match(line) else _ASSIGNED.sub("= 0", line)


def _pieces(tokens: list[tokenize.TokenInfo]) -> Iterator[str]:
    """The text of the tokens with what stood between them, line numbers kept."""
    row, column = 1, 0
    depth = 0
    for token in tokens:
        if token.type == tokenize.ENDMARKER:
            return
        (start_row, start_column), (end_row, end_column) = token.start, token.end
        if start_row > row:
            yield "\n" * (start_row - row)
            column = 0
        if not depth:
            yield " " * max(0, start_column - column)
        depth, text = _bare(token, depth)
        yield text + "\n" * (end_row - start_row if token.type in _DATA else 0)
        row, column = end_row, end_column
        if token.type in (tokenize.NEWLINE, tokenize.NL):
            row, column = row + 1, 0


def _bare(token: tokenize.TokenInfo, depth: int) -> tuple[int, str]:
    """The token's text if it is no data. Within an f-string (`depth` > 0) nothing is shown."""
    if token.type in _FSTRING:
        if token.type == getattr(tokenize, "FSTRING_START", -1):
            return depth + 1, "" if depth else PLACEHOLDER
        return depth - (token.type == getattr(tokenize, "FSTRING_END", -1)), ""
    if depth or token.type == tokenize.COMMENT:
        return depth, ""
    if token.type in _DATA:
        return depth, PLACEHOLDER
    return depth, "\n" if token.type in (tokenize.NEWLINE, tokenize.NL) else token.string
