"""Hints that help to repair code after an error: the names that exist where one was not found.

The names come from the live objects. Keys and labels may be data, so no hint is given where
`privacy.outputs` is `shapes`.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

from jupyter_agent.core.error_hints import NOT_IMPORTED, folded, nearest, quoted_names, usual_import
from jupyter_agent.kernel.describe.frames import column_names
from jupyter_agent.kernel.describe.introspection import (
    ancestry,
    attributes,
    field_names,
    own_names,
    type_name,
)
from jupyter_agent.kernel.describe.parts import inert, name
from jupyter_agent.kernel.marks import AGENT_FILE

NEAREST = 3
"""Names that are told for one that was not found, and names not found that are looked at."""
SHOWN = 30
"""Names that are listed where no name is near."""
_MOST_NAMES = 1_000
_LONGEST_NAME = 60
_LONGEST = 1_000
_CALLABLE = re.compile(r"^(?P<name>[\w.<>]+)\(\) ")


def repair_hint(error: BaseException, variables: Mapping[str, object]) -> str:
    """What exists in the place of what was not found, in one line; empty if nothing is known.

    For `KeyError` the columns or keys, for `AttributeError` the attributes, for `NameError` the
    variables, for `TypeError` of a call the function's parameters, for `FileNotFoundError` the
    files of the folder; the nearest ones first.

    Args:
        error: The error of the code.
        variables: The kernel's namespace.
    """
    try:
        found = _hint(error, variables)
    except Exception:
        return ""  # the hint is a help; the error itself is shown in any case
    return inert(found, _LONGEST)


def _hint(error: BaseException, variables: Mapping[str, object]) -> str:
    match error:
        case FileNotFoundError():
            return _of_file(error)
        case NameError():
            return _of_name(error, variables)
        case AttributeError():
            return _of_attribute(error)
        case KeyError():
            return _of_key(error)
        case TypeError():
            return _of_call(error)
    return ""


def _told(what: str, wanted: Iterable[str], present: Iterable[str]) -> str:
    """The names nearest to the wanted ones, or else all names."""
    names = list(dict.fromkeys(islice(present, _MOST_NAMES)))
    looked_at = islice(wanted, NEAREST)
    near = list(dict.fromkeys(each for one in looked_at for each in _near(one, names)))
    if near:
        return nearest(what, near)
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"The {what}: {', '.join(names[:SHOWN])}{more}."


def _near(wanted: str, names: list[str]) -> list[str]:
    """Names that differ from the wanted one by a few letters, or contain it or are part of it."""
    short = [each for each in names[:_MOST_NAMES] if len(each) <= _LONGEST_NAME]
    by_letters = {folded(each): each for each in reversed(short)}
    key = folded(wanted[:_LONGEST_NAME])
    found = [by_letters[each] for each in difflib.get_close_matches(key, by_letters, NEAREST)]
    if len(key) > 2:
        parts = (
            whole
            for part, whole in by_letters.items()
            if key in part or (2 < len(part) < len(key) and part in key)
        )
        found += [each for each in parts if each not in found]
    return found[:NEAREST]


# The kinds of errors -----------------------------------------------------------------------------


def _of_file(error: FileNotFoundError) -> str:
    if not isinstance(error.filename, str):
        return ""
    path = Path(error.filename)
    folder = path.parent
    while not folder.is_dir():
        path, folder = folder, folder.parent
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _MOST_NAMES))
    visible = [each for each in names if not each.startswith(".")]
    where = "" if str(folder) == "." else f" in {folder}"
    return _told(f"files{where}", [path.name], visible) or f"The folder {folder} is empty."


def _of_name(error: NameError, variables: Mapping[str, object]) -> str:
    wanted = error.name or ""
    if line := usual_import(wanted):
        return NOT_IMPORTED.format(line)
    present = [each for each in variables if not each.startswith("_")]
    near = _near(wanted, present)
    return nearest("variables", near)


def _of_attribute(error: AttributeError) -> str:
    wanted, value = error.name, error.obj
    if not wanted or value is None:
        return ""
    if near := _near(wanted, column_names(value)):
        return nearest("columns", near)
    if isinstance(value, ModuleType):
        names: Iterable[str] = vars(value)
    else:
        owner = value if isinstance(value, type) else type(value)
        held = [key for cls in ancestry(owner) for key in own_names(cls)]
        names = dict.fromkeys([*held, *attributes(value)])
    near = _near(wanted, [each for each in names if not each.startswith("_")])
    return nearest("attributes", near)


def _of_key(error: KeyError) -> str:
    wanted = _wanted_keys(error)
    own, library = _frames(error)
    if columns := _columns(library):
        return _told("columns", wanted, columns)
    held = _subscripted(error, own[-1]) if own and not library else None
    if held is not None and (keys := field_names(held)):
        return _told("keys", wanted, keys)
    return ""


def _of_call(error: TypeError) -> str:
    found = _CALLABLE.match(str(error))
    own, _ = _frames(error)
    if found is None or not own:
        return ""
    called = found["name"].rpartition(".")[2]
    for function in _called(error, own[-1], called):
        return f"Its parameters: {called}({', '.join(_parameters(function))})."
    return ""


# What the error was about ------------------------------------------------------------------------


def _wanted_keys(error: KeyError) -> list[str]:
    """The texts among the keys that were not found: the error's own, or those that it quotes."""
    key = error.args[0] if error.args else ""
    if type(key) in (tuple, list):
        return [each for each in key if type(each) is str]
    if type(key) is not str:
        return []
    if re.search(r"not (?:found )?in (?:axis|index|columns)|are in the", key):
        return quoted_names(key)
    return [key]


def _frames(error: BaseException) -> tuple[list[FrameType], list[FrameType]]:
    """The frames of cells that lead to the error, and those of libraries below the last of them."""
    own: list[FrameType] = []
    library: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(AGENT_FILE):
            own.append(trace.tb_frame)
            library = []
        else:
            library.append(trace.tb_frame)
        trace = trace.tb_next
    return own, library


def _columns(frames: list[FrameType]) -> list[str]:
    """The columns of the table in which a library looked for a column.

    The labels of rows are data: where they were looked through, nothing is told.
    """
    searched: object = None
    for frame in reversed(frames):
        for key in ("self", "obj"):
            value = frame.f_locals.get(key)
            if columns := column_names(value):
                index = getattr(value, "columns", None)
                return columns if searched is None or searched is index else []
            if searched is None and type_name(type(value)).endswith("Index"):
                searched = value
    return []


def _line(error: BaseException, frame: FrameType) -> ast.AST | None:
    """The statement of the frame's line."""
    trace = error.__traceback__
    number = 0
    while trace is not None:
        if trace.tb_frame is frame:
            number = trace.tb_lineno
        trace = trace.tb_next
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    best: ast.AST | None = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or 0):
            best = node
    return best


def _subscripted(error: BaseException, frame: FrameType) -> Any:
    """The dictionary in which the statement looks for a key that is not there."""
    statement = _line(error, frame)
    key = error.args[0] if error.args else None
    for node in ast.walk(statement) if statement is not None else ():
        if not isinstance(node, ast.Subscript):
            continue
        value = _value(node.value, frame)
        if issubclass(type(value), dict) and not dict.__contains__(value, key):
            return value
    return None


def _called(error: BaseException, frame: FrameType, called: str) -> Iterator[FunctionType]:
    """The function of this name that the statement calls; of a class, its `__init__`."""
    statement = _line(error, frame)
    name_of_class = called == "__init__"
    for node in ast.walk(statement) if statement is not None else ():
        if not isinstance(node, ast.Call):
            continue
        value = _value(node.func, frame)
        if isinstance(value, type):
            held = own_names(value).get("__init__")
            if name_of_class and isinstance(held, FunctionType):
                yield held
        elif isinstance(value, FunctionType) and value.__name__ == called:
            yield value


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a name or of a dotted name, without running anything."""
    if isinstance(node, ast.Name):
        if node.id in frame.f_locals:
            return frame.f_locals[node.id]
        return frame.f_globals.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        if isinstance(owner, ModuleType):
            return vars(owner).get(node.attr)
        if owner is None:
            return None
        classes = ancestry(owner if isinstance(owner, type) else type(owner))
        held = (own_names(cls).get(node.attr) for cls in classes)
        return next((each for each in held if each is not None), None)
    return None


def _parameters(function: FunctionType) -> list[str]:
    """The parameters of a function by name; those with a default have an `=…`."""
    code = function.__code__
    plain = code.co_varnames[: code.co_argcount]
    only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional = {
        *plain[len(plain) - len(function.__defaults__ or ()) :],
        *(function.__kwdefaults__ or {}),
    }
    rest = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    shown = [_with_default(each, optional) for each in plain if each not in ("self", "cls")]
    if code.co_flags & 0x04:
        shown.append(f"*{rest.pop(0)}")
    elif only:
        shown.append("*")
    shown += [_with_default(each, optional) for each in only]
    if code.co_flags & 0x08:
        shown.append(f"**{rest.pop(0)}")
    return [name(each) for each in shown]


def _with_default(parameter: str, optional: set[str]) -> str:
    return f"{parameter}=…" if parameter in optional else parameter
