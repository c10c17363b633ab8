"""One step of the loop over time as torch compiles it: a few fused operations, or a CUDA graph, instead of dozens."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from attnx.attention import AttentionOutput
    from attnx.models.seq2seq.model import Seq2seq
    from attnx.models.seq2seq.schedules import Masks
    from attnx.models.seq2seq.state import DecoderState

Advance = Callable[[Tensor, "DecoderState", "Masks | None", bool], "tuple[DecoderState, AttentionOutput]"]

BACKEND = "inductor"
# Shapes are symbols, but a length of 1, or one on another side of a kernel's bound, is compiled apart.
RECOMPILES = 64


class CompileOptions(NamedTuple):
    """How a model's steps are compiled; plain, so that a model with it is copied and saved as ever.

    Attributes:
        graphs: also record CUDA graphs.
        strict: raise what stops the compiler; else torch warns of it, and what it is about runs as it is.
    """

    graphs: bool = False
    strict: bool = False


def keep_gradients(model: torch.nn.Module) -> None:
    """Give gradients memory of their own: a CUDA graph writes those of the next batch where these lay."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.register_hook(torch.clone)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def stepping(model: Seq2seq) -> Iterator[Advance]:
    """What takes a step of one pass: ``model.advance``, or that compiled while gradients are wanted.

    Nothing of it is kept on the model: checkpoints, copies and processes see the same modules as without.
    """
    if model.compiled is None or not torch.is_grad_enabled():
        yield model.advance
        return
    import torch._dynamo as dynamo

    graphs, strict = model.compiled
    if graphs:
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
    # The fused layers are asked for their weights alone, which torch does not look into unless it is allowed to.
    with dynamo.config.patch(allow_rnn=True, recompile_limit=RECOMPILES, suppress_errors=not strict):
        yield functools.partial(_compiled(graphs, BACKEND), model)


def _advance(
    model: Seq2seq, token: Tensor, state: DecoderState, masks: Masks | None, need_weights: bool
) -> tuple[DecoderState, AttentionOutput]:
    return model.advance(token, state, masks, need_weights)


@functools.cache
def _compiled(graphs: bool, backend: str) -> Callable[..., Any]:
    """One for all models: torch looks at the one it is given, and compiles anew what differs."""
    mode = {"mode": "reduce-overhead"} if graphs else {}
    return torch.compile(_advance, backend=backend, **mode)  # type: ignore[call-overload, no-any-return]
