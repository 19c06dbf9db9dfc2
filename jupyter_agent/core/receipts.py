"""A turn's receipt for reading: tables of what it changed, and of its steps and tokens."""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_agent.core.events import Receipt
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tables import Part, changed, part_html, part_text, table
from jupyter_agent.core.wording import numbers


def receipt_bundle(receipt: Receipt) -> dict[str, str]:
    """The receipt as plain text and as HTML, by MIME type, without secrets."""
    secrets = secret_values()
    parts = [changed(part, lambda text: redact(text, secrets)) for part in _parts(receipt)]
    return {
        "text/plain": "\n\n".join(map(part_text, parts)),
        "text/html": "".join(map(part_html, parts)),
    }


def _parts(receipt: Receipt) -> Iterator[Part]:
    variables = [
        *((each.name, str(each.kind), each.summary) for each in receipt.variables),
        *((name, "restored", "your object again") for name in receipt.restored),
    ]
    if variables:
        yield table(variables, ("variable", "", "now"))
    files = [
        (each.path, each.kind, f"{each.lines_added:,}", f"{each.lines_removed:,}")
        for each in receipt.files
    ]
    if files:
        yield table(files, ("file", "", "lines added", "removed"))
    cells = [
        (each.title, f"{each.lines_added:,}", f"{each.lines_removed:,}") for each in receipt.cells
    ]
    if cells:
        yield table(cells, ("edit of the notebook", "lines added", "removed"))
    if receipt.saved:
        saved = [(each.title, each.kind, each.path) for each in receipt.saved]
        yield table(saved, ("saved", "", "in"))
    if found := numbers(receipt):
        yield table(found, ("number in the answer", "seen in"))
    yield table(_totals(receipt))


def _totals(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """What is the same in each replay: no seconds, no cost."""
    used = receipt.usage
    yield "steps", f"{receipt.steps:,}"
    yield "tokens", f"{used.input_tokens:,} in, {used.output_tokens:,} out"
    if receipt.proposals:
        yield "proposed cells", f"{receipt.proposals:,}"
