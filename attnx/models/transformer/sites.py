"""The parts of a transformer's layers, those of the attention at each site, and what contradicts the site."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnx import registry
from attnx.attention.options import check_head_scopes, check_kv_heads, parts_in_force, reject_part, scope_sources
from attnx.errors import UserError
from attnx.models.resolve import Config, NoEffect, names_declaring
from attnx.models.transformer.layer_choices import LayerChoice
from attnx.registry import PartSpec

if TYPE_CHECKING:
    from attnx.models.transformer.config import TransformerConfig

KINDS = ("scorer", "scope", "normalizer")


@dataclass(frozen=True)
class AttentionSite:
    """The parts of a layer's self-attention, or of its cross-attention, by name, or by name and options."""

    scorer: PartSpec = "scaled"
    scope: PartSpec = "global"
    normalizer: PartSpec = "softmax"
    bias: PartSpec | None = None  # by position; that of ``TransformerParts.attention`` if left out

    def __str__(self) -> str:
        parts = {"scorer": self.scorer, "scope": self.scope, "normalizer": self.normalizer, "bias": self.bias}
        return " + ".join(registry.parse_spec(kind, part)[0] for kind, part in parts.items() if part is not None)

    @property
    def is_causal(self) -> bool:
        """Whether the scope is over the past alone, so that an encoder is causal too."""
        return scope_sources(self.scope) == ["decoder"]


@dataclass(frozen=True)
class TransformerParts:
    """The parts of a transformer's layers, by name, or by name and options."""

    self_attention: AttentionSite = AttentionSite()  # the parts of self-attention
    cross_attention: AttentionSite | None = None  # the parts of cross-attention; those of self-attention if left out
    # what each layer's self-attention is, or the mixer in its place; repeated if there are more layers
    layer_choices: tuple[LayerChoice, ...] = (LayerChoice("attention", "standard"),)
    # the options of every attention, such as its ``heads``, which divide the model's width; each takes those it has
    attention: Mapping[str, Any] = field(default_factory=lambda: {"heads": 4})

    @property
    def heads(self) -> int:
        """The number of heads of every attention."""
        heads: int = self.attention.get("heads", 1)
        return heads


def resolve_site(options: TransformerConfig, config: Config, site: str) -> AttentionSite:
    """The parts of ``self`` or ``cross`` attention: those chosen for it, else those of the whole model.

    Raises:
        UserError: a part does not work in a transformer, or at this site.
    """
    parts = {}
    for kind in KINDS:
        own = getattr(options, f"{site}_{kind}")
        option, choice = (kind, config[kind]) if own is None else (f"model.{site}_{kind}", own)
        part = parts[kind] = registry.fill_in(kind, choice)
        in_force = parts_in_force({**config, kind: part}, kind, option)
        for name in (chosen["name"] for chosen in in_force.parts):
            reason = "a transformer computes all steps at once and adds nothing to the loss"
            reject_part(in_force.option, kind, name, reason)
            if kind == "scorer":
                check_kv_heads(name, config["attention"]["heads"], config["attention"].get("kv_heads"))
        if kind == "scope":
            _check_scope(part, f"{option}={part['name']}", site, options.form == "decoder_only")
            check_head_scopes(config["attention"], part)
    bias = getattr(options, f"{site}_bias") or config["attention"]["bias"]
    if bias is not None:
        bias = registry.fill_in("bias", bias)
    return AttentionSite(**parts, bias=bias)


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


def check_positions(options: TransformerConfig, scorers: Set[str], maps: Collection[int]) -> None:
    """Check that rotary positions meet a scorer that compares directly, and one even size per map of weights.

    ``scorers`` are the names of those of self-attention, ``maps`` how many maps of weights the layers have.

    Raises:
        UserError: they do not.
    """
    if options.position_encoding != "rotary":
        return
    comparing = names_declaring("scorer", "requires_equal_dims")
    for scorer in scorers - {*comparing}:
        raise UserError(
            f"model.position_encoding=rotary rotates queries and keys that are compared directly, but scorer={scorer} "
            f"maps them first; choose {', '.join(comparing)}, or another position encoding"
        )
    if len(set(maps)) > 1:
        raise UserError(
            "model.position_encoding=rotary rotates queries and keys of one width, but the layers of model.mixer have "
            "heads of several; choose one attention, or another position encoding"
        )
    (heads,) = set(maps)
    if options.hidden_size % (2 * heads):
        raise UserError(
            f"model.position_encoding=rotary needs an even size per head, but model.hidden_size={options.hidden_size} "
            f"is split among {heads} head(s); choose a multiple of {2 * heads}"
        )


def replaced_parts(options: TransformerConfig, sites: Collection[str]) -> dict[str, NoEffect]:
    """The parts of the whole model that every site of attention replaces by its own."""
    replaced = {}
    for key in (*KINDS, "attention.bias"):
        kind = key.rpartition(".")[2]
        replacements = {f"model.{site}_{kind}": getattr(options, f"{site}_{kind}") for site in sites}
        if None not in replacements.values():
            settings = [f"{option}={registry.parse_spec(kind, choice)[0]}" for option, choice in replacements.items()]
            replaced[key] = NoEffect(" and ".join(settings))
    return replaced
