"""A turn opens its stores and its undo point, and closes them however it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_agent.core.messages import Message
from jupyter_agent.core.ports import Nobody
from jupyter_agent.errors import ConfigError
from jupyter_agent.kernel.cells_meant import CellsMeant
from jupyter_agent.recording.tape import Tape
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.session import Session
from jupyter_agent.session.turn import Turn


class Broken(Tape):
    """A recording that cannot begin."""

    def begin(self, conversation: Sequence[Message]) -> None:
        raise ConfigError("The cassette is damaged.")


async def test_a_turn_that_cannot_begin(here: Kernel) -> None:
    """A turn that cannot begin leaves the conversation, and its notices wait for the next turn."""
    Path("script.yaml").write_text("- {task: Go., replies: [{text: Done.}]}\n", encoding="utf-8")
    here.set("provider", "scripted")
    here.set("script", "script.yaml")
    session = Session(here)
    session.late.append("A conversation waits.")
    with here.interrupts.installed():
        with here.turn() as settings:
            await session.setup.begin(settings)
            agent, _ = session.setup.agent(settings, Nobody())
            turn = Turn(
                session=session,
                task="Go.",
                settings=settings,
                agent=agent,
                tape=Broken(),
                sinks=(),
                skills="",
                cells=CellsMeant(),
            )
            with pytest.raises(ConfigError, match="damaged"):
                await turn.run()
        assert (session.history, session.late) == ([], ["A conversation waits."])
        shown: list[str] = []
        with here.turn() as settings:
            answer = await session.ask(
                "Go.", settings, sinks=[lambda event: shown.append(str(event))]
            )
    assert answer == "Done."
    assert sum("A conversation waits." in event for event in shown) == 1
    assert session.late == []
