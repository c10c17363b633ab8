"""The history model: a recurrent network that attends to its own past states and continues its input series."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.attention import AttentionOutput
from attnx.models.seq2seq.model import DecoderState, Seq2seq
from attnx.models.seq2seq.schedules import query_context_after_run
from attnx.models.sequence_model import Output, SequenceModel

from ..target import ForecastTarget


class HistoryState(NamedTuple):
    """The state of step-by-step forecasting; every tensor has the batch as its first axis."""

    decoder: DecoderState  # the state of the recurrence, with its earlier states as memory
    last_targets: Tensor  # (b, f) of the window
    known_features: Tensor  # (b, h, k) known features of the forecast steps; width 0 if nothing is known
    step: Tensor  # (b,) int64, the number of forecast steps taken
    source_length: int  # number of rows of the source; weights have at least as many columns


class History(SequenceModel[HistoryState]):
    """A recurrent network without an encoder, which reads window and forecast as one series.

    The input of a step has the targets of the previous step, the known features of this one, and a flag: whether these
    targets are observed. They are not at the first step, nor in the forecast steps of a direct forecast.

    Args:
        network: a decoder that attends to its own states; its target is a :class:`ForecastTarget`, its embedding maps
            inputs of ``features + num_known + 1`` numbers.
        num_known: number of features that are known of the forecast steps.
    """

    sources = ("encoder", "decoder")

    def __init__(self, network: Seq2seq, num_known: int = 0) -> None:
        super().__init__()
        if not isinstance(network.target, ForecastTarget):
            raise TypeError(f"the target of a history model is a ForecastTarget, not {type(network.target).__name__}")
        self.network, self.target, self.num_known = network, network.target, num_known
        self.plan, self.is_distribution = network.plan, network.is_distribution
        self.reads_are_independent = network.reads_are_independent

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
        """As :meth:`SequenceModel.forward`, for a window and the targets (b, t, f) before each forecast step.

        The source (b, s, f) is the window, followed by rows for the forecast steps if any of their features are known.
        The first row of ``inputs`` is ignored, it is in the source; ``tag`` has no effect.
        Weights (b, t, m) are over the states in the order of the series. ``schedule`` is another one, for tests.

        Raises:
            ValueError: there is padding.
        """
        _reject_padding(source_mask, source_lengths)
        steps, rows = inputs.shape[1], self._series(source, inputs)
        output = self.network(source, source_mask, rows, need_weights=need_weights, schedule=schedule)
        weights = None if output.weights is None else _pad_columns(output.weights[..., -steps:, :], source.shape[1])
        penalty = None if output.penalty is None else output.penalty[:, -steps:]
        log_prob: Tensor | None = output.log_prob
        if log_prob is not None:
            earlier, log_prob = log_prob[:, :-steps], log_prob[:, -steps:]
            if not self.reads_are_independent:  # the reads of the window affect the forecast
                log_prob = torch.cat([log_prob[:, :1] + earlier.sum(1, keepdim=True), log_prob[:, 1:]], 1)
        return Output(output.logits[:, -steps:], weights, penalty, log_prob)

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> HistoryState:
        """The state before the first forecast step, of (b, s, f) and (b, s) bool; a ValueError if there is padding."""
        _reject_padding(source_mask, None)
        window = self._window(source)
        length, known_features = window.shape[1], self._known_features(source)
        previous = torch.cat([torch.zeros_like(window[:, :1]), window[:, :-1]], 1)
        rows = _input_rows(previous, known_features[:, :length], is_observed=[0] + [1] * (length - 1))
        return HistoryState(
            decoder=self._run(rows, self.network.init_state(source, source_mask)),
            last_targets=window[:, -1],
            known_features=known_features[:, length:],
            step=torch.zeros(len(source), dtype=torch.int64, device=source.device),
            source_length=source.shape[1],
        )

    def decode_step(
        self, inputs: Tensor, state: HistoryState, need_weights: bool = False
    ) -> tuple[Tensor, HistoryState, AttentionOutput]:
        """Take one step: the previous forecast (b, ...) -> the next one, the next state, and the attention."""
        is_first = (state.step == 0)[:, None]
        fed_back = inputs[:, : self.target.features] * self.target.recursive
        previous = torch.where(is_first, state.last_targets, fed_back)
        known_features = state.known_features[torch.arange(len(previous), device=previous.device), state.step]
        is_observed = (is_first | self.target.recursive).to(previous)
        row = torch.cat([previous, known_features, is_observed], -1)
        forecast, decoder, attention = self.network.decode_step(row, state.decoder, need_weights)
        if attention.weights is not None:
            attention = attention._replace(weights=_pad_columns(attention.weights, state.source_length))
        return forecast, state._replace(decoder=decoder, step=state.step + 1), attention

    def source_rows(self, context: int) -> int:
        """The rows of a window, and those of the forecast steps if any of their features are known."""
        return context + (self.target.steps if self.num_known else 0)

    def _window(self, source: Tensor) -> Tensor:
        """The targets (b, s, f) of the window."""
        length = source.shape[1] - self.source_rows(0)
        return source[:, :length, : self.target.features]

    def _known_features(self, source: Tensor) -> Tensor:
        """(b, s + h, k) the known features of all steps; width 0 if nothing is known."""
        if self.num_known:
            return source[..., self.target.features :]
        return source.new_zeros(len(source), source.shape[1] + self.target.steps, 0)

    def _series(self, source: Tensor, inputs: Tensor) -> Tensor:
        """The inputs of all steps (b, s + t, f + k + 1): the window, then the forecast under teacher forcing."""
        window, steps = self._window(source), inputs.shape[1]
        length = window.shape[1]
        fed_back = inputs[:, 1:, : self.target.features] * self.target.recursive
        previous = torch.cat([torch.zeros_like(window[:, :1]), window, fed_back], 1)
        is_observed = [0] + [1] * length + [int(self.target.recursive)] * (steps - 1)
        return _input_rows(previous, self._known_features(source)[:, : length + steps], is_observed)

    def _run(self, rows: Tensor, state: DecoderState) -> DecoderState:
        """The state after these rows: in one pass if no context enters the recurrence, else step by step."""
        network, tokens = self.network, self.network.embedding(rows)
        if network.plan.schedule != "run_then_attend":
            for step in range(rows.shape[1]):
                state, _ = network.forward_step(tokens[:, step], state)
            return state
        output = network.decoder.run([tokens], state=state.rnn_state)
        states, steps = output.outputs[-1], torch.arange(rows.shape[1], device=rows.device)  # (b, s, d), (s,)
        _, carries = network.query.advance(query_context_after_run(tokens, states, state), state.query_carries)
        return state._replace(
            memory=network.append_decoder_states(state.memory, states, steps),
            rnn_state=output.state,
            step=state.step + rows.shape[1],
            query_carries=carries,
        )


def _reject_padding(source_mask: Tensor, source_lengths: Tensor | None) -> None:
    is_full = source_mask.all() if source_lengths is None else (source_lengths == source_mask.shape[1]).all()
    if not bool(is_full):
        raise ValueError("the rows of a batch need windows of one length: a history model has no padding")


def _input_rows(previous: Tensor, known_features: Tensor, is_observed: list[int]) -> Tensor:
    """The inputs of all steps: previous targets, known features, and whether the former are observed."""
    flags = torch.tensor(is_observed, dtype=previous.dtype).to(previous.device, non_blocking=True)
    return torch.cat([previous, known_features, flags[None, :, None].expand(len(previous), -1, 1)], -1)


def _pad_columns(weights: Tensor, columns: int) -> Tensor:
    """(..., m) -> at least this many columns, the last ones zeros: of states that did not exist yet."""
    return F.pad(weights, (0, max(columns - weights.shape[-1], 0)))
