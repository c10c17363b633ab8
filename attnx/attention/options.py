"""What attention has besides its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from attnx import registry
from attnx.errors import UserError
from attnx.registry import PartSpec


@dataclass(frozen=True)
class AttentionOptions:
    """The options besides the number of heads; :func:`attnx.attention.factory.build_standard` says what they do."""

    projection: Literal["auto", "never"] = "auto"
    dropout: float = 0.0
    bias: PartSpec | None = None
    chunk_mib: int = 64
    softcap: float | None = None
    kv_heads: int | None = None
    qk_norm: Literal["none", "l2", "rms"] = "none"
    head_scorers: Sequence[PartSpec] | None = None
    head_scopes: Sequence[PartSpec] | None = None
    head_normalizers: Sequence[PartSpec] | None = None


SHARED_SCOPE_OPTIONS = ("sources", "include_self")
"""The options of ``scope`` that the scopes which are listed for heads take from it."""
DEFAULT_SOURCES = ["encoder"]
"""The sources of a scope that names none."""
HEAD_LISTS = {"scorer": "head_scorers", "scope": "head_scopes", "normalizer": "head_normalizers"}
"""The options that choose a part for each head, by kind."""


def head_parts(options: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """The parts that an ``attention`` node lists for its heads, with their options; none if it lists none.

    Raises:
        UserError: an unknown part or option, a number of parts that does not divide the heads, a part that carries
            something from step to step or samples positions, scorers where heads share keys, or a scope with an option
            that heads share.
    """
    key = HEAD_LISTS[kind]
    if not (specs := options.get(key)):
        return []
    option, heads = f"attention.{key}", options["heads"]
    if len(specs) == 1:
        raise UserError(f"{option} names a part for each head in turn, and one is no choice among heads; use {kind}")
    if heads % len(specs):
        raise UserError(
            f"{option} names {len(specs)} heads, which are repeated, but attention.heads={heads} is no multiple of "
            "that; choose another number of heads"
        )
    if kind == "scorer" and options.get("kv_heads") not in (None, heads):
        raise UserError(f"{option}: heads that share keys compare them alike; leave it out, or attention.kv_heads")
    if kind == "scope":
        _reject_shared_options(option, specs)
    return [resolve_part(option, kind, spec, f"that is possible for all heads alone, by {kind}") for spec in specs]


def _reject_shared_options(option: str, scopes: Iterable[PartSpec]) -> None:
    for name, options in (registry.parse_spec("scope", scope) for scope in scopes):
        if own := [shared for shared in SHARED_SCOPE_OPTIONS if shared in options]:
            raise UserError(f"{option}: {name} has {own[0]}, which heads share; leave it out, or set scope.{own[0]}")


class PartsInForce(NamedTuple):
    """The parts of a kind that attention is made of: those that are listed for its heads, or the one for all."""

    kind: str
    option: str  # which chooses them: ``scorer``, ``model.self_scorer`` or ``attention.head_scorers``
    parts: Sequence[Mapping[str, Any]]  # the name and the options of each

    def __str__(self) -> str:
        names = [part["name"] for part in self.parts]
        return f"{self.option}={names[0] if len(names) == 1 else '[' + ','.join(names) + ']'}"

    def declared(self, declaration: str) -> list[Any]:
        """What each of the parts declares; None where it does not."""
        return [registry.describe(self.kind, part["name"]).declarations.get(declaration) for part in self.parts]


def parts_in_force(config: Mapping[str, Any], kind: str, option: str = "") -> PartsInForce:
    """The scorers, scopes or normalizers of a configuration; none without attention.

    ``option`` is the one that chooses the part for all heads, if it is not the kind; raises as :func:`head_parts`.
    """
    if kind not in config:
        return PartsInForce(kind, kind, [])
    listed = head_parts(config.get("attention", {}), kind)
    option = f"attention.{HEAD_LISTS[kind]}" if listed else option or kind
    return PartsInForce(kind, option, listed or [config[kind]])


def scope_sources(scope: PartSpec) -> list[str]:
    """The sources of a scope: the option's, else the declared ones, else the encoder."""
    return list(_stated(scope, "sources") or DEFAULT_SOURCES)


def includes_self(scope: PartSpec) -> bool:
    """Whether a scope reads a state that is in the query: the option says so, or the class declares it."""
    return bool(_stated(scope, "include_self"))


def _stated(scope: PartSpec, name: str) -> Any:
    """What a scope has as an option, or declares."""
    part = registry.fill_in("scope", scope)
    return part.get(name) or registry.describe("scope", part["name"]).declarations.get(name)


def shared_scope_options(scope: object) -> dict[str, Any]:
    """The options that heads share, of the scope that is chosen for all of them; it may be an instance."""
    if isinstance(scope, str | tuple | Mapping):
        return {"sources": scope_sources(scope), "include_self": includes_self(scope)}
    return {
        "sources": getattr(scope, "sources", DEFAULT_SOURCES),
        "include_self": getattr(scope, "include_self", False),
    }


def check_head_scopes(options: Mapping[str, Any], scope: object) -> None:
    """Raise a UserError if a scope that an ``attention`` node lists is defined by other sources than ``scope`` has."""
    shared = list(shared_scope_options(scope)["sources"])
    for part in head_parts(options, "scope"):
        own = scope_sources(part)
        if own != DEFAULT_SOURCES and {*own} != {*shared}:  # the others go over any sources
            raise UserError(
                f"attention.head_scopes={part['name']} is over [{','.join(own)}], but heads share the sources of "
                f"scope, [{','.join(shared)}]; set scope={part['name']}, or list global"
            )


OTHER_STEPS = {
    "needs_history": "needs earlier attention weights",
    "is_recurrent": "carries something from step to step",
    "is_sampled": "samples positions, whose log-probability joins the loss",
}
"""What a part declares that needs more than its own step, in words."""


def resolve_part(option: str, kind: str, choice: PartSpec, reason: str) -> dict[str, Any]:
    """The part that ``option`` chooses, with the value of each of its options.

    Raises:
        UserError: an unknown part or option, or one that needs more than its own step; ``reason`` says why it cannot.
    """
    part = registry.fill_in(kind, choice)
    reject_part(option, kind, part["name"], reason)
    return part


def reject_part(
    option: str, kind: str, name: str, reason: str, declarations: Iterable[str] = tuple(OTHER_STEPS)
) -> None:
    """Raise a UserError if the part that ``option`` chooses declares one of these; ``reason`` says why it cannot."""
    declared = registry.describe(kind, name).declarations
    for declaration in declarations:
        if declared.get(declaration):
            raise UserError(f"{option}={name} {OTHER_STEPS[declaration]}, but {reason}; use another {kind}")


def check_heads(options: Mapping[str, Any], scorer: object, scope: object, min_projected_heads: int = 2) -> None:
    """Raise a UserError if the options of an ``attention`` node about heads contradict each other, or the parts.

    From ``min_projected_heads`` of them on heads have projections.
    """
    if "heads" not in options:
        return
    for kind in HEAD_LISTS:
        head_parts(options, kind)
    check_head_scopes(options, scope)
    check_kv_heads(scorer, options["heads"], options.get("kv_heads"))
    if options["heads"] >= min_projected_heads:
        return
    if registry.describe("attention", options.get("name", "standard")).declarations.get("maps_per_head", 1) > 1:
        raise UserError(
            f"attention={options['name']} projects queries and keys of heads, and one head has no projections; use "
            "attention.heads=2 or more"
        )
    if options["qk_norm"] != "none":
        raise UserError(
            f"attention.qk_norm={options['qk_norm']} normalizes the projections of heads, and one head has none; use "
            "attention.heads=2 or more"
        )


def check_kv_heads(scorer: object, heads: int, kv_heads: int | None) -> None:
    """Check that heads can share keys and values, if there are fewer of these.

    Of a scorer that is an instance, which declares nothing, nothing is checked.

    Raises:
        UserError: they do not divide the heads, or every head has keys of its own, as the scorer declares.
    """
    if kv_heads is None or kv_heads == heads:
        return
    if heads % kv_heads:
        choices = ", ".join(str(count) for count in range(1, heads + 1) if heads % count == 0)
        raise UserError(f"attention.kv_heads={kv_heads} does not divide attention.heads={heads}; choose from {choices}")
    if not isinstance(scorer, str | tuple | Mapping):
        return
    name = registry.parse_spec("scorer", scorer)[0]
    if registry.describe("scorer", name).declarations.get("has_key_parameters"):
        raise unshared_keys(name, kv_heads)


def unshared_keys(scorer: str, kv_heads: int) -> UserError:
    """The error on a scorer whose heads cannot share keys."""
    return UserError(
        f"attention.kv_heads={kv_heads} lets heads share keys, but scorer={scorer} maps them by parameters of each "
        "head; use scaled, dot, cosine or another that compares keys as they are"
    )
