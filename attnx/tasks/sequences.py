"""The task ``sequences``: from the user's own sequences, symbols or features, to symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from torch import nn

from attnx import registry
from attnx.data.features import Features
from attnx.data.pairs import Pair, Symbols
from attnx.data.paths import fill_in
from attnx.data.split import Splits, place
from attnx.data.tables import Table, cut, join
from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO, of_each, show
from attnx.registry import Probability, register
from attnx.tasks.protocols import SequenceData, tags_of

RATES = ("symbol_error_rate", "sequence_error_rate")
Found = dict[tuple[str, str], Pair]


@register("task", "sequences")
class AnySequence:
    """Any sequence in, any sequence of symbols out: text, whole numbers, or a row of measured numbers a step.

    Formula: ``minimise -sum_t log p(symbol_t | symbols_<t, source)``
    Source: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; features: Chan et al. 2016 (of speech),
        https://arxiv.org/abs/1508.01211, Yao et al. 2015 (of video frames), https://arxiv.org/abs/1502.08029

    ``train`` (and ``valid``, ``test``) names a TSV file, plain or .gz: a source, a tab, its target, and if ``tagged`` a
    tab and a tag (a language, a speaker), which the query ``language_tag`` and ``model.tag`` tell the model. ``source``
    and ``target`` say how a column is cut: into ``characters``, into ``words`` with spaces between, or into ``ids``,
    words that must be whole numbers. With ``source=features`` the first column names a .csv, .npy, .npz or .parquet
    file, seen from the TSV file's folder, with a row of numbers a step; its column ``step_names``, time stamps say,
    labels the pictures and is no feature. Features are scaled by the training part's means and deviations.

    A part that is left out is held out of the training file: ``holdout`` of the sources for validation, twice as many
    for testing, by a hash of the source as it is written, or of the file's name. Lines with equal sources are one
    source with several references, of which the closest counts.
    """

    monitor = "valid_symbol_error_rate"
    maximise = False

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        source: Literal["characters", "words", "ids", "features"] = "words",
        target: Literal["characters", "words", "ids"] = "words",
        tagged: bool = False,
        step_names: str | None = None,
        holdout: Probability = 0.05,
        smoothing: Probability = 0.0,
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        self.source, self.target = source, target
        self.tagged, self.step_names = tagged, step_names
        self.holdout, self.smoothing = holdout, smoothing
        self.notes: list[str] = []

    def load(self) -> SequenceData:
        """Read and split the data; ``notes`` then tells which sources are in two parts.

        Raises:
            UserError: a file is missing or malformed, with file and line; a package is missing; a part is empty; or a
                tag is not one of the training part.
        """
        pairs = self._split()
        for name, part in pairs._asdict().items():
            if not part:
                mend = "lower task.holdout" if name == "train" else f"raise task.holdout, or name a task.{name}"
                raise UserError(f"the {name} part holds no pairs; {mend}")
        target = (reference for pair in pairs.train for reference in pair.references)
        data = SequenceData(pairs, self._measured(pairs.train), _vocabulary(target, self.target), tags_of(pairs))
        self.monitor = f"valid_{RATES[0]}_{MACRO}" if data.tags else f"valid_{RATES[0]}"
        return data

    def _split(self) -> Splits:
        """The parts; those held out are in an order that the hash decides, so any first so many are a fair sample."""
        if not self.files["train"]:
            raise UserError("task.train is not set: name a TSV file of lines with a source, a tab and its target")
        if self.step_names is not None and self.source != "features":
            raise UserError(f"task.step_names={self.step_names} is for task.source=features; leave it out")
        table = Table(self.source, self.target, self.tagged, self.step_names)
        given = {part: table.read(fill_in(f"task.{part}", file)) for part, file in self.files.items() if file}
        low = 0.0 if "test" in given else 2 * self.holdout
        high = 1.0 if "valid" in given else 1 - self.holdout
        placed = [(place((name,)), pair) for (name, _), pair in given["train"].items()]
        held = sorted((one for one in placed if not low <= one[0] < high), key=lambda one: one[0])
        self.notes = [_shared(given["train"], part, given[part]) for part in ("valid", "test") if part in given]
        self.notes = list(filter(None, self.notes))
        return Splits(
            train=[pair for at, pair in placed if low <= at < high],
            valid=list(given["valid"].values()) if "valid" in given else [pair for at, pair in held if at >= high],
            test=list(given["test"].values()) if "test" in given else [pair for at, pair in held if at < low],
        )

    def _measured(self, pairs: Sequence[Pair]) -> Vocabulary | Features:
        if self.source == "features":
            return Features.of(pair.features for pair in pairs if pair.features is not None)
        return _vocabulary((pair.source for pair in pairs), self.source)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Symbol and sequence error rates, in percent, against the closest reference; with tags, for each of them."""
        return of_each({rate: partial(registry.build, "metric", rate) for rate in RATES}, tags)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> None:
        """Show the metrics a batch: the symbols written for each pair."""
        show(metrics, outputs, [pair.references for pair in pairs], [pair.tag for pair in pairs])

    def symbols(self, text: str, tag: str = "") -> Symbols:
        """A user's text, cut as the first column of the data.

        Raises:
            UserError: it holds nothing, an id is none, or this task reads features.
        """
        if self.source == "features":
            raise UserError("this task reads matrices of features, not text; attnx.data.matrices.read_matrix reads one")
        if not text.strip():
            raise UserError(f"{text!r} holds nothing to read")
        return cut(text.strip(), self.source)

    def text(self, symbols: Sequence[str]) -> str:
        """Output symbols as text."""
        return join(tuple(symbols), self.target)

    def save(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""

    def restore(self, folder: Path) -> None:
        """Nothing beside the vocabularies."""


def _vocabulary(sequences: Iterable[Symbols], how: str) -> Vocabulary:
    """The vocabulary of sequences; ids are in the order of the numbers they are."""
    found = Vocabulary.of(sequences)
    if how != "ids":
        return found
    # Without leading zeros the shorter number is the smaller one, however many digits there are.
    return Vocabulary(SPECIALS + tuple(sorted(found.symbols[len(SPECIALS) :], key=lambda id_: (len(id_), id_))))


def _shared(train: Found, name: str, part: Found) -> str:
    """What to note of sources that a given part has in common with the training file; nothing if there are none."""
    met = len(train.keys() & part.keys())
    return f"{met:,} of {len(part):,} sources of the {name} part are also in the training part" if met else ""
