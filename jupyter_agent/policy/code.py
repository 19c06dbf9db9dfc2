"""What a cell does that a person may want to know of first, told from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jupyter_agent.core.addresses import host_of
from jupyter_agent.core.effects import Risk, RiskKind
from jupyter_agent.core.plaintext import all_in_one_line, one_line
from jupyter_agent.policy import catalogue
from jupyter_agent.policy.calls import Call, CodeRisks, judge_call, judge_markup, judge_sql
from jupyter_agent.policy.catalogue import VERBS
from jupyter_agent.policy.contents import contents
from jupyter_agent.policy.files import is_temporary, may_go, real
from jupyter_agent.policy.magics import Magic, is_known, judge_magic
from jupyter_agent.policy.parsing import CannotJudge, cell_tree, code_tree
from jupyter_agent.policy.resolve import NAMESPACES, UNKNOWN, Names, Value, Values, items
from jupyter_agent.policy.verdict import NOTHING_TOLD, PolicyContext, Told

_MOST_TREES = 200
_MOST_ROUNDS = 6


def judge_code(text: str, around: PolicyContext) -> tuple[tuple[Risk, ...], tuple[Path, ...], Told]:
    """The risks of a cell, in the order of its lines, the files that it writes, their contents.

    The contents are those that the code tells. It never raises: what cannot be judged is a risk
    of the kind `hidden`.
    """
    try:
        tree = cell_tree(text, _Bound(around), is_known)
        if tree is None:
            return (), (), NOTHING_TOLD  # it cannot run either
        found = _judge_trees(tree, around)
    except CannotJudge as error:
        return (Risk("hidden", f"runs {error}"),), (), NOTHING_TOLD
    except (RecursionError, MemoryError):
        return (
            (Risk("hidden", "runs code that is nested too deeply to be judged"),),
            (),
            NOTHING_TOLD,
        )
    except Exception:  # the policy must answer, whatever it did not foresee
        return (Risk("hidden", "runs code that could not be judged"),), (), NOTHING_TOLD
    risks = sorted(found.risks.values(), key=lambda risk: risk.line)
    return tuple(risks), tuple(found.writes), found.contents


def _judge_trees(tree: ast.Module, around: PolicyContext) -> CodeRisks:
    """Judge a tree, and with it the code that it runs from texts, until no more is found."""
    trees, read = [tree], set[tuple[str, bool]]()
    for _ in range(_MOST_ROUNDS):
        inspection = _Inspection(trees, around)
        inspection.run()
        fresh = [part for part in inspection.code if part[:2] not in read]
        if not fresh:
            inspection.tell_contents()
            return inspection.found
        for text, is_cell, line in fresh:
            if (text, is_cell) in read:
                continue
            read.add((text, is_cell))
            if is_cell:
                inner = cell_tree(text, _Bound(around), is_known, above=line)
            else:
                inner = code_tree(text, above=line)
            if inner is not None:
                trees.append(inner)
        if len(trees) > _MOST_TREES:
            break
    raise CannotJudge("code within code, too much of it to be judged")


class _Bound:
    """Tells by `in` whether the kernel has a name."""

    def __init__(self, around: PolicyContext) -> None:
        self._names = around.names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._names.get(name) is not None


_JUDGED = (
    *(ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef),
)


class _Inspection:
    """One walk over some trees that share their names.

    Attributes:
        found: The findings.
        code: Texts that the code runs: the text, whether it is a cell's, the line above it.
    """

    def __init__(self, trees: Sequence[ast.Module], around: PolicyContext) -> None:
        self.found = CodeRisks(around)
        self.code: list[tuple[str, bool, int]] = []
        self._around = around
        self._trees = trees
        self._names = Names(trees, around.names, around.folder, around.seen)
        self._callees: dict[int, ast.Call] = {}
        self._assigned: dict[int, ast.expr] = {}

    def run(self) -> None:
        nodes = self._names.nodes
        for node in nodes:
            if isinstance(node, ast.Call):
                self._callees[id(node.func)] = node
            elif isinstance(node, ast.Assign):
                self._assigned.update((id(target), node.value) for target in node.targets)
        for node in nodes:
            if isinstance(node, _JUDGED):  # most nodes are none, and a match takes longer to say so
                self._node(node)
        self.found.finish()

    def tell_contents(self) -> None:
        """Note what the files get that the code writes, unless it runs code from texts, too."""
        if len(self._trees) == 1 and self.found.writes:
            self.found.contents = contents(
                self._trees[0], self._names, self._around.folder, self.found.writes
            )

    def _node(self, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self._reference(node)
                for callee in self._names.of(node.func):
                    self._called(self._as_call(callee, node), node)
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                self._reference(node)
            case ast.Name(ctx=ast.Del()):
                self._deleted(node.id, node.lineno)
            case ast.Attribute() | ast.Subscript(ctx=ast.Store() | ast.Del()):
                self._stored(node)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)

    # --- names that are risky wherever they stand ------------------------------------------------

    def _reference(self, node: ast.expr) -> None:
        for value in self._names.of(node):
            kind = catalogue.kind_of(value.name) if value.name else None
            if value.name in catalogue.MOVERS and id(node) not in self._callees:
                kind = "delete"  # handed to what may call it in a process that nobody watches
            if kind is None or (kind == "shell" and id(node) in self._callees):
                continue
            if kind == "delete" and self._is_own(value, node):
                continue
            self._note(kind, value.name, node.lineno, self._place(kind, value, node))

    def _is_own(self, value: Value, node: ast.expr) -> bool:
        """Whether a file is deleted, or a database changed, that is the agent's own."""
        call = self._callees.get(id(node))
        if call is None:
            return False
        if catalogue.CHANGES_DATABASE.search(value.name):
            parts = [*call.args, *(keyword.value for keyword in call.keywords)]
            given = [value, *(found for part in parts for found in self._names.of(part))]
            return any(found.name.startswith("memory()") for found in given)
        first = _first(call)
        targets: Values = () if first is None else self._names.of(first)
        if value.owner and value.owner.is_path:
            targets = (value.owner,)
        # Nothing is lost where no file is, as long as the hook sees what there is in the end.
        is_seen = value.name.startswith(("os.", "shutil.", "pathlib."))
        return bool(targets) and all(self._may_go(target, is_seen) for target in targets)

    def _may_go(self, target: Value, is_seen: bool) -> bool:
        path = real(target.text or "", self._around.folder)
        if path is None:
            return False
        if target.exact is None or not is_seen:
            return is_temporary(path, self._around)
        return may_go(path, self._around, is_tree=True)

    def _place(self, kind: RiskKind, callee: Value, node: ast.expr) -> str:
        """The file, host or command that a call names by its object or its first argument."""
        call = self._callees.get(id(node))
        if call is None:
            return ""
        first = _first(call)
        if kind in ("process", "install") and isinstance(first, (ast.List, ast.Tuple)):
            return " ".join(self._only_text(part) for part in first.elts)
        values: Values = () if first is None else self._names.of(first)
        if callee.owner and callee.owner.is_path:
            values = (callee.owner,)
        if len(values) != 1:
            return ""
        if kind == "network":
            return host_of(values[0].beginning)
        text = values[0].exact
        if kind in ("delete", "folder"):
            path = None if text is None else real(text, self._around.folder)
            return "" if path is None else str(path)
        return text or "" if kind in ("process", "install") else ""

    def _only_text(self, node: ast.expr) -> str:
        """The text of an expression, or an ellipsis where it is not known."""
        values = self._names.of(node)
        return values[0].exact or "…" if len(values) == 1 else "…"

    def _note(self, kind: RiskKind, name: str, line: int, place: str = "") -> None:
        shown = one_line(name.removeprefix("?").removeprefix("get_ipython()."))
        verb = VERBS.get(kind, kind)
        if kind == "delete" and catalogue.CHANGES_DATABASE.search(name):
            verb = "changes a database"
        self.found.add(kind, f"{verb}: {shown}", line, place)

    def _hidden(self, line: int, what: str, place: str = "") -> None:
        self.found.add("hidden", f"{VERBS['hidden']}: {one_line(what)}", line, place)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """The agent's own package. What other modules do is judged when they do it."""
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names if isinstance(node, ast.Import)]
        for module in modules:
            if module.partition(".")[0] == "jupyter_agent" and node.names[0].name == "*":
                self._note("agent", "jupyter_agent", node.lineno)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Functions that Python or the page calls by themselves."""
        if node.name == "__del__":
            what = "runs code when an object goes away: __del__"
            self.found.add("settings", what, node.lineno)
        elif node.name == "_repr_javascript_":
            self._note("browser", node.name, node.lineno)
        elif node.name in catalogue.REPRESENTATIONS:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    judge_markup(part.value, self.found, part.lineno)

    # --- what is set and deleted -----------------------------------------------------------------

    def _deleted(self, name: str, line: int) -> None:
        own = self._names.binds(name) or name in self._around.own_names
        if not own and self._around.names.get(name) is not None:
            self.found.add("delete", f"deletes your variable {one_line(name)}", line)

    def _stored(self, node: ast.Attribute | ast.Subscript) -> None:
        new = self._assigned.get(id(node))
        values = () if new is None else self._names.of(new)
        key = node.attr if isinstance(node, ast.Attribute) else ""
        for value in self._names.of(node.value):
            self._set(value, key, values, node.lineno)
            match node:
                case ast.Subscript(ctx=ast.Del(), slice=key_node) if value.name in NAMESPACES:
                    for name in self._names.of(key_node):
                        self._deletes_by_name(name, node.lineno)

    def _set(self, value: Value, key: str, new: Values, line: int) -> None:
        name = f"{value.name}.{key}" if key else value.name
        # A new mapping for the environment sets no variable, so that the hook does not see it.
        assignable = catalogue.ASSIGNABLE.match(name) and not (name == "os.environ" and key and new)
        root = name.partition(".")[0]
        if root == "jupyter_agent" and not name.startswith("jupyter_agent.session.answer"):
            self._note("agent", name, line)
        elif name.startswith("get_ipython()") and ".user_ns" not in name:
            self._note("agent" if ".agent_" in name else "settings", name, line)
        elif value.name.endswith((".__class__", "builtins.type()")) and any(map(_is_code, new)):
            self._note("settings", name, line)
        elif not value.name or "()" in name or root in ("?", "local", "constant"):
            return
        elif not assignable and (
            root in catalogue.GUARDED
            or (key and any(_is_code(part) or (value.is_class and part == UNKNOWN) for part in new))
        ):
            self._note("settings", name, line)

    def _deletes_by_name(self, name: Value, line: int) -> None:
        if name.exact is None:
            self.found.add("delete", "deletes variables of yours", line)
        else:
            self._deleted(name.exact, line)

    # --- calls -----------------------------------------------------------------------------------

    def _as_call(self, callee: Value, node: ast.Call) -> Call:
        places: list[Values] = []
        for part in node.args:
            if isinstance(part, ast.Starred):
                break
            places.append(self._names.of(part))
        named = {k.arg: self._names.of(k.value) for k in node.keywords if k.arg}
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        return Call(
            callee,
            places=tuple(places),
            keywords=named,
            more=len(places) < len(node.args) or len(named) < len(node.keywords),
            sources=dict(_sources(node)),
            variable=owner.id if isinstance(owner, ast.Name) else "",
            called=getattr(node.func, "id", getattr(node.func, "attr", "")),
            line=node.lineno,
        )

    def _called(self, call: Call, node: ast.Call) -> None:
        name = call.name
        if name in (catalogue.LINE_MAGIC, catalogue.CELL_MAGIC, catalogue.OLD_MAGIC):
            self._magic(name, call)
        elif catalogue.kind_of(name) == "shell":
            self._shell(call)
        elif name in catalogue.CODE_RUNNERS:
            self._runs(name, call)
        else:
            judge_call(call, self.found)
            self._sets(call)
        for inner in self._inner_calls(call, node):
            self._called(inner, node)

    def _inner_calls(self, call: Call, node: ast.Call) -> Iterator[Call]:
        """Calls that a call makes: `map(f, xs)` calls `f(x)`, `DataFrame.head(df)` `df.head()`."""
        if call.callee.owner and call.callee.owner.is_class and call.places:
            for value in self._names.attribute(call.places[0], call.method):
                yield replace(call, callee=value, places=call.places[1:])
        if call.method not in catalogue.CALLS_FUNCTIONS:
            return
        rest = call.places
        while rest:
            functions, *others = rest
            rest = tuple(others)
            if call.method not in ("partial", "submit", "callback", "to_thread"):
                others = [tuple(i for v in values for i in (v, *v.items)) for values in others]
            for function in functions:
                if "." in function.name and not function.name.endswith("()"):
                    yield replace(
                        call, callee=function, places=tuple(others), more=True, sources={}
                    )
        for function in call.keywords.get("target", ()):
            given = [items(v) for v in call.keywords.get("args", ())]
            places = tuple(tuple(values) for values in given)
            yield Call(function, places=places, keywords={}, more=True, line=call.line)

    def _magic(self, kind: str, call: Call) -> None:
        texts = [
            call.argument(place, name) for place, name in enumerate(("magic_name", "line", "cell"))
        ]
        name, line, cell = (values[0].exact if len(values) == 1 else None for values in texts)
        if kind == catalogue.OLD_MAGIC and name:
            name, _, line = name.strip().lstrip("%").partition(" ")
        if name is None or (texts[1] and line is None) or (texts[2] and cell is None):
            self._hidden(call.line, "a magic command")
            return
        self._magic_found(judge_magic(name, line or "", cell), call.line)

    def _magic_found(self, magic: Magic, line: int) -> None:
        for kind, what in magic.risks:
            place = magic.place
            if kind == "folder":
                path = real(place.partition(" ")[2] or "~", self._around.folder)
                place = "" if path is None else str(path)
            self.found.add(kind, what, line, place)
        self.code += [(text, True, line - 1 + below) for text, below in magic.code if text.strip()]
        self.found.write((Value("str()", path) for path in magic.writes), line)
        judge_markup(magic.markup, self.found, line)
        judge_sql(magic.sql, self.found, line)

    def _shell(self, call: Call) -> None:
        texts = [value.beginning for value in call.argument(0, "cmd", "command")]
        shown = all_in_one_line(next((text for text in texts if text), ""))
        shown = shown or call.name.removeprefix("get_ipython().")
        place = texts[0] if len(texts) == 1 else ""
        self.found.add("shell", f"{VERBS['shell']}: {shown}", call.line, place)

    def _runs(self, name: str, call: Call) -> None:
        texts = [*call.argument(0, "source", "raw_cell", "stmt", "statement")]
        if name in catalogue.TAKES_FUNCTIONS:
            texts += call.argument(1, "setup")
        for value in texts:
            if value.exact is not None and value.name == "str()":
                self.code.append((value.exact, name.startswith("get_ipython()"), call.line - 1))
            elif value.name != "builtins.compile()" and not (
                name in catalogue.TAKES_FUNCTIONS and value.function is not None
            ):
                shown = name.removeprefix("builtins.").removeprefix("get_ipython().")
                self._hidden(call.line, shown)

    def _sets(self, call: Call) -> None:
        """Functions that set or delete what an assignment could."""
        owner, _, method = call.name.rpartition(".")
        if call.name in ("builtins.setattr", "builtins.delattr"):
            for value in call.argument(0):
                for key in call.argument(1):
                    self._set(value, key.exact or "…", call.argument(2), call.line)
        elif owner in NAMESPACES and method in ("clear", "popitem"):
            self.found.add("delete", "deletes your variables", call.line)
        elif owner in NAMESPACES and method == "pop":
            for value in call.argument(0):
                self._deletes_by_name(value, call.line)


def _first(call: ast.Call) -> ast.expr | None:
    """The argument that tells where a call acts."""
    named = (k.value for k in call.keywords if k.arg in ("path", "url", "args"))
    return call.args[0] if call.args else next(named, None)


def _is_code(value: Value) -> bool:
    """Whether a value is a function or a class."""
    if value.function is not None or value.name == "local.Class":
        return True
    last = value.name.rpartition(".")[2]
    return "." in value.name and not value.name.startswith("?") and not (
        "()" in value.name or last.isupper() or value.text is not None
    )  # fmt: skip


def _sources(node: ast.Call) -> Iterator[tuple[str, str]]:
    """The text of arguments by name, or by place for the first two, where it is short."""
    for place, part in enumerate(node.args[:2]):
        if isinstance(part, (ast.Name, ast.Attribute, ast.Dict, ast.BinOp)):
            yield str(place), ast.unparse(part)[:1_000]
    for keyword in node.keywords:
        short = isinstance(keyword.value, (ast.Constant, ast.Name, ast.Attribute, ast.Dict))
        if keyword.arg and short:
            yield keyword.arg, ast.unparse(keyword.value)[:200]
