"""Whether a cell is Python as it stands, as IPython would say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_agent.policy import PolicyContext, judge
from jupyter_agent.promotion.executed import Executed, statements
from jupyter_agent.source.cell import is_plain, parse_cell, parse_python, without_literals

PIECES = [
    *("a = 1", "x", "print(x)", "if x:", "def f():", "await y", "'''", '"""', "#c", "(", ")"),
    *("\n", "\n", "\n", " ", "    ", "\t", "\f", "\v", "\r", "\r\n", "\x85", "\u2028", "\ufeff"),
    *(
        "%",
        "!",
        "?",
        ">>> ",
        "... ",
        "...: ",
        "In [1]: ",
        ",",
        ";",
        "/",
        "`",
        "$",
        "~",
        "@",
        "\\\n",
    ),
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # IPython's, of lines without an end
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
def test_what_is_plain_is_left_alone(text: str) -> None:
    """IPython returns a plain cell unchanged, but for a missing line end."""
    if is_plain(text):
        whole = text if text.endswith("\n") else f"{text}\n"
        assert TransformerManager().transform_cell(text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "import pandas as pd\ndf = pd.DataFrame()\n",
        "x = 1\nprint('sum', x)",
        "for i in range(3):\n    print(f'{i:>3}')\n\nx",
    ],
)
def test_plain(text: str) -> None:
    """Ordinary Python cells are plain."""
    assert is_plain(text)


@pytest.mark.parametrize(
    "text",
    [
        "%timeit x\ny",
        "x = 1\n!ls",
        "a = !ls\nb",
        "x\nlen?",
        ">>> x = 1\n>>> y",
        "In [1]: x = 1\n   ...: y",
        "  x = 1\n  y = 2",
        "\nx\ny",
        "x\n,f a",
        "x\n    \ny",
        "ls",
        "x = 1\n",
        "",
    ],
)
def test_not_plain(text: str) -> None:
    """Cells with possible IPython syntax, and single lines that may be magics, are not plain."""
    assert not is_plain(text)


def test_a_code_is_read_once() -> None:
    """All readers of a code share one tree, which nobody changes."""
    source = "a = 1\nprint('b')"
    shared = parse_cell(source)
    assert shared is not None and parse_python(f"{source}\n") is shared[1]
    before = ast.dump(shared[1], include_attributes=True)
    without_literals(source)
    judge(
        "execute_code",
        "executes",
        {"code": source},
        "ask_risky",
        PolicyContext(Path("/"), Path("/")),
    )
    statements([Executed(source), Executed(source, state="failed", failed_line=2)])
    assert ast.dump(shared[1], include_attributes=True) == before
