"""The resources of a session beside its conversation and kernel: skills, memory, rules, servers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from jupyter_agent.config import Settings, ToolsSettings
from jupyter_agent.core.events import Sink
from jupyter_agent.core.tool import Tool
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.tokens import count_tokens
from jupyter_agent.mcp.servers import Offer
from jupyter_agent.memory.entries import Provenance
from jupyter_agent.memory.learning import Learning
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.rules import HotRules, hot_rules
from jupyter_agent.memory.scope import all_roots, find_root
from jupyter_agent.memory.search import MemorySearch
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.skills.session import Skills
from jupyter_agent.stores.session_records import SessionRecord
from jupyter_agent.tools.notes import note_tools
from jupyter_agent.tools.skills import skill_tools
from jupyter_agent.tools.workspace_memory import search_memory_tools, workspace_memory_tools

_MOST_NOTICES = 20
"""The most notices that one turn shows."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Workspace memory: the store of entries, and the search over everything stored."""

    store: WorkspaceMemory
    search: MemorySearch


class Notices:
    """Lines for the user, each of which is shown once."""

    def __init__(self) -> None:
        self._shown: list[str] = []

    def new(self, *lines: str) -> list[str]:
        """The lines that no earlier call returned, without empty ones."""
        found = [line for line in lines if line and line not in self._shown]
        self._shown += found
        return found


class Resources:
    """The stores that one session reads and writes, found when it begins.

    Args:
        kernel: The session's kernel.
        session: The session's name.
        settings: The switches of the resources, and further folders to search.

    Attributes:
        model: The model's id, for the origin of an entry.
        skills: The skills that the system prompt lists, and the loaded ones.
        notes: The agent's scratchpad beside the notebook.
        memory: Decisions and lessons of the workspace, and the search over them; None if they
            have no folder (`problem` has the reason).
        record: A sink: the record of this session, for other sessions; None without a memory,
            and if it is switched off.
        learning: A sink that recognizes moments worth a lesson.
        offer: The tools that the MCP servers offer; empty before `connect`.

    Raises:
        ConfigError: A setting names a folder that does not exist.
    """

    def __init__(self, kernel: Kernel, session: str, settings: Settings) -> None:
        workspace = kernel.workspace
        name = kernel.path.name if kernel.path else ""
        self._kernel = kernel
        self._enabled: ToolsSettings = settings.tools
        self._notices = Notices()
        self.model = ""
        self.skills = Skills(kernel.skill_places() if settings.tools.enable_skills else ())
        self.notes = Notes(workspace)
        self.learning = Learning()
        self.offer = Offer()
        self.memory: Memory | None = None
        self.record: SessionRecord | None = None
        self.problem = ""
        try:
            own = find_root(workspace)
        except ConfigError as error:
            self.problem = f"There is no workspace memory: {error}"
            return
        roots = all_roots(own, workspace, settings.memory.roots)
        store = WorkspaceMemory(own, lambda: Provenance("agent", name, session, self.model))
        self.memory = Memory(store, MemorySearch(roots, workspace.state_folder))
        if settings.tools.enable_memory:
            self.record = SessionRecord(own, name, session)

    @cached_property
    def rules(self) -> HotRules:
        """The hot rules, read once, so that a conversation keeps the same ones."""
        if not self._enabled.enable_memory:
            return HotRules((), ())
        root = self.memory.store.root if self.memory else None
        return hot_rules(self._kernel.workspace, root, count_tokens)

    async def connect(self) -> None:
        """Ask the MCP servers for their tools, for at most `mcp.connect_timeout` seconds."""
        servers = self._kernel.servers
        if self._enabled.enable_mcp and servers.is_configured:
            self.offer = await servers.offer()

    def tools(self, settings: Settings) -> list[Tool]:
        """The tools over these stores that the settings allow, without those of servers."""
        wanted = settings.tools
        memory = self.memory if wanted.enable_memory else None
        return [
            *(skill_tools(self.skills) if wanted.enable_skills else ()),
            *(note_tools(self.notes) if wanted.enable_notes else ()),
            *(workspace_memory_tools(memory.store) if memory else ()),
            *(search_memory_tools(memory.search) if memory else ()),
        ]

    def advice(self) -> str:
        """The advice for the model to save a lesson; mostly empty."""
        return self.learning.advice() if self._enabled.enable_memory and self.memory else ""

    @property
    def sinks(self) -> list[Sink]:
        """The sinks for a turn's events."""
        return [self.learning, *([self.record] if self.record else [])]

    def finish(self) -> None:
        """End the session: write its record."""
        if self.record:
            self.record.finish()

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices about servers, skills and rules, one line each."""
        problems = [self.problem] if self.problem and self._enabled.enable_memory else []
        found = (self.offer.notices, self.skills.catalogue.notices, self.rules.warnings)
        return (*problems, *chain.from_iterable(found))

    def untold(self) -> list[str]:
        """The notices that were not returned yet: each appears once in a session."""
        found = self._notices.new(*self.notices)
        if more := len(found[_MOST_NOTICES:]):
            return [*found[:_MOST_NOTICES], f"{more} more notices: %agent status shows them."]
        return found
