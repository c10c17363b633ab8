"""The task ``sequences``: any sequences of symbols or features to any others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from torch import nn

from attnx.data.examples import Pair, Symbols
from attnx.data.features import FeatureScaler, Matrix
from attnx.data.paths import resolve_data_path
from attnx.data.readers.columns import MIN_LINES
from attnx.data.readers.tsv import PairReader, join_symbols, split_text
from attnx.data.splits import Splits, hold_out_missing, overlap_notes
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO, metrics_per_tag, update_all
from attnx.registry import Probability, register
from attnx.runs.layout import SOURCE_FEATURES, TARGET_FEATURES, TARGET_SYMBOLS
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput, check_splits, training_tags

ERROR_RATES = ("symbol_error_rate", "sequence_error_rate")
SCALED = "scaled_error"
NUMBER_ERRORS = (SCALED, "mean_absolute_error", "root_mean_squared_error", "length_error")


@register(
    "task",
    "sequences",
    read_if={
        "holdout": ["valid=null", "test=null"],
        "step_names": "source=features",
        "target_step_names": "target=features",
        "shared_vocabulary": "source!=features target!=features",
        "label_smoothing": "target!=features",
    },
)
class AnySequence(SequenceTask):
    """Any sequence in, any sequence out: texts, integer ids, or a row of numbers per step.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t, source)``, or ``sum_t mean (row_t - y_t)^2 - log p(end_t)``
    Source: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; features: Chan et al. 2016 (of speech),
        https://arxiv.org/abs/1508.01211, Yao et al. 2015 (of video frames), https://arxiv.org/abs/1502.08029

    ``train`` (and ``valid``, ``test``) names a TSV file, plain or .gz: a source, a tab, its target, and if ``tagged`` a
    tab and a tag (a language, a speaker), which the query ``language_tag`` and ``model.tag_inputs`` give the model.
    ``source`` and ``target`` are the kinds of the columns: ``characters``; ``words``, separated by spaces; ``ids``,
    words that are whole numbers; or ``features``, the name of a .csv, .npy or .npz file in the TSV file's
    folder, with a row of numbers per step. ``step_names`` is a column of the sources' files that labels the steps in
    figures, such as a time stamp, and is not a feature; ``target_step_names`` one of the targets'. Features are scaled
    by the training split's means and deviations. With ``target=features`` rows of numbers are written, and a source has
    one target.

    ``shared_vocabulary`` is one vocabulary for both sides, so that ``output=copy`` can write every symbol of the
    training sources.

    A missing split is held out of the training file by a hash of the source as written, or of its file's name:
    ``holdout`` of the sources for validation, twice as many for testing. Lines with equal sources are one source with
    several references; the closest one counts.
    """

    monitor = "valid_symbol_error_rate"
    maximize = False
    data_files = ("train", "valid", "test")

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        source: Literal["characters", "words", "ids", "features"] = "words",
        target: Literal["characters", "words", "ids", "features"] = "words",
        tagged: bool = False,
        step_names: str | None = None,
        target_step_names: str | None = None,
        shared_vocabulary: bool = False,
        holdout: Probability = 0.05,
        label_smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.source, self.target = source, target
        self.shared_vocabulary = shared_vocabulary and "features" not in (source, target)
        self.tagged, self.step_names, self.target_step_names = tagged, step_names, target_step_names
        self.holdout, self.label_smoothing = holdout, label_smoothing
        self.scales: FeatureScaler | None = None
        self.columns: Symbols = ()
        self.known_targets: Collection[str] = ()  # symbols of the training data
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then says how many sources are in two splits."""
        if not self.files["train"]:
            raise UserError("task.train is not set: name a TSV file of lines with a source, a tab and its target")
        reader = self._pair_reader()
        pairs = self._split(reader)
        check_splits(pairs)
        sources, targets = [pair.source for pair in pairs.train], [*_references(pairs.train)]
        if self.shared_vocabulary:
            sources = targets = sources + targets
        source = _build_side(self.source, sources, (pair.features for pair in pairs.train), reader.sources.columns)
        target = _build_side(self.target, targets, (pair.target for pair in pairs.train), reader.targets.columns)
        tags = training_tags(pairs)
        self.notes += self._unit_notes(pairs.train)
        self.scales = target if isinstance(target, FeatureScaler) else None
        self.monitor = f"valid_{SCALED if self.scales else ERROR_RATES[0]}" + (f"_{MACRO}" if tags else "")
        return SequenceData(pairs, source, target, tags)

    def test_pairs(self) -> list[Pair]:
        """Read the pairs of ``test`` without the other parts."""
        assert self.files["test"] is not None
        reader = self._pair_reader((self.columns, self.scales.columns if self.scales else ()))
        reader.notes, reader.known_targets = self.notes, self.known_targets
        return list(reader.read(resolve_data_path("task.test", self.files["test"])).values())

    def _pair_reader(self, trained_columns: tuple[Symbols, Symbols] = ((), ())) -> PairReader:
        return PairReader(
            self.source, self.target, self.tagged, self.step_names, self.target_step_names, trained_columns
        )

    def _split(self, reader: PairReader) -> Splits[Pair]:
        """Read the parts; hold out those without a file, ordered by hash."""
        paths = {part: resolve_data_path(f"task.{part}", file) for part, file in self.files.items() if file}
        train = reader.read(paths["train"])
        reader.known_targets = set(chain.from_iterable(_references(train.values())))
        files = {part: reader.read(path) for part, path in paths.items() if part != "train"}
        # (source as text, tag) -> pair
        existing = {part: pairs.items() for part, pairs in files.items()}
        splits = hold_out_missing(train.items(), existing, lambda item: item[0][0], self.holdout, sort_held_out=True)
        keys = {
            part: [self._source_key(paths[part], source, tag) for source, tag in pairs] for part, pairs in files.items()
        }
        self.notes = reader.notes + overlap_notes(
            {self._source_key(paths["train"], source, tag) for (source, tag), _ in splits.train}, keys
        )
        return Splits(*([pair for _, pair in part] for part in splits))

    def _unit_notes(self, pairs: Sequence[Pair]) -> list[str]:
        """Say that most target words occur once, as where texts have no spaces."""
        counts = Counter(word for pair in pairs for reference in pair.references for word in reference)
        single = sum(count == 1 for count in counts.values())
        if (
            self.target != "words"
            or len(pairs) < MIN_LINES
            or 2 * single <= len(counts)
            or 4 * len(counts) < len(pairs)
        ):
            return []
        advice = "if they are texts of characters, set task.target=characters"
        return [f"{single:,} of {len(counts):,} target words occur once, and can hardly be learned; {advice}"]

    def _source_key(self, table: Path, source: str, tag: str) -> tuple[str | Path, str]:
        """What tells sources apart: their text, or their file, which tables in two folders may name alike."""
        return (table.parent / source).resolve() if self.source == "features" else source, tag

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build symbol and sequence error rates, in percent, against the closest reference; of numbers errors.

        With tags, for each of them. They are those of loaded data, or of a reopened run.
        """
        if self.scales is None:
            return metrics_per_tag({name: name for name in ERROR_RATES}, tags)
        scales = {"mean": self.scales.mean, "scale": self.scales.scale}
        return metrics_per_tag({name: name for name in NUMBER_ERRORS}, tags, **scales)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch of symbols or matrices."""
        references = [pair.references if pair.target is None else pair.target for pair in pairs]
        update_all(metrics, outputs, references, [pair.tag for pair in pairs])

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return the scales of the scaled error."""
        return {SCALED: self.scales.signature} if self.scales else {}

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's text like the first column of the data; a blank one or an invalid id is a UserError."""
        if self.source == "features":
            return super().tokenize(text, tag)
        if not text.strip():
            raise UserError(f"{text!r} is empty; there is nothing to read")
        return split_text(text.strip(), self.source)

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Join output symbols to a text."""
        return join_symbols(tuple(symbols), self.target)

    def restore(self, folder: Path) -> None:
        """Read the scales of target features or the target symbols, and the names of source columns."""
        if self.target == "features":
            self.scales = FeatureScaler.load(folder / TARGET_FEATURES)
        else:
            self.known_targets = Vocabulary.load(folder / TARGET_SYMBOLS).symbols[len(SPECIALS) :]
        self.columns = FeatureScaler.load(folder / SOURCE_FEATURES).columns if self.source == "features" else ()


def _references(pairs: Iterable[Pair]) -> Iterator[Symbols]:
    return (reference for pair in pairs for reference in pair.references)


def _build_side(
    kind: str, sequences: Iterable[Symbols], matrices: Iterable[Matrix | None], columns: Symbols
) -> Vocabulary | FeatureScaler:
    """Build the vocabulary of sequences, with ids in numeric order; of features the scales of matrices."""
    if kind == "features":
        return FeatureScaler.of((matrix for matrix in matrices if matrix is not None), columns)
    vocabulary = Vocabulary.of(sequences)
    if kind != "ids":
        return vocabulary
    # Without leading zeros the shorter number is the smaller one.
    ids = sorted(vocabulary.symbols[len(SPECIALS) :], key=lambda symbol: (len(symbol), symbol))
    return Vocabulary(SPECIALS + tuple(ids))
