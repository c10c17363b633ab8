"""Notes on outputs that cannot be as long as their references, and on outputs that were cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from attnx.data.examples import Pair
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.decoding.search import ConstrainedSearch
from attnx.errors import UserError
from attnx.inference.predictor import Prediction, Predictor

OPTION = "decoding.max_length_ratio"


def reference_length_notes(predictor: Predictor, valid: Sequence[Pair], test: Sequence[Pair]) -> list[str]:
    """Say how many references of validation and test are longer than an output may be.

    Raises:
        UserError: all of the validation are, so that no output can be right.
    """
    limit = describe_limit(predictor)
    too_long = {name: _count_too_long(predictor, pairs) for name, pairs in (("validation", valid), ("test", test))}
    if valid and too_long["validation"] == len(valid):
        raise UserError(
            f"all {len(valid):,} references of the validation are longer than an output may be: {limit}; "
            f"raise {OPTION}, or leave it out"
        )
    return [
        f"{count:,} of {len(pairs):,} references of the {name} are longer than an output may be: {limit}; "
        f"{OPTION} raises it"
        for (name, count), pairs in zip(too_long.items(), (valid, test), strict=True)
        if count
    ]


def cut_output_notes(predictor: Predictor, predictions: Sequence[Prediction]) -> list[str]:
    """Say how many outputs ended at their length limit, and not by themselves."""
    count = sum(prediction.is_cut for prediction in predictions)
    if not count or not _has_open_length(predictor):
        return []
    return [
        f"{count:,} of {len(predictions):,} outputs of the test did not end by themselves but at their limit, "
        f"{describe_limit(predictor)}; {OPTION} raises it"
    ]


def describe_limit(predictor: Predictor) -> str:
    """The most steps of an output as text; empty if its length is not open."""
    if not _has_open_length(predictor):
        return ""
    search = cast("ConstrainedSearch", predictor.decoding)
    return f"{search.max_length_ratio:g} times the source plus {search.max_length_extra} steps"


def _count_too_long(predictor: Predictor, pairs: Sequence[Pair]) -> int:
    """How many pairs have references that are all longer than their output may be, its end counted."""
    if not _has_open_length(predictor) or not pairs:
        return 0
    constraints = cast("ConstrainedSearch", predictor.decoding).constraints(cast("StepModel", predictor.model))
    limits = constraints.max_steps(torch.tensor([len(pair.source) for pair in pairs])).tolist()
    shortest = (min(map(len, pair.references)) + 1 for pair in pairs)
    return sum(needed > limit for needed, limit in zip(shortest, limits, strict=True))


def _has_open_length(predictor: Predictor) -> bool:
    """Whether outputs are symbols that end by themselves, or at the limit of a search."""
    target, task = cast("StepModel", predictor.model).target, predictor.task
    has_limit = isinstance(predictor.decoding, ConstrainedSearch) and isinstance(predictor.data.target, Vocabulary)
    return has_limit and target.steps is None and not task.has_labels and not task.is_continuation
