"""YAML by the fast loader, but for what would take the process with it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from jupyter_agent.core.safe_yaml import load, may_nest_deeply

DEEP = {
    "lists": "a: " + "[" * 30_000,
    "mappings": "a: " + "{a: " * 20_000,
    "marks": "- " * 30_000 + "x",
    "keys": "? " * 30_000 + "x",
    "indented": "\n".join(" " * depth + "a:" for depth in range(2_000)),
    "closed in quotes": "a: [" + '"]", [' * 5_000,
    "closed in comments": "a: [ #]\n" * 20_000,
    "closed in a quoted text of many lines": 'a: [ "\n' + "]\n" * 9 + '", ' + "[\n" * 20_000,
    "closed in tags": "a: [" + "!<]> [" * 5_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_nests_too_deeply_is_an_error(text: str) -> None:
    """Deep nesting is an error in a process with a small stack, which is not killed."""
    program = """
import sys, threading
from jupyter_agent.core.safe_yaml import load
text = sys.stdin.read()
def read():
    try:
        load(text)
    except Exception as error:
        print(type(error).__name__)
threading.stack_size(512 * 1024)
thread = threading.Thread(target=read)
thread.start()
thread.join()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("RecursionError", "ParserError", "ScannerError")


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nlist: [1, two, 3.5]\nat: 2026-01-01",
        "- a\n- {b: [c, 'd]']}\n- |\n  [[[[ text\n",
        "rows:\n" + "- {name: a, used_in: [decisions], count: 1}\n" * 500,
        'rows:\n- "[not a list"\n',
        "",
    ],
)
def test_ordinary_texts(text: str) -> None:
    """Ordinary texts give PyYAML's own result, and the fast loader reads them."""
    assert load(text) == yaml.safe_load(text)
    assert not may_nest_deeply(text)


def test_brackets_in_words_cost_only_time() -> None:
    """A text that only looks deeply nested is read correctly."""
    text = "".join(f'- "a [ and {number}"\n' for number in range(300))
    assert may_nest_deeply(text)
    assert load(text) == yaml.safe_load(text)


def test_merged_mappings_do_not_multiply() -> None:
    """A few hundred bytes of merge keys that would make millions of entries are refused at once."""
    lines = ["x0: &x0 {k: v}"]
    for level in range(1, 9):
        merged = ",".join([f"*x{level - 1}"] * 10)
        lines.append(f"x{level}: &x{level} {{<<: [{merged}]}}")
    with pytest.raises(yaml.YAMLError, match="merged mappings"):
        load("\n".join(lines))
