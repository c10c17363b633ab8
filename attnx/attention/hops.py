"""Several hops: a read refines the query of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.inputs import check_tensor
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.types import AttentionHistory, AttentionOutput, Memory
from attnx.errors import UserError
from attnx.ops import is_tracing


class Hops(nn.Module):
    """Read the same memory several times, each time with a query that the last read has refined.

    Formula: ``q_{k+1} = H q_k + P o_k, o_k = attention(q_k, memory)``; the last read is the outcome
    Source: Sukhbaatar et al. 2015, section 2.2, equation 4, with the H of layer-wise tying,
        https://arxiv.org/abs/1503.08895

    All hops share one attention, as the paper's layer-wise tying has it: the memory is prepared once. P is a linear map
    where the context's width is not the query's, else the identity. The scores, weights and scope are the last hop's;
    what the hops add to the loss, and their log-probabilities, are summed.

    Raises:
        UserError: a part reads earlier weights or carries something from step to step.
    """

    def __init__(self, attention: Attention | MultiHeadAttention, hops: int, query_size: int, values_size: int) -> None:
        super().__init__()
        if attention.needs_history:
            raise UserError(f"attention.hops={hops}: its parts read earlier steps; use others")
        self.attention, self.hops, self.values_size = attention, hops, values_size
        self.refine = nn.Linear(query_size, query_size, bias=False)
        is_equal = query_size == values_size
        self.project = nn.Identity() if is_equal else nn.Linear(values_size, query_size, bias=False)
        self.num_heads, self.dropout, self.needs_history = attention.num_heads, attention.dropout, False
        self.is_distribution = attention.is_distribution

    def make_memory(
        self,
        states: Tensor,
        memory_mask: Tensor | None = None,
        values: Tensor | None = None,
        rotation: Tensor | None = None,
    ) -> Memory:
        """As :meth:`Attention.make_memory`: all hops read the same memory; values of another width are a UserError.

        ``rotation`` is for several heads: :meth:`MultiHeadAttention.make_memory`.
        """
        rotated: dict[str, Any] = {} if rotation is None else {"rotation": rotation}
        memory = self.attention.make_memory(states, memory_mask, values, **rotated)
        if not is_tracing():
            check_tensor(
                "make_memory: values", states if values is None else values, "float", ("b", "m", self.values_size)
            )
        return memory

    def init_history(self, memory: Memory) -> None:
        """Nothing is carried from step to step."""

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed_mask: Tensor | None = None,
        steps: Tensor | None = None,
        history: AttentionHistory | None = None,
        need_weights: bool = False,
        dropout_mask: Tensor | None = None,
        rotation: Tensor | None = None,
    ) -> AttentionOutput:
        """As :meth:`Attention.forward`; every hop drops the weights of a ``dropout_mask`` that is passed."""
        options: dict[str, Any] = {"dropout_mask": dropout_mask}
        if rotation is not None:
            options["rotation"] = rotation
        reads: list[AttentionOutput] = []
        for hop in range(1, self.hops + 1):
            if reads:
                queries = self.refine(queries) + self.project(reads[-1].context)
            is_shown = need_weights and hop == self.hops
            reads.append(self.attention(queries, memory, allowed_mask, steps, need_weights=is_shown, **options))
        penalty, log_prob = _sum([read.penalty for read in reads]), _sum([read.log_prob for read in reads])
        return reads[-1]._replace(penalty=penalty, log_prob=log_prob)

    if TYPE_CHECKING:  # a call of nn.Module takes and returns Any
        __call__ = forward


def _sum(terms: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of a term of each hop; None if no hop has it."""
    tensors = [term for term in terms if term is not None]
    return torch.stack(tensors).sum(0) if tensors else None
