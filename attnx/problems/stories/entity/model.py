"""The recurrent entity network: slots are updated while a story is read, and attended to with the question."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.attention.contracts import Normalizer, Scorer
from attnx.attention.factory import ComposedAttention
from attnx.data.vocabulary import PAD, STOP
from attnx.models.sequence_model import Output, SequenceModel
from attnx.nn.spans import word_index
from attnx.nn.targets.single_label import LabelState, SingleLabelTarget, decode_label
from attnx.ops import is_all_true_on_cpu

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


class EntityGate(nn.Module):
    """The gates of all slots for one sentence: scores of the sums of a slot's content and key, normalized."""

    def __init__(self, scorer: Scorer, normalizer: Normalizer) -> None:
        super().__init__()
        self.scorer, self.normalizer = scorer, normalizer

    def forward(self, queries: Tensor, slots: Tensor, mask: Tensor) -> Tensor:
        """Queries (b, 1, d) that the scorer has prepared, slots (b, j, d) and mask (b, 1, 1) -> gates (b, 1, j)."""
        scores = self.scorer.score(queries, self.scorer.project_keys(slots))
        return self.normalizer(scores, mask.expand_as(scores))


class EntityMemory(nn.Module):
    """A memory of slots that is updated sentence by sentence.

    Formula: ``g_j = normalize(score(s, h_j + w_j)), h_j <- norm(h_j + g_j phi(U h_j + V w_j + W s))``
    Source: Henaff et al. 2017, equations 2 to 5, https://arxiv.org/abs/1612.03969

    With the scorer ``dot`` and the normalizer ``sigmoid`` the gate is the paper's ``g_j = sigmoid(s . h_j + s . w_j)``.
    Padding changes nothing.

    Args:
        hidden_size: width of sentences, contents and keys.
        num_slots: number of slots.
        gate: how much of a sentence each slot takes in.
        activation: phi.
        normalize: whether contents are scaled to length 1 after each sentence, so that they forget.
        keys: ``free`` (learned), or ``tied`` to word embeddings, which :meth:`forward` then needs.
        initial_state: a slot's first content: its key (``keys``), or ``learned``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_slots: int,
        gate: EntityGate,
        activation: nn.Module,
        normalize: bool = True,
        keys: Literal["free", "tied"] = "free",
        initial_state: Literal["keys", "learned"] = "keys",
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_slots, self.normalize = hidden_size, num_slots, normalize
        self.gate, self.activation = gate, activation
        self.map_content, self.map_key, self.map_sentence = (_linear(hidden_size) for _ in range(3))
        self.keys = _slot_vectors(num_slots, hidden_size) if keys == "free" else None
        self.initial_state = _slot_vectors(num_slots, hidden_size) if initial_state == "learned" else None

    def forward(self, sentences: Tensor, mask: Tensor, words: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Update the slots by one sentence after another.

        Args:
            sentences: (b, n, d).
            mask: (b, n) bool, False at padding, which comes last.
            words: (j, d) embeddings of the words that ``tied`` keys are tied to.

        Returns:
            the final contents (b, j, d), and the gates (b, n, j).
        """
        keys = words if self.keys is None else self.keys
        assert keys is not None, "tied keys need word embeddings"
        rows, steps, _ = sentences.shape
        contents = (keys if self.initial_state is None else self.initial_state).expand(rows, -1, -1)
        queries, inputs = self.gate.scorer.project_queries(sentences), self.map_sentence(sentences)
        key_term = self.map_key(keys)
        gates = [contents.new_zeros(rows, 0, len(keys))]
        for step in range(steps):
            step_mask = mask[:, step, None, None]
            gate = self.gate(queries[:, step, None], contents + keys, step_mask)
            update = self.activation(self.map_content(contents) + key_term + inputs[:, step, None])
            updated = contents + gate.mT * update
            updated = F.normalize(updated, dim=-1) if self.normalize else updated
            contents = updated if is_all_true_on_cpu(step_mask) else torch.where(step_mask, updated, contents)
            gates.append(gate)
        return contents, torch.cat(gates, 1)


class ChannelPReLU(nn.PReLU):
    """PReLU with a slope for each unit of the last axis, initially 1: the identity.

    Formula: ``phi(x) = x if x > 0 else a x``
    Source: He et al. 2015, equation 1, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(hidden_size, init=1.0)

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., hidden_size), the same shape."""
        return super().forward(vectors.reshape(-1, self.num_parameters)).view(vectors.shape)


def _linear(size: int) -> nn.Linear:
    layer = nn.Linear(size, size, bias=False)
    nn.init.normal_(layer.weight, std=INIT_STD)
    return layer


def _slot_vectors(num_slots: int, size: int) -> nn.Parameter:
    return nn.Parameter(INIT_STD * torch.randn(num_slots, size))


class Entity(SequenceModel[LabelState]):
    """Answer a question about a story by attention over slots that were updated while the story was read.

    >>> from attnx import registry
    >>> from attnx.attention import build
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
