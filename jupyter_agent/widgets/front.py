"""The widget in the front end: one anywidget model, and the messages in both directions.

No view of it is displayed. The kernel shows an ordinary HTML output, and the model's JavaScript, if
the front end supports it, draws into that output. So nobody sees a broken widget: neither in a
front end without the package, nor in a notebook that was saved while a turn ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import traitlets
from anywidget import AnyWidget

_FOLDER = Path(__file__).parent


class Front(AnyWidget):
    """The model of one turn.

    Args:
        host: The name of the HTML output to draw into.
        kernel_id: The kernel's id on its server; empty if it is unknown.
        place: The cell and its output, for a page that is loaded meanwhile.
        receive: Called with each message of the front end, on any thread.
    """

    _esm = _FOLDER / "live.js"
    _css = _FOLDER / "live.css"
    host = traitlets.Unicode().tag(sync=True)
    kernel_id = traitlets.Unicode().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        host: str,
        kernel_id: str,
        place: Mapping[str, Any],
        receive: Callable[[Mapping[str, Any]], None],
    ) -> None:
        super().__init__(host=host, kernel_id=kernel_id, place=dict(place))
        self._receive = receive
        self.on_msg(self._take)

    def _take(self, widget: object, content: object, buffers: object) -> None:
        if isinstance(content, Mapping):
            self._receive(content)

    def owns(self, comm_id: str) -> bool:
        """True for the comm of the widget, or of the second model for its layout."""
        models = (self, self.layout)
        return any(getattr(model.comm, "comm_id", None) == comm_id for model in models if model)

    def close(self) -> None:
        """Close the widget, and the second model for its layout."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()
