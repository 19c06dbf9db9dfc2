"""The resources of a session beside its conversation and kernel: skills, memory, rules, servers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from jupyter_agent.config import Settings, ToolsSettings
from jupyter_agent.core.events import Sink
from jupyter_agent.core.tool import Tool
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.tokens import count_tokens
from jupyter_agent.mcp.servers import Offer
from jupyter_agent.memory.across import AcrossMemory
from jupyter_agent.memory.embeddings import Embeddings
from jupyter_agent.memory.entries import Provenance
from jupyter_agent.memory.learning import Learning
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.rules import HotRules, hot_rules
from jupyter_agent.memory.scope import all_roots, find_root, personal_root
from jupyter_agent.memory.search import MemorySearch
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.skills.session import Skills
from jupyter_agent.stores.session_records import SessionRecord
from jupyter_agent.tools.across_memory import across_memory_tools
from jupyter_agent.tools.notes import note_tools
from jupyter_agent.tools.skills import skill_tools
from jupyter_agent.tools.workspace_memory import search_memory_tools, workspace_memory_tools

_MOST_NOTICES = 20
"""The most notices that one turn shows."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Workspace memory: the store of entries, and the search over everything stored.

    `across` is the memory across workspaces; None if this workspace forbids it.
    """

    store: WorkspaceMemory
    search: MemorySearch
    across: AcrossMemory | None = None


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
        embeddings = _embeddings(settings, workspace)
        store = WorkspaceMemory(own, lambda: Provenance("agent", name, session, self.model))
        search = MemorySearch(roots, workspace.state_folder, embeddings)
        across = None
        if (level := settings.memory.across_workspaces) != "off":
            mine = personal_root()
            here = workspace.root.name
            across = AcrossMemory(
                WorkspaceMemory(
                    mine,
                    lambda: Provenance("agent", name, session, self.model, workspace=here),
                ),
                [store, *map(WorkspaceMemory, roots[1:])],
                search,
                MemorySearch([mine], mine.state, embeddings),
                here,
                level == "on",
            )
        self.memory = Memory(store, search, across)
        if settings.tools.enable_memory:
            self.record = SessionRecord(own, name, session, number=lambda: kernel.turn_number)

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

    def across_tools(self, settings: Settings) -> list[Tool]:
        """The tools for memory across workspaces, as far as the settings allow them."""
        memory = self.memory if settings.tools.enable_memory else None
        return across_memory_tools(memory.across) if memory and memory.across else []

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


def _embeddings(settings: Settings, workspace: Workspace) -> Embeddings | None:
    """The model for the search by meaning; None without one. Raises `ConfigError`."""
    path = settings.memory.embeddings
    return Embeddings(workspace.root / Path(path).expanduser()) if path else None
