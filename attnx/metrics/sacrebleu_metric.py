"""What BLEU, chrF and TER share: sacreBLEU counts each segment, the counts add up, sacreBLEU turns sums to a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.registry.optional_deps import need

MOST = 2**31 - 1


class CorpusScore(Metric):
    """A score of a corpus from sums over its segments: whole numbers, so merging processes loses nothing.

    It is NaN before the first segment. Segments may have unlike numbers of references.

    Args:
        name: the class in ``sacrebleu.metrics``.
        width: how many numbers sacreBLEU counts in a segment.
        unit: what to multiply counts by to make them whole.
        options: of that class.

    Raises:
        UserError: sacreBLEU is not installed.
    """

    is_differentiable = False
    full_state_update = False

    sums: Tensor
    fewest: Tensor
    most: Tensor

    def __init__(self, name: str, width: int, unit: int = 1, **options: Any) -> None:
        super().__init__()
        metrics = need("sacrebleu.metrics", "translation", f"the metric {name}")
        self.scorer: Any = getattr(metrics, name)(**options)
        self.unit = unit
        self.add_state("sums", torch.zeros(width, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("fewest", torch.tensor(MOST), dist_reduce_fx="min")
        self.add_state("most", torch.tensor(0), dist_reduce_fx="max")

    def update(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Count a batch: one output and one or more references for each segment, as plain text.

        Raises:
            ValueError: the two lists differ in length, or a segment has no reference.
        """
        pairs = list(zip(outputs, references, strict=True))
        if not all(listed for _, listed in pairs):
            raise ValueError("a segment has no reference to be measured against")
        for output, listed in pairs:
            (counts,) = self.scorer._extract_corpus_statistics([output], [[reference] for reference in listed])
            whole = [round(count * self.unit) for count in counts]
            self.sums += torch.tensor(whole, device=self.sums.device)
            self.fewest = self.fewest.clamp(max=len(listed))
            self.most = self.most.clamp(min=len(listed))

    def compute(self) -> Tensor:
        """Return the score, a scalar; as a percentage for BLEU, chrF and TER alike."""
        fewest, most = self.fewest.item(), self.most.item()
        if not most:
            return torch.tensor(torch.nan, device=self.sums.device)
        self.scorer.num_refs = most if fewest == most else -1
        sums = [total / self.unit for total in self.sums.tolist()]
        return torch.tensor(self.scorer._compute_score_from_stats(sums).score, device=self.sums.device)

    @property
    def signature(self) -> str:
        """What was computed, as sacreBLEU prints it; ``nrefs`` is that of the last :meth:`compute`, if any."""
        if "num_refs" in vars(self.scorer):
            return str(self.scorer.get_signature().format())
        self.scorer.num_refs = None
        try:
            return str(self.scorer.get_signature().format())
        finally:
            del self.scorer.num_refs
