"""Failed code that is put right without the model."""

from __future__ import annotations

import pytest

from jupyter_agent.llm.own_repairs import repaired

KEY = "agent code 1, line 1\n    df['avg.wait']\nKeyError: 'avg.wait'\n(hint: Nearest columns: {}.)"
NAME = "NameError: name 'DF' is not defined\n(hint: Nearest variables: df, df2.)"


@pytest.mark.parametrize(
    ("code", "error", "mended"),
    [
        ("x = df['avg.wait']  # it", KEY.format(" Avg. Wait , b"), "x = df[' Avg. Wait ']  # it"),
        ('df["avg.wait"]', KEY.format("avg, wait, b"), "df['avg, wait']"),
        (
            "df['avg.wait'] + df.a['avg.wait']",
            KEY.format("avg wait"),
            "df['avg wait'] + df.a['avg wait']",
        ),
        ("df['avg.wait']", KEY.format("a, b, avg wait"), "df['avg wait']"),
        (
            "df[['a_1', 'b.2']]",
            "KeyError: \"['a_1', 'b.2'] not in index\"\n(hint: Nearest columns: a 1,  B 2 .)",
            "df[['a 1', ' B 2 ']]",
        ),
        (
            "df.dropna(subset=['a_1'])",
            "KeyError: ['a_1']\n(hint: Nearest columns: a 1.)",
            "df.dropna(subset=['a 1'])",
        ),
        ("df['avg.wait']", KEY.format("avg, b"), ""),
        ("df[key]", KEY.format("avg wait"), ""),
        ("df['avg.wait']", KEY.format("avg.wait"), ""),
        ("x.DF = DF.a", NAME, "x.DF = df.a"),
        ("DF + (", NAME, ""),
        (
            "np.pi",
            "NameError: name 'np' is not defined\n(hint: It is not imported: import numpy as np.)",
            "import numpy as np\nnp.pi",
        ),
        ("DF", "NameError: name 'DF' is not defined\n(hint: Nearest variables: d(f).)", ""),
        (
            "pd.x",
            "NameError: name 'pd' is not defined\n(hint: It is not imported: import evil as pd.)",
            "",
        ),
        ("1 / 0", "ValueError: (hint: It is not imported: import numpy as np.)", ""),
        ("f(1)", "TypeError: f() takes no arguments", ""),
        ("1 / 0", "ZeroDivisionError: division by zero", ""),
    ],
)
def test_repairs(code: str, error: str, mended: str) -> None:
    """A name with the same letters takes the wrong one's place, and nothing else changes."""
    assert repaired(code, error) == mended
