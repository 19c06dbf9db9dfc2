"""Whether two executions of a notebook show the same, and the first place where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from jupyter_agent.core.displays import WIDGET
from jupyter_agent.core.messages import is_bitmap
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.notebooks.check.findings import Severity
from jupyter_agent.recording.comparison import Item
from jupyter_agent.recording.miss import difference
from jupyter_agent.source.agent_cells import agent_cells

Json = dict[str, Any]
_READABLE = ("text/plain", "text/markdown")
"""The forms of one output in which a person sees best what differs, compared first."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference between the saved and the replayed outputs of a cell.

    Pictures and metadata that differ are a warning only: other versions of a library draw the same
    figure with other bytes.
    """

    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell that shows something else in the second execution.

    Attributes:
        number: The cell's number over all cells, counted from 1.
        of_agent: Whether it is an agent cell.
        words: The first difference, in one line.
    """

    number: int
    of_agent: bool
    words: str


def lasting(outputs: Sequence[Any]) -> list[Json]:
    """The part of outputs that a replay repeats, with streams in one piece.

    Leaves out execution counts and what the package marks as volatile: a turn's time and cost.
    """
    kept: list[Json] = []
    for output in json.loads(json.dumps(_without_volatile(outputs))):
        output.pop("execution_count", None)
        for key, item in output.get("data", {}).items():
            if key.startswith("image/") and isinstance(item, str):
                output["data"][key] = item.strip()  # some writers end base64 with a newline
        if output["output_type"] == "stream" and kept and kept[-1].get("name") == output["name"]:
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


def parting(saved: Sequence[Any], now: Sequence[Any]) -> Parting | None:
    """The first difference between saved outputs and those of a replay; None where they are equal.

    An error comes before a warning.
    """
    before, after = lasting(saved), lasting(now)
    found = [_of_outputs(n, a, b) for n, (a, b) in enumerate(zip(before, after, strict=False), 1)]
    partings = [each for each in found if each is not None]
    errors = [each for each in partings if each.severity == "error"]
    if not errors and len(before) != len(after):
        return Parting("error", f"{len(before)} outputs are saved, the replay has {len(after)}.")
    return next(iter(errors or partings), None)


def differences(first: Any, second: Any, aside: str = "") -> Iterator[Difference]:
    """The code cells that show different things in two executions of one notebook, in order.

    Nothing but what the package marks as volatile may differ, and these words in the outputs of the
    agent: `aside`.
    """
    of_agent = {cell.number for cell in agent_cells(first)}
    for number, (then, now) in enumerate(zip(first.cells, second.cells, strict=True), 1):
        if then.cell_type != "code":
            continue
        old, new = _without_volatile(then.outputs), _without_volatile(now.outputs)
        if aside and number in of_agent:
            old, new = (_without(words, aside) for words in (old, new))
        if old != new:
            yield Difference(number, number in of_agent, _first_difference(old, new))


def _without_volatile(outputs: Any) -> Any:
    """Outputs without what no replay repeats: a turn's time and cost, the ids of widgets."""
    kept = deepcopy(outputs)
    for output in kept:
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
        output.get("data", {}).pop(WIDGET, None)
    return kept


def _without(value: Any, words: str) -> Any:
    """Outputs without some words, and without the facts in which these are a field."""
    if isinstance(value, str):
        return value.replace(words, "")
    if isinstance(value, list):
        return [_without(item, words) for item in value]
    if isinstance(value, dict):
        for key in [key for key in value if key == "varies"]:
            del value[key]
        for key, item in value.items():
            value[key] = _without(item, words)
    return value


def _of_outputs(number: int, saved: Json, now: Json) -> Parting | None:
    if saved == now:
        return None
    kinds = saved["output_type"], now["output_type"]
    if kinds[0] != kinds[1]:
        message = f"Output {number} is saved as {kinds[0]}, the replay has {kinds[1]}."
        return Parting("error", message)
    before, after = _parts(saved), _parts(now)
    pictures = ""
    for name in sorted({*before, *after}, key=lambda name: (name not in _READABLE, name)):
        if before.get(name) == after.get(name):
            continue
        if is_bitmap(name) and {name} <= {*before} & {*after}:
            pictures = pictures or name
            continue
        return Parting("error", f"Output {number} {_words(name, before, after)}")
    what = f"the picture ({pictures})" if pictures else "the metadata"
    return Parting("warning", f"Output {number}: {what} differs from the saved one in its bytes.")


def _parts(output: Json) -> dict[str, str]:
    """The texts of an output by MIME type, or by what they are."""
    data = output.get("data")
    if data is None:
        data = {key: output[key] for key in ("name", "text", "ename", "evalue") if key in output}
    return {
        key: item if isinstance(item, str) else json.dumps(item, sort_keys=True)
        for key, item in data.items()
    }


def _words(name: str, before: dict[str, str], after: dict[str, str]) -> str:
    if name not in after:
        return f"is saved with {name}, which the replay does not have."
    if name not in before:
        return f"has {name} in the replay, which is not saved."
    return f"differs {difference(Item(name, before[name]), Item(name, after[name]))}"


def _first_difference(old: Any, new: Any) -> str:
    """The words around the first difference between two lists of outputs."""
    then, now = _lines(old), _lines(new)
    for before, after in zip(then, now, strict=False):
        if before != after:
            start = next(
                (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
                min(len(before), len(after)),
            )
            first = max(0, start - 20)
            return f"{_around(before, first)} became {_around(after, first)}"
    longer, what = (then, "is gone") if len(then) > len(now) else (now, "was added")
    return f"{_around(longer[min(len(then), len(now))], 0)} {what}"


def _around(text: str, first: int) -> str:
    return repr(one_line(text[first:], 60))


def _lines(outputs: Any) -> list[str]:
    """The lines of outputs that a person sees, and then each output as JSON."""
    seen: list[str] = []
    for output in outputs:
        seen += str(output.get("text") or output.get("data", {}).get("text/plain", "")).split("\n")
        seen += [f"{output.ename}: {output.evalue}"] if output.output_type == "error" else []
    return [*seen, *(json.dumps(output, sort_keys=True) for output in outputs)]
