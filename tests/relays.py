"""What stands between a client and a server in a company: a proxy, and TLS with a CA of its own.

Both pass bytes on to a `ModelServer` and note who came by.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class Relay:
    """Accepts connections on a free local port, each in a thread of its own.

    Attributes:
        seen: The first line of each request that came by.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            self.relay(client)

    def relay(self, client: socket.socket) -> None:
        raise NotImplementedError


class Proxy(Relay):
    """An HTTP proxy: absolute addresses, and CONNECT for TLS. `password` is asked for if set."""

    def __init__(self, password: str = "") -> None:
        super().__init__()
        self._password = password

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def relay(self, client: socket.socket) -> None:
        head = _head(client)
        line, _, rest = head.partition(b"\r\n")
        self.seen.append(line.decode())
        if self._password and self._password.encode() not in rest:
            client.sendall(
                b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
            )
            return
        method, target, version = line.decode().split(" ")
        if method == "CONNECT":
            host, port = target.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _join(client, server)
            return
        address = urlsplit(target)
        path = target.split(address.netloc, 1)[1]
        with socket.create_connection((address.hostname or "", address.port or 80)) as server:
            # The next request on this connection would have to be looked at, too.
            rest = rest.replace(b"keep-alive", b"close")
            server.sendall(f"{method} {path} {version}\r\n".encode() + rest)
            _join(client, server)


class Tls(Relay):
    """TLS in front of a server on `port`."""

    def __init__(self, port: int, configure: Callable[[ssl.SSLContext], None]) -> None:
        super().__init__()
        self._server_port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        configure(self._context)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def relay(self, client: socket.socket) -> None:
        with (
            self._context.wrap_socket(client, server_side=True) as secured,
            socket.create_connection(("127.0.0.1", self._server_port)) as server,
        ):
            head = _head(secured)
            self.seen.append(head.partition(b"\r\n")[0].decode())
            server.sendall(head)
            _join(secured, server)


def _head(client: socket.socket) -> bytes:
    """Everything up to the end of the headers, and whatever came with them."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(65_536)
        if not data:
            raise OSError("the client hung up")
        head += data
    return head


def _join(one: socket.socket, other: socket.socket) -> None:
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
