"""Statistics of alignments, by hand."""

import json
import math
from typing import Any

import numpy as np
import pytest

from attnx.cli.main import run as command
from attnx.errors import UserError
from attnx.reports.stats.alignment_statistics import (
    GoldLinks,
    alignment_error_rate,
    coverage,
    diagonality,
    entropy,
    read_gold,
    run_statistics,
    statistics,
    statistics_table,
)
from attnx.runs.alignments import Alignment, predicted_links
from attnx.runs.layout import ALIGNMENT_STATISTICS, ALIGNMENTS
from tests.run_folder import write_run_folder
from tests.terminal_text import terminal_text

END = "</s>"


def example(weights: Any, read: str, wrote: list[str], **fields: Any) -> Alignment:
    return Alignment(np.array(weights, np.float32), (*read,), (*wrote,), **{"reference": (*wrote,), **fields})


def test_entropy_is_in_bits():
    """One position: 0; two alike: 1; four alike: 2; a half and two quarters: 1/2 + 2/4 * 2 = 1.5."""
    rows = [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4, [0.5, 0.25, 0, 0.25]]
    assert entropy(np.array(rows, np.float32)) == pytest.approx([0, 1, 2, 1.5])


def test_entropy_normalizes_weights_and_is_undefined_for_zeros():
    """Sigmoid weights of 0.9 and 0.9 are two alike; an empty row has no entropy."""
    assert entropy(np.array([[0.9, 0.9, 0], [0, 0, 0]], np.float32)) == pytest.approx([1, 0])


def test_coverage_sums_the_weights_of_all_steps():
    assert coverage(np.array([[0.5, 0.5, 0], [1, 0, 0], [0.75, 0, 0.25]], np.float32)) == pytest.approx(
        [2.25, 0.5, 0.25]
    )


def test_diagonality_by_hand():
    """Of 2 x 2 cells the middles are a half apart: off the diagonal exp(-(1/2)^2 / (2 * 0.2^2)) = exp(-3.125)."""
    off = math.exp(-3.125)
    assert diagonality(np.eye(2, dtype=np.float32)) == pytest.approx(1)
    assert diagonality(np.eye(2, dtype=np.float32)[::-1]) == pytest.approx(off)
    assert diagonality(np.array([[0.5, 0.5], [0, 1]], np.float32)) == pytest.approx((0.5 + 0.5 * off + 1) / 2)
    assert diagonality(np.zeros((3, 2), np.float32)) is None


def test_diagonality_accepts_sides_of_different_length():
    """Two steps over four positions: their middles are 1/4, 3/4 and 1/8, 3/8, 5/8, 7/8, so 1/8 apart at the nearest."""
    weights = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], np.float32)
    assert diagonality(weights) == pytest.approx(math.exp(-((1 / 8) ** 2) / 0.08))


def test_statistics_are_averaged_over_examples():
    """Positions got 1, 0.1, 2.1 of three steps and 2, which is not high, of one; entropies 0, 0.469, 0, 0."""
    first = example([[1, 0, 0], [0, 0.1, 0.9], [0, 0, 1.2]], "cat", ["K", "AE", END])
    second = example([[2]], "a", ["A"])
    summary = statistics([first, second])
    tenth = -(0.1 * math.log2(0.1) + 0.9 * math.log2(0.9))
    assert (summary.examples, summary.steps, summary.positions) == (2, 4, 4)
    assert summary.entropy == pytest.approx(tenth / 4)
    assert summary.coverage == pytest.approx((1 + 0.1 + 2.1 + 2) / 4)
    assert (summary.low_coverage, summary.high_coverage) == (1, 1)
    assert (summary.alignment_error_rate, summary.gold_examples) == (None, 0)


def test_decoder_states_count_as_read_but_not_as_source():
    """Two alike, of which one is a state of the decoder's own: one bit, and half of the only source position."""
    summary = statistics([example([[0.5, 0.5]], "aA", ["A"], num_decoder_states=1)])
    assert (summary.entropy, summary.positions, summary.coverage, summary.low_coverage) == (1, 1, 0.5, 0)
    alone = statistics([example([[1.0]], "A", ["A"], num_decoder_states=1)])
    assert (alone.positions, alone.coverage, alone.diagonality) == (0, None, None)


def test_gold_lines_name_sure_and_possible_links(tmp_path):
    path = tmp_path / "gold.pharaoh"
    path.write_text("\N{ZERO WIDTH NO-BREAK SPACE}0-0 2p1 3?10\n\n12-7\n", encoding="utf-8")  # as some editors write
    assert read_gold(path) == [
        GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1), (3, 10)})),
        GoldLinks(frozenset(), frozenset()),
        GoldLinks(frozenset({(12, 7)}), frozenset({(12, 7)})),
    ]


@pytest.mark.parametrize("word", ["0:0", "1-", "-1-0", "1-2-3", "1s2"])
def test_an_invalid_link_is_reported_with_its_line(word, tmp_path):
    path = tmp_path / "gold.pharaoh"
    path.write_text(f"0-0\n1-1 {word}\n")
    with pytest.raises(UserError, match=rf"gold\.pharaoh:2: '{word}' is no link"):
        read_gold(path)


def test_the_error_rate_is_that_of_och_and_ney():
    """|A| = 4, |S| = 3, |A n S| = 2, |A n P| = 3: 1 - 5 / 7. Only sure links can be missed."""
    gold = GoldLinks(frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0), (1, 1), (2, 2), (3, 3)}))
    assert alignment_error_rate([({(0, 0), (1, 1), (3, 3), (4, 4)}, gold)]) == pytest.approx(1 - 5 / 7)
    assert alignment_error_rate([]) is None
    assert alignment_error_rate([({(0, 0), (1, 1)}, GoldLinks(frozenset(), gold.possible))]) == 0


def test_a_symbol_links_to_its_largest_weight():
    """The second read itself most, the third nothing, and the end is no symbol."""
    weights = [[0.2, 0.5, 0.3, 0, 0, 0], [0, 0.3, 0, 0.7, 0, 0], [0] * 6, [1, 0, 0, 0, 0, 0]]
    single = example(weights, "catKAO", ["K", "A", "O", END], num_decoder_states=3)
    assert predicted_links(single, single.weights) == {(1, 0)}


@pytest.fixture
def folder(tmp_path):
    """Three test words; the second is wrong, and the alignments kept are those of the first and the second."""
    lines = ["a b\tA B\tX | A B\t0\t-1", "d e\tD F\tD E\t1\t-1", "g\tG\tG\t0\t-1"]
    folder = write_run_folder(tmp_path / "run", predictions=lines)
    (folder / ALIGNMENTS).mkdir()
    cross = np.array([[0, 1], [0.75, 0.25], [0, 1]], np.float32)
    examples = {"000": ("ab", "AB", "AB"), "001": ("de", "DF", "DE")}
    for name, (source, output, reference) in examples.items():
        arrays: dict[str, Any] = {"source": [*source], "output": [*output, END], "reference": [*reference]}
        arrays["is_right"] = output == reference
        np.savez(folder / ALIGNMENTS / f"{name}.npz", weights=cross, heads=np.stack([cross, cross[::-1]]), **arrays)
    np.savez(folder / ALIGNMENTS / "000-2.npz", weights=np.eye(1, 2), source=["a", "b"], output=["A"], reference=["A"])
    return folder


def test_run_statistics_use_best_hypotheses_and_heads(folder):
    summary = run_statistics(folder)
    assert [(name, result.examples, result.steps) for name, result in summary.items()] == [
        ("", 2, 6),
        ("head 1", 2, 6),
        ("head 2", 2, 6),
    ]
    assert summary["head 1"].entropy == summary["head 2"].entropy == summary[""].entropy


def test_gold_links_apply_only_to_correct_outputs(folder, tmp_path):
    """Of the first word the links are 1-0 and 0-1: one sure, none beside; the second word is wrong and not counted."""
    gold = tmp_path / "gold"
    gold.write_text("1-0 1-1\n0-0\n0-0\n")
    summary = run_statistics(folder, gold)[""]
    assert summary.gold_examples == 1
    assert summary.alignment_error_rate == pytest.approx(1 - (1 + 1) / (2 + 2))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("0-0\n0-0\n", "2 lines, but the run has 3 test examples"),
        ("0-2\n\n\n", r"gold:1: the link 0-2 is outside 2 source and 2 reference symbols"),
        ("\n2p0\n\n", r"gold:2: the link 2-0"),
    ],
)
def test_a_gold_file_of_other_test_data_is_refused(gold, message, folder, tmp_path):
    (tmp_path / "gold").write_text(gold)
    with pytest.raises(UserError, match=message):
        command(["stats", str(folder), "--gold", str(tmp_path / "gold")])
    assert not (folder / ALIGNMENT_STATISTICS).exists()


def test_the_command_prints_and_saves_the_statistics(folder, tmp_path, capsys):
    (tmp_path / "gold").write_text("1-0 1-1\n0-0\n0-0\n")
    assert command(["stats", str(folder), "--gold", str(tmp_path / "gold")]) == 0
    output = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["alignment", "error", "rate", "0.500", "0.500"] in [line[:5] for line in output]
    saved = json.loads((folder / ALIGNMENT_STATISTICS).read_text())
    assert (saved["examples"], saved["positions"], saved["gold_examples"]) == (2, 4, 1)
    assert set(saved["heads"]) == {"head 1", "head 2"}


def test_mistaken_arguments_are_reported(folder, tmp_path):
    for words, message in [
        ([], "attnx stats needs RUN"),
        ([str(tmp_path)], "not a run folder"),
        ([str(folder), "--gold", "x"], "x: no such file"),
        ([str(folder), "--gold", str(tmp_path)], "is a folder; name a file of links"),
    ]:
        with pytest.raises(UserError, match=message):
            command(["stats", *words])


def test_names_of_heads_and_files_are_shown_as_they_are():
    """They may come from somebody else: no control characters, and no markup."""
    weights = example([[1.0]], "a", ["A"])
    tables = {"": statistics([weights]), "\x1b]0;x\x07": statistics([weights])}
    printed = terminal_text(statistics_table(tables, "of [b]x"))
    assert "of [b]x" in printed
    assert "\x1b" not in printed
