"""Series over time: their index, seasons, intervals and forecasts. Needs pandas and numpy.

Every function takes a Series with dates as its index, and changes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd

Forecast = Callable[[pd.Series, int], "np.ndarray | pd.Series | list[float]"]


def check_index(series: pd.Series) -> str:
    """What is to be known of a series' dates before anything is computed, a line each."""
    series = _dated(series)
    index = series.index
    if len(index) == 0:
        return "The series is empty."
    lines = [f"{len(index):,} values from {index.min()} to {index.max()}"]
    lines += list(_index_faults(index))
    unique = index.dropna().unique().sort_values()
    if len(unique) > 2:
        lines += list(_steps(unique))
    gaps = int(series.isna().sum())
    lines += [f"{gaps:,} values are missing"] if gaps else []
    return "\n".join(lines)


def regular(series: pd.Series, freq: str, how: str = "mean") -> pd.Series:
    """One value for each period of `freq`; periods without data are missing, not zero.

    Args:
        freq: As pandas writes it: `h`, `D`, `W-MON`, `MS`.
        how: `sum`, `mean`, `median`, `min`, `max`, `first`, `last` or `count`.

    Raises:
        ValueError: `how` is none of these.
    """
    known = ("sum", "mean", "median", "min", "max", "first", "last", "count")
    if how not in known:
        raise ValueError(f"how is one of {', '.join(known)}")
    periods = _dated(series).sort_index().resample(freq)
    if how == "sum":
        return periods.sum(min_count=1)  # a plain sum makes zeros of nothing
    return getattr(periods, how)()


def autocorrelation(series: pd.Series, lags: int | None = None) -> pd.DataFrame:
    """The correlation of a regular series with itself, and whether it is beyond chance.

    The band is Bartlett's for a series without memory, 1.96 / sqrt(n). A trend makes all
    correlations large: take differences first.
    """
    values = _values(series)
    n = int(np.isfinite(values).sum())
    if n < 8:
        raise ValueError("at least eight values are needed")
    lags = min(len(values) // 2, 40) if lags is None else min(lags, len(values) - 2)
    band = 1.96 / np.sqrt(n)
    found = [_lagged(values, lag) for lag in range(1, lags + 1)]
    table = pd.DataFrame({"lag": range(1, lags + 1), "r": found})
    table["beyond_chance"] = table["r"].abs() > band
    return table.set_index("lag")


def seasons(series: pd.Series, periods: list[int] | None = None) -> pd.DataFrame:
    """Which periods repeat: the share of variance around a smooth trend that each explains.

    The share is corrected for the number of phases, so that a long period does not win by its
    length; about 0 means no season. At least three cycles are needed of each.

    Args:
        periods: Numbers of steps to try; None: those that fit the step between the dates.
    """
    series = _dated(series)
    values = _values(series)
    tried = _usual_periods(series) if periods is None else periods
    records = []
    for period in tried:
        if not 2 <= period <= len(values) // 3:
            continue
        rest = values - _trend(values, period)
        phase = np.arange(len(values)) % period
        known = np.isfinite(rest)
        share = _explained(rest[known], phase[known])
        records.append({"period": period, "cycles": len(values) // period, "explains": share})
    table = pd.DataFrame(records, columns=["period", "cycles", "explains"])
    return table.sort_values("explains", ascending=False, ignore_index=True).round(3)


def mean_interval(
    series: pd.Series, block: int | None = None, level: float = 0.95, seed: int = 0
) -> pd.Series:
    """The mean with an interval from a moving block bootstrap, which keeps neighbours together.

    Args:
        block: Values in a block; None: twice as long as values remember, at least n^(1/3). With
            a season give a multiple of it.

    Returns:
        mean, low, high, n, block, and `effective_n`: how many independent values would give an
        interval as wide. For a series with a trend the mean itself means little.

    Raises:
        ValueError: Fewer than twenty values, or a block longer than a quarter of them.
    """
    values = _values(series)
    values = values[np.isfinite(values)]
    n = len(values)
    if n < 20:
        raise ValueError("at least twenty values are needed")
    block = _block(values) if block is None else block
    if not 1 <= block <= n // 4:
        raise ValueError(f"a block of {block} is too long for {n} values: a quarter at most")
    random = np.random.default_rng(seed)
    starts = random.integers(0, n - block + 1, size=(2_000, -(-n // block)))
    chosen = (starts[:, :, None] + np.arange(block)).reshape(2_000, -1)[:, :n]
    means = values[chosen].mean(axis=1)
    error = means.std(ddof=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means - means.mean() + values.mean(), [tail, 1 - tail])
    spread = values.var(ddof=1)
    effective = min(n, spread / error**2) if error > 0 else n
    names = ["mean", "low", "high", "n", "block", "effective_n"]
    found = [values.mean(), low, high, n, block, round(float(effective), 1)]
    return pd.Series(found, index=names, dtype=object)


def unusual(series: pd.Series, period: int = 1, limit: float = 5.0) -> pd.DataFrame:
    """Values far from the median around them, season taken out, in robust standard deviations.

    A hint where to look: it says nothing about why. Sudden changes of level show at their edge.

    Args:
        period: Steps in a season; 1 for none.
        limit: Robust standard deviations (1.4826 times the median absolute deviation).
    """
    series = _dated(series)
    values = _values(series)
    window = max(2 * period + 1, 15)
    rest = values - _trend(values, window, median=True)
    if period > 1:
        phase = np.arange(len(rest)) % period
        rest = rest - pd.Series(rest).groupby(phase).transform("median").to_numpy()
    middle = np.nanmedian(rest) if np.isfinite(rest).any() else np.nan
    scale = 1.4826 * np.nanmedian(np.abs(rest - middle)) if np.isfinite(middle) else np.nan
    if not scale > 0:
        return pd.DataFrame({"value": [], "deviations": []})
    deviations = (rest - middle) / scale
    table = pd.DataFrame({"value": values, "deviations": deviations.round(1)}, index=series.index)
    return table[np.abs(deviations) > limit]


def backtest(
    series: pd.Series,
    horizon: int,
    period: int = 1,
    folds: int = 5,
    models: Mapping[str, Forecast] | None = None,
) -> pd.DataFrame:
    """Forecasts from several origins in the past, judged on what came after. Best first.

    Naive forecasts are always among them: the last value, the value of the last season, and the
    drift from the first to the last value. Each model sees the past of its origin alone.

    Args:
        series: Regular, without repeated dates; missing values are not scored.
        horizon: Steps ahead.
        period: Steps in a season; 1 for none.
        folds: Origins, each a horizon later than the one before.
        models: `forecast(train, horizon)` by name.

    Returns:
        For each model: mae, rmse, bias (forecast minus truth), and mase (mae over that of the
        seasonal naive forecast one step ahead within the training data).

    Raises:
        ValueError: The series is too short or has repeated dates; or a model gives another
            number of values, or ones that are not finite.
    """
    series = _dated(series).sort_index()
    series = pd.Series(_values(series), index=series.index)
    if series.index.has_duplicates:
        raise ValueError("dates repeat themselves: aggregate first, with regular()")
    first = len(series) - folds * horizon
    if horizon < 1 or folds < 1 or first < max(2 * period, 4):
        raise ValueError(
            f"{len(series)} values are too few for {folds} folds of {horizon} steps after at "
            f"least {max(2 * period, 4)} to learn from"
        )
    if series.iloc[:first].notna().sum() < 2:
        raise ValueError("the first fold has fewer than two values to learn from")
    candidates = {**_naive(period), **(models or {})}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in candidates}
    scaled: dict[str, list[np.ndarray]] = {name: [] for name in candidates}
    for fold in range(folds):
        cut = first + fold * horizon
        train, truth = series.iloc[:cut], _values(series.iloc[cut : cut + horizon])
        scale = _scale(_values(train), period)
        for name, forecast in candidates.items():
            error = _forecast(name, forecast, train.copy(), horizon) - truth
            errors[name].append(error)
            scaled[name].append(np.abs(error) / scale)
    rows = [_scores(name, errors[name], scaled[name]) for name in candidates]
    return pd.DataFrame(rows).set_index("model").sort_values("mae").round(4)


def _naive(period: int) -> dict[str, Forecast]:
    def last(train: pd.Series, horizon: int) -> np.ndarray:
        return np.full(horizon, train.dropna().iloc[-1], dtype=float)

    def season(train: pd.Series, horizon: int) -> np.ndarray:
        values = train.to_numpy(dtype=float)
        phases = [values[len(values) - period + step :: -period] for step in range(period)]
        known = [phase[np.isfinite(phase)] for phase in phases]
        latest = [phase[0] if len(phase) else np.nanmean(values) for phase in known]
        return np.resize(latest, horizon)

    def drift(train: pd.Series, horizon: int) -> np.ndarray:
        values = train.to_numpy(dtype=float)
        where = np.flatnonzero(np.isfinite(values))
        slope = (values[where[-1]] - values[where[0]]) / max(1, where[-1] - where[0])
        return values[where[-1]] + slope * (np.arange(1, horizon + 1) + len(values) - 1 - where[-1])

    return {
        "last value": last,
        **({"same time last season": season} if period > 1 else {}),
        "drift": drift,
    }


def _forecast(name: str, forecast: Forecast, train: pd.Series, horizon: int) -> np.ndarray:
    values = np.asarray(forecast(train, horizon), dtype=float).ravel()
    if len(values) != horizon or not np.isfinite(values).all():
        raise ValueError(f"{name}: {horizon} finite values are needed, it gave {values[:5]} …")
    return values


def _scale(train: np.ndarray, period: int) -> float:
    """The mean error of the seasonal naive forecast within the training data."""
    steps = np.abs(train[period:] - train[:-period])
    scale = float(np.nanmean(steps)) if np.isfinite(steps).any() else float("nan")
    return scale if scale > 0 else float("nan")


def _scores(name: str, errors: list[np.ndarray], scaled: list[np.ndarray]) -> dict[str, object]:
    error, ratio = np.concatenate(errors), np.concatenate(scaled)
    error, ratio = error[np.isfinite(error)], ratio[np.isfinite(ratio)]
    if not len(error):
        raise ValueError("no value to score a forecast with: all later ones are missing")
    return {
        "model": name,
        "mae": np.abs(error).mean(),
        "rmse": np.sqrt((error**2).mean()),
        "bias": error.mean(),
        "mase": ratio.mean() if len(ratio) else np.nan,
        "scored": len(error),
    }


def _index_faults(index: pd.DatetimeIndex) -> Iterator[str]:
    if missing := int(index.isna().sum()):
        yield f"{missing:,} dates are missing"
    if not index.is_monotonic_increasing:
        yield "the dates are not in order: sort_index() first"
    if repeats := int(index.duplicated().sum()):
        yield f"{repeats:,} dates repeat an earlier one: aggregate, or find out why"
    if index.tz is not None:
        yield f"time zone: {index.tz}"
    elif (index.hour != 0).any():
        yield "times of day without a time zone: local or UTC? Clock changes matter in local time"


def _steps(unique: pd.DatetimeIndex) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it returns changes with pandas 4
        found = pd.infer_freq(unique)
    freq = getattr(found, "freqstr", found)
    if freq is not None:
        yield f"regular, step {freq}"
        return
    steps = pd.Series(unique[1:] - unique[:-1])
    usual = steps.mode().iloc[0]
    if (steps == usual).mean() < 0.5:
        yield f"irregular: steps from {steps.min()} to {steps.max()}, median {steps.median()}"
        return
    yield f"usual step {usual}, in {(steps == usual).mean():.1%} of the cases"
    for position in np.argsort(-steps.to_numpy())[:3]:
        if steps[position] > usual:
            yield f"gap of {steps[position]} after {unique[position]}"


def _usual_periods(series: pd.Series) -> list[int]:
    unique = series.index.dropna().unique().sort_values()
    if len(unique) < 3:
        return []
    step = pd.Series(unique[1:] - unique[:-1]).median()
    hours = step / pd.Timedelta(hours=1)
    if hours < 0.9:
        return [round(1 / hours), round(24 / hours), round(168 / hours)]
    if hours < 23:
        return [round(24 / hours), round(168 / hours)]
    if hours < 25:
        return [5, 7, 30, 91, 365]
    return {7: [4, 13, 52], 30: [3, 6, 12], 31: [3, 6, 12]}.get(round(hours / 24), [4, 12])


def _trend(values: np.ndarray, window: int, median: bool = False) -> np.ndarray:
    """A centred moving average over whole seasons (half weights at the ends if even), or median."""
    smooth = pd.Series(values)
    if median:
        return smooth.rolling(window, center=True, min_periods=window // 2).median().to_numpy()
    if window % 2:
        return smooth.rolling(window, center=True).mean().to_numpy()
    first = smooth.rolling(window, center=True).mean()
    return ((first + first.shift(-1)) / 2).to_numpy()


def _explained(rest: np.ndarray, phase: np.ndarray) -> float:
    """The adjusted share of variance between phases."""
    n, k = len(rest), len(np.unique(phase))
    if n <= k + 1:
        return float("nan")
    total = float(((rest - rest.mean()) ** 2).sum())
    means = pd.Series(rest).groupby(phase).transform("mean").to_numpy()
    within = float(((rest - means) ** 2).sum())
    if total <= 0:
        return float("nan")
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))


def _block(values: np.ndarray) -> int:
    """Twice the number of lags until the autocorrelation falls into the band of chance."""
    n = len(values)
    band, most = 1.96 / np.sqrt(n), n // 4
    memory = next((lag for lag in range(1, most) if abs(_lagged(values, lag)) < band), most)
    return int(np.clip(2 * memory, round(n ** (1 / 3)), most))


def _lagged(values: np.ndarray, lag: int) -> float:
    centred = values - np.nanmean(values)
    spread = np.nanmean(centred**2)
    products = centred[lag:] * centred[:-lag]
    if not spread > 0 or not np.isfinite(products).any():
        return 0.0
    # Over n, not over the number of pairs, as is usual: long lags are not exaggerated.
    share = np.isfinite(products).sum() / np.isfinite(values).sum()
    return float(np.nanmean(products) / spread * share)


def _dated(series: pd.Series) -> pd.Series:
    if not isinstance(series, pd.Series):
        raise TypeError(f"a Series is needed, not {type(series).__name__}: df.set_index(...)[...]")
    if isinstance(series.index, pd.PeriodIndex):
        return series.to_timestamp()
    if not isinstance(series.index, pd.DatetimeIndex):
        raise TypeError("the index must be dates: set_index(pd.to_datetime(...))")
    return series


def _values(series: pd.Series) -> np.ndarray:
    values = series.to_numpy(dtype=float, na_value=np.nan).copy()
    values[~np.isfinite(values)] = np.nan
    return values
