"""The task ``translation``: translate sentences into one or several languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from attnx import registry
from attnx.data.corpus_cache.build import MAX_HELD_OUT, scan_corpus, write_cache
from attnx.data.corpus_cache.folder import (
    EVALUATION_SPLITS,
    ROWS,
    CorpusCache,
    CorpusMetadata,
    UnfinishedCache,
    open_unfinished,
)
from attnx.data.corpus_cache.shards import read_shards
from attnx.data.examples import Pair, Symbols
from attnx.data.filters import drop_blank, dropped_note, filter_by_length
from attnx.data.paths import expand_path, resolve_data_path
from attnx.data.readers.hugging_face import DatasetText, dataset_files, open_dataset
from attnx.data.readers.parallel_corpus import ParallelText, Sentence, ShardedText, read_parallel
from attnx.data.splits import SentenceHoldout, Splits, overlap_notes, split_sentences
from attnx.data.text_pipeline import TextPipeline
from attnx.data.tokenizers.contract import Tokenizer
from attnx.errors import UserError, reject_duplicates, suggest
from attnx.files.available_cores import available_cores
from attnx.metrics.per_tag import MACRO
from attnx.registry import PositiveFloat, PositiveInt, Probability, register
from attnx.registry.optional_deps import require_package
from attnx.tasks.contract import SequenceData, training_tags
from attnx.tasks.scored_texts import ScoredTextTask


@register("task", "translation")
class Translation(ScoredTextTask):
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

    ``cache_folder`` names a folder for the encoded training corpus, which may then be larger than memory: the training
    files (or the rows of ``dataset``) are read twice, line by line, and later runs with the same files and options read
    the folder instead. It is written in shards of 262,144 lines by ``cache_processes`` processes, at most one a shard;
    by default there are as many as cores. Their number changes no byte.
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
        cache_folder: str | None = None,
        cache_processes: PositiveInt | None = None,
    ) -> None:
        files = {"train": train, "valid": valid, "test": test}
        self.files = {part: [names] if isinstance(names, str) else names or [] for part, names in files.items()}
        self.languages: list[str] = languages or []
        self.dataset, self.columns = dataset, list(map(str, columns or []))
        self.cache_folder, self.cache_processes = cache_folder, cache_processes
        self.lower, self.max_length, self.max_length_ratio = lower, max_length, max_length_ratio
        self.holdout, self.label_smoothing, self.bleu_tokenize = holdout, label_smoothing, bleu_tokenize
        self._check()
        self.notes: list[str] = []
        self.monitor = f"valid_bleu_{MACRO}" if len(self.languages) > 1 else "valid_bleu"
        source: Tokenizer = registry.build("tokenizer", tokenizer)
        target = source if shared_vocabulary else registry.build("tokenizer", tokenizer)
        self.texts = TextPipeline(source, target, vocab_size, lower, unicode_form)
        # What decides on the rows of a cached corpus, besides its files and the held-out shares.
        self.cache_options = {"languages": self.languages, "tokenizer": tokenizer, "vocab_size": vocab_size}
        self.cache_options |= {"shared_vocabulary": shared_vocabulary, "lower": lower, "unicode_form": unicode_form}
        self.cache_options |= {"columns": self.columns} if columns and not dataset else {}
        self.cache_options |= {"max_length": max_length, "max_length_ratio": max_length_ratio}

    @property
    def _file_columns(self) -> list[str]:
        """The columns of tables; none where they are those of a data set, whose run may be tested on a file."""
        return self.columns if self.dataset is None else []

    def _check(self) -> None:
        if invalid := next((name for name in self.languages if not re.fullmatch(r"[\w-]+", name)), None):
            raise UserError(f"task.languages: {invalid!r} is not a name; use letters, digits, - and _, such as de")
        reject_duplicates("task.languages", self.languages, "language")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            ratio = f"task.max_length_ratio={self.max_length_ratio:g}"
            raise UserError(f"{ratio}: the longer side over the shorter one is 1 or more")
        if self.dataset is not None and not self.columns:
            raise UserError("task.dataset needs task.columns: the source's and the target's, such as [de,en]")
        if self.cache_processes is not None and self.cache_folder is None:
            processes = f"task.cache_processes={self.cache_processes}"
            raise UserError(f"{processes} is for task.cache_folder; remove it, or set task.cache_folder")

    def load(self) -> SequenceData:
        """Read, split and tokenize the data; ``notes`` then says which pairs were dropped."""
        require_package("sacrebleu", "translation", "task=translation")  # fail before the work
        if self.cache_folder is not None:
            return self._load_cached(expand_path("task.cache_folder", self.cache_folder))
        self._check_train()
        parts, dropped = self._read_parts(self.data_files, self._open_dataset()), Counter[str]()
        train_sentences = drop_blank(parts["train"], dropped)
        splits = split_sentences(train_sentences, parts.get("valid"), parts.get("test"), self.holdout)
        self._train_tokenizers(splits.train)
        train = list(self._filter(splits.train, dropped))
        note = dropped_note(dropped, len(train) + dropped.total())
        sources = {part: [sentence.source for sentence in sentences] for part, sentences in splits._asdict().items()}
        self.notes = [*([note] if note else []), *overlap_notes(set(sources.pop("train")), sources)]
        if not train:
            raise UserError(f"no training pair is left: {note}")
        valid, test = self._evaluation_pairs("valid", splits.valid), self._evaluation_pairs("test", splits.test)
        pairs = Splits(train, valid, test)
        self.fit_scores(valid)
        source, target = self.texts.vocabularies()
        return SequenceData(pairs, source, target, self._tags(pairs))

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        return self._evaluation_pairs("test", list(self._read_files("test")))

    def _load_cached(self, folder: Path) -> SequenceData:
        """Load as :meth:`load`, with the training split in a folder, which is written if it is missing."""
        self._check_train()
        dataset = self._open_dataset()
        cache = self._open_cache(folder, dataset)
        metadata = cache.find()
        parts = self._read_parts(EVALUATION_SPLITS, dataset)
        existing = {part: parts.get(part) for part in EVALUATION_SPLITS}
        if metadata is None:
            holdout = SentenceHoldout(existing["valid"], existing["test"], self.holdout, MAX_HELD_OUT)
            self._write_cache(cache, dataset, holdout)
            metadata = cache.find()
            assert metadata is not None, "it was written just now"
        self.restore(folder)
        self.notes = [*metadata.notes, *metadata.overlap_notes]
        pairs, tags = self._evaluation_splits(metadata.tags, {**existing, **metadata.held_out})
        source, target = self.texts.vocabularies()
        return SequenceData(pairs, source, target, tags, read_shards(folder / ROWS, source, target, tags))

    def _open_cache(self, folder: Path, dataset: Mapping[str, DatasetText]) -> CorpusCache:
        """Open the folder of the files, or of ``dataset``, of the training split."""
        files = {part: self._paths(part) for part in self.files if self.files[part]}
        options = dict(self.cache_options)
        if dataset:
            files = {**{part: [] for part in dataset}, "train": dataset_files(self._dataset_name())}
            options |= {"dataset": self.dataset, "columns": self.columns, "rows": dataset["train"].lines}
        has_all_parts = all(part in files for part in EVALUATION_SPLITS)
        return CorpusCache(folder, files, {**options, "holdout": None if has_all_parts else self.holdout})

    def _write_cache(self, cache: CorpusCache, dataset: Mapping[str, DatasetText], holdout: SentenceHoldout) -> None:
        """Read the training files twice, or continue where an interrupted process was.

        Invalid files leave no cache.
        """
        origin = {**cache.origin, "evaluation_files": cache.evaluation_files}
        with open_unfinished(cache.folder, origin) as unfinished:
            if unfinished is None:  # another process has finished it
                return
            text: ShardedText = (
                dataset["train"] if dataset else ParallelText(self._paths("train"), self.languages, self._file_columns)
            )
            processes = self.cache_processes or available_cores()
            metadata = unfinished.read_metadata()
            if metadata is None:
                metadata = self._scan(unfinished, text, holdout, processes)
            else:
                self.restore(unfinished.path)
            self._evaluation_splits(metadata.tags, {**holdout.existing, **metadata.held_out})

            def make_pairs(sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Pair]:
                return self._filter(filter(holdout.is_training, drop_blank(sentences, dropped)), dropped)

            write_cache(cache, unfinished, text, make_pairs, metadata, self.texts, processes)

    def _scan(
        self, unfinished: UnfinishedCache, text: ShardedText, holdout: SentenceHoldout, processes: int
    ) -> CorpusMetadata:
        """Read the training files once and train the tokenizers."""
        sample, metadata = scan_corpus(text, self.texts, holdout, processes)
        self._train_tokenizers(sample)
        self.texts.save(unfinished.path)
        unfinished.write_metadata(metadata)
        return metadata

    def _evaluation_splits(
        self, tags: Sequence[str], parts: Mapping[str, list[Sentence] | None]
    ) -> tuple[Splits[Pair], tuple[str, ...]]:
        """Return valid and test pairs, and the tags, of a cached training split with ``tags``."""
        valid, test = (self._evaluation_pairs(part, parts[part] or []) for part in EVALUATION_SPLITS)
        pairs: Splits[Pair] = Splits([], valid, test)
        self.fit_scores(valid)
        return pairs, self._tags(pairs._replace(train=[Pair((), (), tag) for tag in tags]))

    def _tags(self, pairs: Splits[Pair]) -> tuple[str, ...]:
        """The languages of the training split, which must have all of ``languages``."""
        tags = training_tags(pairs)
        if len(self.languages) > 1 and (missing := [name for name in self.languages if name not in tags]):
            raise UserError(f"task.languages: the training split has no pair of {missing[0]!r}; remove it")
        return tags

    def _filter(self, sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Pair]:
        return filter_by_length(map(self.texts.tokenize, sentences), dropped, self.max_length, self.max_length_ratio)

    def _open_dataset(self) -> dict[str, DatasetText]:
        """Open the splits of ``dataset``; none without one."""
        if self.dataset is None:
            return {}
        return open_dataset(self._dataset_name(), self.columns, self.languages)

    def _dataset_name(self) -> str:
        return str(resolve_data_path("task.dataset", self.dataset or ""))

    def _read_parts(self, parts: Sequence[str], dataset: Mapping[str, DatasetText]) -> dict[str, list[Sentence]]:
        """Read those of ``parts`` that exist and normalize their texts."""
        if not dataset:
            return {part: list(self._read_files(part)) for part in parts if self.files[part]}
        texts = {part: dataset[part].read_all(allow_blank=part == "train") for part in parts if part in dataset}
        return {part: list(map(self.texts.normalize_sentence, text)) for part, text in texts.items()}

    def _read_files(self, part: str) -> Iterator[Sentence]:
        """Yield the normalized sentences of a part's files."""
        blank = part == "train"
        sentences = read_parallel(self._paths(part), self.languages, allow_blank=blank, columns=self._file_columns)
        return map(self.texts.normalize_sentence, sentences)

    def _paths(self, part: str) -> list[Path]:
        return [resolve_data_path(f"task.{part}", path) for path in self.files[part]]

    def _check_train(self) -> None:
        # Not earlier: a run on a data set may be tested on a file.
        if self.dataset is not None and (parts := [part for part, files in self.files.items() if files]):
            raise UserError(f"task.dataset and task.{parts[0]} are both set; remove one of the two")
        if not self.files["train"] and self.dataset is None:
            raise UserError("task.train is not set: name two text files, [a.de,b.en], a TSV file, or a task.dataset")

    def _train_tokenizers(self, sentences: list[Sentence]) -> None:
        if not sentences:
            raise UserError("no training pair is left: every line has an empty side, or all are held out")
        self.texts.train(sentences)

    def _evaluation_pairs(self, part: str, sentences: list[Sentence]) -> list[Pair]:
        """Tokenize a valid or test split; no pair is dropped, so that scores are of the complete split."""
        if not sentences:
            remedy = "its files are blank" if self.files[part] else f"raise task.holdout, or name a task.{part}"
            raise UserError(f"the {part} split holds no pairs; {remedy}")
        pairs = [self.texts.tokenize(sentence) for sentence in sentences]
        empty = (sentence for sentence, pair in zip(sentences, pairs, strict=True) if not pair.source)
        if sentence := next(empty, None):
            raise UserError(f"the {part} split: the tokenizer leaves nothing of {sentence.source!r}")
        return pairs

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Normalize and tokenize a user's sentence; blank ones and unknown languages are UserErrors."""
        if tag and tag not in self.languages:
            hint = suggest(tag, self.languages) or "; this run has one language without a name: remove it"
            raise UserError(f"unknown language {tag!r}{hint}")
        if not tag and len(self.languages) > 1:
            raise UserError(f"{text!r}: the target language is missing: {', '.join(self.languages)}")
        return super().tokenize(text, tag)
