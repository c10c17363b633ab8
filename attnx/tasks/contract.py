"""The contract of tasks: their data, target, metrics and texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from torch import nn

from attnx.data.dataset import PairDataset
from attnx.data.examples import Pair, Symbols
from attnx.data.features import FeatureScaler, Matrix
from attnx.data.output_limit import OutputLimit
from attnx.data.splits import Splits
from attnx.data.text_pipeline import TextPipeline
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.printable import quoted
from attnx.metrics.per_tag import update_all
from attnx.nn.contracts import TargetSpec
from attnx.nn.targets.build import step_spec
from attnx.runs.layout import OUTPUT_LIMIT, SIDES

TaskOutput: TypeAlias = list[str] | Matrix
"""What a model writes for an example: symbols, or a matrix (t, f) in the data's units."""
NOTED_UNKNOWN_SHARE = 0.05
MAX_UNKNOWN_LENGTH = 60


@dataclass(frozen=True)
class SequenceData:
    """Pairs, split and encoded by the vocabularies, or scales of features, of the training split.

    ``tags`` are all tags (languages) of the training split, in the order of their index. ``rows`` are that split
    if it is encoded already; ``pairs.train`` may then be empty. ``output_limit`` says how long outputs may become where
    the search's options do not.
    """

    pairs: Splits[Pair]
    source: Vocabulary | FeatureScaler
    target: Vocabulary | FeatureScaler
    tags: tuple[str, ...] = ()
    rows: PairDataset | None = None
    output_limit: OutputLimit = field(default_factory=OutputLimit)

    @classmethod
    def of(cls, pairs: Splits[Pair]) -> SequenceData:
        """Build vocabularies and tags from the training split; an empty split is a UserError, and so is another tag."""
        check_splits(pairs)
        source = Vocabulary.of(pair.source for pair in pairs.train)
        target = Vocabulary.of(reference for pair in pairs.train for reference in pair.references)
        return cls(pairs, source, target, training_tags(pairs))

    def train_dataset(self) -> PairDataset:
        """Encode the training split, a row per pair and reference."""
        if self.rows is not None:
            return self.rows
        return PairDataset.from_pairs(self.pairs.train, self.source, self.target, True, self.tags)

    def save_sides(self, folder: Path) -> None:
        """Write the vocabulary or the scales of each side, as a run folder has them."""
        for side, (symbols, features) in zip((self.source, self.target), SIDES.values(), strict=True):
            side.save(folder / (symbols if isinstance(side, Vocabulary) else features))
        self.output_limit.save(folder / OUTPUT_LIMIT)

    def evaluation_dataset(self, pairs: list[Pair]) -> PairDataset:
        """Encode pairs, a row each, with the first reference as the target."""
        return PairDataset.from_pairs(pairs, self.source, self.target, False, self.tags)

    def unknown_notes(self, split: str, pairs: Sequence[Pair]) -> list[str]:
        """Return a note on each side of a split with many symbols that are not in its vocabulary."""
        references = (
            compress(reference, pair.loss_mask) if pair.loss_mask else reference
            for pair in pairs
            for reference in pair.references
        )
        notes = (
            _unknown_note(f"{split} sources", self.source, (pair.source for pair in pairs)),
            _unknown_note(f"{split} references", self.target, references),
        )
        return [note for note in notes if note]


def _unknown_note(where: str, side: Vocabulary | FeatureScaler, sequences: Iterable[Iterable[str]]) -> str:
    """Say which symbols of sequences are unknown, the most frequent first; nothing if few are."""
    if not isinstance(side, Vocabulary):
        return ""
    counts = Counter(chain.from_iterable(sequences))
    unknown = Counter({symbol: counts[symbol] for symbol in counts if not side.knows(symbol)})
    share = unknown.total() / max(1, counts.total())
    if share < NOTED_UNKNOWN_SHARE:
        return ""
    symbols = quoted(" ".join(symbol for symbol, _ in unknown.most_common()), MAX_UNKNOWN_LENGTH)
    missing = f"{100 * share:.0f} % of the symbols of the {where} are not in the vocabulary of training"
    return f"{missing}, such as {symbols}; write both alike, or enlarge it"


def check_splits(splits: Splits[Any]) -> None:
    """Raise a UserError if a split is empty."""
    for name, split in splits._asdict().items():
        if not split:
            remedy = "lower task.holdout" if name == "train" else "raise task.holdout, or give more data"
            raise UserError(f"the {name} split holds no pairs; {remedy}")


def training_tags(pairs: Splits[Pair]) -> tuple[str, ...]:
    """Return the sorted tags of the training split; a tag that another split has alone is a UserError."""
    tags = sorted({pair.tag for pair in pairs.train})
    for name, split in (("valid", pairs.valid), ("test", pairs.test)):
        for tag in sorted({pair.tag for pair in split} - set(tags)):
            shown = repr(tag) if tag else "pairs without a tag"
            raise UserError(f"the {name} split has {shown}, which the training split lacks")
    return () if tags == [""] else tuple(tags)


class SequenceTask(Protocol):
    """The contract of a task, which tasks inherit.

    A task defines ``load``, ``metrics``, ``monitor``, ``maximize`` and ``label_smoothing``; all else has a default.
    """

    monitor: str  #: the logged validation metric that selects the best weights: ``valid_per``
    maximize: bool  #: whether higher is better
    label_smoothing: float  #: label smoothing of the loss
    notes: Sequence[str] = ()  #: lines about the data after :meth:`load`; they are shown and saved
    # From here on: literals, which are read from the source before the task is imported.
    #: whether a target continues its source, as in language models; there is no encoder then
    is_continuation: bool = False
    #: whether a target labels the steps of its source, which the decoder reads. Metrics are then of the likeliest label
    #: at each step of a pair's ``loss_mask``; nothing is decoded. Such a task ``is_continuation``, too
    has_step_labels: bool = False
    has_labels: bool = False  #: whether a target is one label
    has_sentences: bool = False  #: whether sources are divided into sentences
    has_file_inputs: bool = False  #: whether a user's input is a file, not a text
    #: the options that name files or folders of data, which must exist before a run begins
    data_files: tuple[str, ...] = ()
    #: the option with the number of training examples that the task draws; settings of a sweep are checked with few
    num_drawn: str | None = None
    for_models: tuple[str, ...] = ()  #: the options that only models read which name them in ``reads``
    #: what is measured with the run, as ``NAME_mse`` beside its ``mse``, and compared with it: the name, and the words
    baselines: ClassVar[Mapping[str, str]] = {}
    #: the functions, in modules without torch, that draw ``predictions`` or ``alignments`` in place of the core's,
    #: ``{"predictions": ".figures.draw_points"}``; ``attnx.reports.run.task_declarations`` has their type
    figures: ClassVar[Mapping[str, str]] = {}
    #: the files that they write into a run folder, with captions: ``{"points.png": "some answers"}``
    pictures: ClassVar[Mapping[str, str]] = {}
    #: the function, in a module without torch, that raises a UserError if the options contradict each other, before
    #: torch is imported: ``.options.read_design``
    check_options: ClassVar[str] = ""
    #: what reports say of metrics that only this task has, by name: ``higher_is_better``, ``is_percent``, ``is_error``
    #: (it is compared by ratios), ``label``, ``unit``
    metric_facts: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def load(self) -> SequenceData:
        """Read and split the data; errors in them are UserErrors with file and line."""

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build torchmetrics Metrics by name.

        Values are logged as ``valid_NAME`` and ``test_NAME``; entries of a mapping as ``test_NAME_ENTRY``.
        """

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch."""
        update_all(metrics, outputs, [pair.references for pair in pairs], [pair.tag for pair in pairs])

    def is_right(self, output: TaskOutput, pair: Pair) -> bool | None:
        """Whether an output is a right one, to mark it in pictures; None where only metrics can tell."""
        if pair.target is not None:
            return None if len(output) == len(pair.target) else False
        return tuple(output) in pair.references

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Convert a user's text to source symbols."""
        raise UserError("this task reads matrices of numbers, not text")

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Convert output symbols to a text."""
        return " ".join(symbols)

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return the exact definitions of metrics by name; they are shown and saved."""
        return {}

    @classmethod
    def build_target(cls, options: Mapping[str, Any], symbols: int, features: int) -> TargetSpec:
        """Build the specification of a target step from the task's options.

        Args:
            options: checked, with ``name``.
            symbols: size of the target vocabulary; 0 if targets are numbers.
            features: numbers per target step; 0 if targets are symbols.
        """
        return step_spec(symbols, features)

    def test_pairs(self) -> list[Pair]:
        """Return the pairs that the option ``test`` names, to evaluate a reopened run on other data."""
        return self.load().pairs.test

    def neighbors(self, pairs: Sequence[Pair]) -> tuple[Sequence[int], int]:
        """Return an order of test pairs, and how many in a row depend on each other; these are resampled together."""
        return range(len(pairs)), 1

    @property
    def num_source_steps(self) -> int:
        """How many steps a source that is a matrix has; 1 if it may have any number."""
        return 1

    def check_source(self, matrix: Matrix) -> None:
        """Raise a UserError if a user's matrix, finite and as wide as the data, is no source of this task."""

    def read_source(self, path: Path) -> Pair | None:
        """Read a user's file in the task's own format; ``notes`` are then about it.

        None if the task has no such format, and the file is one of features.
        """
        return None

    def save_sources(self, folder: Path, pairs: Sequence[Pair]) -> None:
        """Write what ``figures`` need of test sources."""

    def save(self, folder: Path) -> None:
        """Write what is needed to reopen a run besides the vocabularies, such as tokenizers."""

    def restore(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; called instead of :meth:`load` when a run is reopened."""


class TextTask(SequenceTask):
    """A task of texts, which a pipeline turns into symbols and back."""

    texts: TextPipeline

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Normalize and tokenize a user's text; a blank one is a UserError."""
        symbols = self.texts.source.tokenize(self.texts.normalize(text))
        if not symbols:
            raise UserError(f"{text!r} is empty; there is nothing to read")
        return symbols

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Join output symbols to a text; an unknown one reads ``⁇``."""
        return self.texts.detokenize(symbols)

    def save(self, folder: Path) -> None:
        """Write the tokenizers: ``source.tokenizer`` and, unless it is shared, ``target.tokenizer``."""
        self.texts.save(folder)

    def restore(self, folder: Path) -> None:
        """Read the tokenizers."""
        self.texts.restore(folder)
