"""The agents of an evaluation, by the name that `--agents` takes."""

from __future__ import annotations

from collections.abc import Callable

from evals.agents.bare import OneReply, PlainLoop
from evals.agents.ours import Ours
from evals.agents.smolagents import Smolagents
from evals.model import SharedModel
from evals.tasks import Agent, Limits

AGENTS: dict[str, Callable[[SharedModel, Limits], Agent]] = {
    "one": OneReply,
    "loop": PlainLoop,
    "smolagents": Smolagents,
    "ours": Ours,
}
