"""How long outputs may become, and a note on those that were cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attnx.data.vocabulary import Vocabulary
from attnx.decoding.contracts import StepModel
from attnx.decoding.search import ConstrainedSearch
from attnx.inference.predictor import Prediction, Predictor

OPTION = "decoding.max_length_ratio"


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


def _has_open_length(predictor: Predictor) -> bool:
    """Whether outputs are symbols that end by themselves, or at the limit of a search."""
    target, task = cast("StepModel", predictor.model).target, predictor.task
    has_limit = isinstance(predictor.decoding, ConstrainedSearch) and isinstance(predictor.data.target, Vocabulary)
    return has_limit and target.steps is None and not task.has_labels and not task.is_continuation
