"""Which model would answer and why, whether there are keys, and whether its server answers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.config import Resolved, Settings
from jupyter_agent.core.addresses import without_login
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.connection import Connection, parse_headers
from jupyter_agent.llm.wire import api_base_for, mapping, string
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.session.provider_choice import DEFAULT_MODELS, provider_name

_TOPIC = "model"
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
_QUOTES = "\"'“”‘’`"


@dataclass(frozen=True, slots=True)
class _Service:
    """How one kind of server is asked for its models."""

    address: str
    address_variable: str
    key_variable: str
    path: str


_SERVICES = {
    "anthropic": _Service(
        "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "/v1/models"
    ),
    "openai": _Service("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/models"),
}


def examine_model(
    resolved: Resolved,
    environ: Mapping[str, str],
    folder: Path,
    *,
    offline: bool,
    timeout: float,
) -> Iterator[Examined]:
    """The keys, the choice, and a question to the server, which costs nothing."""
    settings = resolved.settings
    yield from _keys(resolved, environ)
    name = provider_name(settings, environ)
    yield _mode(settings)
    if name is None:
        yield Examined(
            _TOPIC,
            "provider",
            "warning",
            "none: no key, no address and no provider is set, so that notebooks can only be "
            "replayed.",
            "Set ANTHROPIC_API_KEY or OPENAI_API_KEY before Jupyter starts, or provider and "
            "api_base for a server of your own.",
        )
        return
    model = settings.model or DEFAULT_MODELS.get(name, "its own")
    whose = "" if settings.model else " (the default)"
    why = _why(name, resolved, environ)
    yield Examined(_TOPIC, "provider", "ok", f"{name}, since {why}; model {model}{whose}")
    if name == "scripted":
        yield _script(settings, folder)
    elif name not in _SERVICES:
        yield Examined(_TOPIC, "server", "note", f"{name} needs no server.")
    elif settings.mode == "replay":
        yield Examined(_TOPIC, "server", "note", "not asked: mode is replay.")
    elif offline:
        yield Examined(_TOPIC, "server", "note", "not asked, because of --offline.")
    else:
        yield _asked(name, model, settings, environ, timeout)


def _keys(resolved: Resolved, environ: Mapping[str, str]) -> Iterator[Examined]:
    """Whether keys are set, and whether they look like ones; never what they are."""
    key = resolved.settings.api_key
    found = {name: environ.get(name) for name in _KEYS}
    if key is not None:
        found["api_key"] = key.get_secret_value()
    for name, value in found.items():
        if not value:
            yield Examined(_TOPIC, name, "note", "not set")
        elif wrong := _wrong(value):
            text = f"set (not shown), but it {wrong}"
            yield Examined(
                _TOPIC, name, "problem", text, f"Copy the key again and set {name} again."
            )
        else:
            where = f" in {resolved.source_of('api_key')}" if name == "api_key" else ""
            yield Examined(_TOPIC, name, "ok", f"set{where} (not shown)")


def _wrong(value: str) -> str:
    """What cannot be in a key that was copied whole; empty where nothing is wrong."""
    if value != value.strip():
        return "begins or ends with white space."
    if value[0] in _QUOTES or value[-1] in _QUOTES:
        return "begins or ends with a quotation mark."
    if not value.isascii() or not value.isprintable() or " " in value:
        return "holds characters that keys do not have."
    return ""


def _mode(settings: Settings) -> Examined:
    meanings = {
        "auto": "a configured model is asked; without one, cassettes are replayed",
        "live": "the model is asked",
        "record": "the model is asked, and its replies are recorded",
        "replay": "cassettes are replayed, and no model is asked",
    }
    text = meanings.get(settings.mode, "")
    return Examined(_TOPIC, "mode", "ok", f"{settings.mode}: {text}" if text else settings.mode)


def _why(name: str, resolved: Resolved, environ: Mapping[str, str]) -> str:
    settings = resolved.settings
    for key in ("provider", "script", "api_base"):
        if getattr(settings, key):
            return f"{key} is set ({resolved.source_of(key)})"
    names = [v for v in (*_KEYS, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL") if environ.get(v)]
    own = [variable for variable in names if variable.startswith(name.upper())]
    more = (
        " (keys of both providers are set: Anthropic's is taken)" if len(own) < len(names) else ""
    )
    if more and name == "openai":
        more = f" and the model {settings.model} is not one of Anthropic's"
    return f"{' and '.join(own)} is set{more}"


def _script(settings: Settings, folder: Path) -> Examined:
    from jupyter_agent.llm.scripted import Scripted

    if not settings.script:
        return Examined(
            _TOPIC, "script", "problem", "no script is named.", "Set script to a YAML file."
        )
    try:
        Scripted.from_file(folder / Path(settings.script).expanduser())
    except ConfigError as error:
        return Examined(_TOPIC, "script", "problem", str(error), "Correct the file.")
    return Examined(_TOPIC, "script", "ok", "it can be read")


# ---------------------------------------------------------------- asking


def _asked(
    name: str, model: str, settings: Settings, environ: Mapping[str, str], timeout: float
) -> Examined:
    """One GET for the list of models."""
    import httpx2

    service = _SERVICES[name]
    base = settings.api_base or environ.get(service.address_variable) or service.address
    address = f"{api_base_for(name, base)}{service.path}"
    place = without_login(address, with_path=True) or "the address in api_base"
    said = f"GET {place}"
    try:
        options = _options(settings)
        headers = {**_headers(name, settings, environ), **options.pop("headers")}
        with httpx2.Client(timeout=timeout, **options) as client:
            reply = client.get(address, headers=headers)
    except ConfigError as error:
        return _unreached(said, str(error), "Correct the setting.")
    except (httpx2.LocalProtocolError, UnicodeError):
        # The message of the HTTP library would quote the header, and that is the key.
        return _unreached(said, "the key or a header holds what cannot be sent.", _COPY_AGAIN)
    except httpx2.TimeoutException:
        return _unreached(said, f"no answer within {timeout:g} s.", _NETWORK)
    except httpx2.ProxyError as error:
        return _unreached(said, f"the proxy refused: {one_line(str(error))}", _PROXY)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return _unreached(said, _words(error), _remedy(error))
    return _answered(said, name, model, reply)


_NETWORK = "Check the network, api_base, and a proxy (HTTPS_PROXY or http.proxy)."
_COPY_AGAIN = "Copy the key again, and check http.headers."
_PROXY = "Check HTTPS_PROXY and http.proxy."
_CERTIFICATES = (
    "Name your organization's certificates in http.ca_bundle, or in SSL_CERT_FILE or "
    "REQUESTS_CA_BUNDLE."
)


def _options(settings: Settings) -> dict[str, Any]:
    http = settings.http
    headers = parse_headers(http.headers.get_secret_value()) if http.headers else {}
    proxy = http.proxy.get_secret_value() if http.proxy else None
    return {**Connection(headers, proxy, http.ca_bundle).client_options(), "headers": headers}


def _headers(name: str, settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    given = settings.api_key.get_secret_value() if settings.api_key else ""
    key = (given or environ.get(_SERVICES[name].key_variable) or "").strip()
    if name == "openai":
        return {"Authorization": f"Bearer {key}"} if key else {}
    token = (environ.get("ANTHROPIC_AUTH_TOKEN") or "").strip()
    return {
        "anthropic-version": "2023-06-01",
        **({"x-api-key": key} if key else {}),
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def _unreached(said: str, why: str, remedy: str) -> Examined:
    return Examined(_TOPIC, "server", "problem", f"{said}: {why}", remedy)


def _answered(said: str, name: str, model: str, reply: Any) -> Examined:
    status, key = reply.status_code, _SERVICES[name].key_variable
    text = f"{said}: {status}"
    if status in (401, 403):
        remedy = f"Check the key in {key}, and that it belongs to this server."
        return Examined(_TOPIC, "server", "problem", f"{text}: the key is refused.", remedy)
    if status == 407:
        return Examined(_TOPIC, "server", "problem", f"{text}: the proxy asks for a login.", _PROXY)
    if status >= 500:
        remedy = "The service has trouble: try again a little later."
        return Examined(_TOPIC, "server", "problem", f"{text}: a failure of the server.", remedy)
    if status >= 300:
        text += ": the server answers, but has no list of models to check the model's name with."
        return Examined(_TOPIC, "server", "ok", text)
    known = _models(reply)
    if known and model not in known:
        remedy = f"Set model to one that it has: {one_line(', '.join(known), 160)}"
        text += f"; {model} is not among the {len(known)} models that it lists."
        return Examined(_TOPIC, "server", "warning", text, remedy)
    return Examined(
        _TOPIC, "server", "ok", f"{text}; it answers" + ("" if not known else f" and has {model}")
    )


def _models(reply: Any) -> list[str]:
    """The ids that the server lists; none where that is no such list, or only a part of it."""
    try:
        body = mapping(reply.json())
    except ValueError:
        return []
    if body.get("has_more"):
        return []
    rows = body.get("data")
    return [string(mapping(row).get("id")) for row in rows] if isinstance(rows, list) else []


def _words(error: BaseException) -> str:
    return one_line(str(error), 160) or type(error).__name__


def _remedy(error: BaseException) -> str:
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLError) or "CERTIFICATE" in str(chain):
            return _CERTIFICATES
        chain = chain.__cause__ or chain.__context__
    return _NETWORK
