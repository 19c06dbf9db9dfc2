"""What keeps a notebook from running elsewhere. Reads only; the standard library is enough."""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

_MOST_BYTES = 100 * 1024 * 1024
_LARGE_OUTPUT = 200_000
_ABSOLUTE = re.compile(
    r"""["'](/(?:home|Users|mnt|media|data|tmp|root|Volumes|content|srv|opt)/[^"'\n]*|~/[^"'\n]*|[A-Za-z]:[\\/][^"'\n]*)["']"""
)
_SECRET = re.compile(
    r"sk-[A-Za-z0-9_\-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|AIza[\w\-]{35}|hf_[A-Za-z0-9]{30,}"
    r"|(?i:\b(?:api_?key|password|passwd|secret|token)\b)\s*=\s*[\"'][^\"'\s]{8,}[\"']"
)
_NETWORK = re.compile(r"""["'](?:https?|s3|gs|ftp)://[^"'\n]+["']""")
_INSTALL = re.compile(
    r"^\s*[!%]\s*(?:pip|conda|mamba|uv)\b.*\binstall\b(?P<what>.*)$", re.MULTILINE
)
_NOW = re.compile(
    r"\b(?:datetime\.now|datetime\.today|date\.today|time\.time|Timestamp\.now|Timestamp\.today)\("
)
_RANDOM = re.compile(
    r"\b(?:np|numpy)\.random\.(?!default_rng|seed|Generator|SeedSequence|RandomState)\w+\(|(?<![\w.])random\.(?!seed|Random)\w+\(|\.sample\((?![^()]*random_state)|\btrain_test_split\((?![^()]*random_state)|default_rng\(\s*\)"
)
_SEEDED = re.compile(r"\b(?:np|numpy)\.random\.seed\(|(?<![\w.])random\.seed\(|\bmanual_seed\(")
_SETS = re.compile(r"\bglob\(|\blistdir\(|\biterdir\(")
_TIMED = re.compile(r"\s*%%(?:time|timeit|capture|prun)\b")
_GIVEN = frozenset(dir(builtins)) | {
    "get_ipython",
    "display",
    "In",
    "Out",
    "exit",
    "quit",
    "_",
    "__",
    "___",
    "__name__",
    "__file__",
    "__doc__",
    "_agent",
}


def check_notebook(path: str | Path) -> str:
    """A line for each finding: the cell (counted from 1), and what is wrong.

    Raises:
        ValueError: It is no notebook, or larger than 100 MB.
        OSError: It cannot be read.
    """
    notebook = _read(Path(path))
    cells = [
        (n, cell) for n, cell in enumerate(notebook["cells"], 1) if cell.get("cell_type") == "code"
    ]
    sources = [(n, _text(cell.get("source"))) for n, cell in cells]
    findings = [*_order(cells), *_names(sources), *_by_line(sources), *_outputs(cells)]
    findings.sort(key=lambda finding: finding[0])
    lines = [f"cell {n}: {what}" if n else what for n, what in findings]
    head = f"{len(notebook['cells'])} cells, {len(cells)} of code"
    return "\n".join([head, *(lines or ["Nothing was found. Restart and run all to be sure."])])


def environment(modules: Iterable[str] | None = None) -> str:
    """Python's version, and `name==version` of each distribution that this kernel has imported.

    Args:
        modules: Names of modules instead of those that are imported.
    """
    from importlib import metadata

    loaded = set(sys.modules if modules is None else modules)
    tops = {name.partition(".")[0] for name in loaded}
    of_module = metadata.packages_distributions()
    names = {name for top in tops for name in of_module.get(top, ())}
    pins = set()
    for name in names:
        try:
            pins.add(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    head = f"# Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return "\n".join([head, *sorted(pins, key=str.lower)])


def data_files(paths: Iterable[str | Path]) -> str:
    """SHA-256 of files, in the form that `sha256sum -c` checks."""
    lines = []
    for path in sorted(map(Path, paths)):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        lines.append(f"{digest}  {path.as_posix()}")
    return "\n".join(lines)


def fingerprint(table: Any, digits: int = 10) -> str:
    """A short text that stays the same as long as a table's names, types and values do.

    Numbers are compared to `digits` significant digits, since the last ones differ between
    machines. The order of rows counts, the index counts, the order of columns counts.

    Raises:
        TypeError: It is no DataFrame or Series.
    """
    import pandas as pd

    if isinstance(table, pd.Series):
        table = table.to_frame()
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"a DataFrame or a Series is needed, not {type(table).__name__}")
    whole = hashlib.sha256(
        repr([(str(n), str(d)) for n, d in zip(table.columns, table.dtypes, strict=True)]).encode()
    )
    for values in (table.index, *(table.iloc[:, i] for i in range(table.shape[1]))):
        for value in values:
            text = f"{value:.{digits}g}" if isinstance(value, float) else str(value)
            whole.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return f"{table.shape[0]} x {table.shape[1]}, {whole.hexdigest()[:16]}"


Finding = tuple[int, str]


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} is larger than 100 MB")
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError:
        raise ValueError(f"{path} is no notebook: it is not JSON") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError(f"{path} is no notebook of format 4")
    notebook["cells"] = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    return notebook


def _order(cells: list[tuple[int, dict[str, Any]]]) -> Iterator[Finding]:
    filled = [(n, cell) for n, cell in cells if _text(cell.get("source")).strip()]
    counts = [(n, cell.get("execution_count")) for n, cell in filled]
    run = [(n, count) for n, count in counts if isinstance(count, int)]
    if not run and filled:
        yield 0, "No cell has been run since the outputs were cleared."
        return
    for n, count in counts:
        if not isinstance(count, int):
            yield n, "was not run"
    for (_, before), (n, count) in pairwise(run):
        if count < before:
            yield n, f"was run before the cell above it (as {count}, that one as {before})"
    if run and [count for _, count in run] != list(range(1, len(run) + 1)):
        yield 0, "The notebook was not run once from top to bottom in a fresh kernel."


def _names(sources: list[tuple[int, str]]) -> Iterator[Finding]:
    trees = [(n, tree) for n, source in sources if (tree := _tree(source)) is not None]
    defined_in: dict[str, int] = {}
    for n, tree in trees:
        for name in _bound(tree):
            defined_in.setdefault(name, n)
    if any(
        isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names)
        for _, tree in trees
        for node in ast.walk(tree)
    ):
        yield 0, "A star import hides which names are defined: names are not checked."
        return
    agents = [n for n, source in sources if source.lstrip().startswith("%%agent")]
    for n, tree in trees:
        by_agent = bool(agents) and agents[0] < n  # the agent may have made any name
        for name in sorted(_used(tree)):
            first = defined_in.get(name)
            if first is None and name not in _GIVEN and not by_agent:
                yield n, f"uses {name}, which no cell defines"
            elif first is not None and first > n:
                yield n, f"uses {name}, which cell {first} defines further down"


def _by_line(sources: list[tuple[int, str]]) -> Iterator[Finding]:
    is_seeded = any(_SEEDED.search(source) for _, source in sources)
    for n, source in sources:
        if source.lstrip().startswith("%%agent"):
            continue
        code = "\n".join(line for line in source.split("\n") if not line.lstrip().startswith("#"))
        for match in _ABSOLUTE.finditer(code):
            yield n, f"absolute path {match[1][:60]}"
        if _SECRET.search(code):
            yield n, "holds what looks like a key or a password"
        if _NETWORK.search(code):
            yield n, "reads from the network, which may change"
        for match in _INSTALL.finditer(code):
            what = match["what"]
            yield (
                n,
                "installs packages"
                + ("" if "==" in what or "-r" in what else " without a version"),
            )
        if _NOW.search(code):
            yield n, "depends on the time it is run at"
        if _RANDOM.search(code) and not is_seeded:
            yield n, "uses random numbers without a seed"
        if _SETS.search(code) and "sorted(" not in code:
            yield n, "takes files in the order of the file system: sort them"


def _outputs(cells: list[tuple[int, dict[str, Any]]]) -> Iterator[Finding]:
    for n, cell in cells:
        outputs = [one for one in cell.get("outputs") or () if isinstance(one, dict)]
        if any(one.get("output_type") == "error" for one in outputs):
            yield n, "ends with an error in the saved output"
        size = len(json.dumps(outputs))
        if size > _LARGE_OUTPUT:
            yield n, f"has {size / 1e6:.1f} MB of outputs"
        if _SECRET.search(json.dumps(outputs)):
            yield n, "shows what looks like a key or a password in its output"


def _tree(source: str) -> ast.Module | None:
    """The cell's syntax without magics and shell lines; None where Python cannot read it."""
    if _TIMED.match(source):
        source = source.partition("\n")[2]
    elif source.lstrip().startswith("%%"):
        return None
    kept = []
    for line in source.split("\n"):
        bare = line.lstrip()
        assigned = re.match(r"(\s*)(\w+)\s*=\s*[!%]", line)
        if assigned:
            kept.append(f"{assigned[1]}{assigned[2]} = None")
        elif bare[:1] in ("!", "%", "?") or bare.rstrip().endswith("?"):
            kept.append(" " * (len(line) - len(bare)) + "pass")
        else:
            kept.append(line)
    try:
        return ast.parse("\n".join(kept))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _bound(tree: ast.AST) -> set[str]:
    """Every name that is bound somewhere in it, in functions, too: rather too many than too few."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


def _used(tree: ast.Module) -> set[str]:
    """The names that are read when the cell runs: bodies of functions run later."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            waiting += [*inner, *getattr(node, "decorator_list", ())]
        else:
            waiting += list(ast.iter_child_nodes(node))
    return names


def _text(source: object) -> str:
    if isinstance(source, list):
        return "".join(map(str, source))
    return source if isinstance(source, str) else ""
