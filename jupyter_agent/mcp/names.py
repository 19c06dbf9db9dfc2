"""Names of tools that every provider takes: ^[a-zA-Z0-9_-]{1,64}$.

The rule is that of the Anthropic Messages API and of OpenAI's functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

LONGEST = 64
SEPARATOR = "__"
_DIGEST = 6
_SERVER = 24
"""Characters of the server's part, at most: the tool's own name says more."""


def tool_name(server: str, tool: str, taken: Container[str]) -> str:
    """`server__tool` without what no name may hold, at most 64 characters, not in `taken`.

    The same pair gives the same name as long as `taken` is the same: a cassette depends on it.
    """
    # One "__" in a name, so that the server can be read off it again.
    plain = f"{_server(server)}{SEPARATOR}{_word(tool, 'tool')}"
    if len(plain) <= LONGEST and plain not in taken:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()
    for start in range(len(digest) - _DIGEST):
        end = "_" + digest[start : start + _DIGEST]
        name = plain[: LONGEST - len(end)] + end
        if name not in taken:
            return name
    raise ValueError(f"too many tools are named {plain}")


def _server(name: str) -> str:
    return re.sub("_{2,}", "_", _word(name, "server"))[:_SERVER].strip("_") or "server"


def _word(text: str, otherwise: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text) if text.strip() else otherwise
