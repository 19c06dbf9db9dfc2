"""Ordinary data work never asks."""

from __future__ import annotations

import pytest

from jupyter_agent.policy import Known

from .conftest import JudgeCode

ORDINARY = r"""
import pandas as pd
df = pd.read_csv("data.csv")
df.head()
---
import helper
from helper import clean
---
import importlib
importlib.import_module("helper")
---
df = df.dropna().rename(columns={"a": "b"}).replace({0: 1})
df["x"] = df["x"].str.replace("a", "b")
---
df.drop(columns=["a"]).to_csv("out.csv", index=False)
---
df.groupby("k").agg({"v": "mean"}).reset_index()
---
print(df.to_csv(index=False))
---
df.to_json(orient="records")
---
df.to_html(classes="t"); df.to_markdown(); df.to_latex(index=False)
---
import io
buf = io.StringIO()
df.to_csv(buf)
---
import io
import matplotlib.pyplot as plt
buf = io.BytesIO()
plt.savefig(buf, format="png")
---
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([1, 2, 3])
fig.savefig("plot.png", dpi=150)
plt.close()
---
%matplotlib inline
import matplotlib.pyplot as plt
plt.show()
---
import seaborn as sns
sns.histplot(df, x="a"); sns.pairplot(df)
---
df.eval("c = a + b")
---
df.query("a > 3 and update == 1")
---
pd.eval("1 + 2")
---
import re
p = re.compile(r"\d+")
p.sub("", "a1")
---
model.eval()
with torch.no_grad():
    y = model(x)
---
import torch
m = torch.compile(model)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for x, y in loader:
    opt.zero_grad(); loss = f(m(x), y); loss.backward(); opt.step()
---
import torch
torch.save(model.state_dict(), "model.pt")
---
import sympy
sympy.sympify("x**2")
---
items = [1, 2]; items.remove(1); d = {"a": 1}; d.pop("a"); s = {1}; s.remove(1)
---
"a-b".replace("-", "_")
---
d.update({"a": 2}); df.update(other)
---
import json
with open("settings.json") as f:
    d = json.load(f)
---
import json
with open("new.json", "w") as f:
    json.dump({"a": 1}, f)
---
from pathlib import Path
Path("out").mkdir(exist_ok=True)
(Path("out") / "a.txt").write_text("x")
---
from pathlib import Path
for p in Path(".").glob("*.csv"):
    print(p.name, p.stat().st_size)
---
open("/etc/hosts").read()
---
import os
os.listdir("."); os.path.exists("a"); os.environ["OMP_NUM_THREADS"] = "1"
os.makedirs("results", exist_ok=True)
---
import os
print(os.getcwd(), os.environ.get("HOME"), os.cpu_count(), os.sep)
---
import sys
sys.path.append("src"); print(sys.version, sys.executable)
---
import polars as pl
pl.read_parquet("a.parquet").filter(pl.col("a") > 1).write_csv("b.csv")
---
import polars as pl
out = pl.scan_csv("data.csv").group_by("k").agg(pl.len()).collect()
out.write_csv()
---
import numpy as np
np.random.seed(0)
a = np.linalg.inv(np.eye(3))
np.save("a.npy", a)
---
import numpy as np
np.savez_compressed("all.npz", a=a, b=b); np.load("all.npz")
---
getattr(np, "mean")([1, 2])
---
getattr(model, name)
---
from sklearn.model_selection import train_test_split
from sklearn.linear_model import LinearRegression
Xtr, Xte, ytr, yte = train_test_split(X, y)
LinearRegression().fit(Xtr, ytr).score(Xte, yte)
---
from sklearn.datasets import load_iris, make_blobs
X, y = load_iris(return_X_y=True)
---
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
pipe = make_pipeline(StandardScaler(), clf)
pipe.set_params(clf__C=1)
---
import joblib
joblib.dump(model, "model.joblib")
m = joblib.load("model.joblib")
---
from joblib import Parallel, delayed
Parallel(n_jobs=2)(delayed(abs)(i) for i in range(3))
---
from multiprocessing import Pool
with Pool(2) as p:
    p.map(abs, [1, 2])
---
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor() as ex:
    list(ex.map(abs, [1]))
---
import pickle
with open("new.pkl", "wb") as f:
    pickle.dump(m, f)
with open("new.pkl", "rb") as f:
    m = pickle.load(f)
---
import pickle
copy = pickle.loads(pickle.dumps(df))
---
import joblib
m = joblib.load("seen.csv")
---
import torch
m = torch.load("a.pt", weights_only=True)
---
import polars as pl
for k in keys:
    pl.DataFrame().write_parquet(f"part_{k}.parquet")
---
import torch
for epoch in range(3):
    torch.save(model, f"checkpoint_{epoch}.pt")
---
df.to_parquet(f"out/{name}.parquet")
---
from sqlalchemy import create_engine
engine = create_engine("sqlite://")
df.to_sql("t", engine, if_exists="replace")
---
import sqlite3
con = sqlite3.connect("new.db")
con.execute("INSERT INTO t VALUES (1)")
df.to_sql("t", con)
---
con.execute(f"SELECT * FROM t WHERE a = {a}")
---
import torch
torch.backends.cudnn.benchmark = True
---
import plotly.io as pio
pio.templates.default = "plotly_white"
---
from PIL import Image
Image.MAX_IMAGE_PIXELS = None
---
from IPython.display import HTML, Markdown
HTML(df.style.bar().to_html())
Markdown("see [the data](https://a.example/b)")
---
urls = ["https://a.example/b"]
s = pd.Series(urls).str.startswith("https://")
---
open("page.html", "w").write("<script src='https://a.example/b.js'></script>")
---
df.drop(df.index[:3]); df.columns.delete(0); np.delete(a, 1)
---
from sklearn.neighbors import KNeighborsRegressor
KNeighborsRegressor(weights="distance")
---
client.run("the model")
---
import shutil, tempfile
folder = tempfile.mkdtemp()
shutil.rmtree(folder)
---
import os, tempfile
handle = tempfile.NamedTemporaryFile(delete=False)
os.unlink(handle.name)
---
import os, shutil
os.makedirs("fresh/a")
open("fresh/a/part.csv", "w").close()
os.remove("fresh/a/part.csv")
shutil.rmtree("fresh")
---
from pathlib import Path
part = Path("fresh.csv")
part.write_text("a")
part.unlink()
---
save_chart(fig, "fresh.png"); export(df, "seen.csv")
---
import os
os.environ["PYTHONWARNINGS"] = "ignore"; os.environ["PYTHONHASHSEED"] = "0"
---
import statsmodels.formula.api as smf
smf.ols("y ~ x", data=df).fit().summary()
---
import plotly.express as px
fig = px.scatter(df, x="a", y="b")
fig.update_layout(title="t"); fig.show()
---
fig.write_html("fig.html")
---
fig.to_html(full_html=False)
---
import altair as alt
alt.Chart(df).mark_bar().encode(x="a").save("c.html")
---
import xarray as xr
ds = xr.open_dataset("a.nc")
ds.mean("time").to_netcdf("b.nc")
---
import duckdb
duckdb.sql("SELECT a, count(*) FROM df GROUP BY a").df()
---
import duckdb
con = duckdb.connect()
con.execute("SELECT * FROM 'data.csv' WHERE a > 1").fetchall()
---
import sqlite3
con = sqlite3.connect("a.db")
con.execute("SELECT name FROM sqlite_master").fetchall()
---
import sqlite3
con = sqlite3.connect(":memory:")
con.execute("INSERT INTO t VALUES (1)")
---
pd.read_sql("SELECT * FROM t", con)
---
print("https://example.com/a.csv")
---
urls = {"a": "https://example.com"}
---
# requests.get("https://example.com")
x = 1
---
import requests
requests.__version__
---
import requests
---
import requests
try:
    pass
except requests.exceptions.Timeout:
    pass
---
from requests.exceptions import HTTPError
try:
    f()
except HTTPError as e:
    print(e)
---
from urllib.parse import urlparse, quote
urlparse("https://a.b/c").netloc
---
import subprocess
subprocess.PIPE, subprocess.CalledProcessError
---
%%time
df.sort_values("a")
---
%timeit sum(range(10))
---
%timeit -n 10 -r 3 df.mean()
---
%%timeit -n 3
x = 1
---
%%capture out
print(1)
---
%time df.describe()
---
%who
---
%load_ext autoreload
%autoreload 2
---
%config InlineBackend.figure_format = "retina"
---
df.head?
---
?df
---
%ls
---
%pwd
---
import tempfile, os
with tempfile.TemporaryDirectory() as d:
    df.to_csv(os.path.join(d, "a.csv"))
---
import tempfile
from pathlib import Path
d = Path(tempfile.mkdtemp())
(d / "x.txt").write_text("a")
---
import tempfile
with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
    df.to_csv(f.name)
---
exec("x = 1")
---
eval("1 + 2")
---
def f(a, b=2):
    return a + b
f(1)
---
class A:
    def __init__(self):
        self.path = 1
    def save(self):
        return self.path
A()
---
import asyncio
await asyncio.sleep(0)
---
import asyncio
results = await asyncio.gather(*[f(i) for i in range(3)])
---
import threading
t = threading.Thread(target=f); t.start(); t.join()
---
from collections import Counter, defaultdict
Counter("abc").most_common(1)
---
from functools import partial, reduce, lru_cache
g = partial(max, key=len)
---
import logging
logging.getLogger("x").setLevel(logging.INFO)
---
import warnings
warnings.filterwarnings("ignore")
---
from datetime import datetime, timedelta
datetime.now().replace(hour=0).strftime("%Y")
---
import itertools, math, statistics
list(itertools.product([1], [2]))
---
import time
time.sleep(0.1); t0 = time.perf_counter()
---
df.to_parquet("out.parquet")
---
df.to_excel("out.xlsx", sheet_name="a")
---
import pandas as pd
with pd.ExcelWriter("out.xlsx") as w:
    df.to_excel(w, sheet_name="a")
---
df.to_csv("seen.csv")
---
for name in ["a", "b"]:
    df.to_csv(f"{name}.csv")
---
def save(frame, path):
    frame.to_csv(path)
save(df, "fresh.csv")
---
out = "fresh.csv"
df.to_csv(out)
---
from IPython.display import display, HTML, Markdown
display(HTML("<b>hi</b>"), Markdown("# x"))
---
from IPython.display import Image
Image("plot.png")
---
import scipy.stats as st
st.ttest_ind(a, b)
---
import networkx as nx
G = nx.Graph(); G.add_edge(1, 2); G.remove_node(1); nx.pagerank(G)
---
from PIL import Image
im = Image.open("a.png").resize((10, 10))
im.save("b.png")
---
import gzip
with gzip.open("a.gz", "rt") as f:
    f.read()
---
import zipfile
with zipfile.ZipFile("a.zip") as z:
    z.namelist()
---
import csv
with open("x.csv", newline="") as f:
    rows = list(csv.DictReader(f))
---
with open("rows.txt", "w") as f:
    for r in rows:
        f.write(r)
---
import h5py
with h5py.File("a.h5", "r") as f:
    f["x"][:]
---
del tmp
tmp = 1
---
tmp = 1
del tmp
---
globals()["x"] = 1
---
locals().get("x")
---
print(__name__, __file__)
---
import inspect
print(inspect.getsource(np.mean))
---
import os
help(os); dir(os)
---
import importlib
importlib.reload(np)
---
import importlib
np = importlib.import_module("numpy")
---
pd.set_option("display.max_rows", 10)
plt.rcParams["figure.figsize"] = (8, 4)
---
pd.options.mode.copy_on_write = True
---
get_ipython().run_line_magic("matplotlib", "inline")
---
s.str.extract(r"(\d+)"); s.dt.year; s.map(lambda v: v + 1); s.apply(len)
---
arr = [x for x in range(3) if x % 2]; lookup = {k: v for k, v in zip(a, b)}
---
match x:
    case {"a": y}:
        print(y)
    case [1, *rest]:
        print(rest)
---
x = 1 +
---
if True:
print(1)
---
import unicodedata; unicodedata.normalize("NFC", "é")
---
from dataclasses import dataclass
@dataclass
class P:
    x: int = 0
P().x
---
from typing import Any
x: Any = 1
---
try:
    import cupy as cp
except ImportError:
    cp = None
---
s = "DROP TABLE x"; print(s)
---
text = "os.system('rm -rf /')"; print(text)
---
df.os.replace({"win": "w"}); df["os"].value_counts()
---
import random; random.shuffle(items); random.choice(items)
---
import xgboost as xgb
b = xgb.train({}, d); b.save_model("m.json")
---
import lightgbm as lgb
lgb.LGBMClassifier().fit(X, y)
---
from tqdm.auto import tqdm
for i in tqdm(range(3)): pass
---
import shutil; shutil.disk_usage("."); shutil.copy("data.csv", "copy.csv")
---
import hashlib, base64
base64.b64decode("aGk="); hashlib.sha256(b"x").hexdigest()
---
import platform; platform.platform()
""".strip().split("\n---\n")


def test_there_are_many() -> None:
    """The table has enough cases to be meaningful."""
    assert len(ORDINARY) >= 120


@pytest.mark.parametrize("code", ORDINARY)
def test_does_not_ask(judged: JudgeCode, code: str) -> None:
    """Reading, computing, plotting and writing new files run without a question."""
    verdict = judged(code)
    assert verdict.decision == "allow", verdict.risks


def test_names_of_the_kernel(judged: JudgeCode) -> None:
    """Paths, buffers, modules and an own `open` of the kernel need no question."""
    names = {
        "target": Known(text="fresh.csv"),
        "buffer": Known(in_memory=True),
        "np": Known("numpy"),
        "df": Known(),
        "open": Known("IPython.core.interactiveshell._modified_open"),
    }
    assert judged("df.to_csv(target); df.to_csv(buffer); np.mean([1])", names).decision == "allow"
    assert judged("open('data.csv').read()", names).decision == "allow"
    assert judged("open('data.csv', 'w')", names).decision == "ask"
