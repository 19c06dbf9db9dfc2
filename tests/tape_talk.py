"""A conversation over a tape, by the real loop: a script, tools and a user, recorded and replayed.

await recorded(path, script, ["Count."], results=["344"])
assert await replaying(path, results=["344"]).ask("Count.") == "344 rows."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.agent.approval_gate import ApprovalGate, Ruling
from jupyter_agent.agent.loop import Agent, run_turn
from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked, Event, MessageFinished
from jupyter_agent.core.messages import Context, Message, Text, ToolSpec
from jupyter_agent.core.ports import Model
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.player import Player
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.tape import Tape
from jupyter_agent.recording.wrappers import RecordedModel, RecordedTools, RecordedUser
from jupyter_agent.tools.toolbox import Toolbox

Script = Iterable[tuple[str, list[Any]]]
ASKED = "wipe"
"""The tool whose calls are asked about."""


def allow(prepared: Prepared) -> Ruling:
    """Calls of one tool are asked about."""
    if prepared.tool.name != ASKED:
        return Ruling()
    return Ruling("ask", question="Wipe it?", reasons=("wipes",))


class Watcher:
    """A user with answers and lines, one set of lines for each look."""

    def __init__(self, answers: Sequence[str] = (), lines: Sequence[Sequence[str]] = ()) -> None:
        self.answers = list(answers)
        self.lines = [tuple(some) for some in lines]
        self.asked: list[ApprovalAsked] = []

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        self.asked.append(asked)
        if not self.answers:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        answer: Any = self.answers.pop(0)
        return ApprovalAnswered(asked.call_id, answer, "person", "mine" if answer == "no" else "")

    def said(self) -> tuple[str, ...]:
        return self.lines.pop(0) if self.lines else ()


class Talk:
    """One conversation: tasks in, words out. Each call of a tool gives the next of `results`.

    Args:
        tape: The tape.
        model: The model that is asked; None for a pure replay.
        results: The results of the calls, an error result for one that begins with `!`.
        user: Who watches.
        names: The names of the tools.
        tools: Further tools.
        max_steps: The step limit of a turn.
    """

    def __init__(
        self,
        tape: Tape,
        model: Model | None = None,
        results: Sequence[str | ToolReturn] = (),
        user: Watcher | None = None,
        names: Sequence[str] = ("look", ASKED),
        tools: Sequence[Tool] = (),
        max_steps: int = 2000,
    ) -> None:
        self.tape = tape
        self.model = RecordedModel(tape, model)
        self.user = user or Watcher()
        self.results = list(results)
        self.history: list[Message] = []
        self.replies: list[MessageFinished] = []
        self.events: list[Event] = []
        self.ran: list[dict[str, Any]] = []
        self._tools = Toolbox([*(self._tool(name) for name in names), *tools])
        self._max_steps = max_steps

    def _tool(self, name: str) -> Tool:
        async def call(**arguments: Any) -> str | ToolReturn:
            self.ran.append(arguments)
            result = self.results.pop(0) if self.results else "344"
            if isinstance(result, str) and result.startswith("!"):
                return ToolReturn(result[1:], is_error=True)
            if isinstance(result, str) and result.startswith(("<stored_data", "<skill_content")):
                return ToolReturn(result, quotes=True)  # as tools for memory and skills do
            return result

        spec = ToolSpec(name, "", {"type": "object"})
        return Tool(spec, call, any_arguments(spec.parameters), "executes")

    def _emit(self, event: Event) -> None:
        for sink in self.tape.sinks:
            sink(event)
        self.events.append(event)
        if isinstance(event, MessageFinished):
            self.replies.append(event)

    async def ask(self, task: str, context: str = "", system: str = "s") -> str:
        """The last words of a turn, which is committed; raises what ended it."""
        extra = (Context(context),) if context else ()
        self.history.append(Message("user", (Text(task), *extra)))
        user = RecordedUser(self.tape, self.user)
        agent = Agent(
            self.model,
            RecordedTools(self._tools, self.tape),
            system,
            max_steps=self._max_steps,
            approval_gate=ApprovalGate(allow, user),
            user=user,
        )
        self.tape.begin(tuple(self.history))
        outcome = await run_turn(agent, self.history, self._emit)
        if outcome.error is not None:
            raise outcome.error
        self.tape.commit()
        return self.replies[-1].message.text


def recorder(path: Path, workspace: Workspace | None = None, **fields: Any) -> Recorder:
    """A recorder of scripted replies."""
    given = {"name": "scripted", "model": "script", "source": "scripted", **fields}
    return Recorder(path, workspace, **given)


def player(path: Path, workspace: Workspace | None = None) -> Player:
    return Player(load(path), path.name, workspace)


async def recorded(
    path: Path, script: Script, tasks: Iterable[str], workspace: Workspace | None = None, **how: Any
) -> Talk:
    """A recorded conversation."""
    talk = Talk(recorder(path, workspace), Scripted(script), **how)
    for task in tasks:
        await talk.ask(task)
    return talk


def replaying(path: Path, workspace: Workspace | None = None, **how: Any) -> Talk:
    """A conversation that is replayed."""
    return Talk(player(path, workspace), **how)


def cached(path: Path, *script: tuple[str, list[Any]], **how: Any) -> Talk:
    """A conversation in the mode `cached`."""
    return Talk(Cached(path, recorder(path)), Scripted(script), **how)
