"""Text for display: legible, without secrets and memory addresses, and of bounded length."""

from __future__ import annotations

import re

from jupyter_agent.core.plaintext import one_line, plain, visible
from jupyter_agent.core.redact import redact, redact_words, secret_values

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_LONGEST_SECRET = 4_000
_IMPORT = re.compile(r"(?:import|from)\s+[\w.]")
_NOISE = re.compile(
    r"#|@\w|%(?!%)\w|(?:warnings\.(?:filterwarnings|simplefilter)|matplotlib\.use|pd\.set_option"
    r"|plt\.style\.use|sns\.set(?:_theme|_style)?)\("
)
"""How lines begin that prepare: comments, decorators, line magics, settings of libraries."""
_MOST_SEARCHED = 20_000


def stable(text: str) -> str:
    """Legible text without secrets and without memory addresses."""
    return _ADDRESS.sub("0x…", redact(plain(text), secret_values()))


def whole(text: str) -> str:
    """All of a code, a command or a question that a person decides about, without its secrets.

    Nothing is cut, and nothing that would run is hidden: not by codes for a terminal, not behind
    blanks, and not as a part of a secret.
    """
    return redact_words(visible(text), secret_values())


def line(text: str, limit: int = 80) -> str:
    """The first line that is not blank, stable, cut to `limit` characters."""
    return one_line(stable(text.lstrip()[: limit + _LONGEST_SECRET]), limit)


def cut(text: str, limit: int) -> str:
    """Stable text, shortened.

    Secrets are taken out before the cut, since half of a key no longer looks like one; in a long
    text only near the cuts.
    """
    if len(text) <= limit:
        return stable(text)
    near, head, tail = limit + _LONGEST_SECRET, limit * 2 // 3, limit // 3
    left_out = f"[... {len(text) - head - tail:,} characters left out here ...]"
    end = stable(text[-near:])
    return f"{stable(text[:near])[:head]}\n{left_out}\n{end[len(end) - tail :]}"


def code_gist(code: str) -> str:
    """The first line of code that does something; if there is none the first that is not blank.

    Imports, comments, decorators, line magics and settings of libraries do not count.
    """
    lines = code[:_MOST_SEARCHED].split("\n")
    goes_on = ""
    for each in lines:
        text = each.strip()
        if goes_on:
            goes_on = "" if _ends(text, goes_on) else goes_on
        elif _IMPORT.match(text):
            opened = "(" in text and ")" not in text
            goes_on = ")" if opened else "\\" if text.endswith("\\") else ""
            rest = text.partition(";")[2].strip()
            if rest and not _IMPORT.match(rest):
                return line(rest)
        elif text and not _NOISE.match(text) and not _is_docstring(text):
            return line(text)
    return line(code)


def _ends(text: str, mark: str) -> bool:
    """True if an import that goes on over lines ends here: by its bracket, or without backslash."""
    return ")" in text if mark == ")" else not text.endswith("\\")


def _is_docstring(text: str) -> bool:
    return len(text) > 6 and text[:3] in ('"""', "'''") and text.endswith(text[:3])
