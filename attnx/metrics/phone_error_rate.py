"""Phone error rate (PER), also registered as symbol error rate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.nearest_reference import nearest_reference
from attnx.registry import register


@register("metric", "phone_error_rate")
@register("metric", "symbol_error_rate")
class PhoneErrorRate(Metric):
    """Edits per 100 reference symbols, in percent.

    Formula: ``100 * sum(edits) / sum(length) over all sequences``
    Source: Yao and Zweig 2015, section 4, https://arxiv.org/abs/1506.00196; Graves et al. 2006, section 2.1 (label
        error rate), https://doi.org/10.1145/1143844.1143891

    Edits and length are those of the nearest reference (fewest edits, the first of equals). It is a ratio of sums, not
    a mean of ratios, and may exceed 100; it is NaN before the first sequence. Both sums are integers, so merging
    processes is exact.

    >>> metric = PhoneErrorRate()
    >>> metric.update([["K", "AE"]], [[["K", "AE", "T"], ["D", "AO", "G"]]])
    >>> round(metric.compute().item(), 2)
    33.33
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    edits: Tensor
    length: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("edits", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("length", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> None:
        """Count the edits of a batch: one prediction and one or more references for each word.

        Raises:
            ValueError: the two lists differ in length, or a word has no reference.
        """
        matches = [nearest_reference(*pair) for pair in zip(predictions, references, strict=True)]
        self.edits += sum(edits for edits, _ in matches)
        self.length += sum(len(reference) for _, reference in matches)

    def compute(self) -> Tensor:
        """Return the rate in percent, a scalar."""
        return 100 * self.edits / self.length
