"""Undone one turn at a time, variables come back as they do at once."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from undo.test_namespace import Namespace, outcomes, turn

from jupyter_agent.undo.namespace import IN_PLACE, SINCE, SINCE_IN_PLACE, Bindings
from jupyter_agent.undo.process_state import FOLDER, NUMPY, RANDOM


@dataclasses.dataclass
class Point:
    """A plain dataclass."""

    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Slotted:
    """A dataclass without a dictionary."""

    x: int


def shown(value: Any) -> str:
    """What a value holds, in full."""
    if isinstance(value, pd.DataFrame):
        return f"{value.to_dict()} {value.attrs}"
    if isinstance(value, np.ndarray):
        return f"{value.tolist()} {value.flags.writeable}"
    return repr(value)


@pytest.mark.parametrize(
    ("make", "mutate"),
    [
        (lambda: [1], lambda v, n: v.append(n)),
        (lambda: {"a": [1]}, lambda v, n: v["a"].append(n)),
        (lambda: {"a": {"b": [1]}}, lambda v, n: v["a"]["b"].append(n)),
        (lambda: {1}, lambda v, n: v.add(n + 10)),
        (lambda: ([1], 2), lambda v, n: v[0].append(n)),
        (lambda: np.zeros(3), lambda v, n: v.__setitem__(1, n)),
        (lambda: np.array([1, "x", [1]], dtype=object), lambda v, n: v[2].append(n)),
        (lambda: np.array([1, "x"], dtype=object), lambda v, n: v.__setitem__(0, n + 10)),
        (lambda: pd.DataFrame({"a": [1.0, 2]}), lambda v, n: v.__setitem__(f"c{n}", n)),
        (lambda: pd.DataFrame({"a": [1.0, 2]}), lambda v, n: v.attrs.update(n=n)),
        (
            lambda: pd.DataFrame({"a": [None, "x"]}, dtype=object),
            lambda v, n: v.iloc.__setitem__((0, 0), str(n)),
        ),
        (
            lambda: pl.DataFrame({"a": [1, 2]}),
            lambda v, n: v.insert_column(0, pl.Series(f"c{n}", [n, n])),
        ),
        (lambda: Point(1), lambda v, n: v.tags.append(str(n))),
        (lambda: [Point(1)], lambda v, n: setattr(v[0], "x", n + 10)),
        (lambda: [Slotted(1)], lambda v, n: setattr(v[0], "x", n + 10)),
    ],
)
def test_one_at_a_time(make: Callable[[], Any], mutate: Callable[[Any, int], object]) -> None:
    """Two turns change an object in place; undone one by one, and redone, each state is exact."""
    bindings, value = Bindings(), make()
    here: Namespace = {"v": value, "also": value, "holder": {"v": value}}
    states = [shown(here["v"])]
    for number in (1, 2, 3):
        turn(bindings, f"t{number}", here, lambda n=number: mutate(here["v"], n))
        states.append(shown(here["v"]))
    assert len(set(states)) == 4
    for undone in (3, 2, 1):
        found = outcomes(bindings.rewind([f"t{undone}"], f"u{undone}", here))
        assert found == {"v": "copied", "also": "copied", "holder": "copied"}
        assert shown(here["v"]) == states[undone - 1]
        assert here["v"] is here["also"] is here["holder"]["v"]
    for redone in (1, 2, 3):
        bindings.rewind([f"u{redone}"], f"r{redone}", here)
        assert shown(here["v"]) == states[redone]
        assert here["v"] is here["also"] is here["holder"]["v"]
    assert here["v"] is value


def test_bound_anew_and_then_changed() -> None:
    """A turn binds a name to another list, the next one appends to that: back to the first."""
    bindings, first = Bindings(), [0]
    here: Namespace = {"l": first}
    turn(bindings, "t1", here, lambda: here.update(l=[1]))
    turn(bindings, "t2", here, lambda: here["l"].append(2))
    bindings.rewind(["t2"], "u2", here)
    assert here == {"l": [1]}
    bindings.rewind(["t1"], "u1", here)
    assert here["l"] is first
    bindings.rewind(["u1"], "r1", here)
    bindings.rewind(["u2"], "r2", here)
    assert here == {"l": [1, 2]}


def test_what_a_turn_left_alone_stays_shared() -> None:
    """A dictionary is restored, the list in it did not change: it is the person's list again."""
    bindings, inner = Bindings(), [1]
    here: Namespace = {"inner": inner, "d": {"x": inner}}
    turn(bindings, "t1", here, lambda: here["d"].update(y=2))
    turn(bindings, "t2", here, lambda: inner.append(2))
    bindings.rewind(["t2"], "u2", here)
    assert here == {"inner": [1], "d": {"x": [1], "y": 2}}
    assert here["d"]["x"] is here["inner"]
    bindings.rewind(["t1"], "u1", here)
    assert here == {"inner": [1], "d": {"x": [1]}}
    assert here["d"]["x"] is here["inner"]


def test_changed_by_the_person_after_an_undo() -> None:
    """What the person does to the restored object is theirs, in the next undo and in redo."""
    bindings = Bindings()
    here: Namespace = {"l": [1]}
    turn(bindings, "t1", here, lambda: here["l"].append(2))
    turn(bindings, "t2", here, lambda: here["l"].append(3))
    bindings.rewind(["t2"], "u2", here)
    here["l"].append("mine")
    assert outcomes(bindings.rewind(["t1"], "u1", here)) == {"l": SINCE_IN_PLACE}
    assert here == {"l": [1, 2, "mine"]}
    here["l"] = "mine"
    assert outcomes(bindings.rewind(["u2"], "r2", here)) == {"l": SINCE}


def test_a_copy_that_the_person_kept() -> None:
    """The person changes an object that an undo gave them: the next undo gives the right one."""
    bindings = Bindings()
    here: Namespace = {"l": [1]}
    turn(bindings, "t1", here, lambda: here["l"].append(2))
    bindings.rewind(["t1"], "u1", here)
    kept = here["l"]
    bindings.rewind(["u1"], "r1", here)
    kept.append("mine")
    bindings.rewind(["t1"], "u2", here)
    assert here == {"l": [1]}
    assert kept == [1, "mine"]


def test_deep_changes_of_the_person_are_seen() -> None:
    """The person changes something deep inside after the turn: that is not lost."""
    bindings = Bindings()
    here: Namespace = {"d": {"a": {"b": [1]}}}
    turn(bindings, "t1", here, lambda: here["d"]["a"]["b"].append(2))
    here["d"]["a"]["b"].append("mine")
    assert outcomes(bindings.rewind(["t1"], "u1", here)) == {"d": SINCE_IN_PLACE}


def test_a_circle() -> None:
    """A list that holds itself, step by step."""
    bindings = Bindings()
    here: Namespace = {"l": [1]}
    here["l"].append(here["l"])
    for number in (2, 3):
        turn(bindings, f"t{number}", here, lambda n=number: here["l"].append(n))
    for number in (3, 2):
        bindings.rewind([f"t{number}"], f"u{number}", here)
        assert here["l"][1] is here["l"]
        assert len(here["l"]) == number
    assert here["l"][0] == 1


NAMES = ("a", "b", "c", "df", "arr")
STEP = st.tuples(
    st.sampled_from(["append", "rebind", "delete", "new", "alias", "nest", "frame", "array"]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.integers(0, 9),
)


def act(here: Namespace, step: tuple[str, str, str, int]) -> None:
    """One thing that the code of a turn does."""
    kind, name, other, number = step
    value = here.get(name)
    if kind == "append" and isinstance(value, list):
        value.append(number)
    elif kind == "rebind" and isinstance(value, list):
        here[name] = [*value, number]
    elif kind == "delete":
        here.pop(name, None)
    elif kind == "new":
        here[name] = [number]
    elif kind == "alias" and other in here:
        here[name] = here[other]
    elif kind == "nest" and isinstance(value, list) and other in here and len(value) < 6:
        value.append(here[other])
    elif kind == "frame":
        if isinstance(value, pd.DataFrame):
            value.loc[0, "n"] = number
            value[f"c{number}"] = number
        else:
            here[name] = pd.DataFrame({"n": [number, 1]})
    elif kind == "array":
        if isinstance(value, np.ndarray):
            value[number % len(value)] += 1
        else:
            here[name] = np.arange(float(number + 1))


def graph(here: Namespace) -> Any:
    """All values with what they share, without identities."""
    seen: dict[int, int] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, (list, pd.DataFrame, np.ndarray)):
            if id(value) in seen:
                return f"see {seen[id(value)]}"
            seen[id(value)] = len(seen)
        if isinstance(value, list):
            return [walk(each) for each in value]
        return shown(value)

    return {name: walk(here[name]) for name in sorted(here)}


@settings(max_examples=50, deadline=None)
@given(
    turns=st.lists(st.lists(STEP, max_size=4), min_size=1, max_size=5),
    back=st.lists(st.integers(1, 3), max_size=5),
    redos=st.integers(0, 3),
)
def test_one_by_one_is_all_at_once(
    turns: list[list[tuple[str, str, str, int]]], back: list[int], redos: int
) -> None:
    """Any turns: undone in any steps, redone in between, each state is the one from before."""
    bindings = Bindings()
    here: Namespace = {"a": [0], "b": [1], "df": pd.DataFrame({"n": [1, 2]})}
    states = [graph(here)]
    for number, steps in enumerate(turns):
        turn(bindings, f"t{number}", here, lambda s=steps: [act(here, each) for each in s])
        states.append(graph(here))
    now, undos = len(turns), 0
    done: list[tuple[str, int, int]] = []
    for count in [*back, *([1] * len(turns))]:
        if count > now:
            continue
        undos += 1
        ids = [f"t{number}" for number in range(now - 1, now - 1 - count, -1)]
        results = bindings.rewind(ids, f"u{undos}", here)
        assert {each.outcome for each in results} <= {"bound", "copied", "removed"}
        done.append((f"u{undos}", now, now - count))
        now -= count
        assert graph(here) == states[now]
        if redos and len(done) > 1:
            redos -= 1
            undo, now, _ = done.pop()
            bindings.rewind([undo], f"r{undos}", here)
            assert graph(here) == states[now]
    assert graph(here) == states[now]


# What is no variable, and what has no copy -------------------------------------------------------


def test_the_state_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment, the folder and random generators go back and forth."""
    monkeypatch.setenv("CHECK_CHANGED", "before")
    monkeypatch.setenv("CHECK_GONE", "before")
    monkeypatch.delenv("CHECK_NEW", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    random.seed(1)
    np.random.seed(1)
    bindings = Bindings()

    def change() -> None:
        os.environ["CHECK_CHANGED"] = os.environ["CHECK_NEW"] = "after"
        del os.environ["CHECK_GONE"]
        os.chdir("below")
        random.random()
        np.random.random()

    def now() -> tuple[object, ...]:
        found = [os.environ.get(f"CHECK_{name}") for name in ("CHANGED", "NEW", "GONE")]
        return (*found, Path.cwd().name, random.getstate(), np.random.get_state()[2])

    before = now()
    turn(bindings, "t1", {}, change)
    after = now()
    assert outcomes(bindings.rewind(["t1"], "u1", {})) == {
        "os.environ['CHECK_CHANGED']": "bound",
        "os.environ['CHECK_NEW']": "removed",
        "os.environ['CHECK_GONE']": "bound",
        FOLDER: "bound",
        RANDOM: "bound",
        NUMPY: "bound",
    }
    assert now() == before
    bindings.rewind(["u1"], "r1", {})
    assert now() == after
    os.environ["CHECK_NEW"] = "mine"
    assert outcomes(bindings.rewind(["t1"], "u2", {}))["os.environ['CHECK_NEW']"] == SINCE_IN_PLACE
    assert os.environ["CHECK_NEW"] == "mine"


def test_large_arrays_and_tables_are_seen() -> None:
    """One cell of a large array or table changes, or two change places: it is named."""
    array, swapped = np.zeros(2_000_000), np.arange(2_000_000)
    table = pd.DataFrame({"a": np.zeros(2_000_000), "b": 1})
    bindings = Bindings()
    here: Namespace = {
        "array": array,
        "swapped": swapped,
        "table": table,
        "same": np.ones(2_000_000),
    }

    def change() -> None:
        array[777_777] = 1e-300
        swapped[[55, 1_000_057]] = swapped[[1_000_057, 55]]
        table.iloc[1_234_567, 0] = 1

    turn(bindings, "t1", here, change)
    assert sorted(bindings.lost("t1")) == ["array", "swapped", "table"]
    found = outcomes(bindings.rewind(["t1"], "u1", here))
    assert found == {"array": IN_PLACE, "swapped": IN_PLACE, "table": IN_PLACE}


def test_an_array_that_is_made_read_only() -> None:
    """`flags.writeable` goes back."""
    bindings = Bindings()
    here: Namespace = {"a": np.zeros(3), "large": np.zeros(2_000_000)}

    def change() -> None:
        for name in ("a", "large"):
            here[name].flags.writeable = False

    turn(bindings, "t1", here, change)
    assert outcomes(bindings.rewind(["t1"], "u1", here)) == {"a": "copied", "large": IN_PLACE}
    assert here["a"].flags.writeable


def test_generators_functions_and_classes() -> None:
    """A generator that went on, attributes of functions and classes: seen, and named."""

    def made() -> Any:
        yield from [1, 2, 3]

    def function() -> None: ...

    class Mine:
        limit = 1

    Mine.__module__ = "__main__"
    bindings = Bindings()
    here: Namespace = {"gen": made(), "each": (n for n in range(3)), "f": function, "C": Mine}
    next(here["each"])

    def change() -> None:
        next(here["gen"])
        next(here["each"])
        function.calls = 1  # type: ignore[attr-defined]
        Mine.limit = 2

    turn(bindings, "t1", here, change)
    names = ("gen", "each", "f", "C")
    assert sorted(bindings.lost("t1")) == sorted(names)
    assert outcomes(bindings.rewind(["t1"], "u1", here)) == dict.fromkeys(names, IN_PLACE)


def test_what_cannot_be_seen_through_is_named() -> None:
    """Variables that the code uses, and that hold what nobody looks into, are given by name."""
    bindings = Bindings()
    here: Namespace = {
        "pairs": zip([1, 2], [3, 4], strict=True),
        "many": [object()],
        "unused": iter([1]),
        "number": 1,
        "when": pd.Timestamp(0),
        "path": Path(),
        "rows": [1],
    }
    before = _snapshot(here)
    bindings.begin("t1", before, here)
    next(here["pairs"])
    code = "next(pairs); print(many, number, when, path, rows)"
    bindings.end("t1", _snapshot(here), here, [code])
    assert bindings.unseen("t1") == ("many (list)", "pairs (zip)")


def of_notebook(thing: Any) -> Any:
    """A function or class as if it was defined in the notebook."""
    thing.__module__ = "__main__"
    return thing


def test_what_functions_and_classes_hold_is_named() -> None:
    """Attributes, default values and closures that can change inside are not looked into, and
    named where the code uses their function, method or class; functions without such are not."""

    def remembers(item: int, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(item)

    def by_keyword(item: int, *, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(item)

    def has_attributes() -> None: ...

    has_attributes.cache = {}  # type: ignore[attr-defined]

    def closing_over(values: list[int]) -> Callable[[int], None]:
        def added(item: int) -> None:
            values.append(item)

        return of_notebook(added)

    def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(item: Any) -> Any:
            return function(item)

        return of_notebook(called)

    def harmless(items: list[int], columns: tuple[str, ...] = ("a", "b"), count: int = 5) -> int:
        return len(items) + len(columns) + count

    class Registry:
        items: list[int] = []  # noqa: RUF012

    class Below(Registry): ...

    class WithDefault:
        @classmethod
        def add(cls, item: int, seen: list[int] = []) -> None:  # noqa: B006
            seen.append(item)

    class Harmless:
        limit = 1

        @property
        def twice(self) -> int:
            return 2 * self.limit

        def method(self, count: int = 1) -> int:
            return count

    @dataclasses.dataclass
    class Fields:
        x: int = 1
        tags: list[str] = dataclasses.field(default_factory=list)

    class Colour(enum.Enum):
        RED = 1

    class Pair(NamedTuple):
        x: int = 1

    for each in (remembers, by_keyword, has_attributes, harmless, WithDefault.add.__func__):  # type: ignore[attr-defined]
        of_notebook(each)
    for cls in (Registry, Below, WithDefault, Harmless, Fields, Colour, Pair):
        of_notebook(cls)
    here: Namespace = {
        "remembers": remembers,
        "by_keyword": by_keyword,
        "has_attributes": has_attributes,
        "closure": closing_over([]),
        "wrapped": wrapping(closing_over([])),
        "Registry": Registry,
        "Below": Below,
        "WithDefault": WithDefault,
        "push": [].append,
        "handlers": {"a": remembers, "b": [Registry]},
        "harmless": harmless,
        "wrapped_harmless": wrapping(harmless),
        "Harmless": Harmless,
        "Fields": Fields,
        "Colour": Colour,
        "Pair": Pair,
        "randint": random.randint,
        "wraps": functools.wraps,
        "plain_handlers": {"a": harmless, "b": [Harmless, int]},
        "by_class": {int: 1, Harmless: "x"},
        "unused": closing_over([]),
    }
    bindings = Bindings()
    bindings.begin("t1", _snapshot(here), here)
    for name in ("remembers", "by_keyword", "closure", "wrapped", "push"):
        here[name](1)
    has_attributes.cache[1] = 2  # type: ignore[attr-defined]
    Registry.items.append(1)
    WithDefault.add(1)
    code = " ".join(name for name in here if name != "unused")
    bindings.end("t1", _snapshot(here), here, [code])
    assert bindings.unseen("t1") == (
        "Below (type)",
        "Registry (type)",
        "WithDefault (type)",
        "by_keyword (function)",
        "closure (function)",
        "handlers (dict)",
        "has_attributes (function)",
        "push (builtin_function_or_method)",
        "remembers (function)",
        "wrapped (function)",
    )
    assert bindings.changed("t1") == ()


def test_variables_of_a_closure_and_defaults_that_are_bound_anew() -> None:
    """A counter in a closure goes on, a function gets other default values: named as changed."""

    def counting() -> Callable[[], int]:
        count = 1_000

        def step() -> int:
            nonlocal count
            count += 1
            return count

        return of_notebook(step)

    def function(limit: int = 1, *, most: int = 2) -> int:
        return limit + most

    def other(limit: int = 1, *, most: int = 2) -> int:
        return limit + most

    of_notebook(function)
    of_notebook(other)
    here: Namespace = {"step": counting(), "function": function, "other": other, "idle": counting()}
    bindings = Bindings()

    def change() -> None:
        here["step"]()
        function.__defaults__ = (3,)
        other.__kwdefaults__ = {"most": 3}

    turn(bindings, "t1", here, change)
    assert sorted(bindings.lost("t1")) == ["function", "other", "step"]
    found = outcomes(bindings.rewind(["t1"], "u1", here))
    assert found == dict.fromkeys(("function", "other", "step"), IN_PLACE)


def _snapshot(here: Namespace) -> Any:
    from jupyter_agent.kernel.changes import snapshot

    return snapshot(here)
