"""Exported files equal the model: every part, any number of rows, any length, step by step."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.export.onnx import save_onnx
from attnx.export.programs import Exported, Program, flatten_state, make_programs, unflatten_state
from attnx.laws.small import small_config, small_model
from tests.conftest import combination_name

SHORT_MIXERS: dict[str, Any] = {
    name: {"name": name, "heads": 2, "chunk": 4}
    for name in registry.names("mixer")
    if "chunk" in [option.name for option in registry.describe("mixer", name).options]
}
# A recurrent part needs a memory that does not grow.
RECURRENT = {
    name
    for kind in ("scorer", "normalizer")
    for name in registry.names(kind)
    if "is_recurrent" in registry.describe(kind, name).declarations
}
SMALL_TRANSFORMER = {"name": "transformer", "hidden_size": 12, "layers": 1}


def transformer(**options: Any) -> dict[str, Any]:
    """A choice of ``model``."""
    return {"model": SMALL_TRANSFORMER | options, "attention": ("standard", {"heads": 2})}


COMPOSITIONS: list[dict[str, Any]] = [
    {
        "scorer": "additive",
        "scope": ("local", {"center": "predictive"}),
        "query": ["previous_state", "last_context"],
        "model": {"keys_from": "inputs", "values_from": "states"},
        "encoder": {"cell": "rnn"},
        "decoder": {"cell": "rnn"},
    },
    {"attention": "none", "encoder": {"cell": "gru", "layers": 2}, "decoder": {"cell": "gru", "layers": 2}},
    {
        "attention": ("standard", {"bias": {"name": "distance", "buckets": 4, "max_distance": 3}}),
        "scorer": "dot",
        "scope": "encoder_decoder",
    },
    {"encoder": {"name": "pyramid", "layers": 2}, "scorer": "location", "model": {"feed": "next"}},
    {"encoder": {"name": "pyramid", "layers": 3}, "scorer": "low_rank", "output": "copy", "scope": "encoder_decoder"},
    {"output": "copy", "scorer": "coverage", "scope": "encoder_decoder", "attention": ("standard", {"heads": 2})},
    {"scorer": "mlp", "model": {"keys_from": "one_hot", "feed": "next", "tag_inputs": ["encoder", "decoder"]}},
    {"attention": ("differential", {"heads": 2}), "scorer": "scaled"},
    {
        **transformer(norm_type="rms", position_encoding="learned", cross_scope="local"),
        "attention": ("standard", {"heads": 2, "qk_norm": "rms"}),
        "scorer": "scaled",
        "scope": "history",
        "normalizer": "sparsemax",
    },
    {**transformer(form="decoder_only", position_encoding="rotary", tag_inputs=["decoder"]), "scorer": "cosine"},
    {**transformer(position_encoding="none", self_bias="relative", cross_bias="alibi"), "scorer": "scaled"},
    # Sources are longer than a chunk.
    {
        **transformer(
            form="decoder_only",
            prefix="causal",
            layers=len(registry.names("mixer")) + 1,
            mixer=[*(SHORT_MIXERS.get(name, name) for name in registry.names("mixer")), "standard"],
        ),
        "scorer": "scaled",
    },
]
# Every part in some composition: of the scorers those that no other has.
SCORERS = {*registry.names("scorer")} - {choices.get("scorer") for choices in COMPOSITIONS}
PARTS = [sorted(SCORERS), *(registry.names(kind) for kind in ("normalizer", "scope", "query"))]
ROUND = zip(*(itertools.islice(itertools.cycle(names), max(map(len, PARTS))) for names in PARTS), strict=True)
COMPOSITIONS += [
    {"scorer": first, "normalizer": two, "scope": "global" if {first, two} & RECURRENT else three, "query": [four]}
    for first, two, three, four in ROUND
]
TAGGED = ("language_tag", "tag_inputs")


def saved(program: Program, folder: Path) -> Callable[[Sequence[Tensor]], list[Tensor]]:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra attnx[export] is not installed")
    save_onnx(program, folder / "program.onnx")
    from attnx.export.example import load

    loaded = load(folder, "program", program.input_names)
    return lambda inputs: [torch.from_numpy(output) for output in loaded(*(tensor.numpy() for tensor in inputs))]


def model_of(choices: dict[str, Any]) -> Exported:
    torch.manual_seed(3)
    model: Any = small_model(small_config(**choices))
    return model.eval().requires_grad_(False)  # type: ignore[no-any-return]


@pytest.mark.parametrize("choices", COMPOSITIONS, ids=combination_name)
def test_exported_files_match_the_model(choices, tmp_path):
    tagged = any(word in repr(choices) for word in TAGGED)
    exported = model_of(choices)
    reading, stepping = make_programs(exported, lambda rows, steps: torch.randint(23, (rows, steps)), tagged)
    read, step = saved(reading, tmp_path), saved(stepping, tmp_path)
    assert not exported.training
    # Not the sizes that were traced.
    rows, length = 4, 9
    source, source_mask = torch.randint(23, (rows, length)), torch.arange(length) < torch.tensor([[9], [3], [7], [1]])
    inputs = [source, source_mask, *([torch.tensor([2, 0, 1, 1])] if tagged else [])]
    model = model_of(choices)  # with its kernels
    state, symbol = model.init_state(*inputs), torch.full((rows,), 1)
    files = list(read(inputs))[: len(flatten_state(state))]
    for _ in range(5):
        expected, state, observed = model.decode_step(symbol, state, need_weights=True)
        actual, *remaining = step([symbol, *files])
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        if observed.weights is not None:
            weights, *remaining = remaining
            torch.testing.assert_close(weights, observed.weights, rtol=1e-4, atol=1e-5)
        files, symbol = remaining, expected[:, 3:].argmax(-1) + 3
        assert len(files) == len(flatten_state(state))


class Solve(nn.Module):
    """What the delta rule solves for the news of a chunk."""

    def forward(self, overlaps: Tensor, news: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(overlaps.tril(-1), news, upper=False, unitriangular=True)


@pytest.fixture(scope="module")
def solve(tmp_path_factory):
    """The program of a triangle, traced with one of 5."""
    axes = {"overlaps": [1, 2], "news": [1], "solution": [1]}
    example = torch.ones(2, 5, 5), torch.ones(2, 5, 3)
    program = Program(Solve(), example, ["overlaps", "news"], ["solution"], axes)
    return saved(program, tmp_path_factory.mktemp("triangle"))


@pytest.mark.parametrize("size", [1, 2, 37, 64, 200])
def test_a_triangle_in_onnx_is_solved_for_any_size(size, solve):
    """And for what is hard: every key is the same, and each step turns it around."""
    overlaps, news = torch.stack([2 * torch.ones(size, size), torch.randn(size, size)]), torch.randn(2, size, 3)
    expected = Solve()(overlaps.double(), news.double())
    tolerance = {"rtol": 1e-4, "atol": 1e-4 * float(expected.abs().max())}
    torch.testing.assert_close(solve([overlaps, news])[0].double(), expected, **tolerance)


@pytest.mark.parametrize(
    ("kind", "name"), [("scope", "encoder_decoder"), ("scorer", "coverage"), ("attention", "none")]
)
def test_a_state_survives_flattening(kind, name):
    model = model_of({kind: name})
    state = model.init_state(torch.randint(23, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
    state = model.decode_step(torch.tensor([1, 1]), state)[1]
    again = unflatten_state(
        flatten_state(state), model.init_state(torch.randint(23, (3, 7)), torch.ones(3, 7, dtype=torch.bool))
    )
    assert again.memory.source_sizes == state.memory.source_sizes
    actual, expected = (model.decode_step(torch.tensor([5, 7]), item)[0] for item in (again, state))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
