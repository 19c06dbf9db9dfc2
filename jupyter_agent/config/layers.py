"""Layers: the checked values that one place sets, and the settings that they make together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jupyter_agent.config.checking import (
    GROUPS,
    KEYS,
    checked,
    config_error,
    in_words,
    known,
    nearest,
    spelled,
    value_of,
)
from jupyter_agent.config.schema import Settings
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX, TRUST_VALUE, TRUST_VARIABLE

_VARIABLES = {ENVIRONMENT_PREFIX + key.upper().replace(".", "__"): key for key in KEYS}


@dataclass(frozen=True, slots=True)
class Layer:
    """The checked values that one place sets, by dotted key. Made by `layer` and its like."""

    source: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, and where each comes from."""

    settings: Settings
    sources: Mapping[str, str]

    def source_of(self, key: str) -> str:
        """The source of the layer that set `key`, or "default"."""
        known(key, "%agent config")
        return self.sources.get(key, "default")


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The variables that start with JUPYTER_AGENT_; any that is no setting is an error."""
    values = {}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable == TRUST_VARIABLE:
            _check_trust(environ[variable])
            continue
        if variable not in _VARIABLES:
            name = spelled(variable)
            hint = nearest(variable.upper(), {known: known for known in _VARIABLES})
            raise config_error("environment", f"there is no setting {name}. {hint}")
        key = _VARIABLES[variable]
        values[key] = checked(key, environ[variable], variable, text=True)
    return Layer("environment", MappingProxyType(values))


def _check_trust(value: str) -> None:
    if value not in ("", TRUST_VALUE):
        raise config_error(
            "environment", f"{TRUST_VARIABLE} must be {TRUST_VALUE}, not {in_words(value)}."
        )


def layer(source: str, values: Mapping[str, object], *, text: bool = False) -> Layer:
    """Check `values` and make them a layer.

    Args:
        source: The place as errors name it: a path, "%agent config", "%%agent".
        values: By dotted key, or nested as in a file.
        text: Read a string by the type of its key ("10", "true", "none"), as for typed words.
            A value that is no string is taken as it is.
    """
    found: dict[str, object] = {}
    for key, value in _flat(values):
        if key in found:
            raise config_error(source, f"{key} is set twice, dotted and nested. Keep one of them.")
        found[key] = checked(key, value, source, text=text)
    return Layer(source, MappingProxyType(found))


def resolve(layers: Iterable[Layer | None]) -> Resolved:
    """Put layers over the defaults, later ones winning. A missing layer may be None."""
    settings: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for each in layers:
        if each is None:
            continue
        for key, value in each.values.items():
            group, _, name = key.rpartition(".")
            target = settings.setdefault(group, {}) if group else settings
            target[name] = value
            sources[key] = each.source
    return Resolved(Settings(**settings), MappingProxyType(sources))


def _flat(values: Mapping[Any, object]) -> Iterator[tuple[str, object]]:
    """Pairs of dotted key and value; an empty section (`retry:`) sets nothing."""
    for key, value in values.items():
        if key not in GROUPS:
            yield _key_text(key), value
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{_key_text(name)}", inner) for name, inner in value.items())
        elif value is not None:
            yield key, value  # Refused by name when it is checked.


def _key_text(key: object) -> str:
    return key if isinstance(key, str) else in_words(key)


# ---------------------------------------------------------------- what a folder may set


_STRICT_TO_LOOSE: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "approvals.mode": ("read_only", "ask_all", "ask_risky", "auto"),
        "context.detail": ("none", "names", "schema", "sample"),
        "privacy.outputs": ("shapes", "full"),
        "local.download": (False, True),
        "tool_protocol": ("native", "auto", "text", "code"),
        "session.resume": ("ask", "auto"),
        "memory.across_workspaces": ("off", "read", "on"),
        "images.enabled": (False, True),
        "undo.enabled": (True, False),
        "session.save": (False, True),
        **{key: (False, True) for key in KEYS if key.startswith("tools.enable_")},
    }
)
"""Settings that protect a person, with their values from strict to loose."""
_OWN_FILE_DECIDES = frozenset(
    {"approvals.mode", "context.detail", "privacy.outputs", "local.download"}
    | {"memory.across_workspaces"}
)
"""Settings that no folder loosens where the person's own file sets them, trusted or not."""
_LESS_IS_STRICTER = frozenset(
    {"approvals.timeout", "answers.samples"}
    | {key for key in KEYS if key.startswith(("budget.", "mcp."))}
)
_MORE_IS_STRICTER = frozenset({"undo.max_file_mb", "undo.max_total_mb"})
_HARMLESS = frozenset(
    {
        *("model", "instructions", "max_steps", "max_tokens", "timeout", "token_limit"),
        *("display", "tracing", "images.max_side", "images.per_step", "compaction.enabled"),
        "tools.skills_dir",
        *(key for key in KEYS if key.startswith(("retry.", "thinking."))),
    }
)
"""Settings that a folder may set for whoever opens it: they send nothing elsewhere, run nothing
and loosen no protection. All others need trust unless they tighten, new settings included."""


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """The settings of a workspace's file, apart by whether they need the person's trust.

    Attributes:
        harmless: Those that count in any case: they tighten, or do no harm.
        acting: Those that count once the person trusts them.
    """

    harmless: Layer
    acting: Layer


def folder_settings(folder: Layer, user: Layer | None) -> FolderSettings:
    """Sort the settings of a folder, which may come from anybody.

    Args:
        folder: The workspace's own file.
        user: The person's own file. What it protects, no folder loosens: such values are left out.
    """
    base = resolve([user]).settings
    harmless: dict[str, object] = {}
    acting: dict[str, object] = {}
    for key, value in folder.values.items():
        if key in _HARMLESS or not _is_looser(key, value, value_of(base, key)):
            harmless[key] = value
        elif user is None or key not in user.values or key not in _OWN_FILE_DECIDES:
            acting[key] = value
    return FolderSettings(
        Layer(folder.source, MappingProxyType(harmless)),
        Layer(folder.source, MappingProxyType(acting)),
    )


def _is_looser(key: str, value: object, base: object) -> bool:
    """Whether a value does anything that the one in force without it does not do."""
    if value == base:
        return False
    if key in _STRICT_TO_LOOSE:
        order = _STRICT_TO_LOOSE[key]
        return order.index(value) > order.index(base)
    if key in _LESS_IS_STRICTER:
        return _number(value) > _number(base)
    if key in _MORE_IS_STRICTER:
        return _number(value) < _number(base)
    return True


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.inf
