"""Every exception that this package raises on purpose.

AgentError                  one clear line for the person at the notebook
├── ConfigError             a setting, an argument or a prompt is wrong
├── ProviderError           the model could not be asked, or answered badly
│   ├── ContextOverflow     the conversation is longer than the model takes
│   └── ReplayMismatch      the cassette holds no reply for this conversation
└── TurnInterrupted         a person stopped the turn
ToolError                   a message for the model; never leaves the toolbox
"""

from __future__ import annotations


class AgentError(Exception):
    """A foreseeable failure. A notebook shows it as one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def broken_off(error: Exception) -> AgentError:
    """The one line for an error of a turn that nobody foresaw; the error is its cause."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(": ")
    mend = (
        "Code may have replaced a function of Python; otherwise this is a bug in jupyter_agent. "
        "Restart the kernel, and report the bug if it happens again."
    )
    if isinstance(error, RecursionError):
        mend = "Raise the limit again with sys.setrecursionlimit(3000)."
    told = AgentError(f"The turn broke off ({said}). What it had finished is kept. {mend}")
    told.__cause__ = error
    return told


class ConfigError(AgentError):
    """A setting, an argument or a prompt is wrong; the message says where and what to do."""


class ProviderError(AgentError):
    """A model call failed.

    Args:
        message: What happened and what to do about it, in one line.
        retryable: Whether the same request may succeed a little later.
        status: The HTTP status, if there was one.
        retry_after: Seconds that the server asked to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after


class ContextOverflow(ProviderError):
    """The conversation is longer than the model's context window."""


class ReplayMismatch(ProviderError):
    """No recorded reply fits the conversation; the message shows the first difference."""


class TurnInterrupted(AgentError):
    """The turn was stopped by a person. What it had finished is kept."""


class ToolError(Exception):
    """A tool refuses or fails, and the model is told why. Nothing was changed."""
