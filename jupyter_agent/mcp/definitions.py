"""The servers that `mcp.json` names, read strictly: one bad entry costs no other.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}, "cwd": "data"},
        "search": {"url": "https://…/mcp", "type": "http", "headers": {"Authorization": "…"}}
    }}

Two files: `.jupyter_agent/mcp.json` of the workspace, and `jupyter_agent_mcp.json` in Jupyter's
configuration folder. Of two servers of one name the workspace's counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.config import held
from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.errors import ConfigError

WORKSPACE_FILE = "mcp.json"
USER_FILE = "jupyter_agent_mcp.json"
TIMES = ("connect_timeout", "execute_timeout", "sse_read_timeout")

Transport = Literal["stdio", "sse", "http"]

_TRANSPORTS: dict[str, Transport] = {
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
}
_MOST_BYTES = 1_000_000
_MOST_SERVERS = 50
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Definition:
    """One server as it is written: `${NAME}` is still in it.

    Args:
        name: The key in `mcpServers`.
        place: The file, as messages name it.
        transport: `stdio` runs `command`; the others ask `url`.
        times: The time-outs that differ from the settings, in seconds.
        trust_annotations: Whether a tool that calls itself read-only is believed.
        from_workspace: Whether it came with the workspace.
        digest: Over the whole entry, for the trust store.
        hides_another: Whether the person has one of the same name.
    """

    name: str
    place: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    times: tuple[tuple[str, float], ...] = ()
    disabled: bool = False
    trust_annotations: bool = False
    from_workspace: bool = False
    digest: str = ""
    hides_another: bool = False

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
        words = self.url if self.url else " ".join([self.command, *self.args])
        given = f"; it gets {', '.join(self._takes)}" if self._takes else ""
        vouched = "; what it says of its tools is believed" if self.trust_annotations else ""
        # On one line, but all of the lines: what is agreed to must not hide below the first.
        return one_line(" ".join(words.split()), 200) + one_line(given, 200) + vouched

    @property
    def _takes(self) -> list[str]:
        """The variables of the environment that it gets."""
        texts = [*self.args, *(text for _, text in (*self.env, *self.headers)), self.url]
        found = (match[1] for text in texts for match in _VARIABLE.finditer(text))
        return list(dict.fromkeys(name.partition(":-")[0] for name in found))


@dataclass(frozen=True, slots=True)
class Definitions:
    """What the files say: the servers by name, and what is wrong, one line each."""

    servers: Mapping[str, Definition]
    problems: tuple[str, ...] = ()


def read_definitions(state_folder: Path) -> Definitions:
    """Both files. What cannot be understood becomes a problem; nothing is raised."""
    user, problems = _read(Path(jupyter_config_dir()) / USER_FILE, USER_FILE, False)
    shown = f"{state_folder.name}/{WORKSPACE_FILE}"
    nearer, more = _read(state_folder / WORKSPACE_FILE, shown, True)
    problems += more
    for name in [name for name in nearer if name in user]:
        problems.append(f"{shown}: {_shown(name)} takes the place of the one in {USER_FILE}.")
        nearer[name] = replace(nearer[name], hides_another=True)
    return Definitions({**user, **nearer}, tuple(problems))


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


# ---------------------------------------------------------------- reading


def _read(path: Path, place: str, from_workspace: bool) -> tuple[dict[str, Definition], list[str]]:
    try:
        entries = _entries(path, place)
    except ConfigError as error:
        return {}, [str(error)]
    found: dict[str, Definition] = {}
    problems: list[str] = []
    for name, entry in list(entries.items())[:_MOST_SERVERS]:
        try:
            found[name] = _definition(name, entry, place, from_workspace)
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
        raise ConfigError(f"{place}: it is not UTF-8.") from None
    except RecursionError:
        raise ConfigError(f"{place}: it is nested too deeply.") from None
    except ValueError as error:
        raise ConfigError(f"{place}: it is not JSON ({one_line(str(error), 120)}).") from None
    if not isinstance(value, dict) or not isinstance(value.get("mcpServers"), dict):
        raise ConfigError(f'{place}: it must hold {{"mcpServers": {{NAME: …}}}}.')
    if extra := [key for key in value if key != "mcpServers"]:
        raise ConfigError(f"{place}: unknown key {_shown(extra[0])}. It takes mcpServers alone.")
    servers: dict[str, Any] = value["mcpServers"]
    return servers


def _content(path: Path, place: str) -> bytes | None:
    """What the file holds; None where there is none. A change by the agent's code is left out."""
    if held.is_held(path):
        return held.before(path)
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"{place}: it is no file, or too large.")
    return path.read_bytes()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {_shown(key)} is there twice")
        found[key] = value
    return found


def _definition(name: str, entry: Any, place: str, from_workspace: bool) -> Definition:
    where = f"{place}: mcpServers.{_shown(name)}"
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise ConfigError(f"{where}: a name has 1 to 64 visible characters.")
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be an object.")
    for key in entry:
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {_shown(key)}. It takes {', '.join(_KEYS)}.")
    values = {
        key: check(entry[key], f"{where}.{key}") for key, check in _KEYS.items() if key in entry
    }
    raw = json.dumps([name, entry], sort_keys=True, ensure_ascii=True)
    times = tuple((key, values[key]) for key in TIMES if key in values)
    return Definition(
        name=name,
        place=place,
        transport=_transport(values, where),
        times=times,
        from_workspace=from_workspace,
        digest=hashlib.sha256(raw.encode("ascii")).hexdigest(),
        **{key: values[key] for key in _AS_GIVEN if key in values},
    )


def _transport(values: Mapping[str, Any], where: str) -> Transport:
    if ("command" in values) == ("url" in values):
        raise ConfigError(f"{where} needs either command or url.")
    kind = values.get("type")
    if "url" in values:
        if kind is not None and kind not in _TRANSPORTS:
            raise ConfigError(f"{where}.type must be sse, http or streamable-http for a url.")
        foreign = [key for key in ("args", "env", "cwd") if key in values]
    else:
        if kind not in (None, "stdio"):
            raise ConfigError(f"{where}.type must be stdio for a command.")
        foreign = [key for key in ("headers",) if key in values]
    if foreign:
        other = "command" if "url" in values else "url"
        raise ConfigError(f"{where}.{foreign[0]} goes with {other}, which is not there.")
    return _TRANSPORTS[kind or "http"] if "url" in values else "stdio"


# ---------------------------------------------------------------- values


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not _is_plain(value):
        raise ConfigError(f"{where} must be one line of text.")
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list of texts.")
    for number, item in enumerate(value):
        if not isinstance(item, str) or "\0" in item:
            raise ConfigError(f"{where}[{number}] must be text. Put it in quotes.")
    return tuple(value)


def _mapping(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be an object of texts.")
    for key, item in value.items():
        if not key or not key.isprintable() or "=" in key:
            raise ConfigError(f"{where}: {_shown(key)} is no name.")
        if not isinstance(item, str) or "\0" in item:
            raise ConfigError(f"{where}.{_shown(key)} must be text. Put it in quotes.")
    return tuple(value.items())


def _headers(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    headers = _mapping(value, where)
    for key, item in headers:
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", key) or not item.isascii():
            raise ConfigError(f"{where}.{_shown(key)} is no header.")
        if not _is_plain(item):
            raise ConfigError(f"{where}.{_shown(key)} must be one line.")
    return headers


def _url(value: Any, where: str) -> str:
    text = _text(value, where)
    if not re.match(r"https?://[^/\s]", text) or " " in text:
        raise ConfigError(f"{where} must start with http:// or https://.")
    return text


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false.")
    return value


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise ConfigError(f"{where} must be a number of seconds above 0.")
    return float(value)


_KEYS: dict[str, Callable[[Any, str], Any]] = {
    "command": _text,
    "args": _texts,
    "env": _mapping,
    "cwd": _text,
    "url": _url,
    "type": _text,
    "headers": _headers,
    "disabled": _flag,
    "trust_annotations": _flag,
    "description": _text,
    **dict.fromkeys(TIMES, _seconds),
}
_AS_GIVEN = (
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "disabled",
    "trust_annotations",
)


def _is_plain(text: str) -> bool:
    return not any(char in text for char in "\0\r\n")


def _shown(name: str) -> str:
    return one_line(plain(name), 60) or repr(name)
