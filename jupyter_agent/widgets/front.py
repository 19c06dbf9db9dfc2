"""The widget in the front end: one anywidget model, and the messages that go both ways.

No view of it is displayed. The kernel shows an ordinary HTML output, and the model's JavaScript,
where a front end has it, moves in there. So nobody sees a widget that cannot be shown: not where
the front end lacks the package, and not in a notebook that was saved while a turn ran.
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
        host: Names the HTML output to move into.
        kernel_id: The kernel as the server knows it; empty where that is not known.
        place: The cell, and the output that stands in it, for a page that is loaded meanwhile.
        receive: Takes each message of the front end, on whatever thread it arrives.
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

    def close(self) -> None:
        """Leave nothing behind: a widget has a second model for its layout."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()
