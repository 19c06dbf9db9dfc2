"""What a session may do: its settings, the policy, what the person allowed, what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from jupyter_agent.approvals import Known, Surroundings, Verdict, always_covers, grants, judge
from jupyter_agent.config import Settings
from jupyter_agent.events import Event, ToolFinished
from jupyter_agent.kernel.known import KnownNames
from jupyter_agent.llm.witness import Recollection
from jupyter_agent.notebook import Notebook
from jupyter_agent.tools.files import FILE_TOOLS
from jupyter_agent.tools.gate import Rule, Ruling
from jupyter_agent.tools.toolbox import Prepared

_QUESTIONS = {
    "execute_code": "Run this code?",
    "write_file": "Write this file?",
    "edit_file": "Change this file?",
}


class Permissions:
    """What the calls of one session may do without being asked about.

    A sink as well: it sees which files the agent has read or written.
    """

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._granted: set[str] = set()
        self._seen: set[Path] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolFinished) and not event.result.is_error:
            path = event.result.details.get("path")
            if isinstance(path, str):
                self._seen.add((self._notebook.workspace.root / path).resolve())

    @property
    def granted(self) -> tuple[str, ...]:
        """What the person allowed for the session, by name."""
        return tuple(sorted(self._granted))

    def revoke(self) -> None:
        """Ask about everything again."""
        self._granted.clear()

    def rule(self, settings: Settings, recollection: Recollection | None = None) -> Rule:
        """The rule for a turn: a replay repeats what was decided when it was recorded."""

        def ruling(prepared: Prepared) -> Ruling:
            if refusal := _switched_off(prepared, settings):
                return Ruling("refuse", refusal)
            if recollection is not None:
                then = recollection.question(prepared.call.id)
                if then is None:
                    return Ruling()
                return Ruling("ask", "", then.question, then.reasons, then.always)
            return self._ruling(prepared, self._judged(prepared, settings))

        return ruling

    def grant(self, settings: Settings) -> Callable[[Prepared], None]:
        """Takes a call about which the person said "always"."""

        def note(prepared: Prepared) -> None:
            verdict = self._judged(prepared, settings)
            self._granted |= grants(verdict, settings.approvals.mode, prepared.tool.name)

        return note

    def passed(self, settings: Settings) -> Callable[[Prepared], None]:
        """Takes a call that runs: what it writes is the agent's own from then on."""

        def note(prepared: Prepared) -> None:
            self._seen.update(self._judged(prepared, settings).writes)

        return note

    def _judged(self, prepared: Prepared, settings: Settings) -> Verdict:
        tool = prepared.tool
        mode = settings.approvals.mode
        return judge(tool.name, tool.effect, prepared.values, mode, self._surroundings())

    def _ruling(self, prepared: Prepared, verdict: Verdict) -> Ruling:
        if verdict.decision != "ask":
            return Ruling(verdict.decision, verdict.reason)
        name = prepared.tool.name
        question = _QUESTIONS.get(name, f"Run {name}?")
        reasons = tuple(risk.what for risk in verdict.risks)
        return Ruling("ask", "", question, reasons, always_covers(verdict))

    def _surroundings(self) -> Surroundings:
        notebook = self._notebook
        workspace = notebook.workspace
        return Surroundings(
            root=workspace.root,
            folder=_working_folder(workspace.root),
            seen=frozenset(self._seen),
            protected=frozenset({workspace.state_folder, *notebook.own_files()}),
            names=self._names(),
            granted=frozenset(self._granted),
        )

    def _names(self) -> Mapping[str, Known]:
        return KnownNames(self._notebook.shell.user_ns)


def _working_folder(root: Path) -> Path:
    try:
        return Path.cwd()
    except OSError:
        return root  # it was deleted


def _switched_off(prepared: Prepared, settings: Settings) -> str:
    """Why a tool must not run whatever the policy says; empty where it may."""
    tool = prepared.tool
    if settings.approvals.mode == "read_only" and tool.effect != "reads":
        return "the person allows reading only (approvals.mode is read_only)"
    if not settings.tools.enable_code and tool.effect == "executes":
        return "the person switched code off (tools.enable_code is false)"
    if not settings.tools.enable_file_tools and tool.name in FILE_TOOLS:
        return "the person switched file tools off (tools.enable_file_tools is false)"
    return ""
