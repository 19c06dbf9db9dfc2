"""What the policy is told of a name, without running anything of the person's."""

from __future__ import annotations

import io
import math
import os
import shutil
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jupyter_agent.policy import Known
from jupyter_agent.policy.known import KnownNames, known


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.csv", Known(text="a.csv")),
        ("x" * 5_000, Known()),
        (os, Known(qualified="os")),
        (shutil.rmtree, Known(qualified="shutil.rmtree")),
        (math.sqrt, Known(qualified="math.sqrt")),
        (io.StringIO(), Known(in_memory=True)),
        (7, Known()),
        (None, Known()),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_known(value: object, expected: Known) -> None:
    """Modules and functions are known by their own names, short texts by their values."""
    assert known(value) == expected


def test_a_path() -> None:
    """A path is known by its text, whatever its variable's name."""
    assert known(Path("a") / "b").text == str(Path("a", "b"))


class Spy:
    """Notes every access that would run code of the person's."""

    ran: ClassVar[list[str]] = []

    @property
    def __class__(self) -> type:  # type: ignore[override]
        Spy.ran.append("__class__")
        return types.ModuleType

    def __getattribute__(self, name: str) -> Any:
        Spy.ran.append(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        Spy.ran.append("repr")
        return "spy"


class Watching(type):
    """A metaclass that notes which attributes are looked up."""

    def __getattribute__(cls, name: str) -> Any:
        Spy.ran.append(name)
        return type.__getattribute__(cls, name)


class Watched(metaclass=Watching):
    pass


class Module(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        Spy.ran.append(name)
        return super().__getattribute__(name)


@pytest.fixture
def ran() -> Iterator[list[str]]:
    Spy.ran.clear()
    yield Spy.ran


@pytest.mark.parametrize("make", [Spy, lambda: Watched, Watched, lambda: Module("m")])
def test_nothing_is_run(make: Any, ran: list[str]) -> None:
    """Inspecting objects runs none of their code."""
    value = make()
    ran.clear()
    KnownNames({"value": value})["value"]
    assert ran == []
