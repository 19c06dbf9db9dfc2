"""`%agent COMMAND`: what each command says, and one line for what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from live_kernel import LiveKernel, execute_code, logged

from jupyter_agent.magics import commands, parser

KEY = "sk-very-secret-key-0123456789"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LiveKernel]:
    """A kernel in which no turn has run."""
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        yield kernel


def said(kernel: LiveKernel, command: str) -> str:
    """What a command prints."""
    return kernel.helper(f"%agent {command}").said.rstrip("\n")


def error(kernel: LiveKernel, command: str) -> str:
    """The line of a command that fails."""
    cell = kernel.run(f"%agent {command}")
    assert cell.status == "error" and "\n" not in cell.error
    assert [output["type"] for output in cell.outputs] == ["error"]
    return cell.error


def row(text: str, key: str) -> list[str]:
    """The words of the line that starts with `key`."""
    (found,) = (line.split() for line in text.splitlines() if line.split()[:1] == [key])
    return found


# Before the first turn ---------------------------------------------------------------------------


def test_commands_before_the_first_turn(fresh: LiveKernel) -> None:
    """Before the first turn each command says that there is nothing yet, without an error."""
    status = said(fresh, "status")
    assert row(status, "sessions")[1:] == ["(none", "yet)"]
    assert row(status, "mode")[1:] == ["auto"]
    assert row(status, "workspace")[1:] == [str(fresh.folder)]
    assert said(fresh, "show") == "No turn has run yet."
    assert said(fresh, "show last") == "No turn has run yet."
    assert said(fresh, "usage") == "No turn has run yet."
    assert said(fresh, "log") == "No turn has been logged yet."
    assert said(fresh, "cassette") == "No cassette. Name one: %agent cassette FILE"
    assert (
        said(fresh, "reset")
        == "The conversation default has not begun: there is nothing to forget."
    )


def test_looking_leaves_nothing_behind(fresh: LiveKernel) -> None:
    """Commands that only show something create no file or folder."""
    before = set(fresh.folder.iterdir())
    for command in (
        "status",
        "config",
        "tools",
        "skills",
        "notes",
        "memory",
        "mcp",
        "trust",
        "usage",
        "show",
        "log",
        "cassette",
        "help",
    ):
        said(fresh, command)
    assert set(fresh.folder.iterdir()) == before


def test_the_environment_is_a_source(tmp_path: Path) -> None:
    """The configuration names a variable of the environment as a source."""
    with LiveKernel(tmp_path, {"JUPYTER_AGENT_MAX_STEPS": "7"}) as kernel:
        kernel.load()
        assert row(said(kernel, "config max_steps"), "max_steps") == [
            "max_steps",
            "7",
            "environment",
        ]
        kernel.helper("%agent config max_steps 8")
        assert row(said(kernel, "config max_steps"), "max_steps")[1] == "8"


def test_a_wrong_variable_of_the_environment(tmp_path: Path) -> None:
    """Misspell a variable: commands and tasks say so in one line."""
    with LiveKernel(tmp_path, {"JUPYTER_AGENT_MODLE": "x"}) as kernel:
        kernel.load()
        line = (
            "ConfigError: environment: there is no setting JUPYTER_AGENT_MODLE. "
            "Did you mean JUPYTER_AGENT_MODEL?"
        )
        assert error(kernel, "status") == line
        assert kernel.run("%%agent\nLook.").error == line


NOBODY: Any = None
"""No sessions: the functions that would want some are not run."""

# Help and mistakes -------------------------------------------------------------------------------

COMMANDS = (
    "help", "status", "config", "cassette", "context", "history", "show", "tools", "skills",
    "notes", "memory", "mcp", "trust", "usage", "reset", "resume", "go", "undo", "compact",
    "cells", "export", "log", "agents",
)  # fmt: skip


GROUPS = {
    "The conversation:": {"context", "history", "reset", "resume", "go", "compact"},
    "What happened:": {"show", "usage", "cells", "export", "log", "agents"},
    "Undo:": {"undo"},
    "What it may do:": {"tools", "mcp", "trust"},
    "Settings:": {"status", "config", "cassette"},
    "Memory and skills:": {"skills", "notes", "memory"},
    "Help:": {"help"},
}


@pytest.mark.parametrize("command", ["", "help"])
def test_help(kernel: LiveKernel, command: str) -> None:
    """The help lists every command with its purpose, below the heading of its group."""
    head, *groups = said(kernel, command).split("\n\n")
    assert head.startswith("%%agent on the first line of a cell")
    listed = {}
    for heading, *lines in (group.splitlines() for group in groups):
        listed[heading] = [line.split()[1] for line in lines]
        assert all(len(line.split()) > 3 for line in lines)
    assert {heading: set(names) for heading, names in listed.items()} == GROUPS
    assert list(listed) == list(GROUPS)
    assert sorted(name for names in listed.values() for name in names) == sorted(COMMANDS)


def test_help_for_one(kernel: LiveKernel) -> None:
    """Ask about one command, in any of the usual ways: its words, what it does, examples."""
    told = (
        "%agent config [KEY [VALUE]]  the settings, or one of them; "
        "with VALUE, set it for this kernel"
    )
    for words in ("help config", "config --help", "config -h", "config ?"):
        first, meanings, examples = said(kernel, words).split("\n\n")
        assert first == told
        assert [line.split()[0] for line in meanings.splitlines()] == ["KEY", "VALUE"]
        assert "%agent config max_steps 20 " in examples
    assert "Did you mean config?" in error(kernel, "help confg")


def test_help_undo(kernel: LiveKernel) -> None:
    """The help of undo has its arguments and options with their meanings, and examples."""
    first, details, meanings, examples = said(kernel, "help undo").split("\n\n")
    assert first.startswith("%agent undo [show] [N] [--over FILE ...] | list | redo  take back")
    assert "Files that you changed after the turn stay as they are" in details
    words = [re.split(" {2,}", line) for line in meanings.splitlines()]
    assert [word for word, _ in words] == [
        "show [N] [--over FILE ...]", "list", "redo", "N", "--over FILE ...",
    ]  # fmt: skip
    assert examples.startswith("Examples:\n%agent undo show ")


def leaves(command: click.Command) -> Iterator[click.Command]:
    """The commands of a command that have a function."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from leaves(each)
    else:
        yield command


@pytest.mark.parametrize("name", COMMANDS)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command has examples, and each example parses."""
    command = commands.COMMANDS[name]
    for leaf in leaves(command):
        monkeypatch.setattr(leaf, "callback", lambda **words: "understood")
    assert command.examples
    for line in command.examples:
        magic, _, words = line.partition(" ")
        assert magic == "%agent" and words.split()[0] == name
        assert commands.run_line(NOBODY, words) == "understood"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_word_has_a_meaning(name: str) -> None:
    """The help explains each word of a command's usage."""
    explained = " ".join(word for word, _ in parser.meanings(commands.COMMANDS[name]))
    assert set(re.findall(r"[-\w]+", parser.words(commands.COMMANDS[name]))) <= set(
        re.findall(r"[-\w]+", explained)
    )


def test_what_the_magic_takes(kernel: LiveKernel) -> None:
    """`%%agent?` lists the options with what they mean."""
    page = str(kernel.run("%%agent?").reply["payload"])
    assert "--max-steps N" in page and "the most model calls of the turn" in page


def test_the_rich_form(kernel: LiveKernel) -> None:
    """A notebook shows an escaped table; the plain text says the same."""
    kernel.helper("%agent config model '<b>m</b>'")
    (shown,) = kernel.helper("%agent status").displays
    assert "<td" in shown["text/html"] and "&lt;b&gt;m&lt;/b&gt;" in shown["text/html"]
    assert "<b>m</b>" in shown["text/plain"] and "<b>" not in shown["text/html"]
    kernel.helper("%agent config model none")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("statsu", "there is no command 'statsu'. Did you mean status?"),
        ("confg max_steps", "there is no command 'confg'. Did you mean config?"),
        ("xyz", f"there is no command 'xyz'. The commands are: {', '.join(COMMANDS)}."),
        ("status now", "unexpected 'now'. Usage: %agent status"),
        ("tools all", "unexpected 'all'. Usage: %agent tools"),
        ("usage a", "unexpected 'a'. Usage: %agent usage"),
        ("show 1 b", "unexpected 'b'. Usage: %agent show [N | last | widgets]"),
        ("reset a b", "unexpected 'b'. Usage: %agent reset [SESSION]"),
        ("cassette a b", "unexpected 'b'. Usage: %agent cassette [FILE | prove]"),
    ],
)
def test_a_wrong_command(kernel: LiveKernel, command: str, line: str) -> None:
    """Mistype a command or give it too many words: one line says what is possible."""
    assert error(kernel, command) == f"ConfigError: %agent: {line}"


def test_an_open_quotation_mark(kernel: LiveKernel) -> None:
    """Forget to close a quotation mark: one line says so."""
    assert error(kernel, "config model 'x") == "ConfigError: %agent: No closing quotation."


def test_resetting_a_session_that_is_not_there(kernel: LiveKernel) -> None:
    """Reset a session under a wrong name: one line says that there is none."""
    line = "ConfigError: %agent reset: there is no session 'nobody'. %agent status lists them."
    assert error(kernel, "reset nobody") == line


# Configuration -----------------------------------------------------------------------------------


def test_config_lists_every_setting(kernel: LiveKernel, tmp_path: Path) -> None:
    """List the configuration: every setting has its value and where it comes from."""
    kernel.begin_anew(tmp_path)
    text = said(kernel, "config")
    assert row(text, "token_limit") == ["token_limit", "80000", "default"]
    assert row(text, "retry.max_retries") == ["retry.max_retries", "3", "default"]
    assert row(text, "mode") == ["mode", "auto", "default"]


def test_config_sets_and_takes_back(kernel: LiveKernel) -> None:
    """Set a value and set it to nothing: the listing follows, and one line confirms it."""
    kept = "in the memory of this kernel only."
    assert said(kernel, "config model 'my model'") == f"model is my model, {kept}"
    assert said(kernel, "config model").split() == ["model", "my", "model", "%agent", "config"]
    assert said(kernel, "config model none") == f"model is none, {kept}"
    confirmed = said(kernel, "config api_key sk-test-0123456789abcdef")
    assert confirmed.startswith(f"api_key is set, not shown, {kept} This cell holds a key")
    assert "sk-test" not in confirmed
    kernel.helper("%agent config api_key none")
    assert row(said(kernel, "config model"), "model")[1] == "none"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("max_step 3", "%agent config: there is no setting max_step. Did you mean max_steps?"),
        ("modle", "%agent config: there is no setting modle. Did you mean model?"),
        ("retry", None),
        ("max_retries 3", "there is no setting max_retries. Did you mean retry.max_retries?"),
        ("max_steps many", "max_steps must be a whole number from 1 to 1000, not 'many'."),
        ("mode sometimes", "mode must be auto, live, record, replay or cached, not 'sometimes'."),
        (
            "model my model",
            "%agent config takes KEY, or KEY VALUE. Put a value with spaces in quotes.",
        ),
    ],
)
def test_a_wrong_setting(kernel: LiveKernel, words: str, line: str | None) -> None:
    """Mistype a setting or its value: one line says what is right, and nothing is changed."""
    before = said(kernel, "config")
    found = error(kernel, f"config {words}")
    assert found.endswith(
        line
        or "Set one of retry.enabled, retry.max_retries, "
        "retry.initial_delay, retry.max_delay, retry.exponential_base, retry.max_total."
    )
    assert said(kernel, "config") == before


def test_the_key_is_never_shown(kernel: LiveKernel) -> None:
    """Set the key for the server: no command, error or log shows it afterwards."""
    kernel.helper(f"%agent config api_key {KEY}")
    texts = [said(kernel, command) for command in ("config", "config api_key", "status", "help")]
    assert "set, not shown" in texts[1]
    turn = kernel.agent("print('ran')")
    texts += [json.dumps(turn.events), json.dumps(turn.cell.outputs), said(kernel, "show")]
    texts.append(str(kernel.run("%agent config api_key 'a b\tc'").outputs))
    kernel.helper("%agent config api_key none")
    assert not [text for text in texts if KEY in text or "a b" in text]


# After turns -------------------------------------------------------------------------------------


def test_the_receipt_is_a_table(kernel: LiveKernel) -> None:
    """Show `_agent.receipt`: tables of variables and files, escaped; no time, no cost."""
    kernel.agent("count = 342\nopen('<b>made.txt', 'w').write('a\\n')")
    cell = kernel.run("_agent.receipt")
    (data,) = [o["data"] for o in cell.outputs if o["type"] == "execute_result"]
    text, markup = data["text/plain"], data["text/html"]
    assert re.search(r"count +added +int", text), text
    assert re.search(r"<b>made.txt +created +1 +0", text)
    assert "<td" in markup and "&lt;b&gt;made.txt" in markup and "<b>" not in markup
    assert "seconds" not in text and "Receipt(" not in text


def test_history(kernel: LiveKernel) -> None:
    """The history has one line for each message and call, and marks failures."""
    kernel.helper("%agent reset")
    assert said(kernel, "history") == "Nothing has been said yet."
    kernel.script("Divide.", execute_code("1 / 0"), {"text": "It cannot be done.\nSorry."})
    kernel.run("%%agent\nDivide.")
    rows = [line.split(None, 1) for line in said(kernel, "history").splitlines()]
    assert [kind for kind, _ in rows] == ["you", "calls", "failed", "agent"]
    assert rows[0][1] == "Divide." and rows[1][1] == "execute_code 1 / 0"
    assert "ZeroDivisionError" in rows[2][1]
    assert rows[3][1] == "It cannot be done."
    assert "there is no session 'x'. %agent status lists them." in error(kernel, "history x")


def test_usage_adds_up_by_session(kernel: LiveKernel) -> None:
    """Run turns in two sessions: the tokens of each are added up, and reset starts anew. A turn
    has the number that `%agent show` knows it by.
    """
    usage = {"input_tokens": 1200, "output_tokens": 30, "cache_read_tokens": 200}
    kernel.helper("%agent reset")
    for task, session in (("A.", "default"), ("B.", "default"), ("C.", "second")):
        kernel.script(task, {"text": "Fine.", "usage": usage})
        kernel.run(f"%%agent --session {session}\n{task}")
    first, second = said(kernel, "usage").split("\n\n")
    rows = [re.split(" {2,}", line) for line in first.splitlines()]
    head = ["default", "tokens in", "from the cache", "tokens out", "cost", "model"]
    one = ["1,200", "200", "30", "unknown"]
    assert rows[0] == head
    shown = re.findall(r"^ *([0-9]+) .* ([ABC])\.$", said(kernel, "show"), re.MULTILINE)
    number = {task: number for number, task in reversed(shown)}["B"]
    assert rows[2] == [f"turn {number}", *one, "script"]
    assert rows[3] == ["2 turns", "2,400", "400", "60", "unknown"]
    assert [re.split(" {2,}", line) for line in second.splitlines()][2] == ["1 turn", *one]
    kernel.helper("%agent reset second")
    assert "second (0 turns)" in said(kernel, "status")
    assert "default (2 turns)" in said(kernel, "status")


def test_reset_keeps_variables_and_settings(kernel: LiveKernel) -> None:
    """Reset the conversation: variables, files and settings stay."""
    kernel.helper("%agent config max_steps 9")
    kernel.agent("stays = 1")
    assert said(kernel, "reset").startswith("The conversation default (1 turn) is forgotten")
    assert kernel.value("stays") == 1
    assert row(said(kernel, "config max_steps"), "max_steps")[1] == "9"
    kernel.helper("%agent config max_steps 50")


def test_tools_lists_what_the_model_may_call(kernel: LiveKernel) -> None:
    """List the tools: each has its effect and a line of what it does."""
    rows = {line.split()[0]: line.split()[1] for line in said(kernel, "tools").splitlines()}
    assert rows["execute_code"] == "executes"
    assert rows["write_file"] == "writes"
    assert rows["read_file"] == "reads"


def test_log_names_the_last_log(kernel: LiveKernel) -> None:
    """`%agent log` gives the path to the last turn's log."""
    turn = kernel.agent("1")
    path = Path(said(kernel, "log").splitlines()[0])
    assert tuple(logged(path)) == turn.events


def test_log_of_another_session(kernel: LiveKernel) -> None:
    """Run a turn in another session: %agent log names that turn's log, which was the last."""
    kernel.agent("1")
    kernel.script("Elsewhere.", {"text": "Fine."})
    before = kernel.logs()
    kernel.run("%%agent --session elsewhere\nElsewhere.")
    (new,) = kernel.logs() - before
    assert said(kernel, "log").splitlines()[0] == str(new)


def test_a_cassette_is_recorded_and_replayed(kernel: LiveKernel) -> None:
    """Name a cassette, record a turn, replay it without a model: the outputs are the same."""
    assert said(kernel, "cassette tape.jsonl") == ""
    assert said(kernel, "cassette") == "Cassette tape.jsonl: not recorded yet."
    kernel.script("Record.", execute_code("print('recorded')"), {"text": "Kept."})
    kernel.helper("%agent config mode record")
    recorded = kernel.run("%%agent --fresh\nRecord.")
    assert said(kernel, "cassette") == (
        "Cassette tape.jsonl: 1 turn, 2 scripted replies. "
        "1 turn ran only once: %agent cassette prove"
    )
    kernel.helper("%agent config mode replay")
    replayed = kernel.run("%%agent --fresh\nRecord.")
    other = kernel.run("%%agent --fresh\nSomething else.")
    kernel.helper("%agent config mode auto")
    assert json.dumps(replayed.outputs) == json.dumps(recorded.outputs)
    # What to do stands on a line of its own, to be copied.
    why, remedy = other.error.split("\n")
    assert why.startswith("ReplayMismatch: No reply in tape.jsonl for the task 'Something else.'")
    assert remedy == "jupyter agent record NOTEBOOK --task 'Something else.'"


def test_a_folder_is_no_cassette(kernel: LiveKernel) -> None:
    """A folder given as the cassette is refused in one line, and nothing changes."""
    (kernel.folder / "a_folder").mkdir()
    before = said(kernel, "cassette")
    line = "ConfigError: a_folder is a folder, not a cassette file."
    assert error(kernel, "cassette a_folder") == line
    assert said(kernel, "cassette") == before
