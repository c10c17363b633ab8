"""The task ``language_model``: what comes next in a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.paths import fill_in
from attnx.data.readers.lines import read_lines
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.split import Splits, bounds, met_in_training, place
from attnx.data.text_pipeline import Texts
from attnx.data.tokenizers.protocol import Tokenizer
from attnx.data.vocabulary import SPECIALS, UNK, Vocabulary
from attnx.errors import UserError
from attnx.registry import Positive, Probability, register
from attnx.tasks.protocols import SequenceData

# How the unknown symbol reads in a text: as one word, whatever cuts it.
UNKNOWN = "⁇"


@register("task", "language_model")
class LanguageModel:
    """Predict each symbol of a text from those before it; nothing else is read.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t)``, perplexity ``exp`` of the mean, the ends included
    Source: Mikolov et al. 2010, https://www.isca-archive.org/interspeech_2010/mikolov10_interspeech.html; attending to
        the own past: Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    ``train`` (and ``valid``, ``test``) names a text file, plain or .gz; ``lines`` lines that are not blank are one
    text, read from its beginning, and its end is predicted, too. A part that is left out is held out of the training
    file by a hash of the text: ``holdout`` of them for validation, twice as many for testing. ``tokenizer`` cuts texts
    into at most ``vocab_size`` different symbols, learned from the training part; other symbols are one, the unknown
    one, and perplexities of unlike symbols cannot be compared. Texts of more than ``max_length`` symbols are cut into
    several.

    A model of it has no source: its memory is its own past, as in ``scope=history``. After training each test text's
    first half is gone on with, and so is what is given to ``attnx predict``; ``decoding=sampling`` writes by chance.
    """

    monitor = "valid_perplexity"
    maximize = False
    data_files = ("train", "valid", "test")
    # What would be a source is how the target begins; the model reads none.
    continues = True

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        lines: Positive = 1,
        tokenizer: str = "word",
        vocab_size: Positive = 10000,
        lower: bool = False,
        unicode_form: Literal["nfc", "nfkc", "none"] = "nfc",
        max_length: Positive = 100,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.lines, self.max_length, self.holdout, self.smoothing = lines, max_length, holdout, smoothing
        self.tokenizer: Tokenizer = registry.build("tokenizer", tokenizer)
        self.texts = Texts(self.tokenizer, self.tokenizer, vocab_size, lower, unicode_form)
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read, split and cut the texts; ``notes`` then tells which of them are in two parts.

        Raises:
            UserError: a file is missing or malformed, with file and line, or a part is empty.
        """
        if not self.files["train"]:
            raise UserError("task.train is not set: name a text file")
        parts = self._split({part: list(self._read(part)) for part, file in self.files.items() if file})
        for name, texts in parts.items():
            if not texts:
                mend = "lower task.holdout" if name == "train" else f"raise task.holdout, or name a task.{name}"
                raise UserError(f"the {name} part holds no text; {mend}")
        self.texts.learn([Sentence("", (text,)) for text in parts["train"]])
        valid, test = (
            [self._begun(cut) for text in parts[name] for cut in self._cut(text)] for name in ("valid", "test")
        )
        pairs = Splits([Pair((), (cut,)) for text in parts["train"] for cut in self._cut(text)], valid, test)
        vocabulary = Vocabulary(SPECIALS + self.tokenizer.symbols)
        return SequenceData(pairs, vocabulary, vocabulary)

    def test_pairs(self) -> list[Pair]:
        """The texts of ``test``; what was trained on is not looked at."""
        return [self._begun(cut) for text in self._read("test") for cut in self._cut(text)]

    def _read(self, part: str) -> Iterator[str]:
        """The texts of a part's file, so many lines each."""
        lines = read_lines(fill_in(f"task.{part}", str(self.files[part])))
        full = (text for _, line in lines if (text := self.texts.clean(line)))
        while text := " ".join(islice(full, self.lines)):
            yield text

    def _split(self, given: dict[str, list[str]]) -> dict[str, list[str]]:
        low, high = bounds(self.holdout, given)
        placed = [(place((text,)), text) for text in given["train"]]
        held = sorted(one for one in placed if not low <= one[0] < high)
        parts = {
            "train": [text for at, text in placed if low <= at < high],
            "valid": given.get("valid", [text for at, text in held if at >= high]),
            "test": given.get("test", [text for at, text in held if at < low]),
        }
        known = set(parts["train"])
        self.notes = []
        for name in ("valid", "test"):
            self.notes += met_in_training(name, sum(text in known for text in parts[name]), len(parts[name]))
        return parts

    def _cut(self, text: str) -> Iterator[Symbols]:
        symbols = self.tokenizer.cut(text)
        for start in range(0, len(symbols), self.max_length):
            yield symbols[start : start + self.max_length]

    def _begun(self, symbols: Symbols) -> Pair:
        """A text to be judged, and its first half to go on with."""
        return Pair(symbols[: (len(symbols) + 1) // 2], (symbols,), texts=(self.text(symbols),))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """None: loss and perplexity are what counts, and what is gone on with has no right answer."""
        return {}

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Nothing to show."""

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """How a text begins.

        Raises:
            UserError: it is blank.
        """
        symbols = self.tokenizer.cut(self.texts.clean(text))
        if not symbols:
            raise UserError(f"{text!r} holds nothing to go on with")
        return symbols

    def text(self, symbols: Sequence[str]) -> str:
        """Symbols as text; an unknown one reads ``⁇``."""
        return self.tokenizer.join([UNKNOWN if symbol == SPECIALS[UNK] else symbol for symbol in symbols])

    def save(self, folder: Path) -> None:
        """Write the tokenizer, ``source.tokenizer``."""
        self.texts.save(folder)

    def restore(self, folder: Path) -> None:
        """Read it."""
        self.texts.restore(folder)
