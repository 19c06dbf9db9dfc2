"""Delegates in a real kernel: they work in names of their own, and hand over objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from live_kernel import Json, LiveKernel, execute_code

MINE = "rows = [3, 1, 2]\ntable = {'a': [1, 2]}\nalias = table['a']"
CASSETTE = "delegates.cassette.jsonl"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("delegates")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset", MINE)
    yield
    kernel.helper("%agent config mode auto")


def assign(*assignments: dict[str, Any]) -> Json:
    """A reply with a call of `delegate` for each assignment."""
    return {"calls": [{"name": "delegate", "arguments": each} for each in assignments]}


def script(kernel: LiveKernel, task: str, replies: list[Json], **delegates: list[Json]) -> None:
    """Script a turn, and for each delegate, by its task, its replies."""
    turns = [{"task": task, "replies": replies}]
    turns += [{"task": name.replace("_", " "), "replies": its} for name, its in delegates.items()]
    (kernel.folder / "script.yaml").write_text(yaml.safe_dump(turns), encoding="utf-8")
    kernel.helper("%agent config provider scripted", "%agent config script script.yaml")


def test_a_delegate_hands_over_objects(kernel: LiveKernel) -> None:
    """What it was asked for is bound for the person, the very object; what else it bound is not.
    The caller reads its report, and the turn counts its tokens, changes and undo as one binding.
    """
    script(
        kernel,
        "Sum up.",
        [
            assign({"task": "add them", "inputs": ["rows"], "output": ["total", "kept"]}),
            {"text": "It is 6."},
        ],
        add_them=[
            {**execute_code("helper = 1\ntotal = sum(rows)\nkept = rows"), "usage": {"input_tokens": 7}},
            {"text": "The sum is 6.", "usage": {"output_tokens": 5}},
        ],
    )
    logs = kernel.logs()
    turn = kernel.turn(kernel.run("%%agent\nSum up."), logs)
    assert turn.cell.status == "ok", turn.cell.error
    assert kernel.value("total, kept is rows, 'helper' in globals()") == (6, True, False)
    text = turn.result.text
    assert text.startswith("The sum is 6.") and "total: int" in text and "kept: list" in text
    assert kernel.value("sorted(_agent.variables)") == ["kept", "total"]
    assert kernel.value("_agent.usage.total_tokens") == 12
    kernel.run("%agent undo")
    assert kernel.value("'total' in globals() or 'kept' in globals()") is False
