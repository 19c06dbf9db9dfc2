"""Cleaning steps that report what they did. None changes its argument. Needs pandas alone."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd

MISSING_WORDS = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "nil", "missing", "-", "--", "?", "#n/a"}
)


def tidy_names(names: Iterable[Hashable]) -> dict[Hashable, str]:
    """New names for columns: lower case, letters, digits and single underscores, all different.

    Raises:
        ValueError: Two columns have the same name: a mapping cannot tell them apart.
    """
    names = list(names)
    if len(set(names)) < len(names):
        raise ValueError("two columns have the same name; rename them by position first")
    tidy: dict[Hashable, str] = {}
    for name in names:
        text = " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        text = text.replace("%", " percent ").replace("#", " number ")
        text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", _folded(text))
        word = re.sub(r"\W+|_+", "_", text).strip("_").lower() or "column"
        word = f"_{word}" if word[0].isdigit() else word
        tidy[name] = _free(word, set(tidy.values()))
    return tidy


def to_numbers(column: pd.Series, decimal: str = ".") -> tuple[pd.Series, pd.Series]:
    """Texts as numbers: currency signs, spaces, thousands, `(12)` for -12, and `5 %` for 0.05.

    Args:
        decimal: The decimal mark, `.` or `,`; the other one may separate thousands.

    Returns:
        The numbers, and how often each text occurs that is none and became missing. Words for
        missing (`n/a`) are not counted there.

    Raises:
        ValueError: A separator stands where thousands do not go: the decimal mark seems wrong.
    """
    if decimal not in (".", ","):
        raise ValueError("decimal must be '.' or ','")
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.copy(), _no_texts()
    texts = _texts(column)
    thousands = "," if decimal == "." else "."
    sure = re.compile(
        rf"[-+]?\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})*(?:{re.escape(decimal)}\d+)?|[-+]?\d*{re.escape(decimal)}?\d+(?:[eE][-+]?\d+)?|[-+]?\d+{re.escape(decimal)}"
    )
    values, unread = [], []
    for text in texts:
        value, is_doubtful = _number(text, decimal, thousands, sure)
        if is_doubtful:
            raise ValueError(
                f"{text!r} is no number with the decimal mark {decimal!r}. Look at the column: "
                f"to_numbers(..., decimal={thousands!r}) may be right."
            )
        values.append(value)
        if text is not None and np.isnan(value):
            unread.append(text)
    numbers = pd.Series(values, index=column.index, name=column.name, dtype=float)
    return numbers, _counted(unread)


def to_dates(
    column: pd.Series, dayfirst: bool | None = None, format: str | None = None
) -> tuple[pd.Series, pd.Series]:
    """Texts as dates, without guessing whether the day or the month comes first.

    Args:
        dayfirst: Whether 03/04/2024 is the third of April; None: as other dates in the column say.
        format: The one format of all texts, as `strptime` takes it.

    Returns:
        The dates, and how often each text occurs that is none and became missing.

    Raises:
        ValueError: The column can be read in two ways, or some dates need the day first and
            others the month.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column.copy(), _no_texts()
    if pd.api.types.is_numeric_dtype(column.dtype):
        raise ValueError("these are numbers: pd.to_datetime(..., unit=...) needs to know of what")
    texts = _texts(column)
    if format is None and dayfirst is None:
        dayfirst = _day_first([text for text in texts if text is not None])
    # The year first (ISO) is never turned round by dayfirst.
    iso = np.array([bool(text and re.match(r"\d{4}", text)) for text in texts], dtype=bool)
    parts = [_parsed(texts[~iso], format, bool(dayfirst)), _parsed(texts[iso], format, False)]
    parts = [part for part in parts if len(part) and part.notna().any()]
    if len({part.dt.tz for part in parts}) > 1:
        raise ValueError("some dates have a time zone and some have none: treat them apart")
    dates = pd.concat(parts) if parts else pd.Series(pd.NaT, index=texts.index)
    if not column.index.is_unique:
        raise ValueError("the index repeats itself: reset_index() first")
    dates = dates.reindex(texts.index)
    unread = texts[dates.isna() & texts.notna()]
    return dates.rename(column.name), _counted(list(unread))


def spellings(column: pd.Series) -> dict[str, str]:
    """A proposal: each rarer spelling to the commonest one of the same word.

    Words are the same if they differ in case, spaces, accents and punctuation only. Look at it
    before you use it in `column.replace(...)`: `US` and `us`, or `C` and `C++`, may differ.
    """
    texts = column[column.map(lambda value: isinstance(value, str))]
    counts = texts.value_counts()
    best: dict[str, str] = {}
    for text in sorted(counts.index, key=lambda text: (-counts[text], text != text.strip(), text)):
        best.setdefault(_word(text), text)
    return {
        text: best[_word(text)]
        for text in counts.index
        if _word(text) and best[_word(text)] != text
    }


def conflicts(df: pd.DataFrame, key: Hashable | Sequence[Hashable]) -> pd.DataFrame:
    """The rows that share a key and disagree elsewhere, sorted by the key; no exact repeats.

    Rows whose key is missing are not compared.
    """
    names = _names(key)
    known = df.dropna(subset=names)
    differing = known[~_repeats(known)]
    found = differing[differing.duplicated(subset=names, keep=False)]
    return found.sort_values(names, kind="stable")


def check_join(left: pd.DataFrame, right: pd.DataFrame, on: Hashable | Sequence[Hashable]) -> str:
    """What a join on these columns would do: its kind, the rows without a partner, the rows after.

    Missing keys match each other in pandas; they are counted for that reason.
    """
    names = _names(on)
    lines = [
        f"{name}: {one.dtype} on the left, {other.dtype} on the right: make them alike first"
        for name in names
        if (one := left[name]).dtype.kind != (other := right[name]).dtype.kind
    ]
    if lines:
        return "\n".join(lines)
    a, b = _counts(left, names), _counts(right, names)
    both = a.index.intersection(b.index)
    kinds = {True: "one", False: "many"}
    shape = f"{kinds[bool((a <= 1).all())]}-to-{kinds[bool((b <= 1).all())]}"
    inner = int((a.reindex(both) * b.reindex(both)).sum())
    lonely_a, lonely_b = int(a.drop(both).sum()), int(b.drop(both).sum())
    gaps = [int(df[names].isna().any(axis=1).sum()) for df in (left, right)]
    lines = [
        f"{shape} on {', '.join(map(str, names))}: {len(left):,} rows left, {len(right):,} right",
        f"without a partner: {lonely_a:,} rows left, {lonely_b:,} rows right",
        f"rows after: inner {inner:,}, left {inner + lonely_a:,}, "
        f"outer {inner + lonely_a + lonely_b:,}",
    ]
    if any(gaps):
        lines.append(
            f"missing keys: {gaps[0]:,} left, {gaps[1]:,} right (pandas joins them to each other)"
        )
    if shape == "many-to-many":
        lines.append("Many-to-many multiplies rows: make one side unique first.")
    else:
        lines.append(f'Use merge(..., validate="{shape.replace("-", "_")}").')
    return "\n".join(lines)


def compare(
    before: pd.DataFrame, after: pd.DataFrame, key: Hashable | Sequence[Hashable] | None = None
) -> str:
    """The receipt of a cleaning: rows, columns, types, missing values, and changed cells by column.

    Args:
        key: Columns that tell rows apart, to compare cells row by row; without it rows are
            compared by their index where that is unique in both.
    """
    lines = [f"rows: {len(before):,} -> {len(after):,} ({len(after) - len(before):+,})"]
    gone = [str(name) for name in before.columns if name not in after.columns]
    new = [str(name) for name in after.columns if name not in before.columns]
    lines += [f"columns only before: {', '.join(gone)}"] if gone else []
    lines += [f"columns only after: {', '.join(new)}"] if new else []
    pair = _aligned(before, after, key)
    if pair is None:
        lines.append("cells are not compared: give a key that is unique in both")
    else:
        lines.append(f"cells compared in the {len(pair[0]):,} rows that both have")
    for name in after.columns:
        if name not in before.columns or name in _names(key):
            continue
        line = _column_change(
            before[name], after[name], None if pair is None else (pair[0][name], pair[1][name])
        )
        lines += [f"{name}: {line}"] if line else []
    return "\n".join(lines)


def _column_change(
    before: pd.Series, after: pd.Series, pair: tuple[pd.Series, pd.Series] | None
) -> str:
    parts = []
    if before.dtype != after.dtype:
        parts.append(f"{before.dtype} -> {after.dtype}")
    if (a := int(before.isna().sum())) != (b := int(after.isna().sum())):
        parts.append(f"missing {a:,} -> {b:,}")
    if pair is not None:
        one, other = (side.astype(object) for side in pair)
        same = (one.map(_comparable) == other.map(_comparable)) | (one.isna() & other.isna())
        if changed := int((~same.astype(bool)).sum()):
            parts.append(f"{changed:,} cells differ")
    return ", ".join(parts)


def _aligned(
    before: pd.DataFrame, after: pd.DataFrame, key: Hashable | Sequence[Hashable] | None
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    names = _names(key)
    if any(name not in df.columns for name in names for df in (before, after)):
        return None
    one = before.set_index(names, drop=False) if names else before
    other = after.set_index(names, drop=False) if names else after
    if not one.index.is_unique or not other.index.is_unique:
        return None
    common = one.index.intersection(other.index)
    return one.loc[common], other.loc[common]


def _comparable(value: object) -> object:
    """Numbers by value, anything else by its text: `"3"` became `3` is a change of type only."""
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


def _number(
    text: str | None, decimal: str, thousands: str, sure: re.Pattern[str]
) -> tuple[float, bool]:
    """The number that a text says, or nan; and whether its separators say another notation."""
    if text is None:
        return np.nan, False
    bare = re.sub(r"[\s\u00a0\u202f'’_]|[$€£¥]|(?i:\b(?:usd|eur|gbp|chf)\b)", "", text).replace(
        "\u2212", "-"
    )
    scale = 1.0
    if bare.endswith("%"):
        bare, scale = bare[:-1], 0.01
    if bare.startswith("(") and bare.endswith(")"):
        bare, scale = bare[1:-1], -scale
    if not bare or not sure.fullmatch(bare):
        looks_numeric = bool(re.fullmatch(r"[-+]?[\d.,]*\d[\d.,]*", bare))
        return np.nan, looks_numeric and thousands in bare
    return scale * float(bare.replace(thousands, "").replace(decimal, ".")), False


def _parsed(texts: pd.Series, format: str | None, dayfirst: bool) -> pd.Series:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pd.to_datetime(
                texts, errors="coerce", format=format or "mixed", dayfirst=dayfirst
            )
        except ValueError:
            raise ValueError(
                "the dates have different time zones: use pd.to_datetime(..., utc=True)"
            ) from None


def _day_first(texts: list[str]) -> bool:
    day = month = open_ = 0
    for text in texts:
        if match := re.match(r"(\d{1,2})[./\- ](\d{1,2})[./\- ]\d{2,4}", text):
            first, second = int(match[1]), int(match[2])
            day += first > 12 >= second
            month += second > 12 >= first
            open_ += first <= 12 and second <= 12 and first != second
    if day and month:
        raise ValueError(
            f"{day} dates have the day first and {month} the month: two formats in one column"
        )
    if open_ and not day and not month:
        raise ValueError(
            f"{open_} dates can be read in two ways, and none decides. Find out where the data "
            "come from, then pass dayfirst=True or dayfirst=False."
        )
    return day > 0


def _texts(column: pd.Series) -> pd.Series:
    return pd.Series([_text_of(value) for value in column], index=column.index, dtype=object)


def _text_of(value: object) -> str | None:
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in MISSING_WORDS else text
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def _folded(text: str) -> str:
    """Without accents."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(c for c in parts if not unicodedata.combining(c))


def _word(text: str) -> str:
    return re.sub(r"[\s_.,;:/'’\"()-]+", "", _folded(text)).casefold()


def _free(word: str, taken: set[str]) -> str:
    name, number = word, 2
    while name in taken:
        name, number = f"{word}_{number}", number + 1
    return name


def _names(key: Hashable | Sequence[Hashable] | None) -> list[Hashable]:
    if key is None:
        return []
    return list(key) if isinstance(key, list) else [key]


def _counts(df: pd.DataFrame, names: list[Hashable]) -> pd.Series:
    known = df[names].dropna()
    return known.groupby(names, observed=True).size()


def _repeats(df: pd.DataFrame) -> pd.Series:
    try:
        return df.duplicated()
    except TypeError:  # lists and the like
        return df.astype(str).duplicated()


def _counted(texts: list[str]) -> pd.Series:
    return pd.Series(texts, dtype=object).value_counts().rename("count") if texts else _no_texts()


def _no_texts() -> pd.Series:
    return pd.Series(dtype="int64", name="count")
