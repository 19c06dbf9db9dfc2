"""Handles clicks in widgets while an awaited cell runs, for kernels that do not.

ipykernel 6 and 7.0 to 7.3 handle one shell message after the other, so that a widget's message
waits until the cell is over. From 7.4 on the kernel handles it itself: there is nothing to do.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import Any

from jupyter_agent.kernel.shadow import swapped

_INTERVAL = 0.05
_DELIMITER = b"<IDS|MSG>"
_KINDS = frozenset({"comm_msg", "comm_close"})


class Clicks:
    """Takes the messages of widgets out of a busy kernel's queue, and handles them.

    All others stay in their order: the next cell runs after this one.

    Args:
        kernel: The kernel that the shell belongs to.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._undo = ExitStack()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running event loop. Does nothing if the kernel needs no help."""
        dispatch = inspect.signature(self._kernel.dispatch_shell).parameters
        if isinstance(getattr(self._kernel, "_main_asyncio_lock", None), asyncio.Lock):
            if "concurrent" not in dispatch:
                self._open_the_lock()
        elif hasattr(self._kernel, "msg_queue"):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        self._undo.close()
        if self._task is not None:
            self._task.cancel()

    def _open_the_lock(self) -> None:
        """ipykernel 7.0 to 7.3: clicks pass, all other messages wait for the running cell."""
        kernel = self._kernel
        lock, dispatch = kernel._main_asyncio_lock, kernel.dispatch_shell

        async def dispatch_or_wait(frames: Sequence[Any], *rest: Any, **named: Any) -> None:
            if named.get("subshell_id") is not None:
                await dispatch(frames, *rest, **named)
            elif _kind(frames) in _KINDS:
                self._handle(frames)
            else:
                async with lock:
                    await dispatch(frames, *rest, **named)

        self._undo.enter_context(swapped(kernel, "_main_asyncio_lock", nullcontext()))
        self._undo.enter_context(swapped(kernel, "dispatch_shell", dispatch_or_wait))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            for frames in self._taken():
                try:
                    self._handle(frames)
                except Exception:
                    logging.getLogger(__name__).debug("A click was not handled.", exc_info=True)

    def _taken(self) -> list[Sequence[Any]]:
        """Takes the waiting messages of widgets from the queue; puts the others back."""
        queue, taken, others = self._kernel.msg_queue, [], []
        for _ in range(queue.qsize()):
            number, dispatch, arguments = queue.get_nowait()
            if arguments and _kind(arguments[0]) in _KINDS:
                taken.append(arguments[0])
            else:
                others.append((number, dispatch, arguments))
        for item in others:
            queue.put_nowait(item)
        return taken

    def _handle(self, frames: Sequence[Any]) -> None:
        # Not by the kernel's own dispatch: the message would become the parent of the running
        # cell's outputs, and another handler would replace the turn's for SIGINT.
        kernel = self._kernel
        identities, rest = kernel.session.feed_identities(frames, copy=False)
        message = kernel.session.deserialize(rest, content=True, copy=False)
        kernel._publish_status("busy", "shell", parent=message)
        handle = kernel.shell_handlers[message["header"]["msg_type"]]
        handle(kernel.shell_stream, identities, message)
        kernel._publish_status("idle", "shell", parent=message)


def _kind(frames: Any) -> str:
    """A message's type, read from its frames without the session's check of duplicates."""
    with suppress(Exception):
        raw = [bytes(frame) for frame in frames]
        header = json.loads(raw[raw.index(_DELIMITER) + 2])
        return str(header.get("msg_type", ""))
    return ""
