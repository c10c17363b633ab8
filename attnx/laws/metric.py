"""The laws of every metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from attnx.errors import type_and_text
from attnx.laws.candidate import LawSkipped
from attnx.laws.laws import PartLaws, quick
from attnx.laws.violation import describe_type, require

# Batches of predictions with references: symbols, numbers and texts.
SYMBOLS = (
    [["K", "AE"], ["D", "AO", "G"], ["B"], ["S", "IH", "T"]],
    [[["K", "AE", "T"]], [["D", "AO", "G"], ["D", "AA", "G"]], [["B", "IY"]], [["S", "AE", "T"]]],
)
NUMBERS = (
    [np.array([[1.0, 5.0], [2.0, 3.0]]), np.array([[4.0, 0.0]]), np.array([[2.0, 2.0]]), np.array([[0.0, 7.0]])],
    [np.array([[2.0, 2.0], [2.0, 1.0]]), np.array([[3.0, 0.5]]), np.array([[2.0, 2.5]]), np.array([[1.0, 6.0]])],
)
TEXTS = (["the cat sat", "a hat"], [["the cat sits", "a cat sat"], ["the hat"]])
Batch = tuple[list[Any], list[Any]]
BATCHES: dict[str, Batch] = {"symbols": SYMBOLS, "texts": TEXTS, "rows of numbers": NUMBERS}


class MetricLaws(PartLaws):
    """The laws of every metric."""

    kind = "metric"

    def _build(self) -> Any:
        if injected := self.candidate.info.injected_params:
            raise LawSkipped(f"its task supplies {', '.join(injected)}")
        return self.candidate.build()

    def _batch(self) -> Batch:
        """The first batch that the metric accepts."""
        reasons = []
        for name, batch in BATCHES.items():
            metric = self._build()
            try:
                metric.update(*batch)
            except Exception as error:  # of whatever kind: other data, or a defect
                reasons.append(f"{name} ({type_and_text(error)})")
            else:
                return batch
        raise LawSkipped(f"it accepts neither {', nor '.join(reasons)}")

    def _values(self, *batches: Batch, part: Any = None) -> dict[str, float]:
        """The scalars that a metric, a new one unless it is passed, computes of batches, by name."""
        part = self._build() if part is None else part
        for batch in batches:
            part.update(*batch)
        result = part.compute()
        entries = result if isinstance(result, dict) else {"": result}
        for value in entries.values():
            is_scalar = isinstance(value, float | int) or (isinstance(value, Tensor) and value.numel() == 1)
            message = f"it returned {describe_type(value)} instead of a scalar or a mapping of scalars"
            require(is_scalar, "compute", message)
        return {name: float(value) for name, value in entries.items()}

    @quick
    def declarations(self) -> None:
        """A metric is a torchmetrics Metric."""
        is_metric = isinstance(self.part, Metric)
        require(is_metric, "", f"it is {describe_type(self.part)} instead of a torchmetrics.Metric")

    def equal_calls_agree(self) -> None:
        """Two metrics of the same examples compute the same, in every bit."""
        first, second = (self._values(self._batch()) for _ in range(2))
        for name, value in first.items():
            is_same = second.get(name) == value or (np.isnan(value) and np.isnan(second.get(name, 0.0)))
            message = f"of the same examples it computes {value:.9g}, and then {second.get(name):.9g}"
            require(is_same, "compute", message)

    def batching_has_no_effect(self) -> None:
        """The values do not depend on how examples are split into batches, nor on their order."""
        predictions, references = self._batch()
        pieces = [(predictions[:1], references[:1]), (predictions[1:], references[1:])]
        at_once = self._values((predictions, references))
        _require_same_values(at_once, self._values(*pieces), "in two batches")
        _require_same_values(at_once, self._values(*pieces[::-1]), "in another order")

    def states_are_merged(self) -> None:
        """Two metrics of some examples each, merged by the reductions of their states, compute what one does."""
        predictions, references = self._batch()
        merged, further = self._build(), self._build()
        merged.update(predictions[:1], references[:1])
        further.update(predictions[1:], references[1:])
        for part, further_part in zip(merged.modules(), further.modules(), strict=True):
            if isinstance(part, Metric):
                _merge_states(part, further_part)
        _require_same_values(self._values((predictions, references)), self._values(part=merged), "merged")

    def reset_clears_the_state(self) -> None:
        """After a reset a metric computes what a new one does."""
        predictions, references = self._batch()
        self.part.update(predictions, references)
        self.part.reset()
        first = predictions[:1], references[:1]
        _require_same_values(self._values(first), self._values(first, part=self.part), "after a reset")


def _merge_states(part: Metric, further: nn.Module) -> None:
    """Merge the states of two metrics into the first, as processes do: lists are joined, tensors reduced."""
    part._computed = None
    for name, reduce in part._reductions.items():
        first, second = getattr(part, name), getattr(further, name)
        if isinstance(first, list):
            setattr(part, name, [*first, *second])
        else:
            stacked = torch.stack([first, second])
            setattr(part, name, reduce(stacked) if callable(reduce) else stacked)


def _require_same_values(expected: dict[str, float], actual: dict[str, float], case: str) -> None:
    names_differ = f"{case} it computes {sorted(actual)}, not {sorted(expected)}"
    require(actual.keys() == expected.keys(), "compute", names_differ)
    for name, value in expected.items():
        close = bool(np.isclose(actual[name], value, rtol=1e-6, atol=1e-9, equal_nan=True))
        require(close, "compute", f"{case} it computes {actual[name]:.6g} instead of {value:.6g}")
