"""The names that the policy knows. To teach it one more, add it to a table here.

A name is written as it is imported: `os.system`. `Class()` is an instance, `Class().method` its
method, `?.method` a method of any object. A `*` at the end stands for the rest of one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from jupyter_agent.policy.verdict import RiskKind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- the same thing under other names ------------------------------------------------------------

ALIASES: Mapping[str, str] = {
    "__builtins__": "builtins",
    "builtins.__builtins__": "builtins",
    "builtins.__import__": "importlib.__import__",
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_posixsubprocess": "subprocess",
    "_winapi": "subprocess",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "io.open": "builtins.open",
    "io.FileIO": "builtins.open",
    "_pyio.open": "builtins.open",
    "IPython.core.interactiveshell._modified_open": "builtins.open",
    "IPython.utils.io.open": "builtins.open",
    "pathlib._local": "pathlib",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "pathlib.PurePath": "pathlib.Path",
    "pathlib.PurePosixPath": "pathlib.Path",
    "_socket": "socket",
    "_ssl": "ssl",
    "_ctypes": "ctypes",
    "_thread": "threading",
    "_imp": "imp",
    "_frozen_importlib": "importlib",
    "_frozen_importlib_external": "importlib.machinery",
    "importlib._bootstrap": "importlib",
    "importlib._bootstrap_external": "importlib.machinery",
    "_pickle": "pickle",
    "_signal": "signal",
    "IPython.get_ipython": "get_ipython",
    "IPython.core.getipython.get_ipython": "get_ipython",
    "IPython.get_ipython()": "get_ipython()",
    "IPython.InteractiveShell.instance()": "get_ipython()",
    "IPython.core.interactiveshell.InteractiveShell.instance()": "get_ipython()",
    "IPython.core.interactiveshell.InteractiveShell()": "get_ipython()",
    "IPython.terminal.interactiveshell.TerminalInteractiveShell()": "get_ipython()",
    "ipykernel.zmqshell.ZMQInteractiveShell()": "get_ipython()",
    "ipykernel.zmqshell.ZMQInteractiveShell.instance()": "get_ipython()",
    "get_ipython().shell": "get_ipython()",
    "get_ipython().kernel.shell": "get_ipython()",
    "IPython.core.display.HTML": "IPython.display.HTML",
    "IPython.core.display.Javascript": "IPython.display.Javascript",
    "IPython.core.display.display": "IPython.display.display",
    "IPython.core.display_functions.display": "IPython.display.display",
    "httpx2": "httpx",
    "tensorflow.keras": "keras",
    "sqlalchemy.sql.text": "sqlalchemy.text",
    "_sqlite3": "sqlite3",
    "duckdb.DuckDBPyConnection": "duckdb.connect",
    "_duckdb.DuckDBPyConnection": "duckdb.connect",
    "functools.partialmethod": "functools.partial",
    "?.run_line_magic": "get_ipython().run_line_magic",
    "?.run_cell_magic": "get_ipython().run_cell_magic",
    "?.system_raw": "get_ipython().system_raw",
    "?.getoutput": "get_ipython().getoutput",
}

EMBEDDED = _words(
    "os _os sys _sys subprocess shutil builtins __builtins__ socket importlib ctypes pathlib io"
)
"""Modules that other modules carry along: `random._os.system` is `os.system`."""

# --- modules of which each function is risky -----------------------------------------------------

MODULES: Mapping[RiskKind, frozenset[str]] = {
    "process": _words(
        "subprocess pty pexpect sh plumbum ptyprocess invoke fabric delegator envoy "
        "winpexpect asyncio.subprocess distutils.spawn"
    ),
    "install": _words("pip ensurepip conda mamba micropip piplite venv virtualenv easy_install"),
    "delete": _words("send2trash"),
    "network": _words(
        "socket ssl http.client http.server urllib.request ftplib smtplib poplib imaplib "
        "nntplib telnetlib xmlrpc socketserver requests requests_html requests_cache "
        "httpx aiohttp urllib3 websocket websockets paramiko asyncssh boto3 botocore "
        "aiobotocore google.cloud google.generativeai google.genai azure s3fs gcsfs adlfs "
        "huggingface_hub openai anthropic litellm cohere mistralai groq ollama replicate "
        "pymongo motor psycopg psycopg2 psycopg_pool asyncpg pymysql MySQLdb mysql redis "
        "elasticsearch opensearchpy cassandra clickhouse_driver clickhouse_connect "
        "snowflake pyodbc oracledb cx_Oracle pymssql trino yfinance pandas_datareader "
        "kaggle kagglehub opendatasets wget gdown pooch webbrowser torch.hub "
        "gensim.downloader scrapy selenium playwright mechanize tweepy praw wandb "
        "comet_ml neptune telegram slack_sdk discord twilio sendgrid grpc zmq pysftp "
        "pycurl tornado.httpclient fredapi wbgapi alpha_vantage quandl nasdaqdatalink "
        "openml ucimlrepo pyngrok"
    ),
    "hidden": _words(
        "ctypes cffi runpy marshal imp zipimport code codeop pkgutil.resolve_name cppyy "
        "importlib.machinery bdb"
    ),
    "settings": _words("atexit faulthandler sitecustomize usercustomize"),
    "agent": _words("jupyter_agent"),
}

HARMLESS_PARTS = _words(
    "exceptions exception errors error status_codes codes typing types structures "
    "adapters compat version"
)
"""A name with one of these in its path does nothing by itself: `requests.exceptions.Timeout`."""
HARMLESS_NAMES = _words(
    "subprocess.list2cmdline socket.gethostname socket.AddressFamily socket.inet_aton "
    "socket.inet_ntoa socket.htons socket.ntohs subprocess.CompletedProcess "
    "requests.utils.quote requests.utils.unquote requests.compat requests.models.Response "
    "requests.Response httpx.Response httpx._models.Response http.client.HTTPResponse "
    "http.client.responses urllib3.disable_warnings urllib3.response.HTTPResponse "
    "pymongo.ASCENDING pymongo.DESCENDING jupyter_agent.session.answer jupyter_agent.version "
    "requests.packages httpx.Timeout httpx.URL requests.Timeout requests.ConnectTimeout "
    "requests.ReadTimeout wandb.Settings huggingface_hub.__version__ "
    "urllib.request.pathname2url urllib.request.url2pathname"
)
_EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Expired|TooManyRedirects|Interrupt)$")
_WITH_CONSTANTS = _words("subprocess socket ssl pymongo psycopg2 zmq")
"""Modules whose names in capitals are constants: `subprocess.PIPE`. Not so `ctypes.CDLL`."""
_CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*$")

# --- single functions and classes ----------------------------------------------------------------

FUNCTIONS: Mapping[RiskKind, frozenset[str]] = {
    "shell": _words(
        "os.system os.popen* commands.getoutput get_ipython().system "
        "get_ipython().system_raw get_ipython().system_piped get_ipython().getoutput "
        "IPython.utils.process.* IPython.utils._process_posix.*"
    ),
    "process": _words(
        "os.exec* os.spawn* os.posix_spawn* os.fork* os.kill os.killpg os._exit os.abort "
        "os.startfile os.nice os.setuid os.setgid os.setsid "
        "asyncio.create_subprocess_exec asyncio.create_subprocess_shell ?.subprocess_exec "
        "?.subprocess_shell signal.signal signal.alarm signal.setitimer "
        "signal.raise_signal signal.pthread_kill signal.pidfd_send_signal "
        "signal.set_wakeup_fd psutil.Popen psutil.Process().kill "
        "psutil.Process().terminate psutil.Process().suspend ?.create_subprocess_exec"
    ),
    "install": _words("nltk.downloader.* site.addsitedir setuptools.setup spacy.cli.download"),
    "delete": _words(
        "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree shutil.move "
        "pathlib.Path.unlink pathlib.Path.rmdir ?.unlink ?.rmdir ?.rmtree "
        "distutils.dir_util.remove_tree ?.to_sql ?.drop_table ?.drop_all ?.write_database "
        "?.drop_collection ?.delete_many ?.delete_one tensorflow.io.gfile.remove "
        "tensorflow.io.gfile.rmtree get_ipython().reset get_ipython().reset_selective "
        "get_ipython().del_var fsspec.filesystem().rm fsspec.filesystem().delete "
        "fsspec.filesystem().rm_file"
    ),
    "network": _words(
        "asyncio.open_connection asyncio.start_server asyncio.open_unix_connection "
        "asyncio.start_unix_server ?.create_connection ?.create_server ?.sock_connect "
        "?.create_datagram_endpoint ?.get_rdataset ?.from_pretrained ?.push_to_hub "
        "?.urlopen ?.urlretrieve ?.to_gbq ?.read_gbq datasets.load_dataset "
        "datasets.load_metric datasets.load_from_hub datasets.get_dataset_* evaluate.load "
        "transformers.pipeline sentence_transformers.SentenceTransformer "
        "sentence_transformers.CrossEncoder timm.create_model seaborn.load_dataset "
        "seaborn.get_dataset_names sklearn.datasets.fetch_* nltk.download "
        "spacy.cli.download torch.utils.model_zoo.load_url torchvision.datasets.utils.* "
        "keras.utils.get_file keras.datasets.*.load_data tensorflow_datasets.load "
        "tensorflow_hub.load geopandas.tools.geocode osmnx.graph_from_* xarray.tutorial.* "
        "skimage.data.download_all statsmodels.datasets.get_rdataset scipy.datasets.face "
        "scipy.datasets.ascent scipy.datasets.electrocardiogram "
        "scipy.datasets.download_all pandas.read_gbq astropy.utils.data.download_file "
        "logging.handlers.HTTPHandler logging.handlers.SMTPHandler "
        "logging.handlers.SocketHandler logging.handlers.DatagramHandler "
        "logging.handlers.SysLogHandler mlflow.set_tracking_uri"
    ),
    "folder": _words("os.chdir os.fchdir os.chroot contextlib.chdir"),
    "browser": _words("IPython.display.Javascript IPython.display.display_javascript"),
    "hidden": _words(
        "types.CodeType types.FunctionType sys._getframe sys._current_frames "
        "inspect.currentframe inspect.stack gc.get_objects gc.get_referrers "
        "gc.get_referents importlib.util.spec_from_* importlib.util.module_from_spec "
        "importlib.util.exec_module pkgutil.resolve_name builtins.breakpoint "
        "pdb.set_trace ?.exec_module ?.load_module numpy.ctypeslib.load_library "
        "?.__subclasses__ ?.__globals__ ?.__builtins__ ?.__code__ ?.__closure__ "
        "?.f_globals ?.f_locals ?.f_builtins ?.f_back ?.gi_frame ?.cr_frame ?.ag_frame "
        "?.tb_frame ?.gi_code ?.__loader__ ?.__reduce_ex__ ?.__func__ pydoc.locate "
        "torch.ops.load_library torch.utils.cpp_extension.* weave.inline "
        "scipy.weave.inline get_ipython().safe_execfile get_ipython().safe_execfile_ipy "
        "get_ipython().safe_run_module get_ipython().run_code get_ipython().run_ast_nodes"
    ),
    "settings": _words(
        "sys.settrace sys.setprofile sys.addaudithook sys.meta_path sys.path_hooks "
        "sys.set_asyncgen_hooks sys.monitoring.* sys.set_coroutine_origin_tracking_depth "
        "threading.settrace threading.setprofile get_ipython().input_transformers_cleanup "
        "get_ipython().input_transformers_post get_ipython().ast_transformers "
        "get_ipython().input_transformer_manager get_ipython().prefilter_manager "
        "get_ipython().magics_manager get_ipython().alias_manager get_ipython().events "
        "get_ipython().register_magic_function get_ipython().register_magics "
        "get_ipython().extension_manager get_ipython().define_macro "
        "get_ipython().define_magic get_ipython().hooks get_ipython().set_hook "
        "get_ipython().find_magic get_ipython().find_line_magic "
        "get_ipython().find_cell_magic get_ipython().compile get_ipython().builtin_trap "
        "get_ipython().kernel get_ipython().showtraceback get_ipython().set_custom_exc "
        "IPython.core.magic.register_* codecs.register builtins.__build_class__ gc.freeze "
        "unittest.mock.patch resource.setrlimit"
    ),
    "agent": _words("get_ipython().agent_*"),
}

CODE_RUNNERS: Mapping[str, int] = {
    "builtins.eval": 0,
    "builtins.exec": 0,
    "builtins.compile": 0,
    "get_ipython().run_cell": 0,
    "get_ipython().run_cell_async": 0,
    "get_ipython().ex": 0,
    "get_ipython().ev": 0,
    "get_ipython().runcode": 0,
    "cProfile.run": 0,
    "cProfile.runctx": 0,
    "profile.run": 0,
    "profile.runctx": 0,
    "pdb.run": 0,
    "pdb.runeval": 0,
    "timeit.timeit": 0,
    "timeit.repeat": 0,
    "timeit.Timer": 0,
}
"""What runs a text as code, and the place of the text among its arguments."""
TAKES_FUNCTIONS = _words("timeit.timeit timeit.repeat timeit.Timer")
"""Code runners that take a function as well as a text."""

IMPORTERS = _words("importlib.__import__ importlib.import_module importlib.reload")

GUARDED = _words(
    "os sys subprocess shutil builtins importlib socket ctypes signal pty requests httpx "
    "urllib runpy marshal posix pathlib threading asyncio"
)
"""Modules that no code may reach into by names that only show when it runs."""
MAY_TAKE_MODULES = _words(
    "builtins.print builtins.dir builtins.help builtins.vars builtins.getattr "
    "builtins.hasattr builtins.setattr builtins.delattr builtins.id builtins.type "
    "builtins.repr builtins.str builtins.isinstance builtins.bool builtins.len "
    "importlib.reload inspect.* IPython.display.display functools.partial builtins.list "
    "builtins.tuple builtins.dict importlib.metadata.version"
)
ASSIGNABLE = re.compile(
    r"(?:os\.environ|sys\.(?:path|argv|dont_write_bytecode|ps1|ps2|tracebacklimit|"
    r"last_\w+)|os\.environb?)\b|pathlib\.Path\(\)|sys\.modules\.__name__"
)
"""Places in guarded modules that a person may well set."""

# --- what writes files ---------------------------------------------------------------------------

OPENERS: Mapping[str, tuple[int, str, int, str, str]] = {
    "builtins.open": (0, "file", 1, "mode", "r"),
    "codecs.open": (0, "filename", 1, "mode", "r"),
    "os.fdopen": (0, "fd", 1, "mode", "r"),
    "gzip.open": (0, "filename", 1, "mode", "r"),
    "gzip.GzipFile": (0, "filename", 1, "mode", "r"),
    "bz2.open": (0, "filename", 1, "mode", "r"),
    "bz2.BZ2File": (0, "filename", 1, "mode", "r"),
    "lzma.open": (0, "filename", 1, "mode", "r"),
    "lzma.LZMAFile": (0, "filename", 1, "mode", "r"),
    "zipfile.ZipFile": (0, "file", 1, "mode", "r"),
    "tarfile.open": (0, "name", 1, "mode", "r"),
    "tarfile.TarFile": (0, "name", 1, "mode", "r"),
    "tarfile.TarFile.open": (0, "name", 1, "mode", "r"),
    "h5py.File": (0, "name", 1, "mode", "r"),
    "tables.open_file": (0, "filename", 1, "mode", "r"),
    "netCDF4.Dataset": (0, "filename", 1, "mode", "r"),
    "zarr.open": (0, "store", 1, "mode", "a"),
    "pandas.HDFStore": (0, "path", 1, "mode", "a"),
    "shelve.open": (0, "filename", 1, "flag", "c"),
    "dbm.open": (0, "file", 1, "flag", "r"),
    "wave.open": (0, "f", 1, "mode", "r"),
    "aiofiles.open": (0, "file", 1, "mode", "r"),
    "fsspec.open": (0, "urlpath", 1, "mode", "r"),
    "smart_open.open": (0, "uri", 1, "mode", "r"),
    "rasterio.open": (0, "fp", 1, "mode", "r"),
    "numpy.memmap": (0, "filename", 2, "mode", "r+"),
    "numpy.lib.format.open_memmap": (0, "filename", 1, "mode", "r+"),
    "soundfile.SoundFile": (0, "file", 1, "mode", "r"),
}
"""Places and names of the path and of the mode, and the mode without one."""

WRITERS: Mapping[str, tuple[int, str]] = {
    "numpy.save": (0, "file"),
    "numpy.savez": (0, "file"),
    "numpy.savez_compressed": (0, "file"),
    "numpy.savetxt": (0, "fname"),
    "joblib.dump": (1, "filename"),
    "torch.save": (1, "f"),
    "torch.jit.save": (1, "f"),
    "onnx.save": (1, "f"),
    "onnx.save_model": (1, "f"),
    "torch.onnx.export": (2, "f"),
    "torchvision.utils.save_image": (1, "fp"),
    "safetensors.torch.save_file": (1, "filename"),
    "safetensors.numpy.save_file": (1, "filename"),
    "tensorflow.saved_model.save": (1, "export_dir"),
    "keras.models.save_model": (1, "filepath"),
    "skimage.io.imsave": (0, "fname"),
    "imageio.imwrite": (0, "uri"),
    "imageio.mimsave": (0, "uri"),
    "imageio.imsave": (0, "uri"),
    "imageio.get_writer": (0, "uri"),
    "imageio.v2.imwrite": (0, "uri"),
    "imageio.v3.imwrite": (0, "uri"),
    "cv2.imwrite": (0, "filename"),
    "cv2.VideoWriter": (0, "filename"),
    "soundfile.write": (0, "file"),
    "scipy.io.savemat": (0, "file_name"),
    "scipy.io.wavfile.write": (0, "filename"),
    "scipy.sparse.save_npz": (0, "file"),
    "pyarrow.parquet.write_table": (1, "where"),
    "pyarrow.parquet.write_to_dataset": (1, "root_path"),
    "pyarrow.parquet.ParquetWriter": (0, "where"),
    "pyarrow.feather.write_feather": (1, "dest"),
    "pyarrow.csv.write_csv": (1, "output_file"),
    "pyarrow.orc.write_table": (1, "where"),
    "pyarrow.dataset.write_dataset": (1, "base_dir"),
    "fastparquet.write": (0, "filename"),
    "pandas.ExcelWriter": (0, "path"),
    "xlsxwriter.Workbook": (0, "filename"),
    "plotly.io.write_html": (1, "file"),
    "plotly.io.write_image": (1, "file"),
    "plotly.io.write_json": (1, "file"),
    "plotly.offline.plot": (9, "filename"),
    "bokeh.plotting.output_file": (0, "filename"),
    "bokeh.io.output_file": (0, "filename"),
    "bokeh.io.export_png": (9, "filename"),
    "matplotlib.backends.backend_pdf.PdfPages": (0, "filename"),
    "matplotlib.image.imsave": (0, "fname"),
    "nbformat.write": (1, "fp"),
    "anndata.write": (0, "filename"),
    "geopandas.io.file.to_file": (1, "filename"),
    "sklearn.tree.export_graphviz": (1, "out_file"),
    "sklearn.datasets.dump_svmlight_file": (2, "f"),
    "networkx.write_gexf": (1, "path"),
    "networkx.write_gml": (1, "path"),
    "networkx.write_graphml": (1, "path"),
    "networkx.write_edgelist": (1, "path"),
    "networkx.write_adjlist": (1, "path"),
    "logging.FileHandler": (0, "filename"),
    "logging.basicConfig": (9, "filename"),
    "logging.handlers.RotatingFileHandler": (0, "filename"),
    "logging.handlers.TimedRotatingFileHandler": (0, "filename"),
    "urllib.request.urlretrieve": (1, "filename"),
    "shutil.copy": (1, "dst"),
    "shutil.copy2": (1, "dst"),
    "shutil.copyfile": (1, "dst"),
    "shutil.copytree": (1, "dst"),
    "shutil.copymode": (1, "dst"),
    "shutil.copystat": (1, "dst"),
    "shutil.make_archive": (0, "base_name"),
    "shutil.chown": (0, "path"),
    "os.truncate": (0, "path"),
    "os.chmod": (0, "path"),
    "os.lchmod": (0, "path"),
    "os.chown": (0, "path"),
    "os.utime": (0, "path"),
    "os.mkfifo": (0, "path"),
    "os.mknod": (0, "path"),
    "os.open": (0, "path"),
}
"""Functions that write a file: the place and the name of its path."""

MOVERS = _words("os.rename os.replace os.renames shutil.move")
LINKERS = _words("os.link os.symlink")
FOLDER_MAKERS: Mapping[str, tuple[int, str]] = {"os.mkdir": (0, "path"), "os.makedirs": (0, "name")}
UNPACKERS: Mapping[str, tuple[int, str]] = {
    "shutil.unpack_archive": (1, "extract_dir"),
    "?.extractall": (0, "path"),
    "?.extract": (1, "path"),
}
"""What fills a folder with files whose names only the archive knows."""

_BUFFER = ("path_or_buf", "path", "buf", "path_or_buffer")
METHOD_WRITERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            "to_csv",
            "to_json",
            "to_html",
            "to_markdown",
            "to_latex",
            "to_string",
            "to_parquet",
            "to_pickle",
            "to_feather",
            "to_hdf",
            "to_stata",
            "to_orc",
            "to_xml",
        ],
        _BUFFER,
    ),
    **dict.fromkeys(
        [
            "write_csv",
            "write_parquet",
            "write_ipc",
            "write_json",
            "write_ndjson",
            "write_avro",
            "write_excel",
            "write_delta",
            "sink_csv",
            "sink_parquet",
            "sink_ipc",
            "sink_ndjson",
        ],
        ("file", "workbook", "target", "path"),
    ),
    "to_excel": ("excel_writer",),
    "to_netcdf": ("path",),
    "to_zarr": ("store",),
    "to_file": ("filename",),
    "to_disk": ("path",),
    "save_to_disk": ("dataset_path",),
    "write_html": ("file",),
    "write_image": ("file",),
    "savefig": ("fname",),
    "save": ("fp", "fname", "filename", "path", "filepath"),
    "save_weights": ("filepath",),
    "save_model": ("fname", "path"),
    "save_pretrained": ("save_directory",),
    "imsave": ("fname",),
    "imwrite": ("uri",),
    "tofile": ("fid",),
    "write_h5ad": ("filename",),
    "write_png": ("filename",),
}
"""Methods of any object that write a file: names of the path, which is their first argument."""

PATH_WRITERS = _words("write_text write_bytes touch chmod lchmod symlink_to hardlink_to link_to")
"""Methods of a path that write to it."""
PATH_MOVERS = _words("rename replace move move_into")

# --- what reads from addresses, what speaks SQL, what shows HTML ---------------------------------

URL = re.compile(
    r"(?:https?|ftps?|sftp|s3a?|s3n|gs|gcs|az|adl|abfss?|wasbs?|hdfs|webhdfs|hf|oci|github|ssh|smb|"
    r"postgres(?:ql)?|mysql|mssql|oracle|redis|mongodb(?:\+srv)?|snowflake|bigquery|redshift|"
    r"clickhouse)(?:\+\w+)?:/{1,2}",
    re.IGNORECASE,
)
URL_READERS = re.compile(
    r"(?:^|\.)(?:read_\w+|scan_\w+|open(?:_\w+)?|load|loadtxt|genfromtxt|imread|from_csv|sql|execute"
    r"|query|File|Dataset|create_engine|connect|create_async_engine|parse|read|get|getfile|url_for"
    r"|DataSource|filesystem|open_files|read_sql\w*)$"
)
SQL_METHODS = re.compile(
    r"\.(?:execute|executemany|executescript|sql|query|read_sql\w*|exec_driver_sql)$"
)
SQL_CHANGES = re.compile(
    r"(?:^|;|\)|\bBEGIN\b|\bAS\b)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(DROP|DELETE|TRUNCATE|ALTER|UPDATE|INSERT|REPLACE|MERGE|ATTACH|DETACH|VACUUM|GRANT|REVOKE|"
    r"INSTALL|LOAD|EXPORT|IMPORT|PRAGMA\s+writable_schema|RENAME|UPSERT|CREATE\s+OR\s+REPLACE)\b"
    r"\s+[\w\"'`\[{(]",
    re.IGNORECASE | re.DOTALL,
)
SQL_REACHES_OUT = re.compile(r"\b(?:ATTACH|INSTALL|LOAD|EXPORT)\b", re.IGNORECASE)
SQL_SHAPE = re.compile(
    r"\b(?:FROM|INTO|SET|TABLE|VIEW|INDEX|DATABASE|SCHEMA|COLUMN|ADD)\b", re.IGNORECASE
)
SQL_COPY = re.compile(r"\bCOPY\b.*?\bTO\s+'([^']+)'", re.IGNORECASE | re.DOTALL)
SQL_EXPORT = re.compile(r"\bEXPORT\s+DATABASE\s+'([^']+)'", re.IGNORECASE)
SCRIPT = re.compile(r"<\s*script|\bon\w+\s*=|javascript:|<\s*iframe[^>]+srcdoc", re.IGNORECASE)
HTML_SHOWERS = _words("IPython.display.HTML IPython.display.display_html IPython.display.SVG")

AGENT_VARIABLES = re.compile(
    r"(?<![\w$/{])(?:JUPYTER_(?:AGENT_|CONFIG_DIR|NO_CONFIG|PLATFORM_DIRS)"
    r"|XDG_CONFIG_HOME|HOME(?!\w))"
)
"""The agent's settings, and where the person's own are looked for, with what they trust."""

# --- IPython's shell and its magics --------------------------------------------------------------

LINE_MAGIC = "get_ipython().run_line_magic"
CELL_MAGIC = "get_ipython().run_cell_magic"
OLD_MAGIC = "get_ipython().magic"

HARMLESS_MAGICS = _words(
    "pwd who who_ls whos matplotlib pylab precision pprint xmode colors lsmagic magic "
    "quickref pdoc pdef pinfo pinfo2 pfile psource psearch pycat tb dhist dirs gui "
    "doctest_mode page autosave autoawait autoreload aimport env set_env latex markdown "
    "html HTML svg SVG recall rep watermark config history hist load loadpy load_ext "
    "reload_ext"
)
LISTING_MAGICS = _words("ls ll la lf lk ldir lx lc lt cat less more man")
"""Aliases of shell commands that only show something, as long as nothing is joined to them."""
CODE_MAGICS = _words("time timeit prun capture memit mprun lprun profile snakeviz heat scalene")
"""Magics that run Python: their code is judged."""
WRITING_MAGICS = _words("writefile file save notebook logstart")
MAGICS: Mapping[RiskKind, frozenset[str]] = {
    "shell": _words(
        "sx sc system ! bash sh script cmd powershell pwsh zsh fish rm mv cp mkdir rmdir ln echo"
    ),
    "process": _words(
        "perl ruby python python2 python3 pypy pypy3 julia R node qtconsole killbgscripts "
        "tensorboard"
    ),
    "install": _words("pip conda mamba micromamba uv poetry pdm"),
    "hidden": _words("run rerun macro edit ed store loadnpy dotenv cython fortran pypytest debug"),
    "delete": _words("reset reset_selective xdel rm rmdir"),
    "overwrite": _words("mv cp"),
    "folder": _words("cd pushd popd"),
    "browser": _words("javascript js"),
    "network": _words("sql bigquery"),
    "settings": _words(
        "alias unalias rehashx alias_magic unload_ext autocall automagic pdb bookmark "
        "logon logoff logstop logstate code_wrap"
    ),
    "agent": _words("agent"),
}
EXTENSIONS = _words(
    "autoreload memory_profiler line_profiler watermark nb_black nb_mypy lab_black "
    "jupyter_black matplotlib tensorboard snakeviz sql dotenv cython Cython rpy2.ipython "
    "google.colab.data_table cudf.pandas IPython.extensions.autoreload "
    "IPython.extensions.storemagic storemagic"
)
MAGIC_WORDS: Mapping[str, str] = {
    "run": "runs a script: %run",
    "reset": "deletes your variables: %reset",
    "reset_selective": "deletes your variables: %reset_selective",
    "xdel": "deletes your variable: %xdel",
}

SHELL_ATTRIBUTES = _words(
    "user_ns execution_count set_next_input display_formatter display_pub displayhook "
    "config history_manager enable_matplotlib enable_gui run_line_magic run_cell_magic "
    "magic run_cell run_cell_async ex ev runcode system getoutput system_raw has_trait "
    "traits colors object_inspect object_inspect_text auto_display push user_global_ns "
    "user_module parent_header get_parent __class__ Completer complete starting_dir "
    "home_dir inspector user_expressions autoawait loop_runner should_run_async "
    "check_complete transform_cell_ user_ns_hidden last_execution_result "
    "last_execution_succeeded ipython_dir"
)
"""What of the shell may be touched without a question, or is judged elsewhere."""


# --- looking names up ----------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """One spelling for each thing: `random._os.system` and `posix.system` are `os.system`."""
    name = _without_carrier(name)
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
        cut = name.rfind(".", 0, end)
        if name[:end].endswith("()") and name[: end - 2] in ALIASES:
            return ALIASES[name[: end - 2]] + name[end - 2 :]
        end = cut
    return name


def _without_carrier(name: str) -> str:
    parts = name.split(".")
    for place in range(len(parts) - 1, 0, -1):
        if parts[place] in EMBEDDED and not any(
            "(" in part or part == "?" for part in parts[:place]
        ):
            if parts[place] == parts[place - 1]:
                continue  # `socket.socket` is the class
            if ".".join(parts[: place + 1]) in ("pandas.io", "plotly.io", "skimage.io", "scipy.io"):
                continue
            if parts[place] == "io" and parts[0] not in ("os", "pathlib", "tempfile", "gzip"):
                continue
            return ".".join(parts[place:]).replace("_os", "os", 1).replace("_sys", "sys", 1)
    return name


_EXACT: dict[str, RiskKind] = {}
_STARRED: list[tuple[str, RiskKind]] = []
for _kind, _names in FUNCTIONS.items():
    for _name in _names:
        if "*" in _name:
            _STARRED.append((_name, _kind))
        else:
            _EXACT[_name] = _kind
_PATTERNS = [
    (re.compile(re.escape(name).replace(r"\*", r"\w*") + "$"), kind) for name, kind in _STARRED
]
_MODULE_KINDS = {name: kind for kind, names in MODULES.items() for name in names}


@lru_cache(maxsize=8192)
def kind_of(name: str) -> RiskKind | None:
    """What is risky about using a canonical name, if anything."""
    if name in _EXACT:
        return _EXACT[name]
    method = "?." + name.rpartition(".")[2]
    if method in _EXACT and not name.endswith("()"):
        return _EXACT[method]
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
    if ".".join(name.split(".")[:2]) in _EXACT:
        return _EXACT[".".join(name.split(".")[:2])]
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
