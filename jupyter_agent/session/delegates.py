"""The delegates of a conversation: their tools, their names in the kernel, what they hand over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_agent.agent.approval_gate import ApprovalGate
from jupyter_agent.agent.compaction import Compactor
from jupyter_agent.agent.delegates import DelegateEnd, DelegateUser, run_delegate, share_of
from jupyter_agent.agent.loop import Agent
from jupyter_agent.agent.prompts import render
from jupyter_agent.core.events import (
    Delegated,
    Event,
    MessageFinished,
    Noticed,
    TurnStarted,
)
from jupyter_agent.core.messages import DELEGATE, Context, Message, Text, Usage
from jupyter_agent.core.plaintext import count, defused, shorten
from jupyter_agent.core.ports import User
from jupyter_agent.core.tool import DelegateSinks, Tool, ToolReturn, delegated
from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.changes import Snapshot
from jupyter_agent.kernel.child import ChildKernel
from jupyter_agent.kernel.context import KernelState, turn_context
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.kernel.execute import Numbering
from jupyter_agent.kernel.scratch import Overlay
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.recording.tape import Tape
from jupyter_agent.recording.wrappers import RecordedTools, RecordedUser, on_tape
from jupyter_agent.session.approvals import Approvals
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.options import TurnKind
from jupyter_agent.tools.code import delegate_code_tools, process_code_tools
from jupyter_agent.tools.delegation import Assignment, delegate_tools
from jupyter_agent.tools.inspect import inspect_tools
from jupyter_agent.tools.toolbox import Toolbox, call_tool

if TYPE_CHECKING:
    from jupyter_agent.session.agent_setup import AgentSetup

AT_ONCE = 8
"""Delegates that run side by side; further ones wait for a place."""
LONGEST_REPORT = 6_000
"""Characters of a report that the caller reads."""
_MOST_NAMED = 8
_NOT_FOR_DELEGATES = frozenset(
    {"execute_code", "inspect_variable", DELEGATE}
    | {"update_plan", "propose_cell", "read_cells", "edit_cells"}
)
"""Tools that a delegate has in another form, or not at all: the plan, the proposals and the page
are the agent's that talks to the person."""
_FOR_A_CHECK = frozenset({"read_file", "describe_file", "list_files", "search_files"})
"""Tools of a delegate that checks an answer, besides code: none that remembers, asks or changes."""


@dataclass
class _Delegate:
    """A delegate that runs.

    Attributes:
        name: Its name for the person: `Delegate 2`.
        assignment: What it is to do.
        numbering: The numbers of its pieces of code.
        overlay: Its names.
        lost: The person's variables that it changed in place and that have no copy.
        unseen: Those that its code names and that may have changed unseen, with their types.
        child: The process in which its code runs; None for this kernel.
        failed: What it made in its process and cannot hand over, with the reasons.
        kind: What it is for: `verify` reads, computes, and changes nothing.
        contexts: What it reads beside its task.
        mutated: Those that its code changed in place, and that were put back.
    """

    name: str
    assignment: Assignment
    numbering: Numbering
    overlay: Overlay = field(default_factory=Overlay)
    kind: TurnKind = "work"
    contexts: tuple[str, ...] = ()
    lost: dict[str, None] = field(default_factory=dict)
    unseen: dict[str, None] = field(default_factory=dict)
    child: ChildKernel | None = None
    failed: dict[str, str] = field(default_factory=dict)
    mutated: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What a delegate computed anew.

    Args:
        end: How it ended.
        value: What it bound; None if it bound nothing.
        lost: The person's variables that it changed in place and that have no copy.
        unseen: Those that its code names and that may have changed unseen, with their types.
    """

    end: DelegateEnd
    value: object
    lost: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Turn:
    """The turn whose delegates run: its agent, its user, its tape."""

    agent: Agent
    user: User
    tape: Tape


@dataclass(frozen=True, slots=True)
class _State:
    """A variable at one moment: its object, which is kept, and what it looked like."""

    value: object
    fingerprint: object

    @classmethod
    def of(cls, name: str, taken: Snapshot) -> _State:
        """The state in a snapshot; that of None if there was no such variable."""
        return cls(taken.values.get(name), taken.fingerprints.get(name))

    def is_in(self, taken: Snapshot, name: str) -> bool:
        """True if the variable is the same object in a snapshot, and looks the same."""
        now = _State.of(name, taken)
        return self.value is now.value and self.fingerprint == now.fingerprint


class Delegates:
    """Runs the delegates of one conversation. Also a sink: it counts what a turn has used.

    The model calls of several delegates overlap. Their code, and whatever else they change, takes
    turns in the kernel. What code in a delegate's names changes in the person's objects all the
    same is put back after each piece of code, as far as undo has copies, and stays with the
    delegate.

    Args:
        kernel: The kernel.
        setup: The conversation's setup.
    """

    lasting_only = True

    def __init__(self, kernel: Kernel, setup: AgentSetup) -> None:
        self._kernel = kernel
        self._setup = setup
        self._in_kernel = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._turn: _Turn | None = None
        self._task = ""
        self._numbers: dict[str, int] = {}
        self._parts = self._own_part = 1
        self._used = Usage()
        self._used_before = Usage()
        self._began = time.monotonic()
        self._claimed: dict[str, str] = {}
        self._restored: dict[str, tuple[_State, _State]] = {}
        self._handed_over: list[tuple[int, tuple[str, ...]]] = []
        self._running = 0
        self._names_before: frozenset[str] = frozenset()

    def tools(self) -> list[Tool]:
        """The tool that gives work to a delegate."""
        return delegate_tools(self.run, lambda: list(user_variables(self._kernel.shell)))

    def begin(self, agent: Agent, user: User, tape: Tape, is_all: bool = False) -> None:
        """Begin a turn.

        Args:
            agent: The agent of the turn.
            user: Its user.
            tape: Its tape.
            is_all: Whether the turn gives all of its work away.
        """
        self._own_part = 0 if is_all else 1
        self._turn = _Turn(agent, user, tape)
        # New ones: a turn that was interrupted may have left them held, by an event loop of before.
        self._in_kernel, self._asking = asyncio.Lock(), asyncio.Lock()
        # A replay answers at once, and gives the same bytes in whichever order they were recorded.
        self._places = asyncio.Semaphore(AT_ONCE if tape.asks_others else 1)
        self._numbers, self._claimed, self._restored, self._running = {}, {}, {}, 0
        self._handed_over, self._names_before = [], frozenset()
        self._used = self._used_before = Usage()

    def restored(self, before: Snapshot, after: Snapshot) -> frozenset[str]:
        """The person's variables that delegates changed in place, and that are as before the turn.

        Args:
            before: The variables before the turn.
            after: The variables at its end.
        """
        return frozenset(
            name
            for name, (first, last) in self._restored.items()
            if first.is_in(before, name) and last.is_in(after, name)
        )

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted(task=task):
                self._task, self._began = task, time.monotonic()
            case Delegated(event=MessageFinished(usage=usage)):
                self._used += usage
            case MessageFinished(message=message, usage=usage):
                self._used += usage
                calls = [call for call in message.tool_calls if call.name == DELEGATE]
                for call in calls:
                    self._numbers[call.id] = len(self._numbers) + 1
                if calls:
                    self._names_before = frozenset(user_variables(self._kernel.shell))
                # One part of what is left is for the agent that reads the reports.
                self._parts, self._used_before = len(calls) + self._own_part, self._used

    async def run(self, assignment: Assignment) -> ToolReturn:
        """Run a delegate to its end, and give the person what it hands over.

        Raises:
            ToolError: Another delegate hands over the same name, or the turn allows none.
        """
        sinks = delegated.get()
        if sinks is None or self._turn is None:
            raise ToolError("No delegate can work here.")
        if self._setup.kind == "vote":
            raise ToolError("This turn compares several attempts, and has no delegates.")
        self._claim(assignment)
        number = self._numbers.get(assignment.call_id, 0)
        delegate = _Delegate(f"Delegate {number}", assignment, Numbering(f"{number}."))
        # Taken in the order of the calls, whatever the order in which places become free.
        tape = self._turn.tape.of_delegate(number)
        self._running += 1
        try:
            async with self._places:
                await self._start_process(delegate)
                end = await self._work(delegate, self._turn, tape, sinks)
                async with self._in_kernel:
                    await self._fetch(delegate)
                    return self._handed(delegate, end, number)
        finally:
            self._running -= 1
            if not self._running:
                self._in_order()
            for name in assignment.output:
                self._claimed.pop(name, None)
            if delegate.child is not None:
                await delegate.child.close()

    async def recompute(
        self,
        assignment: Assignment,
        overlay: Overlay,
        contexts: Sequence[str],
        sinks: DelegateSinks,
    ) -> Recomputed:
        """Run a delegate that computes something anew, after the turn's answer. It only reads and
        computes, and nothing of its names becomes the person's.

        Args:
            assignment: What it is to do; its only output is the name of what it computes.
            overlay: Its names at the beginning.
            contexts: What it reads beside its task.
            sinks: Where its events go.

        Raises:
            ToolError: No turn runs.
        """
        if self._turn is None:
            raise ToolError("No delegate can work here.")
        number, self._parts = len(self._numbers) + 1, 1
        (wanted,) = assignment.output
        delegate = _Delegate(
            "The check", assignment, Numbering("check."), overlay, "verify", tuple(contexts)
        )
        tape = self._turn.tape.of_delegate(number)
        end = await self._work(delegate, self._turn, tape, sinks)
        made = overlay.space.get(wanted) if overlay.owns(wanted) else None
        return Recomputed(end, made, tuple(delegate.lost), tuple(delegate.unseen))

    def _claim(self, assignment: Assignment) -> None:
        for name in assignment.output:
            if name in self._claimed:
                raise ToolError(
                    f"Another delegate hands over `{name}` at the same time. Give each its own "
                    "names."
                )
        self._claimed.update(dict.fromkeys(assignment.output, assignment.call_id))

    async def _start_process(self, delegate: _Delegate) -> None:
        """Start the delegate's process with copies of its inputs, if it is to have one.

        Raises:
            ToolError: An input cannot be handed over, or the process does not start.
        """
        if delegate.assignment.where != "process":
            return
        variables = user_variables(self._kernel.shell)
        inputs = {name: variables[name] for name in delegate.assignment.inputs}
        child = delegate.child = ChildKernel(Path.cwd(), self._kernel.interrupts)
        # While they are copied no other's code is in the middle of a change.
        await child.start(inputs, self._in_kernel)

    async def _fetch(self, delegate: _Delegate) -> None:
        """Take what the delegate made in its process into its names here."""
        if delegate.child is None:
            return
        wanted = delegate.assignment.output
        try:
            # Its code may have changed its copy of an input, by a method that leaves no trace.
            found = {*await delegate.child.names(), *delegate.assignment.inputs}
            fetched = await delegate.child.fetch([name for name in wanted if name in found])
        except ToolError as error:
            delegate.failed = dict.fromkeys(wanted, str(error))
            return
        delegate.failed = dict(fetched.failed)
        for name, value in fetched.values.items():
            delegate.overlay.take(name, value)

    async def _work(
        self, delegate: _Delegate, turn: _Turn, tape: Tape, sinks: DelegateSinks
    ) -> DelegateEnd:
        kernel, settings, caller = self._kernel, self._setup.settings, turn.agent
        assignment = delegate.assignment
        asker = DelegateUser(
            turn.user, delegate.name, assignment.call_id, sinks.at_call, self._asking
        )
        user = RecordedUser(tape, asker)
        approvals = Approvals(kernel, self._setup.approvals, delegate.overlay)
        approvals.begin(
            settings, user, delegate.kind if delegate.kind != "work" else self._setup.kind
        )

        def note(event: Event) -> None:
            asker.saw(event)
            approvals(event)
            for sink in tape.sinks:
                sink(event)
            sinks.own(event)

        in_kernel = delegate.child is None
        unprotected = kernel.undo.without_copies(kernel.snapshot()) if in_kernel else ()
        if words := self._named(unprotected, assignment.inputs):
            note(Noticed(f"Not protected from changes inside: {words}.", in_sight=True))
        message = self._message(delegate, unprotected)
        budget = share_of(
            caller.budget, self._used_before, time.monotonic() - self._began, self._parts
        )
        tape.begin([Message("user", (Text(self._task),)), message])
        agent = replace(
            caller,
            provider=on_tape(caller.provider, tape),
            toolbox=RecordedTools(Toolbox(self._tools(delegate, approvals)), tape),
            system=render("delegate" if in_kernel else "delegate_process"),
            approval_gate=ApprovalGate(
                approvals.rule(settings, tape), user, approvals.grant, approvals.passed
            ),
            user=user,
            budget=budget,
            advice=str,
            compactor=self._compactor(delegate, tape) if caller.compactor else None,
            samples=1,
        )
        return await run_delegate(agent, assignment.task, message, note)

    def _compactor(self, delegate: _Delegate, tape: Tape) -> Compactor:
        """Shortens the delegate's conversation where it grows too long, as that of the turn."""
        level = self._setup.settings.context.detail

        def its_names() -> list[str]:
            made = {
                name: value
                for name, value in self._variables(delegate).items()
                if delegate.overlay.owns(name)
            }
            return [turn_context("", KernelState(made), level)]

        return self._setup.compactor_of(delegate.name, tape, its_names)

    def _message(self, delegate: _Delegate, unprotected: Sequence[str]) -> Message:
        """The delegate's task with its context: its inputs, and what it hands over."""
        assignment, level = delegate.assignment, self._setup.settings.context.detail
        variables = self._variables(delegate)
        given = {name: variables[name] for name in assignment.inputs if name in variables}
        wanted = ", ".join(f"`{name}`" for name in assignment.output)
        fragile = [name for name in assignment.inputs if name in unprotected]
        lines = [
            f"Hand over, by binding these names: {wanted}." if wanted else "",
            f"The task is about {', '.join(f'`{name}`' for name in given)}." if given else "",
            f"Cannot be put back, so do not change: {', '.join(fragile)}." if fragile else "",
        ]
        state = turn_context("", KernelState(given), level)
        texts = ["\n".join(filter(None, lines)), *delegate.contexts, state]
        blocks = (Context(text) for text in texts if text)
        return Message("user", (Text(assignment.task), *blocks))

    def _tools(self, delegate: _Delegate, approvals: Approvals) -> list[Tool]:
        """The delegate's tools: the conversation's own, but for those that are about the person."""
        setup, kernel, inspect = self._setup, self._kernel, list[Tool]()
        if delegate.child is not None:
            own = process_code_tools(delegate.child.run, setup.sight)
        else:
            own = delegate_code_tools(
                kernel.executor,
                setup.sight,
                kernel.undo.around_code,
                approvals.guarded,
                lambda code: self._in_names_of(delegate, code),
            )
            inspect = inspect_tools(lambda: self._variables(delegate), setup.shapes_only)
        others = [each for each in setup.tools if each.name not in _NOT_FOR_DELEGATES]
        if delegate.kind == "verify":
            others = [each for each in others if each.name in _FOR_A_CHECK]
        return [
            *(own if setup.settings.tools.enable_code else []),
            *inspect,
            *(each if each.effect == "reads" else self._taking_turns(each) for each in others),
        ]

    def _variables(self, delegate: _Delegate) -> dict[str, object]:
        """The variables as the delegate's code sees them."""
        shell, scratch = self._kernel.shell, self._kernel.executor.scratch
        with scratch.using(delegate.overlay):
            return user_variables(shell, scratch.names())

    def _taking_turns(self, tool: Tool) -> Tool:
        """A tool that changes something, so that no two delegates use it at the same time."""

        async def run(**values: Any) -> ToolReturn:
            async with self._in_kernel:
                returned = await call_tool(tool, values)
            return returned if isinstance(returned, ToolReturn) else ToolReturn(returned)

        return replace(tool, function=run)

    @asynccontextmanager
    async def _in_names_of(self, delegate: _Delegate, code: str) -> AsyncIterator[list[str]]:
        """The kernel for one piece of a delegate's code; afterwards the person's objects are as
        before, as far as they can be."""
        kernel, executor = self._kernel, self._kernel.executor
        lines: list[str] = []
        async with self._in_kernel:
            before = kernel.snapshot()
            kernel.undo.begin_attempt(before)
            numbering, executor.numbering = executor.numbering, delegate.numbering
            try:
                with executor.scratch.using(delegate.overlay):
                    yield lines
            finally:
                executor.numbering = numbering
                reached = kernel.undo.end_attempt(kernel.snapshot(), [code])
                for name, value in reached.objects.items():
                    if name in reached.restored and not delegate.overlay.owns(name):
                        delegate.overlay.take(name, value)
                self._note_restored(before, reached.restored)
                delegate.mutated |= dict.fromkeys(sorted(reached.restored))
                delegate.lost |= dict.fromkeys(reached.lost)
                delegate.unseen |= dict.fromkeys(reached.unseen)
                lines += _told(reached.restored, reached.lost)

    def _note_restored(self, before: Snapshot, names: frozenset[str]) -> None:
        """Note variables that were put back.

        Args:
            before: The variables before the delegate's code.
            names: Those that it changed.
        """
        if not names:
            return
        now = self._kernel.snapshot()
        for name in names:
            first, last = self._restored.get(name) or (_State.of(name, before),) * 2
            if not last.is_in(before, name):  # the agent has changed it in between
                first = _State.of(name, before)
            self._restored[name] = first, _State.of(name, now)

    def _handed(self, delegate: _Delegate, end: DelegateEnd, number: int) -> ToolReturn:
        """The result for the caller: the report, and the objects that are the person's now."""
        wanted, outcome = delegate.assignment.output, end.outcome
        overlay = delegate.overlay
        made = [name for name in wanted if name in overlay.space and overlay.owns(name)]
        shadows = self._shadows(overlay)
        adopted = self._kernel.executor.scratch.adopt(made, overlay)
        self._handed_over.append((number, adopted.kept))
        space = self._kernel.shell.user_ns
        # With a blank line: where a person reads it, it is Markdown.
        lines = [shorten(end.report, LONGEST_REPORT, "ask for less") + "\n"] if end.report else []
        if outcome.error is not None:
            lines.append(f"It failed: {outcome.error}")
        elif outcome.stop_reason != "end":
            lines.append(f"It did not end by itself ({outcome.stop_reason}). {outcome.why}".strip())
        elif not end.report:
            lines.append("It ended without a report.")
        told = ((name, one_line(space[name], "schema")) for name in adopted.kept)
        lines += [f"{name}: {described}" for name, described in told]
        if adopted.left:
            lines.append(f"Not handed over: {'; '.join(adopted.left)}.")
        if delegate.failed:
            told_why = "; ".join(f"`{name}`: {why}" for name, why in delegate.failed.items())
            lines.append(f"Not handed over from its process: {told_why}.")
        if missing := [name for name in wanted if name not in {*made, *delegate.failed}]:
            lines.append(f"Not made: {', '.join(missing)}.")
        if delegate.lost:
            lost = ", ".join(delegate.lost)
            lines.append(f"Changed in place, and could not be put back: {lost}.")
        if delegate.unseen:
            lines.append(f"Not checked for changes inside: {', '.join(delegate.unseen)}.")
        details = {
            "state": "done",
            "delegate": delegate.name,
            "where": delegate.assignment.where,
            "kept": [*adopted.kept],
            "shadows": shadows,
            "mutated": [*delegate.mutated],
            "steps": end.steps,
            "stop_reason": outcome.stop_reason,
        }
        is_error = outcome.error is not None
        text = defused("\n".join(lines)).strip()
        return ToolReturn(text, details=details, is_error=is_error)

    def _shadows(self, overlay: Overlay) -> list[str]:
        """The person's names that mean something else to a delegate, sorted.

        Those from before the delegates' calls: what others hand over meanwhile is no matter of
        this one, and depends on who ends first.
        """
        return sorted(name for name in self._names_before if overlay.owns(name))

    def _in_order(self) -> None:
        """Put what was handed over into the order of the calls, whoever ended first."""
        space = self._kernel.shell.user_ns
        for _, names in sorted(self._handed_over):
            for name in names:
                if name in space:
                    space[name] = space.pop(name)
        self._handed_over.clear()

    def _named(self, names: Sequence[str], first: Iterable[str]) -> str:
        """Some of these variables with their types, those of the task first."""
        ordered = sorted(names, key=lambda name: name not in first)
        space = self._kernel.shell.user_ns
        shown = [f"{name} ({type(space[name]).__name__})" for name in ordered[:_MOST_NAMED]]
        more = len(ordered) - len(shown)
        return ", ".join([*shown, *([f"{count(more, 'more')}"] if more else [])])


def _told(restored: Iterable[str], lost: Iterable[str]) -> list[str]:
    """The lines for the delegate about the person's objects that its code changed."""
    lines = []
    if names := sorted(restored):
        lines.append(
            f"Changed in place, which is yours alone: the person has {', '.join(names)} as before."
        )
    if names := sorted(lost):
        lines.append(f"Changed in place, and could not be put back: {', '.join(names)}.")
    return lines
