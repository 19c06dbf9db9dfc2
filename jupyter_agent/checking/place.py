"""The settings of a folder as a kernel in it would find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_agent import config
from jupyter_agent.errors import ConfigError
from jupyter_agent.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace, and the settings in force there before any notebook runs.

    Attributes:
        workspace: The folder itself, or the one that `workspace_dir` names.
        settings: All layers put together.
        user: The person's own file; None where there is none.
        folder: The workspace's file as it is written; None where there is none.
    """

    workspace: Workspace
    settings: config.Resolved
    user: config.Layer | None
    folder: config.Layer | None


def place_of(folder: Path, environ: Mapping[str, str]) -> Place:
    """The place of a notebook in `folder`.

    Raises:
        ConfigError: A file or a variable of the environment is wrong.
    """
    user, nearer = config.user_layer(), config.environment_layer(environ)
    named = config.resolve([user, nearer]).settings.workspace_dir
    root = folder if named is None else folder / Path(named).expanduser()
    if not root.is_dir():
        raise ConfigError(f"workspace_dir: there is no folder {root}. Make it, or name another.")
    workspace = Workspace(root)
    layer = config.workspace_layer(workspace.state_folder)
    resolved = config.resolve([user, config.not_looser(layer, user), nearer])
    return Place(workspace, resolved, user, layer)
