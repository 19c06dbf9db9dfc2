"""The risks of one call: what it writes, loads, fetches, deletes or shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_agent.core.addresses import host_of
from jupyter_agent.core.effects import Risk, RiskKind
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.policy import catalogue
from jupyter_agent.policy.catalogue import HOLE, VERBS
from jupyter_agent.policy.files import judge_write, real
from jupyter_agent.policy.resolve import UNKNOWN, Value, Values, database_file
from jupyter_agent.policy.verdict import NOTHING_TOLD, PolicyContext, Told


@dataclass(frozen=True, slots=True)
class Call:
    """A call in the code, with what its parts may be.

    Attributes:
        callee: What is called.
        places: The arguments without a name, up to the first `*`.
        keywords: The arguments with a name.
        more: Whether there are arguments that cannot be seen.
        sources: The text of each named argument in the code.
        variable: The name of the variable whose method is called, if it is one.
        called: The name of the function or method as it stands in the code.
        line: The line of the call.
    """

    callee: Value
    places: tuple[Values, ...]
    keywords: Mapping[str, Values]
    more: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    variable: str = ""
    called: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        return self.callee.name

    @property
    def method(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> Value:
        return self.callee.owner or UNKNOWN

    def argument(self, place: int, *names: str) -> Values:
        """What an argument may be; empty where there is none, unknown where it cannot be seen."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        if place < len(self.places):
            return self.places[place]
        return (UNKNOWN,) if self.more else ()

    def all_values(self) -> Iterator[Value]:
        for values in (*self.places, *self.keywords.values()):
            for value in values:
                yield value
                yield from value.items


@dataclass(slots=True)
class CodeRisks:
    """The findings in a cell.

    Attributes:
        around: Where the code runs.
        risks: Its risks.
        writes: The files that it writes, and in how many places.
        loads: The files that it loads.
        contents: What the code tells of the new content of files.
    """

    around: PolicyContext
    risks: dict[tuple[RiskKind, str, str], Risk] = field(default_factory=dict)
    writes: dict[Path, int] = field(default_factory=dict)
    loads: list[tuple[Value, str, int]] = field(default_factory=list)
    contents: Told = NOTHING_TOLD

    def add(self, kind: RiskKind, what: str, line: int, place: str = "") -> None:
        former = self.risks.get((kind, what, place))
        if former is None or line < former.line:
            where = f"{what} (line {line})" if line else what
            self.risks[kind, what, place] = Risk(kind, where, line, place)

    def write(self, targets: Iterable[Value], line: int, native: bool = False) -> None:
        """Judge a write to each of some paths; `native`: nobody sees it when it happens."""
        for value in targets:
            if _may_be_path(value):
                risk, path = judge_write(
                    HOLE if value.text is None else value.text,
                    self.around.folder, self.around, line, native=native,
                )  # fmt: skip
                if risk is not None:
                    self.add(risk.kind, risk.what, risk.line, risk.place)
                if path is not None:
                    self.writes[path] = self.writes.get(path, 0) + 1

    def load(self, value: Value, what: str, line: int) -> None:
        """Note a file that runs code as it loads; `finish` asks unless the agent made it."""
        self.loads.append((value, what, line))

    def finish(self) -> None:
        for value, what, line in self.loads:
            path = None if value.exact is None else real(value.exact, self.around.folder)
            known = path is not None and (path in self.writes or path in self.around.seen)
            if not known and not value.name.endswith("dumps()"):
                self.add("hidden", what, line, "" if path is None else str(path))


def judge_call(call: Call, found: CodeRisks) -> None:
    """Add the risks of one call to those that were found."""
    for rule in _RULES:
        rule(call, found)


# --- arguments -----------------------------------------------------------------------------------


def _keywords(call: Call, found: CodeRisks) -> None:
    """Arguments such as `download=True`."""
    for word, pattern, kind, what in catalogue.KEYWORDS if call.sources else ():
        if pattern.match(call.sources.get(word, "")):
            if word == "allow_pickle" and call.places:
                for value in call.places[0]:
                    found.load(value, f"{what}: {call.method}", call.line)
                continue
            found.add(kind, f"{what}: {word}={one_line(call.sources[word])}", call.line)
    if catalogue.WEIGHTS_BY_DEFAULT.match(call.name) and call.sources.get("weights") != "None":
        found.add("network", f"{VERBS['network']}: {call.name}", call.line)
    if call.method == "drop" and _drops_table(call):
        found.add("delete", "changes a database: .drop", call.line)
    if call.method in ("delete", "update") and _is_session(call):
        found.add("delete", f"changes a database: .{call.method}", call.line)


def _drops_table(call: Call) -> bool:
    """`table.drop(engine)`, and not `df.drop(columns="a")`."""
    if call.name != "?.drop" and not catalogue.DATABASES.match(call.name):
        return False
    named = {"bind", "engine", "con", "conn", "checkfirst"} & set(call.keywords)
    first = call.sources.get("0", "")
    plain = not call.places and not call.keywords and not call.more
    return bool(named) or plain or bool(catalogue.DATABASE_NAMES.match(first))


def _is_session(call: Call) -> bool:
    if catalogue.DATABASES.match(call.name):
        return not call.name.startswith("memory()")
    constant = any(value.name == "constant" for value in call.argument(0))
    return call.name == "?.delete" and len(call.places) < 2 and not constant


def _texts(call: Call, found: CodeRisks) -> None:
    """Texts that somebody may run: code for a library, commands for a shell."""
    if call.name.partition(".")[0] in catalogue.NO_READERS or call.method.startswith("write"):
        return
    for value in call.all_values():
        text = value.text or ""
        if match := catalogue.CODE_IN_TEXT.search(text):
            shown = one_line(text[match.start() :], 60)
            found.add("hidden", f"{VERBS['hidden']}: {shown}", call.line)
        runs = call.method in catalogue.SHELL_METHODS and call.callee.owner is not None
        if runs and catalogue.SHELL_TEXT.search(text):
            found.add("shell", f"{VERBS['shell']}: {one_line(text)}", call.line, text)


# --- addresses -----------------------------------------------------------------------------------


def _addresses(call: Call, found: CodeRisks) -> None:
    """Addresses that are handed to what may fetch from them."""
    name, root = call.name, call.name.partition(".")[0]
    opens = call.callee.is_class and root not in ("pandas", "numpy", "polars", "pyarrow")
    if root in catalogue.NO_READERS or not (opens or catalogue.URL_READERS.search(name)):
        return
    for value in call.all_values():
        text = value.beginning
        other = name == "fsspec.filesystem" and text not in ("", "file", "memory", "local")
        other = other or (name == "distributed.Client" and ":" in text)
        if catalogue.URL.match(text) or other:
            found.add(
                "network", f"{VERBS['network']}: {one_line(text, 60)}", call.line, host_of(text)
            )
    first = call.sources.get("0", "")
    native = root in catalogue.NATIVE_MODULES and catalogue.ADDRESS_NAMES.match(first)
    if native and any(value.text is None for value in call.argument(0)):
        found.add("network", f"{VERBS['network']}: {first}", call.line)


# --- databases -----------------------------------------------------------------------------------


def _sql(call: Call, found: CodeRisks) -> None:
    """SQL that changes or destroys data, or that cannot be seen."""
    if call.name in catalogue.MEMORY_DATABASES:
        _makes_database(call, found)
    if not catalogue.SQL_METHODS.search(call.name):
        return
    for value in call.argument(0, "sql", "query", "statement", "operation"):
        text = value.text or ""
        built = value.name.startswith(("sqlalchemy.", "sqlmodel.", "constant"))
        known = value.exact is not None or built or catalogue.SQL_READS.match(text)
        if not known and not catalogue.SQL_CHANGES.search(text) and _is_database(call):
            found.add("hidden", "runs SQL that cannot be seen before it runs", call.line)
        judge_sql(text, found, call.line, call.name)


def _makes_database(call: Call, found: CodeRisks) -> None:
    """A database that is not there yet is the agent's own from then on."""
    for value in call.argument(0, "database"):
        name = database_file(value.exact or ":memory:")
        path = None if name == ":memory:" or "://" in name else real(name, found.around.folder)
        if path is not None and not path.exists():
            found.write((Value("str()", name),), call.line)


def _is_database(call: Call) -> bool:
    if call.method not in ("execute", "executescript", "exec_driver_sql", "sql"):
        return False
    named = bool(catalogue.DATABASE_NAMES.match(call.variable))
    return not _in_memory(call.name) and (named or bool(catalogue.DATABASES.match(call.name)))


def _in_memory(name: str) -> bool:
    return name.startswith(("memory()", "duckdb.sql", "duckdb.execute", "duckdb.query"))


def judge_sql(text: str, found: CodeRisks, line: int, name: str = "") -> None:
    """Add the risks of one SQL text; `name` is the function that runs it."""
    reaches_out = catalogue.SQL_REACHES_OUT.search(text)
    match = catalogue.SQL_CHANGES.search(text)
    loose = not name.endswith(".query") or catalogue.SQL_SHAPE.search(text)
    if match and loose and (reaches_out or not _in_memory(name)):
        shown = one_line((match[0].strip(" ;)") + text[match.end() :]).replace(HOLE, "…"))
        found.add("delete", f"changes a database: {shown}", line)
    if address := catalogue.URL.search(text):
        place = host_of(re.split(r"['\"\s]", text[address.start() :])[0])
        found.add("network", f"{VERBS['network']}: {one_line(text)}", line, place)
    found.write((Value("str()", path) for path in catalogue.SQL_FILES.findall(text)), line, True)


# --- displays ------------------------------------------------------------------------------------


def _displays(call: Call, found: CodeRisks) -> None:
    """Displays with scripts, or with pictures from elsewhere."""
    if call.name in catalogue.MARKUP:
        for value in call.all_values():
            judge_markup(value.text or "", found, call.line)
            if value.name.startswith(("file().read", "pathlib.Path().read_text")):
                what = "shows HTML that cannot be seen before it runs"
                found.add("browser", what, call.line)
        if any("application/javascript" in text for text in call.sources.values()):
            found.add("browser", f"{VERBS['browser']}: {call.name}", call.line)
    if call.name in catalogue.MEDIA:
        for value in (*call.argument(0, "data"), *call.keywords.get("url", ())):
            if catalogue.URL.match(value.beginning):
                judge_picture(value.beginning, found, call.line)
        if call.keywords.get("url") and not any(v.text for v in call.keywords["url"]):
            found.add("network", "shows something from an address", call.line)


def judge_markup(text: str, found: CodeRisks, line: int) -> None:
    """Add the risks of HTML or Markdown that is shown."""
    if match := catalogue.SCRIPT.search(text):
        shown = one_line(text[match.start() :], 60)
        found.add("browser", f"{VERBS['browser']}: {shown}", line)
    for groups in catalogue.REMOTE_PICTURE.findall(text):
        judge_picture(next(filter(None, groups)), found, line)


def judge_picture(address: str, found: CodeRisks, line: int) -> None:
    what = f"your browser fetches from the network: {one_line(address, 60)}"
    found.add("network", what, line, host_of(address))


# --- files ---------------------------------------------------------------------------------------


def _loads(call: Call, found: CodeRisks) -> None:
    """Files that run code as they are loaded."""
    if call.name not in catalogue.UNPICKLERS:
        return
    if call.name == "torch.load" and call.sources.get("weights_only") == "True":
        return
    for value in call.argument(*catalogue.UNPICKLERS[call.name]):
        what = f"loads a pickle, which can run any code: {one_line(value.exact or call.name)}"
        found.load(value, what, call.line)


def _writes(call: Call, found: CodeRisks) -> None:
    """Functions that write files."""
    name = call.name
    native = catalogue.is_native(name)
    if name in catalogue.OPENERS:
        if _opens_for_writing(call, native):
            found.write(call.argument(*catalogue.OPENERS[name]), call.line, native)
    elif name in catalogue.WRITERS:
        if name != "os.open" or call.sources.get("1", "os.O_RDONLY") != "os.O_RDONLY":
            found.write(call.argument(*catalogue.WRITERS[name]), call.line, native)
    elif call.callee.owner is not None:
        _methods(call, call.owner, found)
    if not name or name.startswith("?"):
        _unknown(call, found)


def _unknown(call: Call, found: CodeRisks) -> None:
    """Functions that nobody knows, but whose names say that they write: `save(df, "a.csv")`."""
    if call.called in _TOOLS:
        return  # the agent's own tool in the place of a call, which is judged when it is called
    if call.callee.function is None and catalogue.WRITING_NAMES.match(call.called):
        paths = (v for v in call.all_values() if catalogue.FILE_NAME.match(v.exact or ""))
        found.write(paths, call.line)


def _methods(call: Call, owner: Value, found: CodeRisks) -> None:
    """Methods that write files."""
    method = call.method
    unknown = not owner.name or owner.name.startswith("?")
    if method in catalogue.PATH_WRITERS and (owner.is_path or unknown):
        found.write((owner,), call.line)
    elif owner.is_path and method == "open":
        if _may_write(call.argument(0, "mode"), "r"):
            found.write((owner,), call.line)
    elif method in catalogue.METHOD_WRITERS and not owner.is_path:
        target = call.argument(0, *catalogue.METHOD_WRITERS[method])
        found.write(target, call.line, catalogue.is_native(call.name))


def _opens_for_writing(call: Call, native: bool) -> bool:
    place, keyword, default = catalogue.MODES.get(call.name, (1, "mode", "r"))
    if call.sources.get("inplace") == "True":
        return True
    return _may_write(call.argument(place, keyword), default, "w" if native else "r")


def _may_write(modes: Values, default: str, unknown: str = "r") -> bool:
    """Whether a file is opened for writing; `unknown` stands for modes that are not known."""
    texts = [mode.text or unknown for mode in modes] or [default]
    return any(set(text.partition(":")[0]) & set("waxcn+") for text in texts)


def _may_be_path(value: Value) -> bool:
    """Whether a target may be a path, and not an open file, a buffer or None."""
    return value.name in ("", "str()", "pathlib.Path()") or value.name.startswith("?.")


_TOOLS = frozenset({"write_file", "edit_file"})
_RULES: tuple[Callable[[Call, CodeRisks], None], ...] = (
    _keywords,
    _texts,
    _addresses,
    _sql,
    _displays,
    _loads,
    _writes,
)
