"""smolagents' CodeAgent, asked line by line.

    python -m evals.smolagents_worker FOLDER...

The folders of packages are looked at after those of its own environment.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from smolagents import CodeAgent, LogLevel, OpenAIModel

from benchmarks.line import serve
from evals.blocks import with_value
from evals.variables import data, described


def turn(request: dict[str, Any]) -> dict[str, Any]:
    """One attempt, with the fields of `evals.tasks.Attempt`."""
    os.chdir(request["folder"])
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for code in request["setup"]:
            exec(compile(code, "setup", "exec"), namespace)
    except Exception as error:  # whatever the task's own code raises
        return {"setup": f"{type(error).__name__}: {error}"}
    options = {} if request["temperature"] is None else {"temperature": request["temperature"]}
    model = OpenAIModel(
        request["model"],
        api_base=request["base"] or None,
        api_key=request["key"],
        max_tokens=request["reply_tokens"],
        **options,
    )
    agent = CodeAgent(
        tools=[],
        model=model,
        additional_authorized_imports=["*"],
        max_steps=request["steps"],
        verbosity_level=LogLevel.OFF,
    )
    text = f"{request['text']}\n\nVariables:\n{described(namespace)}"
    began, answer, failure = time.monotonic(), "", ""
    try:
        answer = str(agent.run(text, additional_args=data(namespace)))
    except Exception as error:  # the model's, or smolagents' own
        failure = f"{type(error).__name__}: {error}"[:300]
    seconds = time.monotonic() - began
    steps = [step for step in agent.memory.steps if hasattr(step, "code_action")]
    if steps and steps[-1].error:
        failure = failure or str(steps[-1].error)[:300]
    codes = [step.code_action for step in steps if step.code_action and not step.error]
    used = agent.monitor.get_total_token_counts()
    return {
        "answer": answer,
        "code": "\n".join(map(with_value, codes)),
        "ran": bool(codes),
        "calls": len(steps),
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "seconds": seconds,
        "failure": failure,
    }


if __name__ == "__main__":
    sys.path.extend(sys.argv[1:])
    os.environ["MPLBACKEND"] = "Agg"
    serve(turn)
