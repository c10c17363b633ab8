"""The recurrent entity network: slots are updated while a story is read, and attended to with the question."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention import AttentionOutput
from attnx.attention.factory import ComposedAttention
from attnx.data.vocabulary import STOP
from attnx.models.sequence_model import Output, SequenceModel
from attnx.nn.targets.single_label import LabelState, SingleLabelTarget, decode_label

from .memory import EntityMemory
from .story_encoder import INIT_STD, EncodedStory, StoryEncoder


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
    sentences = gates.shape[1]
    if sentences:
        index = story.sentence_index.clamp(max=sentences - 1)[..., None].expand(-1, -1, gates.shape[-1])
        symbol_gates = gates.gather(1, index).masked_fill(~story.is_end[..., None], 0.0)
    else:
        symbol_gates = gates.new_zeros(*source_mask.shape, gates.shape[-1])
    positions = torch.arange(source_mask.shape[1], device=source_mask.device)
    is_last = positions == source_mask.sum(1, keepdim=True) - 1
    return torch.where(is_last[..., None], weights, symbol_gates).mT[:, :, None]
