"""The small example on which every part of attention is drawn, and what the parts make of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attnx import registry
from attnx.attention import Attention, Memory, Query, QueryContext, ScopeMask, build
from attnx.attention.attention import needs_history
from attnx.attention.factory import build_attention
from attnx.attention.memory import concat_sources, hide_future, update_history
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.registry import PartSpec
from gallery.variants import PartVariant

Numbers = NDArray[np.float64]

# Nine positions and two of padding; the last of the ten steps has the query of the one before it.
POSITIONS, PADDING, STEPS, STATE_SIZE = 9, 2, 10, 13
# Step 6 has the query of step 2, and position 6 is almost equal to position 2: a scorer can only distinguish them if it
# knows the previous weights.
REPEATED_STEP, REPEAT_STEP = 2, 6
HEAD = {"head": 0, "heads": 8}  # the head that a bias belongs to
LONG_POSITION = 4  # its vector is longer than the rest
FIT_STEPS, LEARNING_RATE = 40, 0.03
WIDTHS = ("query_size", "memory_size", "state_size", "context_size", "token_size")
TAGS = 4
MIXER_SIZE = 24  # four heads divide it, of an even width
HEADS_WIDTH = 16  # two heads divide it, of two maps each
# One row of scores, of which the last two are not allowed, and the score that a rising one passes.
SCORE_ROW, ALLOWED_COUNT = (0.5, 2.0, 1.6, -1.0, 0.2, -0.4, 1.0, 2.5, 0.3), 7
FIXED_SCORE = 1.0
RISING_SCORES = torch.linspace(FIXED_SCORE - 4, FIXED_SCORE + 4, 161).double().numpy()


class Reading(NamedTuple):
    """Attention of the example's queries over its memory, in arrays (t, m); ``gain`` is a factor of the weights.

    ``columns`` label the memory positions, of which the last ones are decoder states; parameters may have been fitted.
    """

    scores: Numbers
    allowed_mask: NDArray[np.bool_]
    gain: Numbers | None
    weights: Numbers
    columns: Sequence[str]
    decoder_states: int = 0
    is_fitted: bool = False


def build_part(variant: PartVariant, width: int = STATE_SIZE) -> Any:
    """The part for vectors of one width, with the initial parameters of seed 0, in evaluation.

    Raises:
        UserError: it cannot be imported, or it refuses its options.
    """
    sizes = {**dict.fromkeys(WIDTHS, width), "tags": TAGS, **HEAD}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return registry.build(variant.part.kind, variant.spec, **sizes).eval()


@functools.cache
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


def composition(variant: PartVariant) -> dict[str, Any]:
    """What the example reads with: a recurrent normalizer needs a scorer that learns when to move on."""
    if variant.part.kind == "attention":
        return dict(variant.options)
    scorer = {"scorer": "additive"} if variant.part.kind == "normalizer" else {}
    return {**scorer, variant.part.kind: variant.spec}


def read_example(
    scorer: PartSpec = "dot",
    scope: PartSpec = "global",
    normalizer: PartSpec = "softmax",
    bias: PartSpec | None = None,
    **options: Any,
) -> Reading:
    """Apply a composition to the example, with options of attention, after a short fit of its parameters, if any."""
    sizes = {"query_size": STATE_SIZE, "memory_size": STATE_SIZE}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = build(scorer=scorer, scope=scope, normalizer=normalizer, **sizes, **options)
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


def head_maps(attention: PartSpec) -> dict[str, Numbers]:
    """(t, m) the weights of two heads and their mean, or of a head that subtracts: its two maps and their difference.

    Heads compare by ``scaled`` and are fitted: the squares of what their weights lack of 1 at the targets, of what they
    have elsewhere, become smaller. The share that is subtracted stays what it is at first, so that it can be seen.
    """
    name, options = registry.parse_spec("attention", attention)
    node, maps = {"name": name, **registry.check("attention", name, {"heads": 2, **options})}, []
    queries, states = (F.pad(vectors, (0, HEADS_WIDTH - STATE_SIZE)) for vectors in example_states())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        heads = build_attention("scaled", "global", "softmax", HEADS_WIDTH, HEADS_WIDTH, HEADS_WIDTH, node)
    if (difference := getattr(heads, "difference", None)) is not None:
        difference.register_forward_pre_hook(lambda module, inputs: maps.append(inputs[0].weights))
    target = F.one_hot(target_positions(), POSITIONS + PADDING).float()

    def read() -> Tensor:
        maps.clear()
        memory = heads.make_memory(states, torch.arange(POSITIONS + PADDING)[None] < POSITIONS)
        weights = heads(queries, memory, need_weights=True).weights
        assert weights is not None
        return weights

    maps_alone = [weight for name, weight in heads.named_parameters() if not name.startswith("difference.")]
    optimizer = torch.optim.Adam(maps_alone, lr=LEARNING_RATE)
    for _ in range(FIT_STEPS):
        optimizer.zero_grad()
        (read() - target).square().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        weights = read()[0]
    names, shown = ("head 1", "head 2", "mean"), (*weights, weights.mean(0))
    if maps:
        names, shown = ("first", "second", "difference"), (*maps[0][0, :2].detach(), weights[0])
    return dict(zip(names, map(_numbers, shown), strict=True))


def mixer_shares(mixer: PartSpec) -> tuple[Numbers, Numbers]:
    """(t, t) the length of the derivative of what each step reads by each step's vector, and its shares of a row.

    The steps are the queries of the example, with noise in units that they lack; parameters are initial.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        part = registry.build("mixer", mixer, hidden_size=MIXER_SIZE).eval()
        states = torch.cat([example_states()[0], torch.randn(1, STEPS, MIXER_SIZE - STATE_SIZE)], -1)
    derivatives = torch.autograd.functional.jacobian(lambda inputs: part(inputs)[0], states)  # type: ignore[no-untyped-call]
    lengths = derivatives[0, :, :, 0].square().sum((1, 3)).sqrt()  # (t, d, t, d) -> (t, t)
    return _numbers(lengths), _numbers(lengths / lengths.sum(-1, keepdim=True))


def row_weights(normalizer: PartSpec) -> Numbers:
    """(m,) the weights of the row of scores."""
    return _normalize(normalizer, np.array([SCORE_ROW]), np.arange(len(SCORE_ROW))[None] < ALLOWED_COUNT).ravel()


def rising_weights(normalizer: PartSpec) -> Numbers:
    """(n,) the weight of the first of two positions as its score rises past that of the second."""
    pairs = np.stack([RISING_SCORES, np.full_like(RISING_SCORES, FIXED_SCORE)], axis=-1)
    return _normalize(normalizer, pairs, np.full(pairs.shape, True))[:, 0]


def _normalize(normalizer: PartSpec, scores: Numbers, allowed_mask: NDArray[np.bool_]) -> Numbers:
    part = registry.build("normalizer", normalizer).eval()
    with torch.no_grad():
        weights = part(torch.tensor(scores, dtype=torch.float32), torch.from_numpy(allowed_mask))
    return np.asarray(weights.double().numpy())


def query_vectors(variant: PartVariant) -> Numbers:
    """(t, size) what a query input makes of the steps of the example.

    Raises:
        UserError: it refuses its options.
    """
    part = build_part(variant)
    with torch.no_grad():
        made, step = Query([part]), example_context()
        query: Numbers = made.advance(step, made.init_carries(step.token))[0][0].double().numpy()
    return query


def example_context() -> QueryContext:
    """The steps of the example: its queries are the decoder's states, its contexts what ``dot`` reads with them."""
    states, memory = example_states()
    contexts = torch.from_numpy(read_example(scorer="dot").weights).float()[None] @ memory
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokens = torch.randn(1, STEPS, STATE_SIZE)
    return QueryContext(
        token=tokens,
        prev_state=_delay(states),
        state=states,
        context=_delay(contexts),
        tag=torch.ones(1, STEPS, dtype=torch.int64),
    )


def _delay(vectors: Tensor) -> Tensor:
    """(b, t, d) vectors of the step before; zeros at the first step."""
    return torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, :-1]], dim=1)
