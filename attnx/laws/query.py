"""The laws of every query input."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.attention import QueryContext
from attnx.laws.laws import StepLaws, quick
from attnx.laws.violation import Violation, require, require_close, require_finite, require_tensor

SIZES = {"state_size": 13, "context_size": 11, "token_size": 7, "tags": 101}
WIDTHS = {"token": 7, "prev_state": 13, "state": 13, "context": 11}
NOTHING = "nothing"  # what a learned query needs of a step


def random_step() -> dict[str, Tensor]:
    """The fields of a random :class:`QueryContext` of three steps of two rows."""
    fields = {name: torch.randn(2, 3, width) for name, width in WIDTHS.items()}
    return {**fields, "tag": torch.randint(SIZES["tags"], (2, 3))}


class QueryLaws(StepLaws):
    """The laws of every query input."""

    kind, results, sizes = "query", "queries", SIZES

    def _inputs(self) -> dict[str, Tensor]:
        return random_step()

    def _compute(self, token: Tensor, **fields: Tensor) -> Tensor:
        shape, step = (*token.shape[:-1], self.part.size), QueryContext(token, **fields)
        if self._declares("is_recurrent"):
            return require_tensor(self.part(step, self.part.init_carry(token))[0], "forward", shape)
        return require_tensor(self.part(step), "forward", shape)

    @property
    def _needs(self) -> str:
        return str(self.candidate.declaration("needs"))

    @quick
    def declarations(self) -> None:
        """A query input is an nn.Module with a forward and a ``size``, and declares the field it ``needs``."""
        self._require_declarations(is_recurrent=False)
        self._require_module()
        fields = (*QueryContext._fields, NOTHING)
        require(self._needs in fields, "needs", f"needs is {self._needs!r}; a step has {', '.join(fields)}")
        self._require_size("its output")

    @quick
    def steps_are_independent(self) -> None:
        """The results of a step depend on no other steps; if it is recurrent, on earlier ones by the carry alone."""
        if not self._declares("is_recurrent"):
            super().steps_are_independent()
            return
        inputs = self._inputs()
        together, carry = self._compute(**inputs), self.part.init_carry(inputs["token"])
        for step in range(together.shape[1]):
            pick = slice(None), slice(step, step + 1)
            alone, carry = self.part(QueryContext(**{name: tensor[pick] for name, tensor in inputs.items()}), carry)
            difference = f"step {step} has another query in a call of its own"
            require_close(together[pick], alone, "forward", difference)

    @quick
    def shapes(self) -> None:
        """Outputs have the shape (b, q, size)."""
        self._compute(**random_step())

    @quick
    def outputs_depend_on_needs_alone(self) -> None:
        """Outputs depend on the field it needs and on no other; the others may be missing."""
        needs, step = self._needs, random_step()
        same_field = {name: field for name, field in step.items() if name == needs}
        outputs, changed = self._compute(**step), self._compute(**{**random_step(), **same_field})
        require_close(outputs, changed, "forward", f"it reads other fields than {needs}")
        same = torch.equal(outputs, self._compute(**random_step()))
        require(same == (needs == NOTHING), "forward", f"it does not read {needs}, which it declares to need")
        alone = {name: field for name, field in step.items() if name in ("token", needs)}
        require_finite(self._compute(**alone), "forward", "outputs")

    def a_missing_field_is_rejected(self) -> None:
        """A missing field raises an error."""
        if self._needs in ("token", NOTHING):  # which are never missing
            return
        step = {name: field for name, field in random_step().items() if name != self._needs}
        try:
            self._compute(**step)
        except Exception:
            return
        raise Violation("forward", f"it returned an output without {self._needs}, which it declares to need")
