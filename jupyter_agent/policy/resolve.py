"""What the names and expressions of a piece of code stand for, without running it.

Order is not followed: a name may be each of the things that the code binds it to anywhere.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from jupyter_agent.policy import catalogue
from jupyter_agent.policy.verdict import Known
from jupyter_agent.source.scope import bound_by, free_names, imports, parameters, stored_names

MOST = 12
"""Values of one expression that are told apart."""
_LONGEST = 4096
_PATH = "pathlib.Path()"
_BUILTINS = frozenset(dir(builtins)) | {"__builtins__"}
_EVERYWHERE = {"get_ipython": "get_ipython", "display": "IPython.display.display"}
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may be.

    Args:
        name: Its canonical name as in the catalogue; empty where nothing is known.
        text: The text, where it is a string or a path that is known.
        start: How a text begins of which not all is known.
        temporary: Whether it is a path below the system's folder for temporary files.
        items: What it may hold.
        owner: Of a method, the object.
        function: Of a function in the code, its definition.
    """

    name: str = ""
    text: str | None = None
    start: str = ""
    temporary: bool = False
    items: tuple[Value, ...] = ()
    owner: Value | None = None
    function: Function | None = None

    @property
    def beginning(self) -> str:
        return self.text if self.text is not None else self.start

    @property
    def is_path(self) -> bool:
        return self.name == _PATH


UNKNOWN = Value()
Values = tuple[Value, ...]
_Binding = Callable[[], Iterable[Value]]


def string(text: str) -> Value:
    return Value("str()", text[:_LONGEST] if len(text) > _LONGEST else text)


class Names:
    """The bindings of some trees, and the values of their expressions.

    Args:
        trees: The code: a cell and what it runs by `exec`, `%time` and the like.
        known: What the kernel's names are.
        folder: The kernel's working folder.

    Attributes:
        nodes: Those of all trees, each tree as `ast.walk` gives it.
    """

    def __init__(
        self, trees: Sequence[ast.Module], known: Mapping[str, Known], folder: Path
    ) -> None:
        self.nodes: list[ast.AST] = []
        self._known = known
        self._folder = folder
        self._bindings: dict[str, list[_Binding]] = {}
        self._attributes: dict[str, list[_Binding]] = {}
        self._returns: dict[int, list[ast.expr]] = {}
        self._stars: list[str] = []
        self._memo: dict[int, Values] = {}
        self._by_name: dict[str, Values] = {}
        self._busy: set[object] = set()
        self._free: set[str] = set()
        for tree in trees:
            self._free |= free_names(tree)
            nodes = list(ast.walk(tree))
            self.nodes += nodes
            self._bind_all(nodes)

    def binds(self, name: str) -> bool:
        """Whether the code itself binds a name somewhere."""
        return name in self._bindings

    # --- bindings --------------------------------------------------------------------------------

    def _bind_all(self, nodes: Iterable[ast.AST]) -> None:
        calls: dict[str, list[ast.Call]] = {}
        callees: set[int] = set()
        loads: list[ast.Name] = []
        functions: list[tuple[str, Function]] = []
        for node in nodes:
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    loads.append(node)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    calls.setdefault(node.func.id, []).append(node)
                    callees.add(id(node.func))
                elif isinstance(node.func, ast.Lambda):
                    self._bind_parameters(node.func, [node])
                    callees.add(id(node.func))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions.append((node.name, node))
                self._bind_function(node)
            else:
                self._bind(node)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                functions += [(t.id, node.value) for t in node.targets if isinstance(t, ast.Name)]
                callees.add(id(node.value))
            if isinstance(node, ast.Lambda) and id(node) not in callees:
                self._bind_parameters(node, [])
        passed = {node.id for node in loads if id(node) not in callees}
        for name, function in functions:
            self._bind_parameters(function, [] if name in passed else calls.get(name, []))

    def _bind_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._returns[id(node)] = [
            found.value
            for found in ast.walk(node)
            if isinstance(found, (ast.Return, ast.Yield)) and found.value is not None
        ]
        self._add(node.name, lambda: (Value(function=node),))

    def _bind_parameters(self, node: Function, calls: list[ast.Call]) -> None:
        """A parameter is what the code calls the function with, else it is not known."""
        plain = [*node.args.posonlyargs, *node.args.args]
        fits = calls and not any(
            isinstance(part, ast.Starred) or (isinstance(part, ast.keyword) and part.arg is None)
            for call in calls
            for part in (*call.args, *call.keywords)
        )
        for place, argument in enumerate([*plain, *node.args.kwonlyargs]):
            default = _default(node.args, argument)
            given = [_argument(call, place, argument.arg) for call in calls]
            for expression in {id(part): part for part in [default, *given] if part}.values():
                self._add(argument.arg, lambda e=expression: self.of(e))  # type: ignore[misc]
            if not fits or (default is None and None in given):
                hint = argument.annotation
                self._add(argument.arg, lambda h=hint: self._instance(h))  # type: ignore[misc]
        for argument in parameters(node.args)[len(plain) + len(node.args.kwonlyargs) :]:
            self._add(argument.arg, lambda: (UNKNOWN,))

    def _instance(self, annotation: ast.expr | None) -> Values:
        """What an annotation says that something is: only what is riskier than the unknown."""
        if annotation is None:
            return (UNKNOWN,)
        names = [value.name for value in self.of(annotation)]
        return tuple(
            Value(_PATH)
            if name == "pathlib.Path"
            else Value(f"{name}()")
            if "." in name
            else UNKNOWN
            for name in names
        )

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._target(target, node.value)
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                self._target(node.target, value)
            case ast.AugAssign(target=ast.Name() as name):
                total = ast.copy_location(
                    ast.BinOp(ast.Name(name.id, ast.Load()), node.op, node.value), node
                )
                self._add(name.id, lambda: self.of(total))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._target(node.target, node.iter, inside=True)
            case ast.withitem(optional_vars=ast.expr() as target):
                self._target(target, node.context_expr)
            case ast.Match():
                self._bind_match(node)
            case ast.ExceptHandler():
                for bound in bound_by(node):
                    self._add(bound, lambda: (Value("exception()"),))
            case ast.ClassDef():
                self._bind_class(node)
            case ast.Import() | ast.ImportFrom():
                self._bind_import(node)

    def _bind_class(self, node: ast.ClassDef) -> None:
        self._add(node.name, lambda: (Value("local.Class"),))
        for found in node.body:
            assigned = isinstance(found, (ast.Assign, ast.AnnAssign))
            for name in stored_names(found) if assigned else bound_by(found):
                self._attributes.setdefault(name, []).append(lambda n=name: self.of_name(n))  # type: ignore[misc]

    def _bind_match(self, node: ast.Match) -> None:
        for case in node.cases:
            for found in ast.walk(case.pattern):
                for name in bound_by(found):
                    self._add(name, lambda: self.of(node.subject))

    def _bind_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for bound, name in imports(node):
            if bound == "*":
                self._stars.append(name.removesuffix(".*"))
            else:
                self._add(bound, lambda n=name: (Value(catalogue.canonical(n)),))  # type: ignore[misc]

    def _target(self, target: ast.expr, value: ast.expr, inside: bool = False) -> None:
        match target:
            case ast.Name():
                self._add(target.id, lambda: self._inside(self.of(value), inside))
            case ast.Attribute():
                bindings = self._attributes.setdefault(target.attr, [])
                bindings.append(lambda: self._inside(self.of(value), inside))
            case ast.Starred():
                self._target(target.value, value, inside)
            case ast.Tuple() | ast.List():
                self._targets(target.elts, value, inside)

    def _targets(self, targets: list[ast.expr], value: ast.expr, inside: bool) -> None:
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets)
        if same and not inside and not any(isinstance(part, ast.Starred) for part in targets):
            for target, part in zip(targets, value.elts, strict=True):  # type: ignore[attr-defined]
                self._target(target, part)
            return
        for place, target in enumerate(targets):
            for name in (found for found in ast.walk(target) if isinstance(found, ast.Name)):
                self._add(
                    name.id,
                    lambda p=place: _unpacked(self._inside(self.of(value), inside), p),  # type: ignore[misc]
                )

    def _add(self, name: str, binding: _Binding) -> None:
        self._bindings.setdefault(name, []).append(binding)

    @staticmethod
    def _inside(values: Values, inside: bool) -> Values:
        return _items(values) if inside else values

    # --- values ----------------------------------------------------------------------------------

    def of_name(self, name: str) -> Values:
        """What a name may be."""
        if name in self._by_name:
            return self._by_name[name]
        if name in self._busy:
            return (UNKNOWN,)
        self._busy.add(name)
        found: list[Value] = []
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
                return self._attribute(self.of(node.value), node.attr)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(self.of(node.value), self.of(node.slice))
            case ast.BinOp(op=ast.Add() | ast.Div()):
                return self._combined(node)
            case ast.BinOp(op=ast.Mod()):
                return (
                    Value("str()", start=v.beginning.partition("%")[0]) if v.beginning else UNKNOWN
                    for v in self.of(node.left)
                )
            case ast.JoinedStr():
                return self._joined(node.values)
            case ast.FormattedValue(conversion=-1, format_spec=None):
                return self.of(node.value)
            case ast.NamedExpr() | ast.Await() | ast.Starred():
                return self.of(node.value)
            case ast.IfExp():
                return (*self.of(node.body), *self.of(node.orelse))
            case ast.BoolOp():
                return [value for part in node.values for value in self.of(part)]
            case ast.Tuple() | ast.List() | ast.Set():
                return (Value("list()", items=_few(v for p in node.elts for v in self.of(p))),)
            case ast.Dict():
                return (Value("dict()", items=_few(v for p in node.values for v in self.of(p))),)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return (Value("list()", items=self.of(node.elt)),)
            case ast.DictComp():
                return (Value("dict()", items=self.of(node.value)),)
            case ast.Lambda():
                return (Value(function=node),)
        return (UNKNOWN,)

    def _attribute(self, values: Values, attr: str) -> Iterator[Value]:
        for value in values:
            if value.is_path:
                yield _path_attribute(value, attr)
            elif not value.name or value.name.startswith(("?", "local.")):
                yield Value(catalogue.canonical(f"?.{attr}"), owner=value)
                if attr in self._attributes and attr not in self._busy:
                    self._busy.add(attr)
                    yield from (v for b in self._attributes[attr] for v in b())
                    self._busy.discard(attr)
            else:
                yield Value(catalogue.canonical(f"{value.name}.{attr}"), owner=value)

    def attribute(self, values: Values, attrs: Values) -> Values:
        """`getattr`: the attributes of values whose names are given by values."""
        return _few(
            found
            for attr in attrs
            for found in (self._attribute(values, attr.text) if attr.text else (UNKNOWN,))
        )

    def _subscript(self, values: Values, keys: Values) -> Iterator[Value]:
        for value, key in product(values, keys):
            if value.items:
                yield from value.items
            elif value.name == "sys.modules" and key.text:
                yield Value(catalogue.canonical(key.text))
            elif value.name.endswith(".__dict__") and key.text:
                yield Value(catalogue.canonical(f"{value.name[:-9]}.{key.text}"))
            elif value.name in _NAMESPACES and key.text:
                yield from self.of_name(key.text)
            elif value.name == "pathlib.Path().parents":
                yield Value(_PATH)
            elif value.text is not None and key.name == "constant":
                yield Value("str()")
            else:
                yield UNKNOWN

    def _combined(self, node: ast.BinOp) -> Iterator[Value]:
        for left, right in product(self.of(node.left), self.of(node.right)):
            if isinstance(node.op, ast.Add):
                yield (
                    Value("list()", items=_few((*left.items, *right.items)))
                    if left.items or right.items
                    else _concatenated((left, right))
                )
            elif left.is_path or right.is_path:
                yield _joined_path((left, right))
            else:
                yield Value("str()", temporary=True) if left.temporary else UNKNOWN

    def _joined(self, parts: list[ast.expr]) -> Iterator[Value]:
        options = [self.of(part) for part in parts]
        count = 1
        for values in options:
            count *= len(values)
        if count > MOST:
            options = [values if len(values) == 1 else (UNKNOWN,) for values in options]
        for combination in product(*options):
            yield _concatenated(combination)

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[Value]:
        for callee in self.of(node.func):
            yield from self._result(callee, node)

    def _result(self, callee: Value, node: ast.Call) -> Iterable[Value]:
        name = callee.name
        if callee.function is not None:
            return self._returned(callee.function)
        if name in _DATABASES and _in_memory(node, self):
            return (Value("memory()"),)
        if name in _RESULTS:
            return (replace(_RESULTS[name]),)
        arguments = [self.of(part) for part in node.args if not isinstance(part, ast.Starred)]
        first = arguments[0] if arguments else ()
        if name == "builtins.getattr" and len(arguments) > 1:
            return (*self.attribute(first, arguments[1]), *(arguments[2] if arguments[2:] else ()))
        if name in catalogue.IMPORTERS and first:
            return (_imported(name, value, len(arguments)) for value in first)
        if name in _TEXTS:
            return self._text_result(name, callee, arguments)
        if name == "builtins.vars" and first:
            return (Value(f"{v.name}.__dict__") if v.name else UNKNOWN for v in first)
        if name in _PASSING and first:
            return _passed(name, first)
        if name == "functools.partial" and first:
            return first
        if (
            name.endswith((".get", ".pop", ".__getitem__", ".setdefault"))
            and callee.owner
            and first
        ):
            return self._subscript((callee.owner,), first)
        if name.startswith("?.") and callee.owner and callee.owner.items:
            return (*callee.owner.items, UNKNOWN)
        if not name or name.startswith(("?", "str()")):
            return (UNKNOWN,)
        return (Value(catalogue.canonical(f"{name}()")),)

    def _returned(self, function: Function) -> Values:
        if isinstance(function, ast.Lambda):
            return self.of(function.body)
        return _few(v for part in self._returns.get(id(function), ()) for v in self.of(part))

    def _text_result(self, name: str, callee: Value, arguments: list[Values]) -> Iterator[Value]:
        count = 1
        for values in arguments:
            count *= len(values)
        combinations = product(*arguments) if count <= MOST else iter([(UNKNOWN,) * len(arguments)])
        for combination in combinations:
            yield _TEXTS[name](callee.owner or UNKNOWN, combination, self._folder)


def _in_memory(node: ast.Call, names: Names) -> bool:
    """Whether a database is opened that is gone when the kernel ends."""
    if not node.args:
        return not node.keywords
    return all(value.text in ("", ":memory:") for value in names.of(node.args[0]))


def _of_known(known: Known) -> Value:
    if known.in_memory:
        return Value("io.StringIO()")
    name = catalogue.canonical(known.qualified) if known.qualified else ""
    if known.text is not None:
        return Value(_PATH if name == _PATH else "str()", known.text)
    return Value(name)


def _default(arguments: ast.arguments, argument: ast.arg) -> ast.expr | None:
    plain = [*arguments.posonlyargs, *arguments.args]
    if argument in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(argument)]
    place = plain.index(argument) - (len(plain) - len(arguments.defaults))
    return arguments.defaults[place] if place >= 0 else None


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place < len(call.args) else None


def _few(values: Iterable[Value]) -> Values:
    """Different values, not too many; the unknown stands for those that are left out."""
    found: dict[Value, None] = {}
    for value in values:
        found[value] = None
        if len(found) > MOST:
            return (*tuple(found)[:MOST], UNKNOWN)
    return tuple(found) or (UNKNOWN,)


def _items(values: Values) -> Values:
    found: list[Value] = []
    for value in values:
        if value.items:
            found += value.items
        elif value.name in ("pathlib.Path().glob()", "pathlib.Path().iterdir()"):
            found.append(Value(_PATH))
        else:
            found.append(UNKNOWN)
    return _few(found)


def _unpacked(values: Values, place: int) -> Values:
    found: list[Value] = []
    for value in values:
        if value.name == "pair()":
            found.append(value.items[place] if place < len(value.items) else UNKNOWN)
        else:
            found += value.items or (UNKNOWN,)
    return _few(found)


def _imported(name: str, module: Value, arguments: int) -> Value:
    if module.text is None:
        return module if name == "importlib.reload" else UNKNOWN
    text = module.text
    if name == "importlib.__import__" and arguments < 4:
        text = text.partition(".")[0]
    return Value(catalogue.canonical(text))


def _passed(name: str, values: Values) -> Iterator[Value]:
    """Built-in functions that give back what they are given, in another order or shape."""
    for value in values:
        inner = value.items or _items((value,))
        if name == "builtins.enumerate":
            pairs = (Value("pair()", items=(Value("constant"), item)) for item in inner)
            yield Value("list()", items=tuple(pairs))
        elif name == "builtins.next":
            yield from inner
        else:
            yield Value("list()", items=inner)


# --- texts and paths ---------------------------------------------------------------------------


def _concatenated(parts: Sequence[Value]) -> Value:
    if parts and parts[0].temporary:
        climbs = any(".." in part.beginning for part in parts[1:])
        return Value("str()", temporary=not climbs)
    text = ""
    for part in parts:
        if part.text is None:
            return Value("str()", start=text + part.start) if text + part.start else UNKNOWN
        text += part.text
    return string(text)


def _joined_path(parts: Sequence[Value]) -> Value:
    if parts and parts[0].temporary and not any((p.text or "").startswith("/") for p in parts[1:]):
        climbs = any(".." in (part.text or "") for part in parts[1:])
        return Value(_PATH) if climbs else Value(_PATH, temporary=True)
    if parts and parts[-1].text is not None and parts[-1].text.startswith("/"):
        return Value(_PATH, parts[-1].text)
    if any(part.text is None for part in parts):
        return Value(_PATH)
    return Value(_PATH, os.path.join("", *[part.text or "" for part in parts]))  # noqa: PTH118


def _path_attribute(value: Value, attr: str) -> Value:
    if attr == "parent":
        known = value.text is not None
        return Value(
            _PATH,
            os.path.dirname(value.text or "") or "." if known else None,  # noqa: PTH120
            temporary=value.temporary,
        )
    if attr in ("name", "stem", "suffix"):
        return Value("str()", getattr(Path(value.text), attr) if value.text else None)
    return Value(f"{_PATH}.{attr}", owner=value)


def _make_path(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return _joined_path(arguments) if arguments else Value(_PATH, ".")


def _join(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return replace(_joined_path(arguments), name="str()") if arguments else UNKNOWN


def _join_to_owner(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return _joined_path((owner, *arguments))


def _keep(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return arguments[0] if arguments else UNKNOWN


def _keep_owner(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return owner


def _renamed(change: Callable[[Path, str], Path]) -> Callable[..., Value]:
    def result(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
        if owner.temporary:
            return owner
        if not owner.text or not arguments or arguments[0].text is None:
            return Value(_PATH)
        try:
            return Value(_PATH, str(change(Path(owner.text), arguments[0].text)))
        except ValueError:
            return Value(_PATH)

    return result


def _formatted(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    if owner.text is None or any(part.text is None for part in arguments):
        return Value("str()", start=owner.beginning.partition("{")[0])
    try:
        return string(owner.text.format(*[part.text for part in arguments]))
    except (ValueError, KeyError, IndexError, AttributeError):
        return UNKNOWN


def _stripped(method: str) -> Callable[..., Value]:
    def result(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
        if owner.text is None or any(part.text is None for part in arguments):
            return UNKNOWN
        try:
            return string(str(getattr(owner.text, method)(*[part.text for part in arguments])))
        except (TypeError, ValueError):
            return UNKNOWN

    return result


def _home(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return Value(_PATH, "~")


def _here(owner: Value, arguments: Sequence[Value], folder: Path) -> Value:
    return Value(_PATH, str(folder))


_TEXTS: Mapping[str, Callable[[Value, Sequence[Value], Path], Value]] = {
    "pathlib.Path": _make_path,
    "pathlib.Path.home": _home,
    "pathlib.Path.cwd": _here,
    "os.getcwd": _here,
    "os.path.join": _join,
    "pathlib.Path().joinpath": _join_to_owner,
    "pathlib.Path().with_suffix": _renamed(Path.with_suffix),
    "pathlib.Path().with_name": _renamed(Path.with_name),
    "pathlib.Path().with_stem": _renamed(Path.with_stem),
    **dict.fromkeys(
        [
            "os.path.expanduser",
            "os.path.abspath",
            "os.path.realpath",
            "os.path.normpath",
            "os.fspath",
            "builtins.str",
            "sqlalchemy.text",
        ],
        _keep,
    ),
    **{
        f"pathlib.Path().{name}": _keep_owner
        for name in ["resolve", "absolute", "expanduser", "as_posix", "__str__", "__fspath__"]
    },
    "str().format": _formatted,
    **{
        f"str().{name}": _stripped(name)
        for name in [
            "strip",
            "lstrip",
            "rstrip",
            "lower",
            "upper",
            "title",
            "replace",
            "removeprefix",
            "removesuffix",
        ]
    },
}
"""Functions whose result is a text or a path that can be told."""

_TEMPORARY = Value("str()", temporary=True)
_RESULTS: Mapping[str, Value] = {
    "tempfile.mkdtemp": _TEMPORARY,
    "tempfile.gettempdir": _TEMPORARY,
    "tempfile.mktemp": _TEMPORARY,
    "tempfile.TemporaryDirectory": _TEMPORARY,
    "tempfile.mkstemp": Value("pair()", items=(Value("constant"), _TEMPORARY)),
    "tempfile.NamedTemporaryFile": Value("tempfile.NamedTemporaryFile()"),
    "builtins.globals": Value("globals()"),
    "builtins.locals": Value("globals()"),
    "pathlib.Path().glob": Value("list()", items=(Value(_PATH),)),
    "pathlib.Path().rglob": Value("list()", items=(Value(_PATH),)),
    "pathlib.Path().iterdir": Value("list()", items=(Value(_PATH),)),
    "tempfile.NamedTemporaryFile().name": _TEMPORARY,
}
_DATABASES = ("sqlite3.connect", "duckdb.connect")
_NAMESPACES = ("globals()", "get_ipython().user_ns", "get_ipython().user_global_ns")
_PASSING = frozenset(
    f"builtins.{name}"
    for name in [
        "list",
        "tuple",
        "set",
        "sorted",
        "reversed",
        "iter",
        "next",
        "enumerate",
        "frozenset",
    ]
)
