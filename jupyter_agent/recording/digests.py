"""The digests that identify a recorded conversation.

They cover the tasks, the lines that the user typed, the tool calls and the tool results. Tasks,
typed lines and the arguments of calls are compared to the letter; results are compared without
times and durations. The system prompt, the tools' schemas, the session's context and the text
between tool calls are not covered.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jupyter_agent.core.messages import Image, Message, Said, Text, ToolCall, ToolResult, clean
from jupyter_agent.core.quoting import SAVED_AT, SAVED_IN
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.llm.wire import arguments_object

_HOME = (re.compile(r"(?:/home/|/Users/)[^\s/'\":,)\]]+"), "<home>")
_TEMPORARY = re.compile(r"(?<![\w.])(?:/private)?(?:/var/folders/[^/\s]+/[^/\s]+/T|/tmp)(?![\w.-])")
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]{4,16}(?=>)")
"""The address in an object's representation; other hexadecimal numbers are data."""
_VOLATILE = (
    # A skill's text is not compared, like the system prompt: an upgrade with a better wording
    # must not break recorded notebooks.
    (
        re.compile(r'<skill_content name="([^"\n]*)">\n.*?\n</skill_content>', re.DOTALL),
        r"<skill \1>",
    ),
    (SAVED_AT, r"\1\2<date>"),
    (SAVED_IN, r"\1"),
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x…"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (
        re.compile(
            r"\b\d+(?:\.\d+)? ?(?:ns|[µμ]s|us|ms|min|seconds|s)\b"
            r"(?: ± [\d.]+ ?(?:ns|[µμ]s|us|ms|s))?"
        ),
        "<duration>",
    ),
    (re.compile(r"(?:/private)?(?:/tmp|/var/folders)/[^\s'\":,)\]]+"), "<tmp>"),
    _HOME,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One compared item: `kind` is `task`, `said`, `call` or `result`."""

    kind: str
    text: str


def normalized(text: str) -> str:
    """A result without the parts that differ from run to run, and without secrets."""
    text = redact(text, secret_values())
    for pattern, stand_in in _VOLATILE:
        text = pattern.sub(stand_in, text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def exact(text: str, root: Path | None = None) -> str:
    """A text to the letter, except for secrets, paths of the machine and addresses of objects.

    Args:
        text: A task, or a line that the user typed.
        root: The workspace's folder: paths in it are the same wherever it lies.
    """
    text = redact(text.strip(), secret_values())
    if root is not None and root != Path(root.anchor) and str(root) in text:
        text = _inside(str(root)).sub("<workspace>", text)
    home = os.path.expanduser("~")  # noqa: PTH111 (which never raises)
    if len(home) > 1 and home in text:
        text = _inside(home).sub("<home>", text)
    return _ADDRESS.sub("0x…", _TEMPORARY.sub("<tmp>", text))


def exact_json(value: Any, root: Path | None = None) -> str:
    """A JSON value as text; each string in it is normalized by `exact`, with its outer blanks."""
    try:
        value = _strings_exact(value, root)
    except RecursionError:
        return exact(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str), root)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _strings_exact(value: Any, root: Path | None) -> Any:
    if isinstance(value, str):
        # Blanks at the ends count: an edit of a file may consist of them.
        inner = exact(value, root)
        before, after = len(value) - len(value.lstrip()), len(value.rstrip())
        return f"{value[:before]}{inner}{value[after:]}" if inner else value
    if isinstance(value, Mapping):
        return {_strings_exact(str(k), root): _strings_exact(v, root) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strings_exact(item, root) for item in value]
    return value


@lru_cache(maxsize=8)
def _inside(root: str) -> re.Pattern[str]:
    """A pattern for a folder's path that is not the beginning of another name."""
    return re.compile(rf"(?<!\w){re.escape(root)}(?![\w-]|\.\w)")


def items(message: Message, root: Path | None = None) -> list[Item]:
    """The compared items of a message.

    Args:
        message: Any message of a conversation.
        root: The workspace's folder, as for `exact`.
    """
    return _items(message, partial(exact, root=root), partial(exact_json, root=root))


def items_before(message: Message) -> list[Item]:
    """The compared items of the first cassettes, which ignored times and durations in all texts."""

    def in_json(value: Any) -> str:
        return normalized(json.dumps(value, sort_keys=True, ensure_ascii=False))

    return _items(message, normalized, in_json)


def _items(
    message: Message, words: Callable[[str], str], in_json: Callable[[Any], str]
) -> list[Item]:
    found: list[Item] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            found.append(Item("call", f"{block.name} {in_json(arguments_object(block))}"))
        elif isinstance(block, ToolResult):
            found.append(Item("result", _result_text(block)))
        elif isinstance(block, Said):
            found.append(Item("said", words(block.text)))
        elif isinstance(block, Text) and message.role == "user":
            found.append(Item("task", words(block.text)))
    return found


def _result_text(result: ToolResult) -> str:
    """The result's text; a picture counts by its kind, since library versions draw differently."""
    words = [
        f"[{block.media_type}]" if isinstance(block, Image) else block.text
        for block in result.content
    ]
    return normalized(("error: " if result.is_error else "") + "\n".join(words))


def asked(turn: Sequence[Message], root: Path | None = None) -> tuple[Item, ...]:
    """The items for the model since its last reply; `root` as for `exact`."""
    new: list[Message] = []
    for message in reversed(turn):
        if message.role == "assistant":
            break
        new.insert(0, message)
    return tuple(item for message in new for item in items(message, root))


class Digests:
    """The digests of a growing conversation; each message is read once.

    Args:
        root: The workspace's folder, as for `exact`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._messages: list[Message] = []
        self._chain: list[str] = [""]

    def conversation(self, messages: Sequence[Message]) -> str:
        """The digest of a conversation; reuses the last one's shared beginning."""
        shared = 0
        for ours, theirs in zip(self._messages, messages, strict=False):
            if ours is not theirs:
                break
            shared += 1
        del self._messages[shared:], self._chain[shared + 1 :]
        for message in messages[shared:]:
            self._messages.append(message)
            self._chain.append(extend(self._chain[-1], items(message, self._root)))
        return self._chain[-1]


def extend(digest: str, more: Sequence[Item]) -> str:
    """The digest of a conversation extended by `more`; an empty conversation has an empty one."""
    for item in more:
        line = f"{digest}\n{item.kind}\n{item.text}"
        digest = hashlib.sha256(clean(line).encode("utf-8")).hexdigest()
    return digest
