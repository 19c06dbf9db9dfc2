"""State of the process that is no variable: the environment, the folder, the random generators.

Each has a name under which an undo lists it. What is put back is only what a turn changed.
"""

from __future__ import annotations

import ast
import contextlib
import os
import random
import sys

FOLDER = "the working folder"
RANDOM = "the state of random"
NUMPY = "the state of numpy.random"
_VARIABLE = "os.environ["


def take() -> dict[str, str]:
    """All of it as texts, by name."""
    found = {f"{_VARIABLE}{name!r}]": text for name, text in os.environ.items()}
    with contextlib.suppress(OSError):  # the folder is gone
        found[FOLDER] = os.getcwd()  # noqa: PTH109 (text, as chdir wants it)
    with contextlib.suppress(Exception):  # replaced by somebody's code
        found[RANDOM] = repr(random.getstate())
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        with contextlib.suppress(Exception):  # another generator than NumPy's own
            kind, keys, *rest = numpy.get_state(legacy=True)
            found[NUMPY] = repr((kind, keys.tobytes(), *rest))
    return found


def is_named(name: str) -> bool:
    """Whether a name is one that `take` gives."""
    return name in (FOLDER, RANDOM, NUMPY) or name.startswith(_VARIABLE)


def put(name: str, value: str) -> None:
    """Set one of them. Raises OSError where the system refuses."""
    if name == FOLDER:
        os.chdir(value)
    elif name == RANDOM:
        random.setstate(ast.literal_eval(value))
    elif name == NUMPY:
        numpy = sys.modules["numpy"]
        kind, keys, *rest = ast.literal_eval(value)
        numpy.random.set_state((kind, numpy.frombuffer(keys, dtype="u4"), *rest))
    else:
        os.environ[_key(name)] = value


def remove(name: str) -> None:
    """Remove a variable of the environment."""
    os.environ.pop(_key(name), None)


def _key(name: str) -> str:
    return str(ast.literal_eval(name.removeprefix(_VARIABLE)[:-1]))
