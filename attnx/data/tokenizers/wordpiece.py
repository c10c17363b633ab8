"""The tokenizer ``wordpiece``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.data.tokenizers.fast_pieces import UNKNOWN, FastPieces
from attnx.data.tokenizers.protocol import alphabet, joined, require_room
from attnx.registry import register


@register("tokenizer", "wordpiece")
def wordpiece() -> FastPieces:
    """Pieces of words, the longest known one first.

    Formula: ``cut(w) = p cut(rest), p the longest prefix of w that is a symbol``
    Source: Schuster and Nakajima 2012, https://doi.org/10.1109/ICASSP.2012.6289079; Hugging Face's tokenizers,
        https://github.com/huggingface/tokenizers

    A symbol that begins a word begins with ``▁``; punctuation stands apart. A word with a character never seen is
    unknown as a whole.

    >>> tokenizer = wordpiece()
    >>> tokenizer.train(["low lower lowest"] * 5, size=17)
    >>> tokenizer.join(tokenizer.cut("lowest low"))
    'lowest low'
    """
    return FastPieces("wordpiece", _learn, _join)


def _learn(package: Any, texts: list[str], size: int) -> Any:
    require_room("wordpiece", len(alphabet(texts)), size)
    model = package.models.WordPiece(unk_token=UNKNOWN, continuing_subword_prefix="", max_input_chars_per_word=1000)
    tokenizer = package.Tokenizer(model)
    spaces, marks = package.pre_tokenizers.Metaspace(), package.pre_tokenizers.Punctuation()
    tokenizer.pre_tokenizer = package.pre_tokenizers.Sequence([spaces, marks])
    trainer = package.trainers.WordPieceTrainer(
        vocab_size=size + 1, special_tokens=[UNKNOWN], continuing_subword_prefix="", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _join(package: Any, symbols: Sequence[str]) -> str:
    del package  # the marks say it all
    return joined(symbols)
