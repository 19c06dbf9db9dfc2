"""The receipt as tables, plain and as HTML."""

from __future__ import annotations

from jupyter_agent.core.events import CellChange, Receipt


def test_edits_of_the_notebook() -> None:
    """Each edit of a cell is a row with its lines, as text and as HTML."""
    edits = (CellChange("Change cell 3", "change", 1_200, 4), CellChange("Move cell 5", "move"))
    shown = Receipt(cells=edits, steps=2)._repr_mimebundle_()
    lines = [line.split() for line in shown["text/plain"].split("\n")]
    assert ["Change", "cell", "3", "1,200", "4"] in lines and [
        "Move",
        "cell",
        "5",
        "0",
        "0",
    ] in lines
    assert "edit of the notebook" in shown["text/plain"] and "Change cell 3" in shown["text/html"]
