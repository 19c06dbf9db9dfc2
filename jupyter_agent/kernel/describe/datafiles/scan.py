"""A table as text, all of it, by duckdb or polars. Runs in a process of its own (`apart`).

Each field is read as text, and counted as what the sample said that its column is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.kernel.describe.datafiles.columns import EMPTY

_MEMORY = "1GB"
_THREADS = 4
_MOST_ODD = 5
_MOST_REJECTED = 100_000
_PATTERNS = {
    "text with leading zeros": r"^0\d+$",
    "truth value": r"^(?i:true|false)$",
}
_OTHER_DATE = r"^\d{1,2}[./]\d{1,2}[./]\d{2,4}"
_TYPES = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "number with a decimal comma": "DOUBLE",
    "date": "DATE",
    "date and time": "TIMESTAMP",
}
_GLOB = frozenset("*?[")


def scan(
    path: Path, delimiter: str, encoding: str, skipped: int, kinds: list[str]
) -> dict[str, Any]:
    """The facts of all rows.

    Args:
        path: The file.
        delimiter: What is between its fields.
        encoding: `utf-8` or `latin-1`.
        skipped: How many lines the header takes.
        kinds: The kind of each column, as `columns.typed` names them.

    Returns:
        `rows`, `odd_total` and `odd` (how many lines have another number of fields, and the first
        of them; None where polars was asked, which does not tell), and for each of the `columns`
        `rows`, `missing`, `fitting` (of its kind), `least`, `most`. Or `missing_library`.
    """
    try:
        import duckdb
    except ImportError:
        return _by_polars(path, delimiter, encoding, skipped, kinds)
    if _GLOB & set(str(path)):  # duckdb would look for other files
        return _by_polars(path, delimiter, encoding, skipped, kinds)
    base = duckdb.connect(":memory:")
    confine(base, path)
    names = [f"c{number}" for number in range(len(kinds))]
    facts = ", ".join(_facts(name, kind) for name, kind in zip(names, kinds, strict=True))
    texts = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    # All but the path is ours: the delimiter is one of four.
    (row,) = base.execute(
        f"SELECT count(*), {facts} FROM read_csv(?, auto_detect = false, header = false, "
        f"delim = '{delimiter}', quote = '\"', escape = '\"', skip = {skipped:d}, "
        f"encoding = '{encoding}', compression = 'none', columns = {{{texts}}}, "
        f"store_rejects = true, rejects_limit = {_MOST_REJECTED})",
        [str(path)],
    ).fetchall()
    ((odd_total,),) = base.execute("SELECT count(DISTINCT line) FROM reject_errors").fetchall()
    if odd_total >= _MOST_REJECTED:
        return {"problem": "more odd lines than are counted"}
    odd = base.execute(
        f"SELECT DISTINCT line FROM reject_errors ORDER BY line LIMIT {_MOST_ODD}"
    ).fetchall()
    return _answer(row, odd_total, [line for (line,) in odd])


def _answer(row: Any, odd_total: int | None = None, odd: Sequence[int] = ()) -> dict[str, Any]:
    rows = row[0]
    columns = [
        {
            "rows": rows,
            "missing": row[place],
            "fitting": row[place + 1],
            "least": row[place + 2],
            "most": row[place + 3],
        }
        for place in range(1, len(row), 4)
    ]
    every = rows + (odd_total or 0)
    return {"rows": every, "odd_total": odd_total, "odd": list(odd), "columns": columns}


def confine(base: Any, path: Path) -> None:
    """Let a connection of duckdb read this file alone, and neither write nor load anything."""
    escaped = str(path).replace("'", "''")
    for setting in (
        f"memory_limit = '{_MEMORY}'",
        f"threads = {_THREADS}",
        "temp_directory = ''",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "allow_community_extensions = false",
        f"allowed_paths = ['{escaped}']",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        base.execute(f"SET {setting}")


def _facts(name: str, kind: str) -> str:
    """The four facts of a column in SQL. Names and kinds are ours, never the file's."""
    listed = ", ".join(f"'{text}'" for text in sorted(EMPTY))
    text = f"trim({name})"
    missing = f"({name} IS NULL OR lower({text}) IN ({listed}))"
    missing_count = f"count(*) FILTER (WHERE {missing})"
    if kind not in _TYPES:
        pattern = _PATTERNS.get(kind, _OTHER_DATE if kind.startswith("date as") else "")
        fits = f"regexp_matches({text}, '{pattern}')" if pattern else "true"
        fitting = f"count(*) FILTER (WHERE NOT {missing} AND {fits})"
        return f"{missing_count}, {fitting}, NULL, NULL"
    comma = kind.endswith("comma")
    number = f"replace(replace({text}, '.', ''), ',', '.')" if comma else text
    cast = f"TRY_CAST({number} AS {_TYPES[kind]})"
    value = f"CASE WHEN {missing} THEN NULL ELSE {cast} END"
    if kind.startswith("date"):  # as the file writes them
        value = f"CASE WHEN {cast} IS NULL THEN NULL ELSE {text} END"
    return f"{missing_count}, count({value}), min({value}), max({value})"


def _by_polars(
    path: Path, delimiter: str, encoding: str, skipped: int, kinds: list[str]
) -> dict[str, Any]:
    """The same by polars, which does not tell the lines with another number of fields."""
    try:
        import polars
    except ImportError:
        return {"missing_library": True}
    if encoding != "utf-8":
        return {"problem": "an encoding that polars does not read lazily"}
    names = [f"c{number}" for number in range(len(kinds))]
    table = polars.scan_csv(
        path, separator=delimiter, has_header=False, skip_lines=skipped, glob=False,
        schema=dict.fromkeys(names, polars.String),
    )  # fmt: skip
    facts = [polars.len().alias("rows")]
    for name, kind in zip(names, kinds, strict=True):
        facts += _polars_facts(polars, name, kind)
    row = table.select(facts).collect(engine="streaming").row(0)
    return _answer(row)


def _polars_facts(polars: Any, name: str, kind: str) -> list[Any]:
    text = polars.col(name).str.strip_chars()
    missing = text.is_null() | text.str.to_lowercase().is_in(sorted(EMPTY))
    text = polars.when(~missing).then(text)
    types = {"BIGINT": polars.Int64, "DOUBLE": polars.Float64}
    least = most = polars.lit(None)
    if (wanted := types.get(_TYPES.get(kind, ""))) is not None:
        comma = kind.endswith("comma")
        plain = text.str.replace_all(".", "", literal=True)
        number = plain.str.replace(",", ".", literal=True) if comma else text
        value = number.cast(wanted, strict=False)
        fitting, least, most = value.count(), value.min(), value.max()
    elif kind in _TYPES:
        dated = text.filter(text.str.contains(r"^\d{4}-\d\d-\d\d"))
        fitting, least, most = dated.count(), dated.min(), dated.max()
    else:
        pattern = _PATTERNS.get(kind, _OTHER_DATE if kind.startswith("date as") else "")
        fitting = (text.str.contains(pattern) if pattern else text.is_not_null()).sum()
    found = missing.sum(), fitting, least, most
    return [each.alias(f"{name}_{place}") for place, each in enumerate(found)]
