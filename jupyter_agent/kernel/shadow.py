"""Replaces a method for a while, and restores the former one.

Loaded with the extension, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def shadow(owner: Any, name: str, value: object) -> Callable[[], None]:
    """Shadow a method by an attribute of its owner. Returns a function that restores it.

    If other code has replaced the attribute meanwhile, that one stays.

    Raises:
        AttributeError: The owner has no place for attributes (a stream of C).
    """
    missing = object()
    former = vars(owner).get(name, missing)
    setattr(owner, name, value)

    def restore() -> None:
        if vars(owner).get(name, missing) is not value:
            return
        if former is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, former)

    return restore


@contextmanager
def swapped(owner: Any, name: str, value: object) -> Iterator[None]:
    """Shadow a method by an attribute of its owner within this context."""
    restore = shadow(owner, name, value)
    try:
        yield
    finally:
        restore()
