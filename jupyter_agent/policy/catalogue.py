"""The names and patterns that the policy knows. The names stand in `names.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jupyter_agent.core.effects import RiskKind


def words(text: str) -> frozenset[str]:
    """The words of a text, as a table holds them."""
    return frozenset(text.split())


_DATA: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("names.toml").read_text(encoding="utf-8")
)


def _kinds(table: str) -> Mapping[RiskKind, frozenset[str]]:
    """The names of each kind of risk."""
    found: dict[RiskKind, frozenset[str]] = {}
    for kind, texts in _DATA[table].items():
        parts = texts.values() if isinstance(texts, dict) else [texts]
        found[kind] = words(" ".join(parts))  # type: ignore[index]
    return found


def _heads(table: str) -> Mapping[str, tuple[str, ...]]:
    """The words of the heading under which each name stands: `"1 f" = "torch.save"`."""
    return {
        name: tuple(head.split()) for head, text in _DATA[table].items() for name in text.split()
    }


def _places(table: str) -> Mapping[str, tuple[int, str]]:
    """The place and the name of an argument for each name."""
    return {name: (int(place), word) for name, (place, word) in _heads(table).items()}


ALIASES = {name: head[0] for name, head in _heads("same").items()}
MODULES = _kinds("modules")
FUNCTIONS = _kinds("functions")
MAGICS = _kinds("magics")
OPENERS = _places("openers")
MODES = {name: (int(head[0]), head[1], head[2]) for name, head in _heads("modes").items()}
WRITERS = _places("writers")
UNPICKLERS = _places("unpicklers")
METHOD_WRITERS = _heads("method_writers")
_LISTS = {name: words(text) for name, text in _DATA["lists"].items()}
MOVERS = frozenset({"os.rename", "os.replace", "os.renames", "shutil.move"})
"""Asked about only where they are not called, but handed to something that may call them."""
HARMLESS_PARTS = _LISTS["harmless_parts"]
HARMLESS_NAMES = _LISTS["harmless_names"]
CODE_RUNNERS = _LISTS["code_runners"]
TAKES_FUNCTIONS = _LISTS["takes_functions"]
IMPORTERS = _LISTS["importers"]
CALLS_FUNCTIONS = _LISTS["calls_functions"]
SHELL_METHODS = _LISTS["shell_methods"]
GUARDED = _LISTS["guarded"]
PATH_WRITERS = _LISTS["path_writers"]
NATIVE_MODULES = _LISTS["native_modules"]
NATIVE_METHODS = _LISTS["native_methods"]
NO_READERS = _LISTS["no_readers"]
MEMORY_DATABASES = _LISTS["memory_databases"]
MARKUP = _LISTS["markup"]
MEDIA = _LISTS["media"]
REPRESENTATIONS = _LISTS["representations"]
HARMLESS_MAGICS = _LISTS["harmless_magics"]
LISTING_MAGICS = _LISTS["listing_magics"]
CODE_MAGICS = _LISTS["code_magics"]
WRITING_MAGICS = _LISTS["writing_magics"]
EXTENSIONS = _LISTS["extensions"]
SHELL_ATTRIBUTES = _LISTS["shell_attributes"]

HOLE = "\ufffc"
"""Stands in a text for a part that only shows when the code runs."""
_EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Expired|TooManyRedirects|Interrupt)$")
_WITH_CONSTANTS = words("subprocess socket ssl pymongo psycopg2 zmq")
"""Modules whose names in capitals are constants: `subprocess.PIPE`. Not so `ctypes.CDLL`."""
_CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*$")
VERBS: Mapping[RiskKind, str] = {
    "shell": "runs a shell command",
    "process": "starts or steers another process",
    "install": "installs packages",
    "delete": "deletes or removes",
    "network": "fetches from the network",
    "overwrite": "writes over a file",
    "folder": "changes the working folder",
    "browser": "runs JavaScript in your browser",
    "hidden": "runs code that cannot be seen before it runs",
    "settings": "changes how Python or IPython works",
    "agent": "changes the agent itself",
}
CHANGES_DATABASE = re.compile(
    r"(?:^|\.)(?:to_sql|write_database|drop\w*|(?:delete|update|insert|replace)_?(?:many|one|item|"
    r"rows)?|deleteMany|deleteOne|bulk_\w+|flush\w+|commit)$"
)
"""Methods and functions of the kind `delete` that change a database."""
KEYWORDS: tuple[tuple[str, re.Pattern[str], RiskKind, str], ...] = (
    ("download", re.compile("True"), "network", "fetches from the network"),
    ("pretrained", re.compile("True"), "network", "fetches from the network"),
    ("share", re.compile("True"), "network", "opens a server to the internet"),
    (
        "weights",
        re.compile(r"(?!None|False).*(?:DEFAULT|imagenet|coco|IMAGENET|COCO|Weights)"),
        "network",
        "fetches from the network",
    ),
    ("trust_remote_code", re.compile("True"), "hidden", VERBS["hidden"]),
    ("allow_pickle", re.compile("True"), "hidden", "loads a pickle, which can run any code"),
    ("safe_mode", re.compile("False"), "hidden", VERBS["hidden"]),
    ("1", re.compile(r"(?:yaml\.)?(?:Unsafe|Full)?Loader$"), "hidden", VERBS["hidden"]),
    ("Loader", re.compile(r".*(?:Unsafe|Full|^|\.)Loader"), "hidden", VERBS["hidden"]),
)
"""Arguments that tell of a risk whatever is called: their values as they stand in the code."""
WEIGHTS_BY_DEFAULT = re.compile(r"keras\.applications\.(?:\w+\.)*[A-Z]\w*$")
"""Models that fetch their weights unless `weights` says otherwise."""
CODE_IN_TEXT = re.compile(
    r"__import__\s*\(|__globals__|__builtins__|__subclasses__|"
    r"@\w+\.(?:system|popen|run|call|unlink|remove)\s*\("
)
"""Calls in texts that a library may evaluate: `df.eval("@__import__('os')…")`."""
SHELL_TEXT = re.compile(
    r"\s*(?:sudo\s|rm\s+-|mkfs|dd\s+if=|shutdown|reboot|kill(?:all)?\s|pkill\s|chmod\s|chown\s|"
    r"curl\s|wget\s|scp\s|ssh\s|git\s+\w|pip3?\s+\w|conda\s|apt(?:-get)?\s|mv\s+\S|crontab|"
    r"docker\s|bash\s|sh\s+-c|nc\s|systemctl\s)|\|\s*(?:ba|z)?sh\b|>\s*/(?:etc|dev/sd)"
)
"""A command for a shell, whoever is to run it: `client.run("rm -rf build")`."""
ASSIGNABLE = re.compile(
    r"(?:os\.environ|sys\.(?:path|argv|dont_write_bytecode|ps1|ps2|tracebacklimit|"
    r"last_\w+)|os\.environb?)\b|pathlib\.Path\(\)|sys\.modules\.__name__"
)
"""Places in guarded modules that a person may well set."""
ADDRESS_NAMES = re.compile(
    r"(?:\w+\.)*\w*(?:url|uri|link|href|endpoint|address)s?\d?$", re.IGNORECASE
)
URL = re.compile(
    r"(?:https?|ftps?|sftp|s3a?|s3n|gs|gcs|az|adl|abfss?|wasbs?|hdfs|webhdfs|hf|oci|github|ssh|smb|"
    r"wss?|tcp|tls|udp|grpc|ray|spark|k8s|dbfs|"
    r"postgres(?:ql)?|mysql|mssql|oracle|redis|mongodb(?:\+srv)?|snowflake|bigquery|redshift|"
    r"clickhouse|trino|neo4j|bolt)(?:\+\w+)?:/{1,2}|/vsi(?:curl|s3|gs|az)",
    re.IGNORECASE,
)
WRITING_NAMES = re.compile(
    r"(?:save|export|dump|store|overwrite|write_\w|to_\w)\w*$", re.IGNORECASE
)
FILE_NAME = re.compile(r"[\w./~ -]{1,200}\.\w{1,8}$")
"""Functions and texts that together are likely to write a file."""
URL_READERS = re.compile(
    r"(?:^|\.)(?:read(?:_\w+)?|scan_\w+|open(?:_\w+)?|load(?:_\w+)?|loadtxt|genfromtxt|imread|"
    r"from_\w+|sql|execute|query|File|[dD]ataset|create_engine|connect|create_async_engine|parse|get|"
    r"post|put|request|fetch\w*|download\w*|getfile|url_for|DataSource|filesystem|open_files|"
    r"[A-Z]\w*Client|Client|Server|Session|init|retrieve|publish|upload\w*|submit|launch|Open)$"
)
"""What fetches from an address that it is given."""
DATABASES = re.compile(
    r"(?:sqlite3|duckdb|sqlalchemy|sqlmodel|psycopg2?|pymysql|asyncpg|databases|ibis|apsw|adbc\w*|"
    r"records|snowflake|pyodbc)\.|memory\(\)|get_ipython\(\)\.sql"
)
DATABASE_NAMES = re.compile(
    r"(?:con|conn|connection|cur|cursor|curs|db|database|engine|session|sess|tx|c)\d?$", re.I
)
"""Names that people give to connections."""
SQL_METHODS = re.compile(
    r"\.(?:execute|executemany|executescript|execute_query|sql|query|read_sql\w*|exec_driver_sql|"
    r"raw_sql|run_sql|from_query|scalar|scalars|read_database\w*|exec)$"
)
SQL_CHANGES = re.compile(
    r"(?:^|;|\)|\bBEGIN\b|\bAS\b)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(DROP|DELETE|TRUNCATE|ALTER|UPDATE|INSERT|REPLACE|MERGE|ATTACH|DETACH|VACUUM|GRANT|REVOKE|"
    r"INSTALL|LOAD|EXPORT|IMPORT|PRAGMA\s+writable_schema|RENAME|UPSERT|CREATE\s+OR\s+REPLACE)\b"
    r"\s+[\w\"'`\[{(" + HOLE + "]",
    re.IGNORECASE | re.DOTALL,
)
SQL_READS = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|PRAGMA|SUMMARIZE|"
    r"FROM|VALUES|CREATE|BEGIN|COMMIT|ROLLBACK|SET|USE|ANALYZE|COPY|PIVOT|TABLE|CALL)\b",
    re.IGNORECASE | re.DOTALL,
)
SQL_REACHES_OUT = re.compile(r"\b(?:ATTACH|INSTALL|LOAD|EXPORT)\b", re.IGNORECASE)
SQL_SHAPE = re.compile(
    r"\b(?:FROM|INTO|SET|TABLE|VIEW|INDEX|DATABASE|SCHEMA|COLUMN|ADD)\b", re.IGNORECASE
)
SQL_FILES = re.compile(
    r"\b(?:COPY\b.*?\bTO|EXPORT\s+DATABASE|INTO\s+(?:OUT|DUMP)FILE|VACUUM\s+INTO)\s+'([^']+)'",
    re.IGNORECASE | re.DOTALL,
)
SCRIPT = re.compile(
    r"<\s*script|<[^>]*\bon\w+\s*=|javascript:|<\s*(?:iframe|object|embed)\b", re.IGNORECASE
)
REMOTE_PICTURE = re.compile(
    r"<\s*(?:img|video|audio|source|link|image|use)\b[^>]{0,500}?\b(?:src|srcset|href|poster)\s*=\s*"
    r"[\"']?\s*((?:https?:)?//[^\s\"'>]+)|!\[[^\n]{0,300}?\]\(\s*<?((?:https?:)?//[^\s)>]+)"
    r"|url\(\s*[\"']?((?:https?:)?//[^\s\"')]+)",
    re.IGNORECASE,
)
AGENT_VARIABLES = re.compile(
    r"(?<![\w$/{])(?:JUPYTER_(?:AGENT_|CONFIG_DIR|DATA_DIR|NO_CONFIG|PLATFORM_DIRS)"
    r"|XDG_CONFIG_HOME|HOME(?!\w))"
)
"""The agent's settings, and where the person's own are looked for, with what they trust."""
STEERING_VARIABLES = re.compile(
    r"(?<![\w$/{])(?:LD_\w+|DYLD_\w+|PYTHON(?:PATH|STARTUP|HOME|INSPECT|BREAKPOINT|"
    r"EXECUTABLE|USERBASE|PYCACHEPREFIX)|\w+_(?:BASE_URL|API_BASE|ENDPOINT|ENDPOINT_URL)|"
    r"(?:https?|all|no|ftp|wss?)_proxy|SSL_CERT_\w+|SSLKEYLOGFILE|(?:REQUESTS|CURL)_CA_BUNDLE|"
    r"NETRC|PIP_\w+|UV_\w*INDEX\w*|BASH_ENV|ENV|GIT_(?:SSH|EXEC|CONFIG|PROXY|EDITOR|ASKPASS)\w*|"
    r"NODE_OPTIONS|PERL5(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|"
    r"IPYTHONDIR|JUPYTER_\w+|XDG_\w+_(?:HOME|DIRS)|HF_ENDPOINT|GCONV_PATH|PAGER|EDITOR|BROWSER)"
    r"(?!\w)",
    re.IGNORECASE,
)
"""Variables by which programs find code to load, servers, and the way to them."""
LINE_MAGIC = "get_ipython().run_line_magic"
CELL_MAGIC = "get_ipython().run_cell_magic"
OLD_MAGIC = "get_ipython().magic"
MAGIC_WORDS: Mapping[str, str] = {
    "run": "runs a script: %run",
    "reset": "deletes your variables: %reset",
    "reset_selective": "deletes your variables: %reset_selective",
    "xdel": "deletes your variable: %xdel",
}


# --- looking names up ----------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """One spelling for each thing: `io.open` is `builtins.open`."""
    for _ in range(4):
        shorter = _replaced(name)
        if shorter == name:
            break
        name = shorter
    return name


def _replaced(name: str) -> str:
    end = len(name)
    while end > 0:
        if name[:end] in ALIASES:
            return ALIASES[name[:end]] + name[end:]
        if name[:end].endswith("()") and name[: end - 2] in ALIASES:
            return ALIASES[name[: end - 2]] + name[end - 2 :]
        end = name.rfind(".", 0, end)
    return name


@lru_cache(maxsize=8192)
def public(name: str) -> str:
    """The public name of a function by its own: `joblib.numpy_pickle.load` is `joblib.load`."""
    name = canonical(name)
    return name if "()" in name else _PUBLIC.get(_ends(name), name)


def _ends(name: str) -> tuple[str, str]:
    return name.partition(".")[0], name.rpartition(".")[2]


def is_native(name: str) -> bool:
    """Whether a function or method may write a file without Python's knowing."""
    return name.partition(".")[0] in NATIVE_MODULES or name.rpartition(".")[2] in NATIVE_METHODS


_KINDS = {name: kind for kind, names in FUNCTIONS.items() for name in names if "*" not in name}
_PATTERNS = [
    (re.compile(re.escape(name).replace(r"\*", r"\w*") + "$"), kind)
    for kind, names in FUNCTIONS.items()
    for name in names
    if "*" in name
]
_MODULE_KINDS = {name: kind for kind, names in MODULES.items() for name in names}


_PUBLIC = {
    _ends(name): name
    for table in (UNPICKLERS, WRITERS, OPENERS, MODES, _KINDS, ALIASES.values())
    for name in table
    if name[0] not in "?_" and "()" not in name and "." in name
} | {_ends(name): name for name in (*MEMORY_DATABASES, *MARKUP, *MEDIA) if "()" not in name}


@lru_cache(maxsize=8192)
def kind_of(name: str) -> RiskKind | None:
    """The risk of using a canonical name; None for none."""
    if name in _KINDS:
        return _KINDS[name]
    method = "?." + name.rpartition(".")[2]
    if method in _KINDS and not name.endswith("()") and "." in name:
        return _KINDS[method]
    if name.startswith("get_ipython()."):
        return _kind_in_shell(name)
    for pattern, kind in _PATTERNS:
        if pattern.match(name):
            return kind
    return _kind_of_module(name)


def _kind_in_shell(name: str) -> RiskKind | None:
    first = name.split(".")[1].removesuffix("()")
    if first.startswith("agent_"):
        return "agent"
    if ".".join(name.split(".")[:2]) in _KINDS:
        return _KINDS[".".join(name.split(".")[:2])]
    return None if first in SHELL_ATTRIBUTES else "settings"


def _kind_of_module(name: str) -> RiskKind | None:
    parts = name.split(".")
    if any(part in HARMLESS_PARTS for part in parts[1:]) or _is_harmless(name):
        return None
    for end in range(len(parts) - 1, 0, -1):
        kind = _MODULE_KINDS.get(".".join(parts[:end]))
        if kind is not None:
            return None if _only_named(parts[0], parts[end:]) else kind
    return None


def _is_harmless(name: str) -> bool:
    name = name.replace("()", "")
    ends = [place for place, letter in enumerate(name) if letter == "."]
    return any(name[:end] in HARMLESS_NAMES for end in [*ends, len(name)])


def _only_named(root: str, rest: list[str]) -> bool:
    """Constants, exceptions, submodules of a dunder kind, and results of functions."""
    last = rest[-1]
    if last.startswith("__") or last.endswith("()"):
        return True
    if any(part.endswith("()") and not part.lstrip("_")[:1].isupper() for part in rest[:-1]):
        return True  # what a function gave: the function itself has been asked for
    constant = root in _WITH_CONSTANTS and _CONSTANT.match(last)
    return bool(constant) or any(_EXCEPTION.search(part.removesuffix("()")) for part in rest)
