"""The one model of a run, asked by every agent: the embedded one, or that of the usual settings."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from benchmarks.line import ROOT
from evals.tasks import Attempt, Limits
from jupyter_agent.config import Settings, environment_layer, resolve
from jupyter_agent.core.events import MessageFinished, Preparing
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.embedded import Embedded, Serving
from jupyter_agent.llm.local import serving
from jupyter_agent.llm.retry import RetryPolicy, stream_with_retry
from jupyter_agent.session.provider_choice import choose, provider_name, token_limit

OWN_PREFIXES = ("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_")
_FETCH = ROOT / "scripts" / "fetch_model.py"
Words = tuple[str, str]
"""A message: its role, `user` or `assistant`, and its text."""


def usual_reply_tokens(environ: Mapping[str, str]) -> int:
    """The limit of a reply if none is given: larger for a provider, whose models think first."""
    return 700 if _provider(environ) == "local" else 4_000


class SharedModel:
    """The model that the environment sets; the embedded one of `scripts/fetch_model.py` if none is.

    The embedded model runs in one llama.cpp process, which all agents ask at its address. Equal
    requests have equal replies there, since its temperature is 0.

    Args:
        environ: Environment variables: settings as `JUPYTER_AGENT_…`, and keys.
        limits: The limits of one attempt.

    Raises:
        ConfigError: The variables name no usable model.
    """

    def __init__(self, environ: Mapping[str, str], limits: Limits) -> None:
        kept = {name: text for name, text in environ.items() if name.startswith(OWN_PREFIXES)}
        settings = _settings(kept)
        self.provider = _provider(kept)
        if self.provider == "scripted":
            raise ConfigError("A script is no model to evaluate. Unset JUPYTER_AGENT_SCRIPT.")
        self.is_embedded = self.provider == "local"
        self._limits = limits
        self._embedded = Embedded()
        if self.is_embedded:
            if not settings.local.model_path and not settings.local.model:
                kept["JUPYTER_AGENT_LOCAL__MODEL_PATH"] = fetched()
            kept["JUPYTER_AGENT_PROVIDER"] = "local"
            settings = _settings(kept)
            self._serving = serving(settings.local, Path.cwd())
        kept.setdefault("JUPYTER_AGENT_MAX_TOKENS", str(limits.reply_tokens))
        kept.setdefault("JUPYTER_AGENT_MAX_STEPS", str(limits.steps))
        self._environ = kept
        self.name = self._serving.name if self.is_embedded else self._models_name()

    def environment(self) -> dict[str, str]:
        """The variables for a kernel whose agent asks this model. Starts the embedded one.

        An agent asks the embedded model as the provider `openai` at the shared address, with
        what the provider `local` would choose by itself.
        """
        if not self.is_embedded:
            return dict(self._environ)
        self._start()
        own = {
            name: text
            for name, text in self._environ.items()
            if name.startswith("JUPYTER_AGENT_") and not name.startswith("JUPYTER_AGENT_LOCAL__")
        }
        limit = token_limit(_settings(self._environ), self._environ)
        chosen = {
            "TOOL_PROTOCOL": "code",
            "INSTRUCTIONS": "short",
            "TOKEN_LIMIT": str(limit),
            "CONTEXT__DETAIL": "sample",
        }
        shared = {
            "PROVIDER": "openai",
            "API_BASE": f"{self._embedded.address}/v1",
            "API_KEY": self._embedded.key,
            "MODEL": self._serving.name,
            # llama.cpp closes connections that were idle, maybe as they are used again.
            "HTTP__HEADERS": "Connection: close",
        }
        return {**_named(chosen), **own, **_named(shared)}

    def openai(self) -> dict[str, str]:
        """`model`, `base` and `key` for a client of OpenAI's API.

        Raises:
            ConfigError: The model has another API.
        """
        environ = self.environment()
        settings = _settings(environ)
        if provider_name(settings, environ) != "openai":
            raise ConfigError(f"smolagents needs OpenAI's API, and the provider is {self.provider}")
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        return {
            "model": self.name,
            "base": settings.api_base or environ.get("OPENAI_BASE_URL", ""),
            "key": key or environ.get("OPENAI_API_KEY", "none"),
        }

    def ask(self, system: str, words: Sequence[Words], attempt: Attempt, seconds: float) -> str:
        """One reply without tools; its call and its tokens are added to `attempt`.

        Args:
            system: The system prompt.
            words: The conversation.
            attempt: The attempt that pays for it.
            seconds: The longest wait.

        Raises:
            TimeoutError: There was no reply within `seconds`.
            ProviderError: The call failed.
        """
        messages = tuple(
            Message("assistant" if role == "assistant" else "user", (Text(text),))
            for role, text in words
        )
        model = self._model()
        attempt.calls += 1
        finished = asyncio.run(_reply(model, Request(system, messages), seconds))
        attempt.input_tokens += finished.usage.input_tokens
        attempt.output_tokens += finished.usage.output_tokens
        return finished.message.text

    def close(self) -> None:
        """End the embedded model."""
        self._embedded.stop()

    def _model(self) -> Model:
        """The bare model, to be asked once."""
        environ = self.environment()
        settings = _settings({**environ, "JUPYTER_AGENT_TOOL_PROTOCOL": "native"})
        return choose(settings, None, environ)

    def _models_name(self) -> str:
        model = self._model()
        asyncio.run(model.close())
        return model.model

    def _start(self) -> None:
        if self._embedded.is_running and self._embedded.address:
            return
        print(f"Starting {self._serving.name} ...", flush=True)
        asyncio.run(_ready(self._embedded, self._serving))


def fetched() -> str:
    """The path of the weights of `make demo-local`, fetched unless they are there.

    Raises:
        ConfigError: They cannot be had.
    """
    command = [sys.executable, str(_FETCH)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ConfigError("The embedded model cannot be fetched. Set JUPYTER_AGENT_PROVIDER.")
    return done.stdout.strip().splitlines()[-1]


def _named(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"JUPYTER_AGENT_{name}": text for name, text in settings.items()}


def _provider(environ: Mapping[str, str]) -> str:
    return provider_name(_settings(environ), environ) or "local"


def _settings(environ: Mapping[str, str]) -> Settings:
    return resolve([environment_layer(environ)]).settings


async def _ready(embedded: Embedded, wanted: Serving) -> None:
    async for part in embedded.ready(wanted):
        if not isinstance(part, Preparing):
            print(part, flush=True)


async def _reply(model: Model, request: Request, seconds: float) -> MessageFinished:
    try:
        async with asyncio.timeout(seconds):
            stream = stream_with_retry(model, request, RetryPolicy())
            async with aclosing(stream) as parts:
                async for part in parts:
                    if isinstance(part, MessageFinished):
                        return part
    finally:
        await model.close()
    raise AssertionError("a stream ended without its last part")
