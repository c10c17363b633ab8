"""Saved alignments and what uses them: weights of every hypothesis, heads, windows, pages."""

import json
from pathlib import Path

import numpy as np
import pytest

from attnx.data.examples import Pair
from attnx.errors import UserError
from attnx.inference.predictor import Prediction
from attnx.models.resolve import ResolvedConfig
from attnx.problems.pointing.pointing import Pointing
from attnx.reports.stats.alignment_statistics import run_statistics
from attnx.runs.alignments import read_alignment, read_saved_alignments
from attnx.runs.layout import ALIGNMENTS
from attnx.tasks.language_model import LanguageModel
from attnx.tasks.sequences import AnySequence
from attnx.training.save_examples import save_alignments


def test_every_hypothesis_saves_its_weights_and_rank(tmp_path):
    """Two sources; the first has ten hypotheses, of which seven have no weights, and two have two heads."""
    pair = Pair(("a", "b"), (("A", "B"), ("A",)))
    third = Prediction(pair, ["C"], -3.5, np.array([[[0.5, 0.5]], [[0, 1]]], np.float32), score=-7.0)
    second = Prediction(pair, ["B"], -2.0, None, score=-4.0)
    weights = np.eye(3, 2, dtype=np.float32)
    first = Prediction(pair, ["A", "B"], -1.25, weights, score=-0.5, alternatives=(third, *[second] * 7, third))
    plain = Prediction(Pair(("d",), (("D",),)), ["D"], -1.0, np.ones((2, 1), np.float32))
    save_alignments(tmp_path, [first, plain], AnySequence(), ResolvedConfig({}), {})
    verdicts = {file.name: read_alignment(file).is_right for file in (tmp_path / ALIGNMENTS).iterdir()}
    assert verdicts == {"000.npz": True, "000-2.npz": False, "000-10.npz": False, "001.npz": True}
    best, second_item = (read_alignment(tmp_path / ALIGNMENTS / name) for name in ("000.npz", "000-10.npz"))
    assert (best.output, best.reference) == (("A", "B", "</s>"), ("A", "B"))
    assert (best.score, best.log_probability) == (-0.5, -1.25)
    assert (best.heads, list(best.views)) == (None, [""])
    assert (second_item.output, second_item.reference) == (("C",), ("A",))  # each beside its closest reference
    assert second_item.score == -7.0
    np.testing.assert_allclose(second_item.weights, [[0.25, 0.75]])
    np.testing.assert_allclose(second_item.views["head 2"], [[0, 1]])
    assert read_alignment(tmp_path / ALIGNMENTS / "001.npz").score is None
    names = [[file.name for file in example] for example in read_saved_alignments(tmp_path)]
    assert names == [["000.npz", "000-2.npz", "000-10.npz"], ["001.npz"]]


def test_symbols_that_are_no_row_are_refused(tmp_path):
    arrays = {"weights": np.ones((1, 1)), "source": np.array(["a"]), "output": np.array(["A"])}
    np.savez(tmp_path / "000.npz", reference=np.array("A"), **arrays)
    with pytest.raises(UserError, match=r"000.npz: reference is \(\), not a row of symbols"):
        read_alignment(tmp_path / "000.npz")


def test_a_prediction_has_its_alignment():
    """The same as is saved, but for whether it is right; one without weights has none."""
    weights = np.array([[0.25, 0.75], [1, 0]], np.float32)
    right = Prediction(Pair(("a", "b"), (("C",), ("A",))), ["A"], -0.5, weights)
    assert right.alignment is not None
    assert (right.alignment.source, right.alignment.output) == (("a", "b"), ("A", "</s>"))
    assert (right.alignment.reference, right.alignment.is_right) == (("A",), None)
    free = right._replace(pair=Pair(("a",), ((),)), num_decoder_states=1)
    assert free.alignment is not None
    assert (free.alignment.source, free.alignment.source_symbols) == (("a", "A"), ("a",))
    without = right._replace(weights=None)
    assert (without.alignment, without.scored_alignment(AnySequence())) == (None, None)


SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("task", "pair", "output", "is_right"),
    [
        (AnySequence(), Pair(("a",), (("A",), ("B", "A"))), ["B", "A"], True),
        (AnySequence(), Pair(("a",), (("A",), ("B", "A"))), ["B"], False),
        (AnySequence(), Pair(("0", "1"), (("0", "1"),), target=np.zeros((2, 3))), np.ones((2, 3)), None),
        (AnySequence(), Pair(("0", "1"), (("0", "1"),), target=np.zeros((2, 3))), np.ones((1, 3)), False),
        (LanguageModel(), Pair(("a",), (("a", "b"),)), ["a", "c"], None),
        (Pointing("hull"), Pair(("1", "2", "3", "4"), ((*"12341",),), features=SQUARE), [*"32143"], True),
        (Pointing("hull"), Pair(("1", "2", "3", "4"), ((*"12341",),), features=SQUARE), [*"13241"], False),
        (Pointing("sorting"), Pair(("1", "2"), (("1", "2"),), features=SQUARE[:2, :1]), ["2", "1"], False),
    ],
)
def test_a_task_says_what_is_right(task, pair, output, is_right):
    """Any reference is; a polygon from any corner in any direction; of numbers and of continuations it is left open."""
    assert task.is_right(output, pair) is is_right


def test_the_hypotheses_of_a_beam_are_saved_as_decoded(run, saved_traces):
    beam = ["decoding=beam", "decoding.beam_size=3", "decoding.nbest=3", "attention.heads=2", "model.embedding_dim=6"]
    sizes = ["encoder.hidden_size=6", "decoder.hidden_size=10"]
    opened = run(*beam, *sizes, "scorer=dot", "trainer.test_examples=3", folder="beam")
    examples = [list(hypotheses.values()) for hypotheses in read_saved_alignments("beam")]
    assert [len(hypotheses) for hypotheses in examples] == [3, 3, 3]
    for saved in examples:
        (best,) = opened.predict(["".join(saved[0].source_symbols)], need_weights=True)
        for hypothesis, prediction in zip(saved, [best, *best.alternatives], strict=True):
            assert [symbol for symbol in hypothesis.output if symbol != "</s>"] == list(prediction.output)
            assert hypothesis.score == pytest.approx(prediction.score, abs=1e-4)
            assert hypothesis.heads == pytest.approx(prediction.weights, abs=1e-5)
            assert hypothesis.weights == pytest.approx(prediction.weights.mean(0), abs=1e-5)
        scores = [item.score for item in saved]
        assert scores == sorted(scores, reverse=True)
        assert len({item.output for item in saved}) == 3
    for saved, trace in saved_traces("beam"):
        ends = [trace.beams[path[-1]].symbol for path in trace.paths]
        assert ends == [hypothesis.output[-1] for hypothesis in saved]
        for hypothesis, traced, path in zip(saved, trace.hypotheses, trace.paths, strict=True):
            assert traced.read.weights == pytest.approx(hypothesis.heads, abs=1e-5)
            assert tuple(trace.beams[index].symbol for index in path) == hypothesis.output
            total = sum(trace.beams[index].log_probability for index in path)
            assert total == pytest.approx(hypothesis.log_probability, abs=1e-4)
    assert run_statistics("beam")[""].examples == 3  # the best of each
    assert list(run_statistics("beam")) == ["", "head 1", "head 2"]


@pytest.mark.parametrize("center", ["monotonic", "predictive"])
@pytest.mark.parametrize("sources", ["encoder", "encoder,decoder"])
def test_windows_cover_the_readable_positions(run, saved_traces, center, sources):
    """Softmax gives weight to all that may be read and to nothing else; what is traced says so, too."""
    run("scope=local", "scope.window=1", f"scope.center={center}", f"scope.sources=[{sources}]", folder="local")
    alignments = [alignment for hypotheses in read_saved_alignments("local") for alignment in hypotheses.values()]
    assert len(alignments) > 3
    assert all((alignment.num_decoder_states > 0) == ("decoder" in sources) for alignment in alignments)
    traces = saved_traces("local")
    assert len(traces) == len(alignments)
    for (best,), trace in traces:
        (read,) = (hypothesis.read for hypothesis in trace.hypotheses)
        np.testing.assert_array_equal(read.allowed_mask[0], best.weights > 0)
        shares = np.where(read.allowed_mask[0], np.exp(read.scores[0]), 0)
        assert (read.gain is None) == (center == "monotonic")
        gain = 1 if read.gain is None else read.gain[0]
        np.testing.assert_allclose(gain * shares / shares.sum(-1, keepdims=True), best.weights, atol=1e-5)


def test_pictures_page_and_statistics_use_saved_alignments(run, command, no_pictures):
    run("scope=encoder_decoder", "trainer.test_examples=3", folder="both")
    no_pictures.undo()
    answers = [command(*words) for words in (["plot", "both"], ["page", "both"], ["stats", "both"])]
    assert [(answer.code, answer.err) for answer in answers] == [(0, "")] * 3
    names = {"alignments.png", "page.html", "alignment_statistics.json"}
    assert {path.name for path in Path("both").iterdir()} >= names
    saved = json.loads(Path("both/alignment_statistics.json").read_text(encoding="utf-8"))
    alignments = [next(iter(hypotheses.values())) for hypotheses in read_saved_alignments("both")]
    assert saved["examples"] == len(alignments) == 3
    assert saved["steps"] == sum(len(alignment.output) for alignment in alignments)
    read = sum(float(alignment.weights[:, : len(alignment.source_symbols)].sum()) for alignment in alignments)
    assert saved["coverage"] * saved["positions"] == pytest.approx(read, rel=1e-5)
