"""Shortening a conversation that has become too long, without losing what the person said.

overflow    at once, when the provider refuses the conversation
due         whether it is time, before that happens
rounds      what of a conversation is the person's, and what is the agent's execution
results     long tool results become placeholders that name a file; the person's old words shorter
record      what execution was, without a model: for summaries and in their place
summary     finished rounds summarized by a model
compact     all of it, in its order
keeping     where the whole of what was shortened is kept
"""

from jupyter_agent.agent.compaction.compact import Compaction, compact
from jupyter_agent.agent.compaction.compactor import Compactor
from jupyter_agent.agent.compaction.due import should_compact
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
