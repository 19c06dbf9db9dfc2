"""The tools for notes: what the agent writes down for its later selves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jupyter_agent.core.messages import Output
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.quoting import escaped, quoted, timeless
from jupyter_agent.core.tool import RARE, Tool, ToolReturn, tool
from jupyter_agent.memory.notes import GENERAL, Notes, shown_time

NOTE_TOOLS = frozenset({"record_note", "recall_notes"})


def note_tools(notes: Notes) -> list[Tool]:
    """`record_note` and `recall_notes`, over the notes of one workspace."""

    @tool("writes")
    def record_note(
        content: Annotated[str, Field(description="What to remember, in a sentence or two.")],
        category: Annotated[
            str,
            Field(description="user_info, user_preference, project_info, decision, or another."),
        ] = GENERAL,
        distinct: Annotated[
            bool,
            Field(
                description="Record it although a similar note is there.", json_schema_extra=RARE
            ),
        ] = False,
    ) -> ToolReturn:
        """Record a note that later sessions in this workspace can recall.

        For facts, preferences and decisions that will matter again; never for secrets.
        """
        done = notes.record(content, category, distinct)
        tail = f"\n{done.repair}" if done.repair else ""
        if done.existing is None:
            text = f"Recorded note: {done.note.content} (category: {done.note.category})"
            title = one_line(done.note.content, 100)
            told = {"kind": "note", "title": title, "path": notes.path.name}
            return ToolReturn(text + tail, details={"saved": told})
        known = done.existing
        line = f"- [{shown_time(known)}] {escaped(known.content)}"
        if done.likeness == "same":
            text = f"Not recorded: this note is there already, under {escaped(known.category)}."
        else:
            text = (
                "Not recorded: a note that says nearly the same is there already. If yours says "
                "something else, call again with distinct=true."
            )
        return recalled(f"{text}\n{quoted(line, notes.path.name)}{tail}")

    @tool("reads")
    def recall_notes(
        category: Annotated[
            str | None,
            Field(description="Only the notes of this category.", json_schema_extra=RARE),
        ] = None,
    ) -> ToolReturn:
        """Recall the notes that were recorded in this workspace, by category with their times."""
        return recalled(notes.recall(category))

    return [record_note, recall_notes]


def recalled(text: str) -> ToolReturn:
    """The model reads when things were saved; what stays in the notebook is without it.

    A replay saves the same things anew, and its outputs have to be those of the recording.
    """
    shown = timeless(text)
    display = (Output("result", {"text/plain": shown}),) if shown != text else ()
    return ToolReturn(text, display, quotes=True)
