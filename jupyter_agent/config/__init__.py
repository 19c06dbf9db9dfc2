"""Layered, validated configuration.

    package defaults < user file < workspace file < environment < %agent config < %%agent

A layer holds the values that one place sets, by dotted key, and is checked when it is made, so
that an error can name the place. `resolve` puts layers together, later ones winning:

    resolve([user_layer(), workspace_layer(folder), environment_layer(os.environ), session, turn])

The workspace file lies inside the folder that `workspace_dir` names, so that key is read from
the other layers first. Relative paths are kept as written: their reader knows the folder.
"""

from jupyter_agent.config.checking import KeyInfo, choices, describe, is_secret, keys, shown
from jupyter_agent.config.layers import (
    FolderSettings,
    Layer,
    Resolved,
    environment_layer,
    folder_settings,
    layer,
    resolve,
)
from jupyter_agent.config.load import USER_FILE, WORKSPACE_FILE, user_layer, workspace_layer
from jupyter_agent.config.schema import (
    ApprovalsSettings,
    BudgetSettings,
    CompactionSettings,
    ContextSettings,
    HttpSettings,
    ImagesSettings,
    LocalSettings,
    LogSettings,
    McpSettings,
    MemorySettings,
    OutputsSettings,
    PrivacySettings,
    RetrySettings,
    SessionSettings,
    Settings,
    ThinkingSettings,
    ToolsSettings,
    UndoSettings,
)

__all__ = [
    "USER_FILE",
    "WORKSPACE_FILE",
    "ApprovalsSettings",
    "BudgetSettings",
    "CompactionSettings",
    "ContextSettings",
    "FolderSettings",
    "HttpSettings",
    "ImagesSettings",
    "KeyInfo",
    "Layer",
    "LocalSettings",
    "LogSettings",
    "McpSettings",
    "MemorySettings",
    "OutputsSettings",
    "PrivacySettings",
    "Resolved",
    "RetrySettings",
    "SessionSettings",
    "Settings",
    "ThinkingSettings",
    "ToolsSettings",
    "UndoSettings",
    "choices",
    "describe",
    "environment_layer",
    "folder_settings",
    "is_secret",
    "keys",
    "layer",
    "resolve",
    "shown",
    "user_layer",
    "workspace_layer",
]
