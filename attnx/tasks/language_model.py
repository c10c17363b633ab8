"""The task ``language_model``: predict the next symbol of a text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Literal

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.paths import resolve_data_path
from attnx.data.readers.lines import read_lines
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.splits import Splits, fold_text, hold_out_missing, overlap_notes
from attnx.data.text_pipeline import TextPipeline
from attnx.data.tokenizers import Tokenizer
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.registry import PositiveInt, Probability, register
from attnx.tasks.contract import SequenceData, TaskOutput, TextTask, check_splits


@register("task", "language_model", read_if={"holdout": ["valid=null", "test=null"]})
class LanguageModel(TextTask):
    """Predict each symbol of a text from the symbols before it; there is no source.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t)``, perplexity ``exp`` of the mean, the ends included
    Source: Mikolov et al. 2010, https://www.isca-archive.org/interspeech_2010/mikolov10_interspeech.html; attention
        over earlier states: Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    ``train`` (and ``valid``, ``test``) names a text file, plain or .gz; ``lines`` non-blank lines are one text, read
    from its beginning, and its end is predicted too. A missing split is held out of the training file by a hash of the
    text: ``holdout`` of the texts for validation, twice as many for testing. ``tokenizer`` cuts texts into at most
    ``vocab_size`` different symbols, learned from the training split; other symbols are unknown, and perplexities over
    different symbols are not comparable. Texts of more than ``max_length`` symbols are cut into several.

    The model's memory is its own past, as in ``scope=history``. After training, the first half of each test text is
    continued; so are the inputs of ``attnx predict``. ``decoding=sampling`` draws the continuation at random.
    """

    monitor = "valid_perplexity"
    maximize = False
    data_files = ("train", "valid", "test")
    # The source of a pair is the prefix of its target; the model does not read it.
    is_continuation = True

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        lines: PositiveInt = 1,
        tokenizer: str = "word",
        vocab_size: PositiveInt = 10000,
        lower: bool = False,
        unicode_form: Literal["nfc", "nfkc", "none"] = "nfc",
        max_length: PositiveInt = 100,
        holdout: Probability = 0.05,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.lines, self.max_length, self.holdout, self.label_smoothing = lines, max_length, holdout, label_smoothing
        self.tokenizer: Tokenizer = registry.build("tokenizer", tokenizer)
        self.texts = TextPipeline(self.tokenizer, self.tokenizer, vocab_size, lower, unicode_form)
        self.notes: list[str] = []

    def is_right(self, output: TaskOutput, pair: Pair) -> bool | None:
        """None: a text goes on in many ways, and all may be right."""
        return None

    def load(self) -> SequenceData:
        """Read, split and tokenize the texts; ``notes`` then says how many of them are in two splits."""
        if not self.files["train"]:
            raise UserError("task.train is not set: name a text file")
        files = {part: list(self._read(part)) for part, file in self.files.items() if file}
        composed = partial(unicodedata.normalize, "NFC")  # by which parts are chosen, whatever the options make of it
        raw = hold_out_missing(files.pop("train"), files, composed, self.holdout, sort_held_out=True)
        folded = {part: list(map(fold_text, texts)) for part, texts in raw._asdict().items()}
        self.notes = overlap_notes(set(folded.pop("train")), folded)
        check_splits(raw)
        parts = Splits(*(list(map(self.texts.normalize, texts)) for texts in raw))
        self.texts.train([Sentence("", (text,)) for text in parts.train])
        train = [Pair((), (chunk,)) for text in parts.train for chunk in self._cut(text)]
        valid, test = (
            [self._evaluation_pair(chunk) for text in part for chunk in self._cut(text)]
            for part in (parts.valid, parts.test)
        )
        pairs = Splits(train, valid, test)
        check_splits(pairs)  # a text may hold nothing but what the tokenizer leaves out
        return SequenceData(pairs, self._vocabulary, self._vocabulary)

    def test_pairs(self) -> list[Pair]:
        """Read the texts of ``test`` without the other parts; a UserError if there are none."""
        texts = map(self.texts.normalize, self._read("test"))
        pairs = [self._evaluation_pair(chunk) for text in texts for chunk in self._cut(text)]
        if not pairs:
            raise UserError(f"task.test={self.files['test']}: holds no text")
        return pairs

    def _read(self, part: str) -> Iterator[str]:
        """Yield the texts of a part's file, as they are but for spaces; a UserError if there are none."""
        path = resolve_data_path(f"task.{part}", str(self.files[part]))
        non_blank = (text for _, line in read_lines(path) if (text := " ".join(line.split())))
        text = ""
        while lines := list(islice(non_blank, self.lines)):
            yield (text := " ".join(lines))
        if not text:
            raise UserError(f"{path}: holds no text")

    def _cut(self, text: str) -> Iterator[Symbols]:
        symbols = self.tokenizer.tokenize(text)
        for start in range(0, len(symbols), self.max_length):
            yield symbols[start : start + self.max_length]

    def _evaluation_pair(self, symbols: Symbols) -> Pair:
        """Return a pair whose source is the first half of the text, to be continued."""
        return Pair(symbols[: (len(symbols) + 1) // 2], (symbols,), texts=(self.detokenize(symbols),))

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """No metrics besides loss and perplexity: a continuation has no reference."""
        return {}

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return the symbols that the perplexity is over."""
        return {"perplexity": self._vocabulary.signature}

    @property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(SPECIALS + self.tokenizer.symbols)
