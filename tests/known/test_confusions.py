"""Errors by symbol, confusions and number errors, by hand."""

import numpy as np
import pytest

from attnx.data.examples import Pair
from attnx.data.vocabulary import Vocabulary
from attnx.inference.predictor import Prediction
from attnx.inference.unk_replacement import with_copies
from attnx.inference.write_results import save_predictions
from attnx.reports.run.evaluation import (
    number_errors_by_column,
    number_errors_by_length,
    read_matrices,
    symbol_errors,
)
from attnx.runs.alignments import END
from attnx.runs.predictions import read_predictions
from tests.run_folder import write_run_folder

LINES = (
    "c a t\tK AE T\tK AE T\t0\t-0.10",
    # AE for AA, and S put in behind.
    "c a r\tK AE R S\tK AA R\t2\t-0.20",
    # AE for AA again; the second reference is closer, and its last T is missed.
    "c a t\tK AE\tG G G G | K AA T\t2\t-0.30",
    # B for D.
    "d\tB\tD\t1\t-0.40",
)
KNOWN = Vocabulary.of(["a", "b"])


@pytest.fixture
def folder(tmp_path):
    return write_run_folder(tmp_path, predictions=LINES)


def test_errors_by_symbol(folder):
    """Counted in the references that are closest, the symbol with the most errors first."""
    rows = symbol_errors(read_predictions(folder))["by_symbol"]
    assert [tuple(row.values()) for row in rows] == [
        ("AA", 2, 2, 0, 0, 2),
        ("T", 2, 0, 1, 0, 1),
        ("D", 1, 1, 0, 0, 1),
        ("S", 0, 0, 0, 1, 1),
        ("K", 3, 0, 0, 0, 0),
        ("AE", 1, 0, 0, 0, 0),
        ("R", 1, 0, 0, 0, 0),
    ]
    assert list(rows[0]) == ["symbol", "references", "substituted", "missed", "inserted", "errors"]


def test_confusions_are_counted(folder):
    rows = symbol_errors(read_predictions(folder))["confusions"]
    assert rows[0] == {"reference": "AA", "written": "AE", "times": 2}
    assert [tuple(row.values()) for row in rows] == [("AA", "AE", 2), ("D", "B", 1)]


def test_number_errors_by_length_are_computed(tmp_path):
    """By the reference's length, over the steps that both have; and column by column."""
    right = [np.array([[1.0, 0.0], [2.0, 0.0]]), np.zeros((7, 2))]
    written = [np.array([[1.5, 0.0], [2.0, 1.0], [9.0, 9.0]]), np.full((7, 2), [0.0, 2.0])]
    pairs = [Pair(("0",), ((),), target=item.astype(np.float32), name=f"{n}.csv") for n, item in enumerate(right)]
    predictions = [
        Prediction(pair, out.astype(np.float32), -1.0, None) for pair, out in zip(pairs, written, strict=True)
    ]
    save_predictions(tmp_path, predictions)
    read = read_matrices(tmp_path)
    assert number_errors_by_length(read) == [
        {"length": "1-4", "examples": 1, "mean_absolute_error": pytest.approx(1.5 / 4), "length_error": 1.0},
        {"length": "7-8", "examples": 1, "mean_absolute_error": pytest.approx(1.0), "length_error": 0.0},
    ]
    columns = [tuple(row.values()) for row in number_errors_by_column(read, ["valve", "pump"])]
    assert columns == [
        ("valve", pytest.approx(0.5 / 9), pytest.approx((0.25 / 9) ** 0.5)),
        ("pump", pytest.approx(15 / 9), pytest.approx((29 / 9) ** 0.5)),
    ]


@pytest.mark.parametrize(
    ("source", "output", "read", "expected", "rows"),
    [
        ("ab", "AB", [0, 1], "AB", [0, 1, 0]),  # nothing is unknown
        ("aqb", "AXB", [0, 1, 2], "AqB", [0, 1, 2, 0]),  # X was read from q
        ("aqb", "AXYB", [0, 1, 1, 2], "AqB", [0, 1, 2, 0]),  # so were X and Y
        ("aqb", "AB", [0, 2], "AqB", [0, 1, 2, 0]),  # nothing was: before what was read from behind it
        ("abq", "AB", [0, 1], "ABq", [0, 1, 2, 0]),  # or at the end
        ("qrb", "B", [2], "qrB", [0, 1, 2, 0]),  # two in a row keep their order
        ("qaq", "XA", [0, 1], "qAq", [0, 1, 2, 0]),  # the same symbol twice is copied twice
    ],
)
def test_unknown_symbols_are_replaced_by_their_source(source, output, read, expected, rows):
    """All symbols but a and b are unknown; the output read these positions, one a step."""
    weights = np.eye(len(source), dtype=np.float32)[[*read, 0]]
    prediction = Prediction(Pair(tuple(source), ((),)), list(output), -1.0, weights)
    result = with_copies(prediction._replace(alternatives=(prediction,)), KNOWN)
    for item in (result, *result.alternatives):
        assert (item.output, item.weights.argmax(-1).tolist()) == (list(expected), rows)


def test_an_inserted_copy_has_the_weights_of_its_step():
    """With several heads it is their mean that says where; what was put in has a weight of 1 in each."""
    weights = np.array([[[0.2, 0.8, 0.0]], [[0.1, 0.3, 0.6]]], dtype=np.float32)  # mean: 0.15, 0.55, 0.3
    result = with_copies(Prediction(Pair(("a", "q", "r"), ((),)), ["X"], -1.0, weights), KNOWN)
    assert result.output == ["q", "r"]
    assert result.weights == pytest.approx(np.array([[[0.2, 0.8, 0.0], [0, 0, 1]], [[0.1, 0.3, 0.6], [0, 0, 1]]]))


def test_a_step_that_reads_nothing_copies_nothing():
    """Its symbol stays, though the first symbol of the source, where the largest of zeros is, is unknown.

    What two steps have read is copied with the weights of the first.
    """
    weights = np.array([[1, 0, 0], [0.7, 0.3, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=np.float32)
    result = with_copies(Prediction(Pair(("q", "a", "b"), ((),)), ["X", "Y", "A", "B", "C"], -1.0, weights), KNOWN)
    assert result.output == ["q", "A", "B", "C"]
    assert result.weights == pytest.approx(weights[[0, 2, 3, 4, 5]])


def test_decoder_states_keep_the_names_of_their_steps():
    """Though a copy is inserted between them: before what read the source behind it, and not what read a state."""
    weights = np.zeros((4, 6), np.float32)
    weights[range(4), [0, 3, 2, 5]] = 1
    prediction = Prediction(Pair(("a", "q", "b"), ((),)), [*"ABC"], -1.0, weights, num_decoder_states=3)
    result = with_copies(prediction, KNOWN)
    assert (result.output, result.alignment.source) == ([*"ABqC"], (*"aqb", *"ABC"))
    assert result.alignment.output == (*"ABqC", END)
