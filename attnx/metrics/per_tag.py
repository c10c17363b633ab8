"""Any metric for each tag apart (a language, say), with the mean over tags and the measure over everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.wrappers.abstract import WrapperMetric

from attnx.errors import UserError
from attnx.metrics.proportions import CountsExamples, Proportion
from attnx.registry import register

MACRO, MICRO = "macro", "micro"
# What is measured: of symbols a sequence of them and its references, of numbers a matrix and its reference.
Written = Any


@register("metric", "per_tag")
class PerTag(WrapperMetric):
    """A measure of each tag's examples, its mean over the tags (macro), and the measure of all examples (micro).

    Formula: ``macro = mean over tags of measure(examples of the tag); micro = measure(all examples)``
    Source: Gorman et al. 2020 (averages over languages), https://aclanthology.org/2020.sigmorphon-1.2

    A tag counts as much as any other in the mean, however many examples it has. A tag without any is not measured, and
    then there is no mean, as it would be that of other tags than said. Processes are merged measure by measure, before
    the mean.

    Args:
        measure: makes a metric that takes predictions and references, none of them too.
        tags: every tag there may be.

    Raises:
        UserError: a tag is called macro or micro.

    >>> from attnx.metrics.word_error_rate import WordErrorRate
    >>> metric = PerTag(WordErrorRate, ["fre", "ita"])
    >>> metric.update([["a"], ["b"], ["a"]], [[["a"]], [["c"]], [["c"]]], ["fre", "fre", "ita"])
    >>> {name: round(value.item(), 1) for name, value in metric.compute().items()}
    {'macro': 75.0, 'micro': 66.7, 'fre': 50.0, 'ita': 100.0}
    """

    is_differentiable = False
    full_state_update = False

    def __init__(self, measure: Callable[[], Metric], tags: Sequence[str]) -> None:
        super().__init__()
        if taken := {MACRO, MICRO} & set(tags):
            raise UserError(f"no language can be called {min(taken)!r}: the results have another use for it; rename it")
        self.tags = tuple(tags)
        # Not a ModuleDict: it refuses names such as "to", which is Tongan.
        self.parts = nn.ModuleList([measure(), *(measure() for _ in tags)])
        self.examples = _Examples(len(tags))

    def update(self, predictions: Sequence[Written], references: Sequence[Written], tags: Sequence[str]) -> None:
        """Count a batch: one prediction, its references and its tag for each example.

        Raises:
            ValueError: the lists differ in length, an example has no reference, or a tag is unknown.
        """
        for part, shown in self._shared_out(predictions, references, tags):
            part.update(*shown)

    def forward(
        self, predictions: Sequence[Written], references: Sequence[Written], tags: Sequence[str]
    ) -> dict[str, Tensor]:
        """Count a batch and return what it alone comes to."""
        return self._named([part(*shown) for part, shown in self._shared_out(predictions, references, tags)])

    def compute(self) -> dict[str, Tensor]:
        """Return ``macro``, ``micro`` and each measured tag's measure, in this order; ``macro`` only if all are."""
        return self._named([part.compute() for part in self._parts()])

    def proportions(self) -> dict[str, list[Proportion]]:
        """Those of all examples, of each tag, and of the tags together; none if the measure is no proportion."""
        each = [part.proportions()[""] for part in self._parts() if isinstance(part, CountsExamples)]
        if not each:
            return {}
        micro, *tagged = each
        together = [proportion for proportions in tagged for proportion in proportions]
        return {MACRO: together, MICRO: micro, **dict(zip(self.tags, tagged, strict=True))}

    def reset(self) -> None:
        """Forget what was counted."""
        super().reset()
        for part in self._parts():
            part.reset()

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add what another one of the same tags has counted."""
        if not isinstance(incoming_state, PerTag) or incoming_state.tags != self.tags:
            raise ValueError("only a metric of the same tags can be merged into this one")
        for mine, other in zip(self._parts(), incoming_state._parts(), strict=True):
            mine.merge_state(other)

    def _parts(self) -> list[Metric]:
        """The measure of all examples, then each tag's, then how many examples each tag has."""
        return [*self.parts, self.examples]

    def _shared_out(
        self, predictions: Sequence[Written], references: Sequence[Written], tags: Sequence[str]
    ) -> Iterator[tuple[Metric, tuple[list[Any], ...]]]:
        """Each part with its examples. All come first: what is wrong with a batch is found before any is counted."""
        if unknown := set(tags) - set(self.tags):
            raise ValueError(f"the tag {min(unknown)!r} is not one of {', '.join(self.tags)}")
        shown = list(zip(predictions, references, tags, strict=True))
        groups = [shown, *([one for one in shown if one[2] == tag] for tag in self.tags)]
        *parts, examples = self._parts()
        for part, group in zip(parts, groups, strict=True):
            yield part, ([one[0] for one in group], [one[1] for one in group])
        yield examples, ([len(group) for group in groups[1:]],)

    def _named(self, values: Sequence[Tensor]) -> dict[str, Tensor]:
        micro, *each, examples = values
        measured = {tag: value for tag, value, count in zip(self.tags, each, examples, strict=True) if count}
        mean = {MACRO: torch.stack(each).mean()} if len(measured) == len(self.tags) else {}
        return {**mean, MICRO: micro, **measured}


class _Examples(Metric):
    """How many examples each tag has, in all processes."""

    is_differentiable = False
    full_state_update = False

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.counts: Tensor
        self.add_state("counts", torch.zeros(tags, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, counts: Sequence[int]) -> None:
        self.counts += torch.tensor(counts, device=self.counts.device)

    def compute(self) -> Tensor:
        return self.counts


def of_each(measures: Mapping[str, Callable[[], Metric]], tags: Sequence[str]) -> dict[str, nn.Module]:
    """Make the metrics of a task: each measure for each tag apart, or as it is where there are none."""
    return {name: PerTag(measure, tags) if tags else measure() for name, measure in measures.items()}


def show(
    metrics: nn.ModuleDict, outputs: Sequence[Written], references: Sequence[Written], tags: Sequence[str]
) -> None:
    """Show all metrics a batch; the tags to those that tell them apart."""
    for metric in metrics.values():
        metric.update(outputs, references, *([tags] if isinstance(metric, PerTag) else []))  # type: ignore[operator]
