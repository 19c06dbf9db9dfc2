"""What must not be in a file that is published: secrets, and the machine it was made on."""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.core.messages import is_bitmap
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.notebooks.check.findings import Severity

_HOME = re.compile(
    r"(?:(?<![\w.\-/<>~])|(?<=file://))(?:/home/|/Users/)(?!Shared\b)[A-Za-z0-9._\-]+"
    r"|(?:(?<![\w.\-/<>~])|(?<=file://))/root(?=/)"
    r"|(?<!\w)[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4}(?!Public\b)[A-Za-z0-9._\-]+"
)
_TEMPORARY = re.compile(
    r"(?:(?<![\w.\-/<>~])|(?<=file://))(?:/private)?(?:/tmp|/var/folders|/var/tmp)/[\w.\-]+"
    r"|(?i:AppData[\\/]{1,4}Local[\\/]{1,4}Temp)"
    r"|(?<!\w)ipykernel_\d+"
)
_SHORTEST_NAME = 4
_COMMON_NAMES = frozenset(
    {"root", "user", "admin", "administrator", "nobody", "default", "guest", "test", "tester"}
    | {"runner", "build", "builder", "jenkins", "gitlab", "circleci", "travis", "codespace"}
    | {"jovyan", "ubuntu", "debian", "fedora", "centos", "vscode", "docker", "jupyter"}
    | {"localhost", "local", "host", "server", "data", "work", "home", "notebook", "python"}
)
"""Names of accounts and machines that say nothing, or that are words of their own."""
_SYSTEM_FOLDERS = ("/usr", "/bin", "/opt/hostedtoolcache", "/opt/conda")


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that gives something away, as a report may name it."""

    severity: Severity
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of this machine and of its secrets.

    Attributes:
        secrets: For each variable of the environment that looks secret the forms of its value.
        folders: Absolute folders, by what they are.
        names: The names of the person and of the machine, by what they are.
        allowed: What may be there all the same.
    """

    secrets: tuple[tuple[str, tuple[str, ...]], ...]
    folders: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, str], ...]
    allowed: tuple[str, ...] = ()

    def traces(self, text: str) -> Iterator[Trace]:
        """What a text gives away. No message holds a secret."""
        yield from self.secrets_in(text)
        for what, found in self._paths(text):
            if not self._is_allowed(found):
                yield Trace("error", "machine", f"{what} of this or another machine: {found}")
        for what, name in self.names:
            if _is_word_of(name, text) and not self._is_allowed(name):
                yield Trace("warning", "machine", f"{what}: {name}")

    def secrets_in(self, text: str) -> Iterator[Trace]:
        """The secrets alone."""
        for name, forms in self.secrets:
            if any(form in text for form in forms):
                yield Trace("error", "secret", f"the value of the environment variable {name}")
        if redact(text) != text:
            yield Trace("error", "secret", "what looks like a key or a token")

    def _paths(self, text: str) -> Iterator[tuple[str, str]]:
        for match in _HOME.finditer(text):
            yield "a home folder", match[0]
        for match in _TEMPORARY.finditer(text):
            yield "a temporary file", match[0]
        for what, folder in self.folders:
            if folder in text and re.search(rf"{re.escape(folder)}(?![\w.\-])", text):
                yield what, folder

    def _is_allowed(self, found: str) -> bool:
        return any(word in found for word in self.allowed)


def this_machine(
    environ: Mapping[str, str], folder: Path, allowed: tuple[str, ...] = ()
) -> Machine:
    """What is to be looked for here.

    Args:
        environ: The environment.
        folder: The notebook's.
        allowed: Words that may be there: a path or a name that holds one is passed over.
    """
    secrets = tuple(
        (name, found) for name, value in environ.items() if (found := secret_values({name: value}))
    )
    folders = {
        os.path.realpath(folder): "the notebook's folder",
        os.path.realpath(Path.cwd()): "the working folder",
        str(Path.home()): "the home folder",
        sys.prefix: "the folder of Python's packages",
        tempfile.gettempdir(): "the folder of temporary files",
    }
    return Machine(
        secrets,
        tuple((what, path) for path, what in folders.items() if _is_telling(path)),
        tuple((what, name) for what, name in _names().items() if _is_own(name)),
        allowed,
    )


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON-like value, but for pictures."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not is_bitmap(str(key)):
                yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def _names() -> dict[str, str]:
    names = {"the name of this machine": socket.gethostname().partition(".")[0]}
    with suppress(KeyError, OSError):  # a container may know no name for its user
        names["the name of the person's account"] = getpass.getuser()
    return names


def _is_own(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME and name.casefold() not in _COMMON_NAMES


def _is_telling(path: str) -> bool:
    """Whether a folder says something of this machine: not `/tmp`, not one of every system."""
    return len(Path(path).parts) > 2 and not path.startswith(_SYSTEM_FOLDERS)


def _is_word_of(name: str, text: str) -> bool:
    return name in text and bool(re.search(rf"(?<![\w\-]){re.escape(name)}(?![\w\-])", text))
