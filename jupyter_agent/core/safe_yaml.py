"""Loads YAML by an unknown author: safely, and with the fastest loader that is safe for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import yaml

_MOST_ENTRIES = 10_000
_DEEPEST = 200
_LEADING = re.compile(rf"^[ \t\-?:]{{{_DEEPEST}}}", re.MULTILINE)
_BRACKETS = re.compile(r"[\[\]{}]")
_OPAQUE = re.compile(r"[\"'#!|>&*%]")


def load(text: str) -> object:
    """The value in a text, by PyYAML's safe loader.

    libyaml's loader is ten times faster, but crashes the process on deep nesting. The loader in
    Python, which raises, reads every text that may nest deeply.

    Raises:
        yaml.YAMLError: The text is no YAML.
        ValueError: A value is invalid for its type: a date on the 99th.
        RecursionError: It nests too deeply.
    """
    loader = BoundedLoader if may_nest_deeply(text) else _Fast
    return yaml.load(text, loader)


def _flatten_within_bounds(flatten: Callable[[yaml.MappingNode], None], node: Any) -> None:
    """Put merged mappings (`<<`) into a mapping, up to a number of entries.

    Args:
        flatten: PyYAML's own method.
        node: The mapping.

    Raises:
        yaml.YAMLError: It would have more entries than any file of ours.
    """
    flatten(node)
    if len(node.value) > _MOST_ENTRIES:
        problem = f"merged mappings (<<) make more than {_MOST_ENTRIES:,} entries"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class BoundedLoader(yaml.SafeLoader):
    """The loader in Python, with bounds for merged mappings."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        _flatten_within_bounds(super().flatten_mapping, node)


class _Fast(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader, where there is one, with the same bounds."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        _flatten_within_bounds(super().flatten_mapping, node)


def may_nest_deeply(text: str) -> bool:
    """True if a text may nest a few hundred levels deep. False is certain, True is not."""
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
            # A closing bracket may be in quotes, in a comment or in a tag, and close nothing.
            open_before += sum(bracket in "[{" for bracket in brackets)
            deepest = max(deepest, open_before)
            continue
        depths = list(accumulate(1 if bracket in "[{" else -1 for bracket in brackets))
        deepest = max(deepest, open_before + max(depths))
        # Nor may it close what an earlier line opened: this may be the middle of a quoted text.
        open_before += max(0, depths[-1])
    return deepest >= _DEEPEST
