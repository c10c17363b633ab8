"""Metrics of labels at marked steps: how many are right, by setting and by the distance of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from attnx.data.examples import Pair
from attnx.metrics.additive_metric import AdditiveMetric
from attnx.registry import register

MAX_ENTRIES: Final = 12
"""Results are split by setting up to so many settings."""
NUM_DISTANCES: Final = 24
"""Distances are grouped by powers of two, and this is the number of groups."""


def right_labels(output: Sequence[str], pair: Pair) -> list[bool]:
    """Whether each label that counts is right."""
    steps = zip(output, pair.references[0], pair.loss_mask, strict=True)
    return [written == label for written, label, is_counted in steps if is_counted]


def name_group(setting: str) -> str:
    """The numbers that share a group with a length or a distance.

    >>> name_group("1"), name_group("5"), name_group("64x4")
    ('1', '4_7', '64_127')
    """
    first = 2 ** (int(setting.partition("x")[0]).bit_length() - 1)
    return "_".join(dict.fromkeys([str(first), str(2 * first - 1)]))


@register("metric", "label_accuracy")
class LabelAccuracy(AdditiveMetric):
    """Labels that are right, in percent of those that count in a sequence, averaged over sequences.

    Formula: ``100 * mean over sequences of right / counted``
    Source: Arora et al. 2023, https://arxiv.org/abs/2312.04927

    Of two to twelve settings, such as lengths, each has its own; of more, lengths from 2^k to 2^(k + 1) - 1 together.

    >>> metric = LabelAccuracy(settings=("2",))
    >>> metric.update([["5", "7"]], [Pair(("1", "2"), (("5", "3"),), name="2", loss_mask=(True, True))])
    >>> metric.compute()[""].item()
    50.0
    """

    higher_is_better = True

    def __init__(self, settings: Sequence[str]) -> None:
        names = {setting: setting if len(settings) <= MAX_ENTRIES else name_group(setting) for setting in settings}
        self.groups = list(dict.fromkeys(names.values()))
        self.indices = {setting: self.groups.index(name) for setting, name in names.items()}
        super().__init__(2, len(self.groups))  # the shares of right labels, and the number of sequences

    def update(self, predictions: Sequence[Sequence[str]], references: Sequence[Pair]) -> None:
        """Add a batch of outputs, each with its pair."""
        for output, pair in zip(predictions, references, strict=True):
            share = self.share(right_labels(output, pair))
            self.sums[:, self.indices[pair.name]] += self.sums.new_tensor([share, 1])

    def share(self, is_right: Sequence[bool]) -> float:
        """What a sequence adds."""
        return sum(is_right) / len(is_right)

    def compute(self) -> dict[str, Tensor]:
        """Return the percentage over all sequences as ``""``, and of each setting or group of them, by its name."""
        right, sequences = 100 * self.sums[0], self.sums[1]
        by_group = dict(zip(self.groups, right / sequences, strict=True)) if len(self.groups) > 1 else {}
        return {"": right.sum() / sequences.sum(), **by_group}


@register("metric", "sequence_accuracy")
class SequenceAccuracy(LabelAccuracy):
    """Sequences whose labels are all right, in percent.

    Formula: ``100 * sequences without a wrong label / sequences``
    Source: Merrill et al. 2024, https://arxiv.org/abs/2404.08819
    """

    def share(self, is_right: Sequence[bool]) -> float:
        """Whether all are right."""
        return all(is_right)


@register("metric", "scaled_accuracy")
class ScaledAccuracy(LabelAccuracy):
    """Accuracy of labels on a scale on which guessing has 0.

    Formula: ``100 * (a - c) / (1 - c)``, a the accuracy of labels and c that of guessing
    Source: Grazzi et al. 2025, section 5.1, https://arxiv.org/abs/2411.12537
    """

    def __init__(self, settings: Sequence[str], chance: float) -> None:
        super().__init__(settings)
        self.chance = chance

    def compute(self) -> dict[str, Tensor]:
        """Return the percentages; below 0 where guessing is better."""
        accuracies = super().compute()
        return {name: (value - 100 * self.chance) / (1 - self.chance) for name, value in accuracies.items()}


@register("metric", "distance_accuracy")
class DistanceAccuracy(AdditiveMetric):
    """Labels that are right, in percent, by how many steps before its label an answer stands.

    Formula: ``100 * right / counted, over labels with 2^k <= distance < 2^(k + 1)``
    Source: Arora et al. 2023, section 3.2 (the gap between a key and its next occurrence),
        https://arxiv.org/abs/2312.04927
    """

    higher_is_better = True

    def __init__(self) -> None:
        super().__init__(2, NUM_DISTANCES)

    def terms(self, prediction: Sequence[str], reference: Pair) -> npt.NDArray[np.int64]:
        """Return how many labels of each group are right, and how many there are, from an output and its pair."""
        counted = zip(reference.distances, reference.loss_mask, strict=True)
        distances = np.array([distance for distance, is_counted in counted if is_counted])
        is_right = np.array(right_labels(prediction, reference))[distances > 0]
        group = np.log2(distances[distances > 0]).astype(int)
        return np.stack([np.bincount(part, minlength=NUM_DISTANCES) for part in (group[is_right], group)])

    def compute(self) -> dict[str, Tensor]:
        """Return the percentage of each group by its distances, ``1``, ``2_3``, ``4_7``: NaN without labels of it."""
        right, labels = self.sums
        return {name_group(str(2**k)): share for k, share in enumerate(100 * right / labels)}
