"""The names that a statement reads and binds, and whether it has an effect, from its syntax tree.

An effect that is possible counts as one. Names in functions, lambdas and generators count as
deferred: those read them when they are called, with the values of that time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from jupyter_agent.source import harmless
from jupyter_agent.source.cell import MagicCall, magic_call, parse_python
from jupyter_agent.source.scope import bound_by, imports, parameters, stored_names

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_SPECIAL = re.compile(r"__(?!init__|post_init__)\w+__")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN_BASES = frozenset(
    {"object", "Exception", "ValueError", "RuntimeError", "TypeError", "KeyError", "dict", "list"}
    | {"NamedTuple", "Enum", "IntEnum", "StrEnum", "ABC", "Protocol", "TypedDict"}
)


@dataclass(slots=True)
class Facts:
    """The facts of one statement.

    Args:
        reads: Names whose values it uses.
        binds: Names that it may bind.
        kills: Names that it surely binds, so that their values of before do not matter.
        deletes: Names that it unbinds.
        deferred: Names that the functions it makes read when they are called.
        rebinds: Names that the functions it makes may bind or delete when they are called.
        touches: Names whose objects it may change before it fails.
        effect: Whether it may do more than bind its names.
        opaque: Whether it may read and bind any name.
    """

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    deferred: set[str] = field(default_factory=set)
    rebinds: set[str] = field(default_factory=set)
    touches: set[str] = field(default_factory=set)
    effect: bool = False
    opaque: bool = False


class Program:
    """The whole code, on which the facts of each statement depend.

    Args:
        trees: All statements.
        opaque: Names of the kernel that may read or change anything when they are used, such as the
            person's own functions and iterators. None: any call of an unknown name may.
    """

    def __init__(self, trees: Sequence[ast.stmt], opaque: Collection[str] | None = None) -> None:
        self.trees = trees
        self.opaque = opaque
        self.bound: set[str] = set()
        self.functions: set[str] = set()
        self.modules: dict[str, str] = {}
        self.methods: set[str] = set()
        self.guarded = False
        for tree in trees:
            for node in ast.walk(tree):
                self._survey(node)
        for name in self.bound:
            self.modules.pop(name, None)
        free = {n: m for n, m in harmless.CONVENTIONAL.items() if n not in self.bound}
        self.modules = free | self.modules
        self.iterators: set[str] = set(opaque or ())
        self._find_iterators()

    def facts(self, tree: ast.stmt, shows: bool = False) -> Facts:
        """The facts of a statement. `shows`: its code showed a picture: `display` is an effect."""
        reader = _Reader(self, shows)
        reader.visit(tree)
        facts = reader.facts
        facts.kills = _surely_bound(tree)
        if isinstance(tree, ast.Delete) and not facts.effect:
            facts.reads -= facts.deletes
        elif facts.deletes:
            facts.effect = True
            facts.reads |= facts.deletes
        if self.opaque is not None and not self.opaque_in(facts.reads).isdisjoint(facts.reads):
            facts.opaque = True
        facts.effect = facts.effect or facts.opaque
        return facts

    def opaque_in(self, names: Iterable[str]) -> set[str]:
        known = self.opaque or ()
        return {name for name in names if name in known and name not in self.bound}

    def is_free(self, name: str) -> bool:
        """Whether no code here binds the name."""
        return name not in self.bound and name not in self.modules

    def _survey(self, node: ast.AST) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self.modules.update(imports(node))
                self.guarded |= any(a.name in ("defaultdict", "ChainMap") for a in node.names)
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.add(node.name)
            case ast.ClassDef():
                self._survey_class(node)
            case ast.Attribute(attr="defaultdict"):
                self.guarded = True
            case ast.Assign(value=ast.Lambda()):
                self.functions |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        self.bound.update(bound_by(node))

    def _survey_class(self, node: ast.ClassDef) -> None:
        self.functions.add(node.name)
        for found in node.body:
            if isinstance(found, _FUNCTION):
                self.methods.add(found.name)
                # Operators, attributes and printing run code of its own then.
                self.guarded |= bool(found.decorator_list or _SPECIAL.fullmatch(found.name))

    def _find_iterators(self) -> None:
        """Find the names that may be iterators, which change when something reads them."""
        nodes = [node for tree in self.trees for node in ast.walk(tree)]
        before = -1
        while len(self.iterators) > before:
            before = len(self.iterators)
            for node in nodes:
                self.iterators |= _maybe_iterators(node, self.iterators, self)


def _maybe_iterators(node: ast.AST, known: set[str], program: Program) -> set[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case ast.NamedExpr(target=target, value=value):
            pairs = [(target, value)]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return set() if _is_table(node.iter, known, program) else stored_names(target)
        case ast.withitem(optional_vars=ast.expr() as target):
            return stored_names(target)
        case _:
            return set()
    return {
        name
        for target, value in pairs
        if not _is_table(value, known, program)
        for name in stored_names(target)
    }


def _is_table(value: ast.expr, known: set[str], program: Program) -> bool:
    """Whether a value is surely no iterator."""
    match value:
        case ast.Name():
            return value.id not in known
        case ast.IfExp():
            branches = (value.body, value.orelse)
            return all(_is_table(branch, known, program) for branch in branches)
        case ast.BoolOp():
            return all(_is_table(branch, known, program) for branch in value.values)
        case ast.NamedExpr():
            return _is_table(value.value, known, program)
        case ast.List() | ast.Tuple() | ast.Set():
            # Unpacked, or looped over, they give what they hold.
            return all(_is_table(part, known, program) for part in value.elts)
        case ast.Call():
            reader = _Reader(program, False)
            name = value.func.attr if isinstance(value.func, ast.Attribute) else ""
            name = value.func.id if isinstance(value.func, ast.Name) else name
            lazy = name in harmless.LAZY or name in ("iterrows", "itertuples", "elements")
            return reader.is_harmless(value) and not lazy
        case ast.GeneratorExp() | ast.Await() | ast.Starred():
            return False
    return True


def _surely_bound(tree: ast.stmt) -> set[str]:
    """The names that a statement binds in any case, unless it fails."""
    match tree:
        case ast.Assign():
            return {name for target in tree.targets for name in stored_names(target)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return {name}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {tree.name}
        case ast.Delete():
            return {target.id for target in tree.targets if isinstance(target, ast.Name)}
    return set()  # an import may add to a package that is there already


class _Reader(ast.NodeVisitor):
    """Collects the facts of one statement, or of the body of one function."""

    def __init__(self, program: Program, shows: bool) -> None:
        self.facts = Facts()
        self._program = program
        self._shows = shows
        self._local: list[set[str]] = []

    # --- names -----------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if any(node.id in names for names in self._local):
            return
        if isinstance(node.ctx, ast.Load):
            self.facts.reads.add(node.id)
        elif isinstance(node.ctx, ast.Store):
            self.facts.binds.add(node.id)
        else:
            self.facts.deletes.add(node.id)

    def _part(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._effect_on(node.value)
        elif self._program.guarded:
            self.facts.effect = True
        self.generic_visit(node)

    visit_Attribute = visit_Subscript = _part

    def _effect_on(self, owner: ast.expr | None) -> None:
        self.facts.effect = True
        while isinstance(owner, (ast.Attribute, ast.Subscript, ast.Call)):
            owner = owner.func if isinstance(owner, ast.Call) else owner.value
        if isinstance(owner, ast.Name) and owner.id not in self._program.modules:
            self.facts.touches.add(owner.id)

    # --- statements ------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        self._bind(node)
        self.facts.effect |= not self._program.bound.isdisjoint(bound_by(node))
        self.facts.effect |= any(_changes_by_import(alias.name) for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module, names = node.module or "", set(bound_by(node))
        self.facts.binds |= names - {"*"}
        self.facts.effect |= (
            "*" in names
            or node.level > 0
            or module == "__future__"
            or not names.isdisjoint(self._program.bound)
            or "experimental" in module
            or _changes_by_import(module)
        )

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        self._effect_on(node.target)  # a list or an array changes in place
        if isinstance(node.target, ast.Name):
            self.facts.reads.add(node.target.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            self._consumed(node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._consumed(node.iter)
        self.generic_visit(node)

    def _with_effect(self, node: ast.AST) -> None:
        self.facts.effect = True
        self.generic_visit(node)

    visit_With = visit_AsyncWith = visit_AsyncFor = visit_Await = visit_Raise = _with_effect
    visit_Yield = visit_YieldFrom = _with_effect

    def visit_Starred(self, node: ast.Starred) -> None:
        if isinstance(node.ctx, ast.Load):
            self._consumed(node.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops):
            for part in node.comparators:
                self._consumed(part)
        self._operated(node)

    def _operated(self, node: ast.AST) -> None:
        if self._program.guarded:
            self.facts.effect = True
        self.generic_visit(node)

    visit_BinOp = visit_UnaryOp = visit_FormattedValue = _operated

    def _bind(self, node: ast.AST) -> None:
        self.facts.binds.update(bound_by(node))
        self.generic_visit(node)

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = visit_MatchMapping = _bind

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self._operated(node)

    # --- scopes ----------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._decorated(node.decorator_list)
        self.facts.binds.add(node.name)
        self._function(node.args, node.body)
        if node.returns:
            self.visit(node.returns)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body])

    def _function(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        self.visit_arguments(arguments)
        inner = _Reader(self._program, False)
        inner._local = [*self._local]
        for part in body:
            inner.visit(part)
        own = {argument.arg for argument in parameters(arguments)} | inner.facts.binds
        for part in body:
            for node in ast.walk(part):
                if isinstance(node, ast.Global):
                    own -= set(node.names)
        self.facts.deferred |= (inner.facts.reads | inner.facts.deferred) - own
        self.facts.rebinds |= (inner.facts.binds | inner.facts.deletes | inner.facts.rebinds) - own
        self.facts.deferred |= self.facts.rebinds

    def visit_arguments(self, node: ast.arguments) -> None:
        """Visits defaults and annotations, which are evaluated when a function is made."""
        hints = [argument.annotation for argument in parameters(node)]
        for part in (*node.defaults, *node.kw_defaults, *hints):
            if part is not None:
                self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._decorated(node.decorator_list)
        plain = all(isinstance(b, ast.Name) and b.id in _PLAIN_BASES for b in node.bases)
        self.facts.effect |= not plain or bool(node.keywords)
        for part in (*node.bases, *node.keywords):
            self.visit(part)
        self.facts.binds.add(node.name)
        inner = _Reader(self._program, False)
        for statement in node.body:
            inner.visit(statement)
        self.facts.reads |= inner.facts.reads
        self.facts.deferred |= inner.facts.deferred
        self.facts.rebinds |= inner.facts.rebinds
        self.facts.effect |= inner.facts.effect
        self.facts.opaque |= inner.facts.opaque

    def _decorated(self, decorators: Iterable[ast.expr]) -> None:
        for decorator in decorators:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self._dotted(called)
            if name not in harmless.DECORATORS:
                self.facts.effect = True
            self.visit(called)
            if isinstance(decorator, ast.Call):
                for part in (*decorator.args, *decorator.keywords):
                    self.visit(part)

    def _comprehension(self, node: ast.AST) -> None:
        names: set[str] = set()
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        for generator in generators:
            names |= stored_names(generator.target)
        first = generators[0].iter
        self._consumed(first)
        self.visit(first)
        self._local.append(names)
        for index, generator in enumerate(generators):
            if index:
                self._consumed(generator.iter)
                self.visit(generator.iter)
            self.facts.effect |= bool(generator.is_async)
            for condition in generator.ifs:
                self.visit(condition)
        for name in ("elt", "key", "value"):
            if isinstance(part := getattr(node, name, None), ast.AST):
                self.visit(part)
        self._local.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        before = set(self.facts.reads)
        self._comprehension(node)
        self.facts.deferred |= self.facts.reads - before
        for found in ast.walk(node):
            if isinstance(found, ast.Name) and found.id in self.facts.reads:
                self.facts.deferred.add(found.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.facts.binds.add(node.target.id)
        self.visit(node.value)

    # --- calls -----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        if magic := magic_call(node):
            self._run_magic(magic)
            for part in node.args:
                self.visit(part)
            return
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        program = self._program
        local = any(name in names for names in self._local)
        everything = name in harmless.EVERYTHING and program.is_free(name)
        unknown = bool(name) and program.opaque is None and self._is_unknown(name)
        if everything or (unknown and not local):
            self.facts.opaque = True
        elif not self.is_harmless(node):
            self._effect_on(node.func)
            given = {
                found.id
                for part in (*node.args, *node.keywords)
                for found in ast.walk(part)
                if isinstance(found, ast.Name)
            }
            # A function of the code's own may change what it is given.
            self.facts.touches |= given if name in program.functions else given & program.iterators
        if not name or not (name in harmless.BUILTINS and program.is_free(name)):
            self.visit(node.func)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def is_harmless(self, node: ast.Call) -> bool:
        """Whether a call only returns a value, apart from what its arguments do."""
        program = self._program
        for keyword in node.keywords:
            if keyword.arg in ("out", "file"):
                return False
            if keyword.arg == "inplace" and not _is_false(keyword.value):
                return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Name) and program.is_free(node.func.id):
            name = node.func.id
            if name not in harmless.BUILTINS or (name == "display" and self._shows):
                return False
            if name in ("print", "repr", "str", "display", "format") and program.guarded:
                return False
            return self._takes_nothing(name, given) and self._calls_nothing(name, given)
        dotted = self._dotted(node.func)
        if dotted is not None:
            name = dotted.rpartition(".")[2]
            taken = not self._takes_nothing(name, given)
            return harmless.is_harmless(dotted) and not taken and self._calls_nothing("", given)
        if not isinstance(node.func, ast.Attribute) or program.guarded:
            return False
        name = node.func.attr
        if name not in harmless.METHODS or name in program.methods:
            return False
        if name == "info" and node.args:  # of a logger
            return False
        return self._takes_nothing(name, given) and self._calls_nothing(name, given)

    def _takes_nothing(self, name: str, given: Iterable[ast.expr]) -> bool:
        if name not in harmless.CONSUMING:
            return True
        return not any(self._is_iterator(part) for part in given)

    def _calls_nothing(self, name: str, given: Sequence[ast.expr]) -> bool:
        """Whether a call with these arguments calls no function that has an effect."""
        if name in harmless.NOT_CALLING:
            return True
        for node in (node for part in given for node in ast.walk(part)):
            if isinstance(node, ast.Name) and node.id in self._program.functions:
                return False
            if isinstance(node, ast.Lambda):
                inner = _Reader(self._program, self._shows)
                inner.visit(node.body)
                if inner.facts.effect or inner.facts.opaque:
                    return False
        return True

    def _is_unknown(self, name: str) -> bool:
        return self._program.is_free(name) and name not in harmless.BUILTINS | _ANYWHERE

    def _is_iterator(self, part: ast.expr) -> bool:
        return isinstance(part, ast.Name) and part.id in self._program.iterators

    def _consumed(self, part: ast.expr) -> None:
        """Notes that a statement loops over a value, which uses up an iterator."""
        if self._is_iterator(part) or self._program.guarded:
            self._effect_on(part)

    def _dotted(self, node: ast.expr) -> str | None:
        """The full name of an object of a library, such as `os.path.join`; None for any other."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        module = self._program.modules.get(node.id)
        if module is None:
            plain = not parts and self._program.is_free(node.id)
            return node.id if plain and node.id in harmless.DECORATORS else None
        return ".".join([module, *reversed(parts)])

    def _run_magic(self, magic: MagicCall) -> None:
        self.facts.effect = True
        name = magic.name if magic.method == "run_line_magic" else None
        if magic.method in ("system", "getoutput"):
            self.facts.reads |= set(_IDENTIFIER.findall(magic.line))
        elif name in harmless.LOOKS:
            self.facts.effect = False
        elif name == "timeit":
            self._timed(magic.line)
        elif name not in harmless.SETTINGS:
            self.facts.opaque = True

    def _timed(self, line: str) -> None:
        """Notes the effect of `%timeit`, which is that of the code that it runs."""
        code = re.sub(r"^(?:\s*-\w+\s*\d*)+\s", "", line)
        tree = parse_python(code.strip())
        if tree is None:
            self.facts.opaque = True
            return
        inner = _Reader(self._program, False)
        inner.visit(tree)
        self.facts.opaque = inner.facts.effect or inner.facts.opaque
        self.facts.effect = self.facts.opaque


_ANYWHERE = frozenset({"get_ipython", "open", "input", "super", "property"})


def _changes_by_import(module: str) -> bool:
    """Whether importing a module may change what other code does."""
    import sys

    first = module.partition(".")[0]
    return first not in sys.stdlib_module_names and first not in harmless.QUIET_PACKAGES


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False
