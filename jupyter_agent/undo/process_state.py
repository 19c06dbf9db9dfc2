"""State of the process beside variables: environment, working folder, random generators.

Each part has a name, under which undo lists it.
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
    """The state as it is now: texts by name."""
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
    """True for a name that `take` returns."""
    return name in (FOLDER, RANDOM, NUMPY) or name.startswith(_VARIABLE)


def put(name: str, value: str) -> None:
    """Restore one part. Raises OSError or ValueError if the system refuses."""
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
    """Remove an environment variable."""
    os.environ.pop(_key(name), None)


def _key(name: str) -> str:
    return str(ast.literal_eval(name.removeprefix(_VARIABLE)[:-1]))
