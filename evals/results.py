"""The results of a run: a line of JSON for each attempt, appended as it ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.line import ROOT
from evals.tasks import Attempt, Judgement, Kind, Task
from jupyter_agent.files.jsonl import Reader, append, encode

_FILE = "results.jsonl"
_LONGEST = 4_000
"""Characters of an answer and of its code that are kept."""
_SHARED = (
    "evals/tasks.py",
    "evals/blocks.py",
    "evals/kernels.py",
    "evals/model.py",
    "evals/variables.py",
)
_SETS = ("evals/dabench.py", "evals/answers.py", "evals/dseval.py", "evals/dseval_worker.py")
_OWN = {
    "ours": ("evals/agents/ours.py", "jupyter_agent/**/*.py", "jupyter_agent/**/*.md"),
    "smolagents": ("evals/agents/smolagents.py", "evals/smolagents_worker.py"),
}
_BARE = ("evals/agents/bare.py",)


@dataclass(frozen=True)
class Result:
    """One attempt and its judgement.

    Attributes:
        set, task, agent: What was tried, by the names of `Task` and `Agent`.
        version: The state of the code that decides about the result, see `version`.
        attempt: What the agent made of it.
        judgement: How it was judged.
    """

    set: str
    task: str
    agent: str
    version: str
    attempt: Attempt
    judgement: Judgement

    @property
    def right(self) -> bool:
        return self.judgement.kind == "right"


class Results:
    """The results in a folder, of which those of today's code count.

    Args:
        folder: The folder; made if it is missing.
        agents: The agents of this run, by name.
    """

    def __init__(self, folder: Path, agents: Iterable[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / _FILE
        self.path.touch()
        self._versions = {agent: version(agent) for agent in agents}
        self._found: dict[tuple[str, str], Result] = {}
        with self.path.open("rb") as stream:
            for line in Reader(stream):
                self._take(_result(line.value))

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def has(self, task: Task, agent: str) -> bool:
        """True if the agent's attempt at the task was judged."""
        found = self._found.get((task.id, agent))
        return found is not None and found.judgement.kind != "not judged"

    def add(self, task: Task, agent: str, attempt: Attempt, judgement: Judgement) -> Result:
        """Append a result; it is on the disk when this returns."""
        kept = Attempt(**asdict(attempt))
        kept.answer, kept.code = kept.answer[-_LONGEST:], kept.code[-_LONGEST:]
        result = Result(task.set, task.id, agent, self._versions[agent], kept, judgement)
        append(self.path, [encode(asdict(result))], durable=True)
        self._take(result)
        return result

    def _take(self, result: Result) -> None:
        if self._versions.get(result.agent) == result.version:
            self._found[result.task, result.agent] = result


def version(agent: str) -> str:
    """A digest of the code that decides about an agent's results: of ours, the whole package.

    After a change, results of before do not count, but those of agents that it leaves alone do.
    """
    patterns = (*_SHARED, *_SETS, *_OWN.get(agent, _BARE))
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def folder_of(identity: dict[str, object]) -> Path:
    """The folder under `build/evals/` for the results of a model within some limits.

    Args:
        identity: All that must be the same for results to be compared; `model` is its name.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    name = "".join(
        each if each.isalnum() or each in ".-" else "-" for each in str(identity["model"])
    )
    return ROOT / "build" / "evals" / f"{name.lstrip('.')}-{digest}"


def _result(line: dict[str, Any]) -> Result:
    kind: Kind = line["judgement"]["kind"]
    return Result(
        **{
            **line,
            "attempt": Attempt(**line["attempt"]),
            "judgement": Judgement(kind, line["judgement"]["detail"]),
        }
    )
