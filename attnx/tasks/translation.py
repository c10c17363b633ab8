"""The task ``translation``: from a sentence to its translation, into one language or into several."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from torch import nn

from attnx import registry
from attnx.data.filters import EMPTY, keep_fitting, told
from attnx.data.held_out import complete, known_sources
from attnx.data.hugging_face import read_dataset
from attnx.data.pairs import Pair, Symbols
from attnx.data.parallel import Sentence, read_parallel
from attnx.data.paths import fill_in
from attnx.data.split import Splits
from attnx.data.tokenisers.protocol import Tokeniser
from attnx.data.vocabulary import SPECIALS, UNK, Vocabulary
from attnx.errors import UserError, near_misses
from attnx.extras import need
from attnx.metrics.per_tag import MACRO, PerTag, of_each, show
from attnx.registry import Positive, Probability, Rate, register
from attnx.tasks.protocols import SequenceData, tags_of

SCORES = ("bleu", "chrf", "ter")
FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
# How the unknown symbol reads in a text: as one word, whatever cuts it.
UNKNOWN = "⁇"


@register("task", "translation")
class Translation:
    """Translate sentences: text in, text in another language out.

    Formula: ``minimise -sum_t log p(symbol_t | symbols_<t, source)``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; one model, several languages: Johnson et al. 2017,
        https://arxiv.org/abs/1611.04558

    ``train`` (and ``valid``, ``test``) names two text files in step, ``[a.de.gz,b.en.gz]``, or a TSV file: a sentence,
    a tab, its translation. ``dataset`` reads Hugging Face's `datasets` instead: a file, a folder, or a name on the hub,
    ``columns`` being the source's and the target's. With ``languages`` there are several target languages: a file (or
    column) for each, or a TSV file with the language in its third column; the query ``language_tag`` and ``model.tag``
    tell the model which. A part that is left out is held out of the training data by a hash of the source sentence:
    ``holdout`` of them for validation, twice as many for testing, each in one part only, with all its translations.

    ``tokeniser`` cuts texts into at most ``pieces`` different symbols, learned from the training side alone; ``shared``
    is one vocabulary for both sides. Texts are given a Unicode ``form`` before, and lower case if ``lower``; BLEU, chrF
    and TER are then of such texts. Training pairs with a side of more than ``longest`` symbols, or ``ratio`` times as
    many as the other side, are left out.
    """

    maximise = True

    def __init__(
        self,
        train: str | list[str] | None = None,
        valid: str | list[str] | None = None,
        test: str | list[str] | None = None,
        languages: list[str] | None = None,
        dataset: str | None = None,
        columns: list[str] | None = None,
        tokeniser: str = "bpe",
        pieces: Positive = 8000,
        shared: bool = False,
        lower: bool = False,
        form: Literal["nfc", "nfkc", "none"] = "nfc",
        longest: Positive | None = 200,
        ratio: Rate | None = None,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.languages: list[str] = languages or []
        self.dataset, self.columns = dataset, columns
        self.pieces, self.shared, self.lower, self.form = pieces, shared, lower, form
        self.longest, self.ratio, self.holdout, self.smoothing = longest, ratio, holdout, smoothing
        self._check()
        self.notes: list[str] = []
        several = len(self.languages) > 1
        self.monitor = f"valid_bleu_{MACRO}" if several else "valid_bleu"
        self.source: Tokeniser = registry.build("tokeniser", tokeniser)
        self.target: Tokeniser = self.source if shared else registry.build("tokeniser", tokeniser)

    def _check(self) -> None:
        if wrong := next((name for name in self.languages if not re.fullmatch(r"[\w-]+", name)), None):
            raise UserError(f"task.languages: {wrong!r} is no name; use letters, digits, - and _, such as de")
        if twice := next((name for name in self.languages if self.languages.count(name) > 1), None):
            raise UserError(f"task.languages names {twice!r} twice")
        if self.ratio is not None and self.ratio < 1:
            raise UserError(f"task.ratio={self.ratio:g}: the longer side over the shorter one is 1 or more")

    def load(self) -> SequenceData:
        """Read, split and cut the data; ``notes`` then tells what was left out of them.

        Raises:
            UserError: a file is missing or malformed, with file and line; a package is missing; a language is unknown;
                or nothing is left to train, validate or test on.
        """
        need("sacrebleu", "translation", "task=translation")  # asked for now, before all the work
        found = self._read()
        whole = [sentence for sentence in found["train"] if not sentence.blank]
        parts = complete(whole, found.get("valid"), found.get("test"), self.holdout)
        self._learn(parts.train)
        kept = keep_fitting(map(self._cut, parts.train), self.longest, self.ratio)
        dropped = kept.dropped + Counter({EMPTY: len(found["train"]) - len(whole)})
        left_out = told(dropped, len(kept.pairs) + dropped.total())
        self.notes = [*([left_out] if left_out else []), *known_sources(parts)]
        if not kept.pairs:
            raise UserError(f"no training pair is left: {left_out or 'the files are empty'}")
        pairs = Splits(kept.pairs, self._judged("valid", parts.valid), self._judged("test", parts.test))
        source, target = (Vocabulary(SPECIALS + side.symbols) for side in (self.source, self.target))
        return SequenceData(pairs, source, target, tags_of(pairs))

    def _read(self) -> dict[str, list[Sentence]]:
        """The parts that are given, their texts in the form and case asked for."""
        if self.dataset is not None:
            found = self._read_dataset(self.dataset)
        elif not self.files["train"]:
            raise UserError("task.train is not set: name two text files, [a.de,b.en], a TSV file, or a task.dataset")
        elif self.columns:
            raise UserError("task.columns is for task.dataset; leave it out, or name a dataset")
        else:
            found = {part: self._read_files(part, named) for part, named in self.files.items() if named}
        return {part: [self._cleaned(sentence) for sentence in listed] for part, listed in found.items()}

    def _read_dataset(self, name: str) -> dict[str, list[Sentence]]:
        if given := [part for part, named in self.files.items() if named]:
            raise UserError(f"task.dataset and task.{given[0]} are both set; leave one of the two out")
        if not self.columns:
            raise UserError("task.dataset needs task.columns: the source's and the target's, such as [de,en]")
        return read_dataset(str(fill_in("task.dataset", name)), self.columns, self.languages)

    def _read_files(self, part: str, named: str | list[str]) -> list[Sentence]:
        listed = [named] if isinstance(named, str) else named
        paths = [fill_in(f"task.{part}", path) for path in listed]
        return read_parallel(paths, self.languages, whole=part != "train")

    def _cleaned(self, sentence: Sentence) -> Sentence:
        return Sentence(self._clean(sentence.source), tuple(map(self._clean, sentence.references)), sentence.tag)

    def _clean(self, text: str) -> str:
        text = text.lower() if self.lower else text
        text = text if self.form == "none" else unicodedata.normalize(FORMS[self.form], text)
        return " ".join(text.split())

    def _learn(self, sentences: list[Sentence]) -> None:
        """Train the tokenisers."""
        if not sentences:
            raise UserError("no training pair is left: every line has an empty side, or all are held out")
        sources = [sentence.source for sentence in sentences]
        targets = [reference for sentence in sentences for reference in sentence.references]
        if self.shared:
            self.source.train(sources + targets, self.pieces)
        else:
            self.source.train(sources, self.pieces)
            self.target.train(targets, self.pieces)

    def _cut(self, sentence: Sentence) -> Pair:
        references = tuple(map(self.target.cut, sentence.references))
        return Pair(self.source.cut(sentence.source), references, sentence.tag, sentence.references)

    def _judged(self, part: str, sentences: list[Sentence]) -> list[Pair]:
        """Pairs to validate or test on; none is left out, so that scores are those of the whole part."""
        if not sentences:
            raise UserError(f"the {part} part holds no pairs; raise task.holdout, or name a task.{part}")
        pairs = [self._cut(sentence) for sentence in sentences]
        if nothing := next((one.source for one, pair in zip(sentences, pairs, strict=True) if not pair.source), None):
            raise UserError(f"the {part} part: the tokeniser leaves nothing of {nothing!r}")
        return pairs

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """BLEU, chrF and TER; with several languages, of each, their mean and that of all."""
        scores = {name: partial(registry.build, "metric", (name, {"lower": self.lower})) for name in SCORES}
        return of_each(scores, tags if len(tags) > 1 else ())

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols written for each pair, as text."""
        texts = [self.text(symbols) for symbols in outputs]
        show(metrics, texts, [pair.texts for pair in pairs], [pair.tag for pair in pairs])

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """What each metric computed, as sacreBLEU names it, so that scores can be compared with others."""
        each = {name: metric.parts[0] if isinstance(metric, PerTag) else metric for name, metric in metrics.items()}
        return {name: str(metric.signature) for name, metric in each.items()}

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A user's sentence, cut as the training data were.

        Raises:
            UserError: it is blank, or its language is unknown, or left out where there are several.
        """
        if tag and tag not in self.languages:
            hint = near_misses(tag, self.languages) or "; this run knows one, without a name: leave it out"
            raise UserError(f"unknown language {tag!r}{hint}")
        if not tag and len(self.languages) > 1:
            raise UserError(f"{text!r}: say into which language: {', '.join(self.languages)}")
        symbols = self.source.cut(self._clean(text))
        if not symbols:
            raise UserError(f"{text!r} holds nothing to translate")
        return symbols

    def text(self, symbols: Sequence[str]) -> str:
        """Output symbols as text; an unknown one reads ``⁇``."""
        return self.target.join([UNKNOWN if symbol == SPECIALS[UNK] else symbol for symbol in symbols])

    def save(self, folder: Path) -> None:
        """Write the tokenisers: ``source.tokeniser`` and, unless it is shared, ``target.tokeniser``."""
        for name, tokeniser in self._tokenisers().items():
            tokeniser.save(folder / name)

    def restore(self, folder: Path) -> None:
        """Read them."""
        for name, tokeniser in self._tokenisers().items():
            tokeniser.load(folder / name)

    def _tokenisers(self) -> dict[str, Tokeniser]:
        sides = {"source": self.source} if self.shared else {"source": self.source, "target": self.target}
        return {f"{side}.tokeniser": tokeniser for side, tokeniser in sides.items()}
