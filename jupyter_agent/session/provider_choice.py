"""Chooses the provider of a turn: a live one, a recording of one, or a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jupyter_agent.config import HttpSettings, Settings, ThinkingSettings
from jupyter_agent.core.ports import Model
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace

if TYPE_CHECKING:
    from jupyter_agent.llm.connection import Connection
    from jupyter_agent.llm.embedded import Embedded

ProviderName = Literal["anthropic", "openai", "local", "scripted"]

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}
_ANTHROPIC_TOKENS = 16_000
MINIMAX_MODEL = "MiniMax-M2.5"
_WAYS_TO_A_MODEL = (
    "set ANTHROPIC_API_KEY or OPENAI_API_KEY before the kernel starts; or, for any compatible or "
    "local server, run %agent config provider openai and %agent config api_base URL; or, for a "
    "model inside the kernel, %agent config local.model_path FILE.gguf"
)
NOTHING_CONFIGURED = (
    f"No model is configured and there is no cassette. Ways to go on: {_WAYS_TO_A_MODEL}; "
    "or replay recorded answers with %agent cassette FILE."
)
NO_MODEL = f"No model is configured, and mode is {{mode}}. Ways to go on: {_WAYS_TO_A_MODEL}."


def provider_name(settings: Settings, environ: Mapping[str, str]) -> ProviderName | None:
    """The configured provider, else the one that the model, an address or a key points to.

    Anthropic if both keys are set and nothing else decides; None if nothing is configured.
    """
    if settings.provider is not None:
        return settings.provider
    if settings.script:
        return "scripted"
    if settings.local.model_path or settings.local.model:
        return "local"
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


def model_rows(
    settings: Settings, environ: Mapping[str, str], has_cassette: bool
) -> list[tuple[str, str]]:
    """The provider, its model and its key for `%agent status`; of the key never the value.

    Args:
        settings: The settings.
        environ: The environment, with the keys.
        has_cassette: True if there is a recording to replay.
    """
    name = provider_name(settings, environ)
    if settings.mode == "replay" or (name is None and has_cassette):
        return [("provider", "none: recorded replies"), ("model", settings.model or "as recorded")]
    if name is None:
        wanted = settings.model or "none"
        return [("provider", "none"), ("model", wanted), ("missing", _WAYS_TO_A_MODEL)]
    chosen = "" if settings.provider else ", chosen by the other settings and the environment"
    rows = [("provider", name + chosen)]
    if name in ("anthropic", "openai"):
        base = "" if settings.model else " (the default)"
        try:
            model = settings.model or _default_model(name, settings.api_base)
        except ConfigError as error:
            model, base = str(error), ""
        return [*rows, ("model", model + base), _key_row(name, settings, environ)]
    if name == "local":
        model = settings.local.model_path or settings.local.model or "none: set local.model_path"
    else:
        model = settings.script or "none: set script to a YAML file"
    return [*rows, ("model", model), ("key", "none is needed")]


def _key_row(name: ProviderName, settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    if settings.api_key:
        return "key", "set by api_key"
    names = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] if name == "anthropic" else []
    for variable in names or ["OPENAI_API_KEY"]:
        if environ.get(variable, "").strip():
            return "key", f"set by {variable}"
    if name == "openai" and (settings.api_base or environ.get("OPENAI_BASE_URL")):
        return "key", "none; this server may need none"
    variable = names[0] if names else "OPENAI_API_KEY"
    return "missing", f"the key: set {variable} before the kernel starts"


def token_limit(settings: Settings, environ: Mapping[str, str]) -> int:
    """The smaller of `token_limit` and the room that `local.context` leaves beside a reply.

    Depends on the settings alone, so that a recording and its replay have the same limit.
    """
    if provider_name(settings, environ) != "local":
        return settings.token_limit
    context = settings.local.context
    return min(settings.token_limit, context - (settings.max_tokens or context // 4))


def is_brief(settings: Settings, environ: Mapping[str, str]) -> bool:
    """True if the model gets the short instructions."""
    if settings.instructions == "auto":
        return provider_name(settings, environ) == "local"
    return settings.instructions == "short"


def choose(
    settings: Settings,
    cassette: Path | None,
    environ: Mapping[str, str],
    folder: Path = Path(),
    workspace: Workspace | None = None,
    nearby: Sequence[Path] = (),
    embedded: Embedded | None = None,
    calling: set[str] | None = None,
    rerun_into: Path | None = None,
) -> Model:
    """The provider for a turn, by `mode`.

    Args:
        settings: The turn's settings.
        cassette: The file of recorded replies; None if its name is unknown.
        environ: The environment, with the keys.
        folder: The base of a relative `script`.
        workspace: The workspace of the tools; None: `folder`.
        nearby: The cassettes to replay if the name is unknown, as in nbval's kernels.
        embedded: The server of the provider `local`; None: a new one.
        calling: Addresses of servers that have called a tool by their API so far; grows.
        rerun_into: A file for the results of a replay that learns what varies; None: a plain one.

    Raises:
        ConfigError: Nothing is configured, or the cassette is missing or damaged.
    """
    name = provider_name(settings, environ)
    mode = settings.mode
    cassettes = [cassette] if cassette else list(nearby)
    has_any = any(path.exists() for path in cassettes)
    unaided = mode in ("auto", "cached") and name is None and has_any
    if mode == "replay" or unaided:
        return _replay(cassettes, workspace or Workspace(folder), rerun_into)
    if name is None:
        raise ConfigError(NOTHING_CONFIGURED if mode == "auto" else NO_MODEL.format(mode=mode))
    live = _live(name, settings, folder, embedded)
    servers = set() if calling is None else calling
    brief = is_brief(settings, environ)
    provider = _in_protocol(live, _protocol(name, settings), brief, servers)
    if mode not in ("record", "cached"):
        return provider
    return _recording(mode, provider, cassette, workspace or Workspace(folder))


def _recording(mode: str, provider: Model, cassette: Path | None, workspace: Workspace) -> Model:
    if cassette is None:
        raise ConfigError(
            f"mode is {mode}, but there is no cassette to record to, since the notebook's name is "
            "not known here. Name one with %agent cassette FILE."
        )
    from jupyter_agent.recording.cached import Cached
    from jupyter_agent.recording.cassette import load
    from jupyter_agent.recording.recorder import Recorder
    from jupyter_agent.recording.wrappers import RecordedModel

    # An error of the cassette must appear before a model is paid.
    if not cassette.parent.is_dir():
        raise ConfigError(f"There is no folder for the cassette {cassette.name}. Make it first.")
    if cassette.exists():
        load(cassette)
    recorder = Recorder(
        cassette,
        workspace,
        name=provider.name,
        model=provider.model,
        source=provider.source,
    )
    tape = Cached(cassette, recorder, workspace) if mode == "cached" else recorder
    return RecordedModel(tape, provider)


def _protocol(name: ProviderName, settings: Settings) -> str:
    """The tool-call protocol: by default code for local models, which call tools badly."""
    is_left_open = settings.tool_protocol == "auto"
    return "code" if is_left_open and name == "local" else settings.tool_protocol


def _in_protocol(provider: Model, protocol: str, brief: bool, calling: set[str]) -> Model:
    """Wraps the provider in its tool-call protocol. A recorder wraps the result."""
    if protocol == "native":
        return provider
    if protocol == "code" and brief:
        from jupyter_agent.llm.brief_protocol import BriefProtocol

        return BriefProtocol(provider)
    if protocol == "code":
        from jupyter_agent.llm.code_protocol import CodeProtocol

        return CodeProtocol(provider)
    from jupyter_agent.llm.inline import Inline

    return Inline(provider, calling if protocol == "auto" else None)


def _replay(cassettes: Sequence[Path], workspace: Workspace, rerun_into: Path | None) -> Model:
    from jupyter_agent.recording.cassette import load
    from jupyter_agent.recording.player import Player, Rerun
    from jupyter_agent.recording.recorder import Recorder
    from jupyter_agent.recording.wrappers import RecordedModel

    if not cassettes:
        raise ConfigError(
            "mode is replay, but no cassette is known. Name one with %agent cassette FILE."
        )
    loaded = [load(path) for path in cassettes]
    first, name = loaded[0], cassettes[0].name
    if rerun_into is not None:
        recorder = Recorder(
            rerun_into, workspace, name=first.provider, model=first.model, source=first.source
        )
        return RecordedModel(Rerun(first, name, recorder, workspace))
    if len(loaded) == 1:
        return RecordedModel(Player(first, name, workspace, origins=cassettes))
    files = [p.name for p, each in zip(cassettes, loaded, strict=True) for _ in each.turns]
    together = replace(first, turns=tuple(turn for each in loaded for turn in each.turns))
    names = " or ".join(path.name for path in cassettes)
    return RecordedModel(Player(together, names, workspace, files, cassettes))


def _live(name: ProviderName, settings: Settings, folder: Path, embedded: Embedded | None) -> Model:
    if name == "local":
        return _local(settings, folder, embedded)
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if name == "scripted":
        from jupyter_agent.llm.scripted import Scripted

        if not settings.script:
            raise ConfigError(
                "provider is scripted, but no script is named. Set script to a YAML file."
            )
        return Scripted.from_file(folder / Path(settings.script).expanduser())
    way, effort = _connection(settings.http), settings.thinking.effort
    model = settings.model or _default_model(name, settings.api_base)
    if name == "anthropic":
        from jupyter_agent.llm.anthropic import Anthropic

        limit = settings.max_tokens or _ANTHROPIC_TOKENS
        thinking = _thinking(settings.thinking, limit)
        return Anthropic(
            model, key, settings.api_base, limit, settings.timeout, effort, way, thinking
        )
    from jupyter_agent.llm.openai import OpenAI

    longest = settings.max_tokens
    return OpenAI(model, key, settings.api_base, longest, settings.timeout, effort, way)


def _local(settings: Settings, folder: Path, embedded: Embedded | None) -> Model:
    from jupyter_agent.llm.embedded import Embedded
    from jupyter_agent.llm.local import Local, serving

    limit, context = settings.max_tokens, settings.local.context
    if limit is not None and limit > context // 2:
        raise ConfigError(
            f"max_tokens ({limit}) must be at most half of local.context ({context}), which holds "
            "the conversation, too."
        )
    wanted = serving(settings.local, folder)
    return Local(wanted, embedded or Embedded(), limit, settings.timeout)


def _connection(settings: HttpSettings) -> Connection:
    from jupyter_agent.llm.connection import Connection, parse_headers

    headers = parse_headers(settings.headers.get_secret_value()) if settings.headers else {}
    proxy = settings.proxy.get_secret_value() if settings.proxy else None
    return Connection(headers, proxy, settings.ca_bundle)


def _thinking(settings: ThinkingSettings, limit: int) -> dict[str, object] | None:
    """Anthropic's `thinking` parameter."""
    if settings.mode == "default":
        return None
    if settings.mode == "off":
        return {"type": "disabled"}
    if settings.mode != "budget":
        return {"type": settings.mode}
    if settings.budget >= limit:
        raise ConfigError(
            f"thinking.budget ({settings.budget}) must be less than max_tokens ({limit})."
        )
    return {"type": "enabled", "budget_tokens": settings.budget}


def _default_model(name: str, api_base: str | None) -> str:
    return MINIMAX_MODEL if api_base and "minimax" in api_base else DEFAULT_MODELS[name]


def _any_set(environ: Mapping[str, str], *names: str) -> bool:
    return any(environ.get(name, "").strip() for name in names)
