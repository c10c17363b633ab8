"""The tokenizers ``bpe`` and ``unigram``: subwords by SentencePiece."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnx.data.examples import Symbols
from attnx.data.tokenizers import alphabet, check_size, join_pieces
from attnx.errors import UserError, in_a_line
from attnx.files.atomic_files import write_bytes
from attnx.files.bounded_files import MAX_LIST_BYTES, read_bytes
from attnx.registry import register
from attnx.registry.dependencies import require_package

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

UNK_ID = 0


class SentencePieceTokenizer:
    """A SentencePiece model; symbols that start a word start with ``▁``.

    Texts are not normalized again (``task.unicode_form`` and ``task.lower`` come before), and every character of the
    training texts is a symbol. Training runs on one thread: the same texts give the same symbols.
    """

    model_type: str
    _processor: SentencePieceProcessor

    def __init__(self) -> None:
        self.symbols: Symbols = ()
        self._pieces: list[str] = []

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` symbols."""
        texts = list(texts)
        check_size(self.model_type, len(alphabet(texts)), size)
        model = io.BytesIO()
        try:
            self._package().SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=model,
                model_type=self.model_type,
                vocab_size=size + 1,  # and the unknown symbol
                hard_vocab_limit=False,  # a small text may have fewer
                character_coverage=1.0,
                normalization_rule_name="identity",
                max_sentence_length=2**30,
                unk_id=UNK_ID,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            problem = f"task.tokenizer={self.model_type} learns nothing from the training texts"
            remedy = "it leaves out texts with ▅ or of ▁ alone: remove these marks, or use task.tokenizer=bytes"
            raise UserError(f"{problem}; {remedy} ({in_a_line(error)})") from error
        self._set_model(model.getvalue())

    def tokenize(self, text: str) -> Symbols:
        """Text to symbols."""
        ids = self._processor.encode(text)
        if UNK_ID in ids:
            return tuple(self._processor.encode(text, out_type=str))  # unknown characters as they are
        return tuple([self._pieces[i] for i in ids])

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Symbols to text."""
        return join_pieces(symbols)

    def save(self, path: Path) -> None:
        """Write the model in SentencePiece's format."""
        write_bytes(path, self._processor.serialized_model_proto())

    def load(self, path: Path) -> None:
        """Read the model."""
        model = read_bytes(path, MAX_LIST_BYTES)
        try:
            self._set_model(model)
        except RuntimeError as error:
            raise UserError(f"{path}: is not a SentencePiece model") from error

    def _set_model(self, model: bytes) -> None:
        self._processor = self._package().SentencePieceProcessor(model_proto=model)
        self._pieces = [self._processor.id_to_piece(i) for i in range(len(self._processor))]
        self.symbols = tuple(sorted(self._pieces[UNK_ID + 1 :]))

    def _package(self) -> Any:
        return require_package("sentencepiece", "translation", f"task.tokenizer={self.model_type}")


@register("tokenizer", "bpe")
class Bpe(SentencePieceTokenizer):
    """Byte-pair encoding: starting from characters, the most frequent pair of neighbors becomes one symbol.

    Formula: ``merge argmax_(a, b) count(a b), until there are enough``
    Source: Sennrich et al. 2016, https://arxiv.org/abs/1508.07909; SentencePiece, Kudo and Richardson 2018,
        https://arxiv.org/abs/1808.06226

    Frequent words are one symbol, rare ones several; only unseen characters are unknown.

    >>> tokenizer = Bpe()
    >>> tokenizer.train(["low lower lowest"] * 5, size=11)
    >>> tokenizer.tokenize("slow low"), tokenizer.detokenize(["▁low", "er", "▁s", "low"])
    (('▁', 's', 'low', '▁low'), 'lower slow')
    """

    model_type = "bpe"


@register("tokenizer", "unigram")
class Unigram(SentencePieceTokenizer):
    """The most probable segmentation under a unigram language model of pieces.

    Formula: ``tokenize(x) = argmax over p_1 ... p_n = x of prod_i p(p_i)``
    Source: Kudo 2018, https://arxiv.org/abs/1804.10959; SentencePiece, https://arxiv.org/abs/1808.06226

    Training starts with many pieces and drops those that explain the text least. Segments follow morphemes more often
    than those of ``bpe``; training takes longer.

    >>> tokenizer = Unigram()
    >>> tokenizer.train(["low lower lowest"] * 5, size=11)
    >>> tokenizer.detokenize(tokenizer.tokenize("lowest low"))
    'lowest low'
    """

    model_type = "unigram"
