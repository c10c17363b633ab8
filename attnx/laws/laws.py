"""The base classes of laws: a class per kind of part, whose public methods are the laws."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from attnx.attention.types import AttentionHistory
from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.violation import (
    describe_type,
    gradient_error,
    require,
    require_close,
    require_equal,
    require_finite,
)
from attnx.registry.part import REQUIRED

Method = TypeVar("Method", bound=Callable[..., None])
DETERMINISM = "equal_calls_agree"
"""The law that two equal calls agree: without it no comparison of numbers tells anything."""
FIRST = ("declarations", "shapes", DETERMINISM)
"""What is checked before all other laws of a class."""


def quick(law: Method) -> Method:
    """Mark a law that takes milliseconds: it is checked before a training, too."""
    law.is_quick = True  # type: ignore[attr-defined]
    return law


class Law(NamedTuple):
    """A law of a kind."""

    laws: type[Laws]  # the class that defines it
    method: str  # the name of its method

    @property
    def name(self) -> str:
        """Its name in a table."""
        return f"{self.method.replace('_', ' ')}{self.laws.suffix}"

    @property
    def is_quick(self) -> bool:
        """Whether it is marked so."""
        return getattr(getattr(self.laws, self.method), "is_quick", False)

    @property
    def statement(self) -> str:
        """The law in words: the first paragraph of its docstring, as one line."""
        text = inspect.getdoc(getattr(self.laws, self.method)) or ""
        return " ".join(text.split("\n\n")[0].split()).rstrip(".")

    def check(self, candidate: Candidate) -> None:
        """Raise a violation if the candidate breaks the law, ``LawSkipped`` if the law applies to none of the cases."""
        reasons: list[LawSkipped | None] = []
        for case in self.laws.cases(candidate):
            try:
                getattr(case, self.method)()
                reasons.append(None)
            except LawSkipped as reason:
                reasons.append(reason)
        if reasons and reasons[-1] is not None and None not in reasons:
            raise reasons[-1]


class Laws:
    """Laws: each public method is a law, and its docstring states it."""

    kind: ClassVar[str]  # of the part whose methods a violation names
    suffix: ClassVar[str] = ""  # what follows the names of laws that need more than the part

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Laws]:
        """What the laws are checked on for a candidate; ``LawSkipped`` if they do not apply to it.

        Raises:
            LawSkipped: the laws do not apply to it.
        """
        raise NotImplementedError

    @classmethod
    def collect(cls) -> tuple[Law, ...]:
        """The laws that all others rest on, the quick ones, and the rest; shared ones last."""
        methods = [name for class_ in cls.__mro__ for name, item in vars(class_).items() if inspect.isfunction(item)]
        laws = [Law(cls, name) for name in dict.fromkeys(methods) if not name.startswith("_")]
        return tuple(sorted(laws, key=lambda law: (law.method not in FIRST, not law.is_quick)))


class PartLaws(Laws):
    """The laws of a kind whose parts are checked alone."""

    sizes: ClassVar[Mapping[str, Any]] = {}  # the arguments that other parts would supply
    methods: ClassVar[Sequence[str]] = ("forward",)  # that the part has

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """The candidate alone."""
        yield cls(candidate)

    @functools.cached_property
    def part(self) -> Any:
        """The part, in evaluation mode."""
        return self._build()

    def _build(self) -> Any:
        return self.candidate.build(**self.sizes)

    def _declares(self, name: str, default: bool = False) -> bool:
        """Whether the part declares something to be so."""
        return bool(self.candidate.declaration(name, default))

    def _require_declarations(self, **optional: Any) -> None:
        """Check that the part agrees with what its source declares: what its kind requires, and what is ``optional``.

        Args:
            **optional: the default of each declaration that a class may omit.
        """
        required: dict[str, Any] = dict.fromkeys(REQUIRED.get(self.candidate.kind, {}))
        for name, default in (required | optional).items():
            declared, value = self.candidate.declaration(name, default), getattr(self.part, name, default)
            require(value == declared, name, f"the class declares {name} = {declared!r}, and the object has {value!r}")

    def _require_methods(self) -> None:
        """Check that the part has the kind's methods, beyond those that ``nn.Module`` lends it."""
        kind, inherited = type(self.part), vars(nn.Module)
        missing = [
            name
            for name in self.methods
            if not callable(getattr(self.part, name, None)) or getattr(kind, name, None) is inherited.get(name, self)
        ]
        require(not missing, "", f"{type(self.part).__name__} has no method {', '.join(missing)}")

    def _require_module(self) -> None:
        """Check that the part is an ``nn.Module`` with the kind's methods."""
        require(isinstance(self.part, nn.Module), "", f"it is {describe_type(self.part)} instead of a torch.nn.Module")
        self._require_methods()

    def _require_size(self, what: str) -> None:
        """Check that the part has a ``size``, the width of something."""
        size = getattr(self.part, "size", None)
        require(isinstance(size, int) and size > 0, "", f"its size, the width of {what}, is {size!r}")


class TensorLaws(PartLaws):
    """The laws of every part that computes a tensor, the first axis of whose inputs and outputs is the batch's."""

    member: ClassVar[str] = "forward"  # the method that computes it
    results: ClassVar[str] = "outputs"  # what the tensor contains, in messages

    def _inputs(self) -> dict[str, Tensor]:
        """Random inputs of :meth:`_compute`, by name."""
        raise NotImplementedError

    def _compute(self, *args: Any, **kwargs: Any) -> Tensor:
        """What the part computes, its type and shape checked."""
        raise NotImplementedError

    @quick
    def equal_calls_agree(self) -> None:
        """Two calls with the same inputs give the same numbers, in every bit: nothing is drawn but in training."""
        inputs = self._inputs()
        first, second = (self._compute(**{name: tensor.clone() for name, tensor in inputs.items()}) for _ in range(2))
        require_equal(second, first, self.member)

    @quick
    def numbers_are_finite(self) -> None:
        """Outputs and gradients are finite."""
        self._require_finite(self._inputs())

    @quick
    def rows_are_independent(self) -> None:
        """The results of a row do not depend on other rows."""
        self._require_independent(self._inputs(), 1)

    def every_parameter_has_a_gradient(self) -> None:
        """Every parameter has a gradient in training."""
        self.part.train()
        self._backward(self._inputs())
        unused = [name for name, weight in self._trained_parameters() if weight.grad is None]
        require(not unused, "", f"no gradient for {', '.join(unused)}")

    def gradients_are_derivatives(self) -> None:
        """Gradients of the inputs and of every parameter agree with finite differences."""
        inputs = self._inputs()
        leaves = _floating(inputs)

        def compute(*tensors: Tensor) -> Tensor:
            return self._compute(**{**inputs, **dict(zip(leaves, tensors, strict=True))})

        error = gradient_error(compute, list(leaves.values()), self.part)
        require(not error, self.member, f"the gradient is not the derivative: {error}")

    def bfloat16_is_supported(self) -> None:
        """Results and gradients in bfloat16 are finite and bfloat16."""
        self.part.to(torch.bfloat16)
        inputs = self._inputs()
        # A history stays in single precision.
        narrow = {
            name: tensor.to(torch.bfloat16)
            for name, tensor in _floating(inputs).items()
            if name not in AttentionHistory._fields
        }
        outputs = self._require_finite({**inputs, **narrow}, " of bfloat16")
        require(outputs.dtype == torch.bfloat16, self.member, f"{self.results} of bfloat16 are {outputs.dtype}")

    def inputs_are_not_modified(self) -> None:
        """Inputs are not modified in place."""
        inputs = self._inputs()
        originals = {name: tensor.clone() for name, tensor in inputs.items()}
        self._compute(**inputs)
        for name, tensor in inputs.items():
            require(torch.equal(tensor, originals[name]), self.member, f"it changed the {name} in place")

    def _require_independent(self, inputs: Mapping[str, Tensor], axes: int) -> None:
        """Check that along so many leading axes every entry alone gives what it gives among the others."""
        together = self._compute(**inputs)
        for index in itertools.product(*map(range, together.shape[:axes])):
            pick = tuple(slice(entry, entry + 1) for entry in index)
            alone = self._compute(**{name: tensor[pick] for name, tensor in inputs.items()})
            difference = f"row {index[0]} has other {self.results} in a batch"
            require_close(together[pick], alone, self.member, difference)

    def _backward(self, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Compute gradients, and return the inputs that have one, and the outputs."""
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in _floating(inputs).items()}
        outputs = self._compute(**{**inputs, **leaves})
        if outputs.requires_grad:
            outputs.sum().backward()  # type: ignore[no-untyped-call]
        return leaves, outputs.detach()

    def _require_finite(self, inputs: Mapping[str, Tensor], case: str = "") -> Tensor:
        """Check that outputs and gradients are finite, and return the outputs."""
        leaves, outputs = self._backward(inputs)
        require_finite(outputs, self.member, f"{self.results}{case}")
        for name, leaf in leaves.items():
            require_finite(leaf.grad, self.member, f"gradients of the {name}{case}")
        for name, weight in self._trained_parameters():
            require_finite(weight.grad, self.member, f"gradients of the parameter {name}{case}")
        return outputs

    def _trained_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(name, weight) for name, weight in self.part.named_parameters() if weight.requires_grad]


class StepLaws(TensorLaws):
    """The laws of parts whose second axis is steps, each computed from its own inputs alone."""

    @quick
    def steps_are_independent(self) -> None:
        """The results of a step do not depend on other steps: decoding has one step at a time."""
        inputs = self._inputs()
        together = self._compute(**inputs)
        for step in range(together.shape[1]):
            pick = slice(None), slice(step, step + 1)
            alone = self._compute(**{name: tensor[pick] for name, tensor in inputs.items()})
            difference = f"step {step} has other {self.results} among other steps than alone"
            require_close(together[pick], alone, self.member, difference)


def _floating(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inputs that are floating-point numbers."""
    return {name: tensor for name, tensor in inputs.items() if tensor.is_floating_point()}
