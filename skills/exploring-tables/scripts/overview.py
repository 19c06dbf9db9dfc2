"""A first look at a table. Nothing here changes the table; everything works on nasty ones.

Needs pandas alone. Columns are taken by position, so that two of the same name do no harm.
"""

from __future__ import annotations

import itertools
import warnings as python_warnings
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pandas as pd

SAMPLE = 100_000
"""Rows that are looked at where a part is enough."""
SENTINELS = (-999, -9999, -99, 999, 9999, 99999, -1)
MISSING_WORDS = frozenset(
    {
        "",
        "na",
        "n/a",
        "nan",
        "null",
        "none",
        "nil",
        "missing",
        "unknown",
        "-",
        "--",
        "?",
        ".",
        "#n/a",
    }
)


def summary(df: pd.DataFrame) -> str:
    """The shape of a table, and a line for each thing in it that looks wrong."""
    df = _table(df)
    rows, width = df.shape
    memory = df.memory_usage(deep=True).sum() / 1e6
    lines = [f"{rows:,} rows, {width} columns, {memory:,.1f} MB"]
    lines += _of_the_whole(df)
    for position in range(width):
        name = df.columns[position]
        lines += [f"{name}: {what}" for what in suspicions(df.iloc[:, position])]
    return "\n".join(lines if len(lines) > 1 else [*lines, "Nothing looks wrong at first sight."])


def columns(df: pd.DataFrame) -> pd.DataFrame:
    """A row for each column: what it looks like, how much is missing, what it holds."""
    df = _table(df)
    records = []
    for position in range(df.shape[1]):
        column = df.iloc[:, position]
        known = column.dropna()
        records.append(
            {
                "column": df.columns[position],
                "dtype": str(column.dtype),
                "kind": kind(column),
                "missing %": round(100 * (1 - len(known) / len(column)), 1) if len(column) else 0.0,
                "unique": _as_keys(known).nunique(),
                "holds": _content(known),
            }
        )
    names = ["column", "dtype", "kind", "missing %", "unique", "holds"]
    return pd.DataFrame(records, columns=names).set_index("column")


def kind(column: pd.Series) -> str:
    """What the values look like, whatever the dtype."""
    known = column.dropna()
    if known.empty:
        return "empty"
    keys = _as_keys(_sample(known))
    if keys.nunique() == 1 and _as_keys(known).nunique() == 1:
        return "constant"
    if pd.api.types.is_bool_dtype(column.dtype):
        return "yes/no"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date"
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        return "duration"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _kind_of_numbers(known)
    return _kind_of_objects(known, keys)


def suspicions(column: pd.Series) -> list[str]:
    """What looks wrong in a column, each in a few words with its count."""
    known = column.dropna()
    if known.empty:
        return ["has no values"] if len(column) else []
    found = _kind_of_trouble(kind(column))
    if pd.api.types.is_bool_dtype(column.dtype):
        return found
    if pd.api.types.is_numeric_dtype(column.dtype) and not _is_complex(column):
        return found + list(_wrong_numbers(known))
    texts = _sample(known)[_sample(known).map(lambda value: isinstance(value, str))]
    return found + (list(_wrong_texts(texts)) if len(texts) else [])


def keys(df: pd.DataFrame, most: int = 3, limit: int = 20) -> list[list[Hashable]]:
    """The smallest sets of columns without missing values that tell all rows apart.

    Args:
        most: Columns in a set at most.
        limit: Columns that are tried, those with the most different values first.

    Returns:
        The sets of the smallest size that works; none where rows are repeated or more columns
        are needed. A number that happens to differ in every row is a key by chance: judge by
        its meaning.
    """
    df = _table(df)
    if len(df) < 2:
        return []
    usable = [i for i in range(df.shape[1]) if not df.iloc[:, i].isna().any()]
    plain = {i: pd.factorize(_as_keys(df.iloc[:, i]))[0] for i in usable}
    counts = {i: int(codes.max()) + 1 for i, codes in plain.items()}
    usable = sorted(usable, key=lambda i: -counts[i])[:limit]
    for size in range(1, most + 1):
        found = []
        for group in itertools.combinations(usable, size):
            if np.prod([float(counts[i]) for i in group]) < len(df):
                continue  # too few combinations to tell the rows apart
            if not pd.DataFrame({i: plain[i] for i in group}).duplicated().any():
                found.append([df.columns[i] for i in sorted(group)])
        if found:
            return found
    return []


def missing_together(df: pd.DataFrame) -> pd.DataFrame:
    """The patterns of missing values: which columns are missing in how many rows."""
    df = _table(df)
    gaps = df.isna()
    gaps.columns = range(df.shape[1])
    gaps = gaps.loc[:, gaps.any()]
    if gaps.empty or gaps.shape[1] == 0:
        return pd.DataFrame({"rows": [], "missing": []})
    patterns = gaps.value_counts()
    records = [
        {
            "rows": int(count),
            "missing": ", ".join(
                str(df.columns[c])
                for c, is_gap in zip(gaps.columns, pattern, strict=True)
                if is_gap
            )
            or "(nothing)",
        }
        for pattern, count in patterns.items()
    ]
    return pd.DataFrame(records).head(20)


def associations(df: pd.DataFrame, target: Hashable | None = None, most: int = 15) -> pd.DataFrame:
    """How strongly columns go together, from 0 to 1, strongest first. A hint, not a result.

    Args:
        target: One column, to see what goes with it; without it all pairs (of the first 40
            columns that can be compared).
        most: Rows at most.
    """
    df = _table(df)
    if target is not None and target not in df.columns:
        raise KeyError(f"there is no column {target!r}")
    df = df.loc[:, ~df.columns.duplicated()].reset_index(drop=True)
    df = df.sample(SAMPLE, random_state=0) if len(df) > SAMPLE else df
    usable = {name: form for name in df.columns if (form := _comparable(df[name])) is not None}
    if target is not None:
        if target not in usable:
            raise ValueError(f"{target!r} has too many or too few different values to be compared")
        pairs: Iterator[Any] = ((target, name) for name in usable if name != target)
    else:
        pairs = itertools.combinations(list(usable)[:40], 2)
    records = []
    for one, other in pairs:
        strength, measure, n = _strength(usable[one], usable[other])
        if n >= 10 and np.isfinite(strength):
            records.append(
                {
                    "column": one,
                    "with": other,
                    "strength": round(strength, 3),
                    "measure": measure,
                    "rows": n,
                }
            )
    names = ["column", "with", "strength", "measure", "rows"]
    found = pd.DataFrame(records, columns=names)
    return found.sort_values("strength", ascending=False, ignore_index=True).head(most)


def _of_the_whole(df: pd.DataFrame) -> Iterator[str]:
    repeated = [str(name) for name in df.columns[df.columns.duplicated()].unique()]
    if repeated:
        yield f"columns of the same name: {', '.join(repeated)}"
    odd = [
        str(n)
        for n in df.columns
        if isinstance(n, str) and (n != n.strip() or n.startswith("Unnamed"))
    ]
    if odd:
        yield f"odd column names: {', '.join(map(repr, odd[:8]))}"
    if df.shape[1] and len(df):
        plain = pd.DataFrame(
            {i: pd.factorize(_as_keys(df.iloc[:, i]))[0] for i in range(df.shape[1])}
        )
        if doubles := int(plain.duplicated().sum()):
            yield f"{doubles:,} rows repeat another row in every column"
        if empty := int(df.isna().all(axis=1).sum()):
            yield f"{empty:,} rows are empty"
    if df.index.has_duplicates:
        yield f"the index repeats itself in {int(df.index.duplicated().sum()):,} rows"


def _kind_of_numbers(known: pd.Series) -> str:
    if _is_complex(known):
        return "complex number"
    values = known.to_numpy(dtype=float, na_value=np.nan)
    whole = bool(np.all(np.isfinite(values)) and np.all(values == np.round(values)))
    unique = known.nunique()
    if whole and unique == 2:
        return "yes/no as number"
    if whole and unique == len(known) and len(known) > 20:
        steps = np.diff(np.sort(values))
        return "identifier" if np.all(steps == 1) else "whole number, all different"
    if whole and unique <= 12 and len(known) >= 5 * unique:
        return "code"
    return "whole number" if whole else "number"


def _kind_of_objects(known: pd.Series, keys: pd.Series) -> str:
    sample = _sample(known, 2_000)
    types = {type(value) for value in sample}
    if types and all(issubclass(one, str) for one in types):
        return _kind_of_texts(sample, keys)
    if len(types) > 1 and not types <= {int, float, np.float64, np.int64}:
        return "mixed"
    name = next(iter(types)).__name__ if types else "object"
    return {"date": "date", "datetime": "date", "Timestamp": "date"}.get(name, f"{name} objects")


def _kind_of_texts(sample: pd.Series, keys: pd.Series) -> str:
    words = sample.str.strip()
    words = words[~words.str.lower().isin(MISSING_WORDS)]
    if words.empty:
        return "text"
    if _share_of_numbers(words) > 0.9:
        codes = words.str.match(r"0\d").any()
        return "code with leading zeros" if codes else "number as text"
    if words.str.contains(r"\d").mean() > 0.9 and _share_of_dates(words) > 0.9:
        return "date as text"
    unique = keys.nunique()
    if unique == len(keys) and len(keys) > 20:
        return (
            "identifier"
            if words.str.len().max() <= 40 and not words.str.contains(" ").any()
            else "text"
        )
    return "category" if unique <= max(20, 0.05 * len(keys)) else "text"


def _share_of_numbers(words: pd.Series) -> float:
    bare = words.str.replace(r"[\s,$€£%']", "", regex=True)
    return float(pd.to_numeric(bare, errors="coerce").notna().mean())


def _share_of_dates(words: pd.Series) -> float:
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        dates = pd.to_datetime(words, errors="coerce", format="mixed", utc=True)
    return float(dates.notna().mean())


def _kind_of_trouble(name: str) -> list[str]:
    said = {
        "constant": "has one value only",
        "mixed": "holds values of different types",
        "number as text": "holds numbers as text",
        "date as text": "holds dates as text",
    }
    return [said[name]] if name in said else []


def _wrong_numbers(known: pd.Series) -> Iterator[str]:
    values = known.to_numpy(dtype=float, na_value=np.nan)
    infinite = int(np.isinf(values).sum())
    if infinite:
        yield f"{infinite:,} infinite values"
    values = values[np.isfinite(values)]
    if len(values) < 10:
        return
    low, high = np.quantile(values, [0.01, 0.99])
    for sentinel in SENTINELS:
        count = int((values == sentinel).sum())
        others = values[values != sentinel]
        apart = len(others) > 0 and not others.min() <= sentinel <= others.max()
        is_far = abs(sentinel) > 2 * max(1e-9, float(np.abs(others).max())) if apart else False
        far = apart and (sentinel < 0 or is_far)
        if count and far:
            yield f"{count:,} times {sentinel}, which may stand for missing"
            break
    q1, q3 = np.quantile(values, [0.25, 0.75])
    if q3 > q1:
        outside = int(((values < q1 - 5 * (q3 - q1)) | (values > q3 + 5 * (q3 - q1))).sum())
        if 0 < outside <= 0.01 * len(values) + 3:
            yield f"{outside:,} values far from the rest (98 % lie from {low:.4g} to {high:.4g})"
    negative = int((values < 0).sum())
    if 0 < negative <= 0.01 * len(values):
        yield f"{negative:,} negative values among {len(values):,}"


def _wrong_texts(texts: pd.Series) -> Iterator[str]:
    stripped = texts.str.strip()
    if padded := int((texts != stripped).sum()):
        yield f"{padded:,} values begin or end with spaces"
    gaps = stripped[stripped.str.lower().isin(MISSING_WORDS)]
    if len(gaps):
        words = ", ".join(sorted(map(repr, set(gaps)))[:4])
        yield f"{len(gaps):,} values stand for missing ({words})"
    unique = pd.Series(stripped.unique())
    if 1 < len(unique) <= 2_000:
        folded = unique.str.casefold().str.replace(r"[\W_]+", "", regex=True)
        same = unique[folded.duplicated(keep=False) & (folded != "")]
        if len(same):
            yield f"spellings of the same word: {', '.join(map(repr, sorted(same)[:6]))}"
    if broken := int(texts.str.contains("Ã.|â€|\ufffd", regex=True).sum()):
        yield f"{broken:,} values look wrongly decoded"


def _content(known: pd.Series) -> str:
    if known.empty:
        return ""
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        middle: object = known.quantile(0.5, interpolation="nearest")
        return f"{_short(known.min())} … {_short(middle)} … {_short(known.max())}"
    if _is_number(known):
        values = known.to_numpy(dtype=float, na_value=np.nan)
        values = values[np.isfinite(values)]
        middle = np.median(values) if len(values) else np.nan
        return f"{_short(known.min())} … {_short(middle)} … {_short(known.max())}"
    counts = _as_keys(known).value_counts()
    top = [f"{_short(value)} ({count:,})" for value, count in counts.head(4).items()]
    return ", ".join(top) + (f", {len(counts) - 4:,} more" if len(counts) > 4 else "")


def _short(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= 24 else text[:23] + "…"


def _comparable(column: pd.Series) -> pd.Series | None:
    """Numbers as floats, categories as texts; None for what has too many or too few values."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype("object").where(column.notna()).map(str, na_action="ignore")
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        since = (column - column.min()).dt.total_seconds()
        return since if since.nunique() > 1 else None
    if pd.api.types.is_numeric_dtype(column.dtype) and not _is_complex(column):
        values = pd.Series(column.to_numpy(dtype=float, na_value=np.nan), index=column.index)
        values = values.replace([np.inf, -np.inf], np.nan)
        return values if values.nunique() > 1 else None
    keys = _as_keys(column.dropna()).map(str)
    unique = keys.nunique()
    return keys.reindex(column.index) if 2 <= unique <= min(50, max(2, len(keys) // 5)) else None


def _strength(one: pd.Series, other: pd.Series) -> tuple[float, str, int]:
    both = pd.DataFrame({"a": one, "b": other}).dropna()
    n = len(both)
    numbers = [pd.api.types.is_float_dtype(both[c].dtype) for c in ("a", "b")]
    if n < 10 or both["a"].nunique() < 2 or both["b"].nunique() < 2:
        return np.nan, "", n
    if all(numbers):
        rho = both["a"].rank().corr(both["b"].rank())
        return abs(float(rho)), "Spearman |rho|", n
    if any(numbers):
        number, group = ("a", "b") if numbers[0] else ("b", "a")
        return _correlation_ratio(both[number], both[group]), "correlation ratio", n
    return _cramer(both["a"], both["b"]), "Cramér's V", n


def _correlation_ratio(values: pd.Series, groups: pd.Series) -> float:
    """The root of omega squared: the share of variance between groups, less what chance gives."""
    n, k = len(values), groups.nunique()
    total = float(((values - values.mean()) ** 2).sum())
    means = values.groupby(groups, observed=True).transform("mean")
    within = float(((values - means) ** 2).sum())
    if total <= 0 or n <= k:
        return np.nan
    mean_square = within / (n - k)
    omega = (total - within - (k - 1) * mean_square) / (total + mean_square)
    return float(np.sqrt(max(0.0, omega)))


def _cramer(one: pd.Series, other: pd.Series) -> float:
    """Cramér's V with the bias correction of Bergsma (2013)."""
    table = pd.crosstab(one, other).to_numpy(dtype=float)
    n, (r, c) = table.sum(), table.shape
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi = float(((table - expected) ** 2 / expected).sum()) / n
    phi = max(0.0, phi - (r - 1) * (c - 1) / (n - 1))
    size = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi / size)) if size > 0 else np.nan


def _as_keys(column: pd.Series) -> pd.Series:
    """The same values in a form that can be counted: lists and the like by their text."""
    if column.dtype != object:
        return column
    if all(isinstance(value, (str, int, float, bool)) for value in column):
        return column
    return column.map(
        lambda value: value if isinstance(value, str) else _key(value), na_action="ignore"
    )


def _key(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _sample(column: pd.Series, most: int = SAMPLE) -> pd.Series:
    return column if len(column) <= most else column.sample(most, random_state=0)


def _is_number(column: pd.Series) -> bool:
    is_number = pd.api.types.is_numeric_dtype(column.dtype) and not _is_complex(column)
    return bool(is_number) and not pd.api.types.is_bool_dtype(column.dtype)


def _is_complex(column: pd.Series) -> bool:
    return bool(pd.api.types.is_complex_dtype(column.dtype))


def _table(df: object) -> pd.DataFrame:
    if isinstance(df, pd.Series):
        return df.to_frame()
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"a pandas DataFrame is needed, not {type(df).__name__}")
    if isinstance(df.columns, pd.MultiIndex):
        df = df.set_axis([" / ".join(map(str, name)) for name in df.columns], axis=1)
    return df
