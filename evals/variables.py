"""What an agent without one of its own is told of the variables: names, types, columns.

Run in the kernel, and in the peer's environment: nothing but the standard library is imported.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

_MOST_COLUMNS = 60
_LONGEST_VALUE = 120
_LONGEST = 4_000
_IPYTHON = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_NOT_DATA = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def data(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the task: without modules, functions, classes, and what IPython puts in."""
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in _IPYTHON and not isinstance(value, _NOT_DATA)
    }


def described(namespace: Mapping[str, Any]) -> str:
    """A line for each variable of the task, or `(none)`."""
    lines = [f"{name}: {_about(value)}" for name, value in data(namespace).items()]
    return "\n".join(lines)[:_LONGEST] or "(none)"


def _about(value: Any) -> str:
    kind = type(value).__name__
    if hasattr(value, "columns") and hasattr(value, "dtypes"):
        columns = [f"{name} ({dtype})" for name, dtype in value.dtypes.items()]
        shown = ", ".join(columns[:_MOST_COLUMNS])
        return f"{kind}, {len(value)} rows, columns: {shown}"
    if hasattr(value, "shape"):
        return f"{kind}, shape {value.shape}, {getattr(value, 'dtype', '')}"
    return f"{kind}, {repr(value)[:_LONGEST_VALUE]}"
