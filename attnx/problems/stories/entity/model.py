"""The recurrent entity network: slots are updated while a story is read, and attended to with the question."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.attention.factory import ComposedAttention
from attnx.data.vocabulary import PAD, STOP
from attnx.models.sequence_model import Output, SequenceModel
from attnx.nn.spans import word_index
from attnx.nn.targets.single_label import LabelState, SingleLabelTarget, decode_label

from .memory import INIT_STD, EntityMemory


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


class Entity(SequenceModel[LabelState]):
    """Answer a question about a story by attention over slots that were updated while the story was read.

    >>> from attnx import registry
    >>> from attnx.attention import build
    >>> from attnx.problems.stories.entity.memory import EntityGate
    >>> scorer = registry.build("scorer", "dot", query_size=8, memory_size=8)
    >>> gate = EntityGate(scorer, registry.build("normalizer", "sigmoid"))
    >>> memory = EntityMemory(hidden_size=8, num_slots=3, gate=gate, activation=nn.Identity())
    >>> attention = build(scorer="dot", query_size=8, memory_size=8)
    >>> model = Entity(StoryEncoder(23, hidden_size=8), memory, attention, SingleLabelTarget(11))
    >>> source = torch.tensor([[7, 9, STOP, 12, STOP, 13]])
    >>> model(source, source > 0, source[:, :1]).logits.shape
    torch.Size([1, 1, 11])
    """

    sources = ("encoder",)
    is_distribution = False

    def __init__(
        self,
        stories: StoryEncoder,
        memory: EntityMemory,
        attention: ComposedAttention,
        target: SingleLabelTarget,
    ) -> None:
        super().__init__()
        self.stories, self.memory, self.attention, self.target = stories, memory, attention, target
        self.context = nn.Linear(memory.hidden_size, memory.hidden_size, bias=False)
        self.output = nn.Linear(memory.hidden_size, target.width, bias=False)
        for layer in (self.context, self.output):
            nn.init.normal_(layer.weight, std=INIT_STD)
        self.weights_axis = "words" if memory.keys is None else "slots"

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
    ) -> Output:
        """Answer (b, s) stories: logits (b, 1, symbols). Only the source and its mask have an effect."""
        story, gates, attention = self._attend(source, source_mask)
        weights = _symbol_weights(story, gates, attention, source_mask) if need_weights else None
        return Output(self._logits(story.question, attention.context[:, 0])[:, None], weights, None)

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> LabelState:
        """(b, s) stories and (b, s) bool -> their answers."""
        story, gates, attention = self._attend(source, source_mask)
        context = attention.context[:, 0]
        log_probs = self.target.predict(self._logits(story.question, context))
        step = torch.zeros(len(source), dtype=torch.int64, device=source.device)
        return LabelState(log_probs, context, _symbol_weights(story, gates, attention, source_mask), step)

    def decode_step(
        self, inputs: Tensor, state: LabelState, need_weights: bool = False
    ) -> tuple[Tensor, LabelState, AttentionOutput]:
        """The log-probabilities of the answer at the first step, and of EOS afterwards."""
        return decode_label(self.target, state, need_weights)

    def _attend(self, source: Tensor, source_mask: Tensor) -> tuple[EncodedStory, Tensor, AttentionOutput]:
        """The encoded stories, the gates (b, n, j), and the questions' attention over the slots."""
        story = self.stories(source, source_mask)
        # The words that keys can be tied to have the first ids after those of special tokens.
        words = self.stories.embedding.weight[STOP + 1 : STOP + 1 + self.memory.num_slots]
        contents, gates = self.memory(story.sentences, story.mask, words)
        slots = self.attention.make_memory(contents)
        return story, gates, self.attention(story.question[:, None], slots, need_weights=True)

    def _logits(self, question: Tensor, context: Tensor) -> Tensor:
        logits: Tensor = self.output(self.memory.activation(question + self.context(context)))
        return logits


def _symbol_weights(story: EncodedStory, gates: Tensor, attention: AttentionOutput, source_mask: Tensor) -> Tensor:
    """The weights (b, j, 1, s) of the slots.

    They are the gate of a slot at the end of each sentence, its attention weight at the end of the question, and zeros
    elsewhere.
    """
    assert attention.weights is not None
    weights = attention.weights.mean(1) if attention.weights.dim() == 4 else attention.weights
    index = story.sentence_index[..., None].expand(-1, -1, gates.shape[-1])
    # The symbols of a question have the index after the last sentence.
    symbol_gates = F.pad(gates, (0, 0, 0, 1)).gather(1, index).masked_fill(~story.is_end[..., None], 0.0)
    positions = torch.arange(source_mask.shape[1], device=source_mask.device)
    is_last = positions == source_mask.sum(1, keepdim=True) - 1
    return torch.where(is_last[..., None], weights, symbol_gates).mT[:, :, None]
