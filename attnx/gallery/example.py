"""The tiny example on which every part of attention is drawn: what it holds, and how a part reads it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx import registry
from attnx.attention import Attention, Memory, ScopeMask, build
from attnx.attention.memory import concat_sources, empty_history, hide_future, update_history
from attnx.gallery.normalizing import Normalizing
from attnx.gallery.readings import Numbers, Reading
from attnx.registry import PartSpec

# Nine positions and two of padding; the last of the ten steps asks what the one before it asked.
POSITIONS, PADDING, STEPS, WIDTH = 9, 2, 10, 13
# Step 6 asks what step 2 asked, and position 6 holds almost what position 2 holds: a scorer can only tell them apart
# if it knows what was read before.
ASKED, AGAIN = 2, 6
LONG = 4  # this position's vector is longer than the others
FITTING, RATE = 60, 0.02
# One row of scores, of which the last two are not allowed, and what another position's score rises past.
ROW, ALLOWED, OTHER = (0.5, 2.0, 1.6, -1.0, 0.2, -0.4, 1.0, 2.5, 0.3), 7, 1.0


class Shown(NamedTuple):
    """How a composition reads the example, and whether its parameters were fitted to it."""

    reading: Reading
    fitted: bool


def states() -> tuple[Tensor, Tensor]:
    """The queries (1, t, d), which move along the memory (1, m, d) by a position a step."""
    asked, held = target().float(), torch.arange(POSITIONS).float()
    asked[AGAIN], held[AGAIN] = ASKED, ASKED + 0.4
    memory = _vectors(held)
    memory[LONG] *= 1.5
    return _vectors(asked)[None], F.pad(memory, (0, 0, 0, PADDING))[None]


def target() -> Tensor:
    """(t,) the position that each step ought to read."""
    return torch.arange(STEPS).clamp(max=POSITIONS - 1)


def _vectors(places: Tensor) -> Tensor:
    """Vectors (n, d) of one length, the more alike the nearer their places."""
    centers = torch.linspace(-1.5, POSITIONS + 0.5, WIDTH)
    return 2.4 * F.normalize(torch.exp(-((places[:, None] - centers) ** 2)), dim=-1)


def read(scorer: PartSpec = "dot", scope: PartSpec = "global", normalizer: PartSpec = "softmax") -> Shown:
    """Let a composition read the example, after its parameters, if it has any, were fitted to it for a moment."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = build(scorer=scorer, scope=scope, normalizer=normalizer, query_size=WIDTH, memory_size=WIDTH)
        assert isinstance(attention, Attention)
        attention.eval()  # so that no part draws noise of its own
        fitted = _fit(attention)
    with torch.no_grad():
        return Shown(_reading(attention), fitted)


def normalize(normalizer: PartSpec) -> Normalizing:
    """Let a normalizer make weights of the one row of scores, and of a score that rises."""
    rising = torch.linspace(OTHER - 4, OTHER + 4, 161)
    row, two = torch.tensor(ROW), torch.stack([rising, torch.full_like(rising, OTHER)], dim=-1)
    allowed = torch.arange(len(ROW)) < ALLOWED
    parts = [registry.build("normalizer", choice).eval() for choice in (normalizer, "softmax")]
    with torch.no_grad():
        weights, softmax = (part(row[None], allowed[None])[0] for part in parts)
        weight, softmax_weight = (part(two, torch.ones_like(two, dtype=torch.bool))[:, 0] for part in parts)
    return Normalizing(
        scores=_numbers(row),
        allowed=allowed.numpy(),
        weights=_numbers(weights),
        softmax=_numbers(softmax),
        rising=_numbers(rising),
        weight=_numbers(weight),
        softmax_weight=_numbers(softmax_weight),
        other=OTHER,
    )


def _numbers(tensor: Tensor) -> Numbers:
    found: Numbers = tensor.double().numpy()
    return found


def _memory(attention: Attention) -> Memory:
    """What may be read: the memory's states, and the queries as the decoder's own, each there once it was made."""
    queries, memory = states()
    parts = []
    if "encoder" in attention.scope.sources:
        parts.append(attention.remember(memory, torch.arange(POSITIONS + PADDING)[None] < POSITIONS))
    if "decoder" not in attention.scope.sources:
        return parts[0]
    parts.append(attention.remember(queries))
    joined = parts[0] if len(parts) == 1 else concat_sources(*parts)
    return hide_future(joined, torch.arange(STEPS) + int(getattr(attention.scope, "include_self", False)))


def _weigh(attention: Attention) -> tuple[Tensor, Tensor]:
    """Scores and weights (t, m); a step at a time, since a scorer may want to know the weights before."""
    queries, _ = states()
    memory = _memory(attention)
    if not attention.needs_past:
        read = attention(queries, memory, need_weights=True)
        return read.scores[0], read.weights[0]
    past, reads = empty_history(memory), []
    for step in range(STEPS):
        at = torch.tensor([step])
        now = memory if memory.present.dim() == 2 else memory._replace(present=memory.present[:, at])
        reads.append(attention(queries[:, at], now, at=at, past=past, need_weights=True))
        past = update_history(past, reads[-1].weights)
    return torch.cat([read.scores[0] for read in reads]), torch.cat([read.weights[0] for read in reads])


def _field(attention: Attention, memory: Memory) -> ScopeMask:
    """What the scope lets each query read, each source on its own, as attention asks it."""
    queries, _ = states()
    present = memory.present if memory.present.dim() == 3 else memory.present[:, None]
    parts = torch.split(present, list(memory.lengths), dim=-1)
    fields = [attention.scope(queries, torch.arange(STEPS), part) for part in parts]
    gains = [field.gain for field in fields if field.gain is not None]
    return ScopeMask(
        torch.cat([field.allowed for field in fields], dim=-1), torch.cat(gains, dim=-1) if gains else None
    )


def _fit(attention: Attention) -> bool:
    """Move the parameters, if there are any, so that each step reads its target: by fixed steps that grow smaller."""
    parameters = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    if not parameters or "encoder" not in attention.scope.sources:
        return False
    for step in range(FITTING):
        loss = _missed(attention)
        if not loss.requires_grad:
            return False
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.sub_(RATE * (1 - step / FITTING) * slope.sign())
    return True


def _missed(attention: Attention) -> Tensor:
    """How far the weights, and any gain, are from all being 1 at the targets."""
    at = 0, torch.arange(STEPS), target()
    gain = _field(attention, _memory(attention)).gain
    missed = -(_weigh(attention)[1][at[1:]] + 1e-4).log().mean()
    # A window that lies elsewhere has weight 0 and no slope at the target; its gain, if any, has one.
    return missed if gain is None else missed - (gain[at] + 1e-30).log().mean()


def _reading(attention: Attention) -> Reading:
    memory = _memory(attention)
    scores, weights = _weigh(attention)
    field = _field(attention, memory)
    own = STEPS if "decoder" in attention.scope.sources else 0
    positions = [*map(str, range(POSITIONS)), *["\u00b7"] * PADDING] if sum(memory.lengths) > own else []
    return Reading(
        scores=_numbers(scores),
        allowed=field.allowed[0].numpy(),
        gain=None if field.gain is None else _numbers(field.gain[0]),
        weights=_numbers(weights),
        columns=[*positions, *map(str, range(own))],
        own=own,
    )
