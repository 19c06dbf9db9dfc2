"""Secrets and traces of a machine in texts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jupyter_agent.notebooks.check.traces import Machine, strings, this_machine

KEY = "sk-" + "ant-" + "Abc1" * 8
SECRET = "grün" + 'kohl"99"'


def machine(*allowed: str) -> Machine:
    names = (("the name of this machine", "zeppelin7"), ("the account", "adalovelace"))
    secrets = this_machine({"DB_PASSWORD": SECRET, "EDITOR": "emacs-gtk"}, Path("/")).secrets
    return Machine(secrets, (("the notebook's folder", "/srv/team/notes"),), names, allowed)


@pytest.mark.parametrize(
    "text",
    [
        "/home/ada/data.csv",
        "see /Users/ada/x",
        "open('/" + "root/x')",
        "file:///home/ada/x.py",
        r"C:\Users\ada\x",
        r'{"path": "C:\\Users\\ada\\x"}',
        "/tmp/tmpab12/x.csv",
        "/var/folders/3x/y/T/z",
        "/private/tmp/x1",
        "ipykernel_4242/1.py",
        "in /srv/team/notes/data.csv",
        "(/srv/team/notes)",
    ],
)
def test_paths_of_a_machine(text: str) -> None:
    """Absolute paths of homes, of temporary files and of the notebook's own folder are errors."""
    found = list(machine().traces(text))
    assert found
    assert {(trace.severity, trace.kind) for trace in found} == {("error", "machine")}


@pytest.mark.parametrize(
    "text",
    [
        "data/penguins.csv",
        "https://example.org/home/ada",
        "https://example.org/tmp/x",
        "<home>/x",
        "<tmp>",
        "a/tmp/b",
        "/usr/share/zoneinfo",
        "/Users/Shared/x",
        "/home",
        "at home/ada",
        "/srv/team/notes2",
        "emacs-gtk",
        "zeppelin77 and adalovelaces",
        "sk-learn is a library",
        "[redacted]",
    ],
)
def test_what_says_nothing(text: str) -> None:
    """Relative paths, addresses, placeholders and unrelated words are no findings."""
    assert list(machine().traces(text)) == []


@pytest.mark.parametrize("name", ["zeppelin7", "adalovelace"])
def test_names_are_warnings(name: str) -> None:
    """A name as a word of its own is a warning, since it may be a coincidence."""
    (trace,) = machine().traces(f"made by {name}.")
    assert trace.severity == "warning"


@pytest.mark.parametrize("text", [f"key {KEY}", f"use {SECRET}", r'{"a": "gr\u00fcnkohl\"99\""}'])
def test_secrets(text: str) -> None:
    """Keys of known shapes and values of the environment are errors, and no message has them."""
    (trace,) = machine().traces(text)
    assert (trace.severity, trace.kind) == ("error", "secret")
    assert KEY not in trace.message
    assert "kohl" not in trace.message


def test_what_is_allowed() -> None:
    """--allow permits a path and never a secret."""
    assert list(machine("/tmp/demo").traces("/tmp/demo/x")) == []
    assert list(machine(KEY).traces(KEY))


def test_this_very_machine(tmp_path: Path) -> None:
    """The notebook's folder and Python's own are found without any setting."""
    here = this_machine({}, tmp_path)
    assert any(trace.kind == "machine" for trace in here.traces(f"read {tmp_path}/a.csv"))
    if not sys.prefix.startswith("/usr"):
        assert list(here.traces(f"{sys.prefix}/lib/x.py: UserWarning"))


def test_pictures_are_no_text() -> None:
    """Bitmaps are not searched, the text of SVG is."""
    data = {"image/png": "/home/ada", "image/svg+xml": "<a/>", "text/plain": ["x", {"y": "z"}]}
    assert list(strings({"data": data})) == ["<a/>", "x", "z"]
