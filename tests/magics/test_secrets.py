"""No secret is kept or shown, wherever it turns up in a turn; what is kept is the owner's alone."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from live_kernel import Cell, Json, LiveKernel
from secret_texts import HOLDING

IN_ENVIRONMENT = "kept/in the+env&1"
NOT_OURS = ("script_*.yaml", "kernel_stderr.txt", "written_*.txt", "*/blobs/*/*")
"""What tests and the person's own tools write, and the files that the person asked for."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """A kernel that records, beside a notebook, with a key in its environment."""
    folder = tmp_path_factory.mktemp("secrets")
    environ = {
        "JUPYTER_AGENT_MODE": "record",
        "JPY_SESSION_NAME": str(folder / "keys.ipynb"),
        "SOME_SERVICE_TOKEN": IN_ENVIRONMENT,
        "JUPYTER_AGENT_HTTP__HEADERS": "X-Team-Key: team-key-of-ours",
        "JUPYTER_AGENT_HTTP__PROXY": "http://me:proxy-pass-word@127.0.0.1:9",
    }
    with LiveKernel(folder, environ) as kernel:
        kernel.load()
        yield kernel


def call(name: str, /, **arguments: object) -> Json:
    return {"name": name, "arguments": arguments}


def replies(text: str, number: int) -> list[Json]:
    """A turn in which a text is in all that a model says, and in what its code shows."""
    shows = f"text = {text!r}\nprint(text)\nprint(repr(text))\n{{'said': text, 'again': [text]}}"
    fails = f"raise ValueError({text!r})"
    floods = f"for _ in range(40):\n    print({text!r}, '.' * 100)"
    return [
        {"text": f"First\n{text}", "thinking": text, "calls": [call("execute_code", code=shows)]},
        {"calls": [call("write_file", path=f"written_{number}.txt", content=text)]},
        {"calls": [call("read_file", path=f"written_{number}.txt")]},
        {"calls": [call("update_plan", items=[{"text": text[:300]}])]},
        {"calls": [call("record_note", content=f"Remember this.\n{text}", category="general")]},
        {"calls": [call("execute_code", code=fails), call("nonsense", text=text)]},
        {"calls": [{"name": "execute_code", "arguments": f'{{"code": "print(1)\\n{text[:50]}'}]},
        {"calls": [call("execute_code", code=floods)]},
        {"text": f"Done:\n{text}"},
    ]


def leaked(folder: Path, secrets: list[str], cells: list[Cell]) -> list[tuple[str, str, str]]:
    """Where one of the secrets still stands."""
    texts = {"a cell": json.dumps([cell.outputs for cell in cells], ensure_ascii=False)}
    for path in folder.rglob("*"):
        shown = path.relative_to(folder)
        is_ours = "ipython" not in shown.parts and not any(map(shown.match, NOT_OURS))
        if is_ours and path.is_file():
            texts[str(shown)] = path.read_bytes().decode("utf-8", "replace")
    forms = [(secret, {secret, json.dumps(secret)[1:-1]}) for secret in secrets]
    return [
        (place, secret, text[max(0, text.find(secret) - 300) : text.find(secret) + 60])
        for place, text in texts.items()
        for secret, written in forms
        if any(each in text for each in written)
    ]


@given(
    st.permutations([*HOLDING, (IN_ENVIRONMENT, IN_ENVIRONMENT)]),
    st.sampled_from(["\n", "\n\t", "\n- ", "\n    "]),
)
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
def test_a_turn_full_of_secrets(
    desk: LiveKernel, texts: list[tuple[str, str]], between: str
) -> None:
    """No secret in any part of a turn is kept or shown."""
    number = len(list(desk.folder.glob("script_*.yaml")))
    # A header that stands in a line takes the whole of it, so each has one of its own.
    text = f"Number {number}.{between}" + between.join(text for text, _ in texts)
    secrets = [secret for _, secret in texts] + ["team-key-of-ours", "proxy-pass-word"]
    desk.script(text, *replies(text, number))
    cells = [desk.run(f"%%agent\n{text}")]
    assert cells[0].status == "ok", cells[0].error
    commands = ("history", "undo list", "undo show", "log", "log show", "log grep First", "show")
    commands = (*commands, "config", "status", f"export out_{number}.ipynb", "notes", "context x")
    cells += [desk.run(f"%agent {command}") for command in commands]
    assert leaked(desk.folder, secrets, cells) == []
    kept = {path.suffix for path in desk.folder.rglob("*") if path.is_file()}
    assert {".jsonl", ".ipynb"} <= kept and "[redacted]" in cells[0].transcript


def test_errors_that_quote_a_secret(desk: LiveKernel) -> None:
    """A secret in an error's message is not saved with the notebook."""
    key = HOLDING[0][1]
    for line in (
        f"%agent {key}",
        f"%agent history {key}",
        f"%%agent --{key}\nx",
        f"%agent log {key}",
    ):
        cell = desk.run(line)
        assert cell.status == "error" and key not in json.dumps(cell.outputs), line


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_what_is_kept_is_the_owners(desk: LiveKernel) -> None:
    """Files in the state folder are 0600 and folders 0700; those for git are as the umask says."""
    desk.script("Keep it.", *replies("nothing secret", 999))
    desk.run("%%agent\nKeep it.")
    state = desk.folder / ".jupyter_agent"
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [state, *state.rglob("*")]}
    assert len(modes) > 10
    assert not {p: oct(m) for p, m in modes.items() if m != (0o700 if p.is_dir() else 0o600)}
    umask = os.umask(0)
    os.umask(umask)
    for name in ("written_999.txt", "keys.cassette.jsonl"):
        assert stat.S_IMODE((desk.folder / name).stat().st_mode) == 0o666 & ~umask
