"""Random turns with delegates: no object of the person's changes without being named."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from generated import PROFILE, SEED, seed
from live_kernel import LiveKernel, execute_code

MINE = """
import collections, functools, io, itertools, types
import numpy as np, pandas as pd
class Account:
    def __init__(self): self.sum, self.log = 1, [1]
class Slotted:
    __slots__ = ("inner",)
    def __init__(self): self.inner = {"k": [1]}
numbers = [3, 1, 2]
nested = {"a": [1, {"b": 2}], "n": numbers}
alias = nested["a"]
letters = {"x", "y"}
raw = bytearray(b"abc")
queue = collections.deque([1, 2])
counted = collections.Counter("aab")
frame = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")})
column = frame["a"]
grid = np.arange(6).reshape(2, 3)
view = grid[0]
account, slotted = Account(), Slotted()
space = types.SimpleNamespace(items=[1])
text = io.StringIO("abc")
once = iter([1, 2, 3])
pair = ([1], {2: 3})
big = np.zeros(3_000_000)
def spoil():
    numbers.append(9); nested["n2"] = 1
def peek(): return next(once)
def stepping(it=iter(range(9))):
    return lambda: next(it)
step = stepping()
stepper, held = functools.partial(next, once), {"deep": [once]}
class Reader:
    kept = [1]
    @property
    def more(self): return next(once)
    @classmethod
    def keep(cls, n): cls.kept.append(n)
reader = Reader()
rows = (n for n in range(50))
"""
SEEN = """
def _state_(value, depth=0):
    if isinstance(value, (list, tuple, collections.deque)):
        return [type(value).__name__, *(_state_(each, depth + 1) for each in value)]
    if isinstance(value, dict):
        return sorted((repr(k), _state_(v, depth + 1)) for k, v in value.items())
    if isinstance(value, (set, frozenset)): return sorted(map(repr, value))
    if isinstance(value, pd.DataFrame): return [list(value.columns), value.to_csv()]
    if isinstance(value, pd.Series): return value.to_csv()
    if isinstance(value, np.ndarray):
        return [value.shape, repr(value) if value.size < 100 else float(value.sum())]
    if isinstance(value, Slotted): return _state_(value.inner)
    if isinstance(value, (Account, types.SimpleNamespace)): return _state_(vars(value))
    if isinstance(value, io.StringIO): return [value.getvalue(), value.tell()]
    if isinstance(value, type(iter([]))): return value.__length_hint__()
    if isinstance(value, types.GeneratorType):
        return value.gi_frame and value.gi_frame.f_locals.get("n")
    if value is Reader: return value.kept
    if isinstance(value, types.FunctionType): return value.__code__.co_code.hex()
    return repr(value)
"""
NAMES = (
    *("numbers", "nested", "alias", "letters", "raw", "queue", "counted", "frame", "column"),
    *("grid", "view", "account", "slotted", "space", "text", "once", "pair", "big", "spoil"),
    *("Reader", "rows"),
)
ACTS = (
    "numbers.append({n})",
    "numbers = [{n}]",
    "nested['a'][1]['b'] = {n}",
    "alias.clear()",
    "x = nested; x['z'] = {n}; x['a'].append({n})",
    "letters.add('{n}')",
    "raw[0] = {n} % 250",
    "queue.rotate({n}); queue.append({n})",
    "counted.update('ab{n}')",
    "frame.loc[0, 'a'] = {n}",
    "frame['c{n}'] = 1",
    "frame.drop(columns='b', inplace=True)",
    "column.iloc[1] = {n}",
    "grid[0, 0] = {n}",
    "view += {n}",
    "account.sum += {n}; account.log.append({n})",
    "slotted.inner['k'].append({n})",
    "space.items.append({n}); space.other = {n}",
    "text.seek(0); text.write('{n}')",
    "next(once, None)",
    "pair[0].append({n})",
    "big[{n}] = 1",
    "spoil()",
    "peek()",
    "step()",
    "stepper()",
    "next(held['deep'][0])",
    "reader.more",
    "Reader().more; Reader.keep({n})",
    "next(rows)",
    "from __main__ import once as z; next(z)",
    "exec('nex' + 't(on' + 'ce)')",
    "list(map(lambda f: f(), [peek, stepper]))",
    "copy = list(queue); copy.append({n}); queue.extend(copy)",
    "del frame",
    "spoil = lambda: {n}",
    "import random as r; r.shuffle(numbers)",
    "numbers.sort(); raise ValueError('{n}')",
    "for each in (numbers, alias, pair[0]): each.append({n})",
    "[v.append({n}) for k, v in list(globals().items()) if type(v) is list]",
    "globals()['queue'].clear()",
    "made_{n} = numbers; made_{n}.append({n})",
    "import asyncio; letters.add('w'); await asyncio.sleep(0); letters.add('{n}')",
    "get_ipython().user_ns['raw'].extend(b'{n}')",
    "result = sum(numbers) + {n}",
)


TURNS = 40 if PROFILE == "commit" else 1_000


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("random")) as kernel:
        kernel.load()
        yield kernel


def states(kernel: LiveKernel) -> dict[str, Any]:
    names = ", ".join(f"{name!r}: _state_({name})" for name in NAMES)
    found: dict[str, Any] = kernel.value(f"{{{names}}}")
    return found


def random_turn(chance: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The assignments of one to three delegates, and the turns of the script for them."""
    assignments, turns = [], []
    for number in range(chance.randint(1, 3)):
        codes = [
            "\n".join(chance.choice(ACTS).format(n=chance.randint(1, 99)) for _ in range(lines))
            for lines in chance.choices((1, 2, 3), k=chance.randint(1, 3))
        ]
        task = f"part {number}"
        output = chance.choice(([], [f"out_{number}"]))
        codes += [f"out_{number} = numbers"] if output and chance.random() < 0.5 else []
        assignments.append({"task": task, "output": output})
        replies = [*map(execute_code, codes), {"text": "Done."}]
        turns.append({"task": task, "replies": replies})
    return assignments, turns


@pytest.mark.timeout(1_800)
def test_no_unnamed_change(kernel: LiveKernel) -> None:
    """What differs after a turn is named in the delegate's result or in a notice of the turn."""
    base, unnamed, changed = seed(), [], 0
    for number in range(TURNS):
        chance = random.Random(base * 10_000 + number)
        assignments, turns = random_turn(chance)
        calls = [{"name": "delegate", "arguments": each} for each in assignments]
        script = [{"task": "Go.", "replies": [{"calls": calls}, {"text": "Done."}]}, *turns]
        path = kernel.folder / f"turn_{number}.yaml"
        path.write_text(yaml.safe_dump(script), encoding="utf-8")
        if number % 5 == 0:
            kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE, SEEN)
        kernel.helper("%agent config provider scripted", f"%agent config script {path.name}")
        before, logs = states(kernel), kernel.logs()
        cell = kernel.run("%%agent\nGo.")
        assert cell.status == "ok", (number, cell.error)
        turn = kernel.turn(cell, logs)
        told = "\n".join(result.text for result in turn.results)
        after = states(kernel)
        different = [name for name in NAMES if before[name] != after[name]]
        changed += len(different)
        unnamed += [
            (number, name, turns, told)
            for name in different
            if name not in re.findall(r"\w+", told)
        ]
    print(f"{SEED}={base} repeats it; {changed} changes were named")
    print(*unnamed, sep="\n\n")
    assert not unnamed
