"""The merged linear maps of a fused decoder."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.accel.lstm.bindings import PackedWeights, pack_weights
from attnx.models.seq2seq.model import DecoderState, Seq2seq
from attnx.nn.decoders.recurrent import RecurrentDecoder
from attnx.nn.readouts.joint import Joint

MAX_SYMBOLS_IN_TABLE = 256
"""Up to so many symbols have a table of their gates; of more, most would never be looked up."""
EXPECTED_STEPS = 8
"""Steps that a search is expected to take, where weights are packed for them."""


class FusedWeights(NamedTuple):
    """Merged linear maps of a search. The cell has g gates, the state d units, the readout r, the context v."""

    token_gates: Tensor  # (g, e) from an embedded token to the gates
    bias: Tensor  # (g) of the gates
    table: Tensor | None  # (symbols, g) the gates of every symbol, bias included; None if there are many, or none
    hidden_gates: Tensor  # (g, d) from the previous state to the gates
    context_gates: Tensor | None  # (g, v) from the context to the gates of ``feed=now``; else None
    # packed ``hidden_gates``, and ``context_gates`` beside them unless the memory is projected
    recurrent: PackedWeights
    readout: Tensor | None  # from the readout's other inputs to its units; None if the readout is the state
    readout_context: Tensor | None  # (r, v) from the context to the readout's units; None if it does not enter it
    is_projected: bool = False  # whether the memory's values are projected by ``readout_context`` and ``context_gates``


def merge_maps(model: Seq2seq, state: DecoderState) -> tuple[FusedWeights, Tensor]:
    """The merged maps, and (g, tag width) from the tag embedding to the gates."""
    decoder, readout = model.decoder, model.readout
    assert isinstance(decoder, RecurrentDecoder)
    assert isinstance(readout, Joint)
    layer, token_width = decoder.layers[0], _width(model.embedding)
    tag_width = 0 if state.tag_embedding is None else state.tag_embedding.shape[1]
    token_gates, tag_gates, context_gates = layer.weight_ih_l0.tensor_split(  # type: ignore[operator]
        (token_width, token_width + tag_width), 1
    )
    hidden_gates: Tensor = layer.weight_hh_l0  # type: ignore[assignment]
    bias: Tensor = layer.bias_ih_l0 + layer.bias_hh_l0  # type: ignore[operator]
    widths = {"state": decoder.size, "context": state.context.shape[1], "token": token_width}
    joined = _split_readout(readout, widths)
    readout_context = joined.pop("context", None)
    is_now = model.plan.feed == "now"
    recurrent = torch.cat([hidden_gates, context_gates], 1) if is_now else hidden_gates
    weights = FusedWeights(
        token_gates=token_gates,
        bias=bias,
        table=_gate_table(model.embedding, token_gates, bias),
        hidden_gates=hidden_gates,
        context_gates=context_gates if is_now else None,
        recurrent=pack_weights(recurrent, EXPECTED_STEPS * len(state.step)),
        readout=torch.cat(list(joined.values()), 1) if joined else None,
        readout_context=readout_context,
    )
    return weights, tag_gates


def _gate_table(embedding: nn.Module, token_gates: Tensor, bias: Tensor) -> Tensor | None:
    """The gates (symbols, g) of every symbol; None if there are many, or none."""
    if not isinstance(embedding, nn.Embedding) or embedding.num_embeddings > MAX_SYMBOLS_IN_TABLE:
        return None
    return F.linear(embedding.weight, token_gates, bias)


def _split_readout(readout: Joint, widths: dict[str, int]) -> dict[str, Tensor]:
    """The columns of the readout's weight by input; none if the readout is the state."""
    if not isinstance(readout.join, nn.Sequential):
        return {}
    weight: Tensor = readout.join[0].weight  # type: ignore[assignment]
    columns = torch.split(weight, [widths[name] for name in readout.inputs], 1)
    return dict(zip(readout.inputs, columns, strict=True))


def _width(embedding: nn.Module) -> int:
    """The width of an embedded token."""
    return embedding.embedding_dim if isinstance(embedding, nn.Embedding) else int(embedding.out_features)  # type: ignore[arg-type]
