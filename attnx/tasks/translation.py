"""The task ``translation``: translate sentences into one or several languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args

from torch import nn

from attnx import registry
from attnx.data.encoded_corpus import MAX_HELD_OUT, CorpusCache, encode_rows, hash_code, scan_sentences, write_record
from attnx.data.examples import Pair, Symbols
from attnx.data.paths import resolve_data_path
from attnx.data.readers.hugging_face import DatasetText, open_dataset
from attnx.data.readers.parallel_corpus import Sentence, drop_blank, dropped_note, filter_by_length, read_parallel
from attnx.data.splits import SentenceHoldout, Splits, fold_text, overlap_notes, split_sentences
from attnx.data.text_pipeline import TextPipeline
from attnx.data.tokenizers import Tokenizer
from attnx.errors import UserError, reject_duplicates, suggest
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.metrics.per_tag import MACRO, PerTag, metrics_per_tag, update_all
from attnx.metrics.sacrebleu_scores import MIN_BLEU_TOKENS, BleuTokenizer, tokenizer_for
from attnx.registry import PositiveFloat, PositiveInt, Probability, register
from attnx.registry.dependencies import require_package
from attnx.runs.layout import BLEU_OPTIONS
from attnx.tasks.contract import SequenceData, TaskOutput, TextTask, training_tags

SCORES: Final = ("bleu", "chrf", "ter")
NO_BLEU: Final = (
    f"no reference of the validation has {MIN_BLEU_TOKENS} words, so that BLEU cannot tell outputs apart; chrF chooses "
    "the best weights"
)
EVALUATION_SPLITS: Final = ("valid", "test")
# The size of the training files. As plain text so much takes 700 MB of memory.
MAX_BYTES_IN_MEMORY: Final = 50_000_000


@register("task", "translation", read_if={"holdout": ["valid=null", "test=null"]})
class Translation(TextTask):
    """Translate sentences: text in, text in another language out.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t, source)``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; one model, several languages: Johnson et al. 2017,
        https://arxiv.org/abs/1611.04558

    ``train`` (and ``valid``, ``test``) names two text files aligned by line, ``[a.de.gz,b.en.gz]``, or a TSV file: a
    sentence, a tab, its translation. ``dataset`` reads Hugging Face's `datasets` instead: a file, a folder, or a name
    on the hub, with the source's and the target's ``columns``; of a TSV file these are their numbers, from 1, or
    their names in its first line. ``languages`` names several target languages: then there
    is a file (or column) for each, or a TSV file with the language in its third column; the query ``language_tag`` and
    ``model.tag_inputs`` give the model the language. A missing split is held out of the training data by a hash of the
    source sentence: ``holdout`` of the sentences for validation, twice as many for testing, with all translations of a
    sentence in one part.

    ``tokenizer`` cuts texts into at most ``vocab_size`` different symbols, learned from the training split alone;
    ``shared_vocabulary`` is one vocabulary for both sides. Texts are first normalized to ``unicode_form``, and
    lower-cased if ``lower``; BLEU, chrF and TER are of such texts. Training pairs with a side of more than
    ``max_length`` symbols, or ``max_length_ratio`` times as many as the other side, are dropped.

    ``bleu_tokenize`` is sacreBLEU's tokenization of texts for BLEU; by default it follows from their script: ``13a``,
    which expects spaces, ``zh`` for Chinese, ``ja-mecab`` for Japanese if MeCab is installed, and ``char`` for other
    scripts without spaces. If no reference of the validation has four tokens, chrF selects the weights.

    ``dataset``, and training files of more than 50 MB, are never in memory: they are encoded once, into the cache,
    ``$ATTNX_CACHE`` or ``~/.cache/attnx``. The rows and their order are as in memory; if there are more than a million
    sentences, the tokenizers learn from a million.
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
        columns: list[str | PositiveInt] | None = None,
        tokenizer: str = "bpe",
        vocab_size: PositiveInt = 8000,
        shared_vocabulary: bool = False,
        lower: bool = False,
        unicode_form: Literal["nfc", "nfkc", "none"] = "nfc",
        max_length: PositiveInt | None = 200,
        max_length_ratio: PositiveFloat | None = None,
        holdout: Probability = 0.05,
        label_smoothing: Probability = 0.0,
        bleu_tokenize: Literal["13a", "zh", "char", "intl", "ja-mecab", "none"] | None = None,
    ) -> None:
        files = {"train": train, "valid": valid, "test": test}
        self.files = {part: [names] if isinstance(names, str) else names or [] for part, names in files.items()}
        self.languages: list[str] = languages or []
        self.dataset, self.columns = dataset, list(map(str, columns or []))
        self.lower, self.max_length, self.max_length_ratio = lower, max_length, max_length_ratio
        self.holdout, self.label_smoothing = holdout, label_smoothing
        self.bleu_tokenize: BleuTokenizer | None = bleu_tokenize  # None until it follows from the data
        if invalid := next((name for name in self.languages if not re.fullmatch(r"[\w-]+", name)), None):
            raise UserError(f"task.languages: {invalid!r} is not a name; use letters, digits, - and _, such as de")
        reject_duplicates("task.languages", self.languages, "language")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            ratio = f"task.max_length_ratio={self.max_length_ratio:g}"
            raise UserError(f"{ratio}: the longer side over the shorter one is 1 or more")
        if self.dataset is not None and not self.columns:
            raise UserError("task.dataset needs task.columns: the source's and the target's, such as [de,en]")
        self.notes: list[str] = []
        self.monitor = f"valid_bleu_{MACRO}" if len(self.languages) > 1 else "valid_bleu"
        source: Tokenizer = registry.build("tokenizer", tokenizer)
        target = source if shared_vocabulary else registry.build("tokenizer", tokenizer)
        self.texts = TextPipeline(source, target, vocab_size, lower, unicode_form)
        # What decides on the encoded rows, besides the files and the held-out shares.
        self.row_options: dict[str, Any] = {
            "languages": self.languages,
            "columns": self.columns,
            "tokenizer": tokenizer,
            "vocab_size": vocab_size,
            "shared_vocabulary": shared_vocabulary,
            "lower": lower,
            "unicode_form": unicode_form,
            "max_length": max_length,
            "max_length_ratio": max_length_ratio,
        }

    def load(self) -> SequenceData:
        """Read, split and tokenize the data; ``notes`` then says which pairs were dropped."""
        require_package("sacrebleu", "translation", "task=translation")  # fail before the work
        if self.dataset is not None and (named := [part for part, files in self.files.items() if files]):
            raise UserError(f"task.dataset and task.{named[0]} are both set; remove one of the two")
        if not self.files["train"] and self.dataset is None:  # not earlier: a run on a data set may be tested on a file
            raise UserError("task.train is not set: name two text files, [a.de,b.en], a TSV file, or a task.dataset")
        size = sum(path.stat().st_size for path in self._paths("train") if path.is_file())
        if self.dataset is not None or size > MAX_BYTES_IN_MEMORY:
            return self._load_encoded()
        self.notes = []  # the readers add theirs
        parts, dropped = {part: list(self._read(part)) for part in self.files if self.files[part]}, Counter[str]()
        train_sentences = drop_blank(parts["train"], dropped)
        splits = split_sentences(train_sentences, parts.get("valid"), parts.get("test"), self.holdout)
        self._train_tokenizers(splits.train)
        train = list(
            filter_by_length(map(self.texts.tokenize, splits.train), dropped, self.max_length, self.max_length_ratio)
        )
        note = dropped_note(dropped, len(train) + dropped.total())
        sources = {part: [sentence.source for sentence in sentences] for part, sentences in splits._asdict().items()}
        self.notes += [*([note] if note else []), *overlap_notes(set(sources.pop("train")), sources)]
        if not train:
            raise UserError(f"no training pair is left: {note}")
        valid, test = self._evaluation_pairs("valid", splits.valid), self._evaluation_pairs("test", splits.test)
        pairs = Splits(train, valid, test)
        self._fit_scores(valid)
        source, target = self.texts.vocabularies()
        return SequenceData(pairs, source, target, self._tags(pairs))

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        return self._evaluation_pairs("test", list(self._read("test")))

    def _load_encoded(self) -> SequenceData:
        """Load as :meth:`load`, with the training split in the cache, where it is encoded if it is missing."""
        dataset: dict[str, DatasetText] = {}
        if self.dataset is not None:
            path = resolve_data_path("task.dataset", self.dataset)
            dataset = open_dataset(str(path), self.columns, self.languages)
        self.notes = []  # the reader adds its own
        existing = {
            part: list(self._read(part, dataset)) if part in dataset or self.files[part] else None
            for part in EVALUATION_SPLITS
        }
        held_out = [part for part, sentences in existing.items() if sentences is None]
        files = {part: text.files for part, text in dataset.items()} or {part: self._paths(part) for part in self.files}
        options = {**self.row_options, "held_out": held_out, "holdout": self.holdout if held_out else None}
        cache = CorpusCache(files, {**options, "code": hash_code(type(self.texts.source))})
        corpus = cache.read(self.texts) or cache.write(self.texts, partial(self._encode, dataset, existing))
        self.notes += corpus.notes
        pairs, tags = self._evaluation_splits(corpus.tags, {**existing, **corpus.held_out})
        source, target = self.texts.vocabularies()
        return SequenceData(pairs, source, target, tags, corpus.rows)

    def _encode(
        self, dataset: Mapping[str, DatasetText], existing: Mapping[str, list[Sentence] | None], folder: Path
    ) -> None:
        """Read the training sentences, train the tokenizers, and write everything into a folder."""
        holdout = SentenceHoldout(existing["valid"], existing["test"], self.holdout, MAX_HELD_OUT)
        notes: list[str] = []
        scan = scan_sentences(folder, self._read("train", dataset, notes), holdout)
        self._train_tokenizers(scan.sample)
        scan.sample.clear()  # it may be large
        self.texts.save(folder)
        parts = {part: holdout.sentences(part) for part in EVALUATION_SPLITS}
        _, tags = self._evaluation_splits(scan.tags, parts)  # mistakes are told before the rest, which takes longest
        rows, note = encode_rows(folder, scan, self.texts, tags, self.max_length, self.max_length_ratio)
        overlap = {part: [sentence.source for sentence in sentences] for part, sentences in parts.items()}
        notes += [*([note] if note else []), *overlap_notes(scan.overlap, overlap)]
        held_out = {part: sentences for part, sentences in parts.items() if existing[part] is None}
        write_record(folder, rows, scan.tags, notes, held_out)

    def _evaluation_splits(
        self, tags: Sequence[str], parts: Mapping[str, list[Sentence] | None]
    ) -> tuple[Splits[Pair], tuple[str, ...]]:
        """Return valid and test pairs, and the tags, of a cached training split with ``tags``."""
        valid, test = (self._evaluation_pairs(part, parts[part] or []) for part in EVALUATION_SPLITS)
        pairs: Splits[Pair] = Splits([], valid, test)
        self._fit_scores(valid)
        return pairs, self._tags(pairs._replace(train=[Pair((), (), tag) for tag in tags]))

    def _tags(self, pairs: Splits[Pair]) -> tuple[str, ...]:
        """The languages of the training split, which must have all of ``languages``."""
        tags = training_tags(pairs)
        if len(self.languages) > 1 and (missing := [name for name in self.languages if name not in tags]):
            raise UserError(f"task.languages: the training split has no pair of {missing[0]!r}; remove it")
        return tags

    def _read(
        self, part: str, dataset: Mapping[str, DatasetText] | None = None, notes: list[str] | None = None
    ) -> Iterator[Sentence]:
        """Yield the normalized sentences of a part, of the data set or of files; the reader adds to ``notes``."""
        notes = self.notes if notes is None else notes
        allow_blank = part == "train"
        if dataset and part in dataset:
            sentences = dataset[part].read(allow_blank)
        else:
            # A data set's columns are not those of a file on which its run may be tested.
            columns = self.columns if self.dataset is None else []
            sentences = read_parallel(self._paths(part), self.languages, allow_blank, columns, notes)
        return map(self.texts.normalize_sentence, sentences)

    def _paths(self, part: str) -> list[Path]:
        return [resolve_data_path(f"task.{part}", path) for path in self.files[part]]

    def _train_tokenizers(self, sentences: list[Sentence]) -> None:
        if not sentences:
            raise UserError("no training pair is left: every line has an empty side, or all are held out")
        self.texts.train(sentences)

    def _evaluation_pairs(self, part: str, sentences: list[Sentence]) -> list[Pair]:
        """Tokenize a valid or test split; no pair is dropped, so that scores are of the complete split."""
        if not sentences:
            remedy = "its files are blank" if self.files[part] else f"raise task.holdout, or name a task.{part}"
            raise UserError(f"the {part} split holds no pairs; {remedy}")
        pairs = [self.texts.tokenize(item)._replace(identity=(fold_text(item.source),)) for item in sentences]
        empty = (sentence for sentence, pair in zip(sentences, pairs, strict=True) if not pair.source)
        if sentence := next(empty, None):
            raise UserError(f"the {part} split: the tokenizer leaves nothing of {sentence.source!r}")
        return pairs

    def _fit_scores(self, valid: Sequence[Pair]) -> None:
        """Choose BLEU's tokenization by the script of the references, and the monitor by whether BLEU can tell."""
        texts = [text for pair in valid for text in pair.texts]
        self.bleu_tokenize = self.bleu_tokenize or tokenizer_for(texts)
        tokenize = registry.build("metric", ("bleu", {"tokenize": self.bleu_tokenize})).scorer.tokenizer
        if all(len(tokenize(text).split()) < MIN_BLEU_TOKENS for text in texts):
            self.monitor = self.monitor.replace("bleu", "chrf")
            self.notes.insert(0, NO_BLEU)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build BLEU, chrF and TER; with several languages, for each, their mean and all sentences."""
        scores: dict[str, dict[str, object]] = {name: {"name": name, "lower": self.lower} for name in SCORES}
        scores["bleu"]["tokenize"] = self.bleu_tokenize or "13a"
        return metrics_per_tag(scores, tags if len(tags) > 1 else ())

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch, as texts."""
        texts = [self.detokenize(list(symbols)) for symbols in outputs]
        update_all(metrics, texts, [pair.texts for pair in pairs], [pair.tag for pair in pairs])

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return sacreBLEU's signature of each metric, so that scores can be compared."""
        plain = {name: metric.metrics[0] if isinstance(metric, PerTag) else metric for name, metric in metrics.items()}
        return {name: str(metric.signature) for name, metric in plain.items()}

    def save(self, folder: Path) -> None:
        """Write the tokenizers, and BLEU's tokenization, which depends on the data."""
        super().save(folder)
        write_json(folder / BLEU_OPTIONS, {"tokenize": self.bleu_tokenize})

    def restore(self, folder: Path) -> None:
        """Read what :meth:`save` wrote."""
        super().restore(folder)
        saved = read_mapping(folder / BLEU_OPTIONS).get("tokenize")
        if saved in get_args(BleuTokenizer):
            self.bleu_tokenize = self.bleu_tokenize or saved

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Normalize and tokenize a user's sentence; blank ones and unknown languages are UserErrors."""
        if tag and tag not in self.languages:
            hint = suggest(tag, self.languages) or "; this run has one language without a name: remove it"
            raise UserError(f"unknown language {tag!r}{hint}")
        if not tag and len(self.languages) > 1:
            raise UserError(f"{text!r}: the target language is missing: {', '.join(self.languages)}")
        return super().tokenize(text, tag)
