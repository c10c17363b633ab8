"""Subwords by Hugging Face's `tokenizers`: what ``wordpiece`` and ``bytes`` are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from attnx.data.examples import Symbols
from attnx.errors import UserError
from attnx.registry.optional_deps import require

UNKNOWN = "<unk>"


class FastPieces:
    """A model of Hugging Face's `tokenizers`.

    Args:
        name: of the tokenizer, for messages.
        learn: called with the package, the texts and how many symbols; returns a trained ``Tokenizer``.
        join: symbols to text, given the package.
    """

    def __init__(
        self,
        name: str,
        learn: Callable[[Any, list[str], int], Any],
        join: Callable[[Any, Sequence[str]], str],
    ) -> None:
        self.name = name
        self.symbols: Symbols = ()
        self._learn, self._join = learn, join
        self._model: Any = None
        self._pieces: dict[int, str] = {}

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` pieces."""
        self._hold(self._learn(self._package(), list(texts), size))

    def cut(self, text: str) -> Symbols:
        """Text to pieces."""
        return tuple([self._pieces[i] for i in self._model.encode(text).ids])

    def join(self, symbols: Sequence[str]) -> str:
        """Pieces to text."""
        return self._join(self._package(), symbols)

    def save(self, path: Path) -> None:
        """Write the model, as `tokenizers` reads it."""
        self._model.save(str(path))

    def load(self, path: Path) -> None:
        """Read it."""
        package = self._package()
        try:
            text = path.read_text(encoding="utf-8")
            self._hold(package.Tokenizer.from_str(text))
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        except Exception as error:  # the package raises nothing more precise
            raise UserError(f"{path}: is no model of the package tokenizers: {error}") from error

    def _hold(self, model: Any) -> None:
        self._model = model
        self._pieces = {i: piece for piece, i in model.get_vocab().items()}
        self.symbols = tuple(sorted(set(self._pieces.values()) - {UNKNOWN}))

    def _package(self) -> Any:
        # On one thread: the loader's workers fork, and a fork after its threads ran draws a warning from the package.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        return require("tokenizers", "translation", f"task.tokenizer={self.name}")
