"""The person's variables that a task only reads: what happens where the agent spoils them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_kernel import Cell, Json, LiveKernel, Turn, execute_code

FRAME = "import pandas as pd\ndf = pd.DataFrame({'price': [4.0, None, 8.0]})\nrows = [3, 1, 2]"
MADE_UP = "df = pd.DataFrame({'price': [1, 2, 3, 4]})\nprint(df.price.mean())"


@pytest.fixture
def strong(kernel: LiveKernel) -> LiveKernel:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", FRAME, "theirs = df")
    kernel.helper("%agent config mode auto", "%agent config instructions full")
    return kernel


@pytest.fixture
def weak(strong: LiveKernel) -> Iterator[LiveKernel]:
    strong.helper("%agent config instructions short")
    yield strong
    strong.helper("%agent config instructions full")


def turn(kernel: LiveKernel, task: str, *codes: str | Json) -> Turn:
    kernel.script(task, *map(execute_code, codes), {"text": "Done."})
    logs = kernel.logs()
    cell: Cell = kernel.run(f"%%agent --fresh\n{task}")
    assert cell.status == "ok", cell.error
    return kernel.turn(cell, logs)


def test_a_strong_model_is_told_once(strong: LiveKernel) -> None:
    """A strong model that rebinds an input is told once, and can bind the object again itself."""
    done = turn(
        strong,
        "What is the mean of price in df?",
        "df = df.dropna()",
        "df = df.head(1)",
        "df = _agent_inputs['df']\nmean = float(df.price.mean())",
    )
    assert "`df` is no longer the person's DataFrame, which is still needed" in done.results[0].text
    assert done.results[1].text == "(no output)"
    assert strong.value("df is theirs, mean, '_agent_inputs' in globals()") == (True, 6.0, False)
    cell = strong.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    strong.helper("del mean", payload["text"])
    assert strong.value("df is theirs, mean") == (True, 6.0)


def test_a_weak_model_s_rebinding_is_mended_once(weak: LiveKernel) -> None:
    """A weak model's invented data are replaced by the person's frame at once; the receipt names
    it; where the model insists, its value stays.
    """
    done = turn(weak, "What is the mean of price in df?", MADE_UP, "print(df.price.mean())")
    assert "`df` is the person's DataFrame again" in done.results[0].text
    assert done.results[1].text == "6.0"
    assert weak.value("df is theirs, _agent.receipt.restored") == (True, ("df",))
    assert "bound to your object again" in done.cell.transcript
    assert weak.value("_agent.receipt.as_json()['restored']") == ["df"]
    insisted = turn(weak, "What is the mean of price in df?", MADE_UP, MADE_UP)
    assert insisted.results[1].text == "2.5" and weak.value("df is theirs") is False


def test_the_promoted_cell_leaves_the_input(weak: LiveKernel) -> None:
    """The clean cell of a turn whose rebinding was taken back takes it back, too."""
    turn(weak, "How many rows of df have a price?", "df = df.dropna()\nn = len(df)")
    assert weak.value("df is theirs, n") == (True, 2)
    cell = weak.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    weak.helper("del n", payload["text"])
    assert weak.value("df is theirs, n") == (True, 2)


def test_invented_data_for_a_frame_that_the_task_does_not_name(weak: LiveKernel) -> None:
    """Made-up data under the name of a person's frame are found though the task names none; a
    frame that is computed from it is left.
    """
    assert "again" in turn(weak, "What is the mean price?", MADE_UP).result.text
    assert weak.value("df is theirs") is True
    assert turn(weak, "Clean it.", "df = df.dropna()").result.text == "(no output)"
    assert weak.value("df is theirs") is False


def test_changes_in_place_are_told(weak: LiveKernel) -> None:
    """A change in place is told and never taken back."""
    done = turn(weak, "Which is the largest of rows?", "rows.sort()\nrows[-1]", "rows")
    assert "`rows` was changed in place" in done.results[0].text
    assert done.results[1].text == "[1, 2, 3]"


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ("Drop the rows of df without a price.", "df = df.dropna()"),
        ("Add a column half to df.", "df['half'] = df.price / 2"),
        ("Sort rows.", "rows.sort()"),
        ("What is the mean of price in df?", "mean = df.price.mean()\ncopy = df.dropna()"),
    ],
)
def test_nothing_is_said_where_the_task_asks_for_it(weak: LiveKernel, task: str, code: str) -> None:
    """What the task asks for, and what leaves the inputs alone, is no matter."""
    assert turn(weak, task, code).result.text == "(no output)"
    assert weak.value("_agent.receipt.restored") == ()


def test_a_doubt_is_told_to_weak_models_only(weak: LiveKernel) -> None:
    """Where a task may ask for the change, a weak model is told, and nothing is taken back."""
    task, code = "Look at df. Then drop the gaps.", "df = df.dropna()"
    assert "no longer the person's" in turn(weak, task, code).result.text
    assert weak.value("df is theirs") is False
    weak.helper("%agent config instructions full", "df = theirs")
    assert turn(weak, task, code).result.text == "(no output)"


def test_what_only_looks_different_is_no_change(strong: LiveKernel) -> None:
    """A frame whose columns pandas has put together in memory has the same content: nothing is
    said, in scratch neither.
    """
    strong.helper("df['b'] = df.price * 2; df['c'] = df.price * 3")
    look = "df._consolidate_inplace()\nfloat(df.c.sum())"
    steps: tuple[str | Json, ...] = (look, {"code": look, "scratch": True})
    for step in steps:
        assert turn(strong, "Sum c in df.", step).result.text == "36.0"
        strong.helper("df['b'] = df.price * 2")


def test_recorded_mending(weak: LiveKernel) -> None:
    """A replay mends the same names and gives the same bytes."""
    weak.helper("%agent cassette inputs.cassette.jsonl", "%agent config mode record")
    task = "What is the mean of price in df?"
    recorded = turn(weak, task, MADE_UP)
    weak.helper("%agent config mode replay")
    again = weak.run(f"%%agent --fresh\n{task}")
    assert again.status == "ok", again.error
    assert again.displays == recorded.cell.displays and weak.value("df is theirs") is True
