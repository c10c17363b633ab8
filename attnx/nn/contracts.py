"""The protocols of the parts of an encoder-decoder beside attention, and the values that they exchange.

Plug-ins keep them without inheriting; :mod:`attnx.laws` tests that they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from attnx.nn.recurrent import RnnOutput, State
from attnx.nn.spans import Spans


class EncoderOutput(NamedTuple):
    """An encoded source."""

    # outputs of every layer, lowest first, each (b, s, size); the last one is "the states"
    layers: list[Tensor]
    final: State  # the state after each layer, as a decoder could start from it
    spans: Spans | None = None  # of an encoder that declares ``is_downsampling``


class Encoder(Protocol):
    """Encodes embedded source symbols; a part of kind ``encoder``.

    A class that returns fewer states than the source has steps declares ``is_downsampling = True``, and its output has
    the ``spans`` of the states.
    """

    size: int  # width of the states

    def __call__(self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        """Encode a batch; a row without any symbol gives finite states.

        Args:
            inputs: (b, s, input_size).
            source_mask: (b, s) bool, False at padding.
            lengths: (b,) int64 on the CPU, the steps of each row, for an encoder that needs them as numbers; counting
                them in the mask, where they are left out, waits for a GPU.
        """


class SentenceEncoder(Protocol):
    """An encoder with a state for each sentence of symbols; its class declares ``needs_sentences = True``, too."""

    size: int  # width of the states

    def __call__(
        self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None, sentence_ends: Tensor | None = None
    ) -> EncoderOutput:
        """As :class:`Encoder`; ``sentence_ends`` (b, s) bool are full stops, and without them all is one sentence."""


class PairEncoder(Protocol):
    """An encoder of two texts in one sequence; its class declares ``needs_pairs = True``."""

    size: int  # width of the states

    def __call__(
        self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None, separator_mask: Tensor | None = None
    ) -> EncoderOutput:
        """As :class:`Encoder`; ``separator_mask`` (b, s) bool is what ends first texts, and without it all is one."""


class Bridge(Protocol):
    """Makes the decoder's first state."""

    def __call__(self, final: State, batch: int) -> State:
        """The encoder's state after each layer, empty without an encoder, and the number of rows -> the first state."""


class Decoder(Protocol):
    """A recurrence over the target, whose top state is what attention and readout see; a part of kind ``decoder``.

    Its constructor has an option ``hidden_size``, which is its ``size``: other parts are built for that width.
    """

    size: int  # width of the state h of every layer
    num_layers: int  # how many layers it has; a state has an entry of each
    tensors_per_layer: int  # 1 if a layer's state is (h,), 2 if it is (h, c)
    dropout: float  # share of the units dropped between layers. The model draws the masks.

    def run(
        self,
        inputs: Sequence[Tensor],
        lengths: Tensor | None = None,
        state: State | None = None,
        dropout_masks: Sequence[Tensor | None] = (),
    ) -> RnnOutput:
        """Run over whole sequences: see :meth:`attnx.nn.recurrent.Recurrent.run`."""

    def step(self, inputs: Sequence[Tensor], state: State, dropout_masks: Sequence[Tensor | None] = ()) -> State:
        """Take one step: inputs (b, ...) side by side and the previous state -> the next, as in :meth:`run`."""


class Readout(Protocol):
    """Joins state, context and token into the vector that the output layer reads; a part of kind ``readout``."""

    size: int  # width of that vector

    def __call__(self, state: Tensor, context: Tensor, token: Tensor) -> Tensor:
        """(..., state_size), (..., context_size), (..., token_size) -> (..., size)."""


class OutputInputs(NamedTuple):
    """What an output layer may read besides the readout; the leading axes are those of the readouts, (b,) or (b, t)."""

    states: Tensor  # (..., d), the top state
    contexts: Tensor  # (..., v)
    tokens: Tensor  # (..., e), the embedded input
    # (..., m), the attention weights, the mean over heads; the source's positions come first. None unless the
    # layer ``needs_weights`` or they were requested.
    weights: Tensor | None
    copy_ids: Tensor | None  # (b, s) int64, what :meth:`OutputLayer.copy_ids` returned for the source

    def at(self, steps_mask: Tensor) -> OutputInputs:
        """Those of the steps that a mask (b, t) chooses, (n, ...) in the order of rows."""
        rows = steps_mask.nonzero()[:, 0]
        weights = None if self.weights is None else self.weights[steps_mask]
        copy_ids = None if self.copy_ids is None else self.copy_ids[rows]
        return OutputInputs(
            self.states[steps_mask], self.contexts[steps_mask], self.tokens[steps_mask], weights, copy_ids
        )


class OutputLayer(Protocol):
    """From the readout to logits; a part of kind ``output``."""

    needs_weights: bool  # whether it reads attention weights, to copy symbols of the source

    def __call__(self, vectors: Tensor, inputs: OutputInputs) -> Tensor:
        """Readouts (..., size) -> (..., width)."""

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> Tensor | None:
        """(b, s) source ids and (b, s) bool -> (b, s) the target ids that may be copied; None if nothing is copied."""


class GreedyStep(NamedTuple):
    """One step of greedy decoding."""

    output: Tensor  # (b, ...) the step's output, which is the decoder's next input
    score: Tensor  # (b,) its log-probability
    is_last: Tensor  # (b,) bool, whether the sequence ends with it


class TargetSpec(Protocol):
    """One step of a sequence: its shape, embedding, loss and predictions. It has no weights: those are the model's."""

    @property
    def width(self) -> int:
        """Size of the output layer."""

    @property
    def steps(self) -> int | None:
        """The number of steps of every output; None if each ends where it says so."""

    def prepare(self, source: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """A source (b, s, ...) and its target (b, t, ...), None where it is not known, as the model gets them."""

    def restore(self, outputs: Tensor, source: Tensor) -> Tensor:
        """Undo :meth:`prepare`: outputs (b, n, t, ...) of the model for a source that was not prepared."""

    def embedding(self, size: int) -> nn.Module:
        """A new layer from steps (b, t, ...) to vectors (b, t, size)."""

    def marked_states(self, size: int) -> nn.Module:
        """A new layer from states (b, t, size) and a mask (b, t) of n steps to what their outputs read (n, size)."""

    def start_input(self, rows: int, device: torch.device) -> Tensor:
        """(rows, ...) the decoder's input at the first step."""

    def decoder_inputs(self, source: Tensor, target: Tensor) -> Tensor:
        """What the decoder reads with a known target (b, t, ...): the start, and each step but the last."""

    def step_losses(self, outputs: Tensor, target: Tensor, target_mask: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """Outputs (b, t, width), target (b, t, ...) and mask (b, t), False at padding -> (b, t), 0 at padding."""

    def predict(self, outputs: Tensor) -> Tensor:
        """Outputs (..., width) -> predictions of the same shape: log-probabilities of symbols, numbers unchanged."""

    def greedy(self, predictions: Tensor) -> GreedyStep:
        """Take the likeliest step from predictions (b, width)."""

    def sample(self, outputs: Tensor) -> Tensor:
        """Sample a step (b, ...) from outputs (b, width), for scheduled sampling."""
