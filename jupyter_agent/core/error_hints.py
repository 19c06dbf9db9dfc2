"""The lines below an error that help to repair code: what those who write and read them share."""

from __future__ import annotations

import re
from collections.abc import Sequence

HINT = "(hint: {})"
"""A line by the package below an error of the code, or about inputs that it spoilt."""
HINTED = re.compile(r"(?m)\n?^\(hint: .*\)$")
CAUSED = "caused the error below\n"
"""The end of the line between an error and the one that it caused."""
NOT_IMPORTED = "It is not imported: {}."
"""The hint with the import that is missing."""
_NEAREST = re.compile(r"\(hint: Nearest (?:columns|keys|variables): (.*)\.\)", re.DOTALL)
_MODULES = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "pl": "polars",
    "px": "plotly.express",
}
"""Short names by which everybody imports a module."""
_QUOTED = re.compile(r"'([^'\n]{1,200})'")


def usual_import(name: str) -> str:
    """The import of a module that everybody calls so; empty if the name is none of a module."""
    return f"import {_MODULES[name]} as {name}" if name in _MODULES else ""


def nearest(what: str, names: Sequence[str]) -> str:
    """The hint with the names near to one that was not found; empty if there are none.

    Args:
        what: What they are, such as `columns`.
        names: The names, the nearest first.
    """
    return f"Nearest {what}: {', '.join(names)}." if names else ""


def nearest_in(error: str) -> str:
    """The names in such a hint below an error, unless they are attributes or files; else empty."""
    found = _NEAREST.search(error)
    return found[1] if found else ""


def quoted_names(text: str) -> list[str]:
    """The names that an error's text quotes."""
    return _QUOTED.findall(text)


def folded(name: str) -> str:
    """The letters and digits of a name, without case: names that differ in blanks are equal."""
    return re.sub(r"[\W_]+", "", name.casefold())
