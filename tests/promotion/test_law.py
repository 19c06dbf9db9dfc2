"""The law of promotion: the promoted cell, run afresh, gives the same variables."""

from __future__ import annotations

import contextlib
import io
import random
import types
from collections.abc import Iterator
from typing import Any

import pytest
from generated import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jupyter_agent.promotion.cell import cell
from jupyter_agent.promotion.executed import Executed

PERSON = "p = [3, 1, 2]\nq = 5\ndef helper(x):\n    p.append(x)\n    return len(p)\n"
NAMES = st.sampled_from(["a", "b", "c", "d", "p", "q"])
TEMPLATES = [
    "{x} = {n}",
    "{x} = [{n}, {y}]",
    "{x} = {y}",
    "{x} = {{'k': {y}}}",
    "{x}, {y} = {y}, {x}",
    "{x}, *{y} = [{n}, {z}, {n}]",
    "{x} = [i for i in {y}]",
    "{x} = sorted({y})",
    "{x} = len({y})",
    "{x} = {y}[0]",
    "{x} = {y} if {z} else {n}",
    "{x} = iter({y})",
    "{x} = (i for i in [{n}, {z}])",
    "{x} = zip([1, 2], [{y}, {z}])",
    "{x} = lambda: {y}",
    "{x} = (lambda v={y}: v)",
    "{x} = {y}()",
    "{x} = helper({n})",
    "{x} = list({y})",
    "{x} = next({y})",
    "{x} = {y} == {z}",
    "{x} = (c := {n}) + 1",
    "{x} = [{y} := i for i in range(3)]",
    "{x} = str({y})[:9]",
    "{x}: int = {n}",
    "{x} += [{n}]",
    "{x} += {n}",
    "{x}.append({n})",
    "{x}.append({y})",
    "{x}.pop()",
    "{x}.sort()",
    "{x}[0] = {n}",
    "{x}['k'] = {y}",
    "{x}.clear()",
    "{x}.extend({y})",
    "del {x}",
    "del {x}, {y}",
    "del {x}[0]",
    "print({x})",
    "print({x}, {y})",
    "print(list({x}))",
    "print({x}[0])",
    "{x}",
    "len({x})",
    "sum({x})",
    "assert {x}",
    "{n} in {x}",
    "for i in {x}: print(i)",
    "for {x} in {y}: pass",
    "for i in range(3):\n    {x}.append(i)\n    {y} = {n} // (i - 1)",
    "while {x} and len({x}) > 1:\n    {x}.pop()",
    "if {x}:\n    {y} = {n}\nelse:\n    {z} = {n}",
    "try:\n    {x} = {y}[{n}]\nexcept Exception as e:\n    {z} = str(e)[:5]",
    "with contextlib.suppress(Exception):\n    {x} = {y}\n    {z}.append({n})",
    "match {x}:\n    case [first, *rest]:\n        {y} = first\n    case _:\n        {z} = {n}",
    "def f():\n    return {x}",
    "def f(v={x}):\n    return v",
    "def f():\n    global {x}\n    {x} = {n}",
    "def f():\n    {x}.append({n})\n    return {y}",
    "def g():\n    return f()",
    "f()",
    "{x} = f()",
    "{x} = g()",
    "{x} = f",
    "class K:\n    v = {x}\n    def m(self):\n        return {y}",
    "{x} = K().m()",
    "K.v = {n}",
    "import math",
    "import math as {x}",
    "from math import floor",
    "{x} = math.floor({n}.5)",
    "{x} = floor({n}.5)",
    "import contextlib",
    "from collections import defaultdict",
    "{x} = defaultdict(list)",
    "import random",
    "random.seed({n})",
    "{x} = random.random()",
    "print(random.random())",
    "1 / 0",
    "{x} = 1 / 0",
    "{x}[1 / 0] = 2",
    "raise ValueError({n})",
    "{x} = {y}.append({n}) or 1 / 0",
    "exec('{x} = {n}')",
    "{x} = eval('{y}')",
    "{x} = map(str, [{n}, 1])",
    "{x} = any({y})",
    "{x} = f'{{ {y} }}'[:20]",
    "{x} = dict(k={y})",
    "{x} = {y}.copy()",
    "{x} = ''.join({y})",
    "globals()['{x}'] = {n}",
]
STATEMENTS = st.builds(
    lambda template, x, y, z, n: template.format(x=x, y=y, z=z, n=n),
    st.sampled_from(TEMPLATES),
    NAMES,
    NAMES,
    NAMES,
    st.integers(0, 4),
)
PROGRAMS = st.lists(st.lists(STATEMENTS, min_size=1, max_size=6).map("\n".join), max_size=6)


def fresh() -> dict[str, Any]:
    namespace: dict[str, Any] = {"contextlib": contextlib, "display": print, "__name__": "n"}
    random.seed(0)
    exec(PERSON, namespace)
    return namespace


def run(namespace: dict[str, Any], code: str) -> int | None:
    """Run code as a cell; gives the line at which it failed, 0 where it failed elsewhere."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "<cell>", "exec"), namespace)
    except Exception as error:
        trace, line = error.__traceback__, 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<cell>" and not line:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line
    return None


def variables(namespace: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }


def shown(value: Any, depth: int = 0) -> Any:
    """A value so that two of different runs compare; an iterator by what is left in it."""
    if depth > 4:
        return "…"
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return type(value).__name__, [(shown(k), shown(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, types.FunctionType):
        code = value.__code__  # the very bytes differ where a name is also that of an import
        constants = [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]
        return "function", code.co_names, constants, shown(value.__defaults__, depth + 1)
    if isinstance(value, type) and value.__module__ == "n":
        return "class", {k: shown(v, depth + 1) for k, v in vars(value).items() if k[:1] != "_"}
    if isinstance(value, Iterator):
        try:
            return "iterator", [
                shown(each, depth + 1) for _, each in zip(range(9), value, strict=False)
            ]
        except Exception as error:
            return "iterator", type(error).__name__
    return repr(value)


def executed(codes: list[str], namespace: dict[str, Any]) -> list[Executed]:
    ran = []
    for number, code in enumerate(codes, 1):
        line = run(namespace, code)
        state = "done" if line is None else "failed"
        ran.append(Executed(code, number, state, failed_line=line or None))  # type: ignore[arg-type]
    return ran


def check(codes: list[str], opaque: set[str] | None, forget_lines: bool = False) -> str:
    before, original = variables(fresh()), fresh()
    ran = executed(codes, original)
    if forget_lines:
        ran = [Executed(each.code, each.step, each.state) for each in ran]
    wanted = set(variables(original))
    promoted = cell(ran, wanted | set(before), opaque)
    again = fresh()
    failed = run(again, promoted)
    assert failed is None, (promoted, failed)
    assert set(variables(again)) == wanted
    one, other = shown_all(original, wanted), shown_all(again, wanted)
    assert one == other, promoted
    return promoted


def shown_all(namespace: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    return {name: shown(namespace[name]) for name in sorted(wanted)}


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.sampled_from([None, {"helper"}]))
@example(["a = [1]", "b = a", "b.append(2)", "a = 3"], None)
@example(["a = zip([1], [2])", "print(list(a))", "b = dict(a)"], None)
@example(["q = 1", "a = (q for i in [1])", "q = 2", "b = list(a)"], None)
@example(["def f():\n    return q", "q = 7", "a = f()", "q = 8"], None)
@example(["p = []", "a = helper(1)"], {"helper"})
@example(["globals()['b'] = 0", "import math as b"], None)
@example(["import math as a\na = 1", "globals()['a'] = 0", "import math as a"], None)
@example(["import math as a", "def f():\n    global a\n    a = 1", "f()", "import math as a"], None)
@example(["a = 0\nif p:\n    a = [1]", "a = 2\ndel a, p"], None)
@example(["a = map(str, [0, 1])\nsum(a)"], None)
def test_the_same_variables(codes: list[str], opaque: set[str] | None) -> None:
    """Whatever ran and failed, the promoted cell gives the same names and values."""
    check(codes, opaque)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_the_same_variables_where_the_line_of_the_failure_is_not_known(codes: list[str]) -> None:
    """Without a known line of failure, the failed code may fail again at the same place."""
    check(codes, {"helper"}, forget_lines=True)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_promotion_of_what_was_promoted(codes: list[str]) -> None:
    """Promoted once more, the cell gives the same variables, and does not grow."""
    promoted = check(codes, {"helper"})
    again = check([promoted], {"helper"})
    assert len(again.splitlines()) <= len(promoted.splitlines()) + 2


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_statement_alone(template: str) -> None:
    """The law holds for each kind of statement, after names of several kinds."""
    code = template.format(x="a", y="b", z="c", n=2)
    start = (
        "a = [5, 4]\nb = [1, 2]\nc = {}\nd = iter(b)\nimport math, random\nfrom math import floor"
    )
    functions = "def f():\n    return b\ndef g():\n    return f()\nclass K:\n    v = 1\n"
    check([f"{start}\n{functions}", "from collections import defaultdict", code], {"helper"})
