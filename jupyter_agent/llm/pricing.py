"""The price of tokens, by the published prices in `genai-prices`; asks no server."""

from __future__ import annotations

from decimal import Decimal

from jupyter_agent.core.messages import Usage

_SMALL = Decimal("0.10")
_LEAST = Decimal("0.001")


def cost(provider: str, model: str, usage: Usage, api_base: str | None = None) -> Decimal | None:
    """US dollars for `usage`; None if the price is unknown.

    Args:
        provider: The API: `anthropic` or `openai`.
        model: The model's id.
        usage: The tokens.
        api_base: The server's address if it is not the provider's own. It decides the price, and
            a server of unknown address (a local one) has none.
    """
    if not usage.total_tokens:
        return None
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        if api_base:
            found = genai_prices.calc_price(tokens, model, provider_api_url=api_base)
        else:
            found = genai_prices.calc_price(tokens, model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return Decimal(found.total_price)


def in_dollars(amount: Decimal | None) -> str:
    """`$0.021`, `$1.25`, `<$0.001`; empty without a price."""
    if amount is None:
        return ""
    if 0 < amount < _LEAST:
        return f"<${_LEAST}"
    return f"${amount:.3f}" if amount < _SMALL else f"${amount:.2f}"
