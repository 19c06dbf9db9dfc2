"""Make the cassettes and the executed example notebooks from their scripts.

    python scripts/make_examples.py [NAME ...]

For each `example_notebooks/scripts/NAME.yaml`: execute the notebook once in mode `record` with the
scripted provider, then once more from the new cassette, and keep that second execution. Fails
where the two differ: a notebook whose replay shows anything else than its recording is no good.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "example_notebooks"
KEPT_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path, **settings: str) -> Any:
    """The notebook after an execution in a fresh kernel with `JUPYTER_AGENT_*` settings."""
    notebook = nbformat.read(path, as_version=4)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER_AGENT_")}
    environment |= {f"JUPYTER_AGENT_{key.upper()}": value for key, value in settings.items()}
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
        record_timing=False,
    )
    client.execute(env=environment)
    notebook.metadata = nbformat.from_dict(KEPT_METADATA)
    return notebook


def lasting(cell: Any) -> Any:
    """The cell's outputs without what a replay does not know: how long it took, what it cost."""
    outputs = cell.get("outputs", [])
    for output in outputs:
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return outputs


def make(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    cassette = path.with_suffix(".cassette.jsonl")
    cassette.unlink(missing_ok=True)
    script = f"scripts/{name}.yaml"
    recorded = execute(path, mode="record", provider="scripted", script=script)
    replayed = execute(path, mode="replay")
    for first, second in zip(recorded.cells, replayed.cells, strict=True):
        if lasting(first) != lasting(second):
            sys.exit(f"{name}: the replay differs from the recording in:\n{first.source}")
    nbformat.write(replayed, path)
    print(f"{name}: {len(cassette.read_text(encoding='utf-8').splitlines()) - 1} replies")


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(p.stem for p in (EXAMPLES / "scripts").glob("*.yaml")):
        make(each)
