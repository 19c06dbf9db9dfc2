"""Hands values over between processes, by files: exactly, and with few copies.

PyArrow's tables and Polars' frames go by Arrow IPC files, all else by pickle protocol 5 with its
large buffers in a file beside it. Arrays and pandas' frames are such buffers: they come back with
the same index, types, categories and time zones, and the reader can map them into its memory.
(Arrow would have to convert pandas' frames, compare each with the original, and is slower.)

Reading a pickle may run code. Values from a process that ran an agent's code are read by
`unpack(…, restricted=True)`, which makes only values of plain types, of the libraries of data, and
of modules that this process has imported. That is a guard rail and no sandbox.
"""

from __future__ import annotations

import builtins
import enum
import io
import mmap
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import IO, Any

from jupyter_agent.core.messages import JsonObject
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.kernel.marks import own

_ALIGNED = 64
"""Bytes to whose multiples the buffers are aligned, as in Arrow's files."""
_LIBRARIES = frozenset({"numpy", "pandas", "polars", "pyarrow"})
"""Libraries of data that are imported when a value of theirs comes."""
_OWN = frozenset({"jupyter_agent", "IPython", "ipykernel", "jupyter_client", "traitlets", "zmq"})
_BUILTINS = frozenset(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"}
    | {"object", "range", "set", "slice", "str", "tuple", "Ellipsis", "NotImplemented"}
)
_STANDARD: Mapping[str, frozenset[str] | None] = {
    "_codecs": frozenset({"encode"}),  # how old protocols store bytes
    "array": frozenset({"array", "_array_reconstructor"}),
    "collections": None,
    "copyreg": frozenset({"_reconstructor"}),
    "datetime": None,
    "decimal": None,
    "fractions": None,
    "functools": frozenset({"partial"}),
    "ipaddress": None,
    "pathlib": None,
    "random": frozenset({"Random"}),
    "re": frozenset({"_compile"}),
    "statistics": frozenset({"NormalDist"}),
    "time": frozenset({"struct_time"}),
    "types": frozenset({"SimpleNamespace"}),
    "uuid": None,
    "zoneinfo": None,
}
"""Modules of the standard library with the names that may be read; None for all classes."""
_RESTORING = re.compile(
    r"_*(?:pyx_unpickle|unpickle|reconstruct|restore|rebuild|mareconstruct|new)(?:_?[A-Za-z]\w*)?"
    r"|newObj|\w+_(?:unpickle|reconstruct|ctor)|_frombuffer|_convert_to_stringdtype_kwargs"
)
"""Names of functions by which libraries restore their values."""
_OF_FUNCTION = ("__code__", "__defaults__", "__doc__", "__kwdefaults__", "__module__", "__name__")
_FUNCTIONS = frozenset(
    {("numpy._core.multiarray", "scalar"), ("numpy.core.multiarray", "scalar"), ("pandas", "NA")}
    | {("pyarrow.lib", name) for name in ("chunked_array", "dictionary", "field", "py_buffer")}
    | {("pyarrow.lib", name) for name in ("scalar", "schema", "type_for_alias")}
)


class NotHandedOver(Exception):
    """A value cannot be handed over; the text is the reason, in a few words."""


def pack(value: object, path: Path) -> JsonObject:
    """Write a value to a file.

    Args:
        value: Functions and classes that a notebook or an agent's code defined cannot be handed
            over, nor can values of such classes: another process does not have their code.
        path: The file, which does not exist yet. Its buffers get a file with the suffix
            `.buffers` beside it.

    Returns:
        How it was written, for `unpack`: plain JSON.

    Raises:
        NotHandedOver: It cannot be written.
    """
    try:
        if record := _pack_arrow(value, path):
            return record
        with own():
            path.unlink(missing_ok=True)  # what Arrow began
        return _pack_pickle(value, path)
    except NotHandedOver:
        raise
    except OSError as error:
        raise NotHandedOver(error.strerror or type(error).__name__) from None
    except MemoryError:
        raise NotHandedOver("there is too little memory to copy it") from None
    except (Exception, SystemExit) as error:  # whatever the value's own code raises
        raise NotHandedOver(_words(error)) from None


def unpack(record: JsonObject, path: Path, *, restricted: bool) -> object:
    """Read a value that `pack` wrote.

    Args:
        record: How it was written.
        path: The file.
        restricted: Whether the value comes from a process that ran an agent's code. Such a value
            is copied into memory, since that process could still change the file; others are
            mapped, and changes of theirs do not reach the file.

    Raises:
        NotHandedOver: It cannot be read, or is of a type that must not be made here.
    """
    try:
        if restricted:
            _refuse_too_large(path)
        if record["how"] == "pickle":
            return _unpack_pickle(record, path, restricted)
        return _unpack_arrow(str(record["how"]), path, restricted)
    except NotHandedOver:
        raise
    except MemoryError:
        raise NotHandedOver("there is too little memory for it") from None
    except (Exception, SystemExit) as error:
        raise NotHandedOver(_words(error)) from None


def _words(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}".removesuffix(": "), 200)


def _buffers_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.buffers")


def _refuse_too_large(path: Path) -> None:
    """Raises NotHandedOver if the value would not fit into the memory that is free."""
    import psutil  # type: ignore[import-untyped]

    size = sum(each.stat().st_size for each in (path, _buffers_of(path)) if each.exists())
    free = psutil.virtual_memory().available
    if size > free:
        raise NotHandedOver(f"it takes {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")


# Arrow -------------------------------------------------------------------------------------------


def _pack_arrow(value: Any, path: Path) -> JsonObject | None:
    """Write a value as an Arrow file. None if it is no table, or would not come back equal."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if (library, kind.__name__) == ("polars", "DataFrame"):
        return _pack_polars(value, path)
    if library == "pyarrow" and kind.__name__ in ("Table", "RecordBatch"):
        return _pack_pyarrow(value, path, kind.__name__)
    return None


def _pack_polars(value: Any, path: Path) -> JsonObject | None:
    import polars

    try:
        with own():
            value.write_ipc(path)
            same = polars.read_ipc_schema(path) == dict(value.schema)
    except polars.exceptions.PolarsError:  # columns of Python objects
        return None
    return {"how": "polars"} if same else None


def _pack_pyarrow(value: Any, path: Path, kind: str) -> JsonObject | None:
    import pyarrow  # type: ignore[import-untyped]

    if "extension<" in str(value.schema):
        return None  # the other process may not have registered the type
    try:
        with own(), path.open("wb") as file, pyarrow.ipc.new_file(file, value.schema) as writer:
            writer.write(value)
        with own(), pyarrow.memory_map(str(path)) as file:
            same = pyarrow.ipc.open_file(file).schema.equals(value.schema, check_metadata=True)
    except (pyarrow.ArrowInvalid, NotImplementedError):  # dictionaries that differ by chunk
        return None
    return {"how": kind} if same else None


def _unpack_arrow(how: str, path: Path, restricted: bool) -> object:
    if how == "polars":
        import polars

        return polars.read_ipc(path.read_bytes() if restricted else path)
    import pyarrow

    if restricted:
        source = pyarrow.BufferReader(path.read_bytes())
    else:
        source = pyarrow.memory_map(str(path))
    reader = pyarrow.ipc.open_file(source)
    table = reader.get_batch(0) if how == "RecordBatch" else reader.read_all()
    if restricted:
        table.validate(full=True)
    return table


# Pickle ------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Refuses what another process could not find."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            kind = "class" if isinstance(value, type) else "function"
            raise NotHandedOver(
                f"it needs the {kind} {value.__qualname__}, which only exists where it was defined"
            )
        return NotImplemented


def _pack_pickle(value: object, path: Path) -> JsonObject:
    places: list[tuple[int, int]] = []
    with _opened(path) as stream, _opened(_buffers_of(path)) as buffers:

        def put(buffer: pickle.PickleBuffer) -> None:
            with buffer.raw() as raw:
                places.append((buffers.tell(), raw.nbytes))
                buffers.write(raw)
                buffers.write(bytes(-raw.nbytes % _ALIGNED))

        _Pickler(stream, 5, buffer_callback=put).dump(value)
    return {"how": "pickle", "buffers": places}


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A new file. Only its opening is this package's own: the value's code runs below it."""
    with own():
        file = path.open("xb")
    with file:
        yield file


def _unpack_pickle(record: JsonObject, path: Path, restricted: bool) -> object:
    with own():
        whole = _content(_buffers_of(path), mapped=not restricted)
        stream = path.open("rb")
    buffers = [whole[start : start + size] for start, size in record["buffers"]]
    with stream:
        if not restricted:
            return pickle.Unpickler(stream, buffers=buffers).load()
        reader = _Restricted(stream, buffers=buffers)
        try:
            return reader.load()
        finally:
            reader.put_back()


def _content(path: Path, mapped: bool) -> memoryview:
    size = path.stat().st_size
    if not mapped or size == 0:
        content = bytearray(size)
        with io.FileIO(path) as file:
            filled = 0
            while filled < size and (count := file.readinto(memoryview(content)[filled:])):
                filled += count
        return memoryview(content)
    with path.open("rb") as file:
        # Of a private copy: what is written to the memory stays there.
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


class _Restricted(pickle.Unpickler):
    """Makes values of known types only.

    A pickle can set attributes of whatever it names, so it could exchange a method of a library's
    class for a call of its own, which this process would make later. `put_back` undoes that.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._named: dict[int, tuple[Any, dict[str, Any]]] = {}

    def put_back(self) -> None:
        """Give the classes and functions that were named the attributes of before.

        Raises:
            NotHandedOver: The pickle has changed one.
        """
        changed = [found for found, before in self._named.values() if _reset(found, before)]
        if changed:
            raise NotHandedOver(
                f"it changes {changed[0].__module__}.{changed[0].__qualname__}, which it must not"
            )

    def find_class(self, module: str, name: str) -> Any:
        found = self._find(module, name)
        if isinstance(found, (type, FunctionType)) and id(found) not in self._named:
            self._named[id(found)] = found, _attributes(found)
        return found

    def _find(self, module: str, name: str) -> Any:
        if module == "builtins" and name in ("getattr", "type"):
            return _attribute if name == "getattr" else _type_of
        if module == "__main__":
            raise NotHandedOver(f"it needs {name}, which only exists where it was defined")
        root = module.partition(".")[0]
        if root in _OWN or (root in sys.stdlib_module_names and not _is_standard(module, name)):
            raise _refused(module, name)
        if module not in sys.modules and root not in _LIBRARIES:
            raise NotHandedOver(f"it is of the module {module}, which is not imported here")
        found = super().find_class(module, name) if "." not in name else _inner(self, module, name)
        if isinstance(found, type):
            home = str(found.__module__)
            start = home.partition(".")[0]
            is_foreign = start in _OWN or (
                start in sys.stdlib_module_names and not _is_standard(home, found.__qualname__)
            )
            if is_foreign:
                raise _refused(home, found.__qualname__)
        elif not _restores(module, name, found):
            raise _refused(module, name)
        return found


def _attributes(found: Any) -> dict[str, Any]:
    """What a pickle could set of a class or a function."""
    if isinstance(found, type):
        return dict(vars(found))
    return {**vars(found), **{name: getattr(found, name) for name in _OF_FUNCTION}}


def _reset(found: Any, before: dict[str, Any]) -> bool:
    """Set the attributes as before; True if one was changed."""
    now = _attributes(found)
    owner = type if isinstance(found, type) else object  # past metaclasses that refuse
    added = now.keys() - before.keys()
    changed = [name for name, value in before.items() if now.get(name, owner) is not value]
    for name in added:
        owner.__delattr__(found, name)
    for name in changed:
        owner.__setattr__(found, name, before[name])
    return bool(added or changed)


def _inner(reader: _Restricted, module: str, name: str) -> Any:
    """A class inside of a class."""
    outer, *names = name.split(".")
    found = reader.find_class(module, outer)
    for each in names:
        if not isinstance(found, type) or each.startswith("__"):
            raise _refused(module, name)
        found = getattr(found, each)
    return found


def _is_standard(module: str, name: str) -> bool:
    """True if a name of the standard library may be read."""
    if module == "builtins":
        value = getattr(builtins, name, None)
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        return is_error or name in _BUILTINS
    names = _STANDARD.get(module.partition(".")[0], frozenset())
    return names is None or name in names


def _restores(module: str, name: str, found: object) -> bool:
    """True for what is no class, but restores values or is one."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        names = _STANDARD.get(module)
        return module == "builtins" or (names is not None and name in names)
    known = (module, name) in _FUNCTIONS or bool(_RESTORING.fullmatch(name))
    return known or type(found).__name__ == "ufunc"


def _attribute(value: Any, name: str) -> Any:
    """`getattr` as the standard library's own values need it."""
    is_member = isinstance(value, enum.EnumMeta) and name in value.__members__
    if is_member or (isinstance(value, type) and name == "_unpickle"):
        return getattr(value, name)
    raise _refused("builtins", "getattr")


def _type_of(*arguments: object) -> type:
    """`type` as the types of None, `...` and NotImplemented need it."""
    if len(arguments) == 1 and arguments[0] in (None, ..., NotImplemented):
        return type(arguments[0])
    raise _refused("builtins", "type")


def _refused(module: str, name: str) -> NotHandedOver:
    return NotHandedOver(f"it calls {module}.{name}, which must not run here")
