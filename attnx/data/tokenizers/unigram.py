"""The tokenizer ``unigram``."""

from __future__ import annotations

from attnx.data.tokenizers.sentence_pieces import SentencePieces
from attnx.registry import register


@register("tokenizer", "unigram")
def unigram() -> SentencePieces:
    """Pieces as a language model of independent symbols: the likeliest cut of a text is taken.

    Formula: ``cut(x) = argmax over p_1 ... p_n = x of prod_i p(p_i)``
    Source: Kudo 2018, https://arxiv.org/abs/1804.10959; SentencePiece, https://arxiv.org/abs/1808.06226

    It starts with many pieces and drops those that explain the text least. Cuts follow word parts more often than those
    of ``bpe``; learning takes longer.

    >>> tokenizer = unigram()
    >>> tokenizer.train(["low lower lowest"] * 5, size=11)
    >>> tokenizer.join(tokenizer.cut("lowest low"))
    'lowest low'
    """
    return SentencePieces("unigram")
