"""A metric per tag (a language, say), with its mean over tags (macro) and over all examples (micro)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.wrappers.abstract import WrapperMetric

from attnx import registry
from attnx.errors import UserError
from attnx.metrics.additive_metric import AdditiveMetric
from attnx.metrics.proportions import Proportion, ProportionMetric
from attnx.registry import PartSpec, register

MACRO, MICRO = "macro", "micro"


@register("metric", "per_tag")
class PerTag(WrapperMetric):
    """A metric of each tag's examples, its mean over tags (macro), and the metric of all examples (micro).

    Formula: ``macro = mean over tags of metric(examples of the tag); micro = metric(all examples)``
    Source: Gorman et al. 2020 (averages over languages), https://aclanthology.org/2020.sigmorphon-1.2

    Every tag has the same weight in the macro mean. If a tag has no examples, it has no result and there is no macro
    mean. Processes are merged metric by metric, before the mean.

    Args:
        make_metric: builds a metric that takes predictions and references, possibly none.
        tags: all tags.

    Raises:
        UserError: a tag is called macro or micro.

    >>> from attnx.metrics.error_rates import WordErrorRate
    >>> metric = PerTag(WordErrorRate, ["fre", "ita"])
    >>> metric.update([["a"], ["b"], ["a"]], [[["a"]], [["c"]], [["c"]]], ["fre", "fre", "ita"])
    >>> {name: round(value.item(), 1) for name, value in metric.compute().items()}
    {'macro': 75.0, 'micro': 66.7, 'fre': 50.0, 'ita': 100.0}
    """

    is_differentiable = False
    full_state_update = False

    def __init__(self, make_metric: Callable[[], Metric], tags: Sequence[str]) -> None:
        super().__init__()
        if reserved := {MACRO, MICRO} & set(tags):
            raise UserError(f"{min(reserved)!r} cannot be the name of a language: results use it; rename the language")
        self.tags = tuple(tags)
        # Not a ModuleDict, which refuses names such as "to" (Tongan). The first is the metric of all examples.
        self.metrics = nn.ModuleList([make_metric() for _ in (MICRO, *tags)])
        self.examples = _ExampleCount(len(tags))

    def update(self, predictions: Sequence[Any], references: Sequence[Any], tags: Sequence[str]) -> None:
        """Count a batch; lists of unlike length, unknown tags and examples without a reference are ValueErrors."""
        if unknown := set(tags) - set(self.tags):
            raise ValueError(f"the tag {min(unknown)!r} is not one of {', '.join(self.tags)}")
        examples = list(zip(predictions, references, tags, strict=True))
        groups = [[example for example in examples if example[2] == tag] for tag in self.tags]
        # All examples come first: their metric rejects a bad batch before any counts.
        for metric, group in zip(self._all_metrics()[:-1], [examples, *groups], strict=True):
            metric.update([example[0] for example in group], [example[1] for example in group])
        self.examples.update([len(group) for group in groups])

    def compute(self) -> dict[str, Tensor]:
        """Return ``macro``, ``micro`` and the metric of each tag: NaN without examples, as then ``macro``."""
        micro, *per_tag, examples = [metric.compute() for metric in self._all_metrics()]
        by_tag = torch.where(examples > 0, torch.stack(per_tag), torch.nan)
        return {MACRO: by_tag.mean(), MICRO: micro, **dict(zip(self.tags, by_tag, strict=True))}

    def proportions(self) -> dict[str, list[Proportion]]:
        """The proportions of all examples, of each tag, and of the tags as macro; empty if the metric is none."""
        lists = [metric.proportions()[""] for metric in self._all_metrics() if isinstance(metric, ProportionMetric)]
        if not lists:
            return {}
        micro, *per_tag = lists
        macro = [proportion for proportions in per_tag for proportion in proportions]
        return {MACRO: macro, MICRO: micro, **dict(zip(self.tags, per_tag, strict=True))}

    def reset(self) -> None:
        """Reset all metrics."""
        super().reset()
        for metric in self._all_metrics():
            metric.reset()

    def _all_metrics(self) -> list[Metric]:
        """The metric of all examples, those of each tag, and the number of examples of each tag."""
        return [*self.metrics, self.examples]


class _ExampleCount(AdditiveMetric):
    """Number of examples of each tag, over all processes."""

    sums_dtype = torch.int64

    def update(self, counts: Sequence[int]) -> None:  # type: ignore[override]
        self.sums += self.sums.new_tensor(counts)

    def compute(self) -> Tensor:
        return self.sums


def metrics_per_tag(choices: Mapping[str, PartSpec], tags: Sequence[str], **supplied: Any) -> dict[str, nn.Module]:
    """Build the metrics of a task: each one per tag, or plain if there are no tags.

    They are given by name, or by name and options; ``supplied`` is what their constructors take besides.
    """
    builders = {name: partial(registry.build, "metric", choice, **supplied) for name, choice in choices.items()}
    return {name: PerTag(build, tags) if tags else build() for name, build in builders.items()}


def update_all(metrics: nn.ModuleDict, outputs: Sequence[Any], references: Sequence[Any], tags: Sequence[str]) -> None:
    """Update all metrics with a batch; only those per tag are passed the tags."""
    for metric in metrics.values():
        metric.update(outputs, references, *([tags] if isinstance(metric, PerTag) else []))  # type: ignore[operator]
