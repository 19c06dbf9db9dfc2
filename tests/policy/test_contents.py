"""What the code itself tells of the content that it gives to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.policy import Known, PolicyContext
from jupyter_agent.policy.code import judge_code

LONG = "a line of text\n" * 500
NAMES = {"report": Known(text="from the notebook\n")}

TOLD = {
    "open('a.txt', 'w').write('new\\n')": {"a.txt": "new\n"},
    "n = open('a.txt', mode='w', encoding='utf-8').write('new')": {"a.txt": "new"},
    "from pathlib import Path\nPath('a.txt').write_text('new')": {"a.txt": "new"},
    "import pathlib as p\np.Path('sub', 'a.txt').write_text(report)": {
        "sub/a.txt": "from the notebook\n"
    },
    "with open('a.txt', 'w') as f:\n    f.write('one\\n')\n    f.write('two')": {
        "a.txt": "one\ntwo"
    },
    "for n in (1, 2): print(n)\nf = open('a.txt', 'w')\nf.write('new')\nf.close()": {
        "a.txt": "new"
    },
    "with open('a', 'w') as f:\n    f.write('1')\nwith open('b', 'w') as f:\n    f.write('2')": {
        "a": "1",
        "b": "2",
    },
    f"text = {LONG!r}\nopen('a.txt', 'w').write(text)\nprint(open('a.txt').read())": {
        "a.txt": LONG
    },
    "%%writefile a.txt\nnew\nlines\n": {"a.txt": "new\nlines\n"},
    "open('a.txt', 'wb').write(b'new')": {"a.txt": "new"},
}
UNTOLD = [
    "text = 'old'\nload()\nopen('a.txt', 'w').write(text)",
    "load()\nopen('a.txt', 'w').write(report)",
    "globals()['report'] = 'other'\nopen('a.txt', 'w').write(report)",
    "import loader\nopen('a.txt', 'w').write(report)",
    "text = 'old'\nopen('b.txt', 'w').write(load())\nopen('a.txt', 'w').write(text)",
    "open('a.txt', 'a').write('new')",
    "open('a.txt', 'w', encoding='latin-1').write('new')",
    "open('a.txt', 'w').write(unknown)",
    "open('a.txt', 'w').write('a'); open('a.txt', 'a').write('b')",
    "for n in range(3):\n    open('a.txt', 'w').write('new')",
    "if here:\n    open('a.txt', 'w').write('new')",
    "def f():\n    open('a.txt', 'w').write('new')\nf()",
    "import json\nwith open('a.txt', 'w') as f:\n    f.write('[')\n    json.dump([1], f)",
    "with open('a.txt', 'w') as f:\n    f.write('new')\n    f = other\n    f.write('more')",
    "text = 'one'\ntext = 'two'\nopen('a.txt', 'w').write(text)",
    "text = 'one'\ntext += more\nopen('a.txt', 'w').write(text)",
    "open(name, 'w').write('new')",
    "%%writefile -a a.txt\nnew\n",
    "exec(\"open('a.txt', 'w').write('new')\")",
]


def told(code: str, root: Path) -> dict[str, str]:
    found = judge_code(code, PolicyContext(root, root, names=NAMES))[2]
    return {path.relative_to(root).as_posix(): text for path, text in found.texts.items()}


@pytest.mark.parametrize("code", TOLD)
def test_told(code: str, root: Path) -> None:
    """Literals, names of them and texts of the notebook give the content."""
    assert told(code, root) == TOLD[code]


@pytest.mark.parametrize("code", UNTOLD)
def test_untold(code: str, root: Path) -> None:
    """What may be written otherwise, more than once or not at all is left out."""
    assert told(code, root) == {}
