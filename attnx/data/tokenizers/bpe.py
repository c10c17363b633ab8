"""The tokenizer ``bpe``."""

from __future__ import annotations

from attnx.data.tokenizers.sentence_pieces import SentencePieces
from attnx.registry import register


@register("tokenizer", "bpe")
def bpe() -> SentencePieces:
    """Byte-pair encoding: from single characters on, the most frequent neighbors become one symbol.

    Formula: ``merge argmax_(a, b) count(a b), until there are enough``
    Source: Sennrich et al. 2016, https://arxiv.org/abs/1508.07909; SentencePiece, Kudo and Richardson 2018,
        https://arxiv.org/abs/1808.06226

    Frequent words stay whole, rare ones fall into parts; only characters never seen are unknown.

    >>> tokenizer = bpe()
    >>> tokenizer.train(["low lower lowest"] * 5, size=11)
    >>> tokenizer.cut("slow low"), tokenizer.join(["▁low", "er", "▁s", "low"])
    (('▁', 's', 'low', '▁low'), 'lower slow')
    """
    return SentencePieces("bpe")
