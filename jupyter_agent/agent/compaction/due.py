"""Whether a conversation is to be shortened before the next step."""

from __future__ import annotations


def should_compact(estimate: int, reported: int, limit: int) -> bool:
    """Whether a conversation has become too long.

    Args:
        estimate: Our own count of what the next request sends.
        reported: The tokens, in and out, that the API reported for the last reply; 0 where it
            reported none, or where the conversation was shortened since.
        limit: The setting `token_limit`.
    """
    return max(estimate, reported) > limit
