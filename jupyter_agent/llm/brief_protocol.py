"""The code protocol for small models: one block, mended twice at most, and the turn ends.

A small model that is asked again after a success spoils it, after an error it repeats itself, and
asked for words it forgets the format that the task wants. So this protocol asks the model as
seldom as it can, and answers by itself where the outputs already have the answer:

    the last block ran      its value is the answer; where the task asks for words or for a format,
                            one short call makes it from the task and the output
    the last block failed   what was meant is sure: it is put right here; else the model mends it,
                            with the error and its hint; at most twice, and code that failed before
                            is not run again
    it did not succeed      the answer says so, with the last error

A recording holds these answers like any other reply, so that a replay knows nothing of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from jupyter_agent.core.asked_changes import may_ask_for_change, may_ask_for_data
from jupyter_agent.core.error_hints import CAUSED
from jupyter_agent.core.events import MessageFinished, ReplySource
from jupyter_agent.core.markdown import code_fence
from jupyter_agent.core.messages import (
    Block,
    Context,
    JsonObject,
    Message,
    Said,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.core.plaintext import count, shorten
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.core.quoting import LOADED
from jupyter_agent.llm.answer_format import (
    as_fitting_answer,
    fits,
    has_places,
    in_its_place,
    printing_places,
    shows_places,
)
from jupyter_agent.llm.code_protocol import ACT, in_words, message_in_words, with_call
from jupyter_agent.llm.own_repairs import repaired
from jupyter_agent.llm.spared import sparing, with_loaded, without_made_up_data
from jupyter_agent.llm.value_blocks import (
    as_answer,
    asks_for_function,
    same_code,
    showing_value,
    shown_value,
    uses_any,
    wants_words,
)
from jupyter_agent.llm.wire import NO_OUTPUT, arguments_object

Step = Literal["ask", "repair", "words", "answer", "pass on"]

REPAIRS = 2
"""Times that a model may mend its code in one turn."""
_LONGEST_ERROR = 700
"""Characters of an error that a small model reads."""
_LONGEST_OUTPUT = 1_500
"""Characters of an output from which an answer in words is made."""
_DESCRIBED = "\n@"
"""Where the context describes an object that the task names."""
_TABLE = re.compile(r"(?m)^@?(\w+): (?:\w+ )?(?:DataFrame|Series)\b")
"""Where the context says that a variable is a table."""
_HOW = "Reply with one ```python block that does the task with the variables that are loaded."
_VALUE = "Its last line is an expression that gives the answer."
_PRINTED = "Reply with one ```python block that prints the answer in the format that is asked for."
_FUNCTION = "(Write the function alone: no example data and no call of it.)"
_MEND = "(Write the whole corrected ```python block, with the answer in its last line.)"
_AGAIN = "(This is the code that failed. Do it in another way: write another ```python block.)"
_REPAIRED = "The name that was meant is sure from the error, so it is put right here."
_RUN_IT = "(Nothing was run. Write the ```python block that does it.)"
_USE_THEM = (
    "(This uses none of the loaded variables: {names}. Compute the answer from them: write another "
    "```python block.)"
)
_SHOW_IT = "(It showed no value. Write the whole ```python block again; its last line prints it.)"
_FROM_OUTPUT = "You write down the answer to a task, from the output of code that was run for it."
_PUT_IN_WORDS = (
    "{task}\n\nThe output:\n{output}\n\nWrite the answer that the task asks for, in its format, "
    "with the values of this output, and nothing else."
)


class BriefProtocol:
    """A provider whose small model acts by one block of code a turn.

    Deltas pass through unchanged; the finished message replaces them.

    Args:
        provider: The model to ask. It never gets a tool.
    """

    def __init__(self, provider: Model) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source: ReplySource = provider.source
        self._provider = provider

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        turn, step = _next(request)
        if step == "answer":
            yield _own(turn.answer())
            return
        if step == "repair":
            yield _own_block(turn.own_repair)
            return
        parts = self._block(request, turn) if step == "ask" else self._asked(_sent(request, step))
        async with aclosing(parts) as stream:
            async for part in stream:
                yield part

    def body(self, request: Request) -> JsonObject:
        _, step = _next(request)
        is_own = step in ("answer", "repair")
        return {} if is_own else self._provider.body(_sent(request, step))

    async def close(self) -> None:
        await self._provider.close()

    async def _block(self, request: Request, turn: BriefTurn) -> AsyncGenerator[ReplyPart, None]:
        """Ask for a block until one comes that is worth running, as often as the turn allows."""
        asked, usage, calls = _sent(request, "ask"), Usage(), 0
        for attempt in range(max(1, turn.attempts), 0, -1):
            async with aclosing(self._asked(asked)) as stream:
                async for part in stream:
                    if not isinstance(part, MessageFinished):
                        yield part
                        continue
                    usage, calls = usage + part.usage, calls + part.model_calls
                    finished = replace(part, usage=usage, model_calls=calls)
            acting = _acting(finished, turn) if request.tools_allowed else finished
            objection = turn.objection(acting) if request.tools_allowed else ""
            if not objection or (attempt == 1 and not turn.runs):
                yield acting
                return
            said = (finished.message, Message("user", (Context(objection),)))
            asked = replace(asked, messages=(*asked.messages, *said))
            if objection == _AGAIN:  # the likeliest reply is the same code once more
                asked = replace(asked, attempt=asked.attempt + 1)
        yield _own(turn.answer(), usage, calls)

    async def _asked(self, request: Request) -> AsyncGenerator[ReplyPart, None]:
        async with aclosing(self._provider.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                yield part


# The turn so far ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BriefRun:
    """A block of code that ran in the turn, and what the model reads of its outcome."""

    code: str
    output: str
    failed: bool


@dataclass(frozen=True, slots=True)
class BriefTurn:
    """The current turn of a conversation.

    Args:
        task: The task, as the user wrote it.
        runs: The code that ran for it.
        about_objects: True if the context describes objects of the kernel.
        tables: The names of the tables that the context says are loaded.
        is_steered: True if the user typed something since the last run.
    """

    task: str = ""
    runs: tuple[BriefRun, ...] = ()
    about_objects: bool = False
    tables: tuple[str, ...] = ()
    is_steered: bool = False

    @classmethod
    def of(cls, messages: Sequence[Message]) -> BriefTurn:
        """The turn at the end of a conversation."""
        tasks = [n for n, each in enumerate(messages) if _is_task(each)]
        if not tasks:
            return cls()
        first, *later = messages[tasks[-1] :]
        context = "\n".join(b.text for b in first.blocks if isinstance(b, Context))
        tables = tuple(_TABLE.findall(context.partition(LOADED)[2]))
        last = next((n for n in range(len(later), 0, -1) if later[n - 1].tool_results), 0)
        steered = any(isinstance(b, Said) for each in later[last - 1 :] for b in each.blocks)
        runs = tuple(_runs(later))
        return cls(_task(first), runs, _DESCRIBED in context, tables, steered and bool(last))

    def next_step(self, tools_allowed: bool = True) -> Step:
        """What comes next.

        The model is to write code (`ask`), or words from the output (`words`); or nothing is to be
        asked, since the code is repaired without it (`repair`), or the `answer` is known.
        """
        if not self.runs or self.is_steered:
            return "ask"
        last = self.runs[-1]
        if last.failed:
            if not (tools_allowed and self.attempts):
                return "answer"
            return "repair" if self.own_repair else "ask"
        if not (has_places(self.task) or wants_words(self.task)) or fits(self.task, self._shown):
            return "answer"
        if shown_value(last.output) and not shows_places(self.task, last.output):
            return "words"
        return "ask" if tools_allowed and self._shall_show else "answer"

    @property
    def attempts(self) -> int:
        """Model calls that may still be made for code: the first one, a second one, the repairs."""
        if not self.runs or not self.runs[-1].failed:
            return 2
        failures = next((n for n, run in enumerate(reversed(self.runs)) if not run.failed), None)
        return max(0, REPAIRS + 1 - (len(self.runs) if failures is None else failures))

    @property
    def _shown(self) -> str:
        """What the last run showed, its only value in the only place of the task's format."""
        return in_its_place(self.task, self.runs[-1].output)

    @property
    def _shall_show(self) -> bool:
        """True if the task has places for values, and only the last run showed none."""
        return has_places(self.task) and all(run.failed for run in self.runs[:-1])

    def objection(self, reply: MessageFinished) -> str:
        """What to say to a reply in place of running it; empty if there is nothing to object."""
        if reply.stop_reason == "refused":
            return ""
        calls = reply.message.tool_calls
        if not calls:
            is_due = bool(self.runs) or self.about_objects or has_places(self.task)
            return _RUN_IT if is_due and not self.is_steered else ""
        code = _code(calls[0])
        if any(run.failed and same_code(run.code, code) for run in self.runs):
            return _AGAIN
        is_made_up = has_places(self.task) and self.tables and not uses_any(code, self.tables)
        return _USE_THEM.replace("{names}", ", ".join(self.tables)) if is_made_up else ""

    @property
    def own_repair(self) -> str:
        """The code that failed last, repaired without the model; empty if that cannot be."""
        code = repaired(self.runs[-1].code, self.runs[-1].output)
        is_known = any(same_code(run.code, code) for run in self.runs)
        return "" if is_known else code

    def answer(self) -> str:
        """The answer of a turn that is over: the value of the last run, or that it failed."""
        last = self.runs[-1]
        if not last.failed:
            fitting = fits(self.task, self._shown)
            return as_fitting_answer(self.task, self._shown) if fitting else as_answer(last.output)
        times = count(sum(run.failed for run in self.runs), "time")
        error = _end_of(last.output)
        ticks = code_fence(error)
        what = f"This did not succeed: the code failed {times}. The last error:"
        return f"{what}\n\n{ticks}text\n{error}\n{ticks}"


def _is_task(message: Message) -> bool:
    return message.role == "user" and any(isinstance(block, Text) for block in message.blocks)


def _task(message: Message) -> str:
    """The task of a user's message; empty for another message."""
    return message.text.strip() if _is_task(message) else ""


def _runs(messages: Iterable[Message]) -> Iterator[BriefRun]:
    calls: dict[str, ToolCall] = {}
    for message in messages:
        calls |= {call.id: call for call in message.tool_calls}
        for result in message.tool_results:
            call = calls.get(result.call_id)
            if call is not None:
                yield BriefRun(_code(call), result.text, result.is_error)


def _code(call: ToolCall) -> str:
    return str(arguments_object(call).get("code", ""))


def _end_of(error: str) -> str:
    """The last lines of an error: where it came up, what it says, and the hint."""
    own = error.rpartition(CAUSED)[2].strip()
    kept = own[-_LONGEST_ERROR:]
    return kept if len(kept) == len(own) else kept.partition("\n")[2] or kept


# What is sent, and what comes back ---------------------------------------------------------------


def _acts(request: Request) -> bool:
    return any(tool.name == ACT for tool in request.tools)


def _next(request: Request) -> tuple[BriefTurn, Step]:
    """The turn that a request is about, and what comes next in it."""
    turn = BriefTurn.of(request.messages)
    return turn, turn.next_step(request.tools_allowed) if _acts(request) else "pass on"


def _sent(request: Request, step: Step) -> Request:
    """The request as the model gets it: its likeliest reply counts, but for further attempts."""
    return replace(_worded(request, step), attempt=request.attempt, steady=True)


def _worded(request: Request, step: Step) -> Request:
    if step == "pass on":
        return in_words(request)
    turn = BriefTurn.of(request.messages)
    if step == "ask":
        # Small models heed their system prompt most. It is the same for all but few tasks.
        how = _PRINTED if has_places(turn.task) else f"{_HOW} {_VALUE}"
        return Request(f"{request.system.rstrip()} {how}\n", tuple(_messages(request.messages)))
    output = shorten(shown_value(turn.runs[-1].output), _LONGEST_OUTPUT)
    said = _PUT_IN_WORDS.replace("{task}", turn.task).replace("{output}", output)
    return Request(_FROM_OUTPUT, (Message("user", (Text(said),)),))


def _messages(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages as text, each by itself: the context comes before its task."""
    task = ""
    for message in messages:
        task = _task(message) or task
        if message.tool_results:
            yield replace(message, blocks=tuple(_outcome(message.blocks, task)))
        elif _is_task(message):
            others = [block for block in message.blocks if not isinstance(block, Text)]
            texts = [block for block in message.blocks if isinstance(block, Text)]
            ending = [Context(_FUNCTION)] if asks_for_function(task) else []
            yield replace(message, blocks=(*others, *texts, *ending))
        else:
            yield message_in_words(message)


def _outcome(blocks: Iterable[Block], task: str) -> Iterator[Block]:
    """Results as short text, with what is to be done about them."""
    for block in blocks:
        if not isinstance(block, ToolResult):
            yield block
        elif block.is_error:
            yield Context(f"Error:\n{_end_of(block.text)}\n{_MEND}")
        else:
            value = shown_value(block.text)
            yield Context(f"Output:\n{shorten(value, _LONGEST_OUTPUT) or NO_OUTPUT}")
            if has_places(task) and (not value or shows_places(task, block.text)):
                yield Context(_SHOW_IT)


def _acting(finished: MessageFinished, turn: BriefTurn) -> MessageFinished:
    """The reply with its block as a call that shows its value and leaves tables as they are."""
    acting = with_call(finished)
    blocks = tuple(
        _showing(block, turn) if isinstance(block, ToolCall) else block
        for block in acting.message.blocks
    )
    return replace(acting, message=replace(acting.message, blocks=blocks))


def _showing(call: ToolCall, turn: BriefTurn) -> ToolCall:
    code = printing_places(_code(call), turn.task)
    if asks_for_function(turn.task):
        code = without_made_up_data(code)
    else:
        code = code if may_ask_for_data(turn.task) else with_loaded(code, turn.tables)
        code = code if may_ask_for_change(turn.task) else sparing(code, turn.tables)
    code = showing_value(code, keep_prints=has_places(turn.task))
    return replace(call, arguments=json.dumps({"code": code}, ensure_ascii=False))


def _own(text: str, usage: Usage | None = None, calls: int = 0) -> MessageFinished:
    """An answer of the protocol's own, for which the model was asked `calls` times in vain."""
    message = Message("assistant", (Text(text),))
    return MessageFinished(message, usage or Usage(), "end", calls)


def _own_block(code: str) -> MessageFinished:
    """A block of the protocol's own, for which the model was not asked."""
    text = f"{_REPAIRED}\n\n```python\n{code}\n```"
    return with_call(MessageFinished(Message("assistant", (Text(text),)), Usage(), "end", 0))
