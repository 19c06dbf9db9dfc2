"""Undo: files, variables and process state go back to before a turn, and forth again.

`checkpoints.Checkpoints` is the way in for files, `namespace.Bindings` for variables, `command` for
`%agent undo`. The guarantees:

- A file that a tool writes is kept before it is written, up to a size limit.
- A file that code changes is restored if it is small or a link, is not ignored by git, is no
  notebook, and is among those that changed last. Other files that code changed are named.
- An undo moves files to the trash instead of deleting them, and leaves alone what somebody else
  has changed.
- An undo is written to a journal first. The next one completes it if it was interrupted.
"""

from jupyter_agent.undo.checkpoints import Checkpoints
from jupyter_agent.undo.plan import Undo, UndoStep
from jupyter_agent.undo.storage import StorageLimits
from jupyter_agent.undo.turn import Checkpoint

__all__ = ["Checkpoint", "Checkpoints", "StorageLimits", "Undo", "UndoStep"]
