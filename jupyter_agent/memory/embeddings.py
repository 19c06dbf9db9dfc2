"""Vectors of texts, by a static model of embeddings (model2vec) at a path that the person sets."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jupyter_agent.errors import ConfigError

PACKAGE = "model2vec"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""The files of a model, as `StaticModel.save_pretrained` writes them."""


class Embeddings:
    """A model of embeddings. Nothing is imported or read before it is first used.

    Args:
        folder: The model's folder. Nothing is ever fetched from elsewhere.

    Raises:
        ConfigError: The package is missing, or the folder holds no model.
    """

    def __init__(self, folder: Path) -> None:
        if lacking := [name for name in FILES if not (folder / name).is_file()]:
            what = f"has no {lacking[0]}" if folder.is_dir() else "is no folder"
            raise ConfigError(
                f"memory.embeddings: {folder} {what}. Give the folder of a model2vec model."
            )
        if importlib.util.find_spec(PACKAGE) is None:
            raise ConfigError(
                f"memory.embeddings needs the package {PACKAGE}. "
                "Install it: pip install 'jupyter-agent-magics[semantic]'"
            )
        self._folder = folder

    @cached_property
    def identity(self) -> str:
        """A name for this very model, which changes with its files."""
        stats = [(self._folder / name).stat() for name in FILES]
        stamps = [(self._folder.as_posix(), found.st_mtime_ns, found.st_size) for found in stats]
        return hashlib.blake2b(repr(stamps).encode(), digest_size=12).hexdigest()

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """A vector of length 1 for each text (zeros where no word is known), as float32.

        Raises:
            ConfigError: The model cannot be loaded.
        """
        return [row.tobytes() for row in self._matrix(texts)]

    def nearest(self, query: str, vectors: Sequence[bytes], limit: int) -> list[int]:
        """The places of the vectors nearest to a query, by cosine; ties in the given order.

        Vectors that have nothing in common with the query, and those of another length, are left
        out.

        Raises:
            ConfigError: The model cannot be loaded.
        """
        import numpy as np

        asked = self._matrix([query])[0]
        fitting = [place for place, data in enumerate(vectors) if len(data) == asked.nbytes]
        if not fitting:
            return []
        data = b"".join(vectors[place] for place in fitting)
        scores = np.frombuffer(data, np.float32).reshape(len(fitting), -1) @ asked
        order = np.argsort(-scores, kind="stable")[:limit]
        return [fitting[int(place)] for place in order if scores[place] > 0]

    def _matrix(self, texts: Sequence[str]) -> Any:
        import numpy as np

        made = np.asarray(self._model.encode(list(texts)), np.float32)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return np.divide(made, lengths, out=np.zeros_like(made), where=lengths > 0)

    @cached_property
    def _model(self) -> Any:
        try:
            from model2vec import StaticModel

            return StaticModel.from_pretrained(self._folder)
        except Exception as error:
            raise ConfigError(
                f"memory.embeddings: {self._folder} cannot be loaded: "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}."
            ) from None
