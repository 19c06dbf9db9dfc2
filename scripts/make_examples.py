"""Make the cassettes and the executed example notebooks from their scripts.

    python scripts/make_examples.py [NAME ...]

For each `example_notebooks/scripts/NAME.yaml`: record the notebook with the scripted provider as
`jupyter agent record` does, which executes it once more from the new cassette. Fails where the
two executions differ in any cell, since nbval would not pass then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from jupyter_agent.errors import AgentError
from jupyter_agent.execution.recording import record
from jupyter_agent.llm.cassette import load

EXAMPLES = Path(__file__).parents[1] / "example_notebooks"
KEPT_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def make(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    if notebook["metadata"] != KEPT_METADATA:
        notebook["metadata"] = KEPT_METADATA
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
    script = EXAMPLES / "scripts" / f"{name}.yaml"
    try:
        recording = record(path, {"provider": "scripted", "script": str(script)}, timeout=300)
    except AgentError as error:
        sys.exit(str(error))
    if recording.unsteady:
        cells = [f"{name}, cell {each.number}: {each.words}" for each in recording.unsteady]
        sys.exit("\n".join(["The replay differs from the recording:", *cells]))
    replies = sum(load(cassette).replies for cassette in recording.cassettes)
    print(f"{name}: {replies} replies")


if __name__ == "__main__":
    for variable in [each for each in os.environ if each.startswith("JUPYTER_AGENT_")]:
        del os.environ[variable]
    for each in sys.argv[1:] or sorted(p.stem for p in (EXAMPLES / "scripts").glob("*.yaml")):
        make(each)
