"""`record`: execute a notebook with the model, learn what varies, prove it, then keep it.

The turns are recorded into a temporary file, the take, and not into the cassette. Then the notebook
is executed from the take once more: where a result differs, and has the same form, its differing
spans are marked as varying. The third execution, from the cassette that this makes, must show the
same in the agent's cells. Only then does this cassette replace the old one, and the outputs are
written. If anything fails, cassette, notebook and folder are as they were. Before each further
execution the folder is put back, and the hashes of texts begin elsewhere, so that the order of a
set differs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.wording import VARIES
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.notebooks.folder_copy import FolderCopy
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
from jupyter_agent.recording.cassette import Cassette, load, save
from jupyter_agent.recording.comparison import exact
from jupyter_agent.recording.learning import Unlike, Variation, learn_cassette
from jupyter_agent.recording.trusted import forget, is_trusted, trust_as_written
from jupyter_agent.session.effective_settings import effective_settings
from jupyter_agent.source.agent_cells import AgentCell, agent_cells

_PREPARE = "__import__('jupyter_agent.notebooks.inside', fromlist=['prepare']).prepare{arguments}"
_NEW, _PROOF, _AGAIN, _COPY, _ASIDE = "new", "proof", "again", "copy", "aside"
THREE_TIMES = (
    "its code runs three times: with the model, to learn what varies, and to prove the recording. "
    "--once runs it once"
)

_MOST_ROUNDS = 3
"""How often it is tried to learn what varies, before a recording is given up."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """The outcome of a recording whose replay shows the same.

    Attributes:
        execution: The replay, whose outputs are in the notebook now.
        turns: The number of recorded turns.
        cassettes: The cassettes that hold them.
        unsteady: The person's own cells that show something else each time: nbval refuses them.
        varying: What varies in the agent's results, a line each.
        notes: Further news for the person, a line each.
    """

    execution: NotebookExecution
    turns: int
    cassettes: tuple[Path, ...]
    unsteady: tuple[Difference, ...] = ()
    varying: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def record(
    path: Path,
    settings: Mapping[str, str] | None = None,
    *,
    cell: int | None = None,
    timeout: float | None = None,
    watch: NotebookWatch | None = None,
    tell: Tell = lambda line: None,
    once: bool = False,
    strict: bool = False,
) -> Recording:
    """Record a notebook anew, or one agent cell of it while the others are replayed.

    Args:
        path: The notebook.
        settings: Settings by dotted key that override the configuration files, such as `model`.
        cell: The number of the only cell to record, over all cells from 1; None for all.
        timeout: Seconds for one cell; None waits.
        watch: Gets the progress of all executions.
        tell: Gets a line for each stage, and the path of the turns that a failure leaves behind.
        once: True executes the notebook with the model alone: nothing is learned or proved.
        strict: True refuses a recording in which anything varies.

    Raises:
        AgentError: The notebook cannot be recorded, or its replay shows something else. The
            cassette and the notebook stay as they were.
    """
    with _recorder(path, settings or {}, cell, timeout, watch, tell) as recorder:
        tell("recording" if once else f"recording ({THREE_TIMES})")
        recorder.record()
        if once:
            return recorder.keep(recorder.unproved())
        tell("running its code again, to learn what varies")
        return recorder.keep(recorder.learned_and_proved(strict))


def prove(
    path: Path,
    *,
    timeout: float | None = None,
    watch: NotebookWatch | None = None,
    tell: Tell = lambda line: None,
    strict: bool = False,
    write_outputs: bool = True,
) -> Recording:
    """Learn what varies in the recording of a notebook. No model is asked.

    Args and errors are those of `record`. `write_outputs` is False where the notebook is open: then
    its file stays as it is, and the notes name the cells whose saved outputs are others now.
    """
    with _recorder(path, {}, None, timeout, watch, tell) as recorder:
        tell("running its code again, to learn what varies (its code runs twice)")
        return recorder.keep(recorder.learned_and_proved(strict), write_outputs)


@contextmanager
def _recorder(
    path: Path,
    settings: Mapping[str, str],
    cell: int | None,
    timeout: float | None,
    watch: NotebookWatch | None,
    tell: Tell,
) -> Iterator[_NotebookRecorder]:
    """A recorder in a temporary folder, which a failure leaves behind if it holds turns."""
    notebook = read(path)
    cells = agent_cells(notebook)
    _refuse_what_cannot_be(path, cells, cell)
    takes = Path(tempfile.mkdtemp(prefix="jupyter_agent-takes-"))
    recorder = _NotebookRecorder(
        path=path,
        notebook=notebook,
        original=path.read_bytes(),
        settings=settings,
        cell=cell,
        timeout=timeout,
        watch=watch,
        folder=takes,
        calling_ask=frozenset(each.number for each in cells if each.calls_ask),
        tell=tell,
    )
    try:
        yield recorder
    except BaseException:
        recorder.put_back()
        kept = [take for take in recorder.takes.values() if take.exists()]
        if kept:
            tell(f"The cassette is unchanged. The failed recording is in {kept[0]}")
        elif not recorder.keeps_aside and not recorder.is_torn:
            shutil.rmtree(takes, ignore_errors=True)
        raise
    finally:
        for take in recorder.written():
            forget(take)
        if not recorder.is_torn:
            shutil.rmtree(takes / _COPY, ignore_errors=True)
    if not recorder.keeps_aside:
        shutil.rmtree(takes, ignore_errors=True)


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
    tell: Tell
    takes: dict[Path, Path] = field(default_factory=dict)
    """The files that hold the new recordings, by the cassette that each will replace."""
    _reruns: dict[Path, Path] = field(default_factory=dict)
    """The files with the results of the second run, by the cassette."""
    _recorded: NotebookExecution | None = None
    _turns: int = 0
    _stood: dict[Path, bytes | None] = field(default_factory=dict)
    """The content of each cassette when its successor was put together; None of a missing file."""
    _all_new: set[Path] = field(default_factory=set)
    """Cassettes that will hold turns of this recording only."""
    _varying: list[str] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _executions: int = 0
    _copy: FolderCopy | None = None

    @property
    def is_torn(self) -> bool:
        """True if files of the folder could not be put back."""
        return self._copy is not None and self._copy.is_torn

    @property
    def keeps_aside(self) -> bool:
        """True if the folder holds files that somebody may miss."""
        return self._copy is not None and bool(self._copy.lost())

    def written(self) -> list[Path]:
        """The temporary files that turns were recorded into, which are trusted as such."""
        return [*self.takes.values(), *self._reruns.values()]

    def put_back(self) -> None:
        """Put the folder back after a failure, and tell where the files are that the runs wrote."""
        if self._copy is None:
            return
        try:
            self._copy.put_back({*self.takes, *self._reruns})
        except OSError as error:
            self.tell(f"The folder could not be put back as it was: {error}")
        if self.keeps_aside:
            self.tell(
                f"The folder is as it was before. What was written there is in "
                f"{self.folder / _ASIDE}"
            )

    def record(self) -> None:
        """Execute the notebook with the model, and put the new cassettes together in `folder`."""
        first = "record" if self.cell is None else "replay"
        done = self._execute({**self.settings, "mode": first}, self._before_recorded)
        self._refuse_failed(done, "")
        self._recorded = done
        for cassette, take in self.takes.items():
            if take.exists():
                self._put_together(cassette, load(take))
        if not self._turns:
            where = "the notebook" if self.cell is None else f"cell {self.cell}"
            raise AgentError(f"{self.path.name}: {where} gave the agent no task.")

    def unproved(self) -> Recording:
        """The recording after a single execution."""
        if self._recorded is None:
            raise RuntimeError("nothing was recorded")
        self._notes.append(
            "recorded in one run: what varies is not known. To learn it: jupyter agent record "
            f"{self.path.name} --prove"
        )
        return Recording(self._recorded, self._turns, tuple(self._stood), (), (), self._noted())

    def learned_and_proved(self, strict: bool) -> Recording:
        """Learn what varies, and prove the recording.

        What was the same in two runs by chance shows in the proof, and is learned by further ones.

        Raises:
            AgentError: As `learn` and `prove`.
        """
        self.learn(strict)
        for _ in range(_MOST_ROUNDS):
            try:
                self.tell("replaying, to prove the recording")
                return self.prove()
            except AgentError as error:
                missed, known = error, tuple(self._varying)
            self.tell("the replay differs: running the code again, in case something varies rarely")
            self.learn(strict)
            if known == tuple(self._varying):
                break
        raise missed

    def learn(self, strict: bool) -> None:
        """Execute the recorded turns once more, and mark what varies in the new cassettes.

        Raises:
            AgentError: A result has another form, or something varies and `strict` is set.
        """
        began = datetime.now().astimezone()
        done = self._execute({"mode": "replay"}, self._before_learned)
        self._refuse_failed(done, "in the second run, ")
        times = began, datetime.now().astimezone()
        self._varying.clear()
        for cassette, rerun in self._reruns.items():
            if not rerun.exists():
                continue
            if cassette not in self._stood:
                self._stood[cassette] = _bytes_of(cassette)
            learned = learn_cassette(load(self._current(cassette)), load(rerun), times)
            if learned.unlike:
                raise AgentError(self._refusal(learned.unlike))
            self._varying += [self._said(each) for each in learned.variations]
            self._turns = self._turns or len(learned.cassette.turns)
            self._proof(cassette).parent.mkdir(parents=True, exist_ok=True)
            save(learned.cassette, self._proof(cassette))
        if strict and self._varying:
            raise AgentError(f"{self.path.name}: it varies from run to run: {self._varying[0]}")
        if not self._turns:
            raise AgentError(f"{self.path.name}: nothing is recorded. Record it first.")

    def _refusal(self, unlike: Sequence[Unlike]) -> str:
        first = unlike[0]
        where = f"{self._cell_of(first.task)}, step {first.step} of {one_line(first.task, 40)!r}"
        more = f" {len(unlike) - 1} further results differ." if len(unlike) > 1 else ""
        return (
            f"{self.path.name}{where}: the second run gives a result of another form, which no "
            f"replay can follow: {first.words}.{more}"
        )

    def _said(self, variation: Variation) -> str:
        where = self._cell_of(variation.task).removeprefix(", ")
        return f"{where or repr(one_line(variation.task, 40))}, {variation.words}"

    def _cell_of(self, task: str) -> str:
        """`, cell N` for the agent cell with this task; empty if code gives it."""
        root = self.path.resolve().parent
        numbers = [c.number for c in agent_cells(self.notebook) if exact(c.task, root) == task]
        return f", cell {numbers[0]}" if numbers else ""

    def prove(self) -> Recording:
        """Execute the notebook again from the new cassettes.

        Raises:
            AgentError: The replay fails, or an agent cell shows something else.
        """
        done = self._execute({"mode": "replay"}, self._before_replayed)
        self._refuse_failed(done, "in the replay, ")
        before = self._recorded.notebook if self._recorded else None
        found = list(differences(before, done.notebook, VARIES)) if before else []
        for difference in found:
            if difference.of_agent:
                raise AgentError(
                    f"{self.path.name}, cell {difference.number}: the replay shows something else "
                    f"than the recording: {difference.words}."
                )
        varying = tuple(self._varying)
        return Recording(
            done, self._turns, tuple(self._stood), tuple(found), varying, self._noted()
        )

    def _noted(self) -> tuple[str, ...]:
        lost = self._copy.lost() if self._copy else []
        if lost:
            names = ", ".join(lost[:3]) + (" …" if len(lost) > 3 else "")
            self._notes.append(
                f"changed between the runs, and kept in {self.folder / _ASIDE}: {names}"
            )
        return tuple(self._notes)

    def keep(self, recording: Recording, write_outputs: bool = True) -> Recording:
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
        if write_outputs:
            write_in_place(self.original, replace(recording.execution, path=self.path))
            return recording
        parted = differences(self.notebook, recording.execution.notebook)
        cells = ", ".join(str(each.number) for each in parted if each.of_agent)
        if not cells:
            return recording
        note = f"the saved outputs of cell {cells} are others now: run it again, and save"
        return replace(recording, notes=(*recording.notes, note))

    def _execute(self, settings: Mapping[str, str], before: Before) -> NotebookExecution:
        """Execute the notebook, from the second time on in the folder as it was at first."""
        if self._copy is None:
            root = effective_settings(self.path.resolve().parent, os.environ).workspace.root
            self._copy = FolderCopy(root, self.folder / _COPY, self.folder / _ASIDE)
            if not self._copy.complete:
                self._notes.append(
                    "the folder is too large to be put back between the runs, or is that for "
                    "temporary files: the runs found each other's files"
                )
        elif self._executions:
            try:
                self._copy.put_back({*self.takes, *self._reruns})
            except OSError as error:
                raise AgentError(f"The folder cannot be put back as it was: {error}") from None
        self._executions += 1
        # Another order of sets in each run, so that it is learned.
        environ = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", str(self._executions))}
        return execute(
            self.path,
            settings,
            timeout=self.timeout,
            watch=self.watch,
            before=before,
            environ=environ,
        )

    async def _before_recorded(self, kernel: NotebookKernel, cell: Any, index: int) -> None:
        here = self.cell in (None, index + 1)
        mode, takes = ("record", self.folder / _NEW) if here else ("replay", None)
        found = await self._prepare(kernel, mode, index, takes)
        self.takes |= {Path(cassette): Path(take) for cassette, take in found.items()}

    async def _before_learned(self, kernel: NotebookKernel, cell: Any, index: int) -> None:
        here = self.cell in (None, index + 1)
        again = self.folder / _AGAIN if here else None
        found = await self._prepare(kernel, "replay", index, self.folder / _PROOF, again)
        if here:
            self._reruns |= {Path(cassette): Path(rerun) for cassette, rerun in found.items()}

    async def _before_replayed(self, kernel: NotebookKernel, cell: Any, index: int) -> None:
        await self._prepare(kernel, "replay", index, self.folder / _PROOF)

    async def _prepare(
        self,
        kernel: NotebookKernel,
        mode: str,
        index: int,
        takes: Path | None,
        again: Path | None = None,
    ) -> dict[str, str]:
        arguments = (mode, str(takes or ""), str(again or ""), index + 1 in self.calling_ask)
        found: dict[str, str] = await kernel.value(_PREPARE.format(arguments=arguments))
        return found

    def _current(self, cassette: Path) -> Path:
        """The cassette that is learned for: the new one, or that in place if nothing is new."""
        proof = self._proof(cassette)
        return proof if proof.exists() else cassette

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

    def _earlier(self, new: Cassette) -> list[tuple[str, str]]:
        """The new conversation, once for each cell above that equals the recorded cell."""
        if self.cell is None or not new.turns:
            return []
        cells = self.notebook.cells
        same = sum(c.source == cells[self.cell - 1].source for c in cells[: self.cell - 1])
        return [new.turns[0].place] * same

    def _note_dropped(self, cassette: Path, new: Cassette) -> None:
        try:
            old = load(cassette)
        except AgentError:
            self._notes.append(f"{cassette.name} was damaged, and is new now")
            return
        tasks = {turn.task for turn in new.turns}
        dropped = sum(turn.task not in tasks for turn in old.turns)
        if dropped:
            turns = "a turn" if dropped == 1 else f"{dropped} turns"
            self._notes.append(f"{cassette.name} has lost {turns} that no cell asked for")


def _merged(old: Cassette, new: Cassette, written: Sequence[tuple[str, str]]) -> Cassette:
    """A cassette with new turns, each in the place of the turn that it replaces."""
    sourced = (replace(turn, source=turn.source or old.source) for turn in old.turns)
    result, done = replace(old, turns=tuple(sourced)), list(written)
    for turn in new.turns:
        result = result.with_turn(replace(turn, source=turn.source or new.source), done)
        done.append(turn.place)
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
