"""Runs of a transformer: trained, resumed, reopened, drawn and exported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnx.attention.types import AttentionInputs
from attnx.data.vocabulary import BOS
from attnx.export.folder import export
from attnx.inference.load import open_run
from attnx.reports.figures import heatmaps
from attnx.reports.pages.run_page import write_page
from attnx.runs.alignments import read_alignment
from tests.runs.conftest import fit_run, run_info

TINY = [
    "recipe=transformer",
    "model.hidden_size=10",
    "model.layers=2",
    "attention.heads=2",
    "task.train=words.tsv",
    "task.holdout=0.15",
    "trainer.batch_size=8",
    "trainer.max_steps=4",
    "trainer.num_validations=2",
]


@pytest.fixture
def tiny(words, no_pictures, make_once):
    """A tiny transformer, trained once: ``tiny("model.form=decoder_only", folder="a")``."""

    def make(*overrides: str, folder: str) -> Any:
        trained: list[Any] = []
        make_once(overrides, folder, lambda: trained.append(fit_run([*TINY, *overrides], folder)))
        return trained[0] if trained else open_run(folder)

    return make


def test_a_transformer_run_is_saved_completely(tiny, saved_traces):
    """Every head of every layer by name, the same predictions when reopened, a page, and files that give the same."""
    run = tiny("decoding=beam", "decoding.nbest=2", folder="one")
    assert run_info("one")["schedule"].startswith("all at once")
    alignment = read_alignment("one/alignments/000.npz")
    heads = [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)]
    assert list(alignment.views) == ["mean", *(f"cross-attention, {head}" for head in heads)]
    assert alignment.heads is not None
    np.testing.assert_allclose(alignment.heads.sum(-1), 1, rtol=1e-5)
    assert '"cross-attention, layer 2, head 1"' in write_page(["one"]).read_text(encoding="utf-8")
    for saved, trace in saved_traces("one"):
        for hypothesis, traced in zip(saved, trace.hypotheses, strict=True):
            np.testing.assert_allclose(traced.read.weights, hypothesis.heads, atol=1e-5)
    first, second = (opened.predict(["bad", "kes"], need_weights=True) for opened in (run, open_run("one")))
    assert [item.output for item in first] == [item.output for item in second]
    assert [item.log_probability for item in first] == pytest.approx([item.log_probability for item in second])
    assert first[0].weights is not None
    assert first[0].weights.shape[0] == 4
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra attnx[export] is not installed")
    checked = export(Path("one"), Path("exported"), [item.pair for item in first])
    assert checked.outputs == 2


def test_self_attention_is_saved_and_drawn(tiny):
    """Of three examples, a short and a long one among them: maps of each layer and head of encoder and decoder."""
    run = tiny("model.encoder_layers=1", folder="one")
    alignments = [(file, read_alignment(file)) for file in sorted(Path("one/alignments").glob("*.npz"))]
    with_self_attention = [(file, alignment) for file, alignment in alignments if alignment.self_attention]
    assert len(with_self_attention) == 3
    lengths = [len(alignment.source) for _, alignment in alignments]
    assert {min(lengths), max(lengths)} <= {len(alignment.source) for _, alignment in with_self_attention}
    for _, alignment in with_self_attention:
        encoder, decoder = alignment.self_attention["encoder"], alignment.self_attention["decoder"]
        assert encoder.weights.shape == (len(alignment.source),) * 2
        assert decoder.weights.shape == (len(alignment.output),) * 2
        assert not np.triu(decoder.weights, 1).any()
        assert list(encoder.views) == ["mean", *(f"encoder self-attention, layer 1, head {head}" for head in (1, 2))]
        assert list(decoder.views)[-1] == "decoder self-attention, layer 2, head 2"
    _as_it_was_written(run, with_self_attention[1][1])
    one, *_ = (file for file, _ in with_self_attention)
    for file, _ in alignments:
        if file != one:
            file.unlink()
    drawn = heatmaps.draw_alignments("one")
    assert {one.with_name(f"{one.stem}-{stream}.png") for stream in ("encoder", "decoder")} <= set(drawn)
    titles = [
        axes.get_title(loc="left").replace("\n", " ")
        for axes in heatmaps.draw_heads(with_self_attention[0][1].self_attention["encoder"]).axes
    ]
    assert "encoder self-attention, layer 1, head 2" in titles


def _as_it_was_written(run: Any, alignment: Any) -> None:
    """Its maps are those of the symbols that were read, and of those that were written, step after step."""
    model, source = run.model.eval(), torch.tensor([run.source.encode(alignment.source)])
    encoded, rows = (_noted(stack.layers[-1].self_attention) for stack in (model.encoder, model.decoder))
    state, written = (
        model.init_state(source, source > 0),
        [BOS, *run.target.encode(alignment.output)][: len(alignment.output)],
    )
    np.testing.assert_allclose(alignment.encoder, encoded[0], atol=1e-5)
    for symbol in written:
        _, state, _ = model.decode_step(torch.tensor([symbol]), state)
    assert len(rows) == len(written)
    for step, row in enumerate(rows):
        np.testing.assert_allclose(alignment.decoder[2:, step, : step + 1], row[:, 0], atol=1e-5)


def _noted(attention: Any) -> list[Any]:
    """The weights (h, q, m) of each read from now on."""
    result, read = [], attention.attend_heads

    def note_weights(inputs: AttentionInputs) -> Any:
        answer = read(inputs._replace(need_weights=True))
        result.append(answer.weights[0].detach().numpy())
        return answer

    attention.attend_heads = note_weights
    return result


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["model.encoder_layers=1"], "cross-attention, layer {}, head {}"),
        (["model.form=decoder_only", "scope=history"], "self-attention, layer {}, head {}"),
    ],
)
def test_alignments_name_layers_and_heads(overrides, names, tiny, succeed):
    tiny(*overrides, folder="one")
    Path("asked.txt").write_text("bad\n", encoding="utf-8")
    succeed("predict", "one", "asked.txt", "--alignments", "read.jsonl")
    alignment = json.loads(Path("read.jsonl").read_text(encoding="utf-8"))
    assert alignment["names"] == [names.format(layer, head) for layer in (1, 2) for head in (1, 2)]
    assert len(alignment["heads"]) == 4


def test_a_decoder_only_model_saves_self_attention(tiny):
    tiny("model.form=decoder_only", "scope=history", folder="one")
    alignment = read_alignment("one/alignments/000.npz")
    assert alignment.num_decoder_states == len(alignment.output)
    assert len(alignment.source_symbols) + alignment.num_decoder_states == alignment.weights.shape[1]
    np.testing.assert_allclose(alignment.weights.sum(-1), 1, rtol=1e-5)
