"""The model ``transformer``: layers that read each other's states and their own stream, with no recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import AttentionOutput, Memory
from attnx.attention.memory import concat_sources
from attnx.errors import UserError
from attnx.models.seq2seq.state import Output
from attnx.models.state_ops import index_select_tree
from attnx.models.transformer.build import layers_of, places_of, vectors_of
from attnx.models.transformer.config import resolve
from attnx.models.transformer.layer import SequenceChunk, StackOutput, WeightsRequest, joined
from attnx.nn.position_encoding import PositionEncoding
from attnx.nn.targets.build import build_target
from attnx.nn.targets.symbols import Symbols
from attnx.registry import Choice, Positive, Probability, Size, register


class TransformerState(NamedTuple):
    """Where a transformer stands; every tensor has the batch as its first axis, so that rows can be reordered.

    Attributes:
        own: of each layer what it remembers of the stream, which grows by a position a step.
        source: of each layer what it remembers of the source; empty where that is in the stream.
        told: (b, width) what is added at every step: the embedded tag; width 0 unless ``model.tag_inputs`` says so.
        first: (b,) int64, the position of the first step.
        at: (b,) int64, how many steps were taken.
        shared: how many rows, which lie together, share a row of the source.
    """

    own: tuple[Memory, ...]
    source: tuple[Memory, ...]
    told: Tensor
    first: Tensor
    at: Tensor
    shared: int = 1


@register("model", "transformer")
class Transformer(nn.Module):
    """Layers of attention and feed-forward maps: a source's and a target's that reads it, or one stream of both.

    Formula: ``p(y_t | y_<t, x) = softmax(O h_t), h = layers(e(y_<t) sqrt(d) + positions; layers(e(x) sqrt(d) +
        positions))``, or of numbers ``y_t = O h_t``
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; one stream, Liu et al. 2018,
        https://arxiv.org/abs/1801.10198

    ``form=decoder_only`` reads the source, a separator (BOS), and writes the target in one stream; the source's
    positions read each other, with ``scope=history`` only those before them. There are ``layers`` of each kind, of the
    encoder ``encoder_layers`` if given; ``feedforward_size`` is 4 * ``hidden_size`` if left out. ``norm=pre``
    normalizes before each part, ``post`` after each sum. ``position_encoding`` are added to what is read, or
    (``rotary``) turn queries and keys of self-attention; ``max_positions`` is how many are ``learned`` (512).
    ``self_scorer``, ``cross_scorer`` and the like choose for one place, by name or as ``{name: local, window: 5}``.
    ``tag_inputs`` names whose inputs are told the row's tag (its language), by an embedding that is added.
    ``tie_embeddings`` makes the output layer the target embedding.
    """

    uses = ("attention", "scorer", "scope", "query", "normalizer")
    config_module = "attnx.models.transformer.config"

    def __init__(
        self,
        config: Mapping[str, Any],
        source_symbols: Size,
        source_features: Size,
        target_symbols: Size,
        target_features: Size,
        tags: Size,
        form: Literal["encoder_decoder", "decoder_only"] = "encoder_decoder",
        hidden_size: Positive = 256,
        layers: Positive = 3,
        encoder_layers: Positive | None = None,
        feedforward_size: Positive | None = None,
        activation: Literal["relu", "gelu", "silu"] = "relu",
        norm: Literal["pre", "post"] = "pre",
        position_encoding: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal",
        max_positions: Positive | None = None,
        self_scorer: Choice | None = None,
        cross_scorer: Choice | None = None,
        self_scope: Choice | None = None,
        cross_scope: Choice | None = None,
        self_normalizer: Choice | None = None,
        cross_normalizer: Choice | None = None,
        tag_inputs: list[Literal["encoder", "decoder"]] | None = None,
        tie_embeddings: bool = False,
        dropout: Probability = 0.1,
    ) -> None:
        super().__init__()
        self.chosen = chosen = resolve(config)
        if tag_inputs and not tags:
            raise UserError(
                "model.tag_inputs needs data with tags, such as task.train=FOLDER with a file a language; these "
                "have none"
            )
        if tie_embeddings and target_features:
            raise UserError(
                "model.tie_embeddings=true shares an embedding of symbols, but the target is made of features; "
                "leave it out"
            )
        self.sources, self.dropout, self.told = chosen.sources, dropout, tuple(tag_inputs or ())
        self.target = build_target(config.get("task", {}), target_symbols, target_features)
        vectors: Any = self.target.embedding(hidden_size)
        self.embedding: Any = vectors_of(vectors)
        self.tags = nn.Embedding(tags, hidden_size) if tag_inputs else None
        self.source = None
        if "encoder" in chosen.sources:
            inputs = (
                nn.Linear(source_features, hidden_size)
                if source_features
                else Symbols(source_symbols).embedding(hidden_size)
            )
            self.source = vectors_of(inputs)
        self.encoder = layers_of(config, chosen.own, None, chosen.encoder) if chosen.encoder else None
        self.decoder = layers_of(config, chosen.own, chosen.cross, chosen.decoder)
        # One stream has one row of positions.
        self.places = nn.ModuleList(places_of(config) for _ in range(1 if self.encoder is None else 2))
        self.output = nn.Linear(hidden_size, self.target.width, bias=not tie_embeddings)
        if tie_embeddings:
            self.output.weight = self.embedding.weight

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights that are handed out sum to 1, as far as their normalizer says so."""
        layer = self.decoder.layers[0]
        heads = layer.own if layer.cross is None else layer.cross
        return bool(getattr(heads.each[0].normalizer, "sums_to_one", False))

    def forward(
        self,
        source: Tensor,
        present: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        sampling: float = 0.0,
        need_weights: bool = False,
    ) -> Output:
        """Score a target that is known, all steps at once.

        Args:
            source: (b, s) symbols, or (b, s, features).
            present: (b, s) bool.
            inputs: (b, t, ...) what is read: ``target.first``, then the target but for its last step.
            tag: (b,) int64, the number of each row's tag; 0 if left out.
            sampling: 0; to read its own outputs a transformer would have to step.
            need_weights: also return the weights (b, layers h, t, m).
        """
        state = self.init_state(source, present, tag)
        at = torch.arange(inputs.shape[1], device=inputs.device)
        passed = self._written(inputs, at[None], state, WeightsRequest(need_weights))
        return Output(self.output(passed.states), joined(passed.weights), None)

    def init_state(self, source: Tensor, present: Tensor, tag: Tensor | None = None) -> TransformerState:
        """(b, s) symbols, (b, s) bool and (b,) tags -> the state before the first step."""
        rows, told = source.shape[0], self._told(source, tag)
        none = self.output.weight.new_zeros(rows, 0)
        own, first = self.decoder.nothing(rows, self.output.weight), present.new_zeros(rows).long()
        read: tuple[Memory, ...] = ()
        if self.source is not None:
            stretch, states = self._read(source, present, told)
            if self.encoder is None:
                stream = self.decoder.remember(states, stretch)
                own, first = tuple(map(concat_sources, stream, own)), present.sum(-1)
            else:
                read = self._across(self.encoder(states, stretch).states, present)
        return TransformerState(
            own=own,
            source=read,
            told=none if told is None or "decoder" not in self.told else told,
            first=first,
            at=torch.zeros_like(first),
        )

    def decode_step(
        self, inputs: Tensor, state: TransformerState, need_weights: bool = False
    ) -> tuple[Tensor, TransformerState, AttentionOutput]:
        """Take one step: (b, ...) the last one -> the next one as predicted, the state after, and what was read.

        Of symbols: ids (b,) -> log-probabilities (b, symbols).
        """
        passed = self._written(inputs[:, None], state.at[:, None], state, WeightsRequest(need_weights))
        after = state._replace(own=passed.memories, at=state.at + 1)
        predicted = self.target.predict(self.output(passed.states[:, 0]))
        return predicted, after, AttentionOutput(passed.states, joined(passed.weights))

    def of_itself(
        self, source: Tensor, present: Tensor, inputs: Tensor, tag: Tensor | None = None
    ) -> dict[str, Tensor]:
        """What each stream reads of itself, for pictures: ``encoder`` (b, layers h, s, s), ``decoder`` (.., t, t).

        The arguments are those of :meth:`forward`. Of one stream there is nothing: :meth:`decode_step` gives what
        it reads.
        """
        if self.encoder is None:
            return {}
        stretch, states = self._read(source, present, self._told(source, tag))
        at = torch.arange(inputs.shape[1], device=inputs.device)
        written = self._written(inputs, at[None], self.init_state(source, present, tag), WeightsRequest(own=True))
        read = {"encoder": self.encoder(states, stretch, wanted=WeightsRequest(own=True)).own, "decoder": written.own}
        return {stream: torch.cat(weights, dim=1) for stream, weights in read.items()}

    def select_rows(self, state: TransformerState, rows: Tensor) -> TransformerState:
        """The state of these rows, int64, which may repeat; of rows that share a source all or none."""
        source = index_select_tree(state.source, rows if state.shared == 1 else rows[:: state.shared] // state.shared)
        return index_select_tree(state._replace(source=()), rows)._replace(source=source)

    def reorder_beams(self, state: TransformerState, rows: Tensor) -> TransformerState:
        """The state of these rows, as many of each source and those of one together: they share what was encoded."""
        shared = len(rows) * state.shared // len(state.at)
        return index_select_tree(state._replace(source=()), rows)._replace(source=state.source, shared=shared)

    def _told(self, source: Tensor, tag: Tensor | None) -> Tensor | None:
        """(b, width) the embedded tags of these sources' rows, if there are any."""
        if self.tags is None:
            return None
        told: Tensor = self.tags(source.new_zeros(len(source), dtype=torch.int64) if tag is None else tag)
        return told

    def _read(self, source: Tensor, present: Tensor, told: Tensor | None) -> tuple[SequenceChunk, Tensor]:
        """The source (b, s, ...) as a stretch, and its vectors (b, s, width)."""
        assert self.source is not None
        places, at = self._places[0], torch.arange(source.shape[1], device=source.device)
        if source.is_floating_point():  # what stands in padding may be no number
            source = source.masked_fill(~present[..., None], 0.0)
        states = self._vectors(self.source, source, places, at[None], told if "encoder" in self.told else None)
        return SequenceChunk(at, places.rotary(at[None]), present, self.chosen.ahead), states

    def _across(self, states: Tensor, present: Tensor) -> tuple[Memory, ...]:
        """What each of the target's layers remembers of the encoded source."""
        crossing = (layer.cross for layer in self.decoder.layers)
        return tuple(cross.remember(states, present) for cross in crossing if cross is not None)

    def _written(self, inputs: Tensor, at: Tensor, state: TransformerState, wanted: WeightsRequest) -> StackOutput:
        """Send steps (b, t, ...) at (b or 1, t) through the target's layers."""
        places, stands = self._places[-1], at + state.first[:, None]
        told = state.told if state.told.shape[1] else None
        states = self._vectors(self.embedding, inputs, places, stands, told)
        stretch = SequenceChunk(at if len(at) > 1 else at[0], places.rotary(stands), shared=state.shared)
        passed: StackOutput = self.decoder(states, stretch, state.own, state.source, wanted)
        return passed

    def _vectors(
        self, embedding: nn.Module, steps: Tensor, places: PositionEncoding, at: Tensor, told: Tensor | None
    ) -> Tensor:
        """Embed (b, t, ...) and tell each step where it stands, and what it is told besides (b, width)."""
        vectors = embedding(steps)
        if isinstance(embedding, nn.Embedding):
            vectors = vectors * places.hidden_size**0.5
        for more in (places.additive(at), None if told is None else told[:, None]):
            vectors = vectors if more is None else vectors + more
        return F.dropout(vectors, self.dropout, self.training)

    @property
    def _places(self) -> list[PositionEncoding]:
        return list(self.places)  # type: ignore[arg-type]
