"""Which calls run, which are asked for, and which are refused: a pure policy.

`judge` is the way in; `verdict` has its types, `catalogue` the names that it knows.
"""

from jupyter_agent.policy.policy import always_covers, grants, judge
from jupyter_agent.policy.verdict import Known, Mode, PolicyContext, Verdict

__all__ = [
    "Known",
    "Mode",
    "PolicyContext",
    "Verdict",
    "always_covers",
    "grants",
    "judge",
]
