"""The task ``sequences``: from the user's own sequences to others of theirs, symbols or features on either side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from attnx import registry
from attnx.data.examples import Pair, Symbols
from attnx.data.features import Features
from attnx.data.paths import fill_in
from attnx.data.readers.tsv import Table, cut, join
from attnx.data.split import Splits, bounds, met_in_training, place
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO, metrics_per_tag, update_all
from attnx.registry import Probability, register
from attnx.runs.layout import SOURCE_FEATURES, TARGET_FEATURES
from attnx.tasks.protocols import SequenceData, tags_of

RATES = ("symbol_error_rate", "sequence_error_rate")
ERRORS = ("mean_absolute_error", "root_mean_squared_error", "length_error")
SCALED = "scaled_error"


@register("task", "sequences")
class AnySequence:
    """Any sequence in, any sequence out: text, whole numbers, or a row of measured numbers a step.

    Formula: ``minimize -sum_t log p(symbol_t | symbols_<t, source)``, or ``sum_t mean (row_t - y_t)^2 - log p(end_t)``
    Source: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; features: Chan et al. 2016 (of speech),
        https://arxiv.org/abs/1508.01211, Yao et al. 2015 (of video frames), https://arxiv.org/abs/1502.08029

    ``train`` (and ``valid``, ``test``) names a TSV file, plain or .gz: a source, a tab, its target, and if ``tagged`` a
    tab and a tag (a language, a speaker), which the query ``language_tag`` and ``model.tag_inputs`` tell the model.
    ``source`` and ``target`` say how a column is cut: into ``characters``, into ``words`` with spaces between, or into
    ``ids``, words that must be whole numbers. ``features`` means that the column names a .csv, .npy, .npz or .parquet
    file, seen from the TSV file's folder, with a row of numbers a step; ``step_names`` is a column of the sources'
    files, time stamps say, that labels the pictures and is no feature, ``target_step_names`` one of the targets'.
    Features are scaled by the training part's means and deviations; with ``target=features`` rows of numbers are
    written, and a source has one target.

    With ``shared_vocabulary`` both sides have one vocabulary, so that a symbol that training has on one side alone is
    on the other, too: ``output=copy`` can then write whatever symbol of a source training has met.

    A part that is left out is held out of the training file: ``holdout`` of the sources for validation, twice as many
    for testing, by a hash of the source as it is written, or of the file's name. Lines with equal sources are one
    source with several references, of which the closest counts.
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
        smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.source, self.target = source, target
        self.shared_vocabulary = shared_vocabulary
        self.tagged, self.step_names, self.target_step_names = tagged, step_names, target_step_names
        self.holdout, self.smoothing = holdout, smoothing
        self.scales: Features | None = None
        self.columns: Symbols = ()
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then tells which sources are in two parts.

        Raises:
            UserError: a file is missing or malformed, with file and line; a package is missing; a part is empty; or a
                tag is not one of the training part.
        """
        self._check()
        table = self._table()
        pairs = self._split(table)
        for name, part in pairs._asdict().items():
            if not part:
                mend = "lower task.holdout" if name == "train" else f"raise task.holdout, or name a task.{name}"
                raise UserError(f"the {name} part holds no pairs; {mend}")
        data = SequenceData(pairs, self._read(pairs.train, table), self._written(pairs.train, table), tags_of(pairs))
        self.scales = data.target if isinstance(data.target, Features) else None
        self.monitor = f"valid_{SCALED if self.scales else RATES[0]}" + (f"_{MACRO}" if data.tags else "")
        return data

    def test_pairs(self) -> list[Pair]:
        """The pairs of ``test``; what was trained on is not looked at."""
        assert self.files["test"] is not None
        trained = self.columns, self.scales.columns if self.scales else ()
        return list(self._table(trained).read(fill_in("task.test", self.files["test"])).values())

    def _table(self, trained: tuple[Symbols, Symbols] = ((), ())) -> Table:
        return Table(self.source, self.target, self.tagged, self.step_names, self.target_step_names, trained)

    def _check(self) -> None:
        if not self.files["train"]:
            raise UserError("task.train is not set: name a TSV file of lines with a source, a tab and its target")
        if self.step_names is not None and self.source != "features":
            raise UserError(f"task.step_names={self.step_names} is for task.source=features; leave it out")
        if self.target_step_names is not None and self.target != "features":
            named = f"task.target_step_names={self.target_step_names}"
            raise UserError(f"{named} is for task.target=features; leave it out")
        if self.shared_vocabulary and "features" in (self.source, self.target):
            raise UserError("task.shared_vocabulary=true shares symbols, and features are none; leave it out")
        if self.smoothing and self.target == "features":
            named = f"task.smoothing={self.smoothing:g}"
            raise UserError(f"{named} smooths symbols, and task.target=features has none; leave it out")

    def _split(self, table: Table) -> Splits:
        """The parts; those held out are in an order that the hash decides, whatever that of the file."""
        given = {part: table.read(fill_in(f"task.{part}", file)) for part, file in self.files.items() if file}
        low, high = bounds(self.holdout, given)
        placed = [(place((name,)), pair) for (name, _), pair in given["train"].items()]
        held = sorted((one for one in placed if not low <= one[0] < high), key=lambda one: one[0])
        self.notes = []
        for name, part in given.items():
            if name != "train":
                self.notes += met_in_training(name, len(given["train"].keys() & part.keys()), len(part))
        return Splits(
            train=[pair for at, pair in placed if low <= at < high],
            valid=list(given["valid"].values()) if "valid" in given else [pair for at, pair in held if at >= high],
            test=list(given["test"].values()) if "test" in given else [pair for at, pair in held if at < low],
        )

    def _read(self, pairs: Sequence[Pair], table: Table) -> Vocabulary | Features:
        if self.source == "features":
            matrices = (pair.features for pair in pairs if pair.features is not None)
            return Features.of(matrices, table.sources.columns)
        return _vocabulary(self._symbols(pairs, "source"), self.source)

    def _written(self, pairs: Sequence[Pair], table: Table) -> Vocabulary | Features:
        if self.target == "features":
            matrices = (pair.target for pair in pairs if pair.target is not None)
            return Features.of(matrices, table.targets.columns)
        return _vocabulary(self._symbols(pairs, "target"), self.target)

    def _symbols(self, pairs: Sequence[Pair], side: Literal["source", "target"]) -> Iterable[Symbols]:
        """What the vocabulary of a side is made of; of a shared one both."""
        if self.shared_vocabulary or side == "source":
            yield from (pair.source for pair in pairs)
        if self.shared_vocabulary or side == "target":
            yield from (reference for pair in pairs for reference in pair.references)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Symbol and sequence error rates, in percent, against the closest reference; of numbers errors.

        With tags, for each of them. Of numbers the data must have been loaded, or a run reopened.
        """
        named = RATES if self.target != "features" else ERRORS
        measures = {name: partial(registry.build, "metric", name) for name in named}
        if self.scales is not None:
            scales = {"mean": self.scales.mean, "scale": self.scales.scale}
            measures = {SCALED: partial(registry.build, "metric", SCALED, **scales), **measures}
        return metrics_per_tag(measures, tags)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Any], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols or the matrix written for each pair."""
        references = [pair.references if pair.target is None else pair.target for pair in pairs]
        update_all(metrics, outputs, references, [pair.tag for pair in pairs])

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A user's text, cut as the first column of the data.

        Raises:
            UserError: it holds nothing, an id is none, or this task reads features.
        """
        if self.source == "features":
            raise UserError(
                "this task reads matrices of features, not text; read one with "
                "attnx.data.readers.feature_matrices.read_matrix"
            )
        if not text.strip():
            raise UserError(f"{text!r} holds nothing to read")
        return cut(text.strip(), self.source)

    def text(self, symbols: Sequence[str]) -> str:
        """Output symbols as text.

        Raises:
            UserError: this task writes features.
        """
        if self.target == "features":
            raise UserError("this task writes matrices of features, not text")
        return join(tuple(symbols), self.target)

    def save(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""

    def restore(self, folder: Path) -> None:
        """How the targets' features are scaled, if they are any, and what the sources' columns are called."""
        self.scales = Features.load(folder / TARGET_FEATURES) if self.target == "features" else None
        self.columns = Features.load(folder / SOURCE_FEATURES).columns if self.source == "features" else ()


def _vocabulary(sequences: Iterable[Symbols], how: str) -> Vocabulary:
    """The vocabulary of sequences; ids are in the order of the numbers they are."""
    found = Vocabulary.of(sequences)
    if how != "ids":
        return found
    # Without leading zeros the shorter number is the smaller one, however many digits there are.
    return Vocabulary(SPECIALS + tuple(sorted(found.symbols[len(SPECIALS) :], key=lambda id_: (len(id_), id_))))
