"""What delegates are for, in a real kernel: many files, and documents that are too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from live_kernel import Json, LiveKernel
from model_server import Call, ModelServer, Reply

from jupyter_agent.llm.tokens import TokenCounter

CASSETTE = "uses.cassette.jsonl"
LIMIT = 20_000


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("uses")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(autouse=True)
def given(kernel: LiveKernel) -> Iterator[None]:
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset")
    yield
    kernel.helper("%agent config mode auto", "%agent config token_limit 80000")


def use(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper("%agent config provider openai", f"%agent config api_base {server.openai_url}")


def act(code: str) -> Reply:
    return Reply(calls=(Call("execute_code", json.dumps({"code": code})),))


def give(*assignments: Json) -> Reply:
    return Reply(calls=tuple(Call("delegate", json.dumps(each)) for each in assignments))


def told(body: Json) -> str:
    """The first message of a request's user, as text."""
    return str(next(each["content"] for each in body["messages"] if each["role"] == "user"))


def steps(body: Json) -> int:
    return sum(each["role"] == "assistant" for each in body["messages"])


FILES = {
    "sales.csv": ("shop,sold\na,120\nb,88\n", "import csv, io\n"
                  "n = sum(int(r['sold']) for r in csv.DictReader(open('sales.csv')))"),
    "staff.json": ('{"people": ["x", "y", "z"]}', "import json\n"
                   "n = len(json.load(open('staff.json'))['people'])"),
    "notes.md": ("# Notes\n\nThe rent is 950.\n", "import re\n"
                 "n = int(re.search(r'[0-9]+', open('notes.md').read())[0])"),
    "app.ini": ("[limits]\nretries = 7\n", "import configparser\n"
                "c = configparser.ConfigParser()\nc.read('app.ini')\n"
                "n = c.getint('limits', 'retries')"),
    "broken.json": ('{"people": [', "import json\nn = len(json.load(open('broken.json')))"),
}  # fmt: skip


def test_each_of_these_files(kernel: LiveKernel) -> None:
    """A delegate for each file, whatever is in it: each works out its own, under one name that all
    of them use inside, and a file that cannot be read spoils nothing for the others."""
    for name, (text, _) in FILES.items():
        (kernel.folder / name).write_text(text, encoding="utf-8")
    tasks = {f"Find the one number of {name}.": name for name in FILES}
    outputs = {name: f"from_{name.partition('.')[0]}" for name in FILES}

    def reply(body: Json) -> Reply:
        name = next((name for task, name in tasks.items() if told(body).startswith(task)), "")
        if not name:
            wanted = ({"task": t, "output": [outputs[each]]} for t, each in tasks.items())
            return (give(*wanted), Reply(text="Four of five."))[steps(body)]
        failed = "Traceback" in json.dumps(body["messages"]) or "Error" in str(body["messages"][-1])
        last = "It is not valid JSON." if failed else f"It is in `{outputs[name]}`."
        return (act(f"{FILES[name][1]}\n{outputs[name]} = n"), Reply(text=last))[steps(body)]

    with ModelServer(reply) as server:
        use(kernel, server)
        logs = kernel.logs()
        turn = kernel.turn(kernel.run("%%agent\nWhat is the number in each of these files?"), logs)
    assert turn.cell.status == "ok", turn.cell.error
    found = kernel.value("(from_sales, from_staff, from_notes, from_app)")
    assert found == (208, 3, 950, 7)
    assert kernel.value("[name for name in ('n', 'c', 'from_broken') if name in globals()]") == []
    texts = [result.text for result in turn.results]
    assert sum("It is in `from_" in text for text in texts) == 4
    (broken,) = [text for text in texts if "not valid JSON" in text]
    assert "Not made: from_broken." in broken


def document() -> tuple[str, list[int]]:
    """300,000 characters in 3,000 lines, and the lines that hold a date that matters."""
    dated = [7, 811, 1_640, 2_222, 2_989]
    lines = []
    for number in range(1, 3_001):
        words = f"clause {number}: the parties heretofore named agree on item {number * 7}"
        if number in dated:
            words += f" and the deadline is day {number + 100}"
        lines.append(words.ljust(99, "."))
    return "\n".join(lines) + "\n", dated


def test_a_long_document_stays_out_of_the_conversation(kernel: LiveKernel) -> None:
    """A delegate reads 300,000 characters by pieces, and its conversation is shortened each time it
    would grow over the limit; the agent that gave the task reads the report alone. Tokens are
    counted once, summaries too, and a replay gives the same bytes.
    """
    text, dated = document()
    assert len(text) == 300_000
    (kernel.folder / "contract.txt").write_text(text, encoding="utf-8")
    (kernel.folder / CASSETTE).unlink(missing_ok=True)
    task = "Read contract.txt by pieces and list all deadlines."
    found: list[str] = []
    reads, asked = iter(range(1, 3_001, 300)), []

    def of_delegate(body: Json) -> Reply:
        asked.append(body)
        last = str(body["messages"][-1]["content"])
        found.extend(word for word in last.split() if word.rstrip(".").isdigit() and f"day {word}"
                     in last)  # fmt: skip
        offset = next(reads, None)
        if offset is None:
            return Reply(text=f"Deadlines: {', '.join(each.rstrip('.') for each in found)}.")
        arguments = {"path": "contract.txt", "offset": offset, "limit": 300}
        return Reply(calls=(Call("read_file", json.dumps(arguments)),))

    def counted(body: Json) -> int:
        return TokenCounter().text(json.dumps(body["messages"]) + json.dumps(body.get("tools")))

    def reply(body: Json) -> Reply:
        return replace(chosen(body), input_tokens=counted(body))

    def chosen(body: Json) -> Reply:
        first = str(body["messages"][0]["content"])
        if first.startswith("You summarize"):
            return Reply(text="Goal: deadlines. Found: noted so far.")
        if task in told(body):
            return of_delegate(body)
        return (give({"task": task}), Reply(text="Five deadlines."))[steps(body)]

    with ModelServer(reply) as server:
        use(kernel, server)
        kernel.helper(
            f"%agent config token_limit {LIMIT}",
            f"%agent cassette {CASSETTE}",
            "%agent config mode record",
        )
        logs = kernel.logs()
        turn = kernel.turn(kernel.run("%%agent\nWhich deadlines does the contract have?"), logs)
        requests = [each.body for each in server.requests]
    assert turn.cell.status == "ok", turn.cell.error
    days = ", ".join(f"{number + 100}" for number in dated)
    assert turn.result.text == f"Deadlines: {days}."
    main = [body for body in requests if "Which deadlines" in told(body)]
    assert len(main) == 2 and len(asked) == 11
    assert not any("heretofore" in json.dumps(body) for body in main)
    assert max(map(counted, asked)) < LIMIT < TokenCounter().text(text) / 3
    shortened = [e for e in turn.events if e.get("event", {}).get("type") == "compacted"]
    assert len(shortened) > 1
    assert kernel.value("_agent.usage.total_tokens") == sum(map(counted, requests)) + 5 * len(
        requests
    )
    kernel.helper("%reset -f", "%load_ext jupyter_agent", "%agent reset")
    kernel.helper("%agent config mode replay")
    replayed = kernel.run("%%agent\nWhich deadlines does the contract have?")
    assert replayed.status == "ok", replayed.error
    assert replayed.displays == turn.cell.displays
