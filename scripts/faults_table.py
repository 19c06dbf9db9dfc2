"""Make docs/faults.md from the table that the tests of the faults use."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "faults.md"
INTRO = """# Faults of a model's server

Each line of these tables is a test in `tests/faults/`, run over real HTTP. Where no format is
named, it is run with Anthropic's and with OpenAI's. (`scripts/faults_table.py` makes this page.)

Whatever happens, no tool runs twice, no word is shown twice, and the next turn continues from the
finished steps. A failed model call is repeated at most three times (`retry.max_retries`), after
growing waits, or after the wait that the server asks for. Meanwhile the transcript says *Try 1
failed and was repeated* and why. After the last try the turn ends with one line: what was wrong,
how often it was tried, and what to do.
"""
HEAD = "| Fault | Tries | What the person sees | The turn |\n| --- | --- | --- | --- |"


def page() -> str:
    """The whole page."""
    from faults.cases import GROUPS
    from faults.test_interrupts import MOMENTS

    parts = [INTRO]
    for title, cases in GROUPS.items():
        rows = []
        for case in cases:
            named = {"anthropic": " (Anthropic)", "openai": " (OpenAI)"}.get(case.only, "")
            fault = f"{case.fault.removesuffix('.')}{named}"
            rows.append(
                (fault, case.tries, f"“… {case.sees} …”" if case.sees else "", case.outcome)
            )
        parts.append(_table(title, rows))
    stops = [(m.name.removesuffix("."), "", "“Interrupted.”", m.happens) for m in MOMENTS]
    parts.append(_table("Interrupts", stops))
    return "\n".join(parts)


def _table(title: str, rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return f"## {title}\n\n{HEAD}\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written.")
