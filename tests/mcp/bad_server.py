"""A server that does one thing wrong, by hand over stdio: `bad_server.py FAULT [ARGUMENT]`.

hang          never answers, and ignores SIGTERM and the end of its stdin
start_crash   writes to stderr and ends
lies          offers tools with impossible schemas beside a good one
noise         writes what is not UTF-8, not JSON and not MCP to its stdout between answers
flood         writes to its stderr without end
listless      says nothing when it is asked for its tools
endless       answers a call with a line that does not end
refuses       answers a call with an error that quotes data
children      starts a process of its own that does not end, and writes its id to ARGUMENT
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

GOOD: dict[str, Any] = {
    "name": "good",
    "description": "Works.",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}},
}
RECURSIVE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
LIES: list[Any] = [
    GOOD,
    {"name": "not_an_object", "inputSchema": {"type": "string"}},
    {"name": "no_schema"},
    {"name": "text_schema", "inputSchema": "object"},
    {"name": "recursive", "inputSchema": RECURSIVE},
    {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 100_000}},
    {"name": "invalid", "inputSchema": {"type": "object", "properties": {"a": {"type": "nix"}}}},
    {"name": "remote", "inputSchema": {"type": "object", "$ref": "http://evil.invalid/s.json"}},
    {"name": "no/valid name \u202e!", "inputSchema": {"type": "object"}},
    {"name": "no_valid name _!", "inputSchema": {"type": "object"}},
    {"name": "n" * 200, "description": 7, "inputSchema": {"type": "object"}},
    {"description": "no name", "inputSchema": {"type": "object"}},
    "not a tool",
]


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], fault: str) -> Any:
    method = request["method"]
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bad", "version": "0"},
        }
    if method == "tools/list":
        return {"tools": LIES if fault == "lies" else [GOOD]}
    if fault == "lies":
        return {"content": "this is no list of blocks"}
    return {"content": [{"type": "text", "text": "still here"}]}


def noise() -> None:
    sys.stdout.buffer.write(b"\xff\xfe\x80 not utf-8\n{not json\n[1, 2]\n\n")
    sys.stdout.buffer.flush()


def flood() -> None:
    while True:
        os.write(2, b"x" * 4_096 + b"\n")


def hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


def main() -> None:
    fault = sys.argv[1]
    if fault == "hang":
        hang()
    if fault == "start_crash":
        sys.exit("config.toml is missing")
    if fault == "flood":
        threading.Thread(target=flood, daemon=True).start()
    if fault == "children":
        child = subprocess.Popen([sys.executable, __file__, "hang"], stdin=subprocess.DEVNULL)
        Path(sys.argv[2]).write_text(str(child.pid), encoding="utf-8")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or (fault == "listless" and request["method"] == "tools/list"):
            continue
        if fault == "noise":
            noise()
        while fault == "endless" and request["method"] == "tools/call":
            sys.stdout.write("x" * 1_000_000)
        outcome: dict[str, Any] = {"result": answer(request, fault)}
        if fault == "refuses" and request["method"] == "tools/call":
            outcome = {"error": {"code": -32000, "message": "no row for Ada Lovelace"}}
        send({"jsonrpc": "2.0", "id": request["id"], **outcome})


if __name__ == "__main__":
    main()
