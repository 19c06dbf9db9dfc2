"""Whether a call runs, is asked for, or is refused: a pure function.

A guard rail and no sandbox: it tells a person of what code says that it does. See
`docs/approvals.md` for what it cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jupyter_agent.core.effects import Risk
from jupyter_agent.core.messages import ASK_USER, EDIT_CELLS, MEMORY_SAVE, is_served
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.tool import Effect
from jupyter_agent.policy.calls import CodeRisks, judge_picture
from jupyter_agent.policy.catalogue import REMOTE_PICTURE
from jupyter_agent.policy.code import judge_code
from jupyter_agent.policy.files import judge_write
from jupyter_agent.policy.verdict import (
    ASKED_IN_AUTO,
    NEVER_GRANTED,
    NOTHING_TOLD,
    PROCESSES,
    Mode,
    PolicyContext,
    Told,
    Verdict,
    is_granted,
    scope,
    scope_words,
)

BOOKKEEPING = frozenset({"update_plan", "propose_cell", "get_skill", "recall_notes", ASK_USER})
"""Tools that touch nothing but the agent's own plan and memory, or ask themselves: never asked
for."""
READ_ONLY = "the person allows reading only (approvals.mode is read_only)"
_OUT = "keeps it outside of this workspace, where your other workspaces find it"
_MOST_RISKS = 20
_MOST_LOOKED_AT = 100_000
_Found = tuple[tuple[Risk, ...], tuple[Path, ...], Told]


def judge(
    tool: str,
    effect: Effect,
    arguments: Mapping[str, object],
    mode: Mode,
    around: PolicyContext,
) -> Verdict:
    """What is to be done with a call. It never raises, whatever the arguments are.

    Args:
        tool: The tool's name.
        effect: What the tool does at most.
        arguments: The call's arguments.
        mode: How much is asked for.
        around: Where the call would run, and what has been granted.
    """
    if mode == "read_only" and effect != "reads":
        return Verdict("refuse", READ_ONLY)
    risks, writes, contents = _found(tool, effect, arguments, around)
    if tool == EDIT_CELLS:  # the page shows each edit, to accept or reject it; no right covers that
        return Verdict("allow" if mode == "auto" else "ask", "", risks)
    if mode == "ask_all" and tool not in BOOKKEEPING:
        if _of_tool(tool) in around.granted:
            return Verdict("allow", "", risks, writes)
        return Verdict("ask", "", risks, writes, tool, contents)
    asked = [risk for risk in risks if mode == "ask_risky" or risk.kind in ASKED_IN_AUTO]
    if all(_is_granted(risk, tool, around) for risk in asked):
        return Verdict("allow", "", risks, writes)
    return Verdict("ask", "", risks, writes, tool if is_served(tool) else "", contents)


def grants(verdict: Verdict, mode: Mode, tool: str) -> frozenset[str]:
    """What "always in this session" adds to `PolicyContext.granted`."""
    if mode == "ask_all":
        return frozenset({_of_tool(tool)})
    risks = _grantable(verdict)
    return frozenset(_of_tool(tool) if risk.kind == "tool" else scope(risk) for risk in risks)


def always_covers(verdict: Verdict, root: Path) -> str:
    """What "always" would cover, in words: "network access to pypi.org and deletions in data/".

    Empty where "always" would cover nothing, so that it need not be offered.
    """
    if verdict.tool:
        return f"every call of {one_line(verdict.tool)}"
    words = list(dict.fromkeys(scope_words(risk, root) for risk in _grantable(verdict)))
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _grantable(verdict: Verdict) -> list[Risk]:
    """The risks that "always" covers; commands as a kind, since their lines differ each time."""
    return [
        replace(risk, place="") if risk.kind in PROCESSES else risk
        for risk in verdict.risks
        if risk.kind not in NEVER_GRANTED
    ]


def _of_tool(tool: str) -> str:
    return f"tool:{tool}"


def _is_granted(risk: Risk, tool: str, around: PolicyContext) -> bool:
    if risk.kind == "tool":
        return _of_tool(tool) in around.granted
    return is_granted(risk, around.granted)


def _found(
    tool: str, effect: Effect, arguments: Mapping[str, object], around: PolicyContext
) -> _Found:
    """The risks of a call, the files that it writes, and their contents if code tells them."""
    if effect == "reads":
        return (), (), NOTHING_TOLD
    if tool == EDIT_CELLS:
        return _found_in_edits(arguments, around), (), NOTHING_TOLD
    if is_served(tool):
        server, _, name = tool.partition("__")
        what = f"runs the tool {one_line(name)} of the server {one_line(server)}"
        return (Risk("tool", what),), (), NOTHING_TOLD
    if effect == "executes":
        return _found_in_code(tool, arguments, around)
    if tool == MEMORY_SAVE:
        return (Risk("memory", _OUT),), (), NOTHING_TOLD
    path = arguments.get("path")
    if not isinstance(path, str):
        return (), (), NOTHING_TOLD  # notes and memory: the agent's own
    risk, target = judge_write(path, around.root, around)
    return (risk,) if risk else (), (target,) if target else (), NOTHING_TOLD


def _found_in_edits(arguments: Mapping[str, object], around: PolicyContext) -> tuple[Risk, ...]:
    """The pictures that new Markdown fetches: JupyterLab draws it as soon as it is there."""
    found = CodeRisks(around)
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, Sequence) else ():
        source = getattr(edit, "source", "")
        for groups in REMOTE_PICTURE.findall(
            source[:_MOST_LOOKED_AT] if isinstance(source, str) else ""
        ):
            judge_picture(next(filter(None, groups)), found, 0)
    return tuple(found.risks.values())[:_MOST_RISKS]


def _found_in_code(tool: str, arguments: Mapping[str, object], around: PolicyContext) -> _Found:
    code = arguments.get("code")
    if not isinstance(code, str):
        return (Risk("tool", f"runs the tool {one_line(tool)}"),), (), NOTHING_TOLD
    risks, writes, contents = judge_code(code, around)
    if len(risks) > _MOST_RISKS:
        # Each kind stays among those that are shown: what is granted is granted by kind.
        first = {risk.kind: risk for risk in reversed(risks)}
        rest = [risk for risk in risks if risk not in first.values()]
        risks = (*first.values(), *rest[: _MOST_RISKS - len(first)])
    return tuple(risks), writes, contents
