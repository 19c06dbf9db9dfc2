"""What the agent's code sends to the widgets of the page: data, no scripts.

The widgets of ipywidgets are shown, with their HTML cleaned. The script of a widget that brings its
own, as anywidget's do, would run in the page as soon as the widget exists. So the judge of the code
is asked first, once for a script. After a yes the widget is shown, after a no it stays out of the
page. Where nobody answers it is held back, until the person shows it by `release_widgets`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from typing import Any

from jupyter_agent.core.displays import WIDGET, shown_displays
from jupyter_agent.core.effects import SideEffect
from jupyter_agent.core.markup import cleaned_fragment, is_safe_css
from jupyter_agent.core.messages import Output
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.kernel.effects import announce
from jupyter_agent.kernel.marks import is_agents
from jupyter_agent.kernel.widget_snapshot import snapshot

OWN_MODULES = frozenset(
    ("@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output")
)
"""The JavaScript modules of ipywidgets itself."""
MOST_HELD = 50
"""The most widgets that wait; the oldest are forgotten."""

_MODULES = ("_model_module", "_view_module")
_VERSIONS = ("_model_module_version", "_view_module_version")
_HTML = frozenset({"HTMLModel", "HTMLMathModel"})
_HTML_VIEWS = frozenset({"HTMLView", "HTMLMathView"})
_OURS = "Refused: this channel to the page is for the agent's tools, not for its code."
_MEDIA = frozenset({"ImageModel", "AudioModel", "VideoModel"})
_SCRIPTS = ("_esm", "_css", "_anywidget_id")
_CHILD = "IPY_MODEL_"


@dataclass(frozen=True, slots=True)
class HeldWidget:
    """A widget that is not in the page: its channel, and the message that opens it there.

    `is_refused` is True if the person said no to its script, or to that of a widget in it.
    """

    comm: Any
    open_message: Mapping[str, Any]
    widget: Any = None
    is_refused: bool = False

    @property
    def name(self) -> str:
        """The widget's class, or its JavaScript module."""
        widget = self.widget or _instances().get(self.comm.comm_id)
        if widget is not None:
            return f"{type(widget).__module__.split('.')[0]}.{type(widget).__name__}"
        return str(_state(self.open_message.get("data")).get("_model_module", "a widget"))


_held: dict[str, HeldWidget] = {}
_cleaned: set[str] = set()
"""The widgets that the agent's code made or changed, by their models: always sent cleaned."""
_admitted: dict[str, Mapping[str, Any]] = {}
"""The scripts and modules of the widgets that the person let in, by their models."""


@contextmanager
def harmless_widgets() -> Iterator[None]:
    """Clean what the agent's code sends to widgets, and hold back widgets with a script.

    A page that is loaded later asks for all widgets, so those that the code made or changed are
    sent cleaned from then on. Other code's messages pass unchanged.
    """
    _watch_channels()
    try:
        yield
    finally:
        _take_out_of_sight()


def _watch_channels() -> None:
    """Let all messages to widgets pass through here, from now on."""
    try:
        channel = import_module("ipykernel.comm.comm").BaseComm
    except ImportError:  # no kernel, no widgets
        return
    publish = channel.publish_msg
    if getattr(publish, "is_watched", False):
        return

    @wraps(publish)
    def publish_msg(
        comm: Any,
        msg_type: str,
        data: Any = None,
        metadata: Any = None,
        buffers: Any = None,
        **keys: Any,
    ) -> None:
        message = {"data": data, "metadata": metadata, "buffers": buffers, **keys}
        if _passes(comm, msg_type, message, is_agents()):
            publish(comm, msg_type, **message)

    publish_msg.is_watched = True  # type: ignore[attr-defined]
    channel.publish_msg = publish_msg


def _passes(comm: Any, msg_type: str, message: dict[str, Any], is_agents: bool) -> bool:
    """Clean a message in place. Returns False if it is not sent."""
    data = message["data"]
    if is_agents and str(getattr(comm, "target_name", "")).startswith("jupyter_agent."):
        raise PermissionError(_OURS)
    if _is_held(comm, msg_type, message, is_agents):
        return False
    if is_agents and _state(data):
        _cleaned.add(comm.comm_id)
    if msg_type == "comm_close":
        _cleaned.discard(comm.comm_id)
        _admitted.pop(comm.comm_id, None)
    elif comm.comm_id in _cleaned:
        message["data"] = _harmless(comm.comm_id, data)
    elif isinstance(data, Mapping) and isinstance(data.get("states"), Mapping):
        states = {
            model: _harmless(model, whole) if model in _cleaned else whole
            for model, whole in data["states"].items()
        }
        message["data"] = {**data, "states": states}
    return True


def release_widgets() -> list[Any]:
    """Bring the widgets that wait into the page, as the person wishes.

    Returns:
        Their MIME bundles, in the order in which they were made.
    """
    found, bundles = [pair for pair in _held.items() if not pair[1].is_refused], []
    for model, held in found:
        del _held[model]
        _admit(model, _state(held.open_message.get("data")))
        held.comm.publish_msg("comm_open", **held.open_message)
        if held.widget is not None:
            _instances()[model] = held.widget
            held.widget.send_state()
        if _state(held.open_message.get("data")).get("_view_name") is not None:
            view = {"version_major": 2, "version_minor": 0, "model_id": model}
            bundles.append({WIDGET: view, "text/plain": held.name})
    return bundles


def said_of_held(data: Mapping[str, Any]) -> str:
    """The line in the place of a widget that is held back; empty for all other MIME bundles."""
    view = data.get(WIDGET)
    held = _held.get(str(view.get("model_id"))) if isinstance(view, Mapping) else None
    if held is None:
        return ""
    if held.is_refused:
        return f"{held.name} brings a script of its own. The answer was no, so it is not shown."
    return f"{held.name} brings a script of its own, so it waits: %agent show widgets shows it."


def as_html(data: Mapping[str, Any]) -> str:
    """The widget of a MIME bundle as plain HTML; empty if it has none, or is not shown so."""
    view = data.get(WIDGET)
    widget = _instances().get(str(view.get("model_id"))) if isinstance(view, Mapping) else None
    return "" if widget is None else snapshot(widget)


def without_gone_widget(data: Mapping[str, Any]) -> dict[str, Any]:
    """A stored MIME bundle without its widget if this kernel has no such widget any more."""
    view = data.get(WIDGET)
    is_gone = isinstance(view, Mapping) and str(view.get("model_id")) not in _instances()
    return {kind: value for kind, value in data.items() if kind != WIDGET or not is_gone}


def _is_held(comm: Any, msg_type: str, message: Mapping[str, Any], is_agents: bool) -> bool:
    """True if a message opens a widget that stays out of the page, or is for one."""
    if comm.comm_id in _held:
        if msg_type == "comm_close":
            del _held[comm.comm_id]
        return True
    if not is_agents or msg_type != "comm_open" or message.get("target_name") != "jupyter.widget":
        return False
    state = _state(message["data"])
    inside = _held_in(state)
    is_refused = any(held.is_refused for held in inside)
    if not inside:
        if _is_of_ipywidgets(state):
            return False
        try:
            if announce(SideEffect("show_widget", *_kind(state))):
                _admit(comm.comm_id, state)
                return False
        except PermissionError as error:
            is_refused = getattr(error.args[0], "is_by_person", False)
    _held[comm.comm_id] = HeldWidget(comm, dict(message), is_refused=is_refused)
    while len(_held) > MOST_HELD:
        del _held[next(iter(_held))]
    return True


def _is_of_ipywidgets(state: Mapping[str, Any]) -> bool:
    return state.get("_model_module") in OWN_MODULES and all(
        state.get(name) in OWN_MODULES or state.get(name) is None for name in _MODULES
    )


def _kind(state: Mapping[str, Any]) -> tuple[str, str]:
    """A widget in words, and the digest of its script.

    The script is in its state, or else in an extension of the page: a module and its version.
    """
    script = [str(state.get(name) or "") for name in ("_esm", "_css")]
    module = str(state.get("_model_module"))
    parts = [state.get(name) for name in (*_MODULES, *_VERSIONS)]
    name, words = module, "a widget of"
    if any(script):
        name, words = str(state.get("_anywidget_id") or state.get("_model_name")), "the widget"
    text = json.dumps([*parts, *script], default=str)
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{words} {one_line(name, 60)}", digest


def _admit(model: str, state: Mapping[str, Any]) -> None:
    """Note the script of a widget that the person lets in; only this one is sent from now on."""
    _admitted[model] = {name: state.get(name) for name in (*_MODULES, *_SCRIPTS)}


def _held_in(value: Any) -> list[HeldWidget]:
    """The widgets that stay out of the page and are named in a value."""
    if not _held:
        return []
    text = json.dumps(value, default=str, skipkeys=True)
    return [held for model, held in tuple(_held.items()) if _CHILD + model in text]


def _state(data: Any) -> Mapping[str, Any]:
    state = data.get("state") if isinstance(data, Mapping) else None
    return state if isinstance(state, Mapping) else {}


def _harmless(model_id: str, data: Any) -> Any:
    """The data of a message with the state of its widget cleaned."""
    state = _state(data)
    if not state:
        return data
    known = _instances().get(model_id)
    model = str(state.get("_model_name") or getattr(known, "_model_name", ""))
    is_own = getattr(known, "_model_module", None) in (None, *OWN_MODULES)
    return {
        **data,
        "state": {
            name: _harmless_value(model, name, value)
            for name, value in state.items()
            if _may_change(model_id, name, value, is_own)
            and (name != "_view_name" or model in _HTML or value not in _HTML_VIEWS)
        },
    }


def _may_change(model_id: str, name: str, value: Any, is_own: bool) -> bool:
    """False for a part of a widget's state that would bring a script, or a widget with one."""
    if model_id in _admitted and name in (*_MODULES, *_SCRIPTS):
        return bool(value == _admitted[model_id][name])
    if name in _MODULES:
        return value is None or value in OWN_MODULES or not is_own
    return name not in _SCRIPTS and not (isinstance(value, (list, str)) and _held_in(value))


def _harmless_value(model: str, name: str, value: Any) -> Any:
    if model in _HTML and name in ("value", "placeholder") and isinstance(value, str):
        return cleaned_fragment(value)
    if model in _MEDIA and name == "format" and value == "url":
        return "png"  # the value is an address then, and would be loaded
    if model == "OutputModel" and name == "outputs":
        return [_harmless_output(each) for each in value]
    if model.endswith(("StyleModel", "LayoutModel")) and isinstance(value, str):
        return value if is_safe_css(value) else None
    return value


def _harmless_output(output: Any) -> Any:
    """One output in an `Output` widget, as in a notebook."""
    if not isinstance(output, Mapping) or not isinstance(output.get("data"), Mapping):
        return output
    shown = next(iter(shown_displays([Output("display", dict(output["data"]))])))
    return {**output, "data": shown.data, "metadata": shown.metadata}


def _take_out_of_sight() -> None:
    """Keep ipywidgets from sending the held widgets to a page that is loaded later."""
    instances = _instances()
    for model, held in _held.items():
        if model in instances:
            _held[model] = replace(held, widget=instances.pop(model))


def _instances() -> dict[str, Any]:
    """The widgets by which ipywidgets answers a page."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    found = getattr(module, "_instances", {})
    return found if isinstance(found, dict) else {}
