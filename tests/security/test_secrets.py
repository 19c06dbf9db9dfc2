"""No secret is kept or shown, wherever it turns up in a turn; what is kept is the owner's alone."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from front_end import FrontEnd
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from live_kernel import Cell, Json, LiveKernel, clean_environment
from secret_texts import HOLDING

IN_ENVIRONMENT = "kept/in the+env&1"
NOT_OURS = ("script_*.yaml", "kernel_stderr.txt", "written_*.txt", "*/blobs/*/*")
"""What tests and the person's own tools write, and the files that the person asked for."""
COMMANDS = (
    *("history", "undo list", "undo show", "log", "log show", "log grep First", "show", "config"),
    *(
        "status",
        "notes",
        "memory search Remember",
        "context x",
        "usage",
        "cells",
        "tools",
        "trust show",
    ),
)
SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans_of_test = InMemorySpanExporter()
provider_of_test = TracerProvider()
provider_of_test.add_span_processor(SimpleSpanProcessor(spans_of_test))
trace.set_tracer_provider(provider_of_test)
"""
NAMED = "[span.to_json() for span in spans_of_test.get_finished_spans()]"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """A kernel that records and traces, beside a notebook, with a key in its environment."""
    folder = tmp_path_factory.mktemp("secrets")
    environ = {
        "JUPYTER_AGENT_MODE": "record",
        "JUPYTER_AGENT_DISPLAY": "static",
        "JUPYTER_AGENT_TRACING": "true",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        "JPY_SESSION_NAME": str(folder / "keys.ipynb"),
        "SOME_SERVICE_TOKEN": IN_ENVIRONMENT,
        "JUPYTER_AGENT_HTTP__HEADERS": "X-Team-Key: team-key-of-ours",
        "JUPYTER_AGENT_HTTP__PROXY": "http://me:proxy-pass-word@127.0.0.1:9",
    }
    with LiveKernel(folder, environ) as kernel:
        kernel.helper(SPANS)
        kernel.load()
        yield kernel


def call(name: str, /, **arguments: object) -> Json:
    return {"name": name, "arguments": arguments}


def replies(text: str, number: int) -> list[Json]:
    """A turn in which a text is in all that a model says, and in what its code shows."""
    shows = f"text = {text!r}\nprint(text)\nprint(repr(text))\n{{'said': text, 'again': [text]}}"
    fails = f"raise ValueError({text!r})"
    floods = f"for _ in range(40):\n    print({text!r}, '.' * 100)"
    draws = (
        f"import html\nfrom IPython.display import HTML, Markdown, display\ntext = {text!r}\n"
        "display(HTML('<p>' + html.escape(text) + '</p>'), Markdown(text))\n"
        "display({'application/json': {'said': [text]}, 'text/latex': text}, raw=True)"
    )
    scope = {"workspace": "kept"}
    return [
        {"text": f"First\n{text}", "thinking": text, "calls": [call("execute_code", code=shows)]},
        {"calls": [call("execute_code", code=draws)]},
        {"calls": [call("write_file", path=f"written_{number}.txt", content=text)]},
        {"calls": [call("read_file", path=f"written_{number}.txt")]},
        {"calls": [call("edit_file", path=f"written_{number}.txt", old_str=text, new_str="x")]},
        {"calls": [call("update_plan", items=[{"text": text[:300]}])]},
        {"calls": [call("record_note", content=f"Remember this.\n{text}", category="general")]},
        {
            "calls": [
                call(
                    "workspace_save_memory",
                    scope=scope,
                    type="lesson",
                    title="Remember",
                    content=f"Remember.\n{text}",
                )
            ]
        },
        {"calls": [call("propose_cell", source=f"print({text!r})")]},
        {"calls": [call("execute_code", code=fails), call("nonsense", text=text)]},
        {"calls": [{"name": "execute_code", "arguments": f'{{"code": "print(1)\\n{text[:50]}'}]},
        {"calls": [call("execute_code", code=floods)]},
        {"text": f"Done:\n{text}"},
    ]


def written(secret: str) -> set[str]:
    """The forms in which a secret may stand in a text."""
    return {secret, json.dumps(secret)[1:-1]}


def leaked(folder: Path, secrets: list[str], shown: dict[str, str]) -> str:
    """Where one of the secrets still stands: in what was shown, or in a file of ours."""
    texts = dict(shown)
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        is_ours = "ipython" not in place.parts and not any(map(place.match, NOT_OURS))
        if is_ours and path.is_file():
            texts[str(place)] = path.read_bytes().decode("utf-8", "replace")
    found = [
        (place, secret, text[max(0, text.find(secret) - 200) : text.find(secret) + 60])
        for place, text in texts.items()
        for secret in secrets
        if any(each in text for each in written(secret))
    ]
    return f"{len(found)} places, among them {found[:5]}" if found else ""


def outputs(cells: list[Cell]) -> dict[str, str]:
    """What cells show, and what they put into the cell below."""
    return {
        f"cell {number}": json.dumps([cell.outputs, cell.reply], ensure_ascii=False)
        for number, cell in enumerate(cells)
    }


@given(
    st.permutations([*HOLDING, (IN_ENVIRONMENT, IN_ENVIRONMENT)]),
    st.sampled_from(["\n", "\n\t", "\n- ", "\n    "]),
)
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
def test_a_turn_full_of_secrets(
    desk: LiveKernel, texts: list[tuple[str, str]], between: str
) -> None:
    """No secret in any part of a turn is kept or shown, nor goes into a span."""
    number = len(list(desk.folder.glob("script_*.yaml")))
    # A header that stands in a line takes the whole of it, so each has one of its own.
    text = f"Number {number}.{between}" + between.join(text for text, _ in texts)
    secrets = [secret for _, secret in texts] + ["team-key-of-ours", "proxy-pass-word"]
    desk.script(text, *replies(text, number))
    cells = [desk.run(f"%%agent\n{text}")]
    assert cells[0].status == "ok", cells[0].error
    cells += [desk.run(f"%agent {words}") for words in (*COMMANDS, f"export out_{number}.ipynb")]
    cells += [desk.run("_agent"), desk.run("%agent undo"), desk.run("%agent undo list")]
    spans = desk.value(NAMED)
    shown = {**outputs(cells), "spans": json.dumps(spans, ensure_ascii=False)}
    assert not leaked(desk.folder, secrets, shown)
    kept = {path.suffix for path in desk.folder.rglob("*") if path.is_file()}
    assert {".jsonl", ".ipynb"} <= kept and "[redacted]" in cells[0].transcript
    assert any("[redacted]" in span for span in spans)


def test_a_question_full_of_secrets(desk: LiveKernel) -> None:
    """A question shows no secret: a front end keeps its text with the notebook."""
    for at in range(0, len(HOLDING), 20):
        some = HOLDING[at : at + 20]
        code = "\n".join(["!true", *(f"text = {text!r}" for text, _ in some)])
        task = f"Ask about number {at}."
        desk.script(task, {"calls": [call("execute_code", code=code)]}, {"text": "Well."})
        running = desk.start(f"%%agent --fresh --approve ask_risky\n{task}", allow_stdin=True)
        prompt = running.question()
        running.type("n")
        shown = {"the question": prompt, **outputs([running.finish()])}
        assert "!true" in prompt and "[redacted]" in prompt
        assert not leaked(desk.folder, [secret for _, secret in some], shown)


def test_the_page(desk: LiveKernel) -> None:
    """No secret is sent to the page while a turn runs, nor kept in what it shows then."""
    text = "\n".join(text for text, _ in HOLDING)
    number = len(list(desk.folder.glob("script_*.yaml")))
    desk.script("Show it there.", *replies(text, number))
    desk.helper("%agent config display auto")
    running = desk.start("%%agent --fresh\nShow it there.", allow_stdin=True)
    page = FrontEnd(desk, running)
    cell = running.finish()
    desk.helper("%agent config display static")
    sent = json.dumps([content for _, content in page.received], ensure_ascii=False)
    assert cell.status == "ok" and "[redacted]" in sent and page.opened
    secrets = [secret for _, secret in HOLDING]
    assert not leaked(desk.folder, secrets, {"the page": sent, **outputs([cell])})


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


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect.spawn needs a POSIX terminal")
def test_a_terminal(tmp_path: Path) -> None:
    """No secret is shown where a turn is watched in a terminal."""
    import pexpect

    text = "\n".join(text for text, _ in HOLDING)
    turns = [{"task": "Show it.", "replies": [dict(each) for each in replies(text, 1)]}]
    (tmp_path / "script_1.yaml").write_text(yaml.safe_dump(turns), encoding="utf-8")
    environ = {
        **clean_environment(tmp_path),
        "TERM": "dumb",
        "JUPYTER_AGENT_APPROVALS__MODE": "auto",
    }
    arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    child = pexpect.spawn(
        sys.executable,
        arguments,
        cwd=str(tmp_path),
        env=environ,
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 1_000),
        echo=False,
    )
    seen = ""
    for lines in (
        ["%load_ext jupyter_agent"],
        ["%agent config provider scripted"],
        ["%agent config script script_1.yaml"],
        ["%%agent", "Show it.", "", ""],
        ["%agent show last"],
        [""],
    ):
        child.expect(r"In \[\d+\]: $")
        seen += str(child.before)
        for line in lines:
            child.sendline(line)
    child.close(force=True)
    assert seen.count("[redacted]") > len(HOLDING)
    assert not leaked(tmp_path, [secret for _, secret in HOLDING], {"the terminal": seen})


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_what_is_kept_is_the_owners(tmp_path: Path, umask: int) -> None:
    """What we keep is 0600 in folders of 0700, before and after undo; files for git follow the
    umask, and a file that was closed stays closed."""
    environ = {"JUPYTER_AGENT_MODE": "record", "JPY_SESSION_NAME": str(tmp_path / "keys.ipynb")}
    private = tmp_path / "private.txt"
    private.write_text("mine alone", encoding="utf-8")
    private.chmod(0o600)
    before = os.umask(umask)
    try:
        with LiveKernel(tmp_path, environ) as kernel:
            kernel.load()
            rest = [
                {"calls": [call("edit_file", path="private.txt", old_str="mine", new_str="yours")]},
                {"calls": [call("execute_code", code="open('open.txt', 'w').write('a')")]},
                {"calls": [call("execute_code", code="print('long ' * 50_000)")]},
            ]
            kernel.script("Keep it.", *rest, *replies("nothing secret", 999))
            kernel.run("%%agent\nKeep it.")
            assert "yours alone" in private.read_text(encoding="utf-8")
            for name in ("written_999.txt", "keys.cassette.jsonl", "open.txt"):
                assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~umask
            assert stat.S_IMODE(private.stat().st_mode) == 0o600
            check_modes(tmp_path)
            kernel.run("%agent undo")
            assert private.read_text(encoding="utf-8") == "mine alone"
            assert stat.S_IMODE(private.stat().st_mode) == 0o600
            check_modes(tmp_path)
    finally:
        os.umask(before)


def check_modes(folder: Path) -> None:
    """Fail if others than the owner may read something in a state folder or beside the settings."""
    state, own = folder / ".jupyter_agent", folder / "empty_config"
    ours = [state, *state.rglob("*"), *own.rglob("jupyter_agent*"), folder / ".agent_memory.json"]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in ours if path.exists()}
    assert len(modes) > 20
    assert not {p: oct(m) for p, m in modes.items() if m & ~(0o700 if p.is_dir() else 0o600)}
