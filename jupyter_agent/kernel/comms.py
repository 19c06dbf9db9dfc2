"""Handles clicks in widgets while an awaited cell runs, where the kernel does not.

ipykernel 6 and 7.0 to 7.3 handle one shell message after the other, so that a widget's message
waits until the cell is over. From 7.4 on the kernel handles it itself while the cell awaits. While
code holds the main thread it waits there, too; and so does a page that is loaded meanwhile, which
asks what the kernel can do, which widgets it has, and what their state is.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import Any

from jupyter_agent.kernel.shadow import swapped

_INTERVAL = 0.05
_DELIMITER = b"<IDS|MSG>"
_HEADER, _CONTENT = 2, 5
"""Frames after the delimiter."""
_KINDS = frozenset({"comm_msg", "comm_close"})
_FIRST_REQUESTS = frozenset({"kernel_info_request", "comm_info_request"})
"""What a page asks before it can speak to a widget."""


class Clicks:
    """Takes the messages of widgets out of a busy kernel's queue, and handles them.

    All others stay in their order: the next cell runs after this one.

    Args:
        kernel: The kernel that the shell belongs to.
        is_own: Returns True for the id of a comm whose messages any thread may handle.
    """

    def __init__(self, kernel: Any, is_own: Callable[[str], bool] = lambda comm_id: False) -> None:
        self._kernel = kernel
        self._is_own = is_own
        self._ending = threading.Lock()
        self._is_over = False
        self._undo = ExitStack()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running event loop."""
        dispatch = inspect.signature(self._kernel.dispatch_shell).parameters
        if isinstance(getattr(self._kernel, "_main_asyncio_lock", None), asyncio.Lock):
            if "concurrent" not in dispatch:
                self._open_the_lock()
            elif getattr(self._kernel, "shell_channel_thread", None) is not None:
                self._answer_at_once()
        elif hasattr(self._kernel, "msg_queue"):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        with self._ending:
            self._is_over = True
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

    def _answer_at_once(self) -> None:
        """ipykernel 7.4: the thread that reads the shell channel handles some messages itself.

        These are a page's first requests, and those to comms of our own. All others go where the
        kernel sends them.
        """
        kernel, thread = self._kernel, self._kernel.shell_channel_thread
        busy_with = kernel.get_parent("shell")

        async def answer_or_pass_on(frames: Sequence[Any]) -> None:
            if not self._is_for_any_thread(frames):
                await kernel.shell_channel_thread_main(frames)
                return
            try:
                identities, message = self._read(frames)
                # In this thread alone: the running cell has another parent for its outputs.
                kernel._shell_parent.set(message)
                kernel._publish_status("busy", "shell", parent=message)
                handle = kernel.shell_handlers[message["header"]["msg_type"]]
                handled = handle(kernel.shell_stream, identities, message)
                if inspect.isawaitable(handled):
                    await handled
                kernel._publish_status("idle", "shell", parent=message)
                with self._ending:  # not after the cell's own "idle"
                    if not self._is_over:
                        kernel._publish_status("busy", "shell", parent=busy_with)
            except Exception:
                logging.getLogger(__name__).debug("A page was not answered.", exc_info=True)

        def receive(handler: Callable[[Sequence[Any]], Any]) -> None:
            thread.io_loop.add_callback(kernel.shell_stream.on_recv, handler, copy=False)

        receive(answer_or_pass_on)
        self._undo.callback(receive, kernel.shell_channel_thread_main)

    def _is_for_any_thread(self, frames: Sequence[Any]) -> bool:
        kind = _kind(frames)
        if kind not in _KINDS:
            return kind in _FIRST_REQUESTS
        return self._is_own(str(_part(frames, _CONTENT).get("comm_id", "")))

    def _read(self, frames: Sequence[Any]) -> tuple[Any, Any]:
        """The sender and the message of some frames."""
        session = self._kernel.session
        identities, rest = session.feed_identities(frames, copy=False)
        return identities, session.deserialize(rest, content=True, copy=False)

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
        identities, message = self._read(frames)
        kernel._publish_status("busy", "shell", parent=message)
        handle = kernel.shell_handlers[message["header"]["msg_type"]]
        handle(kernel.shell_stream, identities, message)
        kernel._publish_status("idle", "shell", parent=message)


def _kind(frames: Any) -> str:
    return str(_part(frames, _HEADER).get("msg_type", ""))


def _part(frames: Any, number: int) -> Mapping[str, Any]:
    """A part of a message, read from its frames without the session's check of duplicates."""
    with suppress(Exception):
        raw = [bytes(frame) for frame in frames]
        part = json.loads(raw[raw.index(_DELIMITER) + number])
        return part if isinstance(part, Mapping) else {}
    return {}
