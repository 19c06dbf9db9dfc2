"""Write the settings as a table that costs nothing to import: jupyter_agent/magics/traits.py.

    python scripts/make_traits.py

To be run where `jupyter_agent/config.py` has got a setting; a test compares the two.
"""

from __future__ import annotations

import json
from pathlib import Path

from jupyter_agent import config

HERE = Path(__file__).parents[1] / "jupyter_agent" / "magics" / "traits.py"
HEAD = '''"""The settings as IPython's configuration has them, by name: `%config AgentMagics`.

Made by `scripts/make_traits.py` from `jupyter_agent.config`, which is too heavy to be imported when
the extension is loaded. Two underscores stand for a dot. What must not be shown is left out.
"""

# ruff: noqa: E501

SETTINGS = {
'''


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> None:
    rows = [
        f"    {quoted(key.replace('.', '__'))}: {quoted(config.describe(key).description)},\n"
        for key in config.keys()  # noqa: SIM118 (a module, no dictionary)
        if not config.is_secret(key)
    ]
    HERE.write_text(HEAD + "".join(rows) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
