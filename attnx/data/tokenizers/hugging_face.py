"""The tokenizers ``wordpiece`` and ``bytes``: subwords by Hugging Face's `tokenizers`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.data.examples import Symbols
from attnx.data.tokenizers import alphabet, check_size, join_pieces
from attnx.errors import UserError
from attnx.files.atomic_files import write_text
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.registry import register
from attnx.registry.dependencies import require_package

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN = "<unk>"


class HuggingFaceTokenizer:
    """A model of `tokenizers`; subclasses train it and join its symbols."""

    name: str
    _model: Tokenizer

    def __init__(self) -> None:
        self.symbols: Symbols = ()
        self._pieces: dict[int, str] = {}

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` symbols."""
        self._set_model(self._train_model(self._package(), list(texts), size))

    def tokenize(self, text: str) -> Symbols:
        """Text to symbols."""
        return tuple([self._pieces[i] for i in self._model.encode(text).ids])

    def save(self, path: Path) -> None:
        """Write the model in the format of `tokenizers`."""
        write_text(path, self._model.to_str(pretty=True))

    def load(self, path: Path) -> None:
        """Read the model."""
        package, model = self._package(), read_bytes(path, MAX_LIST_BYTES)
        try:
            self._set_model(package.Tokenizer.from_buffer(model))
        except Exception as error:  # the package raises nothing more precise
            raise UserError(f"{path}: is not a model of the package tokenizers: {error}") from error

    def _train_model(self, package: Any, texts: list[str], size: int) -> Tokenizer:
        raise NotImplementedError

    def _set_model(self, model: Tokenizer) -> None:
        self._model = model
        self._pieces = {i: piece for piece, i in model.get_vocab().items()}
        self.symbols = tuple(sorted(set(self._pieces.values()) - {UNKNOWN}))

    def _package(self) -> Any:
        # On one thread: ranks and jobs fork, and a fork after its threads ran draws a warning from the package.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        return require_package("tokenizers", "translation", f"task.tokenizer={self.name}")


@register("tokenizer", "wordpiece")
class WordPiece(HuggingFaceTokenizer):
    """Pieces of words, the longest known one first.

    Formula: ``tokenize(w) = p tokenize(w after p), p the longest prefix of w that is a symbol``
    Source: Schuster and Nakajima 2012, https://doi.org/10.1109/ICASSP.2012.6289079; Hugging Face's tokenizers,
        https://github.com/huggingface/tokenizers

    A symbol that starts a word starts with ``▁``; punctuation marks are symbols of their own. A word with an unseen
    character is one unknown symbol.

    >>> tokenizer = WordPiece()
    >>> tokenizer.train(["low lower lowest"] * 5, size=17)
    >>> tokenizer.detokenize(tokenizer.tokenize("lowest low"))
    'lowest low'
    """

    name = "wordpiece"

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Symbols to text."""
        return join_pieces(symbols)

    def _train_model(self, package: Any, texts: list[str], size: int) -> Tokenizer:
        check_size(self.name, len(alphabet(texts)), size)
        model = package.models.WordPiece(unk_token=UNKNOWN, continuing_subword_prefix="", max_input_chars_per_word=1000)
        tokenizer: Tokenizer = package.Tokenizer(model)
        spaces, marks = package.pre_tokenizers.Metaspace(), package.pre_tokenizers.Punctuation()
        tokenizer.pre_tokenizer = package.pre_tokenizers.Sequence([spaces, marks])
        trainer = package.trainers.WordPieceTrainer(
            vocab_size=size + 1, special_tokens=[UNKNOWN], continuing_subword_prefix="", show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return tokenizer


@register("tokenizer", "bytes")
class Bytes(HuggingFaceTokenizer):
    """Byte-pair encoding of a text's UTF-8 bytes: nothing is unknown.

    Formula: ``merge argmax_(a, b) count(a b), until there are enough; at first every byte is a symbol``
    Source: Radford et al. 2019, section 2.2, https://github.com/openai/gpt-2; Hugging Face's tokenizers,
        https://github.com/huggingface/tokenizers

    Symbols show bytes as that package does: ``Ġ`` is a space, ``Ã¤`` an ä. A broken character becomes ``�``.

    >>> tokenizer = Bytes()
    >>> tokenizer.train(["low lower lowest"] * 5, size=257)
    >>> tokenizer.tokenize("low ä"), tokenizer.detokenize(["Ġ", "Ã", "¤"])
    (('Ġ', 'lo', 'w', 'Ġ', 'Ã', '¤'), 'ä')
    """

    name = "bytes"

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Symbols to text."""
        return " ".join(str(self._package().decoders.ByteLevel().decode(list(symbols))).split())

    def _train_model(self, package: Any, texts: list[str], size: int) -> Tokenizer:
        byte_level = package.pre_tokenizers.ByteLevel
        check_size(self.name, len(byte_level.alphabet()), size)
        tokenizer: Tokenizer = package.Tokenizer(package.models.BPE())
        tokenizer.pre_tokenizer = byte_level(add_prefix_space=True)
        trainer = package.trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=byte_level.alphabet(), show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return tokenizer
