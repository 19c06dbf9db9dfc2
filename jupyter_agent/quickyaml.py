"""YAML that somebody else may have written, read as fast as it can be read safely."""

from __future__ import annotations

import re
from itertools import accumulate

import yaml

_DEEPEST = 200
_LEADING = re.compile(rf"^[ \t\-?:]{{{_DEEPEST}}}", re.MULTILINE)
_BRACKETS = re.compile(r"[\[\]{}]")
_OPAQUE = re.compile(r"[\"'#!|>&*%]")


def load(text: str) -> object:
    """The value in a text, by PyYAML's safe loader.

    libyaml's loader is ten times faster, and takes the process with it where a text nests too
    deeply. What might do so is read by the loader in Python, which raises.

    Raises:
        yaml.YAMLError: The text is no YAML.
        ValueError: A value is not what it looks like: a date of the 99th.
        RecursionError: It nests too deeply.
    """
    loader = yaml.SafeLoader if may_nest_deeply(text) else _fast()
    return yaml.load(text, loader)


def _fast() -> type[yaml.SafeLoader]:
    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader


def may_nest_deeply(text: str) -> bool:
    """Whether a text may nest a few hundred levels deep. False is certain, True is not."""
    if _LEADING.search(text):
        return True
    if text.count("[") + text.count("{") < _DEEPEST:
        return False
    deepest = open_before = 0
    for line in text.split("\n"):
        brackets = _BRACKETS.findall(line)
        if not brackets:
            continue
        if _OPAQUE.search(line):
            # What closes here may be in quotes, in a comment or in a tag, and close nothing.
            open_before += sum(bracket in "[{" for bracket in brackets)
            deepest = max(deepest, open_before)
            continue
        depths = list(accumulate(1 if bracket in "[{" else -1 for bracket in brackets))
        deepest = max(deepest, open_before + max(depths))
        # Nor may it close what an earlier line opened: this may be the middle of a quoted text.
        open_before += max(0, depths[-1])
    return deepest >= _DEEPEST
