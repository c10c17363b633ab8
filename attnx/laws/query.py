"""The laws of every query input."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from attnx.attention import QueryContext
from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.violation import Violation, require, require_close, require_finite, require_tensor

SIZES = {"state_size": 13, "context_size": 11, "token_size": 7, "tags": 101}
WIDTHS = {"token": 7, "prev_state": 13, "state": 13, "context": 11}


def random_step(leave_out: tuple[str, ...] = ()) -> QueryContext:
    """Random context of three steps of two rows, without some fields."""
    fields = {name: torch.randn(2, 3, width) for name, width in WIDTHS.items()}
    fields["tag"] = torch.randint(SIZES["tags"], (2, 3))
    return QueryContext(**{name: field for name, field in fields.items() if name not in leave_out})


def apply(part: Any, inputs: QueryContext) -> Tensor:
    """The query input's output, its type and shape checked."""
    return require_tensor(part(inputs), "forward", (*inputs.token.shape[:-1], part.size))


def declarations(query: Candidate) -> None:
    """A query input is an nn.Module with a forward and a ``size``, and declares the field it ``needs``."""
    part, needs = query.build(**SIZES), query.property_value("needs")
    require_declarations(query, part)
    require_methods(part, ("forward",))
    require(needs in QueryContext._fields, "needs", f"needs is {needs!r}; a step has {', '.join(QueryContext._fields)}")
    size = getattr(part, "size", None)
    require(isinstance(size, int) and size > 0, "", f"its size, the width it contributes, is {size!r}")


def shapes(query: Candidate) -> None:
    """Outputs have the shape (b, q, size)."""
    apply(query.build(**SIZES), random_step())


def outputs_depend_on_needs_alone(query: Candidate) -> None:
    """Outputs depend on the field it needs and on no other; the others may be missing."""
    part, inputs, needs = query.build(**SIZES), random_step(), query.property_value("needs")
    changed = random_step()._replace(**{needs: getattr(inputs, needs)})
    require_close(apply(part, inputs), apply(part, changed), "forward", f"it reads other fields than {needs}")
    same = torch.equal(apply(part, inputs), apply(part, random_step()))
    require(not same, "forward", f"it does not read {needs}, which it declares to need")
    unknown = tuple(name for name in QueryContext._fields if name not in ("token", needs))
    require_finite(apply(part, random_step(leave_out=unknown)), "forward", "outputs")


def rows_are_independent(query: Candidate) -> None:
    """The output of a step of a row does not depend on other rows or steps."""
    part, inputs = query.build(**SIZES), random_step()
    together = apply(part, inputs)
    for row, position in itertools.product(range(2), range(3)):
        pick = (slice(row, row + 1), slice(position, position + 1))
        alone = apply(part, QueryContext(*(field[pick] for field in inputs if field is not None)))
        require_close(alone, together[pick], "forward", f"row {row} has another output in a batch")


def a_missing_field_is_rejected(query: Candidate) -> None:
    """A missing field raises an error."""
    part, needs = query.build(**SIZES), query.property_value("needs")
    if needs == "token":  # which is never missing
        return
    try:
        part(random_step(leave_out=(needs,)))
    except Exception:
        return
    raise Violation("forward", f"it returned an output without {needs}, which it declares to need")


QUICK = (declarations, shapes, rows_are_independent, outputs_depend_on_needs_alone)
LAWS = (*QUICK, a_missing_field_is_rejected)
