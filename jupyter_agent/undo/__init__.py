"""Undo: files from before each turn, bindings of variables, and the way back to them.

`store.Checkpoints` is the way in for files, `namespace.Bindings` for variables, `command` for
`%agent undo`. What is guaranteed:

- A file that a tool writes is kept before, up to a limit per file.
- A file that code changes can be restored where it is small or a link, is not ignored by git, is
  no notebook, and is among those that changed last. Of others it is noticed that they changed,
  and they are named.
- What an undo removes goes to the trash, never away. What somebody else has changed stays.
- What an undo does is written down first: interrupted at any point, it is carried on.
"""

from jupyter_agent.undo.storage import StorageLimits
from jupyter_agent.undo.store import Checkpoints
from jupyter_agent.undo.turn import Checkpoint, Touched
from jupyter_agent.undo.undo import UndoneFile, UndoPlan, UndoResult, UndoStep

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "StorageLimits",
    "Touched",
    "UndoPlan",
    "UndoResult",
    "UndoStep",
    "UndoneFile",
]
