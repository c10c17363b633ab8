"""The decoder ``recurrent``."""

from __future__ import annotations

from typing import Literal

from attnx.nn.recurrent import Recurrent
from attnx.registry import Depth, Probability, Size, Width, register


@register("decoder", "recurrent", read_if={"dropout": "layers!=1"})
class RecurrentDecoder(Recurrent):
    """An LSTM, GRU or plain RNN that reads the last token (and what is fed) and makes the next state.

    Formula: ``h_t = cell([e(y_{t-1}); fed_t], h_{t-1})``
    Source: Sutskever et al. 2014, section 2, https://arxiv.org/abs/1409.3215

    "The state" is the top layer's h, never an LSTM's c.

    >>> import torch
    >>> decoder = RecurrentDecoder(input_size=11, hidden_size=13, cell="gru")
    >>> decoder.step([torch.ones(2, 11)], ((torch.zeros(2, 13),),))[-1][0].shape
    torch.Size([2, 13])
    """

    def __init__(
        self,
        input_size: Size,
        cell: Literal["lstm", "gru", "rnn"] = "lstm",
        hidden_size: Width = 256,
        layers: Depth = 1,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(cell, input_size, hidden_size, layers)
        self.dropout = dropout
