"""Long conversations to shorten: a made one with planted facts, and any valid one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import (
    Block,
    Context,
    Image,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)
STEPS = 100
_NOUNS = ["sales", "returns", "visits", "weights", "delays", "scores", "prices", "stocks"]
_WORDS = ["north", "south", "weekly", "adult", "online", "median", "spring", "night", "rural"]


@dataclass(frozen=True)
class Fact:
    """Something that was found at some step: `value` is what an answer needs."""

    step: int
    name: str
    value: str


@dataclass(frozen=True)
class Transcript:
    """One conversation, message by message, and the facts that stand in it."""

    messages: tuple[Message, ...]
    facts: tuple[Fact, ...]


def planted(seed: int, facts: int = 40, rounds: int = 10) -> Transcript:
    """A hundred steps in so many rounds, with facts at random places among tables and listings.

    Half of the facts stand in an output with other numbers, a quarter in a sentence of the
    agent's, a quarter are the bare value of an expression.
    """
    random_ = random.Random(seed)
    where = sorted(random_.sample(range(STEPS), facts))
    messages: list[Message] = []
    found: list[Fact] = []
    for step in range(STEPS):
        if step % (STEPS // rounds) == 0:
            noun = random_.choice(_NOUNS)
            messages.append(user(Text(f"Now look into the {noun}, part {step}.")))
        fact = _fact(random_, step) if step in where else None
        if fact:
            found.append(fact)
        messages += _step(random_, step, fact)
        if step % (STEPS // rounds) == (STEPS // rounds) - 1 and step != STEPS - 1:
            messages.append(Message("assistant", (Text("That part is done; see above."),)))
    return Transcript(tuple(messages), tuple(found))


def _fact(random_: random.Random, step: int) -> Fact:
    name = f"{random_.choice(_WORDS)}_{random_.choice(_NOUNS)}_{step}"
    return Fact(step, name, f"{random_.uniform(10, 99_999):.4f}")


def _step(random_: random.Random, step: int, fact: Fact | None) -> list[Message]:
    name = fact.name if fact else f"table_{step}"
    said = f"I look at step {step} of the work, {random_.choice(_WORDS)} first."
    code = f"{name} = compute({step})\nprint({name})"
    output = _output(random_, step)
    kind = random_.choice(["table", "table", "said", "bare"])
    if fact and kind == "table":
        lines = output.split("\n")
        lines.insert(random_.randrange(len(lines)), f"{fact.name}: {fact.value}")
        output = "\n".join(lines)
    elif fact and kind == "said":
        said += f" The {fact.name} was {fact.value}."
    elif fact:
        code, output = f"{fact.name} = compute({step})\n{fact.name}", fact.value
    call = ToolCall(f"c{step}", "execute_code", json.dumps({"code": code}))
    return [
        Message("assistant", (Text(said), call)),
        user(ToolResult(call.id, (Text(output),))),
    ]


def _output(random_: random.Random, step: int) -> str:
    """A table of numbers, a listing, or a log: mostly short, sometimes long."""
    rows = random_.choice([6, 12, 12, 25, 120])
    match step % 3:
        case 0:
            lines = [
                "  ".join(f"{random_.uniform(0, 999):9.3f}" for _ in range(6)) for _ in range(rows)
            ]
        case 1:
            lines = [
                f"data/{random_.choice(_NOUNS)}_{random_.randrange(999)}.csv" for _ in range(rows)
            ]
        case _:
            lines = [
                f"epoch {row}: loss={random_.random():.4f} {random_.choice(_WORDS)}"
                for row in range(rows)
            ]
    return "\n".join(lines)


def user(*blocks: Block) -> Message:
    return Message("user", blocks)


def survivors(facts: Sequence[Fact], messages: Sequence[Message]) -> list[Fact]:
    """The facts that can still be answered from what goes to the model: its name and its value."""
    text = "\n".join(_texts(messages))
    return [fact for fact in facts if fact.value in text and fact.name in text]


def _texts(messages: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        for block in message.blocks:
            match block:
                case ToolCall():
                    texts.append(block.arguments)
                case ToolResult():
                    texts.append(block.text)
                case Image():
                    pass
                case _:
                    texts.append(block.text)
    return texts


# ---------------------------------------------------------------- any valid conversation

_LONG = st.sampled_from(["x", "word ", "a = 1.5\n", "漢字", "loss 0.25 at 3\n"])
_TEXTS = st.one_of(
    st.text(max_size=30),
    st.builds(lambda unit, times: unit * times, _LONG, st.integers(1, 3_000)),
)
_IDS = st.sampled_from(["a", "b", "c", "d"])
_SHOWN = st.lists(st.one_of(_TEXTS.map(Text), st.just(Image("image/png", PNG))), max_size=2).map(
    tuple
)
_FROM_USER = st.one_of(
    _TEXTS.map(Text),
    _TEXTS.map(Said),
    _TEXTS.map(Context),
    st.just(Image("image/png", PNG)),
    st.builds(ToolResult, _IDS, _SHOWN, st.booleans()),
)
_FROM_MODEL = st.one_of(
    _TEXTS.map(Text),
    _TEXTS.map(Thinking),
    st.builds(
        ToolCall,
        _IDS,
        st.sampled_from(["look", "execute_code"]),
        st.sampled_from(["{}", '{"code": "1"}', "{", '["x"]']),
    ),
)
_MESSAGES = st.one_of(
    st.lists(_FROM_USER, max_size=3).map(lambda blocks: user(*blocks)),
    st.lists(_FROM_MODEL, max_size=3).map(lambda blocks: Message("assistant", tuple(blocks))),
    st.text(min_size=1, max_size=9).map(lambda text: Message("system", (Text(text),))),
)
histories = st.lists(_MESSAGES, max_size=24).map(repair)
