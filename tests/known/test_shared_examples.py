"""Runs with different test data are compared on shared examples, matched by content."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binomtest

from attnx.data.examples import Pair
from attnx.data.special_tokens import tag_symbol
from attnx.inference.predictor import Prediction
from attnx.inference.write_results import save_predictions
from attnx.reports.run.evaluated_examples import Estimate, error_rates, read_examples, read_identities, shared_indices
from attnx.reports.stats.bootstrap import bootstrap_difference
from attnx.reports.sweep.compare import compare
from attnx.runs.layout import RESAMPLED, SOURCE_FEATURES, VOCABULARY
from attnx.runs.results_json import Interval
from tests.run_folder import write_run_folder

Predictions = list[Prediction]


def pair(word: str, tag: str = "", phones: str = "X Y") -> Pair:
    return Pair(tuple(word), (tuple(phones.split()),), tag)


def write(folder: Path, predictions: list[Prediction], **results: float) -> Path:
    write_run_folder(folder, results={**results, "test_examples": len(predictions)}, name=folder.name)
    save_predictions(folder, predictions)
    return folder


def predict_all(pairs: list[Pair], outputs: list[str]) -> Predictions:
    return [Prediction(pair, output.split(), -1.0, None) for pair, output in zip(pairs, outputs, strict=True)]


def shared_examples(*folders: Path) -> list[list[Any]]:
    """What identifies the examples that the tests share: a source of letters and its references."""
    tests = [read_identities(folder) for folder in folders]
    return [[test[index][0] for index in part] for test, part in zip(tests, shared_indices(tests), strict=True)]


def shared_sources(*folders: Path) -> list[list[str]]:
    return [sorted(source for source, _ in examples) for examples in shared_examples(*folders)]


def compare_folders(*folders: Path) -> tuple[dict[str, list[str]], str]:
    """The rows of the comparison by their names, and all of it as text with single spaces."""
    console = Console(file=io.StringIO(), width=240)
    console.print(compare(folders))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    lines = (line.split("│")[1:-1] for line in text.splitlines() if "│" in line)
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}, " ".join(text.split())


def round_cells(cells: list[str]) -> list[float]:
    """The values of a row without their intervals, which say how many digits each has: here none behind the point."""
    return [float(cell.split()[0]) for cell in cells]


def test_multilingual_and_monolingual_runs_share_the_words_of_one_language(tmp_path: Path) -> None:
    """By hand: of the four French words the first run has 1 of 8 phones and 1 word wrong, the second 3 and 2."""
    french, italian = (
        [pair(word, "fre") for word in ("ab", "cd", "ef", "gh")],
        [pair(word, "ita") for word in ("i", "j")],
    )
    many = predict_all([*italian, *french], ["Z Z", "Z Z", "X Z", "X Y", "X Y", "X Y"])
    alone = predict_all([pair(word) for word in ("gh", "ef", "cd", "ab", "new")], ["Z Z", "X", "X Y", "X Y", "X Y"])
    rates = {"test_per_macro": 55.0, "test_per_micro": 42.0, "test_wer_macro": 62.0, "test_per_fre": 12.5}
    folders = write(tmp_path / "many", many, **rates), write(tmp_path / "alone", alone, test_per=30.0, test_wer=40.0)
    rows, text = compare_folders(*folders)
    assert text.startswith("runs compared on the test examples that all share: 4 ┏")
    assert round_cells(rows["test_per"]) == pytest.approx([12.5, 37.5], abs=0.5)
    assert round_cells(rows["test_wer"]) == [25, 50]
    assert rows["PER, length 1-4"] == ["12.50", "37.50"]
    assert rows["PER against the first"][1].startswith("+25 (")
    assert rows["WER against the first"][1].startswith("+25 (")
    assert not any(name in rows for name in rates)
    assert "not shared: 2 of the 6 test examples of many, 1 of the 5 test examples of alone; each" in text
    assert rows["test_examples"] == ["6", "5"]


def test_the_order_of_examples_does_not_matter(tmp_path: Path) -> None:
    pairs = [pair(word) for word in ("ab", "cd", "ef")]
    first = write(tmp_path / "first", predict_all(pairs, ["Z", "X Y", "X Y"]), test_wer=11.0)
    second = write(tmp_path / "second", predict_all(pairs[::-1], ["Z", "Z", "X Y"]), test_wer=22.0)
    rows, text = compare_folders(first, second)
    assert rows["test_wer"] == ["11.00", "22.00"]
    assert rows["WER against the first"][1].startswith("+33 (")
    assert "not shared" not in text
    assert text.startswith("runs compared ┏")


def test_metrics_that_cannot_be_recomputed_are_left_out(tmp_path: Path) -> None:
    pairs = [pair(word) for word in ("ab", "cd")]
    first = write(tmp_path / "first", predict_all(pairs, ["Z", "Z"]), test_bleu=11.0, steps=7)
    second = write(tmp_path / "second", predict_all(pairs[:1], ["Z"]), test_bleu=22.0, steps=8)
    rows, text = compare_folders(first, second)
    assert "test_bleu" not in rows
    assert rows["steps"] == ["7", "8"]
    assert "not computed on the shared examples: test_bleu; to compare these, evaluate all runs on one file" in text


def test_runs_without_shared_examples_have_no_best(tmp_path: Path) -> None:
    first = write(tmp_path / "first", predict_all([pair("ab")], ["Z"]), test_wer=100.0)
    second = write(tmp_path / "second", predict_all([pair("cd")], ["X Y"]), test_wer=0.0)
    rows, text = compare_folders(first, second)
    assert rows["test_wer"] == ["100.00", "0.00"]
    assert rows["WER against the first"] == ["-", "no shared example"]
    assert "the runs share no test example: their results are of different tests" in text
    cells = list(compare([first, second]).columns[2].cells)
    assert not any("bold" in str(getattr(cell, "style", "")) for cell in cells[:1])


def test_a_macro_average_is_recomputed(tmp_path: Path) -> None:
    """Of the languages that both runs know; the mean weighs each alike, though one has three words and one a word."""
    words = [pair("ab", "fre"), pair("ab", "ita"), pair("cd", "ita"), pair("ef", "ita")]
    first = write(
        tmp_path / "first", predict_all([*words, pair("ab", "kor")], ["X Y", "Z", "X Y", "X Y", "Z"]), test_wer_macro=1
    )
    second = write(tmp_path / "second", predict_all(words, ["Z", "X Y", "X Y", "X Y"]), test_wer_macro=2)
    rows, _ = compare_folders(first, second)
    assert round_cells(rows["test_wer_macro"]) == [17, 50]
    assert round_cells(rows["test_wer_micro"]) == [25, 25]
    assert round_cells(rows["test_wer_ita"]) == [33, 0]
    assert rows["WER macro against the first"][1].startswith("+33 (")
    assert rows["WER against the first"][1].startswith("0 (")


def test_a_tag_distinguishes_examples_if_both_runs_have_several(tmp_path: Path) -> None:
    """A word that two languages spell and pronounce alike is either one's where a run does not say which it means."""
    both = [pair("ab", "fre"), pair("ab", "ita"), pair("cd", "ita")]
    outputs = ["Z"] * 3
    many = write(tmp_path / "many", predict_all(both, outputs))
    second_folder = write(tmp_path / "other", predict_all(both[::-1], outputs))
    alone = write(tmp_path / "alone", predict_all([pair("ab"), pair("cd")], outputs[:2]))
    italian = write(tmp_path / "italian", predict_all(both[1:], outputs[:2]))
    assert shared_sources(many, second_folder) == [["ab", "ab", "cd"]] * 2
    assert shared_sources(many, alone) == [["cd"]] * 2
    assert shared_sources(many, italian) == [["ab", "cd"]] * 2
    assert shared_sources(italian, alone) == [["ab", "cd"]] * 2


def test_language_symbols_and_unicode_forms_do_not_change_a_word(tmp_path: Path) -> None:
    with_tag = pair("é", "fre")._replace(source=(tag_symbol("fre"), "é"))
    first = write(tmp_path / "first", predict_all([with_tag, pair("ab", "ita")], ["Z", "Z"]))
    second = write(tmp_path / "second", predict_all([pair("é")], ["Z"]))
    assert len(shared_sources(first, second)[0]) == 1
    assert sorted(read_examples(first).lengths.tolist()) == [1, 2]
    ids = [Pair(("1", "23"), (("X",),)), Pair(("12", "3"), (("X",),))]
    third, fourth = (write(tmp_path / name, predict_all([item], ["Z"])) for name, item in zip("cd", ids, strict=True))
    assert shared_sources(third, fourth) == [[], []]


def test_text_references_match_under_any_tokenization(tmp_path: Path) -> None:
    """So that scores of texts are compared between tokenizers; the draws pair, since the order is the same."""
    cuts = [(("a", "b"), ("c d |",)), (("▁a", "▁b"), ("▁c", "▁d", "▁|"))]
    folders = []
    for number, (source, target) in enumerate(cuts):
        single = Pair(source, (target,), texts=("c d |",))
        folders.append(write(tmp_path / str(number), predict_all([single], ["Z"]), test_bleu=10.0 + number))
        np.savez(folders[-1] / RESAMPLED, test_bleu=np.full(2000, 10.0 + number))
    rows, text = compare_folders(*folders)
    assert rows["BLEU, higher is better against the first"][1].startswith("+1.00 (")
    assert "share" not in text
    assert read_identities(folders[0]) == [(frozenset([("c", "d", "|")]), "")]


def numbers(names: list[str], start: float, source: tuple[str, ...] = ("0",)) -> Predictions:
    right = np.full((2, 1), start, np.float32)
    pairs = [Pair(source, (("1", "2"),), target=right + number, name=name) for number, name in enumerate(names)]
    return [Prediction(pair, right, -1.0, None) for pair in pairs]


def test_numeric_examples_match_by_name_and_target(tmp_path: Path) -> None:
    """How far a window looks back makes no other example; other numbers under the same name do."""
    first = write(tmp_path / "first", numbers(["a", "b"], 0.0), test_mse=1.0)
    longer = write(tmp_path / "longer", numbers(["a", "b"], 0.0, ("8", "9")), test_mse=2.0)
    second_folder = write(tmp_path / "other", numbers(["a", "b"], 5.0), test_mse=3.0)
    assert read_identities(first) == read_identities(longer)
    assert "share no test example" in compare_folders(first, second_folder)[1]
    less = write(tmp_path / "less", numbers(["a"], 0.0))
    assert len(shared_examples(first, less)[0]) == 1


def test_unnamed_examples_match_only_as_a_complete_test(tmp_path: Path) -> None:
    """That two answers are equal does not make them answers about the same points."""
    tests = [["1 2 3", "1 3 2"], ["1 2 3", "1 3 2"], ["1 2 3", "1 2 3"]]
    folders = []
    for number, answers in enumerate(tests):
        pairs = [Pair(("1", "2", "3"), (tuple(answer.split()),)) for answer in answers]
        folder = write(tmp_path / str(number), predict_all(pairs, answers), test_accuracy=90.0)
        (folder / VOCABULARY).mkdir()
        (folder / VOCABULARY / SOURCE_FEATURES).write_text("{}", encoding="utf-8")
        folders.append(folder)
    assert len(shared_examples(folders[0], folders[1])[0]) == 2
    assert len(shared_examples(folders[0], folders[2])[0]) == 0


def test_error_rates_are_of_symbols_or_of_sequences(tmp_path: Path) -> None:
    """With intervals: of sequences the exact one, of symbols that of the bootstrap, here 0 to 3 of 4."""
    folder = write(tmp_path / "run", predict_all([pair("ab"), pair("cd", phones="X Y Z W")], ["X Y", "X"]))
    exact = binomtest(1, 2).proportion_ci(method="exact")
    for metric in ("per", "symbol_error_rate"):
        assert error_rates(read_examples(folder), metric) == {metric: Estimate(50.0, Interval(0.0, 75.0))}
    for metric in ("wer", "error", "sequence_error_rate"):
        (rate,) = error_rates(read_examples(folder), metric).values()
        assert (rate.value, rate.interval) == (50.0, pytest.approx((100 * exact.low, 100 * exact.high)))


@pytest.mark.parametrize("groups", [None, ["a", "a", "b", "b"]])
def test_the_bootstrap_matches_resampling_one_by_one(groups: list[str] | None) -> None:
    """The interval is near the one of 20,000 draws of whole examples, in all or by group."""
    random = np.random.default_rng(3)
    first, second = (np.column_stack([random.integers(0, 4, 200), random.integers(4, 9, 200)]) for _ in range(2))
    labels = None if groups is None else groups * 50
    difference = bootstrap_difference(first, second, labels, seed=5)
    drawn = random.integers(0, 200, (20_000, 200))
    parts = [np.arange(200) < 200] if labels is None else [np.array(labels) == name for name in "ab"]

    def rate(errors: Any) -> Any:
        sums = [np.where(part[drawn][..., None], errors[drawn], 0).sum(1) for part in parts]
        return np.mean([100 * wrong / of for wrong, of in (total.T for total in sums)], axis=0)

    low, high = np.percentile(rate(first) - rate(second), [2.5, 97.5])
    assert (difference.low, difference.high) == pytest.approx((low, high), abs=0.6)


@pytest.mark.parametrize(
    ("configs", "rows", "note"),
    [
        (
            [{"scorer": {"name": "dot"}, "seed": 1}, {"scorer": {"name": "additive", "hidden_size": 7}, "seed": 1}],
            {"scorer": ["dot", "additive"]},
            "another seed can change the order",
        ),
        (
            [{"optimizer": {"name": "adam", "lr": rate}, "seed": 1, "name": str(rate)} for rate in (0.1, 0.3)],
            {"optimizer.lr": ["0.1", "0.3"]},
            "the intervals are of the test examples, not of the seeds",
        ),
        ([{"seed": 1}, {"seed": 2}], {"seed": ["1", "2"]}, "the runs differ in their seeds alone"),
        ([{"seed": 1}, {"seed": 1}], {}, "the same options and seed"),
    ],
)
def test_what_differs_is_shown_and_what_the_seeds_can_tell(
    tmp_path: Path, configs: list[dict[str, object]], rows: dict[str, list[str]], note: str
) -> None:
    folders = []
    for index, config in enumerate(configs):
        folders.append(write(tmp_path / str(index), predict_all([pair("ab")], ["X Y"]), test_wer=float(index)))
        (folders[-1] / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    shown, text = compare_folders(*folders)
    settings = {key: cells for key, cells in shown.items() if key.partition(".")[0] in ("scorer", "optimizer", "seed")}
    assert settings == rows
    assert note in text


def test_several_seeds_of_a_setting_need_no_warning(tmp_path: Path) -> None:
    folders = []
    for index, (scorer, seed) in enumerate([("dot", 1), ("dot", 2), ("additive", 1), ("additive", 2)]):
        folders.append(write(tmp_path / str(index), predict_all([pair("ab")], ["X Y"]), test_wer=float(index)))
        config = {"scorer": {"name": scorer}, "seed": seed}
        (folders[-1] / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    shown, text = compare_folders(*folders)
    assert (shown["scorer"], shown["seed"]) == (["dot", "dot", "additive", "additive"], ["1", "2", "1", "2"])
    assert "another seed" not in text
