"""A server that is not Jupyter's: whoever asks it for something has loaded what they should not."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Elsewhere:
    """A server on another port that counts what is asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.add(self.path)
                self.send_response(200)
                self.send_header("content-type", "image/svg+xml")
                self.end_headers()
                self.wfile.write(b"<svg xmlns='http://www.w3.org/2000/svg'/>")

            def log_message(self, *arguments: object) -> None:
                """Nothing is logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
