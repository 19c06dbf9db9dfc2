"""The faults, one by one, and what is expected of each: the tests and `docs/faults.md` use them.

In each case a first step has called the tool `note` with the word `a`. The answers of the case
come to the second request. A good answer (`All done.`) comes after them.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Literal

from faults.hostile import CLOSE, LAST, RESET, Answers, Hostile, Step, Wire, chunk, drip
from model_server import Call

from jupyter_agent.core.events import Event, Retrying, ToolStarted
from jupyter_agent.llm.retry import RetryPolicy

QUICK = RetryPolicy(initial_delay=0.01, max_delay=0.02)
SILENT = 0.2
"""After how many seconds a server that says nothing is given up."""
SAID = "All done."
HALF = "All d"
B = Call("note", '{"word": "b"}')
C = Call("note", '{"word": "c"}')

Then = Literal["again", "error", "fine"]


@dataclass(frozen=True)
class Case:
    """A fault.

    Attributes:
        fault: Its name, a part of a sentence.
        answers: What the server sends for the second request and those after it.
        then: `again` is tried again and goes well, `error` ends the turn, `fine` does no harm.
        sees: A part of the one line that the person sees.
        happens: What it means for the turn, for the docs.
        texts: The words of the steps after the first one, exactly as they are shown.
        tools: The words that `note` was called with, in order.
        unknown: Names of tools that the model made up, as they are sent back.
        waits: Between how many seconds the first wait before another try is.
        retries: How often another try is begun.
        timeout: Of the request that meets the fault. The others are patient: beside other work
            a good answer may come late, too.
    """

    fault: str
    answers: Answers
    then: Then
    sees: str = ""
    happens: str = ""
    texts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ("a",)
    stop: str = ""
    only: str = ""
    timeout: float = 20.0
    policy: RetryPolicy = QUICK
    unknown: tuple[str, ...] = ()
    waits: tuple[float, float] = (0.0, 1.0)
    retries: int = -1
    on: Callable[[Event, Hostile], None] = lambda event, server: None

    def __post_init__(self) -> None:
        if self.retries < 0:
            object.__setattr__(self, "retries", int(self.then == "again"))

    @property
    def shown(self) -> tuple[str, ...]:
        """The words of the steps after the first."""
        return self.texts or (("",) if self.then == "error" else (SAID,))

    @property
    def tries(self) -> str:
        """How often the call is made, for the docs."""
        return "up to 4" if self.then == "again" else str(1 + self.retries)

    @property
    def outcome(self) -> str:
        """What happens to the turn, for the docs."""
        usual = {
            "again": "asks again and goes on; nothing of the failed try stays",
            "error": "ends; what was done stays",
            "fine": "goes on",
        }
        return self.happens or usual[self.then]

    @property
    def stop_reason(self) -> str:
        return self.stop or ("error" if self.then == "error" else "end")


def _server_away(event: Event, server: Hostile) -> None:
    if isinstance(event, ToolStarted):
        server.go_away()
    if isinstance(event, Retrying):
        server.come_back()


def _broke(fault: str, answer: Callable[[Wire], list[Step]], sees: str, **more: Any) -> Case:
    """A fault that passes."""
    return Case(fault, lambda w: [answer(w)], "again", sees, **more)


def _harmless(fault: str, answer: Callable[[Wire], list[Step]], **more: Any) -> Case:
    return Case(fault, lambda w: [answer(w)], "fine", **more)


def _refused(fault: str, answer: Callable[[Wire], list[Step]], sees: str, **more: Any) -> Case:
    return Case(fault, lambda w: [answer(w)], "error", sees, **more)


def _calls(fault: str, answer: Callable[[Wire], list[Step]], *tools: str, **more: Any) -> Case:
    """A reply with odd tool calls, and then the answer."""
    return Case(
        fault,
        lambda w: [answer(w), w.good(SAID)],
        "fine",
        texts=("", SAID),
        tools=("a", *tools),
        **more,
    )


def _raw(w: Wire, *pieces: bytes, kind: str = "text/event-stream") -> list[Step]:
    """A chunked answer with `pieces` word for word."""
    return w.stream(*pieces, kind=kind)


def _bytes(w: Wire, text: str = SAID) -> bytes:
    return b"".join(w.whole(text))


def _head(w: Wire) -> bytes:
    return w.head(("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))


BROKE = "broke off"
CUT = "ended without a stop reason"
LATE = "did not answer in time"
GARBLED = "not valid JSON"

CONNECTION = [
    Case(
        "The connection is refused.",
        lambda w: [],
        "again",
        "cannot be reached",
        on=_server_away,
    ),
    _broke("The connection is reset before the headers.", lambda w: [RESET], BROKE),
    _broke("The connection is closed before the headers.", lambda w: [CLOSE], BROKE),
    _broke(
        "The connection is closed amid the headers.",
        lambda w: [b"HTTP/1.1 200 OK\r\ncontent-ty", CLOSE],
        BROKE,
    ),
    _broke("Something that is not HTTP answers.", lambda w: [b"SSH-2.0-x\r\n\r\n", CLOSE], BROKE),
    _broke("The connection is closed after the headers.", lambda w: [_head(w), CLOSE], BROKE),
    _broke(
        "The connection is closed amid the words.",
        lambda w: w.stream(*w.text(HALF), CLOSE),
        BROKE,
    ),
    _broke(
        "The connection is reset amid the words.",
        lambda w: w.stream(*w.text(HALF), 0.1, RESET),
        BROKE,
    ),
    _broke(
        "The connection is closed amid a tool call's arguments.",
        lambda w: w.stream(*w.call(Call("note", '{"wor')), CLOSE),
        BROKE,
    ),
    _broke(
        "The connection is closed after a whole tool call.",
        lambda w: w.stream(*w.call(B), CLOSE),
        BROKE,
    ),
    _broke(
        "The connection is closed amid a chunk.",
        lambda w: [_head(w), chunk(_bytes(w, HALF))[:60], CLOSE],
        BROKE,
    ),
    _broke("The chunked encoding is broken.", lambda w: [_head(w), b"zz\r\nx\r\n", CLOSE], BROKE),
    _broke(
        "The body is shorter than its length.",
        lambda w: [
            w.head(("content-type", "text/event-stream"), ("content-length", "99999")),
            b"".join(w.text(HALF)),
            CLOSE,
        ],
        BROKE,
    ),
    _harmless(
        "The body is whole, but shorter than its length.",
        lambda w: [
            w.head(("content-type", "text/event-stream"), ("content-length", "99999")),
            _bytes(w),
            CLOSE,
        ],
    ),
    _harmless("The last chunk is missing.", lambda w: w.stream(*w.whole(SAID), CLOSE)),
    _harmless(
        "The connection is reset after the reply.", lambda w: w.stream(*w.whole(SAID), 0.1, RESET)
    ),
    _harmless(
        "The body ends with the connection.",
        lambda w: [w.head(("content-type", "text/event-stream")), _bytes(w), CLOSE],
    ),
    _harmless(
        "An interim response comes first.",
        lambda w: [b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", *w.good(SAID)],
    ),
    _harmless(
        "The body is compressed.",
        lambda w: w.sized(
            gzip.compress(_bytes(w)),
            ("content-type", "text/event-stream"),
            ("content-encoding", "gzip"),
        ),
    ),
    _broke(
        "The body says that it is compressed, and is not.",
        lambda w: w.sized(
            _bytes(w), ("content-type", "text/event-stream"), ("content-encoding", "gzip")
        ),
        BROKE,
    ),
    Case(
        "The server redirects once.",
        lambda w: [w.sized("", ("location", w.path), status=307), w.good(SAID)],
        "fine",
    ),
    Case(
        "The server redirects for ever.",
        lambda w: [w.sized("", ("location", w.path), status=307)] * 21,
        "error",
        "redirects in a circle",
        happens="ends; what was done stays",
    ),
    _broke("The answer is 204, no content.", lambda w: [w.head(status=204)], CUT),
    _broke("The body is empty.", lambda w: w.sized("", ("content-type", "text/event-stream")), CUT),
]

SILENCE = [
    _broke("Silence before the headers.", lambda w: [60.0], LATE, timeout=SILENT),
    _broke("Silence amid the headers.", lambda w: [b"HTTP/1.1 200 O", 60.0], LATE, timeout=SILENT),
    _broke("Silence before the first event.", lambda w: [_head(w), 60.0], LATE, timeout=SILENT),
    _broke(
        "Silence amid the words.", lambda w: w.stream(*w.text(HALF), 60.0), LATE, timeout=SILENT
    ),
    _broke(
        "Silence amid a tool call's arguments.",
        lambda w: w.stream(*w.call(Call("note", '{"wor')), 60.0),
        LATE,
        timeout=SILENT,
    ),
    _broke(
        "Silence before the stop reason.",
        lambda w: w.stream(*w.parts_of(SAID)[0], 60.0),
        LATE,
        timeout=SILENT,
    ),
    _broke(
        "Silence between the stop reason and `message_stop`.",
        lambda w: w.stream(*w.whole(SAID)[:-1], 60.0),
        LATE,
        timeout=SILENT,
        only="anthropic",
    ),
    _harmless(
        "Silence between the finish reason and the usage.",
        lambda w: w.stream(*w.whole(SAID)[:-2], 60.0),
        timeout=1.0,
        only="openai",
    ),
    _harmless(
        "Silence before `[DONE]`.",
        lambda w: w.stream(*w.whole(SAID)[:-1], 60.0),
        timeout=1.0,
        only="openai",
    ),
    _harmless("Silence after the reply.", lambda w: w.stream(*w.whole(SAID), 60.0, last=False)),
    _harmless(
        "The reply drips, byte by byte.",
        lambda w: [_head(w), *drip(chunk(_bytes(w)[:150]), 0.01), chunk(_bytes(w)[150:]), LAST],
        timeout=1.0,
    ),
    _harmless(
        "Keep-alives between the words, for longer than the time-out.",
        lambda w: w.stream(*w.text(HALF), *[b": ping\n\n", 0.3] * 5, *w.rest("one.")),
        timeout=1.0,
    ),
]


def _completion(w: Wire, *calls: Call) -> str:
    """A reply in one piece."""
    text = "" if calls else SAID
    uses = [json.loads(str(call.arguments)) for call in calls]
    blocks = [{"type": "text", "text": text}] if text else []
    inputs = [
        {"type": "tool_use", "id": f"w{n}", "name": "note", "input": use}
        for n, use in enumerate(uses)
    ]
    functions = [
        {"id": f"w{n}", "type": "function", "function": {"name": "note", "arguments": c.arguments}}
        for n, c in enumerate(calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = functions
    body = w.pick(
        anthropic={
            "type": "message",
            "role": "assistant",
            "content": [*blocks, *inputs],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        },
        openai={
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        },
    )
    return json.dumps(body)


PAGE = "<!DOCTYPE html>\n<html><body>Sign in</body></html>"
STREAM = ("content-type", "text/event-stream")
NO_STREAM = [
    _broke(
        "A web page with status 200.",
        lambda w: w.sized(PAGE, ("content-type", "text/html")),
        "a web page instead of a reply",
    ),
    _broke(
        "A web page with the content type of a stream.",
        lambda w: w.sized(PAGE, STREAM),
        "a web page instead of a reply",
    ),
    _broke(
        "Other JSON with status 200.", lambda w: w.sized('{"ok": true}'), "something else instead"
    ),
    _broke("JSON that breaks off.", lambda w: w.sized('{"choices": [{"mess'), "something else"),
    _broke("Other text with status 200.", lambda w: w.sized("upstream reset", STREAM), CUT),
    _harmless("The reply comes whole instead of streamed.", lambda w: w.sized(_completion(w))),
    _calls(
        "A tool call comes whole instead of streamed.", lambda w: w.sized(_completion(w, B)), "b"
    ),
    _broke(
        "An overload error in JSON, with status 200.",
        lambda w: w.sized('{"error": {"type": "overloaded_error", "message": "Busy"}}'),
        "529: Busy",
    ),
    _refused(
        "A refusal in JSON, with status 200.",
        lambda w: w.sized('{"error": {"type": "invalid_request_error", "message": "Bad"}}'),
        "400: Bad",
    ),
]


def _delta(w: Wire, text: str) -> bytes:
    """One more piece of the text that is open."""
    return w.event(
        w.pick(
            anthropic={
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            },
            openai={"choices": [{"index": 0, "delta": {"content": text}}]},
        )
    )


def _unmarked(w: Wire) -> list[Step]:
    """Anthropic's events without names and indices, OpenAI's chunks without an index."""
    bare = []
    for event in w.whole(SAID):
        _, _, data = event.decode().strip().rpartition("data: ")
        if data != "[DONE]":
            value = json.loads(data)
            value.pop("index", None)
            for choice in value.get("choices", []):
                choice.pop("index")
            data = json.dumps(value)
        bare.append(f"data: {data}\n\n".encode())
    return w.stream(*bare)


def _several_lines(w: Wire) -> list[Step]:
    return w.stream(*(event.replace(b', "', b',\ndata:  "') for event in w.whole(SAID)))


def _two_stops(w: Wire) -> list[Step]:
    end = w.end()
    again = w.pick(anthropic=[*end[:-1], *end], openai=[end[0], *end])
    return w.stream(*w.parts_of(SAID)[0], *again)


def _nulls(w: Wire) -> list[Step]:
    nulls = w.pick(
        anthropic=[
            {"type": "content_block_delta", "index": 0, "delta": None},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": None},
            },
            {"type": "message_delta", "delta": None, "usage": None},
        ],
        openai=[
            {"choices": None, "usage": None},
            {"choices": []},
            {"choices": [None]},
            {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
            {"choices": [{"delta": {"content": None, "tool_calls": None, "refusal": None}}]},
        ],
    )
    content, end = w.parts_of(SAID)
    return w.stream(*content, *map(w.event, nulls), b"data: null\n\n", *end)


def _without_usage(w: Wire, usage: Any = None) -> list[Step]:
    end = w.pick(
        anthropic=[
            w.event(
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}} | (usage or {})
            ),
            w.event({"type": "message_stop"}),
        ],
        openai=[
            w.event({"choices": [{"delta": {}, "finish_reason": "stop"}]} | (usage or {})),
            *w.done,
        ],
    )
    return w.stream(*w.parts_of(SAID)[0], *end)


FORM = [
    _harmless("A byte order mark at the start.", lambda w: _raw(w, b"\xef\xbb\xbf" + _bytes(w))),
    _harmless(
        "A byte order mark in pieces.",
        lambda w: _raw(w, b"\xef", b"\xbb", b"\xbf" + _bytes(w)),
    ),
    _harmless("Lines that end in CRLF.", lambda w: _raw(w, _bytes(w).replace(b"\n", b"\r\n"))),
    _harmless("Lines that end in CR.", lambda w: _raw(w, _bytes(w).replace(b"\n", b"\r"))),
    _harmless(
        "A CRLF that is cut in two.",
        lambda w: _raw(w, *(p for e in w.whole(SAID) for p in (e[:-2] + b"\r\n\r", b"\n"))),
    ),
    _harmless(
        "Comments, ids and retry fields.",
        lambda w: w.stream(b": hello\n\nid: 7\nretry: 10\n\n", *w.whole(SAID)),
    ),
    _harmless(
        "Pings with a name.",
        lambda w: w.stream(b'event: ping\ndata: {"type": "ping"}\n\n', *w.whole(SAID)),
    ),
    _harmless(
        "Unknown events.",
        lambda w: w.stream(
            b'event: brand_new\ndata: {"type": "brand_new", "x": [1]}\n\n', *w.whole(SAID)
        ),
    ),
    _harmless("Events without a name, and no indices.", _unmarked),
    _harmless("Events whose data is on several lines.", _several_lines),
    _harmless(
        "No space after the colons.",
        lambda w: w.stream(*(e.replace(b"data: ", b"data:") for e in w.whole(SAID))),
    ),
    _harmless(
        "The content type is plain text.", lambda w: w.stream(*w.whole(SAID), kind="text/plain")
    ),
    _harmless(
        "Each byte comes in a chunk of its own.",
        lambda w: _raw(w, *(bytes([byte]) for byte in _bytes(w, "Größe: 日本 😀"))),
        texts=("Größe: 日本 😀",),
    ),
    _harmless("No `[DONE]`.", lambda w: w.stream(*w.whole(SAID)[:-1]), only="openai"),
    _harmless(
        "An unexpected `[DONE]`.",
        lambda w: w.stream(*w.whole(SAID), b"data: [DONE]\n\n"),
        only="anthropic",
    ),
    _harmless("Words after the end.", lambda w: w.stream(*w.whole(SAID), _delta(w, " Not this."))),
    _harmless(
        "A second choice.",
        lambda w: w.stream(
            *w.text("All "),
            w.event({"choices": [{"index": 1, "delta": {"content": "Other."}}]}),
            *w.rest("done."),
        ),
        only="openai",
    ),
    _harmless(
        "Blocks that were never started.",
        lambda w: w.stream(
            *(event for event in w.whole(SAID) if b"content_block_start" not in event)
        ),
        only="anthropic",
    ),
    _harmless(
        "Words in parts.",
        lambda w: w.stream(
            w.event({"choices": [{"delta": {"content": [{"type": "text", "text": SAID}]}}]}),
            *w.end(),
        ),
        only="openai",
    ),
    _harmless("Two stop reasons.", _two_stops),
    _harmless("No usage.", _without_usage),
    _harmless("A usage that is null.", lambda w: _without_usage(w, {"usage": None})),
    _harmless("Null in every field that may be null.", _nulls),
    _broke(
        "A chunk that is not JSON.", lambda w: _raw(w, *w.text(HALF), b"data: {oops\n\n"), GARBLED
    ),
    _broke(
        "An event that is cut in two by the end.",
        lambda w: _raw(w, *w.text(HALF), _delta(w, "one.")[:-20]),
        CUT,
    ),
    _broke(
        "Bytes that are not UTF-8.",
        lambda w: _raw(w, *w.text(HALF), _delta(w, "x").replace(b'"x"', b'"\xff"')),
        "",
    ),
    _broke("The stream ends without a stop reason.", lambda w: w.stream(*w.text(HALF)), CUT),
    _broke(
        "The stream ends after a whole tool call, without a stop reason.",
        lambda w: w.stream(*w.call(B)),
        CUT,
    ),
    _broke("The stream ends before its first word.", lambda w: w.stream(b": hello\n\n"), CUT),
    _broke(
        "The finish reason says that the reply broke off.",
        lambda w: w.stream(
            *w.text(HALF), w.event({"choices": [{"delta": {}, "finish_reason": "error"}]}), *w.done
        ),
        CUT,
        only="openai",
    ),
]

ODD = "a\x00b <|endoftext|> \u202e \x1b[31m"
CONTENT = [
    _harmless(
        "Half characters.",
        lambda w: w.stream(*w.text("x\ud800"), *w.rest("y")),
        texts=("x\ufffdy",),
    ),
    _harmless(
        "A character in two halves.",
        lambda w: w.stream(*w.text("x\ud83d"), *w.rest("\ude00y")),
        texts=("x😀y",),
    ),
    _harmless("NUL, control characters, special tokens.", lambda w: w.good(ODD), texts=(ODD,)),
    _harmless(
        "A million characters in one piece.",
        lambda w: w.good("x" * 1_000_000),
        texts=("x" * 1_000_000,),
    ),
    _harmless(
        "100,000 tiny pieces.",
        lambda w: w.stream(
            *w.text("x"), b"".join(_delta(w, "x") for _ in range(99_999)), *w.rest("")
        ),
        texts=("x" * 100_000,),
    ),
    Case(
        "An empty reply.",
        lambda w: [w.good("", stop="end")],
        "fine",
        texts=("",),
        happens="ends and says that there is no answer",
    ),
    _harmless(
        "The token limit cuts off the words.",
        lambda w: w.good("All d", stop="max_tokens"),
        texts=("All d",),
        sees="cut off at its token limit",
        happens="ends with the partial reply, and says so",
    ),
    _harmless(
        "The model refuses.",
        lambda w: w.good("No.", stop="refused"),
        texts=("No.",),
        stop="refused",
        sees="refused to go on",
        happens="ends as refused",
    ),
]


def _ids(first: str | None, second: str | None) -> Callable[[Wire], list[Step]]:
    def answer(w: Wire) -> list[Step]:
        calls = [Call("note", B.arguments, first), Call("note", C.arguments, second)]
        return w.good("", calls)

    return answer


def _no_ids(w: Wire) -> list[Step]:
    events = w.whole("", [Call("note", B.arguments, "gone")])
    return w.stream(*(event.replace(b'"id": "gone", ', b"") for event in events))


def _late_text(w: Wire) -> list[Step]:
    """A text block after the calls."""
    content, end = w.parts_of("", [B])
    late = w.pick(
        anthropic=[
            w.event(
                {
                    "type": "content_block_start",
                    "index": 1,
                    "content_block": {"type": "text", "text": ""},
                }
            ),
            _delta(w, "Noting.").replace(b'"index": 0', b'"index": 1'),
        ],
        openai=[_delta(w, "Noting.")],
    )
    return w.stream(*content, *late, *end)


def _written(arguments: str | tuple[str, ...]) -> Callable[[Wire], list[Step]]:
    return lambda w: w.good("", [Call("note", arguments)])


TOLD = "tells the model and goes on"
CALLS = [
    _calls("Tool calls without ids.", _no_ids, "b"),
    _calls("Empty ids.", _ids("", ""), "b", "c"),
    _calls("The same id twice.", _ids("x", "x"), "b", "c"),
    _calls("The id of an earlier call.", _ids("call_1", "call_9"), "b", "c"),
    _calls("Half a character in an id.", _ids("x\ud800", "y"), "b", "c"),
    _calls(
        "Arguments in pieces that cut characters.",
        lambda w: _raw(
            w,
            *(
                data[n : n + 3]
                for data in [
                    b"".join(w.whole("", [Call("note", '{"word": "日😀"}')])).replace(
                        b"\\u65e5\\ud83d\\ude00", "日😀".encode()
                    )
                ]
                for n in range(0, len(data), 3)
            ),
        ),
        "日😀",
    ),
    _calls("A half character in arguments.", _written(('{"word": "x\ud800', '"}')), "x\ufffd"),
    _calls(
        "A half character in arguments, escaped.", _written('{"word": "x\\ud800"}'), happens=TOLD
    ),
    _calls("Arguments that are empty.", _written(""), "?"),
    _calls("Arguments that are not JSON.", _written("word=b"), happens=TOLD),
    _calls("Arguments that break off.", _written('{"word": "b'), happens=TOLD),
    _calls("Arguments that are null.", _written("null"), happens=TOLD),
    _calls("Arguments that are a list.", _written('["b"]'), happens=TOLD),
    _calls("Arguments that are a text.", _written('"b"'), happens=TOLD),
    _calls("Arguments that the tool does not have.", _written('{"wort": "b"}'), happens=TOLD),
    _calls(
        "A tool that does not exist.",
        lambda w: w.good("", [Call("no_such", "{}")]),
        happens=TOLD,
        unknown=("no_such",),
    ),
    _calls(
        "A tool name that is empty.",
        lambda w: w.good("", [Call("", "{}")]),
        happens=TOLD,
        unknown=("unnamed",),
    ),
    _calls(
        "A tool name that no API accepts.",
        lambda w: w.good("", [Call("a b\ud800!", "{}")]),
        happens=TOLD,
        unknown=("a_b__",),
    ),
    Case(
        "Words after a tool call.",
        lambda w: [_late_text(w), w.good(SAID)],
        "fine",
        texts=("Noting.", SAID),
        tools=("a", "b"),
    ),
    _calls(
        "Tool calls with the stop reason of an answer.",
        lambda w: w.good("", [B], stop="end"),
        "b",
    ),
    _calls(
        "The token limit cuts off a tool call.",
        lambda w: w.good("", [B, Call("note", '{"word": "c')], stop="max_tokens"),
        "b",
        sees="cut off at its token limit",
        happens="runs the whole calls, tells the model of the last one and goes on",
    ),
    _calls(
        "The token limit cuts off a tool call that looks whole.",
        lambda w: w.good("", [B], stop="max_tokens"),
        sees="cut off at its token limit",
        happens="does not run it, tells the model and goes on",
    ),
    Case(
        "A refusal with tool calls in it.",
        lambda w: [w.good("No.", [B], stop="refused")],
        "fine",
        texts=("No.",),
        stop="refused",
        sees="refused to go on",
        happens="ends as refused; the calls are not run",
    ),
]


SHORTENED = "is shortened and asked once more; where nothing can be shortened it ends"


def _event(body: object, *before: str) -> Callable[[Wire], list[Step]]:
    return lambda w: w.stream(*(e for text in before for e in w.text(text)), w.error(body))


def _kind(kind: str, message: str = "Busy", **more: Any) -> dict[str, Any]:
    return {"type": kind, "message": message, **more}


IN_THE_STREAM = [
    _broke("Overload, before the first word.", _event(_kind("overloaded_error")), "529: Busy"),
    _broke("Overload, amid the words.", _event(_kind("overloaded_error"), HALF), "529: Busy"),
    _broke("Rate limit, amid the words.", _event(_kind("rate_limit_error"), HALF), "429: Busy"),
    _broke("Server error, amid the words.", _event(_kind("api_error"), HALF), "500: Busy"),
    _broke("An error of an unknown kind.", _event(_kind("brand_new"), HALF), "Busy"),
    _broke("An error that is only a text.", _event("Busy", HALF), "Busy"),
    _broke(
        "An error code that is a number.", _event({"message": "Busy", "code": 502}, HALF), "502"
    ),
    _broke(
        "An error code that is a number in a text.",
        _event({"message": "Busy", "code": "503"}),
        "503",
    ),
    _broke(
        "An error object beside the choices.",
        lambda w: w.stream(
            *w.text(HALF),
            w.event(
                {
                    "error": {"code": 502, "message": "Busy"},
                    "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
                }
            ),
            *w.done,
        ),
        "502: Busy",
        only="openai",
    ),
    _broke(
        "An event that is named an error.",
        lambda w: w.stream(
            *w.text(HALF), b'event: error\ndata: {"message": "Busy", "code": 503}\n\n'
        ),
        "Busy",
    ),
    _refused(
        "Invalid request, amid the words.",
        _event(_kind("invalid_request_error", "Bad"), HALF),
        "400: Bad",
        texts=(HALF,),
    ),
    _refused(
        "A wrong key, reported in the stream.", _event(_kind("authentication_error", "Bad")), "401"
    ),
    _refused(
        "A used-up quota, reported in the stream.",
        _event(_kind("billing_error", "Pay", code="insufficient_quota")),
        "The quota is used up",
    ),
    _refused(
        "A conversation that is too long, reported in the stream.",
        _event(_kind("invalid_request_error", "prompt is too long")),
        "too long",
        happens=SHORTENED,
    ),
]

STATUSES = [
    *(
        _broke(f"Status {status}.", lambda w, s=status: w.failed(s, "Busy"), f"{status}: Busy")
        for status in (408, 409, 429, 500, 502, 503, 504, 529)
    ),
    *(
        _refused(f"Status {status}.", lambda w, s=status: w.failed(s, "Bad"), f"{status}: Bad")
        for status in (400, 401, 402, 403, 404, 418, 422)
    ),
    _refused(
        "Status 413.",
        lambda w: w.failed(413, "Bad"),
        "too long",
        happens=SHORTENED,
    ),
    _refused(
        "Status 429, and the quota is used up.",
        lambda w: w.sized(
            '{"error": {"code": "insufficient_quota", "message": "Pay"}}', status=429
        ),
        "The quota is used up",
    ),
    _broke(
        "Status 500 with a body of a thousand levels.",
        lambda w: w.sized('{"error": ' * 900 + "1" + "}" * 900, status=500),
        "500",
    ),
    _broke("Status 502 with a web page.", lambda w: w.sized(PAGE, status=502), "502: bad gateway"),
    _broke(
        "Status 503 without a body.", lambda w: w.sized("", status=503), "503: service unavailable"
    ),
    _broke(
        "Status 503 whose body breaks off.",
        lambda w: [w.head(("content-length", "999"), status=503), b'{"error"', CLOSE],
        "",
    ),
    _refused("Status 304.", lambda w: [w.head(status=304)], "304"),
]


def _after(value: Callable[[], str], name: str = "retry_after") -> Callable[[Wire], list[Step]]:
    return lambda w: w.failed(429, "Slow", **{name: value()})


OWN = (0.01, 0.02)
RETRY_AFTER = [
    _broke("`Retry-After: 0`.", _after(lambda: "0"), "429", waits=(0, 0), happens="waits 0 s"),
    _broke("`Retry-After: 1`.", _after(lambda: "1"), "429", waits=(1, 1), happens="waits 1 s"),
    _broke(
        "`Retry-After: 0.3`.", _after(lambda: "0.3"), "429", waits=(0.3, 0.3), happens="waits 0.3 s"
    ),
    _broke(
        "`Retry-After` with a date.",
        _after(lambda: formatdate(time.time() + 2, usegmt=True)),
        "429",
        waits=(0, 2),
        happens="waits until then",
    ),
    _broke(
        "`Retry-After` with a past date.",
        _after(lambda: formatdate(time.time() - 90, usegmt=True)),
        "429",
        waits=(0, 0),
        happens="waits 0 s",
    ),
    *(
        _broke(
            f"`Retry-After: {value}`.",
            _after(lambda v=value: v),
            "429",
            waits=OWN,
            happens="waits as long as without it",
        )
        for value in ("-5", "soon", "nan", "inf", "99 Foo 9999")
    ),
    _broke(
        "`retry-after-ms: 150`.",
        _after(lambda: "150", "retry_after_ms"),
        "429",
        waits=(0.15, 0.15),
        happens="waits 0.15 s",
    ),
    *(
        _refused(f"`Retry-After: {value}`.", _after(lambda v=value: v), f"asks to wait {words}")
        for value, words in (("3600", "3600 s"), ("1e300", "more than a day"))
    ),
]


def _with_retries(retries: int, *given: Any, **more: Any) -> Case:
    return Case(*given, **more, retries=retries)


TRIES = [
    _with_retries(
        3,
        "Status 503, each time.",
        lambda w: [w.failed(503, "Busy")] * 4,
        "error",
        "Gave up after 4 attempts",
        happens="ends; what was done stays",
    ),
    _with_retries(
        3,
        "The connection is closed amid the words, each time.",
        lambda w: [w.stream(*w.text(HALF), CLOSE)] * 4,
        "error",
        "Gave up after 4 attempts",
        happens="ends; what was done stays",
        texts=(HALF,),
    ),
    _with_retries(
        3,
        "A different fault each time, three times.",
        lambda w: [w.failed(529, "Busy"), [RESET], w.stream(*w.text(HALF))],
        "again",
        "529",
        happens="asks again and goes on; nothing of the failed tries stays",
    ),
    _with_retries(
        1,
        "Status 503 and then 401.",
        lambda w: [w.failed(503, "Busy"), w.failed(401, "Bad")],
        "error",
        "401",
        happens="ends; what was done stays",
    ),
    Case(
        "Status 503, with `retry.enabled: false`.",
        lambda w: [w.failed(503, "Busy")],
        "error",
        "503: Busy",
        policy=RetryPolicy(enabled=False),
        happens="ends; what was done stays",
    ),
    Case(
        "The words break off, with `retry.enabled: false`.",
        lambda w: [w.stream(*w.text(HALF), CLOSE)],
        "error",
        BROKE,
        policy=RetryPolicy(enabled=False),
        happens="ends; what was done stays",
        texts=(HALF,),
    ),
]

GROUPS = {
    "Connection": CONNECTION,
    "Silence": SILENCE,
    "Replies that are not a stream": NO_STREAM,
    "The form of the stream": FORM,
    "Content of the reply": CONTENT,
    "Tool calls": CALLS,
    "Errors in a stream with status 200": IN_THE_STREAM,
    "Statuses": STATUSES,
    "Waits that a server asks for": RETRY_AFTER,
    "Repeated faults": TRIES,
}


def cases() -> Iterator[tuple[str, Case]]:
    """Each case with each of its formats."""
    for group in GROUPS.values():
        for case in group:
            for kind in [case.only] if case.only else ["anthropic", "openai"]:
                yield kind, case
