"""What an attention kernel promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attnx.attention.types import AttentionInputs, AttentionOutput

if TYPE_CHECKING:
    from attnx.attention.attention import Attention


class Kernel(Protocol):
    """A faster way to compute attention, equal to the definition in output and gradients.

    ``scorers``, ``scopes`` and ``normalizers`` name the parts that it supports; empty means any. Among the kernels that
    support a call the one with the lowest ``priority`` computes it.

    Optional attributes:

    - ``device``: the only type of device that it is for, as ``"cuda"``.
    - ``source``: the C file that it needs, which is compiled while a run starts.
    - ``supports_bias``: it adds the bias to the scores, as ``attention.attend_with_scores`` does.
    - ``supports_heads_as_batch``: it reads only a scorer's prepared queries and keys: heads are rows of one call.
    - ``supports_recurrence``: with a history it passes the scores of all queries to the definition at once.
    - ``build(device)``: compiles what its calls and their gradients need there. If it raises an error, the kernel is
      left out with a note, and the next one computes.
    """

    scorers: tuple[str, ...]
    scopes: tuple[str, ...]
    normalizers: tuple[str, ...]
    priority: int

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether it can compute this call: sizes, types, devices, masks. Called before every attention call."""
        ...

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Compute the attention."""
        ...
