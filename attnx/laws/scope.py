"""The laws of every scope."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention import ScopeMask
from attnx.laws.laws import StepLaws, quick
from attnx.laws.violation import describe_type, require, require_close, require_finite, require_tensor

WIDTH, STEPS, POSITIONS, MEMORY = 5, 3, 7, 11
SIZES = {"query_size": WIDTH, "memory_size": MEMORY}
LENGTHS = (7, 4, 1, 0)


def memory_mask(size: int = POSITIONS) -> Tensor:
    """(b, 1, m), the same mask for all queries."""
    return (torch.arange(size) < torch.tensor(LENGTHS)[:, None])[:, None]


def growing(size: int = POSITIONS) -> Tensor:
    """(b, q, m), the mask of a memory that grows by two positions a step, from none."""
    return memory_mask(size) & (torch.arange(size) < 2 * torch.arange(STEPS)[:, None])


def require_same_mask(actual: ScopeMask, expected: ScopeMask, difference: str) -> None:
    """Check that two outputs of a scope are the same."""
    is_same = torch.equal(actual.allowed_mask, expected.allowed_mask)
    require(is_same, "forward", f"{difference}: other positions are allowed")
    require((actual.gain is None) == (expected.gain is None), "forward", f"{difference}: one of them has a gain")
    if actual.gain is not None and expected.gain is not None:
        require_close(actual.gain, expected.gain, "forward", f"{difference}: the gain differs")


class ScopeLaws(StepLaws):
    """The laws of every scope, for eight rows of three queries of width 5: four of fixed memories, and growing ones."""

    kind, results, sizes = "scope", "positions", SIZES

    def _inputs(self, size: int = POSITIONS) -> dict[str, Tensor]:
        steps = torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 2], [3, 1, 0]]).repeat(2, 1)
        masks = torch.cat([memory_mask(size).expand(-1, STEPS, -1), growing(size)])
        return {"queries": torch.randn(8, STEPS, WIDTH), "steps": steps, "memory_mask": masks}

    def _compute(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> Tensor:
        """The gains (b, q, m), 1 without one, and 0 where a position is not allowed."""
        allowed_mask, gain = self._mask(queries, steps, memory_mask)
        return allowed_mask.to(queries.dtype) if gain is None else allowed_mask * gain

    def _mask(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        """The scope's output, its types and shapes checked."""
        mask = self.part(queries, steps, memory_mask)
        fits = isinstance(mask, tuple) and len(mask) == 2
        require(fits, "forward", f"it returned {describe_type(mask)} instead of an attnx.attention.ScopeMask")
        shape = (*queries.shape[:2], memory_mask.shape[-1])
        allowed_mask = require_tensor(mask[0], "forward", shape)
        is_bool = allowed_mask.dtype == torch.bool
        require(is_bool, "forward", f"allowed_mask is {allowed_mask.dtype} instead of torch.bool")
        if mask[1] is not None:
            gain = require_tensor(mask[1], "forward")
            fits = gain.dim() == 3 and all(size in (1, full) for size, full in zip(gain.shape, shape, strict=True))
            require(fits, "forward", f"the gain has the shape {tuple(gain.shape)} instead of {shape}")
        return ScopeMask(*mask)

    @quick
    def declarations(self) -> None:
        """A scope is an nn.Module with a forward; its ``sources`` are a declaration or an option."""
        self._require_module()
        info = self.candidate.info
        declared = {"sources": ["encoder"], "include_self": False, **info.declarations}
        declared |= {option.name: option.default for option in info.options} | dict(self.candidate.options)
        for name, value in (("sources", tuple(declared["sources"])), ("include_self", declared["include_self"])):
            actual = getattr(self.part, name, None if name == "sources" else False)
            actual = tuple(actual) if isinstance(actual, list) else actual
            message = f"{name} is {actual!r} on the object and {value!r} by declaration, option or default"
            require(actual == value, name, message)

    @quick
    def shapes(self) -> None:
        """A scope returns a ScopeMask whose ``allowed_mask`` is (b, q, m) bool, also of a memory of no positions."""
        self._mask(**self._inputs())
        self._mask(**self._inputs(size=0))

    @quick
    def padding_is_never_allowed(self) -> None:
        """Masked positions are not allowed."""
        inputs = self._inputs()
        allowed_mask = self._mask(**inputs).allowed_mask
        require(not (allowed_mask & ~inputs["memory_mask"]).any(), "forward", "it allows masked positions")

    @quick
    def every_query_has_an_allowed_position(self) -> None:
        """A row with unmasked positions has at least one allowed position."""
        inputs = self._inputs()
        empty = inputs["memory_mask"].any(-1) & ~self._mask(**inputs).allowed_mask.any(-1)
        require(not empty.any(), "forward", "a query has no allowed position, though some are not masked")

    @quick
    def gains_are_between_0_and_1(self) -> None:
        """Gains of allowed positions are above 0 and at most 1; a scope without a gain has no parameters."""
        allowed_mask, gain = self._mask(**self._inputs())
        if gain is None:
            has_none = not list(self.part.parameters())
            require(has_none, "forward", "it has parameters but no gain, so they have no gradient")
            return
        inside = gain.expand_as(allowed_mask)[allowed_mask]
        is_share = (inside > 0) & (inside <= 1)
        require(is_share.all(), "forward", f"the gain is {inside.min():.3g} to {inside.max():.3g}")

    def masks_and_steps_may_be_shared(self) -> None:
        """A mask that queries share (b, 1, m) and steps that rows share (q,) have the effect of those of each."""
        queries, steps = torch.randn(4, STEPS, WIDTH), torch.arange(STEPS)
        expected = self._mask(queries, steps.expand(4, -1), memory_mask().expand(-1, STEPS, -1))
        require_same_mask(self._mask(queries, steps, memory_mask()), expected, "of a mask and steps that are shared")

    def padding_has_no_effect(self) -> None:
        """Padding after a memory has no effect on its positions."""
        inputs = self._inputs()
        longer = self._compute(**{**inputs, "memory_mask": self._inputs(size=13)["memory_mask"]})[..., :POSITIONS]
        require_close(longer, self._compute(**inputs), "forward", "padding after the memory changes its positions")

    def bfloat16_is_supported(self) -> None:
        """A gain of bfloat16 is finite."""
        self.part.to(torch.bfloat16)
        inputs = self._inputs()
        mask = self._mask(inputs["queries"].to(torch.bfloat16), inputs["steps"], inputs["memory_mask"])
        require_finite(mask.gain, "forward", "gains of bfloat16")
