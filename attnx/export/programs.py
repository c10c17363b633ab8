"""The two programs a model is exported as: one reads a source, the other takes one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnx import accel
from attnx.export.flat import flat, nested
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.seq2seq.state import DecoderState
from attnx.models.transformer.model import Transformer, TransformerState

Exported = Seq2seq | Transformer
State = DecoderState | TransformerState


class Reading(nn.Module):
    """From sources (b, s), what is present (b, s) bool, and tags (b,) if there are any, to a state's tensors."""

    def __init__(self, model: Exported) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> tuple[Tensor, ...]:
        """Encode. The encoder's outputs (b, s, e) come last, if there is one."""
        outputs: list[Tensor] = []
        encoder = getattr(self.model.source, "encoder", None)
        if encoder is not None:
            # Given out because ONNX's exporter cannot leave out of a recurrence what nothing reads.
            seen = encoder.register_forward_hook(lambda _module, _given, found: outputs.append(found.layers[-1]))
        state = self.model.init_state(source, present, tag)
        if encoder is not None:
            seen.remove()
        return (*flat(state), *outputs)


class Stepping(nn.Module):
    """From the last symbols (b,) and a state's tensors to log-probabilities (b, symbols), weights, and the state after.

    Weights are (b, 1, m), or (b, h, 1, m) with several heads; of a model without attention there are none.
    """

    def __init__(self, model: Exported, like: State) -> None:
        super().__init__()
        self.model: Any = model  # with states of its own kind
        self.like = like

    def forward(self, symbol: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Take one step."""
        found, after, read = self.model.decode_step(symbol, nested(list(state), self.like), need_weights=True)
        weights = () if read.weights is None else (read.weights,)
        return (found, *weights, *flat(after))


class Program(NamedTuple):
    """What is traced, and how a file is to name what goes in and comes out.

    Attributes:
        module: of tensors to tensors.
        inputs: an example of what goes in.
        names: of the inputs.
        returns: names of the outputs.
        axes: of each input and output the axes whose size is left open.
    """

    module: nn.Module
    inputs: tuple[Tensor, ...]
    names: list[str]
    returns: list[str]
    axes: dict[str, list[int]]


class Example(NamedTuple):
    """A batch as it goes through both programs."""

    source: tuple[Tensor, ...]
    symbol: Tensor
    state: State
    weights: Tensor | None


@torch.no_grad()
def programs(model: Exported, sources: Callable[[int, int], Tensor], tagged: bool) -> tuple[Program, Program]:
    """The programs of a model: reading a source, and taking a step.

    Args:
        model: in evaluation mode. Its fast paths are disabled: a file can hold torch's own operations alone.
        sources: (rows, steps) -> any sources of that size.
        tagged: whether rows have tags.
    """
    accel.disable(model)
    pace = getattr(model, "downsampling", 1)  # steps for a state of the source; states differ in number, too
    small, large = (_example(model, sources, tagged, rows, steps * pace) for rows, steps in ((2, 5), (3, 7)))
    state = [f"state_{number}" for number in range(len(flat(small.state)))]
    given = ["source", "present", *(["tag"] if tagged else [])]
    found = ["log_probabilities", *([] if small.weights is None else ["weights"])]
    names = [*given, "symbol", *state, *found]
    # What differs between two batches of unlike sizes is open.
    axes = dict(zip(names, map(_differing, _tensors(small), _tensors(large)), strict=True))
    after = [f"{name}_after" for name in state]
    axes |= {late: axes[early] for late, early in zip(after, state, strict=True)}
    encoded = ["encoded"] if getattr(model.source, "encoder", None) is not None else []
    axes |= {name: [0, 1] for name in encoded}
    stepping = Stepping(model, small.state)
    return (
        Program(Reading(model), small.source, given, state + encoded, axes),
        Program(stepping, (small.symbol, *flat(small.state)), ["symbol", *state], [*found, *after], axes),
    )


def _example(model: Any, sources: Callable[[int, int], Tensor], tagged: bool, rows: int, length: int) -> Example:
    """Rows of unlike lengths, some steps on: a memory that grows holds as many states by then."""
    present = torch.arange(length) < length - torch.arange(rows)[:, None]
    tag = [torch.zeros(rows, dtype=torch.int64)] if tagged else []
    source = (sources(rows, length), present, *tag)
    state = model.init_state(*source)
    symbol = model.target.start_input(rows, present.device)
    for _ in range(rows):
        state = model.decode_step(symbol, state, need_weights=True)[1]
    return Example(source, symbol, state, model.decode_step(symbol, state, need_weights=True)[2].weights)


def _tensors(example: Example) -> list[Tensor]:
    """In the order of their names; log-probabilities are open where symbols are, and in no other axis."""
    weights = [] if example.weights is None else [example.weights]
    return [*example.source, example.symbol, *flat(example.state), example.symbol[:, None], *weights]


def _differing(one: Tensor, other: Tensor) -> list[int]:
    return [axis for axis, sizes in enumerate(zip(one.shape, other.shape, strict=True)) if sizes[0] != sizes[1]]
