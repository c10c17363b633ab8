"""The encoder ``hierarchical``."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx import registry
from attnx.attention.factory import build_attention
from attnx.attention.types import QueryContext
from attnx.nn.contracts import EncoderOutput
from attnx.nn.recurrent import Recurrent, count_steps
from attnx.nn.spans import Spans, word_index
from attnx.registry import PartSpec, Size, Width, register


@register("encoder", "hierarchical")
class Hierarchical(nn.Module):
    """A state for each sentence: words are encoded and attended to within their sentence, and sentences are encoded.

    Formula: ``h_it = words(x_it), s_i = sum_t a_it h_it, a_i = normalize(score(q, h_i)), h_i = sentences(s_i)``
    Source: Yang et al. 2016, equations 1 to 8, https://aclanthology.org/N16-1174

    Both encoders are recurrent nets in both directions. The query q over the words is learned; with ``scorer=tanh_dot``
    it is the paper's word context vector u_w. A sentence ends with a full stop, which is its last word. The model's own
    attention reads the states of the sentences: of the paper with ``scorer=tanh_dot query=self_attentive``. Shown
    are the weights of the words, each times its sentence's. It waits for a GPU to count words and sentences.

    >>> encoder = Hierarchical(input_size=11, hidden_size=13)
    >>> is_end = torch.tensor([[False, True, False, False, True]])
    >>> encoder(torch.ones(1, 5, 11), torch.ones_like(is_end), sentence_ends=is_end).layers[-1].shape
    torch.Size([1, 2, 26])
    """

    is_downsampling = True
    needs_sentences = True

    def __init__(
        self,
        input_size: Size,
        cell: Literal["lstm", "gru", "rnn"] = "gru",
        hidden_size: Width = 50,
        query_size: Width = 100,
        scorer: PartSpec = "tanh_dot",
        normalizer: PartSpec = "softmax",
    ) -> None:
        super().__init__()
        self.words = Recurrent(cell, input_size, hidden_size, 1, True)
        self.size = self.words.size
        self.query = registry.build("query", ("self_attentive", {"size": query_size}))
        self.attention = build_attention(scorer, "global", normalizer, query_size, self.size, self.size, {})
        self.sentences = Recurrent(cell, self.size, hidden_size, 1, True)

    def forward(
        self,
        inputs: Tensor,
        source_mask: Tensor,
        lengths: Tensor | None = None,
        sentence_ends: Tensor | None = None,
    ) -> EncoderOutput:
        """As :class:`attnx.nn.contracts.SentenceEncoder`; a row without any symbol gives the states of one zero."""
        is_end = torch.zeros_like(source_mask) if sentence_ends is None else sentence_ends & source_mask
        sentence = (is_end.cumsum(1) - is_end.long()).masked_fill(~source_mask, 0)
        word = word_index(is_end).masked_fill(~source_mask, 0)
        rows, count, longest = len(inputs), int(sentence.max()) + 1, int(word.max()) + 1
        # A row has a slot for each word of each sentence, and one more for its padding.
        slot = torch.where(source_mask, sentence * longest + word, count * longest)
        slots = inputs.new_zeros(rows, count * longest + 1, inputs.shape[-1])
        words = slots.scatter(1, slot[..., None].expand_as(inputs), inputs)[:, :-1]
        is_word = slots[..., 0].scatter(1, slot, 1.0)[:, :-1] > 0
        # The words of each sentence are a row of a batch.
        words, word_mask = words.reshape(rows * count, longest, -1), is_word.reshape(-1, longest)
        states = self.words.run([words], count_steps(word_mask, None)).outputs[-1]
        memory = self.attention.make_memory(states, word_mask)
        read = self.attention(self.query(QueryContext(states[:, :1, :0])), memory, need_weights=True)
        assert read.weights is not None
        mask = is_word.view(rows, count, longest).any(-1)
        ran = self.sentences.run([read.context.view(rows, count, -1)], count_steps(mask, None))
        shares = F.pad(read.weights.reshape(rows, -1), (0, 1)).gather(1, slot)
        return EncoderOutput(ran.outputs, ran.state, Spans(mask, sentence, shares))
