"""The laws of every search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.decoding.contracts import DecodeResult
from attnx.laws.candidate import Candidate
from attnx.laws.small import small_config, small_model
from attnx.laws.violation import described, require, require_close, require_tensor

SOURCE = torch.tensor(
    [[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0], [7, 7, 3, 19, 5, 0, 0]]
)
PRESENT = SOURCE != 0


def decided_model(**choices: Any) -> Any:
    """A small model that has opinions: its symbols are not all about as likely as each other."""
    model = small_model(small_config(**choices)).eval()
    with torch.no_grad():
        getattr(model.output, "vocabulary", model.output).weight *= 11
    return model


def searched(part: Any, model: Any, source: Tensor, present: Tensor, **more: Any) -> DecodeResult:
    """What is found, of the right types and shapes."""
    with torch.no_grad():
        found = part(model, source, present, **more)
    require(isinstance(found, DecodeResult), "__call__", f"it returned {described(found)} instead of a DecodeResult")
    written = require_tensor(found.written, "__call__", (len(source), None, None))
    for value in (found.lengths, found.log_probability, found.score):
        require_tensor(value, "__call__", written.shape[:2])
    require((found.lengths <= written.shape[2]).all(), "__call__", "lengths are beyond what is written")
    result: DecodeResult = found
    return result


def declarations(search: Candidate) -> None:
    """A search is called with a model and a batch, and its ``check`` looks at a model before it is trained."""
    part = search.build()
    require(callable(part), "", "it cannot be called")
    require(callable(getattr(part, "check", None)), "", f"{type(part).__name__} has no method check")
    part.check(decided_model())


def shapes(search: Candidate) -> None:
    """A search finds n hypotheses a row, best first, with weights if they are asked for."""
    found = searched(search.build(), decided_model(), SOURCE, PRESENT, need_weights=True)
    require((found.score.diff(dim=1) <= 0).all(), "__call__", "hypotheses are not in the order of their scores")
    require_tensor(found.weights, "__call__", (*found.written.shape, None))


def rows_are_independent(search: Candidate) -> None:
    """A row is written as it would be alone and without padding."""
    part = search.build()
    for scope in ("global", "encoder_decoder"):
        model = decided_model(scope=scope)
        together = searched(part, model, SOURCE, PRESENT)
        for row, length in enumerate(PRESENT.sum(-1).tolist()):
            pick = slice(row, row + 1)
            alone = searched(part, model, SOURCE[pick, :length], PRESENT[pick, :length])
            same = torch.equal(alone.lengths, together.lengths[pick])
            steps = int(alone.lengths.max()) if same else 0
            same = same and torch.equal(alone.written[..., :steps], together.written[pick, :, :steps])
            require(same, "__call__", f"row {row} is written otherwise beside other rows")


def log_probabilities_are_the_models(search: Candidate) -> None:
    """The log-probability of what is written is what the model gives it, step by step."""
    model = decided_model()
    found = searched(search.build(), model, SOURCE, PRESENT)
    best, lengths = found.written[:, 0], found.lengths[:, 0]
    with torch.no_grad():
        inputs = torch.cat([model.target.start_input(len(best), best.device)[:, None], best[:, :-1]], 1)
        steps = torch.log_softmax(model(SOURCE, PRESENT, inputs).logits, -1).gather(-1, best[..., None])[..., 0]
    total = (steps * (torch.arange(best.shape[1]) < lengths[:, None])).sum(-1)
    require_close(found.log_probability[:, 0], total, "__call__", "the log-probability is not the model's")


QUICK = (declarations, shapes)
LAWS = (*QUICK, rows_are_independent, log_probabilities_are_the_models)
