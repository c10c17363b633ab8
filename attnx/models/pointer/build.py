"""Build a pointer network from a configuration: ``model=pointer``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attnx import registry
from attnx.attention import Attention
from attnx.models.pointer.config import resolve_pointer
from attnx.models.pointer.constraints import PositionTarget
from attnx.models.pointer.model import Pointer
from attnx.models.resolve import require_tags
from attnx.models.seq2seq.build import build_query_and_attention
from attnx.nn.bridges import BRIDGES
from attnx.nn.source_encoder import SourceEncoder
from attnx.nn.targets.build import source_spec
from attnx.registry import Size, Width, register


@register(
    "model",
    "pointer",
    resolver=".config.resolve_pointer",
    uses=("encoder", "decoder", "attention", "scorer", "scope", "query", "normalizer"),
)
def build_pointer(
    config: Mapping[str, Any],
    source_symbols: Size,
    source_features: Size,
    target_symbols: Size,
    tags: Size,
    embedding_dim: Width = 64,
    constraint: Literal["any", "distinct", "permutation", "ring"] = "any",
    bridge: Literal["last", "zeros", "learned"] = "last",
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto",
) -> Pointer:
    """A pointer network, which outputs positions of its source: attention's scores are the output distribution.

    Formula: ``p(C_t | C_<t, P) = softmax(u_t), u_tj = score(d_t, e_j)``, e the encoder's states, d the decoder's
    Source: Vinyals et al. 2015, section 2.3, https://arxiv.org/abs/1506.03134

    Any scorer will do; the paper's is ``v . tanh(W d + U e)``. The decoder reads the encoder's input at the previous
    position, of width ``embedding_dim``. The end of the output is one more position, with a learned key. Ids are those
    of symbols: the end is EOS, position s is 4 + s. ``constraint`` says which outputs have a probability, in training
    and in decoding: ``any``; ``distinct`` positions; each position once, a ``permutation``; or distinct ones and then
    the first again, a ``ring``. The scope restricts the positions; softmax's temperature divides the scores. There is
    no context, so nothing is fed to the recurrence and there is no readout.
    """
    resolved = resolve_pointer({**config, "model": {"constraint": constraint, "schedule": schedule}})
    if resolved.needs_tags:
        require_tags(tags, "query=language_tag")
    embedding = source_spec(source_symbols, source_features).embedding(embedding_dim)
    encoder = registry.build("encoder", config["encoder"], input_size=embedding_dim)
    source = SourceEncoder(
        embedding, encoder, embedding_dim, keys_from="states", values_from="inputs", positions=0, dropout=0.0
    )
    decoder = registry.build("decoder", config["decoder"], input_size=embedding_dim)
    first_state = BRIDGES[bridge](decoder, source.final_size)
    sizes = {"state_size": decoder.size, "token_size": embedding_dim, "context_size": embedding_dim, "tags": tags}
    query, attention = build_query_and_attention(config, sizes, source.keys_size)
    assert isinstance(attention, Attention)
    target = PositionTarget(target_symbols, constraint)
    return Pointer(source, target, first_state, query, attention, decoder, schedule)
