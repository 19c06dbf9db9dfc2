"""A kernel whose own model server runs a piece of code in it, beside a server of somebody else."""

from __future__ import annotations

import json
from pathlib import Path

from live_kernel import Cell, Json, LiveKernel
from model_server import Call, ModelServer, Reply

KEY = "own-key-0123456789"
TELLS = "does not count until you say so"


def environ(own: ModelServer, **more: str) -> dict[str, str | None]:
    """The person's key and server; approvals as they are by default."""
    mine = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": own.openai_url}
    return {**mine, "JUPYTER_AGENT_APPROVALS__MODE": None, **more}


def asked_and_answered(kernel: LiveKernel, command: str, answer: str) -> Cell:
    """A command that asks by a line of input, and the person's answer."""
    running = kernel.start(command, allow_stdin=True)
    running.question()
    running.type(answer)
    return running.finish()


class Steered:
    """A kernel whose own model runs `code` once, then answers "Mine."; and a server elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.code = ""
        self.theirs = ModelServer([])
        self.own = ModelServer(self._reply)
        allowed = {"JUPYTER_AGENT_APPROVALS__MODE": "auto"}
        self.kernel = LiveKernel(folder, {**environ(self.own), **allowed})

    def stays_at_home(self, code: str) -> None:
        """Code that redirects the next turn: one line says so, and that turn stays at home."""
        self.code = code.format(url=self.theirs.openai_url)
        first = self.kernel.run("%%agent\nGo.")
        assert first.transcript.count(TELLS) == 1, first.transcript
        second = self.kernel.run("%%agent\nAnd now?")
        assert "Mine." in str(second.outputs) and not self.theirs.requests
        assert TELLS not in second.transcript
        assert not self.code

    def _reply(self, body: Json) -> Reply:
        code, self.code = self.code, ""
        if not code:
            return Reply("Mine.")
        return Reply("", (Call("execute_code", json.dumps({"code": code})),))
