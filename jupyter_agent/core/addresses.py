"""Addresses of servers: the host in them, and what may be shown of them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_of(address: str) -> str:
    """The host of an address such as `https://a.b/c`, in lower case; empty if it has none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def without_login(address: str, with_path: bool = False) -> str:
    """An address without a name and a password, as `http://a.b:80`; empty if it is no address."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    path = parts.path if with_path else ""
    return f"{parts.scheme}://{parts.hostname or '?'}{port}{path}"


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The number of a computer in a network that a host is given by; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
