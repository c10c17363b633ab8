"""What is compiled does not change a run, and the run reports it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.exc import InvalidCxxCompiler
from torch.torch_version import TorchVersion

import attnx
from attnx.accel import compiled
from attnx.attention.normalizers.sparsemax import Sparsemax
from attnx.errors import UserError
from attnx.training.compiling import OLDEST_COMPILER
from tests.runs.conftest import run_info

# torch's compilers look at what they warn others of.
pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
if torch.__version__ < OLDEST_COMPILER:
    pytest.skip("trainer.compile needs a newer torch", allow_module_level=True)
# No kernel supports these parts, and torch cannot look into kernels: then the same sums are added up in the same order.
TRANSFORMER = ("model=transformer", "model.layers=1", "model.hidden_size=6", "attention.heads=2", "scorer=scaled")
TRANSFORMER += ("normalizer=sparsemax",)
LOOP = ("+query=previous_state", "model.feed=now", "model.dropout=0.3", "scorer=dot", "normalizer=sparsemax")


@pytest.fixture
def fresh(monkeypatch):
    """What torch's compiler sees is run as it is: that another program does the same, a law says."""
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    yield
    torch._dynamo.reset()
    compiled._compile.cache_clear()


def compiled_info(folder: str) -> Any:
    return run_info(folder).get("compiled")


@pytest.mark.parametrize(
    ("mode", "choices", "reported"),
    [("steps", LOOP, "each step of the loop but the first"), ("model", TRANSFORMER, "the whole pass")],
)
def test_a_compiled_model_trains_equally(run, weights, mode, choices, reported):
    """To the last bit where no kernel serves: a compiled pass computes attention by torch's operations alone."""
    few = ("trainer.max_steps=3", "trainer.num_validations=1")
    run(*choices, *few, folder="plain")
    run(*choices, *few, f"trainer.compile={mode}", folder="compiled")
    assert compiled_info("plain") is None
    assert compiled_info("compiled") == reported
    within = {"rtol": 0.0, "atol": 0.0} if mode == "steps" else {"rtol": 1e-4, "atol": 1e-6}
    torch.testing.assert_close(weights("compiled"), weights("plain"), **within)
    assert attnx.open_run("compiled").predict(["bad"])


def test_steps_are_tried_in_the_precision_of_the_run(run, monkeypatch):
    """Else they would be compiled once more in training, and what fails there would not be said."""
    has_autocast = []

    def note(graph: Any, inputs: Any) -> Any:
        has_autocast.append(torch.is_autocast_enabled("cpu"))
        return graph.forward

    monkeypatch.setattr(compiled, "BACKEND", note)
    run(*LOOP, "trainer.compile=steps", "trainer.precision=bf16-mixed", "trainer.max_steps=1", folder="one")
    assert has_autocast
    assert all(has_autocast)


def test_an_older_torch_is_refused(run, monkeypatch, words):
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.8.0+cu128"))
    with pytest.raises(UserError, match=r"^trainer.compile=steps needs torch 2.9 or newer, and this is 2.8.0\+cu128;"):
        run("trainer.compile=steps", folder="one")
    assert not Path("one").exists()


@pytest.mark.parametrize(
    ("mode", "choices", "reason"),
    [
        ("steps", (), "run, then attend has no loop of steps"),
        ("steps", TRANSFORMER, "trainer.compile=model compiles the pass of a transformer"),
        ("model", LOOP, "trainer.compile=steps compiles a loop of steps"),
    ],
)
def test_what_a_mode_cannot_compile_is_said(run, mode, choices, reason):
    run(*choices, f"trainer.compile={mode}", "trainer.max_steps=1", folder="one")
    assert compiled_info("one").startswith("not compiled: ")
    assert compiled_info("one").endswith(reason)


@pytest.mark.parametrize(
    ("oldest_with_breaks", "reported"),
    [
        (compiled.OLDEST_WITH_BREAKS, "with graph breaks: Call to `torch._dynamo.graph_break()`"),
        ("99", "not compiled: torch cannot compile it ("),
    ],
)
def test_graph_breaks_are_reported(run, monkeypatch, oldest_with_breaks, reported):
    """Where torch would lose fields of named tuples at a break, such a step is not compiled."""
    if torch.__version__ < oldest_with_breaks != "99":
        pytest.skip("this torch loses fields")
    monkeypatch.setattr(compiled, "OLDEST_WITH_BREAKS", oldest_with_breaks)
    forward = Sparsemax.forward

    def forward_with_break(self: Sparsemax, *inputs: Any) -> Any:
        torch._dynamo.graph_break()
        return forward(self, *inputs)

    monkeypatch.setattr(Sparsemax, "forward", forward_with_break)
    overrides = (*LOOP[:-1], "trainer.compile=steps", "normalizer=sparsemax", "trainer.batch_size=2")
    run(*overrides, "trainer.max_steps=1", folder="one")
    assert reported in compiled_info("one")


def raising(error: Exception) -> Any:
    """A compiler that raises it."""

    def compile_graph(graph: Any, inputs: Any) -> Any:
        raise error

    return compile_graph


def test_a_missing_compiler_is_reported_before_anything_is_written(run, monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", raising(InvalidCxxCompiler()))
    with pytest.raises(UserError, match=r"^trainer\.compile=steps: torch found no working compiler \(.*cpp\.cxx.*\)$"):
        run(*LOOP, "trainer.compile=steps", folder="one")
    assert not Path("one").exists()


def test_an_uncompilable_model_trains_uncompiled(run, monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", raising(NotImplementedError("no such operation")))
    run(*LOOP, "trainer.compile=steps", "trainer.max_steps=1", folder="one")
    assert compiled_info("one").startswith("not compiled: torch cannot compile it (")
    assert "no such operation" in compiled_info("one")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to record graphs on")
def test_graphs_need_a_gpu(run):
    with pytest.raises(UserError, match=r"trainer\.compile=graphs records CUDA graphs, but there is no CUDA GPU"):
        run(*LOOP, "trainer.compile=graphs", folder="one")
    assert not Path("one").exists()
