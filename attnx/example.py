"""The tiny example on which every part of attention is drawn, and how a part reads it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx import registry
from attnx.attention import Attention, Memory, Read, build
from attnx.attention.memory import after_reading, beside, seen, unread
from attnx.registry import Spec
from attnx.reports.parts import Normalising, Reading

# Nine positions and two of padding; ten steps, of which the last asks what the one before asked; states of width 13.
POSITIONS, PADDING, STEPS, WIDTH = 9, 2, 10, 13
# Steps 2 and 6 ask the same, and positions 2 and 6 hold almost the same: only what knows its past can tell them apart.
ASKED, ASKED_AGAIN = 2, 6
LOUD = 4  # this position's vector is longer than the others
FITTING = 150


def states() -> tuple[Tensor, Tensor]:
    """Queries (1, t, d) that move along the memory (1, m, d), a position a step."""
    queries = torch.arange(STEPS).clamp(max=POSITIONS - 1).float()
    places = torch.arange(POSITIONS).float()
    queries[ASKED_AGAIN], places[ASKED_AGAIN] = ASKED, ASKED + 0.4
    memory = _at(places)
    memory[LOUD] *= 1.5
    padding = torch.zeros(PADDING, WIDTH)
    return _at(queries)[None], torch.cat([memory, padding])[None]


def _at(places: Tensor) -> Tensor:
    """Vectors (n, d) of one length, the more alike the nearer their places."""
    centres = torch.linspace(-1.5, POSITIONS + 0.5, WIDTH)
    return 2.4 * torch.nn.functional.normalize(torch.exp(-((places[:, None] - centres) ** 2)), dim=-1)


def target() -> Tensor:
    """(t,) the position each step ought to read."""
    return torch.arange(STEPS).clamp(max=POSITIONS - 1)


def read(scorer: Spec = "dot", scope: Spec = "global", normaliser: Spec = "softmax") -> tuple[Reading, bool]:
    """Let a composition read the example, its parameters fitted to it for a moment.

    Returns:
        what it read, and whether it had anything to fit.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention = build(scorer=scorer, scope=scope, normaliser=normaliser, query_size=WIDTH, memory_size=WIDTH)
        assert isinstance(attention, Attention)
        fitted = _fit(attention)
    with torch.no_grad():
        return _shown(attention.eval()), fitted


def _memory(attention: Attention) -> Memory:
    queries, memory = states()
    scope = attention.scope
    present = torch.arange(POSITIONS + PADDING) < POSITIONS
    parts = []
    if "encoder" in scope.sources:
        parts.append(attention.remember(memory, present[None]))
    if "decoder" in scope.sources:
        # The states a query may read are the queries before it.
        parts.append(attention.remember(queries))
    joined = parts[0] if len(parts) == 1 else beside(*parts)
    if "decoder" in scope.sources:
        joined = seen(joined, torch.arange(STEPS) + int(scope.include_self))
    return joined


def _reads(attention: Attention) -> tuple[Tensor, Tensor]:
    queries, _ = states()
    memory = _memory(attention)
    if not attention.needs_past:
        read = attention(queries, memory, need_weights=True)
        return read.scores[0], read.weights[0]
    past, scores, weights = unread(memory), [], []
    for step in range(STEPS):
        at = torch.tensor([step])
        now = memory if memory.present.dim() == 2 else memory._replace(present=memory.present[:, step : step + 1])
        read = attention(queries[:, step : step + 1], now, at=at, past=past, need_weights=True)
        past = after_reading(past, read.weights)
        scores.append(read.scores[0, 0])
        weights.append(read.weights[0, 0])
    return torch.stack(scores), torch.stack(weights)


def _fit(attention: Attention) -> bool:
    parameters = [p for p in attention.parameters() if p.requires_grad]
    if not parameters or "encoder" not in attention.scope.sources:
        return False
    optimiser = torch.optim.Adam(parameters, lr=0.02)
    for _ in range(FITTING):
        _, weights = _reads(attention)
        loss = -(weights[torch.arange(STEPS), target()] + 1e-4).log().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return True


def _shown(attention: Attention) -> Reading:
    queries, _ = states()
    memory = _memory(attention)
    scores, weights = _reads(attention)
    present = memory.present if memory.present.dim() == 3 else memory.present[:, None]
    at = torch.arange(STEPS)
    fields = [attention.scope(queries, at, part) for part in present.split(memory.lengths, dim=-1)]
    gains = [field.gain for field in fields if field.gain is not None]
    own = memory.lengths[-1] if "decoder" in attention.scope.sources else 0
    columns = [str(i) if i < POSITIONS else "·" for i in range(POSITIONS + PADDING)] if "encoder" in attention.scope.sources else []
    return Reading(
        scores.double().numpy(),
        torch.cat([field.allowed for field in fields], -1)[0].numpy(),
        torch.cat(gains, -1)[0].double().numpy() if gains else None,
        weights.double().numpy(),
        [*columns, *(str(i) for i in range(own))],
        own,
    )
