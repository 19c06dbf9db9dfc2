"""Make the data of the examples that are made, each from a real table and a fixed seed.

    python scripts/make_data.py [FOLDER]

Writes into `example_notebooks/data`, or into FOLDER. What else lies there was copied as it is;
`example_notebooks/data/LICENSE.md` says from where.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

DATA = Path(__file__).resolve().parents[1] / "example_notebooks" / "data"
Row = dict[str, str]

SPELLINGS = {
    "Adelie": ("Adelie", "Adelie", "Adelie", "adelie", "ADELIE", "Adélie"),
    "Chinstrap": ("Chinstrap", "Chinstrap", "Chinstrap", "chinstrap", "Chinstrap "),
    "Gentoo": ("Gentoo", "Gentoo", "Gentoo", "gentoo", " Gentoo"),
}
SEXES = {"male": ("male", "male", "m", "M"), "female": ("female", "female", "f", "F")}


def field_notes() -> list[Row]:
    """The penguins as somebody typed them who was in a hurry, and cold.

    Spellings differ; masses are in g or kg; codes stand for what is missing; three flippers are in
    centimetres; two species are misspelt; six lines came twice; two birds were entered again with
    their mass put right.
    """
    rng = Random(2007)
    with (DATA / "penguins.csv").open(encoding="utf-8", newline="") as file:
        birds = [
            {name: value.replace("NA", "") for name, value in bird.items()}
            for bird in csv.DictReader(file)
        ]
    rows = [_typed(number, bird, rng) for number, bird in enumerate(birds, 1)]
    flippers = [row for row in rows if row["Flipper (mm)"] != "-999"]
    for row in rng.sample(flippers, 3):
        row["Flipper (mm)"] = f"{int(row['Flipper (mm)']) / 10:.1f}"
    for row in rng.sample([row for row in rows if row["Species"].strip() == "Gentoo"], 2):
        row["Species"] = "Gento"
    again = [dict(row) for row in rng.sample(rows, 6)]
    in_grams = [row for row in rows if row["Mass"].endswith("50 g") and row not in again]
    for row in rng.sample(in_grams, 2):
        again.append(dict(row))  # the entry that is right comes later
        row["Mass"] = row["Mass"].replace("50 g", "05 g")
    for row in again:
        rows.insert(rng.randrange(_after(rows, row["Bird"]), len(rows) + 1), row)
    return rows


def _typed(number: int, bird: Row, rng: Random) -> Row:
    return {
        "Bird": f"P{number:03}",
        "Species": rng.choice(SPELLINGS[bird["species"]]),
        "Island": bird["island"],
        "Bill length (mm)": bird["bill_length_mm"] or "-999",
        "Bill depth (mm)": bird["bill_depth_mm"] or "-999",
        "Flipper (mm)": bird["flipper_length_mm"].removesuffix(".0") or "-999",
        "Mass": _mass(bird["body_mass_g"], rng),
        "Sex": rng.choice(SEXES.get(bird["sex"], ("?", ""))),
        "Year": bird["year"] if rng.random() < 0.8 else f"'{bird['year'][2:]}",
    }


def _mass(grams: str, rng: Random) -> str:
    if not grams:
        return "-999"
    if rng.random() < 0.25:
        return f"{float(grams) / 1000:.3f}".rstrip("0").rstrip(".") + " kg"
    return f"{int(float(grams)):,} g"


def _after(rows: Sequence[Row], bird: str) -> int:
    return next(index for index, row in enumerate(rows) if row["Bird"] == bird) + 1


def diabetes() -> list[Row]:
    """The diabetes study, and a column that nobody could have known when a forecast is made.

    `visit_dose` is made up: ten parts of the progression after one year, which is what is to be
    forecast, and noise. It stands for what is written into a table after the outcome is known.
    """
    from sklearn.datasets import load_diabetes

    rng = Random(442)
    study = load_diabetes(scaled=False)
    rows: list[Row] = []
    for values, outcome in zip(study.data, study.target, strict=True):
        row = {
            name: f"{value:.6g}"
            for name, value in zip(study.feature_names, values.tolist(), strict=True)
        }
        row["visit_dose"] = f"{max(0.0, outcome / 10 + rng.gauss(0, 3)):.1f}"
        row["progression"] = f"{outcome:.0f}"
        rows.append(row)
    return rows


def write(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    for name, make in (("field_notes.csv", field_notes), ("diabetes.csv", diabetes)):
        write(make(), folder / name)
        print(f"made {name}")
