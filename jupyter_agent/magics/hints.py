"""What the extension says without being asked: no model yet, a key in a cell, a misplaced %%agent.

Loaded with the extension, so it imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from jupyter_agent.errors import ConfigError

_KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
_SETTINGS = (
    "provider",
    "api_base",
    "api_key",
    "script",
    "mode",
    "local__model_path",
    "local__model",
)
_IN_FILE = re.compile(r"^\s*(?:provider|api_base|api_key|script|mode|local|model_path)\b.*:", re.M)
NO_MODEL = (
    "jupyter_agent is loaded, but there is no model yet: set ANTHROPIC_API_KEY or OPENAI_API_KEY "
    "before the kernel starts.\n"
    "For another server or a model on this machine: %agent config provider openai (with api_base) "
    "or local. %agent status says what is missing."
)
_SECRET = re.compile(
    r"\b(?:sk-[\w-]{16,}|sk_live_\w{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,}|hf_\w{30,}"
    r"|AIza[\w-]{30,}|xox[abpr]-[\w-]{20,})"
    r"|(?i:(?:api_?key|secret|auth_?token|access_?token)\w*)['\"]?\s*[\])]?\s*[=:,]\s*['\"]"
    r"(?!\w*(?:your|xxx|key_here))[^'\"\s<>${}]{16,200}['\"]"
)
KEY_IN_CELL = (
    "This cell holds a key in plain text: it is now in the notebook's file and in IPython's "
    "history, and whoever gets the notebook can use it. Set it in the environment before the "
    "kernel starts, or with getpass(); then delete it here, and renew the key if you shared "
    "the file."
)
_MISPLACED = "get_ipython().run_line_magic('%agent'"
_MAGIC_LINE = re.compile(r"[ \t]*%%agent\b")


def missing_model(given: Mapping[str, object], folder: Path, environ: Mapping[str, str]) -> str:
    """Two lines about what to do, if nothing points to a model or a recording; else empty.

    Args:
        given: The settings of IPython's configuration.
        folder: The notebook's folder, whose recordings a replay may use.
        environ: The environment.
    """
    variables = {f"JUPYTER_AGENT_{name.upper()}" for name in _SETTINGS}
    if any(environ.get(name) for name in (*_KEYS, *variables)):
        return ""
    if any(given.get(name.replace("__", ".")) for name in _SETTINGS):
        return ""
    own = Path(environ.get("JUPYTER_CONFIG_DIR") or Path.home() / ".jupyter")
    for path in (own / "jupyter_agent.yaml", folder / ".jupyter_agent" / "config.yaml"):
        if _names_a_model(path):
            return ""
    try:
        has_cassette = any(path.name.endswith(".cassette.jsonl") for path in folder.iterdir())
    except OSError:
        has_cassette = False
    return "" if has_cassette else NO_MODEL


def _names_a_model(path: Path) -> bool:
    try:
        return _IN_FILE.search(path.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def holds_key(source: str) -> bool:
    """True if a cell holds a key as a literal."""
    return _SECRET.search(source) is not None


def refuse_misplaced(lines: Iterable[str], source: str) -> None:
    """Refuse a cell whose `%%agent` is not on its first line: Python would stumble over the task.

    Args:
        lines: The cell after IPython's transformations. A `%%agent` inside of a string is none.
        source: The cell as it was typed, if it is known.

    Raises:
        ConfigError: One line with the place of the magic.
    """
    found = [n for n, line in enumerate(lines, 1) if line.lstrip().startswith(_MISPLACED)]
    if found:
        typed = [n for n, line in enumerate(source.split("\n"), 1) if _MAGIC_LINE.match(line)]
        raise ConfigError(
            "%%agent must be on the first line of its cell, and here it is on line "
            f"{(typed or found)[0]}. Move what is above it into the task or to another cell."
        )
