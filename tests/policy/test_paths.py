"""Where code may write without a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import JudgeCode


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("open('new.txt', 'w')", ""),
        ("open('new.txt', 'x')", ""),
        ("open('seen.csv', 'w')", ""),
        ("open('./sub/../seen.csv', mode='a')", ""),
        ("open('/dev/null', 'w')", ""),
        ("open('data.csv')", ""),
        ("open('data.csv', 'w')", "overwrite"),
        ("open('data.csv', 'r+')", "overwrite"),
        ("open('./sub/../data.csv', 'a')", "overwrite"),
        ("p = 'data.csv'\nopen(p, 'w')", "overwrite"),
        ("p = 'da'\np += 'ta.csv'\nopen(p, 'w')", "overwrite"),
        ("for p in ['x', 'data.csv']:\n    open(p, 'w')", "overwrite"),
        ("for i, p in enumerate(['x', 'data.csv']):\n    open(p, 'w')", "overwrite"),
        ("with open('data.csv', 'wb') as f: pass", "overwrite"),
        ("open('../x.csv', 'w')", "outside"),
        ("open('/etc/x.csv', 'w')", "outside"),
        ("df.to_csv('~/x.csv')", "outside"),
        ("open('link/x.csv', 'w')", "outside"),
        ("import os\nopen(os.path.expanduser('~/x'), 'w')", "outside"),
        ("from pathlib import Path\n(Path.home() / 'x').write_text('a')", "outside"),
        ("from pathlib import Path\nPath('data.csv').write_text('a')", "overwrite"),
        ("from pathlib import Path\nPath('seen.csv').write_text('a')", ""),
        ("from pathlib import Path\nPath('data.csv').open('w')", "overwrite"),
        ("from pathlib import Path\nPath('data.txt').with_suffix('.csv').touch()", "overwrite"),
        ("from pathlib import Path\n(Path.cwd() / 'new').write_bytes(b'')", ""),
        ("from pathlib import Path\n(Path.cwd().parent / 'new').write_bytes(b'')", "outside"),
        ("from pathlib import Path\nPath('new').mkdir(parents=True)", ""),
        ("import os\nos.path.join('a', '..', 'data.csv')", ""),
        ("import os\nopen(os.path.join('a', '..', 'data.csv'), 'w')", "overwrite"),
        ("df.to_csv('data.csv')", "overwrite"),
        ("df.to_csv(path_or_buf='data.csv')", "overwrite"),
        ("w = df.to_csv\nw('data.csv')", "overwrite"),
        ("df.to_csv(None)", ""),
        ("df.to_csv('{}.csv'.format('data'))", "overwrite"),
        ("import numpy as np\nnp.save('data.csv', a)", "overwrite"),
        ("import torch\ntorch.save(m, 'data.csv')", "overwrite"),
        ("import joblib\njoblib.dump(m, 'data.csv')", "overwrite"),
        ("import shutil\nshutil.copy('a', 'data.csv')", "overwrite"),
        ("import shutil\nshutil.copy('data.csv', 'b.csv')", ""),
        ("import shutil\nshutil.unpack_archive('a.zip', 'fresh')", ""),
        ("import zipfile\nzipfile.ZipFile('data.csv', 'w')", "overwrite"),
        ("import gzip\ngzip.open('data.csv', 'wt')", "overwrite"),
        ("import io\nio.open('data.csv', 'w')", "overwrite"),
        ("import h5py\nh5py.File('data.csv', 'w')", "overwrite"),
        ("import h5py\nh5py.File('data.csv', mode)", "overwrite"),
        ("import h5py\nh5py.File('data.csv', 'r')", ""),
        ("import os\nos.rename('seen.csv', 'new.csv')", ""),
        ("import os\nos.chdir('/etc')\nopen('x', 'w')", "folder"),
        ("%cd /etc\nopen('x', 'w')", "folder"),
        ("import pyarrow.parquet as pq\npq.write_table(t, 'data.csv')", "overwrite"),
        ("import pyarrow.parquet as pq\npq.write_table(t, path)", "overwrite"),
        ("import pyarrow.parquet as pq\npq.write_table(t, f'{x}.csv')", "overwrite"),
        ("import pyarrow.parquet as pq\npq.write_table(t, f'{x}.parquet')", ""),
        ("import pyarrow.parquet as pq\npq.write_table(t, f'../{x}.parquet')", "outside"),
        ("import pyarrow.parquet as pq\npq.write_table(t, f'.git/{x}')", "agent"),
        ("import tempfile, torch\ntorch.save(m, tempfile.mkdtemp() + f'/{x}.pt')", ""),
        ("def save(t, p):\n    t.write_csv(p)\nsave(t, 'new.csv')", ""),
        ("def save(t, p):\n    t.write_csv(p)\nsave(t, 'data.csv')", "overwrite"),
        ("con.execute(f\"COPY t TO '{path}'\")", "overwrite"),
        ("%%writefile data.csv\nx", "overwrite"),
        ("%%writefile new.py\nx", ""),
        ("%%writefile ../new.py\nx", "outside"),
        ("%%writefile -a data.csv\nx", "overwrite"),
        ("con.execute(\"COPY t TO 'data.csv'\")", "overwrite"),
        ("open('.git/config', 'w')", "agent"),
        ("open('nb.cassette.jsonl', 'w')", "agent"),
        ("open('AGENTS.md', 'w')", "agent"),
        ("open('sub/agents.md', 'w')", "agent"),
        ("open('.agents/skills/x/SKILL.md', 'w')", "agent"),
        ("open('agent/rules/common/x.md', 'w')", "agent"),
        ("open('agent/new.py', 'w')", ""),
        ("import os\nos.environ['JAVA_HOME'] = 'x'", ""),
        ("%env PATH=$HOME/bin", ""),
        ("open('a\\0b', 'w')", ""),
        ("import tempfile\nopen(tempfile.mkdtemp() + '/a', 'w')", ""),
        ("import tempfile\nopen(tempfile.gettempdir() + '/../a', 'w')", "outside"),
        ("plt.savefig('data.csv')", "overwrite"),
        ("model.save_pretrained('fresh')", ""),
        ("save_table(df, 'data.csv')", "overwrite"),
        ("tool.export('data.csv')", "overwrite"),
        ("import duckdb\nduckdb.connect('../new.db')", "outside"),
    ],
)
def test_writes(judged: JudgeCode, code: str, kind: str) -> None:
    """New files and files known to the agent are written without a question; others ask."""
    verdict = judged(code)
    kinds = {risk.kind for risk in verdict.risks}
    assert (kind in kinds) if kind else verdict.decision == "allow", verdict.risks


def test_what_is_written(judged: JudgeCode, root: Path) -> None:
    """The verdict lists the written files, so that the agent may write them again."""
    verdict = judged("df.to_csv('new.csv'); open('seen.csv', 'w')")
    assert set(verdict.writes) == {root / "new.csv", root / "seen.csv"}


def test_temporary(judged: JudgeCode, root: Path) -> None:
    """The system's folder for temporary files may be written without a question."""
    assert judged(f"open({str(root.parent / 'temporary' / 'x')!r}, 'w')").decision == "allow"
    assert judged(f"open({str(root.parent / 'home' / 'x')!r}, 'w')").decision == "ask"


def test_databases_that_the_agent_made(judged: JudgeCode, root: Path) -> None:
    """A database that the agent made is its own, also when it exists; others ask."""
    made = judged("import sqlite3\nsqlite3.connect('new.db').execute('DELETE FROM t')")
    assert (made.decision, made.writes) == ("allow", (root / "new.db",))
    code = "import sqlite3\nsqlite3.connect('{}').execute('DELETE FROM t')"
    assert judged(code.format("seen.csv")).decision == "allow"
    assert judged(code.format("data.csv")).decision == "ask"
