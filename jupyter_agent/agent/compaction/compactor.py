"""Decides when a session's conversation is shortened; the loop asks it before each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jupyter_agent.agent.compaction.compact import STEPS_KEPT, Compaction, compact
from jupyter_agent.agent.compaction.offload import Keep
from jupyter_agent.agent.compaction.summary import ModelSummary
from jupyter_agent.core.messages import Usage
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.llm.tokens import Calibration, TokenCounter

_GROWTH = 1.25
"""The growth of a conversation after a vain attempt to shorten it, before the next one."""
_MOST = 4.0
"""The largest plausible ratio of reported to estimated tokens."""


class Compactor:
    """Watches the length of a session's conversation, and shortens it.

    Args:
        limit: The setting `token_limit`.
        keep: Stores the full texts of shortened messages.
        contexts: Returns the texts to restore afterwards.

    Attributes:
        limit: As above; it may be changed between turns.
        counter: Counts the session's messages.
        decided: Takes whether the conversation is too long, and returns whether to shorten it: a
            replay does where its recording did.
    """

    def __init__(
        self,
        limit: int,
        keep: Keep | None = None,
        contexts: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.limit = limit
        self.decided: Callable[[bool], bool] = bool
        self.counter = TokenCounter()
        self._usage = Usage()
        self._keep = keep
        self._contexts = contexts
        self._calibration = Calibration()
        self._reported = 0
        self._sent = 0
        self._no_help = 0

    def estimate(self, request: Request, provider: Model) -> int:
        """The approximate tokens of a request."""
        return round(self.counter.request(request) * self._ratio(provider))

    def is_due(self, request: Request, provider: Model) -> bool:
        """True if the conversation must be shortened before this request."""
        estimate = self.estimate(request, provider)
        due = should_compact(estimate, self._reported, self.limit)
        return self.decided(due and max(estimate, self._reported) > self._no_help)

    def replied(self, request: Request, provider: Model, usage: Usage) -> None:
        """Calibrate the estimate by the tokens that the API reported for a request."""
        self._sent = self.counter.request(request)
        self._calibration.observe(provider.name, provider.model, self._sent, usage.input_tokens)
        self._reported = usage.total_tokens if usage.input_tokens else 0

    async def shorten(
        self,
        request: Request,
        provider: Model,
        retry: RetryPolicy,
        target: int | None = None,
        by_model: bool = True,
    ) -> Compaction:
        """Shorten the conversation of a request.

        Args:
            request: The next request.
            provider: The model of the request, which also writes the summary.
            retry: The retries for the summary.
            target: The goal in tokens, with the last step unchanged; by default a share of the
                limit, with the last few steps. 0 shortens as far as possible without cutting the
                user's text.
            by_model: False does without a summary by the model.
        """
        model = ModelSummary(provider, retry)
        try:
            compaction = await compact(
                request.messages,
                model if by_model else None,
                self.counter,
                self.limit,
                self._keep,
                contexts=self._contexts(),
                fixed=self.counter.fixed(request),
                ratio=self._ratio(provider),
                target=target,
                steps_kept=STEPS_KEPT if target is None else 1,
            )
        finally:
            self._usage += model.usage
        # The API's last report was for the longer conversation.
        self._reported = 0
        helped = compaction.after <= self.limit
        self._no_help = 0 if helped else int(compaction.after * _GROWTH)
        return compaction

    def take_usage(self) -> Usage:
        """The tokens of summaries since the last call."""
        usage, self._usage = self._usage, Usage()
        return usage

    def _ratio(self, provider: Model) -> float:
        """The calibrated ratio, or the last reply's if the API counted more."""
        ratio = self._calibration.ratio(provider.name, provider.model)
        if self._reported > self.limit and self._sent:
            return max(ratio, min(_MOST, self._reported / self._sent))
        return ratio


def should_compact(estimate: int, reported: int, limit: int) -> bool:
    """True if a conversation has become too long.

    Args:
        estimate: Our own count of the next request's tokens.
        reported: The tokens, in and out, that the API reported for the last reply; 0 if it
            reported none, or the conversation was shortened since.
        limit: The setting `token_limit`.
    """
    return max(estimate, reported) > limit
