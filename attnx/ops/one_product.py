"""The gradient of a weight that is used at every step of a loop: one product over all steps instead of one a step.

Under autograd a linear layer that is used T times forms T small products, and T - 1 sums of matrices as large as its
weight. Within :class:`OneProduct` each use only keeps its input and its output's gradient; when the last of them is
known they are laid one after another and multiplied once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode


class OneProduct(TorchFunctionMode):
    """Within it, ``F.linear`` (and so ``nn.Linear``) gathers the gradients of its weights; numbers stay what they were.

    >>> layer, inputs = torch.nn.Linear(3, 5), torch.ones(2, 7, 3)
    >>> with OneProduct():
    ...     outputs = [layer(inputs[:, t]) for t in range(7)]
    >>> torch.stack(outputs).sum().backward()
    >>> layer.weight.grad.shape, layer.bias.grad.tolist()
    (torch.Size([5, 3]), [14.0, 14.0, 14.0, 14.0, 14.0])
    """

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[int, _Weight] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Do what was called, linear maps in our way."""
        plain = func is not F.linear or bool(kwargs) or not torch.is_grad_enabled() or not args[1].requires_grad
        if plain or torch.is_autocast_enabled(args[0].device.type):  # which chooses the precision of each product
            return func(*args, **(kwargs or {}))
        inputs, weight, *bias = args
        if (known := self._weights.get(id(weight))) is None:
            known = self._weights[id(weight)] = _Weight(weight)
        found = known(inputs)
        return found if not bias or bias[0] is None else found + bias[0]


class _Weight:
    """A weight and its uses. It is held, so that no other tensor can come to have its id."""

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.detached = weight, weight.detach()
        self.uses: list[tuple[Tensor, Tensor]] = []
        # Every use depends on this number, so that autograd asks for the weight's gradient when all of them are done.
        self.last: Tensor = _Gathered.apply(weight, self.uses)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor) -> Tensor:
        found: Tensor = _Use.apply(inputs, self.detached, self.last, self.uses)  # type: ignore[no-untyped-call]
        return found


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, uses: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.uses = uses
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> Any:
        inputs, gradients = (torch.cat(some) for some in zip(*ctx.uses, strict=True))
        ctx.uses.clear()
        return gradients.t() @ inputs, None


class _Use(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, last: Tensor, uses: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.uses = uses
        return F.linear(inputs, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        ctx.uses.append((inputs.flatten(0, -2), given.flatten(0, -2)))
        return given @ weight if ctx.needs_input_grad[0] else None, None, given.new_zeros(()), None
