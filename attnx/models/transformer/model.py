"""The transformer: an encoder and a decoder, or one decoder that reads the source as a prefix."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice, starmap
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx import registry
from attnx.attention import AttentionOutput, Memory
from attnx.attention.factory import build_attention
from attnx.attention.hops import Hops
from attnx.attention.memory import concat_sources
from attnx.attention.multi_head import MultiHeadAttention
from attnx.data.vocabulary import PAD
from attnx.errors import UserError
from attnx.models.sequence_model import Output, SequenceModel, index_select_tree
from attnx.models.transformer.config import TransformerConfig
from attnx.models.transformer.layer import (
    LayerAttention,
    LayerMemory,
    SequenceChunk,
    Site,
    StackOutput,
    TransformerLayer,
    TransformerStack,
)
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.contracts import TargetSpec
from attnx.nn.position_encoding import PositionEncoding
from attnx.nn.source_encoder import zero_feature_padding
from attnx.nn.sublayers import NORMS, FeedForward, Residual

DEFAULT_PARTS = TransformerParts()
DEFAULT_MAX_POSITIONS = 512
"""Number of learned positions; later ones share the last."""


class TransformerState(NamedTuple):
    """The state of step-by-step decoding; every tensor has the batch as its first axis."""

    # what each decoder layer keeps of earlier positions: attention's grow by one a step, a mixer's do not
    self_memories: tuple[LayerMemory, ...]
    cross_memories: tuple[Memory, ...]  # of cross-attention in each decoder layer; empty without an encoder
    tag_embedding: Tensor | None  # (b, hidden_size) added to every input; None unless ``tag_inputs`` has ``decoder``
    offset: Tensor  # (b,) int64, the position of the first step: the length of the source in a decoder-only model
    step: Tensor  # (b,) int64, the number of steps taken


class Transformer(SequenceModel[TransformerState]):
    """Layers of attention and feed-forward maps: an encoder and a decoder, or a decoder alone.

    Without an encoder (``form=decoder_only``) the decoder reads the source, a separator (BOS) and the target as one
    sequence; positions of the source attend to each other in both directions, unless ``options.prefix`` is causal.

    Args:
        source: what a source step is: ``Symbols(23)``, or ``Numbers(3)`` for rows of 3 features; None without a source.
        target: what a target step is.
        options: those of the model; what its parts replace has no effect.
        parts: the parts of all layers.
        num_tags: number of tags (such as languages) that rows can have, for ``options.tag_inputs``.

    >>> from attnx.nn.targets.symbols import Symbols
    >>> model = Transformer(Symbols(23), Symbols(17), TransformerConfig(hidden_size=16, layers=6))
    >>> source, inputs = torch.tensor([[5, 7, 11]]), torch.tensor([[1, 13]])
    >>> model(source, source > 0, inputs).logits.shape, len(model.decoder.layers)
    (torch.Size([1, 2, 17]), 6)
    """

    def __init__(
        self,
        source: TargetSpec | None,
        target: TargetSpec,
        options: TransformerConfig,
        parts: TransformerParts = DEFAULT_PARTS,
        num_tags: int = 0,
    ) -> None:
        super().__init__()
        encoder_layers = 0 if options.form == "decoder_only" else options.encoder_layers or options.layers
        if encoder_layers and source is None:
            raise ValueError("an encoder needs a source; use form=decoder_only")
        size, tie_embeddings = options.hidden_size, options.tie_embeddings
        self.target, self.dropout, self.tag_inputs = target, options.dropout, tuple(options.tag_inputs or ())
        self.sources = ("encoder",) if encoder_layers else ("encoder", "decoder") if source else ("decoder",)
        self.site: Site = "cross" if encoder_layers else "self"
        is_causal_prefix = options.prefix == "causal" and not encoder_layers
        self.is_bidirectional = not (parts.self_attention.is_causal or is_causal_prefix)
        self.embedding = _init_embedding(target.embedding(size))
        self.tags = nn.Embedding(num_tags, size) if options.tag_inputs else None
        self.source_embedding = None if source is None else _init_embedding(source.embedding(size))
        self.encoder = _build_stack(options, parts, encoder_layers, has_source=False) if encoder_layers else None
        self.decoder = _build_stack(options, parts, options.layers, has_source=encoder_layers > 0)
        self.source_positions = _build_positions(options, parts)
        self.target_positions = _build_positions(options, parts) if encoder_layers else self.source_positions
        self.output = nn.Linear(size, target.width, bias=options.linear_bias and not tie_embeddings)
        self.marked_states = target.marked_states(size)
        if tie_embeddings:
            self.output.weight = self.embedding.weight  # type: ignore[assignment]
        attentions = (layer.cross_attention or layer.self_attention for layer in self.decoder.layers)
        self.is_distribution = all(attention.is_distribution for attention in attentions if attention is not None)

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
        output_mask: Tensor | None = None,
    ) -> Output:
        """Score a target under teacher forcing, all steps at once; weights (b, layers h, t, m) of those that attend.

        ``source_lengths`` have no effect.
        """
        state = self.init_state(source, source_mask, tag)
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        decoded = self._decode(inputs, steps[None], state, self.site if need_weights else None)
        states = decoded.states if output_mask is None else self.marked_states(decoded.states, output_mask)
        return Output(self.output(states), _join_layers(decoded.weights), None)

    def init_state(self, source: Tensor, source_mask: Tensor, tag: Tensor | None = None) -> TransformerState:
        """The state before the first step, from (b, s) symbols, (b, s) bool and (b,) tags."""
        tag_embedding = self._tag_embedding(source, tag)
        rows = source.shape[0]  # not len(), which an exported trace would fix
        memories = tuple(layer.empty_memory(rows, self.output.weight) for layer in self.decoder.layers)
        offset = torch.zeros(rows, dtype=torch.int64, device=source.device)
        sources: tuple[Memory, ...] = ()
        if self.source_embedding is not None:
            chunk, states = self._embed_source(source, source_mask, tag_embedding)
            if self.encoder is None:
                prefix = self.decoder.make_memory(states, chunk)
                memories, offset = tuple(map(_start_last_source, prefix, memories)), source_mask.sum(-1)
            else:
                encoded: StackOutput = self.encoder(states, chunk)
                attentions = [layer.cross_attention for layer in self.decoder.layers if layer.cross_attention]
                sources = tuple(attention.make_memory(encoded.states, source_mask) for attention in attentions)
        tags = tag_embedding if "decoder" in self.tag_inputs else None
        return TransformerState(memories, sources, tags, offset, step=torch.zeros_like(offset))

    def decode_step(
        self, inputs: Tensor, state: TransformerState, need_weights: bool = False
    ) -> tuple[Tensor, TransformerState, AttentionOutput]:
        """Take one step: the previous output (b, ...) -> predictions (b, ...), the next state, and the attention.

        For symbols: ids (b,) -> log-probabilities (b, symbols).
        """
        site = self.site if need_weights else None
        decoded = self._decode(inputs[:, None], state.step[:, None], state, site)
        next_state = state._replace(self_memories=decoded.memories, step=state.step + 1)
        predictions = self.target.predict(self.output(decoded.states[:, 0]))
        return predictions, next_state, AttentionOutput(decoded.states, _join_layers(decoded.weights))

    def self_attention_weights(
        self, source: Tensor, source_mask: Tensor, inputs: Tensor, tag: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The weights of self-attention: ``encoder`` (b, layers h, s, s) and ``decoder`` (b, layers h, t, t).

        The arguments are as in :meth:`forward`. Empty without an encoder: :meth:`decode_step` returns these weights.
        """
        if self.encoder is None:
            return {}
        chunk, states = self._embed_source(source, source_mask, self._tag_embedding(source, tag))
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        decoded = self._decode(inputs, steps[None], self.init_state(source, source_mask, tag), "self")
        weights = {"encoder": self.encoder(states, chunk, site="self").weights, "decoder": decoded.weights}
        return {stream: torch.cat(layers, dim=1) for stream, layers in weights.items()}

    def reorder_beams(self, state: TransformerState, rows: Tensor) -> TransformerState:
        """As :meth:`select_rows`, of rows of the same source, whose encoding is not copied."""
        return index_select_tree(state._replace(cross_memories=()), rows)._replace(cross_memories=state.cross_memories)

    def _tag_embedding(self, source: Tensor, tag: Tensor | None) -> Tensor | None:
        """(b, hidden_size) the embedded tags, if any input needs them."""
        if self.tags is None:
            return None
        vectors: Tensor = self.tags(source.new_zeros(source.shape[0], dtype=torch.int64) if tag is None else tag)
        return vectors

    def _embed_source(
        self, source: Tensor, source_mask: Tensor, tag_embedding: Tensor | None
    ) -> tuple[SequenceChunk, Tensor]:
        """The source (b, s, ...) as a chunk, and its embeddings (b, s, hidden_size)."""
        assert self.source_embedding is not None
        encoding, steps = self.source_positions, torch.arange(source.shape[1], device=source.device)
        source = zero_feature_padding(source, source_mask)
        tags = tag_embedding if "encoder" in self.tag_inputs else None
        states = self._embed(self.source_embedding, source, encoding.additive(steps[None]), tags)
        return SequenceChunk(steps, encoding.rotary(steps[None]), source_mask, self.is_bidirectional), states

    def _decode(self, inputs: Tensor, steps: Tensor, state: TransformerState, site: Site | None) -> StackOutput:
        """Send inputs (b, t, ...) of the steps (b or 1, t) through the decoder."""
        encoding, positions = self.target_positions, steps + state.offset[:, None]
        states = self._embed(self.embedding, inputs, encoding.additive(positions), state.tag_embedding)
        chunk = SequenceChunk(steps if len(steps) > 1 else steps[0], encoding.rotary(positions))
        decoded: StackOutput = self.decoder(states, chunk, state.self_memories, state.cross_memories, site)
        return decoded

    def _embed(
        self, embedding: nn.Module, inputs: Tensor, positions: Tensor | None, tag_embedding: Tensor | None
    ) -> Tensor:
        """Embed inputs (b, t, ...), and add positions (b or 1, t, hidden_size) and tags (b, hidden_size)."""
        vectors: Tensor = embedding(inputs)
        if isinstance(embedding, nn.Embedding):
            vectors = vectors * embedding.embedding_dim**0.5
        if positions is not None:
            vectors = vectors + positions.to(vectors.dtype)
        if tag_embedding is not None:
            vectors = vectors + tag_embedding[:, None]
        return F.dropout(vectors, self.dropout, self.training)


def _init_embedding(embedding: nn.Module) -> nn.Module:
    """Initialize an embedding of symbols so that its units, scaled by the root of its width, have variance 1."""
    if isinstance(embedding, nn.Embedding):
        nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
        nn.init.zeros_(embedding.weight[PAD])
    return embedding


def _start_last_source(prefix: LayerMemory, empty: LayerMemory) -> LayerMemory:
    """What a layer keeps of a prefix, ready for the source that follows it; a mixer's state knows no sources."""
    return concat_sources(prefix, empty) if isinstance(prefix, Memory) and isinstance(empty, Memory) else prefix


def _join_layers(weights: list[Tensor]) -> Tensor | None:
    """The weights of several layers (b, h, t, m) as those of more heads; None if there are none."""
    return torch.cat(weights, 1) if weights else None


def _build_stack(
    options: TransformerConfig, parts: TransformerParts, layers: int, has_source: bool
) -> TransformerStack:
    """A stack of layers, with cross-attention if there is a source."""
    size = options.hidden_size
    # The gate is a third map: two thirds of the units make as many weights (Shazeer 2020, section 3.1).
    default_units = 8 * size // 3 if options.gated else 4 * size
    units = default_units if options.feedforward_size is None else options.feedforward_size

    def build(site: AttentionSite, name: str, layer: int) -> LayerAttention:
        known = {option.name for option in registry.describe("attention", name).options}
        shared = {option: value for option, value in parts.attention.items() if option in known}
        node = {**shared, "name": name, **({} if site.bias is None else {"bias": site.bias})}
        attention = build_attention(
            site.scorer, site.scope, site.normalizer, size, size, size, node, layer, min_projected_heads=1
        )
        assert isinstance(attention, MultiHeadAttention | Hops)
        if attention.needs_history:
            raise UserError(f"{site}: a layer computes all steps at once, and a part reads earlier ones; use others")
        return attention

    def build_layer(layer: int, choice: LayerChoice) -> TransformerLayer:
        is_mixer = choice.kind == "mixer"
        return TransformerLayer(
            build(parts.self_attention, choice.name, layer) if choice.is_attending else None,
            build(parts.cross_attention or parts.self_attention, choice.name, layer) if has_source else None,
            FeedForward(size, units, options.activation, options.gated, options.linear_bias) if units else None,
            partial(Residual, size, options.norm, options.dropout, options.norm_type),
            mixer=registry.build("mixer", (choice.name, choice.options), hidden_size=size) if is_mixer else None,
        )

    choices = islice(cycle(parts.layer_choices), layers)
    return TransformerStack(
        starmap(build_layer, enumerate(choices)),
        NORMS[options.norm_type](size) if options.norm == "pre" else nn.Identity(),
    )


def _build_positions(options: TransformerConfig, parts: TransformerParts) -> PositionEncoding:
    size, kind = options.hidden_size, options.position_encoding
    maps = parts.heads * max(choice.maps_per_head for choice in parts.layer_choices)
    max_positions = options.max_positions or DEFAULT_MAX_POSITIONS
    return PositionEncoding(size, kind, max_positions, size // maps, options.rotary_base)
