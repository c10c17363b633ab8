"""Texts to symbols: the form and case they are given, and the tokenizers that cut them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.tokenizers.protocol import Tokenizer
from attnx.data.vocabulary import SPECIALS, Vocabulary

FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}


class Texts:
    """Cuts sentences and their translations as their training part taught it.

    Args:
        source: cuts sentences.
        target: cuts translations; the same one if both sides are to share their symbols.
        pieces: how many symbols each tokenizer may learn.
        lower: whether texts are put into lower case.
        form: Unicode's form that they get, ``nfc`` or ``nfkc``; ``none`` leaves them as they are.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer, pieces: int, lower: bool, form: str) -> None:
        self.source, self.target = source, target
        self.pieces, self.lower, self.form = pieces, lower, form

    def cleaned(self, sentence: Sentence) -> Sentence:
        """All its texts in the form and case asked for, with single spaces."""
        return Sentence(self.clean(sentence.source), tuple(map(self.clean, sentence.references)), sentence.tag)

    def clean(self, text: str) -> str:
        """A text likewise."""
        text = text.lower() if self.lower else text
        text = text if self.form == "none" else unicodedata.normalize(FORMS[self.form], text)
        return " ".join(text.split())

    def learn(self, sentences: Sequence[Sentence]) -> None:
        """Train the tokenizers.

        Raises:
            UserError: a package is missing, or ``pieces`` is too small.
        """
        sources = [sentence.source for sentence in sentences]
        targets = [reference for sentence in sentences for reference in sentence.references]
        if self.source is self.target:
            self.source.train(sources + targets, self.pieces)
        else:
            self.source.train(sources, self.pieces)
            self.target.train(targets, self.pieces)

    def cut(self, sentence: Sentence) -> Pair:
        """A sentence as a pair of symbols."""
        references = tuple(map(self.target.cut, sentence.references))
        return Pair(self.source.cut(sentence.source), references, sentence.tag, sentence.references)

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The source's and the target's."""
        return Vocabulary(SPECIALS + self.source.symbols), Vocabulary(SPECIALS + self.target.symbols)

    def save(self, folder: Path) -> None:
        """Write the tokenizers: ``source.tokenizer`` and, unless it is shared, ``target.tokenizer``."""
        for name, tokenizer in self._tokenizers().items():
            tokenizer.save(folder / name)

    def restore(self, folder: Path) -> None:
        """Read them.

        Raises:
            UserError: one cannot be read.
        """
        for name, tokenizer in self._tokenizers().items():
            tokenizer.load(folder / name)

    def _tokenizers(self) -> dict[str, Tokenizer]:
        shared = self.source is self.target
        sides = {"source": self.source} if shared else {"source": self.source, "target": self.target}
        return {f"{side}.tokenizer": tokenizer for side, tokenizer in sides.items()}
