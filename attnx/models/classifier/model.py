"""A classifier: attention over an encoded source, and one label."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import AttentionOutput, Query, QueryContext
from attnx.attention.factory import ComposedAttention
from attnx.models.sequence_model import Output, SequenceModel
from attnx.nn.contracts import Readout
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.single_label import LabelState, SingleLabelTarget, decode_label


class Classifier(SequenceModel[LabelState]):
    """Label a source by attention over its states.

    >>> from attnx.laws.small import small_config, small_model
    >>> model = small_model(small_config(model={"name": "classifier"}))
    >>> source = torch.tensor([[7, 9, 12, 5], [8, 3, 0, 0]])
    >>> model(source, source > 0, source[:, :1]).logits.shape
    torch.Size([2, 1, 17])
    """

    sources = ("encoder",)

    def __init__(
        self,
        source: SourceEncoder,
        query: Query,
        attention: ComposedAttention,
        readout: Readout,
        target: SingleLabelTarget,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_encoder, self.query, self.attention, self.readout = source, query, attention, readout
        self.output = nn.Linear(readout.size, target.width)
        self.target, self.dropout, self.is_distribution = target, dropout, attention.is_distribution

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
    ) -> Output:
        """Label (b, s) sources: logits (b, 1, symbols). ``inputs`` have no effect."""
        logits, attention = self._label(source, source_mask, tag, source_lengths, need_weights)
        terms = (attention.penalty, attention.log_prob)
        penalty, log_prob = (None if term is None else F.pad(term, (0, inputs.shape[1] - 1)) for term in terms)
        return Output(logits[:, None], attention.weights if need_weights else None, penalty, log_prob)

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> LabelState:
        """(b, s) sources, (b, s) bool and (b,) tags -> their labels."""
        logits, attention = self._label(source, source_mask, tag, need_weights=True)
        assert attention.weights is not None
        step = torch.zeros(len(source), dtype=torch.int64, device=source.device)
        return LabelState(self.target.predict(logits), attention.context[:, 0], attention.weights, step)

    def decode_step(
        self, inputs: Tensor, state: LabelState, need_weights: bool = False
    ) -> tuple[Tensor, LabelState, AttentionOutput]:
        """The log-probabilities of the label at the first step, and of EOS afterwards."""
        return decode_label(self.target, state, need_weights)

    def _label(
        self,
        source: Tensor,
        source_mask: Tensor,
        tag: Tensor | None,
        source_lengths: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, AttentionOutput]:
        """The logits (b, symbols) of the labels, and the reads joined: context (b, 1, r v), loss terms (b, 1)."""
        encoded = self.source_encoder(source, source_mask, None, source_lengths)
        state = encoded.final[-1][0]
        tag = torch.zeros(len(source), dtype=torch.int64, device=source.device) if tag is None else tag
        states = state[:, None].expand(-1, self.query.rows, -1)
        query = self.query(QueryContext(states[..., :0], state=states, tag=tag[:, None].expand(-1, self.query.rows)))
        memory = self.attention.make_memory(encoded.keys, encoded.source_mask)
        need_weights = need_weights or self.query.has_penalty
        attention = self.attention(query, memory, steps=torch.zeros_like(tag)[:, None], need_weights=need_weights)
        attention = self._join_rows(attention)
        if attention.weights is not None and encoded.spans is not None:
            attention = attention._replace(weights=encoded.spans.upsample(attention.weights))
        readout = self.readout(state, attention.context[:, 0], state[:, :0])
        return self.output(F.dropout(readout, self.dropout, self.training)), attention

    def _join_rows(self, attention: AttentionOutput) -> AttentionOutput:
        """The reads of all rows as one: contexts side by side, weights of rows (and heads) as those of heads."""
        weights, penalties = attention.weights, [] if attention.penalty is None else [attention.penalty]
        if self.query.has_penalty and weights is not None:
            penalty_of_rows = self.query.penalty(weights)
            penalties.append(penalty_of_rows.mean(1) if weights.dim() == 4 else penalty_of_rows)  # of heads the mean
        terms = [term.flatten(1).sum(1, keepdim=True) for term in penalties]
        if weights is not None and self.query.rows > 1:
            weights = weights.reshape(len(weights), -1, 1, weights.shape[-1])
        penalty = torch.stack(terms).sum(0) if terms else None
        log_prob = None if attention.log_prob is None else attention.log_prob.sum(1, keepdim=True)
        return AttentionOutput(attention.context.flatten(1)[:, None], weights, penalty=penalty, log_prob=log_prob)
