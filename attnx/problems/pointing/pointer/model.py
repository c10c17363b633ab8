"""The pointer network: an encoder, a recurrent decoder, and attention whose weights are the output."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from attnx.attention import Attention, AttentionHistory, AttentionOutput, Memory, Query, QueryContext
from attnx.attention.memory import concat_sources, update_history
from attnx.attention.normalizers.softmax import Softmax
from attnx.errors import UserError
from attnx.models.planner import Plan
from attnx.models.sequence_model import Output, SequenceModel
from attnx.nn.decoders.recurrent import RecurrentDecoder
from attnx.nn.recurrent import State, dropout_mask, top_hidden
from attnx.nn.source_encoder import SourceEncoder

from .constraints import (
    FIRST_POSITION_ID,
    PointerHistory,
    PositionTarget,
    allowed_next,
    history_per_step,
    update_pointer_history,
)

DropoutMasks = tuple[Tensor | None, ...]


class PointerState(NamedTuple):
    """The state of step-by-step decoding; every tensor has the batch as its first axis."""

    memory: Memory  # the encoder's states (b, s), and the end as a source of its own
    embeddings: Tensor  # (b, 4 + s, e) the decoder's input for each id: for a position, the encoder's input there
    source_mask: Tensor  # (b, s) bool, False at padding
    rnn_state: State  # of the decoder, per layer
    history: PointerHistory  # the positions output so far
    tag: Tensor  # (b,) int64, the id of each row's tag
    step: Tensor  # (b,) int64, the number of steps taken
    attention_history: AttentionHistory | None  # earlier attention weights, for a scorer that needs them


class Pointer(SequenceModel[PointerState]):
    """Output positions of the source: attention's scores over them are the output distribution.

    >>> from attnx.attention import build
    >>> from attnx.attention.query_inputs.current_state import CurrentState
    >>> from attnx.models.planner import PlannerInputs, plan
    >>> from attnx.nn.bridges import ZeroBridge
    >>> from attnx.nn.encoders.recurrent import RecurrentEncoder
    >>> encoder, decoder = RecurrentEncoder(7, hidden_size=5), RecurrentDecoder(7, hidden_size=13)
    >>> source = SourceEncoder(nn.Linear(2, 7), encoder, 7, "states", "inputs", positions=0, dropout=0.0)
    >>> query = Query([CurrentState(state_size=13)])
    >>> attention = build(scorer="additive", query_size=query.size, memory_size=source.keys_size, values_size=7)
    >>> bridge = ZeroBridge(decoder, source.final_size)
    >>> schedule = plan(PlannerInputs(query.needs, feed="none"))
    >>> model = Pointer(source, PositionTarget(4 + 9, "permutation"), bridge, query, attention, decoder, schedule)
    >>> points, mask, inputs = torch.randn(2, 3, 2), torch.ones(2, 3, dtype=torch.bool), torch.tensor([[1, 4], [1, 6]])
    >>> model(points, mask, inputs).logits.shape
    torch.Size([2, 2, 7])
    """

    sources = ("encoder",)
    is_distribution = True

    def __init__(
        self,
        source: SourceEncoder,
        target: PositionTarget,
        bridge: nn.Module,
        query: Query,
        attention: Attention,
        decoder: RecurrentDecoder,
        plan: Plan,
    ) -> None:
        super().__init__()
        self.source_encoder, self.target, self.bridge, self.decoder = source, target, bridge, decoder
        self.query, self.attention, self.plan = query, attention, plan
        # Initialized like the weights of a Linear(size, 1).
        self.start = nn.Parameter(torch.empty(source.values_size).uniform_(-1, 1) / source.values_size**0.5)
        self.end = nn.Parameter(torch.empty(source.keys_size).uniform_(-1, 1) / source.keys_size**0.5)

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
        schedule: str | None = None,
    ) -> Output:
        """As :meth:`SequenceModel.forward`: logits (b, t, 4 + s), -inf for impossible outputs; weights (b, t, s).

        ``schedule`` is another one that the plan admits, for tests.
        """
        state = self.init_state(source, source_mask, tag, source_lengths)
        tokens = _gather_rows(state.embeddings, inputs)
        masks = tuple(
            dropout_mask(tokens, self.decoder.dropout, self.training, *tokens.shape[:2], self.decoder.size)
            for _ in range(self.decoder.num_layers - 1)
        )
        steps, penalties = tokens.shape[1], []
        if (schedule or self.plan.schedule) == "run_then_attend":
            states = self.decoder.run([tokens], state=state.rnn_state, dropout_masks=masks).outputs[-1]
            prev_states = torch.cat([top_hidden(state.rnn_state)[:, None], states[:, :-1]], dim=1)
            tags = state.tag[:, None].expand(-1, steps)
            context = QueryContext(tokens, prev_state=prev_states, state=states, tag=tags)
            history = history_per_step(inputs, state.source_mask.shape[1])
            logits, _ = self._logits(context, state, history, torch.arange(steps, device=tokens.device))
        else:  # for a scorer that reads earlier weights
            logits_by_step = []
            for step in range(steps):
                step_masks = tuple(None if mask is None else mask[:, step] for mask in masks)
                step_logits, state, attention = self._forward_step(inputs[:, step], tokens[:, step], state, step_masks)
                logits_by_step.append(step_logits)
                penalties += [] if attention.penalty is None else [attention.penalty]
            logits = torch.cat(logits_by_step, 1)
        weights = torch.softmax(logits, -1)[..., FIRST_POSITION_ID:] if need_weights else None
        return Output(logits, weights, torch.cat(penalties, 1) if penalties else None)

    def init_state(
        self,
        source: Tensor,
        source_mask: Tensor,
        tag: Tensor | None = None,
        source_lengths: Tensor | None = None,
    ) -> PointerState:
        """The state before the first step, from (b, s) symbols or (b, s, features), (b, s) bool and (b,) tags.

        For ``source_lengths`` see :meth:`SequenceModel.forward`.

        Raises:
            UserError: the source has more positions than there are ids.
        """
        rows, positions = source_mask.shape
        max_positions = self.target.width - FIRST_POSITION_ID
        if positions > max_positions:
            raise UserError(f"a source of {positions} positions is longer than the maximum of {max_positions}")
        encoded = self.source_encoder(source, source_mask, lengths=source_lengths)
        values_size = encoded.values.shape[-1]
        memory = concat_sources(
            self.attention.make_memory(encoded.keys, encoded.source_mask, encoded.values),
            self.attention.make_memory(
                self.end.expand(rows, 1, -1), values=encoded.values.new_zeros(rows, 1, values_size)
            ),
        )
        start = self.start.expand(rows, FIRST_POSITION_ID, -1).to(encoded.values.dtype)
        nowhere, zeros = torch.zeros_like(source_mask), torch.zeros(rows, dtype=torch.int64, device=source_mask.device)
        return PointerState(
            memory=memory,
            embeddings=torch.cat([start, encoded.values], 1),
            source_mask=source_mask,
            rnn_state=self.bridge(encoded.final, rows),
            history=PointerHistory(nowhere.long(), nowhere),
            tag=zeros if tag is None else tag,
            step=zeros,
            attention_history=self.attention.init_history(memory),
        )

    def decode_step(
        self, inputs: Tensor, state: PointerState, need_weights: bool = False
    ) -> tuple[Tensor, PointerState, AttentionOutput]:
        """Take one step: ids (b,) -> log-probabilities (b, 4 + s), the next state, and the attention."""
        tokens = _gather_rows(state.embeddings, inputs[:, None])[:, 0]
        logits, next_state, attention = self._forward_step(inputs, tokens, state)
        log_probs = self.target.predict(logits[:, 0])
        weights = log_probs[:, None, FIRST_POSITION_ID:].exp() if need_weights else None
        return log_probs, next_state, AttentionOutput(attention.context, weights)

    def _forward_step(
        self, inputs: Tensor, tokens: Tensor, state: PointerState, masks: DropoutMasks = ()
    ) -> tuple[Tensor, PointerState, AttentionOutput]:
        """One step of the recurrence and of attention, from ids (b,) and embeddings (b, e) -> logits (b, 1, ...)."""
        rnn_state = self.decoder.step([tokens], state.rnn_state, masks)
        history = update_pointer_history(state.history, inputs)
        context = QueryContext(
            tokens[:, None],
            prev_state=top_hidden(state.rnn_state)[:, None],
            state=top_hidden(rnn_state)[:, None],
            tag=state.tag[:, None],
        )
        step_history = PointerHistory(history.counts[:, None], history.first[:, None])
        logits, attention = self._logits(context, state, step_history, state.step[:, None])
        attention_history = state.attention_history
        if attention_history is not None and attention.weights is not None:
            attention_history = update_history(attention_history, attention)
        next_state = state._replace(
            rnn_state=rnn_state, history=history, step=state.step + 1, attention_history=attention_history
        )
        return logits, next_state, attention

    def _logits(
        self, context: QueryContext, state: PointerState, history: PointerHistory, steps: Tensor
    ) -> tuple[Tensor, AttentionOutput]:
        """The logits (b, t, 4 + s) of every id at these steps, and the attention whose scores they are."""
        query, memory, past = self.query(context), state.memory, state.attention_history
        allowed_mask = allowed_next(self.target.constraint, history.counts, history.first, state.source_mask[:, None])
        attention = self.attention(
            query, memory, allowed_mask=allowed_mask, steps=steps, history=past, need_weights=True
        )
        assert attention.scores is not None
        scores = attention.scores / cast("Softmax", self.attention.normalizer).temperature
        scores = scores.masked_fill(~allowed_mask, -torch.inf)
        impossible = torch.full_like(scores[..., :1], -torch.inf)
        # The ids are PAD, BOS, EOS (the end), UNK and the positions.
        return torch.cat([impossible, impossible, scores[..., -1:], impossible, scores[..., :-1]], -1), attention


def _gather_rows(table: Tensor, ids: Tensor) -> Tensor:
    """(b, n, e) and ids (b, t) -> (b, t, e)."""
    return table.gather(1, ids[..., None].expand(-1, -1, table.shape[-1]))
