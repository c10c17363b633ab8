"""Build attention from names, in one call and without any configuration file."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Literal

import torch
from torch import nn

from attnx import registry
from attnx.attention.attention import Attention
from attnx.attention.contracts import AttentionParts
from attnx.attention.hops import Hops
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.options import AttentionOptions, check_heads, shared_scope_options, unshared_keys
from attnx.errors import UserError
from attnx.registry import Depth, PartSpec, PositiveFloat, PositiveInt, Probability, Size, register

PartChoice = PartSpec | nn.Module
PartChoices = tuple[PartChoice, PartChoice, PartChoice]
ComposedAttention = Attention | MultiHeadAttention | Hops
SCORER_MEMBERS = ("requires_equal_dims", "project_keys", "project_queries", "score")
"""What an instance has to have, to be a scorer; scopes and normalizers are called."""


def build(
    *,
    query_size: int,
    memory_size: int,
    scorer: PartChoice = "additive",
    scope: PartChoice = "global",
    normalizer: PartChoice = "softmax",
    values_size: int | None = None,
    **options: float | PartSpec,
) -> ComposedAttention:
    """Compose an attention module.

    A part is given by name, by name and options, ``("mlp", {"depth": 2})``, or as an instance.

    Args:
        query_size: width of the queries.
        memory_size: width of the memory's states.
        scorer: how relevant a position is.
        scope: which positions may be read.
        normalizer: how scores become weights.
        values_size: width of the values where they are not the memory's states; heads need to know it.
        options: as in :func:`build_standard`: ``heads``, ``hops``, ``dropout``, ``bias``, ``softcap`` and others.

    Raises:
        UserError: an unknown part or option, a width or number that cannot be, a scorer that needs equal widths and has
            unequal ones, or heads that do not divide the widths.
    """
    values_size = memory_size if values_size is None else values_size
    for what, size in {"query_size": query_size, "memory_size": memory_size, "values_size": values_size}.items():
        if type(size) is not int or size < 1:
            raise UserError(f"{what}={size!r}: expected a whole number, 1 or more")
    checked = registry.check("attention", "standard", {"projection": "never", **options})
    return build_attention(scorer, scope, normalizer, query_size, memory_size, values_size, checked)


def build_attention(
    scorer: PartChoice,
    scope: PartChoice,
    normalizer: PartChoice,
    query_size: int,
    memory_size: int,
    values_size: int,
    options: Mapping[str, Any],
    layer: int = 0,
    min_projected_heads: int = 2,
) -> ComposedAttention:
    """Build the parts, given as in :func:`build`, and the attention that they compose.

    ``layer`` is its place in the model, from 0; heads are projected from ``min_projected_heads`` of them on.
    """
    attention: ComposedAttention = registry.build(
        "attention",
        {"name": "standard", **options},
        scorer=scorer,
        scope=scope,
        normalizer=normalizer,
        query_size=query_size,
        memory_size=memory_size,
        values_size=values_size,
        layer=layer,
        min_projected_heads=min_projected_heads,
    )
    return attention


@register("attention", "standard", read_if={"chunk_mib": "accel=auto"})
def build_standard(
    scorer: PartChoice,
    scope: PartChoice,
    normalizer: PartChoice,
    query_size: Size,
    memory_size: Size,
    values_size: Size,
    min_projected_heads: Size,
    projection: Literal["auto", "never"] = "auto",
    dropout: Probability = 0.0,
    heads: Depth = 1,
    bias: PartSpec | None = None,
    chunk_mib: PositiveInt = 64,
    hops: Depth = 1,
    softcap: PositiveFloat | None = None,
    kv_heads: Depth | None = None,
    qk_norm: Literal["none", "l2", "rms"] = "none",
    head_scorers: list[PartSpec] | None = None,
    head_scopes: list[PartSpec] | None = None,
    head_normalizers: list[PartSpec] | None = None,
) -> ComposedAttention:
    """Score the memory, mask what is out of scope, normalize, and sum the values by their weights.

    Formula: ``context(q) = sum_m normalize(score(q, m) + bias(q, distance of m) over the scope)(m) value(m)``
    Source: Bahdanau et al. 2015, equations 5 and 6, https://arxiv.org/abs/1409.0473

    ``projection=auto`` adds one linear map from the query's width to the memory's if the scorer needs equal widths
    and they differ; ``never`` refuses instead. ``dropout`` drops weights after normalizing. ``heads`` above 1 attend
    side by side, each with its own parts over narrower projections of query and memory
    (:mod:`attnx.attention.multi_head`). ``bias`` names what the distance of a position from the query's step adds to
    its score. ``chunk_mib`` is how many MiB hidden layers of scores may take at a time with ``accel=auto``; larger ones
    are computed in chunks, and again for the gradients. ``hops`` above 1 read the memory again, each time with a query
    that the last read has refined (:mod:`attnx.attention.hops`). ``softcap`` c bounds the scores of any scorer by
    c tanh(score / c), before the bias is added (Bello et al. 2016, section 4; Gemma 2, 2024, section 2). ``kv_heads``
    is how many heads of keys and values there are, each read by a group of heads: fewer of them save memory in decoding
    (Ainslie et al. 2023, https://arxiv.org/abs/2305.13245; one: Shazeer 2019, https://arxiv.org/abs/1911.02150).
    ``qk_norm`` normalizes queries and keys of each head before their positions rotate them: ``rms`` to a mean square of
    1 times learned weights, ``l2`` to length 1, the queries times a learned number that starts at the root of the width
    (Henry et al. 2020, https://arxiv.org/abs/2010.04245, with ``scorer=dot``). ``head_scorers``, ``head_scopes`` and
    ``head_normalizers`` name parts for the heads in turn, repeated, instead of one for all: ``[local,global]``. Scopes
    keep the sources of ``scope``.

    >>> import torch
    >>> from attnx.attention import build
    >>> attention = build(scorer="additive", scope="local", query_size=13, memory_size=26)
    >>> memory = attention.make_memory(torch.ones(2, 5, 26))
    >>> output = attention(torch.ones(2, 3, 13), memory, need_weights=True)
    >>> output.context.shape, output.weights.shape
    (torch.Size([2, 3, 26]), torch.Size([2, 3, 5]))
    """
    choices = scorer, scope, normalizer
    options = AttentionOptions(
        projection, dropout, bias, chunk_mib, softcap, kv_heads, qk_norm, head_scorers, head_scopes, head_normalizers
    )
    check_heads({"heads": heads, **vars(options)}, scorer, scope, min_projected_heads)
    attention: Attention | MultiHeadAttention
    if heads < min_projected_heads:
        attention = _build_single(choices, query_size, memory_size, options)
    else:
        attention = build_multi_head(choices, query_size, memory_size, values_size, heads, options)
    return attention if hops == 1 else Hops(attention, hops, query_size, values_size)


def build_multi_head(
    choices: PartChoices, query_size: int, memory_size: int, values_size: int, heads: int, options: AttentionOptions
) -> MultiHeadAttention:
    """Build heads with projections around them, even if there is but one."""
    for what, size in {"values": values_size, "memory": memory_size}.items():
        if size % heads:
            reason = f"does not divide the width of the {what}, {size}"
            raise UserError(f"attention.heads={heads} {reason}; choose another number of heads")
    width, kv_heads = memory_size // heads, options.kv_heads or heads
    single_heads = build_heads(choices, width, heads, options)
    first = single_heads[0].scorer
    if kv_heads < heads and first.project_keys(torch.zeros(1, 1, width)).requires_grad:
        raise unshared_keys(registry.registered_name("scorer", type(first)) or type(first).__name__, kv_heads)
    return MultiHeadAttention(single_heads, query_size, memory_size, values_size, options)


def build_heads(choices: PartChoices, width: int, heads: int, options: AttentionOptions) -> list[Attention]:
    """Build so many heads for queries and memories of a width, of the same choices, or of those listed for heads."""
    scorer, scope, normalizer = choices
    scopes: Sequence[PartChoice] = [_with_sources(listed, scope) for listed in options.head_scopes or ()] or [scope]
    scorers: Sequence[PartChoice] = options.head_scorers or [scorer]
    normalizers: Sequence[PartChoice] = options.head_normalizers or [normalizer]
    # Copied, so that heads which are built from an instance do not share its parameters.
    return [
        _build_single(copy.deepcopy(parts), width, width, options, head, heads)
        for head, parts in zip(
            range(heads), zip(cycle(scorers), cycle(scopes), cycle(normalizers), strict=False), strict=False
        )
    ]


def _with_sources(scope: PartSpec, of: PartChoice) -> PartSpec:
    """A scope that is listed for a head, with the sources of the one chosen for all, where it has such options."""
    name, options = registry.parse_spec("scope", scope)
    known = {option.name for option in registry.describe("scope", name).options}
    return name, {**options, **{key: value for key, value in shared_scope_options(of).items() if key in known}}


def _build_single(
    choices: PartChoices, query_size: int, memory_size: int, options: AttentionOptions, head: int = 0, heads: int = 1
) -> Attention:
    scorer, scope, normalizer = choices
    # A scorer that needs equal widths sees queries that were projected to the memory's.
    needs_equal = False
    if isinstance(scorer, nn.Module):
        if missing := [name for name in SCORER_MEMBERS if not hasattr(scorer, name)]:
            what = f"scorer: {type(scorer).__name__} has no {missing[0]}"
            raise UserError(f"{what}; docs/add-a-part.md says what a scorer has")
    else:
        declared = registry.declarations("scorer", registry.parse_spec("scorer", scorer)[0])
        needs_equal = bool(declared["requires_equal_dims"])
    scorer_sizes = {"query_size": memory_size if needs_equal else query_size, "memory_size": memory_size}
    scorer_part: Any = _build_part("scorer", scorer, **scorer_sizes)
    scope_part: Any = _build_part("scope", scope, query_size=query_size, memory_size=memory_size)
    normalizer_part: Any = _build_part("normalizer", normalizer)
    bias: Any = options.bias
    if bias is not None:
        bias = registry.build("bias", bias, query_size=query_size, head=head, heads=heads)
    if options.projection == "never" and query_size != memory_size and scorer_part.requires_equal_dims:
        name = registry.registered_name("scorer", type(scorer_part)) or type(scorer_part).__name__
        raise UserError(
            f"the scorer {name!r} needs equal widths, but the query has {query_size} and the memory {memory_size}; use "
            "attention.projection=auto, another scorer, or equal sizes"
        )
    parts = AttentionParts(scorer_part, scope_part, normalizer_part, bias)
    return Attention(parts, query_size, memory_size, options.dropout, options.chunk_mib, options.softcap)


def _build_part(kind: str, choice: PartChoice, **supplied: int) -> nn.Module:
    part = choice if isinstance(choice, nn.Module) else registry.build(kind, choice, **supplied)
    assert isinstance(part, nn.Module)
    return part
