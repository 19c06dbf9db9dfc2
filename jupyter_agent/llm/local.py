"""The embedded model as a provider: llama.cpp on loopback, by the chat completions API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from jupyter_agent.config import LocalSettings
from jupyter_agent.core.events import ReplySource
from jupyter_agent.core.messages import Block, Image, JsonObject, Message, Text, ToolResult
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError, ProviderError
from jupyter_agent.llm.connection import Connection
from jupyter_agent.llm.embedded import Embedded, Serving
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.weights import hub_file
from jupyter_agent.llm.wire import picture_notice

_MAGIC = b"GGUF"
_NOWHERE = "http://127.0.0.1:9/v1"
_LABEL = "The embedded model"
_INSTALL = "pip install 'jupyter-agent-magics[local]'"


class Local:
    """A model that runs on this machine, in a process of the kernel.

    Args:
        serving: The model and its options.
        embedded: The server; it may be shared with other providers, and outlives this one.
        max_tokens: The longest reply; None: `reply_tokens` of the context.
        timeout: Seconds without a sign of life after which a call fails.
    """

    name = "local"
    source: ReplySource = "live"

    def __init__(
        self,
        serving: Serving,
        embedded: Embedded,
        max_tokens: int | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.model = serving.name
        self._serving = serving
        self._embedded = embedded
        self._max_tokens = max_tokens or reply_tokens(serving.context)
        self._timeout = timeout
        self._address = ""
        self._adapter = self._made(_NOWHERE, "nobody")

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        """Ask the model; starts its server if it does not run.

        Raises:
            ProviderError: It cannot be started, the call failed, or the server died.
        """
        async with aclosing(self._embedded.ready(self._serving)) as preparing:
            async for told in preparing:
                yield told
        adapter = await self._connected()
        try:
            async with aclosing(adapter.stream(_in_words(request))) as stream:
                async for part in stream:
                    yield part
        except ProviderError as error:
            raise await self._embedded.explained(error) from error

    def body(self, request: Request) -> JsonObject:
        return self._adapter.body(_in_words(request))

    async def close(self) -> None:
        """Release the connections. The server stays for the next provider."""
        await self._adapter.close()

    async def _connected(self) -> OpenAI:
        if self._address != self._embedded.address:
            await self._adapter.close()
            self._address = self._embedded.address
            self._adapter = self._made(f"{self._address}/v1", self._embedded.key)
        return self._adapter

    def _made(self, base: str, key: str) -> OpenAI:
        # The server closes a connection that was idle for seconds, maybe as it is used again.
        way = Connection({"Connection": "close"}, direct=True)
        return OpenAI(
            self.model, key, base, self._max_tokens, self._timeout, connection=way, label=_LABEL
        )


def reply_tokens(context: int) -> int:
    """The tokens of a context that are kept free for the reply, without `max_tokens`."""
    return context // 4


def serving(settings: LocalSettings, folder: Path) -> Serving:
    """The model and options of the settings. A relative `local.model_path` starts at `folder`.

    Raises:
        ConfigError: The weights are missing or invalid, or a needed package is not installed.
    """
    if settings.model_path and settings.model:
        raise ConfigError("local.model_path and local.model are both set. Keep one of them.")
    if not settings.model_path and not settings.model:
        raise ConfigError(
            "provider is local, but no weights are named: set local.model_path to a GGUF file, or "
            "local.model to hf:OWNER/REPO:FILE."
        )
    wanted = _file(settings.model_path, folder) if settings.model_path else _named(settings)
    if find_spec("xllamacpp") is None:
        raise ConfigError(f"The provider local needs the package xllamacpp: {_INSTALL}")
    return replace(
        wanted,
        context=settings.context,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
    )


def _file(name: str, folder: Path) -> Serving:
    path = (folder / Path(name).expanduser()).resolve()
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(
            f"local.model_path: {path} cannot be read ({error.strerror}). Name a GGUF file."
        ) from None
    if begins != _MAGIC:
        raise ConfigError(f"local.model_path: {path} is no GGUF file. Name one, or fetch it again.")
    return Serving(path.stem, str(path))


def _named(settings: LocalSettings) -> Serving:
    named = hub_file(settings.model or "")
    if find_spec("huggingface_hub") is None:
        raise ConfigError(
            "local.model names a file at the hub, which needs the package huggingface_hub: "
            "pip install huggingface_hub, or fetch the file and set local.model_path."
        )
    stem = PurePosixPath(named.file).stem
    return Serving(stem, repo=named.repo, files=named.files, download=settings.download)


def _in_words(request: Request) -> Request:
    """The request without pictures, which the embedded model cannot see."""
    return replace(request, messages=tuple(map(_without_pictures, request.messages)))


def _without_pictures(message: Message) -> Message:
    if not any(isinstance(block, (Image, ToolResult)) for block in message.blocks):
        return message
    return replace(message, blocks=tuple(map(_without_picture, message.blocks)))


def _without_picture(block: Block) -> Block:
    if isinstance(block, Image):
        return Text(picture_notice(block))
    if isinstance(block, ToolResult):
        content = tuple(
            Text(picture_notice(part)) if isinstance(part, Image) else part
            for part in block.content
        )
        return replace(block, content=content)
    return block
