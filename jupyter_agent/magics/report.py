"""The output of a command: plain text for terminals and logs, HTML for front ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tables import Part, Table, changed, part_html, part_text


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Tables and texts, one below the other.

    `text` is the whole as plain text, if the parts do not give it.
    """

    parts: tuple[Part, ...]
    text: str = ""

    def __str__(self) -> str:
        return self.text or "\n\n".join(map(part_text, self.parts))

    @property
    def html(self) -> str:
        """The HTML, fully escaped; inline styles only, since notebooks keep no others."""
        return "".join(map(part_html, self.parts))


def without_secrets(said: CommandReport | str) -> CommandReport | str:
    """A report without secrets and control characters: the output is saved with the notebook."""
    secrets = secret_values()

    def harmless(text: str) -> str:
        return redact(text, secrets)

    if isinstance(said, str):
        return harmless(plain(said))
    parts = tuple(changed(part, harmless) for part in said.parts)
    return CommandReport(parts, harmless(plain(said.text)))


@contextmanager
def errors_without_secrets() -> Iterator[None]:
    """Remove secrets and control characters from the messages of errors in this context.

    IPython shows them, and saves them with the notebook; some quote a server.
    """
    try:
        yield
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (redact(plain(error.args[0]), secret_values()), *error.args[1:])
        raise


def report(*parts: Part, text: str = "") -> CommandReport:
    """A report of the parts that are not empty, with `CommandReport`'s `text`."""
    return CommandReport(tuple(part for part in parts if part and part != Table(())), text)
