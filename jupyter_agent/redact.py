"""Secrets out of everything that is stored: cassettes, logs, saved outputs.

Known shapes of keys, and the values of environment variables whose names say that they are
secret. A guard rail: a secret of a shape that nobody knows, in a variable of an innocent name,
passes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

MARK = "[redacted]"
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])sk-(?:ant-|proj-)?[A-Za-z0-9_\-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|xox[abprs]-[A-Za-z0-9\-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_\-]{35}"
    r"|hf_[A-Za-z0-9]{30,}|glpat-[A-Za-z0-9_\-]{20,}"
    r"|(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,10000}?-----END [A-Z ]*PRIVATE KEY-----"
)
_BEARER = re.compile(
    r"(?i)\b(authorization\W{1,12}(?:bearer|basic)\s+|bearer\s+)"
    r"(?=\S*[0-9=._~+/])[A-Za-z0-9._~+/=\-]{12,}"
)
_IN_ADDRESS = re.compile(r"(://[^\s/:@'\"\\{}]{0,100}:)[^\s/:@'\"\\{}]{3,200}(?=@[\w.\[-])")
_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:pg|api)?(?:key|token|secret|password|passwd|pass|passphrase|pwd|credentials?)(?:$|_)"
)
_FOLDERS = ("PWD", "OLDPWD")
_MIN_SECRET = 8
_CONFIGURED: set[str] = set()
_FORMS = (True, False)


def secret_values(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of environment variables that look like secrets, longest first.

    Each also as JSON escapes it, since tool arguments are JSON text.
    """
    environ = os.environ if environ is None else environ
    found = set(_CONFIGURED) | {
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and name not in _FOLDERS and _may_be_secret(value)
    }
    escaped = {json.dumps(value, ensure_ascii=form)[1:-1] for value in found for form in _FORMS}
    return tuple(sorted(found | escaped, key=len, reverse=True))


def keep_secret(value: str) -> None:
    """Treat a configured value (an API key) as secret from now on."""
    if len(value) >= _MIN_SECRET:
        _CONFIGURED.add(value)


def _may_be_secret(value: str) -> bool:
    """Too short a value, a number or a path would take out what is no secret."""
    is_path = value.startswith(("/", "~", "./", "../")) or value[1:3] in (":\\", ":/")
    return len(value) >= _MIN_SECRET and not is_path and not value.replace(".", "").isdigit()


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with every known secret replaced by `[redacted]`."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MARK)
    text = _SHAPES.sub(MARK, text)
    text = _IN_ADDRESS.sub(lambda match: match[1] + MARK, text)
    return _BEARER.sub(lambda match: match[1] + MARK, text)


def redact_json(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """The same for every string in a JSON-like value."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {
            # A picture is base64: no words, and long.
            redact_json(key, secrets): item
            if str(key).startswith("image/") and key != "image/svg+xml"
            else redact_json(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact_json(item, secrets) for item in value]
    return value
