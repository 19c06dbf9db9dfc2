"""Code whose bindings did not last, under other names."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from jupyter_agent.promotion import Executed
from jupyter_agent.promotion.renaming import aliased, renaming, restored


def test_plain_names_are_replaced() -> None:
    """Each use as a name changes, in place; attributes, keywords, texts and comments stay."""
    code = dedent(
        """\
        df = df.dropna()  # df without gaps
        ö, n = "df", len(df); other.df = make(df=df)[df:]
        m = [df for df in df if df]
        """
    )
    assert renaming(code, {"df": "new_df"}) == dedent(
        """\
        new_df = new_df.dropna()  # df without gaps
        ö, n = "df", len(new_df); other.df = make(df=new_df)[new_df:]
        m = [new_df for new_df in new_df if new_df]
        """
    )


@pytest.mark.parametrize(
    "code",
    [
        "%time df = 1",
        "def f():\n    global df\n    df = 1",
        "def df(): pass",
        "import x as df",
        "from x import *\ndf = 1",
        "f = lambda df: df",
        "a.query('x > @df.x.mean()')\ndf = 1",
        "eval('df')\ndf = 1",
        "try: pass\nexcept Exception as df: pass",
        "class A:\n    df = 1",
    ],
)
def test_what_may_mean_the_name_otherwise(code: str) -> None:
    """Where a name may stand in another way, nothing is replaced."""
    assert renaming(code, {"df": "new_df"}) is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="places in f-strings are not known before")
def test_names_in_f_strings() -> None:
    """Names in an f-string are replaced where their places are known."""
    assert renaming("print(f'{df} df')", {"df": "a"}) == "print(f'{a} df')"


@pytest.mark.parametrize("code", ["x = x + y\ny = x", "%time x = x + y\ny = x"])
def test_both_ways_leave_the_names(code: str) -> None:
    """Run one after the other, the code computes the same, and the names are the person's again."""
    ran, later = Executed(code.replace("%time ", "")), Executed("z = x * y")
    others: dict[str, str] = {}
    renamed = aliased(ran, ["x", "y"], others, {"x", "y"})
    assert renamed is not None
    after = aliased(later, [], others, set())
    assert after is not None
    left = {"x": "u", "y": "v"}
    around = restored(ran, ["x", "y"], {"x_before"}, {}, left)
    around += restored(later, ["x", "y"], {"u", "v", "x_before"}, left, left)
    for made in ([*renamed, *after], around):
        names: dict[str, object] = {"x": 1, "y": 2}
        exec("\n".join(each.code for each in made), names)
        assert (names["x"], names["y"], names["z"]) == (1, 2, 9)
    assert (aliased(Executed(code), ["x"], {}, set()) is None) == ("%" in code)


def test_names_that_the_person_does_not_have() -> None:
    """A name that only scratch has is not bound to an object of the person's at first."""
    made = aliased(Executed("y = x"), ["x", "y"], {}, {"new_x"}, {"y"})
    assert made is not None
    assert [each.code for each in made] == ["new_x_ = x", "new_y = new_x_"]
