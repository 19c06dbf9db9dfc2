"""The work that everybody does: what the model says at each step, and the tool that it calls.

A plan says what a run of requests is answered with. It is a dict, since it travels to the server:

    {"kind": "chain", "steps": 100}                    code at each step, then words
    {"kind": "chain", "steps": 100, "size": 4000}      with so many characters of output
    {"kind": "stream", "tokens": 2000, "pause": 0.01}  words, token by token
    {"kind": "codes", "codes": ["print(1)"]}           these pieces of code, then words
    {"kind": "many", "codes": ["print(1)"]}            the same as many calls of one reply
    {"kind": "delegates", "count": 8, "rounds": 2}     tasks given away, then words; each delegate
                                                       reads a file, and its last reply is words

`style` says in whose words the call is put: `code` (ours, and of most peers), `final` (the answer
is a call, too: smolagents) or `bash` (a command: mini-swe-agent). `wait` is how long the model is
silent before its first token. Nothing but the standard library is imported here.
"""

from __future__ import annotations

import contextlib
import io
import random
from dataclasses import dataclass
from typing import Any

Plan = dict[str, Any]

SYSTEM = "You are an agent that works in Python. Use the tool to compute; answer in words."
TASK = "Add up the parts, one after the other, and say what comes out."
ANSWER = "All parts are added up; the last one was the largest."
SUMMARY = "Goal: add up the parts.\nDone: the parts so far, one at each step.\n" + "\n".join(
    f"Found: part {number} was larger than the one before it by a hundred." for number in range(20)
)
"""A summary of some 250 words: what a model writes that was told to be concise."""
TOOL = "execute_code"
TOOL_DESCRIPTION = "Run Python code. Variables persist. Returns what it printed."
SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The code."}},
    "required": ["code"],
}
_WORDS = ["north", "south", "weekly", "adult", "online", "median", "spring", "night", "rural"]


@dataclass(frozen=True)
class Reply:
    """One reply: its words, token by token, and its calls: a tool, an argument, its value."""

    tokens: tuple[str, ...]
    calls: tuple[tuple[str, str, str], ...] = ()
    pause: float = 0.0
    wait: float = 0.0


def reply(plan: Plan, step: int) -> Reply:
    """The reply to request number `step` of a run, from 0."""
    if plan["kind"] == "stream":
        words = tokens(plan["tokens"])
        return Reply(words, pause=plan.get("pause", 0.0), wait=plan.get("wait", 0.0))
    style, wait = plan.get("style", "code"), plan.get("wait", 0.0)
    if plan["kind"] == "delegates" and step == 0:
        tasks = (f"Count the words of part_{number}.txt." for number in range(plan["count"]))
        return Reply((), tuple(("delegate", "task", task) for task in tasks), wait=wait)
    codes = _codes(plan, step)
    if not codes:
        return Reply(in_tokens(ANSWER), _LAST_CALLS.get(style, ()), wait=wait)
    said = f"Step {step}: I add part {step} to the sum and look at what it says."
    tool, argument = ("bash", "command") if style == "bash" else (TOOL, "code")
    return Reply(in_tokens(said), tuple((tool, argument, code) for code in codes), wait=wait)


_LAST_CALLS = {
    "final": (("final_answer", "answer", ANSWER),),
    "bash": (("bash", "command", f"finish({ANSWER!r})"),),
}


def _codes(plan: Plan, step: int) -> list[str]:
    """What is called at a step; nothing where the work is done."""
    match plan["kind"]:
        case "many":
            return plan["codes"] if step == 0 else []
        case "codes":
            return plan["codes"][step : step + 1]
        case "delegates":  # they ask at the same time: round by round
            turn, number = divmod(step - 1, plan["count"])
            code = f"len(open('part_{number}.txt').read().split())"
            return [code] if turn < plan["rounds"] - 1 else []
    return [code_of(step, plan.get("size", 0))] if step < plan["steps"] else []


def code_of(step: int, size: int = 0) -> str:
    """The code of a step; it prints a small table, or about `size` characters."""
    rows = size // 18 if size else 8
    # Different text at each step, made where the code runs: the model does not send it.
    return (
        f"import random\nchance = random.Random({step})\npart = sum(range({step}, {step} + 100))\n"
        f"print('part {step} is', part)\nfor row in range({rows}):\n"
        "    print(f'{row:>6} {chance.random():.4f} row')"
    )


def in_tokens(text: str) -> tuple[str, ...]:
    """A text in pieces of about the length that tokens have."""
    words = text.split(" ")
    return tuple(word if i == 0 else f" {word}" for i, word in enumerate(words))


def tokens(number: int) -> tuple[str, ...]:
    """So many tokens of prose, always the same."""
    chance = random.Random(5)
    first = ("Alpenglow ",)  # a word that stands nowhere else
    return first + tuple(f"{chance.choice(_WORDS)} " for _ in range(number - 1))


class Namespace:
    """Where the floor and the peers run the code: what their tool does."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}

    def run(self, code: str) -> str:
        """What the code printed, or its error."""
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown):
                exec(code, self._names)
        except Exception as error:
            shown.write(f"{type(error).__name__}: {error}")
        return shown.getvalue()
