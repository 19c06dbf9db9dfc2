"""What the names and expressions of a piece of code stand for, without running it.

Order is not followed: a name may be each of the things that the code binds it to anywhere.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from urllib.parse import urljoin

from jupyter_agent.policy import catalogue
from jupyter_agent.policy.catalogue import HOLE, words
from jupyter_agent.policy.verdict import Known
from jupyter_agent.source.scope import free_names, imports, nodes_of, parameters, stored_names

MOST = 12
"""Values of one expression that are told apart."""
_LONGEST = 4096
_PATH = "pathlib.Path()"
_FILE = "file()"
_BUILTINS = frozenset(dir(builtins)) | {"__builtins__"}
_EVERYWHERE = {"get_ipython": "get_ipython", "display": "IPython.display.display"}
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may be.

    Args:
        name: Its canonical name as in the catalogue; empty where nothing is known.
        text: Of a string, a path or an open file, the text, with a `HOLE` for each part that is
            not known.
        items: What it may hold, in order.
        owner: Of a method, the object.
        function: Of a function in the code, its definition.
    """

    name: str = ""
    text: str | None = None
    items: tuple[Value, ...] = ()
    owner: Value | None = None
    function: Function | None = None

    @property
    def exact(self) -> str | None:
        """The text, where all of it is known."""
        return None if self.text is None or HOLE in self.text else self.text

    @property
    def beginning(self) -> str:
        """The text up to the first part that is not known."""
        return (self.text or "").partition(HOLE)[0]

    @property
    def is_path(self) -> bool:
        return self.name == _PATH

    @property
    def is_class(self) -> bool:
        """Whether it looks like a class of a library: `pandas.DataFrame`."""
        return bool(re.fullmatch(r"\w[\w.]*\.[A-Z]\w*", self.name))


UNKNOWN = Value()
Values = tuple[Value, ...]
_Binding = Callable[[], Iterable[Value]]


def string(text: str) -> Value:
    """A string's value; a string of nothing but unknown parts is unknown."""
    return UNKNOWN if text and not text.strip(HOLE) else Value("str()", text[:_LONGEST])


_BINDERS = (
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.AsyncFor),
    *(ast.comprehension, ast.withitem, ast.ExceptHandler, ast.ClassDef, ast.FunctionDef),
    *(ast.AsyncFunctionDef, ast.Import, ast.ImportFrom),
)


class Names:
    """The bindings of some trees, and the values of their expressions.

    Args:
        trees: The code: a cell and what it runs by `exec`, `%time` and the like.
        known: What the kernel's names are.
        folder: The kernel's working folder.
        seen: Files that the agent knows: databases that it made are its own.

    Attributes:
        nodes: Those of all trees, each tree as `nodes_of` gives it.
    """

    def __init__(
        self,
        trees: Sequence[ast.Module],
        known: Mapping[str, Known],
        folder: Path,
        seen: Set[Path] = frozenset(),
    ) -> None:
        self.nodes: list[ast.AST] = []
        self._known = known
        self._folder = folder
        self._seen = seen
        self._bindings: dict[str, list[_Binding]] = {}
        self._stars: list[str] = []
        self._memo: dict[int, Values] = {}
        self._by_name: dict[str, Values] = {}
        self._busy: set[object] = set()
        self._partial: dict[str, list[Value]] = {}
        self._free: set[str] = set()
        for tree in trees:
            self._free |= free_names(tree)
            nodes = nodes_of(tree)
            self.nodes += nodes
            for node in nodes:
                if isinstance(node, _BINDERS):  # most nodes bind nothing
                    self._bind(node)
            self._bind_functions(nodes)

    def binds(self, name: str) -> bool:
        """Whether the code itself binds a name somewhere."""
        return name in self._bindings

    # --- bindings --------------------------------------------------------------------------------

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._target(target, node.value)
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                self._target(node.target, value)
            case ast.AugAssign(target=ast.Name() as name):
                total = ast.BinOp(ast.Name(name.id, ast.Load()), node.op, node.value)
                self._add(name.id, lambda: self.of(ast.copy_location(total, node)))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._target(node.target, node.iter, inside=True)
            case ast.withitem(optional_vars=ast.expr() as target):
                self._target(target, node.context_expr)
            case _:
                self._bind_definition(node)

    def _bind_definition(self, node: ast.AST) -> None:
        match node:
            case ast.ExceptHandler(name=str(name)):
                self._add(name, lambda: (Value("exception()"),))
            case ast.ClassDef():
                self._add(node.name, lambda: (Value("local.Class"),))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add(node.name, lambda: (Value(function=node),))
            case ast.Import() | ast.ImportFrom():
                for bound, name in imports(node):
                    if bound == "*":
                        self._stars.append(name.removesuffix(".*"))
                    else:
                        self._add(bound, lambda n=name: (Value(catalogue.canonical(n)),))  # type: ignore[misc]

    def _bind_functions(self, nodes: Iterable[ast.AST]) -> None:
        """Bind the parameters of functions to what the code calls them with."""
        calls: dict[str, list[ast.Call]] = {}
        passed: set[str] = set()
        callees = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
        names: dict[int, str] = {}
        for node in nodes:
            if not isinstance(node, (ast.Call, ast.Name, ast.Assign)):
                continue
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    calls.setdefault(name, []).append(node)
                case ast.Name(ctx=ast.Load()) if id(node) not in callees:
                    passed.add(node.id)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                    names[id(function)] = name
        for node in nodes:
            if isinstance(node, ast.Lambda):
                name = names.get(id(node), "")
                direct = [callees[id(node)]] if id(node) in callees else calls.get(name, [])
                self._bind_parameters(node, [] if name in passed else direct)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = [] if node.name in passed else calls.get(node.name, [])
                self._bind_parameters(node, given)

    def _bind_parameters(self, node: Function, calls: list[ast.Call]) -> None:
        """A parameter is what the code calls the function with, else it is not known."""
        plain = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        named = [argument.arg for argument in node.args.kwonlyargs]
        pairs = [*zip(plain[::-1], node.args.defaults[::-1], strict=False)]
        defaults = {**dict(pairs), **dict(zip(named, node.args.kw_defaults, strict=True))}
        for place, name in enumerate([*plain, *named]):
            given = [_argument(call, place, name) for call in calls]
            for expression in filter(None, [defaults.get(name), *given]):
                self._add(name, lambda e=expression: self.of(e))  # type: ignore[misc]
            if not calls or (name not in defaults and None in given):
                self._add(name, lambda: (UNKNOWN,))
        for argument in parameters(node.args)[len(plain) + len(named) :]:
            self._add(argument.arg, lambda: (UNKNOWN,))

    def _target(self, target: ast.expr, value: ast.expr, inside: bool = False) -> None:
        match target:
            case ast.Name():
                self._add(target.id, lambda: self._inside(value, inside))
            case ast.Starred():
                self._target(target.value, value, inside)
            case ast.Tuple() | ast.List():
                self._targets(target.elts, value, inside)

    def _targets(self, targets: list[ast.expr], value: ast.expr, inside: bool) -> None:
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets)
        for place, target in enumerate(targets):
            if same and not inside:
                self._target(target, value.elts[place])  # type: ignore[attr-defined]
            else:
                for name in stored_names(target):
                    self._add(name, lambda: self._flat(value, inside))

    def _add(self, name: str, binding: _Binding) -> None:
        self._bindings.setdefault(name, []).append(binding)

    def _inside(self, value: ast.expr, inside: bool) -> Values:
        values = self.of(value)
        return _few(item for v in values for item in items(v)) if inside else values

    def _flat(self, value: ast.expr, inside: bool) -> Values:
        return _few(item for v in self._inside(value, inside) for item in v.items or (v,))

    # --- values ----------------------------------------------------------------------------------

    def of_name(self, name: str) -> Values:
        """What a name may be."""
        if name in self._by_name:
            return self._by_name[name]
        if name in self._busy:
            return tuple(self._partial[name][:3]) or (UNKNOWN,)  # `sql += …`
        self._busy.add(name)
        found: list[Value] = []
        self._partial[name] = found
        for binding in self._bindings.get(name, ()):
            found += binding()
        if name not in self._bindings or name in self._free:
            found += self._from_outside(name)
        self._busy.discard(name)
        self._by_name[name] = values = _few(found)
        return values

    def _from_outside(self, name: str) -> Iterator[Value]:
        known = self._known.get(name)
        if known is not None:
            yield _of_known(known)
        if name in _EVERYWHERE:
            yield Value(_EVERYWHERE[name])
        elif name in _BUILTINS:
            yield Value(catalogue.canonical(f"builtins.{name}"))
        elif name == "__name__":
            yield string("__main__")
        elif known is None:
            for module in self._stars:
                yield Value(catalogue.canonical(f"{module}.{name}"))

    def of(self, node: ast.expr) -> Values:
        """What an expression may be; never empty."""
        key = id(node)
        if key in self._memo:
            return self._memo[key]
        if key in self._busy:
            return (UNKNOWN,)
        self._busy.add(key)
        values = _few(self._evaluate(node))
        self._busy.discard(key)
        self._memo[key] = values
        return values

    def _evaluate(self, node: ast.expr) -> Iterable[Value]:  # noqa: PLR0912 (one case a kind)
        match node:
            case ast.Constant(value=str(text)):
                return (string(text),)
            case ast.Constant(value=bytes(data)):
                return (string(data.decode("utf-8", "replace")),)
            case ast.Constant():
                return (Value("constant"),)
            case ast.Name():
                return self.of_name(node.id)
            case ast.Attribute():
                return self.attribute(self.of(node.value), node.attr)
            case ast.Call():
                return (v for callee in self.of(node.func) for v in self._result(callee, node))
            case ast.Subscript():
                return self._subscript(self.of(node.value), self.of(node.slice))
            case ast.BinOp(op=ast.Add() | ast.Div()):
                return self._combined(node)
            case ast.BinOp(op=ast.Mod()):
                texts = (value.text for value in self.of(node.left))
                return (UNKNOWN if t is None else string(_PERCENT.sub(HOLE, t)) for t in texts)
            case ast.JoinedStr():
                return self._texts(lambda *parts: "".join(parts), [self.of(p) for p in node.values])
            case ast.FormattedValue(conversion=-1, format_spec=None):
                return self.of(node.value)
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                return self.of(node.value)
            case ast.IfExp():
                return (*self.of(node.body), *self.of(node.orelse))
            case ast.BoolOp():
                return [value for part in node.values for value in self.of(part)]
            case ast.Tuple() | ast.List() | ast.Set():
                return (Value("list()", items=self._items(node.elts)),)
            case ast.Dict():
                return (Value("dict()", items=self._items(node.values)),)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return (Value("list()", items=self.of(node.elt)),)
            case ast.DictComp():
                return (Value("dict()", items=self.of(node.value)),)
            case ast.Lambda():
                return (Value(function=node),)
        return (UNKNOWN,)

    def _items(self, parts: Sequence[ast.expr]) -> Values:
        return tuple(value for part in parts[: 4 * MOST] for value in self.of(part))

    def attribute(self, values: Values, attr: str) -> Values:
        """What an attribute of some values may be."""
        return _few(found for value in values for found in self._attribute(value, attr))

    def _attribute(self, value: Value, attr: str) -> Iterator[Value]:
        if value.is_path and attr in _PATH_PARTS:
            yield _PATH_PARTS[attr](value.text or HOLE)
        elif value.name == "tempfile()" and attr == "name":
            yield replace(value, name="str()")
        elif not value.name or value.name.startswith(("?", "local.")):
            yield Value(catalogue.canonical(f"?.{attr}"), owner=value)
        else:
            yield Value(catalogue.canonical(f"{value.name}.{attr}"), owner=value)

    def _subscript(self, values: Values, keys: Values) -> Iterator[Value]:
        for value, key in product(values, keys):
            if value.items:
                yield from value.items
            elif value.name in NAMESPACES and key.text:
                yield from self.of_name(key.text)
            else:
                yield UNKNOWN

    def _combined(self, node: ast.BinOp) -> Iterator[Value]:
        for left, right in product(self.of(node.left), self.of(node.right)):
            texts = [HOLE if part.text is None else part.text for part in (left, right)]
            if isinstance(node.op, ast.Div):
                is_path = left.is_path or right.is_path or left.text or right.text
                yield Value(_PATH, os.path.join(*texts)) if is_path else UNKNOWN  # noqa: PTH118
            elif left.items or right.items:
                yield Value("list()", items=(*left.items, *right.items))
            else:
                yield string("".join(texts))

    def _texts(self, function: Callable[..., str], options: Sequence[Values]) -> Iterator[Value]:
        """The texts that a function makes of each combination of its arguments."""
        count = 1
        for values in options:
            count *= len(values)
        if count > MOST:
            options = [values if len(values) == 1 else (UNKNOWN,) for values in options]
        for combination in product(*options):
            try:
                parts = [HOLE if part.text is None else part.text for part in combination]
                yield string(function(*parts))
            except (TypeError, ValueError, LookupError, AttributeError):
                yield UNKNOWN

    # --- calls -----------------------------------------------------------------------------------

    def _result(self, callee: Value, node: ast.Call) -> Iterable[Value]:
        name = callee.name
        if callee.function is not None:
            return self._returned(callee.function)
        arguments = [self.of(part) for part in node.args if not isinstance(part, ast.Starred)]
        first = arguments[0] if arguments else ()
        if name in catalogue.MEMORY_DATABASES and self._is_fresh(node, first):
            return (Value("memory()"),)
        if name in catalogue.OPENERS:
            named = (self.of(k.value) for k in node.keywords if k.arg == catalogue.OPENERS[name][1])
            return (Value(_FILE, v.text) for v in first or next(named, (UNKNOWN,)))
        if name in _RESULTS:
            return (_RESULTS[name](self._folder),)
        if name in _TEXTS:
            return self._texts(_TEXTS[name], arguments)
        if name == "pathlib.Path":
            return self._paths(os.path.join, arguments or [(string("."),)])
        if first and (name in _PASSING or name in catalogue.IMPORTERS):
            return _passed(name, [value for values in arguments for value in values])
        if name == "builtins.getattr" and len(arguments) > 1:
            keys = [key.exact for key in arguments[1] if key.exact]
            return _few(found for key in keys for found in self.attribute(first, key))
        return self._of_method(callee, arguments)

    def _of_method(self, callee: Value, arguments: list[Values]) -> Iterable[Value]:
        """The result of a method, by its object; of any other function, an instance of it."""
        name, owner = callee.name, callee.owner or UNKNOWN
        method = name.rpartition(".")[2]
        options = [(owner,), *arguments]
        if owner.is_path:
            if method == "open":
                return (Value(_FILE, owner.text),)
            if method in _PATH_METHODS:
                return self._paths(_PATH_METHODS[method], options)
        elif owner.name == "str()":
            if method == "join" and arguments:
                return (_joined(owner.text or "", value) for value in arguments[0])
            return self._texts(_STRINGS[method], options) if method in _STRINGS else (UNKNOWN,)
        elif method in ("get", "pop", "setdefault") and arguments:
            return self._subscript((owner,), arguments[0])
        elif name in ("dict().items", "dict().values"):
            return (replace(owner, name="list()"),)
        if not name or name.startswith("?"):
            return (*owner.items, UNKNOWN)
        return (Value(catalogue.canonical(f"{name}()")),)

    def _is_fresh(self, node: ast.Call, first: Values) -> bool:
        """Whether a database is opened that is kept in memory, or that the agent makes."""
        if not node.args:
            return not node.keywords
        return all(value.exact is not None and self._is_own(value.exact) for value in first)

    def _is_own(self, address: str) -> bool:
        path = database_file(address)
        if path in ("", ":memory:"):
            return True
        place = self._folder / path
        return "://" not in path and (not os.path.lexists(place) or place in self._seen)

    def _returned(self, function: Function) -> Values:
        if isinstance(function, ast.Lambda):
            return self.of(function.body)
        given = (n for n in nodes_of(function) if isinstance(n, (ast.Return, ast.Yield)))
        return _few(v for node in given if node.value for v in self.of(node.value))

    def _paths(self, function: Callable[..., str], options: Sequence[Values]) -> Iterator[Value]:
        return (Value(_PATH, value.text or HOLE) for value in self._texts(function, options))


def database_file(address: str) -> str:
    """The file of an address such as `sqlite:///a.db`; other addresses unchanged."""
    return re.sub(r"^(?:sqlite|duckdb)(?:\+\w+)?://(?:/(?=.))?", "", address)


def _of_known(known: Known) -> Value:
    if known.in_memory:
        return Value("io.StringIO()")
    name = catalogue.public(known.qualified) if known.qualified else ""
    if known.text is not None:
        return Value(_PATH if name == _PATH else "str()", known.text)
    return Value(name)


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place < len(call.args) else None


def _few(values: Iterable[Value]) -> Values:
    """Deduplicates; appends UNKNOWN when there are more than MOST."""
    if type(values) is tuple and len(values) == 1:
        return values
    found: dict[Value, None] = {}
    for value in values:
        found[value] = None
        if len(found) > MOST:
            return (*tuple(found)[:MOST], UNKNOWN)
    return tuple(found) or (UNKNOWN,)


def items(value: Value) -> Values:
    """What a loop over a value gives."""
    return value.items or (UNKNOWN,)


def _passed(name: str, values: Iterable[Value]) -> Iterator[Value]:
    """The results of functions that give back what they are given, in another shape."""
    for value in values:
        if name in ("builtins.next", "builtins.max", "builtins.min"):
            yield from items(value)
        elif name in ("functools.partial", "importlib.reload"):
            yield value
        elif name in catalogue.IMPORTERS:
            module = value.exact or ""
            yield Value(catalogue.canonical(module.partition(".")[0] if "__" in name else module))
        else:
            yield Value("list()", items=items(value))


def _joined(text: str, value: Value) -> Value:
    if not value.items:
        return UNKNOWN
    return string(text.join(HOLE if part.text is None else part.text for part in value.items))


def _formatted(text: str, *parts: str) -> str:
    try:
        return text.format(*parts)
    except (ValueError, LookupError, AttributeError):
        return re.sub(r"\{[^{}]*\}", HOLE, text)


_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]")


def _same(text: str, *ignored: str) -> str:
    return text


def _renamed(method: str) -> Callable[[str, str], str]:
    return lambda text, part: str(getattr(Path(text), method)(part))


def _temporary(folder: Path) -> Value:
    return string(f"{tempfile.gettempdir()}/{HOLE}")


def _namespace(folder: Path) -> Value:
    return Value("globals()")


_PATH_PARTS: Mapping[str, Callable[[str], Value]] = {
    "parent": lambda text: Value(_PATH, os.path.dirname(text) or "."),  # noqa: PTH120
    "name": lambda text: string(Path(text).name),
    "stem": lambda text: string(Path(text).stem),
    "suffix": lambda text: string(Path(text).suffix),
}
_PATH_METHODS: Mapping[str, Callable[..., str]] = {
    "joinpath": os.path.join,
    **{name: _renamed(name) for name in words("with_suffix with_name with_stem")},
    **dict.fromkeys(words("resolve absolute expanduser as_posix __str__ __fspath__"), _same),
}
_STRINGS: Mapping[str, Callable[..., str]] = {
    "format": _formatted,
    **{
        name: getattr(str, name)
        for name in words("strip lstrip rstrip lower upper title replace removeprefix removesuffix")
    },
}
_TEXTS: Mapping[str, Callable[..., str]] = {
    **{
        f"os.path.{name}": getattr(os.path, name)
        for name in words("join basename dirname normpath expandvars")
    },
    **dict.fromkeys(words("os.path.expanduser os.path.abspath os.path.realpath"), _same),
    **dict.fromkeys(words("os.path.relpath os.fspath builtins.str sqlalchemy.text"), _same),
    "urllib.parse.urljoin": urljoin,
}
"""Functions whose result is a text that can be told."""
_RESULTS: Mapping[str, Callable[[Path], Value]] = {
    **dict.fromkeys(
        words("tempfile.mkdtemp tempfile.mktemp tempfile.TemporaryDirectory"), _temporary
    ),
    "tempfile.gettempdir": lambda folder: string(tempfile.gettempdir()),
    "tempfile.mkstemp": lambda folder: Value("list()", items=(_temporary(folder),)),
    "tempfile.NamedTemporaryFile": lambda folder: replace(_temporary(folder), name="tempfile()"),
    **dict.fromkeys(words("builtins.globals builtins.locals builtins.vars"), _namespace),
    "pathlib.Path.home": lambda folder: Value(_PATH, "~"),
    "pathlib.Path.cwd": lambda folder: Value(_PATH, str(folder)),
    "os.getcwd": lambda folder: string(str(folder)),
}
NAMESPACES = ("globals()", "get_ipython().user_ns", "get_ipython().user_global_ns")
_PASSING = words(
    "functools.partial builtins.list builtins.tuple builtins.set builtins.sorted builtins.reversed "
    "builtins.iter builtins.next builtins.enumerate builtins.frozenset builtins.max builtins.min "
    "builtins.zip"
)
"""Functions that give back what they are given."""
