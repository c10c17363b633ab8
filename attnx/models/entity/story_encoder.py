"""Cuts sequences into sentences, and makes a vector of each: the sum of its words, each under the mask of its place."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.special_tokens import PAD, STOP

DEVIATION = 0.1  # of what is drawn at first: Henaff et al. 2017, section 5


class EncodedStory(NamedTuple):
    """A batch of stories, sentence by sentence.

    Attributes:
        sentences: (b, n, d), zeros where a story has fewer.
        there: (b, n) bool, which of them there are.
        question: (b, d), what comes behind the last full stop.
        number: (b, s) int64, which sentence each symbol is of.
        ends: (b, s) bool, where the full stops are.
    """

    sentences: Tensor
    there: Tensor
    question: Tensor
    number: Tensor
    ends: Tensor


class StoryEncoder(nn.Module):
    """Encode the sentences of a story, and its question.

    Formula: ``s = sum_i f_i * e_i``, e_i the embedding of word i and f_i the mask of its place
    Source: Henaff et al. 2017, equation 1, https://arxiv.org/abs/1612.03969

    A sentence ends at the symbol ``STOP``, which is no word of it. Sentences and questions have masks of their own, all
    ones at first.

    Args:
        symbols: how many there are.
        width: of the embeddings.
        words: how many places have a mask; those behind them share the last one.
        dropout: share of the embeddings' units dropped while training.
    """

    def __init__(self, symbols: int, width: int, words: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=DEVIATION)
        with torch.no_grad():
            self.embedding.weight[PAD] = 0.0
        self.masks = nn.Parameter(torch.ones(2, words, width))
        self.dropout = dropout

    def forward(self, source: Tensor, present: Tensor) -> EncodedStory:
        """(b, s) symbols and (b, s) bool -> the sentences and the question."""
        ends = (source == STOP) & present
        count = ends.sum(1, keepdim=True)
        number = ends.cumsum(1) - ends.long()
        asked = number == count
        _, words, width = self.masks.shape
        place = self._places(ends).clamp(max=words - 1) + words * asked
        vectors = F.dropout(self.embedding(source), self.dropout, self.training)
        vectors = vectors * F.embedding(place, self.masks.view(2 * words, width))
        vectors = vectors.masked_fill((ends | ~present)[..., None], 0.0)
        # All words are summed in one go, those of the questions into a place behind the last sentence.
        rows, most = len(source), int(count.max())
        into = torch.where(asked, most, number) + (most + 1) * torch.arange(rows, device=source.device)[:, None]
        sums = vectors.new_zeros(rows * (most + 1), width).index_add(0, into.flatten(), vectors.flatten(0, 1))
        told = sums.view(rows, most + 1, width)
        there = torch.arange(most, device=source.device) < count
        return EncodedStory(told[:, :most], there, told[:, most], number, ends)

    def _places(self, ends: Tensor) -> Tensor:
        """(b, s) int64, each symbol's place in its sentence."""
        every = torch.arange(ends.shape[1], device=ends.device)
        begins = torch.where(ends, every + 1, 0)
        return every - F.pad(begins, (1, 0))[:, :-1].cummax(1).values
