"""The names that the policy knows. To teach it one more, add it to a table here.

A name is written as it is imported: `os.system`. `Class()` is an instance, `Class().method` its
method, `?.method` a method of any object. A `*` stands for the rest of one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from jupyter_agent.policy.verdict import RiskKind


def words(text: str) -> frozenset[str]:
    """The words of a text, as a table holds them."""
    return frozenset(text.split())


HOLE = "\ufffc"
"""Stands in a text for a part that only shows when the code runs."""

# --- the same thing under other names ------------------------------------------------------------

ALIASES: Mapping[str, str] = {
    "__builtins__": "builtins",
    "builtins.__builtins__": "builtins",
    "builtins.__import__": "importlib.__import__",
    "io.open": "builtins.open",
    "io.FileIO": "builtins.open",
    "IPython.core.interactiveshell._modified_open": "builtins.open",
    "IPython.utils.io.open": "builtins.open",
    "posix": "os",
    "posixpath": "os.path",
    "genericpath": "os.path",
    "pathlib._local": "pathlib",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "pathlib.PurePath": "pathlib.Path",
    "pathlib.PurePosixPath": "pathlib.Path",
    "_pickle": "pickle",
    "dill._dill": "dill",
    "pandas.core.frame": "pandas",
    "pandas.core.series": "pandas",
    "pandas.io.pickle": "pandas",
    "pandas.io.parsers.readers": "pandas",
    "numpy.lib.npyio": "numpy",
    "numpy.lib._npyio_impl": "numpy",
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
    "?.run_line_magic": "get_ipython().run_line_magic",
    "?.run_cell_magic": "get_ipython().run_cell_magic",
    "?.system_raw": "get_ipython().system_raw",
    "?.getoutput": "get_ipython().getoutput",
    "IPython.core.display": "IPython.display",
    "IPython.core.display_functions": "IPython.display",
    "IPython.lib.display": "IPython.display",
    "tensorflow.keras": "keras",
    "keras.src": "keras",
    "sqlalchemy.sql.text": "sqlalchemy.text",
    "sqlalchemy.sql.expression": "sqlalchemy",
    "sqlalchemy.future": "sqlalchemy",
    "sqlmodel.create_engine": "sqlalchemy.create_engine",
    "duckdb.DuckDBPyConnection": "duckdb.connect",
    "_duckdb.DuckDBPyConnection": "duckdb.connect",
    "_duckdb": "duckdb",
    "dask.distributed": "distributed",
    "functools.partialmethod": "functools.partial",
    "multiprocess": "multiprocessing",
}
"""Only names that honest code meets. What hides behind others acts, and is seen when it does."""

# --- modules of which each function is risky -----------------------------------------------------

MODULES: Mapping[RiskKind, frozenset[str]] = {
    "process": words(
        "subprocess _posixsubprocess pty pexpect sh plumbum ptyprocess invoke fabric delegator "
        "envoy winpexpect asyncio.subprocess git pygit2 dulwich hglib papermill nbclient "
        "jupyter_client ipyparallel nbconvert.preprocessors.execute docker podman kubernetes "
        "pyspark ray modal coiled databricks crontab supervisor playsound pyautogui pynput"
    ),
    "install": words(
        "pip ensurepip conda mamba micromamba micropip piplite venv virtualenv easy_install uv "
        "poetry"
    ),
    "delete": words("send2trash"),
    "network": words(
        # the web, mail, and others' machines
        "socket ssl http.client http.server urllib.request urllib3 ftplib smtplib poplib imaplib "
        "nntplib telnetlib xmlrpc socketserver requests requests_html requests_cache grequests "
        "requests_futures curl_cffi cloudscraper httpx httpx2 aiohttp websocket websockets "
        "paramiko asyncssh pysftp scrapy selenium playwright pyppeteer mechanize mechanicalsoup "
        "pycurl tornado.httpclient treq niquests grpc zmq feedparser newspaper trafilatura "
        "dns whois scapy pyngrok ngrok webbrowser wget gdown pooch tweepy praw instaloader "
        "telegram slack_sdk slack discord twilio sendgrid yagmail mailchimp pusher paho "
        # clouds and what lies there
        "boto3 botocore aiobotocore google.cloud googleapiclient google.oauth2 google.auth azure "
        "s3fs gcsfs adlfs minio dropbox boxsdk pydrive pydrive2 O365 msal gspread "
        "gspread_dataframe pygsheets df2gspread oauth2client ibm_cloud_sdk oss2 b2sdk webdav3 "
        # models that answer elsewhere, or come from elsewhere
        "openai anthropic litellm cohere mistralai groq ollama replicate together fireworks "
        "google.generativeai google.genai vertexai langchain langchain_openai langchain_anthropic "
        "langchain_community langchain_ollama langchain_google_genai langchain_google_vertexai "
        "langchain_groq langchain_mistralai langchain_aws langchain_cohere langchain_huggingface "
        "langgraph llama_index autogen crewai dspy instructor huggingface_hub modelscope torch.hub "
        "gensim.downloader whisper faster_whisper easyocr paddleocr stanza flair open_clip clip "
        "deepface insightface rembg TTS bark ultralytics kaggle kagglehub opendatasets openml "
        "ucimlrepo "
        # databases on a server
        "pymongo motor mongoengine psycopg psycopg2 psycopg_pool asyncpg pg8000 pymysql MySQLdb "
        "mysql aiomysql redis elasticsearch opensearchpy cassandra clickhouse_driver "
        "clickhouse_connect snowflake pyodbc oracledb cx_Oracle pymssql trino prestodb pyhive "
        "impala connectorx turbodbc influxdb influxdb_client neo4j py2neo pinecone weaviate "
        "qdrant_client pymilvus supabase firebase_admin kafka confluent_kafka pika nats "
        # data that a package fetches
        "yfinance yahoo_fin yahooquery pandas_datareader fredapi wbgapi wbdata world_bank_data "
        "quandl nasdaqdatalink alpha_vantage akshare tushare baostock ccxt finnhub polygon binance "
        "coinbase pycoingecko investpy eurostat eurostatapiclient sdmx pandasdmx imfp meteostat "
        "openmeteo_requests cdsapi noaa_sdk earthaccess sentinelhub sentinelsat pystac_client "
        "planetary_computer intake ee geemap osmnx overpy overpass OSMPythonTools googlemaps "
        "openrouteservice geocoder herepy contextily wikipedia wikipediaapi pywikibot mwclient "
        "arxiv scholarly semanticscholar habanero crossref pytrends pubchempy "
        "chembl_webresource_client rcsbapi bioservices mygene GEOparse Bio.Entrez Bio.ExPASy "
        "pybaseball nba_api nfl_data_py statsbombpy soccerdata fastf1 astroquery sunpy.net wandb "
        "comet_ml neptune clearml dvc.api streamlit.web"
    ),
    "hidden": words(
        "ctypes _ctypes cffi runpy marshal imp zipimport code codeop cppyy importlib.machinery bdb "
        "jsonpickle shiboken2"
    ),
    "settings": words("atexit faulthandler sitecustomize usercustomize gorilla forbiddenfruit"),
    "agent": words("jupyter_agent"),
    "browser": words("folium ipyleaflet pydeck keplergl leafmap gmaps ipyvolume"),
}
"""Most of those for the network and for processes are seen when they act, too; but here the
person can be asked beforehand, with the code. Native ones are seen nowhere else."""

HARMLESS_PARTS = words(
    "exceptions exception errors error status_codes codes typing types structures adapters compat "
    "version"
)
"""A name with one of these in its path does nothing by itself: `requests.exceptions.Timeout`."""
HARMLESS_NAMES = words(
    "subprocess.list2cmdline socket.gethostname socket.AddressFamily socket.inet_aton "
    "socket.inet_ntoa socket.htons socket.ntohs subprocess.CompletedProcess requests.utils.quote "
    "requests.utils.unquote requests.compat requests.models.Response requests.Response "
    "httpx.Response httpx._models.Response http.client.HTTPResponse http.client.responses "
    "urllib3.disable_warnings urllib3.response.HTTPResponse pymongo.ASCENDING pymongo.DESCENDING "
    "jupyter_agent.session.answer jupyter_agent.version requests.packages httpx.Timeout httpx.URL "
    "requests.Timeout requests.ConnectTimeout requests.ReadTimeout wandb.Settings "
    "huggingface_hub.__version__ ultralytics.__version__ urllib.request.pathname2url "
    "urllib.request.url2pathname socket.setdefaulttimeout langchain_text_splitters "
    "langchain.text_splitter langchain.prompts langchain_core.prompts langchain.schema "
    "langchain_core.messages langchain_core.documents google.cloud.version pyspark.sql.functions "
    "pyspark.sql.types pyspark.sql.Window ray.__version__"
)
_EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Expired|TooManyRedirects|Interrupt)$")
_WITH_CONSTANTS = words("subprocess socket ssl pymongo psycopg2 zmq")
"""Modules whose names in capitals are constants: `subprocess.PIPE`. Not so `ctypes.CDLL`."""
_CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*$")

# --- single functions and classes ----------------------------------------------------------------

FUNCTIONS: Mapping[RiskKind, frozenset[str]] = {
    "shell": words(
        "os.system os.popen* get_ipython().system get_ipython().system_raw "
        "get_ipython().system_piped get_ipython().getoutput IPython.utils.process.*"
    ),
    "process": words(
        "os.exec* os.spawn* os.posix_spawn* os.fork* os.kill os.killpg os._exit os.abort "
        "os.startfile os.nice os.setuid os.setgid os.setsid asyncio.create_subprocess_exec "
        "asyncio.create_subprocess_shell ?.subprocess_exec ?.subprocess_shell signal.signal "
        "signal.alarm signal.setitimer signal.raise_signal signal.pthread_kill "
        "signal.pidfd_send_signal signal.set_wakeup_fd psutil.Popen ?.kill "
        "psutil.Process().terminate psutil.Process().suspend ?.send_signal distributed.Client "
        "distributed.LocalCluster sys.exit builtins.exit builtins.quit ?.ask_exit ?.exec_command "
        "?.exec_run nbconvert.preprocessors.ExecutePreprocessor nbconvert.preprocessors.*Execute* "
        "testbook.testbook multiprocessing.Process().kill"
    ),
    "install": words(
        "nltk.downloader.* site.addsitedir setuptools.setup spacy.cli.download "
        "spacy.cli.download.download playwright.__main__ distutils.core.setup"
    ),
    "delete": words(
        "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree shutil.move pathlib.Path.unlink "
        "pathlib.Path.rmdir ?.unlink ?.rmdir ?.rmtree ?.delete_file distutils.dir_util.remove_tree "
        "tensorflow.io.gfile.remove tensorflow.io.gfile.rmtree fsspec.filesystem().rm "
        "fsspec.filesystem().delete fsspec.filesystem().rm_file pyarrow.fs.*FileSystem().delete_* "
        "?.delete_dir_contents ?.delete_dir ?.rm_file get_ipython().reset "
        "get_ipython().reset_selective get_ipython().del_var ?.to_sql ?.write_database "
        "?.drop_table ?.drop_all ?.drop_collection ?.drop_database ?.drop_column ?.drop_constraint "
        "?.drop_view ?.drop_indexes ?.delete_many ?.delete_one ?.deleteMany ?.deleteOne "
        "?.find_one_and_delete ?.delete_item ?.delete_object ?.delete_objects ?.delete_rows "
        "?.delete_by_query ?.flushdb ?.flushall ?.remove_table ?.update_many ?.update_one "
        "?.replace_one ?.insert_many ?.insert_one ?.bulk_write ?.bulk_insert_mappings "
        "?.bulk_update_mappings ?.bulk_save_objects sqlalchemy.delete sqlalchemy.update "
        "sqlalchemy.insert sqlalchemy.dialects.*.insert alembic.command.* alembic.op.*"
    ),
    "network": words(
        "asyncio.open_connection asyncio.start_server asyncio.open_unix_connection "
        "asyncio.start_unix_server ?.create_connection ?.create_server ?.sock_connect "
        "?.create_datagram_endpoint ?.get_rdataset ?.from_pretrained ?.push_to_hub ?.load_from_hub "
        "?.urlopen ?.urlretrieve ?.to_gbq ?.read_gbq pandas.read_gbq datasets.load_dataset "
        "datasets.load_metric datasets.load_from_hub datasets.get_dataset_* evaluate.load "
        "transformers.pipeline sentence_transformers.* diffusers.DiffusionPipeline "
        "timm.create_model seaborn.load_dataset seaborn.get_dataset_names sklearn.datasets.fetch_* "
        "nltk.download textblob.download_corpora torch.utils.model_zoo.load_url "
        "torchvision.datasets.utils.* torchtext.datasets.* torchaudio.pipelines.* "
        "torchaudio.datasets.* keras.utils.get_file keras.datasets.*.load_data keras_hub.* "
        "keras_nlp.* tensorflow_datasets.load tensorflow_hub.load tensorflow_hub.KerasLayer "
        "fasttext.util.download_model fastai.data.external.untar_data ?.untar_data "
        "spacy.util.load_model_from_url tiktoken.get_encoding tiktoken.encoding_for_model "
        "geopandas.tools.geocode geopandas.datasets.* geodatasets.* xarray.tutorial.* "
        "skimage.data.download_all statsmodels.datasets.get_rdataset vega_datasets.data.*.url "
        "pydataset.data.* scipy.datasets.face scipy.datasets.ascent "
        "scipy.datasets.electrocardiogram scipy.datasets.download_all "
        "cartopy.io.shapereader.natural_earth cartopy.io.img_tiles.* astropy.utils.data.download_* "
        "astropy.coordinates.SkyCoord.from_name bokeh.sampledata.download folium.* "
        "logging.handlers.HTTPHandler logging.handlers.SMTPHandler logging.handlers.SocketHandler "
        "logging.handlers.DatagramHandler logging.handlers.SysLogHandler mlflow.set_tracking_uri "
        "pyarrow.fs.S3FileSystem pyarrow.fs.GcsFileSystem pyarrow.fs.HadoopFileSystem "
        "pyarrow.fs.AzureFileSystem geopy.geocoders.* pyarrow.flight.* adbc_driver_*.dbapi.connect"
    ),
    "folder": words("os.chdir os.fchdir os.chroot contextlib.chdir"),
    "browser": words(
        "IPython.display.Javascript IPython.display.display_javascript IPython.display.IFrame "
        "IPython.display.YouTubeVideo IPython.display.VimeoVideo IPython.display.ScribdDocument"
    ),
    "hidden": words(
        "types.CodeType types.FunctionType sys._getframe sys._current_frames inspect.currentframe "
        "inspect.stack gc.get_objects gc.get_referrers gc.get_referents "
        "importlib.util.spec_from_file_location importlib.util.module_from_spec "
        "pkgutil.resolve_name pydoc.locate builtins.breakpoint pdb.* ?.exec_module ?.load_module "
        "numpy.ctypeslib.load_library numpy.f2py.compile torch.ops.load_library "
        "torch.utils.cpp_extension.* ?.__subclasses__ ?.__globals__ ?.__builtins__ ?.__code__ "
        "IPython.lib.demo.* IPython.lib.backgroundjobs.* doctest.run_docstring_examples "
        "cProfile.Profile().run cProfile.Profile().runctx get_ipython().safe_execfile "
        "get_ipython().safe_execfile_ipy get_ipython().safe_run_module get_ipython().run_code "
        "get_ipython().run_ast_nodes dill.load_session dill.load_module dill.load_module_asdict "
        "yaml.unsafe_load yaml.unsafe_load_all yaml.full_load mlflow.*.load_model"
    ),
    "overwrite": words("dill.dump_session dill.dump_module"),
    "settings": words(
        "sys.settrace sys.setprofile sys.addaudithook sys.meta_path sys.path_hooks "
        "sys.set_asyncgen_hooks sys.monitoring.* sys.set_coroutine_origin_tracking_depth "
        "sys.modules.update sys.modules.clear sys.modules.setdefault threading.settrace "
        "threading.setprofile threading.Timer weakref.finalize ?.call_later ?.call_at "
        "?.add_signal_handler sched.scheduler().enter IPython.core.magic.register_* "
        "codecs.register builtins.__build_class__ gc.freeze unittest.mock.patch "
        "unittest.mock.patch.* pytest.MonkeyPatch ?.monkeypatch resource.setrlimit "
        "signal.set_wakeup_fd ?.register_magic_function ?.register_post_execute "
        "?.register_pre_execute"
    ),
    "agent": words("get_ipython().agent_*"),
}

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
    ("weights", re.compile(r"(?!None|False).*(?:DEFAULT|imagenet|coco|IMAGENET|COCO|Weights)"),
     "network", "fetches from the network"),
    ("trust_remote_code", re.compile("True"), "hidden", VERBS["hidden"]),
    ("allow_pickle", re.compile("True"), "hidden", "loads a pickle, which can run any code"),
    ("safe_mode", re.compile("False"), "hidden", VERBS["hidden"]),
    ("1", re.compile(r"(?:yaml\.)?(?:Unsafe|Full)?Loader$"), "hidden", VERBS["hidden"]),
    ("Loader", re.compile(r".*(?:Unsafe|Full|^|\.)Loader"), "hidden", VERBS["hidden"]),
)  # fmt: skip
"""Arguments that tell of a risk whatever is called: their values as they stand in the code."""

WEIGHTS_BY_DEFAULT = re.compile(r"keras\.applications\.(?:\w+\.)*[A-Z]\w*$")
"""Models that fetch their weights unless `weights` says otherwise."""

CODE_RUNNERS: Mapping[str, int] = {
    **dict.fromkeys(["builtins.eval", "builtins.exec", "builtins.compile"], 0),
    **{
        f"get_ipython().{name}": 0 for name in ["run_cell", "run_cell_async", "ex", "ev", "runcode"]
    },
    **dict.fromkeys(["cProfile.run", "cProfile.runctx", "profile.run", "profile.runctx"], 0),
    **dict.fromkeys(["timeit.timeit", "timeit.repeat", "timeit.Timer"], 0),
}
"""What runs a text as code, and the place of the text among its arguments."""
TAKES_FUNCTIONS = words("timeit.timeit timeit.repeat timeit.Timer")
"""Code runners that take a function as well as a text."""

IMPORTERS = words("importlib.__import__ importlib.import_module importlib.reload")

CALLS_FUNCTIONS = words(
    "map imap imap_unordered starmap map_async submit apply_async partial callback push to_thread "
    "run_in_executor run_sync Thread Timer register call_later call_soon call_soon_threadsafe "
    "applymap apply pipe filter delayed"
)
"""Functions and methods that call a function with the arguments that follow it."""

CODE_IN_TEXT = re.compile(
    r"__import__\s*\(|__globals__|__builtins__|__subclasses__|"
    r"@\w+\.(?:system|popen|run|call|unlink|remove)\s*\("
)
"""Calls in texts that a library may evaluate: `df.eval("@__import__('os')…")`."""
SHELL_METHODS = words(
    "run exec execute system call shell sudo command cmd exec_run exec_command send sendline "
    "send_command run_command invoke local prefect_shell popen check_output"
)
SHELL_TEXT = re.compile(
    r"\s*(?:sudo\s|rm\s+-|mkfs|dd\s+if=|shutdown|reboot|kill(?:all)?\s|pkill\s|chmod\s|chown\s|"
    r"curl\s|wget\s|scp\s|ssh\s|git\s+\w|pip3?\s+\w|conda\s|apt(?:-get)?\s|mv\s+\S|crontab|"
    r"docker\s|bash\s|sh\s+-c|nc\s|systemctl\s)|\|\s*(?:ba|z)?sh\b|>\s*/(?:etc|dev/sd)"
)
"""A command for a shell, whoever is to run it: `client.run("rm -rf build")`."""

GUARDED = words(
    "os sys subprocess shutil builtins importlib socket ssl ctypes signal pty requests httpx "
    "urllib runpy marshal posix pathlib threading asyncio io pickle tempfile"
)
"""Modules on which other code leans: setting anything in them asks."""
ASSIGNABLE = re.compile(
    r"(?:os\.environ|sys\.(?:path|argv|dont_write_bytecode|ps1|ps2|tracebacklimit|"
    r"last_\w+)|os\.environb?|tempfile\.tempdir)\b|pathlib\.Path\(\)|sys\.modules\.__name__"
)
"""Places in guarded modules that a person may well set."""

UNPICKLERS: Mapping[str, tuple[int, str]] = {
    **dict.fromkeys(["pickle.load", "dill.load", "cloudpickle.load"], (0, "file")),
    **dict.fromkeys(["pickle.loads", "dill.loads", "cloudpickle.loads"], (0, "data")),
    **dict.fromkeys(["pickle.Unpickler", "dill.Unpickler", "compress_pickle.load"], (0, "file")),
    **dict.fromkeys(["pandas.read_pickle", "pandas.compat.pickle_compat.load"], (0, "path")),
    **dict.fromkeys(["joblib.load", "sklearn.externals.joblib.load"], (0, "filename")),
    **dict.fromkeys(["torch.load", "torch.jit.load", "torch.package.PackageImporter"], (0, "f")),
    "statsmodels.iolib.smpickle.load_pickle": (0, "fname"),
}
"""What may run code while it loads a file: the place and the name of the file."""

# --- what writes files ---------------------------------------------------------------------------


def _places(table: str) -> Mapping[str, tuple[int, str]]:
    """The place and the name of an argument for each name: lines such as `1 f: torch.save`."""
    lines = [line.partition(":") for line in table.split("\n") if line.strip()]
    return {
        name: (int(head.split()[0]), head.split()[1])
        for head, _, names in lines
        for name in names.split()
    }


OPENERS = _places("""
    0 file: builtins.open zipfile.ZipFile dbm.open aiofiles.open soundfile.SoundFile
    0 filename: codecs.open gzip.open gzip.GzipFile bz2.open bz2.BZ2File lzma.open lzma.LZMAFile
    0 filename: tables.open_file netCDF4.Dataset shelve.open numpy.memmap
    0 filename: numpy.lib.format.open_memmap
    0 fd: os.fdopen
    0 name: tarfile.open tarfile.TarFile tarfile.TarFile.open h5py.File
    0 store: zarr.open zarr.open_group zarr.open_array zarr.group
    0 path: pandas.HDFStore
    0 f: wave.open
    0 urlpath: fsspec.open
    0 uri: smart_open.open
    0 fp: rasterio.open fiona.open
    0 input: fileinput.input fileinput.FileInput
""")
"""What opens a file: the place and the name of its path. The mode comes next, as `MODES` says."""
MODES: Mapping[str, tuple[int, str, str]] = {
    "shelve.open": (1, "flag", "c"),
    "dbm.open": (1, "flag", "r"),
    "zarr.open": (1, "mode", "a"),
    "zarr.open_group": (1, "mode", "a"),
    "zarr.open_array": (1, "mode", "a"),
    "zarr.group": (9, "mode", "a"),
    "pandas.HDFStore": (1, "mode", "a"),
    "numpy.memmap": (2, "mode", "r+"),
    "numpy.lib.format.open_memmap": (1, "mode", "r+"),
    "fileinput.input": (9, "mode", "r"),
    "fileinput.FileInput": (9, "mode", "r"),
}
"""The place and the name of the mode, and the mode without one: 1, `mode` and `r` elsewhere."""

WRITERS = _places("""
    0 file: numpy.save numpy.savez numpy.savez_compressed soundfile.write scipy.sparse.save_npz
    0 fname: numpy.savetxt skimage.io.imsave matplotlib.image.imsave matplotlib.pyplot.imsave
    0 file_name: scipy.io.savemat
    0 filename: scipy.io.wavfile.write cv2.imwrite cv2.VideoWriter fastparquet.write
    0 filename: bokeh.plotting.output_file bokeh.io.output_file xlsxwriter.Workbook
    0 filename: matplotlib.backends.backend_pdf.PdfPages anndata.write logging.FileHandler
    0 filename: logging.handlers.RotatingFileHandler logging.handlers.TimedRotatingFileHandler
    0 filename: dill.dump_session dill.dump_module pyvista.save_meshio open3d.io.write_point_cloud
    0 uri: imageio.imwrite imageio.mimsave imageio.imsave imageio.get_writer imageio.mimwrite
    0 uri: imageio.v2.imwrite imageio.v3.imwrite imageio.v2.mimsave imageio.v2.get_writer
    0 path: pandas.ExcelWriter shutil.chown os.truncate os.chmod os.lchmod os.chown os.utime
    0 path: os.mkfifo os.mknod os.open
    0 where: pyarrow.parquet.ParquetWriter
    0 sink: pyarrow.OSFile pyarrow.output_stream pyarrow.ipc.new_file pyarrow.ipc.new_stream
    0 sink: pyarrow.memory_map pyarrow.create_memory_map
    0 base_name: shutil.make_archive
    1 filename: joblib.dump safetensors.torch.save_file safetensors.numpy.save_file
    1 filename: urllib.request.urlretrieve geopandas.io.file.to_file SimpleITK.WriteImage
    1 filename: nibabel.save tifffile.imwrite pyogrio.write_dataframe
    1 f: torch.save torch.jit.save onnx.save onnx.save_model
    2 f: torch.onnx.export sklearn.datasets.dump_svmlight_file
    1 fp: torchvision.utils.save_image nbformat.write
    1 export_dir: tensorflow.saved_model.save
    1 filepath: keras.models.save_model keras.saving.save_model
    1 where: pyarrow.parquet.write_table pyarrow.orc.write_table
    1 where: pyarrow.parquet.write_metadata
    1 root_path: pyarrow.parquet.write_to_dataset
    1 dest: pyarrow.feather.write_feather
    1 output_file: pyarrow.csv.write_csv
    1 base_dir: pyarrow.dataset.write_dataset
    1 path: networkx.write_gexf networkx.write_gml networkx.write_graphml networkx.write_edgelist
    1 path: networkx.write_adjlist networkx.write_gpickle pyreadstat.write_sav
    1 file: plotly.io.write_html plotly.io.write_image plotly.io.write_json
    1 out_file: sklearn.tree.export_graphviz
    1 dst: shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.copymode shutil.copystat
    1 dst_path: pyreadstat.write_dta
    9 filename: plotly.offline.plot bokeh.io.export_png logging.basicConfig
""")
"""Functions that write a file: the place and the name of its path."""

MOVERS = words("os.rename os.replace os.renames shutil.move")
LINKERS = words("os.link os.symlink")
FOLDER_MAKERS = _places("""
    0 path: os.mkdir
    0 name: os.makedirs
""")
UNPACKERS = _places("""
    1 extract_dir: shutil.unpack_archive
    0 path: ?.extractall
    1 path: ?.extract
""")
"""What fills a folder with files whose names only the archive knows."""

_TABLES = "path_or_buf path buf path_or_buffer excel_writer store filename file"
_FRAMES = "file workbook target path file_name where"
METHOD_WRITERS: Mapping[str, tuple[str, ...]] = {
    name: tuple(keywords.split())
    for keywords, names in {
        _TABLES: "to_csv to_json to_html to_markdown to_latex to_string to_parquet to_pickle "
        "to_feather to_hdf to_stata to_orc to_xml to_excel to_netcdf to_zarr to_file to_disk "
        "to_wkt to_gpkg to_geojson to_graphviz",
        _FRAMES: "write_csv write_parquet write_ipc write_ipc_stream write_json write_ndjson "
        "write_avro write_excel write_delta write_html write_image write_png write_h5ad "
        "write_table sink_csv sink_parquet sink_ipc sink_ndjson",
        "fname filename fp path filepath outfile file": "savefig save save_weights save_model "
        "save_raw dump_model savez savetxt imsave save_binary "
        "save_word2vec_format save_checkpoint exportModel export_model",
        "uri fid filename": "imwrite tofile write_videofile write_gif",
        "dataset_path save_directory": "save_to_disk save_pretrained",
    }.items()
    for name in names.split()
}
"""Methods of any object that write a file: names of the path, which is their first argument."""

PATH_WRITERS = words("write_text write_bytes touch chmod lchmod symlink_to hardlink_to link_to")
"""Methods of a path that write to it."""
PATH_MOVERS = words("rename replace move move_into")

NATIVE_MODULES = words(
    "pyarrow polars duckdb h5py tables netCDF4 h5netcdf cv2 torch safetensors tensorflow keras "
    "rasterio fiona pyogrio geopandas osgeo xgboost lightgbm catboost soundfile SimpleITK open3d "
    "pyvista vtk dbm shelve xarray cudf cupy datasets catboost ROOT pyreadstat"
)
ADDRESS_NAMES = re.compile(
    r"(?:\w+\.)*\w*(?:url|uri|link|href|endpoint|address)s?\d?$", re.IGNORECASE
)
NATIVE_METHODS = words(
    "to_parquet write_csv write_parquet write_ipc write_ipc_stream write_json write_ndjson "
    "write_avro write_delta sink_csv sink_parquet sink_ipc sink_ndjson to_netcdf to_file to_hdf "
    "save_model save_weights save_raw save_binary save_to_disk save_pretrained imwrite write_table"
)
"""What writes by code of its own: nobody sees when it opens a file."""

# --- what reads from addresses, what speaks SQL, what shows HTML ---------------------------------

URL = re.compile(
    r"(?:https?|ftps?|sftp|s3a?|s3n|gs|gcs|az|adl|abfss?|wasbs?|hdfs|webhdfs|hf|oci|github|ssh|smb|"
    r"wss?|tcp|tls|udp|grpc|ray|spark|k8s|dbfs|"
    r"postgres(?:ql)?|mysql|mssql|oracle|redis|mongodb(?:\+srv)?|snowflake|bigquery|redshift|"
    r"clickhouse|trino|neo4j|bolt)(?:\+\w+)?:/{1,2}|/vsi(?:curl|s3|gs|az)",
    re.IGNORECASE,
)
URL_READERS = re.compile(
    r"(?:^|\.)(?:read(?:_\w+)?|scan_\w+|open(?:_\w+)?|load(?:_\w+)?|loadtxt|genfromtxt|imread|"
    r"from_\w+|sql|execute|query|File|Dataset|create_engine|connect|create_async_engine|parse|get|"
    r"post|put|request|fetch\w*|download\w*|getfile|url_for|DataSource|filesystem|open_files|"
    r"[A-Z]\w*Client|Client|Server|Session|init|retrieve|publish|upload\w*|submit|launch|Open)$"
)
"""What fetches from an address that it is given."""
NO_READERS = words(
    "re json html urllib.parse string textwrap logging warnings builtins typing dataclasses bs4 "
    "lxml markdown matplotlib plotly yarl furl IPython ipywidgets str() list() dict() os copy "
    "collections itertools functools rich tqdm pydantic jinja2 regex pathlib hashlib base64 csv"
)
"""Where an address is a text like any other."""

MEMORY_DATABASES = words("sqlite3.connect duckdb.connect sqlalchemy.create_engine")
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
    r"<\s*(?:img|video|audio|source|link|image|use)\b[^>]*?\b(?:src|srcset|href|poster)\s*=\s*"
    r"[\"']?\s*((?:https?:)?//[^\s\"'>]+)|!\[[^\n]*?\]\(\s*<?((?:https?:)?//[^\s)>]+)"
    r"|url\(\s*[\"']?((?:https?:)?//[^\s\"')]+)",
    re.IGNORECASE,
)
MARKUP = words(
    "IPython.display.HTML IPython.display.display_html IPython.display.SVG "
    "IPython.display.display_svg IPython.display.Markdown IPython.display.display_markdown "
    "IPython.display.display IPython.display.publish_display_data ipywidgets.HTML "
    "ipywidgets.widgets.HTML ipywidgets.HTMLMath ipywidgets.widgets.widget_string.HTML "
    "ipywidgets.Output().append_display_data ipywidgets.Output().update "
    "get_ipython().display_pub.publish"
)
"""What shows HTML or Markdown."""
MEDIA = words(
    "IPython.display.Image IPython.display.Video IPython.display.Audio IPython.display.SVG "
    "IPython.display.HTML IPython.display.Markdown IPython.display.JSON IPython.display.GeoJSON "
    "IPython.display.Pretty IPython.display.Latex"
)
"""What shows a picture, a film or a text, some of them from an address."""
REPRESENTATIONS = words("_repr_html_ _repr_svg_ _repr_markdown_ _repr_mimebundle_")

AGENT_VARIABLES = re.compile(
    r"(?<![\w$/{])(?:JUPYTER_(?:AGENT_|CONFIG_DIR|NO_CONFIG|PLATFORM_DIRS)"
    r"|XDG_CONFIG_HOME|HOME(?!\w))"
)
"""The agent's settings, and where the person's own are looked for, with what they trust."""
STEERING_VARIABLES = re.compile(
    r"(?<![\w$/{])(?:LD_\w+|DYLD_\w+|PYTHON(?:PATH|STARTUP|HOME|INSPECT|BREAKPOINT|WARNINGS|"
    r"EXECUTABLE|USERBASE|PYCACHEPREFIX)|\w+_(?:BASE_URL|API_BASE|ENDPOINT|ENDPOINT_URL)|"
    r"(?:https?|all|no|ftp|wss?)_proxy|SSL_CERT_\w+|SSLKEYLOGFILE|(?:REQUESTS|CURL)_CA_BUNDLE|"
    r"NETRC|PIP_\w+|UV_\w*INDEX\w*|BASH_ENV|ENV|GIT_(?:SSH|EXEC|CONFIG|PROXY|EDITOR|ASKPASS)\w*|"
    r"NODE_OPTIONS|PERL5(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|"
    r"IPYTHONDIR|JUPYTER_\w+|XDG_\w+_(?:HOME|DIRS)|HF_ENDPOINT|GCONV_PATH|PAGER|EDITOR|BROWSER)"
    r"(?!\w)",
    re.IGNORECASE,
)
"""Variables by which programs find code to load, servers, and the way to them."""

# --- IPython's shell and its magics --------------------------------------------------------------

LINE_MAGIC = "get_ipython().run_line_magic"
CELL_MAGIC = "get_ipython().run_cell_magic"
OLD_MAGIC = "get_ipython().magic"

HARMLESS_MAGICS = words(
    "pwd who who_ls whos matplotlib pylab precision pprint xmode colors lsmagic magic quickref "
    "pdoc pdef pinfo pinfo2 pfile psource psearch pycat tb dhist dirs gui doctest_mode page "
    "autosave autoawait autoreload aimport env set_env latex markdown html HTML svg SVG recall rep "
    "watermark config history hist load loadpy load_ext reload_ext"
)
LISTING_MAGICS = words("ls ll la lf lk ldir lx lc lt cat less more man")
"""Aliases of shell commands that only show something, as long as nothing is joined to them."""
CODE_MAGICS = words("time timeit prun capture memit mprun lprun profile snakeviz heat scalene")
"""Magics that run Python: their code is judged."""
WRITING_MAGICS = words("writefile file save notebook logstart")
MAGICS: Mapping[RiskKind, frozenset[str]] = {
    "shell": words(
        "sx sc system ! bash sh script cmd powershell pwsh zsh fish rm mv cp mkdir rmdir ln echo"
    ),
    "process": words(
        "perl ruby python python2 python3 pypy pypy3 julia R node qtconsole killbgscripts "
        "tensorboard"
    ),
    "install": words("pip conda mamba micromamba uv poetry pdm"),
    "hidden": words("run rerun macro edit ed store loadnpy dotenv cython fortran pypytest debug"),
    "delete": words("reset reset_selective xdel rm rmdir"),
    "overwrite": words("mv cp"),
    "folder": words("cd pushd popd"),
    "browser": words("javascript js"),
    "network": words("sql bigquery"),
    "settings": words(
        "alias unalias rehashx alias_magic unload_ext autocall automagic pdb bookmark logon logoff "
        "logstop logstate code_wrap"
    ),
    "agent": words("agent"),
}
EXTENSIONS = words(
    "autoreload memory_profiler line_profiler watermark nb_black nb_mypy lab_black jupyter_black "
    "matplotlib tensorboard snakeviz sql dotenv cython Cython rpy2.ipython google.colab.data_table "
    "cudf.pandas IPython.extensions.autoreload IPython.extensions.storemagic storemagic"
)
MAGIC_WORDS: Mapping[str, str] = {
    "run": "runs a script: %run",
    "reset": "deletes your variables: %reset",
    "reset_selective": "deletes your variables: %reset_selective",
    "xdel": "deletes your variable: %xdel",
}

SHELL_ATTRIBUTES = words(
    "user_ns execution_count set_next_input display_formatter display_pub displayhook config "
    "history_manager enable_matplotlib enable_gui run_line_magic run_cell_magic magic run_cell "
    "run_cell_async ex ev runcode system getoutput system_raw has_trait traits colors "
    "object_inspect object_inspect_text auto_display push user_global_ns user_module parent_header "
    "get_parent __class__ Completer complete starting_dir home_dir inspector user_expressions "
    "autoawait loop_runner should_run_async check_complete transform_cell_ user_ns_hidden "
    "last_execution_result last_execution_succeeded ipython_dir"
)
"""What of the shell may be touched without a question, or is judged elsewhere."""


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
