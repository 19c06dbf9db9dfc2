"""The embedded model: a real llama.cpp with a real, very small model, asked through its provider.

What it says is of no interest here; that it is started, asked, stopped and started again is.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_model import small_model

from jupyter_agent.config import LocalSettings, Settings, layer, resolve
from jupyter_agent.core.events import MessageFinished, Noticed, Preparing, TextDelta
from jupyter_agent.core.messages import Image, Message, Text, ToolCall, ToolResult
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError, ContextOverflow, ProviderError
from jupyter_agent.llm.brief_protocol import BriefProtocol
from jupyter_agent.llm.code_protocol import CodeProtocol
from jupyter_agent.llm.embedded import Embedded, Serving, cores, free_cores
from jupyter_agent.llm.local import Local, reply_tokens, serving
from jupyter_agent.llm.weights import hub_file
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.wrappers import tape_of
from jupyter_agent.session.provider_choice import choose, is_brief, provider_name, token_limit

CONTEXT = 1024


@pytest.fixture(scope="module")
def weights() -> Path:
    return small_model()


@pytest.fixture
def embedded() -> Iterator[Embedded]:
    made = Embedded()
    yield made
    made.stop()


class Makes(Protocol):
    """Makes a provider that is closed after the test."""

    def __call__(self, max_tokens: int = 24, **changes: Any) -> Local: ...


@pytest.fixture
async def makes(weights: Path, embedded: Embedded) -> AsyncIterator[Makes]:
    made: list[Local] = []

    def make(max_tokens: int = 24, **changes: Any) -> Local:
        made.append(Local(served(weights, **changes), embedded, max_tokens))
        return made[-1]

    yield make
    for local in made:
        await local.close()


@pytest.fixture
def local(makes: Makes) -> Local:
    return makes()


@pytest.fixture(scope="module")
def shared() -> Iterator[Embedded]:
    made = Embedded()
    yield made
    made.stop()


@pytest.fixture
async def warm(weights: Path, shared: Embedded) -> AsyncIterator[Local]:
    """A provider whose server stays from test to test."""
    made = Local(served(weights), shared, 24)
    yield made
    await made.close()


def served(weights: Path, **changes: Any) -> Serving:
    made = Serving(weights.stem, str(weights), context=CONTEXT, threads=1)
    return replace(made, **changes)


def asking(text: str) -> Request:
    return Request("Be brief.", (Message("user", (Text(text),)),))


HELLO = asking("Say hello.")
LONG = asking("Tell a long story about a ship, the sea, and a storm. Never stop.")


async def parts_of(provider: Local, request: Request = HELLO) -> list[ReplyPart]:
    """All that it says. Its connections are not kept."""
    async with aclosing(provider.stream(request)) as stream:  # type: ignore[type-var]
        return [part async for part in stream]


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.05)


def is_gone(process_id: int | None) -> bool:
    if process_id is None or not psutil.pid_exists(process_id):
        return True
    try:
        return bool(psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


# Asked -------------------------------------------------------------------------------------------


async def test_it_starts_at_first_need_streams_and_counts(local: Local) -> None:
    """The first call starts the server; then come progress, streamed words and the usage."""
    embedded = local._embedded
    assert not embedded.is_running
    first = await parts_of(local)
    loading = [part.text for part in first if isinstance(part, Preparing)]
    assert any(text.startswith("loading SmolLM2") and text.endswith(" 98 MB") for text in loading)
    words = [part.text for part in first if isinstance(part, TextDelta)]
    finished = first[-1]
    assert isinstance(finished, MessageFinished)
    assert len(words) > 1
    assert "".join(words) == finished.message.text != ""
    assert finished.usage.input_tokens > 10
    assert 0 < finished.usage.output_tokens <= 24

    process = embedded.process_id
    second = await parts_of(local)
    assert embedded.process_id == process
    assert not any(isinstance(part, Preparing) for part in second)
    assert isinstance(second[-1], MessageFinished)
    assert second[-1].usage.cache_read_tokens > 0, "the beginning was read once"
    assert second[-1].message == finished.message, "the same question has the same answer"


async def test_nobody_else_is_served(warm: Local) -> None:
    """The server listens on loopback only, and refuses requests without its key."""
    await parts_of(warm)
    embedded = warm._embedded
    process = psutil.Process(embedded.process_id)
    listening = [c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]
    body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        asked = urllib.request.Request(
            f"{embedded.address}/v1/chat/completions", body, {**headers, "Content-Type": "a/b"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(urllib.request.urlopen, asked)
        assert refused.value.code == 401
        refused.value.close()
    assert not any(embedded.key in word for word in process.cmdline())
    assert embedded.key not in str(process.environ())


async def test_no_proxy_stands_between(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is not used for the local server."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance((await parts_of(local))[-1], MessageFinished)


async def test_a_conversation_that_is_too_long(warm: Local) -> None:
    """A conversation longer than `local.context` is an overflow, so that it is shortened."""
    with pytest.raises(ContextOverflow, match="too long"):
        await parts_of(warm, asking("word " * 2 * CONTEXT))


async def test_pictures_are_words(warm: Local) -> None:
    """A picture becomes a line of text, and the call succeeds."""
    picture = Image("image/png", "iVBORw0KGgo=")
    call = ToolCall("c1", "execute_code", "{}")
    messages = (
        Message("user", (Text("Look."), picture)),
        Message("assistant", (call,)),
        Message("user", (ToolResult("c1", (Text("shown"), picture)),)),
    )
    request = Request("", messages)
    sent = json.dumps(warm.body(request))
    assert "iVBOR" not in sent
    assert sent.count("cannot read") == 2
    assert isinstance((await parts_of(warm, request))[-1], MessageFinished)


@pytest.mark.deep
async def test_another_model_takes_its_place(makes: Makes, embedded: Embedded) -> None:
    """A kernel has one server: other settings end it before the next one starts."""
    await parts_of(makes())
    before = embedded.process_id
    await parts_of(makes(2, context=2 * CONTEXT))
    assert is_gone(before)
    assert embedded.process_id not in (None, before)


# Interrupted, killed -----------------------------------------------------------------------------


async def test_an_interrupt_amid_the_reply_ends_the_computing(
    makes: Makes, embedded: Embedded
) -> None:
    """A cancelled reply stops computing; the server stays."""
    local = makes(CONTEXT // 2)
    began = asyncio.Event()

    async def ask() -> None:
        async with aclosing(local.stream(LONG)) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, TextDelta):
                    began.set()

    task = asyncio.create_task(ask())
    await asyncio.wait_for(began.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    process = psutil.Process(embedded.process_id)

    async def is_idle() -> bool:
        before = sum(process.cpu_times()[:2])
        await asyncio.sleep(0.5)
        return bool(sum(process.cpu_times()[:2]) - before < 0.1)

    end = time.monotonic() + 30
    while not await is_idle():
        assert time.monotonic() < end, "it goes on computing"
    assert isinstance((await parts_of(local, HELLO))[-1], MessageFinished)
    assert embedded.process_id == process.pid


async def test_an_interrupt_amid_the_load_leaves_nothing(local: Local) -> None:
    """A start that is cancelled leaves no process; the next call starts a new one."""
    embedded = local._embedded
    task = asyncio.create_task(parts_of(local))
    await until(lambda: embedded.process_id is not None)
    process = embedded.process_id
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not embedded.is_running
    assert is_gone(process)
    assert isinstance((await parts_of(local))[-1], MessageFinished)


@pytest.mark.deep
async def test_a_server_that_died_is_started_again(local: Local) -> None:
    """A server killed between two calls is started again for the second."""
    embedded = local._embedded
    await parts_of(local)
    before = embedded.address, embedded.process_id
    psutil.Process(embedded.process_id).kill()
    await until(lambda: not embedded.is_running)
    assert isinstance((await parts_of(local))[-1], MessageFinished)
    assert (embedded.address, embedded.process_id) != before


async def test_a_server_that_dies_amid_the_reply(makes: Makes, embedded: Embedded) -> None:
    """If the server dies, the call fails with one retryable line."""
    local = makes(CONTEXT // 2)
    with pytest.raises(ProviderError) as caught:
        async with aclosing(local.stream(LONG)) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, TextDelta):
                    psutil.Process(embedded.process_id).kill()
                    await until(lambda: not embedded.is_running)
    assert caught.value.retryable
    assert "\n" not in str(caught.value)
    assert "signal 9" in str(caught.value)
    assert isinstance((await parts_of(local))[-1], MessageFinished)


async def test_stop_ends_it(local: Local) -> None:
    """`stop` ends the server, and may be called twice."""
    await parts_of(local)
    process = local._embedded.process_id
    local._embedded.stop()
    local._embedded.stop()
    assert is_gone(process)


def owner(weights: Path, ending: str) -> subprocess.Popen[str]:
    """A program that starts the model, says which process it is, and ends in some way."""
    code = f"""
import asyncio, os, sys, time
from jupyter_agent.llm.embedded import Embedded, Serving
async def main():
    embedded = Embedded()
    async for _ in embedded.ready(Serving("small", {str(weights)!r}, context=1024, threads=1)):
        pass
    print(embedded.process_id, flush=True)
    return embedded
embedded = asyncio.run(main())
{ending}
"""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("sys.exit()", marks=pytest.mark.deep),
        pytest.param("os._exit(0)", marks=pytest.mark.deep),
        pytest.param("os.kill(os.getpid(), 9)", marks=pytest.mark.deep),
        # A process that it forked holds its files open and lives on.
        "os.fork() or time.sleep(20); os.kill(os.getpid(), 9)",
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="no fork and no kill there")
async def test_it_ends_with_its_owner(weights: Path, ending: str) -> None:
    """However its owner's process ends, the server ends soon."""
    running = owner(weights, ending)
    assert running.stdout is not None
    with running.stdout:
        process = int(running.stdout.readline())
        await asyncio.to_thread(running.wait)
        await until(lambda: is_gone(process), 30)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
async def test_a_fork_leaves_it_alone(weights: Path) -> None:
    """A forked process that exits does not take its parent's model with it."""
    ending = (
        "child = os.fork()\nif not child: sys.exit()\n"
        "os.waitpid(child, 0); print(embedded.is_running)"
    )
    running = owner(weights, ending)
    output, _ = await asyncio.to_thread(running.communicate)
    assert output.split()[-1] == "True"


# Broken files and wrong settings -----------------------------------------------------------------


def settings_of(**values: Any) -> Settings:
    return resolve([layer("test", values)]).settings


async def test_a_file_that_was_cut_off(
    weights: Path, makes: Makes, embedded: Embedded, tmp_path: Path
) -> None:
    """A truncated GGUF file passes the first check; loading it fails with one line."""
    half = tmp_path / "half.gguf"
    half.write_bytes(weights.read_bytes()[:5_000_000])
    found = serving(LocalSettings(model_path=str(half)), tmp_path)
    with pytest.raises(ProviderError, match="corrupted or incomplete") as caught:
        await parts_of(makes(path=found.path))
    assert not caught.value.retryable
    assert "\n" not in str(caught.value)
    assert not embedded.is_running


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no weights are named"),
        ({"model_path": "gone.gguf"}, "cannot be read"),
        ({"model_path": "."}, "cannot be read"),
        ({"model_path": "page.gguf"}, "is no GGUF file"),
        ({"model_path": "empty.gguf"}, "is no GGUF file"),
        ({"model_path": "page.gguf", "model": "hf:a/b:c.gguf"}, "both set"),
        ({"model": "qwen"}, "hf:OWNER/REPO:FILE"),
        ({"model": "hf:a/b:c.safetensors"}, "hf:OWNER/REPO:FILE"),
        ({"model": "hf:a/b:../../c.gguf"}, "hf:OWNER/REPO:FILE"),
        ({"model": "hf:a/b:c-00002-of-00003.gguf"}, "the first"),
    ],
)
def test_settings_that_name_no_model(tmp_path: Path, values: dict[str, str], words: str) -> None:
    """Wrong settings are one line each, before anything is started."""
    (tmp_path / "page.gguf").write_text("<html>Not found</html>", encoding="utf-8")
    (tmp_path / "empty.gguf").touch()
    given = settings_of(provider="local", **{f"local.{key}": text for key, text in values.items()})
    with pytest.raises(ConfigError, match=words) as caught:
        choose(given, None, {}, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("package", "setting"),
    [("xllamacpp", "model_path={path!r}"), ("huggingface_hub", "model='hf:a/b:c.gguf'")],
)
def test_a_package_that_is_not_there(weights: Path, package: str, setting: str) -> None:
    """Without the extra, one line says how to install it."""
    code = f"""
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == {package!r} else super().find_spec(name, path, target)
sys.meta_path[:] = [f for f in sys.meta_path if f is not PathFinder] + [Without]
from pathlib import Path
from jupyter_agent.config import LocalSettings
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.local import serving
try:
    serving(LocalSettings({setting.format(path=str(weights))}), Path())
except ConfigError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.count("\n") == 1
    assert package in ran.stdout
    assert "pip install" in ran.stdout


def test_chosen(weights: Path, tmp_path: Path) -> None:
    """Weights select the provider local, by default with code protocol and short instructions."""
    given: dict[str, Any] = {"local.model_path": str(weights), "local.context": 4096}
    settings = settings_of(**given)
    key = {"OPENAI_API_KEY": "dummy-" + "for-tests"}
    assert provider_name(settings, key) == "local"
    assert provider_name(settings_of(**given, provider="openai"), key) == "openai"
    chosen = choose(settings, None, {})
    assert isinstance(chosen, BriefProtocol)
    whole = choose(settings_of(**given, instructions="full"), None, {})
    assert isinstance(whole, CodeProtocol)
    assert (chosen.name, chosen.model) == ("local", weights.stem)
    assert is_brief(settings, {})
    assert not is_brief(settings_of(**given, instructions="full"), {})
    assert not is_brief(settings_of(provider="openai"), {})
    native = choose(settings_of(**given, tool_protocol="native"), None, {})
    assert isinstance(native, Local)
    recorder = choose(settings_of(**given, mode="record"), tmp_path / "a.cassette.jsonl", {})
    assert isinstance(tape_of(recorder), Recorder)
    assert recorder.name == "local"
    with pytest.raises(ConfigError, match=r"half of local\.context"):
        choose(settings_of(**given, max_tokens=4000), None, {})


@given(
    st.integers(1024, 200_000),
    st.one_of(st.none(), st.integers(1, 100_000)),
    st.integers(1000, 500_000),
)
def test_a_conversation_and_its_reply_fit(context: int, reply: int | None, limit: int) -> None:
    """The limit is at most `token_limit` and leaves room for the reply."""
    reply = reply if reply is None else min(reply, context // 2)
    values = {"provider": "local", "local.context": context, "token_limit": limit}
    settings = settings_of(**values, **({"max_tokens": reply} if reply else {}))
    told = token_limit(settings, {})
    assert 0 < told <= limit
    assert told + (reply or reply_tokens(context)) <= context or told == limit
    assert token_limit(settings_of(provider="openai", token_limit=limit), {}) == limit


async def test_threads() -> None:
    """There is at least one thread, and no more than the process has cores."""
    assert 1 <= await free_cores() <= cores() <= (psutil.cpu_count() or 1)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(names, names, names)
def test_a_name_says_where_the_file_is(owner: str, repository: str, stem: str) -> None:
    """A model's name is parsed into repository and file."""
    found = hub_file(f"hf:{owner}/{repository}:{stem}.gguf")
    assert (found.repo, found.file) == (f"{owner}/{repository}", f"{stem}.gguf")
    parts = hub_file(f"hf:{owner}/{repository}:q4/{stem}-00001-of-00003.gguf").files
    assert parts == tuple(f"q4/{stem}-0000{number}-of-00003.gguf" for number in (1, 2, 3))


# Fetched by name ---------------------------------------------------------------------------------


class Hub(ThreadingHTTPServer):
    """A hub with one repository, `tiny/model`, and one file in it."""

    daemon_threads = True

    def __init__(self, content: bytes, bytes_per_second: float = float("inf")) -> None:
        super().__init__(("127.0.0.1", 0), _HubRequest)
        self.content = content
        self.speed = bytes_per_second
        self.sent = 0
        self.asked: list[str] = []
        threading.Thread(target=partial(self.serve_forever, 0.05), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _HubRequest(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(self.server.content)

    def _answer(self, content: bytes) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        is_file = self.path.endswith("/small.gguf")
        self.send_response(200 if is_file else 404)
        self.send_header("ETag", '"0123456789abcdef"')
        self.send_header("X-Repo-Commit", "0" * 40)
        if not is_file:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", str(len(self.server.content) if is_file else 0))
        self.end_headers()
        for start in range(0, len(content) if is_file else 0, 1 << 16):
            piece = content[start : start + (1 << 16)]
            try:
                self.wfile.write(piece)
            except OSError:
                return
            self.server.sent += len(piece)
            time.sleep(len(piece) / self.server.speed)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
async def hub(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    made = Hub(weights.read_bytes())
    monkeypatch.setenv("HF_ENDPOINT", made.address)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield made
    made.close()


def named(file: str = "small.gguf", download: bool = True) -> dict[str, Any]:
    """What a provider is made with whose model is at the hub."""
    settings = LocalSettings(model=f"hf:tiny/model:{file}", download=download)
    found = serving(settings, Path())
    return {name: getattr(found, name) for name in ("name", "path", "repo", "files", "download")}


@pytest.mark.deep
async def test_fetched_once_and_not_without_a_word(
    hub: Hub, makes: Makes, embedded: Embedded
) -> None:
    """A notice names file, size, source and folder before a download; then comes progress."""
    local = makes(4, **named())
    assert local.model == "small"
    parts = await parts_of(local)
    (notice,) = [index for index, part in enumerate(parts) if isinstance(part, Noticed)]
    told = parts[notice]
    assert isinstance(told, Noticed)
    for words in ("small.gguf of tiny/model", "98 MB", hub.address.removeprefix("http://"), "hub"):
        assert words in told.text
    progress = [part.text for part in parts[notice:] if isinstance(part, Preparing)]
    assert any(text.startswith("fetching small: ") for text in progress)
    assert isinstance(parts[-1], MessageFinished)

    embedded.stop()
    hub.close()
    again = await parts_of(makes(4, **named(download=False)))
    assert not any(isinstance(part, Noticed) for part in again)
    assert isinstance(again[-1], MessageFinished)


@pytest.mark.deep
async def test_an_interrupt_amid_the_fetching(
    hub: Hub, makes: Makes, embedded: Embedded, tmp_path: Path
) -> None:
    """An interrupted download leaves no process and no partial file."""
    hub.speed = 2_000_000
    task = asyncio.create_task(parts_of(makes(4, **named())))
    await until(lambda: hub.sent > 1_000_000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not embedded.is_running
    left = [path for path in (tmp_path / "hub").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 10_000, left


@pytest.mark.parametrize(
    ("file", "download", "words"),
    [
        ("small.gguf", False, "local.download is false"),
        ("other.gguf", True, "cannot be fetched from 127.0.0.1"),
    ],
)
async def test_a_file_that_is_not_to_be_had(
    hub: Hub, makes: Makes, embedded: Embedded, file: str, download: bool, words: str
) -> None:
    """A missing file is one line; no process starts and nothing is fetched."""
    with pytest.raises(ProviderError, match=words) as caught:
        await parts_of(makes(4, **named(file, download)))
    assert "\n" not in str(caught.value)
    assert not embedded.is_running
    assert hub.sent == 0


@pytest.mark.deep
async def test_a_hub_out_of_reach(hub: Hub, makes: Makes) -> None:
    """An unreachable hub is one line that names the host."""
    hub.close()
    with pytest.raises(ProviderError, match=r"cannot be fetched from 127\.0\.0\.1"):
        await parts_of(makes(4, **named()))
