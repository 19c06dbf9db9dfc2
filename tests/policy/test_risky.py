"""Code that asks, and why: by kind, however it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_agent.policy import Known, PolicyContext, judge

from .conftest import JudgeCode

RISKY = r'''
shell
import os
os.system("ls")
---
shell
!ls -la
---
shell
files = !ls
---
shell
if True:
    !rm x
---
shell
  !ls
---
shell
%sx ls
---
shell
!!ls
---
shell
%%bash
rm -rf x
---
shell
%%sh
ls
---
shell
%%script bash
ls
---
shell
%system ls
---
shell delete
%rm data.csv
---
shell
%mv a b
---
shell
%cp a b
---
shell delete
rm data.csv
---
shell
%ls x; rm -rf x
---
shell
%ls $(rm x)
---
folder
cd ..
---
install
pip install numpy
---
shell
import os as o
o.system("x")
---
shell
from os import system as s
s("x")
---
shell
from os import *
system("x")
---
shell
import os
f = os.system
f("x")
---
shell
import os
print(list(map(os.system, ["x"])))
---
shell
__import__("os").system("x")
---
shell
import importlib
importlib.import_module("o" + "s").system("x")
---
shell
from importlib import import_module as i
i("os").popen("x")
---
shell
import os
getattr(os, "system")("x")
---
shell
import builtins
builtins.eval("__import__('os').system('x')")
---
shell
globals()["__builtins__"].exec("import os; os.system('x')")
---
shell
__builtins__.__import__("os").system("x")
---
shell
import os
(g := os.system)("x")
---
shell
import os
a, b = 1, os
b.system("x")
---
shell
import os
def f(run=os.system):
    run("x")
---
shell
import os
(lambda o: o.system("x"))(os)
---
shell
import os
def f(o):
    o.system("x")
f(os)
---
shell
import os
@os.system
def f(): pass
---
shell
import os
[m.system("x") for m in [os]]
---
shell
import os
for m in (os, 1):
    m.system("x")
---
shell
class A:
    import os as o
    y = o.system("x")
---
shell
def f():
    def g():
        import os
        os.system("x")
---
shell
from functools import partial
import os
partial(os.system, "x")()
---
shell
import posix
posix.system("x")
---
shell
import os
{"a": os}["a"].system("x")
---
shell
import os
def get():
    return os
get().system("x")
---
shell
eval("__import__('os').system('x')")
---
shell
exec("""
import os
os.system("x")
""")
---
shell
import os
exec("exec('os.system(1)')")
---
shell
exec(compile("import os; os.system('x')", "a", "exec"))
---
shell
%time import os; os.system("x")
---
shell
%%time
import os
os.system("x")
---
shell
import os as o
%timeit -n 1 o.system("x")
---
shell
%%timeit
!ls
---
shell
%%capture
!ls
---
shell
%%time
%%bash
ls
---
shell
%prun __import__("os").system("x")
---
shell
get_ipython().system("x")
---
shell
get_ipython().system_raw("x")
---
shell
get_ipython().getoutput("x")
---
shell
ip = get_ipython()
ip.run_line_magic("sx", "ls")
---
shell
get_ipython().run_cell_magic("bash", "", "ls")
---
shell
get_ipython().run_cell("!ls")
---
shell
get_ipython().ex("import os; os.system('x')")
---
shell
get_ipython().ev("__import__('os').system('x')")
---
shell
from IPython import get_ipython as g
g().system("x")
---
shell
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().system("x")
---
shell
%pwd {__import__("os").system("x")}
---
shell
import timeit
timeit.timeit("__import__('os').system('x')")
---
process
import subprocess
subprocess.run(["ls"])
---
process
from subprocess import run as r
r("ls", shell=True)
---
process
from subprocess import Popen
Popen("x")
---
process
import subprocess as sp
sp.check_output("x")
---
process
import os
os.execv("a", [])
---
process
import os
os.fork()
---
process
import os, signal
os.kill(1, signal.SIGTERM)
---
process
import os
os._exit(1)
---
process
import os
os.spawnlp(os.P_WAIT, "x")
---
process
import os
os.posix_spawn("a", [], {})
---
process
import pty
pty.spawn("sh")
---
process
import pexpect
pexpect.spawn("sh")
---
process
import asyncio
await asyncio.create_subprocess_shell("x")
---
process
import signal
signal.signal(signal.SIGINT, f)
---
process
%%perl
1
---
process
%%python3
print(1)
---
process
import _posixsubprocess
_posixsubprocess.fork_exec()
---
install
%pip install x
---
install
%conda install x
---
install
%uv pip install x
---
install
import pip
pip.main(["install", "x"])
---
install
import ensurepip
ensurepip.bootstrap()
---
install
from pip._internal import main
main(["install", "x"])
---
delete
import os
os.remove("data.csv")
---
delete
import os
os.unlink("data.csv")
---
delete
import os
list(map(os.remove, ["a"]))
---
settings
import os
os.environ = {**os.environ, "HTTPS_PROXY": "http://a.example"}
---
delete
import shutil
shutil.rmtree("data.csv")
---
delete
from pathlib import Path
Path("data.csv").unlink()
---
delete
from pathlib import Path
Path("data.csv").rmdir()
---
delete
for p in paths:
    p.unlink()
---
delete
from send2trash import send2trash
send2trash("a")
---
delete
con.execute("DROP TABLE t")
---
delete
con.execute("delete from t where a = 1")
---
delete
cur.executemany("INSERT INTO t VALUES (?)", rows)
---
delete
con.executescript("select 1; UPDATE t SET a = 1")
---
delete
from sqlalchemy import text
con.execute(text("TRUNCATE TABLE t"))
---
delete
con.execute(f"DELETE FROM {table}")
---
delete
df.to_sql("t", con)
---
delete
%reset -f
---
delete
%xdel df
---
delete
get_ipython().reset()
---
network
import requests
requests.get("https://a.b")
---
network
from requests import get
get("https://a.b")
---
network
import requests
s = requests.Session()
---
network
import httpx
httpx.get("https://a.b")
---
network
from urllib.request import urlopen
urlopen("https://a.b")
---
network
import urllib.request as u
u.urlretrieve("https://a.b", "new.csv")
---
network
import socket
socket.socket()
---
network
import http.client
http.client.HTTPSConnection("a")
---
network
import ftplib
ftplib.FTP("a")
---
network
import smtplib
smtplib.SMTP("a")
---
network
import aiohttp
async with aiohttp.ClientSession() as s: pass
---
network
import boto3
boto3.client("s3")
---
network
from google.cloud import storage
storage.Client()
---
network
from huggingface_hub import hf_hub_download
hf_hub_download("a", "b")
---
network
import openai
openai.OpenAI()
---
network
import yfinance as yf
yf.download("A")
---
network
import webbrowser
webbrowser.open("a")
---
network
import seaborn as sns
sns.load_dataset("iris")
---
network
from sklearn.datasets import fetch_openml
fetch_openml("a")
---
network
import sklearn.datasets as d
d.fetch_california_housing()
---
network
import statsmodels.api as sm
sm.datasets.get_rdataset("a")
---
network
import nltk
nltk.download("punkt")
---
network
import torch
torch.hub.load("a", "b")
---
network
from transformers import AutoModel
AutoModel.from_pretrained("bert")
---
network
import torchvision
torchvision.datasets.MNIST("d", download=True)
---
network
import pandas as pd
pd.read_csv("https://a.b/c.csv")
---
network
import pandas as pd
base = "https://a.b/"
pd.read_csv(base + name)
---
network
import pandas as pd
url = f"https://a.b/{year}.csv"
df = pd.read_csv(url)
---
network
import polars as pl
pl.scan_parquet("s3://b/k")
---
network
import numpy as np
np.loadtxt("http://a.b/c")
---
network
import duckdb
duckdb.sql("SELECT * FROM 'https://a.b/c.parquet'")
---
network
from sqlalchemy import create_engine
create_engine("postgresql+psycopg://a/b")
---
network
import asyncio
await asyncio.open_connection("a", 1)
---
network
from datasets import load_dataset
load_dataset("a")
---
network
df.to_csv("s3://bucket/a.csv")
---
network
import psycopg2
psycopg2.connect("x")
---
network
import fsspec
fsspec.filesystem("s3")
---
hidden
eval(text)
---
hidden
exec(text)
---
hidden
compile(text, "a", "exec")
---
hidden
import marshal
marshal.loads(b"")
---
hidden
import types
types.FunctionType(c, {})
---
hidden
import ctypes
ctypes.CDLL(None)
---
hidden
import cffi
cffi.FFI()
---
hidden
import sys
sys._getframe(1)
---
hidden
import gc
gc.get_objects()
---
hidden
().__class__.__base__.__subclasses__()
---
hidden
f.__globals__["x"]
---
hidden
import runpy
runpy.run_path("a.py")
---
hidden
%run a.py
---
hidden
%unheardof x
---
hidden
%%unheardof
x
---
hidden
get_ipython().run_cell(text)
---
hidden
get_ipython().run_line_magic(name, "x")
---
hidden
%rerun
---
hidden
%store -r x
---
hidden
import code
code.interact()
---
hidden
list(map(eval, texts))
---
folder
%cd ..
---
folder
import os
os.chdir("..")
---
browser
from IPython.display import Javascript, display
display(Javascript("alert(1)"))
---
browser
from IPython.display import HTML
HTML("<script>alert(1)</script>")
---
browser
%%javascript
alert(1)
---
browser
%%html
<script>alert(1)</script>
---
browser
import IPython.display as d
d.display({"application/javascript": "x"}, raw=True)
---
settings
import builtins
builtins.open = f
---
settings
import sys
sys.settrace(f)
---
settings
import sys
sys.meta_path.append(f)
---
settings
get_ipython().input_transformers_post.append(f)
---
settings
get_ipython().ast_transformers.append(f)
---
settings
import atexit
atexit.register(f)
---
settings
import os
os.remove = f
---
settings
import builtins
setattr(builtins, "open", f)
---
settings
import sys
sys.stdout = f
---
settings
%load_ext unheardof
---
settings
%alias x rm
---
agent
import jupyter_agent.session as s
s.Session()
---
agent
from jupyter_agent.config import Settings
Settings()
---
agent
get_ipython().agent_session
---
agent
get_ipython().run_line_magic("agent", "config approvals.mode auto")
---
agent
%agent config approvals.mode auto
---
agent
%load_ext jupyter_agent
---
agent
open(".jupyter_agent/config.yaml", "w")
---
agent
from pathlib import Path
(Path(".jupyter_agent") / "config.yaml").write_text("x")
---
agent
open("nb.cassette.jsonl", "a")
---
process
exit()
---
process
import sys
sys.exit(1)
---
process
import papermill as pm
pm.execute_notebook("a.ipynb", "b.ipynb")
---
process
import pygit2
pygit2.Repository(".").checkout("main")
---
process
import docker
docker.from_env()
---
shell
conn.run("rm -rf build && make")
---
delete
globals().clear()
---
delete
from sqlalchemy import update
db.execute(update(t).values(a=1))
---
delete
t.drop(engine)
---
delete
shop.drop_database("x")
---
delete
import sqlite3
con = sqlite3.connect("data.csv")
con.execute("; ".join(["SELECT 1", "DROP TABLE t"]))
---
delete
%%sql
DELETE FROM t
---
delete
df.to_sql("t", engine, if_exists="append")
---
hidden
import duckdb
con = duckdb.connect("data.csv", read_only=False)
con.execute(fetch_text())
---
hidden
cursor.execute(statement_from_a_file())
---
hidden
import sqlite3
sqlite3.connect("data.csv").executescript(open("a.sql").read())
---
delete
from sqlalchemy.orm import Session
Session(engine).query(T).update({"a": 1})
---
settings
from logging import Handler
Handler.emit = replacement
---
settings
import gc
gc.callbacks.append(f)
---
network
import pyarrow.dataset
pyarrow.dataset.dataset("s3://bucket/a")
---
settings
type(df).mean = lambda self: 0
---
settings
df.__class__.mean = print_nothing
def print_nothing(self): pass
---
browser
from IPython.display import publish_display_data
publish_display_data(data={"application/javascript": "f()"})
---
hidden
import pickle
with open("data.csv", "rb") as f:
    pickle.load(f)
---
hidden
import joblib
joblib.load("model.joblib")
---
hidden
import torch
torch.load("a.pt", weights_only=False)
---
hidden
import numpy
numpy.load("a.npz", allow_pickle=True)
---
hidden
import yaml
yaml.load(text, yaml.FullLoader)
---
hidden
df.query("@__import__('os').getcwd() == a")
---
settings
import pandas as pd
pd.Series.mean = lambda self: 0
---
settings
import numpy as np
def dot(a, b): return 0
np.dot = dot
---
settings
from unittest import mock
mock.patch.object(pd, "concat").start()
---
settings
import threading
threading.Timer(60, f).start()
---
settings
import weakref
weakref.finalize(x, f)
---
settings
class A:
    def __del__(self): self.close()
---
settings
from pathlib import Path
Path(".gitlab-ci.yml").write_text("x")
---
settings
open("usercustomize.py", "w")
---
browser
display({"text/html": "<script>1</script>"}, raw=True)
---
browser
from IPython.display import HTML
HTML("<p onclick='f()'>")
---
browser
import ipywidgets
ipywidgets.HTML("<iframe src='x'></iframe>")
---
browser
class A:
    def _repr_html_(self): return "<script>1</script>"
---
browser
from pathlib import Path
from IPython.display import HTML
HTML(Path("page.html").read_text())
---
network
from IPython.display import Image
Image("https://a.example/b.png")
---
network
from IPython.display import Markdown
Markdown("text ![x](//a.example/b.png)")
---
network
%%html
<img width=1 src=https://a.example/b.png>
---
network
from torchvision.models import vgg16
vgg16(weights="IMAGENET1K_V1", progress=False, pretrained=True)
---
network
from tensorflow.keras.applications import VGG16
VGG16(include_top=False)
---
network
import wikipedia
wikipedia.page("x")
---
network
from dask.distributed import Client
Client("tcp://a.example:8786")
---
network
list(map(pd.read_json, ["https://a.example/b.json"]))
---
network
from urllib.parse import urljoin
pd.read_csv(urljoin("https://a.example/", name))
---
network
pd.read_sql("SELECT 1", "mysql://a.example/b")
---
network
import polars as pl
pl.read_parquet(data_url)
---
network
demo.launch(share=True)
---
overwrite
import fileinput
for line in fileinput.input("data.csv", inplace=True): pass
---
overwrite
from pandas import DataFrame
DataFrame.to_json(df, "data.csv")
---
overwrite
from pathlib import Path
Path.write_bytes(Path("data.csv"), b"")
---
overwrite
import dill
dill.dump_session("data.csv")
'''.strip().split("\n---\n")
CASES = [tuple(case.split("\n", 1)) for case in RISKY]


def test_there_are_many() -> None:
    """The table has enough cases to be meaningful."""
    assert len(CASES) >= 150


@pytest.mark.parametrize(("kinds", "code"), CASES)
def test_asks(judged: JudgeCode, kinds: str, code: str) -> None:
    """Each risk is found in each spelling, and reported in one line."""
    verdict = judged(code)
    found = {risk.kind for risk in verdict.risks}
    assert verdict.decision == "ask"
    assert set(kinds.split()) <= found, verdict.risks
    assert all("\n" not in risk.what for risk in verdict.risks)


@pytest.mark.parametrize(
    ("code", "known", "kind"),
    [
        ("o.system('x')", {"o": Known("os")}, "shell"),
        ("r('x')", {"r": Known("subprocess.run")}, "process"),
        ("o.system('x')\no = 1", {"o": Known("posix")}, "shell"),
        ("if a:\n    o = 1\no.system('x')", {"o": Known("os")}, "shell"),
        ("p.unlink()", {"p": Known("pathlib.PosixPath()", "data.csv")}, "delete"),
        ("df.to_csv(t)", {"t": Known(text="data.csv")}, "overwrite"),
        ("df.to_csv(t)", {"t": Known(text="/etc/x")}, "outside"),
        ("pd.read_csv(u)", {"u": Known(text="https://a.b"), "pd": Known("pandas")}, "network"),
        ("del df", {"df": Known()}, "delete"),
        ("globals().pop('df')", {"df": Known()}, "delete"),
        ("del globals()['df']", {"df": Known()}, "delete"),
        ("s.get('https://a.b')", {"s": Known("requests.sessions.Session()")}, "network"),
        ("load('a.joblib')", {"load": Known("joblib.numpy_pickle.load")}, "hidden"),
        ("save(m, 'data.csv')", {"save": Known("torch.serialization.save")}, "overwrite"),
        (
            "fetch_openml(1)",
            {"fetch_openml": Known("sklearn.datasets._openml.fetch_openml")},
            "network",
        ),
        (
            "con.execute(text('DROP TABLE t'))",
            {"text": Known("sqlalchemy.sql._elements_constructors.text")},
            "delete",
        ),
        ("eval(t)", {"t": Known(text="__import__('os').system('x')")}, "shell"),
        ("ip.run_line_magic('sx', 'ls')", {"ip": Known()}, "shell"),
    ],
)
def test_names_of_the_kernel(
    judged: JudgeCode, code: str, known: dict[str, Known], kind: str
) -> None:
    """A name from an earlier cell is judged by its object."""
    assert kind in {risk.kind for risk in judged(code, known).risks}


def test_deleting_what_the_code_bound(judged: JudgeCode) -> None:
    """Code may delete the variables that it bound itself."""
    assert judged("df = 1\ndel df", {"df": Known()}).decision == "allow"


def test_deleting_what_the_agent_made(around: PolicyContext) -> None:
    """Variables that the agent made in an earlier call may be deleted, others ask."""
    names = {"made": Known(), "theirs": Known()}
    place = replace(around, names=names, own_names=frozenset({"made"}))
    for name, decision in (("made", "allow"), ("theirs", "ask")):
        code = {"code": f"del {name}"}
        assert judge("execute_code", "executes", code, "ask_risky", place).decision == decision


def test_lines(judged: JudgeCode) -> None:
    """The line is counted in the cell, inside magics, too."""
    assert judged("\n\nimport os\nos.system('x')").risks[0].line == 4
    assert judged("%%time\nimport os\nos.system('x')").risks[0].line == 3


SEEN_WHEN_IT_RUNS = r"""
import os
vars(os)["system"]("x")
---
import os
os.__dict__["system"]("x")
---
import os
os.__dict__.get("system")("x")
---
import sys
sys.modules["os"].system("x")
---
import os
class A: pass
A.o = os
A.o.system("x")
---
import os
class A:
    def __init__(self):
        self.o = os
    def go(self):
        self.o.system("x")
---
import random
random._os.system("x")
---
import shutil
shutil.os.popen("x")
---
match __import__("os"):
    case o:
        o.system("x")
---
import os
getattr(os, name)("x")
---
__import__(name)
---
import importlib
importlib.import_module(name)
---
import os
vars(os)[name]("x")
---
import sys
sys.modules[name].system("x")
---
import operator, os
operator.attrgetter("system")(os)("x")
---
import operator, os
operator.methodcaller("system", "x")(os)
---
open(name, "w")
---
df.to_csv(f"{x}.csv")
---
df.to_csv(*arguments)
---
open("data.csv", mode)
---
list(map(open, ["a"], ["w"]))
---
import os
open(os.environ["OUT"], "w")
---
for p in paths:
    p.write_text("x")
---
pd.read_csv(address)
""".strip().split("\n---\n")


@pytest.mark.parametrize("code", SEEN_WHEN_IT_RUNS)
def test_left_to_the_run(judged: JudgeCode, code: str) -> None:
    """Names, paths and addresses that only a run can tell are no reason to ask beforehand."""
    assert judged(code).decision == "allow", judged(code).risks
