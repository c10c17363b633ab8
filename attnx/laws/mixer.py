"""The laws of every mixer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnx.laws.laws import TensorLaws, quick
from attnx.laws.model import require_same_results
from attnx.laws.violation import require, require_close, require_tensor
from attnx.ops import at_least_float32

ROWS, STEPS, WIDTH = 3, 11, 24
# Rows of 11 positions, of 7 and of none.
MASK = torch.arange(STEPS) < torch.tensor([11, 7, 0])[:, None]
CHUNKS = (1, 2, 3, 5, 16)
CUTS = [4, 1, 6]  # calls one after another
State = tuple[Tensor, ...]


class MixerLaws(TensorLaws):
    """The laws of every mixer of width 24, for three rows of up to eleven positions."""

    kind = "mixer"
    sizes: ClassVar[Mapping[str, Any]] = {"hidden_size": WIDTH}
    methods: ClassVar[tuple[str, ...]] = ("init_state", "forward")

    def _inputs(self) -> dict[str, Tensor]:
        """Random positions, with padding."""
        return {"states": torch.randn(ROWS, STEPS, WIDTH), "mask": MASK.clone()}

    def _compute(self, states: Tensor, mask: Tensor) -> Tensor:
        """The outputs (b, t, hidden_size), zeros at padding."""
        return self._run(states, mask)[0].masked_fill(~mask[..., None], 0.0)

    def _run(self, states: Tensor, mask: Tensor | None = None, state: State | None = None) -> tuple[Tensor, State]:
        """Outputs and the state after them, both checked."""
        result = self.part(states, mask, state)
        require(isinstance(result, tuple) and len(result) == 2, "forward", "it did not return outputs and a state")
        outputs, after = result
        return require_tensor(outputs, "forward", states.shape), self._checked(after, "forward", states)

    def _checked(self, state: Any, member: str, states: Tensor) -> State:
        """A state, checked to be a tuple of tensors with the batch first."""
        is_state = isinstance(state, tuple) and all(isinstance(part, Tensor) for part in state)
        require(is_state, member, "the state is no named tuple of tensors")
        rows = {part.shape[0] for part in state}
        require(rows <= {states.shape[0]}, member, f"the state has {rows} rows instead of {states.shape[0]}")
        checked: State = state
        return checked

    @quick
    def declarations(self) -> None:
        """A mixer is an nn.Module with ``init_state`` and a forward, and says its ``state_size``."""
        self._require_module()
        size = getattr(self.part, "state_size", None)
        require(isinstance(size, int) and size > 0, "", f"its state_size, the numbers of a row's state, is {size!r}")

    @quick
    def shapes(self) -> None:
        """Outputs are (b, t, hidden_size), of one position, of many and of none."""
        for steps in (STEPS, 1, 0):
            self._run(torch.randn(ROWS, steps, WIDTH))

    @quick
    def state_has_its_size(self) -> None:
        """A state has ``state_size`` numbers a row, in float32 or wider, after any number of positions."""
        states = torch.randn(ROWS, STEPS, WIDTH)
        start = self._checked(self.part.init_state(ROWS, states), "init_state", states)
        for member, state in (("init_state", start), ("forward", self._run(states, MASK, start)[1])):
            size = sum(part[0].numel() for part in state)
            require(size == self.part.state_size, member, f"the state has {size} numbers, not {self.part.state_size}")
            wide = all(part.dtype == at_least_float32(states.dtype) for part in state)
            require(wide, member, f"the state is in {', '.join({str(part.dtype) for part in state})}")

    def calls_follow_each_other(self) -> None:
        """Calls for the parts of a sequence, or for each position, give what one call for all of it gives."""
        states, slope = torch.randn(ROWS, STEPS, WIDTH), torch.randn(ROWS, STEPS, WIDTH)
        expected = self._results(states, slope, [STEPS])
        for sizes in ([1] * STEPS, CUTS):
            actual = self._results(states, slope, sizes)
            require_same_results(actual, expected, f"{len(sizes)} calls one after another are not one call")

    def _results(self, states: Tensor, slope: Tensor, sizes: list[int], part: Any = None) -> dict[str, Tensor]:
        """The outputs, the state and the gradients, of calls of these sizes one after another on ragged rows."""
        module = self.part if part is None else part
        module.zero_grad(set_to_none=True)
        leaf, state, outputs = states.clone().requires_grad_(), None, []
        for piece, mask in zip(torch.split(leaf, sizes, 1), torch.split(MASK, sizes, 1), strict=True):
            output, state = module(piece, mask, state)
            outputs.append(output)
        joined = torch.cat(outputs, 1).masked_fill(~MASK[..., None], 0.0)
        assert state is not None
        ((joined * slope).sum() + sum(tensor.pow(2).sum() for tensor in state)).backward()
        tensors = {"outputs": joined, "gradients of the inputs": leaf.grad}
        tensors |= {f"states ({index})": tensor for index, tensor in enumerate(state)}
        tensors |= {f"gradients of {name}": weight.grad for name, weight in module.named_parameters()}
        return {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}

    def chunks_have_no_effect(self) -> None:
        """The option ``chunk``, how many positions are computed at a time, changes neither outputs nor gradients."""
        if not self.candidate.has_option("chunk"):
            return
        states, slope = torch.randn(ROWS, STEPS, WIDTH), torch.randn(ROWS, STEPS, WIDTH)
        expected = self._results(states, slope, [STEPS])
        for chunk in CHUNKS:
            part = self.candidate.with_options(chunk=chunk).build(**self.sizes)
            part.load_state_dict(self.part.state_dict())
            actual = self._results(states, slope, [STEPS], part)
            require_same_results(actual, expected, f"with chunk={chunk}")

    def padding_has_no_effect(self) -> None:
        """A row gives what it gives without its padding, even of NaN, and its state is that of its last position."""
        states = torch.randn(ROWS, STEPS, WIDTH)
        start = self.part.init_state(ROWS, states)
        _, start = self._run(torch.randn(ROWS, 3, WIDTH), None, start)
        outputs, after = self._run(states.masked_fill(~MASK[..., None], torch.nan), MASK, start)
        for row, length in enumerate(MASK.sum(-1).tolist()):
            pick = slice(row, row + 1)
            before = tuple(part[pick] for part in start)
            before = start._make(before) if hasattr(start, "_make") else before
            alone, last = self._run(states[pick, :length], None, before)
            require_close(outputs[pick, :length], alone, "forward", f"row {row} has other outputs with padding")
            for padded, tight in zip(after, last, strict=True):
                require_close(padded[pick], tight, "forward", f"padding changes the state of row {row}")

    def later_positions_have_no_effect(self) -> None:
        """A position has no effect on the outputs of earlier ones."""
        states = torch.randn(ROWS, STEPS, WIDTH)
        first = self._run(states)[0]
        for step in (1, 5, STEPS - 1):
            changed = self._run(torch.cat([states[:, :step], states[:, step:] + 1], 1))[0]
            require_close(changed[:, :step], first[:, :step], "forward", "a later position changes an earlier output")

    def the_state_is_read(self) -> None:
        """What earlier positions left in the state has an effect on the next output."""
        states = torch.randn(ROWS, STEPS, WIDTH)
        _, later = self._run(torch.randn(ROWS, STEPS, WIDTH))
        first, second = self._run(states)[0][:, 0], self.part(states, None, later)[0][:, 0]
        require(not torch.allclose(first, second), "forward", "the outputs do not depend on the state")

    def the_state_is_not_modified(self) -> None:
        """The state that is passed to a call is not modified in place."""
        states = torch.randn(ROWS, STEPS, WIDTH)
        _, start = self._run(states)
        originals = [part.detach().clone() for part in start]
        self.part(states, None, start)
        require(all(map(torch.equal, start, originals)), "forward", "it changed the state in place that it was passed")
