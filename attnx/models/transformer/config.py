"""What a transformer will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.errors import UserError
from attnx.models.resolve import scope_sources

Config = Mapping[str, Any]

KINDS = ("scorer", "scope", "normalizer")
WHY_NOT = {
    "previous_state": "a transformer's layer has no state of the step before, it reads it",
    "last_context": "a transformer's layer has no context of the step before, all steps are read at once",
    "token": "each layer asks with its own states, which hold the token",
    "language_tag": "each layer asks with its own states; tell them the tag by model.tag_inputs=[encoder,decoder]",
}


@dataclass(frozen=True)
class AttentionSite:
    """One place where a layer attends: its choices, each with its knobs."""

    scorer: Mapping[str, Any]
    scope: Mapping[str, Any]
    normalizer: Mapping[str, Any]

    def __str__(self) -> str:
        return " + ".join(str(part["name"]) for part in (self.scorer, self.scope, self.normalizer))


@dataclass(frozen=True)
class ResolvedTransformerConfig:
    """The choices that follow from other choices.

    Attributes:
        own: how a stream reads itself.
        cross: how the target's stream reads the source's; None where both are one stream.
        encoder: layers of the source's stream; 0 where it is the target's, too, or there is none.
        decoder: layers of the target's.
        sources: what the weights that are handed out are over: ``encoder``, ``decoder`` or both, in this order.
        ahead: whether a position of the source may read those behind it.
        heads: of every site.
    """

    own: AttentionSite
    cross: AttentionSite | None
    encoder: int
    decoder: int
    sources: tuple[str, ...]
    ahead: bool
    heads: int

    @property
    def sites(self) -> tuple[str, ...]:
        """The place and layer of each of the heads whose weights are handed out."""
        return self._layers("self-attention" if self.cross is None else "cross-attention", self.decoder)

    @property
    def self_attention_sites(self) -> dict[str, tuple[str, ...]]:
        """The same of the heads by which a stream reads itself beside that, for each such stream."""
        if self.cross is None:
            return {}
        layers = {"encoder": self.encoder, "decoder": self.decoder}
        return {stream: self._layers(f"{stream} self-attention", count) for stream, count in layers.items()}

    def _layers(self, place: str, count: int) -> tuple[str, ...]:
        return tuple(f"{place}, layer {number + 1}" for number in range(count) for _ in range(self.heads))

    def summary(self) -> dict[str, str]:
        """What a run says of it: how steps are computed and why, and how each place attends."""
        places = [f"self-attention {self.own}", *([] if self.cross is None else [f"cross-attention {self.cross}"])]
        layers = f"{self.encoder} + {self.decoder}" if self.cross else f"{self.decoder}"
        schedule = "all at once: a position reads what is there by its step, so none waits for the one before"
        return {"schedule": schedule, "follows": f"layers {layers}; {'; '.join(places)}"}


def resolve(config: Config) -> ResolvedTransformerConfig:
    """Work out what follows from the choices of a model ``transformer``, and check that they can go together.

    Raises:
        UserError: one line naming the knobs that contradict each other and what to choose.
    """
    model = config["model"]
    _check_attends(config)
    alone = model["form"] == "decoder_only"
    for knob in ("encoder_layers", *(f"cross_{kind}" for kind in KINDS)) if alone else ():
        if model[knob] is not None:
            raise UserError(f"model.{knob} is of what model.form=decoder_only has not, an encoder; leave it out")
    own = _site(config, "self")
    cross = None if alone else _site(config, "cross")
    continues = _continues(config, alone)
    _check_positions(model, own, config["attention"]["heads"])
    return ResolvedTransformerConfig(
        own=own,
        cross=cross,
        encoder=0 if alone else model["encoder_layers"] or model["layers"],
        decoder=model["layers"],
        sources=("encoder",) if not alone else ("decoder",) if continues else ("encoder", "decoder"),
        ahead=scope_sources(own.scope) != ["decoder"],
        heads=config["attention"]["heads"],
    )


def _check_attends(config: Config) -> None:
    attention = config["attention"]
    if attention["name"] == "none":
        raise UserError("model=transformer is made of attention, and attention=none is without; leave one of the two")
    if attention["schedule"] != "auto":
        raise UserError(
            f"attention.schedule={attention['schedule']}: a transformer has no recurrence to wait for, all steps are "
            "computed at once; leave it out"
        )
    for name in config["query"]:
        if name != "current_state":
            reason = WHY_NOT.get(name, "each layer asks with its own states")
            raise UserError(f"query={name} beside model=transformer: {reason}; leave query out")
    if not config["query"]:
        raise UserError("the query is empty, and a transformer's is current_state; leave query out")


def _continues(config: Config, alone: bool) -> bool:
    """Whether the task has no source."""
    task = config.get("task", {}).get("name")
    if task is None or not registry.part("task", task).declares.get("continues"):
        return False
    if not alone:
        raise UserError(f"task={task} has no source, and an encoder reads one; use model.form=decoder_only")
    if "encoder" in (config["model"]["tag_inputs"] or []):
        raise UserError(f"model.tag_inputs=[encoder]: task={task} has no source that could be told; name the decoder")
    return True


def _site(config: Config, place: str) -> AttentionSite:
    """The choices of one place: its own where it has any, else those of all."""
    chosen = {}
    for kind in KINDS:
        knob = f"model.{place}_{kind}"
        own = config["model"][f"{place}_{kind}"]
        name, knobs = registry.spec(kind, config[kind] if own is None else own)
        chosen[kind] = {"name": name, **registry.check(kind, name, knobs)}
        said = f"{kind}={name}" if own is None else f"{knob}={name}"
        if kind == "scorer" and registry.part(kind, name).declares.get("needs_past"):
            raise UserError(
                f"{said} reads the weights of the step before, and a transformer's steps are computed all at once; "
                "choose another scorer"
            )
        if kind == "scope":
            _check_scope(chosen[kind], said, place, config["model"]["form"] == "decoder_only")
    return AttentionSite(**chosen)


def _check_scope(scope: Mapping[str, Any], said: str, place: str, alone: bool) -> None:
    """See that a scope says nothing of what its place has not."""
    defaults = {knob.name: knob.default for knob in registry.part("scope", scope["name"]).knobs}
    if scope.get("include_self"):
        raise UserError(f"{said} with include_self=true: a position of a transformer always reads itself; leave it out")
    if scope.get("sources") != defaults.get("sources"):
        raise UserError(
            f"{said} with sources=[{','.join(scope['sources'])}]: what is read follows from the place in a "
            "transformer; leave sources out, and name the place: model.self_scope or model.cross_scope"
        )
    reads = scope_sources(scope)
    if place == "cross" and reads == ["decoder"]:
        raise UserError(
            f"{said} reads the own past, and cross-attention reads the source; choose another with model.cross_scope, "
            "or model.form=decoder_only"
        )
    if not alone and len(reads) > 1:
        raise UserError(
            f"{said} reads source and own past as one, and a decoder's layer reads them at two places; choose global, "
            "or model.form=decoder_only"
        )


def _check_positions(model: Mapping[str, Any], own: AttentionSite, heads: int) -> None:
    if model["max_positions"] is not None and model["position_encoding"] != "learned":
        raise UserError(
            "model.max_positions says how many positions are learned, and "
            f"model.position_encoding={model['position_encoding']} learns "
            "none; leave one of the two out"
        )
    if model["position_encoding"] != "rotary":
        return
    name = own.scorer["name"]
    if not registry.part("scorer", name).declares.get("equal_widths"):
        fit = [
            other for other in registry.names("scorer") if registry.part("scorer", other).declares.get("equal_widths")
        ]
        raise UserError(
            f"model.position_encoding=rotary turns what is compared as it is, and scorer={name} maps queries and "
            "keys first; "
            f"choose {', '.join(fit)}, or other positions"
        )
    if model["hidden_size"] % (2 * heads):
        raise UserError(
            f"model.position_encoding=rotary turns pairs of units, and model.hidden_size={model['hidden_size']} "
            f"gives {heads} head(s) no "
            f"even width; choose a multiple of {2 * heads}"
        )
