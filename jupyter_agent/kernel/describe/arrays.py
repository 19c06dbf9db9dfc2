"""Arrays: numpy, scipy's sparse ones, xarray, tensors. Shape and type; a few values where seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.introspection import field_names, module_name, type_name
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Part,
    count,
    inert,
    label,
    name,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

_VALUES = {"sample": 6, "full": 200}


def numpy_array(value: Any, level: Level) -> Iterator[Part]:
    """A numpy array: its shape and type; of a structured one the fields."""
    kind = type_name(type(value))
    structured = value.dtype.names is not None
    yield f"{kind}, shape {shape(value.shape)}, {'fields' if structured else dtype(value.dtype)}"
    if structured:
        yield _fields(value.dtype)
    if shows_values(level) and value.size:
        yield f"first: {_list(islice(value.flat, _VALUES[level]))}"


def numpy_dtype(value: Any, level: Level) -> Iterator[Part]:
    """A numpy type, with its fields."""
    yield "dtype, fields" if value.names else f"dtype, {dtype(value)}"
    if value.names:
        yield _fields(value)


def sparse(value: Any, level: Level) -> Iterator[Part]:
    """A sparse matrix or array of scipy: shape, type, format, and how many values it stores."""
    stored = f", {count(value.nnz, 'stored value')}" if value.format in _COUNTED else ""
    kind = type_name(type(value))
    yield f"{kind}, shape {shape(value.shape)}, {dtype(value.dtype)}, {value.format}{stored}"
    if shows_values(level) and value.format in _COUNTED:
        yield f"first stored: {_list(value.data.flat[: _VALUES[level]])}"


def dataset(value: Any, level: Level) -> Iterator[Part]:
    """An xarray Dataset: its dimensions, its variables and coordinates."""
    held = value.variables
    coordinates = set(value.coords)
    yield f"xarray Dataset, {count(len(held) - len(coordinates), 'variable')}, {_sizes(value)}"
    for what, wanted in (("coordinates", True), ("variables", False)):
        chosen = [(key, one) for key, one in held.items() if (key in coordinates) is wanted]
        lines = (f"{label(key)}: {_variable(one, level)}" for key, one in chosen)
        yield Listing(what, len(chosen), lines)
    yield from _attrs(value.attrs, level)


def data_array(value: Any, level: Level) -> Iterator[Part]:
    """An xarray DataArray: its dimensions, its type, its coordinates."""
    named = f", named {label(value.name)}" if type(value.name) is str else ""
    yield f"xarray DataArray, {_variable(value.variable, level)}, {_sizes(value)}{named}"
    lines = (f"{label(key)}: {_variable(c.variable, level)}" for key, c in value.coords.items())
    yield Listing("coordinates", len(value.coords), lines)
    yield from _attrs(value.attrs, level)


def tensor(value: Any, level: Level) -> Iterator[Part]:
    """A torch tensor: shape, type, device, and whether it keeps a gradient."""
    kind = type_name(type(value))
    gradient = ", requires grad" if value.requires_grad else ""
    device = name(str(value.device))
    yield f"torch {kind}, shape {shape(value.shape)}, {name(str(value.dtype))}, {device}{gradient}"
    # Of what is on another device, or stored otherwise, values are not fetched.
    strided = name(str(value.layout)) == "torch.strided"
    if shows_values(level) and value.device.type == "cpu" and strided and value.numel():
        row = value.detach()
        while row.ndim > 1:
            row = row[0]
        first = row[: _VALUES[level]] if row.ndim else row
        yield f"first: {short(first.tolist(), 400)}"


def shape(sizes: Iterable[Any]) -> str:
    """A shape as `(344, 8)`, with a question mark for an unknown size."""
    texts = [f"{size:d}" if type(size) is int else _size_text(size) for size in islice(sizes, 32)]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def dtype(value: Any) -> str:
    """A type of numpy, without titles, offsets and metadata."""
    if value.names is not None:
        return "structured"
    if value.subdtype is not None:
        return f"{dtype(value.subdtype[0])} {shape(value.subdtype[1])}"
    return name(str(value))


def _size_text(size: Any) -> str:
    try:
        return f"{int(size)}"
    except (TypeError, ValueError):
        return "?"


def _fields(value: Any, depth: int = 2) -> Listing:
    lines = (f"{name(key)}: {_field_type(value.fields[key][0], depth)}" for key in value.names)
    return Listing("fields", len(value.names), lines)


def _field_type(value: Any, depth: int) -> str:
    if value.names is None or not depth:
        return dtype(value)
    inside = [f"{name(k)}: {_field_type(value.fields[k][0], depth - 1)}" for k in value.names[:8]]
    return f"({', '.join(inside)})"


def _list(items: Iterable[Any]) -> str:
    return inert("[" + ", ".join(short(item, 30) for item in items) + "]", 1_000)


def _sizes(value: Any) -> str:
    sizes = [f"{label(key)}: {size:,}" for key, size in islice(value.sizes.items(), 16)]
    return f"sizes ({', '.join(sizes)})"


def _variable(variable: Any, level: Level) -> str:
    """A variable of xarray. Loads none that is in a file or not computed yet."""
    dims = ", ".join(label(dim) for dim in variable.dims)
    text = f"{dtype(variable.dtype)} ({dims})" if hasattr(variable.dtype, "names") else f"({dims})"
    held = variable._data
    if module_name(type(held)).partition(".")[0] == "numpy":
        in_sight = shows_values(level) and held.size
        return f"{text}: {_list(islice(held.flat, _VALUES['sample']))}" if in_sight else text
    # Coordinates that are an index are in memory, too, but as a pandas one.
    lazy = type_name(type(held)) != "PandasIndexingAdapter"
    return f"{text}, not in memory" if lazy else text


def _attrs(attrs: Any, level: Level) -> Iterator[Part]:
    if not attrs:
        return
    fields = field_names(attrs) if type(attrs) is dict else None
    if fields is None:
        yield f"attrs: {count(len(attrs), 'entry', 'entries')}"
    elif shows_values(level):
        lines = (f"{name(key)}: {short(attrs[key])}" for key in fields)
        yield Listing("attrs", len(fields), lines)
    else:
        yield f"attrs: {', '.join(name(key) for key in fields)}"


# The formats in which the number of stored values is known, or a sum over little.
_COUNTED = ("csr", "csc", "coo", "bsr")
DESCRIBERS: dict[str, Describer] = {
    "numpy.ndarray": numpy_array,
    "numpy.dtype": numpy_dtype,
    "scipy.sparse._spbase": sparse,
    "scipy.sparse._base._spbase": sparse,
    "scipy.sparse.spmatrix": sparse,
    "scipy.sparse.sparray": sparse,
    "xarray.Dataset": dataset,
    "xarray.DataArray": data_array,
    "torch.Tensor": tensor,
}
