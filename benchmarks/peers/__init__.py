"""The peers: what runs them, each in its own environment, asked line by line like the floor.

Each module imports its peer, `chain` and `line`, and nothing else of this repository.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One peer.

    Attributes:
        name: Its name on the package index.
        requirements: What its environment holds.
        kinds: The wire formats by which it is asked.
        style: In whose words the model puts its calls; see `chain`.
        note: What is to be known of its numbers.
    """

    name: str
    requirements: tuple[str, ...]
    kinds: tuple[str, ...]
    style: str = "code"
    note: str = ""

    @property
    def module(self) -> str:
        return f"benchmarks.peers.{self.name.replace('-', '_')}"


SMOLAGENTS = Peer("smolagents", ("smolagents[openai]",), ("openai",), "final")
PYDANTIC_AI = Peer(
    "pydantic-ai-slim", ("pydantic-ai-slim[openai,anthropic]",), ("anthropic", "openai")
)
OPENAI_AGENTS = Peer("openai-agents", ("openai-agents",), ("openai",))
MINI_SWE_AGENT = Peer(
    "mini-swe-agent",
    ("mini-swe-agent", "mcp"),  # litellm imports mcp at each call, and does not ask for it
    ("anthropic", "openai"),
    "bash",
    "does not stream; its commands are run in its own process instead of in a shell",
)
MAGICS = Peer(
    "jupyter-ai-magics",
    ("jupyter-ai-magics", "langchain-openai", "ipython"),
    ("openai",),
    note="asks once and has no tools",
)
LOOPS = (SMOLAGENTS, PYDANTIC_AI, OPENAI_AGENTS, MINI_SWE_AGENT)
EVERY = (*LOOPS, MAGICS)
