"""The encoder ``pyramid``."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.nn.contracts import EncoderOutput
from attnx.nn.recurrent import Recurrent, State, count_steps
from attnx.nn.spans import Spans
from attnx.registry import Depth, Probability, Size, Width, register


@register("encoder", "pyramid", read_if={"dropout": "layers!=1"})
class Pyramid(nn.Module):
    """Recurrent layers of which each reads pairs of states of the one below: half as many states a layer.

    Formula: ``h^j_i = [forward([h^{j-1}_2i; h^{j-1}_{2i+1}], h^j_{i-1}); backward(..., h^j_{i+1})], j = 2 .. layers``
    Source: Chan et al. 2016 (the listener), https://arxiv.org/abs/1508.01211

    The first layer reads every step, so 4 ``layers`` leave one state for 8 steps, as in the paper. A last pair may lack
    its second state; zeros stand there. Attention reads the states at the top. Weights are shown over the source's
    steps: each has its share of the weight of the state that stands for it.

    >>> encoder = Pyramid(input_size=11, hidden_size=13, layers=3)
    >>> encoder(torch.ones(2, 7, 11), torch.ones(2, 7, dtype=torch.bool)).layers[-1].shape
    torch.Size([2, 2, 26])
    """

    is_downsampling = True

    def __init__(
        self,
        input_size: Size,
        cell: Literal["lstm", "gru", "rnn"] = "lstm",
        hidden_size: Width = 256,
        layers: Depth = 4,
        bidirectional: bool = True,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.size = hidden_size * (2 if bidirectional else 1)
        sizes = [input_size] + [2 * self.size] * (layers - 1)
        self.layers = nn.ModuleList(Recurrent(cell, size, hidden_size, 1, bidirectional) for size in sizes)
        self.downsampling = 2 ** (layers - 1)  # how many of the source's steps a state at the top stands for
        self.dropout = dropout

    def forward(self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        """As :class:`attnx.nn.contracts.Encoder`; a row without any symbol gives the states of one zero."""
        lengths = count_steps(source_mask, lengths)
        states = inputs.masked_fill(~source_mask[..., None], 0.0)
        outputs: list[Tensor] = []
        final: State = ()
        for layer in self.layers:
            if outputs:  # (b, s, d) -> (b, s / 2 rounded up, 2 d), each state beside the next one
                states = F.dropout(states, self.dropout, self.training)
                states = torch.cat([states[:, ::2], F.pad(states, (0, 0, 0, 1))[:, 1::2]], dim=-1)
                lengths = (lengths + 1) // 2
            ran = layer.run([states], lengths)  # type: ignore[operator]
            states = ran.outputs[-1]
            outputs.append(states)
            final += ran.state
        # A state stands for so many steps, the last one of a row for those that are left.
        most = self.downsampling
        state_index = torch.arange(source_mask.shape[1], device=source_mask.device) // most
        steps_of_state = (source_mask.sum(-1, keepdim=True) - most * state_index).clamp(1, most)
        spans = Spans(source_mask[:, ::most], state_index.expand_as(source_mask), source_mask / steps_of_state)
        return EncoderOutput(outputs, final, spans)
