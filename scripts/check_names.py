"""No two public types of the package have one name: one word, one meaning. Run by `make check`."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "jupyter_agent"


def public_types(package: Path) -> dict[str, list[str]]:
    """Where each public class of a package is defined, by its name.

    Args:
        package: The package's folder.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(package.parent)}:{node.lineno}")
    return dict(found)


def main() -> int:
    """Print each name that several types have. Gives the exit code."""
    twice = {name: places for name, places in public_types(PACKAGE).items() if len(places) > 1}
    for name, places in sorted(twice.items()):
        print(f"{name} is defined {len(places)} times: {', '.join(places)}")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
