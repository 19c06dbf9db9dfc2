"""Proxies, certificates and headers, by the environment and by settings, on both providers."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from model_server import ModelServer, Reply
from relays import Proxy, Tls

from jupyter_agent.config import layer, resolve
from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.core.ports import Request
from jupyter_agent.errors import ConfigError, ProviderError
from jupyter_agent.llm.connection import parse_headers
from jupyter_agent.session.provider_choice import choose

BOTH = pytest.mark.parametrize("name", ["anthropic", "openai"])
HI = Request("", (Message("user", (Text("hi"),)),))
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BUNDLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*PROXIES, *map(str.upper, PROXIES), *BUNDLES):
        monkeypatch.delenv(variable, raising=False)


async def ask(name: str, base: str, **values: object) -> str:
    """One call with the settings given, `_` for the dot; gives the reply's text."""
    given = {key.replace("http_", "http."): value for key, value in values.items()}
    base = base if name == "anthropic" else f"{base}/v1"
    settings = resolve(
        [layer("test", {"provider": name, "api_base": base, "api_key": "k", "model": "m", **given})]
    ).settings
    provider = choose(settings, None, {})
    try:
        async for part in provider.stream(HI):
            if isinstance(part, MessageFinished):
                return part.message.text
    finally:
        await provider.close()
    return ""


@BOTH
async def test_headers(name: str) -> None:
    """Extra headers go out with each request."""
    with ModelServer([Reply(text="ok")]) as server:
        assert await ask(name, server.url, http_headers="X-Team: data\nX-Key: a: b") == "ok"
        headers = {key.lower(): value for key, value in server.requests[0].headers.items()}
    assert (headers["x-team"], headers["x-key"]) == ("data", "a: b")


@pytest.mark.parametrize("text", ["X-Team", "X Team: a", ": a", "X-Team: ä"])
def test_bad_headers(text: str) -> None:
    """A malformed header is named by its line, and its value is not shown."""
    with pytest.raises(ConfigError, match=r"http\.headers, line 2: not of the form Name: value"):
        parse_headers(f"X-A: 1\n{text}")


@BOTH
async def test_a_proxy_by_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is used, and NO_PROXY goes around it."""
    with ModelServer([Reply(text="one"), Reply(text="two")]) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert await ask(name, server.url) == "one"
        assert len(proxy.seen) == 1 and server.url in proxy.seen[0]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert await ask(name, server.url) == "two"
        assert len(proxy.seen) == 1


@BOTH
async def test_a_proxy_by_a_setting(name: str) -> None:
    """http.proxy is used, with the name and the password in it."""
    with ModelServer([Reply(text="ok")]) as server, Proxy("Basic bWU6c2VjcmV0cw==") as proxy:
        address = f"http://me:secrets@127.0.0.1:{proxy.port}"
        assert await ask(name, server.url, http_proxy=address) == "ok"
        assert len(proxy.seen) == 1


@BOTH
async def test_a_proxy_that_is_down(name: str) -> None:
    """An unreachable proxy is a temporary failure; its password is not shown."""
    with ModelServer([Reply(text="ok")]) as server:
        with pytest.raises(ProviderError) as caught:
            await ask(name, server.url, http_proxy="http://me:secrets123@127.0.0.1:9")
        assert caught.value.retryable
        assert "secrets123" not in str(caught.value)
        assert not server.requests


@BOTH
async def test_tls_with_a_ca_of_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server behind a company's CA is refused by default and trusted by each usual setting."""
    authority = trustme.CA()
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with (
        ModelServer([Reply(text="ok")] * 4) as server,
        Tls(
            int(server.url.rsplit(":", 1)[1]), authority.issue_cert("localhost").configure_cert
        ) as tls,
    ):
        base = f"https://localhost:{tls.port}"
        with pytest.raises(ProviderError, match="cannot be reached"):
            await ask(name, base)
        assert await ask(name, base, http_ca_bundle=str(bundle)) == "ok"
        for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.setenv(variable, str(bundle))
            assert await ask(name, base) == "ok"
            monkeypatch.delenv(variable)
        with Proxy() as proxy:
            through = {"http_proxy": f"http://127.0.0.1:{proxy.port}"}
            assert await ask(name, base, http_ca_bundle=str(bundle), **through) == "ok"
            assert proxy.seen[0].startswith("CONNECT ")


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_a_bundle_that_cannot_be_used(tmp_path: Path, text: str | None) -> None:
    """A missing file and one without certificates are errors of the configuration."""
    bundle = tmp_path / "ca.pem"
    if text is not None:
        bundle.write_text(text)
    with pytest.raises(ConfigError, match=r"http\.ca_bundle: .*ca\.pem cannot be used"):
        await ask("openai", "https://localhost:9", http_ca_bundle=str(bundle))
