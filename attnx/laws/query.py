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
WIDTHS = {"token": 7, "before": 13, "after": 13, "context": 11}


def step(leave_out: tuple[str, ...] = ()) -> QueryContext:
    """Three random steps of two rows, without some fields."""
    fields = {name: torch.randn(2, 3, width) for name, width in WIDTHS.items()}
    fields["tag"] = torch.randint(SIZES["tags"], (2, 3))
    return QueryContext(**{name: field for name, field in fields.items() if name not in leave_out})


def picked(part: Any, given: QueryContext) -> Tensor:
    """What it picks from steps, of the right type and shape."""
    return require_tensor(part(given), "forward", (*given.token.shape[:-1], part.size))


def declarations(query: Candidate) -> None:
    """A query input is an nn.Module with a forward and a ``size``, and declares the one field it ``needs``."""
    part, needs = query.build(**SIZES), query.declares("needs")
    require_declarations(query, part)
    require_methods(part, ("forward",))
    require(needs in QueryContext._fields, "needs", f"needs is {needs!r}; a step has {', '.join(QueryContext._fields)}")
    size = getattr(part, "size", None)
    require(isinstance(size, int) and size > 0, "", f"its size, the width it contributes, is {size!r}")


def shapes(query: Candidate) -> None:
    """What is picked is (b, q, size)."""
    picked(query.build(**SIZES), step())


def it_reads_what_it_needs(query: Candidate) -> None:
    """What it needs changes the outcome, and no other field does; those may be unknown."""
    part, given, needs = query.build(**SIZES), step(), query.declares("needs")
    changed = step()._replace(**{needs: getattr(given, needs)})
    require_close(picked(part, given), picked(part, changed), "forward", f"it reads other fields than {needs}")
    same = torch.equal(picked(part, given), picked(part, step()))
    require(not same, "forward", f"it does not read {needs}, which it declares to need")
    unknown = tuple(name for name in QueryContext._fields if name not in ("token", needs))
    require_finite(picked(part, step(leave_out=unknown)), "forward", "outputs")


def rows_are_independent(query: Candidate) -> None:
    """A step of a row is picked as it is alone."""
    part, given = query.build(**SIZES), step()
    together = picked(part, given)
    for row, position in itertools.product(range(2), range(3)):
        pick = (slice(row, row + 1), slice(position, position + 1))
        alone = picked(part, QueryContext(*(field[pick] for field in given if field is not None)))
        require_close(alone, together[pick], "forward", f"row {row} is picked otherwise beside other rows or steps")


def an_unknown_field_is_refused(query: Candidate) -> None:
    """A field that is not known yet is refused, not read as something else."""
    part, needs = query.build(**SIZES), query.declares("needs")
    if needs == "token":  # which is always known
        return
    try:
        part(step(leave_out=(needs,)))
    except Exception:
        return
    raise Violation("forward", f"it answered without {needs}, which it declares to need")


QUICK = (declarations, shapes, rows_are_independent, it_reads_what_it_needs)
LAWS = (*QUICK, an_unknown_field_is_refused)
