"""P9 and P10: what a turn leaves on the disk, in the notebook and in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.borrowed import logged
from benchmarks.result import Result, megabytes, table

STEPS = 100
TABLE = """import pandas as pd
frame_{n} = pd.DataFrame(
    {{"station": [f"station {{i}}" for i in range({n}, {n} + 12)],
      "slope": [round(i * 0.37 + {n}, 3) for i in range(12)],
      "count": [i * {n} for i in range(12)]}}
)
print("fitted {n} of 100 models without a warning, in the order of the stations")
print(frame_{n}.describe().to_string())
frame_{n}"""
LONG = """import random
chance = random.Random({n})
print("\\n".join(f"{{i:>7}} {{chance.random():.12f}}" for i in range(45_000))[:1_000_000])"""


def unique(lines: list[dict[str, Any]]) -> int:
    """The bytes of all distinct texts that a log has to tell."""
    texts: set[str] = set()
    told: set[str] = set()
    for line in lines:
        match line["type"]:
            case "turn_started":
                texts.add(line["task"])
            case "prompt":
                texts |= {line["system"], *line["context"]}
                texts.add(json.dumps(line["tools"].get("schemas", []), ensure_ascii=False))
            case "message_finished":
                for block in line["message"]["blocks"]:
                    texts.add(block.get("text") or block.get("arguments") or "")
            case "tool_finished":
                result = line["result"]
                content = [block.get("text", "") for block in result["content"]]
                texts |= set(content)
                told = {part for text in content for part in text.split("\n")}
                for output in result["display"]:
                    for data in output["data"].values():
                        # What is told in the result is no new content, whatever lines it is in.
                        new = [part for part in str(data).split("\n") if part not in told]
                        texts.add("\n".join(new))
    return sum(len(text.encode()) for text in texts)


def log(bench: Bench) -> Result:
    """P9."""
    rows, worst = [], 0.0
    plans = {
        "the chain": {"kind": "chain", "steps": STEPS},
        "tables": {"kind": "codes", "codes": [TABLE.format(n=n) for n in range(STEPS)]},
    }
    with bench.kernel() as kernel:
        for name, plan in plans.items():
            before = kernel.live.logs()
            kernel.turn(plan)
            (path,) = kernel.live.logs() - before
            size, content = path.stat().st_size, unique(list(logged(path)))
            worst = max(worst, size / content)
            a_step = f"{content / STEPS:,.0f}", f"{(size - content) / STEPS:,.0f}"
            rows.append((name, f"{size:,}", f"{content:,}", f"{size / content:.2f}", *a_step))
    head = ("work", "log", "unique content", "ratio", "content of a step", "the rest of a step")
    measured = "; ".join(f"{row[0]}: {row[3]}" for row in rows)
    return Result(
        "P9",
        f"log bytes over unique content bytes, {STEPS} steps",
        "at most 2",
        measured,
        worst <= 2,
        head,
        table(head, rows),
        "Each step has four lines (request, reply, start and end of the call), whose numbers, "
        "times and types are the rest: the ratio is within the target where a step has more to say "
        "than that. The chain says as little as a step can; the tables are ordinary work. The "
        "second turn of a kernel names the tools' schemas by the first.",
    )


def outputs(bench: Bench) -> Result:
    """P10."""
    number = 10 if bench.quick else 100
    plan = {"kind": "codes", "codes": [LONG.format(n=n) for n in range(number)], "sums_up": True}
    with bench.kernel() as kernel:
        bare = kernel.memory
        kernel.turn({"kind": "chain", "steps": 5})
        start = kernel.memory
        before = kernel.live.logs()
        turned = kernel.turn(plan)
        (path,) = kernel.live.logs() - before
        assert sum(line["type"] == "tool_finished" for line in logged(path)) == number
        end, peak = kernel.memory, _peak(kernel.live.value("__import__('os').getpid()"))
        path = bench.folder / "outputs.ipynb"
        _save(path, turned.cell.outputs)
        disk = sum(f.stat().st_size for f in kernel.live.folder.rglob("*.txt"))
    size = path.stat().st_size
    head = ("", "size")
    rows = [
        ("notebook file", megabytes(size)),
        ("kernel memory with the extension loaded", megabytes(bare)),
        ("after a small turn, which imports the SDK: the start", megabytes(start)),
        ("after the turn", megabytes(end)),
        ("the most at any time", megabytes(peak)),
        ("whole outputs, kept on disk", megabytes(disk)),
    ]
    return Result(
        "P10",
        f"notebook file and kernel memory after {number} tool outputs of 1 MB",
        "notebook under 2 MB, memory under 60 MB above the start",
        f"notebook {megabytes(size)}, memory {megabytes(end - start)} above the start",
        size < 2e6 and end - start < 60e6,
        head,
        table(head, rows),
    )


def _peak(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _save(path: Path, shown: tuple[dict[str, Any], ...]) -> None:
    """The notebook as a front end saves it: one cell with what it showed."""
    import nbformat
    from nbformat import v4

    outputs = [
        v4.new_output(each["type"], **{k: v for k, v in each.items() if k in _KEPT})
        for each in shown
    ]
    cell = v4.new_code_cell("%%agent\nDo it.", outputs=outputs, execution_count=1)
    nbformat.write(v4.new_notebook(cells=[cell]), path)


_KEPT = ("name", "text", "data", "metadata", "execution_count", "ename", "evalue", "traceback")
