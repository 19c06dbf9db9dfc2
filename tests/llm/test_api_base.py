"""Which address a provider calls."""

from __future__ import annotations

import pytest

from jupyter_agent.llm.wire import api_base_for


@pytest.mark.parametrize(
    ("provider", "given", "used"),
    [
        ("anthropic", "https://api.minimax.io", "https://api.minimax.io/anthropic"),
        ("openai", "https://api.minimax.io", "https://api.minimax.io/v1"),
        ("anthropic", "https://api.minimaxi.com/", "https://api.minimaxi.com/anthropic"),
        ("openai", "https://api.minimaxi.com/v1/", "https://api.minimaxi.com/v1"),
        ("openai", "https://api.minimax.io/anthropic", "https://api.minimax.io/v1"),
        ("anthropic", "https://api.minimax.io/v1", "https://api.minimax.io/anthropic"),
        ("anthropic", "https://api.minimax.io/anthropic", "https://api.minimax.io/anthropic"),
        ("openai", "https://API.MiniMax.io", "https://API.MiniMax.io/v1"),
        ("openai", "https://api.minimax.io.evil.example", "https://api.minimax.io.evil.example"),
        ("openai", "https://x.example/api.minimax.io", "https://x.example/api.minimax.io"),
        ("openai", "http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("anthropic", "https://proxy.example/anthropic", "https://proxy.example/anthropic"),
        ("anthropic", "http://[broken", "http://[broken"),
        ("replay", "https://api.minimax.io", "https://api.minimax.io"),
        ("openai", "", None),
        ("openai", None, None),
    ],
)
def test_suffix(provider: str, given: str | None, used: str | None) -> None:
    """Only MiniMax's own hosts get the suffix of the format; other addresses stay."""
    assert api_base_for(provider, given) == used


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_suffix_is_added_once(provider: str) -> None:
    """A suffix that is there already is not added again."""
    once = api_base_for(provider, "https://api.minimax.io")
    assert api_base_for(provider, once) == once
