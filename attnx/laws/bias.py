"""The laws of every bias."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnx.laws.laws import TensorLaws, quick
from attnx.laws.violation import require, require_close, require_tensor

ROWS, STEPS, POSITIONS, WIDTH, HEADS = 2, 3, 7, 5, 3
LONG_DISTANCE = 10**6


class BiasLaws(TensorLaws):
    """The laws of every bias, for three queries of width 5 and seven positions."""

    kind, results = "bias", "biases"
    sizes: ClassVar[Mapping[str, Any]] = {"query_size": WIDTH, "head": 1, "heads": HEADS}

    def _inputs(self) -> dict[str, Tensor]:
        """Random queries, and distances of other steps in each row."""
        steps = torch.tensor([[0, 1, 2], [4, 0, 11]])
        return {"queries": torch.randn(ROWS, STEPS, WIDTH), "distances": steps[..., None] - torch.arange(POSITIONS)}

    def _compute(self, queries: Tensor, distances: Tensor) -> Tensor:
        """The biases (b, q, m)."""
        biases, shape = self.part(queries, distances), (*queries.shape[:2], distances.shape[-1])
        require(isinstance(biases, Tensor), "forward", "it returned no tensor")
        with contextlib.suppress(RuntimeError):  # the next line reports it
            biases = biases.expand(shape)
        return require_tensor(biases, "forward", shape)

    @quick
    def declarations(self) -> None:
        """A bias is an nn.Module with a forward, and declares ``needs_query``."""
        self._require_declarations()
        self._require_module()

    @quick
    def shapes(self) -> None:
        """Biases broadcast to (b, q, m), for distances of each row and for distances that all rows share."""
        inputs = self._inputs()
        self._compute(**inputs)
        shared = inputs["distances"][:1]
        expected = self._compute(inputs["queries"], shared.expand(ROWS, -1, -1))
        require_close(self._compute(inputs["queries"], shared), expected, "forward", "shared distances differ")

    def every_head_has_one(self) -> None:
        """A bias is built for each of one, two or three heads."""
        for heads in (1, 2, 3):
            for head in range(heads):
                self.part = self.candidate.build(query_size=WIDTH, head=head, heads=heads)
                self._compute(**self._inputs())

    def biases_depend_on_query_and_distance_alone(self) -> None:
        """The bias of a pair is the same next to other pairs."""
        inputs = self._inputs()
        together, difference = self._compute(**inputs), "a pair has another bias next to other pairs"
        for step, position in itertools.product(range(STEPS), range(POSITIONS)):
            queries, distances = inputs["queries"][:, step, None], inputs["distances"][:, step, None, position, None]
            require_close(
                together[:, step, position], self._compute(queries, distances)[:, 0, 0], "forward", difference
            )

    def queries_are_read_if_declared(self) -> None:
        """Biases depend on the queries if the bias declares ``needs_query``, and not otherwise."""
        inputs = self._inputs()
        alike = torch.allclose(self._compute(**inputs), self._compute(-inputs["queries"], inputs["distances"]))
        actual = "do not depend" if alike else "depend"
        message = f"biases {actual} on the queries, but needs_query says otherwise"
        require(alike != self._declares("needs_query"), "forward", message)

    def long_distances_are_supported(self) -> None:
        """A distance of a million, earlier or later, has a finite bias."""
        distances = torch.tensor([-LONG_DISTANCE, LONG_DISTANCE]).expand(ROWS, STEPS, 2)
        biases = self._compute(self._inputs()["queries"], distances)
        require(biases.isfinite().all(), "forward", "the bias of a distance of a million is not finite")
