"""Weights by name, `hf:OWNER/REPO:FILE`, and their download."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.errors import ConfigError

_NAME = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+):(?P<file>[^:]+\.gguf)", re.IGNORECASE)
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_MOST_PARTS = 1000


class Unavailable(Exception):
    """The weights are not available; the message gives the reason in one line."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A GGUF file in a repository of the hub."""

    repo: str
    file: str

    @property
    def files(self) -> tuple[str, ...]:
        """The file, or all its parts if it is the first of several."""
        part = _PART.fullmatch(self.file)
        if part is None:
            return (self.file,)
        stem, count = part["stem"], part["count"]
        return tuple(f"{stem}-{number:05}-of-{count}.gguf" for number in range(1, int(count) + 1))


def hub_file(name: str) -> HubFile:
    """Read `hf:OWNER/REPO:FILE`.

    Raises:
        ConfigError: The name has another form.
    """
    found = _NAME.fullmatch(name.strip())
    parts = found["file"].split("/") if found else [".."]
    part = _PART.fullmatch(parts[-1])
    is_first = part is None or (part["number"] == "00001" and int(part["count"]) <= _MOST_PARTS)
    if found is None or {"", ".", ".."} & set(parts) or not is_first:
        raise ConfigError(
            f"local.model: {name!r} is not of the form hf:OWNER/REPO:FILE.gguf (of a file in "
            "parts, the first). For a file on this machine set local.model_path."
        )
    return HubFile(found["repo"], found["file"])


def fetched(
    repo: str, files: tuple[str, ...], download: bool, report: Callable[[dict[str, Any]], None]
) -> Path:
    """The path of the first of the files, after the missing ones are fetched.

    Args:
        repo: The repository.
        files: Its files.
        download: True if they may be fetched.
        report: Called with the start (`fetching`, `size`, `source`, `folder`) and the progress
            (`fetched`, `size`) of a download.

    Raises:
        Unavailable: They cannot be fetched.
    """
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _all_of(repo, files, local_files_only=True)
    except LocalEntryNotFoundError:
        pass
    what = f"{files[0]} of {repo}"
    if not download:
        raise Unavailable(
            f"{what} is not on this machine, and local.download is false. Set it to true, or fetch "
            "the file and set local.model_path."
        )
    host = urlsplit(huggingface_hub.constants.ENDPOINT).netloc
    try:
        found = [huggingface_hub.hf_hub_download(repo, name, dry_run=True) for name in files]
        missing = [each for each in found if not each.is_cached]
        size = sum(each.file_size or 0 for each in missing)
        folder = huggingface_hub.constants.HF_HUB_CACHE
        report({"fetching": what, "size": size, "source": host, "folder": str(folder)})
        return _all_of(repo, files, tqdm_class=_progress(size, report))
    except Exception as error:  # the hub's own errors, the network's, the disk's
        raise Unavailable(f"{what} cannot be fetched from {host}: {_reason(error)}") from None


def _all_of(repo: str, files: tuple[str, ...], **options: Any) -> Path:
    from huggingface_hub import hf_hub_download

    paths = [Path(hf_hub_download(repo, name, **options)) for name in files]
    return paths[0]


def _progress(size: int, report: Callable[[dict[str, Any]], None]) -> type[Any]:
    """A class of progress bars that report the progress of all files, and draw nothing."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    finished = 0

    class Reporting(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            # Otherwise it counts nothing where there is no terminal.
            super().__init__(*args, **{**options, "disable": False})

        def display(self, *args: Any, **options: Any) -> None:
            report({"fetched": finished + int(self.n), "size": size})

        def close(self) -> None:
            nonlocal finished
            if not self.disable:
                finished += int(self.n)
            super().close()

    return Reporting


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
