"""Generated turns with real outputs: answers that are right, and the same with one number planted.

Each turn prints a result and what people print beside it: counters, tables with an index, long
lists. The right answer quotes the result, rounded and written in one of many ways; the planted one
has a number that is wrong as people's and models' are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from jupyter_agent.grounding import Source

DATA = Path(__file__).parents[1] / "example_notebooks" / "data"


@dataclass(frozen=True)
class Case:
    """A sentence with one number that is judged, and what was printed before."""

    kind: str
    sources: tuple[Source, ...]
    sentence: str
    """With `{}` in the place of the number."""
    right: str
    planted: tuple[str, ...]


@cache
def _penguins() -> pd.DataFrame:
    return pd.read_csv(DATA / "penguins.csv")


@cache
def _weather() -> pd.DataFrame:
    return pd.read_csv(DATA / "seattle_weather.csv")


# What is printed beside the result ---------------------------------------------------------------


def _counted(rng: random.Random) -> str:
    return "\n".join(map(str, range(rng.choice([60, 120, 300, 1_000]))))


def _epochs(rng: random.Random) -> str:
    total = rng.choice([30, 100, 200])
    lines = (
        f"epoch {epoch}/{total}: loss {2 / (1 + epoch) + rng.random() / 50:.4f}"
        for epoch in range(1, total + 1)
    )
    return "\n".join(lines)


def _head(rng: random.Random) -> str:
    return str(rng.choice([_penguins(), _weather()]).head(rng.choice([5, 10, 20])))


def _table(rng: random.Random) -> str:
    return str(rng.choice([_penguins(), _weather()]))


def _sixty_rows(rng: random.Random) -> str:
    frame = rng.choice([_penguins(), _weather()]).sample(60, random_state=rng.randrange(99))
    return str(frame.reset_index(drop=True).to_string())


def _many_whole(rng: random.Random) -> str:
    return str([rng.randrange(1_000) for _ in range(1_500)])


def _many_fractions(rng: random.Random) -> str:
    values = np.random.default_rng(rng.randrange(99)).random(1_200)
    with np.printoptions(threshold=5_000, precision=4):
        return str(values)


def _range(rng: random.Random) -> str:
    return f"{list(range(rng.choice([50, 100, 400])))}\n{np.arange(rng.choice([40, 200]))}"


def _shapes(rng: random.Random) -> str:
    frame = rng.choice([_penguins(), _weather()])
    return f"{frame.shape}\n{frame.dtypes}\n{frame.isna().sum()}"


def _describe(rng: random.Random) -> str:
    return str(rng.choice([_penguins(), _weather()]).describe())


QUIET: tuple[Callable[[random.Random], str], ...] = (_head, _shapes, _describe)
NOISY: tuple[Callable[[random.Random], str], ...] = (
    _counted,
    _epochs,
    _table,
    _sixty_rows,
    _many_whole,
    _many_fractions,
    _range,
)


# The results and what is said of them ------------------------------------------------------------


def _group(rng: random.Random) -> tuple[str, str, float, str]:
    """A table of means, what is said of one of them, its value and its unit."""
    frame = _penguins()
    by = rng.choice(["species", "island", "sex"])
    of = rng.choice(["body_mass_g", "flipper_length_mm", "bill_length_mm"])
    table = frame.groupby(by)[of].agg(["count", "mean", "std"])
    row = rng.choice(list(table.index))
    column = rng.choice(["mean", "std"])
    sentence = f"In {row} the {column} of {of} is {{}}."
    return str(table), sentence, float(table.loc[row, column]), rng.choice(["", " g", " mm"])


def _count(rng: random.Random) -> tuple[str, str, float, str]:
    frame = _weather()
    table = frame.groupby("weather").size()
    kind = rng.choice(list(table.index))
    return str(table), f"There were {{}} days of {kind}.", float(table[kind]), ""


def _share(rng: random.Random) -> tuple[str, str, float, str]:
    frame = _penguins()
    by = rng.choice(["species", "island"])
    table = frame[by].value_counts(normalize=True)
    if rng.random() < 0.5:
        table = table.round(4)
    name = rng.choice(list(table.index))
    return str(table), f"{name} makes up {{}} of all.", 100 * float(table[name]), "%"


def _money(rng: random.Random) -> tuple[str, str, float, str]:
    generator = np.random.default_rng(rng.randrange(999))
    regions = ["North", "South", "East", "West"]
    table = pd.Series(generator.normal(2e6, 6e5, 4).round(2), regions, name="revenue")
    name = rng.choice(regions)
    return str(table), f"{name} sold for {{}} last year.", float(table[name]), "money"


def _customers(rng: random.Random) -> tuple[str, str, float, str]:
    counts = {name: rng.randrange(20, 900) for name in ("new", "lost", "kept", "back")}
    name = rng.choice(list(counts))
    return str(counts), f"We have {{}} {name} customers.", float(counts[name]), ""


def _correlation(rng: random.Random) -> tuple[str, str, float, str]:
    table = _weather().corr(numeric_only=True).round(4)
    a, b = rng.sample(list(table.columns), 2)
    return str(table), f"{a} and {b} correlate with {{}}.", float(table.loc[a, b]), "r"


def _derived(rng: random.Random) -> tuple[str, str, float, str]:
    """Counts, of which the answer works out a share by itself, with the counts beside it."""
    frame = _penguins()
    table = frame[rng.choice(["species", "island"])].value_counts()
    name, total = rng.choice(list(table.index)), len(frame)
    part = int(table[name])
    sentences = (
        f"Of {total} penguins, {part} ({{}}) are {name}.",
        f"{{}} ({part} of {total}) are {name}.",
        f"{name} has {part} of the {total} penguins, or {{}}.",
    )
    return f"{frame.shape}\n{table}", rng.choice(sentences), 100 * part / total, "%"


RESULTS = (_group, _count, _share, _money, _customers, _correlation, _derived)


def _written(rng: random.Random, value: float, unit: str) -> str:
    """A number as an answer writes it: rounded, with marks, a sign, a unit."""
    if unit == "%":
        return f"{value:.{rng.choice([0, 1, 1, 2])}f}{rng.choice(['%', ' %', ' percent'])}"
    if unit == "r":
        text = f"{abs(value):.{rng.choice([2, 2, 3])}f}"
        return ("−" if rng.random() < 0.5 else "-") * (value < 0) + text
    if unit == "money":
        forms = [
            f"${value:,.0f}",
            f"${value:,.2f}",
            f"${value / 1e6:.2f}M",
            f"€{value / 1e6:.1f} million",
            f"{value:,.0f} €",
        ]
        return rng.choice(forms)
    if value == int(value) and not unit:
        return f"{value:,.0f}"
    if unit == " g" and value > 1_000 and rng.random() < 0.3:
        return f"{value / 1_000:.2f} kg"
    return f"{value:{rng.choice([',', ''])}.{rng.choice([0, 1, 1, 2])}f}{unit}"


def cases(number: int, seed: int = 20_260) -> Iterator[Case]:
    """The cases of a seed, always the same."""
    rng = random.Random(seed)
    for index in range(number):
        made = RESULTS[index % len(RESULTS)]
        printed, sentence, value, unit = made(rng)
        state = rng.getstate()
        right = _written(rng, value, unit)
        rng_for_wrong = random.Random()
        rng_for_wrong.setstate(state)
        planted = tuple(dict.fromkeys(_planted_like(rng_for_wrong, rng, value, unit, right)))
        noisy = index // len(RESULTS) % 2 == 1
        beside = rng.sample(NOISY, 2) if noisy else rng.sample(QUIET, rng.choice([0, 1, 2]))
        outputs = [each(rng) for each in beside]
        outputs.insert(rng.randrange(len(outputs) + 1), printed)
        sources = tuple(
            Source(text, "output", step, f"c{step}") for step, text in enumerate(outputs, 1)
        )
        task = Source("What stands out in these data? Explain it in three sentences.", "task")
        yield Case("noisy" if noisy else "quiet", (*sources, task), sentence, right, planted)


def _planted_like(
    like: random.Random, rng: random.Random, value: float, unit: str, right: str
) -> Iterator[str]:
    """Wrong values in the form of the right one, whose random choices `like` repeats."""
    state = like.getstate()
    for text in _wrong_values(rng, value, unit):
        like.setstate(state)
        written = _written(like, text, unit)
        if written != right:
            yield written
    yield from _swapped(right)


def _wrong_values(rng: random.Random, value: float, unit: str) -> list[float]:
    whole = value == int(value) and not unit
    step = 1.0 if whole else abs(value) / 50
    wrong = [
        value + rng.choice([-1, 1]) * max(step, abs(value) * 0.01),
        value * rng.uniform(1.03, 1.3),
        value * rng.uniform(0.7, 0.97),
        value * rng.uniform(1.5, 3),
        value / rng.uniform(1.5, 3),
    ]
    return [float(round(each)) for each in wrong] if whole else wrong


def _swapped(right: str) -> Iterator[str]:
    """The number with its first two digits swapped."""
    digits = [index for index, letter in enumerate(right) if letter.isdigit()]
    if len(digits) > 2 and right[digits[0]] != right[digits[1]] and right[digits[1]] != "0":
        letters = list(right)
        first, second = digits[:2]
        letters[first], letters[second] = letters[second], letters[first]
        yield "".join(letters)
