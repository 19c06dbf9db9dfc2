"""The evaluation: how answers are compared, what chance is, what a run keeps, and a small run."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from model_server import Json, ModelServer, Reply

from evals import answers
from evals.__main__ import found, in_order, main
from evals.blocks import code_of, with_value
from evals.dseval import DSEval
from evals.pairs import mcnemar, pairs
from evals.report import Facts, document
from evals.results import Result, Results
from evals.tasks import Attempt, DataError, Judgement, Limits, Task
from evals.variables import described


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("It is @mean[34.65], and @name[Bonn].", "right"),
        ("@mean[0] was too early: @mean[34.650], @name[ Bonn ]", "right"),
        ("@mean[34.66] @name[Bonn]", "wrong value"),
        ("@mean[34.65 EUR] @name[Bonn]", "wrong value"),
        ("@mean[34.65]", "wrong format"),
        ("The mean is 34.65, in Bonn.", "wrong format"),
        ("", "wrong format"),
    ],
)
def test_answers(answer: str, kind: str) -> None:
    """All values must be there by name, as the same text or the same number."""
    assert answers.judge(answer, [("mean", "34.65"), ("name", "Bonn")]).kind == kind


def test_a_value_without_its_format() -> None:
    """The detail tells a value in the wrong format from one that is not there."""
    assert answers.judge("about 1,034.50", [("x", "1034.5")]).detail.endswith("value in it")
    assert answers.judge("about 1,034.51", [("x", "1034.5")]).detail.endswith("value not in it")


def test_chance() -> None:
    """The exact test of known tables; pairs are counted of the tasks that both tried."""
    assert mcnemar(0, 0) == mcnemar(3, 3) == 1.0
    assert mcnemar(5, 0) == mcnemar(0, 5) == pytest.approx(2 / 32)
    assert mcnemar(9, 2) == pytest.approx(2 * (1 + 11 + 55) / 2**11)
    counted = pairs(
        {"a": True, "b": True, "c": False, "d": True}, {"a": True, "b": False, "c": True}
    )
    assert (counted.both, counted.first, counted.second, counted.neither) == (1, 1, 1, 0)


def test_code_in_replies() -> None:
    """The first block counts, also one that breaks off; smolagents' last call is its value."""
    assert code_of("Look:\n```python\nx = 1\n```\n```python\nx = 2\n```") == "x = 1"
    assert code_of("```py\nx = 1") == "x = 1"
    assert code_of("no code") == ""
    assert with_value("y = f(1)\nfinal_answer(y)") == "y = f(1)\ny"
    assert with_value("final_answer(answer=[1])") == "[1]"


def test_what_bare_agents_are_told() -> None:
    """Variables with their types, and nothing of IPython's, of modules or of functions."""
    namespace = {"In": [], "_x": 1, "os": os, "main": main, "rows": [1, 2], "name": "Kiel"}
    assert described(namespace) == "rows: list, [1, 2]\nname: str, 'Kiel'"


def test_a_sample_is_of_all_sets() -> None:
    """The same seed gives the same order, and its beginning has a task of each set."""
    tasks = [Task(f"set {n % 3}", f"task {n}", "") for n in range(20)]
    first = [task.id for task in in_order(tasks, 7)]
    assert first == [task.id for task in in_order(tasks[::-1], 7)]
    assert first != [task.id for task in in_order(tasks, 8)]
    assert len(set(first)) == 20
    assert {task.set for task in in_order(tasks, 7)[:3]} == {"set 0", "set 1", "set 2"}


def test_results_are_kept(tmp_path: Path) -> None:
    """A run goes on after the last one, over a torn line and results of other code."""
    task, other = Task("s", "one", ""), Task("s", "two", "")
    results = Results(tmp_path, ["ours", "one reply"])
    results.add(task, "ours", Attempt(answer="x" * 9_000, calls=2), Judgement("wrong value", "y"))
    results.add(task, "one reply", Attempt(), Judgement("right"))
    results.add(other, "ours", Attempt(), Judgement("not judged", "a fault"))
    lines = results.path.read_bytes().splitlines(keepends=True)
    stale = lines[1].replace(json.loads(lines[1])["version"].encode(), b"0" * 12)
    results.path.write_bytes(lines[0] + stale + lines[2] + b'{"set": "s", "ta')
    again = Results(tmp_path, ["ours", "one reply"])
    assert again.has(task, "ours") and not again.has(task, "one reply")
    assert not again.has(other, "ours")
    again.add(task, "one reply", Attempt(), Judgement("right"))
    kept = list(Results(tmp_path, ["ours", "one reply"]))
    assert [(each.task, each.agent, each.right) for each in kept] == [
        ("one", "ours", False),
        ("two", "ours", False),
        ("one", "one reply", True),
    ]
    assert kept[0].attempt.calls == 2 and len(kept[0].attempt.answer) == 4_000


def test_the_report() -> None:
    """The page has scores, costs, pairs and kinds of failure, and says how many tasks it is of."""
    found = [
        _result("a", "ours", "right", 300),
        _result("a", "one reply", "wrong format", 100),
        _result("b", "ours", "right", 300),
        _result("b", "one reply", "right", 100),
        _result("c", "ours", "not judged", 0),
    ]
    facts = Facts(
        command="make eval",
        model="small|er",
        is_embedded=True,
        limits=Limits(),
        available=9,
        agents={"one reply": "a call", "ours": "a cell"},
        sources=["a place"],
        machine={"cores": "2"},
    )
    text = document(found, facts)
    assert "The run is of **2 tasks**, of 9 in the data." in text
    assert "| a set | 1 of 2 (50%) | 2 of 2 (100%) |" in text
    assert "| ours | 1.0 | 300 | 0 | 3.0 | 2 |" in text
    assert "| one reply | 1 | 1 | 0 | 0 | 1.000 |" in text
    assert "| wrong format | 1 | 0 |" in text
    assert "cannot be set up here: c." in text and "- a place" in text


def _result(task: str, agent: str, kind: str, tokens: int) -> Result:
    attempt = Attempt(calls=1, input_tokens=tokens, seconds=2)
    return Result("a set", task, agent, "v", attempt, Judgement(kind))  # type: ignore[arg-type]


CODE = "```python\nprint(f\"@mean[{df['x'].mean():.2f}]\")\n```"


def _scripted(body: Json) -> Reply:
    """Code first; then an answer, to the plain loop one without the format."""
    said = json.dumps(body["messages"])
    if "@mean[2.50]" not in said:
        return Reply(CODE, input_tokens=100, output_tokens=20)
    is_loop = "whose variables are loaded already" in said
    text = "The mean is 2.5." if is_loop else "It is @mean[2.50]."
    return Reply(text, input_tokens=150, output_tokens=10)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One question about one table, in DABench's form."""
    folder = tmp_path / "data" / "dabench"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "tiny.csv").write_text("x,y\n1,a\n4,b\n", encoding="utf-8")
    question = {
        "id": 1,
        "question": "What is the mean of x?",
        "constraints": "Round to two places.",
        "format": "@mean[number]",
        "file_name": "tiny.csv",
        "level": "easy",
        "answers": [["mean", "2.50"]],
    }
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    return folder.parent


def test_a_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three agents solve a task in real kernels, over HTTP; a second run asks for what is missing.

    One reply prints what is asked for, the plain loop drops the format, ours keeps it.
    """
    results, page = tmp_path / "results", tmp_path / "quality.md"
    words = ["--data", str(data), "--agents", "one", "loop", "ours"]
    words += ["--results", str(results), "--out", str(page)]
    for name in [each for each in os.environ if each.startswith(("JUPYTER_AGENT_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "")
    with ModelServer(_scripted) as server:
        settings = {"PROVIDER": "openai", "API_BASE": server.openai_url, "API_KEY": "k"}
        settings |= {"MODEL": "tiny", "TOOL_PROTOCOL": "code", "INSTRUCTIONS": "short"}
        for name, value in settings.items():
            monkeypatch.setenv(f"JUPYTER_AGENT_{name}", value)
        assert main(words) == 0, capsys.readouterr().err
        asked = len(server.requests)
        kinds = {each["agent"]: each for each in _lines(results)}
        assert main(words) == 0
        assert len(server.requests) == asked
        (results / "results.jsonl").write_bytes(
            b"".join((results / "results.jsonl").read_bytes().splitlines(keepends=True)[1:])
        )
        assert main(words) == 0
        assert len(server.requests) == asked + 1
    assert kinds["one reply"]["judgement"]["kind"] == "right"
    assert kinds["plain loop"]["judgement"]["kind"] == "wrong format"
    assert kinds["plain loop"]["attempt"]["calls"] == 2
    assert kinds["plain loop"]["attempt"]["input_tokens"] == 250
    assert kinds["ours"]["judgement"] == {"kind": "right", "detail": ""}
    ours = kinds["ours"]["attempt"]
    assert ours["ran"] and "mean()" in ours["code"] and ours["calls"] in (1, 2)
    assert ours["input_tokens"] in (100, 250)
    text = page.read_text(encoding="utf-8")
    assert "with the same model, **tiny**" in text and "**1 tasks**" in text
    assert str(tmp_path) not in text
    assert "dabench/1 · ours: right" in capsys.readouterr().out


def _lines(folder: Path) -> list[Json]:
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without tasks is one line that says where they can be had."""
    monkeypatch.setenv("NO_PROXY", "")
    assert main(["--data", str(tmp_path)]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "InfiAgent" in told and "dseval" in told


def test_sets_that_are_not_chosen(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not chosen is not read; a name that no set has is one line with the sets."""
    (data / "dseval" / "dseval").mkdir(parents=True)
    (data / "dseval" / "dseval" / "validator.py").write_text("broken", encoding="utf-8")
    assert [each.name for each in found(data, ["dabench EASY"])] == ["DABench"]
    assert len(found(data)) == 2
    for sets, line in (["kaggle"], "begin with DABench or DSEval"), (["dabench hard"], "There are"):
        assert main(["--data", str(data), "--sets", *sets]) == 2
        (told,) = capsys.readouterr().err.splitlines()
        assert line in told and ("easy" in told) == (line == "There are")


def test_a_set_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A set whose own check fails is left out with the reason; without any other it is an error."""
    checkout = tmp_path / "dseval"
    (checkout / "dseval").mkdir(parents=True)
    (checkout / "benchmarks" / "small").mkdir(parents=True)
    (checkout / "dseval" / "validator.py").write_text("", encoding="utf-8")
    (checkout / "dseval" / "problem.py").write_text(PROBLEM, encoding="utf-8")
    for name, text in {"good": "What is it?", "bad": "fails"}.items():
        (checkout / "benchmarks" / "small" / f"{name}.py").write_text(text, encoding="utf-8")
    with closing(DSEval(checkout)) as read:
        assert [task.id for task in read.tasks()] == ["dseval/small/good/0"]
    told = (
        "DSEval: 1 sets are left out, such as small/bad (ValueError: assert 1 == 2 AssertionError)"
    )
    assert told in capsys.readouterr().out
    (checkout / "benchmarks" / "small" / "good.py").unlink()
    with closing(DSEval(checkout)) as read, pytest.raises(DataError, match="small/bad"):
        read.tasks()


PROBLEM = """
import types

class ProblemSet(list):
    data_directory = None

    @classmethod
    def fromfile(cls, path):
        question = path.read_text()
        if question == "fails":
            raise ValueError("of many lines:\\n  assert 1 == 2\\nAssertionError")
        return cls([types.SimpleNamespace(
            question=question, reference_code="1", data=None, is_complete=True
        )])
"""


@pytest.mark.skipif("EVAL_DATA" not in os.environ, reason="EVAL_DATA names no folder of tasks")
def test_dseval() -> None:
    """A value is right; one that is printed, spoils an input, is another one or fails is not."""
    judging = DSEval(Path(os.environ["EVAL_DATA"]) / "dseval")
    value = 'chipo.sort_values(by="item_price", ascending=False).iloc[0].quantity'
    codes = {
        value: "right",
        f"print({value})": "wrong format",
        f"chipo = chipo.head(9)\n{value}": "input spoilt",
        "17": "wrong value",
        "chipo.nothing": "error",
        "import os; os._exit(3)": "error",
        "": "no code that ran",
    }
    try:
        tasks = {task.id: task for task in judging.tasks()}
        task = tasks["dseval/exercise/02-filtering-sorting-chipotle/5"]
        assert "quantity of the most expensive item" in task.text and len(task.setup) == 5
        kinds = {code: judging.judge(task, Attempt(code=code)).kind for code in codes}
    finally:
        judging.close()
    assert kinds == codes
