"""The encoder ``co_attention``."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.attention.factory import build_attention
from attnx.nn.contracts import EncoderOutput
from attnx.nn.recurrent import Recurrent
from attnx.registry import PartSpec, Size, Width, register


@register("encoder", "co_attention")
class CoAttention(nn.Module):
    """Two texts that read each other: each state is compared with what attention reads of the other text for it.

    Formula: ``m_i = relu(W [h_i; c_i; h_i - c_i; h_i * c_i]), c_i = sum_j a_ij h_j, a_i = normalize(score(q_i, h_j))``
    Source: Chen et al. 2017, equations 11 to 16, https://arxiv.org/abs/1609.06038

    Here h_j are the states of the other text. With ``grain=fine`` the query q_i is the state h_i; with ``grain=coarse``
    it is the mean of the states of its text, as in Ma et al. 2017, https://arxiv.org/abs/1709.00893. One recurrent net
    in both directions runs over each text by itself. The separator is the last symbol of the first text, so that the
    order of the two can be learned. The final state is the mean of all states. The encoder waits for a GPU to count the
    symbols of the texts.

    >>> encoder = CoAttention(input_size=11, hidden_size=13)
    >>> separators = torch.tensor([[False, True, False, False, False]])
    >>> encoder(torch.ones(1, 5, 11), torch.ones_like(separators), separator_mask=separators).layers[-1].shape
    torch.Size([1, 5, 26])
    """

    needs_pairs = True

    def __init__(
        self,
        input_size: Size,
        cell: Literal["lstm", "gru", "rnn"] = "lstm",
        hidden_size: Width = 128,
        grain: Literal["fine", "coarse"] = "fine",
        scorer: PartSpec = "dot",
        normalizer: PartSpec = "softmax",
    ) -> None:
        super().__init__()
        self.recurrent = Recurrent(cell, input_size, hidden_size, 1, True)
        self.size, self.grain = self.recurrent.size, grain
        self.attention = build_attention(scorer, "global", normalizer, self.size, self.size, self.size, {})
        self.compare = nn.Linear(4 * self.size, self.size)

    def forward(
        self,
        inputs: Tensor,
        source_mask: Tensor,
        lengths: Tensor | None = None,
        separator_mask: Tensor | None = None,
    ) -> EncoderOutput:
        """As :class:`attnx.nn.contracts.PairEncoder`; of an empty text zeros are read."""
        is_separator = torch.zeros_like(source_mask) if separator_mask is None else separator_mask & source_mask
        second_mask = source_mask & (is_separator.cumsum(1) - is_separator.long() > 0)
        first_mask = source_mask & ~second_mask
        # Both texts are rows of one batch, each from its first step.
        start = first_mask.sum(1)
        texts = torch.cat([inputs.masked_fill(~first_mask[..., None], 0.0), _roll(inputs, start)])
        text_lengths = torch.cat([start, second_mask.sum(1)]).clamp(min=1).cpu()
        first, second = self.recurrent.run([texts], text_lengths).outputs[-1].chunk(2)
        states = torch.where(second_mask[..., None], _roll(second, -start), first * first_mask[..., None])
        allowed_mask = first_mask[:, :, None] & second_mask[:, None] | second_mask[:, :, None] & first_mask[:, None]
        memory, queries = self.attention.make_memory(states, source_mask), states
        if self.grain == "coarse":
            queries = _spread_mean(states, first_mask) + _spread_mean(states, second_mask)
        contexts = self.attention(queries, memory, allowed_mask=allowed_mask).context
        joined = torch.cat([states, contexts, states - contexts, states * contexts], -1)
        compared = torch.relu(self.compare(joined)).masked_fill(~source_mask[..., None], 0.0)
        final = compared.sum(1) / source_mask.sum(1).clamp(min=1)[:, None]
        return EncoderOutput([compared], ((final,),))


def _roll(rows: Tensor, shift: Tensor) -> Tensor:
    """Rows (b, s, d), each moved to the left, and around the end, by its own shift (b,).

    >>> _roll(torch.tensor([[[1], [2], [3]], [[4], [5], [6]]]), torch.tensor([1, -1])).squeeze(-1)
    tensor([[2, 3, 1],
            [6, 4, 5]])
    """
    index = (torch.arange(rows.shape[1], device=rows.device) + shift[:, None]) % rows.shape[1]
    return rows.gather(1, index[..., None].expand_as(rows))


def _spread_mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of the masked states (b, s, d) of each row at every masked position; zeros elsewhere."""
    mean = (states * mask[..., None]).sum(1) / mask.sum(1).clamp(min=1)[:, None]
    return mean[:, None] * mask[..., None]
