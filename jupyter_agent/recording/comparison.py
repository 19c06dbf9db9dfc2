"""What is compared of a conversation when it is replayed, and in which form.

Tasks, typed lines, arguments of calls and results are compared to the letter. Left out are secrets,
the paths of one machine, the memory addresses of objects, and what the package itself wrote into a
result. The system prompt, the tools' schemas, the session's context and the text between tool calls
are not compared.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jupyter_agent.core.asked_changes import SPOILT
from jupyter_agent.core.error_hints import HINTED
from jupyter_agent.core.history import turn_messages
from jupyter_agent.core.messages import (
    Image,
    Message,
    Output,
    Said,
    Text,
    ToolCall,
    ToolResult,
    clean,
    is_bitmap,
)
from jupyter_agent.core.quoting import SAVED_AT, SAVED_IN, TAG
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.llm.wire import arguments_object

TEMPORARY_FOLDER = r"(?:/private)?(?:/var/folders/[^/\s]+/[^/\s]+/T|/tmp)"
"""A pattern for the folder for temporary files, on Linux and macOS."""
_TEMPORARY = re.compile(rf"(?<![\w.]){TEMPORARY_FOLDER}(?![\w.-])")
_LIBRARIES = re.compile(
    r"(?:[A-Za-z]:)?(?<![\w./\\])[/\\](?:[^\s'\":,;()\[\]<>]*[/\\])?"
    r"(?:(?:site|dist)-packages|lib[/\\]python3\.\d+)(?=[/\\])"
)
"""Where libraries are installed."""
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]{4,16}(?=>|&gt;)")
"""The address in an object's representation; other hexadecimal numbers are data."""
_OWN_WORDS = (
    # A skill's text is not compared, like the system prompt: an upgrade with a better wording
    # must not break recorded notebooks.
    (
        re.compile(r'<skill_content name="([^"\n]*)">\n.*?\n</skill_content>', re.DOTALL),
        r"<skill \1>",
    ),
    (re.compile(r'<tool_help name="(\w*)">\n.*?\n</tool_help>', re.DOTALL), r"<help \1>"),
    (SAVED_AT, r"\1\2<date>"),
    (SAVED_IN, r"\1"),
)
_TIMEIT_REMARK = re.compile(r"(?m)^The slowest run took .* is being cached\.\n")
"""What `%timeit` says now and then about its runs."""
_MARKUP = ("text/html", "text/markdown", "image/svg+xml")


@dataclass(frozen=True, slots=True)
class Item:
    """One compared item: `kind` is `task`, `said`, `call` or `result`."""

    kind: str
    text: str


def neutral(text: str, root: Path | None = None, in_markup: bool = False) -> str:
    """A text without secrets, paths of the machine, and addresses of objects.

    Args:
        text: Any text.
        root: The workspace's folder: paths in it are the same wherever it lies.
        in_markup: True escapes what stands for the paths, as HTML and Markdown need it.
    """
    text = redact(text, secret_values())
    if "-packages" in text or "python3." in text:
        text = _LIBRARIES.sub(_written("<packages>", in_markup), text)
    for folder, name in ((str(root or ""), "<workspace>"), (_home(), "<home>")):
        if len(folder) > 1 and folder in text:
            text = _inside(folder).sub(_written(name, in_markup), text)
    if "/tmp" in text or "/var/folders" in text:
        text = _TEMPORARY.sub(_written("<tmp>", in_markup), text)
    return _ADDRESS.sub("0x…", text) if " at 0x" in text else text


def exact(text: str, root: Path | None = None) -> str:
    """A task or a typed line in the compared form: `neutral`, without the blanks around it."""
    return neutral(text.strip(), root)


def exact_json(value: Any, root: Path | None = None) -> str:
    """A JSON value as text, with each string in it `neutral`."""
    try:
        value = _strings(value, root)
    except RecursionError:
        return neutral(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str), root)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _strings(value: Any, root: Path | None) -> Any:
    if isinstance(value, str):
        return neutral(value, root)
    if isinstance(value, Mapping):
        return {_strings(str(key), root): _strings(item, root) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strings(item, root) for item in value]
    return value


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 (which never raises)


def _written(name: str, in_markup: bool) -> str:
    return html.escape(name) if in_markup else name


@lru_cache(maxsize=8)
def _inside(root: str) -> re.Pattern[str]:
    """A pattern for a folder's path that is not the beginning of another name."""
    return re.compile(rf"(?<!\w){re.escape(root)}(?![\w-]|\.\w)")


def result_text(result: ToolResult, root: Path | None = None) -> str:
    """A tool result in the compared form, without what the package itself wrote into it.

    A picture counts by its kind, since the versions of a library draw differently.
    """
    words = [
        f"[{block.media_type}]" if isinstance(block, Image) else block.text
        for block in result.content
    ]
    text = neutral(("error: " if result.is_error else "") + "\n".join(words), root)
    for pattern, stand_in in _own_words(text):
        text = pattern.sub(stand_in, text)
    if result.is_error or SPOILT in result.details:
        text = HINTED.sub("", text)
    if "The slowest run took" in text:
        text = _TIMEIT_REMARK.sub("", text)
    return text


def has_own_words(result: ToolResult) -> bool:
    """True if the package itself wrote a part of a result that is not compared."""
    return any(pattern.search(result.text) for pattern, _ in _own_words(result.text))


def _own_words(text: str) -> Sequence[tuple[re.Pattern[str], str]]:
    """The patterns of the package's own words; dates are such in a quotation of memory alone."""
    return _OWN_WORDS if f"<{TAG} " in text else _OWN_WORDS[:2]


def neutral_display(display: Sequence[Output], root: Path | None) -> tuple[Output, ...]:
    """A result's outputs with neutral texts, as they are shown in recorded turns."""
    return with_texts(display, lambda kind, text: neutral(text, root, in_markup=kind in _MARKUP))


def with_texts(display: Sequence[Output], change: Callable[[str, str], str]) -> tuple[Output, ...]:
    """Outputs with changed texts.

    Args:
        display: The outputs.
        change: Takes the MIME type and the text. Pictures in base64 are left alone.
    """
    return tuple(
        replace(
            output,
            data={
                kind: change(kind, value)
                if isinstance(value, str) and not is_bitmap(kind)
                else value
                for kind, value in output.data.items()
            },
        )
        for output in display
    )


def items(message: Message, root: Path | None = None) -> list[Item]:
    """The compared items of a message.

    Args:
        message: Any message of a conversation.
        root: The workspace's folder, as for `neutral`.
    """
    found: list[Item] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            found.append(Item("call", f"{block.name} {exact_json(arguments_object(block), root)}"))
        elif isinstance(block, ToolResult):
            found.append(Item("result", result_text(block, root)))
        elif isinstance(block, Said):
            found.append(Item("said", exact(block.text, root)))
        elif isinstance(block, Text) and message.role == "user":
            found.append(Item("task", exact(block.text, root)))
    return found


def task_of(message: Message, root: Path | None = None) -> str:
    """The task in a user's message, in the compared form; empty if it has none."""
    return next((item.text for item in items(message, root) if item.kind == "task"), "")


def last_results(messages: Sequence[Message]) -> list[ToolResult]:
    """The results of the last reply's calls, in their order."""
    turn = turn_messages(messages)
    after: list[ToolResult] = []
    for message in reversed(turn):
        if message.role == "assistant":
            break
        after[:0] = message.tool_results
    return after


def last_said(messages: Sequence[Message]) -> list[str]:
    """The lines that the user typed since the last reply."""
    found: list[str] = []
    for message in reversed(turn_messages(messages)):
        if message.role == "assistant":
            break
        found[:0] = [block.text for block in message.blocks if isinstance(block, Said)]
    return found


class Digests:
    """The digests of a growing conversation; each message is read once.

    Args:
        root: The workspace's folder, as for `neutral`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._messages: list[Message] = []
        self._chain: list[str] = [""]

    def conversation(self, messages: Sequence[Message]) -> str:
        """The digest of a conversation; empty if it is empty. Reuses the shared beginning."""
        shared = 0
        for ours, theirs in zip(self._messages, messages, strict=False):
            if ours is not theirs:
                break
            shared += 1
        del self._messages[shared:], self._chain[shared + 1 :]
        for message in messages[shared:]:
            self._messages.append(message)
            self._chain.append(_extended(self._chain[-1], items(message, self._root)))
        return self._chain[-1]


def _extended(digest: str, more: Sequence[Item]) -> str:
    for item in more:
        line = f"{digest}\n{item.kind}\n{item.text}"
        digest = hashlib.sha256(clean(line).encode("utf-8")).hexdigest()[:32]
    return digest
