"""The files below a folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def files_below(folder: Path, pattern: str, enters: Callable[[Path], bool]) -> Iterator[Path]:
    """Those whose names fit a pattern, folder by folder in order. Hidden ones are left out.

    Args:
        folder: Where to begin.
        pattern: As in a shell.
        enters: Whether to look into a folder that is not hidden. Links are not followed.
    """
    for root, names, files in os.walk(folder):
        here = Path(root)
        names[:] = sorted(n for n in names if not n.startswith(".") and enters(here / n))
        for name in sorted(fnmatch.filter(files, pattern)):
            if not name.startswith("."):
                yield here / name
