"""Shortens a conversation in stages, each only as far as needed.

1. Long old tool results become placeholders that name the file with the full text.
2. The oldest steps are summarized, finished rounds first. The user's text and the last steps
   stay unchanged.
3. The user's oldest text is cut, with a notice. The current task never is.
4. If the last steps alone are too long, their results are cut, too.

Nothing is changed in place: after a cancellation the caller still has the old conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from jupyter_agent.agent.compaction.offload import Keep
from jupyter_agent.agent.compaction.record import gist
from jupyter_agent.agent.compaction.results import (
    Draft,
    cut_last_results,
    move_old_results,
    shorten_words,
)
from jupyter_agent.agent.compaction.rounds import (
    KEPT_WHOLE,
    STILL_IN_FORCE,
    StepSpan,
    apart,
    current_task,
    earlier_places,
    earlier_summary,
    is_ours,
    persons,
    steps,
)
from jupyter_agent.agent.compaction.summary import Round, Summarize, Summary, summary
from jupyter_agent.core.messages import Context, Image, Message
from jupyter_agent.core.plaintext import count, shorten
from jupyter_agent.llm.tokens import TokenCounter

STEPS_KEPT = 4
"""Steps at the end that stay word for word."""
SHARE = 0.4
"""The share of the limit to which the first two stages shorten: the next steps need room.

A shortened conversation must be written to the provider's cache anew, so that rare and large cuts
cost less. In the benchmarks as many facts survive as with larger shares."""
_SUMMARY = 1_400
"""Tokens that a summary is expected to have."""
_LEAST = 300
"""Tokens of execution below which a summary is not worth a model call."""
_PLACES = 12
"""Files that are named beside a summary, the newest."""
_CONTEXTS = 0.25
"""The share of the limit for the restored context."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A shortened conversation, with counts of its changes.

    Attributes:
        history: The new conversation; the old one if nothing was gained.
        before: The approximate tokens of a request before.
        after: The approximate tokens of a request after.
        results: The number of tool results replaced by a short form.
        pictures: The number of pictures left out.
        steps: The number of summarized steps.
        by_model: True if a model wrote the summary.
        words: The number of the user's messages that were cut.
        files: The paths of the files with the full texts.
        problem: Why the model that was asked wrote no summary; empty if it did.
    """

    history: tuple[Message, ...]
    before: int
    after: int
    results: int = 0
    pictures: int = 0
    steps: int = 0
    by_model: bool = False
    words: int = 0
    files: tuple[str, ...] = ()
    problem: str = ""

    @property
    def gained(self) -> bool:
        return self.after < self.before

    @property
    def dropped(self) -> tuple[str, ...]:
        """The removed parts, as sentences for the user."""
        by = "by the model" if self.by_model else "without a model"
        lines = (
            (self.results, f"{count(self.results, 'long tool result')} moved out."),
            (self.pictures, f"{count(self.pictures, 'picture')} left out."),
            (self.steps, f"{count(self.steps, 'step')} summarized {by}."),
            (self.problem, f"The summary call failed: {self.problem.rstrip('.')}."),
            (self.words, f"{count(self.words, 'old message')} of the person's cut."),
            (self.files, f"What was moved or cut is whole in {_places(self.files)}."),
        )
        return tuple(line for there, line in lines if there)


def _places(files: Sequence[str]) -> str:
    """One file by its name, several by their folder and number."""
    if len(files) == 1:
        return files[0]
    return f"{len(files)} files in {files[0].rpartition('/')[0] or '.'}" if files else ""


async def compact(
    history: Sequence[Message],
    summarize: Summarize | None,
    counter: TokenCounter,
    limit: int,
    keep: Keep | None,
    *,
    contexts: Sequence[str] = (),
    fixed: int = 0,
    ratio: float = 1.0,
    target: int | None = None,
    steps_kept: int = STEPS_KEPT,
) -> Compaction:
    """Shorten a valid conversation; the result is valid, too.

    Args:
        history: The conversation. It is not changed.
        summarize: Asks a model for a summary; None to do without a model.
        counter: Counts tokens.
        limit: The most that a request should have.
        keep: Stores the full texts; None if they cannot be stored.
        contexts: Texts to restore: the plan, active skills, rules, a digest of the variables.
        fixed: The tokens of the system prompt and the tools, by the same counter.
        ratio: The factor for the counter's tokens (`Calibration.ratio`).
        target: The goal of the first two stages in tokens; by default a share of the limit.
        steps_kept: The number of steps at the end that stay unchanged.
    """
    room = int(limit / ratio) - fixed
    goal = int((limit * SHARE if target is None else target) / ratio) - fixed
    before = counter.messages(history)
    put_back = _put_back(contexts, int(limit * _CONTEXTS))
    extra = counter.message(put_back) if put_back else 0

    bare = [m for message in history if not _is_put_back(message) for m in apart(message)]
    draft = Draft(list(bare), counter, keep, counter.messages(bare) + extra)
    last = _first_kept(bare, steps_kept)
    move_old_results(draft, last, goal)
    # The model reads the full texts, not the placeholders of this compaction.
    summarized = await _summarized(draft, bare, last, goal, room, summarize)
    _put_in(draft, summarized, put_back)
    if draft.tokens > room:
        shorten_words(draft, _current(draft.messages), room)
    if draft.tokens > room:
        cut_last_results(draft, room)
    return _finished(history, draft, before, summarized, fixed, ratio)


@dataclass(frozen=True, slots=True)
class _Summarized:
    """The summary of `steps` steps, which end before the message `stop`."""

    steps: int = 0
    stop: int = 0
    summary: Summary | None = None
    places: tuple[str, ...] = ()

    @property
    def message(self) -> Message | None:
        if self.summary is None:
            return None
        places = "\n".join([KEPT_WHOLE, *self.places[-_PLACES:]])
        blocks = (Context(self.summary.text), *([Context(places)] if self.places else []))
        return Message("user", blocks)


async def _summarized(
    draft: Draft,
    whole: Sequence[Message],
    last: int,
    goal: int,
    room: int,
    summarize: Summarize | None,
) -> _Summarized:
    """Summarize as many of the oldest steps as needed."""
    chosen = _chosen(draft, last, goal)
    if not chosen:
        return _Summarized()
    stop = chosen[-1].stop
    rounds = [
        Round(
            whole[task].text if task >= 0 else "",
            tuple(m for step in group for m in whole[step.start : step.stop]),
        )
        for task, group in groupby(chosen, key=lambda step: step.task)
    ]
    strays = [m for i, m in enumerate(whole[:stop]) if not _in(chosen, i)]
    earlier = [text for message in strays if (text := earlier_summary(message))]
    made = await summary(
        rounds,
        earlier,
        summarize,
        draft.counter,
        max(1_000, room // 2),
    )
    places = [line for message in strays for line in earlier_places(message)]
    calls = [call for round_ in rounds for m in round_.messages for call in m.tool_calls]
    places += [f"- {gist(c)}: {draft.files[c.id]}" for c in calls if c.id in draft.files]
    return _Summarized(len(chosen), stop, made, tuple(places))


def _chosen(draft: Draft, last: int, goal: int) -> list[StepSpan]:
    """The oldest steps: as few as needed, a finished round as a whole; none if that is no gain."""
    messages, counter = draft.messages, draft.counter
    if draft.tokens <= goal:
        return []
    current = current_task(messages)
    gone = sum(counter.message(m) for m in messages[:last] if earlier_summary(m))
    chosen: list[StepSpan] = []
    for step in steps(messages):
        enough = draft.tokens - gone + min(_SUMMARY, gone // 2) <= goal
        inside = bool(chosen) and step.task == chosen[-1].task and step.task != current
        if step.stop > last or (enough and chosen and not inside):
            break
        chosen.append(step)
        gone += counter.messages(messages[step.start : step.stop])
    return chosen if gone >= _LEAST else []


def _in(chosen: Sequence[StepSpan], index: int) -> bool:
    return any(step.start <= index < step.stop for step in chosen)


def _put_in(draft: Draft, summarized: _Summarized, put_back: Message | None) -> None:
    """Replace steps by the summary, then restore the context."""
    messages = draft.messages
    current = current_task(messages)
    added = [message for message in (summarized.message, put_back) if message is not None]
    if summarized.summary is not None:
        head = [
            kept
            for index, message in enumerate(messages[: summarized.stop])
            if (kept := message if index == current else _only_persons(message))
        ]
        messages[:] = [*head, *added, *messages[summarized.stop :]]
    else:
        # Before the task at hand; where that is the first message, between it and its steps.
        place = 1 if current == 0 else max(0, current)
        messages[place:place] = added
    draft.tokens = draft.counter.messages(messages)


def _only_persons(message: Message) -> Message | None:
    """A message with the user's own blocks alone; None if it has none."""
    kept = () if is_ours(message) else persons(message)
    if len(kept) == len(message.blocks):
        return message
    return replace(message, blocks=kept) if kept else None


def _put_back(contexts: Sequence[str], most: int) -> Message | None:
    """The restored context as a message of its own; None if there is no room for any."""
    texts = [text.strip() for text in contexts if text.strip()]
    if not texts:
        return None
    # A token has at least a character, so this bounds the tokens.
    share = max(200, most // len(texts))
    blocks = (Context(shorten(text, share)) for text in texts)
    return Message("user", (Context(STILL_IN_FORCE), *blocks))


def _is_put_back(message: Message) -> bool:
    return is_ours(message) and not earlier_summary(message)


def _first_kept(messages: Sequence[Message], steps_kept: int) -> int:
    """The index of the first message to keep: the start of the last `steps_kept` steps."""
    there = steps(messages)
    if not steps_kept or not there:
        return len(messages)
    return there[-steps_kept].start if len(there) > steps_kept else there[0].start


def _current(messages: Sequence[Message]) -> int:
    """The index of the current task; the user's text before it may be cut."""
    return max(0, current_task(messages))


def _finished(
    history: Sequence[Message],
    draft: Draft,
    before: int,
    summarized: _Summarized,
    fixed: int,
    ratio: float,
) -> Compaction:
    old, new = (round((tokens + fixed) * ratio) for tokens in (before, draft.tokens))
    problem = summarized.summary.problem if summarized.summary else ""
    if new >= old:
        return Compaction(tuple(history), old, old, problem=problem)
    return Compaction(
        tuple(draft.messages),
        old,
        new,
        results=len(draft.results),
        pictures=_pictures(history) - _pictures(draft.messages),
        steps=summarized.steps,
        by_model=summarized.summary is not None and summarized.summary.by_model,
        words=len(draft.said),
        files=tuple(draft.files.values()),
        problem=problem,
    )


def _pictures(messages: Sequence[Message]) -> int:
    blocks = [block for message in messages for block in message.blocks]
    inner = [b for r in (m.tool_results for m in messages) for result in r for b in result.content]
    return sum(isinstance(block, Image) for block in [*blocks, *inner])
