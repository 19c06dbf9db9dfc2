"""Every setting: its type, its default, and what it is for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class _Group(BaseModel):
    """Settings that belong together. Values are taken as they are, never converted."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class RetrySettings(_Group):
    """How a failed model call is repeated."""

    enabled: bool = Field(True, description="Repeat a model call that failed for a passing reason.")
    max_retries: int = Field(3, ge=0, description="Repetitions of one model call, at most.")
    initial_delay: float = Field(1.0, ge=0, description="Seconds before the first repetition.")
    max_delay: float = Field(60.0, ge=0, description="Seconds before any repetition, at most.")
    exponential_base: float = Field(2.0, ge=1, description="Each delay is the last one times this.")
    max_total: float = Field(
        300.0, ge=0, description="Seconds of waiting for one model call, all in all."
    )


class BudgetSettings(_Group):
    """The most that one turn may use. It stops between steps; %agent resume goes on."""

    tokens: int | None = Field(None, ge=1, description="Tokens, sent and received.")
    seconds: float | None = Field(None, gt=0, description="Seconds.")
    usd: float | None = Field(None, gt=0, description="US dollars, by the published prices.")


class ThinkingSettings(_Group):
    """How much a model thinks before it answers, where it can."""

    mode: Literal["default", "off", "adaptive", "between_tools", "budget"] = Field(
        "default",
        description="Anthropic's modes of thinking; budget uses thinking.budget. default sends "
        "nothing, and the model does as it does.",
    )
    budget: int = Field(
        4096, ge=1024, description="Tokens of thinking in one reply, for the mode budget."
    )
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="How hard the model works: reasoning_effort, or Anthropic's effort."
    )


class McpSettings(_Group):
    """How long servers of the Model Context Protocol may take."""

    connect_timeout: float = Field(10.0, gt=0, description="Seconds to connect to an MCP server.")
    execute_timeout: float = Field(
        60.0, gt=0, description="Seconds that one call of an MCP tool may take."
    )
    sse_read_timeout: float = Field(
        120.0, gt=0, description="Seconds of silence from an MCP event stream."
    )


class MemorySettings(_Group):
    """What is kept across sessions."""

    roots: list[str] = Field(
        [], description="Further folders of memory to search, besides the workspace's own."
    )


class ToolsSettings(_Group):
    """Which tools the model is offered."""

    enable_file_tools: bool = Field(
        True, description="Offer the tools that read and write files in the workspace."
    )
    enable_code: bool = Field(
        True, description="Offer the tool that executes code in the notebook's kernel."
    )
    enable_skills: bool = Field(True, description="Offer skills and the tool that loads one.")
    enable_notes: bool = Field(True, description="Offer the tools for notes.")
    enable_memory: bool = Field(
        True, description="Offer the tools for workspace memory, and tell the hot rules."
    )
    enable_mcp: bool = Field(True, description="Offer the tools of MCP servers.")
    skills_dir: str = Field(
        "skills",
        description="Folder of skills, relative to the state folder; it stays in the workspace.",
    )


class ApprovalsSettings(_Group):
    """What the agent may do without being asked."""

    mode: Literal["read_only", "ask_risky", "ask_all", "auto"] = Field(
        "ask_risky",
        description="read_only refuses what writes or executes; ask_risky asks before what may do "
        "harm; ask_all asks before every call; auto runs every call.",
    )
    timeout: float = Field(
        600.0, gt=0, description="Seconds after which an unanswered question is a refusal."
    )


class ContextSettings(_Group):
    """What the model is told about the kernel."""

    detail: Literal["none", "names", "schema", "sample"] = Field(
        "schema",
        description="What is sent of variables and cells unasked: nothing, names and types, their "
        "structure without any data, or also some values.",
    )


class PrivacySettings(_Group):
    """What the model sees of what code shows."""

    outputs: Literal["full", "shapes"] = Field(
        "full", description="Whether outputs of code go to the model, or only what they are."
    )


class ImagesSettings(_Group):
    """Pictures that code shows, as the model sees them."""

    enabled: bool = Field(
        True, description="Send pictures to the model; a model without vision needs false."
    )
    max_side: int = Field(
        768, ge=64, le=8000, description="Pixels of the longest side; larger ones are scaled down."
    )
    per_step: int = Field(4, ge=0, le=100, description="Most pictures sent in one step.")


class CompactionSettings(_Group):
    """How a conversation is kept within token_limit."""

    enabled: bool = Field(
        True, description="Shorten the conversation before it has more than token_limit tokens."
    )


class UndoSettings(_Group):
    """What is kept so that turns can be undone."""

    enabled: bool = Field(True, description="Keep what a turn changes, so that it can be undone.")
    max_file_mb: float = Field(
        20.0, gt=0, description="Megabytes of the largest file that is kept."
    )
    max_total_mb: float = Field(
        500.0, gt=0, description="Megabytes that are kept in all; the oldest turns go first."
    )
    keep_days: int = Field(
        30, ge=1, le=36500, description="Days after which a turn cannot be undone any more."
    )


class SessionSettings(_Group):
    """What is kept of a conversation."""

    save: bool = Field(
        True, description="Write the conversation to .jupyter_agent/sessions as it happens."
    )
    resume: Literal["ask", "auto"] = Field(
        "ask",
        description="ask brings an earlier kernel's conversation back when you say %agent resume; "
        "auto does so before the first turn.",
    )
    keep_days: int = Field(
        90, ge=1, le=36500, description="Days that a conversation is kept after its last turn."
    )
    keep_mb: float = Field(
        200.0, gt=0, description="Megabytes of conversations; the oldest ones go first."
    )


class LogSettings(_Group):
    """The run log."""

    enabled: bool = Field(True, description="Write one log file for each turn.")
    keep_days: int = Field(30, ge=1, le=36500, description="Days that a run log is kept.")
    keep_mb: float = Field(
        200.0, gt=0, description="Megabytes of run logs; the oldest ones go first."
    )


class OutputsSettings(_Group):
    """What is too long to show, kept in .jupyter_agent/outputs."""

    keep_days: int = Field(30, ge=1, le=36500, description="Days that a long output is kept.")
    keep_mb: float = Field(
        500.0, gt=0, description="Megabytes of long outputs; the oldest ones go first."
    )


class LocalSettings(_Group):
    """The embedded model: llama.cpp, started on this machine by the provider local."""

    model_path: str | None = Field(
        None, description="GGUF file of the embedded model, for the provider local."
    )
    model: str | None = Field(
        None,
        description="The same by name, hf:OWNER/REPO:FILE: fetched once, which is said before.",
    )
    download: bool = Field(
        True, description="Fetch the file that local.model names, where it is not here yet."
    )
    context: int = Field(
        8192, ge=1024, description="Tokens of the embedded model's context, question and reply."
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=512,
        description="Threads of the embedded model; none: the cores that are free.",
    )
    gpu_layers: int | None = Field(
        None, ge=0, description="Layers of the model on a GPU; none: as many as fit."
    )


class HttpSettings(_Group):
    """The way to the model server, where the environment does not say it."""

    proxy: SecretStr | None = Field(None, description="Address of a proxy.")
    ca_bundle: str | None = Field(
        None, description="File or folder of certificates to trust besides the public ones."
    )
    headers: SecretStr | None = Field(
        None, description="Headers to send, one in a line: Name: value. Never shown."
    )


class Settings(_Group):
    """Every setting with its default. `resolve` makes one from layers."""

    provider: Literal["anthropic", "openai", "local", "scripted"] | None = Field(
        None, description="Which kind of model server is asked."
    )
    model: str | None = Field(None, description="The model's id, as its server knows it.")
    api_base: str | None = Field(
        None, description="Address of the model server, where it is not the provider's own."
    )
    api_key: SecretStr | None = Field(
        None, description="Key for the model server; never shown and never written anywhere."
    )
    script: str | None = Field(
        None, description="YAML file of scripted replies, for the provider scripted."
    )
    mode: Literal["auto", "live", "record", "replay", "cached"] = Field(
        "auto",
        description="Whether the model is asked or recorded replies are replayed; cached replays "
        "what is recorded, asks for the rest and records it.",
    )
    tool_protocol: Literal["auto", "native", "text", "code"] = Field(
        "auto",
        description="How the model calls tools: native by the API alone; text also in the text of "
        "its replies; auto as text, but asks about each such call, and reads none where the server "
        "calls tools by the API; code is for models without tool calling, which write one block of "
        "Python: auto means it for the provider local.",
    )
    instructions: Literal["auto", "full", "short"] = Field(
        "auto",
        description="What the model is told of its work: short leaves out what small models do "
        "not follow (skills, memory, the tools besides code); auto is short for provider local.",
    )
    max_steps: int = Field(50, ge=1, le=1000, description="Model calls in one turn, at most.")
    max_tokens: int | None = Field(None, ge=1, description="Tokens in one reply, at most.")
    timeout: float = Field(600.0, gt=0, description="Seconds of silence from the model server.")
    token_limit: int = Field(
        80000,
        ge=1000,
        description="Tokens of a model call above which the conversation is shortened.",
    )
    workspace_dir: str | None = Field(
        None, description="The workspace, where it is not the notebook's folder."
    )
    system_prompt_path: str | None = Field(
        None, description="File that replaces the system prompt of the package."
    )
    display: Literal["auto", "static"] = Field(
        "auto", description="auto shows a turn live where a front end answers; static never does."
    )
    tracing: bool = Field(
        False, description="Make OpenTelemetry spans of turns, for the kernel's tracer provider."
    )
    retry: RetrySettings = RetrySettings()
    budget: BudgetSettings = BudgetSettings()
    local: LocalSettings = LocalSettings()
    thinking: ThinkingSettings = ThinkingSettings()
    http: HttpSettings = HttpSettings()
    mcp: McpSettings = McpSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolsSettings = ToolsSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    context: ContextSettings = ContextSettings()
    privacy: PrivacySettings = PrivacySettings()
    images: ImagesSettings = ImagesSettings()
    compaction: CompactionSettings = CompactionSettings()
    session: SessionSettings = SessionSettings()
    undo: UndoSettings = UndoSettings()
    log: LogSettings = LogSettings()
    outputs: OutputsSettings = OutputsSettings()
