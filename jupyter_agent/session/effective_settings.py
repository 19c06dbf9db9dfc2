"""The settings in force in a folder: their layers, and the keys among them that need trust."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from jupyter_agent import config
from jupyter_agent.config import held
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.session.provider_choice import provider_name

_READ_FROM_FILES = frozenset({"script", "system_prompt_path", "http.ca_bundle"})
"""Settings that name a file, whose content counts as much as its name."""
_DETAIL = "context.detail"
LOCAL_DEFAULT = "default for the provider local"
"""The source of a `context.detail` that nobody set, as `%agent config` names it."""
_MOST_FILES = 1_000
"""Files of a folder of certificates that are looked at."""


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """A workspace and the settings in force there.

    Attributes:
        workspace: The folder itself, or the one that `workspace_dir` names.
        settings: All layers put together.
        user: The user's own file; None if there is none.
        folder: The workspace's file, unfiltered; None if there is none.
        beside: The notebook's folder.
        ignored: Keys of the workspace's file that do not count before the user trusts them.
    """

    workspace: Workspace
    settings: config.Resolved
    user: config.Layer | None
    folder: config.Layer | None
    ignored: tuple[str, ...] = ()
    beside: Path = Path()

    @property
    def notice(self) -> str:
        """The ignored keys and how to trust them, on one line; empty if none are ignored."""
        if not self.ignored:
            return ""
        return (
            f"Settings of this folder are ignored until you trust them: {', '.join(self.ignored)} "
            f"({STATE_FOLDER}/{config.WORKSPACE_FILE}). Look and decide: %agent trust"
        )


def effective_settings(
    folder: Path, environ: Mapping[str, str], nearer: Sequence[config.Layer | None] = ()
) -> EffectiveSettings:
    """The settings in force for a notebook in `folder`.

    Args:
        folder: The notebook's folder.
        environ: The environment.
        nearer: Layers that win over the environment.

    Raises:
        ConfigError: A file or a variable of the environment is wrong.
    """
    user = config.user_layer()
    layers = (config.environment_layer(environ), *nearer)
    nearest = config.resolve([user, *layers])
    workspace = workspace_of(folder, nearest.settings)
    written = config.workspace_layer(workspace.state_folder)
    if written is None:
        return EffectiveSettings(workspace, _with_local_detail(nearest, environ), user, None)
    parts = config.folder_settings(written, user)
    is_trusted = not parts.acting.values or trust.is_trusted(
        trust.SETTINGS, workspace.root, digest_of(parts.acting, workspace.root, folder)
    )
    counting = [parts.harmless, parts.acting] if is_trusted else [parts.harmless]
    ignored = () if is_trusted else tuple(parts.acting.values)
    resolved = _with_local_detail(config.resolve([user, *counting, *layers]), environ)
    return EffectiveSettings(workspace, resolved, user, written, ignored, folder)


def _with_local_detail(resolved: config.Resolved, environ: Mapping[str, str]) -> config.Resolved:
    """The settings with `context.detail` at `sample` for the embedded model, which sends nothing
    anywhere, unless any layer sets it."""
    settings = resolved.settings
    if _DETAIL in resolved.sources or provider_name(settings, environ) != "local":
        return resolved
    context = settings.context.model_copy(update={"detail": "sample"})
    sources = {**resolved.sources, _DETAIL: LOCAL_DEFAULT}
    return config.Resolved(settings.model_copy(update={"context": context}), sources)


def workspace_of(folder: Path, settings: config.Settings) -> Workspace:
    """The workspace of a notebook in `folder`: that folder, unless `workspace_dir` is set.

    Raises:
        ConfigError: There is no such folder.
    """
    if settings.workspace_dir is None:
        return Workspace(folder)
    root = folder / settings.workspace_dir
    with suppress(RuntimeError):  # there is no such user
        root = folder / Path(settings.workspace_dir).expanduser()
    if not root.is_dir():
        raise ConfigError(
            f"workspace_dir: there is no folder {settings.workspace_dir}. Make it, or name another."
        )
    return Workspace(root)


def untrusted_settings(effective: EffectiveSettings) -> config.Layer | None:
    """The settings of the folder that wait for trust; None if there are none."""
    if effective.folder is None or not effective.ignored:
        return None
    return config.folder_settings(effective.folder, effective.user).acting


def trust_settings(effective: EffectiveSettings, digest: str) -> None:
    """Let settings of a workspace count from now on.

    Args:
        effective: The settings of the workspace.
        digest: The digest of the settings that the user saw, by `digest_of`.

    Raises:
        ConfigError: The trust store cannot be written.
    """
    held.release(effective.workspace.state_folder / config.WORKSPACE_FILE)
    trust.trust(trust.SETTINGS, effective.workspace.root, digest)


def digest_of(acting: config.Layer, root: Path, folder: Path) -> str:
    """The digest of all values that need trust, so that a change of one of them asks again.

    It covers the content of the files that the values name.

    Args:
        acting: The settings.
        root: The workspace's folder.
        folder: The notebook's folder, the base of relative script paths.
    """
    values: dict[str, object] = {}
    for key, value in acting.values.items():
        values[key] = value.get_secret_value() if isinstance(value, SecretStr) else value
        if key in _READ_FROM_FILES:
            base = {"script": folder, "http.ca_bundle": Path()}.get(key, root)
            values[f"{key}: content"] = _content(base, str(value))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode("ascii")).hexdigest()


def _content(base: Path, name: str) -> str | list[str]:
    """The digest of a file that a setting names; of a folder, those of its files, by name."""
    path = Path(name)
    with suppress(RuntimeError):  # there is no such user
        path = path.expanduser()
    path = base / path
    with suppress(OSError):
        if path.is_dir():
            found = sorted(path.iterdir())[:_MOST_FILES]
            return [f"{one.name} {held.digest_of(held.content_of(one))}" for one in found]
    return held.digest_of(held.content_of(path))
