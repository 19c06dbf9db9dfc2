"""The tools for memory across workspaces: what the person keeps for all of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from jupyter_agent.core.tool import RARE, Tool, ToolReturn, tool
from jupyter_agent.errors import AgentError, ToolError
from jupyter_agent.memory.across import MOST_IDS, AcrossMemory, entries_text, findings_text
from jupyter_agent.memory.scope import PERSON, Scope
from jupyter_agent.tools.notes import recalled
from jupyter_agent.tools.workspace_memory import saved_text

_SCOPE = Field(description="WORKSPACE or WORKSPACE/DOMAIN.", json_schema_extra=RARE)


def across_memory_tools(memory: AcrossMemory) -> list[Tool]:
    """`memory_search` and `memory_get`; also `memory_save` if this workspace lets it out."""

    @tool("reads")
    def memory_search(query: str) -> ToolReturn:
        """Search decisions and lessons of all workspaces, and the person's own."""
        try:
            found = memory.find(query)
        except AgentError as error:  # no index can be made here: no bug, and no traceback
            raise ToolError(str(error)) from None
        if found.is_empty:
            return ToolReturn("Nothing was found. Try fewer or other words.")
        return recalled(findings_text(found))

    @tool("reads")
    def memory_get(
        document_ids: list[str],
        scope: Annotated[str | None, _SCOPE] = None,
    ) -> ToolReturn:
        """Get whole entries that memory_search found."""
        if len(document_ids) > MOST_IDS:
            raise ToolError(f"At most {MOST_IDS} entries at once.")
        found = memory.get(document_ids, _scope(scope) if scope else None)
        if not found:
            return ToolReturn("There is no such entry. memory_search tells the ids.")
        return recalled(entries_text(found))

    @tool("writes", waits=True)
    def memory_save(
        type: Literal["decision", "lesson"],
        title: str,
        content: str,
        questions: Annotated[
            list[str] | None, Field(description="It answers; and other words for it.")
        ] = None,
        scope: Annotated[str, _SCOPE] = PERSON,
        category: Annotated[str | None, Field(json_schema_extra=RARE)] = None,
        tags: Annotated[list[str] | None, Field(json_schema_extra=RARE)] = None,
        supersedes: Annotated[
            str | None,
            Field(
                description="document_id of the entry that this one replaces.",
                json_schema_extra=RARE,
            ),
        ] = None,
        distinct: Annotated[
            bool,
            Field(description="Save it although a similar entry is there.", json_schema_extra=RARE),
        ] = False,
    ) -> ToolReturn:
        """Save what helps in other workspaces, too, to the person's own memory: they are asked.

        More:
        - About the person as such; give a scope for what is about one workspace or a domain in it.
        - questions: up to five short ones that somebody with this problem would ask, and one line
          of other words for it. They are indexed, and not told with the entry.
        - Other workspaces may say otherwise: search first, and save yours beside theirs.
        """
        memory.check_saving()
        saved = memory.own.save(
            _scope(scope),
            type,
            title,
            content,
            category or "",
            tags or (),
            (supersedes or "").strip(),
            distinct,
            questions or (),
        )
        return saved_text(saved)

    return [memory_search, memory_get, *([memory_save] if memory.may_save else [])]


def _scope(text: str) -> Scope:
    parts = text.strip("/").split("/")
    if len(parts) > 2:
        raise ToolError(f"scope: {text!r} has too many parts. Give WORKSPACE or WORKSPACE/DOMAIN.")
    return Scope(*parts)
