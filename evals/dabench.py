"""InfiAgent-DABench: closed-form questions about one table each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evals import answers
from evals.tasks import Attempt, DataError, Judgement, Task

_LAYOUTS = (
    ("questions.jsonl", "", "tables"),
    ("da-dev-questions.jsonl", "da-dev-labels.jsonl", "da-dev-tables"),
)
"""Names of the questions, of the labels where they are apart, of the tables: the second one is how
the set is published."""


class DABench:
    """The questions of a folder: `questions.jsonl` with the labels as `answers`, and `tables/`; or
    the published files `da-dev-questions.jsonl`, `da-dev-labels.jsonl`, `da-dev-tables/`.

    Args:
        folder: The folder.
    """

    name = "DABench"
    source = (
        "[InfiAgent-DABench](https://github.com/InfiAgent/InfiAgent) (Apache-2.0): the files "
        "`da-dev-questions.jsonl`, `da-dev-labels.jsonl` and `da-dev-tables/` of "
        "`examples/DA-Agent/data`, put into `dabench/`"
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tasks(self) -> list[Task]:
        for questions, labels, tables in _LAYOUTS:
            if (self._folder / questions).is_file():
                known = self._labels(labels) if labels else {}
                return [
                    self._task(line, known, self._folder / tables)
                    for line in _lines(self._folder / questions)
                ]
        names = " or ".join(layout[0] for layout in _LAYOUTS)
        raise DataError(f"{self._folder} has no {names}: is it a folder of DABench?")

    def judge(self, task: Task, attempt: Attempt) -> Judgement:
        labels = task.key["labels"]
        assert isinstance(labels, list)
        found = answers.judge(attempt.answer, labels)
        if found.kind != "right" and not attempt.ran:
            return Judgement("no code that ran", found.detail)
        return found

    def close(self) -> None:
        pass

    def _labels(self, name: str) -> dict[int, Any]:
        path = self._folder / name
        if not path.is_file():
            raise DataError(f"{path} is missing: the labels belong to the questions.")
        return {line["id"]: line["common_answers"] for line in _lines(path)}

    def _task(self, line: dict[str, Any], labels: dict[int, Any], tables: Path) -> Task:
        try:
            number, table = line["id"], line["file_name"]
            key = line["answers"] if "answers" in line else labels[number]
            text = (
                f"{line['question']}\n{line['constraints']}\n\n"
                f"The DataFrame `df` holds the table {table}. Give the answer in this format:\n"
                f"{line['format']}"
            )
            level = line["level"]
        except KeyError as error:
            raise DataError(f"{self._folder}: a question lacks {error}: {line}"[:300]) from None
        if Path(table).name != table or not (tables / table).is_file():
            raise DataError(f"{tables} has no table {table!r}, which question {number} is about.")
        return Task(
            set=f"{self.name} {level}",
            id=f"dabench/{number}",
            text=text,
            setup=(f"import pandas as pd\ndf = pd.read_csv({table!r})",),
            files={table: tables / table},
            key={"labels": [tuple(pair) for pair in key]},
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            raise DataError(f"{path}, line {number}: this is no JSON.") from None
    return found
