"""The vectors of a decoder step, step by step on the example, and the query that a part makes of them."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from attnx.attention import QueryContext
from attnx.gallery.drawings import VECTORS, Numbers
from attnx.gallery.part_numbers import HUNDREDTHS, build_part, whole_numbers
from attnx.gallery.part_variant import PartVariant
from attnx.gallery.pictures import STATE_SIZE, STEPS, example_states, read_example

SUBSCRIPTS = str.maketrans("t-1", "\u209c\u208b\u2081")


def query_vectors(variant: PartVariant) -> Numbers:
    """(t, size) what a query input makes of the steps of the example.

    Raises:
        UserError: it refuses its knobs.
    """
    part = build_part(variant)
    with torch.no_grad():
        query: Numbers = part(example_context())[0].double().numpy()
    return query


def example_context() -> QueryContext:
    """The steps of the example: its queries are the decoder's states, its contexts what ``dot`` reads with them."""
    states, memory = example_states()
    contexts = torch.from_numpy(read_example(scorer="dot").weights).float()[None] @ memory
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokens = torch.randn(1, STEPS, STATE_SIZE)
    return QueryContext(
        token=tokens,
        prev_state=_delay(states),
        state=states,
        context=_delay(contexts),
        tag=torch.ones(1, STEPS, dtype=torch.int64),
    )


def vectors_to_select() -> list[dict[str, Any]]:
    """Name, label, availability and numbers (t, d) of the vectors from which a query selects.

    A tag is one number, and so is what a learned vector needs: 1.
    """
    context = {**example_context()._asdict(), "nothing": torch.ones(1, STEPS)}
    return [
        {
            "name": name,
            "label": _plain_text(vector.text),
            "availability": vector.availability,
            "numbers": whole_numbers(context[name].reshape(STEPS, -1).double().numpy(), HUNDREDTHS),
        }
        for name, vector in VECTORS.items()
    ]


def _delay(vectors: Tensor) -> Tensor:
    """(b, t, d) vectors of the step before; zeros at the first step."""
    return torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, :-1]], dim=1)


def _plain_text(text: str) -> str:
    """Mathematics in plain text: ``$h_{t-1}$`` is an h with a subscript."""
    return re.sub(r"_\{?([t\-1]+)\}?", lambda match: match[1].translate(SUBSCRIPTS), text).replace("$", "")
