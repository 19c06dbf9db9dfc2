"""The only place where messages and events become JSON and come back.

Pydantic reads the dataclasses themselves; the `type` literals tell the unions apart.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from jupyter_agent.events import Event
from jupyter_agent.messages import Message


@cache
def _events() -> TypeAdapter[Event]:
    return TypeAdapter(Annotated[Event, Field(discriminator="type")])


@cache
def _messages() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


def event_to_json(event: Event) -> dict[str, Any]:
    """A JSON-ready dictionary; `event_from_json` gives an equal event back."""
    data: dict[str, Any] = _events().dump_python(event, mode="json")
    return data


def event_from_json(data: object) -> Event:
    """Raises `pydantic.ValidationError` where `data` is no event."""
    return _events().validate_python(data)


def message_to_json(message: Message) -> dict[str, Any]:
    """A JSON-ready dictionary; `message_from_json` gives an equal message back."""
    data: dict[str, Any] = _messages().dump_python(message, mode="json")
    return data


def message_from_json(data: object) -> Message:
    """Raises `pydantic.ValidationError` where `data` is no message."""
    return _messages().validate_python(data)
