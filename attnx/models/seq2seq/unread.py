"""Refuses values of a sequence-to-sequence model that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnx.errors import UserError
from attnx.models.resolve import part_declarations

POSITIONS = ("one_hot", "sinusoidal")
"""Values of ``model.keys_from`` that are positions, not vectors of a source."""


def reject_unread(config: Mapping[str, Any], attends: bool, reads_source: bool, encoder_layers: int) -> None:
    """Check that what is set for the memory, the encoder and the source is read.

    Args:
        config: the configuration.
        attends: whether it has attention.
        reads_source: whether the memory has the source.
        encoder_layers: the number of the encoder's layers that are used.

    Raises:
        UserError: the value that has no effect, and why.
    """
    messages = _unread_by_attention(config) if attends else _set_for_attention(config)
    for message in (*messages, *_unread_by_networks(config, reads_source, encoder_layers)):
        raise UserError(f"{message}; leave it out")


def _set_for_attention(config: Mapping[str, Any]) -> Iterator[str]:
    for option in ("keys_from", "values_from"):
        if (value := config["model"][option]) not in (None, "states"):
            yield f"model.{option}={value} is read by attention, and there is none"


def _unread_by_attention(config: Mapping[str, Any]) -> Iterator[str]:
    keys_from, attention, scorer = config["model"]["keys_from"], config["attention"], config["scorer"]["name"]
    if keys_from in POSITIONS and part_declarations(config, "scorer").get("needs_keys") is False:
        yield f"model.keys_from={keys_from} has no effect: scorer={scorer} does not read the keys"
    if attention["projection"] == "never" and attention["heads"] > 1:
        yield "attention.projection=never has no effect: heads are projected to one width"


def _unread_by_networks(config: Mapping[str, Any], reads_source: bool, encoder_layers: int) -> Iterator[str]:
    model, encoder = config["model"], config["encoder"]
    if (dropout := encoder.get("dropout")) and encoder_layers == 1 < encoder.get("layers", 1):
        yield f"encoder.dropout={dropout:g} falls between layers, and one layer is read"
    if (file := model.get("source_vectors")) and not (encoder_layers or reads_source):
        yield f"model.source_vectors={file} has no effect: nothing here reads the source"
    if (rate := model["scheduled_sampling"]) and config.get("task", {}).get("forecast") == "direct":
        yield f"model.scheduled_sampling={rate:g} feeds outputs back, and task.forecast=direct reads none"
