"""What a server says of its tools' arguments: data from outside, made safe to send on.

One schema that a model's server does not take fails every request of the session, so what is not
surely good is replaced by `{"type": "object"}`: the model then sees the description alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from jupyter_agent.core.messages import JsonObject
from jupyter_agent.core.plaintext import defused, plain, shorten

ANYTHING: JsonObject = {"type": "object"}
_MOST_CHARACTERS = 20_000
_MOST_DEPTH = 24
_MOST_CHAIN = 25
"""References in a row."""
_MOST_TEXT = 1_000
_DROPPED = frozenset({"$schema", "$id", "id", "$comment", "$anchor", "title", "examples"})
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor"})
_NOT_ON_TOP = frozenset({"oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"})
"""Anthropic and OpenAI refuse these beside `properties`."""
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The rule of the Anthropic Messages API for the names of properties."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"enum", "const", "default"})


class _Unusable(Exception):
    """Why a schema cannot be passed on."""


def usable_schema(given: object) -> tuple[JsonObject, str]:
    """A schema that every provider takes, and what was wrong with the given one.

    The second is empty where nothing of weight was changed.
    """
    try:
        return _checked(given)
    except _Unusable as problem:
        return ANYTHING, str(problem)


def misfits(schema: JsonObject, arguments: Mapping[str, Any]) -> Iterator[str]:
    """What of the arguments does not fit, by a light check of the top level.

    Names, types and choices only. The server checks the rest; its patterns may be made to hang.
    """
    known: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in arguments:
            yield f"{name}: Field required"
    for name, value in arguments.items():
        if name not in known:
            if schema.get("additionalProperties") is False:
                yield f"{name}: unknown"
        elif isinstance(known[name], dict):
            yield from _misfit(name, known[name], value)


def _misfit(name: str, schema: Mapping[str, Any], value: object) -> Iterator[str]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import UnknownType

    light = {key: schema[key] for key in ("type", "enum") if key in schema}
    try:
        wrong = {error.validator for error in Draft202012Validator(light).iter_errors(value)}
    except RecursionError:  # jsonschema spells out what does not fit, however deep it is
        wrong = {"enum" if "enum" in light else "type"}
    except UnknownType:
        return  # of a cassette that was edited: a server's schema is valid
    if "type" in wrong:
        kinds = schema["type"]
        yield f"{name}: must be {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
    elif wrong:
        yield f"{name}: must be one of {shorten(json.dumps(schema['enum']), 300)}"


def _checked(given: object) -> tuple[JsonObject, str]:
    if not isinstance(given, dict):
        raise _Unusable("its schema is not an object")
    if given.get("type", "object") != "object":
        raise _Unusable("its schema is not of type object")
    _measured(given)
    note = ""
    schema = _clean(given, _MOST_DEPTH)
    if top := sorted(_NOT_ON_TOP & schema.keys()):
        note = f"{', '.join(top)} at the top of its schema is left out"
        schema = {key: value for key, value in schema.items() if key not in _NOT_ON_TOP}
    schema = {"type": "object", "properties": {}} | schema
    _valid(schema)
    _References(schema).below(schema, 0)
    return schema, note


def _measured(schema: dict[str, Any]) -> None:
    try:
        text = json.dumps(schema, allow_nan=False)
    except RecursionError:
        raise _Unusable("its schema is nested too deeply") from None
    except (TypeError, ValueError):
        raise _Unusable("its schema is not JSON") from None
    if len(text) > _MOST_CHARACTERS:
        raise _Unusable(f"its schema is too long ({len(text):,} characters)")


def _clean(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    """The schema without what only names it, and with legible, bounded texts."""
    if depth <= 0:
        raise _Unusable("its schema is nested too deeply")
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DYNAMIC:
            raise _Unusable("its schema has dynamic references")
        if key in _DROPPED and not isinstance(value, dict):
            continue
        kept[plain(key)] = _clean_value(key, value, depth)
    return kept


def _clean_value(key: str, value: Any, depth: int) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {
            _name(name, key): _clean(one, depth - 1) if isinstance(one, dict) else one
            for name, one in value.items()
        }
    if key in _VALUES:
        return _legible(value, depth)
    if key == "description" and isinstance(value, str):
        return shorten(defused(plain(value)), _MOST_TEXT)
    if isinstance(value, dict):
        return _clean(value, depth - 1)
    if isinstance(value, list):
        return [
            _clean(one, depth - 1) if isinstance(one, dict) else _legible(one, depth - 1)
            for one in value
        ]
    return _legible(value, depth)


def _name(name: str, key: str) -> str:
    if key == "properties" and not _PROPERTY.fullmatch(name):
        raise _Unusable("its schema has a property whose name models do not accept")
    return plain(name)


def _legible(value: Any, depth: int) -> Any:
    if depth <= 0:
        raise _Unusable("its schema is nested too deeply")
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_legible(one, depth - 1) for one in value]
    if isinstance(value, dict):
        return {plain(key): _legible(one, depth - 1) for key, one in value.items()}
    if isinstance(value, int) and value.bit_length() > 63:
        raise _Unusable("its schema has a number that is too large for JSON readers")
    return value


def _valid(schema: dict[str, Any]) -> None:
    """By the meta-schema of 2020-12, which is what Anthropic checks against."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(["regex"]))
    except (SchemaError, OverflowError):  # a pattern may repeat more often than `re` can count
        raise _Unusable("its schema is not valid") from None
    except RecursionError:
        raise _Unusable("its schema is nested too deeply") from None


class _References:
    """Follows the references of a schema. Each part is looked at once, however many lead to it.

    Each `$ref` must lead to a part of the schema, and none in a circle.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._open: set[int] = set()
        self._chains: dict[int, int] = {}
        """References in a row below a part, by the identity of the part."""

    def below(self, node: Any, above: int) -> int:
        """The longest chain of references below a part of the schema.

        Args:
            node: The part.
            above: How many references lead to it.

        Raises:
            _Unusable: A reference leads nowhere or in a circle, or the chain is too long.
        """
        if isinstance(node, list):
            return max((self.below(one, above) for one in node), default=0)
        if not isinstance(node, dict):
            return 0
        if id(node) in self._open:
            raise _Unusable("its schema refers to itself")
        if id(node) not in self._chains:
            self._open.add(id(node))
            self._chains[id(node)] = self._longest(node, above)
            self._open.discard(id(node))
        chain = self._chains[id(node)]
        if above + chain > _MOST_CHAIN:
            raise _Unusable("its schema is nested too deeply")
        return chain

    def _longest(self, node: dict[str, Any], above: int) -> int:
        chain, target = 0, node.get("$ref")
        if isinstance(target, str):
            if above >= _MOST_CHAIN:
                raise _Unusable("its schema is nested too deeply")
            chain = 1 + self.below(_target(target, self._root), above + 1)
        # What is defined is looked at where it is referred to.
        others = (one for key, one in node.items() if key not in ("$defs", "definitions"))
        return max(chain, *(self.below(one, above) for one in others), 0)


def _target(reference: str, root: dict[str, Any]) -> Any:
    if not reference.startswith("#/"):
        raise _Unusable("its schema refers to another document")
    node: Any = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or key not in node:
            raise _Unusable("its schema refers to a part that it does not have")
        node = node[key]
    return node


def any_arguments(schema: JsonObject) -> type[BaseModel]:
    """Any arguments by name, in `model_extra`: the schema is the server's, and no model."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @model_validator(mode="before")
        @classmethod
        def check(cls, values: Any) -> Any:
            if isinstance(values, Mapping) and (wrong := list(misfits(schema, values))):
                raise PydanticCustomError("misfit", "{wrong}", {"wrong": "; ".join(wrong[:10])})
            return values

    return Arguments
