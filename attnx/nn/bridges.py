"""The bridges: where a decoder's state starts. ``last`` comes from the encoder, ``zeros`` and ``learned`` do not."""

from __future__ import annotations

import torch
from torch import nn

from attnx.nn.contracts import Decoder
from attnx.nn.recurrent import LayerState, State


class EncoderStateBridge(nn.Module):
    """Start from the encoder's final state, mapped to the decoder's width: c by a linear map, h by one and a tanh.

    Bahdanau et al. 2015, appendix A.2.2. Decoder layer l starts from encoder layer l, or from the top one if there are
    fewer; a GRU's h stands in for the c it does not have.
    """

    def __init__(self, decoder: Decoder, encoder_size: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(
            nn.ModuleList(nn.Linear(encoder_size, decoder.size) for _ in range(decoder.tensors_per_layer))
            for _ in range(decoder.num_layers)
        )

    def forward(self, final: State, batch: int) -> State:
        """The encoder's final states -> the decoder's first."""
        layers: list[LayerState] = []
        for index, maps in enumerate(self.maps):
            encoded = final[min(index, len(final) - 1)]
            to_h, *to_c = maps.children()
            layers.append((torch.tanh(to_h(encoded[0])), *(to(encoded[-1]) for to in to_c)))
        return tuple(layers)


class ZeroBridge(nn.Module):
    """Start from zeros."""

    def __init__(self, decoder: Decoder, encoder_size: int) -> None:
        super().__init__()
        self.num_layers, self.tensors_per_layer = decoder.num_layers, decoder.tensors_per_layer
        self.register_buffer("zero", torch.zeros(1, decoder.size), persistent=False)

    def forward(self, final: State, batch: int) -> State:
        """-> zeros."""
        zero = self.get_buffer("zero").expand(batch, -1)
        return ((zero,) * self.tensors_per_layer,) * self.num_layers


class LearnedBridge(nn.Module):
    """Start from a state that is learned, the same for every row."""

    def __init__(self, decoder: Decoder, encoder_size: int) -> None:
        super().__init__()
        self.start = nn.Parameter(0.01 * torch.randn(decoder.num_layers, decoder.tensors_per_layer, 1, decoder.size))

    def forward(self, final: State, batch: int) -> State:
        """-> the learned state, for each row."""
        return tuple(tuple(tensor.expand(batch, -1) for tensor in layer) for layer in self.start)


BRIDGES: dict[str, type[nn.Module]] = {"last": EncoderStateBridge, "zeros": ZeroBridge, "learned": LearnedBridge}
