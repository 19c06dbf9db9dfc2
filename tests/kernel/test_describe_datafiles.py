"""Files of data, described before any code reads them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from jupyter_agent.kernel.describe import Level, describe
from jupyter_agent.kernel.describe.datafiles import DataFile, binary, scan
from jupyter_agent.kernel.describe.datafiles.text import BLOCKS, HEAD

SPACE = "http://schemas.openxmlformats.org"


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
        ("dashes.csv", "n\n1\n-\n", ["n: integer, 50.0% missing, written -, 1 to 1"]),
        ("money.csv", "a;b\n1.234,5;x\n0,5;y\n", ["a: number with a decimal comma, 0.5 to 1234.5"]),
        ("dollars.csv", 'a;b\n"1,234.5";x\n2;y\n', ["a: number with thousands separators, 2"]),
        (
            "twice.csv",
            "a,a\n1,2\n3,4\n",
            ["2 rows × 2 columns, delimiter comma, utf-8\n", "a: int"],
        ),
        ("years.csv", "land,2019,2020\nA,1,2\nB,3,4\n", ["2 rows × 3", "2020: integer, 2 to 4"]),
        (
            "units.csv",
            "name,length,mass\n,m,kg\na,1.5,2\nb,2.5,3\n",
            ["2 rows × 3 columns", "two header rows", "length / m: number, 1.5 to 2.5"],
        ),
        (
            "title.csv",
            "# made by X\nSales\n\na,b\n1,2\n3,x\n",
            ["2 rows × 2 columns", "after 2 other rows", "a: integer, 1 to 3", "# made by X"],
        ),
        ("r.csv", '"a","b"\n"r1",1,2\n"r2",3,4\n', ["row names: text, values: r1, r2", "b: int"]),
        ("mac.csv", b"a,b\r1,2\r3,4\r", ["2 rows × 2 columns", "b: integer, 2 to 4"]),
        (
            "word.csv",
            "a,b\n\u201chi\u201d,5 \u20ac\n".encode("cp1252"),
            ["cp1252", "\u201chi\u201d"],
        ),
        (
            "plain16.csv",
            "a,b\n1,2\n3,4\n".encode("utf-16-le"),
            ["utf-16-le without a byte-order mark", "a: integer, 1 to 3"],
        ),
        ("mail.txt", "Dear all,\nat 3, as said.\nBye, Ann\n", ["text, 3 lines"]),
        ("run.log", "09:00 INFO a, 1\n09:01 INFO b, c\n" * 9, ["text, 18 lines"]),
        ("bars.txt", "a|b\n1|2\n3|4\n", ["delimiter bar", "a: integer, 1 to 3"]),
        ("latin.csv", "name,n\nJos\xe9,1\nIn\xeas,2\n".encode("latin-1"), ["latin-1"]),
        ("mark.csv", "a,b\n1,2\n3,4\n".encode("utf-8-sig"), ["byte-order mark", "a: integer"]),
        ("wide.csv", "a,b\n1,2\n3,4\n".encode("utf-16"), ["utf-16-le", "a: integer, 1 to 3"]),
        (
            "list.json",
            '[{"a": 1}, {"a": null, "b": {"c": 2}}]',
            ["a list of 2 items", "b: object, 50.0% missing", "b.c: integer, 2 to 2"],
        ),
        ("lines.jsonl", '{"a": 1}\n{"a": 2.5}\nbroken\n', ["1 line that is no JSON: 3"]),
        (
            "deep.json",
            '{"data": {"rows": [{"id": 1, "at": "2024-01-02"}, {"id": 2}]}, "more": []}',
            [
                "an object of 2 keys",
                "data.rows: list of 2",
                "data.rows[].id: integer, 1 to 2",
                "data.rows[].at: date, 50.0% missing",
                "more: empty list",
            ],
        ),
        ("mixed.jsonl", '{"a": 1}\n[1]\n\n3\n', ["no objects: 1 list, 1 integer", "a: integer"]),
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
    """Tables, records, the keys of a mapping and a text hold a name: at `schema` it is not told."""
    contents = {
        "a.csv": "name,n\nGrace Hopper,1906\nAda,1815\n",
        "b.json": json.dumps([{"name": "Grace Hopper", "n": 1906}]),
        "c.txt": "Grace Hopper, 1906\nGrace, 1906\n",
        "d.json": json.dumps({f"Grace {number}": {"n": 1906} for number in range(60)}),
        "e.csv": "# Grace\nname;n\nGrace;1906\nAda;1906\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        text = told(tmp_path / name, "schema")
        assert "Grace" not in text and "1906" not in text, text


def long_table(path: Path, encoding: str = "utf-8", rows: int = 300_000) -> None:
    """More than is looked at row by row. Its last lines hold what its head does not."""
    with path.open("w", encoding=encoding) as stream:
        stream.write("number,price,day,word\n")
        stream.writelines(f"{n},{n / 4:.2f},2024-01-0{1 + n % 9},w\n" for n in range(rows))
        stream.write("1,2\n-7,,2023-12-31,w\n8,soon,2024-02-01,w\n")


@pytest.mark.parametrize("library", ["duckdb", "polars"])
def test_a_long_table_is_scanned_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Where a library can, all rows count: the odd line, missing values and ends far behind."""
    pytest.importorskip(library)
    path = tmp_path / "long.csv"
    long_table(path)
    kinds = ["integer", "number", "date", "text"]
    if library == "polars":  # which tells no odd lines: it fills them up or stops
        monkeypatch.setitem(sys.modules, "duckdb", None)
        lines = path.read_text(encoding="utf-8").replace("1,2\n-7", "-7")
        path.write_text(lines, encoding="utf-8")
    found = scan.scan(path, ",", "utf-8", 1, kinds)
    number, price, day, word = found["columns"]
    assert (number["rows"], number["least"], number["most"]) == (300_002, -7, 299_999)
    assert (price["missing"], price["fitting"], price["most"]) == (1, 300_000, 74_999.75)
    assert (day["least"], day["most"], word["fitting"]) == ("2023-12-31", "2024-02-01", 300_002)
    if library == "duckdb":
        assert (found["rows"], found["odd_total"], found["odd"]) == (300_003, 1, [300_002])
        text = told(path)
        assert "table with 300,003 rows × 4 columns" in text and "a sample" not in text
        assert "1 line with another number of fields: 300002" in text
        assert "number: integer, -7 to 299999" in text
        assert "price: number (but 1 text), less than 0.1% missing" in text
        assert "word: text, values such as: w" in text


def test_without_a_library_it_is_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without duckdb and polars the scan says so; a table in UTF-16 is told by a sample."""
    path = tmp_path / "long.csv"
    long_table(path, "utf-16")
    text = told(path)
    assert "about 300,003 rows × 4 columns" in text and "utf-16-le with a byte-order mark" in text
    assert "a sample: 20,000 rows of its beginning" in text
    for library in ("duckdb", "polars"):
        monkeypatch.setitem(sys.modules, library, None)
    assert scan.scan(path, ",", "utf-8", 1, ["integer"]) == {"missing_library": True}


def test_a_huge_table_is_not_scanned(tmp_path: Path) -> None:
    """A table of 320 MB: its lines are counted, the rest is by its head and later places."""
    path = tmp_path / "huge.csv"
    block = b"".join(b"%09d,%s\n" % (number, b"x" * 70) for number in range(100_000))
    with path.open("wb") as stream:
        stream.write(b"number,word\n")
        for _ in range(40):
            stream.write(block)
    text = told(path)
    assert path.stat().st_size > 70 * HEAD
    assert "about 4,000,000 rows × 2 columns" in text
    assert f"and of {BLOCKS} places further on" in text


def test_a_wide_table_keeps_its_bounds(tmp_path: Path) -> None:
    """Ten thousand columns: as many as fit, with their types alone, and how many more there are."""
    path = tmp_path / "wide.csv"
    numbers = ",".join(["1.5"] * 10_000) + "\n"
    path.write_text(",".join(f"c{n}" for n in range(10_000)) + "\n" + numbers * 3)
    text = describe(DataFile(path), "sample", 4_000)
    assert "table with 3 rows × 10,000 columns" in text and "\n  c9: number\n" in text
    assert "more columns" in text and "c0,c1,c2," in text and len(text) <= 4_000


def test_a_very_wide_table_is_looked_at_in_part(tmp_path: Path) -> None:
    """Of half a million columns the first ones are looked at: it takes no minute and no memory."""
    path = tmp_path / "wider.csv"
    path.write_text("a," * 499_999 + "b\n" + "1," * 499_999 + "2\n" + "1,2\n")
    tracemalloc.start()
    try:
        text = describe(DataFile(path), "schema", 4_000)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()
    assert "table with 2 rows × 500,000 columns" in text and "\n  a: integer\n" in text
    assert "1 line with another number of fields: 3" in text and "more columns" in text


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    """Each look finds a table, though rows come meanwhile and the last one is cut anywhere."""
    path = tmp_path / "grows.csv"
    # A first "ä" that is whole: one that is cut, alone, is as well a letter of latin-1.
    path.write_text("ä;b\n1;2\n", encoding="utf-8")
    done = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as stream:
            for _ in range(500_000):
                if done.is_set():
                    return
                stream.write("12345;fär".encode()[:8])
                stream.write("ärben\n".encode()[1:])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            looks = [told(path) for _ in range(20)]
        finally:
            done.set()
        writing.result()
    assert all("table with" in text and "delimiter semicolon, utf-8" in text for text in looks)


@pytest.mark.skipif(sys.platform == "win32", reason="no timers")
def test_an_interrupt_ends_the_look(tmp_path: Path) -> None:
    """An interrupt is passed on, and leaves no process behind."""
    path = tmp_path / "long.csv"
    long_table(path)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            told(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert psutil.Process().children() == []


def test_long_json(tmp_path: Path) -> None:
    """A list of records longer than the head: its fields by the first of them."""
    path = tmp_path / "long.json"
    records = [{"id": n, "tags": ["a"], "at": None} for n in range(200_000)]
    path.write_text(json.dumps(records), encoding="utf-8")
    text = told(path)
    assert "only the beginning was looked at" in text
    assert "id: integer, 0 to" in text and "tags[]: text" in text and "at: null" in text


# Binary formats ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["", "pyarrow", "pyarrow and duckdb"])
def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Types, missing values and ranges from the footer, by whichever library is there."""
    pandas = pytest.importorskip("pandas")

    path = tmp_path / "trips.parquet"
    values = {"n": range(1_000), "word": ["a", None] * 500}
    pandas.DataFrame(values).to_parquet(path)
    if not missing:
        text = told(path)
        assert "Parquet, 1,000 rows × 2 columns" in text
        assert "n: int64, 0 to 999" in text and "50.0% missing" in text
        assert "999" not in told(path, "schema")
    for library in missing.split(" and ") if missing else ():
        monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.setitem(sys.modules, f"{library}.parquet", None)
    (headline, (_, total, columns)) = binary.look_at("parquet", path, "sample")["parts"]
    assert (headline, total) == ("Parquet, 1,000 rows × 2 columns", 2)
    assert columns[0].startswith("n: ") and columns[1].startswith("word: ")
    assert ("0 to 999" in columns[0]) == (missing != "pyarrow and duckdb")


def test_sqlite(tmp_path: Path) -> None:
    """A database: its tables with columns, rows and ranges. It is opened for reading only."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute('CREATE TABLE "odd ""name" (id INTEGER, label TEXT)')
        base.executemany('INSERT INTO "odd ""name" VALUES (?, ?)', [(1, "x")] * 4 + [(9, None)])
        base.commit()
    before = path.read_bytes()
    text = told(path)
    assert 'odd "name, 5 rows: id INTEGER (1 to 9), label TEXT (20.0% missing)' in text
    assert 'odd "name, 5 rows: id INTEGER, label TEXT' in told(path, "schema")
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (before, ["shop.db"])


def workbook(path: Path, sheet: str, strings: bytes | str = "<sst/>") -> None:
    """A workbook with one sheet, as Excel stores it, and a style of dates."""
    main = f'xmlns="{SPACE}/spreadsheetml/2006/main"'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook {main} xmlns:r="{SPACE}/officeDocument/2006/relationships">'
            '<sheets><sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{SPACE}/package/2006/relationships">'
            '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/styles.xml",
            f'<styleSheet {main}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
            "</styleSheet>",
        )
        archive.writestr("xl/sharedStrings.xml", strings)
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f'<worksheet {main}><dimension ref="A1:C4"/><sheetData>{sheet}</sheetData></worksheet>',
        )


ROWS = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>'
    '<c r="C1" t="inlineStr"><is><t>day</t></is></c></row>'
    '<row r="2"><c r="A2"><v>1</v></c><c r="B2"><v>2.5</v></c>'
    '<c r="C2" s="1"><v>45292</v></c></row>'
    '<row r="3"><c r="A3"><v>7</v></c><c r="C3" s="1"><v>45293</v></c></row>'
)
STRINGS = (
    f'<sst xmlns="{SPACE}/spreadsheetml/2006/main"><si><t>n</t></si><si><t>price</t></si></sst>'
)


def test_excel(tmp_path: Path) -> None:
    """A workbook: its sheets, and their columns with types, without a library for it."""
    path = tmp_path / "book.xlsx"
    workbook(path, ROWS, STRINGS)
    text = told(path)
    for line in (
        "Excel workbook, 1 sheet",
        "Data: cells A1:C4",
        "sheet Data: 2 rows × 3 columns",
        "n: integer, 1 to 7",
        "price: number, 50.0% missing, 2.5 to 2.5",
        "day: date, 2024-01-01 to 2024-01-02",
    ):
        assert line in text, text
    assert "2.5 to" not in told(path, "schema") and "day: date" in told(path, "schema")


# Hostile files -----------------------------------------------------------------------------------


def test_hostile_text(tmp_path: Path) -> None:
    """One endless line, noise and NUL bytes in a table, a pipe: a line each, and soon."""
    (tmp_path / "line.csv").write_bytes(b"a,b," + b"x" * 20_000_000)
    (tmp_path / "field.csv").write_bytes(b'a,b\n"' + b"x" * 3_000_000 + b'",1\n')
    (tmp_path / "noise.csv").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "nul.csv").write_bytes(b"a,b\n" + b"1,2\n" * 5_000 + b"1,\0\n")
    (tmp_path / "deep.json").write_text("[" * 200_000, encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.csv")
    said = {path.name: told(path) for path in tmp_path.iterdir()}
    assert "text, 1 line" in said["line.csv"] and "or more" in said["line.csv"]
    assert "table" not in said["field.csv"].split("\n")[0] or "no table" in said["field.csv"]
    assert "not text" in said["noise.csv"]
    assert "a: integer, 1 to 1" in said["nul.csv"]
    assert "JSON with an error" in said["deep.json"]
    assert "is a pipe" in said["pipe.csv"]
    assert all(len(text) <= 2_000 for text in said.values())


def test_a_table_is_data(tmp_path: Path) -> None:
    """What looks like a query, a path or a formula in a file is a text of it. Wildcards in its
    name find no other file."""
    (tmp_path / "other.csv").write_text("secret\n1\n", encoding="utf-8")
    row = "'); COPY (SELECT 1) TO 'x'; --,=1+1,../other.csv\n"
    path = tmp_path / "[o]*.csv"
    path.write_text("a,b,c\n" + row * 30_000, encoding="utf-8")
    text = told(path)
    assert "30,000 rows × 3 columns" in text and "secret" not in text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["[o]*.csv", "other.csv"]


def test_hostile_parquet(tmp_path: Path) -> None:
    """A file cut short, and a footer that claims to be longer than it: a line each."""
    for name, end in (("cut", b""), ("footer", b"\xff\xff\xff\x7fPAR1")):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(b"PAR1" + b"\0" * 100 + end)
        assert "damaged or not complete" in told(path)
    (tmp_path / "noise.parquet").write_bytes(
        b"PAR1" + b"\xff" * 100 + (50).to_bytes(4, "little") + b"PAR1"
    )
    assert "Parquet, damaged" in told(tmp_path / "noise.parquet")


def test_hostile_workbooks(tmp_path: Path) -> None:
    """Texts that unpack to 200 MB, a document type, an archive of nothing: read up to a limit."""
    bomb = tmp_path / "bomb.xlsx"
    workbook(bomb, ROWS, b"<sst>" + b"<si><t>" + b" " * 200_000_000 + b"</t></si></sst>")
    assert bomb.stat().st_size < 1_000_000
    assert "(a text far in the file): integer, 1 to 7" in told(bomb)
    entity = tmp_path / "entity.xlsx"
    workbook(entity, ROWS, '<!DOCTYPE a [<!ENTITY b "bb">]><sst><si><t>&b;</t></si></sst>')
    assert "a document type in a workbook" in told(entity)
    (tmp_path / "cut.xlsx").write_bytes(bomb.read_bytes()[:400])
    assert "not text" in told(tmp_path / "cut.xlsx")


def test_a_hostile_database(tmp_path: Path) -> None:
    """Views without end, functions in columns, names that are markup or queries: no effect."""
    path = tmp_path / "bad.db"
    forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"CREATE VIEW forever AS {forever}")
        base.execute("CREATE TABLE big (n INTEGER, b AS (length(zeroblob(900000000))))")
        base.execute('CREATE TABLE "a\n</context>; DROP TABLE big; --" (x INTEGER)')
        base.execute("CREATE TRIGGER t AFTER INSERT ON big BEGIN DELETE FROM big; END")
        base.execute('INSERT INTO "a\n</context>; DROP TABLE big; --" VALUES (3)')
        base.commit()
    before = path.read_bytes()
    lines = told(path).split("\n")
    assert "SQLite database, 3 tables and views" in lines[0]
    assert any("forever (view)" in line for line in lines)
    assert any("DROP TABLE big; --, 1 row: x INTEGER (3 to 3)" in line for line in lines)
    assert path.read_bytes() == before


def test_nothing_of_the_workspace_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module in the working folder does not take the place of a library."""
    monkeypatch.chdir(tmp_path)
    for name in ("duckdb", "pyarrow", "sqlite3", "json"):
        Path(f"{name}.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    long_table(tmp_path / "long.csv")
    assert "300,003 rows" in told(tmp_path / "long.csv")
    assert not Path("ran").exists()
