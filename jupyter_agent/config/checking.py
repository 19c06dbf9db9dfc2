"""The settings by dotted key: what each takes, and one line for what it does not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from jupyter_agent.config.schema import Settings
from jupyter_agent.errors import ConfigError


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What a reference page says about one key."""

    key: str
    type: str
    default: object
    description: str


class Slot(NamedTuple):
    """Where a key lives: one field of `Settings` or of one of its groups."""

    owner: type[BaseModel]
    name: str
    field: FieldInfo


def _slots(owner: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Slot]]:
    for name, field in owner.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _slots(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, Slot(owner, name, field)


KEYS: Mapping[str, Slot] = dict(_slots(Settings))
GROUPS = {key.partition(".")[0] for key in KEYS if "." in key}
# In files too: YAML takes only `null` for nothing, but people write `None` as they do in Python.
_NONE = ("none", "null")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LINES = frozenset({"http.headers"})
"""Keys whose text may have several lines."""


def keys() -> tuple[str, ...]:
    """Every dotted key, in the order of `Settings`."""
    return tuple(KEYS)


def describe(key: str) -> KeyInfo:
    """What a person needs to know to set `key`."""
    field = known(key, "%agent config").field
    return KeyInfo(
        key=key,
        type=_allowed(field),
        default=field.default,
        description=field.description or "",
    )


def is_secret(key: str) -> bool:
    """Whether the value of `key` is never shown."""
    return _kind(known(key, "%agent config").field)[0] is SecretStr


def choices(key: str) -> tuple[str, ...]:
    """The values that a setting of few values takes, as they are typed; empty for others."""
    kind, optional = _kind(known(key, "%agent config").field)
    if kind is bool:
        return ("true", "false")
    words = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
    return (*words, "none") if words and optional else words


def shown(settings: Settings, key: str) -> str:
    """The value of `key` on one line; of the key for the model server only whether it is set."""
    known(key, "%agent config")
    value = value_of(settings, key)
    if isinstance(value, SecretStr):
        return "set, not shown"
    return _one_line(_literal(value))


def _literal(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def value_of(settings: Settings, key: str) -> object:
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def known(key: str, where: str) -> Slot:
    if key in KEYS:
        return KEYS[key]
    if key in GROUPS:
        names = ", ".join(known for known in KEYS if known.startswith(f"{key}."))
        raise config_error(where, f"{key} is a section, not a setting. Set one of {names}.")
    # People leave out the section; a full key still wins over such a short one.
    short = {known.rpartition(".")[2]: known for known in reversed(keys())}
    hint = nearest(key.lower().replace("-", "_"), short | {known: known for known in KEYS})
    raise config_error(where, f"there is no setting {spelled(key)}. {hint}")


def nearest(word: str, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(spelled(word).rstrip("…"), names, n=3)
    if not near:
        return "`%agent config` lists them all."
    # Swapped letters are the commonest slip: `modle` is model, though difflib prefers mode.
    best = max(near, key=lambda name: sorted(name) == sorted(word))
    return f"Did you mean {names[best]}?"


def checked(key: str, value: object, where: str, *, text: bool) -> object:
    """The value as `Settings` takes it, or an error that says what is allowed."""
    owner, name, field = known(key, where)
    kind, optional = _kind(field)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str):
        value = value.strip()
    read = value
    if optional and isinstance(value, str) and (value.lower() in _NONE or (text and not value)):
        read = None
    elif text and isinstance(value, str):
        read = _read_text(value, kind)
    if _usable(read.replace("\n", "") if key in _LINES and isinstance(read, str) else read):
        try:
            return getattr(owner(**{name: read}), name)
        except ValidationError:
            pass  # Raised below, so that no exception that holds the value is its context.
    raise _wrong(key, field, value, where, quotable=kind in (str, SecretStr) and not text)


def _usable(value: object) -> bool:
    """Whether it is text that is visible on one line, or a number that can be printed."""
    if isinstance(value, list):
        return all(_usable(item) for item in value)
    if isinstance(value, str):
        return value != "" and value.isprintable()
    return not isinstance(value, int) or value.bit_length() < 64


def _read_text(text: str, kind: object) -> object:
    """Typed words by type. What cannot be read stays text, which the check then refuses."""
    word = text.lower()
    if kind == list[str]:
        parts = [] if word in _NONE else [part.strip() for part in text.split(",")]
        return [part for part in parts if part]
    if kind is bool:
        return _BOOLEANS.get(word, text)
    if kind is int and re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if kind is float and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", word):
        return float(text)
    return text


def _kind(field: FieldInfo) -> tuple[object, bool]:
    """The type of a field without `None`, and whether `None` is allowed."""
    annotation: object = field.annotation
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    (kind,) = (each for each in get_args(annotation) if each is not type(None))
    return kind, True


def _allowed(field: FieldInfo) -> str:
    kind, optional = _kind(field)
    if get_origin(kind) is Literal:
        words = [*get_args(kind), *(["none"] if optional else [])]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    nouns: dict[object, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        list[str]: "a list of lines of text",
    }
    text = nouns.get(kind, "one line of text") + _bounds(field)
    return f"{text}, or none" if optional else text


def _bounds(field: FieldInfo) -> str:
    found = {
        name: getattr(each, name)
        for each in field.metadata
        for name in ("ge", "le", "gt")
        if hasattr(each, name)
    }
    if "le" in found:
        return f" from {found['ge']} to {found['le']}"
    if "ge" in found:
        return f" of {found['ge']} or more"
    return f" above {found['gt']}" if "gt" in found else ""


def _wrong(key: str, field: FieldInfo, value: object, where: str, *, quotable: bool) -> ConfigError:
    scalar = value is not None and not isinstance(value, str | list | dict)
    hint = " Put it in quotes." if quotable and scalar else ""
    secret = _kind(field)[0] is SecretStr
    given = "what was given (it is not shown)" if secret else in_words(value)
    return config_error(where, f"{key} must be {_allowed(field)}, not {given}.{hint}")


def in_words(value: object) -> str:
    """A wrong value for a message, kept short."""
    kinds: dict[type, str] = {list: "a list", dict: "a mapping", type(None): "null"}
    if type(value) in kinds:
        return kinds[type(value)]
    if isinstance(value, bool):
        return str(value).lower()
    if not _usable(value) and not isinstance(value, str):
        return "a number of that size"
    text = repr(value) if isinstance(value, str | int | float | bytes) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def spelled(name: str) -> str:
    """A name up to its first odd character: in `api_key=...` the rest is a secret."""
    plain = re.match(r"[\w.-]{0,60}", name)
    head = plain.group() if plain else ""
    return head if head == name else f"{head}…"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def config_error(where: str, problem: str) -> ConfigError:
    return ConfigError(_one_line(f"{where}: {problem}"))
