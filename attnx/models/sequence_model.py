"""What all models share: their interface, the output of a teacher-forced pass, and rows of a state."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, cast

from torch import Tensor, nn

from attnx.attention import Memory

State = TypeVar("State")


class Output(NamedTuple):
    """A teacher-forced pass."""

    # (b, t, ``target.width``), of a pointer (b, t, 4 + s); with an ``output_mask`` (n, ``target.width``). Of an output
    # layer that copies they are log-probabilities, which are their own logits.
    logits: Tensor
    weights: Tensor | None  # (b, t, m) if requested; (b, h, t, m) with several heads
    penalty: Tensor | None  # (b, t) what attention adds to the loss at each step, or None
    log_prob: Tensor | None = None  # (b, t) of the positions that were sampled in training, or None


class SequenceModel(nn.Module, Generic[State]):
    """A model that scores known targets, and decodes step by step with the same numbers.

    Decoding is that of :class:`attnx.decoding.contracts.StepModel`: ``init_state`` and ``decode_step``.
    """

    # whether what attention reads at a step has no effect on later steps, given the decoder's inputs
    reads_are_independent: bool = False

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        inputs: Tensor,
        tag: Tensor | None = None,
        need_weights: bool = False,
        source_lengths: Tensor | None = None,
    ) -> Output:
        """Score a known target (teacher forcing).

        Args:
            source: (b, s) symbols, or (b, s, features).
            source_mask: (b, s) bool, False at padding.
            inputs: (b, t, ...) the decoder's inputs: ``target.start_input``, then the target without its last step.
            tag: (b,) int64, the id of each row's tag; 0 if left out.
            need_weights: also return the attention weights.
            source_lengths: (b,) int64 on the CPU, the steps of each source; a model that needs them counts them in the
                mask if they are left out, for which it waits for a GPU.

        A model of tasks that label steps (``has_step_labels``) has a further argument ``output_mask`` (b, t) bool: the
        n steps whose logits to compute, in the order of rows.
        """
        raise NotImplementedError

    def source_rows(self, context: int) -> int:
        """How many steps a source has after which attention to the source has ``context`` positions to read."""
        return context

    def source_shares(self, state: State) -> Tensor | None:
        """As :meth:`StepModel.source_shares`: every step is a position."""
        return None

    def select_rows(self, state: State, rows: Tensor) -> State:
        """The state of these rows, int64, which may repeat."""
        return index_select_tree(state, rows)

    def reorder_beams(self, state: State, rows: Tensor) -> State:
        """As :meth:`select_rows`, where each row is replaced by one of the same source, whose encoding may stay."""
        return index_select_tree(state, rows)


def index_select_tree(tree: State, rows: Tensor) -> State:
    """The same tree with these rows of every tensor in it, int64, in this order; what is no tensor stays as it is.

    >>> import torch
    >>> index_select_tree((torch.tensor([5, 7, 11]), (None, (2, 3))), torch.tensor([2, 2, 0]))
    (tensor([11, 11,  5]), (None, (2, 3)))
    """
    selected: Any = tree
    if isinstance(tree, Tensor):
        selected = tree.index_select(0, rows.to(tree.device))  # of a model on several devices parts may lie elsewhere
    elif isinstance(tree, Memory) and tree.cache is not None:
        selected = tree.cache.select_rows(tree, rows)
    elif isinstance(tree, tuple):
        parts = [index_select_tree(part, rows) for part in tree]
        selected = tree._make(parts) if hasattr(tree, "_make") else tuple(parts)
    return cast("State", selected)
