"""The only place where messages and events become JSON and come back.

Pydantic reads the dataclasses themselves; the `type` literals tell the unions apart.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from dataclasses import Field as Member
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from jupyter_agent.core.events import Event
from jupyter_agent.core.messages import Message, clean


@cache
def _events() -> TypeAdapter[Event]:
    return TypeAdapter(Annotated[Event, Field(discriminator="type")])


@cache
def _messages() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


def event_to_json(event: Event) -> dict[str, Any]:
    """A JSON-ready dictionary; `event_from_json` gives an equal event back."""
    try:
        data: dict[str, Any] = _events().dump_python(event, mode="json")
    except UnicodeEncodeError:  # a lone surrogate in a tool's details
        data = _cleaned(_events().dump_python(event))
    return data


def event_to_brief_json(event: Event) -> dict[str, Any]:
    """Like `event_to_json` without default values; `event_from_json` gives an equal event back."""
    data: dict[str, Any] = _brief(event, event_to_json(event))
    return data


def _brief(value: Any, data: Any) -> Any:
    if is_dataclass(value) and isinstance(data, dict):
        members = ((name, getattr(value, name), default) for name, default in _members(type(value)))  # type: ignore[arg-type]
        return {
            name: _brief(held, data[name])
            for name, held, default in members
            if name == "type" or held != default
        }
    if isinstance(value, tuple) and isinstance(data, list):
        return [_brief(held, item) for held, item in zip(value, data, strict=True)]
    return data


@cache
def _members(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """The names of a dataclass's fields, each with its default value or `MISSING`."""
    return tuple((member.name, _default(member)) for member in fields(kind))


def _default(member: Member[Any]) -> Any:
    """A field's default value, or `MISSING` if it has none."""
    if member.default_factory is not MISSING:
        return member.default_factory()
    return member.default


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


def event_from_json(data: object) -> Event:
    """The event of `event_to_json`. Raises `pydantic.ValidationError` if `data` is no event."""
    return _events().validate_python(data)


def message_to_json(message: Message) -> dict[str, Any]:
    """A JSON-ready dictionary; `message_from_json` gives an equal message back."""
    data: dict[str, Any] = _messages().dump_python(message, mode="json")
    return data


def message_from_json(data: object) -> Message:
    """The message of `message_to_json`. Raises `pydantic.ValidationError` if `data` is none."""
    return _messages().validate_python(data)
