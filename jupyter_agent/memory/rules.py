"""Hot rules: text for every conversation, within a budget.

Read in this order: the shipped rules, `agent/rules/common/*.md` of the memory root, the state
folder's `rules/*.md`, and the workspace's `AGENTS.md`. A file replaces an earlier one of the same
name. Each may declare its budget: `<!-- budget: 50 lines -->`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from jupyter_agent.core.plaintext import defused, plain
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.scope import MemoryRoot

LINES = 300
TOKENS = 3_000
_READ_LIMIT = 256 * 1024
_MOST_FILES = 50
"""Files of one folder that are read."""
_COUNTED = 32_000
"""Characters whose tokens are counted; a longer text exceeds every budget anyway."""
_BUDGET = re.compile(r"<!--\s*budget:\s*(?:(\d+)\s*lines?)?[\s,]*(?:(\d+)\s*tokens?)?\s*-->\s*\n?")
_SHIPPED = "shipped"

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Rule:
    """One file. A declared budget of 0 means none. `left_out` counts lines beyond the total."""

    name: str
    text: str
    lines: int
    tokens: int
    budget_lines: int = 0
    budget_tokens: int = 0
    left_out: int = 0

    @property
    def over(self) -> bool:
        """True if the file is longer than its declared budget."""
        return bool(
            (self.budget_lines and self.lines > self.budget_lines)
            or (self.budget_tokens and self.tokens > self.budget_tokens)
        )


@dataclass(frozen=True, slots=True)
class HotRules:
    """The rules, and a warning line for each file that a person should correct."""

    rules: tuple[Rule, ...]
    warnings: tuple[str, ...]

    @property
    def own(self) -> HotRules:
        """The user's rules, without those of the package."""
        return replace(self, rules=tuple(r for r in self.rules if not r.name.startswith(_SHIPPED)))

    @property
    def text(self) -> str:
        """The text for the model; empty if there are no rules."""
        return "\n\n".join(
            f'<rules source="{rule.name}">\n{defused(rule.text)}\n</rules>'
            for rule in self.rules
            if rule.text.strip()
        )


def about(text: str) -> int:
    """The approximate tokens of a text, at four bytes each, for callers without a counter."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def hot_rules(
    workspace: Workspace,
    root: MemoryRoot | None = None,
    count: CountTokens = about,
    lines: int = LINES,
    tokens: int = TOKENS,
) -> HotRules:
    """Read the rules and keep them within the total budget.

    Lines beyond the budget are left out, and a warning names the file to shorten.

    Args:
        workspace: The workspace with `.jupyter_agent/rules/` and `AGENTS.md`.
        root: The memory root with `agent/rules/common/`.
        count: Counts tokens.
        lines: Lines of all files, at most.
        tokens: Tokens of all files, at most.
    """
    found: dict[str, Rule] = {}
    warnings: list[str] = []
    count = _bounded(count)
    for name, text, problem in _read(workspace, root):
        if problem:
            warnings.append(f"{name} {problem}")
            continue
        base = name.rpartition("/")[2]
        found.pop(base, None)
        found[base] = _rule(name, text, count)
    rules = list(found.values())
    warnings += [_over_own(rule) for rule in rules if rule.over]
    if sum(r.lines for r in rules) > lines or sum(r.tokens for r in rules) > tokens:
        worst = _worst(rules)
        warnings.append(_over_total(rules, lines, tokens, worst))
        rules = _within(rules, lines, tokens, count, worst)
        warnings += [
            f"{r.name}: its last {r.left_out} lines are left out." for r in rules if r.left_out
        ]
    return HotRules(tuple(rules), tuple(warnings))


def _read(workspace: Workspace, root: MemoryRoot | None) -> Iterator[tuple[str, str, str]]:
    """Name, text and problem of each file."""
    shipped = files("jupyter_agent.agent.prompts") / "rules"
    for item in sorted(shipped.iterdir(), key=lambda item: item.name):
        if item.name.endswith(".md"):
            yield f"{_SHIPPED}/{item.name}", item.read_text(encoding="utf-8"), ""
    places = [(workspace.state_folder / "rules", workspace.root)]
    if root is not None:
        places.insert(0, (root.path / "agent" / "rules" / "common", root.path))
    for folder, within in places:
        try:
            paths = sorted(folder.glob("*.md"))
        except OSError as error:
            yield _name(folder, within), "", f"cannot be read: {error.strerror}."
            continue
        for path in paths[:_MOST_FILES]:
            yield _file(path, within)
        if left_out := len(paths[_MOST_FILES:]):
            problem = f"has more than {_MOST_FILES} files: {left_out:,} are not read."
            yield _name(folder, within), "", problem
    agents = workspace.root / "AGENTS.md"
    if os.path.lexists(agents):
        yield _file(agents, workspace.root)


def _file(path: Path, within: Path) -> tuple[str, str, str]:
    name = _name(path, within)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(within):
        return name, "", "leads out of its folder and is not read."
    if not real.is_file():
        return name, "", "is not a regular file and is not read."
    try:
        with real.open("rb") as stream:
            data = stream.read(_READ_LIMIT)
    except OSError as error:
        return name, "", f"cannot be read: {error.strerror}."
    return name, data.decode("utf-8-sig", "replace"), ""


def _name(path: Path, within: Path) -> str:
    """A path for display: on one line, unable to end its place in the text."""
    words = " ".join(plain(path.relative_to(within).as_posix()).split())
    return re.sub(r'[<>"]', "_", words)


def _bounded(count: CountTokens) -> CountTokens:
    return lambda text: count(text) if len(text) <= _COUNTED else max(about(text), TOKENS + 1)


def _rule(name: str, text: str, count: CountTokens) -> Rule:
    text = plain(text)
    # A declaration is at the top; a later one is part of the text.
    declared = _BUDGET.search("\n".join(text.split("\n")[:10]))
    if declared:
        text = text[: declared.start()] + text[declared.end() :]
    text = text.strip()
    numbers = (int(part or 0) for part in declared.groups()) if declared else (0, 0)
    return Rule(name, text, _lines(text), count(text), *numbers)


def _over_own(rule: Rule) -> str:
    if rule.budget_lines and rule.lines > rule.budget_lines:
        return f"{rule.name} has {rule.lines} lines, its budget is {rule.budget_lines}. Shorten it."
    return (
        f"{rule.name} has about {rule.tokens} tokens, its budget is {rule.budget_tokens}. "
        "Shorten it."
    )


def _worst(rules: list[Rule]) -> Rule:
    """The file to shorten: the longest of the user's own that exceeds a budget."""
    own = [rule for rule in rules if not rule.name.startswith(_SHIPPED)] or rules
    loose = [rule for rule in own if rule.over or not (rule.budget_lines or rule.budget_tokens)]
    return max(loose or own, key=lambda rule: rule.tokens)


def _over_total(rules: list[Rule], lines: int, tokens: int, worst: Rule) -> str:
    total = f"{sum(r.lines for r in rules):,} lines, about {sum(r.tokens for r in rules):,} tokens"
    return (
        f"The hot rules are too long ({total}; the budget is {lines} lines, {tokens:,} tokens). "
        f"Shorten {worst.name}."
    )


def _within(
    rules: list[Rule], lines: int, tokens: int, count: CountTokens, worst: Rule
) -> list[Rule]:
    """The rules within the budget, in order; the file to shorten gets the remaining room."""
    kept: dict[str, Rule] = {}
    for rule in (*(rule for rule in rules if rule is not worst), worst):
        if rule.lines <= lines and rule.tokens <= tokens:
            kept[rule.name] = rule
            lines, tokens = lines - rule.lines, tokens - rule.tokens
            continue
        text = _cut(rule.text, lines, tokens, count)
        left_out = rule.lines - _lines(text)
        note = f"({left_out} more lines are left out: this file is too long)"
        # A file without room gets no note for the model, since many notes are long, too.
        shown = f"{text}\n{note}" if text else ""
        kept[rule.name] = replace(rule, text=shown, left_out=left_out)
        lines, tokens = lines - _lines(text), tokens - count(text)
    return [kept[rule.name] for rule in rules]


def _cut(text: str, lines: int, tokens: int, count: CountTokens) -> str:
    """The longest start of whole lines within both limits."""
    parts = text.split("\n")[: max(lines, 0)]
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high + 1) // 2
        if count("\n".join(parts[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    return "\n".join(parts[:low])


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0
