"""Laws of compiled steps: equal numbers, and no change of the model."""

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.accel import compiled
from attnx.accel.compiled import OLDEST_WITH_BREAKS, CompileOptions, clone_gradients, compile_model
from attnx.training.compiling import OLDEST_COMPILER

if torch.__version__ < OLDEST_COMPILER:
    pytest.skip("trainer.compile needs a newer torch", allow_module_level=True)
# torch's compilers look at what they warn others of.
pytestmark = [pytest.mark.usefixtures("float64", "fresh"), pytest.mark.filterwarnings("ignore")]

SOURCE = torch.tensor([[3, 19, 7, 2, 11, 17, 5], [5, 13, 22, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 5, 3, 8, 2], [1, 7, 13, 2, 4]])
TAG = torch.tensor([2, 0])
DROP = {"dropout": 0.3}
CASES: dict[str, dict[str, Any]] = {
    "fed now": {"query": ["previous_state"], "model": {**DROP, "feed": "now"}, "decoder": {**DROP, "layers": 2}},
    "fed next": {
        "query": ["current_state", "language_tag"],
        "model": {**DROP, "feed": "next", "tag_inputs": ["encoder", "decoder"]},
        "attention": ("standard", {**DROP, "heads": 2}),
        "decoder": {"cell": "gru"},
    },
    "looking back": {"scorer": "coverage", "model": DROP, "output": "copy"},
    "growing": {"query": ["previous_state"], "scope": "encoder_decoder", "model": {**DROP, "feed": "now"}},
    "without attention": {"attention": "none", "model": {**DROP, "feed": "next"}},
}


class Backend(list[Any]):
    """One that runs what it is given as it is, and keeps it to be counted."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.append(graph)
        return graph.forward


@pytest.fixture
def fresh():
    yield
    torch._dynamo.reset()
    compiled._compile.cache_clear()


@pytest.fixture
def backend(monkeypatch):
    counter = Backend()
    monkeypatch.setattr(compiled, "BACKEND", counter)
    return counter


# Positions and steps of batches. Another shape is a question of its own.
BATCHES, TWO_SHAPES = ((5, 3),), ((7, 5), (5, 3))


def learn(
    model: Any,
    options: CompileOptions | None,
    scheduled_sampling: float = 0.0,
    batches: Sequence[tuple[int, int]] = BATCHES,
) -> dict[str, Tensor]:
    """Outputs and gradients of some batches, with units dropped and symbols drawn alike."""
    torch.manual_seed(47)
    model.zero_grad(set_to_none=True)
    compile_model(model, options)
    result = {}
    for cut, steps in batches:
        source = SOURCE[:, :cut]
        output = model(
            source, source != 0, TARGET[:, :steps], TAG, need_weights=True, scheduled_sampling=scheduled_sampling
        )
        slope = torch.linspace(-1, 1, output.logits.numel()).reshape(output.logits.shape)
        loss = (output.logits * slope).sum()
        (loss if output.penalty is None else loss + output.penalty.sum()).backward()
        result |= {f"{name} {steps}": value for name, value in output._asdict().items() if value is not None}
    return result | {name: weight.grad for name, weight in model.named_parameters()}


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor], **within: float) -> None:
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, msg=lambda text, name=name: f"{name}: {text}", **within)


@pytest.mark.parametrize("case", CASES)
def test_compiled_steps_match_uncompiled_steps(build_model, backend, case):
    model = build_model(**CASES[case]).train()
    assert model.plan.schedule == "step_by_step"
    expected = learn(model, None)
    assert not backend
    assert_same(learn(model, CompileOptions(is_strict=True)), expected)
    assert backend


def test_sampled_symbols_are_the_same(build_model, backend):
    model = build_model(model={"scheduled_sampling": 0.5, "feed": "next"}).train()
    expected = learn(model, None, scheduled_sampling=0.5)
    assert_same(learn(model, CompileOptions(is_strict=True), scheduled_sampling=0.5), expected)
    assert backend


def test_another_shape_gives_the_same_result(build_model, monkeypatch):
    """What torch makes of a step and of its gradients, in simpler operations, before they become C++ or Triton."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    model = build_model(query=["previous_state"], model={**DROP, "feed": "now"}).train()
    expected = learn(model, None, batches=TWO_SHAPES)
    assert_same(learn(model, CompileOptions(is_strict=True), batches=TWO_SHAPES), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(torch.__version__ < OLDEST_WITH_BREAKS, reason="a step is one graph")
def test_a_step_with_graph_breaks_gives_the_same_result(build_model, backend):
    class Unseen(torch.nn.Softmax):
        def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
            torch._dynamo.graph_break()
            return super().forward(scores.masked_fill(~allowed_mask, -1e9))

    model = build_model(query=["previous_state"], model={"feed": "now"}).train()
    model.attention.normalizer = Unseen(-1)
    expected = learn(model, None)
    assert_same(learn(model, CompileOptions(is_strict=True)), expected)
    assert len(backend) > 1


def test_only_training_compiles(build_model, backend):
    """Judging and generating are not worth a compiler's time: their batches are few, or of one step."""
    model = build_model(query=["previous_state"], model={"feed": "now"})
    compile_model(model, CompileOptions(is_strict=True))
    with torch.no_grad():
        model(SOURCE, SOURCE != 0, TARGET, TAG)
        model.decode_step(TARGET[:, 0], model.init_state(SOURCE, SOURCE != 0, TAG))
    assert not backend


def test_copies_of_the_model_are_not_compiled(build_model, backend):
    model = build_model(query=["previous_state"], model={"feed": "now"}).train()
    names = list(model.state_dict())
    expected = learn(model, CompileOptions(is_strict=True))
    assert list(model.state_dict()) == names
    graphs = len(backend)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_same(learn(copied, copied.compile_options), expected)
    assert len(backend) == graphs  # a copy is not compiled for again


@pytest.mark.parametrize("oldest_with_breaks", ["2.9", "99"])
def test_a_step_that_cannot_be_compiled_runs_uncompiled(build_model, monkeypatch, oldest_with_breaks):
    monkeypatch.setattr(compiled, "OLDEST_WITH_BREAKS", oldest_with_breaks)

    def fail(graph: Any, inputs: Any) -> Any:
        raise NotImplementedError("no such graph")

    monkeypatch.setattr(compiled, "BACKEND", fail)
    model = build_model(query=["previous_state"], model={"feed": "now"}).train()
    with pytest.raises(Exception, match="no such graph"):
        learn(model, CompileOptions(is_strict=True))
    assert_same(learn(model, CompileOptions()), learn(model, None))


def test_gradients_own_their_memory():
    """A CUDA graph writes the gradients of each batch to the same place, and they may not have been used yet."""
    place = torch.ones(3)

    class Written(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, weight: Tensor) -> Tensor:
            return weight.clone()

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> Tensor:
            return place.copy_(slope).view_as(place)

    model = torch.nn.Linear(1, 1, bias=False)
    model.weight = torch.nn.Parameter(torch.ones(3))
    clone_gradients(model)
    for factor in (5.0, 2.0):
        (factor * Written.apply(model.weight)).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [7.0, 7.0, 7.0]
