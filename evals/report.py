"""The report: a line for each attempt, the summary on the terminal, and `docs/quality.md`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import markdown_table
from evals.pairs import pairs
from evals.results import Result
from evals.tasks import FAILURES, Limits

_INTRODUCTION = """# How often it is right

Made by `{command}` on {day}; nothing here is written by hand. Every agent solves the same tasks \
with the same model, **{model}**, on one machine. The run is of **{tasks} tasks**{part}. For each \
an agent may use {steps} model calls, {reply_tokens} tokens a reply and {seconds:.0f} seconds.
"""
_EMBEDDED = (
    "All agents ask one llama.cpp process, at temperature 0, so that a difference is the agent's "
    "and not the model's."
)
_PAIRED = (
    "Of the tasks that both tried. `p` is McNemar's exact test, two-sided: how likely it is that "
    "the tasks that only one of them solves divide as unevenly, or more so, if neither is better. "
    "Above 0.05 the difference may well be chance."
)
_KINDS = (
    "*Wrong format*: the value is not where the task asks for it, such as printed where it should "
    "be the value of the last line. *Input spoilt*: a variable of the person was changed that "
    "should have stayed. *Error*: the code, or the agent, failed. *No code that ran*: the answer "
    "is made up."
)
_JUDGED = (
    "DABench's answers have the form `@name[value]`: all values must be there, as the same text or "
    "the same number within 1e-6. DSEval executes the code that an agent kept, in the state before "
    "the question, and compares the value of its last line, the variables that it should leave, "
    "and those that it should leave alone; its own package judges. Seconds are without the start "
    "of a kernel."
)


@dataclass(frozen=True)
class Facts:
    """What a report says besides the results.

    Attributes:
        command: The command line.
        model: The model's name.
        is_embedded: True if it ran on this machine.
        limits: The limits of an attempt.
        available: The number of tasks in the data.
        agents: What each agent is, by name, in the order of the columns.
        sources: Where each set can be had, as Markdown.
        machine: What the run ran on.
    """

    command: str
    model: str
    is_embedded: bool
    limits: Limits
    available: int
    agents: Mapping[str, str]
    sources: Sequence[str]
    machine: Mapping[str, str]


def line(result: Result) -> str:
    """One line for the terminal."""
    made, judged = result.attempt, result.judgement
    detail = "" if result.right or not judged.detail else f" ({judged.detail[:80]})"
    return (
        f"{result.task} · {result.agent}: {judged.kind}{detail} · {made.calls} calls, "
        f"{made.input_tokens:,} + {made.output_tokens:,} tokens, {made.seconds:.0f} s"
    )


def summary(results: Iterable[Result], agents: Sequence[str]) -> str:
    """The tables of the report, for the terminal."""
    judged = [each for each in results if each.judgement.kind != "not judged"]
    parts = [_success(judged, agents), _costs(judged, agents), _paired(judged, agents)]
    return "\n\n".join(parts)


def document(results: Iterable[Result], facts: Facts) -> str:
    """The whole report as Markdown."""
    found = list(results)
    judged = [each for each in found if each.judgement.kind != "not judged"]
    agents = list(facts.agents)
    tasks = len({each.task for each in judged})
    part = f", of {facts.available} in the data" if tasks < facts.available else ""
    head = _INTRODUCTION.format(
        command=facts.command,
        day=time.strftime("%d %B %Y"),
        model=facts.model,
        tasks=tasks,
        part=part,
        steps=facts.limits.steps,
        reply_tokens=facts.limits.reply_tokens,
        seconds=facts.limits.seconds,
    )
    parts = [head, *([_EMBEDDED] if facts.is_embedded else [])]
    parts.append("\n".join(f"- **{name}**: {about}" for name, about in facts.agents.items()))
    parts += ["## Tasks solved", _success(judged, agents)]
    parts += ["## What a task costs", _costs(judged, agents)]
    parts += ["## Ours beside the others, pair by pair", _PAIRED, _paired(judged, agents)]
    parts += ["## How they fail", _KINDS, _failures(judged, agents)]
    parts += ["## How it is judged", _JUDGED, *_unjudged(found)]
    parts += ["## Where the tasks can be had", "\n".join(f"- {each}" for each in facts.sources)]
    parts += ["## The machine", markdown_table(("", ""), list(facts.machine.items()))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _success(results: Sequence[Result], agents: Sequence[str]) -> str:
    """Right answers of those tried, a row for each set and one for all."""
    sets = sorted({each.set for each in results})
    rows = [(name, *_scores(results, agents, name)) for name in sets]
    if len(sets) != 1:
        rows.append(("all", *_scores(results, agents, "")))
    return markdown_table(("set", *agents), rows)


def _scores(results: Sequence[Result], agents: Sequence[str], name: str) -> list[str]:
    """The cells of a set, or of all sets where `name` is empty."""
    cells = []
    for agent in agents:
        tried = [each for each in results if each.agent == agent and name in ("", each.set)]
        right = sum(each.right for each in tried)
        share = f" ({right / len(tried):.0%})" if tried else ""
        cells.append(f"{right} of {len(tried)}{share}" if tried else "not run")
    return cells


def _costs(results: Sequence[Result], agents: Sequence[str]) -> str:
    """Means over the tasks that an agent tried."""
    first = agents[0]
    base = _mean(results, first, _tokens)
    rows = []
    for agent in agents:
        tokens = _mean(results, agent, _tokens)
        rows.append(
            (
                agent,
                f"{_mean(results, agent, lambda each: each.attempt.calls):.1f}",
                f"{_mean(results, agent, lambda each: each.attempt.input_tokens):,.0f}",
                f"{_mean(results, agent, lambda each: each.attempt.output_tokens):,.0f}",
                f"{tokens / base:.1f}" if base else "",
                f"{_mean(results, agent, lambda each: each.attempt.seconds):.0f}",
            )
        )
    return markdown_table(
        ("agent", "calls", "tokens in", "tokens out", f"tokens, {first} = 1", "seconds"), rows
    )


def _tokens(result: Result) -> int:
    return result.attempt.input_tokens + result.attempt.output_tokens


def _mean(results: Sequence[Result], agent: str, of: Callable[[Result], float]) -> float:
    found = [of(each) for each in results if each.agent == agent]
    return sum(found) / len(found) if found else 0.0


def _paired(results: Sequence[Result], agents: Sequence[str]) -> str:
    right = {
        agent: {each.task: each.right for each in results if each.agent == agent}
        for agent in agents
    }
    rows = []
    for agent in agents:
        if agent == "ours" or "ours" not in right:
            continue
        found = pairs(right["ours"], right[agent])
        counts = (found.both, found.first, found.second, found.neither)
        rows.append((agent, *map(str, counts), f"{found.chance:.3f}"))
    return markdown_table(
        ("ours beside", "both right", "only ours", "only it", "neither", "p"), rows
    )


def _failures(results: Sequence[Result], agents: Sequence[str]) -> str:
    counts = {
        agent: Counter(each.judgement.kind for each in results if each.agent == agent)
        for agent in agents
    }
    rows = [(kind, *(str(counts[agent][kind]) for agent in agents)) for kind in FAILURES]
    return markdown_table(("", *agents), rows)


def _unjudged(results: Sequence[Result]) -> list[str]:
    found = sorted({each.task for each in results if each.judgement.kind == "not judged"})
    if not found:
        return []
    return [f"Not judged, since they cannot be set up here: {', '.join(found)}."]
