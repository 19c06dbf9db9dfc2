"""A server that misbehaves below HTTP and inside of it: raw sockets, byte by byte.

    wire = Wire("anthropic")
    script = [wire.good("Looking.", [Call("note", '{"word": "a"}')]), [wire.head(), RESET]]
    with Hostile(script) as server:
        ...

An answer is a list of steps: bytes to send, a pause in seconds, or an end of the connection.
After an answer without an end the connection stays open for the next request.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count, takewhile
from typing import Any, Literal

from model_server import Call, Fault, Recorded, Reply, events

CLOSE: Literal["close"] = "close"
RESET: Literal["reset"] = "reset"

Step = bytes | float | Literal["close", "reset"]
Answer = Sequence[Step]
Answers = Callable[["Wire"], list[Answer]]

LAST = b"0\r\n\r\n"


class Wire:
    """One of the two formats: makes the bytes of replies, whole and in parts.

    Attributes:
        kind: `anthropic` or `openai`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._numbers = count(1)

    def next_id(self) -> str:
        return f"call_{next(self._numbers)}"

    # Events

    def parts(self, reply: Reply) -> tuple[list[bytes], list[bytes]]:
        """The events of a reply's content, and those of its end."""
        marked = Reply(**{**vars(reply), "fault": Fault("cut")})
        made = iter(events(self.kind, marked, self))
        content = [self.event(event) for event in takewhile(lambda e: "fault" not in e, made)]
        end = [self.event(event) for event in made]
        return content, [*end, *self.done]

    def text(self, text: str) -> list[bytes]:
        """The events of an unfinished reply, amid its words."""
        return _open(self.parts(Reply(text=text))[0])

    def call(self, *calls: Call) -> list[bytes]:
        """The same with calls."""
        return _open(self.parts(Reply(calls=calls))[0])

    def end(self, stop: Any = "end") -> list[bytes]:
        """The events that end a reply."""
        return self.parts(Reply(text="x", stop=stop))[1]

    def whole(self, text: str = "", calls: Iterable[Call] = (), stop: Any = None) -> list[bytes]:
        """All events of a reply."""
        content, end = self.parts(Reply(text=text or (), calls=tuple(calls), stop=stop))
        return [*content, *end]

    def parts_of(self, text: str, calls: Iterable[Call] = ()) -> tuple[list[bytes], list[bytes]]:
        """As `parts`."""
        return self.parts(Reply(text=text or (), calls=tuple(calls)))

    def rest(self, text: str) -> list[bytes]:
        """What follows `text` events: more words in the same block, and the end."""
        content, end = self.parts_of(text)
        if self.kind == "anthropic":
            return [e for e in content if b"content_block_delta" in e or b"block_stop" in e] + end
        return [*content[1:], *end]

    @property
    def path(self) -> str:
        """Where requests go."""
        return "/v1/messages" if self.kind == "anthropic" else "/v1/chat/completions"

    @property
    def done(self) -> list[bytes]:
        """What the format has after its last event."""
        return [] if self.kind == "anthropic" else [b"data: [DONE]\n\n"]

    def event(self, event: dict[str, Any]) -> bytes:
        name = f"event: {event.get('type')}\n" if self.kind == "anthropic" else ""
        return f"{name}data: {json.dumps(event)}\n\n".encode()

    def error(self, body: object) -> bytes:
        """An error event as the format has it."""
        if self.kind == "anthropic":
            return self.event({"type": "error", "error": body})
        return self.event({"error": body})

    def pick(self, *, anthropic: Any, openai: Any) -> Any:
        """What differs in the two formats."""
        return anthropic if self.kind == "anthropic" else openai

    # Answers

    def good(
        self, text: str = "", calls: Iterable[Call] = (), stop: Any = None, **options: Any
    ) -> list[Step]:
        """A reply with nothing wrong in it."""
        return self.stream(*self.whole(text, calls, stop), **options)

    def stream(
        self, *steps: Step, kind: str = "text/event-stream", last: bool = True
    ) -> list[Step]:
        """An answer with status 200 and a chunked body."""
        head = self.head(("content-type", kind), ("transfer-encoding", "chunked"))
        body = [chunk(step) if isinstance(step, bytes) else step for step in steps]
        ended = steps and steps[-1] in (CLOSE, RESET)
        return [head, *body, *([LAST] if last and not ended else [])]

    def sized(self, body: bytes | str, *headers: tuple[str, str], status: int = 200) -> list[Step]:
        """An answer with a length. The content type is JSON where the headers name none."""
        raw = body.encode() if isinstance(body, str) else body
        kind = () if any(n == "content-type" for n, _ in headers) else (JSON_TYPE,)
        size = ("content-length", str(len(raw)))
        return [self.head(*kind, *headers, size, status=status), raw]

    @staticmethod
    def head(*headers: tuple[str, str], status: int = 200) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f"HTTP/1.1 {status} Odd\r\n{lines}\r\n".encode()

    def failed(self, status: int, said: str = "no", **headers: str) -> list[Step]:
        """An HTTP error."""
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return self.sized(json.dumps({"error": {"message": said}}), *named, status=status)


def _open(events: list[bytes]) -> list[bytes]:
    """The events without the end of the last block."""
    return events[:-1] if b"content_block_stop" in events[-1] else events


JSON_TYPE = ("content-type", "application/json")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Hostile:
    """Answers requests in order with a script; beyond it, with status 400.

    Attributes:
        requests: What was asked, as it came.
        paused: Set when an answer pauses for long.
    hung_up: Set when a client left while an answer paused.
    """

    def __init__(self, script: Iterable[Answer]) -> None:
        self._script = iter(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self.requests: list[Recorded] = []
        self.hung_up = threading.Event()
        self.paused = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Hostile:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.go_away()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def go_away(self) -> None:
        """Stop listening: who connects is refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def come_back(self) -> None:
        """Listen on the same port again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.__enter__()

    def url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.port}" + ("" if kind == "anthropic" else "/v1")

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            reader = connection.makefile("rb")
            with reader:
                while self._answer(connection, reader):
                    pass
        self._connections.discard(connection)

    def _answer(self, connection: socket.socket, reader: Any) -> bool:
        """Take one request and answer it; says whether the connection stays."""
        line = reader.readline().decode()
        if not line:
            return False
        headers = dict(iter(lambda: _header(reader), ("", "")))
        raw = reader.read(int(headers.get("content-length", 0)))
        body = json.loads(raw) if raw else {}
        with self._lock:
            self.requests.append(Recorded(line.split(" ")[1], headers, body, raw))
            answer = next(self._script, None)
        answer = Wire.failed(Wire("openai"), 400, "no more replies") if answer is None else answer
        return all(self._take(connection, step) for step in answer)

    def _take(self, connection: socket.socket, step: Step) -> bool:
        if isinstance(step, bytes):
            connection.sendall(step)
            return True
        if isinstance(step, float):
            return self._pause(connection, step)
        if step == RESET:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        else:
            connection.shutdown(socket.SHUT_RDWR)
        return False

    def _pause(self, connection: socket.socket, seconds: float) -> bool:
        """Wait; says whether the client is still there."""
        end = time.monotonic() + seconds
        if seconds > 1:
            self.paused.set()
        while (left := end - time.monotonic()) > 0 and not self._closing.is_set():
            readable, _, _ = select.select([connection], [], [], min(left, 0.02))
            if readable and not connection.recv(1, socket.MSG_PEEK):
                self.hung_up.set()
                return False
        return not self._closing.is_set()


def _header(reader: Any) -> tuple[str, str]:
    name, _, value = reader.readline().decode().strip().partition(":")
    return name.lower(), value.strip()


def drip(data: bytes, seconds: float) -> list[Step]:
    """The bytes one by one."""
    return [step for number in range(len(data)) for step in (data[number : number + 1], seconds)]
