"""The parts of addresses that are shown and compared."""

from __future__ import annotations

import pytest

from jupyter_agent.core.addresses import host_of, ip_address, without_login


@pytest.mark.parametrize(
    ("address", "host", "shown"),
    [
        ("https://A.example/x", "a.example", "https://a.example/x"),
        ("http://me:secret@proxy.example:3128", "proxy.example", "http://proxy.example:3128"),
        ("s3://bucket/a.csv", "bucket", "s3://bucket/a.csv"),
        ("http://[::1]:80/", "::1", "http://::1:80/"),
        ("http://[", "", ""),
        ("http://a.example:port", "a.example", ""),
    ],
)
def test_addresses(address: str, host: str, shown: str) -> None:
    """The host is in lower case, no name and password is shown, nonsense gives empty texts."""
    assert host_of(address) == host
    assert without_login(address, with_path=True) == shown
    assert without_login("http://me:x@a.example/secret") == "http://a.example"


def test_numbers() -> None:
    """A host may be given by its number."""
    found = ip_address("127.0.0.1")
    assert found is not None and found.is_loopback
    assert ip_address("::1") and ip_address("localhost") is None
