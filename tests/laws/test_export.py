"""Exported files equal the model: every part, any number of rows, any length, step by step."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.config.compose import compose
from attnx.export.onnx import LoadedProgram, load_onnx, save_onnx
from attnx.export.programs import Exported, Program, flatten_state, make_programs, unflatten_state
from attnx.models.resolve import DataSizes, resolve_model

SMALL = ["model.embedding_dim=5", "encoder.hidden_size=7", "decoder.hidden_size=11"]
SHORT_MIXERS = {
    name: f"{{name: {name}, heads: 2, chunk: 4}}"
    for name in registry.names("mixer")
    if "chunk" in [option.name for option in registry.describe("mixer", name).options]
}
# Every part in some composition: as many as there are of the kind with most, the others over and over.
# A recurrent part needs a memory that does not grow.
RECURRENT = {
    name
    for kind in ("scorer", "normalizer")
    for name in registry.names(kind)
    if "is_recurrent" in registry.describe(kind, name).declarations
}
PARTS = [registry.names(kind) for kind in ("scorer", "normalizer", "scope", "query")]
ROUND = zip(*(itertools.islice(itertools.cycle(names), max(map(len, PARTS))) for names in PARTS), strict=True)
COMPOSITIONS = [
    *[
        [
            f"scorer={first}",
            f"normalizer={two}",
            f"scope={'global' if {first, two} & RECURRENT else three}",
            f"+query={four}",
        ]
        for first, two, three, four in ROUND
    ],
    ["scope=local", "scope.center=predictive", "+query=[previous_state,last_context]"],
    ["attention=none", "encoder.cell=gru", "decoder.cell=gru", "encoder.layers=2", "decoder.layers=2"],
    ["attention.bias={name: distance, buckets: 4, max_distance: 3}", "scorer=dot", "scope=encoder_decoder"],
    ["recipe=las_location", "encoder.layers=2"],
    ["encoder=pyramid", "encoder.layers=3", "output=copy", "scope=encoder_decoder"],
    ["output=copy", "scorer=coverage", "scope=encoder_decoder", "attention.heads=2"],
    ["model.keys_from=inputs", "model.values_from=states", "encoder.cell=rnn", "decoder.cell=rnn"],
    ["model.keys_from=one_hot", "model.feed=next", "model.tag_inputs=[encoder,decoder]"],
    ["model=transformer", "scorer=scaled", "model.layers=2"],
    [
        "model=transformer",
        "model.position_encoding=learned",
        "scope=history",
        "model.cross_scope=local",
        "normalizer=sparsemax",
    ],
    [
        "model=transformer",
        "model.form=decoder_only",
        "model.position_encoding=rotary",
        "scorer=cosine",
        "model.tag_inputs=[decoder]",
    ],
    [
        "model=transformer",
        "model.position_encoding=none",
        "scorer=scaled",
        "model.self_bias=relative",
        "model.cross_bias=alibi",
    ],
    # Sources are longer than a chunk.
    [
        "model=transformer",
        "model.form=decoder_only",
        "model.prefix=causal",
        "scorer=scaled",
        f"model.layers={len(registry.names('mixer')) + 1}",
        f"model.mixer=[{','.join(SHORT_MIXERS.get(name, name) for name in registry.names('mixer'))},standard]",
    ],
]
TRANSFORMER = ["model.hidden_size=12", "model.layers=1", "attention.heads=2"]
TAGGED = ("language_tag", "model.tag_inputs")


def saved(program: Program, folder: Path) -> LoadedProgram:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra attnx[export] is not installed")
    save_onnx(program, folder / "program.onnx")
    return load_onnx(folder / "program.onnx", program.input_names)


@cache
def composed(*overrides: str) -> dict[str, Any]:
    return compose(overrides)


def model_of(overrides: list[str]) -> Exported:
    config = composed(*(TRANSFORMER if "model=transformer" in overrides else SMALL), *overrides)
    sizes = {"source_symbols": 23, "source_features": 0, "target_symbols": 19, "target_features": 0, "tags": 3}
    torch.manual_seed(3)
    model: Any = resolve_model(config).build(DataSizes(**sizes))
    if hasattr(model.output, "set_vocabulary_map"):
        model.output.set_vocabulary_map([number if 4 <= number < 19 else 0 for number in range(23)])
    return model.eval().requires_grad_(False)  # type: ignore[no-any-return]


@pytest.mark.parametrize("overrides", COMPOSITIONS, ids=" ".join)
def test_exported_files_match_the_model(overrides, tmp_path):
    tagged = any(word in " ".join(overrides) for word in TAGGED)
    exported = model_of(overrides)
    reading, stepping = make_programs(exported, lambda rows, steps: torch.randint(23, (rows, steps)), tagged)
    read, step = saved(reading, tmp_path), saved(stepping, tmp_path)
    assert not exported.training
    # Not the sizes that were traced.
    rows, length = 4, 9
    source, source_mask = torch.randint(23, (rows, length)), torch.arange(length) < torch.tensor([[9], [3], [7], [1]])
    inputs = [source, source_mask, *([torch.tensor([2, 0, 1, 1])] if tagged else [])]
    model = model_of(overrides)  # with its kernels
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


@pytest.mark.parametrize("size", [1, 2, 37, 64, 200])
def test_a_triangle_in_onnx_is_solved_for_any_size(size, tmp_path):
    """And for what is hard: every key is the same, and each step turns it around."""
    axes = {"overlaps": [1, 2], "news": [1], "solution": [1]}
    example = torch.ones(2, 5, 5), torch.ones(2, 5, 3)
    solve = saved(Program(Solve(), example, ["overlaps", "news"], ["solution"], axes), tmp_path)
    overlaps, news = torch.stack([2 * torch.ones(size, size), torch.randn(size, size)]), torch.randn(2, size, 3)
    expected = Solve()(overlaps.double(), news.double())
    tolerance = {"rtol": 1e-4, "atol": 1e-4 * float(expected.abs().max())}
    torch.testing.assert_close(solve([overlaps, news])[0].double(), expected, **tolerance)


@pytest.mark.parametrize(
    "overrides", [["scope=encoder_decoder"], ["scorer=coverage"], ["attention=none"]], ids=" ".join
)
def test_a_state_survives_flattening(overrides):
    model = model_of(overrides)
    state = model.init_state(torch.randint(23, (2, 5)), torch.ones(2, 5, dtype=torch.bool))
    state = model.decode_step(torch.tensor([1, 1]), state)[1]
    again = unflatten_state(
        flatten_state(state), model.init_state(torch.randint(23, (3, 7)), torch.ones(3, 7, dtype=torch.bool))
    )
    assert again.memory.source_sizes == state.memory.source_sizes
    actual, expected = (model.decode_step(torch.tensor([5, 7]), item)[0] for item in (again, state))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
