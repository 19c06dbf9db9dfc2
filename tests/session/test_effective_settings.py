"""The settings in force in a folder, and what of its own file waits for trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.session.effective_settings import (
    digest_of,
    effective_settings,
    trust_settings,
    untrusted_settings,
)

KEY = {"OPENAI_API_KEY": "k"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration folder of one's own."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))


def folder_with(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "folder"
    (folder / ".jupyter_agent").mkdir(parents=True, exist_ok=True)
    (folder / ".jupyter_agent" / "config.yaml").write_text(text, encoding="utf-8")
    return folder


def trusted(folder: Path) -> None:
    effective = effective_settings(folder, {})
    acting = untrusted_settings(effective)
    assert acting is not None
    trust_settings(effective, digest_of(acting, folder, folder))
    assert effective_settings(folder, {}).ignored == ()


def test_a_change_of_a_named_file_asks_again(tmp_path: Path) -> None:
    """Trusted with a script, the folder gets another script: its settings wait again."""
    folder = folder_with(tmp_path, "script: replies.yaml\n")
    (folder / "replies.yaml").write_text("- task: a\n  replies: [{text: b}]\n", encoding="utf-8")
    trusted(folder)
    (folder / "replies.yaml").write_text("- task: a\n  replies: [{text: c}]\n", encoding="utf-8")
    assert effective_settings(folder, {}).ignored == ("script",)


def test_what_does_not_act_may_change_without_a_question(tmp_path: Path) -> None:
    """Changed comments and harmless settings need no new trust."""
    folder = folder_with(tmp_path, "api_base: http://a\n")
    trusted(folder)
    folder_with(tmp_path, "# a word\nmax_steps: 5\napi_base: http://a\n")
    assert effective_settings(folder, {}).ignored == ()
    folder_with(tmp_path, "api_base: http://a\napi_key: x\n")
    assert set(effective_settings(folder, {}).ignored) == {"api_base", "api_key"}


def test_the_embedded_model_sees_samples(tmp_path: Path) -> None:
    """From the provider `local` no data leave the machine: `context.detail` is `sample`, unless
    any layer says something else, be it the default of other providers."""

    def detail(text: str, environ: dict[str, str] | None = None) -> tuple[str, str]:
        folder = folder_with(tmp_path, text)
        found = effective_settings(folder, environ or {}).settings
        return found.settings.context.detail, found.source_of("context.detail")

    local = {"JUPYTER_AGENT_PROVIDER": "local"}
    assert detail("") == ("schema", "default")
    assert detail("", local) == ("sample", "default for the provider local")
    assert detail("", {"JUPYTER_AGENT_LOCAL__MODEL_PATH": "m.gguf"})[0] == "sample"
    assert detail("", {**local, "JUPYTER_AGENT_CONTEXT__DETAIL": "schema"})[0] == "schema"
    assert detail("context: {detail: none}\n", local)[0] == "none"
    assert detail("", {"JUPYTER_AGENT_PROVIDER": "openai", **KEY})[0] == "schema"
    # A server on this machine may send on what it gets: nobody knows.
    base = {"JUPYTER_AGENT_API_BASE": "http://localhost:1"}
    assert detail("", {"JUPYTER_AGENT_PROVIDER": "openai", **base})[0] == "schema"
    # A folder that names the embedded model has to be trusted before anything follows from it.
    assert detail("provider: local\n")[0] == "schema"


def test_trust_is_for_one_folder(tmp_path: Path) -> None:
    """The same file in another folder needs its own trust."""
    trusted(folder_with(tmp_path, "mode: replay\n"))
    assert effective_settings(folder_with(tmp_path / "other", "mode: replay\n"), {}).ignored
