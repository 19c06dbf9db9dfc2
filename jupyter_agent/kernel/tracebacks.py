"""Formats an exception for a model and a user: their own frames, none of IPython's."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import IPython
from IPython.core.error import UsageError

from jupyter_agent.core.error_hints import CAUSED
from jupyter_agent.kernel.marks import AGENT_FILE

MAX_FRAMES = 12
MAX_CHAIN = 5
_LIBRARIES = (
    str(Path(IPython.__file__).parent),
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)

NameOf = Callable[[str], str | None]


def format_error(error: BaseException, name_of: NameOf) -> str:
    """The error's line, below the frames that lead to it and the errors that caused it.

    `name_of(filename)` returns the name to show for a cell's file, or None if it is no cell.
    """
    parts: list[str] = []
    for link, current in _chain(error):
        frames = "" if isinstance(current, (SyntaxError, UsageError)) else _frames(current, name_of)
        parts.append(link + frames + _error_line(current, name_of))
    return "\n\n".join(parts)


def cell_name(shell: Any, filename: str) -> str | None:
    """The name to show for a file of the shell's compiler: the agent's code or a user's cell.

    None for an ordinary file.
    """
    if filename.startswith(AGENT_FILE):
        return filename[1:-1].replace("-", " code ")
    number = getattr(shell.compile, "_filename_map", {}).get(filename)
    return None if number is None else f"Cell In[{number}]"


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """The errors from the first cause to the last, each with the words that link it."""
    chain: list[tuple[str, BaseException]] = []
    seen: set[int] = set()
    current: BaseException | None = error
    link = ""
    while current is not None and id(current) not in seen and len(chain) < MAX_CHAIN:
        seen.add(id(current))
        chain.append((link, current))
        if current.__cause__ is not None:
            link, current = CAUSED, current.__cause__
        elif current.__context__ is not None and not current.__suppress_context__:
            link, current = "while it was handled, the error below came up\n", current.__context__
        else:
            current = None
    ordered = list(reversed(chain))
    # A link stands above the error that it introduces, so it moves down by one.
    links = ["", *(f"This {link}" for link, _ in ordered[:-1])]
    return iter([(link, current) for link, (_, current) in zip(links, ordered, strict=True)])


def _frames(error: BaseException, name_of: NameOf) -> str:
    """The frames of cells and of the user's own files.

    Those of libraries are left out: they are long, and differ between versions.
    """
    shown = [
        _frame(filename, line, function, name_of)
        for filename, line, function in _locations(error.__traceback__)
        if not filename.startswith(("<frozen", *_LIBRARIES))
    ]
    if len(shown) > MAX_FRAMES:
        left_out = len(shown) - MAX_FRAMES
        shown = [*shown[:4], f"  [... {left_out} more frames ...]\n", *shown[4 - MAX_FRAMES :]]
    return "".join(shown)


def _locations(trace: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield code.co_filename, trace.tb_lineno or 0, code.co_name
        trace = trace.tb_next


def _frame(filename: str, line: int, function: str, name_of: NameOf) -> str:
    where = name_of(filename) or Path(filename).name
    inside = "" if function == "<module>" else f", in {function}"
    source = linecache.getline(filename, line).strip()
    return f"{where}, line {line}{inside}\n" + (f"    {source}\n" if source else "")


def _error_line(error: BaseException, name_of: NameOf) -> str:
    if isinstance(error, SyntaxError):
        return _syntax_error(error, name_of)
    if isinstance(error, UsageError):
        return f"UsageError: {error}"  # of a magic: IPython shows it without frames too
    try:
        lines = traceback.format_exception_only(type(error), error)
        inner = error.exceptions[:MAX_CHAIN] if isinstance(error, BaseExceptionGroup) else ()
        parts = (_error_line(each, name_of).replace("\n", "\n    ") for each in inner)
        return "\n".join(["".join(lines).strip(), *(f"  - {part}" for part in parts)])
    except Exception:
        # The exception's own code makes the message, and may fail.
        return f"{type(error).__name__}: (its message cannot be shown)"


def error_name(error: BaseException) -> str:
    """The class's name; for IPython's private kinds of SyntaxError the public one."""
    name = type(error).__name__
    return "SyntaxError" if isinstance(error, SyntaxError) and name.startswith("_") else name


def _syntax_error(error: SyntaxError, name_of: NameOf) -> str:
    where = name_of(error.filename or "") or "the code"
    source = (error.text or "").rstrip("\n")
    pointer = ""
    if source and error.offset:
        indent = len(source) - len(source.lstrip())
        pointer = "\n    " + " " * max(0, error.offset - 1 - indent) + "^"
    shown = f"\n    {source.strip()}{pointer}" if source else ""
    return f"{where}, line {error.lineno}{shown}\n{error_name(error)}: {error.msg}"
