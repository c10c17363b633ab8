"""The two programs of an exported model: one encodes a source, the other takes a decoding step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attnx import accel
from attnx.attention import Memory
from attnx.decoding.contracts import StepModel
from attnx.models.seq2seq.model import DecoderState, Seq2seq
from attnx.models.transformer.model import Transformer, TransformerState

Exported = Seq2seq | Transformer
State = DecoderState | TransformerState


def flatten_state(state: Any) -> list[Tensor]:
    """The tensors of a state, batch first; the lengths of a memory's sources become widths of tensors."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, Memory):
        rows = state.mask.shape[0]
        return [*(state.mask.new_zeros(rows, length) for length in state.source_sizes), *state[:3]]
    return [tensor for part in state for tensor in flatten_state(part)] if isinstance(state, tuple) else []


def unflatten_state(tensors: Iterable[Tensor], template: Any) -> Any:
    """The state that :func:`flatten_state` made these tensors of, nested like ``template``."""
    tensors = iter(tensors)
    if isinstance(template, Tensor):
        return next(tensors)
    if isinstance(template, Memory):
        lengths = tuple(next(tensors).shape[1] for _ in template.source_sizes)
        return Memory(next(tensors), next(tensors), next(tensors), lengths)
    if isinstance(template, tuple):
        parts = [unflatten_state(tensors, part) for part in template]
        return template._make(parts) if hasattr(template, "_make") else tuple(parts)
    return template


def _encoder(model: nn.Module) -> nn.Module | None:
    """The encoder of the source, if the model has one."""
    return getattr(getattr(model, "source_encoder", None), "encoder", None)


class EncodeProgram(nn.Module):
    """Sources (b, s), their mask (b, s) bool, and tags (b,) if there are any -> the tensors of the first state."""

    def __init__(self, model: Exported) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> tuple[Tensor, ...]:
        """Encode. The encoder's outputs (b, s, e) come last, if there is one."""
        outputs: list[Tensor] = []
        encoder = _encoder(self.model)
        if encoder is not None:
            # An output because ONNX's exporter cannot drop unused outputs of a recurrence.
            hook = encoder.register_forward_hook(lambda _module, _inputs, result: outputs.append(result.layers[-1]))
        state = self.model.init_state(source, source_mask, tag)
        if encoder is not None:
            hook.remove()
        return (*flatten_state(state), *outputs)


class StepProgram(nn.Module):
    """Last symbols (b,) and the tensors of a state -> log-probabilities (b, symbols), weights, and the next state.

    Weights are (b, 1, m), or (b, h, 1, m) with several heads; a model without attention has none.
    """

    def __init__(self, model: Exported, template: State) -> None:
        super().__init__()
        self.model = cast("StepModel", model)  # each model has its own type of state
        self.template = template

    def forward(self, symbol: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Take one step."""
        result = self.model.decode_step(symbol, unflatten_state(state, self.template), need_weights=True)
        log_probabilities, next_state, attention = result
        weights = () if attention.weights is None else (attention.weights,)
        return (log_probabilities, *weights, *flatten_state(next_state))


class Program(NamedTuple):
    """A module to trace, with example inputs, and the names and dynamic axes of its inputs and outputs."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    input_names: list[str]
    output_names: list[str]
    axes: dict[str, list[int]]


class Programs(NamedTuple):
    """The programs of a model; the names of the fields are those of the files."""

    encode: Program
    decode_step: Program


@torch.no_grad()
def make_programs(model: Exported, make_sources: Callable[[int, int], Tensor], has_tags: bool) -> Programs:
    """The programs of a model in evaluation mode: encoding a source, and a decoding step.

    Its fast paths are disabled: a file has only torch's own operations. ``make_sources`` makes sources of a number of
    rows and steps.
    """
    accel.disable(model)
    downsampling = getattr(_encoder(model), "downsampling", 1)  # a pyramid's; sizes must differ in states, too
    (small, template), (large, _) = (
        _make_example(model, make_sources, has_tags, rows, steps * downsampling) for rows, steps in ((2, 5), (3, 7))
    )
    # Axes that differ between two batches of different sizes are dynamic.
    axes = {
        name: [axis for axis in range(part.dim()) if part.shape[axis] != large[name].shape[axis]]
        for name, part in small.items()
    }
    state = [name for name in small if name.startswith("state_")]
    axes |= {f"{name}_after": axes[name] for name in state}
    encoded = ["encoded"] if _encoder(model) is not None else []
    axes |= {name: [0, 1] for name in encoded}
    inputs, step_inputs = ["source", "source_mask", *(["tag"] if has_tags else [])], ["symbol", *state]
    outputs = [name for name in ("log_probabilities", "weights") if name in small]

    def make_program(module: nn.Module, input_names: list[str], output_names: list[str]) -> Program:
        return Program(module.eval(), tuple(small[name] for name in input_names), input_names, output_names, axes)

    return Programs(
        make_program(EncodeProgram(model), inputs, state + encoded),
        make_program(StepProgram(model, template), step_inputs, outputs + [f"{name}_after" for name in state]),
    )


def _make_example(
    model: Any, make_sources: Callable[[int, int], Tensor], has_tags: bool, rows: int, length: int
) -> tuple[dict[str, Tensor], State]:
    """The tensors of both programs by name, of rows of different lengths, and the state that some of them are of.

    They are some steps after the start, when a growing memory has as many states.
    """
    source_mask = torch.arange(length) < length - torch.arange(rows)[:, None]
    example = {"source": make_sources(rows, length), "source_mask": source_mask}
    if has_tags:
        example["tag"] = torch.zeros(rows, dtype=torch.int64)
    state = model.init_state(*example.values())
    symbol = model.target.start_input(rows, source_mask.device)
    for _ in range(rows):
        state = model.decode_step(symbol, state, need_weights=True)[1]
    weights = model.decode_step(symbol, state, need_weights=True)[2].weights
    example |= {f"state_{index}": part for index, part in enumerate(flatten_state(state))}
    example |= {"symbol": symbol, "log_probabilities": symbol[:, None]}  # the same axes are dynamic
    return example if weights is None else {**example, "weights": weights}, state
