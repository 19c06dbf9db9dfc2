"""`jupyter agent check` over a notebook that was recorded for real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cli.command import run
from click.testing import CliRunner, Result
from recorded import CELLS, DOUBLE, MORE, NAME, WORDS, Recorded, notebook_of, record

from jupyter_agent.cli import main
from jupyter_agent.core.messages import Message, ToolCall
from jupyter_agent.errors import ConfigError
from jupyter_agent.notebooks.check.check import CheckOptions, check
from jupyter_agent.notebooks.check.findings import Checked, CheckReport, Finding
from jupyter_agent.recording.cassette import RecordedTurn

KEY = "sk-" + "ant-" + "Abc1" * 8
READ_ONLY = CheckOptions(replays=False, allowed=("/tmp", "pytest"))
REPLAYED = CheckOptions(allowed=READ_ONLY.allowed, timeout=60)

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The notebook, recorded once."""
    return record(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def book(original: Recorded, tmp_path: Path) -> Recorded:
    """A copy of it to break."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for path in (original.path, original.cassette):
        shutil.copyfile(path, folder / path.name)
    return Recorded(folder / original.path.name)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no key of whoever runs the tests."""
    for name in ("JUPYTER_AGENT_MODE", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


def found(book: Recorded, plan: CheckOptions = READ_ONLY) -> list[Finding]:
    return list(check([book.path], plan).findings)


def only(book: Recorded, plan: CheckOptions = READ_ONLY) -> Finding:
    (finding,) = found(book, plan)
    return finding


# ---------------------------------------------------------------- a notebook that is whole


def test_a_whole_notebook(book: Recorded) -> None:
    """A whole notebook has no findings, replays byte for byte, and no file is changed."""
    before = book.path.read_bytes(), book.cassette.read_bytes()
    told: list[Checked] = []
    report = check([book.path.parent], CheckOptions(allowed=READ_ONLY.allowed, done=told.append))
    assert report.findings == ()
    (checked,) = told
    assert checked.replayed
    assert checked.asked == 3
    assert [(tape.source, tape.replies) for tape in checked.tapes] == [("scripted", 4)]
    assert (book.path.read_bytes(), book.cassette.read_bytes()) == before


def test_a_notebook_without_agent_cells(book: Recorded) -> None:
    """A notebook without agent cells is listed and not run."""
    other = Recorded(book.path.with_name("plain.ipynb"))
    other.save(notebook_of("raise SystemExit"))
    (checked,) = check([other.path], REPLAYED).notebooks
    assert not checked.replayed
    assert checked.findings == ()


@pytest.mark.deep
def test_several_at_once(book: Recorded) -> None:
    """Two processes replay two notebooks of one cassette, and report in the order of the names."""
    shutil.copyfile(book.path, book.path.with_name("second.ipynb"))
    plan = CheckOptions(allowed=READ_ONLY.allowed, jobs=2)
    report = check([book.path.parent], plan)
    assert report.findings == ()
    assert [(b.path.stem, b.replayed) for b in report.notebooks] == [
        (NAME, True),
        ("second", True),
    ]


# ---------------------------------------------------------------- tasks and recordings


@pytest.mark.parametrize("task", [DOUBLE, WORDS, MORE])
def test_a_task_that_was_edited(book: Recorded, task: str) -> None:
    """The cell is named with the differing words and a remedy; the turn is an orphan."""
    cell = CELLS[task]
    source = book.read().cells[cell].source
    book.edit(cell, source.replace(task, f"{task[:-1]} again."))
    missing, orphan = found(book)
    assert (missing.kind, missing.severity, missing.cell) == ("not-recorded", "error", cell)
    assert "again" in missing.message
    assert f"jupyter agent record {book.path} --cell {cell + 1}" in missing.remedy
    text = book.path.read_text(encoding="utf-8").split("\n")[missing.line - 1]
    assert json.dumps(source.split("\n")[0])[1:-1] in text
    assert (orphan.kind, orphan.severity) == ("orphan", "warning")
    assert task in orphan.message


def test_a_cell_that_was_deleted(book: Recorded) -> None:
    """Its recording is an orphan, at its line of the cassette; the rest replays."""
    notebook = book.read()
    del notebook.cells[CELLS[WORDS]]
    book.save(notebook)
    orphan = only(book)
    assert (orphan.kind, orphan.severity, orphan.file) == ("orphan", "warning", book.cassette)
    assert WORDS in book.cassette.read_text(encoding="utf-8").split("\n")[orphan.line - 1]
    kinds = {finding.kind for finding in found(book, REPLAYED)}
    assert kinds == {"orphan"}


def test_a_prompt_that_was_deleted(book: Recorded) -> None:
    """The empty cell is an error, and its recording an orphan."""
    book.edit(CELLS[WORDS], "%%agent --into label")
    kinds = sorted((finding.kind, finding.severity) for finding in found(book))
    assert kinds == [("bad-cell", "error"), ("orphan", "warning")]


def test_a_recording_that_was_deleted(book: Recorded) -> None:
    """A turn missing in the cassette is reported at its cell, and at no other."""
    header, first, second, third = book.cassette.read_text(encoding="utf-8").split("\n\n")
    assert WORDS in second
    book.cassette.write_text("\n\n".join((header, first, third)), encoding="utf-8")
    finding = only(book)
    assert (finding.kind, finding.cell) == ("not-recorded", CELLS[WORDS])


def test_the_same_task_twice(book: Recorded) -> None:
    """A second cell with the same words needs a recording of its own."""
    notebook = book.read()
    notebook.cells.append(notebook_of(f"%%agent\n{DOUBLE}").cells[0])
    notebook.cells[-1].id = "again"
    book.save(notebook)
    finding = only(book)
    assert (finding.kind, finding.cell) == ("not-recorded", 6)


def test_no_cassette(book: Recorded) -> None:
    """A missing cassette is one finding, whatever the number of turns."""
    book.cassette.unlink()
    finding = only(book)
    assert finding.kind == "no-cassette"
    assert "3 turns" in finding.message


def test_a_cassette_that_nobody_uses(book: Recorded) -> None:
    """An unused cassette beside the notebooks is reported if a folder is checked."""
    shutil.copyfile(book.cassette, book.path.with_name("old.cassette.jsonl"))
    (finding,) = check([book.path.parent], READ_ONLY).beside
    assert (finding.kind, finding.file.name) == ("unused-cassette", "old.cassette.jsonl")


def test_a_cassette_that_two_notebooks_share(book: Recorded) -> None:
    """A turn that a neighbouring notebook uses is no orphan, even if only one is checked."""
    whole, part = book.read(), book.read()
    del whole.cells[CELLS[MORE]], whole.cells[CELLS[WORDS]]
    del part.cells[CELLS[DOUBLE]]
    book.save(whole)
    Recorded(book.path.with_name("second.ipynb")).save(part)
    assert found(book) == []


def test_a_cassette_by_the_notebooks_name(book: Recorded) -> None:
    """Without a line that names it, and with others beside it, nbval may not know which to take."""
    book.edit(1, "%load_ext jupyter_agent")
    assert found(book) == []
    own = book.path.with_name(f"{NAME}.cassette.jsonl")
    own.with_name("other.cassette.jsonl").write_bytes(own.read_bytes())
    finding = only(book)
    assert (finding.kind, finding.severity) == ("unnamed-cassette", "warning")
    assert f"%agent cassette {NAME}.cassette.jsonl" in finding.remedy


def test_a_notebook_that_would_ask_a_model(book: Recorded) -> None:
    """A mode that is set in the notebook is an error, and nothing is run."""
    book.edit(0, "x = 21\n%agent config mode live")
    (checked,) = check([book.path], REPLAYED).notebooks
    assert [finding.kind for finding in checked.findings] == ["asks-a-model"]
    assert not checked.replayed


def test_a_skill_that_is_not_there(book: Recorded) -> None:
    """A skill that is unknown on this machine is reported before the replay fails on it."""
    book.edit(CELLS[WORDS], f"%%agent --skill no-such-skill\n{WORDS}")
    assert "no-such-skill" in found(book)[0].message


def test_a_skill_in_front_of_a_task(book: Recorded) -> None:
    """The skill's name is not part of the task, as in a session."""
    book.edit(CELLS[WORDS], f"%%agent --into label\n/cleaning-tables {WORDS}")
    assert found(book) == []


# ---------------------------------------------------------------- replays


def test_an_answer_that_was_edited(book: Recorded) -> None:
    """An answer that was edited by hand is an error at its turn's line, and nothing is executed."""
    book.rewrite(lambda lines: _say(lines[3], "It is 43."))
    (checked,) = check([book.path], REPLAYED).notebooks
    (finding,) = checked.findings
    assert (finding.kind, finding.severity) == ("damaged", "error")
    assert (finding.file, finding.line) == (book.cassette, 2)
    assert not checked.replayed


def test_an_answer_that_is_not_the_saved_one(book: Recorded) -> None:
    """If the replay differs from the saved answer, the first differing words are shown."""
    book.say(0, "It is 43.")
    finding = only(book, REPLAYED)
    assert (finding.kind, finding.cell) == ("output-differs", CELLS[DOUBLE])
    assert "42" in finding.message
    assert "43" in finding.message


def test_other_code(book: Recorded) -> None:
    """A recorded call with other code stops the replay; the step and the cell are named."""

    def change(turn: RecordedTurn) -> RecordedTurn:
        first, *others = turn.steps
        text, call = first.reply.message.blocks
        assert isinstance(call, ToolCall)
        other = replace(call, arguments=json.dumps({"code": "y = 3 * x\ny"}))
        reply = replace(first.reply, message=Message("assistant", (text, other)))
        return replace(turn, steps=(replace(first, reply=reply), *others))

    book.change(0, change)
    finding = only(book, REPLAYED)
    assert (finding.kind, finding.cell) == ("replay-failed", CELLS[DOUBLE])
    assert "Step 2 went another way" in finding.message
    assert f"--cell {CELLS[DOUBLE] + 1}" in finding.remedy


def test_a_cell_before_it_that_changed(book: Recorded) -> None:
    """Changed data before the turn lead to another result, and the difference is shown."""
    book.edit(0, "x = 22")
    finding = only(book, REPLAYED)
    assert finding.kind == "replay-failed"
    assert "42" in finding.message
    assert "44" in finding.message


def test_a_cell_of_the_person_that_fails(book: Recorded) -> None:
    """The failing cell is named, and not the agent's."""
    book.edit(0, "import no_such_module_at_all")
    finding = only(book, REPLAYED)
    assert (finding.kind, finding.cell) == ("replay-failed", 0)
    assert "no_such_module_at_all" in finding.message
    assert "record" not in finding.remedy


def test_outputs_that_were_stripped(book: Recorded) -> None:
    """Without saved outputs the replay runs, and a warning says that nothing was compared."""
    notebook = book.read()
    for cell in notebook.cells:
        cell.outputs = []
    book.save(notebook)
    finding = only(book, REPLAYED)
    assert (finding.kind, finding.severity) == ("no-outputs", "warning")


def _say(line: Any, text: str) -> None:
    line["reply"]["message"]["blocks"] = [{"type": "text", "text": text}]


# ---------------------------------------------------------------- secrets and machines


def test_a_key_in_an_answer(book: Recorded) -> None:
    """A key in an answer is found in the cassette, at its line, and no message shows it."""
    book.rewrite(lambda lines: _say(lines[6], f"Use {KEY}."))
    damaged, finding = found(book)
    assert (damaged.kind, damaged.line) == ("damaged", 6)
    assert (finding.kind, finding.file, finding.line) == ("secret", book.cassette, 7)
    assert KEY not in damaged.message + finding.message + finding.remedy


def test_a_key_in_an_output(book: Recorded) -> None:
    """Outputs of any cell are searched, and their cell is named."""
    notebook = book.read()
    notebook.cells[3].outputs[0].data["text/plain"] = KEY
    book.save(notebook)
    finding = only(book)
    assert (finding.kind, finding.cell) == ("secret", 3)


def test_a_key_in_a_cell(book: Recorded) -> None:
    """A key that somebody typed is a leak as well."""
    book.edit(0, f"x = 21  # {KEY}")
    finding = only(book)
    assert (finding.kind, finding.cell) == ("secret", 0)


def test_a_value_of_the_environment(book: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named, and its value is not shown."""
    book.say(1, "It is cabbage-and-kings.")
    monkeypatch.setenv("DB_PASSWORD", "cabbage" + "-and-kings")
    finding = only(book)
    assert "DB_PASSWORD" in finding.message
    assert "cabbage" not in finding.message


def test_a_home_folder(book: Recorded) -> None:
    """An absolute path of a home is an error in a cassette, unless it is allowed."""
    book.say(1, "I wrote /home/ada/report.md.")
    finding = only(book)
    assert (finding.kind, finding.severity) == ("machine", "error")
    assert "/home/ada" in finding.message
    assert found(book, CheckOptions(replays=False, allowed=("/home/ada", *READ_ONLY.allowed))) == []


# ---------------------------------------------------------------- damage

Damage = Callable[[Recorded], object]


def _bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda book: book.cassette.write_bytes(change(book.cassette.read_bytes()))


def _lines(change: Callable[[list[Any]], object]) -> Damage:
    return lambda book: book.rewrite(lambda lines: change(lines) and None)


DAMAGED: dict[str, tuple[Damage, int]] = {
    "an empty file": (_bytes(lambda data: b""), 1),
    "no header": (_lines(lambda lines: lines.pop(0)), 1),
    "half a header": (_bytes(lambda data: data[:30]), 1),
    "a header of another kind": (_lines(lambda lines: lines[0].pop("cassette")), 1),
    "a newer format": (_lines(lambda lines: lines[0].update(cassette=9)), 1),
    "an unknown source": (_lines(lambda lines: lines[0].update(source="invented")), 1),
    "format 1": (_lines(lambda lines: lines[0].update(cassette=1)), 1),
    "cut in the last line": (_bytes(lambda data: data[:-8]), 14),
    "a turn's line is gone": (_lines(lambda lines: lines.pop(1)), 2),
    "a missing first step": (_lines(lambda lines: lines.pop(2)), 2),
    "a missing last step": (_lines(lambda lines: lines.pop(3)), 2),
    "a missing end": (_lines(lambda lines: lines.pop(4)), 4),
    "a step that comes twice": (_lines(lambda lines: lines.insert(3, lines[2])), 2),
    "steps in another order": (_lines(lambda lines: lines.insert(2, lines.pop(3))), 2),
    "a step of another turn": (_lines(lambda lines: lines.insert(3, lines.pop(6))), 2),
    "an exchanged call": (
        _bytes(lambda data: data.replace(b"y = 2 * x", b"y = 3 * x")),
        3,
    ),
    "an exchanged task": (_bytes(lambda data: data.replace(b"Say it in words.", b"Say no.")), 8),
    "another result": (_lines(lambda lines: lines[2]["results"][0].update(text="43")), 2),
    "a merge conflict": (_bytes(lambda data: data.replace(b"\n", b"\n<<<<<<< HEAD\n", 3)), 2),
    "a conflict at the top": (_bytes(lambda data: b"<<<<<<< HEAD\n" + data), 1),
    "NUL bytes": (_bytes(lambda data: data + b"\0\0\n"), 15),
    "Latin-1": (_bytes(lambda data: data + "grün\n".encode("latin-1")), 15),
    "UTF-16": (_bytes(lambda data: data.decode().encode("utf-16")), 1),
    "a picture": (_bytes(lambda data: b"\x89PNG\r\n\x1a\n" + bytes(range(256))), 1),
    "a line that is a list": (_lines(lambda lines: lines.append([])), 12),
    "a line that is empty": (_lines(lambda lines: lines.append({})), 12),
    "a line of an unknown kind": (_lines(lambda lines: lines.insert(4, {"kind": "new"})), 5),
    "a step in words": (_lines(lambda lines: lines[2].update(kind="first")), 3),
    "no reply": (_lines(lambda lines: lines[2].pop("reply")), 2),
    "an unknown block": (
        _lines(lambda lines: lines[2]["reply"]["message"]["blocks"].append({"type": "x"})),
        2,
    ),
    "tokens in words": (_lines(lambda lines: lines[2]["reply"].update(usage="many")), 2),
    "no digest": (_lines(lambda lines: lines[1].pop("digest")), 2),
    "a digest of something else": (_lines(lambda lines: lines[5].update(digest="0" * 32)), 6),
    "brackets without end": (_bytes(lambda data: data + b"[" * 200_000), 15),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_one_line(book: Recorded, kind: str) -> None:
    """Whatever happened to the cassette: one error that names the file and the line."""
    damage, line = DAMAGED[kind]
    damage(book)
    finding = only(book)
    assert (finding.kind, finding.severity) == ("damaged", "error")
    assert (finding.file, finding.line) == (book.cassette, line)
    assert book.cassette.name in finding.message
    assert "\n" not in finding.message
    assert len(finding.message) < 400


def test_a_line_for_later_versions(book: Recorded) -> None:
    """A line of an unknown kind that is marked as optional is no damage."""
    book.rewrite(lambda lines: lines.insert(4, {"kind": "new", "optional": True}))
    assert found(book, REPLAYED) == []


# ---------------------------------------------------------------- what varies


def test_what_varies(book: Recorded) -> None:
    """A marked span is listed as a notice, with its step, its line and a hint."""
    book.rewrite(lambda lines: lines[2]["results"][0].update(text="⟨42⟩"))
    notice = only(book)
    assert (notice.kind, notice.severity, notice.file) == ("varies", "notice", book.cassette)
    assert notice.line == 2
    assert "step 1: ⟨42⟩ (set a seed" in notice.message and DOUBLE in notice.message
    assert command(book, "--strict", "--no-replay").exit_code == 0
    # The answer's number comes from that span, and the saved receipt does not say so yet.
    (*_, differs) = found(book, REPLAYED)
    assert differs.kind == "output-differs" and "(varies)" in differs.message


def test_what_ran_once_only(book: Recorded) -> None:
    """Turns whose code ran once only are one notice, with the command that learns."""
    for number in (0, 2):
        book.change(number, lambda turn: replace(turn, runs=1))
    notice = only(book)
    assert (notice.kind, notice.severity, notice.line) == ("recorded-once", "notice", 3)
    assert "2 turns ran only once" in notice.message
    assert f"jupyter agent record {book.path.name} --prove" in notice.remedy


@pytest.mark.parametrize("form", ["github", "json", "junit", "text"])
def test_a_notice_in_each_form(book: Recorded, form: str) -> None:
    """Each form shows a notice, and none counts it as an error or a failure."""
    book.change(0, lambda turn: replace(turn, runs=1))
    said = command(book, "--no-replay", "--strict", "--format", form)
    assert said.exit_code == 0, said.output
    match form:
        case "github":
            assert "::notice file=" in said.stdout
        case "json":
            report = json.loads(said.stdout)
            assert (report["errors"], report["warnings"]) == (0, 0)
            assert [each["severity"] for each in report["notebooks"][0]["findings"]] == ["notice"]
        case "junit":
            assert ElementTree.fromstring(said.stdout)[0].get("failures") == "0"
        case _:
            assert (
                "notice " in said.stdout
                and "ran only once" in said.stdout
                and "0 errors, 0 warnings." in said.stdout
            )


# ---------------------------------------------------------------- notebooks


@pytest.mark.parametrize("content", ["", "{}", "<<<<<<< HEAD", '{"cells": 1, "nbformat": 4}'])
def test_a_damaged_notebook(book: Recorded, content: str) -> None:
    """A damaged notebook is one error, and the others are checked."""
    book.path.with_name("other.ipynb").write_text(content, encoding="utf-8")
    report = check([book.path.parent], READ_ONLY)
    (finding,) = report.findings
    assert (finding.kind, finding.file.name) == ("unreadable", "other.ipynb")
    assert len(report.notebooks) == 2


# ---------------------------------------------------------------- what is checked


def test_what_is_left_out_of_folders(book: Recorded) -> None:
    """Checkpoints, environments and installed packages are skipped."""
    for name in (".ipynb_checkpoints", "node_modules", "env", "below"):
        folder = book.path.parent / name
        folder.mkdir()
        shutil.copyfile(book.path, folder / "a.ipynb")
    (book.path.parent / "env" / "pyvenv.cfg").touch()
    shutil.copyfile(book.cassette, book.path.parent / "below" / book.cassette.name)
    report = check([book.path.parent, book.path], READ_ONLY)
    root = book.path.parent
    assert [b.path.relative_to(root).as_posix() for b in report.notebooks] == [
        f"{NAME}.ipynb",
        "below/a.ipynb",
    ]


@pytest.mark.parametrize("name", ["nowhere", "nowhere.ipynb", "data.csv", "empty"])
def test_paths_that_name_no_notebook(tmp_path: Path, name: str) -> None:
    """Each wrong path is one line."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.csv").touch()
    with pytest.raises(ConfigError) as caught:
        check([tmp_path / name], READ_ONLY)
    assert name in str(caught.value)


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def broken(original: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A notebook with an error and a warning, whose words try to be something else."""
    folder = tmp_path_factory.mktemp("broken") / "repository"
    folder.mkdir()
    for path in (original.path, original.cassette):
        shutil.copyfile(path, folder / path.name)
    book = Recorded(folder / original.path.name)
    book.edit(CELLS[WORDS], "%%agent\n<b>100%</b>::error::|`x`\x1b[31m\u202e")
    return book


ALLOWED = ("--allow", "/tmp", "--allow", "pytest")


def command(book: Recorded, *arguments: str, **more: str) -> Result:
    """The command in this process, in the notebook's folder."""
    with chdir(book.path.parent):
        return CliRunner().invoke(main, ["check", *arguments, *ALLOWED], env=more)


def test_exit_codes(original: Recorded, broken: Recorded, tmp_path: Path) -> None:
    """The exit code is 0 if all is well, 1 for findings, and 2 for wrong usage."""
    assert command(original, "--no-replay").exit_code == 0
    assert command(broken, "--no-replay").exit_code == 1
    wrong = command(broken, "nowhere.ipynb")
    assert wrong.exit_code == 2
    assert "Traceback" not in wrong.stderr


def test_warnings_fail_where_it_is_strict(original: Recorded, tmp_path: Path) -> None:
    """An orphan alone passes without --strict and fails with it."""
    for path in (original.path, original.cassette):
        shutil.copyfile(path, tmp_path / path.name)
    book = Recorded(tmp_path / original.path.name)
    notebook = book.read()
    del notebook.cells[CELLS[MORE]]
    book.save(notebook)
    assert command(book, "--no-replay").exit_code == 0
    assert command(book, "--no-replay", "--strict").exit_code == 1


def test_the_text(original: Recorded) -> None:
    """A line for the notebook has the replies' source and the replay's time; a sum follows."""
    folder = original.path.parent
    said = run("check", *ALLOWED, folder=folder, home=folder.parent)
    assert said.returncode == 0, said.stdout + said.stderr
    first, last = said.stdout.splitlines()
    assert first.startswith(f"{NAME}.ipynb: 3 turns, 4 replies scripted by hand, replayed in ")
    assert last.endswith("1 replayed: 0 errors, 0 warnings.")
    assert said.stderr == ""


def test_annotations(broken: Recorded, tmp_path: Path) -> None:
    """Each finding is one workflow command at its line; nothing in a task becomes another one."""
    page = tmp_path / "summary.md"
    said = command(
        broken, "--no-replay", "--format", "github", GITHUB_STEP_SUMMARY=str(page),
        GITHUB_WORKSPACE=str(broken.path.parents[1]),
    )  # fmt: skip
    commands = [line for line in said.stdout.splitlines() if line.startswith("::")]
    assert [line.split(" ")[0] for line in commands] == ["::error", "::warning"]
    assert f"file=repository/{NAME}.ipynb,line=" in commands[0]
    assert "100%25" in commands[0]
    assert "\x1b" not in said.stdout
    assert "\u202e" not in said.stdout
    table = page.read_text(encoding="utf-8")
    assert f"| {NAME}.ipynb |" in table
    assert "<b>" not in table.replace("\\<b\\>", "")


def test_json(broken: Recorded) -> None:
    """JSON has every finding for programs, with cells counted as people count."""
    report = json.loads(command(broken, "--no-replay", "--format", "json").stdout)
    assert (report["errors"], report["warnings"]) == (1, 1)
    (notebook,) = report["notebooks"]
    assert notebook["cassettes"][0]["source"] == "scripted"
    assert [f["kind"] for f in notebook["findings"]] == ["not-recorded", "orphan"]
    assert notebook["findings"][0]["cell"] == CELLS[WORDS] + 1


def test_junit(broken: Recorded) -> None:
    """Well-formed XML in a file, where failures are counted, and text on the terminal."""
    out = broken.path.parents[1] / "reports" / "check.xml"
    said = command(broken, "--no-replay", "--format", "junit", "--output", str(out))
    assert said.stdout.startswith(f"{NAME}.ipynb: ")
    suite = ElementTree.parse(out).getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        f"{NAME}.ipynb",
        "2",
        "1",
    )
    failure = next(suite.iter("failure"))
    assert failure.text is not None
    assert "100%" in failure.text


@pytest.mark.parametrize("report", [CheckReport(()), CheckReport((Checked(Path("a.ipynb"), 0),))])
def test_reports_of_nothing(report: CheckReport) -> None:
    """Every format has a text for an empty report."""
    from jupyter_agent.notebooks.check.reports import FORMS, as_summary

    for form in (*FORMS.values(), as_summary):
        assert form(report).strip()
