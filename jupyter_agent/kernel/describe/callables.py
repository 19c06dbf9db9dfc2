"""Functions, classes and modules: signatures and the first lines of docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, GenericAlias, ModuleType, UnionType
from typing import Any

from jupyter_agent.kernel.describe.introspection import (
    MISSING,
    ancestry,
    attributes,
    class_attribute,
    is_enum,
    module_name,
    own_names,
    type_name,
)
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    inert,
    name,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

# The values in an annotation that is a text: texts, numbers, what a Literal allows.
_VALUES = re.compile(r"""(['"])(?:\\.|(?!\1).)*\1|\b\d[\w.]*""")
_LITERAL = re.compile(r"(?:typing\.)?(Literal|Annotated)\[[^\]]*\]")
_module_dict: Callable[[Any], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__


def function(value: Any, level: Level) -> Iterator[Part]:
    """A function: its signature without default values, and the first line of its docstring."""
    kind = "async function" if value.__code__.co_flags & inspect.CO_COROUTINE else "function"
    yield f"{kind} {name(value.__name__)}{signature(value, level)}"
    yield from _first_line(value.__doc__)


def method(value: Any, level: Level) -> Iterator[Part]:
    """A bound method: its class and its signature."""
    inner, owner = value.__func__, value.__self__
    cls = owner if issubclass(type(owner), type) else type(owner)
    if type(inner) is not FunctionType:
        yield f"method of {type_name(cls)}"
        return
    yield f"method {type_name(cls)}.{name(inner.__name__)}{signature(inner, level, bound=True)}"
    yield from _first_line(inner.__doc__)


def builtin(value: Any, level: Level) -> Iterator[Part]:
    """A function written in C: its signature, if it is known."""
    try:
        parameters = ", ".join(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        parameters = "..."
    yield f"built-in function {name(value.__name__)}({parameters})"
    yield from _first_line(value.__doc__)


def partial(value: Any, level: Level) -> Iterator[Part]:
    """A partial: its function, and the number of bound arguments."""
    given = len(value.args) + len(value.keywords)
    yield f"{type_name(type(value))}, {count(given, 'argument')} given"
    yield Nested("of", value.func)


def cached(value: Any, level: Level) -> Iterator[Part]:
    """A function with a cache: the function."""
    yield f"cached function {name(attributes(value)['__wrapped__'].__name__)}"
    yield Nested("of", attributes(value)["__wrapped__"])


def class_object(value: Any, level: Level) -> Iterator[Part]:
    """A class: its bases, the signature of its constructor, and the names of its members."""
    bases = [type_name(base) for base in ancestry(value)[1:] if base is not object]
    init = class_attribute(value, "__init__")
    how = (
        signature(init, level, bound=True)
        if type(init) is FunctionType and not is_enum(value)
        else ""
    )
    inherits = f", a kind of {', '.join(bases[:3])}" if bases else ""
    yield f"class {type_name(value)}{how}{inherits}"
    own = own_names(value)
    # The docstring that a dataclass or a named tuple makes for itself holds default values.
    made = type(own.get("__doc__")) is str and own["__doc__"].startswith(f"{type_name(value)}(")
    yield from _first_line(None if made else own.get("__doc__"))
    if is_enum(value):
        members = class_attribute(value, "_member_names_")
        yield Listing("members", len(members), (name(member) for member in members))
        return
    fields = [key for key in _annotated(own) if not key.startswith("_")]
    yield from _names("fields", fields)
    public = {key: held for key, held in own.items() if not key.startswith("_")}
    methods = [key for key, held in public.items() if callable(held) or type(held) in _METHODS]
    yield from _names("methods", methods)
    yield from _names("attributes", [key for key in public if key not in {*methods, *fields}])


def module(value: Any, level: Level) -> Iterator[Part]:
    """A module: its name, its docstring's first line and the names of its members."""
    held = _module_dict(value)
    yield f"module {name(str(held.get('__name__', '?')))}"
    if shows_values(level) and "__version__" in held:
        yield f"version: {short(held.get('__version__'))}"
    yield from _first_line(held.get("__doc__"))
    public = [
        key
        for key, v in list(held.items())
        if not key.startswith("_") and type(v) is not ModuleType
    ]
    yield from _names("names", public)


def signature(value: FunctionType, level: Level, *, bound: bool = False) -> str:
    """The parameters with their annotations. Defaults are only shown where data may be seen."""
    code = value.__code__
    parameters = list(_parameters(value, code, level))
    if bound and code.co_argcount:
        parameters = parameters[1:]
        parameters = parameters[1:] if parameters[:1] == ["/"] else parameters
    returns = annotation(_hints(value).get("return", MISSING))
    return f"({', '.join(parameters)}){f' -> {returns}' if returns else ''}"


def _parameters(value: FunctionType, code: CodeType, level: Level) -> Iterator[str]:
    names = code.co_varnames
    positional, keyword = code.co_argcount, code.co_kwonlyargcount
    defaults = dict(
        zip(reversed(names[:positional]), reversed(value.__defaults__ or ()), strict=False)
    )
    defaults |= value.__kwdefaults__ or {}
    hints = _hints(value)
    rest = names[positional + keyword :]
    for place, parameter in enumerate(names[:positional]):
        yield _parameter(parameter, hints, defaults, level)
        if place + 1 == code.co_posonlyargcount:
            yield "/"
    if code.co_flags & CO_VARARGS:
        yield f"*{rest[0]}"
        rest = rest[1:]
    elif keyword:
        yield "*"
    for parameter in names[positional : positional + keyword]:
        yield _parameter(parameter, hints, defaults, level)
    if code.co_flags & CO_VARKEYWORDS:
        yield f"**{rest[0]}"


def _hints(value: FunctionType) -> dict[str, Any]:
    try:
        return value.__annotations__
    except Exception:
        # From Python 3.14 on, to read annotations evaluates them.
        return {}


def _parameter(
    parameter: str, hints: dict[str, Any], defaults: dict[str, Any], level: Level
) -> str:
    hint = annotation(hints.get(parameter, MISSING))
    written = f"{parameter}: {hint}" if hint else parameter
    if parameter not in defaults:
        return written
    default = short(defaults[parameter], 30) if shows_values(level) else "..."
    return f"{written}={default}"


def annotation(hint: Any, depth: int = 2) -> str:
    """An annotation as a text, without the values that a `Literal` or an `Annotated` holds."""
    if hint is MISSING:
        return ""
    if hint is None or hint is type(None):
        return "None"
    if type(hint) is str:
        return inert(_LITERAL.sub(r"\1", _VALUES.sub("...", hint)), 60)
    if issubclass(type(hint), type):
        return type_name(hint)
    if module_name(type(hint)) != "typing" and type(hint) not in (GenericAlias, UnionType):
        return "..."
    return _generic(hint, depth)


def _generic(hint: Any, depth: int) -> str:
    label = getattr(hint, "_name", None) or getattr(hint, "__name__", None)
    if not label and getattr(hint, "__origin__", None):
        label = annotation(hint.__origin__, depth)
    arguments = getattr(hint, "__args__", ()) if depth else ()
    if not arguments or label in {"Literal", "Annotated"}:
        return name(str(label or "..."))
    inside = [annotation(argument, depth - 1) for argument in arguments[:4]]
    if type(hint) is UnionType:
        return " | ".join(inside)
    return f"{name(str(label))}[{', '.join(inside)}]"


def _annotated(own: dict[str, Any]) -> dict[str, Any]:
    hints = own.get("__annotations__", {})
    return hints if type(hints) is dict else {}


def _names(what: str, names: list[str]) -> Iterator[Part]:
    """The names of a big class or module in a few lines."""
    lines = [", ".join(name(one) for one in names[i : i + 8]) for i in range(0, len(names), 8)]
    if len(names) <= 8:
        yield from (f"{what}: {line}" for line in lines)
    else:
        yield Listing(f"lines of {what}", len(lines), lines)


def _first_line(doc: Any) -> Iterator[Part]:
    if type(doc) is str:
        line = next((line.strip() for line in doc[:2_000].split("\n") if line.strip()), "")
        if line:
            yield f"doc: {inert(line, 200)}"


_METHODS = (staticmethod, classmethod)
DESCRIBERS: dict[str, Describer] = {
    "builtins.function": function,
    "builtins.method": method,
    "builtins.builtin_function_or_method": builtin,
    "builtins.method_descriptor": builtin,
    "builtins.wrapper_descriptor": builtin,
    "builtins.method-wrapper": builtin,
    "numpy._ArrayFunctionDispatcher": builtin,
    "functools.partial": partial,
    "functools._lru_cache_wrapper": cached,
    "builtins.type": class_object,
    "builtins.module": module,
}
