"""Encode stories: split them into sentences, each the masked sum of its word embeddings."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.data.vocabulary import PAD, STOP
from attnx.nn.spans import word_index

INIT_STD = 0.1  # Henaff et al. 2017, section 5


class EncodedStory(NamedTuple):
    """A batch of stories, sentence by sentence."""

    sentences: Tensor  # (b, n, d), zeros where a story has fewer
    mask: Tensor  # (b, n) bool, False where a story has fewer
    question: Tensor  # (b, d), the symbols after the last full stop
    sentence_index: Tensor  # (b, s) int64, the sentence of each symbol
    is_end: Tensor  # (b, s) bool, True at full stops


class StoryEncoder(nn.Module):
    """Encode the sentences of a story, and its question.

    Formula: ``s = sum_i f_i * e_i``, e_i the embedding of word i and f_i the mask of its position
    Source: Henaff et al. 2017, equation 1, https://arxiv.org/abs/1612.03969

    A sentence ends at the symbol ``STOP``, which is not one of its words. Sentences and questions have separate masks,
    initially all ones.

    The first ``max_words`` positions have a mask of their own; later ones share the last.
    """

    def __init__(self, symbols: int, hidden_size: int, max_words: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden_size, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=INIT_STD)
        with torch.no_grad():
            self.embedding.weight[PAD] = 0.0
        self.masks = nn.Parameter(torch.ones(2, max_words, hidden_size))
        self.dropout = dropout

    def forward(self, source: Tensor, source_mask: Tensor) -> EncodedStory:
        """(b, s) symbols and (b, s) bool -> the sentences and the question; a GPU is asked how many sentences."""
        is_end = (source == STOP) & source_mask
        counts = is_end.sum(1, keepdim=True)
        sentence_index = is_end.cumsum(1) - is_end.long()
        is_question = sentence_index == counts
        _, max_words, size = self.masks.shape
        mask_index = word_index(is_end).clamp(max=max_words - 1) + max_words * is_question
        vectors = F.dropout(self.embedding(source), self.dropout, self.training)
        vectors = vectors * F.embedding(mask_index, self.masks.view(2 * max_words, size))
        vectors = vectors.masked_fill((is_end | ~source_mask)[..., None], 0.0)
        # One index_add sums all words; the question's go to an extra row after the last sentence.
        rows, sentences = len(source), int(counts.max())
        offsets = (sentences + 1) * torch.arange(rows, device=source.device)[:, None]
        index = torch.where(is_question, sentences, sentence_index) + offsets
        sums = vectors.new_zeros(rows * (sentences + 1), size).index_add(0, index.flatten(), vectors.flatten(0, 1))
        sums = sums.view(rows, sentences + 1, size)
        mask = torch.arange(sentences, device=source.device) < counts
        return EncodedStory(sums[:, :sentences], mask, sums[:, sentences], sentence_index, is_end)
