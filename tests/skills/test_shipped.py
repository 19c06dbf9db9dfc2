"""The shipped skills: their texts keep the rules, their scripts work on real and on nasty data."""

from __future__ import annotations

import importlib
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from jupyter_agent.skills import importing
from jupyter_agent.skills.discovery import Place, Skill, discover, shipped_folder
from jupyter_agent.skills.folder import contents, read_skill
from jupyter_agent.skills.prompt import module_of
from jupyter_agent.skills.session import whole

DATA = Path(__file__).parents[2] / "example_notebooks/data/penguins.csv"
SHIPPED = Place("shipped", shipped_folder(), "shipped with jupyter_agent")
SKILLS = discover([SHIPPED])
NAMES = [skill.name for skill in SKILLS.skills]
TOPICS = {
    "exploring-tables",
    "cleaning-tables",
    "plotting-well",
    "testing-hypotheses",
    "time-series",
    "reproducible-notebooks",
}


@pytest.fixture(autouse=True, scope="module")
def finder() -> Iterator[None]:
    matplotlib.use("agg")
    importing.install(lambda: discover([SHIPPED]))
    yield
    importing.uninstall()


@pytest.fixture(scope="module")
def stats() -> ModuleType:
    """`scipy.stats`, whose import takes a second that no other worker needs to spend."""
    return importlib.import_module("scipy.stats")


@pytest.fixture
def penguins() -> pd.DataFrame:
    return pd.read_csv(DATA)


def script(skill: str, name: str) -> ModuleType:
    return importlib.import_module(f"{module_of(skill)}.{name}")


def nasty() -> pd.DataFrame:
    """Whatever a column may hold, with two columns of the same name and a repeated index."""
    columns = {
        "lists": [[1], [2], [1]],
        "mixed": [1, "x", None],
        "infinite": [np.inf, -np.inf, np.nan],
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "zoned": pd.to_datetime(["2024-01-01", None, "2024-02-01"], utc=True),
        "texts": ["03/04/2024", "5.5", "n/a"],
        "category": pd.Categorical(["a", "A ", "b"]),
        "complex": [1 + 2j, 2, 3],
        "empty": [None, None, None],
        "sentinel": [-999, 1.5, 2.5],
        "maybe": [True, None, False],
        "span": pd.to_timedelta([1, 2, 3], unit="s"),
        "long": ["x" * 10_000, "<b>", "\x1b[2J"],
        3: [1, 1, 1],
    }
    df = pd.concat([pd.DataFrame(columns)] * 10)
    return df.set_axis([*df.columns[:-1], "mixed"], axis=1)


NASTY = {
    "nasty": nasty,
    "no columns": pd.DataFrame,
    "no rows": lambda: pd.DataFrame({"x": [], "y": pd.Series([], dtype=str)}),
    "one row": lambda: pd.DataFrame({"x": [1.5], "y": ["a"]}),
    "all missing": lambda: pd.DataFrame({"x": [np.nan] * 30, "y": [None] * 30}),
    "two headers": lambda: pd.DataFrame({("a", 1): range(30), (2, "b"): ["x", "y", "z"] * 10}),
}


def test_the_six_are_there() -> None:
    """All topics ship, without a notice or a warning."""
    assert set(NAMES) >= TOPICS and SKILLS.notices == ()


@pytest.mark.parametrize("skill", SKILLS.skills, ids=NAMES)
def test_texts(skill: Skill) -> None:
    """A SKILL.md is short, keeps the specification, and names every file beside it."""
    text = read_skill(skill.folder)
    assert skill.warnings == () and len(text.splitlines()) < 150
    assert "Use " in skill.front.description and skill.front.license
    files = contents(skill.folder).resources
    assert any(file.path.startswith("scripts/") for file in files)
    for file in files:
        module = Path(file.path).stem
        assert file.path in text or f"import {module}" in text


@pytest.mark.parametrize("skill", SKILLS.skills, ids=NAMES)
def test_every_function_that_a_text_names_exists(skill: Skill) -> None:
    """The examples of a SKILL.md call what there is, with arguments that it takes."""
    import ast
    import inspect

    text = whole(skill)
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:1]
    tree = ast.parse(block)
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert found.module == module_of(skill.name)
    module = script(skill.name, found.names[0].name)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == found.names[0].name
    ]
    assert len(calls) >= 4
    for call in calls:
        function = getattr(module, call.func.attr)  # type: ignore[union-attr]
        keywords = {word.arg: None for word in call.keywords}
        inspect.signature(function).bind(*call.args, **keywords)  # type: ignore[arg-type]
    for name in re.findall(rf"`{found.names[0].name}\.(\w+)", text):
        assert hasattr(module, name)


# --- exploring -----------------------------------------------------------------------------------


def test_exploring_penguins(penguins: pd.DataFrame, stats: ModuleType) -> None:
    """Real data: kinds, missing values and the associations that are known of them."""
    overview = script("exploring-tables", "overview")
    assert overview.summary(penguins).startswith("344 rows, 8 columns")
    found = overview.columns(penguins)
    assert found.loc["species", "kind"] == "category" and found.loc["year", "kind"] == "code"
    assert found.loc["sex", "missing %"] == 3.2
    assert overview.keys(penguins) == []
    assert overview.keys(penguins.reset_index())[0] == ["index"]
    patterns = overview.missing_together(penguins)
    assert patterns["rows"].sum() == 344 and patterns.loc[1, "missing"] == "sex"
    strongest = overview.associations(penguins, "body_mass_g").iloc[0]
    expected = abs(
        stats.spearmanr(penguins.flipper_length_mm, penguins.body_mass_g, nan_policy="omit")[0]
    )
    assert strongest["with"] == "flipper_length_mm"
    assert strongest["strength"] == round(expected, 3)


def test_exploring_finds_what_is_wrong() -> None:
    """A column for each fault: each is told, and a clean column beside them is not."""
    overview = script("exploring-tables", "overview")
    n = 200
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {
            "clean": rng.normal(size=n),
            "sentinel": np.where(np.arange(n) % 20 == 0, -999, rng.uniform(0, 5, n)),
            "number": [f"{k},000.5" for k in range(n)],
            "date": [f"2024-01-{k % 28 + 1:02}" for k in range(n)],
            "spelling": ["Berlin", "berlin", "Bonn", "Bonn "] * (n // 4),
            "zip": [f"0{k % 90 + 1000}" for k in range(n)],
            "constant": 1,
        }
    )
    said = overview.summary(df)
    for part in (
        "sentinel: 10 times -999",
        "number: holds numbers as text",
        "date: holds dates as text",
        "spelling: 50 values begin or end with spaces",
        "spellings of the same word: 'Berlin', 'berlin'",
        "constant: has one value only",
    ):
        assert part in said
    assert "clean" not in said
    assert overview.columns(df).loc["zip", "kind"] == "code with leading zeros"


def test_associations_of_noise_are_small() -> None:
    """Columns that have nothing to do with each other: all strengths are near zero."""
    overview = script("exploring-tables", "overview")
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"x": rng.normal(size=500), "y": rng.normal(size=500)})
    df["a"], df["b"] = rng.choice(list("abcdefgh"), 500), rng.choice(list("vwxyz"), 500)
    assert overview.associations(df)["strength"].max() < 0.2


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_exploring_nasty_tables(make: type[pd.DataFrame]) -> None:
    """Any table gets an answer from every function, and stays as it was."""
    overview = script("exploring-tables", "overview")
    df, before = make(), make()
    overview.summary(df)
    overview.columns(df).to_string()
    overview.keys(df)
    overview.missing_together(df)
    overview.associations(df)
    pd.testing.assert_frame_equal(df, before)


# --- cleaning ------------------------------------------------------------------------------------


def test_cleaning_numbers() -> None:
    """Numbers as people write them; what is none is counted; doubtful notation is refused."""
    cleaning = script("cleaning-tables", "cleaning")
    texts = ["1,234.50 €", "(12)", "5 %", "n/a", "abc", None, "1e3", "-.5", "12.", 7, "\u22123"]
    numbers, unread = cleaning.to_numbers(pd.Series(texts))
    expected = [1234.5, -12, 0.05, np.nan, np.nan, np.nan, 1000, -0.5, 12, 7, -3]
    np.testing.assert_allclose(numbers, expected)
    assert dict(unread) == {"abc": 1}
    assert list(cleaning.to_numbers(pd.Series(["1.234,5", "3"]), decimal=",")[0]) == [1234.5, 3]
    for doubtful in ("1.234,5", "1,5", "1,23,456"):
        with pytest.raises(ValueError, match="decimal"):
            cleaning.to_numbers(pd.Series([doubtful]))


def test_cleaning_dates() -> None:
    """Day or month first is never guessed: another date decides, or the person does."""
    cleaning = script("cleaning-tables", "cleaning")
    dates, unread = cleaning.to_dates(
        pd.Series(["03/04/2024", "25/12/2023", "2024-02-03", "no", None])
    )
    assert [str(d)[:10] for d in dates] == ["2024-04-03", "2023-12-25", "2024-02-03", "NaT", "NaT"]
    assert dict(unread) == {"no": 1}
    with pytest.raises(ValueError, match="two ways"):
        cleaning.to_dates(pd.Series(["03/04/2024"]))
    with pytest.raises(ValueError, match="two formats"):
        cleaning.to_dates(pd.Series(["25/12/2023", "12/25/2023"]))
    with pytest.raises(ValueError, match="numbers"):
        cleaning.to_dates(pd.Series([20240102]))
    assert (
        str(cleaning.to_dates(pd.Series(["03/04/2024"]), dayfirst=False)[0][0])[:10] == "2024-03-04"
    )


def test_cleaning_names_words_and_rows() -> None:
    """Names are tidy and all different; spellings and conflicts are found; the receipt adds up."""
    cleaning = script("cleaning-tables", "cleaning")
    names = cleaning.tidy_names(["Price (€)", "priceEUR", "price", "1st", ("a", "b"), "", 3])
    assert list(names.values()) == ["price", "price_eur", "price_2", "_1st", "a_b", "column", "_3"]
    words = pd.Series(["Berlin", "berlin ", "Berlin", "Zürich", "Zurich", None, 3])
    assert cleaning.spellings(words)["berlin "] == "Berlin"
    raw = pd.DataFrame({"id": [1, 2, 2, 3, 3], "v": ["1", "2", "2", "3", "4"]})
    assert list(cleaning.conflicts(raw, "id")["v"]) == ["3", "4"]
    clean = raw.iloc[[0, 1, 3]].assign(v=[1.0, 2.0, 9.0])
    receipt = cleaning.compare(raw, clean)
    assert "rows: 5 -> 3 (-2)" in receipt and "1 cells differ" in receipt


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_the_forecast_of_a_join_comes_true(how: str) -> None:
    """check_join says how many rows a join will give; the join gives as many."""
    cleaning = script("cleaning-tables", "cleaning")
    left = pd.DataFrame({"id": [1, 2, 2, 3, 3], "a": range(5)})
    right = pd.DataFrame({"id": [2, 2, 3, 9], "b": range(4)})
    said = cleaning.check_join(left, right, "id")
    rows = int(re.search(rf"{how} (\d+)", said)[1])  # type: ignore[index]
    assert rows == len(left.merge(right, on="id", how=how)) and "many-to-many" in said
    assert "make them alike" in cleaning.check_join(left, right.astype(str), "id")


# --- plotting ------------------------------------------------------------------------------------


def test_plots_of_penguins_have_no_faults(penguins: pd.DataFrame) -> None:
    """Every recipe on real data gives a figure in which the check finds nothing."""
    plots = script("plotting-well", "plots")
    means = penguins.groupby(["year", "species"], as_index=False)["body_mass_g"].mean()
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 2)), columns=["a", "b"])
    with plots.style():
        figures = [
            plots.points_by_group(penguins, "body_mass_g", "species", unit="g"),
            plots.distribution(penguins["body_mass_g"], by=penguins["sex"], unit="g"),
            plots.distribution(penguins["body_mass_g"]),
            plots.lines(means, "year", "body_mass_g", "species"),
            plots.scatter(penguins, "flipper_length_mm", "body_mass_g", "species"),
            plots.scatter(many, "a", "b"),
        ]
    assert [plots.check(fig) for fig, _ in figures] == [[]] * 6
    with pytest.raises(ValueError, match="aggregate first"):
        plots.lines(penguins, "year", "body_mass_g")
    with pytest.raises(ValueError, match="no values"):
        plots.points_by_group(penguins.assign(body_mass_g=np.nan), "body_mass_g", "species")


def test_the_check_finds_faults() -> None:
    """A figure with one fault each: the check names it."""
    import matplotlib.pyplot as plt

    plots = script("plotting-well", "plots")

    def drawn(draw: object) -> str:
        fig, ax = plt.subplots()
        draw(ax)  # type: ignore[operator]
        return "; ".join(plots.check(fig))

    def cut(ax: object) -> None:
        ax.bar(["a", "b"], [5, 6])  # type: ignore[attr-defined]
        ax.set_ylim(4, 7)  # type: ignore[attr-defined]

    assert "do not start at zero" in drawn(cut)
    assert "no label" in drawn(lambda ax: ax.plot([1, 2]))
    assert "two y axes" in drawn(lambda ax: (ax.plot([1, 2]), ax.twinx().plot([2, 1])))
    assert "pie of 5" in drawn(lambda ax: ax.pie([1] * 5))
    assert "jet misleads" in drawn(lambda ax: ax.imshow(np.eye(3), cmap="jet"))
    assert "red and green" in drawn(lambda ax: (ax.plot([1, 2], "r"), ax.plot([2, 1], "g")))
    assert "slanted" in drawn(
        lambda ax: ax.set_xticks([0, 1], ["a", "b"], rotation=45) and ax.plot([1])
    )
    assert "hide each other" in drawn(lambda ax: ax.scatter(range(6_000), range(6_000)))
    assert plots.check(Figure()) == ["the figure has no axes"]
    plt.close("all")


def test_the_interval_of_a_mean_without_scipy(stats: ModuleType) -> None:
    """The approximation that stands in for scipy is near the truth; one value gives none."""
    plots = script("plotting-well", "plots")
    values = np.random.default_rng(0).normal(size=8)
    low, high = plots.mean_interval(values)
    expected = stats.t.interval(0.95, 7, values.mean(), stats.sem(values))
    np.testing.assert_allclose((low, high), expected)
    assert np.isnan(plots.mean_interval([1.0])).all()


# --- testing -------------------------------------------------------------------------------------


def test_means_against_scipy(penguins: pd.DataFrame, stats: ModuleType) -> None:
    """Welch's differences, intervals and p-values are scipy's; Holm's are the known ones."""
    test = script("testing-hypotheses", "test")
    found = test.compare_means(penguins, "body_mass_g", "species").set_index(["group", "minus"])
    groups = {n: g["body_mass_g"].dropna() for n, g in penguins.groupby("species")}
    result = stats.ttest_ind(groups["Adelie"], groups["Gentoo"], equal_var=False)
    row = found.loc[("Adelie", "Gentoo")]
    interval = result.confidence_interval()
    np.testing.assert_allclose([row.low, row.high, row.p], [*interval, result.pvalue])
    assert [round(-v) for v in (row.difference, row.high, row.low)] == [1375, 1260, 1491]
    assert found.attrs["left_out"] == 2 and found.attrs["welch_anova_p"] < 1e-50
    np.testing.assert_allclose(test.adjust([0.01, 0.04, 0.03, np.nan]), [0.03, 0.06, 0.06, np.nan])
    p = np.random.default_rng(0).uniform(size=20)
    np.testing.assert_allclose(test.adjust(p, "fdr"), stats.false_discovery_control(p))


def test_welch_anova_of_two_groups_is_the_t_test(penguins: pd.DataFrame, stats: ModuleType) -> None:
    """With two groups Welch's ANOVA has the p-value of Welch's t-test."""
    test = script("testing-hypotheses", "test")
    a, b = (g["body_mass_g"].dropna().to_numpy()[:30] for _, g in penguins.groupby("sex"))
    assert np.isclose(test._welch_anova([a, b]), stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_error_rates_hold() -> None:
    """No difference, many times: about 5 % are called significant, by the permutation test, too."""
    test = script("testing-hypotheses", "test")
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        df = pd.DataFrame({"x": rng.exponential(size=40), "g": ["a"] * 15 + ["b"] * 25})
        found.append(test.permutation(df, "x", "g", np.median, times=99)["p"][0] <= 0.05)
    assert 0.01 < np.mean(found) < 0.10


def test_shares_pairs_and_relations(penguins: pd.DataFrame, stats: ModuleType) -> None:
    """Newcombe's published example, a paired test against scipy, and correlations in intervals."""
    test = script("testing-hypotheses", "test")
    yes = pd.DataFrame(
        {"x": [1] * 56 + [0] * 14 + [1] * 48 + [0] * 32, "g": ["a"] * 70 + ["b"] * 80}
    )
    row = test.compare_shares(yes, "x", "g").iloc[0]
    np.testing.assert_allclose(
        [row.difference, row.low, row.high], [0.2, 0.0524, 0.3339], atol=1e-4
    )
    with pytest.raises(ValueError, match="which of"):
        test.compare_shares(penguins, "sex", "species")
    pair = test.compare_pairs(penguins, "bill_length_mm", "bill_depth_mm").iloc[0]
    known = penguins.dropna(subset=["bill_length_mm"])
    result = stats.ttest_rel(known["bill_depth_mm"], known["bill_length_mm"])
    np.testing.assert_allclose([pair.low, pair.high], result.confidence_interval())
    relation = test.relation(penguins, "flipper_length_mm", "body_mass_g")
    assert ((relation.low < relation.value) & (relation.value < relation.high)).all()
    units = test.by_unit(penguins, "body_mass_g", "species")
    assert list(units["measurements"]) == [151, 68, 123]
    with pytest.raises(ValueError, match="differs within"):
        test.by_unit(penguins, "body_mass_g", "species", keep=["sex"])


def test_sample_sizes() -> None:
    """The textbook's 64 for half a standard deviation and 80 % power, and back again."""
    test = script("testing-hypotheses", "test")
    assert test.sample_size(0.5, 1) == 64 and test.sample_size(-0.5, 1) == 64
    assert abs(test.detectable(64, 64) - 0.5) < 0.005
    assert test.sample_size(50, 1) == 2
    with pytest.raises(ValueError, match="must not be 0"):
        test.sample_size(0, 1)


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_testing_nasty_tables(make: type[pd.DataFrame]) -> None:
    """A table without what a test needs is refused with one line, never answered with nonsense."""
    test = script("testing-hypotheses", "test")
    df = make()
    df = df.set_axis([str(n) for n in range(df.shape[1])], axis=1).reset_index(drop=True)
    df["value"] = 1.0 if len(df) else np.nan
    df["group"] = pd.Series([None] * len(df), dtype=object)
    for call in (
        lambda: test.compare_means(df, "value", "group"),
        lambda: test.permutation(df, "value", "group"),
        lambda: test.relation(df, "value", "value"),
    ):
        with pytest.raises(ValueError):
            call()


# --- time series ---------------------------------------------------------------------------------


@pytest.fixture
def daily() -> pd.Series:
    rng = np.random.default_rng(0)
    noise = np.zeros(210)
    for day in range(1, 210):
        noise[day] = 0.6 * noise[day - 1] + rng.normal()
    week = 3 * np.sin(np.arange(210) * 2 * np.pi / 7)
    return pd.Series(10 + week + noise, index=pd.date_range("2023-01-01", periods=210))


def test_the_index_is_described(daily: pd.Series) -> None:
    """Gaps, repeats, disorder and time zones are told; a regular series is called so."""
    series = script("time-series", "series")
    assert "regular, step D" in series.check_index(daily)
    broken = pd.concat([daily.drop(daily.index[100:110]), daily.iloc[:2]])
    said = series.check_index(broken)
    for part in ("not in order", "2 dates repeat", "gap of 11 days"):
        assert part in said
    assert "time zone: UTC" in series.check_index(daily.tz_localize("UTC"))
    whole = series.regular(broken, "D", "sum")
    assert whole.isna().sum() == 10, "missing is not zero"
    with pytest.raises(TypeError, match="must be dates"):
        series.check_index(pd.Series([1, 2]))


def test_seasons_outliers_and_intervals(daily: pd.Series) -> None:
    """The week is found, the planted outlier too, and dependence widens the interval."""
    series = script("time-series", "series")
    assert series.seasons(daily)["period"][0] == 7
    daily.iloc[50] = 60
    assert list(series.unusual(daily, period=7).index) == [daily.index[50]]
    rng = np.random.default_rng(1)
    walk = np.zeros(400)
    for day in range(1, 400):
        walk[day] = 0.8 * walk[day - 1] + rng.normal()
    slow = series.mean_interval(pd.Series(walk, index=pd.date_range("2020", periods=400)))
    assert slow["effective_n"] < 150, "true: 400 * 0.2 / 1.8 = 44"
    assert slow["low"] < slow["mean"] < slow["high"]
    table = series.autocorrelation(pd.Series(walk, index=pd.date_range("2020", periods=400)), 3)
    assert 0.6 < table.loc[1, "r"] < 0.9 and table.loc[1, "beyond_chance"]


def test_the_backtest_shows_no_future(daily: pd.Series) -> None:
    """A model sees the past only; scores are those of its forecasts; the best naive one wins."""
    series = script("time-series", "series")
    seen: list[tuple[int, pd.Timestamp]] = []

    def mean(train: pd.Series, horizon: int) -> list[float]:
        seen.append((len(train), train.index[-1]))
        train.iloc[:] = 0  # a model that spoils its data spoils nobody else's
        return [10.0] * horizon

    table = series.backtest(daily, horizon=7, period=7, models={"mean": mean})
    assert [n for n, _ in seen] == [175, 182, 189, 196, 203]
    expected = (10.0 - daily.iloc[175:]).abs().mean()
    assert table.loc["mean", "mae"] == round(expected, 4) and table.loc["mean", "scored"] == 35
    assert table.loc["same time last season", "mae"] < table.loc["last value", "mae"]
    pure = pd.Series(np.tile(range(7), 20), index=pd.date_range("2020", periods=140))
    assert series.backtest(pure, 10, 7, 2).loc["same time last season", "mae"] == 0
    with pytest.raises(ValueError, match="3 finite values"):
        series.backtest(daily, 3, models={"bad": lambda train, horizon: [1]})
    with pytest.raises(ValueError, match="too few"):
        series.backtest(daily, 100)


@pytest.mark.parametrize("values", [[], [1.0] * 60, [np.nan] * 60, [np.inf, 1.0] * 30])
def test_nasty_series(values: list[float]) -> None:
    """Empty, constant, missing and infinite series: an answer or one line, no warning."""
    series = script("time-series", "series")
    one = pd.Series(values, index=pd.date_range("2020", periods=len(values)), dtype=float)
    assert series.check_index(one)
    series.seasons(one)
    assert len(series.unusual(one)) == 0
    for call in (series.autocorrelation, series.mean_interval, lambda s: series.backtest(s, 2)):
        try:
            call(one)
        except ValueError as error:
            assert "\n" not in str(error)


# --- reproducible notebooks ----------------------------------------------------------------------


def test_the_example_is_reproducible() -> None:
    """The shipped example has no finding but those of a replay, and versions are pinned."""
    repro = script("reproducible-notebooks", "repro")
    said = repro.check_notebook(DATA.parents[1] / "01_quickstart.ipynb")
    assert "defines" not in said and "absolute" not in said
    assert f"\npandas=={pd.__version__}" in repro.environment(["pandas.core", "json"])


def test_what_stands_in_the_way(tmp_path: Path) -> None:
    """A notebook with every fault: each is told with its cell."""
    repro = script("reproducible-notebooks", "repro")
    sources = [
        "import pandas as pd\nfrom datetime import datetime\nimport numpy as np\nimport glob",
        "df = pd.read_csv('/home/me/data.csv')\nprint(later, [k for k in df], never)",
        "!pip install pandas\nlater = !ls\n%matplotlib inline",
        "x = np.random.normal()\nnow = datetime.now()\nfiles = glob.glob('*.csv')",
        "def f(a):\n    return helper(a)\npd.read_csv('https://example.org/x.csv')",
        "api_key = 'abcdefghijkl'\n# open('/home/me/x')",
        "this is no python",
    ]
    cells = [
        {"cell_type": "code", "source": source, "execution_count": 7 - n, "outputs": []}
        for n, source in enumerate(sources)
    ]
    cells[1]["outputs"] = [{"output_type": "error", "ename": "X"}]
    path = tmp_path / "bad.ipynb"
    path.write_text(json.dumps({"cells": [*cells, {"cell_type": "markdown"}, None], "nbformat": 4}))
    said = repro.check_notebook(path)
    for part in (
        "cell 2: absolute path /home/me/data.csv",
        "cell 2: uses later, which cell 3 defines further down",
        "cell 2: uses never, which no cell defines",
        "cell 2: ends with an error",
        "cell 2: was run before the cell above it",
        "cell 3: installs packages without a version",
        "cell 4: uses random numbers without a seed",
        "cell 4: depends on the time",
        "cell 4: takes files in the order of the file system",
        "cell 5: reads from the network",
        "cell 6: holds what looks like a key",
    ):
        assert part in said
    assert "helper" not in said and "uses k" not in said and said.count("absolute path") == 1
    for content in ("[]", "no json", '{"worksheets": []}'):
        path.write_text(content)
        with pytest.raises(ValueError, match="no notebook"):
            repro.check_notebook(path)


def test_fingerprints(penguins: pd.DataFrame) -> None:
    """The fingerprint is blind to the last digits, and sees values, names, types and order."""
    repro = script("reproducible-notebooks", "repro")
    first = repro.fingerprint(penguins)
    assert (
        repro.fingerprint(penguins.assign(bill_length_mm=penguins.bill_length_mm * (1 + 1e-15)))
        == first
    )
    for other in (
        penguins.rename(columns={"sex": "s"}),
        penguins.iloc[::-1],
        penguins.assign(year=penguins.year + 1),
        penguins.astype({"year": float}),
    ):
        assert repro.fingerprint(other) != first
    assert repro.data_files([DATA]).endswith(f"  {DATA.as_posix()}")
    with warnings.catch_warnings():
        repro.fingerprint(nasty())
