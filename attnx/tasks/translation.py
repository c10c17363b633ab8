"""The task ``translation``: from a sentence to its translation, into one language or into several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.data.corpus_cache.build import HELD_OUT, survey, write
from attnx.data.corpus_cache.folder import JUDGED, Store
from attnx.data.corpus_cache.memmap import read_corpus
from attnx.data.corpus_cache.reading_progress import size_of, watched
from attnx.data.corpus_cache.unfinished_folder import Survey, UnfinishedStore
from attnx.data.examples import Pair, Symbols
from attnx.data.filters import fitting, told, unblank
from attnx.data.held_out import HeldOut, complete, known_sources
from attnx.data.paths import expand, fill_in
from attnx.data.readers.hugging_face import read_dataset
from attnx.data.readers.parallel_corpus import Sentence, read_parallel
from attnx.data.split import Splits
from attnx.data.text_pipeline import Texts
from attnx.data.tokenizers.protocol import Tokenizer
from attnx.data.vocabulary import SPECIALS, UNK
from attnx.errors import UserError, suggest
from attnx.metrics.per_tag import MACRO, PerTag, metrics_per_tag, update_all
from attnx.registry import Positive, Probability, Rate, register
from attnx.registry.optional_deps import require
from attnx.tasks.protocols import SequenceData, tags_of

SCORES = ("bleu", "chrf", "ter")
# The knobs that decide which rows a corpus has and what they stand for, beside its files and what is held out of it.
SETTINGS = (
    *("languages", "tokenizer", "vocab_size", "shared_vocabulary"),
    *("lower", "unicode_form", "max_length", "max_length_ratio"),
)
# How the unknown symbol reads in a text: as one word, whatever cuts it.
UNKNOWN = "⁇"
Tags = tuple[str, ...]


@register("task", "translation")
class Translation:
    """Translate sentences: text in, text in another language out.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t, source)``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; one model, several languages: Johnson et al. 2017,
        https://arxiv.org/abs/1611.04558

    ``train`` (and ``valid``, ``test``) names two text files in step, ``[a.de.gz,b.en.gz]``, or a TSV file: a sentence,
    a tab, its translation. ``dataset`` reads Hugging Face's `datasets` instead: a file, a folder, or a name on the hub,
    ``columns`` being the source's and the target's. With ``languages`` there are several target languages: a file (or
    column) for each, or a TSV file with the language in its third column; the query ``language_tag`` and
    ``model.tag_inputs`` tell the model which. A part that is left out is held out of the training data by a hash of the
    source sentence: ``holdout`` of them for validation, twice as many for testing, each in one part only, with all its
    translations.

    ``tokenizer`` cuts texts into at most ``vocab_size`` different symbols, learned from the training side alone;
    ``shared_vocabulary`` is one vocabulary for both sides. Texts are given a Unicode ``unicode_form`` before, and lower
    case if ``lower``; BLEU, chrF and TER are then of such texts. Training pairs with a side of more than ``max_length``
    symbols, or ``max_length_ratio`` times as many as the other side, are left out.

    ``store`` names a folder for the encoded training corpus, which then is never in memory and may be larger than it:
    its files are read twice, line by line, and later runs with the same files and settings read the folder instead.
    """

    maximize = True
    data_files = ("train", "valid", "test")

    def __init__(
        self,
        train: str | list[str] | None = None,
        valid: str | list[str] | None = None,
        test: str | list[str] | None = None,
        languages: list[str] | None = None,
        dataset: str | None = None,
        columns: list[str] | None = None,
        tokenizer: str = "bpe",
        vocab_size: Positive = 8000,
        shared_vocabulary: bool = False,
        lower: bool = False,
        unicode_form: Literal["nfc", "nfkc", "none"] = "nfc",
        max_length: Positive | None = 200,
        max_length_ratio: Rate | None = None,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
        store: str | None = None,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.languages: list[str] = languages or []
        self.dataset, self.columns = dataset, columns
        self.tokenizer, self.vocab_size, self.shared_vocabulary, self.lower, self.unicode_form = (
            tokenizer,
            vocab_size,
            shared_vocabulary,
            lower,
            unicode_form,
        )
        self.max_length, self.max_length_ratio, self.holdout, self.smoothing = (
            max_length,
            max_length_ratio,
            holdout,
            smoothing,
        )
        self.store = store
        self._check()
        self.notes: list[str] = []
        several = len(self.languages) > 1
        self.monitor = f"valid_bleu_{MACRO}" if several else "valid_bleu"
        self.source: Tokenizer = registry.build("tokenizer", tokenizer)
        self.target: Tokenizer = self.source if shared_vocabulary else registry.build("tokenizer", tokenizer)
        self.texts = Texts(self.source, self.target, vocab_size, lower, unicode_form)

    def _check(self) -> None:
        if wrong := next((name for name in self.languages if not re.fullmatch(r"[\w-]+", name)), None):
            raise UserError(f"task.languages: {wrong!r} is no name; use letters, digits, - and _, such as de")
        if twice := next((name for name in self.languages if self.languages.count(name) > 1), None):
            raise UserError(f"task.languages names {twice!r} twice")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise UserError(
                f"task.max_length_ratio={self.max_length_ratio:g}: the longer side over the shorter one is 1 or more"
            )
        if self.columns and self.dataset is None:
            raise UserError("task.columns is for task.dataset; leave it out, or name a dataset")
        if self.store is not None and self.dataset is not None:
            raise UserError("task.store is for text files, and task.dataset is set; leave one of the two out")

    def load(self) -> SequenceData:
        """Read, split and cut the data; ``notes`` then tells what was left out of them.

        Raises:
            UserError: a file is missing or malformed, with file and line; a package is missing; a language is unknown;
                or nothing is left to train, validate or test on.
        """
        require("sacrebleu", "translation", "task=translation")  # asked for now, before all the work
        if self.store is not None:
            return self._stored(expand("task.store", self.store))
        found, dropped = self._read(), Counter[str]()
        parts = complete(unblank(found["train"], dropped), found.get("valid"), found.get("test"), self.holdout)
        self._learn(parts.train)
        train = list(self._fitting(parts.train, dropped))
        left_out = told(dropped, len(train) + dropped.total())
        known = {sentence.source for sentence in parts.train}
        self.notes = [*filter(None, [left_out]), *known_sources(known, parts.valid, parts.test)]
        if not train:
            raise UserError(f"no training pair is left: {left_out}")
        pairs = Splits(train, self._judged("valid", parts.valid), self._judged("test", parts.test))
        return SequenceData(pairs, *self.texts.vocabularies(), tags_of(pairs))

    def test_pairs(self) -> list[Pair]:
        """The pairs of ``test``, cut as the training data were; these are not looked at."""
        named = self.files["test"]
        assert named is not None
        paths = [fill_in("task.test", path) for path in ([named] if isinstance(named, str) else named)]
        return self._judged("test", list(map(self.texts.cleaned, read_parallel(paths, self.languages, whole=True))))

    def _stored(self, folder: Path) -> SequenceData:
        """As :meth:`load` says, with the training part in a folder, into which it is streamed if it is not there."""
        store = Store(folder, self._paths(), self._settings())
        stored = store.find()
        given = {part: list(self._stream(part)) if self.files[part] else None for part in JUDGED}
        if stored is None:
            self._write(store, HeldOut(given["valid"], given["test"], self.holdout, HELD_OUT))
            stored = store.find()
            assert stored is not None, "it was written just now"
        self.restore(folder)
        self.notes = [*stored.notes, *stored.met]
        pairs, tags = self._beside(stored.tags, {**given, **stored.held})
        source, target = self.texts.vocabularies()
        return SequenceData(pairs, source, target, tags, read_corpus(store.rows, source, target, tags))

    def _write(self, store: Store, held: HeldOut) -> None:
        """Read the training files twice, from where an earlier process was if one was killed.

        What is wrong with them leaves nothing written.
        """
        with store.begin() as unfinished:
            if unfinished is None:  # another process has written it meanwhile
                return
            found = unfinished.read_survey()
            if found is None:
                found = self._survey(unfinished, held)
            else:
                self.restore(unfinished.path)
            self._beside(found.tags, found.parts)
            write(store, unfinished, self._stream("train"), partial(self._cut, held), found, held, self.texts)

    def _survey(self, unfinished: UnfinishedStore, held: HeldOut) -> Survey:
        """The first reading, and what the tokenizers learn from it."""
        total = size_of(self._paths()["train"])
        sentences = watched("reading", self._stream("train"), total, in_bytes=True)
        found = survey(unblank(sentences, Counter()), held)
        self._learn(found.sample)
        found.sample.clear()  # it may be large
        self.texts.save(unfinished.path)
        unfinished.write_survey(found)
        return found

    def _cut(self, held: HeldOut, sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Pair]:
        """The pairs to train on of some sentences."""
        return self._fitting(filter(held.trains, unblank(sentences, dropped)), dropped)

    def _settings(self) -> dict[str, Any]:
        share = self.holdout if not all(self.files[part] for part in JUDGED) else None
        return {**{name: getattr(self, name) for name in SETTINGS}, "holdout": share}

    def _beside(self, known: Sequence[str], parts: Mapping[str, list[Sentence] | None]) -> tuple[Splits, Tags]:
        """What is judged beside a training part that is elsewhere and has the ``known`` tags; and all tags."""
        valid, test = (self._judged(part, parts[part] or []) for part in JUDGED)
        pairs = Splits([], valid, test)
        return pairs, tags_of(pairs._replace(train=[Pair((), (), tag) for tag in known]))

    def _fitting(self, sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Pair]:
        return fitting(map(self.texts.cut, sentences), dropped, self.max_length, self.max_length_ratio)

    def _read(self) -> dict[str, list[Sentence]]:
        """The parts that are given, their texts in the form and case asked for."""
        if self.dataset is None:
            return {part: list(self._stream(part)) for part in self._paths()}
        if given := [part for part, named in self.files.items() if named]:
            raise UserError(f"task.dataset and task.{given[0]} are both set; leave one of the two out")
        if not self.columns:
            raise UserError("task.dataset needs task.columns: the source's and the target's, such as [de,en]")
        found = read_dataset(str(fill_in("task.dataset", self.dataset)), self.columns, self.languages)
        return {part: list(map(self.texts.cleaned, listed)) for part, listed in found.items()}

    def _stream(self, part: str) -> Iterator[Sentence]:
        """The sentences of a part's files, one after the other."""
        return map(self.texts.cleaned, read_parallel(self._paths()[part], self.languages, whole=part != "train"))

    def _paths(self) -> dict[str, list[Path]]:
        """The files of the parts that are given."""
        if not self.files["train"]:
            raise UserError("task.train is not set: name two text files, [a.de,b.en], a TSV file, or a task.dataset")
        listed = {part: [named] if isinstance(named, str) else named for part, named in self.files.items() if named}
        return {part: [fill_in(f"task.{part}", path) for path in paths] for part, paths in listed.items()}

    def _learn(self, sentences: list[Sentence]) -> None:
        if not sentences:
            raise UserError("no training pair is left: every line has an empty side, or all are held out")
        self.texts.learn(sentences)

    def _judged(self, part: str, sentences: list[Sentence]) -> list[Pair]:
        """Pairs to validate or test on; none is left out, so that scores are those of the whole part."""
        if not sentences:
            raise UserError(f"the {part} part holds no pairs; raise task.holdout, or name a task.{part}")
        pairs = [self.texts.cut(sentence) for sentence in sentences]
        if nothing := next((one.source for one, pair in zip(sentences, pairs, strict=True) if not pair.source), None):
            raise UserError(f"the {part} part: the tokenizer leaves nothing of {nothing!r}")
        return pairs

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """BLEU, chrF and TER; with several languages, of each, their mean and that of all."""
        scores = {name: partial(registry.build, "metric", (name, {"lower": self.lower})) for name in SCORES}
        return metrics_per_tag(scores, tags if len(tags) > 1 else ())

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols written for each pair, as text."""
        texts = [self.text(symbols) for symbols in outputs]
        update_all(metrics, texts, [pair.texts for pair in pairs], [pair.tag for pair in pairs])

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """What each metric computed, as sacreBLEU names it, so that scores can be compared with others."""
        each = {name: metric.metrics[0] if isinstance(metric, PerTag) else metric for name, metric in metrics.items()}
        return {name: str(metric.signature) for name, metric in each.items()}

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A user's sentence, cut as the training data were.

        Raises:
            UserError: it is blank, or its language is unknown, or left out where there are several.
        """
        if tag and tag not in self.languages:
            hint = suggest(tag, self.languages) or "; this run knows one, without a name: leave it out"
            raise UserError(f"unknown language {tag!r}{hint}")
        if not tag and len(self.languages) > 1:
            raise UserError(f"{text!r}: say into which language: {', '.join(self.languages)}")
        symbols = self.source.cut(self.texts.clean(text))
        if not symbols:
            raise UserError(f"{text!r} holds nothing to translate")
        return symbols

    def text(self, symbols: Sequence[str]) -> str:
        """Output symbols as text; an unknown one reads ``⁇``."""
        return self.target.join([UNKNOWN if symbol == SPECIALS[UNK] else symbol for symbol in symbols])

    def save(self, folder: Path) -> None:
        """Write the tokenizers: ``source.tokenizer`` and, unless it is shared, ``target.tokenizer``."""
        self.texts.save(folder)

    def restore(self, folder: Path) -> None:
        """Read them."""
        self.texts.restore(folder)
