"""`ask_user`: a question to the person, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from jupyter_agent.core.events import Decider, QuestionAnswered, QuestionAsked
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tool import Tool, ToolReturn, ask, call_id, tool
from jupyter_agent.errors import ToolError

MOST_CHOICES = 5
LONGEST_QUESTION, LONGEST_CHOICE = 1_000, 200
"""Characters of a question, and of one choice."""
_UNANSWERED: Mapping[Decider, str] = {
    "time_out": "The person did not answer in time.",
    "no_answer": "The person gave no answer.",
}
_NOBODY = "Nobody could be asked."
_GO_ON = "Go on with the most likely reading, and say in your answer which one it is."


def question_tools() -> list[Tool]:
    """`ask_user`, which waits for the answer. Where nobody answers, its result says so."""

    @tool("reads", waits=True)
    async def ask_user(
        question: str,
        choices: Annotated[list[str], Field(max_length=MOST_CHOICES)] = [],  # noqa: B006
    ) -> ToolReturn:
        """Ask the person one short question where the task is ambiguous and a guess would cost."""
        asked = _checked(question, choices)
        asking = ask.get()
        answered = (
            QuestionAnswered(asked.call_id, by="nobody") if asking is None else await asking(asked)
        )
        return _told(answered)

    return [ask_user]


def _checked(question: str, choices: list[str]) -> QuestionAsked:
    """The question of the running call.

    Raises:
        ToolError: There is no question, or a text is too long.
    """
    question = question.strip()
    each = tuple(dict.fromkeys(choice.strip() for choice in choices if choice.strip()))
    if not question:
        raise ToolError("Give a question.")
    if len(question) > LONGEST_QUESTION or any(len(one) > LONGEST_CHOICE for one in each):
        raise ToolError(
            f"Nobody was asked: a question may have {LONGEST_QUESTION:,} characters, a choice "
            f"{LONGEST_CHOICE}."
        )
    return QuestionAsked(call_id.get(), question, each)


def _told(answered: QuestionAnswered) -> ToolReturn:
    """The result: the answer as text for the model, and as details for the transcript."""
    details = {"answer": "", "by": answered.by}
    if answered.by != "person":
        return ToolReturn(f"{_UNANSWERED.get(answered.by, _NOBODY)} {_GO_ON}", details=details)
    text = redact(answered.text, secret_values())
    return ToolReturn(f"The person answered: {text}", details={**details, "answer": text})
