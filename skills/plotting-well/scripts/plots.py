"""Recipes for figures, and a check of finished ones. Needs pandas, numpy and matplotlib."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from matplotlib.ticker import MaxNLocator

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, without yellow, which is too faint for points and lines."""
GREY = "#999999"
_RAINBOWS = frozenset({"jet", "rainbow", "gist_rainbow", "hsv", "nipy_spectral", "gist_ncar"})
_SHOWN_POINTS = 400
_CROWDED = 5_000
_MOST_GROUPS = 20

Drawing = tuple[Figure, Axes]


@contextmanager
def style() -> Iterator[None]:
    """Calm axes, readable sizes, colours that everyone can tell apart, for what is drawn within."""
    settings = {
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 12,
        "axes.labelsize": 10.5,
        "xtick.labelsize": 9.5,
        "ytick.labelsize": 9.5,
        "legend.frameon": False,
        "figure.figsize": (7, 4.2),
        "figure.dpi": 100,
        "figure.constrained_layout.use": True,
        "image.cmap": "viridis",
    }
    with plt.rc_context(settings):
        yield


def points_by_group(
    df: pd.DataFrame, value: Hashable, group: Hashable, unit: str = "", ax: Axes | None = None
) -> Drawing:
    """Every value as a point, and for each group its mean with a 95 % interval (Student's t).

    Groups are sorted by their mean; of more than 400 points in one a random part is drawn.
    """
    fig, ax = _axes(ax)
    data = _numbers(df, value, group)
    means = data.groupby("group", observed=True)["value"].mean().sort_values()
    names = list(means.index)[-_MOST_GROUPS:]
    random = np.random.default_rng(0)
    for position, name in enumerate(names):
        values = data.loc[data["group"] == name, "value"].to_numpy()
        shown = (
            values
            if len(values) <= _SHOWN_POINTS
            else random.choice(values, _SHOWN_POINTS, replace=False)
        )
        scatter = random.uniform(-0.17, 0.17, len(shown))
        ax.plot(position + scatter, shown, "o", ms=4, alpha=0.35, mew=0, color=GREY, zorder=1)
        low, high = mean_interval(values)
        ax.plot([position + 0.28] * 2, [low, high], lw=2.5, color=COLOURS[0], zorder=3)
        ax.plot(position + 0.28, values.mean(), "o", ms=7, color=COLOURS[0], zorder=3)
    counts = data["group"].value_counts()
    ax.set_xticks(range(len(names)), [f"{_short(name)}\nn = {counts[name]:,}" for name in names])
    ax.set_xlim(-0.5, len(names) - 0.3)
    ax.set_xlabel(str(group))
    ax.set_ylabel(_label(value, unit))
    left_out = len(means) - len(names)
    note = f" ({left_out} groups with smaller means left out)" if left_out else ""
    ax.set_title(f"{value} by {group}: values, mean, 95 % interval of the mean{note}")
    return fig, ax


def distribution(
    values: pd.Series, by: pd.Series | None = None, unit: str = "", ax: Axes | None = None
) -> Drawing:
    """A histogram with bins by Freedman and Diaconis, the same for all groups, as outlines."""
    fig, ax = _axes(ax)
    frame = pd.DataFrame({"value": values})
    frame["group"] = "all" if by is None else by
    data = _numbers(frame, "value", "group")
    edges = np.histogram_bin_edges(data["value"], bins="fd")
    if len(edges) > 121:  # a long tail makes the rule's bins absurdly narrow
        edges = np.histogram_bin_edges(data["value"], bins=120)
    shares = data["group"].nunique() > 1
    for name, part in data.groupby("group", observed=True, sort=True):
        weights = np.full(len(part), 100 / len(part)) if shares else None
        label = f"{_short(name)} (n = {len(part):,})"
        filled = {"histtype": "step", "lw": 1.8} if shares else {"color": COLOURS[0]}
        ax.hist(part["value"], bins=edges, weights=weights, label=label, **filled)
    ax.set_xlabel(_label(getattr(values, "name", None) or "value", unit))
    ax.set_ylabel("share of the group (%)" if shares else "number of values")
    ax.set_title(f"n = {len(data):,}")
    if shares:
        ax.legend()
    return fig, ax


def lines(
    df: pd.DataFrame, x: Hashable, y: Hashable, by: Hashable | None = None, ax: Axes | None = None
) -> Drawing:
    """Lines over time or another order, named at their ends. Missing values leave gaps.

    Raises:
        ValueError: An x occurs more than once in a line: aggregate first, and say how.
    """
    fig, ax = _axes(ax)
    groups = [("", df)] if by is None else list(df.groupby(by, observed=True, sort=True))
    for number, (name, part) in enumerate(groups[:_MOST_GROUPS]):
        ordered = part.sort_values(x)
        if ordered[x].duplicated().any():
            raise ValueError(
                f"{x!r} repeats itself{f' in {name!r}' if name else ''}: aggregate first"
            )
        colour = COLOURS[number] if number < len(COLOURS) else GREY
        ax.plot(ordered[x], ordered[y], color=colour, lw=1.8)
        known = ordered.dropna(subset=[y])
        if name != "" and len(known):
            end = (known[x].iloc[-1], known[y].iloc[-1])
            ax.annotate(f" {_short(name)}", end, color=colour, va="center", annotation_clip=False)
    ax.set_xlabel(str(x))
    ax.set_ylabel(str(y))
    if len(groups) > _MOST_GROUPS:
        ax.set_title(f"the first {_MOST_GROUPS} of {len(groups)} values of {by}")
    if pd.api.types.is_integer_dtype(df[x].dtype):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))  # no year 2007.5
    return fig, ax


def scatter(
    df: pd.DataFrame, x: Hashable, y: Hashable, by: Hashable | None = None, ax: Axes | None = None
) -> Drawing:
    """Points, fainter the more there are; hexagons on a logarithmic scale beyond 5,000."""
    fig, ax = _axes(ax)
    columns = [x, y] if by is None else [x, y, by]
    data = df[columns].replace([np.inf, -np.inf], np.nan).dropna()
    if len(data) > _CROWDED:
        drawn = ax.hexbin(data[x], data[y], gridsize=50, bins="log", mincnt=1, cmap="viridis")
        fig.colorbar(drawn, ax=ax, label="number of points (log scale)")
    else:
        alpha = float(np.clip(30 / max(1, len(data)) ** 0.5, 0.15, 0.8))
        groups = [("", data)] if by is None else list(data.groupby(by, observed=True, sort=True))
        for name, part in groups:
            ax.scatter(part[x], part[y], s=18, alpha=alpha, linewidths=0, label=_short(name))
        if by is not None:
            ax.legend(title=str(by))
    ax.set_xlabel(str(x))
    ax.set_ylabel(str(y))
    ax.set_title(f"n = {len(data):,}")
    return fig, ax


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a mean by Student's t; (nan, nan) for fewer than two values."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return float("nan"), float("nan")
    half = _t975(len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def check(figure: Any) -> list[str]:
    """What is wrong with a figure or axes, one line for each fault; empty where nothing was found.

    It sees what can be seen in the objects: labels, scales, colours, crowding. Whether the
    figure answers the question, only looking at it tells.
    """
    fig = figure if hasattr(figure, "axes") and not isinstance(figure, Axes) else figure.figure
    chosen = [figure] if isinstance(figure, Axes) else list(fig.axes)
    chosen = [ax for ax in chosen if ax.get_visible() and ax.get_label() != "<colorbar>"]
    if not chosen:
        return ["the figure has no axes"]
    fig.canvas.draw()
    faults: list[str] = []
    for number, ax in enumerate(chosen, 1):
        where = f"axes {number}: " if len(chosen) > 1 else ""
        faults += [where + fault for fault in _faults(ax)]
    faults += _twins(chosen)
    return faults


def _faults(ax: Axes) -> Iterator[str]:
    if not ax.has_data():
        yield "nothing is drawn"
        return
    wedges = [patch for patch in ax.patches if isinstance(patch, Wedge)]
    if wedges:
        if len(wedges) > 3:
            yield f"a pie of {len(wedges)} parts: use sorted bars"
        return
    yield from _label_faults(ax)
    yield from _bar_faults(ax)
    yield from _colour_faults(ax)
    yield from _crowding(ax)


def _label_faults(ax: Axes) -> Iterator[str]:
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if not axis.get_visible() or not ax.axison:
            continue
        ticks = [label for label in axis.get_ticklabels() if label.get_text()]
        words = bool(ticks) and not any(c.isdigit() for c in "".join(t.get_text() for t in ticks))
        shared = ax.get_shared_x_axes() if name == "x" else ax.get_shared_y_axes()
        inner = len(shared.get_siblings(ax)) > 1 and not ticks
        if not axis.get_label_text().strip() and not words and not inner:
            yield f"the {name} axis has no label (quantity and unit)"
        if any(label.get_fontsize() < 7 for label in ticks):
            yield f"the labels of the {name} axis are smaller than 7 points"
        if _overlap(ticks):
            yield f"the labels of the {name} axis overlap: fewer of them, or horizontal bars"
        if any(label.get_rotation() % 180 not in (0, 90) for label in ticks):
            yield f"the labels of the {name} axis are slanted: use horizontal bars"


def _bar_faults(ax: Axes) -> Iterator[str]:
    for bars in (one for one in ax.containers if isinstance(one, BarContainer)):
        upright = getattr(bars, "orientation", "vertical") != "horizontal"
        low, high = sorted(ax.get_ylim() if upright else ax.get_xlim())
        scale = ax.get_yscale() if upright else ax.get_xscale()
        if scale == "log":
            yield "bars on a log scale: their length means nothing; use points"
        elif low > 0 or high < 0:
            yield "bars do not start at zero"
        return


def _colour_faults(ax: Axes) -> Iterator[str]:
    for mapped in (*ax.images, *ax.collections):
        scheme = getattr(getattr(mapped, "cmap", None), "name", "")
        if mapped.get_array() is not None and scheme.removesuffix("_r") in _RAINBOWS:
            yield f"the colour map {scheme} misleads: use viridis, or RdBu_r for deviations"
    colours = {to_rgb(line.get_color()) for line in ax.lines if line.get_visible()}
    if len(colours) > 8:
        yield f"{len(colours)} colours of lines: show a few, the rest in grey, or small multiples"
    if _has_red_and_green(colours):
        yield "red and green tell lines apart: many people cannot see that"
    legend = ax.get_legend()
    if legend is not None and len(legend.get_texts()) > 8:
        yield f"a legend of {len(legend.get_texts())} entries: label directly, or small multiples"


def _crowding(ax: Axes) -> Iterator[str]:
    for points in (one for one in ax.collections if isinstance(one, PathCollection)):
        alpha = points.get_alpha()
        count = len(points.get_offsets())
        if count > _CROWDED and (alpha is None or alpha > 0.3):
            yield f"{count:,} points hide each other: use scatter() or hexbin"
    for axis, limits in (("x", ax.get_xlim()), ("y", ax.get_ylim())):
        if not all(np.isfinite(limits)):
            yield f"the {axis} axis has no finite limits"


def _twins(axes: list[Axes]) -> list[str]:
    boxes = [ax.get_position().bounds for ax in axes if ax.axison]
    return ["two y axes in one panel: draw two panels"] if len(boxes) > len(set(boxes)) else []


def _has_red_and_green(colours: set[tuple[float, float, float]]) -> bool:
    red = any(r > 0.7 and g < 0.25 and b < 0.25 for r, g, b in colours)
    green = any(g > 0.4 and r < 0.3 and b < 0.3 for r, g, b in colours)
    return red and green


def _overlap(labels: list[Any]) -> bool:
    boxes = [label.get_window_extent() for label in labels if label.get_visible()]
    return any(one.overlaps(other) for one, other in pairwise(boxes))


def _numbers(df: pd.DataFrame, value: Hashable, group: Hashable) -> pd.DataFrame:
    """Finite values with their groups. Raises ValueError where there is none."""
    values = pd.Series(df[value].to_numpy(dtype=float, na_value=np.nan))
    data = pd.DataFrame({"value": values, "group": df[group].astype(object).to_numpy()})
    data = data[np.isfinite(data["value"])].dropna()
    if data.empty:
        raise ValueError(f"{value!r} has no values that can be drawn")
    return data


def _axes(ax: Axes | None) -> Drawing:
    if ax is None:
        fig, ax = plt.subplots()
        return fig, ax
    return ax.figure, ax  # type: ignore[return-value]


def _label(name: Hashable, unit: str) -> str:
    return f"{name} ({unit})" if unit else str(name)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 18 else text[:17] + "…"


def _t975(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    try:
        from scipy.stats import t
    except ImportError:
        # Cornish and Fisher's expansion: within 0.3 % from four degrees of freedom on.
        z = 1.959964
        exact = {1: 12.7062, 2: 4.3027, 3: 3.1824}
        terms = (
            (z**3 + z) / (4 * freedom)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        )
        return exact.get(freedom, z + terms)
    return float(t.ppf(0.975, freedom))
