"""The configuration of a transformer: its options, and what it derives from them and its parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attnx import registry
from attnx.attention.options import parts_in_force
from attnx.errors import UserError
from attnx.models.resolve import (
    Config,
    DataSizes,
    ModelConfig,
    NoEffect,
    ResolvedConfig,
    check_tied_embeddings,
    require_attention,
    require_tags,
)
from attnx.models.transformer.layer_choices import check_one_way, resolve_layer_choices, unread_beside_mixer
from attnx.models.transformer.sites import (
    AttentionSite,
    TransformerParts,
    check_positions,
    replaced_parts,
    resolve_site,
)
from attnx.registry import Depth, PartSpec, PositiveFloat, PositiveInt, Probability, Width, register

if TYPE_CHECKING:
    from attnx.models.transformer.model import Transformer

UNSUPPORTED_QUERIES = {
    "previous_state": "a transformer has no recurrent state; its layers attend to earlier steps instead",
    "last_context": "a transformer computes all steps at once, so no step has a previous context",
    "token": "the queries of a layer are its states, which hold the token",
    "language_tag": "the queries of a layer are its states; add the tag to them by model.tag_inputs=[encoder,decoder]",
}


@register(
    "model",
    "transformer",
    uses=("attention", "scorer", "scope", "query", "normalizer"),
    read_if={
        "activation": "feedforward_size!=0",
        "gated": "feedforward_size!=0",
        "encoder_layers": "form=encoder_decoder",
        "cross_scorer": "form=encoder_decoder",
        "cross_scope": "form=encoder_decoder",
        "cross_normalizer": "form=encoder_decoder",
        "cross_bias": "form=encoder_decoder",
        "max_positions": "position_encoding=learned",
        "rotary_base": "position_encoding=rotary",
        "prefix": "form=decoder_only",
    },
    has_head_sites=True,
)
@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Layers of attention and feed-forward maps: an encoder and a decoder that reads it, or a decoder alone.

    Formula: ``p(y_t | y_<t, x) = softmax(O h_t), h = layers(e(y_<t) sqrt(d) + positions; layers(e(x) sqrt(d) +
        positions))``, or of numbers ``y_t = O h_t``
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; decoder only, Liu et al. 2018,
        https://arxiv.org/abs/1801.10198

    ``form=decoder_only`` reads the source, a separator (BOS) and the target as one sequence; positions of the source
    attend to each other in both directions, with ``prefix=causal`` or ``scope=history`` only to earlier ones. The
    decoder has ``layers``, the encoder ``encoder_layers`` or as many. Feed-forward layers have ``feedforward_size``
    units, 4 * ``hidden_size`` if left out, and with 0 there are none; ``gated`` multiplies them by a third linear map,
    and there are 8/3 times ``hidden_size``, as many weights. ``linear_bias=false`` leaves out the biases of these maps
    and of the output layer. ``norm=pre`` normalizes before each sublayer, ``post`` after each sum; ``norm_type`` is
    ``layer`` normalization or ``rms``, by the root of the mean square. ``position_encoding`` is added to the
    embeddings, or (``rotary``) rotates the queries and keys of self-attention by position / ``rotary_base``^(2i / d),
    or there is ``none``; ``max_positions`` is the number of ``learned`` ones (512), and positions beyond share the
    last. ``self_scorer``, ``cross_scorer`` and the like choose a part for self- or cross-attention alone, by name or as
    ``{name: local, window: 5}``. ``tag_inputs`` names the streams to whose embeddings the row's tag (its language) is
    added. ``tie_embeddings`` makes the target embedding the weight of the output layer.
    ``mixer`` names what the layers of a decoder-only model hold instead of the chosen attention: one name, such as
    ``linear`` or ``{name: linear, heads: 2}``, or a list by layer that is repeated, ``[linear,standard]``.
    """

    form: Literal["encoder_decoder", "decoder_only"] = "encoder_decoder"
    hidden_size: Width = 256
    layers: Depth = 3
    encoder_layers: Depth | None = None
    feedforward_size: Width | Literal[0] | None = None
    activation: Literal["relu", "gelu", "silu"] = "relu"
    gated: bool = False
    linear_bias: bool = True
    norm: Literal["pre", "post"] = "pre"
    norm_type: Literal["layer", "rms"] = "layer"
    position_encoding: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    max_positions: PositiveInt | None = None
    rotary_base: PositiveFloat = 10_000.0
    prefix: Literal["bidirectional", "causal"] = "bidirectional"
    self_scorer: PartSpec | None = None
    cross_scorer: PartSpec | None = None
    self_scope: PartSpec | None = None
    cross_scope: PartSpec | None = None
    self_normalizer: PartSpec | None = None
    cross_normalizer: PartSpec | None = None
    self_bias: PartSpec | None = None
    cross_bias: PartSpec | None = None
    mixer: PartSpec | list[PartSpec] | None = None
    tag_inputs: list[Literal["encoder", "decoder"]] | None = None
    tie_embeddings: bool = False
    dropout: Probability = 0.1

    def resolve(self, config: Config) -> ResolvedTransformerConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        layer_choices = resolve_layer_choices(self.mixer, config)
        ineffective = unread_beside_mixer(layer_choices, config) if self.mixer else {}
        attends = not self.mixer or any(choice.is_attending for choice in layer_choices)
        node = config["attention"] if attends else {}
        attention = {key: value for key, value in node.items() if f"attention.{key}" not in ineffective}
        effective = {**config, "attention": attention}
        self_attention = AttentionSite()  # without effect, if no layer attends
        is_decoder_only = self.form == "decoder_only"
        if attends:
            _check_attends(effective)
            self_attention = resolve_site(self, effective, "self")
            maps = [attention["heads"] * choice.maps_per_head for choice in layer_choices if choice.is_attending]
            scorers = parts_in_force({**effective, "scorer": self_attention.scorer}, "scorer").parts
            check_positions(self, {scorer["name"] for scorer in scorers}, maps)
            ineffective |= replaced_parts(self, ("self",) if is_decoder_only else ("self", "cross"))
        cross_attention = None if is_decoder_only else resolve_site(self, effective, "cross")
        has_source = _has_source(self, config)
        check_one_way(layer_choices, reads_both_ways=has_source and self.prefix == "bidirectional")
        if not has_source:
            ineffective |= {"model.prefix": NoEffect(f"task={config['task']['name']}, which has no source")}
        elif self_attention.is_causal:  # every position attends to earlier ones alone
            scope = registry.parse_spec("scope", self_attention.scope)[0]
            ineffective |= {"model.prefix": NoEffect(f"scope={scope}")}
        return ResolvedTransformerConfig(
            config,
            options=self,
            parts=TransformerParts(self_attention, cross_attention, layer_choices, attention),
            encoder_layers=0 if is_decoder_only else self.encoder_layers or self.layers,
            sources=("encoder",) if not is_decoder_only else ("encoder", "decoder") if has_source else ("decoder",),
            ineffective=ineffective,
        )


@dataclass(frozen=True)
class ResolvedTransformerConfig(ResolvedConfig):
    """The options of a transformer that follow from its configuration."""

    options: TransformerConfig
    parts: TransformerParts  # of all layers; those of cross-attention are None without an encoder
    encoder_layers: int  # number of encoder layers; 0 without an encoder
    sources: tuple[str, ...]  # what the returned weights are over: ``encoder``, ``decoder`` or both, in this order

    @property
    def sites(self) -> tuple[str, ...]:
        """The place and layer of each head whose weights are returned."""
        if self.parts.cross_attention is not None:
            return self._sites("cross-attention", range(self.options.layers))
        attending = (index for index, choice in enumerate(self.parts.layer_choices) if choice.is_attending)
        return self._sites("self-attention", attending)

    @property
    def self_attention_sites(self) -> dict[str, tuple[str, ...]]:
        """The same of the heads of self-attention, by stream, where the returned weights are of cross-attention."""
        if self.parts.cross_attention is None:
            return {}
        layers = {"encoder": self.encoder_layers, "decoder": self.options.layers}
        return {stream: self._sites(f"{stream} self-attention", range(count)) for stream, count in layers.items()}

    def _sites(self, name: str, layers: Iterable[int]) -> tuple[str, ...]:
        return tuple(f"{name}, layer {index + 1}" for index in layers for _ in range(self.parts.heads))

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        sites = [f"self-attention {self.parts.self_attention}"] if self.sites else []
        layers = f"{self.options.layers}"
        if self.options.mixer:
            layers += f" of {', '.join(dict.fromkeys(choice.name for choice in self.parts.layer_choices))}"
        if self.parts.cross_attention is not None:
            sites.append(f"cross-attention {self.parts.cross_attention}")
            layers = f"{self.encoder_layers} + {layers}"
        causal = "causal attention computes" if self.sites else "mixers compute"
        schedule = f"all at once: {causal} every step in one pass"
        return {"schedule": schedule, "derived": "; ".join([f"layers {layers}", *sites])}

    def build(self, sizes: DataSizes) -> Transformer:
        """Build the model; options that do not fit the data are a UserError."""
        from attnx.models.transformer.model import Transformer
        from attnx.nn.targets.build import build_target, step_spec

        options = self.options
        if options.tag_inputs:
            require_tags(sizes.tags, "model.tag_inputs")
        check_tied_embeddings(options.tie_embeddings, sizes.target_features)
        return Transformer(
            step_spec(sizes.source_symbols, sizes.source_features) if "encoder" in self.sources else None,
            build_target(self.config.get("task", {}), sizes.target_symbols, sizes.target_features),
            options,
            self.parts,
            sizes.tags,
        )


def _check_attends(config: Config) -> None:
    require_attention(config)
    if config["attention"].get("projection", "auto") != "auto":
        option = f"attention.projection={config['attention']['projection']}"
        raise UserError(f"{option} has no effect: a transformer projects to one width; leave it out")
    for name in config["query"]:
        if name != "current_state":
            reason = UNSUPPORTED_QUERIES.get(name, "the queries of a layer are its states")
            raise UserError(f"query={name} does not work with model=transformer: {reason}; remove query")
    if not config["query"]:
        raise UserError("the query is empty, but a transformer needs query=current_state; remove query")


def _has_source(options: TransformerConfig, config: Config) -> bool:
    """Whether the task has a source."""
    task = config.get("task", {}).get("name")
    if task is None or not registry.describe("task", task).declarations.get("is_continuation"):
        return True
    if options.form != "decoder_only":
        raise UserError(f"task={task} has no source for an encoder to read; use model.form=decoder_only")
    if "encoder" in (options.tag_inputs or []):
        raise UserError(f"model.tag_inputs=[encoder]: task={task} has no source; use model.tag_inputs=[decoder]")
    return False
