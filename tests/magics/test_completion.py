"""Tab in a real kernel: commands, settings, values, options, skills, variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel

from jupyter_agent import config


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel")) as live:
        live.load()
        live.helper("penguins = [1]\npenguin_names = ['Ada']\nother = 3")
        yield live


@pytest.mark.parametrize(
    ("code", "begun", "words"),
    [
        ("%agent sta", "sta", ["status"]),
        ("x = 1\n%agent sta", "sta", ["status"]),
        ("%agent config mod", "mod", ["mode", "model"]),
        ("%agent config retry.max_r", "retry.max_r", ["retry.max_retries"]),
        ("%agent config mode re", "re", ["record", "replay"]),
        ("%agent config log.enabled ", "", ["false", "true"]),
        ("%agent skills time", "time", ["time-series"]),
        ("%agent skills trust time", "time", ["time-series"]),
        ("%agent memory se", "se", ["search", "sessions"]),
        ("%agent notes ", "", ["delete", "edit", "list", "show"]),
        ("%agent help mem", "mem", ["memory"]),
        ("%agent log clean logs --", "--", ["--all", "--days"]),
        ("%agent undo show --o", "--o", ["--over"]),
        ("%agent resume --approve ask", "ask", ["ask_all", "ask_risky"]),
        ("%agent resume --t", "--t", ["--trust"]),
        ("%agent resume --appr", "--appr", ["--approve"]),
        ("%%agent --ma", "--ma", ["--max-steps"]),
        ("%%agent --approve ask", "ask", ["ask_all", "ask_risky"]),
        ("%%agent --fresh --skill plot", "plot", ["plotting-well"]),
        ("%%agent\nLook at @pen", "@pen", ["@penguin_names", "@penguins"]),
        ("%%agent\nFirst.\nThen @other and @penguins", "@penguins", ["@penguins"]),
        ("%%agent\n/expl", "/expl", ["/exploring-tables"]),
    ],
)
def test_words(kernel: LiveKernel, code: str, begun: str, words: list[str]) -> None:
    """Tab offers exactly these words, which replace the typed beginning."""
    assert kernel.complete(code) == (begun, words)


def test_all_commands_and_settings(kernel: LiveKernel) -> None:
    """After a space Tab offers everything."""
    assert "resume" in kernel.complete("%agent ")[1]
    assert kernel.complete("%agent config ")[1] == sorted(config.keys())


@pytest.mark.parametrize("code", ["pengu", "x = penguins.app"])
def test_the_rest_is_as_it_was(kernel: LiveKernel, code: str) -> None:
    """Elsewhere IPython completes as always."""
    words = kernel.complete(code)[1]
    assert any(word.endswith(("penguins", "append")) for word in words)


def test_unloaded(tmp_path: Path) -> None:
    """After `%unload_ext` the completer is as before, and loading again works."""
    with LiveKernel(tmp_path) as live:
        live.load()
        live.helper("%unload_ext jupyter_agent")
        assert "status" not in live.complete("%agent sta")[1]
        live.helper("%load_ext jupyter_agent")
        assert live.complete("%agent sta") == ("sta", ["status"])
