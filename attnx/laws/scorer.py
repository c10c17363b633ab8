"""The laws of every scorer."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from attnx.attention import AttentionHistory
from attnx.laws.laws import TensorLaws, quick
from attnx.laws.violation import Violation, require, require_close, require_tensor

QUERY, MEMORY = 5, 11


class ScorerLaws(TensorLaws):
    """The laws of every scorer, for memories of width 11, and queries of width 5 unless dims must be equal."""

    kind, member, results = "scorer", "score", "scores"
    methods = ("project_keys", "project_queries", "score")

    def _build(self, query_size: int = QUERY) -> Any:
        return self.candidate.build(
            query_size=MEMORY if self._declares("requires_equal_dims") else query_size, memory_size=MEMORY
        )

    @property
    def _reads_steps(self) -> bool:
        """Whether scores depend on earlier steps."""
        return self._declares("needs_history") or self._declares("is_recurrent")

    def _inputs(self, leading: tuple[int, ...] = (2,), positions: int = 7) -> dict[str, Tensor]:
        """Three random queries, a random memory, and a history that is different for each row and position."""
        queries = torch.randn(*leading, 3, MEMORY if self._declares("requires_equal_dims") else QUERY)
        memory, (previous, cumulative) = torch.randn(*leading, positions, MEMORY), torch.rand(2, *leading, positions)
        return {"queries": queries, "memory": memory, "previous": previous, "cumulative": cumulative}

    def _compute(
        self, queries: Tensor, memory: Tensor, previous: Tensor | None = None, cumulative: Tensor | None = None
    ) -> Tensor:
        """The scores (..., q, m); without a history it is one of zeros."""
        keys = require_tensor(self.part.project_keys(memory), "project_keys", (*memory.shape[:-1], None))
        prepared = require_tensor(self.part.project_queries(queries), "project_queries", (*queries.shape[:-1], None))
        zeros = keys.new_zeros(keys.shape[:-1])
        history = AttentionHistory(zeros if previous is None else previous, zeros if cumulative is None else cumulative)
        shape = (*queries.shape[:-1], memory.shape[-2])
        if self._declares("is_recurrent"):
            return require_tensor(self.part.score(prepared, keys, self.part.init_carry(keys))[0], "score", shape)
        arguments = (history,) if self._declares("needs_history") else ()
        return require_tensor(self.part.score(prepared, keys, *arguments), "score", shape)

    @quick
    def declarations(self) -> None:
        """A scorer is an nn.Module with project_keys, project_queries, score, and declares ``requires_equal_dims``."""
        self._require_declarations(needs_history=False, is_positional=False, is_recurrent=False, needs_keys=True)
        self._require_module()

    def declared_key_parameters_are_there(self) -> None:
        """If declared, ``has_key_parameters`` says whether ``project_keys`` has parameters."""
        actual = self.part.project_keys(self._inputs()["memory"]).requires_grad
        declared = self.candidate.declaration("has_key_parameters", actual)
        require(actual == declared, "project_keys", f"its keys have a gradient: write has_key_parameters = {actual}")

    @quick
    def shapes(self) -> None:
        """Scores have the shape (..., q, m): one for each pair of a query and a memory position."""
        self._compute(**self._inputs())

    @quick
    def numbers_are_finite(self) -> None:
        """Scores and gradients are finite, also those of zeros, which stand for padding."""
        inputs = self._inputs()
        self._require_finite(inputs, " of random numbers")
        self._require_finite({name: torch.zeros_like(tensor) for name, tensor in inputs.items()}, " of zeros")

    def any_leading_axes(self) -> None:
        """Any leading axes are accepted: none, a batch, a batch and heads; with a history or a carry a batch alone."""
        for leading in [(2,)] if self._reads_steps else [(), (2,), (2, 13)]:
            self._compute(**self._inputs(leading))

    def leading_axes_are_independent(self) -> None:
        """The scores of a row do not depend on other rows of any leading axis."""
        leading = (26,) if self._reads_steps else (2, 13)
        self._require_independent(self._inputs(leading), len(leading))

    def pairs_are_independent(self) -> None:
        """The score of a pair depends on its query, its memory position and that position's history alone.

        With ``is_positional`` it also depends on the other positions, but not on other queries. One that is recurrent
        depends on earlier queries.
        """
        if self._declares("is_recurrent"):
            return
        inputs = self._inputs()
        queries = inputs.pop("queries")
        together, difference = self._compute(queries, **inputs), "a pair has another score next to other pairs"
        cuts = (
            [slice(None)]
            if self._declares("is_positional")
            else [slice(position, position + 1) for position in range(7)]
        )
        for step, cut in itertools.product(range(3), cuts):
            positions = {name: tensor[:, cut] for name, tensor in inputs.items()}
            alone = self._compute(queries[:, step : step + 1], **positions)
            require_close(together[:, step, cut], alone[:, 0], "score", difference)

    def permuting_the_memory_permutes_the_scores(self) -> None:
        """Permuting memory and history permutes the scores, unless the scorer is declared positional or recurrent."""
        if self._declares("is_recurrent"):
            return
        inputs, order = self._inputs(), torch.tensor([4, 0, 6, 2, 5, 1, 3])
        queries, straight = inputs["queries"], self._compute(**inputs)
        positions = {name: tensor[:, order] for name, tensor in inputs.items() if name != "queries"}
        permuted = self._compute(queries, **positions)
        if self._declares("is_positional"):
            alike = torch.allclose(permuted, straight[..., order])
            require(not alike, "score", "it declares is_positional = True, but the order of the memory has no effect")
            return
        require_close(permuted, straight[..., order], "score", "scores depend on the order of the memory")

    def scores_depend_on_the_memory(self) -> None:
        """Different memory positions have different scores; they depend on its vectors as ``needs_keys`` says."""
        inputs = self._inputs()
        scores = self._compute(**inputs)
        spread = (scores.amax(-1) - scores.amin(-1)).min()
        require(spread > 1e-6, "score", "a query has the same score for all positions")
        needs_keys = self._declares("needs_keys", True)
        is_read = not torch.allclose(scores, self._compute(**{**inputs, "memory": torch.randn_like(inputs["memory"])}))
        effect = "have an" if is_read else "have no"
        require(is_read == needs_keys, "score", f"the memory's vectors {effect} effect; declare needs_keys = {is_read}")

    def history_is_read_if_declared(self) -> None:
        """The scores of a scorer that declares ``needs_history`` depend on it; other scorers take no history."""
        if self._declares("is_recurrent"):
            return
        inputs = self._inputs()
        queries, memory = inputs["queries"], inputs["memory"]
        if self._declares("needs_history"):
            alike = torch.allclose(self._compute(**inputs), self._compute(queries, memory))
            require(not alike, "score", "scores do not depend on the history that it declares to need")
            return
        history = AttentionHistory(inputs["previous"], inputs["cumulative"])
        try:
            self.part.score(self.part.project_queries(queries), self.part.project_keys(memory), history)
        except TypeError:
            return
        raise Violation("score", "it takes a history, but does not declare needs_history = True")

    def positions_without_history_have_no_effect(self) -> None:
        """Further positions without a history have no effect on the scores of the first ones."""
        longer = self._inputs()
        for name in ("previous", "cumulative"):
            longer[name][:, 5:] = 0
        shorter = {name: tensor if name == "queries" else tensor[:, :5] for name, tensor in longer.items()}
        scores, difference = self._compute(**longer), "further positions change the scores of the first"
        require_close(scores[..., :5], self._compute(**shorter), "score", difference)

    def empty_memory_gives_no_scores(self) -> None:
        """A memory of no positions gives no scores, as at the first step of a history."""
        self._compute(**self._inputs(positions=0))

    def penalties_are_valid(self) -> None:
        """A penalty is (b, q), never negative, and 0 without a history."""
        if not hasattr(self.part, "penalty"):
            return
        weights, history = torch.rand(2, 3, 7), AttentionHistory(*torch.rand(2, 2, 7))
        penalty = require_tensor(self.part.penalty(weights, history), "penalty", (2, 3))
        require((penalty >= 0).all(), "penalty", f"it returned {penalty.min().item():.3g}")
        first = self.part.penalty(weights, AttentionHistory(*torch.zeros(2, 2, 7)))
        require((first == 0).all(), "penalty", f"it returned {first.max().item():.3g} without a history")

    def equal_dims_are_required_if_declared(self) -> None:
        """A scorer that declares equal dims rejects different ones; other scorers accept both."""
        if not self._declares("requires_equal_dims"):
            for query_size in (QUERY, MEMORY):
                self.part = self._build(query_size)
                self._compute(torch.randn(2, 3, query_size), torch.randn(2, 7, MEMORY))
            return
        try:
            self._compute(torch.randn(2, 3, MEMORY + 2), torch.randn(2, 7, MEMORY))
        except (RuntimeError, Violation):
            return
        raise Violation("requires_equal_dims", "it declares requires_equal_dims = True, but accepts different widths")
