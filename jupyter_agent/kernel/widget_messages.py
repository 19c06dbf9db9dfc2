"""What the agent's code sends to the widgets of the page: data, no scripts.

The widgets of ipywidgets are shown, with their HTML cleaned. A widget that brings a script of its
own, as anywidget's do, is held back: its script would run in the page as soon as the widget exists.
The person brings it into the page by `release_widgets`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any

from jupyter_agent.core.displays import WIDGET, shown_displays
from jupyter_agent.core.markup import cleaned_fragment, is_safe_css
from jupyter_agent.core.messages import Output

OWN_MODULES = frozenset(
    ("@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output")
)
"""The JavaScript modules of ipywidgets itself."""
MOST_HELD = 50
"""The most widgets that wait; the oldest are forgotten."""

_MODULES = ("_model_module", "_view_module")
_HTML = frozenset({"HTMLModel", "HTMLMathModel"})
_MEDIA = frozenset({"ImageModel", "AudioModel", "VideoModel"})
_SCRIPTS = ("_esm", "_css", "_anywidget_id")
_CHILD = "IPY_MODEL_"


@dataclass(frozen=True, slots=True)
class HeldWidget:
    """A widget that is not in the page: its channel, and the message that opens it there."""

    comm: Any
    open_message: Mapping[str, Any]
    widget: Any = None

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


@contextmanager
def harmless_widgets(is_of_the_agent: Callable[[], bool]) -> Iterator[None]:
    """Clean what the agent's code sends to widgets, and hold back widgets with a script.

    A page that is loaded later asks for all widgets, so those that the code made or changed are
    sent cleaned from then on.

    Args:
        is_of_the_agent: True if the code that calls it is the agent's; all other code's messages
            pass unchanged. It is asked after this context, too: code may leave a task behind.
    """
    _watch_channels(is_of_the_agent)
    try:
        yield
    finally:
        _take_out_of_sight()


def _watch_channels(is_of_the_agent: Callable[[], bool]) -> None:
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
        if _passes(comm, msg_type, message, is_of_the_agent()):
            publish(comm, msg_type, **message)

    publish_msg.is_watched = True  # type: ignore[attr-defined]
    channel.publish_msg = publish_msg


def _passes(comm: Any, msg_type: str, message: dict[str, Any], is_agents: bool) -> bool:
    """Clean a message in place. Returns False if it is not sent."""
    data = message["data"]
    if _is_held(comm, msg_type, message, is_agents):
        return False
    if is_agents and _state(data):
        _cleaned.add(comm.comm_id)
    if msg_type == "comm_close":
        _cleaned.discard(comm.comm_id)
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
    """Bring the widgets that are held back into the page, as the person wishes.

    Returns:
        Their MIME bundles, in the order in which they were made.
    """
    found, bundles = list(_held.items()), []
    _held.clear()
    for model, held in found:
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
    return f"{held.name} brings a script of its own, so it waits: %agent show widgets shows it."


def _is_held(comm: Any, msg_type: str, message: Mapping[str, Any], is_agents: bool) -> bool:
    """True if a message opens a widget that is held back, or is for one."""
    if comm.comm_id in _held:
        if msg_type == "comm_close":
            del _held[comm.comm_id]
        return True
    if not is_agents or msg_type != "comm_open" or message.get("target_name") != "jupyter.widget":
        return False
    if _may_open(_state(message["data"])):
        return False
    _held[comm.comm_id] = HeldWidget(comm, dict(message))
    while len(_held) > MOST_HELD:
        del _held[next(iter(_held))]
    return True


def _may_open(state: Mapping[str, Any]) -> bool:
    """True for a widget of ipywidgets itself that holds no widget that is held back."""
    return (
        all(state.get(name) in OWN_MODULES or state.get(name) is None for name in _MODULES)
        and state.get("_model_module") in OWN_MODULES
        and not _names_held(state)
    )


def _names_held(value: Any) -> bool:
    if not _held:
        return False
    text = json.dumps(value, default=str, skipkeys=True)
    return any(_CHILD + model in text for model in _held)


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
            if _may_change(name, value, is_own)
        },
    }


def _may_change(name: str, value: Any, is_own: bool) -> bool:
    """False for a part of a widget's state that would bring a script, or a widget with one."""
    if name in _MODULES:
        return value is None or value in OWN_MODULES or not is_own
    return name not in _SCRIPTS and not (isinstance(value, (list, str)) and _names_held(value))


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
            _held[model] = HeldWidget(held.comm, held.open_message, instances.pop(model))


def _instances() -> dict[str, Any]:
    """The widgets by which ipywidgets answers a page."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    found = getattr(module, "_instances", {})
    return found if isinstance(found, dict) else {}
