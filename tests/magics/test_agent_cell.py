"""`%%agent` as a person types it: what goes wrong in one line, and what the options do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from live_kernel import Cell, LiveKernel, execute_code
from model_server import Call, ModelServer, Reply, check_anthropic, check_openai, failed

Json = dict[str, Any]


def check_one_line(cell: Cell, line: str) -> None:
    """The cell failed, and all that it shows is one line."""
    assert (cell.status, cell.error) == ("error", line)
    assert [output["type"] for output in cell.outputs] == ["error"]


# A person at the keyboard ------------------------------------------------------------------------

NO_TASK = "ConfigError: There is no task. Write what to do below the %%agent line."


@pytest.mark.parametrize("cell", ["%%agent", "%%agent\n", "%%agent\n  \n\n", "%%agent --fresh\n"])
def test_an_empty_task(kernel: LiveKernel, cell: str) -> None:
    """Run a cell without a task: one line says where to write it."""
    check_one_line(kernel.run(cell), NO_TASK)


@pytest.mark.parametrize("below", ["", "\n", "\nAnd more."])
def test_the_task_on_the_first_line(kernel: LiveKernel, below: str) -> None:
    """Write the task beside %%agent: one line says where it goes."""
    line = (
        "ConfigError: %%agent: unexpected 'Plot the data'. The first line takes options only; "
        "the task goes on the lines below it."
    )
    check_one_line(kernel.run(f"%%agent Plot the data{below}"), line)


def test_an_apostrophe_on_the_first_line(kernel: LiveKernel) -> None:
    """Write a task with an apostrophe beside %%agent: the same advice, not a parser's words."""
    error = kernel.run("%%agent What's in here?\nLook.").error
    assert error.startswith("ConfigError: %%agent: ") and "\n" not in error
    assert "the task goes on the lines below it" in error


OPTIONS = [
    ("--modle x", "there is no option --modle. Did you mean --model?"),
    ("--max-step 3", "there is no option --max-step. Did you mean --max-steps?"),
    ("--model", "argument --model: expected one argument."),
    (
        "--provider antropic",
        "provider must be anthropic, openai, local, scripted or none, not 'antropic'.",
    ),
    ("--max-steps many", "max_steps must be a whole number from 1 to 1000, not 'many'."),
    ("--max-steps 0", "max_steps must be a whole number from 1 to 1000, not '0'."),
    (
        "--approve never",
        "approvals.mode must be read_only, ask_risky, ask_all or auto, not 'never'.",
    ),
    ("--context all", "context.detail must be none, names, schema or sample, not 'all'."),
    ("--into 2x", "--into needs a variable's name, not '2x'."),
    ("--into class", "--into needs a variable's name, not 'class'."),
    ("--into a.b", "--into needs a variable's name, not 'a.b'."),
]


@pytest.mark.parametrize(("options", "line"), OPTIONS, ids=[options for options, _ in OPTIONS])
def test_a_wrong_option(kernel: LiveKernel, options: str, line: str) -> None:
    """Mistype an option or its value: one line says what is wrong and what is nearest."""
    check_one_line(kernel.run(f"%%agent {options}\nLook."), f"ConfigError: %%agent: {line}")


def test_an_option_like_no_other_lists_them_all(kernel: LiveKernel) -> None:
    """Use an option unlike any other: one line lists those that exist."""
    error = kernel.run("%%agent --zzz\nLook.").error
    assert error.startswith("ConfigError: %%agent: there is no option --zzz. The options are: ")
    assert "--session" in error and "\n" not in error


def test_a_wrong_option_changes_nothing(kernel: LiveKernel) -> None:
    """Mistype an option: no answer is bound, and the settings are as before."""
    before = kernel.helper("%agent config").said
    kernel.run("%%agent --into answer_to_nothing --max-steps 0\nLook.")
    assert kernel.helper("%agent config").said == before
    assert kernel.value("'answer_to_nothing' in globals()") is False


@pytest.mark.parametrize("outer", ["%%time", "%%capture", "%%timeit -n1 -r1"])
def test_inside_another_magic(kernel: LiveKernel, outer: str) -> None:
    """Put %%agent below another cell magic: one line says that it needs its own cell."""
    cell = kernel.run(f"{outer}\n%%agent\nLook.")
    line = (
        "ConfigError: %%agent cannot run inside another magic such as %%time or %%capture. "
        "Put %%agent on the first line of its own cell."
    )
    assert cell.error.splitlines()[-1] == line
    assert "never awaited" not in cell.stderr + kernel.run("import gc; gc.collect();").stderr


def test_autoawait_off(kernel: LiveKernel) -> None:
    """Switch top-level await off: one line says how to switch it on, and then it works."""
    kernel.run("%autoawait off")
    cell = kernel.run("%%agent\nLook.")
    kernel.run("%autoawait asyncio")
    line = "%%agent needs top-level await. Switch it on with: %autoawait asyncio"
    assert cell.error.splitlines()[-1] == f"ConfigError: {line}"
    assert kernel.agent("1 + 1").result.text == "2"


def test_what_stands_above_the_magic(kernel: LiveKernel) -> None:
    """Blank lines above %%agent change nothing."""
    kernel.script("Blank.", {"text": "Fine."})
    assert kernel.run("\n\n%%agent\nBlank.").displays[-1]["text/plain"] == "Fine."


# Nothing to ask ----------------------------------------------------------------------------------

NOTHING = (
    "ConfigError: No model is configured and there is no cassette. Ways to go on: set "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY before the kernel starts; or, for any compatible or local "
    "server, run %agent config provider openai and %agent config api_base URL; or, for a model "
    "inside the kernel, %agent config local.model_path FILE.gguf; or replay recorded answers with "
    "%agent cassette FILE."
)
NO_MODEL = (
    "ConfigError: No model is configured, and mode is record. Ways to go on: set "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY before the kernel starts; or, for any compatible or local "
    "server, run %agent config provider openai and %agent config api_base URL; or, for a model "
    "inside the kernel, %agent config local.model_path FILE.gguf."
)


@pytest.fixture
def unconfigured(kernel: LiveKernel) -> Iterator[LiveKernel]:
    """The kernel with the settings of a first start."""
    for key in ("provider", "script", "api_base", "api_key", "model"):
        kernel.helper(f"%agent config {key} none")
    kernel.helper("%agent config mode auto", "%agent reset")
    yield kernel
    kernel.helper("%agent config mode auto")


def test_nothing_is_configured(unconfigured: LiveKernel) -> None:
    """Run the first task without any set-up: one line tells the ways to go on."""
    check_one_line(unconfigured.run("%%agent\nLook."), NOTHING)


def test_replay_without_a_cassette(unconfigured: LiveKernel) -> None:
    """Ask for replay where no cassette is known: one line tells how to name one."""
    unconfigured.helper("%agent config mode replay")
    line = "mode is replay, but no cassette is known. Name one with %agent cassette FILE."
    check_one_line(unconfigured.run("%%agent\nLook."), f"ConfigError: {line}")


def test_record_without_a_model(unconfigured: LiveKernel) -> None:
    """Ask for recording where no model is configured: one line tells how to configure one."""
    unconfigured.helper("%agent config mode record")
    check_one_line(unconfigured.run("%%agent\nLook."), NO_MODEL)


def test_scripted_without_a_script(unconfigured: LiveKernel) -> None:
    """Choose the scripted provider without a script: one line says what is missing."""
    line = "provider is scripted, but no script is named. Set script to a YAML file."
    check_one_line(unconfigured.run("%%agent --provider scripted\nA."), f"ConfigError: {line}")


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_provider_without_a_key(unconfigured: LiveKernel, name: str) -> None:
    """Choose a provider without a key: one line names the variable to set, and the key setting."""
    error = unconfigured.run(f"%%agent --provider {name}\nLook.").error
    assert error.splitlines()[-1] == error
    assert f"{name.upper()}_API_KEY" in error


# Answers -----------------------------------------------------------------------------------------


def test_the_answer_and_its_facts(kernel: LiveKernel) -> None:
    """Run a task: `_agent` and the variable of --into hold the answer and what was done."""
    write = {"name": "write_file", "arguments": {"path": "out/new.txt", "content": "a\nb\n"}}
    kernel.script(
        "Work.",
        execute_code("made = 1"),
        execute_code("1 / 0"),
        {"calls": [write], "usage": {"input_tokens": 10, "output_tokens": 2}},
        {"text": "All **done**.", "usage": {"input_tokens": 20, "output_tokens": 3}},
    )
    cell = kernel.run("%%agent --into answer --fresh\nWork.")
    assert cell.status == "ok"
    assert kernel.value("answer is _agent, str(answer), answer.text") == (
        True,
        "All **done**.",
        "All **done**.",
    )
    assert kernel.value("answer.code, answer.files, answer.variables, answer.stop_reason") == (
        ("made = 1",),
        ("out/new.txt",),
        ("made",),
        "end",
    )
    assert kernel.value("answer.usage.input_tokens, answer.usage.output_tokens") == (30, 5)
    assert kernel.value("[(c.name, c.kind) for c in answer.receipt.variables]") == [
        ("made", "added")
    ]
    assert kernel.run("answer").outputs[0]["data"]["text/markdown"] == "All **done**."


@pytest.mark.parametrize("shown", ["_agent", "[_agent]", "_agent.code", "vars(_agent)"])
def test_the_answer_as_an_output(kernel: LiveKernel, shown: str) -> None:
    """A displayed answer is stored without secrets in each form; as a value, answer and
    code are whole.
    """
    secret = "hunter" + "22"
    code = f"password = '{secret}'"
    kernel.script("Set it.", execute_code(code), {"text": f"The password is {secret}, 'as' said."})
    kernel.run("%%agent --fresh\nSet it.")
    (output,) = kernel.run(shown).outputs
    assert "[redacted]" in output["data"]["text/plain"] and secret not in str(output["data"])
    assert kernel.value("[_agent.text, *map(str, _agent.code)]") == [
        f"The password is {secret}, 'as' said.",
        code,
    ]


def test_the_saved_form(kernel: LiveKernel) -> None:
    """Run a task: the notebook keeps one transcript and the answer, and nothing of the progress."""
    turn = kernel.agent("1 + 1")
    assert [output["type"] for output in turn.cell.outputs] == ["display_data"] * 2
    assert set(turn.cell.displays[0]) == {"text/html", "text/markdown", "text/plain"}
    assert turn.cell.displays[0]["text/html"].startswith("<details")
    assert turn.cell.displays[1]["text/markdown"] == "Done."


def test_read_only(kernel: LiveKernel) -> None:
    """Run a task with --approve read_only: code is refused, and the model is told."""
    kernel.script("Read.", execute_code("touched = 1"), {"text": "I may not."})
    cell = kernel.run("%%agent --approve read_only\nRead.")
    assert "is refused: the person allows reading only" in cell.transcript
    assert kernel.value("'touched' in globals()") is False


def test_the_step_limit(kernel: LiveKernel) -> None:
    """Run a task with --max-steps 1: after one step the model gives its best answer."""
    kernel.script("Limit.", execute_code("1"), {"text": "As far as I got."})
    cell = kernel.run("%%agent --max-steps 1\nLimit.")
    assert cell.displays[-1]["text/plain"] == "As far as I got."
    assert kernel.value("_agent.stop_reason") == "step_limit"


def test_ask_in_a_cell(kernel: LiveKernel) -> None:
    """Await ask() in ordinary code: the turn is shown, and its answer is a value."""
    kernel.script("From code.", {"text": "Hello, code."})
    cell = kernel.run("from jupyter_agent import ask\nreply = await ask('From code.')\nlen(reply)")
    assert (cell.status, cell.result) == ("ok", "12")
    assert cell.displays[-1]["text/plain"] == "Hello, code."


def test_ask_with_a_wrong_setting(kernel: LiveKernel) -> None:
    """Mistype a setting of ask(): one line names the nearest one."""
    error = kernel.run("from jupyter_agent import ask\nawait ask('x', max_step=3)").error
    assert error == "ConfigError: ask(): there is no setting max_step. Did you mean max_steps?"


RUNS_ALREADY = "AgentError: A turn is running already. Wait for it, or interrupt the kernel."


def second_beside_first(kernel: LiveKernel) -> Cell:
    """A cell that starts a turn in the background and then another; the first one is awaited."""
    cell = kernel.run(
        "import asyncio\nfrom jupyter_agent import ask\n"
        "first = asyncio.ensure_future(ask('First.'))\nawait asyncio.sleep(0.3)\n"
        "await ask('Second.', fresh=True)"
    )
    assert kernel.run("str(await first)").result == "'A.'"
    return cell


def test_a_second_turn_while_the_model_is_asked(kernel: LiveKernel) -> None:
    """Start a turn while another waits for its model: refused in one line, the first goes on."""
    with ModelServer([Reply(text="A.", delay=1.5)]) as server:
        connect(kernel, server)
        cell = second_beside_first(kernel)
    assert (cell.status, cell.error) == ("error", RUNS_ALREADY)


def test_a_second_turn_while_the_agents_code_waits(kernel: LiveKernel) -> None:
    """Start a turn while another one's code awaits: refused in one line, which is shown."""
    code = "import asyncio\nawait asyncio.sleep(1.5)"
    kernel.script("First.", execute_code(code), {"text": "A."})
    cell = second_beside_first(kernel)
    assert (cell.status, cell.error) == ("error", RUNS_ALREADY)


def test_a_cell_of_the_persons_while_the_agents_code_waits(kernel: LiveKernel) -> None:
    """Run a cell beside a turn in the background: its outputs are its own."""
    code = "import asyncio\nfor _ in range(6):\n    await asyncio.sleep(0.1)\nprint('mine')"
    kernel.script("First.", execute_code(code), {"text": "A."})
    kernel.run(
        "import asyncio\nfrom jupyter_agent import ask\n"
        "first = asyncio.ensure_future(ask('First.'))\nawait asyncio.sleep(0.1)"
    )
    cell = kernel.run("print('yours')\n1 / 0")
    kernel.run("await first")
    assert "yours" not in kernel.helper("%agent show").said
    assert cell.stdout == "yours\n"
    assert "ZeroDivisionError" in cell.error


# Conversations -----------------------------------------------------------------------------------


def tasks_in(body: Json) -> list[str]:
    """The persons' tasks in a request, oldest first."""
    texts = [m["content"] for m in body["messages"] if m["role"] == "user"]
    return [t if isinstance(t, str) else t[0]["text"] for t in texts]


def connect(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper(
        "%agent config provider openai",
        f"%agent config api_base {server.openai_url}",
        "%agent config api_key not-a-key",
        "%agent config model test-model",
        "%agent reset",
    )


def test_conversations_go_on_and_are_kept_apart(kernel: LiveKernel) -> None:
    """Give tasks in two sessions and start one afresh: each model call sees its own history."""
    with ModelServer([Reply(text=f"Answer {number}.") for number in range(5)]) as server:
        connect(kernel, server)
        kernel.run("%%agent\nOne.")
        kernel.run("%%agent\nTwo.")
        kernel.run("%%agent --session other\nThree.")
        kernel.run("%%agent\nFour.")
        kernel.run("%%agent --fresh\nFive.")
    begun = [[task.split("\n")[0] for task in tasks_in(body)] for body in server.bodies]
    assert begun == [["One."], ["One.", "Two."], ["Three."], ["One.", "Two.", "Four."], ["Five."]]
    assert "Answer 0." in str(server.bodies[1])
    assert "Answer 2." not in str(server.bodies[3])
    for body in server.bodies:
        check_openai(body)


def test_what_is_told_of_variables(kernel: LiveKernel) -> None:
    """With --context names the names of variables are sent, with none nothing."""
    kernel.run("very_private_name = 'very private value'")
    with ModelServer([Reply(text="A."), Reply(text="B.")]) as server:
        connect(kernel, server)
        kernel.run("%%agent --fresh\nOne.")
        kernel.run("%%agent --fresh --context none\nTwo.")
    assert "very_private_name: str" in str(server.bodies[0])
    assert "very private value" not in str(server.bodies[0])
    assert "very_private_name" not in str(server.bodies[1])


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_refused_key(kernel: LiveKernel, name: str) -> None:
    """Use a key that the server refuses: one line names the variable, and it is asked once."""
    refused = failed(401, {"error": {"message": "invalid key", "type": "authentication_error"}})
    with ModelServer([refused, Reply(text="Now.")]) as server:
        connect(kernel, server)
        address = server.openai_url if name == "openai" else server.anthropic_url
        kernel.helper(f"%agent config provider {name}", f"%agent config api_base {address}")
        cell = kernel.run("%%agent\nLook.")
        assert cell.status == "error" and "\n" not in cell.error
        assert (
            cell.error.startswith("ProviderError: ") and "answered 401: invalid key." in cell.error
        )
        assert f"Check the key in {name.upper()}_API_KEY." in cell.error
        assert "not-a-key" not in json.dumps(cell.outputs)
        assert len(server.requests) == 1
        assert kernel.run("%%agent\nTry again.").displays[-1]["text/plain"] == "Now."
        (check_openai if name == "openai" else check_anthropic)(server.bodies[-1])


def test_a_failure_after_some_work(kernel: LiveKernel) -> None:
    """If the model fails after a step, the finished work is shown above the error's line."""
    work = Call("execute_code", json.dumps({"code": "worked_before = 1"}))
    with ModelServer([Reply(calls=(work,)), failed(400), Reply(text="Now.")]) as server:
        connect(kernel, server)
        cell = kernel.run("%%agent\nLook.")
        assert "worked_before = 1" in cell.transcript
        assert cell.error.startswith("ProviderError: ") and "\n" not in cell.error
        assert kernel.value("worked_before, _agent.stop_reason") == (1, "error")
        assert kernel.run("%%agent\nGo on.").displays[-1]["text/plain"] == "Now."
        check_openai(server.bodies[-1])


def test_a_retry_is_told(kernel: LiveKernel) -> None:
    """If the server is overloaded once, the task succeeds, and the transcript shows the retry."""
    with ModelServer([failed(503, retry_after="0"), Reply(text="Now.")]) as server:
        connect(kernel, server)
        started = time.monotonic()
        cell = kernel.run("%%agent\nLook.")
        assert time.monotonic() - started < 15
    assert "Try 1 failed and was repeated: " in cell.transcript
    assert cell.displays[-1]["text/plain"] == "Now."


# Loading and unloading ---------------------------------------------------------------------------


def test_loading_twice(kernel: LiveKernel) -> None:
    """Load the extension again: no error, no second `await`, and the conversation stays."""
    kernel.agent("1")
    status = kernel.helper("%agent status").said
    kernel.helper("%load_ext jupyter_agent", "%reload_ext jupyter_agent")
    kernel.helper("import jupyter_agent; jupyter_agent.load_ipython_extension(get_ipython())")
    assert kernel.agent("1 + 1").result.text == "2"
    assert kernel.value("len(get_ipython().input_transformers_post)") == 1
    assert "default (1 turn)" in status


def test_unloading(kernel: LiveKernel) -> None:
    """Unload the extension: magics and sessions are gone; loading it again works from the start."""
    kernel.agent("1")
    assert kernel.run("%unload_ext jupyter_agent").status == "ok"
    assert "`%%agent` not found" in str(kernel.run("%%agent\nLook.").outputs)
    assert "`%agent` not found" in str(kernel.run("%agent status").outputs)
    assert kernel.value("len(get_ipython().input_transformers_post)") == 0
    kernel.load()
    assert "(none yet)" in kernel.helper("%agent status").said
    assert kernel.agent("1 + 1").result.text == "2"
