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
_SIGNS = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "AKIA", "AIza", "hf_"),
    *("glpat-", "eyJ", "-----BEGIN "),
)
"""What a key of a known shape has in it: to look for these takes a tenth of the time."""
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
_LAST: list[tuple[object, tuple[str, ...]]] = [(None, ())]
"""What was looked through last, and the secrets in it."""


def secret_values(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of environment variables that look like secrets, longest first.

    Each also as JSON escapes it, since tool arguments are JSON text.

    Args:
        environ: The environment; None is that of this process, as it is now.
    """
    if environ is not None:
        return _secret_values(environ)
    # Each line that is stored asks, and looking through an environment takes longer than most lines
    # do. What is behind `os.environ` is compared, since that decodes nothing.
    now = dict(getattr(os.environ, "_data", os.environ)), frozenset(_CONFIGURED)
    known, secrets = _LAST[0]
    if known != now:
        secrets = _secret_values(os.environ)
        _LAST[0] = now, secrets
    return secrets


def _secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
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
    if len(text) < _MIN_SECRET:
        return text
    for sign in _SIGNS:
        if sign in text:
            text = _SHAPES.sub(MARK, text)
            break
    if "://" in text:
        text = _IN_ADDRESS.sub(lambda match: match[1] + MARK, text)
    lowered = text.lower()
    if "bearer" in lowered or "auth" in lowered:
        text = _BEARER.sub(lambda match: match[1] + MARK, text)
    return text


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
