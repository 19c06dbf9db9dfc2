"""The fixtures of the tests with real servers."""

from __future__ import annotations

import sys
from pathlib import Path

# Not by the folder's name, as elsewhere: `mcp` is the SDK.
sys.path.insert(0, str(Path(__file__).parent))

from mcp_desk import desk, listening

__all__ = ["desk", "listening"]
