"""Which provider answers: a live one, a recording of one, or a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from jupyter_agent.config import Settings
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.provider import Provider

ProviderName = Literal["anthropic", "openai", "scripted"]

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}
MINIMAX_MODEL = "MiniMax-M2.5"
_WAYS_TO_A_MODEL = (
    "set ANTHROPIC_API_KEY or OPENAI_API_KEY before the kernel starts; or, for any compatible or "
    "local server, run %agent config provider openai and %agent config api_base URL"
)
NOTHING_CONFIGURED = (
    f"No model is configured and there is no cassette. Three ways to go on: {_WAYS_TO_A_MODEL}; "
    "or replay recorded answers with %agent cassette FILE."
)
NO_MODEL = f"No model is configured, and mode is {{mode}}. Two ways to go on: {_WAYS_TO_A_MODEL}."


def provider_name(settings: Settings, environ: Mapping[str, str]) -> ProviderName | None:
    """The configured provider, else the one that the model, an address or a key points to.

    Where keys of both are set and nothing else decides, Anthropic is taken.
    """
    if settings.provider is not None:
        return settings.provider
    if settings.script:
        return "scripted"
    model = settings.model or ""
    if settings.api_base:
        return "anthropic" if settings.api_base.rstrip("/").endswith("/anthropic") else "openai"
    has_anthropic = _any_set(
        environ, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"
    )
    has_openai = _any_set(environ, "OPENAI_API_KEY", "OPENAI_BASE_URL")
    if has_anthropic and has_openai and model and not model.startswith("claude"):
        return "openai"
    if has_anthropic:
        return "anthropic"
    return "openai" if has_openai else None


def choose(
    settings: Settings, cassette: Path | None, environ: Mapping[str, str], folder: Path = Path()
) -> Provider:
    """The provider for a turn, by `mode`. A relative `script` starts at `folder`.

    Raises:
        ConfigError: Nothing is configured, or the cassette is missing or damaged.
    """
    name = provider_name(settings, environ)
    mode = settings.mode
    if mode == "replay" or (mode == "auto" and name is None and cassette and cassette.exists()):
        return _replay(cassette)
    if name is None:
        raise ConfigError(NOTHING_CONFIGURED if mode == "auto" else NO_MODEL.format(mode=mode))
    provider = _live(name, settings, folder)
    if mode != "record":
        return provider
    if cassette is None:
        raise ConfigError(
            "mode is record, but there is no cassette to record to, since the notebook's name is "
            "not known here. Name one with %agent cassette FILE."
        )
    from jupyter_agent.llm.cassette import load
    from jupyter_agent.llm.replay import Recorder

    # What would make the recording fail is better found before a model is paid.
    if not cassette.parent.is_dir():
        raise ConfigError(f"There is no folder for the cassette {cassette.name}. Make it first.")
    if cassette.exists():
        load(cassette)
    return Recorder(provider, cassette)


def _replay(cassette: Path | None) -> Provider:
    from jupyter_agent.llm.cassette import load
    from jupyter_agent.llm.replay import Replay

    if cassette is None:
        raise ConfigError(
            "mode is replay, but no cassette is known. Name one with %agent cassette FILE."
        )
    return Replay(load(cassette), cassette.name)


def _live(name: ProviderName, settings: Settings, folder: Path) -> Provider:
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if name == "scripted":
        from jupyter_agent.llm.scripted import Scripted

        if not settings.script:
            raise ConfigError(
                "provider is scripted, but no script is named. Set script to a YAML file."
            )
        return Scripted.from_file(folder / Path(settings.script).expanduser())
    model = settings.model or _default_model(name, settings.api_base)
    if name == "anthropic":
        from jupyter_agent.llm.anthropic import Anthropic

        limit = settings.max_tokens or 16_000
        return Anthropic(model, key, settings.api_base, limit, settings.timeout)
    from jupyter_agent.llm.openai import OpenAI

    return OpenAI(model, key, settings.api_base, settings.max_tokens, settings.timeout)


def _default_model(name: str, api_base: str | None) -> str:
    return MINIMAX_MODEL if api_base and "minimax" in api_base else DEFAULT_MODELS[name]


def _any_set(environ: Mapping[str, str], *names: str) -> bool:
    return any(environ.get(name, "").strip() for name in names)
