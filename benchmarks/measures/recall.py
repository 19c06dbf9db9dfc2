"""How often the search of memory finds what is asked for in other words."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.paraphrases import Question, entries, questions
from benchmarks.result import Result, milliseconds
from jupyter_agent.memory.embeddings import Embeddings
from jupyter_agent.memory.entries import MemoryEntry, written
from jupyter_agent.memory.scope import MemoryRoot
from jupyter_agent.memory.search import MemorySearch

MODEL = "BENCH_EMBEDDINGS"
"""The environment variable with the folder of a model2vec model."""
AT = 5
GAIN = 10.0
"""Percentage points that a part has to gain to be on by default."""
_NAMED = ("TimeoutError", "df_2024", "ECONNRESET", "src/etl/load.py", "E4711", "parse_rows")


def recall(bench: Bench) -> Result:
    """Recall at 5 by words alone, with saved questions, and fused with vectors."""
    asked = questions()
    folder = Path(os.environ[MODEL]) if os.environ.get(MODEL) else None
    kinds = {"nothing": 0, "two questions": 2, "two questions and other words": 3}
    searches = {
        f"FTS5, saved with {name}": _search(bench.folder / f"words{count}", entries(count))
        for name, count in kinds.items()
    }
    if folder is not None:
        model = Embeddings(folder)
        for name, count in kinds.items():
            place = bench.folder / f"vectors{count}"
            searches[f"fused with vectors, {name}"] = _search(place, entries(count), model)
    rows, shares = [], []
    for name, search in searches.items():
        share, each = _share(search, asked)
        shares.append(share)
        named = sum(_finds_names(search, number) for number in range(len(_NAMED)))
        rows.append((name, f"{share:.1f} %", milliseconds(each), f"{named} of {len(_NAMED)}"))
    note = (
        f"{len(asked)} questions in other words than the 2,000 entries and than the questions that "
        "are saved with them (`benchmarks/paraphrases.py`: forty problems, fifty subjects). One "
        "author wrote entries, saved words and questions, so a model's own words may gain less. An "
        "identifier counts as found if the one entry that holds it comes first. "
    )
    if folder is None:
        note += (
            f"Vectors were not measured: the weights of a model were not at hand ({MODEL} names "
            "the folder of one). They are not on by default."
        )
    gain = shares[2] - shares[0]
    return Result(
        "recall",
        f"memory found by a question in other words, at {AT}",
        f"saved questions gain at least {GAIN:.0f} points",
        f"{shares[0]:.1f} % by words alone, {shares[2]:.1f} % with what was saved",
        gain >= GAIN,
        ("search", f"recall at {AT}", "time of one", "identifiers first"),
        rows,
        note,
    )


def _search(
    folder: Path, stored: Sequence[MemoryEntry], model: Embeddings | None = None
) -> MemorySearch:
    """The search over a workspace with these entries, and one more for each identifier."""
    path = folder / "user/memory/workspaces/bench/lessons.md"
    path.parent.mkdir(parents=True)
    named = [
        MemoryEntry(
            "lesson",
            f"Seen once, case {n}",
            f"The cause was {name} there.",
            id=f"l-n{n}",
            source=f"id=l-n{n}",
            date="2026-01-01",
        )
        for n, name in enumerate(_NAMED)
    ]
    path.write_bytes(b"\n".join(written(entry) for entry in [*stored, *named]))
    search = MemorySearch([MemoryRoot(folder)], folder / "state", model)
    search.find("warm")
    return search


def _share(search: MemorySearch, asked: Sequence[Question]) -> tuple[float, float]:
    """The percentage of questions whose entry is among the first, and the seconds of one."""
    began = time.perf_counter()
    found = [
        any(hit.title == question.title for hit in search.find(question.text, AT))
        for question in asked
    ]
    return 100 * sum(found) / len(asked), (time.perf_counter() - began) / len(asked)


def _finds_names(search: MemorySearch, number: int) -> bool:
    words = f"why did the job for the purchases stop with {_NAMED[number]}?"
    return search.find(words, AT)[0].ref == f"l-n{number}"
