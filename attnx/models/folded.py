"""Search with a context that enters linear maps alone: they are one map, applied once to what is read where that pays.

As ``W sum_m a_m v_m = sum_m a_m (W v_m)``, the memory's values become what the readout and the cell's gates make of
them; a symbol's embedding becomes a row of a table; the weights of every read are what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention import Read, Step
from attnx.attention.attention import Attention
from attnx.attention.constant import Constant
from attnx.nn.readouts.joint import Joint
from attnx.ops import lstm

if TYPE_CHECKING:
    from attnx.models.decoder_state import DecoderState
    from attnx.models.encoder_decoder import Seq2seq

FEW = 32
"""Up to so many rows it pays though each has a source of its own: what takes time then is to fetch the weights."""
WIDE = 4
"""How many times as wide as long a memory must be; to read a longer one takes as much longer as the maps took."""
TABLE = 256
"""Up to so many symbols are in a table; of more, most would never be looked up."""


@dataclass(frozen=True, eq=False)
class Folded:
    """What the steps of a folded state need: no tuple of tensors, as none of it belongs to any row.

    Attributes:
        token: (g, e) from an embedded token to the cell's gates, and what is added to them (g).
        table: (symbols, g) the same of every symbol; None if there are many, or none.
        state: (d, g) from the state before to the gates.
        joined: from what is joined with the context to the readout's r units.
        context: (r + g, v) from the context to both; None if the memory's values are carried through it already.
    """

    token: tuple[Tensor, Tensor]
    table: Tensor | None
    state: Tensor
    joined: Tensor
    context: Tensor | None

    def step(
        self, model: Seq2seq, inputs: Tensor, state: DecoderState, need_weights: bool
    ) -> tuple[Tensor, DecoderState, Read]:
        """As :meth:`Seq2seq.step`, but for the readout (b, r) in the place of what is predicted."""
        token = model.embedding(inputs)
        gates = F.linear(token, *self.token) if self.table is None else self.table.index_select(0, inputs)
        gates += state.told if state.told.shape[1] else 0
        gates.addmm_(state.cell[0][0], self.state)
        known, units = Step(token[:, None], before=state.cell[0][0][:, None], tag=state.tag[:, None]), len(self.joined)
        if model.plan.feed == "now":
            read = model.read(known, state, need_weights=need_weights)
            behind = self._behind(read)
            cell = lstm.step(gates.add_(behind[:, units:]), state.cell[0][1])
        else:
            cell = lstm.step(gates, state.cell[0][1])
            read = model.read(known._replace(after=cell[0][:, None]), state, need_weights=need_weights)
            behind = self._behind(read)
        given = {"state": cell[0], "token": token}
        joined = torch.cat([given[name] for name in model.readout.inputs if name != "context"], -1)
        vector = torch.addmm(behind[:, :units], joined, self.joined.t()).tanh_()
        return vector, state._replace(cell=(cell,), at=state.at + 1), read

    def _behind(self, read: Read) -> Tensor:
        """What the maps make of the context: (b, r), and of ``feed=now`` the gates' (b, r + g)."""
        return read.context[:, 0] if self.context is None else F.linear(read.context[:, 0], self.context)


def folded(model: Seq2seq, state: DecoderState) -> DecoderState:
    """The same state folded, where that can be done; else as it is. Values are carried through the maps if that pays.

    Of a folded state the context, last and read, is no context any more; a model whose query reads it is left alone.
    """
    if state.folded is not None or not _serves(model, state):
        return state
    layer, readout = model.decoder.recurrent.layers[0], model.readout
    widths = {"state": model.decoder.recurrent.size, "context": state.context.shape[1], "token": _width(model)}
    parts = readout.join[0].weight.split([widths[name] for name in readout.inputs], 1)
    joined = dict(zip(readout.inputs, parts, strict=True))
    token, told, context = layer.weight_ih_l0.tensor_split((widths["token"], widths["token"] + state.told.shape[1]), 1)
    bias = layer.bias_ih_l0 + layer.bias_hh_l0
    behind = [joined.pop("context"), *([context] if model.plan.feed == "now" else [])]
    once = _pays(state)
    few = isinstance(model.embedding, nn.Embedding) and model.embedding.num_embeddings <= TABLE
    maps = Folded(
        token=(token, bias),
        table=F.linear(model.embedding.weight, token, bias) if few else None,
        state=layer.weight_hh_l0.t(),
        joined=torch.cat(list(joined.values()), 1),
        context=None if once else torch.cat(behind),
    )
    return state._replace(
        memory=state.memory._replace(values=_through(state.memory.values, behind)) if once else state.memory,
        told=F.linear(state.told, told) if state.told.shape[1] else state.told,
        context=state.context[:, :0],
        folded=maps,
    )


def _through(values: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """What each of the maps (u, v) makes of (b, m, v), side by side and written where it belongs: (b, m, all units)."""
    units = [len(each) for each in maps]
    joined = values.new_empty(*values.shape[:2], sum(units))
    for each, part in zip(maps, torch.split(joined.flatten(0, 1), units, 1), strict=True):
        torch.mm(values.flatten(0, 1), each.t(), out=part)
    return joined


def _width(model: Seq2seq) -> int:
    """Of an embedded token."""
    embedding = model.embedding
    return embedding.embedding_dim if isinstance(embedding, nn.Embedding) else embedding.out_features


def _serves(model: Seq2seq, state: DecoderState) -> bool:
    """Whether the context enters linear maps alone, of a cell that is taken apart here, and no gradients are wanted."""
    readout, recurrent = model.readout, model.decoder.recurrent
    linear = type(readout) is Joint and isinstance(readout.join, nn.Sequential)
    joined = linear and {"state", "context"} <= set(readout.inputs)
    cell = isinstance(recurrent.layers[0], nn.LSTM) and len(recurrent.layers) == 1 and model.plan.feed != "next"
    read = type(model.attention) in (Attention, Constant) and model.own is None and state.past is None
    asked = all(part.needs != "context" for part in model.query.inputs)
    plain = not (torch.is_grad_enabled() or model.training or torch.is_autocast_enabled(state.at.device.type))
    return joined and cell and read and asked and plain and not model.output.copies


def _pays(state: DecoderState) -> bool:
    _, positions, width = state.memory.values.shape
    return (state.shared > 1 or len(state.at) <= FEW) and WIDE * positions <= width
