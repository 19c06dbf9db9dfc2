"""The files of settings: the person's own, and the one in a workspace."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.config import held
from jupyter_agent.config.checking import config_error, in_words, spelled
from jupyter_agent.config.layers import Layer, layer
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.core.safe_yaml import BoundedLoader

USER_FILE = "jupyter_agent.yaml"
WORKSPACE_FILE = "config.yaml"


def user_layer() -> Layer | None:
    """The user file in Jupyter's configuration folder; None where there is none."""
    return _file_layer(Path(jupyter_config_dir()) / USER_FILE)


def workspace_layer(state_folder: Path) -> Layer | None:
    """The file in a workspace's state folder (`.jupyter_agent`); None where there is none."""
    if not _can_be_entered(state_folder):
        return None
    path = state_folder / WORKSPACE_FILE
    found = _file_layer(path)
    if found is not None and "workspace_dir" in found.values:
        raise config_error(
            str(path),
            "workspace_dir cannot be set here, because this file lies inside that folder. "
            f"Set it in {USER_FILE} or in {ENVIRONMENT_PREFIX}WORKSPACE_DIR.",
        )
    return found


def _can_be_entered(folder: Path) -> bool:
    """Whether a folder is one, and open to this person. One that is not there counts as open."""
    try:
        return not folder.exists() or (folder.is_dir() and os.access(folder, os.X_OK))
    except OSError:
        return False


class _Loader(BoundedLoader):
    """The safe loader, with duplicate keys as errors and a line in every error."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Here and not in construct_mapping: merge keys (<<) are still apart.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {spelled(key.value)} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            # PyYAML lets these out for values such as 2001-99-99 or `!!int x`.
            problem = "a value that is not what it looks like; put it in quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _file_layer(path: Path) -> Layer | None:
    text = _read(path)
    if text is None:
        return None
    content = parse_yaml(path, text)
    if content is None:
        return Layer(str(path), MappingProxyType({}))
    if not isinstance(content, dict):
        given = in_words(content) if isinstance(content, list) else "a single value"
        raise config_error(
            str(path), f"the file must hold lines such as `max_steps: 50`, not {given}. Correct it."
        )
    return layer(str(path), content)


def _read(path: Path) -> str | None:
    data = held.before(path) if held.is_held(path) else _content(path)
    if data is None:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    raise config_error(f"{path}, line {line}", "this is not UTF-8 text. Save the file as UTF-8.")


def _content(path: Path) -> bytes | None:
    """What a regular file holds; None where there is none."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe would be waited for
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise config_error(str(path), f"this is {kind}, not a file. Move it away.")
        return path.read_bytes()
    except FileNotFoundError:
        # A link that leads nowhere was meant to set something.
        if not path.is_symlink():
            return None
        problem = "the file that this link names is missing"
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror or type(error).__name__})"
    raise config_error(str(path), f"{problem}. Correct that, or move the file away.")


def parse_yaml(path: Path, text: str) -> object:
    """The value in the text of a YAML file, strictly: a key that is there twice is an error.

    Raises:
        ConfigError: With the line, and without the quoted content: it could be a key.
    """
    try:
        # S506: the loader is a SafeLoader.
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        where, problem = _yaml_problem(path, text, error)
    except RecursionError:
        where, problem = str(path), "the file is nested too deeply. Write plain `key: value` lines."
    raise config_error(where, problem)


def _yaml_problem(path: Path, text: str, error: yaml.YAMLError) -> tuple[str, str]:
    """Where and what, without the quoted content: it could be a key for a model server."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{path}, line {line}", "a character that YAML does not allow. Delete it."
    mark = getattr(error, "problem_mark", None)
    where = f"{path}, line {mark.line + 1}" if mark else str(path)
    problem = str(getattr(error, "problem", None) or "unreadable")
    if "constructor for the tag" in problem:
        return where, "tags (with !) are not allowed. Write a plain value."
    problem = re.sub(r"""(['"])[^'"<]{5,}\1""", "…", problem)
    return where, f"not valid YAML ({problem}). Check colons, indentation and quotes there."
