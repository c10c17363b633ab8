"""Resolve and check the configuration of a transformer, without importing torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.models.resolve import (
    NoEffect,
    reject_history,
    reject_hops,
    reject_recurrent,
    reject_sampled,
    require_attention,
    scope_sources,
)
from attnx.models.transformer.options import AttentionSite

Config = Mapping[str, Any]

KINDS = ("scorer", "scope", "normalizer")
UNSUPPORTED_QUERIES = {
    "previous_state": "a transformer has no recurrent state; its layers attend to earlier steps instead",
    "last_context": "a transformer computes all steps at once, so no step has a previous context",
    "token": "the queries of a layer are its states, which hold the token",
    "language_tag": "the queries of a layer are its states; add the tag to them by model.tag_inputs=[encoder,decoder]",
}


@dataclass(frozen=True)
class ResolvedTransformerConfig:
    """The options of a transformer that follow from its configuration."""

    self_attention: AttentionSite  # the parts of self-attention
    cross_attention: AttentionSite | None  # the parts of cross-attention; None without an encoder
    encoder_layers: int  # number of encoder layers; 0 without an encoder
    decoder_layers: int  # number of decoder layers
    sources: tuple[str, ...]  # what the returned weights are over: ``encoder``, ``decoder`` or both, in this order
    heads: int  # of every attention
    ineffective: Mapping[str, NoEffect] = field(default_factory=dict)  # the options that have no effect

    @property
    def sites(self) -> tuple[str, ...]:
        """The place and layer of each head whose weights are returned."""
        return self._sites("self-attention" if self.cross_attention is None else "cross-attention", self.decoder_layers)

    @property
    def self_attention_sites(self) -> dict[str, tuple[str, ...]]:
        """The same of the heads of self-attention, by stream, where the returned weights are of cross-attention."""
        if self.cross_attention is None:
            return {}
        layers = {"encoder": self.encoder_layers, "decoder": self.decoder_layers}
        return {stream: self._sites(f"{stream} self-attention", count) for stream, count in layers.items()}

    def _sites(self, name: str, layers: int) -> tuple[str, ...]:
        return tuple(f"{name}, layer {index + 1}" for index in range(layers) for _ in range(self.heads))

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        sites = [f"self-attention {self.self_attention}"]
        layers = f"{self.decoder_layers}"
        if self.cross_attention is not None:
            sites.append(f"cross-attention {self.cross_attention}")
            layers = f"{self.encoder_layers} + {layers}"
        schedule = "all at once: causal attention computes every step in one pass"
        return {"schedule": schedule, "derived": f"layers {layers}; {'; '.join(sites)}"}


def resolve_transformer(config: Config) -> ResolvedTransformerConfig:
    """Resolve the configuration of a transformer and check that its options do not contradict each other.

    Raises:
        UserError: one line with the options that contradict each other and what to choose.
    """
    _check_attends(config)
    model, heads = config["model"], config["attention"]["heads"]
    is_decoder_only = model["form"] == "decoder_only"
    self_attention = _resolve_site(config, "self")
    cross_attention = None if is_decoder_only else _resolve_site(config, "cross")
    has_source = _has_source(config)
    _check_positions(model, self_attention, heads)
    return ResolvedTransformerConfig(
        self_attention=self_attention,
        cross_attention=cross_attention,
        encoder_layers=0 if is_decoder_only else model["encoder_layers"] or model["layers"],
        decoder_layers=model["layers"],
        sources=("encoder",) if not is_decoder_only else ("encoder", "decoder") if has_source else ("decoder",),
        heads=heads,
        ineffective=_replaced(model, ("self",) if is_decoder_only else ("self", "cross")),
    )


def _check_attends(config: Config) -> None:
    require_attention(config, "transformer")
    if config["attention"]["projection"] != "auto":
        option = f"attention.projection={config['attention']['projection']}"
        raise UserError(f"{option} has no effect: a transformer projects to one width; leave it out")
    reject_hops(config, "transformer", "its layers are its hops")
    for name in config["query"]:
        if name != "current_state":
            reason = UNSUPPORTED_QUERIES.get(name, "the queries of a layer are its states")
            raise UserError(f"query={name} does not work with model=transformer: {reason}; remove query")
    if not config["query"]:
        raise UserError("the query is empty, but a transformer needs query=current_state; remove query")


def _replaced(model: Config, sites: Collection[str]) -> dict[str, NoEffect]:
    """The parts of the whole model that every site of attention replaces by its own."""
    replaced = {}
    for key in (*KINDS, "attention.bias"):
        kind = key.rpartition(".")[2]
        replacements = {f"model.{site}_{kind}": model[f"{site}_{kind}"] for site in sites}
        if None not in replacements.values():
            settings = [f"{option}={registry.parse_spec(kind, choice)[0]}" for option, choice in replacements.items()]
            replaced[key] = NoEffect(" and ".join(settings))
    return replaced


def _has_source(config: Config) -> bool:
    """Whether the task has a source."""
    task = config.get("task", {}).get("name")
    if task is None or not registry.describe("task", task).properties.get("is_continuation"):
        return True
    if config["model"]["form"] != "decoder_only":
        raise UserError(f"task={task} has no source for an encoder to read; use model.form=decoder_only")
    if "encoder" in (config["model"]["tag_inputs"] or []):
        raise UserError(f"model.tag_inputs=[encoder]: task={task} has no source; use model.tag_inputs=[decoder]")
    return False


def _resolve_site(config: Config, site: str) -> AttentionSite:
    """The parts of ``self`` or ``cross`` attention: those chosen for it, else those of the whole model."""
    parts = {}
    for kind in KINDS:
        choice = config["model"][f"{site}_{kind}"]
        name, options = registry.parse_spec(kind, config[kind] if choice is None else choice)
        parts[kind] = {"name": name, **registry.check(kind, name, options)}
        option = f"{kind}={name}" if choice is None else f"model.{site}_{kind}={name}"
        if kind == "scorer":
            reject_history(name, option.partition("=")[0], "a transformer computes all steps at once")
        reject_recurrent(kind, name, option.partition("=")[0], "a layer of a transformer computes all steps alike")
        if kind == "normalizer":
            reject_sampled(name, option.partition("=")[0], "model=transformer passes none on")
        if kind == "scope":
            _check_scope(parts[kind], option, site, config["model"]["form"] == "decoder_only")
    return AttentionSite(**parts, bias=_resolve_bias(config, site))


def _resolve_bias(config: Config, site: str) -> dict[str, Any] | None:
    """The bias of ``self`` or ``cross`` attention, if any: the one chosen for it, else that of the whole model."""
    choice = config["model"][f"{site}_bias"] or config["attention"]["bias"]
    if choice is None:
        return None
    name, options = registry.parse_spec("bias", choice)
    return {"name": name, **registry.check("bias", name, options)}


def _check_scope(scope: Mapping[str, Any], option: str, site: str, is_decoder_only: bool) -> None:
    """Check that a scope has no option that contradicts its site."""
    defaults = {option.name: option.default for option in registry.describe("scope", scope["name"]).options}
    if scope.get("include_self"):
        raise UserError(
            f"{option} with include_self=true: a transformer's positions always attend to themselves; remove it"
        )
    if scope.get("sources") != defaults.get("sources"):
        raise UserError(
            f"{option} with sources=[{','.join(scope['sources'])}]: in a transformer the site determines the source; "
            "remove sources, and choose the site by model.self_scope or model.cross_scope"
        )
    sources = scope_sources(scope)
    if site == "cross" and sources == ["decoder"]:
        raise UserError(
            f"{option} is over the decoder's own past, but cross-attention reads the source; choose another "
            "model.cross_scope, or model.form=decoder_only"
        )
    if not is_decoder_only and len(sources) > 1:
        raise UserError(
            f"{option} joins the source and the decoder's own past, but a decoder layer attends to them separately; "
            "use scope=global, or model.form=decoder_only"
        )


def _check_positions(model: Config, self_attention: AttentionSite, heads: int) -> None:
    encoding = model["position_encoding"]
    if encoding != "rotary":
        return
    scorer, scorers = registry.parse_spec("scorer", self_attention.scorer)[0], registry.names("scorer")
    comparing = [name for name in scorers if registry.describe("scorer", name).properties.get("requires_equal_dims")]
    if scorer not in comparing:
        raise UserError(
            f"model.position_encoding=rotary rotates queries and keys that are compared directly, but scorer={scorer} "
            f"maps them first; choose {', '.join(comparing)}, or another position encoding"
        )
    if model["hidden_size"] % (2 * heads):
        raise UserError(
            f"model.position_encoding=rotary needs an even size per head, but model.hidden_size={model['hidden_size']} "
            f"is split among {heads} head(s); choose a multiple of {2 * heads}"
        )
