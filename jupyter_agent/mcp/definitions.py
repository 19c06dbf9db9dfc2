"""The servers that `mcp.json` names, read strictly: one bad entry costs no other.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}, "cwd": "data"},
        "search": {"url": "https://…/mcp", "type": "http", "headers": {"Authorization": "…"}}
    }}

Two files: `.jupyter_agent/mcp.json` of the workspace, and `jupyter_agent_mcp.json` in Jupyter's
configuration folder. Of two servers of one name the workspace's counts, once it is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from jupyter_core.paths import jupyter_config_dir
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from jupyter_agent.config import held
from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.errors import ConfigError

WORKSPACE_FILE = "mcp.json"
USER_FILE = "jupyter_agent_mcp.json"

Transport = Literal["stdio", "sse", "http"]

_TYPES = {
    True: ("", "sse", "http", "streamable-http", "streamable_http", "streamableHttp"),
    False: ("", "stdio"),
}
"""What `type` may be, by whether there is a url."""
_MOST_BYTES = 1_000_000
_MOST_SERVERS = 50
_MOST_PROGRAM_BYTES = 32_000_000
"""Of a larger file that an entry names, the size counts for the digest and the content does not."""
_LONGEST_SHOWN = 4_000
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _or_say(problem: str, holds: Callable[[Any], object] = lambda value: True) -> WrapValidator:
    """One sentence of ours where a value is of another type, or `holds` is false of it."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            read = handler(value)
        except ValidationError as error:
            if error.errors()[0]["loc"]:
                raise  # something in the value, which has its own sentence
        else:
            if holds(read):
                return read
        raise _problem(problem)

    return WrapValidator(check)


_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_URL = re.compile(r"https?://[^/\s][^ \0\r\n]*")
_LINE = re.compile(r"[^\0\r\n]*")

_Line = Annotated[
    str,
    _or_say(" must be one line of text.", lambda text: text.strip() and _LINE.fullmatch(text)),
]
_Text = Annotated[str, _or_say(" must be text. Put it in quotes.", lambda text: "\0" not in text)]
_Texts = Annotated[list[_Text], _or_say(" must be a list of texts.")]
_Variable = Annotated[
    str,
    _or_say(
        " is not the name of a variable.",
        lambda name: name and name.isprintable() and "=" not in name,
    ),
]
_Variables = Annotated[
    dict[_Variable, _Text], _or_say(" must be an object whose values are texts.")
]
_HeaderName = Annotated[str, _or_say(" is not the name of a header.", _HEADER.fullmatch)]
_HeaderText = Annotated[
    str,
    _or_say(
        " must be one line of ASCII text. Put it in quotes.",
        lambda text: text.isascii() and _LINE.fullmatch(text),
    ),
]
_Headers = Annotated[
    dict[_HeaderName, _HeaderText], _or_say(" must be an object whose values are texts.")
]
_Url = Annotated[str, _or_say(" must start with http:// or https://.", _URL.fullmatch)]
_Flag = Annotated[StrictBool, _or_say(" must be true or false.")]
_Seconds = Annotated[
    float,
    Field(strict=True, gt=0, le=86_400),
    _or_say(" must be a number of seconds above 0."),
]


class ServerEntry(BaseModel):
    """One server as the file has it. `${NAME}` is still in its texts.

    The time-outs are in seconds, and 0 where the settings hold; `trust_annotations` believes a tool
    that calls itself read-only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: _Line = ""
    args: _Texts = []
    env: _Variables = {}
    cwd: _Line = ""
    url: _Url = ""
    type: _Line = ""
    headers: _Headers = {}
    disabled: _Flag = False
    trust_annotations: _Flag = False
    description: _Line = ""
    connect_timeout: _Seconds = 0.0
    execute_timeout: _Seconds = 0.0
    sse_read_timeout: _Seconds = 0.0

    @property
    def transport(self) -> Transport:
        if self.command:
            return "stdio"
        return "sse" if self.type == "sse" else "http"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise _problem(" needs either command or url.")
        if self.type not in _TYPES[bool(self.url)]:
            allowed = (
                "sse, http or streamable-http for a url" if self.url else "stdio for a command"
            )
            raise _problem(f".type must be {allowed}.")
        other = "command" if self.url else "url"
        for key in ("args", "env", "cwd") if self.url else ("headers",):
            if key in self.model_fields_set:
                raise _problem(f".{key} needs {other}, which is missing.")
        return self


@dataclass(frozen=True, slots=True)
class Definition:
    """One server, and where it is defined.

    Args:
        name: The key in `mcpServers`.
        place: The file, as messages name it.
        entry: What the file says of it.
        digest: Over the name, the whole entry and the workspace's files that it names, for the
            trust store.
        from_workspace: Whether it came with the workspace.
    """

    name: str
    place: str
    entry: ServerEntry = field(compare=False)
    digest: str
    from_workspace: bool

    @property
    def needs_trust(self) -> bool:
        """Whether the person has to agree before it is used.

        What came with a workspace must not run a program, learn what the agent sends, or put
        words into the conversation, until they have said yes.
        """
        return self.from_workspace

    @property
    def does(self) -> str:
        """What it runs or asks, and what it is given, on one line, without a variable's value."""
        entry = self.entry
        words = entry.url or " ".join([entry.command, *entry.args])
        given = f"; it gets {', '.join(self._takes)}" if self._takes else ""
        vouched = "; what it says about its tools is trusted" if entry.trust_annotations else ""
        # On one line, but all of the lines: what is agreed to must not hide below the first.
        return one_line(" ".join(words.split()), 200) + one_line(given, 200) + vouched

    @property
    def would(self) -> str:
        """What it does once it is trusted, in a sentence, with the whole command or address."""
        entry = self.entry
        if entry.url:
            text = f"sends what the agent asks of it to {entry.url}"
        else:
            text = f"runs the program {' '.join([entry.command, *entry.args])}"
            text += f" in the folder {entry.cwd}" if entry.cwd else ""
            variables = ", ".join(f"{name}={value}" for name, value in entry.env.items())
            text += f" with {variables}" if variables else ""
        text += ", when a conversation begins"
        if self._takes:
            text += f"; it gets your variables {', '.join(self._takes)}"
        if entry.trust_annotations:
            text += "; tools that it calls read-only then run without a question"
        return one_line(" ".join(text.split()), _LONGEST_SHOWN)

    @property
    def _takes(self) -> list[str]:
        """The variables of the environment that it gets."""
        entry = self.entry
        texts = [*entry.args, *entry.env.values(), *entry.headers.values(), entry.url]
        found = (match[1] for text in texts for match in _VARIABLE.finditer(text))
        return list(dict.fromkeys(name.partition(":-")[0] for name in found))


@dataclass(frozen=True, slots=True)
class Definitions:
    """What the files say.

    Attributes:
        servers: The servers by name; of two of one name the workspace's.
        problems: What is wrong, one line each.
        replaced: The person's own servers whose names the workspace uses, too.
    """

    servers: Mapping[str, Definition]
    problems: tuple[str, ...] = ()
    replaced: Mapping[str, Definition] = field(default_factory=dict)


def read_definitions(state_folder: Path) -> Definitions:
    """Both files. What cannot be understood becomes a problem; nothing is raised."""
    user, problems = _read(Path(jupyter_config_dir()) / USER_FILE, USER_FILE, None)
    shown = f"{state_folder.name}/{WORKSPACE_FILE}"
    nearer, more = _read(state_folder / WORKSPACE_FILE, shown, state_folder.parent)
    replaced = {name: own for name, own in user.items() if name in nearer}
    return Definitions({**user, **nearer}, (*problems, *more), replaced)


def expand(text: str, environ: Mapping[str, str], where: str) -> str:
    """The text with `${NAME}` and `${NAME:-default}` replaced from the environment.

    Raises:
        ConfigError: A variable is not set and has no default, or its name is no name.
    """

    def value(match: re.Match[str]) -> str:
        name, separator, default = match[1].partition(":-")
        if not _VARIABLE_NAME.fullmatch(name):
            raise ConfigError(f"{where}: ${{{_shown(name)}}} is no variable's name.")
        if name in environ:
            return environ[name]
        if separator:
            return default
        raise ConfigError(f"{where}: the environment has no variable {name}.")

    return _VARIABLE.sub(value, text)


def _read(path: Path, place: str, root: Path | None) -> tuple[dict[str, Definition], list[str]]:
    """The servers of a file, and its problems.

    Args:
        path: The file.
        place: Its name in messages.
        root: The workspace whose file it is; None: the file is the person's own.
    """
    try:
        entries = _entries(path, place)
    except ConfigError as error:
        return {}, [str(error)]
    found: dict[str, Definition] = {}
    problems: list[str] = []
    for name, entry in list(entries.items())[:_MOST_SERVERS]:
        try:
            found[name] = _definition(name, entry, place, root)
        except ConfigError as error:
            problems.append(str(error))
    if len(entries) > _MOST_SERVERS:
        problems.append(f"{place}: only the first {_MOST_SERVERS} servers are used.")
    return found, problems


def _entries(path: Path, place: str) -> dict[str, Any]:
    try:
        data = _content(path, place)
        if data is None:
            return {}
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except OSError as error:
        raise ConfigError(f"{place}: it cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: it is not UTF-8 text. Save it as UTF-8.") from None
    except RecursionError:
        raise ConfigError(f"{place}: it is nested too deeply.") from None
    except ValueError as error:
        raise ConfigError(f"{place}: it is not JSON ({one_line(str(error), 120)}).") from None
    if not isinstance(value, dict) or not isinstance(value.get("mcpServers"), dict):
        raise ConfigError(f'{place}: it must hold {{"mcpServers": {{NAME: …}}}}.')
    if extra := [key for key in value if key != "mcpServers"]:
        raise ConfigError(f"{place}: unknown key {_shown(extra[0])}. It takes only mcpServers.")
    servers: dict[str, Any] = value["mcpServers"]
    return servers


def _content(path: Path, place: str) -> bytes | None:
    """What the file holds; None where there is none. A change by the agent's code is left out."""
    if held.is_held(path):
        return held.before(path)
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"{place}: it is not a regular file, or it is too large.")
    return path.read_bytes()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {_shown(key)} is there twice")
        found[key] = value
    return found


def _definition(name: str, entry: Any, place: str, root: Path | None) -> Definition:
    where = f"{place}: mcpServers.{_shown(name)}"
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise ConfigError(f"{where}: the name must have 1 to 64 visible characters.")
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be an object.")
    for key in entry:
        if key not in ServerEntry.model_fields:
            takes = ", ".join(ServerEntry.model_fields)
            raise ConfigError(f"{where}: unknown key {_shown(key)}. It takes {takes}.")
    try:
        read = ServerEntry.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{_shown(part)}"
            for part in first["loc"]
            if part != "[key]"
        )
        raise ConfigError(f"{where}{path}{first['msg']}") from None
    programs = dict(_programs(read, root)) if root is not None else {}
    whole = [name, entry, programs] if programs else [name, entry]
    raw = json.dumps(whole, sort_keys=True, ensure_ascii=True)
    digest = hashlib.sha256(raw.encode("ascii")).hexdigest()
    return Definition(name, place, read, digest, root is not None)


def _programs(entry: ServerEntry, root: Path) -> Iterator[tuple[str, str]]:
    """The files of the workspace that a command names, each with a digest of its content."""
    real = Path(os.path.realpath(root))
    for word in [entry.command, *entry.args] if entry.command else []:
        with suppress(OSError, ValueError):  # too long for a path, or it cannot be read
            path = Path(os.path.realpath(real / entry.cwd / word))
            if not path.is_relative_to(real) or not path.is_file():
                continue
            size = path.stat().st_size
            content = path.read_bytes() if size <= _MOST_PROGRAM_BYTES else str(size).encode()
            yield word, hashlib.sha256(content).hexdigest()


def _problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("entry", "{text}", {"text": text})


def _shown(name: str) -> str:
    return one_line(plain(name), 60) or repr(name)
