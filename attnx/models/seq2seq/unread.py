"""The options of a sequence-to-sequence model that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnx.models.resolve import NoEffect, part_declarations

POSITIONS = ("one_hot", "sinusoidal")
"""Values of ``model.keys_from`` that are positions, not vectors of a source."""


def unread_by_attention(config: Mapping[str, Any], attends: bool) -> Iterator[tuple[str, NoEffect]]:
    """The options of memory and heads that have no effect; ``attends`` says whether there is attention."""
    if not attends:
        yield from dict.fromkeys(("model.keys_from", "model.values_from"), NoEffect("attention=none")).items()
        return
    if part_declarations(config, "scorer").get("needs_keys") is False:
        scorer = f"scorer={config['scorer']['name']}, which does not read the keys"
        yield "model.keys_from", NoEffect(scorer, "set model.values_from")
    if (heads := config["attention"]["heads"]) > 1:
        yield "attention.projection=never", NoEffect(f"attention.heads={heads}, which are projected to one width")


def unread_by_networks(
    config: Mapping[str, Any], readers: str, needs_source: bool, encoder_layers: int
) -> Iterator[tuple[str, NoEffect]]:
    """The options of encoder and decoder that have no effect.

    Args:
        config: the configuration.
        readers: the choices that say what of the encoder is read.
        needs_source: whether the memory has the source.
        encoder_layers: the number of the encoder's layers that are read.
    """
    if not encoder_layers:
        yield "encoder", NoEffect(readers)
        if not needs_source:
            yield "model.source_vectors", NoEffect(readers)
    elif encoder_layers < config["encoder"].get("layers", 1):
        read = f"{readers}, which read {encoder_layers} of its layers"
        yield "encoder.layers", NoEffect(read, f"set encoder.layers={encoder_layers}")
        if encoder_layers == 1:
            yield "encoder.dropout", NoEffect(f"{read}: it falls between layers")
    if config.get("task", {}).get("forecast") == "direct":
        yield "model.scheduled_sampling", NoEffect("task.forecast=direct, which reads no output")
