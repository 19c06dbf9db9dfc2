"""Layered, validated configuration.

    package defaults < user file < workspace file < environment < %agent config < %%agent

A layer holds the values that one place sets, by dotted key, and is checked when it is made, so
that an error can name the place. `resolve` puts layers together, later ones winning:

    resolve([user_layer(), workspace_layer(folder), environment_layer(os.environ), session, turn])

The workspace file lies inside the folder that `workspace_dir` names, so that key is read from
the other layers first. Relative paths are kept as written: their reader knows the folder.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from jupyter_core.paths import jupyter_config_dir
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from jupyter_agent.config import held
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX, TRUST_VALUE, TRUST_VARIABLE
from jupyter_agent.core.safe_yaml import flatten_within_bounds
from jupyter_agent.errors import ConfigError

USER_FILE = "jupyter_agent.yaml"
WORKSPACE_FILE = "config.yaml"

_STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
)


class RetrySettings(BaseModel):
    """How a failed model call is repeated."""

    model_config = _STRICT

    enabled: bool = Field(True, description="Repeat a model call that failed for a passing reason.")
    max_retries: int = Field(3, ge=0, description="Repetitions of one model call, at most.")
    initial_delay: float = Field(1.0, ge=0, description="Seconds before the first repetition.")
    max_delay: float = Field(60.0, ge=0, description="Seconds before any repetition, at most.")
    exponential_base: float = Field(2.0, ge=1, description="Each delay is the last one times this.")
    max_total: float = Field(
        300.0, ge=0, description="Seconds of waiting for one model call, all in all."
    )


class BudgetSettings(BaseModel):
    """The most that one turn may use. It stops between steps; %agent resume goes on."""

    model_config = _STRICT

    tokens: int | None = Field(None, ge=1, description="Tokens, sent and received.")
    seconds: float | None = Field(None, gt=0, description="Seconds.")
    usd: float | None = Field(None, gt=0, description="US dollars, by the published prices.")


class ThinkingSettings(BaseModel):
    """How much a model thinks before it answers, where it can."""

    model_config = _STRICT

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


class McpSettings(BaseModel):
    """How long servers of the Model Context Protocol may take."""

    model_config = _STRICT

    connect_timeout: float = Field(10.0, gt=0, description="Seconds to connect to an MCP server.")
    execute_timeout: float = Field(
        60.0, gt=0, description="Seconds that one call of an MCP tool may take."
    )
    sse_read_timeout: float = Field(
        120.0, gt=0, description="Seconds of silence from an MCP event stream."
    )


class MemorySettings(BaseModel):
    """What is kept across sessions."""

    model_config = _STRICT

    roots: list[str] = Field(
        [], description="Further folders of memory to search, besides the workspace's own."
    )


class ToolsSettings(BaseModel):
    """Which tools the model is offered."""

    model_config = _STRICT

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


class ApprovalsSettings(BaseModel):
    """What the agent may do without being asked."""

    model_config = _STRICT

    mode: Literal["read_only", "ask_risky", "ask_all", "auto"] = Field(
        "ask_risky",
        description="read_only refuses what writes or executes; ask_risky asks before what may do "
        "harm; ask_all asks before every call; auto runs every call.",
    )
    timeout: float = Field(
        600.0, gt=0, description="Seconds after which an unanswered question is a refusal."
    )


class ContextSettings(BaseModel):
    """What the model is told about the kernel."""

    model_config = _STRICT

    detail: Literal["none", "names", "schema", "sample"] = Field(
        "schema",
        description="What is sent of variables and cells unasked: nothing, names and types, their "
        "structure without any data, or also some values.",
    )


class PrivacySettings(BaseModel):
    """What the model sees of what code shows."""

    model_config = _STRICT

    outputs: Literal["full", "shapes"] = Field(
        "full", description="Whether outputs of code go to the model, or only what they are."
    )


class ImagesSettings(BaseModel):
    """Pictures that code shows, as the model sees them."""

    model_config = _STRICT

    enabled: bool = Field(
        True, description="Send pictures to the model; a model without vision needs false."
    )
    max_side: int = Field(
        768, ge=64, le=8000, description="Pixels of the longest side; larger ones are scaled down."
    )
    per_step: int = Field(4, ge=0, le=100, description="Most pictures sent in one step.")


class CompactionSettings(BaseModel):
    """How a conversation is kept within token_limit."""

    model_config = _STRICT

    enabled: bool = Field(
        True, description="Shorten the conversation before it has more than token_limit tokens."
    )


class UndoSettings(BaseModel):
    """What is kept so that turns can be undone."""

    model_config = _STRICT

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


class SessionSettings(BaseModel):
    """What is kept of a conversation."""

    model_config = _STRICT

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


class LogSettings(BaseModel):
    """The run log."""

    model_config = _STRICT

    enabled: bool = Field(True, description="Write one log file for each turn.")
    keep_days: int = Field(30, ge=1, le=36500, description="Days that a run log is kept.")
    keep_mb: float = Field(
        200.0, gt=0, description="Megabytes of run logs; the oldest ones go first."
    )


class OutputsSettings(BaseModel):
    """What is too long to show, kept in .jupyter_agent/outputs."""

    model_config = _STRICT

    keep_days: int = Field(30, ge=1, le=36500, description="Days that a long output is kept.")
    keep_mb: float = Field(
        500.0, gt=0, description="Megabytes of long outputs; the oldest ones go first."
    )


class LocalSettings(BaseModel):
    """The embedded model: llama.cpp, started on this machine by the provider local."""

    model_config = _STRICT

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


class HttpSettings(BaseModel):
    """The way to the model server, where the environment does not say it."""

    model_config = _STRICT

    proxy: SecretStr | None = Field(None, description="Address of a proxy.")
    ca_bundle: str | None = Field(
        None, description="File or folder of certificates to trust besides the public ones."
    )
    headers: SecretStr | None = Field(
        None, description="Headers to send, one in a line: Name: value. Never shown."
    )


class Settings(BaseModel):
    """Every setting with its default. `resolve` makes one from layers."""

    model_config = _STRICT

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


@dataclass(frozen=True, slots=True)
class Layer:
    """The checked values that one place sets, by dotted key. Made by the functions below."""

    source: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, and where each comes from."""

    settings: Settings
    sources: Mapping[str, str]

    def source_of(self, key: str) -> str:
        """The source of the layer that set `key`, or "default"."""
        _known(key, "%agent config")
        return self.sources.get(key, "default")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What a reference page says about one key."""

    key: str
    type: str
    default: object
    description: str


class _Slot(NamedTuple):
    """Where a key lives: one field of `Settings` or of one of its groups."""

    owner: type[BaseModel]
    name: str
    field: FieldInfo


def _slots(owner: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, _Slot]]:
    for name, field in owner.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _slots(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, _Slot(owner, name, field)


_KEYS: Mapping[str, _Slot] = dict(_slots(Settings))
_GROUPS = {key.partition(".")[0] for key in _KEYS if "." in key}
# In files too: YAML takes only `null` for nothing, but people write `None` as they do in Python.
_NONE = ("none", "null")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LINES = frozenset({"http.headers"})
"""Keys whose text may have several lines."""
_VARIABLES = {ENVIRONMENT_PREFIX + key.upper().replace(".", "__"): key for key in _KEYS}


# ---------------------------------------------------------------- layers


def user_layer() -> Layer | None:
    """The user file in Jupyter's configuration folder; None where there is none."""
    return _file_layer(Path(jupyter_config_dir()) / USER_FILE)


def workspace_layer(state_folder: Path) -> Layer | None:
    """The file in a workspace's state folder (`.jupyter_agent`); None where there is none."""
    if not _can_be_entered(state_folder):
        return None
    path = state_folder / WORKSPACE_FILE
    found = _file_layer(path)
    if found is not None and "workspace_dir" in found.values:
        raise _error(
            str(path),
            "workspace_dir cannot be set here, because this file lies inside that folder. "
            f"Set it in {USER_FILE} or in {ENVIRONMENT_PREFIX}WORKSPACE_DIR.",
        )
    return found


def _can_be_entered(folder: Path) -> bool:
    """Whether a folder is one, and open to this person. One that is not there counts as open."""
    try:
        return not folder.exists() or (folder.is_dir() and os.access(folder, os.X_OK))
    except OSError:
        return False


_STRICT_TO_LOOSE: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "approvals.mode": ("read_only", "ask_all", "ask_risky", "auto"),
        "context.detail": ("none", "names", "schema", "sample"),
        "privacy.outputs": ("shapes", "full"),
        "local.download": (False, True),
        "tool_protocol": ("native", "auto", "text", "code"),
        "session.resume": ("ask", "auto"),
        "images.enabled": (False, True),
        "undo.enabled": (True, False),
        "log.enabled": (True, False),
        **{key: (False, True) for key in _KEYS if key.startswith("tools.enable_")},
    }
)
"""Settings that protect a person, with their values from strict to loose."""
_OWN_FILE_DECIDES = frozenset(
    {"approvals.mode", "context.detail", "privacy.outputs", "local.download"}
)
"""Settings that no folder loosens where the person's own file sets them, trusted or not."""
_LESS_IS_STRICTER = frozenset(
    {"approvals.timeout"} | {key for key in _KEYS if key.startswith(("budget.", "mcp."))}
)
_MORE_IS_STRICTER = frozenset({"undo.max_file_mb", "undo.max_total_mb"})
_HARMLESS = frozenset(
    {
        *("model", "instructions", "max_steps", "max_tokens", "timeout", "token_limit"),
        *("display", "tracing", "images.max_side", "images.per_step", "compaction.enabled"),
        *("tools.skills_dir", "session.save"),
        *(key for key in _KEYS if key.startswith(("retry.", "thinking."))),
    }
)
"""Settings that a folder may set for whoever opens it: they send nothing elsewhere, run nothing
and loosen no protection. All others need trust unless they tighten, new settings included."""


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """The settings of a workspace's file, apart by whether they need the person's trust.

    Attributes:
        harmless: Those that count in any case: they tighten, or do no harm.
        acting: Those that count once the person trusts them.
    """

    harmless: Layer
    acting: Layer


def folder_settings(folder: Layer, user: Layer | None) -> FolderSettings:
    """Sort the settings of a folder, which may come from anybody.

    Args:
        folder: The workspace's own file.
        user: The person's own file. What it protects, no folder loosens: such values are left out.
    """
    base = resolve([user]).settings
    harmless: dict[str, object] = {}
    acting: dict[str, object] = {}
    for key, value in folder.values.items():
        if key in _HARMLESS or not _is_looser(key, value, _value(base, key)):
            harmless[key] = value
        elif user is None or key not in user.values or key not in _OWN_FILE_DECIDES:
            acting[key] = value
    return FolderSettings(
        Layer(folder.source, MappingProxyType(harmless)),
        Layer(folder.source, MappingProxyType(acting)),
    )


def _is_looser(key: str, value: object, base: object) -> bool:
    """Whether a value does anything that the one in force without it does not do."""
    if value == base:
        return False
    if key in _STRICT_TO_LOOSE:
        order = _STRICT_TO_LOOSE[key]
        return order.index(value) > order.index(base)
    if key in _LESS_IS_STRICTER:
        return _number(value) > _number(base)
    if key in _MORE_IS_STRICTER:
        return _number(value) < _number(base)
    return True


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.inf


def _value(settings: Settings, key: str) -> object:
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The variables that start with JUPYTER_AGENT_; any that is no setting is an error."""
    values = {}
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable == TRUST_VARIABLE:
            _check_trust(environ[variable])
            continue
        if variable not in _VARIABLES:
            name = _spelled(variable)
            hint = _nearest(variable.upper(), {known: known for known in _VARIABLES})
            raise _error("environment", f"there is no setting {name}. {hint}")
        key = _VARIABLES[variable]
        values[key] = _checked(key, environ[variable], variable, text=True)
    return Layer("environment", MappingProxyType(values))


def _check_trust(value: str) -> None:
    if value not in ("", TRUST_VALUE):
        raise _error("environment", f"{TRUST_VARIABLE} must be {TRUST_VALUE}, not {_given(value)}.")


def layer(source: str, values: Mapping[str, object], *, text: bool = False) -> Layer:
    """Check `values` and make them a layer.

    Args:
        source: The place as errors name it: a path, "%agent config", "%%agent".
        values: By dotted key, or nested as in a file.
        text: Read a string by the type of its key ("10", "true", "none"), as for typed words.
            A value that is no string is taken as it is.
    """
    found: dict[str, object] = {}
    for key, value in _flat(values):
        if key in found:
            raise _error(source, f"{key} is set twice, dotted and nested. Keep one of them.")
        found[key] = _checked(key, value, source, text=text)
    return Layer(source, MappingProxyType(found))


def resolve(layers: Iterable[Layer | None]) -> Resolved:
    """Put layers over the defaults, later ones winning. A missing layer may be None."""
    settings: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for each in layers:
        if each is None:
            continue
        for key, value in each.values.items():
            group, _, name = key.rpartition(".")
            target = settings.setdefault(group, {}) if group else settings
            target[name] = value
            sources[key] = each.source
    return Resolved(Settings(**settings), MappingProxyType(sources))


# ---------------------------------------------------------------- describing


def keys() -> tuple[str, ...]:
    """Every dotted key, in the order of `Settings`."""
    return tuple(_KEYS)


def describe(key: str) -> KeyInfo:
    """What a person needs to know to set `key`."""
    field = _known(key, "%agent config").field
    return KeyInfo(
        key=key,
        type=_allowed(field),
        default=field.default,
        description=field.description or "",
    )


def is_secret(key: str) -> bool:
    """Whether the value of `key` is never shown."""
    return _kind(_known(key, "%agent config").field)[0] is SecretStr


def choices(key: str) -> tuple[str, ...]:
    """The values that a setting of few values takes, as they are typed; empty for others."""
    kind, optional = _kind(_known(key, "%agent config").field)
    if kind is bool:
        return ("true", "false")
    words = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
    return (*words, "none") if words and optional else words


def shown(settings: Settings, key: str) -> str:
    """The value of `key` on one line; of the key for the model server only whether it is set."""
    _known(key, "%agent config")
    value = _value(settings, key)
    if isinstance(value, SecretStr):
        return "set, not shown"
    return _one_line(_literal(value))


def _literal(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- files


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with duplicate keys as errors and a line in every error."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Here and not in construct_mapping: merge keys (<<) are still apart.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {_spelled(key.value)} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        flatten_within_bounds(super().flatten_mapping, node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            # PyYAML lets these out for values such as 2001-99-99 or `!!int x`.
            problem = "a value that is not what it looks like; put it in quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _file_layer(path: Path) -> Layer | None:
    text = _read(path)
    if text is None:
        return None
    content = _parsed(path, text)
    if content is None:
        return Layer(str(path), MappingProxyType({}))
    if not isinstance(content, dict):
        given = _given(content) if isinstance(content, list) else "a single value"
        raise _error(
            str(path), f"the file must hold lines such as `max_steps: 50`, not {given}. Correct it."
        )
    return layer(str(path), content)


def _read(path: Path) -> str | None:
    data = held.before(path) if held.is_held(path) else _content(path)
    if data is None:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    raise _error(f"{path}, line {line}", "this is not UTF-8 text. Save the file as UTF-8.")


def _content(path: Path) -> bytes | None:
    """What a regular file holds; None where there is none."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe would be waited for
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise _error(str(path), f"this is {kind}, not a file. Move it away.")
        return path.read_bytes()
    except FileNotFoundError:
        # A link that leads nowhere was meant to set something.
        if not path.is_symlink():
            return None
        problem = "the file that this link names is missing"
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror or type(error).__name__})"
    raise _error(str(path), f"{problem}. Correct that, or move the file away.")


def _parsed(path: Path, text: str) -> object:
    try:
        # S506: the loader is a SafeLoader.
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        where, problem = _yaml_problem(path, text, error)
    except RecursionError:
        where, problem = str(path), "the file is nested too deeply. Write plain `key: value` lines."
    raise _error(where, problem)


def _yaml_problem(path: Path, text: str, error: yaml.YAMLError) -> tuple[str, str]:
    """Where and what, without the quoted content: it could be a key for a model server."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{path}, line {line}", "a character that YAML does not allow. Delete it."
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    problem = str(getattr(error, "problem", None) or "unreadable")
    if "constructor for the tag" in problem:
        return where, "tags (with !) are not allowed. Write a plain value."
    problem = re.sub(r"""(['"])[^'"<]{5,}\1""", "…", problem)
    return where, f"not valid YAML ({problem}). Check colons, indentation and quotes there."


def _flat(values: Mapping[Any, object]) -> Iterator[tuple[str, object]]:
    """Pairs of dotted key and value; an empty section (`retry:`) sets nothing."""
    for key, value in values.items():
        if key not in _GROUPS:
            yield _key_text(key), value
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{_key_text(name)}", inner) for name, inner in value.items())
        elif value is not None:
            yield key, value  # Refused by name when it is checked.


def _key_text(key: object) -> str:
    return key if isinstance(key, str) else _given(key)


# ---------------------------------------------------------------- checking


def _known(key: str, where: str) -> _Slot:
    if key in _KEYS:
        return _KEYS[key]
    if key in _GROUPS:
        names = ", ".join(known for known in _KEYS if known.startswith(f"{key}."))
        raise _error(where, f"{key} is a section, not a setting. Set one of {names}.")
    # People leave out the section; a full key still wins over such a short one.
    short = {known.rpartition(".")[2]: known for known in reversed(keys())}
    hint = _nearest(key.lower().replace("-", "_"), short | {known: known for known in _KEYS})
    raise _error(where, f"there is no setting {_spelled(key)}. {hint}")


def _nearest(word: str, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(_spelled(word).rstrip("…"), names, n=3)
    if not near:
        return "`%agent config` lists them all."
    # Swapped letters are the commonest slip: `modle` is model, though difflib prefers mode.
    best = max(near, key=lambda name: sorted(name) == sorted(word))
    return f"Did you mean {names[best]}?"


def _checked(key: str, value: object, where: str, *, text: bool) -> object:
    """The value as `Settings` takes it, or an error that says what is allowed."""
    owner, name, field = _known(key, where)
    kind, optional = _kind(field)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str):
        value = value.strip()
    read = value
    if optional and isinstance(value, str) and (value.lower() in _NONE or (text and not value)):
        read = None
    elif text and isinstance(value, str):
        read = _read_text(value, kind)
    if _usable(read.replace("\n", "") if key in _LINES and isinstance(read, str) else read):
        try:
            return getattr(owner(**{name: read}), name)
        except ValidationError:
            pass  # Raised below, so that no exception that holds the value is its context.
    raise _wrong(key, field, value, where, quotable=kind in (str, SecretStr) and not text)


def _usable(value: object) -> bool:
    """Whether it is text that is visible on one line, or a number that can be printed."""
    if isinstance(value, list):
        return all(_usable(item) for item in value)
    if isinstance(value, str):
        return value != "" and value.isprintable()
    return not isinstance(value, int) or value.bit_length() < 64


def _read_text(text: str, kind: object) -> object:
    """Typed words by type. What cannot be read stays text, which the check then refuses."""
    word = text.lower()
    if kind == list[str]:
        parts = [] if word in _NONE else [part.strip() for part in text.split(",")]
        return [part for part in parts if part]
    if kind is bool:
        return _BOOLEANS.get(word, text)
    if kind is int and re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if kind is float and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", word):
        return float(text)
    return text


def _kind(field: FieldInfo) -> tuple[object, bool]:
    """The type of a field without `None`, and whether `None` is allowed."""
    annotation: object = field.annotation
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    (kind,) = (each for each in get_args(annotation) if each is not type(None))
    return kind, True


def _allowed(field: FieldInfo) -> str:
    kind, optional = _kind(field)
    if get_origin(kind) is Literal:
        words = [*get_args(kind), *(["none"] if optional else [])]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    nouns: dict[object, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        list[str]: "a list of lines of text",
    }
    text = nouns.get(kind, "one line of text") + _bounds(field)
    return f"{text}, or none" if optional else text


def _bounds(field: FieldInfo) -> str:
    found = {
        name: getattr(each, name)
        for each in field.metadata
        for name in ("ge", "le", "gt")
        if hasattr(each, name)
    }
    if "le" in found:
        return f" from {found['ge']} to {found['le']}"
    if "ge" in found:
        return f" of {found['ge']} or more"
    return f" above {found['gt']}" if "gt" in found else ""


# ---------------------------------------------------------------- errors


def _wrong(key: str, field: FieldInfo, value: object, where: str, *, quotable: bool) -> ConfigError:
    scalar = value is not None and not isinstance(value, str | list | dict)
    hint = " Put it in quotes." if quotable and scalar else ""
    secret = _kind(field)[0] is SecretStr
    given = "what was given (it is not shown)" if secret else _given(value)
    return _error(where, f"{key} must be {_allowed(field)}, not {given}.{hint}")


def _given(value: object) -> str:
    """A wrong value for a message, kept short."""
    kinds: dict[type, str] = {list: "a list", dict: "a mapping", type(None): "null"}
    if type(value) in kinds:
        return kinds[type(value)]
    if isinstance(value, bool):
        return str(value).lower()
    if not _usable(value) and not isinstance(value, str):
        return "a number of that size"
    text = repr(value) if isinstance(value, str | int | float | bytes) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _spelled(name: str) -> str:
    """A name up to its first odd character: in `api_key=...` the rest is a secret."""
    plain = re.match(r"[\w.-]{0,60}", name)
    head = plain.group() if plain else ""
    return head if head == name else f"{head}…"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _error(where: str, problem: str) -> ConfigError:
    return ConfigError(_one_line(f"{where}: {problem}"))
