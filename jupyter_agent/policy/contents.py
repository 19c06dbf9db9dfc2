"""The whole content that code is about to give a file, where the code itself tells it.

Only statements that run once and in order are read: those of the cell and of its `with` blocks.
What is not certain is left out: the text of a name counts until a statement comes that may run
other code, which could bind the name anew.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from jupyter_agent.policy.files import real
from jupyter_agent.policy.resolve import Names
from jupyter_agent.policy.verdict import Told
from jupyter_agent.source.scope import imports

_SHORTER = 2_000
"""Characters of a text that `Names` surely knows whole."""
_STANDARD = sys.stdlib_module_names
_UTF_8 = re.compile(r"utf[-_]?8", re.IGNORECASE)
_WHOLE = frozenset({"w", "wt", "tw", "x", "xt", "wb", "xb", "w+"})
"""Modes in which a file has afterwards what was written, and nothing else."""


def contents(tree: ast.Module, names: Names, folder: Path, writes: Mapping[Path, int]) -> Told:
    """The new contents of files.

    Args:
        tree: The cell.
        names: Its names.
        folder: The folder from which relative paths start.
        writes: How many times the code writes to a file, as far as the policy can tell.
    """
    reader = _Reader(names, folder)
    reader.statements(tree.body)
    reader.finish()
    texts = {
        path: "".join(parts)
        for path, parts in reader.parts.items()
        if path not in reader.unsure and reader.writes[path] == writes.get(path)
    }
    return Told(texts, not reader.ran_other_code and texts.keys() == writes.keys())


class _Reader:
    """Reads statements in order.

    Attributes:
        parts: The texts that are written to each file.
        writes: How many times each file is opened or written as a whole.
        unsure: Files whose content cannot be told.
        ran_other_code: True once a statement may have run other code than that of files.
    """

    def __init__(self, names: Names, folder: Path) -> None:
        self.parts: dict[Path, list[str]] = {}
        self.writes: dict[Path, int] = {}
        self.unsure: set[Path] = set()
        self._names = names
        self._folder = folder
        self._files: dict[str, Path] = {}
        self._bound: dict[str, list[Path]] = {}
        self._texts: dict[str, ast.Constant] = {}
        self.ran_other_code = False
        found = [node for node in names.nodes if isinstance(node, ast.Name)]
        self._uses = Counter(node.id for node in found if isinstance(node.ctx, ast.Load))
        self._stores = Counter(node.id for node in found if not isinstance(node.ctx, ast.Load))

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not self._reads(statement):
                self.ran_other_code = True
                self._texts.clear()

    def _reads(self, statement: ast.stmt) -> bool:
        """Read a statement; gives whether it is sure to run no code but that of files."""
        match statement:
            case ast.With(items=parts, body=inner):
                opened = [self._opened(part.context_expr, part.optional_vars) for part in parts]
                if not all(opened):
                    self.ran_other_code = True
                    self._texts.clear()
                self.statements(inner)
                return True
            case ast.Import() | ast.ImportFrom():
                return all(full.partition(".")[0] in _STANDARD for _, full in imports(statement))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value):
                self._texts[name] = value
                return True
            case ast.Assign(targets=[target], value=ast.Call() as call):
                return self._opened(call, target) or (
                    self._is_file_call(call) and isinstance(target, ast.Name)
                )
            case ast.Expr(value=ast.Call() as call):
                return self._is_file_call(call)
        return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)

    def _is_file_call(self, call: ast.Call) -> bool:
        """Read a call; gives whether it does nothing but to write to a file, or to close one."""
        calls = [node for node in ast.walk(call) if isinstance(node, ast.Call)]
        inner = getattr(call.func, "value", None)
        return self._call(call) and all(each is call or each is inner for each in calls)

    def finish(self) -> None:
        """Give up the files whose names are bound or used in another way than to write a text."""
        for name, paths in self._bound.items():
            if self._uses.get(name, 0) or self._stores.get(name, 0) != len(paths):
                self.unsure.update(paths)

    def _opened(self, call: ast.expr, target: ast.expr | None) -> bool:
        """Note a file that is opened under a name; gives whether it is one."""
        path = self._open(call)
        if path is None:
            return False
        self._begin(path)
        if isinstance(target, ast.Name):
            self._files[target.id] = path
            self._bound.setdefault(target.id, []).append(path)
        else:
            self.unsure.add(path)
        return True

    def _begin(self, path: Path) -> None:
        self.parts[path] = []
        self.writes[path] = self.writes.get(path, 0) + 1

    def _call(self, call: ast.Call) -> bool:
        """Read a call; gives whether it writes to a file, or closes one."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name in self._files:
                self._uses[name] -= 1
                if method == "write" and len(call.args) == 1:
                    self._add(self._files[name], call.args[0])
                elif method not in ("close", "flush"):
                    self.unsure.add(self._files[name])
                return True
            case ast.Attribute(value=ast.Call() as opened, attr="write") if len(call.args) == 1:
                if path := self._open(opened):
                    self._begin(path)
                    self._add(path, call.args[0])
                    return True
            case ast.Attribute(value=owner, attr="write_text" | "write_bytes"):
                path = self._path(owner, is_path=True)
                if path is not None and len(call.args) == 1 and _is_plain(call.keywords):
                    self._begin(path)
                    self._add(path, call.args[0])
                    return True
            case ast.Attribute(attr="run_cell_magic"):
                self._magic([part.value for part in call.args if isinstance(part, ast.Constant)])
        return False

    def _magic(self, words: Sequence[object]) -> None:
        """`%%writefile a.txt`: the cell is the content."""
        match words:
            case [("writefile" | "file"), str(line), str(cell)] if not re.search(r"[\s{$]", line):
                if path := real(line.strip("\"'"), self._folder):
                    self._begin(path)
                    self.parts[path].append(cell)

    def _add(self, path: Path, node: ast.expr) -> None:
        text = self._text(node)
        if text is None:
            self.unsure.add(path)
        else:
            self.parts[path].append(text)

    def _open(self, node: ast.expr) -> Path | None:
        """The file that an expression opens to write it anew."""
        if not isinstance(node, ast.Call) or len(values := self._names.of(node.func)) != 1:
            return None
        owner = values[0].owner
        is_method = owner is not None and owner.is_path and isinstance(node.func, ast.Attribute)
        if not is_method and values[0].name not in ("builtins.open", "io.open", "open"):
            return None
        places = list(node.args) if is_method else list(node.args[1:])
        mode = next((k.value for k in node.keywords if k.arg == "mode"), None)
        modes = [*places[:1], *([mode] if mode is not None else [])]
        texts = [part.value for part in modes if isinstance(part, ast.Constant)]
        rest = [keyword for keyword in node.keywords if keyword.arg != "mode"]
        if len(texts) != 1 or texts[0] not in _WHOLE or len(places) > 1 or not _is_plain(rest):
            return None
        if is_method:
            assert isinstance(node.func, ast.Attribute)
            return self._path(node.func.value, is_path=True)
        return self._path(node.args[0]) if node.args else None

    def _path(self, node: ast.expr, is_path: bool = False) -> Path | None:
        values = self._names.of(node)
        if len(values) != 1 or values[0].exact is None or (is_path and not values[0].is_path):
            return None
        return real(values[0].exact, self._folder)

    def _text(self, node: ast.expr) -> str | None:
        """The text of an expression, where all of it is known."""
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, bytes):
                try:
                    return value.decode("utf-8")
                except UnicodeDecodeError:
                    return None
            return value if isinstance(value, str) else None
        if isinstance(node, ast.Name):
            bound = self._texts.get(node.id)
            if bound is not None and self._stores[node.id] == 1:
                return self._text(bound)
        if self.ran_other_code:
            return None
        values = self._names.of(node)
        text = values[0].exact if len(values) == 1 and values[0].name == "str()" else None
        return text if text is not None and len(text) < _SHORTER else None


def _is_plain(keywords: Sequence[ast.keyword]) -> bool:
    """Whether a text is written as UTF-8, with its own line endings."""
    return all(
        keyword.arg == "encoding"
        and isinstance(keyword.value, ast.Constant)
        and _UTF_8.fullmatch(str(keyword.value.value))
        for keyword in keywords
    )
