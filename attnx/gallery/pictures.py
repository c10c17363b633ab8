"""Pictures of parts, on the small example on which every part of attention is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from attnx import registry
from attnx.attention import Attention, Memory, ScopeMask, build
from attnx.attention.attention import needs_history
from attnx.attention.memory import concat_sources, hide_future, update_history
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.errors import UserError
from attnx.gallery.drawings import VECTORS, Numbers, Reading, draw_normalizer, draw_reading, draw_step, row_weights
from attnx.gallery.part_variant import PartVariant, alternatives
from attnx.registry import PartSpec
from attnx.registry.source_scan import Part

# Nine positions and two of padding; the last of the ten steps has the query of the one before it.
POSITIONS, PADDING, STEPS, STATE_SIZE = 9, 2, 10, 13
# Step 6 has the query of step 2, and position 6 is almost equal to position 2: a scorer can only distinguish them if it
# knows the previous weights.
REPEATED_STEP, REPEAT_STEP = 2, 6
HEAD = {"head": 0, "heads": 8}  # the head that a bias belongs to
LONG_POSITION = 4  # its vector is longer than the rest
FIT_STEPS, LEARNING_RATE = 60, 0.02
QUERIES_NOTE = f"Steps {REPEATED_STEP} and {REPEAT_STEP} have the same query."
MEMORY_NOTE = (
    f"Positions {REPEATED_STEP} and {REPEAT_STEP} are almost equal; position {LONG_POSITION} has the longest vector."
)
STATES_NOTE = "The decoder states are the queries; each is visible from the next step on."
FITTED_NOTE = f"Fitted for {FIT_STEPS} steps to read position t at step t."


def draw_variant(variant: PartVariant) -> Figure:
    """Draw a part.

    Raises:
        UserError: its file cannot be imported, or it rejects its knobs.
    """
    if variant.drawn_as == "query":
        return draw_step(selected_vector(variant.part), str(variant))
    if variant.drawn_as == "normalizer":
        return draw_normalizer(variant.spec, str(variant))
    reading = _read(variant)
    has_source = reading.decoder_states < len(reading.columns)
    example = [QUERIES_NOTE, *([MEMORY_NOTE] if has_source else [])]
    details = [*([STATES_NOTE] if reading.decoder_states else []), *([FITTED_NOTE] if reading.is_fitted else [])]
    return draw_reading(reading, str(variant), "\n".join(" ".join(line) for line in (example, details) if line))


def selected_vector(query_input: Part) -> str:
    """The name of the vector that a query input selects.

    Raises:
        UserError: it does not declare one.
    """
    needs = query_input.properties.get("needs")
    if needs not in VECTORS:
        where, name = query_input.place, query_input.name
        raise UserError(f"{where}: the query input {name!r} must declare needs = {', '.join(VECTORS)}")
    return str(needs)


def variants_to_draw(part: Part) -> list[PartVariant]:
    """The part as it is and, of scopes and normalizers, the variants whose weights differ."""
    default = PartVariant(part)
    if part.kind not in ("scope", "normalizer"):
        return [default]
    variants, weights = [default], _weights(default)
    for variant in alternatives(part):
        changed = _weights(variant)
        if changed.shape != weights.shape or not np.allclose(changed, weights):
            variants.append(variant)
    return variants


def save_picture(figure: Figure, path: Path) -> Path:
    """Save a picture with 256 colors, which takes a third of the bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(256).save(path, optimize=True)
    return path


def _read(variant: PartVariant) -> Reading:
    return read_example(**composition(variant))


def composition(variant: PartVariant) -> dict[str, PartSpec]:
    """The parts that the example reads with: a recurrent normalizer needs a scorer that learns when to move on."""
    scorer = {"scorer": "additive"} if variant.part.kind == "normalizer" else {}
    return {**scorer, variant.part.kind: variant.spec}


def _weights(variant: PartVariant) -> Numbers:
    return row_weights(variant.spec) if variant.drawn_as == "normalizer" else _read(variant).weights


def example_states() -> tuple[Tensor, Tensor]:
    """The queries (1, t, d), which move along the memory (1, m, d) by one position a step."""
    query_positions, memory_positions = target_positions().float(), torch.arange(POSITIONS).float()
    query_positions[REPEAT_STEP], memory_positions[REPEAT_STEP] = REPEATED_STEP, REPEATED_STEP + 0.4
    memory = _vectors(memory_positions)
    memory[LONG_POSITION] *= 1.5
    return _vectors(query_positions)[None], F.pad(memory, (0, 0, 0, PADDING))[None]


def target_positions() -> Tensor:
    """(t,) the position that each step should read."""
    return torch.arange(STEPS).clamp(max=POSITIONS - 1)


def _vectors(positions: Tensor) -> Tensor:
    """Vectors (n, d) of equal length, more similar for nearer positions."""
    centers = torch.linspace(-1.5, POSITIONS + 0.5, STATE_SIZE)
    return 2.4 * F.normalize(torch.exp(-((positions[:, None] - centers) ** 2)), dim=-1)


def read_example(
    scorer: PartSpec = "dot",
    scope: PartSpec = "global",
    normalizer: PartSpec = "softmax",
    bias: PartSpec | None = None,
) -> Reading:
    """Apply a composition to the example, after a short fit of its parameters, if any."""
    sizes = {"query_size": STATE_SIZE, "memory_size": STATE_SIZE}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = build(scorer=scorer, scope=scope, normalizer=normalizer, **sizes)
        assert isinstance(attention, Attention)
        if bias is not None:
            attention.bias = registry.build("bias", bias, query_size=STATE_SIZE, **HEAD)
        attention.eval()  # no part draws noise, except that some normalizers have gradients in training alone
        attention.get_submodule("normalizer").train()
        is_fitted = _fit(attention)
        attention.eval()
    with torch.no_grad():
        memory = _memory(attention)
        scores, weights = _scores_and_weights(attention, memory)
        mask = _scope_mask(attention, memory)
    decoder_states = STEPS if "decoder" in attention.scope.sources else 0
    has_source = sum(memory.source_sizes) > decoder_states
    positions = [*map(str, range(POSITIONS)), *["\u00b7"] * PADDING] if has_source else []
    return Reading(
        scores=_numbers(scores),
        allowed_mask=mask.allowed_mask[0].numpy(),
        gain=None if mask.gain is None else _numbers(mask.gain[0]),
        weights=_numbers(weights),
        columns=[*positions, *map(str, range(decoder_states))],
        decoder_states=decoder_states,
        is_fitted=is_fitted,
    )


def _numbers(tensor: Tensor) -> Numbers:
    return np.asarray(tensor.double().numpy())


def _memory(attention: Attention) -> Memory:
    """What the scope covers: the memory, and the queries as decoder states, each visible once it exists."""
    queries, memory = example_states()
    parts = []
    if "encoder" in attention.scope.sources:
        parts.append(attention.make_memory(memory, torch.arange(POSITIONS + PADDING)[None] < POSITIONS))
    if "decoder" not in attention.scope.sources:
        return parts[0]
    parts.append(attention.make_memory(queries))
    joined = parts[0] if len(parts) == 1 else concat_sources(*parts)
    return hide_future(joined, torch.arange(STEPS) + int(getattr(attention.scope, "include_self", False)))


def _scores_and_weights(attention: Attention, memory: Memory) -> tuple[Tensor, Tensor]:
    """Scores and weights (t, m), step by step if a scorer needs the previous weights."""
    outputs = list(_outputs(attention, memory))
    scores = [output.scores[0] for output in outputs if output.scores is not None]
    weights = [output.weights[0] for output in outputs if output.weights is not None]
    return torch.cat(scores), torch.cat(weights)


def _outputs(attention: Attention, memory: Memory) -> Iterator[AttentionOutput]:
    """The outputs of all steps: one of each if a scorer needs the previous weights, else one."""
    queries, _ = example_states()
    history = attention.init_history(memory)
    if history is None or not needs_history(attention.scorer):
        yield attention(queries, memory, need_weights=True)
        return
    for index in range(STEPS):
        step = torch.tensor([index])
        visible = memory if memory.mask.dim() == 2 else memory._replace(mask=memory.mask[:, step])
        output = attention(queries[:, step], visible, steps=step, history=history, need_weights=True)
        yield output
        history = update_history(history, output)


def _scope_mask(attention: Attention, memory: Memory) -> ScopeMask:
    queries, _ = example_states()
    return attention.scope_mask(AttentionInputs(queries, queries, memory, torch.arange(STEPS), None, None, None, False))


def _fit(attention: Attention) -> bool:
    """Fit the parameters, if any, so that each step reads its target: sign descent with a decaying step."""
    parameters = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    if not parameters or "encoder" not in attention.scope.sources:
        return False
    for step in range(FIT_STEPS):
        loss = _loss(attention)
        if not loss.requires_grad:
            return False
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(LEARNING_RATE * (1 - step / FIT_STEPS) * gradient.sign())
    return True


def _loss(attention: Attention) -> Tensor:
    """Negative log of the weights, and of any gain, at the targets."""
    cells = torch.arange(STEPS), target_positions()
    memory = _memory(attention)
    gain = _scope_mask(attention, memory).gain
    loss = -(_scores_and_weights(attention, memory)[1][cells] + 1e-4).log().mean()
    # Outside the window the weight and its gradient are 0 at the target; the gain still has a gradient.
    return loss if gain is None else loss - (gain[0][cells] + 1e-30).log().mean()
