"""One SKILL.md: its front matter, checked leniently, and its body."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from jupyter_agent.core import safe_yaml

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_LONGEST_FRONT = 64_000
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
# A key at the left edge with a plain value on its line: what an author may have left unquoted.
_PLAIN = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>[^\s\"'|>\[{&*!%@`#].*)")


class SkillError(ValueError):
    """A skill that cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a SKILL.md says of itself.

    `raw` is the front matter as it stands, without its marks; `warnings` are what the
    specification forbids and what is loaded nevertheless.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    allowed_tools: tuple[str, ...] = ()
    raw: str = ""
    warnings: tuple[str, ...] = ()


def parse(text: str, folder: str) -> tuple[FrontMatter, str]:
    """The front matter and the body of a SKILL.md.

    Args:
        text: The file's text, without a byte-order mark and with plain line ends.
        folder: The name of the folder that it lies in.

    Raises:
        SkillError: There is no front matter, YAML cannot read it, or it has no description.
    """
    raw, body = _split(text)
    warnings: list[str] = []
    values = _values(raw, warnings)
    front = FrontMatter(
        name=_name(values.get("name"), folder, warnings),
        description=_description(values.get("description"), warnings),
        license=_text(values, "license", warnings),
        compatibility=_text(values, "compatibility", warnings),
        metadata=_metadata(values.get("metadata"), warnings),
        allowed_tools=_allowed_tools(values.get("allowed-tools"), warnings),
        raw=raw,
    )
    if len(front.compatibility) > LONGEST_COMPATIBILITY:
        warnings.append(f"compatibility has more than {LONGEST_COMPATIBILITY} characters")
    unknown = [str(key)[:40] for key in values if key not in _KEYS]
    if unknown:
        warnings.append(f"unknown keys: {', '.join(unknown[:10])} (own ones belong into metadata)")
    return replace(front, warnings=tuple(warnings)), body


def is_valid_name(name: str) -> bool:
    """Whether a name keeps the specification's rules: letters in lower case, digits, hyphens."""
    parts = name.split("-")
    return (
        0 < len(name) <= LONGEST_NAME
        and name == name.lower()
        and all(part and part.isalnum() for part in parts)
    )


def _split(text: str) -> tuple[str, str]:
    """The front matter as it stands, and the body."""
    marks = YAMLHandler()
    if not marks.detect(text):
        raise SkillError("it does not begin with front matter (a line of three hyphens)")
    try:
        raw, body = marks.split(text)
    except ValueError:
        raise SkillError("its front matter has no end (a second line of three hyphens)") from None
    if len(raw) > _LONGEST_FRONT:
        raise SkillError(f"its front matter has more than {_LONGEST_FRONT:,} characters")
    return raw.strip("\n"), body.strip("\n")


def _values(raw: str, warnings: list[str]) -> Mapping[Any, Any]:
    try:
        values = _load(raw)
    except SkillError:
        values = _load(_quoted(raw))
        warnings.append("a value with a colon or the like is not in quotes")
    if not isinstance(values, Mapping):
        raise SkillError("its front matter is no list of keys and values")
    return values


def _load(raw: str) -> object:
    try:
        return safe_yaml.load(raw)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise SkillError(f"YAML cannot read its front matter{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise SkillError("YAML cannot read its front matter") from None
    except RecursionError:
        raise SkillError("its front matter is nested too deeply") from None


def _quoted(raw: str) -> str:
    """The same with each plain value of a known key in quotes, its folded lines with it.

    The commonest mistake is `description: Use this when: …`, which other readers accept.
    """
    lines = raw.split("\n")
    result: list[str] = []
    while lines:
        line = lines.pop(0)
        match = _PLAIN.fullmatch(line.rstrip())
        if match is None or match["key"] not in _KEYS:
            result.append(line)
            continue
        words = [match["value"].strip()]
        while lines and lines[0][:1] in (" ", "\t"):
            words.append(lines.pop(0).strip())
        value = " ".join(word for word in words if word).replace("'", "''")
        result.append(f"{match['key']}: '{value}'")
    return "\n".join(result)


def _name(value: object, folder: str, warnings: list[str]) -> str:
    """The name; where it breaks the rules, the nearest one that keeps them."""
    given = unicodedata.normalize("NFKC", value.strip()) if isinstance(value, str) else ""
    folder = unicodedata.normalize("NFKC", folder)
    if not given:
        name = _slug(folder)
        warnings.append(f"there is no name; {name} is taken from its folder")
    elif len(given) > LONGEST_NAME:
        name = _slug(given[:LONGEST_NAME])
        warnings.append(f"the name has more than {LONGEST_NAME} characters; {name} is used")
    elif not is_valid_name(given):
        name = _slug(given) or _slug(folder)
        warnings.append(
            f"the name {given[:LONGEST_NAME]!r} may have lower-case letters, digits and single "
            f"hyphens only; {name} is used"
        )
    else:
        name = given
    if not name:
        raise SkillError("it has no name, and its folder's name makes none")
    if given and given != folder:
        warnings.append(f"the name differs from its folder {folder[:LONGEST_NAME]!r}")
    return name


def _slug(text: str) -> str:
    """A valid name made of a text; empty where nothing is left."""
    letters = "".join(c if c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in letters.split("-") if part)[:LONGEST_NAME].strip("-")


def _description(value: object, warnings: list[str]) -> str:
    """The description as one line.

    A skill without one is left out: a model could not know when to load it.
    """
    if isinstance(value, (int, float)):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise SkillError("it has no description (one text that says what it does, and when)")
    if len(value) > LONGEST_DESCRIPTION:
        warnings.append(f"the description has more than {LONGEST_DESCRIPTION:,} characters")
    return " ".join(value.split())


def _text(values: Mapping[Any, Any], key: str, warnings: list[str]) -> str:
    value = values.get(key)
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value).strip()
    warnings.append(f"{key} must be a text")
    return ""


def _metadata(value: object, warnings: list[str]) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        warnings.append("metadata must be keys and values")
        return ()
    plain = [(k, v) for k, v in value.items() if not isinstance(v, (Mapping, list, set))]
    if len(plain) < len(value):
        warnings.append("metadata must have texts as values")
    return tuple((str(key), str(item)) for key, item in plain)


def _allowed_tools(value: object, warnings: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", value))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    warnings.append("allowed-tools must be names, with spaces between them or as a list")
    return ()
