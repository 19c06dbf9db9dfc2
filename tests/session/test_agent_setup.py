"""What the first turn of a session fixes, and what a preview shows before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.core.messages import Context
from jupyter_agent.core.ports import Nobody
from jupyter_agent.errors import ConfigError
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.kernel import Kernel


@pytest.fixture
def setup(here: Kernel) -> AgentSetup:
    Path("script.yaml").write_text("- {task: Go., replies: [{text: Done.}]}\n", encoding="utf-8")
    here.set("provider", "scripted")
    here.set("script", "script.yaml")
    return AgentSetup(here, "default")


def names(setup: AgentSetup) -> set[str]:
    return {tool.name for tool in setup.tools}


async def test_the_first_turn_fixes_prompt_and_tools(here: Kernel, setup: AgentSetup) -> None:
    """Tools switched off after the first turn stay in the schemas, so that prompt caches work."""
    settings = here.settings().settings
    await setup.begin(settings)
    first, _ = setup.agent(settings, Nobody())
    here.set("tools.enable_notes", "false")
    here.set("instructions", "short")
    second, _ = setup.agent(here.settings().settings, Nobody())
    assert first.system == second.system
    assert first.toolbox.specs == second.toolbox.specs
    assert "record_note" in names(setup)


def test_a_small_model_asks_nothing(here: Kernel, setup: AgentSetup) -> None:
    """`ask_user` is a tool, but not with short instructions."""
    assert "ask_user" in names(setup.preview())
    here.set("instructions", "short")
    assert "ask_user" not in names(setup.preview())


def test_a_preview_fixes_nothing(here: Kernel, setup: AgentSetup) -> None:
    """Each preview has the current settings."""
    assert "record_note" in names(setup.preview())
    here.set("tools.enable_notes", "false")
    assert "record_note" not in names(setup.preview())
    assert not setup.is_fixed
    assert setup.tools == []


async def test_after_the_first_turn_the_preview_is_the_setup(
    here: Kernel, setup: AgentSetup
) -> None:
    """After the first turn a preview builds nothing."""
    settings = here.settings().settings
    await setup.begin(settings)
    setup.agent(settings, Nobody())
    assert setup.preview() is setup


async def test_news_are_told_with_the_task(here: Kernel, setup: AgentSetup) -> None:
    """News such as an undo stand beside the task, apart from the typed text."""
    settings = here.settings().settings
    await setup.begin(settings)
    setup.news.append("The last turn was undone.")
    message = setup.message("Go.", settings, here.snapshot(), True)
    assert message.text == "Go."
    texts = [block.text for block in message.blocks if isinstance(block, Context)]
    assert "The last turn was undone." in texts


async def test_a_budget_without_a_price(here: Kernel, setup: AgentSetup) -> None:
    """A budget of money without a known price is one line that names the alternative."""
    here.set("provider", "openai")
    here.set("model", "a-model-of-my-own")
    here.set("api_base", "http://127.0.0.1:9/v1")
    here.set("budget.usd", "1")
    settings = here.settings().settings
    await setup.begin(settings)
    with pytest.raises(ConfigError, match=r"budget\.tokens"):
        setup.agent(settings, Nobody())


def test_what_is_told_of_files(here: Kernel) -> None:
    """Ranges at `sample` alone, and not with outputs withheld; no such tool at `none`."""
    Path("a.csv").write_text("n\n98765\n98766\n", encoding="utf-8")

    def said(**values: str) -> str:
        for key, value in values.items():
            here.set(key.replace("__", "."), value)
        setup = AgentSetup(here, "default").preview()
        setup.settings = here.settings().settings
        found = [tool for tool in setup.tools if tool.name == "describe_file"]
        return str(found[0].function(path="a.csv")) if found else ""

    assert "98765 to 98766" in said(context__detail="sample")
    for values in ({"context__detail": "schema"}, {"context__detail": "names"}):
        text = said(**values)
        assert "n: integer" in text and "98765" not in text
    text = said(context__detail="sample", privacy__outputs="shapes")
    assert "98765" not in text and "privacy.outputs is shapes" in text
    assert said(privacy__outputs="full", context__detail="none") == ""
