"""The approvals of a session: its settings, the policy, the user's grants, recorded decisions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.agent.approval_gate import Rule, Ruling
from jupyter_agent.config import Settings
from jupyter_agent.core.events import Event, Sink, ToolFinished
from jupyter_agent.core.messages import is_served
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.core.tool import Prepared
from jupyter_agent.llm.inline import is_from_text
from jupyter_agent.policy import PolicyContext, Risk, always_covers, grants, judge
from jupyter_agent.policy.known import KnownNames
from jupyter_agent.recording.tape import Tape
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.side_effects import EffectGuard
from jupyter_agent.tools.files import FILE_TOOLS
from jupyter_agent.tools.notes import NOTE_TOOLS
from jupyter_agent.tools.skills import GET_SKILL
from jupyter_agent.tools.workspace_memory import MEMORY_TOOLS

_QUESTIONS = {
    "execute_code": "Run this code?",
    "write_file": "Write this file?",
    "edit_file": "Change this file?",
}
# Made before any code of the agent's runs, which could change where these folders are.
_AT_FIRST = PolicyContext(Path(), Path())
_FROM_TEXT = "The call was read from the text of the reply, which may only quote it."


class Approvals:
    """Decides which calls of a session run, are asked about, or are refused.

    Also a sink: it notes the files that the agent has read or written.
    """

    lasting_only = True

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._granted: set[str] = set()
        self._seen: set[Path] = set()
        self._made: set[Path] = set()
        self._own_names: dict[str, int] = {}
        self._mode: str = "auto"
        self._user: User = Nobody()
        self._running: tuple[str, tuple[Risk, ...], Sink] | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolFinished) and not event.result.is_error:
            path = event.result.details.get("path")
            if isinstance(path, str):
                self._seen.add((self._kernel.workspace.root / path).resolve())

    @property
    def granted(self) -> tuple[str, ...]:
        """The user's grants for the session, by name."""
        return tuple(sorted(self._granted))

    def rule(self, settings: Settings, tape: Tape | None) -> Rule:
        """The rule for a turn.

        Args:
            settings: The turn's settings.
            tape: Its recording, whose decisions about recorded calls are repeated. None for calls
                from within code, which no recording holds.
        """

        def ruling(prepared: Prepared) -> Ruling:
            found = self._ruling(prepared, settings)
            if found.decision == "refuse":
                return found
            if refusal := _switched_off(prepared, settings):
                return Ruling("refuse", refusal)
            if is_from_text(prepared.call):
                found = _of_text(found)
            if tape is None:
                return found
            recorded = tape.approval(prepared, settings.approvals.mode)
            if recorded is None:
                return found
            if not recorded.question:
                return Ruling(writes=found.writes)
            return replace(
                found,
                decision="ask",
                question=recorded.question,
                reasons=recorded.reasons,
                always=recorded.always,
            )

        return ruling

    def grant(self, ruling: Ruling) -> None:
        """Note a grant: the user answered "always" to this ruling."""
        self._granted |= ruling.grants

    def begin(self, settings: Settings, user: User) -> None:
        """Begin a turn with its settings, and the user who is asked about side effects."""
        self._mode, self._user = settings.approvals.mode, user

    def passed(self, prepared: Prepared, ruling: Ruling, emit: Sink) -> None:
        """Note that a call runs: the files that it writes count as the agent's own."""
        self._note_files(ruling)
        if prepared.tool.effect == "executes" and not is_served(prepared.tool.name):
            risks = ruling.risks if ruling.is_approved else ()
            approved = tuple(risk for risk in risks if isinstance(risk, Risk))
            self._running = prepared.call.id, approved, emit

    def passed_in_code(self, ruling: Ruling) -> None:
        """The same for a call that the running code makes."""
        self._note_files(ruling)

    def _note_files(self, ruling: Ruling) -> None:
        self._made.update(path for path in ruling.writes if not os.path.lexists(path))
        self._seen.update(ruling.writes)

    @contextmanager
    def guarded(self) -> Iterator[EffectGuard | None]:
        """The judge of the code that is about to run; None if everything is allowed."""
        running, self._running = self._running, None
        with self._naming():
            if self._mode == "auto" or running is None:
                yield None
            else:
                with self._judged(*running) as guard:
                    yield guard

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Note the names that the code makes: they are the agent's while they keep their value."""
        space = self._kernel.shell.user_ns
        before, own = frozenset(space), self._names()
        try:
            yield
        finally:
            made = [name for name in space if name not in before or name in own]
            self._own_names = {name: id(space[name]) for name in made}

    def _names(self) -> frozenset[str]:
        space = self._kernel.shell.user_ns
        kept = self._own_names.items()
        return frozenset(name for name, key in kept if name in space and id(space[name]) == key)

    @contextmanager
    def _judged(
        self, call_id: str, approved: tuple[Risk, ...], emit: Sink
    ) -> Iterator[EffectGuard]:
        guard = EffectGuard(
            call_id=call_id,
            around=self._surroundings(),
            approved=approved,
            user=self._user,
            grant=self._granted.add,
            passed=self._wrote,
            emit=emit,
        )
        try:
            yield guard
        finally:
            guard.finish()

    def _wrote(self, path: Path, is_new: bool) -> None:
        self._seen.add(path)
        if is_new:
            self._made.add(path)

    def _ruling(self, prepared: Prepared, settings: Settings) -> Ruling:
        """The policy's verdict on a call, as a ruling. The code is analysed once."""
        tool, mode = prepared.tool, settings.approvals.mode
        verdict = judge(tool.name, tool.effect, prepared.values, mode, self._surroundings())
        return Ruling(
            verdict.decision,
            verdict.reason,
            _QUESTIONS.get(tool.name, f"Run {tool.name}?"),
            tuple(risk.what for risk in verdict.risks),
            always_covers(verdict, self._kernel.workspace.root),
            grants(verdict, mode, tool.name),
            verdict.writes,
            risks=verdict.risks,
        )

    def _surroundings(self) -> PolicyContext:
        kernel = self._kernel
        workspace = kernel.workspace
        return replace(
            _AT_FIRST,
            root=workspace.root,
            folder=_working_folder(workspace.root),
            seen=self._seen,
            made=self._made,
            protected=frozenset({workspace.state_folder, _trusted_folder(), *kernel.own_files()}),
            names=KnownNames(kernel.shell.user_ns),
            granted=self._granted,
            own_names=self._names(),
        )


def _of_text(found: Ruling) -> Ruling:
    """The ruling for a call in the text of a reply: the user is asked, whatever its effect.

    "Always" is not offered, since each text may call or quote.
    """
    return replace(
        found,
        decision="ask",
        question=f"{found.question} {_FROM_TEXT}",
        always="",
        grants=frozenset(),
        beforehand="tool_protocol text",
    )


def _working_folder(root: Path) -> Path:
    try:
        return Path.cwd()
    except OSError:
        return root  # it was deleted


def _trusted_folder() -> Path:
    """The folder of the user's own settings, servers and trust store."""
    return Path(os.path.realpath(jupyter_config_dir()))


def _switched_off(prepared: Prepared, settings: Settings) -> str:
    """Why the settings forbid a tool, whatever the policy says; empty if they allow it.

    A session's tools are fixed when it begins, and a setting may have changed since.
    """
    tool, tools = prepared.tool, settings.tools
    kinds = (
        ("enable_mcp", "MCP servers", is_served(tool.name)),
        ("enable_code", "code", tool.effect == "executes" and not is_served(tool.name)),
        ("enable_file_tools", "file tools", tool.name in FILE_TOOLS),
        ("enable_skills", "skills", tool.name == GET_SKILL),
        ("enable_notes", "notes", tool.name in NOTE_TOOLS),
        ("enable_memory", "workspace memory", tool.name in MEMORY_TOOLS),
    )
    for key, what, is_one in kinds:
        if is_one and not getattr(tools, key):
            return f"the person switched {what} off (tools.{key} is false)"
    return ""
