"""Which versions are installed, and whether they are what the package asks for."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.version import __version__

DISTRIBUTION = "jupyter-agent-magics"
_SHOWN = ("ipykernel", "ipython", "anywidget", "jupyter-client", "nbclient", "anthropic", "openai")
_OPTIONAL = ("jupyterlab", "notebook", "jupyter-server", "nbval")
_TOPIC = "versions"


def examine_packages() -> Iterator[Examined]:
    """Python, the package, what it needs, and what people use it with. Imports none of them."""
    python = f"{platform.python_version()} ({sys.executable})"
    yield Examined(_TOPIC, "python", "ok", python)
    yield Examined(_TOPIC, DISTRIBUTION, "ok", __version__)
    try:
        wanted = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Examined(
            _TOPIC,
            "installation",
            "warning",
            "the package is not installed here, but used from its source.",
            "Install it into the environment of your kernels: pip install .",
        )
        wanted = []
    yield from _needed(wanted)
    for name in _OPTIONAL:
        version = installed_version(name)
        yield Examined(_TOPIC, name, "ok" if version else "note", version or "not installed")


def _needed(wanted: list[str]) -> Iterator[Examined]:
    """A line for each package that people ask about, and for each that is wrong."""
    from packaging.requirements import Requirement

    asked = [Requirement(line) for line in wanted]
    needed = {one.name: one for one in asked if one.marker is None or one.marker.evaluate()}
    for name in (*_SHOWN, *(name for name in needed if name not in _SHOWN)):
        version, wish = installed_version(name), needed.get(name)
        again = f'Install it: pip install "{wish or name}"'
        if version is None:
            yield Examined(_TOPIC, name, "problem", "not installed", again)
        elif wish is not None and not wish.specifier.contains(version, prereleases=True):
            text = f"{version}, but {wish.specifier} is needed"
            yield Examined(_TOPIC, name, "problem", text, again)
        elif name in _SHOWN:
            yield Examined(_TOPIC, name, "ok", version)


def installed_version(name: str) -> str | None:
    """The version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
