"""The connection to a model server: proxy, certificates, extra headers.

Without settings the environment decides, as usual: `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`,
`SSL_CERT_DIR`, and without those `REQUESTS_CA_BUNDLE` or `CURL_CA_BUNDLE`.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_agent.config import Settings
from jupyter_agent.core.redact import keep_address, keep_headers, keep_secret
from jupyter_agent.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_OWN_BUNDLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class Connection:
    """Settings of the connection to a server.

    Args:
        headers: Headers to send besides the SDK's.
        proxy: The proxy's address; None: that of the environment.
        ca_bundle: A file or folder of certificates to trust besides the public ones.
        direct: True ignores the environment's proxy: for a server on this machine.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None
    ca_bundle: str | None = None
    direct: bool = False

    def client_options(self) -> dict[str, Any]:
        """Arguments for an HTTP client; empty if the SDK's own client suffices.

        Raises:
            ConfigError: The bundle cannot be read.
        """
        if self.direct:
            return {"trust_env": False}
        options: dict[str, Any] = {"proxy": self.proxy} if self.proxy else {}
        if bundle := self.ca_bundle or _bundle_of(os.environ):
            options["verify"] = _trusting(bundle)
        return options


def parse_headers(text: str) -> dict[str, str]:
    """The headers in lines `Name: value`. Raises `ConfigError` without the values."""
    headers = {}
    for number, line in enumerate(text.replace("\\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        value = value.strip()
        if not colon or not _NAME.fullmatch(name.strip()) or not value.isascii():
            raise ConfigError(
                f"http.headers, line {number}: not of the form Name: value. Correct it."
            )
        headers[name.strip()] = value
    return headers


def keep_secrets(settings: Settings) -> None:
    """Treat the keys, headers and passwords in the settings as secret from now on."""
    if settings.api_key:
        keep_secret(settings.api_key.get_secret_value())
    if settings.http.headers:
        with contextlib.suppress(ConfigError):  # the request itself raises the error
            keep_headers(parse_headers(settings.http.headers.get_secret_value()))
    if settings.http.proxy:
        keep_address(settings.http.proxy.get_secret_value())


def _bundle_of(environ: Mapping[str, str]) -> str:
    if any(environ.get(name) for name in _OWN_BUNDLES):
        return ""  # the HTTP library reads these itself
    return next((environ[name] for name in _BUNDLES if environ.get(name)), "")


def _trusting(bundle: str) -> ssl.SSLContext:
    import certifi

    context = ssl.create_default_context(cafile=certifi.where())
    path = Path(bundle).expanduser()
    try:
        if path.is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "strerror", None) or "it holds no certificate"
        raise ConfigError(f"http.ca_bundle: {bundle} cannot be used ({why}).") from None
    return context
