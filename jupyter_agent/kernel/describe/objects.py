"""Objects of the user's own classes, enumerations, exceptions, files and iterators."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.introspection import (
    MISSING,
    attributes,
    class_attribute,
    is_enum,
    module_name,
    type_name,
)
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    name,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

_MAX_ATTRIBUTES = 1_000
_HOME = ("builtins", "__main__", "")


def any_object(value: Any, level: Level) -> Iterator[Part]:
    """An object of any class: its type, and its own public attributes."""
    cls = type(value)
    held = {key: v for key, v in attributes(value).items() if not key.startswith("_")}
    kind, noun = _kind(cls)
    module = module_name(cls)
    where = "" if kind or module in _HOME else f" ({name(module)})"
    still = ", not advanced" if class_attribute(cls, "__next__") is not MISSING else ""
    how_many = f", {count(len(held), noun)}" if held or kind else ""
    yield f"{type_name(cls)}{where}{kind}{how_many}{still}"
    entries = (Nested(name(key), v) for key, v in islice(held.items(), _MAX_ATTRIBUTES))
    yield Listing(f"{noun}s", len(held), entries, titled=False)


def _kind(cls: type) -> tuple[str, str]:
    if type(class_attribute(cls, "__dataclass_fields__")) is dict:
        return ", dataclass", "field"
    if class_attribute(cls, "__pydantic_core_schema__") is not MISSING:
        return ", pydantic model", "field"
    return "", "attribute"


def enum_member(value: Any, level: Level) -> Iterator[Part]:
    """A member of an enumeration: all names; its own name only if data may be shown."""
    cls = type(value)
    members = class_attribute(cls, "_member_names_")
    if not is_enum(cls) or type(members) is not list:
        return
    headline = f"{type_name(cls)}, member of an enum of {len(members)}"
    yield f"{headline}: {short(value)}" if shows_values(level) else headline
    yield Listing("members", len(members), (name(member) for member in members))


def exception(value: Any, level: Level) -> Iterator[Part]:
    """An exception: its type; its arguments only if data may be shown."""
    arguments = BaseException.args.__get__(value)  # type: ignore[attr-defined]
    headline = f"{type_name(type(value))}, exception"
    if shows_values(level) and arguments:
        shown = arguments[0] if len(arguments) == 1 else arguments
        headline += f": {short(shown, 100 if level == 'sample' else 1_000)}"
    yield headline
    if issubclass(type(value), BaseExceptionGroup):
        inside = BaseExceptionGroup.exceptions.__get__(value)
        yield Listing("exceptions", len(inside), (Nested("inside", error) for error in inside))


def file_object(value: Any, level: Level) -> Iterator[Part]:
    """A file: open or closed, and its encoding; its name only if data may be shown."""
    state = "closed" if value.closed else "open"
    encoding = getattr(value, "encoding", None)
    shown = f", encoding {name(encoding)}" if type(encoding) is str else ""
    yield f"{type_name(type(value))}, {state}{shown}"
    if shows_values(level):
        yield f"name: {short(getattr(value, 'name', None), 200)}"


def suspended(value: Any, level: Level) -> Iterator[Part]:
    """A generator or a coroutine: the function that made it. It is not advanced."""
    yield f"{type_name(type(value))} of {name(value.__qualname__)}, not advanced"


_FILES = ("TextIOWrapper", "BufferedReader", "BufferedWriter", "BufferedRandom", "FileIO")
DESCRIBERS: dict[str, Describer] = {
    "builtins.object": any_object,
    "builtins.BaseException": exception,
    "builtins.generator": suspended,
    "builtins.coroutine": suspended,
    "builtins.async_generator": suspended,
    **{f"_io.{kind}": file_object for kind in (*_FILES, "StringIO", "BytesIO")},
}
