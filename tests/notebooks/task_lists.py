"""Lists of tasks in files, scripts that answer them, and what came of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from notebooks.notebooks import script, write_holding

Entry = Mapping[str, Any]


def listed(folder: Path, *entries: Entry) -> None:
    """The list `tasks.yaml`, and a script that answers each task with "Done: TASK"."""
    (folder / "tasks.yaml").write_text(
        yaml.safe_dump([*entries], allow_unicode=True, sort_keys=False), encoding="utf-8"
    )
    script(
        folder / "script.yaml",
        *((each["task"], [{"text": f"Done: {each['task']}"}]) for each in entries),
    )


def scripted(folder: Path) -> dict[str, str]:
    place = str(folder / "script.yaml")
    return {"JUPYTER_AGENT_PROVIDER": "scripted", "JUPYTER_AGENT_SCRIPT": place}


def table(said: str) -> dict[str, list[str]]:
    """The last table by the task's name, each row as its words."""
    lines = said.split("\n")
    head = max(n for n, line in enumerate(lines) if line.startswith("task "))
    rows = [line.split() for line in lines[head + 1 :]]
    end = next(n for n, words in enumerate(rows) if words[1:2] in (["task"], ["tasks"]))
    return {words[0]: words[1:] for words in rows[:end]}


def records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "tasks-runs" / ".jupyter_agent" / "tasks.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def turns(folder: Path) -> Counter[str]:
    """How often each task came to its end with a model, by the run logs."""
    found: Counter[str] = Counter()
    for log in (folder / ".jupyter_agent" / "logs").glob("*.jsonl"):
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        if lines[-1]["type"] == "turn_finished" and "error" not in lines[-1]:
            found[lines[0]["task"]] += 1
    return found


def hold(folder: Path, *names: str) -> None:
    """Tasks whose notebooks wait, before the agent's cell, until the file `hold` is gone."""
    write_holding(folder, *names)
    listed(folder, *({"notebook": f"{name}.ipynb", "task": f"Task {name}."} for name in names))
