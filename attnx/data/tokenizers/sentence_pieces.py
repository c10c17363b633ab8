"""Subwords by SentencePiece: what the tokenizers ``bpe`` and ``unigram`` are made of."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attnx.data.examples import Symbols
from attnx.data.tokenizers.protocol import alphabet, joined, require_room
from attnx.errors import UserError
from attnx.registry.optional_deps import require

UNKNOWN = 0


class SentencePieces:
    """A SentencePiece model; symbols that begin a word begin with ``▁``.

    The text is taken as it is (``task.unicode_form`` and ``task.lower`` come before), and every character of the
    training text is a symbol. Training runs on one thread: the same text gives the same pieces.

    Args:
        kind: ``bpe`` or ``unigram``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.symbols: Symbols = ()
        self._processor: Any = None
        self._pieces: list[str] = []

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` pieces."""
        listed = list(texts)
        require_room(self.kind, len(alphabet(listed)), size)
        written = io.BytesIO()
        self._package().SentencePieceTrainer.train(
            sentence_iterator=iter(listed),
            model_writer=written,
            model_type=self.kind,
            vocab_size=size + 1,  # and one for what is unknown
            hard_vocab_limit=False,  # a small text may have fewer
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=2**30,
            unk_id=UNKNOWN,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            num_threads=1,
            minloglevel=2,
        )
        self._open(written.getvalue())

    def cut(self, text: str) -> Symbols:
        """Text to pieces."""
        ids = self._processor.encode(text)
        if UNKNOWN in ids:
            return tuple(self._processor.encode(text, out_type=str))  # which says what it is
        return tuple([self._pieces[i] for i in ids])

    def join(self, symbols: Sequence[str]) -> str:
        """Pieces to text."""
        return joined(symbols)

    def save(self, path: Path) -> None:
        """Write the model, as SentencePiece's own tools read it."""
        path.write_bytes(self._processor.serialized_model_proto())

    def load(self, path: Path) -> None:
        """Read it."""
        try:
            self._open(path.read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        except RuntimeError as error:
            raise UserError(f"{path}: is no SentencePiece model") from error

    def _open(self, model: bytes) -> None:
        self._processor = self._package().SentencePieceProcessor(model_proto=model)
        self._pieces = [self._processor.id_to_piece(i) for i in range(len(self._processor))]
        self.symbols = tuple(sorted(self._pieces[UNKNOWN + 1 :]))

    def _package(self) -> Any:
        return require("sentencepiece", "translation", f"task.tokenizer={self.kind}")
