"""`%agent agents`: what each agent and delegate does and has done, in all kernels of the folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

import click

from jupyter_agent.core.plaintext import count, one_line, plain
from jupyter_agent.core.tables import Part, Table, table
from jupyter_agent.errors import ConfigError
from jupyter_agent.magics.parser import argument, command
from jupyter_agent.magics.report import CommandReport, report
from jupyter_agent.memory.scope import find_root
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.stores.session_accounts import RUNNING, Account, AgentWork, latest_accounts

_LISTED = 20
"""Turns in the list."""
_DELEGATES = 10
"""Delegates of a turn in the list."""
_RECORDS = 40
"""Records that are read: those that were written to last."""
_BYTES = 256 * 1024
"""What is read of each."""
_HEAD = ("", "agent", "notebook", "begun", "state", "steps", "tokens", "task")
_SUMMED = "The tokens of a turn include those of its delegates."


@dataclass(frozen=True, slots=True)
class _Agent:
    """A row of the list.

    Attributes:
        number: Its number in the list: `2`, for a delegate `2.1`.
        account: The session that it belongs to.
        work: What it did: the turn, or the delegate.
        turn: The turn; the same as `work` unless that is a delegate.
        is_over: True if it runs no longer, whatever its record says.
    """

    number: str
    account: Account
    work: AgentWork
    turn: AgentWork
    is_over: bool = False

    @property
    def is_delegate(self) -> bool:
        return self.work is not self.turn

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a person may ask for it, the shortest one first."""
        notebook = self.account.notebook
        stem = PurePath(notebook).stem or "kernel"
        place = f"{self.turn.number}" + (f".{self.work.number}" if self.is_delegate else "")
        whole = (f"{stem}:{place}", f"{notebook or stem}:{place}")
        # The list begins with the newest turn of a notebook.
        return whole if self.is_delegate else (*whole, stem, notebook or stem)

    @property
    def state(self) -> str:
        if self.is_over and self.work.stop_reason == RUNNING:
            return "interrupted"
        return self.account.state_of(self.work)

    @property
    def is_running(self) -> bool:
        return self.state.startswith(("working", "waiting"))

    @property
    def title(self) -> str:
        """`turn 3`, `Delegate 2`."""
        if self.is_delegate:
            where = " (process)" if self.work.where == "process" else ""
            return f"Delegate {self.work.number}{where}"
        turn = f"turn {self.work.number}" if self.work.number else "a turn"
        session = self.account.session
        return turn if session in ("", "default") else f"{turn} of {session}"

    @property
    def notebook(self) -> str:
        here = " (this kernel)" if self.account.is_own else ""
        return f"{self.account.notebook or '(no notebook)'}{here}"

    @property
    def cells(self) -> tuple[str, ...]:
        work = self.work
        return (
            self.number,
            self.title,
            "" if self.is_delegate else self.notebook,
            _when(work.began),
            one_line(self.state, 60),
            f"{work.steps:,}",
            f"{work.tokens:,}",
            one_line(work.task, 60),
        )


def _names(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    found, _ = _found(ctx.obj)
    names = dict.fromkeys(each.names[0] for each in found)
    return [*(each.number for each in found), *names]


@command(
    "agents",
    heading="What happened",
    examples={
        "%agent agents": "see what the agents and delegates of this workspace do, in all kernels",
        "%agent agents 2": "see the second one of the list in detail",
        "%agent agents sales:3.1": "see delegate 1 of the third turn of sales.ipynb",
    },
)
@argument(
    "name",
    required=False,
    metavar="NAME",
    help="a number of the list, or NOTEBOOK, NOTEBOOK:TURN or NOTEBOOK:TURN.DELEGATE",
    shell_complete=_names,
)
@click.pass_obj
def agents(sessions: KernelSessions, name: str | None) -> CommandReport | str:
    """what each agent and delegate does now and has done, in all kernels of the workspace"""
    found, unread = _found(sessions)
    if name is not None:
        return _detailed(_chosen(found, name))
    if not found:
        return "No agent has worked in this workspace yet." + _unrecorded(sessions)
    turns = [each for each in found if not each.is_delegate]
    listed = [row for each in turns[:_LISTED] for row in _rows(each, found)]
    more = [
        f"{count(len(turns) - _LISTED, 'older turn')} left out." if turns[_LISTED:] else "",
        f"{count(unread, 'older record')} not read." if unread else "",
        _SUMMED if any(each.is_delegate for each in found) else "",
        "See one in detail: %agent agents N",
        _unrecorded(sessions).strip(),
    ]
    return report(table(listed, _HEAD), "\n".join(filter(None, more)))


def _found(sessions: KernelSessions) -> tuple[list[_Agent], int]:
    """The turns, each with its delegates: those at work first, then the newest; and the number of
    records that were not read."""
    kernel = sessions.kernel
    accounts, unread = latest_accounts(find_root(kernel.workspace), _RECORDS, _BYTES)
    turns = [
        # A turn of this kernel that broke off has no line about its end.
        _Agent("", account, turn, turn, account.is_own and not kernel.busy)
        for account in accounts
        for turn in account.turns
    ]
    turns.sort(key=lambda each: (each.is_running, each.work.began, each.work.number), reverse=True)
    return [each for at, turn in enumerate(turns, 1) for each in _with_delegates(turn, at)], unread


def _with_delegates(turn: _Agent, at: int) -> Iterator[_Agent]:
    yield _Agent(f"{at}", turn.account, turn.work, turn.work, turn.is_over)
    for each in turn.work.delegates:
        yield _Agent(f"{at}.{each.number}", turn.account, each, turn.work, turn.is_over)


def _rows(turn: _Agent, found: Sequence[_Agent]) -> Iterator[tuple[str, ...]]:
    """The rows of a turn and of its delegates: of many, those that run and the first ones."""
    delegates = [each for each in found if each.is_delegate and each.turn is turn.work]
    shown = sorted(delegates, key=lambda each: not each.is_running)[:_DELEGATES]
    yield turn.cells
    yield from (each.cells for each in delegates if each in shown)
    if left_out := len(delegates) - len(shown):
        yield ("", f"{count(left_out, 'delegate')} left out", *[""] * (len(_HEAD) - 2))


def _chosen(found: Sequence[_Agent], name: str) -> _Agent:
    """The agent of a number or a name. Raises `ConfigError` if there is none."""
    wanted = name.casefold()
    for each in found:
        if wanted == each.number or wanted in map(str.casefold, each.names):
            return each
    raise ConfigError(
        f"%agent agents: there is no agent {plain(name)!r}. %agent agents lists them."
    )


def _detailed(agent: _Agent) -> CommandReport:
    work, account = agent.work, agent.account
    of = f" of turn {agent.turn.number}" if agent.is_delegate and agent.turn.number else ""
    names = "handed over" if agent.is_delegate else "variables"
    facts = [
        ("agent", f"{agent.title}{of}"),
        ("notebook", agent.notebook),
        ("session", account.session),
        ("begun", _when(work.began)),
        ("state", agent.state),
        ("steps", f"{work.steps:,}"),
        ("tokens", f"{work.tokens:,}"),
        (names, ", ".join(work.names)),
        ("files", ", ".join(work.files)),
        ("saved to memory", "; ".join(work.saved)),
    ]
    told = "report" if agent.is_delegate else "answer"
    return report(
        table(fact for fact in facts if fact[1]),
        f"task\n{work.task}",
        "\n".join(["its tool calls", *work.lines]) if work.lines else "",
        *_delegates_of(agent),
        f"{told}\n{work.answer}" if work.answer else "",
    )


def _delegates_of(agent: _Agent) -> Iterator[Part]:
    if not agent.work.delegates:
        return
    every = [each for each in _with_delegates(agent, 0) if each.is_delegate]
    rows = [(each.title, *each.cells[3:]) for each in every]
    yield Table(tuple(rows), ("", *_HEAD[3:]))
    yield _SUMMED


def _unrecorded(sessions: KernelSessions) -> str:
    if sessions.kernel.settings().settings.tools.enable_memory:
        return ""
    return " tools.enable_memory is false: the turns of this kernel are not recorded."


def _when(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return time
