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

    enabled: bool = Field(
        True, description="Repeat a model call that failed for a temporary reason."
    )
    max_retries: int = Field(3, ge=0, description="Most repetitions of one model call.")
    initial_delay: float = Field(1.0, ge=0, description="Seconds before the first repetition.")
    max_delay: float = Field(60.0, ge=0, description="Most seconds before any repetition.")
    exponential_base: float = Field(
        2.0, ge=1, description="Each delay is this many times the last one."
    )
    max_total: float = Field(
        300.0, ge=0, description="Most seconds of waiting for one model call, in total."
    )


class BudgetSettings(_Group):
    """The most that one turn may use. It stops between steps; %agent resume goes on."""

    tokens: int | None = Field(
        None, ge=1, description="Most tokens of one turn, sent and received."
    )
    seconds: float | None = Field(None, gt=0, description="Most seconds of one turn.")
    usd: float | None = Field(
        None, gt=0, description="Most US dollars of one turn, by the published prices."
    )


class ThinkingSettings(_Group):
    """How much a model thinks before it answers, where it can."""

    mode: Literal["default", "off", "adaptive", "between_tools", "budget"] = Field(
        "default",
        description="Anthropic's modes of thinking; budget uses thinking.budget. default sends "
        "no mode, so that the model decides.",
    )
    budget: int = Field(
        4096, ge=1024, description="Most tokens of thinking in one reply, for the mode budget."
    )
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None,
        description="How hard the model works: OpenAI's reasoning_effort, or Anthropic's effort.",
    )


class McpSettings(_Group):
    """How long servers of the Model Context Protocol may take."""

    connect_timeout: float = Field(
        10.0, gt=0, description="Most seconds to connect to an MCP server."
    )
    execute_timeout: float = Field(
        60.0, gt=0, description="Most seconds for one call of an MCP tool."
    )
    sse_read_timeout: float = Field(
        120.0, gt=0, description="Most seconds of silence from an MCP event stream."
    )


class MemorySettings(_Group):
    """What is kept across sessions."""

    roots: list[str] = Field(
        [], description="More folders of memory to search, besides the workspace's own."
    )
    across_workspaces: Literal["off", "read", "on"] = Field(
        "on",
        description="Whether your own memory, which all workspaces share, is used here: off, "
        "neither read nor written; read, only searched; on, also saved to, once you say yes. A "
        "folder's own file may only make it stricter.",
    )
    embeddings: str | None = Field(
        None,
        description="Folder of a model2vec model: memory is also searched by meaning. Needs the "
        "extra semantic; nothing is fetched.",
    )


class ToolsSettings(_Group):
    """The tools that are offered to the model."""

    enable_file_tools: bool = Field(
        True, description="Offer the tools that read and write files in the workspace."
    )
    enable_code: bool = Field(
        True, description="Offer the tool that executes code in the notebook's kernel."
    )
    enable_skills: bool = Field(True, description="Offer skills and the tool that loads one.")
    enable_notes: bool = Field(True, description="Offer the tools for notes.")
    enable_memory: bool = Field(
        True,
        description="Offer the tools for workspace memory, and send the hot rules to the model.",
    )
    enable_mcp: bool = Field(True, description="Offer the tools of MCP servers.")
    skills_dir: str = Field(
        "skills",
        description="Folder of skills, relative to the state folder; it stays in the workspace.",
    )


class AnswersSettings(_Group):
    """How an answer is made."""

    samples: int = Field(
        1,
        ge=1,
        le=9,
        description="Attempts at each task, each in scratch: their values are compared, and the "
        "most frequent one is taken. 1 makes one attempt, outside of scratch.",
    )
    verify: bool = Field(
        False,
        description="After each answer a delegate computes its numbers anew, from the inputs "
        "alone, without the code and the numbers; how far they agree is told below the transcript.",
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
    """What is sent to the model about the kernel."""

    detail: Literal["none", "names", "schema", "sample"] = Field(
        "schema",
        description="What each task sends of variables and cells: none, nothing; names, names and "
        "types; schema, also their structure, without any data; sample, also some values. For the "
        "provider local, from which no data leave the machine, the default is sample.",
    )


class PrivacySettings(_Group):
    """What the model sees of the outputs of code."""

    outputs: Literal["full", "shapes"] = Field(
        "full",
        description="full sends outputs of code to the model; shapes sends only what kinds of "
        "outputs there were, and their sizes.",
    )


class ImagesSettings(_Group):
    """Pictures that code shows, as the model sees them."""

    enabled: bool = Field(
        True, description="Send pictures to the model; set false for a model without vision."
    )
    max_side: int = Field(
        768,
        ge=64,
        le=8000,
        description="Most pixels of the longest side; larger pictures are scaled down.",
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
    max_file_mb: float = Field(20.0, gt=0, description="Most megabytes of one file that is kept.")
    max_total_mb: float = Field(
        500.0,
        gt=0,
        description="Most megabytes that are kept in total; the oldest turns are removed first.",
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
        description="ask brings an earlier kernel's conversation back when you run %agent resume; "
        "auto does so before the first turn.",
    )
    keep_days: int = Field(
        90, ge=1, le=36500, description="Days that a conversation is kept after its last turn."
    )
    keep_mb: float = Field(
        200.0, gt=0, description="Most megabytes of conversations; the oldest are removed first."
    )


class LogSettings(_Group):
    """The run log."""

    enabled: bool = Field(True, description="Write one log file for each turn.")
    keep_days: int = Field(30, ge=1, le=36500, description="Days that a run log is kept.")
    keep_mb: float = Field(
        200.0, gt=0, description="Most megabytes of run logs; the oldest are removed first."
    )


class OutputsSettings(_Group):
    """Outputs that are too long to show, kept in .jupyter_agent/outputs."""

    keep_days: int = Field(30, ge=1, le=36500, description="Days that a long output is kept.")
    keep_mb: float = Field(
        500.0, gt=0, description="Most megabytes of long outputs; the oldest are removed first."
    )


class LocalSettings(_Group):
    """The embedded model: llama.cpp, started on this machine by the provider local."""

    model_path: str | None = Field(
        None, description="GGUF file of the embedded model, for the provider local."
    )
    model: str | None = Field(
        None,
        description="The embedded model by name, hf:OWNER/REPO:FILE; fetched once, after a notice.",
    )
    download: bool = Field(
        True, description="Fetch the file that local.model names, if it is not on this machine yet."
    )
    context: int = Field(
        8192, ge=1024, description="Tokens of the embedded model's context: conversation and reply."
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=512,
        description="Threads of the embedded model; none uses the cores that are free.",
    )
    gpu_layers: int | None = Field(
        None, ge=0, description="Layers of the embedded model on a GPU; none means as many as fit."
    )


class HttpSettings(_Group):
    """The connection to the model server, where environment variables do not set it."""

    proxy: SecretStr | None = Field(None, description="Address of a proxy for the model server.")
    ca_bundle: str | None = Field(
        None, description="File or folder of certificates to trust besides the public ones."
    )
    headers: SecretStr | None = Field(
        None, description="Headers to send, one a line, as Name: value. Never shown."
    )


class Settings(_Group):
    """Every setting with its default. `resolve` makes one from layers."""

    provider: Literal["anthropic", "openai", "local", "scripted"] | None = Field(
        None, description="The kind of model server to ask."
    )
    model: str | None = Field(None, description="The model's id, as its server knows it.")
    api_base: str | None = Field(
        None, description="Address of the model server, if it is not the provider's own."
    )
    api_key: SecretStr | None = Field(
        None, description="Key for the model server; never shown, and never written anywhere."
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
        description="How the model calls tools: native, only by the API; text, also in the text of "
        "its replies; auto, as text, but asks about each of these calls, and ignores them where "
        "the server calls tools by the API; code, for models without tool calling, which write one "
        "block of Python. For the provider local, auto means code.",
    )
    instructions: Literal["auto", "full", "short"] = Field(
        "auto",
        description="The instructions in the system prompt: short leaves out those that small "
        "models do not follow (skills, memory, tools other than code); auto means short for the "
        "provider local, and full for others.",
    )
    max_steps: int = Field(50, ge=1, le=1000, description="Model calls in one turn, at most.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens in one reply.")
    timeout: float = Field(
        600.0, gt=0, description="Most seconds of silence from the model server."
    )
    token_limit: int = Field(
        80000,
        ge=1000,
        description="The conversation is shortened before a model call has more tokens than this.",
    )
    workspace_dir: str | None = Field(
        None, description="The workspace, if it is not the notebook's folder."
    )
    system_prompt_path: str | None = Field(
        None, description="File that replaces the system prompt of the package."
    )
    display: Literal["auto", "static"] = Field(
        "auto", description="auto shows a turn live if the front end can; static never does."
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
    answers: AnswersSettings = AnswersSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    context: ContextSettings = ContextSettings()
    privacy: PrivacySettings = PrivacySettings()
    images: ImagesSettings = ImagesSettings()
    compaction: CompactionSettings = CompactionSettings()
    session: SessionSettings = SessionSettings()
    undo: UndoSettings = UndoSettings()
    log: LogSettings = LogSettings()
    outputs: OutputsSettings = OutputsSettings()
