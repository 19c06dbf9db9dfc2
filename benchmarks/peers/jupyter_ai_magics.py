"""jupyter-ai-magics: its `%%ai` cell. It asks once, without tools."""

from __future__ import annotations

import os
import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from benchmarks import chain
from benchmarks.line import serve

SHELL = InteractiveShell.instance()


def turn(request: dict[str, Any]) -> dict[str, Any]:
    os.environ["OPENAI_API_BASE"] = f"{request['base']}/v1"
    began = time.perf_counter()
    answer = SHELL.run_cell_magic("ai", "openai-chat-custom:model", chain.TASK)
    return {"seconds": time.perf_counter() - began, "answer": str(answer)[:200]}


if __name__ == "__main__":
    SHELL.run_line_magic("load_ext", "jupyter_ai_magics")
    serve(turn)
