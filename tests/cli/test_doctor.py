"""`jupyter agent doctor` against real servers, files and kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli.command import environment, run

from jupyter_agent import config
from jupyter_agent.files import trust
from jupyter_agent.mcp.definitions import read_definitions
from jupyter_agent.mcp.servers import TRUST_KIND
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.notebooks.doctor.folder import (
    examine_cassettes,
    examine_git,
    examine_rights,
    examine_settings,
)
from jupyter_agent.notebooks.doctor.front import examine_front
from jupyter_agent.notebooks.doctor.model import examine_model
from jupyter_agent.notebooks.doctor.packages import examine_packages
from jupyter_agent.notebooks.doctor.servers import examine_servers
from jupyter_agent.session.effective_settings import (
    digest_of,
    effective_settings,
    trust_settings,
    untrusted_settings,
)
from jupyter_agent.version import __version__

KEY = "sk-" + "ant-" + "Abc1" * 8
EXAMPLES = Path(__file__).resolve().parents[2] / "example_notebooks"
SERVER = Path(__file__).resolve().parents[1] / "mcp" / "good_server.py"

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of one's own, and no variables of ours."""
    folder = tmp_path_factory.mktemp("home")
    for name in os.environ:
        if name.startswith(("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "jupyter"))
    return folder


def by_name(found: Iterator[Examined]) -> dict[str, Examined]:
    return {one.name: one for one in found}


def configured(folder: Path, text: str) -> None:
    path = folder / ".jupyter_agent" / "config.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- the model's server


class Models(ThreadingHTTPServer):
    """A server that answers a question for its models, and remembers what it was sent."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.body = status, body
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Models

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        data = json.dumps(self.server.body).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def models(status: int = 200, body: object = None) -> Iterator[Models]:
    with Models(status, body) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def model(
    environ: Mapping[str, str], folder: Path, offline: bool = False, **settings: object
) -> dict[str, Examined]:
    layer = config.layer("test", {k.replace("__", "."): v for k, v in settings.items()})
    resolved = config.resolve([config.environment_layer({}), layer])
    return by_name(examine_model(resolved, environ, folder, offline=offline, timeout=5))


def listed(*names: str) -> dict[str, Any]:
    return {"data": [{"id": name} for name in names]}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_server_that_answers(tmp_path: Path, provider: str) -> None:
    """One GET asks for the models with the key in its header, and no text shows the key."""
    with models(body=listed("small")) as server:
        environ = {f"{provider.upper()}_API_KEY": KEY}
        found = model(environ, tmp_path, provider=provider, api_base=server.url, model="small")
        ((path, headers),) = server.asked
    assert found["server"].state == "ok"
    assert "has small" in found["server"].text
    assert path == ("/models" if provider == "openai" else "/v1/models")
    assert KEY in " ".join(headers.values())
    assert KEY not in repr(found)
    assert found[f"{provider.upper()}_API_KEY"].text == "set (not shown)"


@pytest.mark.parametrize(
    ("status", "body", "state", "words"),
    [
        (200, listed("other"), "warning", "small is not among the 1 models"),
        (200, {"data": [{"id": "other"}], "has_more": True}, "ok", "answers"),
        (200, "hello", "ok", "answers"),
        (200, [{"id": 3}], "ok", "answers"),
        (404, {}, "ok", "no list of models"),
        (401, {}, "problem", "key is refused"),
        (403, {}, "problem", "key is refused"),
        (500, {}, "problem", "failure of the server"),
        (503, "<html>", "problem", "failure of the server"),
    ],
)
def test_what_a_server_says(
    tmp_path: Path, status: int, body: object, state: str, words: str
) -> None:
    """Each answer of a server is reported correctly, and problems have a remedy."""
    with models(status, body) as server:
        found = model({}, tmp_path, provider="openai", api_base=server.url, model="small")
    assert found["server"].state == state
    assert words in found["server"].text
    assert bool(found["server"].remedy) == (state != "ok")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """If nothing listens, the problem is one line with the address and a remedy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:hidden@127.0.0.1:{free.getsockname()[1]}"
    found = model({}, tmp_path, provider="openai", api_base=url)
    assert found["server"].state == "problem"
    assert "GET http://127.0.0.1:" in found["server"].text
    assert "hidden" not in repr(found["server"])
    assert "api_base" in found["server"].remedy


def test_a_server_that_is_silent(tmp_path: Path) -> None:
    """A silent server costs no more than the time-out."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        layer = config.layer("test", {"provider": "openai", "api_base": url})
        found = by_name(
            examine_model(config.resolve([layer]), {}, tmp_path, offline=False, timeout=0.3)
        )
    assert "no answer within 0.3 s" in found["server"].text


def test_a_server_that_speaks_no_tls(tmp_path: Path) -> None:
    """A certificate problem is reported as one."""
    with models() as server:
        url = server.url.replace("http:", "https:")
        found = model({}, tmp_path, provider="openai", api_base=url)
    assert found["server"].state == "problem"
    assert found["server"].remedy


@pytest.mark.parametrize("base", ["nonsense", "http://", "http://[::1", "ftp://x"])
def test_addresses_that_are_none(tmp_path: Path, base: str) -> None:
    """A malformed address is a problem, without a traceback."""
    assert model({}, tmp_path, provider="openai", api_base=base)["server"].state == "problem"


@pytest.mark.parametrize(
    ("environ", "settings", "words"),
    [
        ({"OPENAI_API_KEY": KEY}, {}, "openai, since OPENAI_API_KEY is set"),
        ({"ANTHROPIC_API_KEY": KEY}, {}, "anthropic, since ANTHROPIC_API_KEY is set"),
        ({"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}, {}, "Anthropic's is taken"),
        (
            {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY},
            {"model": "gpt-5.5"},
            "openai, since OPENAI_API_KEY is set",
        ),
        ({}, {"api_base": "http://x/anthropic"}, "anthropic, since api_base is set (test)"),
        ({"OPENAI_API_KEY": KEY}, {"provider": "anthropic"}, "anthropic, since provider is set"),
    ],
)
def test_why_a_provider_is_taken(
    tmp_path: Path, environ: dict[str, str], settings: dict[str, object], words: str
) -> None:
    """The reason is the one by which a session chooses; with --offline no server is asked."""
    found = model(environ, tmp_path, offline=True, **settings)
    assert words in found["provider"].text
    assert "--offline" in found["server"].text
    assert KEY not in repr(found)


def test_nothing_configured(tmp_path: Path) -> None:
    """Nothing configured is a warning that says how to go live, since cassettes still replay."""
    found = model({}, tmp_path)
    assert found["provider"].state == "warning"
    assert "ANTHROPIC_API_KEY" in found["provider"].remedy
    assert "server" not in found


@pytest.mark.parametrize(
    "bad", [f" {KEY}", f"{KEY}\n", f'"{KEY}"', f"“{KEY}”", "my key", "schlüssel"]
)
def test_keys_that_were_copied_badly(tmp_path: Path, bad: str) -> None:
    """Malformed keys are a problem, and are not shown."""
    found = model({"OPENAI_API_KEY": bad}, tmp_path, offline=True)["OPENAI_API_KEY"]
    assert found.state == "problem"
    assert bad not in found.text


@pytest.mark.parametrize("bad", ["kohl\nkopf-und-suppe", "kohlköpfe-und-suppe", "kohl\x00kopf"])
def test_a_key_that_no_header_takes(tmp_path: Path, bad: str) -> None:
    """A key that no header can carry is reported, and the error does not quote it."""
    with models() as server:
        found = model({"OPENAI_API_KEY": bad}, tmp_path, provider="openai", api_base=server.url)
    assert found["server"].state == "problem"
    assert "kohl" not in repr(found)


def test_a_script(tmp_path: Path) -> None:
    """The file of the scripted provider is read."""
    (tmp_path / "good.yaml").write_text("- task: a\n  replies: [{text: b}]\n", encoding="utf-8")
    assert model({}, tmp_path, script="good.yaml")["script"].state == "ok"
    assert model({}, tmp_path, script="none.yaml")["script"].state == "problem"


# ---------------------------------------------------------------- the folder


def test_a_folder_that_loosens(tmp_path: Path) -> None:
    """Loosening settings of a folder are named and ignored; after trust they are in force."""
    configured(tmp_path, f"approvals.mode: auto\napi_base: http://evil.example\napi_key: {KEY}\n")
    place = effective_settings(tmp_path, {})
    ignored = by_name(examine_rights(place))
    assert ignored["approvals"].state == "ok" and place.settings.settings.api_base is None
    for name in ("approvals.mode", "api_base", "api_key"):
        assert ignored[name].state == "warning" and "ignored" in ignored[name].text
    acting = untrusted_settings(place)
    assert acting is not None
    trust_settings(place, digest_of(acting, tmp_path, tmp_path))
    found = by_name(examine_rights(effective_settings(tmp_path, {})))
    assert [found[name].state for name in ("approvals.mode", "api_base", "api_key")] == [
        "warning"
    ] * 3
    assert found["approvals"].state == "warning"
    assert "evil.example" in found["api_base"].text
    assert KEY not in repr(found)


def test_no_key_goes_to_an_address_that_a_folder_names(tmp_path: Path) -> None:
    """The doctor asks the person's own server, or none; the folder's address waits for trust."""
    with models() as theirs, models() as own:
        configured(tmp_path, f"api_base: {theirs.url}\n")
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": own.url}
        place = effective_settings(tmp_path, environ)
        found = by_name(examine_model(place.settings, environ, tmp_path, offline=False, timeout=5))
    assert not theirs.asked and len(own.asked) == 1 and found["server"].state != "problem"


def test_what_a_folder_cannot_loosen(tmp_path: Path, home: Path) -> None:
    """If the person's own file is stricter, it is in force, and the doctor says so."""
    (home / "jupyter").mkdir()
    (home / "jupyter" / "jupyter_agent.yaml").write_text("approvals.mode: ask_all\n")
    configured(tmp_path, "approvals.mode: auto\n")
    place = effective_settings(tmp_path, {})
    found = by_name(examine_rights(place))
    assert found["approvals"].text.startswith("ask_all")
    assert found["approvals.mode"].state == "note"
    assert "approvals.mode" in by_name(examine_settings(place))["your own file"].text


def test_rights_that_are_fine(tmp_path: Path) -> None:
    """A plain folder has no problem, and nothing is created in it."""
    found = by_name(examine_rights(effective_settings(tmp_path, {})))
    assert {one.state for one in found.values()} == {"ok"}
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_that_leads_outside(tmp_path: Path) -> None:
    """A state folder that links elsewhere is reported, since sessions do not use it."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / ".jupyter_agent").symlink_to(tmp_path)
    found = by_name(examine_rights(effective_settings(inside, {})))
    assert found["state folder"].state == "problem"
    assert "out of the workspace" in found["state folder"].text


def test_a_trust_store_that_cannot_be_read(tmp_path: Path) -> None:
    """An unreadable trust store trusts nothing, and is a problem with a remedy."""
    trust.store_path().parent.mkdir(parents=True)
    trust.store_path().write_text("{", encoding="utf-8")
    found = by_name(examine_rights(effective_settings(tmp_path, {})))
    assert found["trust"].state == "problem"


def test_git(tmp_path: Path) -> None:
    """Private state that git does not ignore is a warning; an ignored cassette is a problem."""
    assert by_name(examine_git(tmp_path))["repository"].state == "note"
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert by_name(examine_git(tmp_path))[".gitignore"].state == "warning"
    (tmp_path / "a.cassette.jsonl").touch()
    (tmp_path / ".gitignore").write_text("**/.jupyter_agent/*/\n*.jsonl\n", encoding="utf-8")
    found = by_name(examine_git(tmp_path))
    assert found[".gitignore"].state == "ok"
    assert found["cassette"].state == "problem"


def test_cassettes(tmp_path: Path) -> None:
    """Each cassette is reported: its source, or that it is missing or damaged."""
    assert by_name(examine_cassettes(tmp_path))["notebooks"].state == "note"
    name = "01_quickstart.cassette.jsonl"
    shutil.copyfile(EXAMPLES / "01_quickstart.ipynb", tmp_path / "01_quickstart.ipynb")
    assert by_name(examine_cassettes(tmp_path))[name].state == "warning"
    shutil.copyfile(EXAMPLES / name, tmp_path / name)
    assert "7 replies" in by_name(examine_cassettes(tmp_path))[name].text
    (tmp_path / name).write_bytes(b"<<<<<<< HEAD\n")
    found = by_name(examine_cassettes(tmp_path))[name]
    assert found.state == "problem"
    assert name in found.text


# ---------------------------------------------------------------- servers, versions, front end


def test_mcp_servers(tmp_path: Path) -> None:
    """Trusted servers are started, counted and ended; others are only named."""
    mark = tmp_path / "started"
    spy = f"open({str(mark)!r}, 'w')"
    entries = {
        "good": {"command": sys.executable, "args": [str(SERVER), "stdio"]},
        "foreign": {"command": sys.executable, "args": ["-c", spy]},
        "off": {"command": sys.executable, "args": ["-c", spy], "disabled": True},
        "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
    }
    state = tmp_path / ".jupyter_agent"
    state.mkdir()
    (state / "mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    servers = read_definitions(state).servers
    for name in ("good", "broken"):
        trust.trust(TRUST_KIND, tmp_path, servers[name].digest)
    place = effective_settings(tmp_path, {"JUPYTER_AGENT_MCP__CONNECT_TIMEOUT": "60"})
    found = by_name(examine_servers(place, offline=False))
    assert found["good"].state == "ok"
    assert "tools, and was ended" in found["good"].text
    assert found["foreign"].state == "warning"
    assert "%agent mcp trust foreign" in found["foreign"].remedy
    assert found["broken"].state == "problem"
    assert found["off"].state == "note"
    assert not mark.exists()
    offline = by_name(examine_servers(place, offline=True))
    assert offline["good"].state == "note"


def test_a_damaged_list_of_servers(tmp_path: Path) -> None:
    """A damaged mcp.json is a problem that names the file."""
    state = tmp_path / ".jupyter_agent"
    state.mkdir()
    (state / "mcp.json").write_text("{", encoding="utf-8")
    found = next(iter(examine_servers(effective_settings(tmp_path, {}), offline=False)))
    assert found.state == "problem"
    assert "mcp.json" in found.text


def test_versions() -> None:
    """The installed versions fit the package's requirements; nothing heavy is imported."""
    found = by_name(examine_packages())
    assert {"python", "ipykernel", "anywidget", "anthropic", "openai"} <= set(found)
    assert not [one for one in found.values() if one.state == "problem"]


def test_the_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widgets are found where JupyterLab looks for them, and disabled ones are reported."""
    data = tmp_path / "labextensions"
    for name in ("anywidget", "@jupyter-widgets/jupyterlab-manager"):
        (data / name).mkdir(parents=True)
        (data / name / "package.json").write_text('{"version": "9.9.9"}', encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    settings = tmp_path / "config" / "labconfig"
    settings.mkdir(parents=True)
    off = {"disabledExtensions": {"anywidget": True}}
    (settings / "page_config.json").write_text(json.dumps(off), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "config"))
    found = by_name(examine_front())
    assert found["anywidget"].state == "problem"
    assert found["anywidget"].remedy == "jupyter labextension enable anywidget"
    assert found["@jupyter-widgets/jupyterlab-manager"].text.startswith("9.9.9, in ")


@pytest.mark.parametrize(
    ("version", "off", "state", "words"),
    [
        (None, False, "note", "agent cells look like Python"),
        (__version__, False, "ok", f"{__version__}, in "),
        (__version__, True, "note", "disabled"),
        ("0.0.1", False, "warning", f"0.0.1, in .* but the package is {__version__}"),
    ],
)
def test_the_own_extension(
    version: str | None,
    off: bool,
    state: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line says whether the server has our extension, and its version; it is never needed."""
    monkeypatch.setattr("jupyter_core.paths.ENV_JUPYTER_PATH", [])  # `make lab` puts it there
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    if version is not None:
        place = tmp_path / "data" / "labextensions" / "jupyter-agent"
        place.mkdir(parents=True)
        (place / "package.json").write_text(json.dumps({"version": version}), encoding="utf-8")
    settings = tmp_path / "config" / "labconfig"
    settings.mkdir(parents=True)
    page = {"disabledExtensions": {"jupyter-agent": off}}
    (settings / "page_config.json").write_text(json.dumps(page), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "config"))
    found = by_name(examine_front())["jupyter-agent"]
    assert found.state == state
    assert re.search(words, found.text)
    assert bool(found.remedy) == (state != "ok")


# ---------------------------------------------------------------- the command


def test_the_whole(tmp_path: Path, home: Path) -> None:
    """A complete run with a real kernel ends with exit code 0 if there is no problem."""
    variables = {"OPENAI_API_KEY": KEY, "TEAM_TOKEN": "cabbage-and-kings"}
    said = run("doctor", "--offline", folder=tmp_path, home=home, **variables)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stderr == ""
    for words in ("OPENAI_API_KEY: set (not shown)", "ran %load_ext jupyter_agent", "no problems"):
        assert words in said.stdout
    assert KEY not in said.stdout


@pytest.mark.deep
def test_problems_as_json(tmp_path: Path, home: Path) -> None:
    """A wrong setting is a problem with a remedy, and the exit code says so."""
    configured(tmp_path, "modle: x\n")
    said = run("doctor", "--offline", "--json", folder=tmp_path, home=home)
    assert said.returncode == 1
    report = json.loads(said.stdout)
    problems = [one for one in report["found"] if one["state"] == "problem"]
    assert report["problems"] == len(problems) == 1
    assert "Did you mean model?" in problems[0]["text"]
    assert all(one["remedy"] for one in problems)


def test_the_command_line_is_light(tmp_path: Path) -> None:
    """Asking for help imports no notebook library, no SDK and no kernel."""
    code = (
        "import sys; from jupyter_agent.cli import main\n"
        "try: main(['doctor', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'nbformat', 'nbclient', 'IPython', 'anthropic', 'openai', 'mcp', 'httpx2'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "[]"
