"""mini-swe-agent: its DefaultAgent, which does not stream.

Its environment is its own, but for the command: it is run as Python in this process, since a
shell for each step would cost more than everything else.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"] = "1"
os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from benchmarks import chain
from benchmarks.line import serve


class InProcess(LocalEnvironment):
    """Runs a command as Python; `finish(…)` submits."""

    def __init__(self) -> None:
        super().__init__()
        self._namespace = chain.Namespace()

    def execute(self, action: dict[str, Any], cwd: str = "", **options: Any) -> dict[str, Any]:
        command = action["command"]
        shown = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n" + chain.ANSWER
        if not command.startswith("finish("):
            shown = self._namespace.run(command)
        output = {"output": shown, "returncode": 0, "exception_info": ""}
        self._check_finished(output)
        return output


def turn(kind: str, base: str) -> dict[str, Any]:
    address = base if kind == "anthropic" else f"{base}/v1"
    known = {"api_base": address, "api_key": "none"}
    model = LitellmModel(
        model_name=f"{kind}/model", model_kwargs=known, cost_tracking="ignore_errors"
    )
    agent = DefaultAgent(
        model,
        InProcess(),
        system_template=chain.SYSTEM,
        instance_template="{{task}}",
        cost_limit=0.0,
    )
    began = time.perf_counter()
    ended = agent.run(chain.TASK)
    return {"seconds": time.perf_counter() - began, "answer": ended["submission"]}


if __name__ == "__main__":
    serve(lambda request: turn(sys.argv[1], request["base"]))
