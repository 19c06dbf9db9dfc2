"""Calls without an effect: they only look, or make something new from their arguments.

Any other call counts as having an effect. So the tables hold only names that mean the same nearly
everywhere. Not `sample`, which draws from the random numbers of later code; not `next`, which takes
from an iterator.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTINS = _names(
    "abs all any ascii bin bool bytes callable chr complex dict dir divmod enumerate filter float"
    " format frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max"
    " min oct ord pow print range repr reversed round set slice sorted str sum tuple type vars zip"
    " display object bytearray"
)
CONSUMING = _names(
    "all any bytes bytearray dict frozenset list max min set sorted sum tuple join fromiter print"
    " enumerate filter map zip iter reversed Counter"
)
"""Functions that use up an iterator, or pass it on."""
LAZY = _names("enumerate filter iter map reversed zip open")
"""Functions whose value is an iterator."""
EVERYTHING = _names("exec eval compile __import__ globals locals setattr delattr breakpoint")
"""Functions that may read and bind any name."""
METHODS = _names(
    "abs add_prefix add_suffix agg aggregate alias all any apply applymap argmax argmin"
    " argsort as_posix assign astimezone astype astype_str between bfill bool capitalize"
    " casefold cast ceil center clip combine_first compare contains copy corr corrwith count"
    " cov cummax cummin cumprod cumsum date day_name decode describe diff difference div"
    " divide dot drop_duplicates dropna dt duplicated elements encode endswith eq equals ewm"
    " exists expanding explode extract factorize ffill fillna filter find first flatten floor"
    " floordiv format fromkeys ge get get_group getvalue group_by groupby gt head hexdigest"
    " idxmax idxmin index infer_objects info interpolate intersection is_dir is_file isalnum"
    " isalpha isdigit isdisjoint isin islower isna isnull isocalendar isoformat isspace"
    " issubset issuperset isupper item items iterrows itertuples join keys kurt last le len"
    " ljust lower lstrip lt mad map map_rows mask max mean median melt memory_usage merge min"
    " mod mode month_name most_common mul multiply n_unique nbytes nlargest notna notnull"
    " nsmallest nunique nunique_approx over partition pct_change pipe pivot pivot_table pow"
    " prod quantile rank ravel read_bytes read_text reindex relative_to removeprefix"
    " removesuffix rename_axis reset_index reshape resolve rfind rjust rolling round"
    " rpartition rsplit rstrip searchsorted select select_dtypes sem set_index shift size skew"
    " sort_by sort_index sort_values split splitlines squeeze stack startswith stat std"
    " strftime strip sub subtract sum swapaxes swapcase symmetric_difference tail timestamp"
    " title to_dict to_frame to_list to_numpy to_pandas to_period to_series to_string"
    " to_timestamp today tolist toordinal total_seconds trace transform transpose truncate"
    " union unique unstack upper value_counts values var weekday where with_columns with_name"
    " with_suffix xs zfill"
)
"""Methods of tables, arrays, texts and dictionaries that leave their object as it is."""
NOT_CALLING = _names(
    "print display isinstance issubclass callable type id repr str hasattr getattr len bool list"
    " tuple dict set"
)
"""Functions that never call their arguments."""
_NUMPY_EFFECTS = _names(
    "random save savetxt savez savez_compressed put copyto place putmask put_along_axis"
    " fill_diagonal seterr seterrcall setbufsize set_printoptions set_string_function nditer memmap"
    " fromiter vectorize frompyfunc apply_along_axis apply_over_axes piecewise fromfunction testing"
    " lib ctypeslib errstate printoptions add_docstring"
)
_PANDAS_EFFECTS = _names(
    "set_option reset_option option_context to_pickle ExcelWriter HDFStore eval test plotting"
    " options describe_option io"
)
_WHOLE_MODULES = frozenset({"math", "cmath", "statistics", "os.path", "string", "operator"})
_FUNCTIONS = _names(
    "json.dumps json.loads copy.copy copy.deepcopy re.compile re.search re.match re.fullmatch"
    " re.findall re.sub re.split re.escape collections.Counter collections.OrderedDict"
    " datetime.date datetime.datetime datetime.timedelta datetime.datetime.now"
    " datetime.datetime.today datetime.date.today datetime.datetime.strptime time.time"
    " time.perf_counter os.getcwd"
    " os.listdir pathlib.Path pathlib.Path.cwd pathlib.PurePath fractions.Fraction decimal.Decimal"
    " sys.getsizeof inspect.signature inspect.getsource"
)
_OPERATORS_WITH_EFFECT = _names("setitem delitem iadd iconcat methodcaller")
CONVENTIONAL = {"np": "numpy", "pd": "pandas", "math": "math", "json": "json", "re": "re"}
"""Modules by their usual short names."""
DECORATORS = _names(
    "property staticmethod classmethod dataclass dataclasses.dataclass functools.lru_cache"
    " functools.cache functools.cached_property functools.wraps functools.total_ordering"
    " contextlib.contextmanager abc.abstractmethod"
)
LOOKS = _names(
    "who whos who_ls pwd ls ll lsmagic pinfo pinfo2 pdoc psource pfile pdef history hist psearch"
    " quickref magic page memit"
)
"""Line magics that only show something."""
SETTINGS = _names(
    "matplotlib pip conda uv mamba load_ext reload_ext unload_ext config env set_env cd autoreload"
    " precision colors xmode mkdir"
)
"""Line magics with an effect, which binds no name and reads none."""
QUIET_PACKAGES = _names("numpy pandas scipy sklearn polars matplotlib PIL requests pyarrow yaml")
"""Third-party packages whose import alone has no effect on other statements."""


def is_harmless(dotted: str) -> bool:
    """Whether a library's function, given by its full name, has no effect."""
    if dotted in _FUNCTIONS:
        return True
    module, _, name = dotted.rpartition(".")
    if module in _WHOLE_MODULES:
        return name not in _OPERATORS_WITH_EFFECT
    first, _, rest = dotted.partition(".")
    part = rest.partition(".")[0]
    if first == "numpy":
        return part not in _NUMPY_EFFECTS and not rest.endswith(".at")
    return first == "pandas" and part not in _PANDAS_EFFECTS
