"""The output ``copy``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnx.data.vocabulary import PAD
from attnx.errors import UserError
from attnx.nn.contracts import OutputInputs
from attnx.nn.outputs.linear import LinearOutput
from attnx.registry import Size, register


@register("output", "copy")
class Copying(nn.Module):
    """Write a symbol of the vocabulary or copy one of the source: a gate says how much of each.

    Formula: ``p(y_t) = (g_t + (1 - g_t) (1 - sum_s a_ts)) softmax(O r_t) + (1 - g_t) sum_{s: x_s = y_t} a_ts``, s where
        x_s is a symbol of the target, ``g_t = sigmoid(w . [c_t; h_t; e(y_{t-1})] + b)``
    Source: See et al. 2017, equations 8 and 9 (pointer-generator), https://arxiv.org/abs/1704.04368

    ``a`` are the attention weights, the mean of several heads. Symbols are equal by
    :meth:`set_vocabulary_map`. The weight of positions without a target symbol, such as specials and decoder
    states, goes to generation; without such positions this is equation 9. Outputs are log-probabilities.

    >>> output = Copying(size=13, width=17, tied=None, state_size=13, context_size=26, token_size=11)
    >>> output.set_vocabulary_map([0, 0, 0, 0, 5, 7])
    >>> copy_ids = output.copy_ids(torch.tensor([[4, 5, 3]]), torch.tensor([[True, True, True]]))
    >>> copy_ids
    tensor([[5, 7, 0]])
    >>> seen = OutputInputs(torch.ones(1, 13), torch.ones(1, 26), torch.ones(1, 11), torch.ones(1, 3) / 3, copy_ids)
    >>> output(torch.ones(1, 13), seen).shape
    torch.Size([1, 17])
    """

    needs_weights = True

    def __init__(
        self,
        size: Size,
        width: Size,
        tied: nn.Parameter | None,
        state_size: Size,
        context_size: Size,
        token_size: Size,
    ) -> None:
        super().__init__()
        self.vocabulary = LinearOutput(size, width, tied)
        self.gate = nn.Linear(context_size + state_size + token_size, 1)
        # It follows from the vocabularies, so no checkpoint holds it.
        self.target_ids: Tensor | None
        self.register_buffer("target_ids", None, persistent=False)

    def set_vocabulary_map(self, ids: Sequence[int]) -> None:
        """Say which id of the target each id of the source has, 0, PAD, if none; a UserError if all have none."""
        if not any(ids):
            raise UserError(
                "output=copy copies source symbols that the target has, too, and these have none in common; use "
                "output=linear"
            )
        self.target_ids = torch.tensor(ids, device=self.gate.weight.device)

    def copy_ids(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """(b, s) ids of the source and (b, s) bool -> (b, s) ids of the target, PAD where there is none."""
        assert self.target_ids is not None, "set_vocabulary_map says first which symbols are the same"
        return self.target_ids[source].masked_fill(~source_mask, PAD)

    def forward(self, vectors: Tensor, inputs: OutputInputs) -> Tensor:
        """Readouts (..., size) and what was seen -> log-probabilities (..., width)."""
        assert inputs.weights is not None
        assert inputs.copy_ids is not None
        log_probs = torch.log_softmax(self.vocabulary(vectors), dim=-1)
        gate = self.gate(torch.cat([inputs.contexts, inputs.states, inputs.tokens], dim=-1)).to(log_probs.dtype)
        write, copy = torch.sigmoid(gate), torch.sigmoid(-gate)
        weights = inputs.weights[..., : inputs.copy_ids.shape[-1]].to(log_probs.dtype)
        symbols = (inputs.copy_ids if weights.dim() == 2 else inputs.copy_ids[:, None]).expand_as(weights)
        weights = weights.masked_fill(symbols == PAD, 0.0)
        remainder = (1 - weights.sum(-1, keepdim=True)).clamp(min=0)
        log_probs = log_probs + (write + copy * remainder).clamp(min=torch.finfo(log_probs.dtype).tiny).log()
        copied = torch.zeros_like(log_probs).scatter_add(-1, symbols, copy * weights)
        # In logarithms, which hold what is too small for a float; log(0), which has no gradient, is left out.
        is_copied = copied > 0
        return torch.where(is_copied, torch.logaddexp(log_probs, copied.masked_fill(~is_copied, 1.0).log()), log_probs)
