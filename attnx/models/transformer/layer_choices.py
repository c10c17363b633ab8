"""Resolves what each layer of a transformer holds, attention or a mixer, and checks that it fits the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from attnx import registry
from attnx.errors import UserError
from attnx.models.resolve import Config, NoEffect
from attnx.registry import PartSpec

ATTENTION_CHOICES = ("scorer", "scope", "normalizer", "query")
SELF_OPTIONS = ("self_scorer", "self_scope", "self_normalizer", "self_bias")
ONE_WAY = "reads a sequence in one direction"


class LayerChoice(NamedTuple):
    """What a layer holds beside its feed-forward map."""

    kind: Literal["attention", "mixer"]
    name: str  # ``standard`` attention, or ``none``; or a mixer's
    options: Mapping[str, Any] = MappingProxyType({})  # of a mixer; attentions share those of all layers

    @property
    def is_attending(self) -> bool:
        """Whether the layer has attention weights."""
        return self.kind == "attention" and self.name != "none"

    @property
    def maps_per_head(self) -> int:
        """How many maps of weights a head has."""
        maps: int = registry.describe(self.kind, self.name).declarations.get("maps_per_head", 1)
        return maps


def resolve_layer_choices(mixer: PartSpec | list[PartSpec] | None, config: Config) -> tuple[LayerChoice, ...]:
    """What each layer holds: the option ``mixer``, repeated for all layers, else the chosen attention.

    Raises:
        UserError: there is no attention or mixer of a name, or it does not fit the model.
    """
    model: Mapping[str, Any] = config["model"]
    layers: int = model["layers"]
    if mixer is None:
        return (LayerChoice("attention", config["attention"]["name"]),) * layers
    specs: list[PartSpec] = mixer if isinstance(mixer, list) else [mixer]
    choices = [_parse(spec) for spec in specs]
    option = mixer_option(choices)
    if layers % len(choices):
        raise UserError(
            f"{option} names {len(choices)} layers, which are repeated, but model.layers={layers} is no "
            "multiple of that; choose another number of layers"
        )
    for choice in choices:
        heads, size = choice.options.get("heads", 1), model["hidden_size"]
        multiple = heads * registry.describe(choice.kind, choice.name).declarations.get("head_width_multiple", 1)
        if size % multiple:
            raise UserError(
                f"{option}: {choice.name} with {heads} heads needs a multiple of {multiple} units, but "
                f"model.hidden_size={size}; choose another number of heads, or another size"
            )
    if model["feedforward_size"] == 0 and any(choice.name == "none" for choice in choices):
        raise UserError(
            f"{option} with model.feedforward_size=0: a layer of none is a feed-forward map alone, and nothing is left "
            "of it; use another size, or leave none out"
        )
    if model["form"] != "decoder_only":
        raise UserError(
            f"{option} with model.form={model['form']}: an encoder reads both ways, and cross-attention reads a "
            f"memory, but a mixer {ONE_WAY}; use model.form=decoder_only"
        )
    return tuple(choices) * (layers // len(choices))


def _parse(choice: PartSpec) -> LayerChoice:
    """The attention or mixer of a name, with a mixer's options."""
    name, options = registry.parse_spec("mixer", choice)
    attentions, mixers = registry.names("attention"), registry.names("mixer")
    if name in mixers:
        return LayerChoice("mixer", name, registry.check("mixer", name, options))
    if name not in attentions:
        raise UserError(registry.unknown("mixer", name, [*mixers, *attentions]))
    if options:
        first = f"attention.{next(iter(options))}"
        raise UserError(f"model.mixer: {name} is an attention, whose options all layers share; set {first} instead")
    return LayerChoice("attention", name)


def check_one_way(choices: Sequence[LayerChoice], reads_both_ways: bool) -> None:
    """Raise a UserError if a mixer would read a source in both directions."""
    if reads_both_ways and any(choice.kind == "mixer" for choice in choices):
        raise UserError(
            f"{mixer_option(choices)}: a decoder-only model reads the source of this task in both directions, but a "
            f"mixer {ONE_WAY}; use model.prefix=causal, or a task without a source, such as task=language_model"
        )


def unread_beside_mixer(choices: Sequence[LayerChoice], config: Config) -> dict[str, NoEffect]:
    """What has no effect beside ``model.mixer``: all of attention where no layer attends, else what no layer has.

    Raises:
        UserError: no layer attends, and positions are given to attention alone.
    """
    option = mixer_option(choices)
    if attending := {choice.name for choice in choices if choice.is_attending}:
        node = config["attention"]
        if (chosen := node["name"]) in attending:
            return {}
        described = [registry.describe("attention", name) for name in attending]
        known_keys = {"name", *(known.name for part in described for known in part.options)}
        unread = [f"attention={chosen}", *(f"attention.{key}" for key in node if key not in known_keys)]
        return dict.fromkeys(unread, NoEffect(option, f"name {chosen} in it"))
    if config["model"]["position_encoding"] == "rotary":
        raise UserError(
            f"model.position_encoding=rotary rotates queries and keys, but no layer attends with {option}; choose "
            "another position encoding"
        )
    reason = NoEffect(option, f"let a layer attend: model.mixer=[{choices[0].name},standard]")
    kinds = [kind for kind in ATTENTION_CHOICES if kind in config]
    if config["attention"]["name"] != "none":
        kinds.append("attention")
    return dict.fromkeys([*kinds, *(f"model.{name}" for name in SELF_OPTIONS)], reason)


def mixer_option(choices: Sequence[LayerChoice]) -> str:
    """The option as it is written, by names: ``model.mixer=[delta,standard]``."""
    names = list(dict.fromkeys(choice.name for choice in choices))
    return f"model.mixer={names[0]}" if len(names) == 1 else f"model.mixer=[{','.join(names)}]"
