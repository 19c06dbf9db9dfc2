"""Whether a replay shows what was saved, and the first place where it does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.notebooks.check.findings import Severity
from jupyter_agent.recording.digests import Item
from jupyter_agent.recording.miss import difference
from jupyter_agent.source import agent_cells

Json = dict[str, Any]
_READABLE = ("text/plain", "text/markdown")
"""Of the forms of one output, those in which a person sees best what differs."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference between two outputs.

    What nobody reads as text, pictures and metadata, only warns: other versions of a library draw
    the same figure with other bytes.
    """

    severity: Severity
    message: str


def lasting(outputs: Sequence[Any]) -> list[Json]:
    """Outputs as a replay gives them again: without counters, and with streams in one piece.

    What the package itself marks as volatile goes as well: how long a turn took, what it cost.
    """
    kept: list[Json] = []
    for output in json.loads(json.dumps(agent_cells.lasting(outputs))):
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
    """Where the outputs of a replay part from the saved ones; None where they do not.

    Words that differ come first, then what only warns.
    """
    before, after = lasting(saved), lasting(now)
    found = [_of_outputs(n, a, b) for n, (a, b) in enumerate(zip(before, after, strict=False), 1)]
    partings = [each for each in found if each is not None]
    errors = [each for each in partings if each.severity == "error"]
    if not errors and len(before) != len(after):
        return Parting("error", f"{len(before)} outputs are saved, the replay has {len(after)}.")
    return next(iter(errors or partings), None)


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
        if name.startswith("image/") and name != "image/svg+xml" and {name} <= {*before} & {*after}:
            pictures = pictures or name
            continue
        return Parting("error", f"Output {number} {_words(name, before, after)}")
    what = f"the picture ({pictures})" if pictures else "the metadata"
    return Parting("warning", f"Output {number}: {what} is not the saved one, byte for byte.")


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
