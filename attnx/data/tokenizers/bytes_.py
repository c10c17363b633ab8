"""The tokenizer ``bytes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.data.tokenizers.fast_pieces import FastPieces
from attnx.data.tokenizers.protocol import require_room
from attnx.registry import register


@register("tokenizer", "bytes")
def bytes_() -> FastPieces:
    """Byte-pair encoding of a text's UTF-8 bytes: nothing is ever unknown.

    Formula: ``merge argmax_(a, b) count(a b), until there are enough; at first every byte is a symbol``
    Source: Radford et al. 2019, section 2.2, https://github.com/openai/gpt-2; Hugging Face's tokenizers,
        https://github.com/huggingface/tokenizers

    Symbols are shown as that package shows bytes: ``Ġ`` is a space, ``Ã¤`` an ä. A broken character becomes ``�``.

    >>> tokenizer = bytes_()
    >>> tokenizer.train(["low lower lowest"] * 5, size=257)
    >>> tokenizer.cut("low ä"), tokenizer.join(["Ġ", "Ã", "¤"])
    (('Ġ', 'lo', 'w', 'Ġ', 'Ã', '¤'), 'ä')
    """
    return FastPieces("bytes", _learn, _join)


def _learn(package: Any, texts: list[str], size: int) -> Any:
    level = package.pre_tokenizers.ByteLevel
    require_room("bytes", len(level.alphabet()), size)
    tokenizer = package.Tokenizer(package.models.BPE())
    tokenizer.pre_tokenizer = level(add_prefix_space=True)
    trainer = package.trainers.BpeTrainer(vocab_size=size, initial_alphabet=level.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _join(package: Any, symbols: Sequence[str]) -> str:
    return " ".join(str(package.decoders.ByteLevel().decode(list(symbols))).split())
