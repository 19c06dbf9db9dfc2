"""The promoted cell: what goes, what stays, and how it looks."""

from __future__ import annotations

from textwrap import dedent

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_agent.promotion import Executed, cell
from jupyter_agent.promotion.executed import State


def promoted(*codes: str, wanted: str = "", opaque: set[str] | None = None) -> str:
    """The cell without its comments' headings, of codes that all ran well."""
    ran = [Executed(dedent(code).strip("\n"), number) for number, code in enumerate(codes, 1)]
    text = cell(ran, wanted.split(), set() if opaque is None else opaque)
    lines = [line for line in text.split("\n") if line and not line.startswith("# Step ")]
    return "\n".join(lines)


def failed(code: str, line: int | None, state: State = "failed") -> Executed:
    return Executed(dedent(code).strip("\n"), 1, state, failed_line=line)


@pytest.mark.parametrize(
    "look",
    [
        "df.head()",
        "df",
        "print(df.shape, list(df.columns))",
        "df.isna().sum()",
        "df.groupby('a')['b'].mean().sort_values().head(3)",
        "df.describe(); df.info()",
        "len(df)",
        "type(df), df.dtypes",
        "df['a'].value_counts(normalize=True)",
        "df.apply(lambda row: row.a * 2, axis=1)",
        "print(f'{df.a.mean():.2f}')",
        "[name for name in df.columns if name.startswith('x')]",
        "import pandas as pd\npd.DataFrame({'a': [1]}).merge(df)",
        "import numpy as np\nnp.percentile(df.a, 5)",
        "assert len(df) == 3",
        "df?",
        "%who",
        "%timeit df.a.sum()",
        "if len(df) > 3:\n    print('many')",
        "# only a comment",
        "''",
    ],
)
def test_looks_go(look: str) -> None:
    """Statements that only show something are dropped, with what only they needed."""
    assert promoted("df = make()", look, wanted="df") == "df = make()"


@pytest.mark.parametrize(
    "code",
    [
        "df.to_csv('a.csv')",
        "df.dropna(inplace=True)",
        "df['x'] = 1",
        "df.sample(3)",
        "print(1, file=log)",
        "plt.plot([1])",
        "model.fit(df)",
        "next(rows)",
        "df.apply(lambda row: seen.append(row))",
        "open('a.txt', 'w').write('x')",
        "import numpy as np\nnp.random.seed(0)",
        "import numpy as np\nnp.add(a, b, out=c)",
        "!ls",
        "%matplotlib inline",
        "with open('a') as f:\n    text = f.read()",
        "await fetch()",
        "raise_or_not()",
        "n += 1",
        "from somewhere import *",
        "exec('a = 1')",
    ],
)
def test_what_may_have_an_effect_stays(code: str) -> None:
    """A statement that may have an effect stays, even if no result depends on it."""
    assert promoted(code) == code


def test_only_what_the_results_need() -> None:
    """Overwritten values, unneeded helpers and unused imports are dropped."""
    text = promoted(
        "import os, json\nimport math\nfrom statistics import mean, median\nx = 1\ny = math.pi",
        "x = mean([1, 2])\nunused = y * 2\nz = [i for i in range(3)]",
        "def area(r):\n    return math.pi * r ** 2\n\ndef never(r):\n    return json.dumps(r)",
        "total = area(2)",
        wanted="x total",
    )
    assert text == dedent(
        """\
        import math
        from statistics import mean
        x = mean([1, 2])
        def area(r):
            return math.pi * r ** 2
        total = area(2)"""
    )


def test_the_text_is_as_it_was_written() -> None:
    """Comments, strings over several lines, decorators, magics and odd spacing are kept."""
    code = '''\
    # why it is done
    # in two lines
    a = {  "k":1,   # inside
          "l": """x
      y"""}  # behind
    ä = "ö"; b = ä  # two on a line
    %matplotlib inline
    c = !echo $b

    import functools
    @functools.cache
    # about it
    def f(x):

        # in it
        return (x
                + 1)
    d = (f(1),
         b)  # end
    '''
    text = promoted(code, wanted="a b c d f")
    assert text == dedent(
        '''\
        import functools
        # why it is done
        # in two lines
        a = {  "k":1,   # inside
              "l": """x
          y"""}  # behind
        ä = "ö"
        b = ä  # two on a line
        %matplotlib inline
        c = !echo $b
        @functools.cache
        # about it
        def f(x):
            # in it
            return (x
                    + 1)
        d = (f(1),
             b)  # end'''
    )


def test_imports_come_first_and_once() -> None:
    """Imports come first, `__future__` before all, with the names of a module on one line."""
    text = promoted(
        "x = 1\nimport math\nfrom os import sep\ny = math.pi, sep",
        "import math\nfrom os import getcwd\nz = math.e, getcwd()",
        "from __future__ import annotations\nimport os.path as p, zlib\nv = p.sep, zlib",
        wanted="x y z v",
    )
    assert text.splitlines()[:6] == [
        "from __future__ import annotations",
        "import math",
        "import os.path as p",
        "import zlib",
        "from os import sep, getcwd",
        "x = 1",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.path.append('lib')\nimport mine\na = mine.x",
        "import os\nos.environ['X'] = '1'\nimport mine\na = mine.x",
        "math = 5\na = math\nimport math",
        "%pip install mine\nimport mine\na = mine.x",
        "from mine import *\nimport math\na = math.pi",
        "from os import sep as a\nb = a\nfrom sys import path as a\nfrom os import sep as a",
        "with open('mine.py', 'w') as f:\n    f.write('x = 1')\nimport mine\na = mine.x",
    ],
)
def test_imports_that_must_not_be_moved(code: str) -> None:
    """An import whose meaning may depend on earlier code stays in its place."""
    assert promoted(code, wanted="a b math f") == code


def test_what_failed_goes() -> None:
    """Of a failed attempt only the needed code before the error stays."""
    ran = [
        failed("a = [1]\nb = a[3]\nc = 2", 2),
        failed("x = = 1", None),
        failed("a.append(2)\nunused = 5\nimport nowhere", 3),
        Executed("b = len(a)", 2),
    ]
    assert cell(ran, ["a", "b"], set()) == dedent(
        """\
        # Step 1
        a = [1]
        a.append(2)

        # Step 2
        b = len(a)"""
    )


def test_what_failed_half_way_and_has_changed_something() -> None:
    """Code that failed half way stays with a comment, if what it had changed is needed."""
    ran = [
        Executed("found = []", 1),
        failed('for i in range(3):\n    found.append(f"""{i}\n""")\n    1 / (i - 1)', 3),
    ]
    text = cell(ran, ["found"], set())
    assert "half way" in text
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert namespace["found"] == ["0\n", "1\n"]
    assert "half way" not in cell(ran, [], set())


def test_what_was_interrupted_is_said_to_be_missing() -> None:
    """Interrupted code is left out, with a comment where it matters."""
    ran = [Executed("a = []", 1), failed("while True:\n    a.append(1)", None, "interrupted")]
    assert cell(ran, ["a"], set()).startswith("# Code of step 1 was interrupted; what it had done")
    assert "interrupted" not in cell([ran[0], failed("while True: pass", None, "interrupted")], "a")


def test_functions_of_the_persons() -> None:
    """Code that the person's functions may need stays."""
    codes = ("data = 1", "data = 2", "r = helper()")
    assert promoted(*codes, wanted="r", opaque={"helper"}) == "data = 1\ndata = 2\nr = helper()"
    assert promoted(*codes, wanted="r", opaque=set()) == "r = helper()"


def test_pictures_are_shown_again() -> None:
    """A value shown as a picture is displayed; a display of a table is dropped."""
    ran = [
        Executed("chart = make()\nchart", 1, shows_value=True),
        Executed("display(chart)", 2),
        Executed("display(chart)", 3, shows=True),
    ]
    text = cell(ran, ["chart"], set())
    assert text == "# Step 1\nchart = make()\ndisplay(chart)\n\n# Step 3\ndisplay(chart)"


@pytest.mark.parametrize(
    "words", ["a\n%rm x\nb", "a\u2028%rm x", "a\x0b!rm x", "\x1b[31ma", "a\r%rm x", "#" * 500]
)
def test_words_stay_in_their_comment(words: str) -> None:
    """The model's words stay inside comments."""
    lines = cell([Executed("x = 1", 1, words=words)], ["x"]).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("# Step 1: ")
    assert lines[1] == "x = 1"


def test_in_a_shell() -> None:
    """Magics, shell lines and top-level await have the same effect in one cell as apart."""
    shell = InteractiveShell()
    ran = [
        Executed("%precision 3\na = !echo 7", 1),
        Executed("%%time\nimport asyncio\nb = int(a[0])", 2),
        Executed("c = await asyncio.sleep(0, b + 1)", 3),
        Executed("%%python --out d\nprint(5)", 4),
    ]
    text = cell(ran, ["a", "b", "c", "d"], set())
    assert text.startswith("import asyncio\n")
    for code in [each.code for each in ran]:
        assert shell.run_cell(code).success
    names = ("a", "b", "c", "d")
    one = [shell.user_ns.pop(name) for name in names]
    assert shell.run_cell(text).success, text
    assert [shell.user_ns[name] for name in names] == one
    assert one[1:3] == [7, 8]
