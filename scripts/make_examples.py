"""Make the cassettes and the executed example notebooks from their scripts.

    python scripts/make_examples.py [NAME ...]

For each `example_notebooks/scripts/NAME.yaml`: execute the notebook once in mode `record` with the
scripted provider, then once more from the new cassette, and keep that second execution. Fails
where the two differ: a notebook whose replay shows anything else than its recording is no good.
The digests of all recorded turns go into the package, which trusts these turns wherever they are.

Where there is a `NAME.person.yaml`, a list of texts, a person is there for the recording, and types
these, one for each question of the agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbclient import NotebookClient

from jupyter_agent.notebooks.outputs import differences
from jupyter_agent.recording import trusted
from jupyter_agent.recording.cassette import load

EXAMPLES = Path(__file__).parents[1] / "example_notebooks"
KEPT_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Attended(NotebookClient):
    """Executes a notebook with a person who answers each question by the next of `answers`."""

    answers: Sequence[str] = ()

    async def async_execute(self, *arguments: Any, **more: Any) -> Any:
        typing: list[asyncio.Task[None]] = []
        start = self.async_start_new_kernel_client

        async def start_attended() -> Any:
            client = await start()
            client.allow_stdin = True
            typing.append(asyncio.create_task(self._type(client)))
            return client

        self.async_start_new_kernel_client = start_attended
        try:
            return await super().async_execute(*arguments, **more)
        finally:
            for task in typing:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _type(self, client: Any) -> None:
        for answer in self.answers:
            await client.get_stdin_msg()
            client.input(answer)


def execute(path: Path, answers: Sequence[str] = (), **settings: str) -> Any:
    """The notebook after an execution in a fresh kernel with `JUPYTER_AGENT_*` settings.

    With `answers` somebody is there who is asked, by lines of text.
    """
    notebook = nbformat.read(path, as_version=4)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER_AGENT_")}
    environment |= {f"JUPYTER_AGENT_{key.upper()}": value for key, value in settings.items()}
    if answers:
        environment["JUPYTER_AGENT_DISPLAY"] = "static"
    client = (Attended if answers else NotebookClient)(
        notebook,
        # Kernels warn about each unencrypted connection, also about a local one.
        extra_arguments=["--log-level=ERROR"],
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
        record_timing=False,
        coalesce_streams=True,
    )
    if answers:
        client.answers = answers
    asyncio.run(client.async_execute(env=environment))
    notebook.metadata = nbformat.from_dict(KEPT_METADATA)
    return notebook


def make(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    cassette = path.with_suffix(".cassette.jsonl")
    cassette.unlink(missing_ok=True)
    script = f"scripts/{name}.yaml"
    person = EXAMPLES / "scripts" / f"{name}.person.yaml"
    answers = yaml.safe_load(person.read_text(encoding="utf-8")) if person.exists() else ()
    recorded = execute(path, answers, mode="record", provider="scripted", script=script)
    replayed = execute(path, mode="replay")
    for difference in differences(recorded, replayed):
        sys.exit(f"{name}, cell {difference.number}: the replay differs: {difference.words}")
    nbformat.write(replayed, path)
    print(f"{name}: {load(cassette).replies} replies")


def digests() -> str:
    """The digests of the turns of all examples, a line each."""
    found = (load(path) for path in sorted(EXAMPLES.glob("*.cassette.jsonl")))
    return "".join(f"{turn.digest}\n" for cassette in found for turn in cassette.turns)


if __name__ == "__main__":
    scripts = (EXAMPLES / "scripts").glob("[0-9]*.yaml")
    for each in sys.argv[1:] or sorted(p.stem for p in scripts if "." not in p.stem):
        make(each)
    known = Path(trusted.__file__).with_name(trusted.EXAMPLES)
    known.write_text(digests(), encoding="ascii")
