"""The approvals of a session: its settings, the policy, the user's grants, recorded decisions."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.agent.approval_gate import Rule, Ruling
from jupyter_agent.config import Settings
from jupyter_agent.core.effects import Risk
from jupyter_agent.core.events import Event, Sink, ToolFinished
from jupyter_agent.core.messages import (
    ACROSS_TOOLS,
    EDIT_CELLS,
    MEMORY_SAVE,
    Output,
    is_served,
)
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.core.tool import Prepared
from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import EDITABLE_BYTES, open_regular
from jupyter_agent.kernel.scratch import Overlay
from jupyter_agent.llm.inline import is_from_text
from jupyter_agent.memory.scope import personal_root
from jupyter_agent.policy import PolicyContext, Verdict, always_covers, grants, judge
from jupyter_agent.policy.known import KnownNames
from jupyter_agent.policy.verdict import ASKED_IN_AUTO, scope
from jupyter_agent.recording.tape import Tape
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.options import TurnKind
from jupyter_agent.session.side_effects import NO_CHANGES, ChangesNothing, EffectGuard
from jupyter_agent.tools.cells import Decided
from jupyter_agent.tools.editing import foreseen
from jupyter_agent.tools.files import FILE_TOOLS
from jupyter_agent.tools.notes import NOTE_TOOLS
from jupyter_agent.tools.propose import PROPOSE_CELL
from jupyter_agent.tools.skills import GET_SKILL
from jupyter_agent.tools.workspace_memory import MEMORY_TOOLS

_QUESTIONS = {
    "execute_code": "Run this code?",
    "write_file": "Write this file?",
    "edit_file": "Change this file?",
    EDIT_CELLS: "Edit the notebook?",
    MEMORY_SAVE: "Keep this in your own memory, for all workspaces?",
}
# Made before any code of the agent's runs, which could change where these folders are.
_AT_FIRST = PolicyContext(Path(), Path())
_BEFOREHAND = Ruling().beforehand
_FROM_TEXT = "The call was read from the text of the reply, which may only quote it."


class Approvals:
    """Decides which calls of a session run, are asked about, or are refused.

    Also a sink: it notes the files that the agent has read or written.
    """

    lasting_only = True

    def __init__(
        self, kernel: Kernel, of: Approvals | None = None, overlay: Overlay | None = None
    ) -> None:
        """Make the approvals of a session; or those of a delegate, which has the session's grants.

        Args:
            kernel: The kernel.
            of: The approvals of the delegate's session.
            overlay: The delegate's names.
        """
        self._kernel = kernel
        self._overlay = overlay
        self._granted: set[str] = of._granted if of else set()
        self._seen: set[Path] = of._seen if of else set()
        self._made: set[Path] = of._made if of else set()
        self._own_names = _OwnNames(kernel.shell.user_ns)
        self._mode: str = "auto"
        self._user: User = Nobody()
        self._no_changes = ""
        self._contexts: dict[str, PolicyContext] = {}
        self._passed: dict[str, tuple[PolicyContext, tuple[Risk, ...], Sink]] = {}
        self._about_cells: Decided | None = None

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
            if self._no_changes and (refusal := self._changes(prepared)):
                return Ruling("refuse", refusal)
            if is_from_text(prepared.call):
                found = _of_text(found)
            if tape is None:
                return found
            recorded = tape.approval(prepared, settings.approvals.mode)
            if recorded is None:
                return replace(found, as_kept=tape.preview)
            if not recorded.question:
                return Ruling(writes=found.writes)
            return replace(
                found,
                decision="ask",
                question=recorded.question,
                reasons=recorded.reasons,
                always=recorded.always,
                preview=lambda: recorded.preview,
            )

        return ruling

    def grant(self, ruling: Ruling) -> None:
        """Note a grant: the user answered "always" to this ruling."""
        self._granted |= ruling.grants

    def begin(self, settings: Settings, user: User, kind: TurnKind = "work") -> None:
        """Begin a turn.

        Args:
            settings: Its settings.
            user: The user who is asked about side effects.
            kind: What it is for: to plan, to vote and to verify refuse whatever would change
                anything but variables.
        """
        self._mode = settings.approvals.mode
        self._user = ChangesNothing(kind) if kind in ("plan", "vote", "verify") else user
        self._no_changes = NO_CHANGES.get(kind, "")
        self._contexts.clear()
        self._passed.clear()

    def passed(self, prepared: Prepared, ruling: Ruling, emit: Sink) -> None:
        """Note that a call runs: the files that it writes count as the agent's own."""
        self._note_files(ruling)
        if ruling.is_approved and self._mode == "auto":
            # The user wants no questions: what even then is asked is asked once a session.
            self._granted |= {scope(risk) for risk in ruling.risks if risk.kind in ASKED_IN_AUTO}
        is_decided = ruling.is_approved or ruling.decision == "allow"
        self._about_cells = Decided(ruling.rejected, ruling.reason) if is_decided else None
        around = self._contexts.pop(prepared.call.id, None)
        if around is not None:
            approved = ruling.risks if ruling.is_approved else ()
            self._passed[prepared.call.id] = around, approved, emit

    @property
    def about_cells(self) -> Decided | None:
        """The decision about the edits of the last call that passed; None if nobody decided."""
        return self._about_cells

    def passed_in_code(self, ruling: Ruling) -> None:
        """The same for a call that the running code makes."""
        self._note_files(ruling)

    def _note_files(self, ruling: Ruling) -> None:
        self._made.update(path for path in ruling.writes if not os.path.lexists(path))
        self._seen.update(ruling.writes)

    @contextmanager
    def guarded(self, call_id: str) -> Iterator[EffectGuard | None]:
        """The judge of the code that a call is about to run; None if everything is allowed."""
        passed = self._passed.pop(call_id, None)
        with self._own_names.noted():
            if passed is None or (self._mode == "auto" and not self._no_changes):
                yield None
            else:
                with self._judged(call_id, *passed) as guard:
                    yield guard

    @contextmanager
    def _judged(
        self, call_id: str, around: PolicyContext, approved: tuple[Risk, ...], emit: Sink
    ) -> Iterator[EffectGuard]:
        guard = EffectGuard(
            call_id=call_id,
            around=self._for_planning(around) if self._no_changes else around,
            approved=approved,
            user=self._user,
            grant=self._granted.add,
            passed=self._wrote,
            emit=emit,
            changes_nothing=bool(self._no_changes),
        )
        try:
            yield guard
        finally:
            guard.finish()

    def _wrote(self, path: Path, is_new: bool) -> None:
        self._seen.add(path)
        if is_new:
            self._made.add(path)

    def _changes(self, prepared: Prepared) -> str:
        """Why a call does not run in a turn that changes nothing; empty if it does."""
        tool = prepared.tool
        if tool.effect == "writes" or tool.name == PROPOSE_CELL:
            return self._no_changes
        if tool.effect == "reads":
            return ""
        around = self._for_planning(self._surroundings(prepared))
        verdict = judge(tool.name, tool.effect, prepared.values, "ask_risky", around)
        written = [path for path in verdict.writes if path.is_relative_to(around.root)]
        if verdict.decision == "allow" and not written:
            return ""
        what = always_covers(verdict, around.root) or ("writes of files" if written else "")
        return f"{self._no_changes} ({what})" if what else self._no_changes

    def _for_planning(self, around: PolicyContext) -> PolicyContext:
        """The same place without rights but those to the network, which the mode may give, too."""
        network = (right for right in self._granted if right.partition("@")[0] == "network")
        return replace(around, granted=frozenset({"network"} if self._mode == "auto" else network))

    def _ruling(self, prepared: Prepared, settings: Settings) -> Ruling:
        """The policy's verdict on a call, as a ruling."""
        tool, mode, around = prepared.tool, settings.approvals.mode, self._surroundings(prepared)
        if tool.effect == "executes" and not is_served(tool.name):
            self._contexts[prepared.call.id] = around
        verdict = judge(tool.name, tool.effect, prepared.values, mode, around)
        return Ruling(
            verdict.decision,
            verdict.reason,
            _QUESTIONS.get(tool.name, f"Run {tool.name}?"),
            tuple(risk.what for risk in verdict.risks),
            always_covers(verdict, self._kernel.workspace.root),
            grants(verdict, mode, tool.name),
            verdict.writes,
            risks=verdict.risks,
            preview=(lambda: self._foreseen(verdict)) if tool.effect == "executes" else None,
            by_part=tool.name == EDIT_CELLS,
            beforehand="" if tool.name == MEMORY_SAVE else _BEFOREHAND,
        )

    def _foreseen(self, verdict: Verdict) -> tuple[Output, ...] | None:
        """What code changes in files that exist, as far as it tells; None if that is nothing.

        Nothing is asked then: all that the code does is to give files the content that they have.
        """
        root = self._kernel.workspace.root
        shown: list[Output] = []
        same: set[str] = set()
        state = self._kernel.workspace.state_folder
        for path, text in verdict.contents.texts.items():
            if not path.is_relative_to(root) or path.is_relative_to(state):
                continue  # the transcript and the recording would keep what the model never read
            old = _content(path)
            if old is None:
                continue
            name = path.relative_to(root).as_posix()
            changed = foreseen(name, old, text.encode("utf-8", "replace"))
            shown += changed or ()
            if changed is None:
                same.add(str(path))
        covered = all(risk.kind == "overwrite" and risk.place in same for risk in verdict.risks)
        is_nothing = verdict.contents.is_all and covered and not verdict.tool
        return None if verdict.risks and is_nothing else tuple(shown)

    def _surroundings(self, prepared: Prepared) -> PolicyContext:
        """What the policy knows of the place where a call runs."""
        around = self._outside_of_scratch()
        scratch = self._kernel.executor.scratch
        if self._overlay is not None and not is_served(prepared.tool.name):
            with scratch.using(self._overlay):
                names = KnownNames(scratch.names())
            return replace(around, names=names, own_names=names)
        if not (prepared.values.get("scratch") or scratch.holds) or is_served(prepared.tool.name):
            return around
        names = KnownNames(scratch.names())
        return replace(around, names=names, own_names=names)  # deleted in scratch alone

    def _outside_of_scratch(self) -> PolicyContext:
        kernel = self._kernel
        workspace = kernel.workspace
        return replace(
            _AT_FIRST,
            root=workspace.root,
            folder=_working_folder(workspace.root),
            seen=self._seen,
            made=self._made,
            protected=frozenset(
                {
                    workspace.state_folder,
                    _trusted_folder(),
                    personal_root().path,
                    *kernel.own_files(),
                }
            ),
            names=KnownNames(kernel.shell.user_ns),
            granted=self._granted,
            own_names=self._own_names,
        )


class _OwnNames(Container[str]):
    """The names that the agent's code made: they are its own while they keep their value."""

    def __init__(self, namespace: Mapping[Any, Any]) -> None:
        self._namespace = namespace
        self._values: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        space, value = self._namespace, self._values.get(str(name))
        return value is not None and name in space and id(space[name]) == value

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the names that the code in this context makes."""
        space = self._namespace
        others = set(space).difference(filter(self.__contains__, self._values))
        try:
            yield
        finally:
            self._values = {name: id(space[name]) for name in set(space) - others}


def _content(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist, is no file, or is very large."""
    try:
        with open_regular(path, path.name) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_size <= EDITABLE_BYTES else None
    except (OSError, ToolError):
        return None


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
        must_ask=True,
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
        ("enable_memory", "memory", tool.name in MEMORY_TOOLS | ACROSS_TOOLS),
    )
    if tool.name in ACROSS_TOOLS and not _lets(settings, tool.name):
        level = settings.memory.across_workspaces
        return f"this workspace does not allow it (memory.across_workspaces is {level})"
    for key, what, is_one in kinds:
        if is_one and not getattr(tools, key):
            return f"the person switched {what} off (tools.{key} is false)"
    return ""


def _lets(settings: Settings, tool: str) -> bool:
    """True if the workspace allows a tool over the person's own memory."""
    level = settings.memory.across_workspaces
    return level == "on" or (level == "read" and tool != MEMORY_SAVE)
