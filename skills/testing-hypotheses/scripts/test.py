"""Comparisons with effects, intervals and p-values. Needs pandas, numpy and scipy.

Every function leaves out rows with missing or infinite values and counts them. Intervals are
95 % unless `level` says otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pandas as pd

try:
    from scipy import stats
except ImportError as error:  # one clear line instead of a failure in the middle
    raise ImportError("this script needs scipy: install it, then import again") from error

Statistic = Callable[[np.ndarray], float]


def describe(df: pd.DataFrame, value: Hashable, group: Hashable) -> pd.DataFrame:
    """n, missing values, mean, standard deviation and quartiles of each group."""
    values = _finite(df[value])
    groups = df[group]
    records = []
    for name in _levels(groups):
        inside = values[(groups == name).to_numpy(dtype=bool, na_value=False)]
        known = inside.dropna()
        quartiles = known.quantile([0.25, 0.5, 0.75]) if len(known) else [np.nan] * 3
        low, middle, high = quartiles
        spread = known.std() if len(known) > 1 else np.nan
        gaps = len(inside) - len(known)
        records.append((name, len(known), gaps, known.mean(), spread, low, middle, high))
    names = [str(group), "n", "missing", "mean", "sd", "25 %", "median", "75 %"]
    return pd.DataFrame(records, columns=names).set_index(str(group))


def compare_means(
    df: pd.DataFrame, value: Hashable, group: Hashable, level: float = 0.95
) -> pd.DataFrame:
    """Differences of means between all pairs of groups by Welch's test.

    The difference is that of the first group minus the second. With more than two groups p is
    adjusted by Holm, the intervals are not, and `attrs["welch_anova_p"]` says whether there is
    any difference at all.

    Raises:
        ValueError: There are fewer than two groups with two values each, or more than 20 groups.
    """
    samples = _samples(df, value, group)
    records = []
    for (one, a), (other, b) in itertools.combinations(samples.items(), 2):
        result = stats.ttest_ind(a, b, equal_var=False)
        low, high = result.confidence_interval(level)
        difference = a.mean() - b.mean()
        g = _hedges(difference, a, b)
        records.append((one, other, difference, low, high, g, result.pvalue, len(a), len(b)))
    names = ["group", "minus", "difference", "low", "high", "hedges_g", "p", "n", "n_minus"]
    table = pd.DataFrame(records, columns=names)
    if len(samples) > 2:
        table["p_adjusted"] = adjust(table["p"])
        table.attrs["welch_anova_p"] = _welch_anova(list(samples.values()))
    table.attrs["left_out"] = len(df) - sum(map(len, samples.values()))
    return table


def compare_pairs(
    df: pd.DataFrame, before: Hashable, after: Hashable, level: float = 0.95
) -> pd.DataFrame:
    """The mean change between two measurements of the same units, by the paired t-test.

    Raises:
        ValueError: Fewer than two complete pairs.
    """
    both = pd.DataFrame({"a": _finite(df[before]), "b": _finite(df[after])}).dropna()
    if len(both) < 2:
        raise ValueError("fewer than two complete pairs")
    change = (both["b"] - both["a"]).to_numpy()
    error = change.std(ddof=1) / np.sqrt(len(change))
    half = stats.t.ppf((1 + level) / 2, len(change) - 1) * error
    mean = change.mean()
    if error > 0:
        p = 2 * stats.t.sf(abs(mean / error), len(change) - 1)
    else:
        p = 1.0 if mean == 0 else np.nan  # all changes alike: nothing to estimate the error from
    record = (mean, mean - half, mean + half, p, len(change), len(df) - len(change))
    return pd.DataFrame([record], columns=["change", "low", "high", "p", "pairs", "left_out"])


def permutation(
    df: pd.DataFrame,
    value: Hashable,
    group: Hashable,
    statistic: Statistic = np.mean,
    times: int = 9_999,
    seed: int = 0,
) -> pd.DataFrame:
    """The difference of any statistic between two groups, against random relabelling.

    The null hypothesis is that both groups come from the same distribution. The interval is a
    bootstrap one (percentiles) within the groups: rough below about 15 values.

    Raises:
        ValueError: There are not two groups with two values each.
    """
    samples = _samples(df, value, group)
    if len(samples) != 2:
        raise ValueError(f"two groups are needed, not {len(samples)}")
    (one, a), (other, b) = samples.items()
    random = np.random.default_rng(seed)
    observed = float(statistic(a) - statistic(b))
    pooled = np.concatenate([a, b])
    extreme = 0
    tolerance = 1e-9 * max(1.0, abs(observed))
    for _ in range(times):
        random.shuffle(pooled)
        shuffled = statistic(pooled[: len(a)]) - statistic(pooled[len(a) :])
        extreme += abs(shuffled) >= abs(observed) - tolerance
    draws = [
        statistic(random.choice(a, len(a))) - statistic(random.choice(b, len(b)))
        for _ in range(min(times, 2_000))
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    p = (extreme + 1) / (times + 1)
    record = (one, other, observed, low, high, p, len(a), len(b))
    names = ["group", "minus", "difference", "low", "high", "p", "n", "n_minus"]
    return pd.DataFrame([record], columns=names)


def compare_shares(
    df: pd.DataFrame, outcome: Hashable, group: Hashable, level: float = 0.95
) -> pd.DataFrame:
    """The shares of yes between all pairs of groups: difference, ratio, Fisher's exact test.

    The interval of the difference is Newcombe's, from Wilson's for each share: good for small
    n and for shares near 0 and 1. With more than two groups p is adjusted by Holm.

    Raises:
        ValueError: The outcome has other values than two, or there are fewer than two groups.
    """
    data = df[[outcome, group]].dropna()
    counts = {}
    yes = _yes(data[outcome])
    for name in _levels(data[group]):
        inside = yes[(data[group] == name).to_numpy(dtype=bool)]
        counts[name] = (int(inside.sum()), len(inside))
    _refuse_groups(len(counts), group)
    records = []
    for (one, (x, n)), (other, (y, m)) in itertools.combinations(counts.items(), 2):
        low, high = _newcombe(x, n, y, m, level)
        p = stats.fisher_exact([[x, n - x], [y, m - y]]).pvalue
        ratio = (x / n) / (y / m) if y else np.nan
        records.append((one, other, x / n, y / m, x / n - y / m, low, high, ratio, p, n, m))
    names = ["group", "minus", "share", "share_minus", "difference", "low", "high", "ratio"]
    table = pd.DataFrame(records, columns=[*names, "p", "n", "n_minus"])
    if len(counts) > 2:
        table["p_adjusted"] = adjust(table["p"])
    return table


def relation(df: pd.DataFrame, x: Hashable, y: Hashable, level: float = 0.95) -> pd.DataFrame:
    """Pearson's and Spearman's correlation with intervals.

    Intervals by Fisher's transformation, for Spearman with the variance of Bonett and Wright.

    Raises:
        ValueError: Fewer than five complete rows, or a column that does not vary.
    """
    both = pd.DataFrame({"x": _finite(df[x]), "y": _finite(df[y])}).dropna()
    n = len(both)
    if n < 5 or both["x"].nunique() < 2 or both["y"].nunique() < 2:
        raise ValueError("five complete rows in which both columns vary are needed")
    z = stats.norm.ppf((1 + level) / 2)
    records = []
    for name, test in (("Pearson r", stats.pearsonr), ("Spearman rho", stats.spearmanr)):
        result = test(both["x"], both["y"])
        r = float(np.clip(result.statistic, -1, 1))
        error = np.sqrt((1 if name[0] == "P" else 1 + r**2 / 2) / (n - 3))
        middle = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
        low, high = np.tanh(middle - z * error), np.tanh(middle + z * error)
        records.append((name, r, low, high, float(result.pvalue), n, len(df) - n))
    return pd.DataFrame(records, columns=["measure", "value", "low", "high", "p", "n", "left_out"])


def adjust(p: Sequence[float] | pd.Series, method: str = "holm") -> np.ndarray:
    """p-values adjusted for their number. Missing ones stay missing and do not count.

    Args:
        method: `holm` for the chance of any false finding, `fdr` (Benjamini and Hochberg) for
            the share of false ones among the findings.

    Raises:
        ValueError: The method is another, or a value is no probability.
    """
    values = np.asarray(p, dtype=float)
    known = np.flatnonzero(~np.isnan(values))
    if np.any((values[known] < 0) | (values[known] > 1)):
        raise ValueError("p-values lie between 0 and 1")
    order = known[np.argsort(values[known], kind="stable")]
    m, ranks = len(order), np.arange(1, len(order) + 1)
    result = np.full(len(values), np.nan)
    if method == "holm":
        result[order] = np.minimum(1, np.maximum.accumulate(values[order] * (m - ranks + 1)))
    elif method == "fdr":
        scaled = values[order] * m / ranks
        result[order] = np.minimum(1, np.minimum.accumulate(scaled[::-1])[::-1])
    else:
        raise ValueError(f"method is 'holm' or 'fdr', not {method!r}")
    return result


def by_unit(
    df: pd.DataFrame, value: Hashable, unit: Hashable, keep: Sequence[Hashable] = ()
) -> pd.DataFrame:
    """One row for each independent unit: the mean of its values, and what is constant in it.

    Raises:
        ValueError: A column to keep differs within a unit.
    """
    data = df.assign(_value=_finite(df[value])).dropna(subset=["_value"])
    groups = data.groupby(unit, observed=True, sort=True)
    for name in keep:
        if (groups[name].nunique(dropna=False) > 1).any():
            raise ValueError(f"{name!r} differs within one {unit!r}: it cannot be kept")
    table = groups["_value"].agg(["mean", "size"])
    table.columns = [value, "measurements"]
    for name in keep:
        table[name] = groups[name].first()
    return table.reset_index()


def sample_size(
    difference: float, sd: float, power: float = 0.8, alpha: float = 0.05, ratio: float = 1.0
) -> int:
    """How many the first group needs for a t-test to find a difference; the other `ratio` times.

    Args:
        difference: The smallest difference that would matter, in the units of `sd`.
        sd: The standard deviation within a group, from earlier data.

    Raises:
        ValueError: A number that makes no sense, or more than ten million would be needed.
    """
    if not (difference != 0 and sd > 0 and 0 < power < 1 and 0 < alpha < 1 and ratio > 0):
        raise ValueError("difference must not be 0; sd, power, alpha and ratio must be positive")
    low, high = 2, 4
    while _power(difference / sd, high, high * ratio, alpha) < power:
        low, high = high, high * 2
        if high > 10_000_000:
            raise ValueError("more than ten million would be needed")
    while low < high:
        middle = (low + high) // 2
        if _power(difference / sd, middle, middle * ratio, alpha) >= power:
            high = middle
        else:
            low = middle + 1
    return high


def detectable(n1: int, n2: int, sd: float = 1.0, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest difference that groups of this size would find with this power.

    Raises:
        ValueError: A group has fewer than two values.
    """
    if n1 < 2 or n2 < 2:
        raise ValueError("each group needs two values")
    low, high = 0.0, 1.0
    while _power(high, n1, n2, alpha) < power:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(middle, n1, n2, alpha) >= power else (middle, high)
    return high * sd


def _power(effect: float, n1: float, n2: float, alpha: float) -> float:
    """The power of a two-sided t-test for a standardized effect."""
    freedom = n1 + n2 - 2
    shift = abs(effect) * np.sqrt(n1 * n2 / (n1 + n2))
    limit = stats.t.ppf(1 - alpha / 2, freedom)
    upper, lower = stats.nct.sf(limit, freedom, shift), stats.nct.cdf(-limit, freedom, shift)
    # Far out the distribution underflows to nan, where the power is 1 to any digit.
    return float(np.nan_to_num(upper, nan=1.0) + np.nan_to_num(lower, nan=0.0))


def _hedges(difference: float, a: np.ndarray, b: np.ndarray) -> float:
    """The difference in standard deviations, corrected for small samples (Hedges 1981)."""
    freedom = len(a) + len(b) - 2
    pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom
    if pooled <= 0:
        return np.nan
    return float(difference / np.sqrt(pooled) * (1 - 3 / (4 * freedom - 1)))


def _welch_anova(samples: list[np.ndarray]) -> float:
    """The p-value of Welch's test (1951) that all means are the same, whatever the variances."""
    n = np.array([len(one) for one in samples], dtype=float)
    variances = np.array([one.var(ddof=1) for one in samples])
    if np.any(variances <= 0):
        return float("nan")
    means, k = np.array([one.mean() for one in samples]), len(samples)
    weights = n / variances
    total = weights.sum()
    centre = (weights * means).sum() / total
    spread = (((1 - weights / total) ** 2) / (n - 1)).sum()
    between = (weights * (means - centre) ** 2).sum() / (k - 1)
    f = between / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    return float(stats.f.sf(f, k - 1, (k**2 - 1) / (3 * spread)))


def _newcombe(x: int, n: int, y: int, m: int, level: float) -> tuple[float, float]:
    one = stats.binomtest(x, n).proportion_ci(level, method="wilson")
    other = stats.binomtest(y, m).proportion_ci(level, method="wilson")
    p, q = x / n, y / m
    low = p - q - np.hypot(p - one.low, other.high - q)
    high = p - q + np.hypot(one.high - p, q - other.low)
    return float(low), float(high)


def _yes(outcome: pd.Series) -> np.ndarray:
    values = list(pd.unique(outcome))
    if not 1 <= len(values) <= 2:
        raise ValueError(f"the outcome has {len(values)} different values; yes or no is needed")
    if set(values) <= {0, 1}:  # True and False, too
        return outcome.astype(bool).to_numpy()
    raise ValueError(f"say which of {values} is yes: df.assign(yes=df[...] == ...)")


def _samples(df: pd.DataFrame, value: Hashable, group: Hashable) -> dict[Hashable, np.ndarray]:
    values, groups = _finite(df[value]).to_numpy(), df[group]
    masks = {g: (groups == g).to_numpy(dtype=bool, na_value=False) for g in _levels(groups)}
    samples = {g: values[mask & ~np.isnan(values)] for g, mask in masks.items()}
    samples = {name: sample for name, sample in samples.items() if len(sample) >= 2}
    _refuse_groups(len(samples), group)
    return samples


def _refuse_groups(count: int, group: Hashable) -> None:
    if count < 2:
        raise ValueError(f"{group!r} has fewer than two groups with enough values")
    if count > 20:
        raise ValueError(f"{group!r} has {count} groups: which comparisons answer the question?")


def _levels(groups: pd.Series) -> list[Hashable]:
    known = groups.dropna()
    if isinstance(known.dtype, pd.CategoricalDtype):
        return [level for level in known.cat.categories if (known == level).any()]
    return sorted(known.unique(), key=lambda level: (type(level).__name__, level))


def _finite(column: pd.Series) -> pd.Series:
    values = pd.Series(column.to_numpy(dtype=float, na_value=np.nan), index=column.index)
    return values.replace([np.inf, -np.inf], np.nan)
