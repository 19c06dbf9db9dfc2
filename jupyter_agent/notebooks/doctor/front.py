"""Kernels, how they know their notebook, and whether a front end can show the live view."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from jupyter_core.paths import jupyter_config_path, jupyter_path

from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.notebooks.doctor.packages import installed_version
from jupyter_agent.version import __version__

_LOADS = "%load_ext jupyter_agent"
_KERNEL, _FRONT = "kernel", "front end"
_WIDGETS = {
    "anywidget": "pip install anywidget",
    "@jupyter-widgets/jupyterlab-manager": "pip install jupyterlab_widgets",
}
_OWN = "jupyter-agent"
"""The package's own extension, in the folder `labextension` of the repository."""


def examine_kernel() -> Iterator[Examined]:
    """The kernel that notebooks get, started once for a cell that loads the extension."""
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    from jupyter_agent.notebooks import execute

    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        remedy = "Install one: python -m ipykernel install --sys-prefix"
        yield Examined(_KERNEL, "python3", "problem", "there is no such kernel.", remedy)
        return
    if Path(command).is_absolute() and not _is_same(command):
        yield Examined(
            _KERNEL,
            "python3",
            "warning",
            f"it runs another Python than this command does: {command}",
            "Install the package there, too, or install a kernel for this one: "
            "python -m ipykernel install --sys-prefix",
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "doctor.ipynb"
        cell = nbformat.v4.new_code_cell(_LOADS)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
        try:
            execution = execute(path, {"mode": "replay"}, timeout=60)
            error, seconds = execution.error, execution.seconds
        except (AgentError, RuntimeError, OSError) as failed:
            error, seconds = str(failed) or type(failed).__name__, 0.0
    if error:
        remedy = "Install jupyter-agent-magics into the environment of the kernel python3."
        text = f"a kernel was started, but {_LOADS} failed: {' '.join(error.split())[:300]}"
        yield Examined(_KERNEL, "start", "problem", text, remedy)
    else:
        text = f"a kernel started, ran {_LOADS} and ended, in {seconds:.1f} s"
        yield Examined(_KERNEL, "start", "ok", text)
    yield from _discovery()


def examine_front() -> Iterator[Examined]:
    """The widgets' extensions and our own where this environment's JupyterLab looks for them."""
    if installed_version("jupyterlab") is None and installed_version("notebook") is None:
        yield Examined(
            _FRONT,
            "live view",
            "note",
            "neither JupyterLab nor Notebook is installed in this environment. If the Jupyter "
            "server runs in another one, install anywidget there; without it, turns are shown by "
            "plain updates.",
        )
        return
    disabled = _disabled()
    for name, install in _WIDGETS.items():
        place = _extension(name)
        if place is None:
            text = "JupyterLab does not have it, so that turns are shown by plain updates."
            remedy = f"In the server's environment: {install}. Then reload the page."
            yield Examined(_FRONT, name, "problem", text, remedy)
        elif name in disabled:
            remedy = f"jupyter labextension enable {name}"
            yield Examined(_FRONT, name, "problem", "it is installed, but disabled.", remedy)
        else:
            yield Examined(_FRONT, name, "ok", f"{_its_version(place)}, in {place}")
    yield _own_extension(disabled)


def _own_extension(disabled: set[str]) -> Examined:
    """Our extension for the page. All works without it, so that its absence is no problem."""
    place = _extension(_OWN)
    if place is None:
        text = "JupyterLab does not have it: agent cells look like Python there."
        remedy = "pip install jupyter-agent-magics in the server's environment (not editable)."
        return Examined(_FRONT, _OWN, "note", text, remedy)
    if _OWN in disabled:
        remedy = f"jupyter labextension enable {_OWN}"
        return Examined(_FRONT, _OWN, "note", "it is installed, but disabled.", remedy)
    version = _its_version(place)
    if version != __version__:
        text = f"{version}, in {place}, but the package is {__version__}."
        remedy = "Install the same version in the server's environment. Then reload the page."
        return Examined(_FRONT, _OWN, "warning", text, remedy)
    return Examined(_FRONT, _OWN, "ok", f"{version}, in {place}")


def _discovery() -> Iterator[Examined]:
    """How a kernel comes to know its notebook, by which a cassette is found."""
    server = installed_version("jupyter-server")
    text = (
        "Jupyter's server and VS Code tell it to the kernel; nbval and plain nbclient do not: for "
        "them, name the cassette in the notebook (%agent cassette FILE)."
    )
    if server is not None and int(server.partition(".")[0]) < 2:
        remedy = "Update it: pip install -U jupyter-server"
        text = f"jupyter-server {server} does not tell a kernel its notebook's name."
        yield Examined(_KERNEL, "notebook's name", "warning", text, remedy)
    else:
        yield Examined(_KERNEL, "notebook's name", "ok", text)


def _is_same(command: str) -> bool:
    try:
        return Path(command).samefile(sys.executable)
    except OSError:
        return False


def _extension(name: str) -> Path | None:
    places = (Path(root) / name for root in jupyter_path("labextensions"))
    return next((place for place in places if (place / "package.json").is_file()), None)


def _its_version(place: Path) -> str:
    try:
        facts = json.loads((place / "package.json").read_text(encoding="utf-8"))
        return str(facts["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return "installed"


def _disabled() -> set[str]:
    """The extensions that JupyterLab's page configuration switches off."""
    found: set[str] = set()
    for root in jupyter_config_path():
        try:
            page = Path(root) / "labconfig" / "page_config.json"
            names = json.loads(page.read_text(encoding="utf-8"))["disabledExtensions"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(names, dict):
            found |= {name for name, off in names.items() if off}
        elif isinstance(names, list):
            found |= set(map(str, names))
    return found
