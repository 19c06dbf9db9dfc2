"""Decides whether a conversation must be shortened before the next step."""

from __future__ import annotations


def should_compact(estimate: int, reported: int, limit: int) -> bool:
    """True if a conversation has become too long.

    Args:
        estimate: Our own count of the next request's tokens.
        reported: The tokens, in and out, that the API reported for the last reply; 0 if it
            reported none, or the conversation was shortened since.
        limit: The setting `token_limit`.
    """
    return max(estimate, reported) > limit
