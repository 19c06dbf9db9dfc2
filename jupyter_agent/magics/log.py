"""`%agent log`: find and show the turns that were logged, also those of other kernels."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.core.wording import count
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.session.notebook import Notebook, keeping
from jupyter_agent.stores.retention import LOGS, MEGABYTE, OUTPUTS, SESSIONS, Limit, remove
from jupyter_agent.stores.runs import Run, RunSummary, log_files, read_lines, read_run, runs

CLEAN_WORDS = "clean [show] [logs] [sessions] [outputs] [undo] [--days N | --all]"
WORDS = f"[list [COUNT] | show [N] | grep WORDS | path [N] | {CLEAN_WORDS}]"
USAGE = f"log {WORDS}"
_LISTED = 20
_SEARCHED = 300
"""Logs that are searched: the newest."""
_HITS = 30
_AROUND = 60
"""Characters that are shown before what was found."""
_UNSAID = frozenset({"type", "time", "seq", "id", "call_id", "metadata", "media_type", "data"})
"""Fields whose texts nobody looks for; `data` is a picture unless it has kinds of its own."""
_STEP = {"step_started": "number", "requested": "step"}
Show = Callable[[str, TurnView], str]
KINDS = {
    LOGS: "run log",
    SESSIONS: "conversation",
    OUTPUTS: "long output",
    "undo": "undoable turn",
}
"""What is removed by `clean`, in the words of the command, and what each is called."""


def log_command(words: Sequence[str], folder: Path, last: Path | None, show: Show) -> str:
    """What `%agent log WORDS` says, but for `clean`.

    Args:
        words: What follows `%agent log`.
        folder: The folder of the logs. It may not exist.
        last: The log of the last turn in this kernel.
        show: Shows a heading and a transcript, or gives them as text.

    Raises:
        AgentError: With one line: there is no such command or run, or its log cannot be read.
    """
    name, rest = (words[0], list(words[1:])) if words else ("", [])
    commands: dict[str, Callable[[], str]] = {
        "": lambda: _overview(folder, last),
        "list": lambda: _list(folder, rest),
        "show": lambda: _show(folder, rest, show),
        "grep": lambda: _grep(folder, rest),
        "path": lambda: _path(folder, last, rest),
    }
    if name not in commands:
        near = difflib.get_close_matches(name, [*filter(None, commands), "clean"], 1)
        hint = f"Did you mean {near[0]}?" if near else f"Usage: %agent {USAGE}"
        raise ConfigError(f"%agent log: there is no {plain(name)!r}. {hint}")
    return commands[name]()


def clean_command(words: Sequence[str], notebook: Notebook) -> str:
    """`%agent log clean`: remove what is kept no longer, or show what that is.

    Args:
        words: What follows `clean`.
        notebook: Whose workspace it is.

    Raises:
        AgentError: With one line: a word is not known, or a turn is running.
    """
    notebook.refuse_while_busy()
    kinds, days, is_shown = _what_to_clean(words)
    settings = notebook.settings().settings
    limits = {name: limit for name, limit in keeping(settings).items() if name in kinds}
    if days is not None:
        limits = {name: Limit(days, limit.megabytes) for name, limit in limits.items()}
    files = [one for one in notebook.surplus(limits) if is_shown or remove(one)]
    told = [_sum_of(name, [one.size for one in files if one.folder == name]) for name in limits]
    if "undo" in kinds:
        age = settings.undo.keep_days if days is None else days
        turns = notebook.safekeeping.forget(settings.undo, age, is_shown)
        told.append(count(turns, KINDS["undo"]) if turns else "")
    told = [each for each in told if each]
    stays = "What is in use or was changed within a day stays."
    if not told:
        return f"There is nothing to remove. {stays}"
    return f"{'This would go' if is_shown else 'Removed'}: {', '.join(told)}. {stays}"


def _what_to_clean(words: Sequence[str]) -> tuple[list[str], int | None, bool]:
    """Which kinds, how old in days (None: as the settings say), and whether only to show it."""
    rest, kinds, days, is_shown = list(words), [], None, False
    while rest:
        word = rest.pop(0)
        if word in KINDS:
            kinds.append(word)
        elif word == "show" and not is_shown:
            is_shown = True
        elif word == "--all" and days is None:
            days = 1
        elif word == "--days" and days is None and rest:
            days = _number(rest.pop(0))
        else:
            raise ConfigError(
                f"%agent log clean: unexpected {plain(word)!r}. Usage: %agent log {CLEAN_WORDS}"
            )
    return kinds or list(KINDS), days, is_shown


def _sum_of(name: str, sizes: Sequence[int]) -> str:
    if not sizes:
        return ""
    return f"{count(len(sizes), KINDS[name])} ({sum(sizes) / MEGABYTE:,.1f} MB)"


def _overview(folder: Path, last: Path | None) -> str:
    table = _table(folder, _LISTED)
    if not table:
        return str(last) if last else "No turn has been logged yet."
    first = str(last) if last else "No turn of this kernel has been logged yet."
    hint = "Show one: %agent log show N. Search them: %agent log grep WORDS."
    return "\n".join([first, "", *table, "", hint])


def _list(folder: Path, words: list[str]) -> str:
    _takes(words, 1)
    count = _number(words[0]) if words else _LISTED
    return "\n".join(_table(folder, count)) or "No turn has been logged yet."


def _table(folder: Path, most: int) -> list[str]:
    found = runs(folder, most)
    rows = [_row(number, run) for number, run in enumerate(found, 1)]
    more = len(log_files(folder)) - len(found)
    return [*rows, *([f"     ({more:,} older ones: %agent log list COUNT)"] if more > 0 else [])]


def _row(number: int, run: RunSummary) -> str:
    when = run.started.astimezone().strftime("%Y-%m-%d %H:%M") if run.started else "(no date)"
    steps = "?" if run.steps is None else f"{run.steps:,}"
    tokens = "?" if run.usage is None else f"{run.usage.total_tokens:,}"
    seconds = "?" if run.seconds is None else f"{run.seconds:,.0f}"
    ending = run.stop or "not ended"
    model = one_line(run.model, 30)
    facts = f"{ending:<11} {steps:>4} steps {tokens:>9} tokens {seconds:>5} s"
    return f"{number:>4} {when:<16} {facts}  {model}  {one_line(run.task, 60)}".rstrip()


def _show(folder: Path, words: list[str], show: Show) -> str:
    _takes(words, 1)
    path = _chosen(folder, words)
    run = read_run(path)
    if not run.events:
        raise AgentError(f"%agent log show: {path.name} holds no events of a turn.")
    return show("\n".join(_heading(run)), run.view)


def _heading(run: Run) -> Iterator[str]:
    began = next((logged.time for logged in run.events if logged.time), None)
    when = began.astimezone().strftime("%Y-%m-%d %H:%M:%S") if began else "at an unknown time"
    yield f"{run.path.name}, {when}"
    yield f"Task: {plain(run.view.task)}"
    if not run.has_ended:
        yield "This turn has no end in its log: it is still running, or its kernel was stopped."
    if run.is_torn:
        yield "The last line of the log is incomplete."
    if run.missing:
        why = f" ({one_line(run.why_missing, 100)})" if run.why_missing else ""
        yield f"Lines of the log that could not be written: {run.missing:,}{why}."
    if run.passed_over:
        yield f"Lines that are no events and are not shown: {run.passed_over:,}."
    if run.lost:
        yield f"Texts that are missing in the log: {run.lost:,}."


def _grep(folder: Path, words: list[str]) -> str:
    if not words:
        raise ConfigError(f"%agent log grep: give words to look for. Usage: %agent {USAGE}")
    files = log_files(folder)
    wanted = [word.casefold() for word in words]
    found: list[str] = []
    for number, path in enumerate(files[:_SEARCHED], 1):
        for hit in _hits(path, wanted):
            if len(found) == _HITS:
                return "\n".join([*found, "(more was found; give more words)"])
            found.append(f"{number:>4} {hit}")
    if len(files) > _SEARCHED:
        found.append(f"(only the newest {_SEARCHED} logs were searched)")
    return "\n".join(found) or "Nothing was found."


def _hits(path: Path, wanted: Sequence[str]) -> Iterator[str]:
    """Where all of the words stand together in one event, the prompt aside."""
    step = 0
    try:
        for line in read_lines(path):
            step = line.get(_STEP.get(line["type"], ""), step)
            if line["type"] in ("prompt", "requested"):
                continue
            text = "\n".join(_texts(line))
            low = text.casefold()
            if all(word in low for word in wanted):
                yield f"step {step:<3} {one_line(line['type'], 20):<17} {_snippet(text, wanted)}"
    except OSError:
        return


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            is_text = key not in _UNSAID or (key == "data" and isinstance(item, dict))
            if is_text and not key.startswith("image/"):
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _snippet(text: str, wanted: Sequence[str]) -> str:
    """What was found with some words around it, in one line."""
    flat = " ".join(plain(text).split())
    places = [place for word in wanted if (place := flat.casefold().find(word)) >= 0]
    start = max(0, min(places, default=0) - _AROUND)
    return ("… " if start else "") + one_line(flat[start:], 2 * _AROUND)


def _path(folder: Path, last: Path | None, words: list[str]) -> str:
    _takes(words, 1)
    if not words and last is not None:
        return str(last)
    return str(_chosen(folder, words))


def _chosen(folder: Path, words: list[str]) -> Path:
    """The log of the run with a number, 1 being the newest."""
    files = log_files(folder)
    number = _number(words[0]) if words else 1
    if not files:
        raise AgentError("%agent log: no turn has been logged yet.")
    if number > len(files):
        raise ConfigError(f"%agent log: there is no run {number:,}. Give 1 to {len(files):,}.")
    return files[number - 1]


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word)):
        raise ConfigError(f"%agent log: {plain(word)!r} is no number from 1. Usage: %agent {USAGE}")
    return int(word)


def _takes(words: list[str], most: int) -> None:
    if len(words) > most:
        raise ConfigError(f"%agent: unexpected {plain(words[most])!r}. Usage: %agent {USAGE}")
