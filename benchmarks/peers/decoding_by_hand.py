"""Greedy and beam search with the model by hand that runs, then attends, in plain torch. It needs torch alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from peers.by_hand import BOS, EOS, PAD, Encoded, HandWrittenModel
from torch import Tensor


class Step(NamedTuple):
    """What a step of the decoder hands to the next."""

    token: Tensor  # (n,) ids
    h: Tensor  # (n, d)
    c: Tensor  # (n, d)


def search(model: HandWrittenModel, source: Tensor, lengths: Tensor, beam_size: int, limit: int) -> list[list[int]]:
    """The best outputs of sources (b, s) by log-probability, without EOS and of at most ``limit`` symbols."""
    memory, h, c = model.encode(model.source(source), lengths)
    start = torch.tanh(model.start_h(h)), model.start_c(c)
    encoded = Encoded(memory, model.key(memory), (source != PAD)[:, None], start)
    rows = _greedy(model, encoded, limit) if beam_size == 1 else _beam(model, encoded, beam_size, limit)
    return [row[: row.index(EOS)] if EOS in row else row for row in rows.tolist()]


def _take_step(model: HandWrittenModel, step: Step, encoded: Encoded) -> tuple[Tensor, Step]:
    """Logits (n, symbols), and the states of the next step."""
    h, c = torch.lstm_cell(model.target(step.token), (step.h, step.c), *model.decoder.all_weights[0])
    context = model.attend(h[:, None], encoded)[:, 0]
    return model.output(torch.tanh(model.readout(torch.cat([h, context], -1)))), Step(step.token, h, c)


def _greedy(model: HandWrittenModel, encoded: Encoded, limit: int) -> Tensor:
    """Outputs (b, t) until all rows have ended."""
    h, c = encoded.start
    step = Step(torch.full_like(h[:, 0], BOS, dtype=torch.int64), h, c)
    outputs: list[Tensor] = []
    has_ended = torch.zeros_like(step.token, dtype=torch.bool)
    while len(outputs) < limit and not bool(has_ended.all()):
        logits, step = _take_step(model, step, encoded)
        step = step._replace(token=logits.argmax(-1))
        outputs.append(step.token)
        has_ended |= step.token == EOS
    return torch.stack(outputs, 1)


def _beam(model: HandWrittenModel, encoded: Encoded, size: int, limit: int) -> Tensor:
    """Outputs (b, t) of the best hypotheses, until all have ended; an ended one goes on with EOS at no cost."""
    rows = len(encoded.states)
    states, keys, mask = (part.repeat_interleave(size, 0) for part in encoded[:3])
    h, c = (part.repeat_interleave(size, 0) for part in encoded.start)
    encoded = Encoded(states, keys, mask, (h, c))
    step = Step(torch.full_like(h[:, 0], BOS, dtype=torch.int64), h, c)
    scores = torch.full((rows, size), -torch.inf, device=h.device)
    scores[:, 0] = 0.0  # all hypotheses are the same before the first step
    outputs = step.token.new_zeros(rows, size, 0)
    has_ended = torch.zeros(rows, size, dtype=torch.bool, device=h.device)
    first = size * torch.arange(rows, device=h.device)[:, None]
    while outputs.shape[-1] < limit and not bool(has_ended.all()):
        logits, step = _take_step(model, step, encoded)
        log_probs = logits.log_softmax(-1).view(rows, size, -1)
        symbols = log_probs.shape[-1]
        only_end = torch.full_like(log_probs[0, 0], -torch.inf)
        only_end[EOS] = 0.0
        log_probs = torch.where(has_ended[..., None], only_end, log_probs)
        scores, best = (scores[..., None] + log_probs).flatten(1).topk(size)
        parents, tokens = best // symbols, best % symbols
        parent_rows = (first + parents).flatten()
        outputs = torch.cat([outputs.flatten(0, 1)[parent_rows].view(rows, size, -1), tokens[..., None]], -1)
        has_ended = has_ended.gather(1, parents) | (tokens == EOS)
        step = Step(tokens.flatten(), step.h[parent_rows], step.c[parent_rows])
    return outputs[:, 0]
