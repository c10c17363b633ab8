"""Corpus scores by sacreBLEU: counts per segment, summed over processes; BLEU, chrF and TER build on it.

The only module that calls private methods of sacreBLEU: its public ones need the whole corpus at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.registry.optional_deps import require

MAX_REFERENCES = 2**31 - 1


class CorpusScore(Metric):
    """Score of a corpus from integer sums over its segments, so that merging processes is exact.

    It is NaN before the first segment. Segments may have different numbers of references.

    Args:
        name: class in ``sacrebleu.metrics``.
        size: number of counts that sacreBLEU makes per segment.
        unit: factor that makes counts integers.
        options: arguments of that class.

    Raises:
        UserError: sacreBLEU is not installed.
    """

    is_differentiable = False
    full_state_update = False

    sums: Tensor
    min_references: Tensor
    max_references: Tensor

    def __init__(self, name: str, size: int, unit: int = 1, **options: Any) -> None:
        super().__init__()
        metrics = require("sacrebleu.metrics", "translation", f"the metric {name}")
        self.scorer: Any = getattr(metrics, name)(**options)
        self.unit = unit
        self.add_state("sums", torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("min_references", torch.tensor(MAX_REFERENCES), dist_reduce_fx="min")
        self.add_state("max_references", torch.tensor(0), dist_reduce_fx="max")

    def update(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Count a batch: one output and one or more references for each segment, as plain text.

        Raises:
            ValueError: the two lists differ in length, or a segment has no reference.
        """
        pairs = list(zip(outputs, references, strict=True))
        if not all(texts for _, texts in pairs):
            raise ValueError("a segment has no reference")
        for output, texts in pairs:
            (counts,) = self.scorer._extract_corpus_statistics([output], [[text] for text in texts])
            self.sums += torch.tensor([round(count * self.unit) for count in counts], device=self.sums.device)
            self.min_references = self.min_references.clamp(max=len(texts))
            self.max_references = self.max_references.clamp(min=len(texts))

    def compute(self) -> Tensor:
        """Return the score in percent, a scalar."""
        low, high = self.min_references.item(), self.max_references.item()
        if not high:
            return torch.tensor(torch.nan, device=self.sums.device)
        self.scorer.num_refs = high if low == high else -1
        sums = [total / self.unit for total in self.sums.tolist()]
        return torch.tensor(self.scorer._compute_score_from_stats(sums).score, device=self.sums.device)

    @property
    def signature(self) -> str:
        """The score's signature by sacreBLEU; ``nrefs`` is that of the last :meth:`compute`, if any."""
        if "num_refs" in vars(self.scorer):
            return str(self.scorer.get_signature().format())
        self.scorer.num_refs = None
        try:
            return str(self.scorer.get_signature().format())
        finally:
            del self.scorer.num_refs
