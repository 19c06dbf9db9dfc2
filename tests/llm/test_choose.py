"""Which provider answers, by mode, settings, cassette and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.config import Settings, layer, resolve
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.core.ports import Request
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.inline import Inline
from jupyter_agent.recording.cassette import Cassette, save
from jupyter_agent.recording.player import Player
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.wrappers import tape_of
from jupyter_agent.session.provider_choice import (
    NO_MODEL,
    NOTHING_CONFIGURED,
    choose,
    provider_name,
)

DUMMY = "dummy-" + "for-tests"
ANTHROPIC = {"ANTHROPIC_API_KEY": DUMMY}
OPENAI = {"OPENAI_API_KEY": DUMMY}
LOCAL = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


def made(**values: Any) -> Settings:
    return resolve([layer("test", values)]).settings


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "analysis.cassette.jsonl"
    save(Cassette("anthropic", "claude-recorded", "recorded"), path)
    return path


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.yaml"
    path.write_text("- task: a\n  replies: []\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("values", "environ", "name"),
    [
        ({}, {}, None),
        ({}, ANTHROPIC, "anthropic"),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "x"}, "anthropic"),
        ({}, {"ANTHROPIC_BASE_URL": "http://a"}, "anthropic"),
        ({}, OPENAI, "openai"),
        ({}, LOCAL, "openai"),
        ({}, ANTHROPIC | OPENAI, "anthropic"),
        ({"model": "gpt-5.5"}, ANTHROPIC | OPENAI, "openai"),
        ({"model": "claude-x"}, ANTHROPIC | OPENAI, "anthropic"),
        ({"model": "claude-x"}, OPENAI, "openai"),
        ({"model": "gpt-5.5"}, ANTHROPIC, "anthropic"),
        ({"provider": "openai"}, ANTHROPIC, "openai"),
        ({"provider": "anthropic"}, {}, "anthropic"),
        ({"api_base": "http://localhost:8080/v1"}, {}, "openai"),
        ({"api_base": "http://localhost:8080/anthropic/"}, {}, "anthropic"),
        ({"api_base": "http://localhost:8080/v1"}, ANTHROPIC, "openai"),
        ({"script": "a.yaml"}, ANTHROPIC, "scripted"),
        ({"script": "a.yaml", "provider": "openai"}, {}, "openai"),
        ({"model": "gpt-5.5"}, {}, None),
        ({}, {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "  "}, None),
        ({}, {"GEMINI_API_KEY": "x"}, None),
    ],
)
def test_the_configured_provider(
    values: dict[str, Any], environ: dict[str, str], name: str | None
) -> None:
    """A setting decides, then a script, an address, and the keys in the environment."""
    assert provider_name(made(**values), environ) == name


@pytest.mark.parametrize(
    ("mode", "environ", "has_cassette", "kind", "model"),
    [
        ("auto", ANTHROPIC, True, "Tape", "claude-sonnet-5-5"),
        ("auto", ANTHROPIC, False, "Tape", "claude-sonnet-5-5"),
        ("auto", OPENAI, True, "Tape", "gpt-5.5"),
        ("auto", {}, True, "Player", "claude-recorded"),
        ("live", OPENAI, True, "Tape", "gpt-5.5"),
        ("live", OPENAI, False, "Tape", "gpt-5.5"),
        ("replay", ANTHROPIC, True, "Player", "claude-recorded"),
        ("replay", {}, True, "Player", "claude-recorded"),
        ("record", ANTHROPIC, True, "Recorder", "claude-sonnet-5-5"),
        ("record", ANTHROPIC, False, "Recorder", "claude-sonnet-5-5"),
    ],
)
async def test_the_mode(
    tape: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    environ: dict[str, str],
    has_cassette: bool,
    kind: str,
    model: str,
) -> None:
    """Mode and configuration decide whether the model is asked or the cassette replays."""
    for name in (*ANTHROPIC, *OPENAI, *LOCAL):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    if not has_cassette:
        tape.unlink()
    provider = choose(made(mode=mode), tape, environ)
    assert (type(tape_of(provider)).__name__, provider.model) == (kind, model)
    await provider.close()


@pytest.mark.parametrize(
    ("values", "cassette", "message"),
    [
        ({}, None, NOTHING_CONFIGURED),
        ({}, "missing.jsonl", NOTHING_CONFIGURED),
        ({"mode": "live"}, None, NO_MODEL.format(mode="live")),
        ({"mode": "record"}, None, NO_MODEL.format(mode="record")),
        (
            {"mode": "replay"},
            None,
            "mode is replay, but no cassette is known. Name one with %agent cassette FILE.",
        ),
        (
            {"mode": "replay"},
            "missing.jsonl",
            "There is no cassette missing.jsonl. Record one with mode: record.",
        ),
        (
            {"mode": "record", "api_base": "http://127.0.0.1:9/v1", "api_key": DUMMY},
            None,
            "mode is record, but there is no cassette to record to, since the notebook's name is "
            "not known here. Name one with %agent cassette FILE.",
        ),
        (
            {"provider": "scripted"},
            None,
            "provider is scripted, but no script is named. Set script to a YAML file.",
        ),
    ],
)
def test_what_cannot_be_chosen(
    tmp_path: Path, values: dict[str, Any], cassette: str | None, message: str
) -> None:
    """An impossible choice is one line that says what is missing and how to set it."""
    path = tmp_path / cassette if cassette else None
    with pytest.raises(ConfigError) as caught:
        choose(made(**values), path, {})
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["live", "record"])
def test_no_model_beside_a_cassette(tape: Path, mode: str) -> None:
    """The line does not claim that there is no cassette where there is one."""
    with pytest.raises(ConfigError) as caught:
        choose(made(mode=mode), tape, {})
    assert "there is no cassette" not in str(caught.value)
    assert "No model is configured" in str(caught.value)


def test_a_damaged_cassette(tape: Path) -> None:
    """A damaged cassette is one line that names the file."""
    tape.write_text("oops\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^analysis\.cassette\.jsonl is no cassette"):
        choose(made(mode="replay"), tape, {})


async def test_a_script(tape: Path, script: str) -> None:
    """Scripted replies are used, and recorded if the mode says so."""
    provider = choose(made(script=script), tape, {})
    assert (provider.name, provider.source) == ("scripted", "scripted")
    recorder = choose(made(script=script, mode="record"), tape, {})
    assert isinstance(tape_of(recorder), Recorder)
    assert recorder.source == "scripted"
    assert isinstance(tape_of(choose(made(script=script, mode="replay"), tape, {})), Player)


def test_a_missing_script(tmp_path: Path) -> None:
    """A missing script is one line."""
    with pytest.raises(ConfigError, match=r"^The script .*gone\.yaml cannot be used"):
        choose(made(script=str(tmp_path / "gone.yaml")), None, {})


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_model_and_key_of_the_settings(provider: str) -> None:
    """A model that is set is taken; MiniMax's hosts have a default of their own."""
    settings = {"provider": provider, "api_key": DUMMY}
    chosen = choose(made(**settings, model="mine"), None, {})
    minimax = choose(made(**settings, api_base="https://api.minimax.io"), None, {})
    assert (chosen.name, chosen.model, chosen.source) == (provider, "mine", "live")
    assert minimax.model == "MiniMax-M2.5"
    await chosen.close()
    await minimax.close()


HELLO = Request("", (Message("user", (Text("hi"),)),))


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        ({}, None),
        ({"thinking.mode": "off"}, {"type": "disabled"}),
        ({"thinking.mode": "adaptive"}, {"type": "adaptive"}),
        ({"thinking.mode": "between_tools"}, {"type": "between_tools"}),
        (
            {"thinking.mode": "budget", "thinking.budget": 2048},
            {"type": "enabled", "budget_tokens": 2048},
        ),
    ],
)
def test_thinking_of_anthropic(values: dict[str, object], sent: object) -> None:
    """Each mode is the parameter of the Messages API that it names; by default there is none."""
    given = {"provider": "anthropic", "api_key": "k", "api_base": "http://127.0.0.1:9", **values}
    body = choose(resolve([layer("test", given)]).settings, None, {}).body(HELLO)
    assert body.get("thinking") == sent


def test_a_thinking_budget_beyond_the_reply() -> None:
    """Thinking is part of the reply, so its budget must be smaller."""
    given = {"thinking.mode": "budget", "thinking.budget": 4096, "max_tokens": 4096}
    settings = resolve([layer("test", {"provider": "anthropic", "api_key": "k", **given})]).settings
    with pytest.raises(ConfigError, match=r"thinking\.budget \(4096\) must be less than"):
        choose(settings, None, {})


def test_effort() -> None:
    """The effort is sent under each API's own name."""
    bodies = {}
    for name in ("anthropic", "openai"):
        given = {"provider": name, "api_key": "k", "thinking.effort": "low"}
        bodies[name] = choose(resolve([layer("test", given)]).settings, None, {}).body(HELLO)
    assert bodies["anthropic"]["output_config"] == {"effort": "low"}
    assert bodies["openai"]["reasoning_effort"] == "low"


def reads_text(**given: str) -> bool:
    """Whether calls are looked for in the text of the replies."""
    provider = choose(made(**given), None, {})
    return isinstance(provider, Inline) and provider.reads_text


@pytest.mark.parametrize(
    ("address", "reads"),
    [
        ("https://api.openai.com/v1", False),
        ("https://API.OpenAI.com/v1", False),
        ("https://eu.api.openai.com/v1", False),
        ("https://mine.openai.azure.com/openai/v1", False),
        ("https://mine.services.ai.azure.com/openai/v1", False),
        ("https://api.openai.com.example.org/v1", True),
        ("https://notopenai.com/v1", True),
        ("http://127.0.0.1:8000/v1", True),
    ],
)
def test_whose_texts_may_hold_calls(address: str, reads: bool) -> None:
    """OpenAI's own servers and Azure's call by the API alone; of others the text is read."""
    given = {"provider": "openai", "api_key": "k", "model": "m", "api_base": address}
    assert reads_text(**given) == reads
    assert reads_text(**given, tool_protocol="text")
    assert not reads_text(**given, tool_protocol="native")


def test_texts_of_anthropic_hold_no_calls() -> None:
    """The text of Anthropic's API is not searched for calls, whoever serves it."""
    given = {"provider": "anthropic", "api_key": "k"}
    for base in ({}, {"api_base": "http://127.0.0.1:9/anthropic"}):
        assert not reads_text(**given, **base)
    assert reads_text(**given, tool_protocol="text")
