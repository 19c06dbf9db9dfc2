"""Removes secrets from everything that is stored: cassettes, logs, saved outputs.

Redacts known shapes of keys, values with the name of a secret, and the values of secret settings
and environment variables. Values are redacted while they are decoded (`redact_json`), before they
become JSON. A guard rail: a secret of an unknown shape, in a variable of an innocent name, passes.
"""

from __future__ import annotations

import builtins
import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from jupyter_agent.core.messages import is_bitmap
from jupyter_agent.core.secret_shapes import (
    MARK,
    Span,
    holds_secrets,
    is_one_of,
    merged,
    part_of,
    replaced,
    spans,
)

__all__ = ["MARK", "keep_secret", "redact", "redact_json", "redact_words", "secret_values"]

_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:pg|api)?(?:key|token|secret|pass|pwd|credentials?|cookie|dsn)\d*(?:$|_)"
    r"|password|passwd|passphrase|(?:api|access|secret|account|auth|private)key(?![a-z])"
    r"|(?:api|access|auth|bearer)token(?![a-z])|(?:client|app)secret(?![a-z])|connection_?string"
)
_SECRET_HEADER = re.compile(r"(?i)auth|key|token|secret|cookie|password|credential|signature")
_PASSWORD_NAME = re.compile(r"(?i)passw|passphrase|secret")
_FOLDERS = ("PWD", "OLDPWD")
_PLACES = frozenset({*_FOLDERS, "PATH", "PYTHONPATH", "HOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
"""Variables that processes need, and that hold folders only."""
_CUT = re.compile("…")
"""What stands where a text was cut, as in descriptions of data."""
_MIN_SECRET = 8
_REMEMBERED = 20_000
_SHORT = 64
_LONGEST_VALUE = 10_000
"""Characters of a value that its key may make a secret: no password is as long as a page."""
_CONFIGURED: set[str] = set()
_FORMS = (True, False)
_LAST: list[tuple[object, tuple[str, ...]]] = [(None, ())]
"""The last environment and configured values, with the secrets in them."""


def secret_values(
    environ: Mapping[str, str] | None = None, *, also: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The values of environment variables that look like secrets, longest first.

    Each comes also in its JSON escape, since tool arguments are JSON text.

    Args:
        environ: The environment; None is the current one of this process.
        also: Earlier secrets, which stay secret when their variables are gone.
    """
    if also:
        current = secret_values(environ)
        missing = set(also).difference(current)
        return tuple(sorted({*current, *missing}, key=len, reverse=True)) if missing else current
    if environ is not None:
        return _secret_values(environ)
    # Called for each stored line, and a search of the environment takes longer than most lines do.
    # The dictionary behind `os.environ` is compared, since that decodes nothing.
    current_state = dict(getattr(os.environ, "_data", os.environ)), frozenset(_CONFIGURED)
    last_state, secrets = _LAST[0]
    if last_state != current_state:
        secrets = _secret_values(os.environ)
        _LAST[0] = current_state, secrets
    return secrets


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment for a process that needs no keys.

    Left out are those with the name of a secret, and those whose value holds one.
    """
    secrets = secret_values(environ, also=secret_values())
    return {
        name: value
        for name, value in environ.items()
        if name in _PLACES
        or not (_SECRET_NAME.search(name) or (value and redact(value, secrets) != value))
    }


def _secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    found = set(_CONFIGURED) | {
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and name not in _FOLDERS and _may_be_secret(value, name)
    }
    escaped = {json.dumps(value, ensure_ascii=form)[1:-1] for value in found for form in _FORMS}
    return tuple(sorted(found | escaped, key=len, reverse=True))


def keep_secret(value: str) -> None:
    """Treat a configured value (an API key) as secret from now on."""
    if len(value) >= _MIN_SECRET:
        _CONFIGURED.add(value)


def keep_headers(headers: Mapping[str, str]) -> None:
    """Treat the values of headers that identify somebody as secret, whole and word by word."""
    for name, value in headers.items():
        if _SECRET_HEADER.search(name):
            for word in (value, *value.split()):
                keep_secret(word)


def keep_address(address: str) -> None:
    """Treat the password in an address as secret, percent-encoded and decoded."""
    found = re.search(r"://([^/@\s]*?):([^/\s]+)@", address)
    if found is not None:
        for word in (found[2], unquote(found[2]), f"{found[1]}:{found[2]}"):
            keep_secret(word)


def _may_be_secret(value: str, name: str = "") -> bool:
    """False for short values, numbers and paths, whose redaction would hit ordinary text."""
    is_path = value.startswith(("/", "~", "./", "../")) or value[1:3] in (":\\", ":/")
    is_number = value.replace(".", "").isdigit() and not _PASSWORD_NAME.search(name)
    return len(value) >= _MIN_SECRET and not is_path and not is_number


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with every known secret replaced by `[redacted]`.

    Escapes hide nothing: JSON in a text, also inside of JSON, need not be decoded first.

    Args:
        text: Text to be stored or shown.
        secrets: Secret values, from `secret_values`.
    """
    values = tuple(secrets)
    if len(text) <= _SHORT:
        return _redacted_short(text, values)
    if len(text) <= _REMEMBERED:
        return _remembered(text, values)
    return _redacted(text, values)


@lru_cache(2_048)
def _redacted_short(text: str, secrets: tuple[str, ...]) -> str:
    """Cached, since every stored line has the same keys."""
    return _redacted(text, secrets)


@lru_cache(128)
def _remembered(text: str, secrets: tuple[str, ...]) -> str:
    """Cached, since one text goes into several stores."""
    return _redacted(text, secrets)


def _redacted(text: str, secrets: tuple[str, ...]) -> str:
    found = spans(text)
    if secrets:
        found += _values_in(text, secrets)
    return replaced(text, merged(found)) if found else text


_STEERING = re.compile(r"[\s;|&()<>$`]")
_LIKE_A_KEY = re.compile(
    r"[\w.\-]+=(?P<value>[\w%+\-]{4,}={0,2})(?![\w./%+\-])"
    r"|(?=[A-Za-z+/._~=\-]{0,80}\d)(?=[\d+/._~=\-]{0,80}[A-Za-z])[\w+/.~=\-]{6,}"
    r"|[A-Za-z0-9+/]{16,}={0,2}"
)
_DOTTED = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+")


def redact_words(text: str, secrets: Iterable[str] = ()) -> str:
    """Like `redact`, for code and commands that a person decides about: hides no part that runs.

    Of a secret that goes over several words, such as a key of several lines, only the words that
    look like a key are replaced, since others may be commands. A quoted text is replaced whole.

    Args:
        text: The code or the command.
        secrets: Secret values, from `secret_values`.
    """
    values = tuple(secrets)
    found = spans(text)
    if values:
        found += _values_in(text, values)
    return replaced(text, merged([word for span in merged(found) for word in _words(text, span)]))


def _words(text: str, span: Span) -> Iterable[Span]:
    """The parts of a secret that cannot be something that runs."""
    start, end = span
    value = text[start:end]
    around = text[start - 1 : start], text[end : end + 1]
    is_literal = around in (('"', '"'), ("'", "'")) and not re.search(r"[\n$`\\]", value)
    if is_literal or not (_STEERING.search(value) or _DOTTED.fullmatch(value)):
        yield span
        return
    for word in _LIKE_A_KEY.finditer(value):
        if word["value"] and hasattr(builtins, word["value"]):
            continue
        first, last = word.span("value" if word["value"] else 0)
        yield start + first, start + last


def _values_in(text: str, secrets: tuple[str, ...]) -> list[Span]:
    found: list[Span] = []
    plain, encoded = _forms(secrets)
    for form in plain:
        start = text.find(form)
        while start >= 0:
            found.append((start, start + len(form)))
            start = text.find(form, start + len(form))
    if "…" in text:
        begun = tuple(form for form in plain if form[:_MIN_SECRET] in text)
        for cut in _CUT.finditer(text) if begun else ():
            found += _cut_values(text, cut.start(), begun)
    for pattern, core in encoded:
        if core in text:
            found += (match.span() for match in pattern.finditer(text))
    return found


def _cut_values(text: str, end: int, forms: tuple[str, ...]) -> list[Span]:
    """The beginning of a secret value that a cut ends."""
    found: list[Span] = []
    for form in forms:
        start = text.find(form[:_MIN_SECRET], max(0, end - len(form)), end)
        if start >= 0 and form.startswith(text[start:end]):
            found.append((start, end))
    return found


@lru_cache(8)
def _forms(
    secrets: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[tuple[re.Pattern[str], str], ...]]:
    """The forms of the secret values: escaped, and in base64, alone or after a user's name."""
    plain: dict[str, None] = {}
    encoded: dict[str, None] = {}
    for value in secrets:
        twice = (json.dumps(value, ensure_ascii=form)[1:-1] for form in (True, False))
        forms = (value, *twice, repr(value)[1:-1], quote(value, safe=""), quote(value))
        plain |= dict.fromkeys((*forms, quote_plus(value), html.escape(value)))
        plain |= dict.fromkeys([json.dumps(form)[1:-1] for form in plain if "\\" in form])
        encoded |= dict.fromkeys(_in_base64(value))
    patterns = (
        (re.compile(rf"[A-Za-z0-9+/_\-]{{0,400}}{re.escape(core)}[A-Za-z0-9+/_\-]*={{0,2}}"), core)
        for core in encoded
    )
    return tuple(sorted(plain, key=len, reverse=True)), tuple(patterns)


def _in_base64(value: str) -> Iterable[str]:
    """The base64 parts of a value at each of the three byte offsets."""
    data = value.encode("utf-8", "replace")
    for before in range(3):
        whole = b64encode(b"\0" * before + data).decode()
        core = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(core) >= _MIN_SECRET:
            yield from (core, core.replace("+", "-").replace("/", "_"))


def redact_arguments(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Redact the arguments of a call: as JSON if they parse, else as text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text, secrets)
    redacted = redact_json(value, secrets)
    return text if redacted == value else json.dumps(redacted, ensure_ascii=False)


def redact_json(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """Redact every text in a JSON-like value, and the values of keys that name secrets.

    Numbers and the structure stay as they are.
    """
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {redact_json(key, secrets): _item(key, value[key], secrets) for key in value}
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and all(isinstance(each, str) for each in value):
            name, words = value
            if "-" in name or name.lower() in ("authorization", "cookie"):  # a header
                return [redact(name, secrets), _item(name, words, secrets)]
        return [redact_json(item, secrets) for item in value]
    return value


def _item(key: Any, item: Any, secrets: tuple[str, ...]) -> Any:
    """The redacted value of a key."""
    name = str(key)
    if is_bitmap(name):
        return item  # a picture is base64: no words, and long
    if not isinstance(item, str):
        if isinstance(item, (list, tuple)) and all(isinstance(each, str) for each in item):
            item = [_item(key, each, secrets) for each in item]
        if isinstance(item, (Mapping, list, tuple)) and holds_secrets(name):
            item = _without_held(item, name)
        return redact_json(item, secrets)
    part = part_of(name, item) if len(item) <= _LONGEST_VALUE else None
    if part is not None:
        item = replaced(item, [part])
    if name == "arguments":
        return redact_arguments(item, secrets)
    return redact(item, secrets)


def _without_held(value: Any, holder: str, name: str = "") -> Any:
    """The value of a key such as `passwords`, without the secrets in it.

    Args:
        value: A mapping, a list, or an item of one.
        holder: The key.
        name: The nearest key inside of the value.
    """
    if isinstance(value, str):
        return MARK if is_one_of(holder, name, value) else value
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), (str, list)) and not value.get("value"):
            return value  # a schema describes the value and holds none
        return {key: _without_held(item, holder, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_held(item, holder, name) for item in value]
    return value
