"""Translates every failure of a model call into a `ProviderError` with one helpful line."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx2

from jupyter_agent.core.plaintext import plain
from jupyter_agent.errors import ContextOverflow, ProviderError
from jupyter_agent.llm.wire import mapping, string

_LINE = 300
_SAID = 160
_TOO_LONG = re.compile(
    r"prompt is too long|context[ _]?(length|window|limit|size)|maximum context|"
    r"input is too long|too many input tokens|request_too_large",
    re.IGNORECASE,
)
_OF_EVENT = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "timeout": 408,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "service_unavailable": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_USED_UP = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")
_KEY = re.compile(r"\b(?:sk|pk|rk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w-]{10,}|(?<=Bearer )\S+")
_HINTS = {
    400: "Check the model name and what this server supports.",
    401: "Check the key in {key_variable}.",
    402: "Check the account's billing.",
    403: "Check that the key in {key_variable} may use {model}.",
    404: "Check the model name ({model}) and api_base ({host}).",
    408: "Try again.",
    409: "Try again.",
    422: "Check the model name and what this server supports.",
    429: "The rate limit is reached: try again later.",
}
_TROUBLE = "The service has trouble: try again a little later."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The called server, as error messages may name it. `secrets` never appear in one."""

    label: str
    model: str
    host: str
    key_variable: str
    secrets: tuple[str, ...] = ()

    def line(self, text: str) -> str:
        """`text` in one line of at most 300 characters, without keys and control characters."""
        # A placeholder such as `x` is no secret, and replacing it would garble the text.
        for secret in (secret for secret in self.secrets if len(secret) >= 8):
            text = text.replace(secret, "[key]")
        text = " ".join(plain(_KEY.sub("[key]", text).replace("\r", " ")).split())
        return text if len(text) <= _LINE else text[: _LINE - 1] + "…"

    def answered(
        self,
        status: int | None,
        said: str = "",
        *,
        code: str = "",
        retry_after: float | None = None,
    ) -> ProviderError:
        """The error for a status, or for an error event in a stream (`status` may be None).

        Args:
            status: The HTTP status, or the one that an error event stands for.
            said: The server's own message.
            code: The server's name for the error, such as `insufficient_quota`.
            retry_after: Seconds that the server asked to wait.
        """
        if _overflows(status, said, code):
            return ContextOverflow(
                self.line(
                    f"The conversation is too long for {self.model} ({self.label}"
                    f"{f' answered {status}' if status else ''}: {_short(said) or code}). "
                    "Shorten it, or use a model with a larger context."
                ),
                status=status,
            )
        used_up = code in _USED_UP
        hint = "The quota is used up: check plan and billing." if used_up else self._hint(status)
        what = _sentence(_short(said) or _phrase(status) or code)
        return ProviderError(
            self.line(f"{self.label} answered {status or 'with an error'}: {what} {hint}"),
            retryable=not used_up and may_pass(status),
            status=status,
            retry_after=retry_after,
        )

    def _hint(self, status: int | None) -> str:
        hint = _HINTS.get(status or 0, "" if status and status < 500 else _TROUBLE)
        return hint.format(key_variable=self.key_variable, model=self.model, host=self.host)

    def broke(self, error: BaseException) -> ProviderError:
        """The error for a missing answer: no connection, a time-out, a broken stream."""
        match error:
            case httpx2.TimeoutException() | TimeoutError():
                return self._passing(f"{self._place} did not answer in time. Try again later.")
            case httpx2.TooManyRedirects():
                text = f"{self._place} redirects in a circle. Check api_base."
                return ProviderError(self.line(text))
            case httpx2.ConnectError():
                text = f"{self._place} cannot be reached: {_short(str(error))}"
                return self._passing(f"{_sentence(text)} Check the network and api_base.")
            case httpx2.HTTPError() | httpx2.StreamError() | OSError() if not _malformed(error):
                name = type(error).__name__
                return self._passing(f"{self._place} broke off ({name}). Try again.")
            case ValueError() if not isinstance(error, UnicodeEncodeError):
                text = f"{self.label} sent a chunk that is not valid JSON. Try again."
                return self._passing(text)
        return ProviderError(self.line(self._impossible(error)))

    def _impossible(self, error: BaseException) -> str:
        """The message for an error that another try would repeat; empty for others."""
        if _malformed(error):
            return (
                f"{self.label} cannot be called: the address or the key is malformed. "
                f"Check api_base and {self.key_variable}."
            )
        if isinstance(error, UnicodeEncodeError):
            # Headers are ASCII, and the only text of the user's in them is the key.
            what = "the key" if error.encoding == "ascii" else "the request"
            return (
                f"{self.label} was not called: {what} holds characters that cannot be sent. "
                f"Check {self.key_variable} or the text."
            )
        return f"The call of {self.label} failed: {type(error).__name__}: {_short(str(error))}"

    def no_stream(self, text: str) -> ProviderError:
        """The error for an answer with status 200 that is no reply: a web page, or other JSON."""
        kind = "a web page" if text.lstrip().startswith("<") else "something else"
        return self._passing(f"{self._place} sent {kind} instead of a reply. Check api_base.")

    def cut_short(self) -> ProviderError:
        """The error for a stream that ended without a stop reason."""
        return self._passing(
            f"The reply of {self.label} ended without a stop reason: it is incomplete. Try again."
        )

    @property
    def _place(self) -> str:
        return self.label if self.host in self.label else f"{self.label} ({self.host})"

    def _passing(self, text: str) -> ProviderError:
        return ProviderError(self.line(text), retryable=True)


def may_pass(status: int | None) -> bool:
    """True if the same request may succeed later. An error of unknown status in a stream may."""
    return status is None or status in (408, 409, 429) or status >= 500


def said_by(body: object, depth: int = 5) -> str:
    """The server's own message in an error's body of any form; empty for HTML."""
    if not depth:
        return ""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body
    if isinstance(body, dict):
        for key in ("error", "message", "detail", "msg"):
            if said := said_by(body.get(key), depth - 1):
                return said
    return ""


def code_of(body: object) -> str:
    """The server's name for the error: its `code`, else its `type`."""
    parts = mapping(mapping(body).get("error", body))
    return string(parts.get("code")) or string(parts.get("type"))


def status_of(body: object) -> int | None:
    """The HTTP status for an error in a stream; None if it is unknown."""
    parts = mapping(mapping(body).get("error", body))
    code = parts.get("code")
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _OF_EVENT.get(string(code)) or _OF_EVENT.get(string(parts.get("type")))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that a response asks for; None if it has no valid value.

    Reads `retry-after-ms`, and `Retry-After` in seconds or as a date; a past date is 0.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _seconds(text)
    return seconds if seconds is not None or text is None else _until(text)


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _malformed(error: BaseException) -> bool:
    return isinstance(
        error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL
    )


def _overflows(status: int | None, said: str, code: str) -> bool:
    if status == 413:
        return True
    refused = status is None or (400 <= status < 500 and status not in (401, 402, 403, 404, 429))
    return refused and bool(_TOO_LONG.search(f"{code} {said}"))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SAID else text[: _SAID - 1] + "…"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _phrase(status: int | None) -> str:
    if status == 529:
        return "overloaded"
    try:
        return HTTPStatus(status or 0).phrase.lower()
    except ValueError:
        return ""
