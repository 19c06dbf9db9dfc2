"""Turns of a small model in a real kernel: they end when they are done, or say that they failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from live_kernel import LiveKernel, Turn
from model_server import ModelServer, Reply, check_openai, check_stable

Json = dict[str, Any]
DATA = "import pandas as pd\ndf = pd.DataFrame({'weight': [71.5, 80.5], 'name': ['Ada', 'Bo']})"
FORMAT = "What is the mean weight in df? Answer in this format: @mean_weight[mean]"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    environ = {"OPENAI_API_KEY": "k"}
    with LiveKernel(tmp_path_factory.mktemp("kernel"), environ) as kernel:
        kernel.load("config tool_protocol code", "config instructions short")
        kernel.helper("%agent config provider openai", "%agent config model test-model", DATA)
        yield kernel


@pytest.fixture(autouse=True)
def settings(kernel: LiveKernel) -> Iterator[None]:
    yield
    kernel.helper("%agent config mode auto", "%agent config tool_protocol code")


def block(code: str) -> Reply:
    return Reply(text=f"Here it is:\n```python\n{code}\n```\nI hope that helps.")


def turn(
    kernel: LiveKernel, task: str, *replies: Reply, line: str = "--fresh", is_one: bool = True
) -> tuple[Turn, list[Json]]:
    """One cell in which the model gives these replies; fails if it is asked more or less often.

    `is_one` is False if the requests are no single conversation.
    """
    with ModelServer([*replies, Reply(text="One call too many.")]) as server:
        kernel.helper(f"%agent config api_base {server.openai_url}")
        logs = kernel.logs()
        cell = kernel.run(f"%%agent {line}\n{task}")
        assert cell.status == "ok", cell.error
        bodies = server.bodies
        if is_one:
            check_stable(server.requests)
    assert len(bodies) == len(replies)
    for body in bodies:
        check_openai(body)
        assert "tools" not in body
    assert kernel.value("_agent.receipt.steps") == len(replies)
    return kernel.turn(cell, logs), bodies


def answer(kernel: LiveKernel) -> str:
    return str(kernel.value("str(_agent)"))


def last(body: Json) -> str:
    """The text of a request's last message."""
    return json.dumps(body["messages"][-1]["content"])


def test_the_first_success_ends_the_turn(kernel: LiveKernel) -> None:
    """One call: the printed value becomes the value of the cell, and that is the answer."""
    done, _ = turn(kernel, "The mean weight in df?", block("print('Mean:', df.weight.mean())"))
    assert answer(kernel) == "76.0"
    assert kernel.value("_agent.code") == ("df.weight.mean()",)
    assert [result.text for result in done.results] == ["np.float64(76.0)"]
    assert done.stop_reason == "end"
    assert "76.0" in done.cell.transcript
    turn(kernel, "Keep the heavy ones of df.", block("heavy = df[df.weight > 80]"))
    assert "Bo" in answer(kernel)
    turn(kernel, "Write a function.", block("def half(x):\n    return x / 2"))
    assert answer(kernel).startswith("Done.")
    assert kernel.value("half(3)") == 1.5


def test_what_the_model_is_sent(kernel: LiveKernel) -> None:
    """The table stands before the task, the task is the last word, and all of it is short."""
    _, (body,) = turn(kernel, "How many rows has df?", block("len(df)"))
    system, user = body["messages"]
    assert [user["role"], len(body["messages"])] == ["user", 2]
    text = json.dumps(user["content"])
    places = [text.index(each) for each in ("columns: weight float64", "How many rows has df?")]
    assert places == sorted(places)
    assert user["content"].endswith("How many rows has df?")
    assert len(system["content"]) < 500


def test_two_repairs(kernel: LiveKernel) -> None:
    """An error goes back with the names that exist; the code that runs then is the answer."""
    wrong = block("df['wieght'].mean()")
    done, bodies = turn(
        kernel, "The mean?", wrong, block("df.wait.sum()"), block("df.weight.sum()")
    )
    assert answer(kernel) == "152.0"
    assert "weight" in last(bodies[1]) and "KeyError" in last(bodies[1])
    assert "(hint: Nearest columns: weight.)" in last(bodies[1])
    assert [result.is_error for result in done.results] == [True, True, False]
    assert kernel.value("_agent.code") == ("df.weight.sum()",)


def test_a_third_failure_ends_the_turn(kernel: LiveKernel) -> None:
    """After two repairs in vain nobody is asked again, and the answer says so with the error."""
    codes = [block(f"df['no{n}']") for n in range(3)]
    done, _ = turn(kernel, "The mean of df?", *codes)
    assert len(done.results) == 3
    assert answer(kernel).startswith("This did not succeed: the code failed 3 times.")
    assert "KeyError: 'no2'" in answer(kernel)
    assert kernel.value("_agent.code") == ()


def test_failed_code_is_not_run_again(kernel: LiveKernel) -> None:
    """A model that repeats itself is told once; its code does not run, other code does."""
    kernel.helper("ran = []")
    wrong = "ran.append(1)\ndf['no']"
    again = block(f"# now it works\n{wrong}")
    done, bodies = turn(kernel, "The sum of df?", block(wrong), again, block("df.weight.sum()"))
    assert kernel.value("ran") == [1]
    assert len(done.results) == 2 and answer(kernel) == "152.0"
    assert "another way" in last(bodies[2])
    assert [body["temperature"] > 0 for body in bodies] == [False, False, True]

    done, _ = turn(kernel, "The sum of df?", block(wrong), again, again)
    assert kernel.value("ran") == [1, 1] and len(done.results) == 1
    assert answer(kernel).startswith("This did not succeed: the code failed 1 time.")


def test_the_format_of_the_answer(kernel: LiveKernel) -> None:
    """A format that the code prints is the answer, and so is the only value in the only place;
    else one call makes it from the output.
    """
    turn(kernel, FORMAT, block("mean = df.weight.mean()\nprint(f'@mean_weight[{mean}]')"))
    assert answer(kernel) == "@mean_weight[76.0]"
    turn(kernel, FORMAT, block("df.weight.mean()"))
    assert answer(kernel) == "@mean_weight[76.0]"

    written, code = (
        Reply(text="@mean_weight[76.0]"),
        block("print('The mean:', df.weight.mean(), 'kg')"),
    )
    _, bodies = turn(kernel, FORMAT, code, written, is_one=False)
    assert answer(kernel) == "@mean_weight[76.0]"
    assert "76.0" in last(bodies[1]) and "@mean_weight[mean]" in last(bodies[1])
    assert len(bodies[1]["messages"]) == 2, "the task and the output alone"

    shown = block("mean = df.weight.mean()\nprint(f'@mean_weight[{mean}]')")
    _, bodies = turn(kernel, FORMAT, block("df.weight.mean() and None"), shown)
    assert answer(kernel) == "@mean_weight[76.0]" and "showed no value" in last(bodies[1])


def test_a_repair_without_the_model(kernel: LiveKernel) -> None:
    """A column whose name differs in blanks alone, and a missing import, cost no model call."""
    kernel.helper("df2 = df.rename(columns={'weight': ' Weight. kg'})", "%reset_selective -f ^np$")
    code = "np.mean(df2['weight.kg'])"
    with ModelServer([block(code), Reply(text="One call too many.")]) as server:
        kernel.helper(f"%agent config api_base {server.openai_url}")
        logs = kernel.logs()
        cell = kernel.run("%%agent --fresh\nWhat is the mean weight in df2?")
        assert len(server.bodies) == 1
    done = kernel.turn(cell, logs)
    assert answer(kernel) == "76.0" and [each.is_error for each in done.results] == [
        True,
        True,
        False,
    ]
    assert kernel.value("_agent.code")[-1].endswith("np.mean(df2[' Weight. kg'])")


def test_an_answer_that_is_made_up(kernel: LiveKernel) -> None:
    """A value that the code does not compute from the tables is sent back once."""
    made_up, computed = "print('@mean_weight[75.5]')", "print(f'@mean_weight[{df.weight.mean()}]')"
    _, bodies = turn(kernel, FORMAT, block(made_up), block(computed))
    assert answer(kernel) == "@mean_weight[76.0]" and "none of the loaded" in last(bodies[1])


def test_an_answer_without_code(kernel: LiveKernel) -> None:
    """A guess about an object is sent back for code once; a talk about nothing is not."""
    guess = Reply(text="The mean weight is 75.")
    _, bodies = turn(kernel, "The mean weight in df?", guess, block("df.weight.mean()"))
    assert answer(kernel) == "76.0" and "Nothing was run" in last(bodies[1])
    turn(kernel, "What is a median?", Reply(text="The value in the middle."))
    assert answer(kernel) == "The value in the middle."


def test_the_next_turn(kernel: LiveKernel) -> None:
    """A second task of the conversation goes to the model with the first one before it."""
    turn(kernel, "The mean weight in df?", block("df.weight.mean()"))
    _, (body,) = turn(kernel, "And the sum?", block("df.weight.sum()"), line="")
    assert answer(kernel) == "152.0"
    assert [each["role"] for each in body["messages"][1:]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_at_the_step_limit(kernel: LiveKernel) -> None:
    """If no step is left, a success is the answer and a failure is said, without another call."""
    turn(kernel, "The sum of df?", block("df.weight.sum()"), line="--fresh --max-steps 1")
    assert answer(kernel) == "152.0"
    turn(kernel, "The sum of df?", block("df['no']"), line="--fresh --max-steps 1")
    assert answer(kernel).startswith("This did not succeed")


def test_record_and_replay(kernel: LiveKernel) -> None:
    """A replay without the protocol of a small model gives the same bytes."""
    begin = ("config provider openai", "config model test-model", "config instructions short")
    kernel.restart()
    for command in (*begin, "cassette brief.cassette.jsonl", "config mode record"):
        kernel.helper(f"%agent {command}")
    kernel.helper("%agent config tool_protocol code", DATA)
    done, _ = turn(kernel, "The sum of df?", block("df['no']"), block("total = df.weight.sum()"))
    steps = kernel.value("_agent.receipt.steps")
    kernel.restart()
    for command in (*begin, "cassette brief.cassette.jsonl", "config mode replay"):
        kernel.helper(f"%agent {command}")
    kernel.helper(DATA)
    again = kernel.run("%%agent --fresh\nThe sum of df?")
    assert again.status == "ok", again.error
    assert again.displays == done.cell.displays
    assert (answer(kernel), kernel.value("_agent.receipt.steps")) == ("152.0", steps)
