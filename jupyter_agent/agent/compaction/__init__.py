"""Compaction: shortens a conversation that has become too long, and keeps the user's text.

overflow    cuts at once if the provider refuses the conversation
compactor   decides when to shorten it before that happens
rounds      divides a conversation into the user's messages and the agent's steps
results     replaces long tool results by placeholders that name a file, cuts old tasks
record      describes steps without a model: for summaries and in their place
summary     has a model summarize finished rounds
compact     runs these stages in order
offload     stores the full texts in files
"""

from jupyter_agent.agent.compaction.compact import Compaction, compact
from jupyter_agent.agent.compaction.compactor import Compactor, should_compact
from jupyter_agent.agent.compaction.offload import Keep, keep_in
from jupyter_agent.agent.compaction.overflow import about_tokens, shortened
from jupyter_agent.agent.compaction.summary import ModelSummary, Summarize, SummaryFailed

__all__ = [
    "Compaction",
    "Compactor",
    "Keep",
    "ModelSummary",
    "Summarize",
    "SummaryFailed",
    "about_tokens",
    "compact",
    "keep_in",
    "shortened",
    "should_compact",
]
