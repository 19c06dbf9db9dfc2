"""Tables as the station's readers know them."""

from __future__ import annotations

import pandas as pd


def table(birds: pd.DataFrame, value: str, by: str) -> pd.DataFrame:
    """How many birds each group has, with the mean in kg, the largest first."""
    groups = birds.dropna(subset=[value]).groupby(by)[value]
    rows = pd.DataFrame({"birds": groups.count(), "mean (kg)": groups.mean() / 1000})
    return rows.sort_values("mean (kg)", ascending=False).round(2)


def caption(birds: pd.DataFrame, value: str) -> str:
    """The line below a table: how many birds it stands on."""
    known = int(birds[value].notna().sum())
    return f"{known} birds measured, {len(birds) - known} not."
