"""The model ``entity``: slots that are written while a story is read, and read once with the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import AttentionOutput
from attnx.attention.factory import assemble
from attnx.data.special_tokens import STOP
from attnx.models.entity.config import resolve
from attnx.models.entity.memory import ChannelPReLU, EntityMemory
from attnx.models.entity.story_encoder import DEVIATION, EncodedStory, StoryEncoder
from attnx.models.seq2seq.state import Output
from attnx.models.state_ops import index_select_tree
from attnx.nn.targets.single_label import SingleLabelTarget
from attnx.registry import Choice, Positive, Probability, Size, register


class AnswerState(NamedTuple):
    """A question that was answered; every tensor has the batch as its first axis.

    Attributes:
        predicted: (b, symbols) log-probabilities.
        context: (b, d) what was read of the slots.
        weights: (b, j, 1, s), for each slot its gate where a sentence ends, and where the question ends what was read
            of it; zeros elsewhere.
        at: (b,) int64, how many steps were taken.
    """

    predicted: Tensor
    context: Tensor
    weights: Tensor
    at: Tensor


@register("model", "entity")
class Entity(nn.Module):
    """Track what a story tells in slots that are written side by side, and answer a question by reading them.

    Formula: ``p_j = normalize(score(q, h_j)), u = sum_j p_j h_j, y = R phi(q + H u)``; slots h_j of ``EntityMemory``
    Source: Henaff et al. 2017, section 2, https://arxiv.org/abs/1612.03969

    Scorer, normalizer and attention say how the slots are read, ``gate_scorer`` and ``gate_normalizer`` how each slot
    decides whether a sentence is for it. ``keys`` are vectors of the ``num_slots`` own (there are 20 if left out), or
    the embeddings of the words in ``task.entities``, one each. A slot starts with its key or with a ``learned``
    content. Embeddings, contents and keys have one ``hidden_size``. The first so many ``max_words`` of a sentence have
    a mask each. With ``normalize=false`` contents grow, and forget nothing.
    """

    uses = ("attention", "scorer", "scope", "normalizer")
    config_module = "attnx.models.entity.config"
    sources = ("encoder",)
    sums_to_one = False
    reads_symbols = False  # but slots
    reads = ("entities",)
    exports = False

    def __init__(
        self,
        config: Mapping[str, Any],
        source_symbols: Size,
        target_symbols: Size,
        hidden_size: Positive = 100,
        num_slots: Positive | None = None,
        keys: Literal["free", "tied"] = "free",
        initial_state: Literal["keys", "learned"] = "keys",
        gate_scorer: Choice = "dot",
        gate_normalizer: Choice = "sigmoid",
        activation: Literal["prelu", "identity"] = "prelu",
        normalize: bool = True,
        max_words: Positive = 16,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        count = resolve(config).slots
        self.sentences = StoryEncoder(source_symbols, hidden_size, max_words, dropout)
        self.activation: nn.Module = ChannelPReLU(hidden_size) if activation == "prelu" else nn.Identity()
        sizes = {"query_size": hidden_size, "memory_size": hidden_size}
        scorer = registry.build("scorer", gate_scorer, **sizes)
        self.slots = EntityMemory(
            hidden_size, scorer, registry.build("normalizer", gate_normalizer), self.activation, normalize
        )
        self.keys = nn.Parameter(DEVIATION * torch.randn(count, hidden_size)) if keys == "free" else None
        self.start = nn.Parameter(DEVIATION * torch.randn(count, hidden_size)) if initial_state == "learned" else None
        self.tied = slice(STOP + 1, STOP + 1 + count)
        parts = (config["scorer"], config["scope"], config["normalizer"])
        self.attention: Any = assemble(*parts, (hidden_size, hidden_size, hidden_size), config["attention"])
        self.context = nn.Linear(hidden_size, hidden_size, bias=False)
        self.output = nn.Linear(hidden_size, target_symbols, bias=False)
        for layer in (self.context, self.output):
            nn.init.normal_(layer.weight, std=DEVIATION)
        self.target = SingleLabelTarget(target_symbols)
        self.views = "named" if keys == "tied" else "nameless"

    def forward(
        self,
        source: Tensor,
        present: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        sampling: float = 0.0,
        need_weights: bool = False,
    ) -> Output:
        """Answer (b, s) stories: logits (b, 1, symbols). Of the arguments the first two count: nothing was written."""
        told, gates, read = self._read(source, present)
        weights = _spread(told, gates, read, present) if need_weights else None
        return Output(self._logits(told.question, read.context[:, 0])[:, None], weights, None)

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> AnswerState:
        """(b, s) stories and (b, s) bool -> their answers, which :meth:`decode_step` gives out."""
        told, gates, read = self._read(source, present)
        context = read.context[:, 0]
        predicted = self.target.predict(self._logits(told.question, context))
        at = torch.zeros(len(source), dtype=torch.int64, device=source.device)
        return AnswerState(predicted, context, _spread(told, gates, read, present), at)

    def decode_step(
        self, inputs: Tensor, state: AnswerState, need_weights: bool = False
    ) -> tuple[Tensor, AnswerState, AttentionOutput]:
        """The answer, and then the end."""
        over = (state.at > 0)[:, None]
        predicted = torch.where(over, self.target.end_log_probs(state.predicted), state.predicted)
        weights = state.weights.masked_fill(over[..., None, None], 0.0) if need_weights else None
        return predicted, state._replace(at=state.at + 1), AttentionOutput(state.context[:, None], weights)

    def select_rows(self, state: AnswerState, rows: Tensor) -> AnswerState:
        """The state of these rows, int64, which may repeat."""
        return index_select_tree(state, rows)

    reorder_beams = select_rows

    def _read(self, source: Tensor, present: Tensor) -> tuple[EncodedStory, Tensor, AttentionOutput]:
        """Read the stories, then the slots: the gates (b, n, j), and what the questions read."""
        told = self.sentences(source, present)
        keys = self.sentences.embedding.weight[self.tied] if self.keys is None else self.keys
        held, gates = self.slots(told.sentences, told.there, keys, keys if self.start is None else self.start)
        memory = self.attention.remember(held)
        return told, gates, self.attention(told.question[:, None], memory, need_weights=True)

    def _logits(self, question: Tensor, context: Tensor) -> Tensor:
        logits: Tensor = self.output(self.activation(question + self.context(context)))
        return logits


def _spread(told: EncodedStory, gates: Tensor, read: AttentionOutput, present: Tensor) -> Tensor:
    """Gates and reading over the symbols, (b, j, 1, s): see :class:`AnswerState`."""
    assert read.weights is not None
    asked = read.weights.mean(1) if read.weights.dim() == 4 else read.weights
    steps = gates.shape[1]
    if steps:
        number = told.number.clamp(max=steps - 1)[..., None].expand(-1, -1, gates.shape[-1])
        over = gates.gather(1, number).masked_fill(~told.ends[..., None], 0.0)
    else:
        over = gates.new_zeros(*present.shape, gates.shape[-1])
    last = torch.arange(present.shape[1], device=present.device) == present.sum(1, keepdim=True) - 1
    return torch.where(last[..., None], asked, over).mT[:, :, None]
