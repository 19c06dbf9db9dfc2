"""Search by meaning: a static model, its vectors kept, fused with words, identifiers on top."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.files.shared import cache_folder
from jupyter_agent.memory.embeddings import FILES, Embeddings
from jupyter_agent.memory.scope import MemoryRoot, Scope
from jupyter_agent.memory.search import DATABASE, MemorySearch, identifiers
from jupyter_agent.memory.store import WorkspaceMemory

MEANINGS = {
    "cat": "kitten feline tomcat pet",
    "car": "vehicle automobile truck engine",
    "sea": "ocean water waves ship",
}
"""The words of the small model: those of a line have nearly the same vector."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model, made by model2vec's own means from a vocabulary."""
    model2vec: Any = pytest.importorskip("model2vec")
    np: Any = pytest.importorskip("numpy")
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found]

    words = [f"{word} {others}".split() for word, others in MEANINGS.items()]
    vocabulary = ["[UNK]", *(word for group in words for word in group)]
    tokenizer = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.zeros((len(vocabulary), 8), np.float32)
    for place, group in enumerate(words):
        for word in group:
            seed = hashlib.sha256(word.encode()).digest()[:8]
            vectors[vocabulary.index(word)] = np.frombuffer(seed, np.uint8) / 2_000
            vectors[vocabulary.index(word), place] += 1
    folder = tmp_path_factory.mktemp("model")
    model2vec.StaticModel(vectors, tokenizer).save_pretrained(folder)
    return folder


def store(folder: Path, *entries: tuple[str, str]) -> MemoryRoot:
    root = MemoryRoot(folder)
    for title, content in entries:
        assert not WorkspaceMemory(root).save(Scope("w"), "lesson", title, content).existing
    return root


def test_what_means_the_same_is_found(model: Path, tmp_path: Path) -> None:
    """Without a common word an entry is found by its meaning; words and meaning together win; the
    vectors are kept, made anew for changed entries alone, and dropped with their entries."""
    root = store(
        tmp_path / "root",
        ("One", "the kitten sleeps"),
        ("Two", "an automobile stops"),
        ("Three", "waves and a vehicle"),
    )
    plain = MemorySearch([root], tmp_path / "state")
    assert plain.find("feline pet") == []
    search = MemorySearch([root], tmp_path / "state", Embeddings(model))
    assert search.find("feline pet")[0].title == "One"
    assert [hit.title for hit in search.find("truck vehicle")][:2] == ["Three", "Two"]
    assert search.find("feline pet") == search.find("feline pet")
    base = sqlite3.connect(cache_folder(tmp_path / "state") / DATABASE)
    before = dict(base.execute("SELECT document, vector FROM vectors"))
    assert len(before) == 3
    path = root.path / "user/memory/workspaces/w/lessons.md"
    path.write_text(path.read_text().replace("the kitten sleeps", "the ship sleeps"))
    assert search.find("ocean")[0].title in ("One", "Three")
    after = dict(base.execute("SELECT document, vector FROM vectors"))
    base.close()
    assert len(after) == 3 and len(set(before.items()) & set(after.items())) == 2


def test_identifiers_stay_on_top(model: Path, tmp_path: Path) -> None:
    """What holds an identifier of the query to the letter comes first, whatever is near in
    meaning; with and without a model."""
    names = ["TimeoutError", "df_2024", "ECONNRESET", "src/etl/load.py", "E4711", "404"]
    near = [(f"Cats {n}", f"kitten feline tomcat pet cat number {'x' * n}") for n in range(30)]
    named = [(f"Plain {n}", f"Seen {name} once.") for n, name in enumerate(names)]
    root = store(tmp_path / "root", *near, *named, ("Part", "TimeoutErrors df_20245 ECONN E47"))
    for embeddings in (None, Embeddings(model)):
        search = MemorySearch([root], tmp_path / "state", embeddings)
        for number, name in enumerate(names):
            for query in (f"kitten feline {name} pet cat?", f"{name.lower()} tomcat"):
                found = search.find(query, 5)
                if query[0] == "k" or identifiers(query):
                    assert found[0].title == f"Plain {number}", (query, found)


def test_another_model(model: Path, tmp_path: Path) -> None:
    """A changed model has its own vectors: those of the old one are not compared with them."""
    root = store(tmp_path / "root", ("One", "the kitten sleeps"))
    MemorySearch([root], tmp_path / "state", Embeddings(model)).find("pet")
    other = tmp_path / "other"
    other.mkdir()
    for name in FILES:
        (other / name).write_bytes((model / name).read_bytes())
    search = MemorySearch([root], tmp_path / "state", Embeddings(other))
    assert search.find("pet")[0].title == "One"
    assert Embeddings(model).identity != Embeddings(other).identity


def test_a_broken_model(model: Path, tmp_path: Path) -> None:
    """A model that cannot be loaded is one line."""
    for name in FILES:
        (tmp_path / name).write_bytes((model / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    root = store(tmp_path / "root", ("One", "the kitten sleeps"))
    with pytest.raises(ConfigError, match="cannot be loaded") as caught:
        MemorySearch([root], tmp_path / "state", Embeddings(tmp_path)).find("pet")
    assert "\n" not in str(caught.value)


def test_no_folder_or_no_package(tmp_path: Path) -> None:
    """A missing folder, a folder without a model and a missing package are told in a line each."""
    with pytest.raises(ConfigError, match="is no folder"):
        Embeddings(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        Embeddings(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text(json.dumps({}))
    try:
        import model2vec  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match=r"jupyter-agent-magics\[semantic\]"):
            Embeddings(tmp_path)
    assert "model2vec" not in sys.modules or Embeddings(tmp_path)


def test_identifiers_of_a_query() -> None:
    """Names in code, codes and paths are identifiers; words and abbreviations are none."""
    text = "Why does pd.read_csv raise TimeoutError, ECONNRESET or E501 in src/app.py on df_2024?"
    assert identifiers(text) == [
        *("pd.read_csv", "TimeoutError", "ECONNRESET", "E501", "src/app.py", "df_2024")
    ]
    assert identifiers("Why is the CSV of HTTP slow, e.g. in May? I do not know. 12") == []
    assert identifiers("exit code 137 at /etc/hosts") == ["137", "/etc/hosts"]
