"""Environment variables that are read before the settings."""

from __future__ import annotations

ENVIRONMENT_PREFIX = "JUPYTER_AGENT_"
"""Begins the names of the variables that are settings."""
TRUST_VARIABLE = f"{ENVIRONMENT_PREFIX}TRUST"
TRUST_VALUE = "workspace"
"""Set before a kernel starts, it trusts a workspace's settings, servers and skills."""
