"""The model ``pointer``: an encoder, a recurrent decoder, and attention whose weights are the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import AttentionHistory, AttentionOutput, Memory, Query, QueryContext
from attnx.attention.factory import assemble
from attnx.attention.memory import concat_sources, empty_history, update_history
from attnx.attention.planner import Plan
from attnx.attention.protocols import AttentionInputs
from attnx.errors import UserError
from attnx.models.pointer.config import resolve
from attnx.models.pointer.constraints import (
    FIRST,
    PointerConstraint,
    PointerHistory,
    may_follow,
    pointed_after,
    pointed_before_each,
)
from attnx.models.seq2seq.state import Output
from attnx.models.state_ops import index_select_tree
from attnx.nn.bridges import BRIDGES
from attnx.nn.dropout import dropout_mask
from attnx.nn.recurrent import State
from attnx.nn.source_encoder import Source
from attnx.nn.targets.symbols import Symbols
from attnx.registry import Positive, Size, register


class PointerState(NamedTuple):
    """Where a decoder stands; every tensor has the batch as its first axis, so that rows can be reordered.

    Attributes:
        memory: the encoder's states (b, s) and, as a source of its own, the end.
        elements: (b, 4 + s, e) what the decoder reads of each id: of a position the encoder's input there.
        present: (b, s) bool.
        cell: the recurrence's state, per layer.
        pointed: what was pointed to.
        tag: (b,) int64, the number of each row's tag.
        at: (b,) int64, how many steps were taken.
        past: how the memory was read so far, for a scorer that needs it.
    """

    memory: Memory
    elements: Tensor
    present: Tensor
    cell: State
    pointed: PointerHistory
    tag: Tensor
    at: Tensor
    past: AttentionHistory | None


@register("model", "pointer")
class Pointer(nn.Module):
    """Point to positions of the source: attention's scores over them are the output distribution.

    Formula: ``p(C_t | C_<t, P) = softmax(u_t), u_tj = score(d_t, e_j)``, e the encoder's states, d the decoder's
    Source: Vinyals et al. 2015, section 2.3, https://arxiv.org/abs/1506.03134

    Any scorer scores, e = ``v . tanh(W d + U e)`` in the paper. The decoder reads the encoder's input at the position
    pointed to last, an ``embedding_dim`` of that width; the end of the output is one more thing to point to, with a key
    of its own. Ids are those of symbols: the end is EOS, position s is 4 + s. ``constraint`` says which outputs have a
    probability, in training and in search: ``any``; ``distinct`` positions; each of them once, a ``permutation``; or
    some and then the first again, a ``ring``. The scope narrows what can be pointed to; softmax's temperature divides
    the scores. There is no context, so nothing is fed and there is no readout.
    """

    uses = ("encoder", "decoder", "attention", "scorer", "scope", "query", "normalizer")
    config_module = "attnx.models.pointer.config"
    sources = ("encoder",)
    sums_to_one = True

    def __init__(
        self,
        config: Mapping[str, Any],
        source_symbols: Size,
        source_features: Size,
        target_symbols: Size,
        tags: Size,
        embedding_dim: Positive = 64,
        constraint: Literal["any", "distinct", "permutation", "ring"] = "any",
        bridge: Literal["last", "zeros", "learned"] = "last",
    ) -> None:
        super().__init__()
        chosen = resolve(config)
        if chosen.tagged and not tags:
            raise UserError("query=language_tag needs data with tags, and these have none")
        self.plan: Plan = chosen.plan
        self.only: PointerConstraint = constraint
        self.target = Symbols(target_symbols)
        read = (
            nn.Linear(source_features, embedding_dim)
            if source_features
            else Symbols(source_symbols).embedding(embedding_dim)
        )
        encoder = registry.build("encoder", config["encoder"], input_size=embedding_dim)
        self.source = Source(read, encoder, embedding_dim, memory="states", values="inputs", positions=0, dropout=0.0)
        self.decoder: Any = registry.build("decoder", config["decoder"], input_size=embedding_dim)
        self.bridge: Any = BRIDGES[bridge](self.decoder.recurrent, self.source.final_size)
        widths = {
            "state_size": self.decoder.size,
            "token_size": embedding_dim,
            "context_size": embedding_dim,
            "tags": tags,
        }
        self.query = Query(registry.build("query", (name, knobs), **widths) for name, knobs in config["query"].items())
        sizes = (self.query.size, self.source.keys_size, embedding_dim)
        self.attention: Any = assemble(
            config["scorer"], config["scope"], config["normalizer"], sizes, config["attention"]
        )
        # As a Linear(size, 1) would start.
        self.start = nn.Parameter(torch.empty(embedding_dim).uniform_(-1, 1) / embedding_dim**0.5)
        self.end = nn.Parameter(torch.empty(self.source.keys_size).uniform_(-1, 1) / self.source.keys_size**0.5)

    def forward(
        self,
        source: Tensor,
        present: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        sampling: float = 0.0,
        need_weights: bool = False,
        schedule: str | None = None,
    ) -> Output:
        """Score a target that is known.

        Args:
            source: (b, s) symbols, or (b, s, features).
            present: (b, s) bool.
            inputs: (b, t) ids that the decoder reads: BOS, then the target but for its last step.
            tag: (b,) int64, the number of each row's tag; 0 if left out.
            sampling: must be 0: outputs are never fed back.
            need_weights: also return the probabilities of the positions (b, t, s).
            schedule: another schedule the plan admits, for tests and benchmarks.

        Returns:
            logits (b, t, 4 + s), -inf for what can never come.
        """
        if sampling:
            raise ValueError("a pointer is not trained on its own outputs")
        start = self.init_state(source, present, tag)
        tokens = _rows(start.elements, inputs)
        keep = tuple(
            dropout_mask(tokens, self.decoder.dropout, self.training, *tokens.shape[:2], self.decoder.recurrent.size)
            for _ in self.decoder.recurrent.layers[1:]
        )
        run = self._at_once if (schedule or self.plan.schedule) == "run_then_attend" else self._step_by_step
        logits, penalty = run(start, inputs, tokens, keep)
        return Output(logits, torch.softmax(logits, -1)[..., FIRST:] if need_weights else None, penalty)

    def _at_once(
        self, start: PointerState, inputs: Tensor, tokens: Tensor, keep: tuple[Tensor | None, ...]
    ) -> tuple[Tensor, Tensor | None]:
        """The recurrence over all steps, then one read for all."""
        steps = tokens.shape[1]
        states = self.decoder.recurrent.run(tokens, state=start.cell, keep=keep).outputs[-1]
        before = torch.cat([start.cell[-1][0][:, None], states[:, :-1]], dim=1)
        step = QueryContext(tokens, before=before, after=states, tag=start.tag[:, None].expand(-1, steps))
        at = torch.arange(steps, device=tokens.device)
        logits, _ = self._scored(step, start, pointed_before_each(inputs, start.present.shape[1]), at)
        return logits, None

    def _step_by_step(
        self, start: PointerState, inputs: Tensor, tokens: Tensor, keep: tuple[Tensor | None, ...]
    ) -> tuple[Tensor, Tensor | None]:
        """Step after step: the scorer reads how the memory was read before."""
        state, logits, penalties = start, [], []
        for step in range(tokens.shape[1]):
            masks = tuple(None if mask is None else mask[:, step] for mask in keep)
            found, state, read = self._advance(inputs[:, step], tokens[:, step], state, masks)
            logits.append(found)
            penalties += [] if read.penalty is None else [read.penalty]
        return torch.cat(logits, 1), torch.cat(penalties, 1) if penalties else None

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> PointerState:
        """(b, s) symbols or (b, s, features), (b, s) bool and (b,) tags -> the state before the first step.

        Raises:
            UserError: the source has more positions than there are ids for.
        """
        rows, positions = present.shape
        if FIRST + positions > self.target.width:
            raise UserError(
                f"a source of {positions} positions is longer than the {self.target.width - FIRST} that it can point to"
            )
        read = self.source(source, present)
        end = self.end.expand(rows, 1, -1)
        memory = concat_sources(
            self.attention.remember(read.keys, read.present, read.values),
            self.attention.remember(end, values=read.values.new_zeros(rows, 1, read.values.shape[-1])),
        )
        none = torch.zeros_like(present)
        return PointerState(
            memory=memory,
            elements=torch.cat([self.start.expand(rows, FIRST, -1).to(read.values.dtype), read.values], 1),
            present=present,
            cell=self.bridge(read.final, rows),
            pointed=PointerHistory(none.long(), none),
            tag=torch.zeros(rows, dtype=torch.int64, device=present.device) if tag is None else tag,
            at=torch.zeros(rows, dtype=torch.int64, device=present.device),
            past=empty_history(memory) if self.attention.needs_past else None,
        )

    def decode_step(
        self, inputs: Tensor, state: PointerState, need_weights: bool = False
    ) -> tuple[Tensor, PointerState, AttentionOutput]:
        """Take one step: ids (b,) -> log-probabilities (b, 4 + s), the state after, and how the positions were read."""
        logits, after, read = self._advance(inputs, _rows(state.elements, inputs[:, None])[:, 0], state)
        told = self.target.predict(logits[:, 0])
        return told, after, AttentionOutput(read.context, told[:, None, FIRST:].exp() if need_weights else None)

    def _advance(
        self, inputs: Tensor, token: Tensor, state: PointerState, keep: tuple[Tensor | None, ...] = ()
    ) -> tuple[Tensor, PointerState, AttentionOutput]:
        """One step of the recurrence from the last ids (b,) and their vectors (b, e), and one read -> (b, 1, 4 + s)."""
        cell = self.decoder.recurrent.step(token, state.cell, keep)
        pointed = pointed_after(state.pointed, inputs)
        step = QueryContext(
            token[:, None], before=state.cell[-1][0][:, None], after=cell[-1][0][:, None], tag=state.tag[:, None]
        )
        asked = PointerHistory(pointed.counts[:, None], pointed.first[:, None])
        logits, read = self._scored(step, state, asked, state.at[:, None])
        past = None if state.past is None or read.weights is None else update_history(state.past, read.weights)
        return logits, state._replace(cell=cell, pointed=pointed, at=state.at + 1, past=past), read

    def _scored(
        self, step: QueryContext, state: PointerState, pointed: PointerHistory, at: Tensor
    ) -> tuple[Tensor, AttentionOutput]:
        """The logits (b, t, 4 + s) of every id at these steps, and the read that they are of."""
        query, memory = self.query(step), state.memory
        allowed = may_follow(self.only, pointed.counts, pointed.first, state.present[:, None])
        field = self.attention.field(AttentionInputs(query, query, memory, at, allowed, state.past, None, True))
        read = self.attention(query, memory, allowed=allowed, at=at, past=state.past, need_weights=True)
        scores = read.scores / self.attention.normalizer.temperature
        if field.gain is not None:  # it multiplies probabilities, which are then made to sum to 1 again
            scores = scores + torch.where(field.allowed, field.gain, 1.0).log()
        # A window may leave nothing of what the rule allows; then it is the end.
        stuck = ~field.allowed.any(-1, keepdim=True)
        open_ = torch.cat([field.allowed[..., :-1], field.allowed[..., -1:] | stuck], -1)
        scores = scores.masked_fill(~open_, -torch.inf)
        never = torch.full_like(scores[..., :1], -torch.inf)
        return torch.cat([never, never, scores[..., -1:], never, scores[..., :-1]], -1), read

    def select_rows(self, state: PointerState, rows: Tensor) -> PointerState:
        """The state of these rows: int64, which may repeat."""
        return index_select_tree(state, rows)

    reorder_beams = select_rows


def _rows(table: Tensor, ids: Tensor) -> Tensor:
    """(b, n, e) and ids (b, t) -> (b, t, e)."""
    return table.gather(1, ids[..., None].expand(-1, -1, table.shape[-1]))
