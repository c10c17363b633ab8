"""Runs are compared on one test, whose examples are matched by content."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnx.data.examples import Pair
from attnx.data.vocabulary import tag_symbol
from attnx.inference.predictor import Prediction
from attnx.inference.write_results import save_predictions
from attnx.reports.run.evaluated_examples import read_examples
from attnx.reports.sweep.compare import compare
from attnx.runs.layout import RESAMPLED
from tests.readings import READINGS, read_variously
from tests.run_folder import write_run_folder
from tests.terminal_text import compare_folders

Predictions = list[Prediction]


def pair(word: str, tag: str = "", phones: str = "X Y") -> Pair:
    return Pair(tuple(word), (tuple(phones.split()),), tag)


def write(folder: Path, predictions: list[Prediction], config: Any = None, **results: float) -> Path:
    write_run_folder(folder, config, {**results, "test_examples": len(predictions)}, name=folder.name)
    save_predictions(folder, predictions)
    return folder


def predict_all(pairs: list[Pair], outputs: list[str]) -> Predictions:
    return [Prediction(pair, output.split(), -1.0, None) for pair, output in zip(pairs, outputs, strict=True)]


def compare_configs(folder: Path, configs: list[dict[str, Any]]) -> tuple[dict[str, list[str]], str]:
    """A comparison of runs that predict the same."""
    runs = [
        write(folder / str(index), predict_all([pair("ab")], ["X Y"]), config, test_wer=float(index))
        for index, config in enumerate(configs)
    ]
    return compare_folders(*runs)


def test_the_order_of_examples_does_not_matter(tmp_path):
    """It is the same test, though the samples that the runs saved are others."""
    pairs = [pair(word) for word in ("ab", "cd", "ef")]
    first = write(tmp_path / "first", predict_all(pairs, ["Z", "X Y", "X Y"]), test_wer=11.0)
    second = write(tmp_path / "second", predict_all(pairs[::-1], ["Z", "Z", "X Y"]), test_wer=22.0)
    rows, text = compare_folders(first, second)
    assert rows["test_wer"] == ["11.00", "22.00"]
    assert not any("against the first" in name for name in rows)
    assert "different examples" not in text


def test_runs_of_different_tests_have_no_best_and_no_differences(tmp_path):
    first = write(tmp_path / "first", predict_all([pair("ab"), pair("ef")], ["Z", "Z"]), test_wer=100.0, test_bleu=11.0)
    second = write(tmp_path / "second", predict_all([pair("ab")], ["X Y"]), test_wer=0.0, test_bleu=22.0)
    rows, text = compare_folders(first, second)
    assert (rows["test_wer"], rows["test_bleu"]) == (["100.00", "0.00"], ["11.00", "22.00"])
    assert not any("against the first" in name for name in rows)
    assert "tested on different examples" in text
    assert "attnx evaluate RUN task.test=FILE" in text
    cells = [cell for column in compare([first, second]).columns[1:] for cell in column.cells]
    assert not any("bold" in str(getattr(cell, "style", "")) for cell in cells)


@pytest.mark.parametrize("sign", [(), (tag_symbol("fre"),)])
def test_a_test_of_one_language_is_that_of_a_run_without_languages(tmp_path, sign):
    """The symbol of the language is no part of a word, and the rate of all words has another name."""
    words = [pair("é", "fre"), pair("ab", "fre")]
    many = [word._replace(source=(*sign, *word.source)) for word in words]
    first = write(tmp_path / "many", predict_all(many, ["Z", "X Y"]), test_wer_micro=50.0, test_wer_fre=50.0)
    second = write(
        tmp_path / "one", predict_all([word._replace(tag="") for word in words], ["X Y", "X Y"]), test_wer=0.0
    )
    samples = np.random.default_rng(0).choice([0.0, 50.0, 100.0], 2000)
    np.savez(first / RESAMPLED, test_wer_micro=samples, test_wer_fre=samples)
    np.savez(second / RESAMPLED, test_wer=np.zeros(2000))
    assert compare_folders(first, second)[0]["WER micro against the first"][1].startswith("-50 (")
    assert compare_folders(second, first)[0]["WER against the first"][1].startswith("+50 (")
    assert [*read_examples(first).length_errors] == [*read_examples(second).length_errors]


@pytest.mark.parametrize("name", [name for name in READINGS if name != "translation"])
def test_sources_match_under_any_options(name, tmp_path):
    """Of the task, which cut them otherwise; by default nothing stands for a source, as in earlier folders."""
    digests = set()
    for number, pairs in enumerate(read_variously(name, tmp_path)):
        folder = write(tmp_path / str(number), [Prediction(pair, ["Z"], -1.0, None) for pair in pairs])
        examples = read_examples(folder)
        digests |= {examples.digest, f"in order {examples.order}"}
        header = (folder / "predictions.tsv").read_text(encoding="utf-8").partition("\n")[0].split("\t")
        assert number or "identity" not in header
    assert len(digests) == 2


def test_text_references_match_under_any_tokenization(tmp_path):
    """So that scores of texts are compared between tokenizers; the draws pair, since the order is the same."""
    cuts = [(("a", "b"), ("c d |",)), (("▁a", "▁b"), ("▁c", "▁d", "▁|"))]
    folders = []
    for number, (source, target) in enumerate(cuts):
        single = Pair(source, (target,), texts=("c d |",))
        folders.append(write(tmp_path / str(number), predict_all([single], ["Z"]), test_bleu=10.0 + number))
        np.savez(folders[-1] / RESAMPLED, test_bleu=np.full(2000, 10.0 + number))
    rows, text = compare_folders(*folders)
    assert rows["BLEU, higher is better against the first"][1].startswith("+1.00 (")
    assert "different examples" not in text


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
def test_what_differs_is_shown_and_what_the_seeds_can_tell(tmp_path, configs, rows, note):
    shown, text = compare_configs(tmp_path, configs)
    settings = {key: cells for key, cells in shown.items() if key.partition(".")[0] in ("scorer", "optimizer", "seed")}
    assert settings == rows
    assert note in text


def test_several_seeds_of_a_setting_need_no_warning(tmp_path):
    configs = [{"scorer": {"name": scorer}, "seed": seed} for scorer in ("dot", "additive") for seed in (1, 2)]
    shown, text = compare_configs(tmp_path, configs)
    assert (shown["scorer"], shown["seed"]) == (["dot", "dot", "additive", "additive"], ["1", "2", "1", "2"])
    assert "another seed" not in text
