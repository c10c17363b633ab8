"""The encoder ``recurrent``."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from attnx.nn.contracts import EncoderOutput
from attnx.nn.recurrent import Recurrent, count_steps, dropout_mask
from attnx.ops import is_all_true_on_cpu
from attnx.registry import Depth, Probability, Size, Width, register


@register("encoder", "recurrent", read_if={"dropout": "layers!=1"})
class RecurrentEncoder(nn.Module):
    """An LSTM, GRU or plain RNN over the source, in one direction or both.

    Formula: ``h_s = [forward(x_s, h_{s-1}); backward(x_s, h_{s+1})]``
    Source: Bahdanau et al. 2015, section 3.2, https://arxiv.org/abs/1409.0473

    ``hidden_size`` is the width of each direction. Padding changes nothing: rows are packed to their own lengths.

    >>> import torch
    >>> encoder = RecurrentEncoder(input_size=11, hidden_size=13)
    >>> encoder(torch.ones(2, 7, 11), torch.ones(2, 7, dtype=torch.bool)).layers[-1].shape
    torch.Size([2, 7, 26])
    """

    def __init__(
        self,
        input_size: Size,
        cell: Literal["lstm", "gru", "rnn"] = "lstm",
        hidden_size: Width = 256,
        layers: Depth = 1,
        bidirectional: bool = True,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.recurrent = Recurrent(cell, input_size, hidden_size, layers, bidirectional)
        self.size = self.recurrent.size
        self.dropout = dropout

    def forward(self, inputs: Tensor, source_mask: Tensor, lengths: Tensor | None = None) -> EncoderOutput:
        """As :class:`attnx.nn.contracts.Encoder`; a row without any symbol gives the states of one zero."""
        if not is_all_true_on_cpu(source_mask[:, 0]):
            inputs = inputs.masked_fill(~source_mask[..., None], 0.0)
        masks = [
            dropout_mask(inputs, self.dropout, self.training, *source_mask.shape, self.size)
            for _ in range(self.recurrent.num_layers - 1)
        ]
        outputs, final = self.recurrent.run([inputs], count_steps(source_mask, lengths), dropout_masks=masks)
        return EncoderOutput(outputs, final)
