"""Which choices of a sequence-to-sequence model contradict each other, and which of its options nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnx.attention.options import parts_in_force
from attnx.errors import UserError, reject_duplicates
from attnx.models.resolve import Config, NoEffect, part_declarations, query_needs, reject_text_encoder

if TYPE_CHECKING:
    from attnx.models.seq2seq.config import ResolvedSeq2seqConfig

FINAL = "final"
"""What is read without attention: the encoder's last state."""
POSITIONS = ("one_hot", "sinusoidal")
"""Values of ``model.keys_from`` that are positions, not vectors of a source."""


def check_memory(config: Config, sources: tuple[str, ...], keys_from: str, values_from: str) -> None:
    """Check that keys and values are of a source in the scope, and that each has a row for every position."""
    if config["encoder"]["name"] != "none":  # model=history has no encoder
        reject_text_encoder(config)
    for option, pick in (("keys_from", keys_from), ("values_from", values_from)):
        if "encoder" not in sources and pick not in ("states", *POSITIONS, FINAL):
            raise UserError(
                f"model.{option}={pick} is the encoder's, but scope.sources=[{','.join(sources)}] does not read it"
            )
    has_other_layers = "encoder" in sources and {keys_from, values_from} - {"states", FINAL}
    if has_other_layers and part_declarations(config, "encoder").get("is_downsampling"):
        raise UserError(
            f"encoder={config['encoder']['name']} has fewer states than its source has steps, so model.keys_from and "
            f"model.values_from must both be states, not {keys_from} and {values_from}"
        )


def check_embeddings(resolved: ResolvedSeq2seqConfig) -> None:
    """Check that tags enter what exists, and that tied embeddings have the readout's width."""
    options, width = resolved.options, resolved.config["readout"].get("hidden_size")
    tag_inputs = options.tag_inputs or []
    if "encoder" in tag_inputs and not resolved.encoder_layers:
        raise UserError(
            f"model.tag_inputs=[{','.join(tag_inputs)}] needs an encoder, and nothing here reads one; name the decoder"
        )
    if options.tie_embeddings and width not in (None, options.embedding_dim):
        raise UserError(
            f"model.tie_embeddings=true makes the output layer the embedding, of width {options.embedding_dim}, "
            f"but readout.hidden_size={width}; leave readout.hidden_size out"
        )


def check_copies(resolved: ResolvedSeq2seqConfig) -> None:
    """Check that a copy output has attention weights on the source that sum to 1."""
    config, sources = resolved.config, resolved.sources
    if not part_declarations(config, "output").get("needs_weights"):
        return
    name = f"output={config['output']['name']}"
    if config["attention"]["name"] == "none":
        raise UserError(f"{name} copies what attention reads, and attention=none reads nothing; leave one out")
    if "encoder" not in sources:
        raise UserError(f"{name} copies from the source, but scope.sources=[{','.join(sources)}] does not read it")
    if part_declarations(config, "attention").get("is_distribution") is False:
        raise UserError(
            f"{name} takes weights for probabilities, and those of attention={config['attention']['name']} do not sum "
            "to 1; use attention=standard"
        )
    normalizers = parts_in_force(config, "normalizer")
    if not all(normalizers.declared("is_distribution")):
        raise UserError(
            f"{name} takes weights for probabilities, and weights of {normalizers} do not sum to 1; use softmax"
        )


def check_read(resolved: ResolvedSeq2seqConfig) -> None:
    """Check that the state and the context reach the output, directly or through other inputs."""
    config, feed = resolved.config, resolved.plan.feed
    inputs = config["readout"].get("inputs", ["state", "context"])
    reject_duplicates("readout.inputs", inputs, "input")
    needs = ["state" if need == "prev_state" else need for need in query_needs(config).values()]
    reads = {
        "state": ["token", *(["context"] if feed == "now" else [])],
        "context": [*needs, *(["state"] if "decoder" in resolved.sources else [])],
        "token": [],
        "tag": [],
        "nothing": [],
    }
    reached = set(inputs)
    for _ in reads:
        reached.update(*(reads[name] for name in reached))
    for name in ("state", "context"):
        if name not in reached:
            raise UserError(
                f"nothing that leads to the output reads the {name} (readout.inputs=[{','.join(inputs)}], "
                f"model.feed={feed}); add {name} to readout.inputs"
            )


def reads_keys(config: Config) -> bool:
    """Whether a scorer compares queries with keys."""
    return any(needs_keys is not False for needs_keys in parts_in_force(config, "scorer").declared("needs_keys"))


def unread_by_attention(config: Config, attends: bool) -> Iterator[tuple[str, NoEffect]]:
    """The options of memory and heads that have no effect; ``attends`` says whether there is attention."""
    if not attends:
        yield from dict.fromkeys(("model.keys_from", "model.values_from"), NoEffect("attention=none")).items()
        return
    if not reads_keys(config):
        cause = f"{parts_in_force(config, 'scorer')}, which does not read the keys"
        yield "model.keys_from", NoEffect(cause, "set model.values_from")
    if (heads := config["attention"]["heads"]) > 1:
        yield "attention.projection=never", NoEffect(f"attention.heads={heads}, which are projected to one width")


def unread_by_networks(
    config: Config, readers: str, needs_source: bool, encoder_layers: int
) -> Iterator[tuple[str, NoEffect]]:
    """The options of encoder and decoder that have no effect.

    ``readers`` are the choices that say what of the encoder is read, ``needs_source`` whether the memory has it.
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
