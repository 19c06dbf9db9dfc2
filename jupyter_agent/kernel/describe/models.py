"""Models: scikit-learn's estimators and torch's modules. Their parts, parameters and state."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from jupyter_agent.kernel.describe.arrays import shape
from jupyter_agent.kernel.describe.introspection import attributes, class_attribute, type_name
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    name,
)

_MAX_MODULES = 3_000


def estimator(value: Any, level: Level) -> Iterator[Part]:
    """An estimator of scikit-learn: fitted or not, its parameters, its fitted attributes."""
    held = attributes(value)
    learnt = [key for key in held if key.endswith("_") and not key.startswith("_")]
    parameters = [key for key in _parameter_names(type(value)) if key in held]
    state = "fitted" if learnt else "not fitted"
    yield f"{type_name(type(value))}, {state}, {count(len(parameters), 'parameter')}"
    steps = [key for key in ("steps", "transformer_list", "transformers") if key in held]
    for key in steps:
        yield from _steps(held[key], key)
    given = (Nested(name(key), held[key]) for key in parameters if key not in steps)
    yield Listing("parameters", len(parameters) - len(steps), given)
    yield Listing("learnt", len(learnt), (Nested(name(key), held[key]) for key in learnt))


def pipeline(value: Any, level: Level) -> Iterator[Part]:
    """A pipeline of scikit-learn: its steps in order, each with its own state."""
    steps = attributes(value)["steps"]
    yield f"{type_name(type(value))}, {count(len(steps), 'step')}"
    yield from _steps(steps, "steps")


def torch_module(value: Any, level: Level) -> Iterator[Part]:
    """A module of torch: how many parameters it has in all, its own ones, its submodules."""
    held = attributes(value)
    numbers, whole = _parameter_count(value)
    mode = "training" if held.get("training") else "evaluation"
    amount = f"{'' if whole else 'more than '}{count(numbers, 'parameter')}"
    yield f"torch {type_name(type(value))}, {amount}, {mode} mode"
    for what in ("_parameters", "_buffers"):
        own = {key: one for key, one in (held.get(what) or {}).items() if one is not None}
        yield Listing(what[1:], len(own), (Nested(name(key), one) for key, one in own.items()))
    inside = held.get("_modules") or {}
    yield Listing("modules", len(inside), (Nested(name(key), one) for key, one in inside.items()))


def optimizer(value: Any, level: Level) -> Iterator[Part]:
    """An optimizer of torch: the shapes of its parameters, group by group."""
    groups = attributes(value)["param_groups"]
    yield f"torch {type_name(type(value))}, {count(len(groups), 'parameter group')}"
    for group in groups[:10]:
        shapes = [shape(one.shape) for one in group["params"][:20]]
        yield f"group of {count(len(group['params']), 'tensor')}: {', '.join(shapes)}"


def _steps(steps: Any, what: str) -> Iterator[Part]:
    """The steps of a pipeline, the parts of a union or of a column transformer."""
    shown = [step for step in steps if type(step) is tuple and len(step) >= 2]
    yield Listing(what, len(shown), (Nested(name(str(step[0])), step[1]) for step in shown))


def _parameter_names(cls: type) -> tuple[str, ...]:
    """The names that the class's constructor takes: the parameters, by scikit-learn's rules."""
    init = class_attribute(cls, "__init__")
    if type(init) is not FunctionType:
        return ()
    code = init.__code__
    return tuple(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def _parameter_count(module: Any) -> tuple[int, bool]:
    """The count of numbers in the parameters, each tensor once; False if the count is partial."""
    waiting, numbers, tensors = [module], 0, set()
    for _ in range(_MAX_MODULES):
        if not waiting:
            return numbers, True
        held = attributes(waiting.pop())
        for one in (held.get("_parameters") or {}).values():
            if one is not None and id(one) not in tensors:
                tensors.add(id(one))
                numbers += one.numel()
        waiting += [one for one in (held.get("_modules") or {}).values() if one is not None]
    return numbers, not waiting


DESCRIBERS: dict[str, Describer] = {
    "sklearn.base.BaseEstimator": estimator,
    "sklearn.pipeline.Pipeline": pipeline,
    "torch.nn.Module": torch_module,
    "torch.nn.modules.module.Module": torch_module,
    "torch.optim.Optimizer": optimizer,
    "torch.optim.optimizer.Optimizer": optimizer,
}
