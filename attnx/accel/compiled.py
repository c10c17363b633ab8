"""What torch compiles in training: a step of a recurrent model's loop, or a transformer's whole pass."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.errors import in_a_line
from attnx.models.seq2seq.model import DecoderState, Seq2seq
from attnx.models.seq2seq.schedules import NO_DROPOUT_MASKS, DropoutMasks
from attnx.models.sequence_model import Output
from attnx.models.transformer.model import Transformer

BACKEND = "inductor"
# Before it, a named tuple that `_replace` or `_make` made leaves a graph without its fields, so a step is one graph.
OLDEST_WITH_BREAKS = "2.13"
# Shapes are symbolic, but a length of 1, or one on the other side of a kernel's bound, is compiled separately.
MAX_RECOMPILES = 64


class CompileOptions(NamedTuple):
    """How a model is compiled."""

    has_graphs: bool = False  # also record CUDA graphs
    is_strict: bool = False  # raise the compiler's errors; else torch warns, and the operation runs uncompiled


class CompiledSeq2seq(Seq2seq):
    """A model whose steps are compiled while gradients are needed. Its modules are those of the plain model."""

    compile_options: CompileOptions

    def forward_step(
        self, token: Tensor, state: DecoderState, masks: DropoutMasks = NO_DROPOUT_MASKS, need_weights: bool = False
    ) -> tuple[DecoderState, AttentionOutput]:
        """As :meth:`Seq2seq.forward_step`."""
        step, options = None, self.compile_options
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # The first context is zeros without gradients: compiled, it would be a case of its own.
            if state.context.requires_grad:
                step = _call_compiled(Seq2seq.forward_step, self, options, token, state, masks, need_weights)
            elif options.has_graphs:
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        if step is None:
            return super().forward_step(token, state, masks, need_weights)
        return _with_names_of(state, step[0]), AttentionOutput._make(step[1])


class CompiledTransformer(Transformer):
    """A model whose pass over a known target is compiled while gradients are needed."""

    compile_options: CompileOptions

    def forward(self, *inputs: Any, **named_inputs: Any) -> Output:
        """As :meth:`Transformer.forward`."""
        output = None
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            output = _call_compiled(Transformer.forward, self, self.compile_options, *inputs, **named_inputs)
        return super().forward(*inputs, **named_inputs) if output is None else Output._make(output)


COMPILED = {Seq2seq: CompiledSeq2seq, Transformer: CompiledTransformer}
"""What compiles a model's class."""


def compile_model(model: torch.nn.Module, options: CompileOptions | None) -> None:
    """Compile a model of :data:`COMPILED`, or with None no longer."""
    plain = next(plain for plain in COMPILED if isinstance(model, plain))
    model.__class__ = plain if options is None else COMPILED[plain]
    if options is not None:
        model.compile_options = options  # type: ignore[assignment]


def clone_gradients(model: torch.nn.Module) -> None:
    """Give gradients memory of their own: a CUDA graph writes those of the next batch where these are."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.register_hook(torch.clone)  # type: ignore[no-untyped-call]


def _call_compiled(
    method: Callable[..., Any], model: torch.nn.Module, options: CompileOptions, *inputs: Any, **named_inputs: Any
) -> Any:
    """What a method returns, as tuples without names, compiled; None if torch cannot compile it."""
    import torch._dynamo as dynamo

    # The fused layers give their weights alone, which torch does not look into unless it is allowed to.
    with dynamo.config.patch(allow_rnn=True, recompile_limit=MAX_RECOMPILES, suppress_errors=not options.is_strict):
        try:
            return _compile(method, options.has_graphs, BACKEND)(model, *inputs, **named_inputs)
        except dynamo.exc.TorchDynamoException as error:  # what has to be one graph raises it anyway
            if options.is_strict:
                raise
            warnings.warn(f"a step runs uncompiled: {in_a_line(error)}", stacklevel=2)
            return None


@functools.cache
def _compile(method: Callable[..., Any], has_graphs: bool, backend: str) -> Callable[..., Any]:
    """One for all models: torch looks at the model it receives, and recompiles what differs."""

    def plain(model: torch.nn.Module, *inputs: Any, **named_inputs: Any) -> Any:
        return _without_names(method(model, *inputs, **named_inputs))

    mode = {"mode": "reduce-overhead"} if has_graphs else {}
    is_whole = torch.__version__ < OLDEST_WITH_BREAKS
    return torch.compile(plain, backend=backend, fullgraph=is_whole, **mode)  # type: ignore[call-overload, no-any-return]


def _without_names(value: Any) -> Any:
    return tuple(map(_without_names, value)) if isinstance(value, tuple) else value


def _with_names_of(like: Any, value: Any) -> Any:
    """Nested tuples as the named tuples that stand at their places in another value."""
    if not isinstance(value, tuple):
        return value
    parts = map(_with_names_of, like, value)
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
