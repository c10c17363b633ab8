"""The text pipeline: normalizes texts, tokenizes them, and joins symbols to texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.tokenizers import Tokenizer
from attnx.data.vocabulary import SPECIALS, UNK, UNK_TEXT, Vocabulary

UNICODE_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}


class TextPipeline:
    """Normalizes and tokenizes sentences and their translations; one tokenizer for both sides shares a vocabulary."""

    def __init__(self, source: Tokenizer, target: Tokenizer, vocab_size: int, lower: bool, unicode_form: str) -> None:
        self.source, self.target = source, target
        self.vocab_size, self.lower, self.unicode_form = vocab_size, lower, unicode_form

    def normalize_sentence(self, sentence: Sentence) -> Sentence:
        """Normalize all texts of a sentence."""
        references = tuple(map(self.normalize, sentence.references))
        return Sentence(self.normalize(sentence.source), references, sentence.tag)

    def normalize(self, text: str) -> str:
        """Apply case, Unicode form and single spaces."""
        text = self._unify(text)
        # Twice: composing can make capital letters, and lower-casing can take letters and marks apart.
        return " ".join((self._unify(text.lower()) if self.lower else text).split())

    def _unify(self, text: str) -> str:
        return text if self.unicode_form == "none" else unicodedata.normalize(UNICODE_FORMS[self.unicode_form], text)

    def train(self, sentences: Sequence[Sentence]) -> None:
        """Train the tokenizers; a UserError if a package is missing or ``vocab_size`` is too small."""
        sources = [sentence.source for sentence in sentences]
        targets = [reference for sentence in sentences for reference in sentence.references]
        is_shared = self.source is self.target
        self.source.train(sources + targets if is_shared else sources, self.vocab_size)
        if not is_shared:
            self.target.train(targets, self.vocab_size)

    def tokenize(self, sentence: Sentence) -> Pair:
        """Tokenize a sentence and its translations."""
        references = tuple(map(self.target.tokenize, sentence.references))
        return Pair(self.source.tokenize(sentence.source), references, sentence.tag, sentence.references)

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Join target symbols to a text; an unknown one reads ``⁇``."""
        return self.target.detokenize([UNK_TEXT if symbol == SPECIALS[UNK] else symbol for symbol in symbols])

    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Return the source and the target vocabulary."""
        return Vocabulary(SPECIALS + self.source.symbols), Vocabulary(SPECIALS + self.target.symbols)

    def save(self, folder: Path) -> None:
        """Write ``source.tokenizer`` and, unless it is shared, ``target.tokenizer``."""
        for name, tokenizer in self._tokenizers().items():
            tokenizer.save(folder / name)

    def restore(self, folder: Path) -> None:
        """Read the tokenizers; a UserError if one cannot be read."""
        for name, tokenizer in self._tokenizers().items():
            tokenizer.load(folder / name)

    def _tokenizers(self) -> dict[str, Tokenizer]:
        target = {} if self.source is self.target else {"target.tokenizer": self.target}
        return {"source.tokenizer": self.source, **target}
