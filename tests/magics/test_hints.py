"""What is said without being asked: no model, a key in a cell, `%%agent` below the first line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel
from model_server import ModelServer, Reply, failed

from jupyter_agent.errors import ConfigError
from jupyter_agent.magics.hints import NO_MODEL, holds_key, missing_model, refuse_misplaced

KEY = "sk-ant-0123456789abcdefghij"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("hints")) as kernel:
        yield kernel


def test_no_model_yet(module_kernel: LiveKernel) -> None:
    """Where a person loads the extension and there is no key, two lines say what to do."""
    cell = module_kernel.start("%load_ext jupyter_agent", allow_stdin=True).finish()
    assert cell.stdout.strip() == NO_MODEL and NO_MODEL.count("\n") == 1
    module_kernel.helper("%unload_ext jupyter_agent")
    assert module_kernel.run("%load_ext jupyter_agent").outputs == ()
    status = module_kernel.run("%agent status").said
    assert "missing" in status and "ANTHROPIC_API_KEY" in status


def test_whatever_points_to_a_model_is_enough(tmp_path: Path) -> None:
    """A key, an address, a setting, a settings file or a recording: nothing is said."""
    own = {"JUPYTER_CONFIG_DIR": str(tmp_path / "own")}
    assert missing_model({}, tmp_path, own) == NO_MODEL
    assert missing_model({}, tmp_path, {**own, "OPENAI_API_KEY": "k"}) == ""
    assert missing_model({}, tmp_path, {**own, "JUPYTER_AGENT_MODE": "replay"}) == ""
    assert missing_model({"local.model": "m"}, tmp_path, own) == ""
    (tmp_path / ".jupyter_agent").mkdir()
    settings = tmp_path / ".jupyter_agent" / "config.yaml"
    settings.write_text("max_steps: 3\n", encoding="utf-8")
    assert missing_model({}, tmp_path, own) == NO_MODEL
    settings.write_text("max_steps: 3\nprovider: openai\n", encoding="utf-8")
    assert missing_model({}, tmp_path, own) == ""
    settings.unlink()
    (tmp_path / "a.cassette.jsonl").touch()
    assert missing_model({}, tmp_path, own) == ""


@pytest.mark.parametrize(
    ("source", "is_key"),
    [
        (f"os.environ['ANTHROPIC_API_KEY'] = '{KEY}'", True),
        (f"%env OPENAI_API_KEY={KEY}", True),
        ("client = Client(api_key='0123456789abcdef0123')", True),
        ("settings = {'api_key': '0123456789abcdef0123'}", True),
        ("os.environ.setdefault('MY_SECRET', '0123456789abcdef0123')", True),
        ("os.environ['API_KEY'] = getpass()", False),
        ("api_key = 'your-key-goes-here-please'", False),
        ("api_key = os.environ['ANTHROPIC_API_KEY_OF_MINE']", False),
        ("OPENAI_API_KEY = 'sk-...'", False),
        ("token_count = 'a text without any blanks_in_it'", False),
        ("risk-assessment-of-the-new-product = 1", False),
    ],
)
def test_a_key_in_a_cell(source: str, is_key: bool) -> None:
    """Keys as literals are known by their form or by the name they get; placeholders are none."""
    assert holds_key(source) is is_key


def test_a_key_is_warned_about_once(kernel: LiveKernel) -> None:
    """The first cell with a key has one warning below it, without the key."""
    first = kernel.run(f"import os\nos.environ['MY_API_KEY'] = '{KEY}'")
    assert (
        first.stderr.startswith("This cell holds a key in plain text") and KEY not in first.stderr
    )
    assert kernel.run(f"os.environ['MY_API_KEY'] = '{KEY}'").stderr == ""


def test_a_key_given_to_config_is_warned_about_once(kernel: LiveKernel) -> None:
    """`%agent config api_key` says it in the line that confirms, and nothing stands below."""
    kernel.helper("%reload_ext jupyter_agent")
    set_ = kernel.run(f"%agent config api_key {KEY}")
    assert "This cell holds a key in plain text" in set_.said and KEY not in set_.said
    assert set_.stderr == ""
    kernel.helper("%agent config api_key none")


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("# A note\n%%agent\nWhat's the mean of it?", 2),
        ('\n\n# A note\n\n%%agent --model m\nPlot it: "quickly"', 5),
        ("x = 1\n%%agent\nIs it 5 o'clock?\n'''", 2),
    ],
)
def test_a_misplaced_magic(kernel: LiveKernel, cell: str, line: int) -> None:
    """One line names the place of the `%%agent`, in place of a SyntaxError at the prose."""
    error = kernel.run(cell).error
    assert f"must be on the first line of its cell, and here it is on line {line}." in error
    assert "SyntaxError" not in error and "Traceback" not in error


@pytest.mark.parametrize(
    "cell",
    [
        "text = '''\n%%agent\nhello\n'''",
        "# %%agent is a magic\n6 * 7",
        "%%writefile note.txt\n# A note\n%%agent\nhello",
        "\n\n%agent status",
    ],
)
def test_what_is_not_misplaced(kernel: LiveKernel, cell: str) -> None:
    """The magic's name in a string, a comment or another magic's body is text."""
    assert kernel.run(cell).status == "ok"


def test_a_line_without_its_source() -> None:
    """Where the cell as it was typed is unknown, the transformed line counts."""
    with pytest.raises(ConfigError, match="on line 2"):
        refuse_misplaced(["x = 1\n", "get_ipython().run_line_magic('%agent', '')\n"], "")


def test_the_status_names_what_is_used(kernel: LiveKernel) -> None:
    """Provider, model and where the key is from, never the key."""
    kernel.helper("%agent config provider anthropic")
    assert (
        "the key: set ANTHROPIC_API_KEY before the kernel starts"
        in kernel.run("%agent status").said
    )
    kernel.helper(f"%agent config api_key {KEY}")
    said = kernel.run("%agent status").said
    assert "set by api_key" in said and "(the default)" in said and KEY not in said
    kernel.helper("%agent config api_key none", "%agent config provider scripted")
    assert "none is needed" in kernel.run("%agent status").said


def test_a_name_that_is_nearly_a_variable(kernel: LiveKernel) -> None:
    """`@pengins` is one clear line before any model call; a handle and a decorator are text."""
    with ModelServer([Reply(text="Hi."), Reply(text="Hi.")]) as server:
        kernel.helper(
            "penguins = [1, 2]",
            "%agent config provider openai",
            f"%agent config api_base {server.openai_url}",
            "%agent config api_key k",
            "%agent config model m",
        )
        cell = kernel.run("%%agent\nPlot @pengins.")
        assert "There is no variable @pengins. Did you mean @penguins?" in cell.error
        assert not server.requests
        assert kernel.run("%%agent\nThank @maria.\n@cache\ndef f(): pass").status == "ok"
        cell = kernel.run("%%agent\nPlot @penguins.")
        assert "Attached: @penguins (list" in cell.transcript


def test_usage_has_the_time_of_each_turn(kernel: LiveKernel, tmp_path: Path) -> None:
    """A wait that the server asks for ends well, and `%agent usage` has its seconds."""
    kernel.begin_anew(tmp_path)
    with ModelServer([failed(429, "slow", retry_after="1"), Reply(text="Hi.")]) as server:
        kernel.helper(
            "%agent config provider openai",
            f"%agent config api_base {server.openai_url}",
            "%agent config api_key k",
            "%agent config model m",
        )
        assert kernel.run("%%agent\nWait for it.").status == "ok"
    head, row, _ = (
        re.split(r" {2,}", each) for each in kernel.run("%agent usage").said.split("\n")
    )
    turn = dict(zip(head, row, strict=True))
    assert row[0] == "turn 1" and turn["cost"] == "unknown" and turn["model"] == "m"
    assert 1 <= float(turn["time"].removesuffix(" s")) < 60
