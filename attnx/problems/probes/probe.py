"""The task ``probe``: label the steps of made sequences, each of which tests one ability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from torch import nn

from attnx.data.dataset import PairDataset, Ragged
from attnx.data.examples import Pair, Symbols
from attnx.data.splits import SplitName, Splits
from attnx.data.vocabulary import NO_LABEL, PAD, SPECIALS, Vocabulary
from attnx.errors import UserError
from attnx.metrics.per_tag import metrics_per_tag, update_all
from attnx.registry import NonNegativeFloat, NonNegativeInt, PositiveInt, Probability, register
from attnx.tasks.contract import SequenceData, SequenceTask, TaskOutput

from .drawn import NOWHERE, Difficulty, Drawn
from .options import read_design
from .sampling import hash_rows
from .target import CompressedLabels, StepLabels

TARGETS = {"compression": CompressedLabels}
"""How labels follow from states, where each does not from its own step's."""
TOKENS_PER_CHUNK, MIN_ROWS = 2**18, 64  # drawn at once: they stay in a cache
NUM_SHARES: Final = 8
# The shares of all hashes that are validation and test; training has the others.
HELD_OUT: Final[dict[SplitName, int]] = {"valid": 0, "test": 1}
MAX_ROUNDS = 20


@register(
    "task",
    "probe",
    read_if={
        "pairs": "problem=mqar",
        "power": "problem=mqar",
        "fillers": "problem=mqar",
        "filler_symbols": ["problem=mqar fillers=own", "problem=noisy_recall"],
        "vocabulary": "problem!=parity|modular_counting|permutations",
        "noise": "problem=noisy_recall",
        "motif": "problem=fuzzy_recall",
        "train_labels": "problem=recall|noisy_recall|fuzzy_recall",
        "tokens": "problem=copying|selective_copying",
        "modulus": "problem=modular_counting",
        "operators": "problem=modular_counting",
        "elements": "problem=permutations",
        "moves": "problem=permutations",
    },
    check_options=".options.read_design",
)
@dataclass(eq=False)
class Probe(SequenceTask):
    """Made sequences that test one ability: the label of a marked step follows from the steps up to it.

    Formula: ``minimize -sum over marked t of log p(y_t | x_1, ..., x_t)``
    Source: ``mqar``: Arora et al. 2023, https://arxiv.org/abs/2312.04927; ``recall``, ``noisy_recall``,
        ``fuzzy_recall``, ``selective_copying``, ``compression``, ``memorization``: Poli et al. 2024,
        https://arxiv.org/abs/2403.17844; ``copying``: Arjovsky et al. 2016, https://arxiv.org/abs/1511.06464;
        ``induction``: Fu et al. 2023, https://arxiv.org/abs/2212.14052; ``parity``, ``modular_counting``: Grazzi et al.
        2025, https://arxiv.org/abs/2411.12537; ``permutations``: Merrill et al. 2024, https://arxiv.org/abs/2404.08819

    ``mqar`` is multi-query associative recall: ``pairs`` of a key and a value, then each key once more, which is
    labeled by its value. Half of the ``vocabulary`` are keys. Slot i after the pairs holds a query with weight
    i^(``power`` - 1). The other slots hold ``fillers``: one ``blank`` symbol, ``filler_symbols`` of their ``own``, or
    ``any`` symbol, as in a later setting of its authors, where a filler may be a key.

    ``recall`` are pairs of a key and its value in this sequence, of which the values of keys seen before count;
    ``train_labels=all`` trains on every next symbol. In ``noisy_recall`` a pair is, with probability ``noise``, two of
    ``filler_symbols`` further symbols; in ``fuzzy_recall`` keys and values are of 1 to ``motif`` symbols, and keys of
    the test split of ``motif``. ``copying`` repeats the first ``tokens`` symbols, ``selective_copying`` those that
    stand among blanks. In ``compression`` the labels are all symbols, in their order, and a small network reads them
    from the state of the last step, a signal. ``memorization`` asks for the values of keys, which are the same in all
    sequences; ``induction`` for what followed the star. ``parity`` is of bits. ``modular_counting`` is of digits modulo
    ``modulus``: their sum, or with ``operators`` between them the result: ``all`` are plus, minus and times, ``sum``
    plus and minus. ``permutations`` labels each step by the product of the permutations of ``elements`` so far;
    ``moves`` limits them to those of at most ``three`` elements, or to ``swaps``.

    ``length`` is that of the sequences: a number, a range such as ``3-40``, or a list of them, taken in turn; ``64x4``
    are 64 steps with 4 pairs. ``test`` are those of the test split, by default the same; results are split by them.
    Sequences are drawn from ``seed`` before training: ``examples`` for training and ``num_held_out`` each for
    validation and testing. Metrics are of the likeliest label at each marked step, given the true steps before it.
    """

    monitor = "valid_accuracy"
    maximize = True
    label_smoothing = 0.0
    is_continuation = True
    has_step_labels = True
    num_drawn = "examples"
    leaves_unread = ("decoding", "model.scheduled_sampling")

    problem: Literal[
        "mqar",
        "recall",
        "noisy_recall",
        "fuzzy_recall",
        "copying",
        "selective_copying",
        "compression",
        "memorization",
        "induction",
        "parity",
        "modular_counting",
        "permutations",
    ] = "mqar"
    length: PositiveInt | str | list[PositiveInt | str] | None = None
    test: PositiveInt | str | list[PositiveInt | str] | None = None
    pairs: PositiveInt | None = None
    vocabulary: PositiveInt | None = None
    power: NonNegativeFloat = 0.01
    fillers: Literal["blank", "own", "any"] = "blank"
    filler_symbols: PositiveInt = 16
    noise: Probability = 0.2
    motif: PositiveInt = 3
    train_labels: Literal["all", "marked"] = "all"
    tokens: PositiveInt | None = None
    modulus: PositiveInt = 5
    operators: Literal["none", "sum", "all"] = "all"
    elements: PositiveInt = 5
    moves: Literal["all", "three", "swaps"] = "all"
    examples: PositiveInt = 100_000
    num_held_out: PositiveInt = 1000
    seed: NonNegativeInt = 1

    def __post_init__(self) -> None:
        """Build the problem; a UserError if no sequences can be drawn by these options."""
        self.design = read_design(vars(self))
        self.notes: list[str] = []
        self._hashes: dict[str, list[npt.NDArray[np.uint64]]] = {}  # of the sequences of each split

    @classmethod
    def build_target(cls, options: Mapping[str, Any], symbols: int, features: int) -> StepLabels:
        """A label for each step."""
        return TARGETS.get(options["problem"], StepLabels)(symbols)

    def load(self) -> SequenceData:
        """Draw the data; ``notes`` then says how many examples are in two splits, where few are different."""
        vocabulary = Vocabulary(SPECIALS + self.design.problem.symbols)
        splits = Splits([], self._draw_pairs("valid"), self.test_pairs())
        rows = self._draw_train()
        train, self.notes = np.concatenate(self._hashes["train"]), []
        for split in ("valid", "test"):
            hashes = np.concatenate(self._hashes[split])
            if count := int(np.isin(hashes, train).sum()):
                self.notes.append(
                    f"{count:,} of {len(hashes):,} sequences of the {split} split are also in the training split: "
                    "there are few different ones of their lengths"
                )
        return SequenceData(splits, vocabulary, vocabulary, rows=rows)

    def test_pairs(self) -> list[Pair]:
        """Draw the test split alone."""
        return self._draw_pairs("test")

    def _draw(self, split: SplitName, count: int) -> Iterator[tuple[Difficulty, Drawn]]:
        """Draw ``count`` rows of a split, its settings in turn, those of one setting together; remember their hashes.

        Rows of the settings that splits share are divided by their hashes, so that no row is in two splits, unless so
        few rows are different that a split would stay empty: then it gets some of another.
        """
        problem, settings = self.design.problem, self.design.train
        if split == "test":
            problem, settings = self.design.test_problem, self.design.test
        self._hashes[split] = []
        for index, setting in enumerate(dict.fromkeys(settings)):
            turns = np.array([other == setting for other in settings])
            remaining = int(turns[np.arange(count) % len(settings)].sum())
            rng = np.random.default_rng((self.seed, Splits._fields.index(split), index))
            rounds = 0
            while remaining:
                rows = min(MIN_ROWS + NUM_SHARES * remaining, max(1, TOKENS_PER_CHUNK // setting.length))
                drawn = problem.draw(rng, rows, setting)
                hashes = hash_rows(drawn.inputs)
                if setting in self.design.train and rounds < MAX_ROUNDS:  # validation has these settings, too
                    share = hashes % np.uint64(NUM_SHARES)
                    kept = share == HELD_OUT[split] if split in HELD_OUT else share >= len(HELD_OUT)
                    rounds = 0 if kept.any() else rounds + 1
                    drawn, hashes = drawn.rows(kept), hashes[kept]
                drawn = drawn.rows(slice(remaining))
                self._hashes[split].append(hashes[:remaining])
                remaining -= len(drawn.inputs)
                yield setting, drawn

    def _draw_train(self) -> PairDataset:
        """The training split as ids, in as few bytes as they need."""
        ids = np.min_scalar_type(len(SPECIALS) + len(self.design.problem.symbols))
        sources, targets, masks, lengths = [], [], [], []
        for setting, drawn in self._draw("train", self.examples):
            sources.append((drawn.inputs + len(SPECIALS)).astype(ids).ravel())
            targets.append(np.where(drawn.labels == NOWHERE, PAD, drawn.labels + len(SPECIALS)).astype(ids).ravel())
            masks.append((drawn.labels != NOWHERE if self.train_labels == "all" else drawn.scored).ravel())
            lengths.append(np.full(len(drawn.inputs), setting.length))
        offsets = np.append(0, np.cumsum(np.concatenate(lengths)))
        rows, labels, counted = (Ragged(np.concatenate(part), offsets) for part in (sources, targets, masks))
        return PairDataset(rows, labels, loss_masks=counted)

    def _draw_pairs(self, split: SplitName) -> list[Pair]:
        symbols = np.array([*self.design.problem.symbols, NO_LABEL], dtype=object)  # NOWHERE is the last
        pairs = []
        for setting, drawn in self._draw(split, self.num_held_out):
            labels = np.where(drawn.scored, drawn.labels, NOWHERE)
            distances = np.where(drawn.origins == NOWHERE, 0, np.arange(setting.length) - drawn.origins)
            columns = (symbols[drawn.inputs], symbols[labels], drawn.scored, distances)
            for row in zip(*(map(tuple, part.tolist()) for part in columns), strict=True):
                source, reference, mask, distance = row
                pairs.append(Pair(source, (reference,), name=str(setting), loss_mask=mask, distances=distance))
        return pairs

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build the accuracy of labels, by setting, and what else the problem measures."""
        settings = [str(setting) for setting in dict.fromkeys([*self.design.test, *self.design.train])]
        supplied = {"settings": settings, "chance": getattr(self.design.problem, "chance", 0.0)}
        names = {"accuracy": "label_accuracy", **{name: name for name in self.design.problem.metrics}}
        return metrics_per_tag(names, tags, **supplied)

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch of labels."""
        update_all(metrics, outputs, pairs, [])

    def tokenize(self, text: str, tag: str = "") -> Symbols:
        """Split a user's sequence at spaces; a blank one is a UserError."""
        symbols = tuple(text.split())
        if not symbols:
            raise UserError(f"{text!r} is empty; there is nothing to read")
        return symbols
