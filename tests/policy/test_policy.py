"""Modes, grants, tools, and that the policy always answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pace import processor_seconds

from jupyter_agent.policy import PolicyContext, always_covers, grants, judge

from .conftest import JudgeCode
from .test_ordinary import ORDINARY
from .test_risky import CASES

SHELL = {"code": "!ls"}


def test_modes(around: PolicyContext) -> None:
    """`auto` runs all, `read_only` refuses all but reading, `ask_all` asks for reading, too."""
    assert judge("execute_code", "executes", SHELL, "auto", around).decision == "allow"
    refused = judge("execute_code", "executes", {"code": "1"}, "read_only", around)
    assert refused.decision == "refuse"
    assert "read_only" in refused.reason
    assert judge("read_file", "reads", {"path": "a"}, "read_only", around).decision == "allow"
    asked = judge("read_file", "reads", {"path": "a"}, "ask_all", around)
    assert (asked.decision, asked.risks) == ("ask", ())
    assert judge("update_plan", "reads", {}, "ask_all", around).decision == "allow"
    assert judge("execute_code", "executes", SHELL, "ask_all", around).risks
    assert judge("read_file", "reads", {"path": "a"}, "ask_risky", around).decision == "allow"


def test_grants_of_a_kind_and_a_place(around: PolicyContext) -> None:
    """Always covers the kinds that were asked for where they were, and no others."""
    code = {"code": "import requests\nrequests.get('https://a.b')\n%pip install x"}
    verdict = judge("execute_code", "executes", code, "ask_risky", around)
    assert always_covers(verdict, around.root) == "network access to a.b and package installs"
    granted = grants(verdict, "ask_risky", "execute_code")
    assert granted == {"network@a.b", "install"}
    around = replace(around, granted=granted)
    assert judge("execute_code", "executes", code, "ask_risky", around).decision == "allow"
    assert judge("execute_code", "executes", SHELL, "ask_risky", around).decision == "ask"
    elsewhere = {"code": "import requests\nrequests.get('https://c.d')"}
    assert judge("execute_code", "executes", elsewhere, "ask_risky", around).decision == "ask"


def test_grants_of_a_tool(around: PolicyContext) -> None:
    """In `ask_all` Always covers one tool."""
    verdict = judge("execute_code", "executes", SHELL, "ask_all", around)
    assert always_covers(verdict, around.root) == "every call of execute_code"
    around = replace(around, granted=grants(verdict, "ask_all", "execute_code"))
    assert judge("execute_code", "executes", SHELL, "ask_all", around).decision == "allow"
    assert judge("write_file", "writes", {"path": "a"}, "ask_all", around).decision == "ask"


def test_the_agent_itself_is_never_granted(around: PolicyContext) -> None:
    """Changes to the agent itself ask each time, without Always."""
    code = {"code": "%agent config approvals.mode auto"}
    verdict = judge("execute_code", "executes", code, "ask_risky", around)
    assert grants(verdict, "ask_risky", "execute_code") == frozenset()
    assert always_covers(verdict, around.root) == ""
    around = replace(around, granted=frozenset({"agent"}))
    assert judge("execute_code", "executes", code, "ask_risky", around).decision == "ask"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("new.txt", ""),
        ("seen.csv", ""),
        ("data.csv", "overwrite"),
        ("../x", "outside"),
        (".jupyter_agent/config.yaml", "agent"),
    ],
)
def test_file_tools(around: PolicyContext, path: str, kind: str) -> None:
    """A file tool asks before it writes over what the agent has not read."""
    verdict = judge("write_file", "writes", {"path": path, "content": ""}, "ask_risky", around)
    assert [risk.kind for risk in verdict.risks] == ([kind] if kind else [])


def test_notes(around: PolicyContext) -> None:
    """The agent's own notes are written without a question."""
    note = {"content": "x", "category": "y"}
    assert judge("record_note", "writes", note, "ask_risky", around).decision == "allow"


@pytest.mark.parametrize("arguments", [{}, {"path": "new.txt"}, {"code": "1"}])
def test_tools_of_servers(around: PolicyContext, arguments: dict[str, str]) -> None:
    """A server's tool asks, whatever its arguments; Always covers this tool only."""
    verdict = judge("github__merge", "executes", arguments, "ask_risky", around)
    assert verdict.risks[0].what == "runs the tool merge of the server github"
    assert always_covers(verdict, around.root) == "every call of github__merge"
    granted = grants(verdict, "ask_risky", "github__merge")
    around = replace(around, granted=granted)
    assert judge("github__merge", "executes", {}, "ask_risky", around).decision == "allow"
    assert judge("github__close", "executes", {}, "ask_risky", around).decision == "ask"
    assert judge("github__list", "reads", {}, "ask_risky", around).decision == "allow"


@pytest.mark.parametrize(
    "code",
    ["(" * 50_000, "[" * 150 + "]" * 150, "-" * 90_000 + "1", "a" + ".b" * 20_000, "\0", "x\ud800",
     "x = 1\n" * 170_000, "'" + "a" * 1_000_000 + "'", "!ls\n" * 8_000, "+".join("a" * 5_000),
     "f(" * 90 + ")" * 90, "%time " * 5_000 + "x", "x = 1\n" * 40_000,
     "".join(f"a{i} = a{i + 1}\n" for i in range(5_000)), "x = x + x\n" * 2_000],
)  # fmt: skip
def test_bounds(judged: JudgeCode, code: str) -> None:
    """Huge and deeply nested cells get a verdict quickly."""
    assert processor_seconds(lambda: judged(code), 2) < 3


def test_fast(judged: JudgeCode) -> None:
    """An ordinary cell takes a few milliseconds."""
    judged("1")
    assert processor_seconds(lambda: [judged(code) for code in ORDINARY], 3) / len(ORDINARY) < 0.01


FIXTURES = settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PIECES = st.sampled_from([code for _, code in CASES] + ORDINARY)


@FIXTURES
@given(text=st.one_of(st.text(), st.lists(PIECES, max_size=3).map("\n".join)))
def test_never_raises(judged: JudgeCode, text: str) -> None:
    """Any text gets a verdict."""
    assert judged(text).decision in ("allow", "ask")


@FIXTURES
@given(code=PIECES, cut=st.integers(0, 200))
def test_never_raises_on_torn_code(judged: JudgeCode, code: str, cut: int) -> None:
    """Code that is cut off gets a verdict."""
    assert judged(code[:cut] + code[cut + 1 :]).decision in ("allow", "ask")


@FIXTURES
@given(code=PIECES)
def test_comments_change_nothing(judged: JudgeCode, code: str) -> None:
    """Empty lines before and comments behind make no difference."""
    if "%%" in code or len(code.splitlines()) == 1:
        return  # there they are part of the text, or no longer the only line
    kinds = {risk.kind for risk in judged(code).risks}
    changed = judged(f"\n\n{code}\n# a comment\n")
    assert {risk.kind for risk in changed.risks} == kinds


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("import os\nos.remove('data.csv')", "data.csv"),
        ("from pathlib import Path\nPath('sub/../data.csv').unlink()", "data.csv"),
        ("open('data.csv', 'w')", "data.csv"),
        ("%cd sub", "sub"),
    ],
)
def test_the_place_of_a_file(judged: JudgeCode, root: Path, code: str, place: str) -> None:
    """A risk about a file carries its real path."""
    assert [risk.place for risk in judged(code).risks] == [str(root / place)]


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("import requests\nrequests.get('https://A.example:8080/c')", "a.example"),
        ("pd.read_csv('https://a.example/c.csv')", "a.example"),
        ("duckdb.sql(\"SELECT * FROM 'https://a.example/c'\")", "a.example"),
        ("!ls -l", "ls -l"),
        ("%%bash\ncd x\nls", "cd x\nls"),
        ("import subprocess\nsubprocess.run(['git', 'push'])", "git push"),
        ("%pip install x", "pip install x"),
        ("exec(text)", ""),
    ],
)
def test_the_place_of_other_effects(judged: JudgeCode, code: str, place: str) -> None:
    """A risk carries the host of an address or the whole command, where the code tells it."""
    assert place in [risk.place for risk in judged(code).risks]
