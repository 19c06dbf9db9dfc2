"""An MCP server over stdio: the weather of Seattle, 2012 to 2015.

    python weather.py

It is a server as one would write it for a team: the data stay with it, and it answers a few
questions about them.
"""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path
from statistics import mean

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

DATA = Path(__file__).resolve().parents[1] / "data" / "seattle_weather.csv"
WET = 1.0
"""Millimetres from which a day counts as wet."""
READS = ToolAnnotations(read_only_hint=True)

server = MCPServer("weather", version="1.0")


def days() -> dict[date, dict[str, str]]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return {date(*map(int, row["date"].split("/"))): row for row in csv.DictReader(file)}


@server.tool(annotations=READS)
def coverage() -> dict[str, object]:
    """Which days and which values there are."""
    known = days()
    return {
        "from": min(known).isoformat(),
        "to": max(known).isoformat(),
        "days": len(known),
        "values": ["precipitation (mm)", "temp_max (C)", "temp_min (C)", "wind (m/s)"],
    }


@server.tool(annotations=READS)
def around(month: int, day: int, window: int = 7) -> dict[str, object]:
    """What the weather was within `window` days of a day of the year, over all years.

    A wet day has 1 mm of rain or more.
    """
    try:
        middles = [date(year, month, day) for year in range(2012, 2016)]
    except ValueError:
        raise ToolError(f"Month {month} has no day {day}.") from None
    known = days()
    near = [middle + timedelta(shift) for middle in middles for shift in range(-window, window + 1)]
    rows = [known[when] for when in near if when in known]
    wet = sum(float(row["precipitation"]) >= WET for row in rows)
    return {
        "days": len(rows),
        "wet_days": wet,
        "mean_temp_max": round(mean(float(row["temp_max"]) for row in rows), 1),
        "mean_temp_min": round(mean(float(row["temp_min"]) for row in rows), 1),
    }


if __name__ == "__main__":
    server.run("stdio")
