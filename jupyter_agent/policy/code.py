"""What a cell does that a person may want to know of first, told from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_agent.core.plaintext import all_in_one_line, one_line
from jupyter_agent.policy import catalogue
from jupyter_agent.policy.files import UNKNOWN_FILE, judge_folder, judge_write
from jupyter_agent.policy.magics import Magic, is_known, judge_magic
from jupyter_agent.policy.parsing import CannotJudge, cell_tree, code_tree
from jupyter_agent.policy.resolve import UNKNOWN, Names, Value, Values
from jupyter_agent.policy.verdict import PolicyContext, Risk, RiskKind

_MOST_TREES = 200
_MOST_ROUNDS = 6
_WRITING = frozenset({*catalogue.WRITERS, *catalogue.MOVERS})

_VERBS: dict[RiskKind, str] = {
    "shell": "runs a shell command",
    "process": "starts or steers another process",
    "install": "installs packages",
    "delete": "deletes or removes",
    "network": "fetches from the network",
    "folder": "changes the working folder",
    "browser": "runs JavaScript in your browser",
    "hidden": "runs code that cannot be seen before it runs",
    "settings": "changes how Python or IPython works",
    "agent": "changes the agent itself",
}


@dataclass(slots=True)
class CodeRisks:
    """What was found in a cell: risks by what they say, and files that it writes."""

    risks: dict[tuple[RiskKind, str], Risk] = field(default_factory=dict)
    writes: dict[Path, None] = field(default_factory=dict)

    def add(self, kind: RiskKind, what: str, line: int) -> None:
        former = self.risks.get((kind, what))
        if former is None or line < former.line:
            where = f"{what} (line {line})" if line else what
            self.risks[kind, what] = Risk(kind, where, line)


def judge_code(text: str, around: PolicyContext) -> tuple[tuple[Risk, ...], tuple[Path, ...]]:
    """The risks of a cell, in the order of its lines, and the files that it writes.

    It never raises: what cannot be judged is a risk of the kind `hidden`.
    """
    try:
        tree = cell_tree(text, _Bound(around), is_known)
        if tree is None:
            return (), ()  # it cannot run either
        findings = _judge_trees(tree, around)
    except CannotJudge as error:
        return (Risk("hidden", f"runs {error}"),), ()
    except (RecursionError, MemoryError):
        return (Risk("hidden", "runs code that is nested too deeply to be judged"),), ()
    except Exception:  # the policy must answer, whatever it did not foresee
        return (Risk("hidden", "runs code that could not be judged"),), ()
    risks = sorted(findings.risks.values(), key=lambda risk: risk.line)
    return tuple(risks), tuple(findings.writes)


def _judge_trees(tree: ast.Module, around: PolicyContext) -> CodeRisks:
    """Judge a tree, and with it the code that it runs from texts, until no more is found."""
    trees, read = [tree], set[tuple[str, bool]]()
    for _ in range(_MOST_ROUNDS):
        inspection = _Inspection(trees, around)
        inspection.run()
        fresh = [part for part in inspection.code if part[:2] not in read]
        if not fresh:
            return inspection.findings
        for text, is_cell, line in fresh:
            if (text, is_cell) in read:
                continue
            read.add((text, is_cell))
            inner = cell_tree(text, _Bound(around), is_known) if is_cell else code_tree(text)
            if inner is not None:
                trees.append(ast.increment_lineno(inner, line))
        if len(trees) > _MOST_TREES:
            break
    raise CannotJudge("code within code, too much of it to be judged")


class _Bound:
    """Tells by `in` whether the kernel has a name."""

    def __init__(self, around: PolicyContext) -> None:
        self._names = around.names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._names.get(name) is not None


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a call. `more` tells that there are some that cannot be seen."""

    places: Sequence[ast.expr]
    keywords: dict[str, ast.expr]
    more: bool

    def find(self, place: int, *names: str) -> ast.expr | None:
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.places[place] if place < len(self.places) else None


class _Inspection:
    """One walk over some trees that share their names.

    Attributes:
        findings: What was found.
        code: Texts that the code runs: the text, whether it is a cell's, the line above it.
    """

    def __init__(self, trees: Sequence[ast.Module], around: PolicyContext) -> None:
        self.findings = CodeRisks()
        self.code: list[tuple[str, bool, int]] = []
        self._around = around
        self._names = Names(trees, around.names, around.folder)
        self._callees: set[int] = set()
        self._moved = False

    def run(self) -> None:
        nodes = self._names.nodes
        self._callees = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._moved = any(self._moves(node) for node in nodes if isinstance(node, ast.expr))
        for node in nodes:
            match node:
                case ast.Call():
                    self._reference(node)
                    self._call(node)
                case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                    self._reference(node)
                case ast.Subscript(ctx=ast.Load()):
                    self._reference(node)
                    self._lookup(node)
                case ast.Name(ctx=ast.Del()):
                    self._deleted_name(node.id, node.lineno)
                case ast.Attribute() | ast.Subscript():
                    self._stored(node)
                case ast.ImportFrom():
                    self._import(node)

    def _moves(self, node: ast.expr) -> bool:
        """Whether something changes the working folder, so that no relative path can be told."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            match node.args:
                case [ast.Constant(value="cd" | "pushd" | "popd"), *_] if "magic" in node.func.attr:
                    return True
        return any(catalogue.kind_of(value.name) == "folder" for value in self._names.of(node))

    # --- names that are risky wherever they stand ------------------------------------------------

    def _reference(self, node: ast.expr) -> None:
        for value in self._names.of(node):
            kind = catalogue.kind_of(value.name) if value.name else None
            if kind is None or (kind == "shell" and id(node) in self._callees):
                continue
            self._note(kind, value.name, node.lineno)

    def _note(self, kind: RiskKind, name: str, line: int) -> None:
        shown = name.removeprefix("?").removeprefix("get_ipython().")
        if name == "?.to_sql":
            self.findings.add("delete", "changes a database: .to_sql", line)
            return
        self.findings.add(kind, f"{_VERBS.get(kind, kind)}: {one_line(shown)}", line)

    def _import(self, node: ast.ImportFrom) -> None:
        """A name that is imported from a risky module is judged where it is used."""
        if (node.module or "").partition(".")[0] == "jupyter_agent" and node.names[0].name == "*":
            self._note("agent", "jupyter_agent", node.lineno)

    def _lookup(self, node: ast.Subscript) -> None:
        """`vars(os)[name]`: what is looked up where names lead to anything at all."""
        keys = self._names.of(node.slice)
        for value in self._names.of(node.value):
            if all(key.text is not None for key in keys) or value.items:
                continue
            root = value.name.partition(".")[0]
            guarded = value.name.endswith(".__dict__") and root in catalogue.GUARDED
            if (
                guarded
                or (value.name == "sys.modules")
                or (value.name == "globals()" and id(node) in self._callees)
            ):
                self._hidden(node, f"{value.name.removesuffix('()')}[…]")

    def _hidden(self, node: ast.expr, what: str) -> None:
        self.findings.add("hidden", f"{_VERBS['hidden']}: {one_line(what)}", node.lineno)

    # --- what is set and deleted -----------------------------------------------------------------

    def _deleted_name(self, name: str, line: int) -> None:
        if not self._names.binds(name) and self._around.names.get(name) is not None:
            self.findings.add("delete", f"deletes your variable {one_line(name)}", line)

    def _stored(self, node: ast.Attribute | ast.Subscript) -> None:
        for value in self._names.of(node.value):
            key = node.attr if isinstance(node, ast.Attribute) else ""
            self._set(value, key, node)
            if isinstance(node, ast.Subscript):
                for name in self._names.of(node.slice):
                    if value.name in ("os.environ", "os.environb"):
                        self._variable(name, node.lineno)
                    if isinstance(node.ctx, ast.Del) and value.name in (
                        "globals()",
                        "get_ipython().user_ns",
                    ):
                        self._deleted_name(name.text or "", node.lineno)

    def _set(self, value: Value, key: str, node: ast.expr) -> None:
        name = f"{value.name}.{key}" if key else value.name
        root = name.partition(".")[0]
        if root == "jupyter_agent" and not name.startswith("jupyter_agent.session.answer"):
            self._note("agent", name, node.lineno)
        elif name.startswith("get_ipython()") and ".user_ns" not in name:
            self._note("agent" if ".agent_" in name else "settings", name, node.lineno)
        elif (
            value.name
            and root in catalogue.GUARDED
            and "()" not in name
            and not catalogue.ASSIGNABLE.match(name)
        ):
            self._note("settings", name, node.lineno)

    def _variable(self, name: Value, line: int) -> None:
        if catalogue.AGENT_VARIABLES.match(name.beginning):
            self.findings.add("agent", f"changes the agent's settings: {name.beginning}", line)

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> None:
        arguments = _arguments(node.args, node.keywords)
        for callee in self._names.of(node.func):
            self._called(callee, arguments, node)
        if _is_true(arguments.keywords.get("download")):
            self.findings.add("network", "fetches from the network: download=True", node.lineno)
        self._passed(node)

    def _called(self, callee: Value, arguments: _Arguments, node: ast.Call) -> None:
        name = callee.name
        if name == "functools.partial" and arguments.places:
            rest = _Arguments(arguments.places[1:], arguments.keywords, True)
            for inner in self._names.of(arguments.places[0]):
                self._called(inner, rest, node)
        elif name in (catalogue.LINE_MAGIC, catalogue.CELL_MAGIC, catalogue.OLD_MAGIC):
            self._magic(name, arguments, node)
        elif catalogue.kind_of(name) == "shell":
            self._shell(name, arguments, node)
        elif name in catalogue.CODE_RUNNERS:
            self._runs(name, arguments, node)
        elif name in catalogue.IMPORTERS or name in ("builtins.getattr", "?.__getattribute__"):
            self._looks_up(name, arguments, node)
        else:
            self._other(callee, arguments, node)

    def _other(self, callee: Value, arguments: _Arguments, node: ast.Call) -> None:
        name = callee.name
        self._reads(name, arguments, node)
        self._writes(callee, arguments, node)
        self._sets(name, arguments, node)
        if catalogue.SQL_METHODS.search(name):
            self._sql(callee, arguments, node)
        if name in catalogue.HTML_SHOWERS:
            for value in self._values(arguments.find(0, "data")):
                if catalogue.SCRIPT.search(value.beginning):
                    self._note("browser", name, node.lineno)
        if name.startswith("IPython.display."):
            keys = [
                k
                for a in arguments.places
                for d in ast.walk(a)
                if isinstance(d, ast.Dict)
                for k in d.keys
            ]
            if any(
                isinstance(k, ast.Constant) and k.value == "application/javascript" for k in keys
            ):
                self._note("browser", name, node.lineno)

    def _values(self, node: ast.expr | None) -> Values:
        return () if node is None else self._names.of(node)

    def _passed(self, node: ast.Call) -> None:
        """Modules that are handed to other code, which may do with them what it likes."""
        callees = self._names.of(node.func)
        if all(_may_take(value) for value in callees):
            return
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.List, ast.Tuple)):
                for value in self._names.of(argument):
                    for item in (value, *value.items):
                        self._handed(item, callees, node)

    def _handed(self, item: Value, callees: Values, node: ast.Call) -> None:
        """One thing that is handed to other code and is risky in its hands."""
        partial = all(value.name == "functools.partial" for value in callees)
        if item.name in catalogue.GUARDED:
            self._hidden(node, f"hands the module {item.name} to other code")
        elif partial:
            return  # judged as the call that it becomes
        elif item.name in catalogue.CODE_RUNNERS:
            self._hidden(node, f"hands {item.name} to other code")
        elif item.name in _WRITING or (
            item.name == "builtins.open" and not _opens_to_read(callees, node)
        ):
            self.findings.add("overwrite", UNKNOWN_FILE, node.lineno)

    def _magic(self, kind: str, arguments: _Arguments, node: ast.Call) -> None:
        texts = [
            self._values(arguments.find(place, name))
            for place, name in enumerate(("magic_name", "line", "cell"))
        ]
        name, line, cell = (values[0].text if len(values) == 1 else None for values in texts)
        if kind == catalogue.OLD_MAGIC and name:
            name, _, line = name.strip().lstrip("%").partition(" ")
        if name is None or (texts[1] and line is None) or (texts[2] and cell is None):
            self._hidden(node, "a magic command")
            return
        self._magic_found(judge_magic(name, line or "", cell), node)

    def _magic_found(self, magic: Magic, node: ast.Call) -> None:
        for kind, what in magic.risks:
            self.findings.add(kind, what, node.lineno)
        self.code += [
            (text, True, node.lineno - 1 + below) for text, below in magic.code if text.strip()
        ]
        for path in magic.writes:
            self._write((Value("str()", path),), node)
        if magic.unseen:
            self.findings.add("overwrite", UNKNOWN_FILE, node.lineno)

    def _shell(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        texts = [value.beginning for value in self._values(arguments.find(0, "cmd", "command"))]
        shown = all_in_one_line(next((text for text in texts if text), "")) or name.removeprefix(
            "get_ipython()."
        )
        self.findings.add("shell", f"{_VERBS['shell']}: {shown}", node.lineno)

    def _runs(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        code = arguments.find(
            catalogue.CODE_RUNNERS[name], "source", "raw_cell", "stmt", "statement"
        )
        setup = arguments.find(1, "setup") if name in catalogue.TAKES_FUNCTIONS else None
        for part in (code, setup):
            for value in self._values(part):
                if value.text is not None and value.name == "str()":
                    self.code.append(
                        (value.text, name.startswith("get_ipython()"), node.lineno - 1)
                    )
                elif value.name == "builtins.compile()":
                    continue  # judged where it was compiled
                elif not (name in catalogue.TAKES_FUNCTIONS and value.function is not None):
                    self._hidden(
                        node, name.removeprefix("builtins.").removeprefix("get_ipython().")
                    )
        if code is None and arguments.more:
            self._hidden(node, name)

    def _looks_up(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        if name in catalogue.IMPORTERS:
            for value in self._values(arguments.find(0, "name")):
                if value.text is None and name != "importlib.reload":
                    self._hidden(node, "imports a module whose name is only known when it runs")
            return
        owners = self._values(arguments.find(0))
        keys = self._values(arguments.find(1))
        for owner in owners:
            guarded = owner.name.partition(".")[0] in catalogue.GUARDED | {"get_ipython()"}
            if guarded and any(key.text is None for key in keys):
                self._hidden(node, f"getattr({owner.name}, …)")

    def _sets(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        """Functions that set or delete what an assignment could."""
        owner, _, method = name.rpartition(".")
        if name in ("builtins.setattr", "builtins.delattr"):
            for value in self._values(arguments.find(0)):
                for key in self._values(arguments.find(1)):
                    self._set(value, key.text or "…", node)
        elif name in ("os.putenv", "os.environ.setdefault", "os.environ.pop", "os.unsetenv"):
            for value in self._values(arguments.find(0)):
                self._variable(value, node.lineno)
        elif name == "os.environ.update":
            for found in (f for part in [*arguments.places] for f in ast.walk(part)):
                if isinstance(found, ast.Constant) and isinstance(found.value, str):
                    self._variable(Value("str()", found.value), node.lineno)
            for word in arguments.keywords:
                self._variable(Value("str()", word), node.lineno)
        elif owner in ("globals()", "get_ipython().user_ns") and method in (
            "pop",
            "clear",
            "popitem",
        ):
            self._pops(method, arguments, node)

    def _pops(self, method: str, arguments: _Arguments, node: ast.Call) -> None:
        if method != "pop":
            self.findings.add("delete", "deletes your variables", node.lineno)
        for value in self._values(arguments.find(0)):
            if value.text is None:
                self.findings.add("delete", "deletes variables of yours", node.lineno)
            else:
                self._deleted_name(value.text, node.lineno)

    # --- addresses and databases -----------------------------------------------------------------

    def _reads(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        if not catalogue.URL_READERS.search(name):
            return
        for value in self._values(arguments.places[0] if arguments.places else None) + tuple(
            v
            for key in ("filepath_or_buffer", "path", "io", "source", "url", "con", "protocol")
            for v in self._values(arguments.keywords.get(key))
        ):
            for item in (value, *value.items):
                if catalogue.URL.match(item.beginning) or (
                    name == "fsspec.filesystem"
                    and item.text not in (None, "file", "memory", "local")
                ):
                    shown = one_line(item.beginning, 60)
                    self.findings.add("network", f"fetches from the network: {shown}", node.lineno)

    def _sql(self, callee: Value, arguments: _Arguments, node: ast.Call) -> None:
        for value in self._values(arguments.find(0, "sql", "query", "statement", "operation")):
            text = value.beginning
            if not text:
                continue
            match = catalogue.SQL_CHANGES.search(text)
            if match and _is_in_memory(callee) and not catalogue.SQL_REACHES_OUT.search(text):
                match = None
            loose = not callee.name.endswith(".query") or catalogue.SQL_SHAPE.search(text)
            if match and loose:
                self.findings.add(
                    "delete",
                    f"changes a database: {one_line(match[0].strip(' ;)') + text[match.end() :])}",
                    node.lineno,
                )
            if catalogue.URL.search(text) and "://" in text:
                self.findings.add(
                    "network", f"fetches from the network: {one_line(text)}", node.lineno
                )
            for pattern in (catalogue.SQL_COPY, catalogue.SQL_EXPORT):
                for path in pattern.findall(text):
                    self._write((Value("str()", path),), node)

    # --- files -----------------------------------------------------------------------------------

    def _writes(self, callee: Value, arguments: _Arguments, node: ast.Call) -> None:
        name = callee.name
        method = name.rpartition(".")[2]
        if name in catalogue.OPENERS:
            self._opens(name, arguments, node)
        elif name in catalogue.WRITERS:
            if name != "os.open" or not _only_reads(arguments):
                self._write_argument(*catalogue.WRITERS[name], arguments, node)
        elif name in catalogue.MOVERS or name in catalogue.LINKERS:
            self._moves_file(name, arguments, node)
        elif name in catalogue.FOLDER_MAKERS:
            place, keyword = catalogue.FOLDER_MAKERS[name]
            self._make_folder(self._values(arguments.find(place, keyword)), node)
        elif name in catalogue.UNPACKERS or f"?.{method}" in catalogue.UNPACKERS:
            self._unpacks(name if name in catalogue.UNPACKERS else f"?.{method}", arguments, node)
        elif callee.owner is not None:
            self._method(callee, callee.owner, method, arguments, node)

    def _method(
        self, callee: Value, owner: Value, method: str, arguments: _Arguments, node: ast.Call
    ) -> None:
        path_like = owner.is_path or not owner.name or owner.name.startswith("?")
        if method in catalogue.PATH_WRITERS and path_like:
            self._write((owner,), node)
        elif method == "mkdir" and owner.is_path:
            self._make_folder((owner,), node)
        elif method in catalogue.PATH_MOVERS and owner.is_path:
            self._remove_source((owner,), node)
            self._write(self._values(arguments.find(0, "target", "target_dir")), node)
        elif method == "open" and path_like:
            self._opens_path(owner, arguments, node)
        elif method in catalogue.METHOD_WRITERS and not owner.name.startswith("pathlib."):
            target = arguments.find(0, *catalogue.METHOD_WRITERS[method])
            if target is not None or arguments.more:
                self._write(self._values(target) or (UNKNOWN,), node)

    def _opens(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        place, keyword, mode_place, mode_keyword, default = catalogue.OPENERS[name]
        mode = arguments.find(mode_place, mode_keyword)
        if self._may_write(mode, default if not arguments.more else "w"):
            self._write(self._values(arguments.find(place, keyword)) or (UNKNOWN,), node)

    def _opens_path(self, owner: Value, arguments: _Arguments, node: ast.Call) -> None:
        mode = arguments.find(0, "mode")
        if owner.is_path or "mode" in arguments.keywords:
            writes = self._may_write(mode, "r")
        else:
            writes = any(
                value.text and set(value.text) <= set("rwaxbt+") and set(value.text) & set("wax+")
                for value in self._values(mode)
            )
        if writes:
            self._write((owner,), node)

    def _may_write(self, mode: ast.expr | None, default: str) -> bool:
        values = (Value("str()", default),) if mode is None else self._names.of(mode)
        return any(v.text is None or set(v.text.partition(":")[0]) & set("waxcn+") for v in values)

    def _write_argument(
        self, place: int, keyword: str, arguments: _Arguments, node: ast.Call
    ) -> None:
        target = arguments.find(place, keyword)
        if target is not None or arguments.more:
            self._write(self._values(target) or (UNKNOWN,), node)

    def _write(self, targets: Iterable[Value], node: ast.expr) -> None:
        for value in targets:
            if value.temporary or not _may_be_path(value):
                continue
            if value.text is None or (self._moved and not value.text.startswith(("/", "~"))):
                self._write_unknown(value, node)
                continue
            risk, path = judge_write(value.text, self._around.folder, self._around, node.lineno)
            if risk is not None:
                self.findings.add(risk.kind, risk.what, risk.line)
            if path is not None:
                self.findings.writes[path] = None

    def _write_unknown(self, value: Value, node: ast.expr) -> None:
        if catalogue.URL.match(value.start):
            self.findings.add(
                "network", f"writes to the network: {one_line(value.start)}", node.lineno
            )
        else:
            self.findings.add("overwrite", UNKNOWN_FILE, node.lineno)

    def _make_folder(self, targets: Iterable[Value], node: ast.expr) -> None:
        for value in targets:
            if value.text is None or value.temporary:
                continue  # an empty folder at an unknown place does no harm
            if risk := judge_folder(value.text, self._around.folder, self._around, node.lineno):
                self.findings.add(risk.kind, risk.what, risk.line)

    def _moves_file(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        source = self._values(arguments.find(0, "src")) or (UNKNOWN,)
        target = self._values(arguments.find(1, "dst")) or (UNKNOWN,)
        if name in catalogue.LINKERS:
            self._write(source, node)
        else:
            self._remove_source(source, node)
        self._write(target, node)

    def _remove_source(self, sources: Iterable[Value], node: ast.expr) -> None:
        """What is moved away is gone from where it was, unless the agent knows the file."""
        for value in sources:
            if value.temporary:
                continue
            if value.text is None:
                self.findings.add(
                    "delete", "moves a file whose name is only known when it runs", node.lineno
                )
                continue
            risk, _ = judge_write(value.text, self._around.folder, self._around, node.lineno)
            if risk is not None:
                kind: RiskKind = "delete" if risk.kind == "overwrite" else risk.kind
                self.findings.add(kind, f"moves {one_line(value.text)} away", node.lineno)

    def _unpacks(self, name: str, arguments: _Arguments, node: ast.Call) -> None:
        place, keyword = catalogue.UNPACKERS[name]
        target = arguments.find(place, keyword)
        if name == "?.extract" and target is None:
            return  # a method of a text column, far more often than of an archive
        self._write(self._values(target) or (Value("str()", "."),), node)


def _arguments(places: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> _Arguments:
    plain: list[ast.expr] = []
    for part in places:
        if isinstance(part, ast.Starred):
            break
        plain.append(part)
    named = {keyword.arg: keyword.value for keyword in keywords if keyword.arg is not None}
    return _Arguments(plain, named, len(plain) < len(places) or len(named) < len(keywords))


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _may_be_path(value: Value) -> bool:
    """Whether a target may be a path, and not an open file, a buffer or None."""
    return value.name in ("", "str()", "pathlib.Path()") or value.name.startswith("?.")


def _is_in_memory(callee: Value) -> bool:
    """Whether a query goes to a database that is kept in memory and gone with it."""
    return callee.name.startswith(("memory()", "duckdb.sql", "duckdb.execute", "duckdb.query"))


def _may_take(callee: Value) -> bool:
    if callee.name in catalogue.MAY_TAKE_MODULES or callee.name.startswith("inspect."):
        return True
    return callee.function is not None


def _opens_to_read(callees: Values, node: ast.Call) -> bool:
    """Whether `open` is handed to something that calls it with a path and nothing else."""
    names = {value.name for value in callees}
    return names <= {"functools.partial"} or (names == {"builtins.map"} and len(node.args) == 2)


def _only_reads(arguments: _Arguments) -> bool:
    flags = arguments.find(1, "flags")
    return isinstance(flags, ast.Attribute) and flags.attr == "O_RDONLY"
