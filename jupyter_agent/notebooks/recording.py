"""`record`: execute a notebook with the model, prove the recording by a replay, then keep it.

The turns are recorded into a temporary file, the take, and not into the cassette. When all cells
have run, the notebook is executed once more from the cassette that the take makes. If the agent
cells show the same, this cassette replaces the old one and the outputs are written. Otherwise, or
when anything fails, cassette and notebook stay as they were.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.notebooks.inside import take_of
from jupyter_agent.notebooks.one import (
    Before,
    NotebookExecution,
    NotebookKernel,
    NotebookWatch,
    execute,
    read,
)
from jupyter_agent.notebooks.outputs import Difference, differences
from jupyter_agent.notebooks.writing import write_in_place
from jupyter_agent.recording.cassette import load, save
from jupyter_agent.recording.cassette_model import Cassette
from jupyter_agent.recording.trusted import forget, is_trusted, trust_as_written
from jupyter_agent.source.agent_cells import AgentCell, agent_cells

_PREPARE = "__import__('jupyter_agent.notebooks.inside', fromlist=['prepare']).prepare{arguments}"
_NEW, _PROOF = "new", "proof"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """The outcome of a recording whose replay shows the same.

    Attributes:
        execution: The replay, whose outputs are in the notebook now.
        turns: The number of recorded turns.
        cassettes: The cassettes that hold them.
        unsteady: The person's own cells that show something else each time: nbval refuses them.
        notes: Further news for the person, a line each.
    """

    execution: NotebookExecution
    turns: int
    cassettes: tuple[Path, ...]
    unsteady: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


def record(
    path: Path,
    settings: Mapping[str, str] | None = None,
    *,
    cell: int | None = None,
    timeout: float | None = None,
    watch: NotebookWatch | None = None,
    tell: Tell = lambda line: None,
) -> Recording:
    """Record a notebook anew, or one agent cell of it while the others are replayed.

    Args:
        path: The notebook.
        settings: Settings by dotted key that override the configuration files, such as `model`.
        cell: The number of the only cell to record, over all cells from 1; None for all.
        timeout: Seconds for one cell; None waits.
        watch: Gets the progress of both executions.
        tell: Gets a line for each stage, and the path of the turns that a failure leaves behind.

    Raises:
        AgentError: The notebook cannot be recorded, or its replay shows something else. The
            cassette and the notebook stay as they were.
    """
    notebook = read(path)
    cells = agent_cells(notebook)
    _refuse_what_cannot_be(path, cells, cell)
    takes = Path(tempfile.mkdtemp(prefix="jupyter_agent-takes-"))
    recorder = _NotebookRecorder(
        path=path,
        notebook=notebook,
        original=path.read_bytes(),
        settings=settings or {},
        cell=cell,
        timeout=timeout,
        watch=watch,
        folder=takes,
        calling_ask=frozenset(each.number for each in cells if each.calls_ask),
    )
    try:
        tell("recording")
        recorder.record()
        tell("replaying, to prove the recording")
        recording = recorder.prove()
        recorder.keep(recording.execution)
    except BaseException:
        kept = [take for take in recorder.takes.values() if take.exists()]
        if kept:
            tell(f"The cassette is unchanged. The failed recording is in {kept[0]}")
        else:
            shutil.rmtree(takes, ignore_errors=True)
        raise
    finally:
        for take in recorder.takes.values():
            forget(take)
    shutil.rmtree(takes, ignore_errors=True)
    return recording


def cell_with_task(notebook: Any, words: str) -> int:
    """The number of the agent cell whose task contains these words, over all cells from 1.

    Raises:
        AgentError: No agent cell contains them, or more than one does.
    """
    wanted = " ".join(words.split()).casefold()
    cells = agent_cells(notebook)
    found = [c for c in cells if wanted in " ".join(c.task.split()).casefold()]
    if len(found) == 1:
        return found[0].number
    what = f"{len(found)} agent cells have" if found else "No agent cell has"
    raise AgentError(f"{what} {one_line(words)!r} in the task. {_listed(found or cells)}")


def _listed(cells: Iterable[AgentCell]) -> str:
    listed = ", ".join(f"{c.number} ({one_line(c.task, 40)})" for c in cells)
    return f"The agent cells are: {listed}." if listed else "The notebook has no agent cell."


def _refuse_what_cannot_be(path: Path, cells: Sequence[AgentCell], cell: int | None) -> None:
    if cell is not None and cell not in {c.number for c in cells}:
        raise AgentError(f"{path.name}: cell {cell} is not an agent cell. {_listed(cells)}")
    for each in cells:
        if each.calls_ask and any(call.words[:1] == ["cassette"] for call in each.calls):
            raise AgentError(
                f"{path.name}, cell {each.number}: name the cassette in a cell of its own, above "
                "the one that asks."
            )


@dataclass
class _NotebookRecorder:
    """Records one notebook, proves the recording by a replay, and puts it in place."""

    path: Path
    notebook: Any
    original: bytes
    settings: Mapping[str, str]
    cell: int | None
    timeout: float | None
    watch: NotebookWatch | None
    folder: Path
    calling_ask: frozenset[int]
    """The numbers of the cells that give a task by `ask(…)`."""
    takes: dict[Path, Path] = field(default_factory=dict)
    """The files that hold the new recordings, by the cassette that each will replace."""
    _recorded: Any = None
    _turns: int = 0
    _stood: dict[Path, bytes | None] = field(default_factory=dict)
    """The content of each cassette when its successor was put together; None of a missing file."""
    _all_new: set[Path] = field(default_factory=set)
    """Cassettes that will hold turns of this recording only."""
    _notes: list[str] = field(default_factory=list)

    def record(self) -> None:
        """Execute the notebook with the model, and put the new cassettes together in `folder`."""
        first = "record" if self.cell is None else "replay"
        done = self._execute({**self.settings, "mode": first}, self._before_recorded)
        self._refuse_failed(done, "")
        self._recorded = done.notebook
        for cassette, take in self.takes.items():
            if take.exists():
                self._put_together(cassette, load(take))
        if not self._turns:
            where = "the notebook" if self.cell is None else f"cell {self.cell}"
            raise AgentError(f"{self.path.name}: {where} gave the agent no task.")

    def prove(self) -> Recording:
        """Execute the notebook again from the new cassettes.

        Raises:
            AgentError: The replay fails, or an agent cell shows something else.
        """
        done = self._execute({"mode": "replay"}, self._before_replayed)
        self._refuse_failed(done, "in the replay, ")
        found = list(differences(self._recorded, done.notebook))
        for difference in found:
            if difference.of_agent:
                raise AgentError(
                    f"{self.path.name}, cell {difference.number}: the replay shows something else "
                    f"than the recording: {difference.words}."
                )
        return Recording(done, self._turns, tuple(self._stood), tuple(found), tuple(self._notes))

    def keep(self, proof: NotebookExecution) -> None:
        """Replace the old cassettes by the new ones, and write the outputs into the notebook.

        Raises:
            AgentError: The notebook or a cassette changed in the meantime, or cannot be written.
        """
        if self.path.read_bytes() != self.original:
            raise AgentError(
                f"{self.path.name} was changed while it was recorded. Save it, and record again."
            )
        for cassette, stood in self._stood.items():
            if _bytes_of(cassette) != stood:
                raise AgentError(
                    f"{cassette.name} was changed while {self.path.name} was recorded. "
                    "Record again when nothing else writes to it."
                )
        for cassette in self._stood:
            try:
                is_own = cassette in self._all_new or is_trusted(cassette)
                atomic_write(cassette, self._proof(cassette).read_bytes())
                if is_own:
                    trust_as_written(cassette)
            except OSError as error:
                raise AgentError(f"{cassette} cannot be written: {error.strerror}.") from None
        write_in_place(self.original, replace(proof, path=self.path))

    def _execute(self, settings: Mapping[str, str], before: Before) -> NotebookExecution:
        return execute(self.path, settings, timeout=self.timeout, watch=self.watch, before=before)

    async def _before_recorded(self, kernel: NotebookKernel, cell: Any, index: int) -> None:
        here = self.cell in (None, index + 1)
        mode, takes = ("record", str(self.folder / _NEW)) if here else ("replay", "")
        found = await self._prepare(kernel, mode, takes, index)
        self.takes |= {Path(cassette): Path(take) for cassette, take in found.items()}

    async def _before_replayed(self, kernel: NotebookKernel, cell: Any, index: int) -> None:
        await self._prepare(kernel, "replay", str(self.folder / _PROOF), index)

    async def _prepare(
        self, kernel: NotebookKernel, mode: str, takes: str, index: int
    ) -> dict[str, str]:
        arguments = (mode, takes, index + 1 in self.calling_ask)
        found: dict[str, str] = await kernel.value(_PREPARE.format(arguments=arguments))
        return found

    def _proof(self, cassette: Path) -> Path:
        return take_of(cassette, self.folder / _PROOF)

    def _refuse_failed(self, done: NotebookExecution, when: str) -> None:
        if done.error:
            place = "" if done.cell is None else f", cell {done.cell + 1}"
            raise AgentError(f"{self.path.name}{place}: {when}{done.error}")

    def _put_together(self, cassette: Path, new: Cassette) -> None:
        """Save the successor of a cassette where the replay that proves it looks for it."""
        self._turns += len(new.turns)
        self._stood[cassette] = _bytes_of(cassette)
        result = new
        if self._stood[cassette] is not None:
            if self.cell is not None or _is_shared(cassette, self.path):
                result = _merged(load(cassette), new, self._earlier(new))
            else:
                self._note_dropped(cassette, new)
        if result is new:
            self._all_new.add(cassette)
        self._proof(cassette).parent.mkdir(parents=True, exist_ok=True)
        save(result, self._proof(cassette))

    def _earlier(self, new: Cassette) -> list[str]:
        """The new conversation, once for each cell above that equals the recorded cell."""
        if self.cell is None or not new.turns:
            return []
        cells = self.notebook.cells
        same = sum(c.source == cells[self.cell - 1].source for c in cells[: self.cell - 1])
        return [new.turns[0][0].conversation] * same

    def _note_dropped(self, cassette: Path, new: Cassette) -> None:
        try:
            old = load(cassette)
        except AgentError:
            self._notes.append(f"{cassette.name} was damaged, and is new now")
            return
        tasks = {turn[0].turn for turn in new.turns}
        dropped = sum(turn[0].turn not in tasks for turn in old.turns)
        if dropped:
            turns = "a turn" if dropped == 1 else f"{dropped} turns"
            self._notes.append(f"{cassette.name} has lost {turns} that no cell asked for")


def _merged(old: Cassette, new: Cassette, written: Sequence[str]) -> Cassette:
    """A cassette with new turns, each in the place of the turn that it replaces."""
    result, done = old, list(written)
    for turn in new.turns:
        named = tuple(replace(entry, source=entry.source or new.source) for entry in turn)
        result = result.with_turn(named, done)
        done.append(turn[0].conversation)
    return replace(result, provider=new.provider, model=new.model)


def _is_shared(cassette: Path, notebook: Path) -> bool:
    """Whether another notebook names the cassette, so that it may hold turns of that one, too."""
    name = cassette.name.encode("utf-8")
    folders = {cassette.parent.resolve(), notebook.resolve().parent}
    others = {other.resolve() for folder in folders for other in folder.glob("*.ipynb")}
    return any(name in (_bytes_of(other) or b"") for other in others - {notebook.resolve()})


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
