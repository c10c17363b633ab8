"""Search with a context that enters linear maps alone: they are one map, applied once to what is read where that pays.

As ``W sum_m a_m v_m = sum_m a_m (W v_m)``, the memory's values become what the readout and the cell's gates make of
them; a symbol's embedding becomes a row of a table; the weights of every read are what they were.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.accel.linear_cpu import product
from attnx.accel.lstm import autograd
from attnx.attention import AttentionOutput, QueryContext
from attnx.attention.attention import Attention
from attnx.attention.no_attention import NoAttention
from attnx.nn.readouts.joint import Joint

if TYPE_CHECKING:
    from attnx.models.seq2seq.model import Seq2seq
    from attnx.models.seq2seq.state import DecoderState

FEW = 32
"""Up to so many rows it pays though each has a source of its own: what takes time then is to fetch the weights."""
WIDE = 4
"""How many times as wide as long a memory must be; to read a longer one takes as much longer as the maps took."""
TABLE = 256
"""Up to so many symbols are in a table; of more, most would never be looked up."""
STEPS = 8
"""How many steps a search is taken to have, where weights are laid out for them."""


@dataclass(frozen=True, eq=False)
class Folded:
    """What the steps of a folded state need: no tuple of tensors, as none of it belongs to any row.

    Attributes:
        token: (g, e) from an embedded token to the cell's gates, and what is added to them (g).
        table: (symbols, g) the same of every symbol; None if there are many, or none.
        cell: (g, d) from the state before to the gates; of ``feed=now`` (g, d + v) from the context, too, unless the
            memory's values are carried through.
        joined: from what is joined with the context to the readout's r units; None if the readout is the state.
        context: (r, v) from the context to the readout's units; None if none enters it, or values are carried through.
        carried: whether the memory's values are carried through all that is made of a context: r units of the readout,
            and of ``feed=now`` g of the gates.
    """

    token: tuple[Tensor, Tensor]
    table: Tensor | None
    cell: autograd.PackedWeights
    joined: Tensor | None
    context: Tensor | None
    carried: bool

    def step(
        self, model: Seq2seq, inputs: Tensor, state: DecoderState, need_weights: bool
    ) -> tuple[Tensor, DecoderState, AttentionOutput]:
        """As :meth:`Seq2seq.decode_step`, but for the readout (b, r) in the place of what is predicted."""
        token, (before, cells) = model.embedding(inputs), state.cell[0]
        looked_up = None if self.table is None else (self.table, inputs)
        added = [state.told] if state.told.shape[1] else []
        added += [F.linear(token, *self.token)] if looked_up is None else []
        known, parts = QueryContext(token[:, None], before=before[:, None], tag=state.tag[:, None]), [before]
        if model.plan.feed == "now":
            read = model.read(known, state, need_weights=need_weights)
            behind, of_gates = self._behind(read, len(self.cell.plain))
            if self.carried:
                added.append(of_gates)
            else:
                parts.append(of_gates)
            alike = state.parents if self.carried else None  # else each has a context of its own beside the state
            cell = autograd.step(cells, _sum(added), looked_up, self.cell, parts, alike)
        else:
            cell = autograd.step(cells, _sum(added), looked_up, self.cell, parts, state.parents)
            read = model.read(known._replace(after=cell[0][:, None]), state, need_weights=need_weights)
            behind, _ = self._behind(read, 0)
        vector = cell[0]
        if self.joined is not None:
            given = {"state": cell[0], "token": token}
            joined = torch.cat([given[name] for name in model.readout.inputs if name != "context"], -1)
            mapped = joined @ self.joined.t() if behind is None else torch.addmm(behind, joined, self.joined.t())
            vector = mapped.tanh_()
        return vector, state._replace(cell=(cell,), at=state.at + 1, parents=None), read

    def _behind(self, read: AttentionOutput, gates: int) -> tuple[Tensor | None, Tensor]:
        """Of a context what is added in the readout, if anything is, and what is added in so many gates, or to them."""
        context = read.context[:, 0]
        if self.carried:
            units = context.shape[1] - gates
            return context[:, :units] if units else None, context[:, units:]
        return None if self.context is None else F.linear(context, self.context), context


def _sum(parts: Sequence[Tensor]) -> Tensor | None:
    return functools.reduce(torch.add, parts) if parts else None


def folded(model: Seq2seq, state: DecoderState) -> DecoderState:
    """The same state folded, where that can be done; else as it is. Values are carried through the maps if that pays.

    Of a folded state the context, last and read, is no context any more; a model whose query reads it is left alone.
    """
    if state.folded is not None or not _serves(model, state):
        return state
    layer, readout = model.decoder.recurrent.layers[0], model.readout
    size, width = model.decoder.recurrent.size, state.context.shape[1]
    widths = {"state": size, "context": width, "token": _width(model)}
    joined: dict[str, Tensor] = {}
    if isinstance(readout.join, nn.Sequential):
        weight: Any = readout.join[0].weight
        parts = weight.split([widths[name] for name in readout.inputs], 1)
        joined = dict(zip(readout.inputs, parts, strict=True))
    token, told, context = layer.weight_ih_l0.tensor_split((widths["token"], widths["token"] + state.told.shape[1]), 1)
    bias = layer.bias_ih_l0 + layer.bias_hh_l0
    now = model.plan.feed == "now"
    read = joined.pop("context", None)
    behind = [part for part in (read, context if now else None) if part is not None]
    carried = _pays(state, sum(map(len, behind)))
    few = isinstance(model.embedding, nn.Embedding) and model.embedding.num_embeddings <= TABLE
    multiplied = torch.cat([layer.weight_hh_l0, context], 1) if now and not carried else layer.weight_hh_l0
    maps = Folded(
        token=(token, bias),
        table=F.linear(model.embedding.weight, token, bias) if few else None,
        cell=autograd.prepared(multiplied, STEPS * len(state.at)),
        joined=torch.cat(list(joined.values()), 1) if joined else None,
        context=None if carried else read,
        carried=carried,
    )
    return state._replace(
        memory=state.memory._replace(values=_through(state.memory.values, behind)) if carried else state.memory,
        told=F.linear(state.told, told) if state.told.shape[1] else state.told,
        context=state.context[:, :0],
        folded=maps,
    )


def _through(values: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """What each of the maps (u, v) makes of (b, m, v), side by side and written where it belongs: (b, m, all units)."""
    units = [len(each) for each in maps]
    joined = values.new_empty(*values.shape[:2], sum(units))
    for each, part in zip(maps, torch.split(joined.flatten(0, 1), units, 1), strict=True):
        product(values.flatten(0, 1), each, out=part)
    return joined


def _width(model: Seq2seq) -> int:
    """Of an embedded token."""
    embedding = model.embedding
    return embedding.embedding_dim if isinstance(embedding, nn.Embedding) else embedding.out_features


def _serves(model: Seq2seq, state: DecoderState) -> bool:
    """Whether the context enters linear maps alone, of a cell that is taken apart here, and no gradients are wanted."""
    readout, recurrent = model.readout, model.decoder.recurrent
    mapped = type(readout) is Joint and isinstance(readout.join, nn.Sequential) and readout.inputs != ("context",)
    state_alone = type(readout) is Joint and isinstance(readout.join, nn.Identity) and readout.inputs == ("state",)
    cell = isinstance(recurrent.layers[0], nn.LSTM) and len(recurrent.layers) == 1 and model.plan.feed != "next"
    read = type(model.attention) in (Attention, NoAttention) and model.own is None and state.past is None
    asked = all(part.needs != "context" for part in model.query.inputs)
    plain = not (torch.is_grad_enabled() or model.training or torch.is_autocast_enabled(state.at.device.type))
    return (mapped or state_alone) and cell and read and asked and plain and not model.output.copies


def _pays(state: DecoderState, units: int) -> bool:
    """Whether to carry the memory's values through maps to so many units."""
    _, positions, width = state.memory.values.shape
    often = state.shared > 1 or len(state.at) <= FEW or units <= width
    return units > 0 and often and WIDE * positions <= width
