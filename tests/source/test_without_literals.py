"""Sources without the data in them: no literal, no comment, no argument of a magic is left."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.source.cell import without_literals

MARK = "ZQMARK"
NUMBER = "718392465"

READABLE = {
    "string": ("x = 'ZQMARK'", "x = …"),
    "bytes": ("x = b'ZQMARK' + rb\"ZQMARK\"", "x = … + …"),
    "strings side by side": ("x = 'ZQMARK' u'ZQMARK'", None),
    "integer": ("x = 718392465", "x = …"),
    "underscores": ("x = 718_392_465", "x = …"),
    "hexadecimal": ("x = 0x718392465", "x = …"),
    "float": ("x = 718392465.5e-3", "x = …"),
    "imaginary": ("x = 718392465j", "x = …"),
    "negative": ("x = -718392465", "x = -…"),
    "f-string": ("x = f'ZQMARK {y!r:>{w}} ZQMARK'", "x = …"),
    "f-string with a string": ("x = f\"{d['ZQMARK']}\" + y", "x = … + y"),
    "f-string over lines": ('x = f"""ZQMARK {\ny\n} ZQMARK"""\nz', "x = …\nz"),
    "f-string with braces": ("x = f'{{ZQMARK}}{y}ZQMARK'", "x = …"),
    "raw f-string": ("x = rf'ZQMARK\\{y}'", "x = …"),
    "comment": ("x = y  # ZQMARK", "x = y"),
    "comment alone": ("# ZQMARK\nx", "x"),
    "docstring": ('def f():\n    """ZQMARK."""\n    return y', "def f():\n    …\n    return y"),
    "many lines": ('x = """\nZQMARK\n718392465\n"""\ny', "x = …\ny"),
    "quotes within": ("x = \"it's\" + 'ZQMARK'", "x = … + …"),
    "default": ("def f(a='ZQMARK', *, b=718392465): ...", "def f(a=…, *, b=…): ..."),
    "decorator": ("@route('ZQMARK')\ndef f(): ...", "@route(…)\ndef f(): ..."),
    "walrus": ("if (n := 718392465) > y: pass", "if (n := …) > y: pass"),
    "match": (
        "match x:\n    case 'ZQMARK' | 718392465:\n        pass",
        "match x:\n    case … | …:\n        pass",
    ),
    "unicode names": ("größe = 'ZQMARK'; 变量 = größe", "größe = …; 变量 = größe"),
    "top-level await": ("x = await get('ZQMARK')", "x = await get(…)"),
    "tabs": ("if x:\n\ty = 'ZQMARK'", None),
    "form feed": ("\x0cx = 'ZQMARK'\n\x0cy = 718392465", None),
    "windows line ends": ("x = 'ZQMARK'\r\ny = 718392465\r\n", None),
    "joined lines": ("x = 'ZQMARK' + \\\n    'ZQMARK'", None),
    "brackets over lines": ("x = [\n    'ZQMARK',  # ZQMARK\n    718392465,\n]", None),
    "dict": ("x = {'ZQMARK': 718392465}", "x = {…: …}"),
    "annotation": ("x: Literal['ZQMARK'] = y", "x: Literal[…] = y"),
    "type comment": ("x = []  # type: list[ZQMARK]", "x = []"),
    "percent format": ("x = 'ZQMARK=%d' % y", "x = … % y"),
    "percent format alone": ("print('ZQMARK=%s' % y)", "print(… % y)"),
    "percent within": ("x = 'a=%ZQMARK and =!ZQMARK'", "x = …"),
    "unknown escape": ("x = '\\d ZQMARK'", "x = …"),
    "pattern of a mapping": (
        "match x:\n    case {'ZQMARK': y, **z}:\n        pass",
        "match x:\n    case {…: y, **z}:\n        pass",
    ),
    "constants": ("x = None, True, ...", None),
    "modulo": ("x = y %z", "x = y %z"),
    "text with a percent line": ('x = """\n%ZQMARK text\n"""', "x = …"),
    "text with a bang line": ('x = """\n!ZQMARK\n"""; y = z', None),
    "percent ends a text": ('a = """\n%s"""\nb = """\nZQMARK\n"""\nc = """x\n%s"""', None),
}
MAGICS = {
    "line magic": "%env X=ZQMARK",
    "line magic in a block": "if x:\n    %env X=ZQMARK\n    y = 718392465",
    "shell": "!echo ZQMARK 718392465",
    "double shell": "!!echo ZQMARK",
    "assigned shell": "x = !echo ZQMARK",
    "assigned magic": "x = %env ZQMARK",
    "assigned to an item": "x['a'] = !echo ZQMARK",
    "assigned twice": "x = y = !echo ZQMARK",
    "cell magic": "%%bash -s ZQMARK\necho ZQMARK",
    "cell magic below empty lines": "\n\n%%bash\necho ZQMARK",
    "cell magic, indented": "  %%bash\n  echo ZQMARK",
    "cell magic with code": "%%timeit x = 'ZQMARK'\nZQMARK",
    "cell magic too late": "x = 1\n%%bash\necho ZQMARK",
    "shell over lines": "!echo a \\\n  ZQMARK",
    "assigned shell over lines": "x = !echo a \\\n  ZQMARK",
    "magic over lines": "%env X=a \\\n  ZQMARK",
    "shell in a loop's line": "for i in x: !echo ZQMARK",
    "quoting": ",print ZQMARK",
    "quoting as one": ";print ZQMARK",
    "automagic": "env TOKEN=ZQMARK",
    "automagic folder": "cd ZQMARK/sub",
    "help with a note": "len?  # ZQMARK",
}
UNFINISHED = {
    "open string": "x = 'ZQMARK",
    "open text": 'x = """ZQMARK',
    "open bracket": "x = (y, 'ZQMARK'",
    "open f-string": "x = f'{y ZQMARK",
    "open after a whole": "x = \"it's\" + 'ZQMARK",
    "apostrophe": "x = don't ZQMARK 'y",
    "number with letters": "x = 5ZQMARK",
    "old print": "print ZQMARK",
    "typographic quotes": "f(“ZQMARK”)",
    "prose": "Give me the ZQMARK",
    "dollar": "x = $ZQMARK",
    "wrong indent": "if x:\n        y\n    ZQMARK = 'ZQMARK'",
    "wide digits": "x = １２３ZQMARK",
    "null": "x = 'ZQMARK'\x00",
}


def marked(text: str) -> bool:
    digits = text.replace("_", "")
    return MARK.lower() in text.lower() or NUMBER in digits or "71839" in digits


def packed(text: str) -> str:
    """Without what is layout only."""
    return re.sub(r"[\s;]+", "", text)


@pytest.mark.parametrize(("source", "bare"), READABLE.values(), ids=READABLE.keys())
def test_python_without_its_data(source: str, bare: str | None) -> None:
    """Python keeps its names and loses its strings, numbers and comments."""
    text = without_literals(source)
    assert not marked(text)
    assert bare is None or packed(text) == packed(bare)


@pytest.mark.parametrize("source", MAGICS.values(), ids=MAGICS.keys())
def test_magics_without_their_arguments(source: str) -> None:
    """Magics, shell commands and IPython's shorthands lose all arguments."""
    assert not marked(without_literals(source))


@pytest.mark.parametrize("source", UNFINISHED.values(), ids=UNFINISHED.keys())
def test_what_python_cannot_read(source: str) -> None:
    """A cell that is no Python is left out, since names and data cannot be told apart."""
    assert not marked(without_literals(source))


def test_the_name_of_a_magic_stays() -> None:
    """The names of magics, and the code around them, stay."""
    assert without_literals("%%bash\nls") == "%%bash …"
    text = without_literals("%matplotlib inline\nframe = load('x')\nlines = !ls /tmp\n!pwd")
    assert "%matplotlib" in text and "frame = load(…)" in text and "lines = " in text
    assert "inline" not in text and "/tmp" not in text and "pwd" not in text


def test_names_stay() -> None:
    """In a usual cell every name, attribute and operator stays on its line."""
    source = "import pandas as pd\nframe = pd.read_csv('a.csv')\nframe.age.mean() + other[key]"
    bare = "import pandas as pd\nframe = pd.read_csv(…)\nframe.age.mean() + other[key]"
    assert without_literals(source) == bare


def test_an_empty_source() -> None:
    """Of an empty source, or of comments alone, nothing is left."""
    assert without_literals("") == without_literals("# only\n\n# words") == ""


# Any statement -----------------------------------------------------------------------------------

WORDS = st.text("ab%!='\"\\{}#\n \t$?…é", max_size=12)
PREFIXES = st.sampled_from(("", "b", "r", "f", "rb"))


@st.composite
def literals(draw: st.DrawFn) -> str:
    """A literal or a comment that holds the mark."""
    around = draw(WORDS), draw(WORDS)
    text = f"{around[0]}{MARK}{around[1]}"
    kind = draw(st.sampled_from(("repr", "json", "triple", "bytes", "f", "number", "float")))
    if kind == "triple":
        safe = text.replace("\\", "").replace('"', "'")
        return f'"""{safe}"""'
    if kind == "f":
        return "f" + repr(text.replace("{", "{{").replace("}", "}}").replace("\\", ""))
    forms = {
        "repr": repr(text),
        "json": json.dumps(text),
        "bytes": repr(text.encode("utf-8")),
        "number": NUMBER,
        "float": f"{NUMBER}.5e3",
    }
    return forms[kind]


STATEMENTS = st.sampled_from(
    (
        "x = {}",
        "x[{}] = y %z",
        "call({}, key={})",
        "if x:\n    y = {}\nelse:\n\tz = {}",
        "def f(a={}):\n    {}\n    return a",
        "@decorate({})\nclass A:\n    b: int = {}",
        "x = [\n    {},\n    {}\n]",
        "for i in {}: print(i, {})",
        "y = (w := {}) if x else {}",
        "assert x, {}  # ZQMARK 718392465",
        "%env X=ZQMARK",
        "x = !echo ZQMARK 718392465",
        "match x:\n    case [a, b]: a({})",
        "lambda a={}: a\\\n  + {}",
    )
)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_no_planted_literal_survives(data: st.DataObject) -> None:
    """No marked literal in any kind of statement survives."""
    statements = data.draw(st.lists(STATEMENTS, min_size=1, max_size=4))
    source = "\n".join(_filled(statement, data) for statement in statements)
    assert not marked(without_literals(source)), source


def _filled(statement: str, data: st.DataObject) -> str:
    pieces = statement.split("{}")
    return "".join(p + data.draw(literals()) for p in pieces[:-1]) + pieces[-1]


@settings(max_examples=examples(300), deadline=None)
@given(st.text("ab=%!'\"\\#\n {}()[]:;,.0519?$…\t\r\x0c", max_size=40))
def test_any_text_is_survived(source: str) -> None:
    """Any text gives a result, and Python keeps none of its literals."""
    text = without_literals(source)
    if _literals_of(source):
        assert not any(literal in text for literal in _literals_of(source)), text


def _literals_of(source: str) -> list[str]:
    """Long numbers of a source that is Python."""
    try:
        ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []
    numbers = [t.string for t in tokens if t.type == tokenize.NUMBER]
    return [number for number in numbers if len(number) > 1 and number not in source.split()]
