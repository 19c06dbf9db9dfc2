"""Budgets, and `%agent resume`: a turn that stopped short goes on."""

from __future__ import annotations

import json

import pytest
from live_kernel import LiveKernel
from model_server import Call, ModelServer, Reply


def code(source: str) -> Call:
    return Call("execute_code", json.dumps({"code": source}))


def use(kernel: LiveKernel, server: ModelServer, model: str = "m") -> None:
    kernel.helper(
        "%agent reset",
        "%agent config provider openai",
        f"%agent config api_base {server.openai_url}",
        "%agent config api_key k",
        f"%agent config model {model}",
    )


WORK = [Reply(calls=(code(f"x{n} = {n}"),), input_tokens=100) for n in range(6)]


def test_a_budget_of_tokens_and_going_on(kernel: LiveKernel) -> None:
    """The budget ends the turn between steps; after a raise `%agent resume` continues it."""
    with ModelServer([*WORK[:3], Reply(text="All done.")]) as server:
        use(kernel, server)
        kernel.helper("%agent config budget.tokens 210")
        cell = kernel.run("%%agent\nWork.")
        assert cell.status == "ok"
        assert "The budget of 210 tokens is used up after 2 steps" in cell.transcript
        assert kernel.value("x1, 'x2' in globals()") == (1, False)
        kernel.helper("%agent config budget.tokens none")
        cell = kernel.run("%agent resume")
        assert cell.displays[-1]["text/plain"] == "All done."
        assert "Go on with the task" in json.dumps(server.bodies[-1]["messages"])
        assert kernel.value("x2") == 2
    kernel.helper("%agent config budget.tokens none")


def test_a_budget_of_money_without_a_price(kernel: LiveKernel) -> None:
    """Without a known price a budget of money is refused before any request."""
    with ModelServer([Reply(text="Hi.")]) as server:
        use(kernel, server)
        cell = kernel.run("%%agent --budget 0.5\nWork.")
        assert "budget.usd cannot be kept: no price is known for m" in cell.error
        assert not server.requests


def test_resume_after_an_error(kernel: LiveKernel) -> None:
    """The provider failed in the middle: what was finished stays, and resume asks again."""
    with ModelServer([WORK[0]]) as server:
        use(kernel, server)
        assert kernel.run("%%agent\nWork.").status == "error"
    with ModelServer([Reply(text="All done.")]) as server:
        kernel.helper(f"%agent config api_base {server.openai_url}")
        assert kernel.run("y = 1\n%agent resume\nz = 2").displays[-1]["text/plain"] == "All done."
        assert kernel.value("y, z") == (1, 2)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("%agent resume --session other", "no turn has run in this session yet"),
        ("%agent resume", "the last turn ended with an answer"),
        ("%agent resume --nonsense", "there is no option --nonsense"),
        ("%agent resume and more", "%agent resume: unexpected 'and more'"),
        ("%%capture\n%agent resume", "cannot run inside another magic"),
    ],
)
def test_nothing_to_resume(kernel: LiveKernel, lines: str, words: str) -> None:
    """If there is nothing to resume, or no way to, one clear line says so."""
    kernel.helper("%agent reset")
    kernel.agent("1")
    assert words in kernel.run(lines).error
