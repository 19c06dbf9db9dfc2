"""A model's Markdown made inert: it may format, it may not bring HTML or scripts."""

from __future__ import annotations

import re

from jupyter_agent.plaintext import plain

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SCHEME = re.compile(r"(?i)\b(javascript|vbscript|data)\s*:(?=\S)")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_WORD_JOINER = "\u2060"


def inert(markdown: str) -> str:
    """Markdown in which no renderer can find a tag or a script address.

    Renderers disagree about what is code, and some pass raw HTML through. So a `<` that could
    open a tag becomes `&lt;` in running text; in what looks like code, where an entity would be
    shown as it stands, an invisible word joiner follows it. `javascript:` gets one as well.
    """
    lines: list[str] = []
    fence = ""
    for line in plain(markdown).split("\n"):
        opening = _FENCE.match(line)
        if fence:
            lines.append(_in_code(line))
            if opening and opening[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif opening:
            fence = opening[1]
            lines.append(_in_code(line))
        else:
            lines.append(_in_text(line))
    return "\n".join(lines)


def _in_text(line: str) -> str:
    """A line outside of fences: code spans are every second part between single backticks."""
    parts = line.split("`")
    spans = len(parts) % 2 == 1 and "``" not in line
    return "`".join(
        _in_code(part) if spans and index % 2 else _scheme(_TAG.sub("&lt;", part))
        for index, part in enumerate(parts)
    )


def _in_code(text: str) -> str:
    return _scheme(_TAG.sub("<" + _WORD_JOINER, text))


def _scheme(text: str) -> str:
    return _SCHEME.sub(lambda match: match[0] + _WORD_JOINER, text)
