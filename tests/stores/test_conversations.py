"""Conversations on disk: kept as they happen, readable after a crash at any byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from generated import PROFILE, examples, seed
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import (
    Block,
    Context,
    Image,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.stores.conversations import (
    NO_PICTURE,
    PICTURE_CHARACTERS,
    Conversations,
    Stored,
    TurnEnd,
    Variable,
    described,
    file_stem,
    gone,
)


def user(*blocks: Block) -> Message:
    return Message("user", blocks)


def model(*blocks: Block) -> Message:
    return Message("assistant", blocks)


PNG = Image("image/png", "iVBORw0KGgo=")
SIGNED = Thinking("Hm.", {"provider": "anthropic", "signature": "s1"})
HISTORY = [
    user(Text("Lies die Datei. 日本語 \u2028 \x85"), Context("x = 1")),
    model(SIGNED, Text("I look."), ToolCall("c1", "read_file", '{"path": "a.csv"}')),
    user(ToolResult("c1", (Text("1,2\n3,4"), PNG))),
    user(Said("faster")),
    model(Text("Two rows.")),
]
END = TurnEnd(
    "end",
    "anthropic",
    "model-1",
    Usage(10, 2, 3, 4),
    ({"text": "look", "state": "done"},),
    (Variable("df", "pandas.DataFrame", "DataFrame, 2 rows × 2 columns"),),
)


def open_file(folder: Path, notebook: str = "work.ipynb") -> Conversations:
    return Conversations(folder / "sessions", notebook)


def reopened(folder: Path, session: str = "default", notebook: str = "work.ipynb") -> Stored:
    conversations = open_file(folder, notebook)
    stored = conversations.load(session)
    assert conversations.problem == ""
    conversations.close()
    return stored


def kept(folder: Path, *histories: list[Message], end: TurnEnd | None = END) -> Path:
    conversations = open_file(folder)
    for history in histories:
        conversations.keep("default", history)
    if end:
        conversations.end_turn("default", end)
    assert conversations.problem == ""
    path = conversations.path
    assert path is not None
    conversations.close()
    return path


# There and back ----------------------------------------------------------------------------------


def usages(stored: Stored) -> tuple[Usage, ...]:
    return tuple(turn.usage for turn in stored.turns)


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    """Messages and the end of a turn are loaded again, equal."""
    kept(tmp_path, *(HISTORY[:count] for count in range(1, len(HISTORY) + 1)))
    stored = reopened(tmp_path)
    assert list(stored.history) == HISTORY
    assert stored.turns == (END,)
    assert (stored.plan, usages(stored), stored.variables) == (
        END.plan,
        (END.usage,),
        END.variables,
    )
    assert not stored.is_unfinished
    assert stored.skipped == 0


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    """Each message is one line, however often the history is saved."""
    path = kept(tmp_path, *(HISTORY[:count] for count in (1, 1, 2, 2, 2, 5, 5)), end=None)
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert [line.get("line", "header") for line in lines] == ["header", *["message"] * 5]


def test_going_on_after_a_resume(tmp_path: Path) -> None:
    """After a resume in a second kernel, the third finds both parts and only new lines."""
    path = kept(tmp_path, HISTORY)
    size = path.stat().st_size
    conversations = open_file(tmp_path)
    history = list(conversations.load().history)
    history += [user(Text("And the columns?")), model(Text("Two."))]
    conversations.keep("default", history)
    conversations.end_turn("default", END)
    conversations.close()
    stored = reopened(tmp_path)
    assert list(stored.history) == history
    assert stored.turns == (END, END)
    assert path.stat().st_size < size + 800


def test_a_new_conversation_without_a_resume(tmp_path: Path) -> None:
    """Without a resume a new conversation begins; the earlier one can still be resumed."""
    kept(tmp_path, HISTORY)
    conversations = open_file(tmp_path)
    new = [user(Text("Something else")), model(Text("Yes."))]
    conversations.keep("default", new)
    earlier = conversations.load()
    assert list(earlier.history) == HISTORY
    both = [*earlier.history, *new]
    conversations.keep("default", both)
    conversations.close()
    assert list(reopened(tmp_path).history) == both
    kept(tmp_path, new)
    stored = reopened(tmp_path)
    assert list(stored.history) == new
    assert len(stored.turns) == 1


def test_a_shortened_history(tmp_path: Path) -> None:
    """A compacted history is loaded as the new one."""
    summary = user(Text("[Assistant Execution Summary] …"))
    shorter = [HISTORY[0], summary, *HISTORY[3:]]
    kept(tmp_path, HISTORY, shorter, [*shorter, user(Text("Go on."))])
    assert list(reopened(tmp_path).history) == [*shorter, user(Text("Go on."))]


def test_reset(tmp_path: Path) -> None:
    """After a reset nothing can be resumed, and a new conversation begins."""
    conversations = open_file(tmp_path)
    conversations.keep("default", HISTORY)
    conversations.end_turn("default", END)
    conversations.reset("default")
    conversations.close()
    assert reopened(tmp_path) == Stored()
    conversations = open_file(tmp_path)
    conversations.reset("default")
    conversations.keep("default", HISTORY[3:])
    conversations.close()
    assert list(reopened(tmp_path).history) == HISTORY[3:]


def test_sessions_are_apart(tmp_path: Path) -> None:
    """Each session of a notebook has its own conversation in the one file."""
    conversations = open_file(tmp_path)
    conversations.keep("default", HISTORY[:1])
    conversations.keep("other", [user(Text("other"))])
    conversations.keep("default", HISTORY)
    conversations.reset("third")
    conversations.close()
    again = open_file(tmp_path)
    assert again.sessions == ("default", "other")
    assert list(again.load("default").history) == HISTORY
    assert list(again.load("other").history) == [user(Text("other"))]
    again.close()


def test_a_turn_that_was_broken_off(tmp_path: Path) -> None:
    """After a kernel died during a tool call, the call has a result that says so."""
    kept(tmp_path, HISTORY, end=END)
    conversations = open_file(tmp_path)
    history = list(conversations.load().history)
    call = model(ToolCall("c2", "execute_code", "{}"))
    conversations.keep("default", [*history, user(Text("Go on.")), call])
    conversations.close()
    stored = reopened(tmp_path)
    assert stored.is_unfinished
    assert list(stored.history) == repair([*history, user(Text("Go on.")), call])
    assert stored.history[-1].tool_results[0].is_error


# Crashes -----------------------------------------------------------------------------------------


def cuts(size: int, ends: list[int]) -> list[int]:
    """Places to cut a file: about each line's end, and some between; all in `make test-deep`."""
    if PROFILE != "commit":
        return list(range(size + 1))
    near = {end + by for end in (0, *ends) for by in (-1, 0, 1)}
    some = random.Random(seed()).sample(range(size + 1), 60)
    return sorted({*some, *(cut for cut in near if 0 <= cut <= size)})


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """A file cut anywhere holds the longest whole conversation, and can be continued."""
    shorter = [HISTORY[0], user(Text("[Assistant Execution Summary]")), HISTORY[4]]
    states = [*(HISTORY[:count] for count in range(1, 6)), shorter]
    path = kept(tmp_path, *states)
    data = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    assert len(ends) == 8
    expected = [[], *states, shorter]
    more = user(Text("Go on."))
    for cut in cuts(len(data), ends):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        # A line that lacks only its end is whole.
        whole += data[cut : cut + 1] == b"\n"
        want = repair(expected[max(0, whole - 1)])
        conversations = open_file(tmp_path)
        history = list(conversations.load().history)
        assert history == want, cut
        assert conversations.take_notices() == []
        conversations.keep("default", [*history, more])
        conversations.close()
        assert reopened(tmp_path).history == (*want, more), cut


@pytest.mark.deep
def test_killed_at_any_time(tmp_path: Path) -> None:
    """However often a writing kernel is killed, the file holds a prefix."""
    script = """
        import sys
        from pathlib import Path
        from jupyter_agent.stores.conversations import Conversations
        from jupyter_agent.core.messages import Message, Text
        conversations = Conversations(Path(sys.argv[1]), "work.ipynb")
        history = list(conversations.load().history)
        print(len(history), flush=True)
        while True:
            number = len(history)
            history.append(Message("user", (Text(f"{number} " + "x" * number % 5000),)))
            if number % 50 == 49:
                history[:] = [Message("user", (Text(f"{n} again"),)) for n in range(number + 1)]
            conversations.keep("default", history)
    """.replace('"x" * number % 5000', '"x" * (number * 37 % 5000)')
    last = 0
    for attempt in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "sessions")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert int(process.stdout.readline()) >= last
        time.sleep(0.2 + 0.011 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        stored = reopened(tmp_path)
        numbers = [int(message.text.split()[0]) for message in stored.history]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last
        last = len(numbers)


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    """A damaged line in the middle costs that line, and is counted."""
    path = kept(tmp_path, HISTORY)
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"\xff\xfe not JSON"
    lines.insert(4, b'{"line":"message","session":"default","message":{"role":"nobody"}}')
    lines.insert(4, b'{"line":"from a later version","session":"default"}')
    lines.insert(4, b"[" * 100_000)
    path.write_bytes(b"\n".join(lines))
    stored = reopened(tmp_path)
    assert list(stored.history) == repair([HISTORY[0], *HISTORY[2:]])
    assert stored.skipped == 4


@pytest.mark.parametrize(
    "content",
    [
        b"not ours\n",
        b'{"conversation": 2}\n{}\n',
        b"\x00\x01\x02",
        b"{}",
        b"[1]\n",
        b"\n\n",
        b"null\n",
    ],
)
def test_a_foreign_file_is_moved_aside(tmp_path: Path, content: bytes) -> None:
    """A file that is no conversation is renamed, with a notice."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "work.jsonl").write_bytes(content)
    conversations = open_file(tmp_path)
    assert conversations.load() == Stored()
    (notice,) = conversations.take_notices()
    (aside,) = folder.glob("work.jsonl.corrupt-*")
    assert aside.read_bytes() == content
    assert aside.name in notice
    conversations.keep("default", HISTORY)
    conversations.close()
    assert list(reopened(tmp_path).history) == HISTORY


def test_the_file_vanishes(tmp_path: Path) -> None:
    """If the file is removed or cut while the kernel runs, all is written again."""
    conversations = open_file(tmp_path)
    conversations.keep("default", HISTORY[:3])
    path = conversations.path
    assert path is not None
    path.unlink()
    conversations.keep("default", HISTORY[:4])
    path.write_bytes(path.read_bytes()[:100])
    conversations.keep("default", HISTORY)
    conversations.close()
    assert list(reopened(tmp_path).history) == HISTORY


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """If the folder cannot be created, nothing is kept, with a reason and no error."""
    (tmp_path / "sessions").write_text("in the way")
    conversations = open_file(tmp_path)
    conversations.keep("default", HISTORY)
    conversations.end_turn("default", END)
    conversations.reset("default")
    assert conversations.load() == Stored()
    (line,) = conversations.take_notices()
    assert line.startswith("The conversation is not being saved: ")
    assert "sessions is a file and no folder. Move it away." in line
    assert conversations.problem


def refused(folder: Path, is_refused: bool) -> None:
    """Put a link in the place of the file, so that nothing can be written, or take it away."""
    path, aside = folder / "sessions/work.jsonl", folder / "aside"
    if is_refused:
        path.rename(aside)
        path.symlink_to(aside)
    else:
        path.unlink()
        aside.rename(path)


@pytest.mark.parametrize("how", ["closed", "next turn", "reset", "removed"])
def test_saving_goes_on(tmp_path: Path, how: str) -> None:
    """Unsaved turns are written as soon as possible, each with its end."""
    conversations = open_file(tmp_path)
    conversations.keep("default", HISTORY[:3])
    conversations.end_turn("default", END)
    refused(tmp_path, True)
    size = (tmp_path / "aside").stat().st_size
    for count in (4, 5, 5):
        conversations.keep("default", HISTORY[:count])
    conversations.end_turn("default", END)
    conversations.keep("default", HISTORY)
    (line,) = conversations.take_notices()
    assert line.startswith("The conversation is not being saved: sessions/work.jsonl is a link")
    assert (tmp_path / "aside").stat().st_size == size
    if how == "removed":
        (tmp_path / "sessions/work.jsonl").unlink()
    else:
        refused(tmp_path, False)
    history, turns = list(HISTORY), 2
    if how in ("next turn", "removed"):
        history.append(user(Text("And then?")))
        conversations.keep("default", history)
        assert conversations.take_notices() == [
            "The conversation is saved again, nothing is missing."
        ]
    elif how == "reset":
        conversations.reset("default")
        history, turns = [], 0
    conversations.close()
    stored = reopened(tmp_path)
    assert list(stored.history) == history
    assert len(stored.turns) == turns
    assert stored.is_unfinished == (how in ("next turn", "removed"))


def test_a_removed_lock(tmp_path: Path) -> None:
    """After a lost lock two kernels continue in files of their own."""
    first = open_file(tmp_path)
    first.keep("default", HISTORY[:1])
    (tmp_path / "sessions/work.jsonl.lock").unlink()
    second = open_file(tmp_path)
    second.keep("default", HISTORY[3:])
    first.keep("default", HISTORY[:3])
    assert first.path is not None and second.path is not None
    assert first.path.name == "work-2.jsonl" and second.path.name == "work.jsonl"
    first.close()
    second.close()
    assert list(reopened(tmp_path).history) == HISTORY[3:]


# Two kernels -------------------------------------------------------------------------------------


def test_a_second_kernel_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Two kernels of one notebook do not write to one file."""
    first, second = open_file(tmp_path), open_file(tmp_path)
    first.keep("default", HISTORY[:1])
    second.keep("default", HISTORY[3:])
    assert first.path is not None
    assert second.path is not None
    assert (first.path.name, second.path.name) == ("work.jsonl", "work-2.jsonl")
    first.close()
    second.close()
    assert list(reopened(tmp_path).history) == HISTORY[:1]


def test_the_lock_dies_with_its_kernel(tmp_path: Path) -> None:
    """After a kill the next kernel has the same file, even if a child of the dead one lives on."""
    script = """
        import os, sys, time
        from pathlib import Path
        from jupyter_agent.stores.conversations import Conversations
        from jupyter_agent.core.messages import Message, Text
        conversations = Conversations(Path(sys.argv[1]), "work.ipynb")
        conversations.keep("default", [Message("user", (Text("hello"),))])
        if os.fork() == 0:
            print("written", flush=True)
            os.close(1)
            time.sleep(8)
            os._exit(0)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "sessions")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.kill()
    process.wait()
    process.stdout.close()
    conversations = open_file(tmp_path)
    assert [message.text for message in conversations.load().history] == ["hello"]
    assert conversations.path is not None
    assert conversations.path.name == "work.jsonl"
    conversations.close()


@pytest.mark.parametrize(
    ("notebook", "stem"),
    [
        ("work.ipynb", "work"),
        ("sub/folder/work.ipynb", "sub--folder--work"),
        ("", "notebook"),
        ("Auswertung März.ipynb", "Auswertung März"),
        ('a:b*"c".ipynb', "a_b__c_"),
        ("..", "notebook"),
    ],
)
def test_names_of_files(notebook: str, stem: str) -> None:
    """A notebook's name becomes the file's, without what a file system minds."""
    assert file_stem(notebook) == stem


@given(st.text(max_size=300))
def test_any_name_will_do(notebook: str) -> None:
    """Any notebook name gives one short file name inside the folder."""
    stem = file_stem(notebook)
    assert stem
    assert "/" not in stem
    assert stem not in (".", "..")
    assert len(os.fsencode(stem)) <= 130
    assert "\0" not in stem


# What is not kept --------------------------------------------------------------------------------


def test_secrets_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds no secret; a signature that covers one is dropped."""
    monkeypatch.setenv("SOME_API_KEY", "value-of-a-key")
    shaped = "sk-ant-" + "a1b2" * 6
    history = [
        user(Text("My key is value-of-a-key"), Context(f"key = '{shaped}'")),
        model(
            Thinking("They say value-of-a-key", {"provider": "anthropic", "signature": "s"}),
            SIGNED,
            ToolCall("c1", "write_file", json.dumps({"content": shaped})),
        ),
        user(ToolResult("c1", (Text(f"wrote {shaped}"), PNG))),
    ]
    path = kept(tmp_path, history)
    text = path.read_text("utf-8")
    assert "value-of-a-key" not in text
    assert shaped not in text
    stored = reopened(tmp_path).history
    assert stored[0].text == "My key is [redacted]"
    assert stored[1].blocks[0] == SIGNED
    assert stored[2].tool_results[0].content == (Text("wrote [redacted]"), PNG)


def test_pictures_within_limits(tmp_path: Path) -> None:
    """Pictures are kept as they are, but not one that is huge, nor too many."""
    large = Image("image/png", "A" * (PICTURE_CHARACTERS + 1))
    good = Image("image/png", "AKIAABCDEFGHIJKLMNOP" + "B" * (PICTURE_CHARACTERS - 20))
    history = [user(good, large)] + [user(Text(str(n)), good) for n in range(15)]
    path = kept(tmp_path, history)
    stored = reopened(tmp_path).history
    assert stored[0].blocks == (good, Text(NO_PICTURE))
    assert [message.blocks[1] for message in stored[1:]] == [good] * 12 + [Text(NO_PICTURE)] * 3
    assert path.stat().st_size < 21_000_000


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Replaced parts are removed when the next kernel opens the file."""
    conversations = open_file(tmp_path)
    for number in range(20):
        conversations.keep("default", [user(Text(f"{number} " + "x" * 100_000))])
        conversations.end_turn("default", END)
    conversations.keep("default", [user(Text("the last")), model(Text("…"))])
    path = conversations.path
    conversations.close()
    assert path is not None
    assert path.stat().st_size > 2_000_000
    before = reopened(tmp_path)
    assert path.stat().st_size < 20_000
    after = reopened(tmp_path)
    assert after.history == before.history == (user(Text("the last")), model(Text("…")))
    assert (after.variables, after.plan, usages(after)) == (
        before.variables,
        before.plan,
        usages(before),
    )
    assert after.is_unfinished == before.is_unfinished is True


# Variables ---------------------------------------------------------------------------------------


def test_variables_without_values() -> None:
    """Of a variable its name, type and form are kept, and no data."""
    import pandas as pd

    found = described({"df": pd.DataFrame({"a": [1]}), "secret": "hunter2", "n": 42})
    assert found[0] == Variable("df", "pandas.DataFrame", "DataFrame, 1 row × 1 column")
    assert [each.type for each in found[1:]] == ["str", "int"]
    assert "hunter2" not in str(found)
    assert "42" not in str(found)


def test_which_variables_are_gone() -> None:
    """Missing variables and those of another type are listed, others are not."""
    then = described({"table": [1, 2], "n": 1, "same": "x"})
    told = gone(then, {"n": "now a text", "same": "y"})
    assert told == (
        "This conversation goes on in a new kernel.\n"
        "These variables of the earlier kernel do not exist any more:\n"
        f"- table: {then[0].summary}\n"
        "These variables are of another type now:\n"
        "- n: was int, is str"
    )
    assert "do not exist any more:\n- table: list\n" in gone(then, {}, "names")
    assert gone(then, {}, "none") == ""
    assert "do not exist" not in gone(then, {"table": [], "n": 2, "same": ""})
    many = tuple(Variable(f"v{n}", "int") for n in range(100))
    assert gone(many, {}).endswith("- and 40 more")
    assert "\n- a\\nb: x\\ny" in gone((Variable("a\nb", "t", "x\ny"),), {})


# A law -------------------------------------------------------------------------------------------

WORDS = st.text(max_size=20)
BLOCKS = st.one_of(
    WORDS.map(Text),
    WORDS.map(Context),
    WORDS.map(Said),
    st.builds(Image, st.just("image/png"), st.text("ABC=", max_size=9)),
    st.builds(ToolCall, WORDS, WORDS, WORDS),
    st.builds(ToolResult, WORDS, st.lists(WORDS.map(Text), max_size=2).map(tuple), st.booleans()),
    st.builds(Thinking, WORDS, st.dictionaries(WORDS, WORDS, max_size=2)),
)
MESSAGES = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=3).map(tuple)
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("more"), st.lists(MESSAGES, max_size=3)),
        st.tuples(st.just("other"), st.lists(MESSAGES, max_size=3)),
        st.tuples(st.just("end"), st.just(None)),
        st.tuples(st.just("reset"), st.just(None)),
        st.tuples(st.just("resume"), st.just(None)),
    ),
    max_size=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.integers(0, 10_000))
def test_any_conversation_comes_back(steps: list[tuple[str, Any]], cut: int) -> None:
    """Any conversation is loaded as it was, repaired; a cut file is readable."""
    with tempfile.TemporaryDirectory() as folder:
        conversations = open_file(Path(folder))
        history: list[Message] = []
        turns = 0
        for kind, messages in steps:
            if kind == "more":
                history = [*history, *messages]
            elif kind == "other":
                history = [*history[: len(history) // 2], *messages]
            elif kind == "reset":
                history, turns = [], 0
                conversations.reset("default")
            elif kind == "end":
                turns += 1
                conversations.end_turn("default", END)
            else:
                conversations.close()
                conversations = open_file(Path(folder))
                stored = conversations.load()
                assert list(stored.history) == repair(history)
                history = list(stored.history)
            conversations.keep("default", history)
        conversations.close()
        stored = reopened(Path(folder))
        assert list(stored.history) == repair(history)
        assert len(stored.turns) == turns
        path = Path(folder) / "sessions" / "work.jsonl"
        data = path.read_bytes()
        path.write_bytes(data[: cut % (len(data) + 1)])
        assert repair(reopened(Path(folder)).history) == list(reopened(Path(folder)).history)
