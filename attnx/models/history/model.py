"""The model ``history``: a recurrent net that attends to its own past, and goes on with what it has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx import registry
from attnx.attention import AttentionOutput, Query
from attnx.attention.factory import assemble
from attnx.errors import UserError
from attnx.models.history.config import resolve
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig
from attnx.models.seq2seq.model import Seq2seq
from attnx.models.seq2seq.state import DecoderState, Output
from attnx.models.state_ops import index_select_tree
from attnx.nn.bridges import BRIDGES
from attnx.nn.decoder_memory import DecoderStateProjection
from attnx.nn.targets.build import build_target
from attnx.nn.targets.forecast import ForecastTarget
from attnx.registry import Positive, Probability, Size, register


class HistoryState(NamedTuple):
    """Where it stands; every tensor has the batch as its first axis, so that rows can be reordered.

    Attributes:
        net: the recurrence, and its earlier states.
        last: (b, f) the last targets that were read.
        known: (b, h, k) what is known of the steps to forecast; width 0 if nothing is.
        taken: (b,) int64, how many of these steps were taken.
        length: how many rows the source has; weights have as many columns at least.
    """

    net: DecoderState
    last: Tensor
    known: Tensor
    taken: Tensor
    length: int


@register("model", "history")
class History(nn.Module):
    """A recurrent net that reads rows one after the other and its own earlier states, then goes on by itself.

    Formula: ``c_t = attend(h_{t-1}; h_1 .. h_{t-2}), h_t = cell([e(y_{t-1}, k_t); c_t], h_{t-1}), y_t = O r_t``, with
        ``query=previous_state model.feed=now``, which ``recipe=attention_rnn`` sets
    Source: a memory of the own states: Cheng et al. 2016, section 3.1, https://arxiv.org/abs/1601.06733; of a language
        model: Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    It has no encoder: what is looked back on and what is forecast are one stream, and every scope is one over the own
    past. A row is the targets of the step before and what is known of this one (``task.known``), beside them whether
    the targets are there: at the first step they are not, and in the steps of a direct forecast. The other queries and
    ``feed`` are as with ``seq2seq``. Weights are those of the forecast steps over all states before them.
    """

    uses = ("decoder", "readout", "attention", "scorer", "scope", "query", "normalizer")
    config_module = "attnx.models.history.config"

    def __init__(
        self,
        config: Mapping[str, Any],
        source_features: Size,
        target_symbols: Size,
        target_features: Size,
        embedding_dim: Positive = 64,
        feed: Literal["now", "next", "none"] | None = None,
        bridge: Literal["learned", "zeros"] = "learned",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        chosen = resolve(config)
        target = build_target(config["task"], target_symbols, target_features)
        assert isinstance(target, ForecastTarget), "its composition let another task pass"
        if chosen.tagged:
            raise UserError("query=language_tag needs data with tags, and a time series has none")
        self.target: ForecastTarget = target
        self.sources = ("encoder", "decoder")
        self.known = source_features - target_features
        rows = nn.Linear(source_features + 1, embedding_dim)
        self.net = _net(config, chosen, target, rows, bridge, dropout)

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of a read sum to 1."""
        return self.net.sums_to_one

    @property
    def plan(self) -> Any:
        """The schedule, and when the context joins the input."""
        return self.net.plan

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
        """Forecast; of a recursive forecast with what is right read in the place of what was written.

        Args:
            source: (b, s, f) what is looked back on, and behind it rows for the steps to forecast if anything is known
                of them.
            present: (b, s) bool, all of it True.
            inputs: (b, t, f) the steps before those to forecast: the first is not looked at, it is in the source.
            tag: left out.
            sampling: 0.
            need_weights: also return the weights (b, t, m), over the states in the order of the stream.
            schedule: another schedule the plan admits, for tests and benchmarks.

        Raises:
            ValueError: there is padding.
        """
        self._refuse_padding(present)
        read = self._stream(source, inputs)
        output = self.net(source, present, read, need_weights=need_weights, schedule=schedule)
        steps = inputs.shape[1]
        weights = None if output.weights is None else _at_least(output.weights[..., -steps:, :], source.shape[1])
        penalty = None if output.penalty is None else output.penalty[:, -steps:]
        return Output(output.logits[:, -steps:], weights, penalty)

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> HistoryState:
        """(b, s, f) and (b, s) bool -> the state before the first step to forecast.

        Raises:
            ValueError: there is padding.
        """
        self._refuse_padding(present)
        past, given = self._past(source)
        nothing = torch.zeros_like(given[:, :1])
        read = _rows(
            torch.cat([nothing, given[:, :-1]], 1), self._known(source)[:, :past], there=[0] + [1] * (past - 1)
        )
        return HistoryState(
            net=self._run(read, self.net.init_state(source, present)),
            last=given[:, -1],
            known=self._known(source)[:, past:],
            taken=torch.zeros(len(source), dtype=torch.int64, device=source.device),
            length=source.shape[1],
        )

    def decode_step(
        self, inputs: Tensor, state: HistoryState, need_weights: bool = False
    ) -> tuple[Tensor, HistoryState, AttentionOutput]:
        """Take one step: (b, ...) the last one -> the next one as forecast, the state after, and what was read."""
        there = (state.taken == 0)[:, None]
        before = torch.where(there, state.last, inputs[:, : self.target.features] * self.target.recursive)
        each = torch.arange(len(before), device=before.device)
        row = torch.cat([before, state.known[each, state.taken], (there | self.target.recursive).to(before)], -1)
        predicted, net, read = self.net.decode_step(row, state.net, need_weights)
        if read.weights is not None:
            read = read._replace(weights=_at_least(read.weights, state.length))
        return predicted, state._replace(net=net, taken=state.taken + 1), read

    def select_rows(self, state: HistoryState, rows: Tensor) -> HistoryState:
        """The state of these rows, int64, which may repeat."""
        return index_select_tree(state, rows)

    reorder_beams = select_rows

    def _past(self, source: Tensor) -> tuple[int, Tensor]:
        """How many rows are looked back on, and the targets (b, s, f) in them."""
        past = source.shape[1] - (self.target.steps if self.known else 0)
        return past, source[:, :past, : self.target.features]

    def _known(self, source: Tensor) -> Tensor:
        """(b, past + h, k) what is known of all steps; of width 0 if nothing is."""
        if self.known:
            return source[..., self.target.features :]
        return source.new_zeros(len(source), source.shape[1] + self.target.steps, 0)

    def _stream(self, source: Tensor, inputs: Tensor) -> Tensor:
        """All rows (b, past + t, f + k + 1): what was looked back on, then what is read while forecasting."""
        past, given = self._past(source)
        steps = inputs.shape[1]
        later = inputs[:, 1:, : self.target.features] * self.target.recursive
        before = torch.cat([torch.zeros_like(given[:, :1]), given, later], 1)
        there = [0] + [1] * past + [int(self.target.recursive)] * (steps - 1)
        return _rows(before, self._known(source)[:, : past + steps], there)

    def _run(self, rows: Tensor, start: DecoderState) -> DecoderState:
        """The state after these rows: at once if no context enters the recurrence, else one by one."""
        net, tokens = self.net, self.net.embedding(rows)
        if net.plan.schedule != "run_then_attend":
            for step in range(rows.shape[1]):
                start, _ = net.advance(tokens[:, step], start)
            return start
        ran = net.decoder.recurrent.run(tokens, state=start.cell)
        memory = net.with_own(start.memory, ran.outputs[-1], torch.arange(rows.shape[1], device=rows.device))
        return start._replace(memory=memory, cell=ran.state, at=start.at + rows.shape[1])

    def _refuse_padding(self, present: Tensor) -> None:
        if not bool(present.all()):
            raise ValueError("the rows of a batch must look back equally far: a history has no padding")


def _rows(before: Tensor, known: Tensor, there: list[int]) -> Tensor:
    """What is read at each step: the targets of the step before, what is known, and whether the former are there."""
    flags = before.new_tensor(there)[None, :, None].expand(len(before), -1, 1)
    return torch.cat([before, known, flags], -1)


def _at_least(weights: Tensor, columns: int) -> Tensor:
    """(..., m) -> at least so many columns, zeros behind: of states that were not there yet."""
    return F.pad(weights, (0, max(columns - weights.shape[-1], 0)))


def _net(
    config: Mapping[str, Any],
    chosen: ResolvedSeq2seqConfig,
    target: ForecastTarget,
    rows: nn.Linear,
    bridge: str,
    dropout: float,
) -> Seq2seq:
    """A decoder without a source, which reads rows and its own states."""
    state, embedding = config["decoder"]["hidden_size"], rows.out_features
    widths = {"state_size": state, "token_size": embedding, "context_size": state}
    readout = registry.build("readout", config["readout"], **widths)
    fed = {"now": state, "next": readout.size, "none": 0}[chosen.plan.feed]
    decoder = registry.build("decoder", config["decoder"], input_size=embedding + fed)
    query = Query(registry.build("query", (name, knobs), **widths, tags=0) for name, knobs in config["query"].items())
    scope = {**config["scope"], "sources": ["decoder"]}
    sizes = (query.size, state, state)
    return Seq2seq(
        source=None,
        target=target,
        embedding=rows,
        tags=(None, ()),
        bridge=BRIDGES[bridge](decoder.recurrent, 0),
        attention=(query, assemble(config["scorer"], scope, config["normalizer"], sizes, config["attention"])),
        own=DecoderStateProjection(state, state, state, chosen.memory),
        decoder=decoder,
        readout=readout,
        output=registry.build("output", "linear", size=readout.size, width=target.width, tied=None),
        chosen=chosen,
        dropout=dropout,
    )
