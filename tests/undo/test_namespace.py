"""Undo of bindings: names go back to the objects that they had."""

from __future__ import annotations

import gc
import time
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from live_kernel import LiveKernel

from jupyter_agent.kernel.changes import Snapshot, snapshot
from jupyter_agent.undo.copies import MISSING, Copier, differs
from jupyter_agent.undo.namespace import BETWEEN, IN_PLACE, SINCE, SINCE_IN_PLACE, Bindings, Rebound

Namespace = dict[str, Any]


class Thing:
    """An object of the person's. Copying or comparing it is an error."""

    def __init__(self) -> None:
        self.value = 1

    def __copy__(self) -> Thing:
        raise AssertionError("copied")

    def __deepcopy__(self, memo: object) -> Thing:
        raise AssertionError("copied")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")


def variables(namespace: Namespace) -> Snapshot:
    return snapshot({n: v for n, v in namespace.items() if type(v) is not types.ModuleType})


def turn(bindings: Bindings, name: str, namespace: Namespace, change: Callable[[], object]) -> None:
    bindings.begin(name, variables(namespace), namespace)
    change()
    bindings.end(name, variables(namespace), namespace)


def outcomes(results: tuple[Rebound, ...]) -> dict[str, str]:
    return {each.name: each.why or each.outcome for each in results}


def test_made_bound_deleted() -> None:
    """New names are removed; rebound and deleted names have their objects again."""
    bindings = Bindings()
    table, model = pd.DataFrame({"a": [1]}), Thing()
    here: Namespace = {"df": table, "model": model, "x": 1, "same": "s"}

    def change() -> None:
        here.update(df=table.head(0), new=[1], x=2)
        del here["model"]

    turn(bindings, "t1", here, change)
    later = dict(here)
    results = bindings.rewind(["t1"], "u1", here)
    assert outcomes(results) == {"df": "bound", "new": "removed", "x": "bound", "model": "bound"}
    assert here["df"] is table
    assert here["model"] is model
    assert set(here) == {"df", "model", "x", "same"}
    bindings.rewind(["u1"], "r1", here)
    assert here.keys() == later.keys()
    assert all(here[name] is later[name] for name in later)


def test_as_before_in_the_middle_of_a_turn() -> None:
    """The objects of before, copies of those that changed, and the names of what cannot be had; a
    changed object without a copy is that object, whatever has its name now. Nothing is bound."""
    bindings = Bindings()
    model, other, rows = Thing(), Thing(), [1, 2]
    here: Namespace = {"model": model, "other": other, "rows": rows, "x": 1, "same": "s"}
    bindings.begin("t", variables(here), here)
    model.more = other.more = 2  # type: ignore[attr-defined]
    rows.append(3)
    here.update(model="theirs", x=2)
    found = bindings.as_before("t", variables(here))
    assert found.objects.keys() == {"model", "rows", "x"} and found.objects["model"] is model
    assert (found.objects["rows"], found.objects["x"]) == ([1, 2], 1)
    assert (found.lost, found.unseen, here["model"]) == (("other", "model"), (), "theirs")
    assert bindings.as_before("another", variables(here)).objects == {}


@pytest.mark.parametrize(
    ("value", "mutate"),
    [
        ([1, 2], lambda v: v.append(3)),
        ([[1], [2]], lambda v: v[1].append(3)),
        ({"a": 1}, lambda v: v.update(b=2)),
        ({"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
        ({1, 2}, lambda v: v.add(3)),
        (bytearray(b"ab"), lambda v: v.extend(b"c")),
        (deque([1], maxlen=2), lambda v: v.append(3)),
        (defaultdict(list, a=[1]), lambda v: v["a"].append(2)),
        (Counter("aab"), lambda v: v.update("b")),
        (Counter({"a": np.float64(1)}), lambda v: v.update("b")),  # type: ignore[dict-item]
        (OrderedDict(a=[1], b=[2]), lambda v: v.move_to_end("a")),
        (([1], 2), lambda v: v[0].append(3)),
        (np.arange(6.0).reshape(2, 3), lambda v: v.__setitem__((1, 1), 99)),
        (np.zeros(1_000_000), lambda v: v.__setitem__(777_777, 1)),
        (pd.DataFrame({"a": [1.0, 2.0]}), lambda v: v.insert(0, "b", 1)),
        (pd.DataFrame({"a": np.zeros(100_000)}), lambda v: v.__setitem__("a", v["a"] + 1)),
        (pd.Series([1, 2, 3]), lambda v: v.__setitem__(0, 9)),
        ({"table": pd.DataFrame({"a": [1]})}, lambda v: v["table"].__setitem__("b", 2)),
        (pl.DataFrame({"a": [1]}), lambda v: v.insert_column(0, pl.Series("b", [2]))),
    ],
)
def test_changed_in_place_and_copied(value: Any, mutate: Callable[[Any], object]) -> None:
    """An object changed in place is replaced by its earlier copy, for both of its names."""
    before = repr(value)
    bindings = Bindings()
    here: Namespace = {"v": value, "also": value}
    turn(bindings, "t1", here, lambda: mutate(value))
    after = repr(value)
    assert after != before or len(after) > 200 or "..." in after
    assert outcomes(bindings.rewind(["t1"], "u1", here)) == {"v": "copied", "also": "copied"}
    assert repr(here["v"]) == before
    assert type(here["v"]) is type(value)
    assert here["v"] is here["also"]
    assert differs(here["v"], value) or isinstance(value, pl.DataFrame)
    bindings.rewind(["u1"], "r1", here)
    assert here["v"] is value
    assert here["also"] is value


def test_changed_in_place_and_not_copied() -> None:
    """Objects of other kinds, and large ones, are named and stay."""
    bindings = Bindings()
    thing, large = Thing(), np.zeros(2_000_000)
    here: Namespace = {"thing": thing, "large": large, "holder": [thing]}

    def change() -> None:
        thing.value = 2
        large[0] = 1
        here["holder"].append(1)

    turn(bindings, "t1", here, change)
    found = outcomes(bindings.rewind(["t1"], "u1", here))
    assert found == {"thing": IN_PLACE, "large": IN_PLACE, "holder": "copied"}
    assert here["thing"] is thing
    assert here["large"] is large
    assert here["holder"][0] is thing
    assert len(here["holder"]) == 1


def test_changed_in_place_and_then_bound_to_something_else() -> None:
    """A changed and rebound object is replaced by its copy, or stays if there is none."""
    bindings = Bindings()
    here: Namespace = {"items": [1], "thing": Thing(), "gone": [1]}

    def change() -> None:
        here["items"].append(2)
        here["items"] = "other"
        here["thing"].value = 2
        here["thing"] = "other"
        here.pop("gone").append(2)

    turn(bindings, "t1", here, change)
    found = outcomes(bindings.rewind(["t1"], "u1", here))
    assert found == {"items": "copied", "thing": IN_PLACE, "gone": "copied"}
    assert here == {"items": [1], "thing": "other", "gone": [1]}


def test_what_the_person_did_since_stays() -> None:
    """Names that the person changed after the turn stay."""
    bindings = Bindings()
    here: Namespace = {"a": 1, "b": 1, "c": 1}
    turn(bindings, "t1", here, lambda: here.update(a=2, b=[2], new=[1], c=2, unused=1))
    here["a"] = "mine"
    here["b"].append("mine")
    here["new"].append("mine")
    found = outcomes(bindings.rewind(["t1"], "u1", here))
    assert found == {
        "a": SINCE,
        "b": SINCE_IN_PLACE,
        "new": SINCE_IN_PLACE,
        "c": "bound",
        "unused": "removed",
    }
    assert here == {"a": "mine", "b": [2, "mine"], "new": [1, "mine"], "c": 1}


def test_several_turns() -> None:
    """Undoing several turns restores the bindings before the first of them."""
    bindings = Bindings()
    first = [0]
    here: Namespace = {"x": first, "y": 1, "mine": 1}
    turn(bindings, "t1", here, lambda: here.update(x=[1], z=1, mine=2))
    here["mine"] = "by me"
    turn(bindings, "t2", here, lambda: (here["x"].append(2), here.update(y=2, mine=3)))
    turn(bindings, "t3", here, lambda: here.update(z=3, new=3))
    found = outcomes(bindings.rewind(["t3", "t2", "t1"], "u1", here))
    assert found == {"z": "removed", "new": "removed", "x": "bound", "y": "bound", "mine": BETWEEN}
    assert here == {"x": first, "y": 1, "mine": 3}
    assert here["x"] is first
    bindings.rewind(["u1"], "r1", here)
    assert here == {"x": [1, 2], "y": 2, "z": 3, "new": 3, "mine": 3}


def test_changed_in_place_between_turns() -> None:
    """An append of the person between two turns is not lost when both are undone."""
    bindings = Bindings()
    here: Namespace = {"x": 0}
    turn(bindings, "t1", here, lambda: here.update(x=[1]))
    here["x"].append("mine")
    turn(bindings, "t2", here, lambda: here.update(x=[2]))
    assert outcomes(bindings.rewind(["t2", "t1"], "u1", here)) == {"x": BETWEEN}
    assert outcomes(bindings.rewind(["t2"], "u2", here)) == {"x": "bound"}
    assert here == {"x": [1, "mine"]}


def test_a_module_that_became_a_variable() -> None:
    """A name that was a module's is the module's again."""
    bindings = Bindings()
    here: Namespace = {"np": np}
    turn(bindings, "t1", here, lambda: here.update(np=1))
    bindings.rewind(["t1"], "u1", here)
    assert here["np"] is np


def test_only_the_last_turns_keep_objects_alive() -> None:
    """Objects replaced six turns ago are freed, and all of them after `forget`."""
    bindings = Bindings(turns=5)
    here: Namespace = {"table": pd.DataFrame({"a": [0]})}
    replaced = []
    for number in range(7):
        replaced.append(weakref.ref(here["table"]))
        table = pd.DataFrame({"a": [number + 1]})
        turn(bindings, f"t{number}", here, lambda table=table: here.update(table=table))
        del table
    gc.collect()
    assert [each() is not None for each in replaced] == [False, False, True, True, True, True, True]
    assert [bindings.knows(f"t{number}") for number in range(7)] == [False] * 2 + [True] * 5
    bindings.forget()
    gc.collect()
    assert all(each() is None for each in replaced)


def test_what_a_turn_left_alone_is_not_kept() -> None:
    """A variable that no turn touched is freed when deleted."""
    bindings = Bindings()
    here: Namespace = {"table": pd.DataFrame({"a": [0]}), "x": 1}
    turn(bindings, "t1", here, lambda: here.update(x=2))
    alive = weakref.ref(here["table"])
    del here["table"]
    gc.collect()
    assert alive() is None


def test_switched_off() -> None:
    """With no turns to remember nothing is copied or kept."""
    bindings = Bindings(turns=0)
    here: Namespace = {"x": [1]}
    turn(bindings, "t1", here, lambda: here["x"].append(2))
    assert not bindings.knows("t1")
    assert bindings.rewind(["t1"], "u1", here) == ()


# Copies ------------------------------------------------------------------------------------------


def test_the_persons_classes_run_no_code() -> None:
    """None of the person's `__copy__`, `__deepcopy__`, `__eq__` or `__hash__` is called."""
    thing = Thing()
    copy = Copier().copy([thing, {"a": thing}, (thing, [thing])])
    assert copy[0] is copy[1]["a"] is copy[2][0] is copy[2][1][0] is thing
    assert not differs(copy, [thing, {"a": thing}, (thing, [thing])])
    assert differs(copy, [Thing(), {"a": thing}, (thing, [thing])])
    table = pd.DataFrame({"a": [1]})
    table.attrs["owner"] = thing
    assert Copier().copy(table) is MISSING


def test_a_class_that_calls_itself_a_dataframe() -> None:
    """A class with a library's name is not treated as the library's."""

    class DataFrame:
        def copy(self) -> None:
            raise AssertionError("copied")

    assert Copier().copy(DataFrame()) is MISSING


def test_a_list_that_holds_itself() -> None:
    """The copy of a list that holds itself holds itself."""
    value: list[Any] = [1]
    value.append(value)
    copy = Copier().copy(value)
    assert copy[1] is copy
    assert copy is not value
    assert not differs(copy, value)
    value[0] = 2
    assert differs(copy, value)


def test_limits() -> None:
    """Objects beyond the limit, alone or together, are not copied."""
    copier = Copier(object_bytes=1_000_000, total_bytes=1_500_000)
    assert copier.copy(np.zeros(200_000)) is MISSING
    assert copier.copy(np.zeros(100_000)) is not MISSING
    assert copier.copy(np.zeros(100_000)) is MISSING
    assert copier.copy(np.zeros(50_000)) is not MISSING
    assert Copier().copy([[] for _ in range(200_000)]) is MISSING


def test_copying_takes_little_time() -> None:
    """Copying and comparing 50 MB takes a fraction of a second."""
    here: Namespace = {f"a{n}": np.random.default_rng(n).random(1_200_000) for n in range(5)}
    here |= {f"l{n}": list(range(100_000)) for n in range(5)}
    bindings = Bindings()
    began = time.process_time()
    turn(bindings, "t1", here, lambda: None)
    assert time.process_time() - began < 1.5


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=15,
)


@settings(max_examples=examples(150), deadline=None)
@given(PLAIN, st.data())
def test_a_copy_is_equal_and_apart(value: Any, data: st.DataObject) -> None:
    """A copy is equal, differs after a change of the original, and is not changed by it."""
    copy = Copier().copy(value)
    assert repr(copy) == repr(value)
    assert not differs(copy, value)
    inner = list(containers(value))
    if inner:
        before = repr(copy)
        changed = data.draw(st.sampled_from(inner))
        if isinstance(changed, dict):
            changed["a new key"] = 1
        else:
            changed.append(1)
        assert differs(copy, value)
        assert repr(copy) == before


def containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(each for item in value.values() for each in containers(item))]
    if isinstance(value, (list, tuple)):
        inner = [each for item in value for each in containers(item)]
        return [value, *inner] if isinstance(value, list) else inner
    return []


def test_in_a_real_kernel(kernel: LiveKernel) -> None:
    """In a live kernel a turn's names are removed and the person's come back."""
    cell = kernel.run(
        """\
        from jupyter_agent.undo.namespace import Bindings
        from jupyter_agent.kernel.changes import snapshot
        from jupyter_agent.kernel.variables import user_variables
        _ip, _bindings = get_ipython(), Bindings()
        numbers, word = [1, 2], "mine"
        _bindings.begin("t1", snapshot(user_variables(_ip)), _ip.user_ns)
        numbers.append(3); word = 5; made = {}
        import math as m
        _bindings.end("t1", snapshot(user_variables(_ip)), _ip.user_ns)
        _found = _bindings.rewind(["t1"], "u1", _ip.user_ns)
        print(sorted((each.name, each.outcome) for each in _found))
        print(numbers, word, "made" in globals())
        """
    )
    assert cell.stdout.splitlines() == [
        "[('made', 'removed'), ('numbers', 'copied'), ('word', 'bound')]",
        "[1, 2] mine False",
    ], cell.error
