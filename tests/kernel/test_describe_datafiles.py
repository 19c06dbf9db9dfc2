"""Files of data, described before any code reads them."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_agent.kernel.describe import Level, describe
from jupyter_agent.kernel.describe.datafiles import BLOCKS, HEAD, DataFile

Write = Callable[[str | bytes], str]


def told(path: Path, level: Level = "sample") -> str:
    return describe(DataFile(path), level)


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        (
            "prices.csv",
            "id;name;price;day\n1;Ann;3,5;2024-01-02\n2;Bob;;2024-02-03\n3;Cy;4,25;soon\n4;D\n",
            [
                "prices.csv, 76 bytes, table with 4 rows × 4 columns, delimiter semicolon, utf-8",
                "1 line with another number of fields: 5",
                "id: integer, 1 to 3",
                "name: text, values: Ann, Bob, Cy",
                "price: number with a decimal comma, 33.3% missing, 3.5 to 4.25",
                "day: date (but 1 text)",
            ],
        ),
        ("codes.csv", "zip,n\n01234,1\n04321,2\n", ["zip: text with leading zeros"]),
        ("plain.csv", "1,2\n3,4\n", ["without a header", "column 1: integer, 1 to 3"]),
        ("days.csv", "d,v\n31.12.2024,1\n1/2/24,2\n", ["d: date as 99.99.9999"]),
        ("quoted.csv", 'a,b\n"x, y","two\nlines"\n"z",1\n', ["2 rows × 2 columns"]),
        ("tabs.tsv", "a\tb\n1\t2\n", ["delimiter tab", "b: integer, 2 to 2"]),
        ("latin.csv", "name,n\nJos\xe9,1\nIn\xeas,2\n".encode("latin-1"), ["latin-1"]),
        ("mark.csv", "a,b\n1,2\n3,4\n".encode("utf-8-sig"), ["byte-order mark", "a: integer"]),
        ("wide.csv", "a,b\n1,2\n3,4\n".encode("utf-16"), ["utf-16-le", "a: integer, 1 to 3"]),
        (
            "list.json",
            '[{"a": 1}, {"a": null, "b": {"c": 2}}]',
            ["a list of 2 items", "b: object (c)"],
        ),
        ("lines.jsonl", '{"a": 1}\n{"a": 2.5}\nbroken\n', ["1 line that is no JSON: 3"]),
        ("bad.json", '{"a": ', ["JSON with an error"]),
        ("notes.txt", "hello\nworld\n", ["text, 2 lines", "hello"]),
        ("none.csv", "", ["empty"]),
        ("noise.bin", bytes(range(256)) * 4, ["not text"]),
    ],
)
def test_text(tmp_path: Path, name: str, content: str | bytes, lines: list[str]) -> None:
    """A file of each kind as people have them: its columns, and what is odd about it."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    text = told(path)
    assert [line for line in lines if line not in text] == [], text


def test_no_values_at_the_level_of_structure(tmp_path: Path) -> None:
    """A table, a list of records and a text hold a name: at `schema` it is not told."""
    contents = {
        "a.csv": "name,n\nGrace Hopper,1906\nAda,1815\n",
        "b.json": json.dumps([{"name": "Grace Hopper", "n": 1906}]),
        "c.txt": "Grace Hopper, 1906\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        text = told(tmp_path / name, "schema")
        assert "Grace" not in text and "1906" not in text, text


def test_a_long_table_is_not_read_whole(tmp_path: Path) -> None:
    """A table of 30 MB: its lines are counted, and ranges come from its head and later places."""
    path = tmp_path / "long.csv"
    rows = 30_000_000 // 20
    with path.open("w") as stream:
        stream.write("number,word\n")
        stream.writelines(f"{number:09d}1,{'x' * 7}\n" for number in range(rows))
    text = told(path)
    assert path.stat().st_size > 6 * HEAD
    assert f"about {rows:,} rows × 2 columns" in text
    assert f"and of {BLOCKS} places further on" in text


def test_parquet(tmp_path: Path) -> None:
    """A Parquet file: types and ranges from its footer, at `schema` the types alone."""
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "trips.parquet"
    pandas.DataFrame({"n": range(1_000), "word": ["a", "b"] * 500}).to_parquet(path)
    assert "Parquet, 1,000 rows × 2 columns" in told(path)
    assert "n: int64, 0 to 999" in told(path)
    assert "999" not in told(path, "schema")


def test_sqlite(tmp_path: Path) -> None:
    """A database: its tables with columns and rows. It is opened for reading only."""
    path = tmp_path / "shop.db"
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE "odd ""name" (id INTEGER, label TEXT)')
    base.executemany('INSERT INTO "odd ""name" VALUES (?, ?)', [(1, "x")] * 5)
    base.commit()
    base.close()
    before = path.read_bytes()
    assert 'odd "name, 5 rows: id INTEGER, label TEXT' in told(path)
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (before, ["shop.db"])


def test_excel(tmp_path: Path) -> None:
    """A workbook: its sheets with the cells that they use, without a library for it."""
    space = "http://schemas.openxmlformats.org"
    path = tmp_path / "book.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{space}/spreadsheetml/2006/main" '
            f'xmlns:r="{space}/officeDocument/2006/relationships">'
            '<sheets><sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{space}/package/2006/relationships">'
            '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f'<worksheet xmlns="{space}/spreadsheetml/2006/main">'
            '<dimension ref="A1:F200"/></worksheet>',
        )
    assert "Data: cells A1:F200" in told(path)
