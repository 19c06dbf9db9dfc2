"""Everything that is looked at, in an order in which one thing explains the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.connection import keep_secrets
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.notebooks.doctor.folder import (
    examine_cassettes,
    examine_git,
    examine_rights,
    examine_settings,
)
from jupyter_agent.notebooks.doctor.front import examine_front, examine_kernel
from jupyter_agent.notebooks.doctor.model import examine_model
from jupyter_agent.notebooks.doctor.packages import examine_packages
from jupyter_agent.notebooks.doctor.servers import examine_servers
from jupyter_agent.session.effective_settings import effective_settings


def examine(
    folder: Path, environ: Mapping[str, str], *, offline: bool, timeout: float
) -> Iterator[Examined]:
    """Look at everything. No text holds a secret.

    Args:
        folder: Where the notebooks are.
        environ: The environment of the kernels to come.
        offline: Whether to leave out the model's server and the MCP servers.
        timeout: Seconds to wait for the model's server.
    """
    for found in _examined(folder, environ, offline, timeout):
        secrets = secret_values(environ)
        yield replace(found, text=_shown(found.text, secrets), remedy=_shown(found.remedy, secrets))


def _examined(
    folder: Path, environ: Mapping[str, str], offline: bool, timeout: float
) -> Iterator[Examined]:
    yield from examine_packages()
    try:
        place = effective_settings(folder, environ)
    except ConfigError as error:
        remedy = "Correct it, and run this again: what depends on the settings was not checked."
        yield Examined("settings", "settings", "problem", str(error), remedy)
        place = None
    if place is not None:
        keep_secrets(place.settings.settings)
        yield from examine_settings(place)
        yield from examine_model(place.settings, environ, folder, offline=offline, timeout=timeout)
    yield from examine_kernel()
    yield from examine_front()
    if place is not None:
        yield from examine_servers(place, offline=offline)
        yield from examine_rights(place)
    yield from examine_git(folder)
    yield from examine_cassettes(folder)


def _shown(text: str, secrets: tuple[str, ...]) -> str:
    return redact(" ".join(plain(text).split()), secrets)
