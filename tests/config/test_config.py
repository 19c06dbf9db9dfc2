"""The layers of the configuration: what they accept, what they refuse, and in which words."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import yaml
from generated import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from jupyter_agent.config import (
    Layer,
    Resolved,
    Settings,
    describe,
    environment_layer,
    folder_settings,
    keys,
    layer,
    resolve,
    shown,
    user_layer,
    workspace_layer,
)
from jupyter_agent.errors import ConfigError

SECRET = "sk-ant-verysecret0123456789"


def workspace_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def read(folder: Path, text: str | bytes) -> Resolved:
    workspace_file(folder, text)
    return resolve([workspace_layer(folder)])


# ---------------------------------------------------------------- defaults and precedence


def test_the_keys_and_their_defaults() -> None:
    """Without any layer every key has the default that the design names."""
    found = resolve([])
    values = {key: shown(found.settings, key) for key in keys()}
    assert values == {
        "provider": "none",
        "model": "none",
        "api_base": "none",
        "api_key": "none",
        "script": "none",
        "mode": "auto",
        "tool_protocol": "auto",
        "instructions": "auto",
        "local.context": "8192",
        "local.download": "true",
        "local.gpu_layers": "none",
        "local.model": "none",
        "local.model_path": "none",
        "local.threads": "none",
        "max_steps": "50",
        "max_tokens": "none",
        "timeout": "600.0",
        "token_limit": "80000",
        "workspace_dir": "none",
        "system_prompt_path": "none",
        "display": "auto",
        "budget.seconds": "none",
        "budget.tokens": "none",
        "budget.usd": "none",
        "http.ca_bundle": "none",
        "http.headers": "none",
        "http.proxy": "none",
        "retry.max_total": "300.0",
        "thinking.budget": "4096",
        "thinking.effort": "none",
        "thinking.mode": "default",
        "tracing": "false",
        "retry.enabled": "true",
        "retry.max_retries": "3",
        "retry.initial_delay": "1.0",
        "retry.max_delay": "60.0",
        "retry.exponential_base": "2.0",
        "mcp.connect_timeout": "10.0",
        "mcp.execute_timeout": "60.0",
        "mcp.sse_read_timeout": "120.0",
        "memory.roots": "none",
        "memory.across_workspaces": "on",
        "memory.embeddings": "none",
        "session.save": "true",
        "session.resume": "ask",
        "session.keep_days": "90",
        "session.keep_mb": "200.0",
        "undo.enabled": "true",
        "undo.max_file_mb": "20.0",
        "undo.max_total_mb": "500.0",
        "undo.keep_days": "30",
        "tools.enable_skills": "true",
        "tools.enable_notes": "true",
        "tools.enable_memory": "true",
        "tools.enable_mcp": "true",
        "tools.enable_file_tools": "true",
        "tools.enable_code": "true",
        "tools.skills_dir": "skills",
        "answers.samples": "1",
        "answers.verify": "false",
        "approvals.mode": "ask_risky",
        "approvals.timeout": "600.0",
        "context.detail": "schema",
        "privacy.outputs": "full",
        "images.enabled": "true",
        "images.max_side": "768",
        "images.per_step": "4",
        "compaction.enabled": "true",
        "log.enabled": "true",
        "log.keep_days": "30",
        "log.keep_mb": "200.0",
        "outputs.keep_days": "30",
        "outputs.keep_mb": "500.0",
    }
    assert {found.source_of(key) for key in keys()} == {"default"}


@pytest.mark.parametrize("winner", range(6))
def test_the_later_layer_wins(winner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the six layers beats all before it, and only for what it sets."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    user = tmp_path / "jupyter_agent.yaml"
    user.write_text("retry: {max_retries: 11}", encoding="utf-8")
    workspace = workspace_file(tmp_path, "retry.max_retries: 12")
    layers = [
        user_layer(),
        workspace_layer(tmp_path),
        environment_layer({"JUPYTER_AGENT_RETRY__MAX_RETRIES": "13"}),
        layer("%agent config", {"retry.max_retries": "14"}, text=True),
        layer("%%agent", {"retry.max_retries": 15}),
    ]
    sources = ["default", str(user), str(workspace), "environment", "%agent config", "%%agent"]
    found = resolve(layers[:winner])
    assert found.settings.retry.max_retries == [3, 11, 12, 13, 14, 15][winner]
    assert found.source_of("retry.max_retries") == sources[winner]
    assert found.source_of("retry.max_delay") == "default"
    assert found.settings.retry.max_delay == 60.0


def test_layers_mix_key_by_key() -> None:
    """Keys of one section may come from different layers."""
    found = resolve(
        [
            layer("low", {"retry": {"max_retries": 1, "enabled": False}, "model": "a"}),
            None,
            layer("high", {"retry.max_retries": 2, "max_steps": 7}),
        ]
    )
    assert found.settings == Settings(
        model="a", max_steps=7, retry={"max_retries": 2, "enabled": False}
    )
    assert [found.source_of(key) for key in ("model", "retry.enabled", "retry.max_retries")] == [
        "low",
        "low",
        "high",
    ]


@pytest.mark.parametrize("word", ["none", "null", "None", "", "  "])
def test_words_that_unset(word: str) -> None:
    """Typed words such as none unset an optional key, and the layer counts as its source."""
    low = layer("low", {"model": "a", "api_key": SECRET, "max_tokens": 5, "provider": "openai"})
    names = {"model": word, "api_key": word, "max_tokens": word, "provider": word}
    found = resolve([low, layer("%agent config", names, text=True)])
    assert found.settings == Settings()
    assert found.source_of("model") == "%agent config"


def test_null_in_a_file_unsets(tmp_path: Path) -> None:
    """In a file null, an empty value and the Python word None all mean None."""
    text = "model: null\nprovider:\nscript: None\napi_key: none\n"
    low = layer("low", {"model": "a", "provider": "openai", "script": "s", "api_key": SECRET})
    workspace_file(tmp_path, text)
    assert resolve([low, workspace_layer(tmp_path)]).settings == Settings()


def test_settings_and_layers_are_frozen() -> None:
    """Resolved settings cannot be changed, and unknown fields are refused."""
    found = resolve([layer("low", {"model": "a"})])
    with pytest.raises(ValidationError):
        found.settings.model = "b"
    with pytest.raises(ValidationError):
        found.settings.retry.enabled = False
    with pytest.raises(ValidationError):
        Settings(modle="b")
    with pytest.raises(TypeError):
        layer("low", {"model": "a"}).values["model"] = "b"  # type: ignore[index]


# ---------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("max_steps", "10", 10),
        ("max_steps", " +10\n", 10),
        ("timeout", "0.5", 0.5),
        ("timeout", "30", 30.0),
        ("timeout", "1e3", 1000.0),
        ("retry.initial_delay", ".5", 0.5),
        ("tools.enable_code", "TRUE", True),
        ("tools.enable_code", "1", True),
        ("tools.enable_code", "yes", True),
        ("tools.enable_code", "False", False),
        ("tools.enable_code", "0", False),
        ("tools.enable_code", "no", False),
        ("model", "4", "4"),
        ("model", "模型", "模型"),
        ("model", " true ", "true"),
        ("provider", "scripted", "scripted"),
    ],
)
def test_typed_words_are_read_by_type(key: str, text: str, value: object) -> None:
    """A word from the environment or `%agent config` is converted to the key's type."""
    variable = "JUPYTER_AGENT_" + key.upper().replace(".", "__")
    for found in (environment_layer({variable: text}), layer("here", {key: text}, text=True)):
        assert found.values == {key: value}
        assert type(found.values[key]) is type(value)


def test_a_file_with_every_key(tmp_path: Path) -> None:
    """Nested sections and dotted keys, a BOM, comments and an empty section are all fine."""
    text = (
        "\ufeff# mine\nprovider: openai\nmodel: m\napi_base: http://127.0.0.1:1/v1\n"
        f"api_key: {SECRET}\ntimeout: 30\nretry:\n  max_retries: 0\nretry.enabled: no\n"
        "tools:\n  # skills_dir: x\n"
    )
    found = read(tmp_path, text).settings
    assert (found.provider, found.model, found.timeout) == ("openai", "m", 30.0)
    assert found.api_key == SecretStr(SECRET)
    assert (found.retry.max_retries, found.retry.enabled) == (0, False)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "null", "{}"])
def test_an_empty_file_sets_nothing(text: str, tmp_path: Path) -> None:
    """A file without any key is a layer without values."""
    assert read(tmp_path, text).settings == Settings()


def test_missing_files_are_no_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file gives None, also in a missing folder."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "missing"))
    assert user_layer() is None
    assert workspace_layer(tmp_path / "missing") is None


def test_other_variables_are_left_alone() -> None:
    """Only variables that start with JUPYTER_AGENT_ are looked at."""
    environ = {"JUPYTER_AGENTS": "1", "PATH": "x", "JUPYTER_AGENT": "2", "jupyter_agent_model": "3"}
    assert environment_layer(environ) == Layer("environment", {})


def test_checked_values_can_be_checked_again() -> None:
    """`%agent config` extends its layer, whose values pass the check again."""
    old = layer("%agent config", {"api_key": SECRET, "max_steps": "5"}, text=True)
    new = layer("%agent config", {**old.values, "retry.enabled": "no"}, text=True)
    assert new.values == {
        "api_key": SecretStr(SECRET),
        "max_steps": 5,
        "retry.enabled": False,
    }


# ---------------------------------------------------------------- what is refused in a file

BAD_FILES = [
    ("modle: x", ": there is no setting modle. Did you mean model?"),
    ("Max-Steps: 5", ": there is no setting Max-Steps. Did you mean max_steps?"),
    ("max_retries: 5", ": there is no setting max_retries. Did you mean retry.max_retries?"),
    (
        "retry: {max_retrys: 5}",
        ": there is no setting retry.max_retrys. Did you mean retry.max_retries?",
    ),
    ("qqqqq: 5", ": there is no setting qqqqq. `%agent config` lists them all."),
    ("1: 5", ": there is no setting 1. `%agent config` lists them all."),
    ('"a\\nb": 5', ": there is no setting a…. `%agent config` lists them all."),
    (
        "{api_key:sk-ant-verysecret0123456789}",
        ": there is no setting api_key…. Did you mean api_key?",
    ),
    (
        "retry: 5",
        ": retry is a section, not a setting. Set one of retry.enabled, retry.max_retries, "
        "retry.initial_delay, retry.max_delay, retry.exponential_base, retry.max_total.",
    ),
    (
        "log: [enabled]",
        ": log is a section, not a setting. Set one of log.enabled, log.keep_days, log.keep_mb.",
    ),
    (
        "retry: {max_retries: 1}\nretry.max_retries: 2",
        ": retry.max_retries is set twice, dotted and nested. Keep one of them.",
    ),
    ("max_steps: true", ": max_steps must be a whole number from 1 to 1000, not true."),
    ("max_steps: 0", ": max_steps must be a whole number from 1 to 1000, not 0."),
    ("max_steps: 5.0", ": max_steps must be a whole number from 1 to 1000, not 5.0."),
    ("max_steps: '5'", ": max_steps must be a whole number from 1 to 1000, not '5'."),
    ("max_steps:", ": max_steps must be a whole number from 1 to 1000, not null."),
    ("max_tokens: 0", ": max_tokens must be a whole number of 1 or more, or none, not 0."),
    (
        "token_limit: 0x" + "f" * 5000,
        ": token_limit must be a whole number of 1000 or more, not a number of that size.",
    ),
    ("timeout: 0", ": timeout must be a number above 0, not 0."),
    ("timeout: .inf", ": timeout must be a number above 0, not inf."),
    ("timeout: .nan", ": timeout must be a number above 0, not nan."),
    ("timeout: no", ": timeout must be a number above 0, not false."),
    ("retry.max_retries: -1", ": retry.max_retries must be a whole number of 0 or more, not -1."),
    (
        "retry.exponential_base: 0.5",
        ": retry.exponential_base must be a number of 1 or more, not 0.5.",
    ),
    ("model: 4", ": model must be one line of text, or none, not 4. Put it in quotes."),
    (
        "model: 2026-01-02",
        ": model must be one line of text, or none, not 2026-01-02. Put it in quotes.",
    ),
    ("model: [a]", ": model must be one line of text, or none, not a list."),
    ("model: {a: b}", ": model must be one line of text, or none, not a mapping."),
    ("model: ''", ": model must be one line of text, or none, not ''."),
    ('model: "a\\nb"', ": model must be one line of text, or none, not 'a\\nb'."),
    ('model: "\\ud800"', ": model must be one line of text, or none, not '\\ud800'."),
    (
        f"max_steps: {'x' * 99}",
        f": max_steps must be a whole number from 1 to 1000, not '{'x' * 58}….",
    ),
    (
        "provider: Claude",
        ": provider must be anthropic, openai, local, scripted or none, not 'Claude'.",
    ),
    ("mode: off", ": mode must be auto, live, record, replay or cached, not false."),
    ("display: none", ": display must be auto or static, not 'none'."),
    ("tools.enable_code: 1", ": tools.enable_code must be true or false, not 1."),
    ("tools.enable_code: 'yes'", ": tools.enable_code must be true or false, not 'yes'."),
    ("tools: {skills_dir: null}", ": tools.skills_dir must be one line of text, not null."),
    (
        "api_key: 123456789",
        ": api_key must be one line of text, or none, not what was given (it is not shown). "
        "Put it in quotes.",
    ),
    (
        "api_key: [sk-ant-verysecret0123456789]",
        ": api_key must be one line of text, or none, not what was given (it is not shown).",
    ),
    ("[a, b]", ": the file must hold lines such as `max_steps: 50`, not a list. Correct it."),
    (
        "api_key:sk-ant-verysecret0123456789",
        ": the file must hold lines such as `max_steps: 50`, not a single value. Correct it.",
    ),
    (
        "model: a\nretry: [",
        ", line 2: not valid YAML (expected the node content, but found '<stream end>'). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "model: a\n\tmode: live",
        ", line 2: not valid YAML (found character '\\t' that cannot start any token). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "api_key: *sk-ant-verysecret0123456789",
        ", line 1: not valid YAML (found undefined alias …). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "model: a\n---\nmodel: b",
        ", line 2: not valid YAML (but found another document). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "mode: live\nmodel: a\nmode: record",
        ", line 3: not valid YAML (the key mode is there twice). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "retry:\n  enabled: true\n  'enabled': false",
        ", line 3: not valid YAML (the key enabled is there twice). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "model: a\nscript: 2001-99-99",
        ", line 2: not valid YAML (a value that is not what it looks like; put it in quotes). "
        "Check colons, indentation and quotes there.",
    ),
    (
        "model: !!python/object/apply:os.system ['echo']",
        ", line 1: tags (with !) are not allowed. Write a plain value.",
    ),
    ("model: a\nmode: \x00", ", line 2: a character that YAML does not allow. Delete it."),
    (b"model: a\nmode: \xff", ", line 2: this is not UTF-8 text. Save the file as UTF-8."),
    ("model: a".encode("utf-16"), ", line 1: this is not UTF-8 text. Save the file as UTF-8."),
    ("[" * 5000, ": the file is nested too deeply. Write plain `key: value` lines."),
    (
        "workspace_dir: /tmp",
        ": workspace_dir cannot be set here, because this file lies inside that folder. "
        "Set it in jupyter_agent.yaml or in JUPYTER_AGENT_WORKSPACE_DIR.",
    ),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_bad_file(text: str | bytes, problem: str, tmp_path: Path) -> None:
    """Each mistake in a file gives one line: the path, the place, what is wrong, what to do."""
    path = workspace_file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        workspace_layer(tmp_path)
    assert str(caught.value) == f"{path}{problem}"
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.__context__ is None


def test_the_user_file_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the user file names that file, and workspace_dir is allowed there."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    path = tmp_path / "jupyter_agent.yaml"
    path.write_text("workspace_dir: /tmp", encoding="utf-8")
    assert resolve([user_layer()]).settings.workspace_dir == "/tmp"
    path.write_text("mode: a", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        user_layer()
    assert (
        str(caught.value) == f"{path}: mode must be auto, live, record, replay or cached, not 'a'."
    )


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    """A folder with the file's name is an error, not skipped."""
    path = tmp_path / "config.yaml"
    path.mkdir()
    with pytest.raises(ConfigError) as caught:
        workspace_layer(tmp_path)
    assert str(caught.value) == f"{path}: this is a folder, not a file. Move it away."


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """A broken link is an error, not a missing file."""
    path = tmp_path / "config.yaml"
    path.symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError) as caught:
        workspace_layer(tmp_path)
    assert str(caught.value) == (
        f"{path}: the file that this link names is missing. Correct that, or move the file away."
    )


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in place of the file does not block the kernel."""
    os.mkfifo(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match="a pipe or a device, not a file"):
        workspace_layer(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """The error quotes the operating system (here: a link to itself, which fails for root, too)."""
    path = tmp_path / "config.yaml"
    path.symlink_to(path)
    with pytest.raises(ConfigError) as caught:
        workspace_layer(tmp_path)
    assert str(caught.value) == (
        f"{path}: the file cannot be read (Too many levels of symbolic links). "
        "Correct that, or move the file away."
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    """A file without read permission is an error that says so."""
    workspace_file(tmp_path, "model: a").chmod(0)
    with pytest.raises(ConfigError, match=r"cannot be read \(Permission denied\)"):
        workspace_layer(tmp_path)


def test_a_path_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    """A line break in a folder's name does not break the message's line."""
    folder = tmp_path / "a\nb"
    folder.mkdir()
    workspace_file(folder, "modle: a")
    with pytest.raises(ConfigError) as caught:
        workspace_layer(folder)
    assert "a\\nb" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- what is refused elsewhere


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "MODLE",
            "x",
            "environment: there is no setting JUPYTER_AGENT_MODLE. "
            "Did you mean JUPYTER_AGENT_MODEL?",
        ),
        (
            "RETRY_MAX_RETRIES",
            "5",
            "environment: there is no setting JUPYTER_AGENT_RETRY_MAX_RETRIES. "
            "Did you mean JUPYTER_AGENT_RETRY__MAX_RETRIES?",
        ),
        (
            "model",
            "x",
            "environment: there is no setting JUPYTER_AGENT_model. "
            "Did you mean JUPYTER_AGENT_MODEL?",
        ),
        (
            "MAX_STEPS",
            "ten",
            "JUPYTER_AGENT_MAX_STEPS: max_steps must be a whole number from 1 to 1000, not 'ten'.",
        ),
        (
            "MAX_STEPS",
            "",
            "JUPYTER_AGENT_MAX_STEPS: max_steps must be a whole number from 1 to 1000, not ''.",
        ),
        (
            "MAX_STEPS",
            "none",
            "JUPYTER_AGENT_MAX_STEPS: max_steps must be a whole number from 1 to 1000, not 'none'.",
        ),
        (
            "MAX_STEPS",
            "1" * 30,
            "JUPYTER_AGENT_MAX_STEPS: max_steps must be a whole number from 1 to 1000, "
            f"not '{'1' * 30}'.",
        ),
        ("TIMEOUT", "inf", "JUPYTER_AGENT_TIMEOUT: timeout must be a number above 0, not 'inf'."),
        (
            "TIMEOUT",
            "1e999",
            "JUPYTER_AGENT_TIMEOUT: timeout must be a number above 0, not '1e999'.",
        ),
        (
            "LOG__ENABLED",
            "maybe",
            "JUPYTER_AGENT_LOG__ENABLED: log.enabled must be true or false, not 'maybe'.",
        ),
        (
            "APPROVALS__MODE",
            "ask",
            "JUPYTER_AGENT_APPROVALS__MODE: approvals.mode must be read_only, ask_risky, "
            "ask_all or auto, not 'ask'.",
        ),
        (
            "MODEL",
            "a\udcffb",
            "JUPYTER_AGENT_MODEL: model must be one line of text, or none, not 'a\\udcffb'.",
        ),
        (
            "API_KEY",
            f"{SECRET}\n{SECRET}",
            "JUPYTER_AGENT_API_KEY: api_key must be one line of text, or none, "
            "not what was given (it is not shown).",
        ),
    ],
)
def test_a_bad_variable(variable: str, text: str, message: str) -> None:
    """An error names the variable, the key, what was given and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        environment_layer({f"JUPYTER_AGENT_{variable}": text})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("source", "key", "value", "message"),
    [
        (
            "%agent config",
            "max_stpes",
            "5",
            "%agent config: there is no setting max_stpes. Did you mean max_steps?",
        ),
        (
            "%agent config",
            f"api_key={SECRET}",
            "",
            "%agent config: there is no setting api_key…. Did you mean api_key?",
        ),
        (
            "%agent config",
            "context",
            "none",
            "%agent config: context is a section, not a setting. Set one of context.detail.",
        ),
        (
            "%%agent",
            "max_steps",
            1001,
            "%%agent: max_steps must be a whole number from 1 to 1000, not 1001.",
        ),
        (
            "%%agent",
            "provider",
            "claude",
            "%%agent: provider must be anthropic, openai, local, scripted or none, not 'claude'.",
        ),
    ],
)
def test_a_bad_argument(source: str, key: str, value: object, message: str) -> None:
    """An error in a typed setting or argument names the place where it was given."""
    with pytest.raises(ConfigError) as caught:
        layer(source, {key: value}, text=True)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "ask", [describe, resolve([]).source_of, lambda key: shown(Settings(), key)]
)
def test_asking_for_an_unknown_key(ask: object) -> None:
    """An unknown key gets the nearest name as an answer."""
    assert callable(ask)
    with pytest.raises(ConfigError) as caught:
        ask("modle")
    assert str(caught.value) == "%agent config: there is no setting modle. Did you mean model?"


# ---------------------------------------------------------------- describing


def test_every_key_is_described() -> None:
    """A reference page can be made from `describe` alone."""
    for key in keys():
        info = describe(key)
        assert info.key == key
        assert info.type
        assert info.description.endswith(".")
        assert len(info.description.splitlines()) == 1


def test_types_and_defaults_in_words() -> None:
    """Types are described with the words of the error messages."""
    assert describe("provider").type == "anthropic, openai, local, scripted or none"
    assert describe("max_tokens").type == "a whole number of 1 or more, or none"
    assert describe("api_key").type == "one line of text, or none"
    assert describe("retry.exponential_base").default == 2.0


@pytest.mark.parametrize("key", keys())
def test_what_is_shown_can_be_typed(key: str) -> None:
    """`%agent config KEY` prints a value that `%agent config KEY VALUE` takes back."""
    text = shown(Settings(), key)
    assert resolve([layer("here", {key: text}, text=True)]).settings == Settings()


# ---------------------------------------------------------------- secrets


def test_the_key_is_never_shown() -> None:
    """No text that is made of a layer or of settings holds the key."""
    one = layer("%agent config", {"api_key": f" {SECRET}\n"}, text=True)
    found = resolve([one])
    assert found.settings.api_key is not None
    assert found.settings.api_key.get_secret_value() == SECRET
    assert shown(found.settings, "api_key") == "set, not shown"
    texts = [repr(one), str(one), repr(found), str(found.settings), repr(found.settings)]
    texts += [found.settings.model_dump_json(), str(found.settings.model_dump())]
    assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        "api_key: {0}\n mode: live",
        "api_key: '{0}",
        'api_key: "{0}\\q"',
        "api_key: {0}: {0}",
        "api_key: [{0}",
        "api_key: {{{0}}}",
        "api_key: {{{0}: {0}}}",
        "api_key: !{0} x",
        "api_key: !!{0}",
        "api_key: &{0} *x{0}",
        "api_key: !!int {0}",
        "api_key: !!set {{{0}}}",
        "api_key: !!binary {0}",
        "api_key: @{0}",
        "api_key: `{0}",
        "api_key: %{0}",
        "api_key={0}: 1",
        "api_key:{0}: 1",
        "api_key:{0}",
        "api_key:{0}\nmode: live",
        "api_key: {0}\napi_key: {0}",
        "api_key: |\n  {0}\n  {0}",
        "? [{0}]\n: {0}",
        "- {0}",
        "retry: {0}",
        "retry: {{api_key: {0}}}",
        "retry.api_key: {0}",
    ],
)
def test_no_message_holds_the_key(text: str, tmp_path: Path) -> None:
    """However the line with the key is mistyped, no message or traceback shows the key."""
    workspace_file(tmp_path, text.format(SECRET))
    with pytest.raises(ConfigError) as caught:
        workspace_layer(tmp_path)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


# ---------------------------------------------------------------- properties


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.text(max_size=60)
    | st.text(alphabet="api_key:mode|>-?!&*%{}[],'\"#\n\t 01.<~", max_size=60)
)
def test_any_text_is_a_layer_or_one_line(text: str, tmp_path: Path) -> None:
    """Any text as a file gives a layer or a one-line ConfigError, never another error."""
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        resolve([workspace_layer(tmp_path)])
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith(str(path))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=examples(200))
@given(key=st.sampled_from([*keys(), "retry", "log", "x"]), value=VALUES, text=st.booleans())
def test_any_value_is_taken_or_refused(key: str, value: object, text: bool) -> None:
    """Any value of a key is accepted, or refused in one line that names the source."""
    try:
        found = resolve([layer("here", {key: value}, text=text)])
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith("here: ")
    else:
        assert "\n" not in shown(found.settings, key) if key in keys() else True


def test_what_yaml_writes_is_read_back(tmp_path: Path) -> None:
    """The defaults, written as nested YAML, are read back as the defaults."""
    content = Settings().model_dump()
    del content["workspace_dir"]
    assert read(tmp_path, yaml.safe_dump(content)).settings == Settings()


def test_the_import_is_light() -> None:
    """Importing the configuration imports no model library and no notebook machinery."""
    code = (
        "import sys, jupyter_agent.config\n"
        "print({'anthropic', 'openai', 'IPython', 'nbformat'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.strip() == "set()"


def test_a_folder_does_not_loosen_what_the_person_set() -> None:
    """A folder cannot loosen a protection of the user's own file, trusted or not."""
    user = layer("user", {"privacy.outputs": "shapes", "context.detail": "schema"})
    folder = layer(
        "folder", {"privacy.outputs": "full", "context.detail": "none", "approvals.mode": "auto"}
    )
    parts = folder_settings(folder, user)
    assert dict(parts.harmless.values) == {"context.detail": "none"}
    assert dict(parts.acting.values) == {"approvals.mode": "auto"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("provider", "scripted"),
        ("api_base", "http://x"),
        ("api_key", "x"),
        ("script", "a.yaml"),
        ("mode", "replay"),
        ("tool_protocol", "code"),
        ("system_prompt_path", "/proc/self/environ"),
        ("http.proxy", "http://x"),
        ("http.headers", "A: b"),
        ("http.ca_bundle", "/x"),
        ("approvals.mode", "auto"),
        ("approvals.timeout", 601),
        ("context.detail", "sample"),
        ("local.model", "hf:a/b:c.gguf"),
        ("local.model_path", "x.gguf"),
        ("local.threads", 4),
        ("memory.roots", ["/x"]),
        ("mcp.execute_timeout", 61),
        ("session.resume", "auto"),
        ("undo.enabled", False),
        ("undo.max_file_mb", 0.001),
        ("log.enabled", False),
    ],
)
def test_what_acts_in_a_folder_needs_trust(key: str, value: object) -> None:
    """Settings that send data elsewhere, run something or loosen a protection need trust."""
    assert key in folder_settings(layer("folder", {key: value}), None).acting.values


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("approvals.mode", "read_only"),
        ("approvals.mode", "ask_risky"),
        ("approvals.timeout", 10),
        ("context.detail", "none"),
        ("privacy.outputs", "shapes"),
        ("local.download", False),
        ("tool_protocol", "native"),
        ("budget.usd", 0.5),
        ("tools.enable_code", False),
        ("mcp.connect_timeout", 1),
        ("undo.max_total_mb", 1000),
        ("mode", "auto"),
        ("max_steps", 80),
        ("model", "m"),
        ("retry.max_retries", 1),
        ("tools.skills_dir", "x"),
    ],
)
def test_what_tightens_or_does_no_harm_counts_at_once(key: str, value: object) -> None:
    """Tightening, repeated and harmless settings of a folder are in force without trust."""
    assert dict(folder_settings(layer("folder", {key: value}), None).harmless.values) == {
        key: value
    }


def test_a_budget_of_the_persons_own_is_not_raised_by_a_folder() -> None:
    """A folder's budget is compared with the person's own, and cannot raise it."""
    user = layer("user", {"budget.usd": 1.0, "tools.enable_code": False})
    folder = layer("folder", {"budget.usd": 100.0, "tools.enable_code": True})
    assert not folder_settings(folder, user).harmless.values


def test_what_the_person_keeps_off_the_disk_no_folder_writes() -> None:
    """A folder cannot switch on conversations or run logs that the person's own file forbids."""
    user = layer("user", {"session.save": False, "log.enabled": False})
    folder = layer("folder", {"session.save": True, "log.enabled": True})
    assert not folder_settings(folder, user).harmless.values
    assert "session.save" in folder_settings(folder, None).harmless.values
