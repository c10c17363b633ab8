"""Reports on written run folders, every number by hand."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.text import Text

from attnx.config.view import node_text
from attnx.data.examples import Pair
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.inference.predictor import Prediction
from attnx.inference.write_results import save_predictions
from attnx.reports.figures.curves import draw_curves
from attnx.reports.run.evaluated_examples import read_examples
from attnx.reports.run.evaluation import errors_by_length
from attnx.reports.run.readme import write_run_readme
from attnx.reports.run.tables import results_table
from attnx.reports.sweep.compare import compare
from attnx.runs.alignments import read_alignment
from attnx.runs.layout import CONFIG_YAML, EVALUATION, FORMAT, MATRICES, METRICS, PREDICTIONS, RESULTS, RUN_JSON
from attnx.runs.predictions import has_symbol_predictions, read_predictions
from attnx.runs.results import read_curves, with_row
from attnx.runs.run import read_run
from tests.run_folder import HEAD, write_run_folder
from tests.terminal_text import compare_folders, terminal_text

# Source length 3, 3, 5, 13. The second word is closest to its second reference (4 symbols, 1 edit).
LINES = (
    "c a t\tK AE T\tK AE T\t0\t-0.10",
    "r e d\tR IY D Z\tR AH | R IY D IH\t1\t-1.50",
    "p h o n e\tF OW N\tF OW N\t0\t-0.20",
    "a b c d e f g h i j k l m\tA B\tA C D | A B C D E\t2\t-7.00",
)


@pytest.fixture
def write(tmp_path):
    def write_run(
        name: str = "first", lines: tuple[str, ...] | None = LINES, config: Any = None, info: Any = None, **results: Any
    ) -> Path:
        unknown = dict.fromkeys(("status", "monitor"))
        facts = {"name": name, "command": "attnx +scorer=additive", **unknown, **(info or {})}
        return write_run_folder(tmp_path / name, config, results or None, lines, **facts)

    return write_run


def test_error_rates_by_length(write):
    rows = [
        {"length": "1-4", "examples": 2, "symbol_error_rate": 100 * 1 / (3 + 4), "sequence_error_rate": 50.0},
        {"length": "5-6", "examples": 1, "symbol_error_rate": 0.0, "sequence_error_rate": 0.0},
        # "A C D" and "A B C D E" are 2 and 3 edits away, so the reference has 3 symbols.
        {"length": "13+", "examples": 1, "symbol_error_rate": 100 * 2 / 3, "sequence_error_rate": 100.0},
    ]
    assert errors_by_length(read_examples(write()).length_errors) == rows
    edges = write("edges", tuple(f"{' '.join('a' * length)}\tA\tA\t0\t-1" for length in (4, 5, 12, 13)))
    rows = errors_by_length(read_examples(edges).length_errors)
    assert [row["length"] for row in rows] == ["1-4", "5-6", "11-12", "13+"]


def test_an_empty_prediction_is_read(write):
    (word,) = read_predictions(write(lines=("o\t\tOW | AO R\t1\t-3.0",)))
    assert word.output == ()
    assert word.references == (("OW",), ("AO", "R"))


SYMBOLS = [
    ("3", " ", "M", "a", "y"),
    ("|", " ", "|", "||", "a|"),
    ("␣", "\\", "\\␣ ", " \\ "),
    (r"\|", "\\\\", "new  york"),
    (),
]


@pytest.mark.parametrize("symbols", SYMBOLS, ids=str)
def test_symbols_are_read_back(tmp_path, symbols):
    """Whatever they are made of: spaces, bars, and the signs that stand for these; several references too."""
    remaining = (symbols, ("|",), ("a", "|", "b"))
    pair = Pair(symbols, remaining, name="in 1.csv")
    save_predictions(tmp_path, [Prediction(pair, list(symbols), -0.5, None)])
    (result,) = read_predictions(tmp_path)
    assert result.source == result.output == symbols
    assert result.references == remaining
    assert (result.edits, result.tag, result.name) == (0, "", "in 1.csv")


def test_a_space_is_visible(tmp_path):
    """As in the pictures; what has none is as it always was."""
    pair = Pair(("3", " ", "M"), (("K", "AE"), ("K", "AH")), tag="fi")
    save_predictions(tmp_path, [Prediction(pair, ["K"], -0.5, None)])
    assert (tmp_path / PREDICTIONS).read_text(encoding="utf-8").splitlines() == [
        f"{HEAD}\ttag",
        "3 ␣ M\tK\tK AE | K AH\t1\t-0.500000\tfi",
    ]


def test_predictions_of_numbers_are_saved_as_arrays(tmp_path):
    """They are in another file, and what counts edits says so."""
    right, written = np.array([[1.0, 2.0]], np.float32), np.array([[1.0, 5.0], [7.0, 7.0]], np.float32)
    pair = Pair(("a",), (("0",),), target=right)
    save_predictions(tmp_path, [Prediction(pair, written, -0.5, None)])
    with pytest.raises(UserError, match=r"predictions\.tsv:1: no column 'references'; .* are numbers"):
        read_predictions(tmp_path)
    assert not has_symbol_predictions(tmp_path)
    _, line = (tmp_path / PREDICTIONS).read_text(encoding="utf-8").splitlines()
    assert line.split("\t") == ["a", "prediction_0", "reference_0", "2", "1", "1.5", "2.12132", "-0.500000"]
    with np.load(tmp_path / MATRICES) as arrays:
        assert arrays["prediction_0"].tolist() == written.tolist()
        assert arrays["reference_0"].tolist() == right.tolist()


def test_a_test_of_numbers_is_its_names_and_true_numbers(tmp_path):
    """A longer lookback changes neither, another file with the same dates the numbers."""
    digests = {}
    for name, source, value in (
        ("ETTh1", ("1", "2"), 3.0),
        ("longer", ("0", "1", "2"), 3.0),
        ("ETTh2", ("1", "2"), 4.0),
    ):
        (tmp_path / name).mkdir()
        pair = Pair(source, (("0",),), target=np.array([[value]], np.float32), name="3")
        save_predictions(tmp_path / name, [Prediction(pair, np.array([[value + 1]], np.float32), -0.5, None)])
        digests[name] = read_examples(tmp_path / name).digest
    assert digests["ETTh1"] == digests["longer"] != digests["ETTh2"]
    assert digests["ETTh1"] == "755537f16aa8"  # as in tables of runs that are already written


@pytest.mark.parametrize(
    ("table", "digest"),
    [
        ("source\tprediction\treferences\nab\tA\tB\n", "d3f276ac81c4"),
        ("source\tprediction\treferences\ttexts\nab\tA\tB\tb\n", "3e23e8160039"),
    ],
)
def test_a_test_keeps_its_digest(table, digest, tmp_path):
    """Tables of runs that are already written have it: another one would make their tests another test."""
    (tmp_path / PREDICTIONS).write_text(table, encoding="utf-8")
    assert read_examples(tmp_path).digest == digest


def wrong(*edits: int) -> tuple[str, ...]:
    return tuple(f"{chr(97 + i)}\tA\tB\t{edit}\t-1" for i, edit in enumerate(edits))


def test_saved_draws_are_compared(write):
    """Differences of the metrics of the same draws; a baseline of the task, the same for both, is no row."""
    task = {"task": {"name": "forecasting"}}
    first = write("first", wrong(1, 1), task, test_bleu=30.0, test_mse=0.5, test_naive_mse=1.5)
    second = write("second", wrong(1, 1), task, test_bleu=31.0, test_mse=0.4, test_naive_mse=1.5)
    common = np.random.default_rng(0).normal(0, 9, 2000)
    for folder, bleu, mse in ((first, 30.0, 0.5), (second, 31.0, 0.4)):
        drawn = {"test_bleu": bleu + common, "test_mse": mse + common, "test_naive_mse": 1.5 + common}
        np.savez(folder / "resampled.npz", **drawn)
    rows, _ = compare_folders(first, second)
    assert {name: cells for name, cells in rows.items() if name.endswith("against the first")} == {
        "BLEU, higher is better against the first": ["-", "+1.00 (+1.00 to +1.00), p 0.001"],
        "MSE against the first": ["-", "-0.1000 (-0.1000 to -0.1000), p 0.001"],
    }
    for folder, unit in ((first, "m"), (second, "km")):
        results = json.loads((folder / RESULTS).read_text())
        (folder / RESULTS).write_text(json.dumps({**results, "signatures": {"mse": unit}}))
    rows, _ = compare_folders(first, second)
    assert [name for name in rows if name.endswith("against the first")] == ["BLEU, higher is better against the first"]
    assert rows["MSE, signature: different, so not comparable"] == ["m", "km"]
    (second / RESULTS).write_text('{"test_bleu": null}')  # damaged, or interrupted before
    assert not any(name.endswith("against the first") for name in compare_folders(first, second)[0])


def test_compare_shows_runs_side_by_side(write):
    first = write("first", wrong(1, 1, 1), test_wer=34.0, train_examples_per_second=2500.0)
    second = write("second", wrong(0, 0, 0), test_wer=31.5, parameters=12345)
    rows, _ = compare_folders(first, second)
    assert rows["parameters"] == ["-", "12,345"]
    assert rows["test_wer"] == ["34.00", "31.50"]
    assert rows["train_examples_per_second"] == ["2,500.00", "-"]
    assert rows["WER, length 1-4"] == ["100.00", "0.00"]


def test_a_value_is_shown_with_its_interval(write):
    """In a run's table, its explanation and its comparison: as many digits as the interval has."""
    intervals = {"test_mse": [0.0831, 0.0942], "test_own_mse": [0.00292, 0.0034]}
    first = write("first", None, test_mse=0.08861, test_own_mse=0.00312, steps=7, intervals=intervals)
    second = write("second", None, test_mse=0.0911, test_own_mse=0.00351)
    rows, _ = compare_folders(first, second)
    assert rows["test_mse"] == ["0.0886 (0.0831 to 0.0942)", "0.09110"]
    assert rows["test_own_mse"] == ["0.00312 (0.00292 to 0.00340)", "0.003510"]
    text = write_run_readme(first).read_text(encoding="utf-8")
    assert "| metric | value | 95 % interval | remark |" in text
    assert "| test_mse | 0.0886 | 0.0831 to 0.0942 |  |" in text
    assert "| steps | 7 |  |  |" in text
    assert "test_own_mse  0.00312  0.00292 to 0.00340" in terminal_text(results_table(read_run(first)), 100)


def styles(folders: list[Path]) -> list[list[str]]:
    """Of the first three cells of each run's column."""
    cells = [list(column.cells)[:3] for column in compare(folders).columns[1:]]
    return [[str(cell.style) for cell in column if isinstance(cell, Text)] for column in cells]


def test_compare_marks_the_best_in_its_direction(write):
    """And nothing of different tests, nor among the rates by length."""
    first = write("first", None, test_wer=34.0, train_examples_per_second=2500.0, parameters=5)
    second = write("second", None, test_wer=31.5, train_examples_per_second=2400.0, parameters=7)
    assert styles([first, second]) == [["", "bold", ""], ["bold", "", ""]]
    other = write("other", ("d o g\tD AO\tD AO G\t1\t-0.10",), test_per=5.0)
    table = compare([other, write("third", LINES, test_per=6.0)])
    cells = [cell for column in table.columns[1:] for cell in column.cells]
    assert not any(str(cell.style) == "bold" for cell in cells if isinstance(cell, Text))


def test_compare_names_unequal_conditions(write):
    """Steps, and data that were changed in the same file."""
    folders = [write("first", test_per=5.0, steps=10), write("second", test_per=6.0, steps=20)]
    for folder, data in zip(folders, ("ab", "cd"), strict=True):
        info = json.loads((folder / RUN_JSON).read_text())
        (folder / RUN_JSON).write_text(json.dumps({**info, "status": "finished", "fingerprint": data}))
    caption = str(compare(folders).caption)
    assert "The runs did not train for the same number of steps (10 to 20)" in caption
    assert "The runs were trained on 2 different data sets" in caption
    assert "different" not in str(compare([folders[0], folders[0]]).caption)


def test_compare_distinguishes_runs_of_one_name_by_folder(write):
    first, second = write("first"), write("second", info={"name": "first"})
    assert [str(column.header) for column in compare([first, second]).columns] == ["metric", "first", "second"]
    with pytest.raises(UserError, match="at least one"):
        compare([])


@pytest.mark.parametrize(
    ("task", "info", "message"),
    [
        ("translation", {}, "its task is translation, .*first has g2p; such runs cannot"),
        ("g2p", {"monitor": "valid_loss"}, "main metric is valid_loss, .* has valid_per;"),
    ],
)
def test_compare_refuses_incomparable_runs(task, info, message, write):
    first = write("first", config={"task": {"name": "g2p"}}, info={"monitor": "valid_per"})
    second, unknown = write("second", config={"task": {"name": task}}, info=info), write("unknown")
    evaluation = second / "evaluations" / "test"
    evaluation.mkdir(parents=True)
    (evaluation / EVALUATION).write_text(json.dumps({"format": FORMAT, "run": "second"}))
    for alternative in (second, evaluation):
        with pytest.raises(UserError, match=message):
            compare([unknown, first, alternative])
    compare([second, evaluation, unknown])


def test_the_readme_of_a_run_describes_it(write):
    """It needs run.json alone."""
    bare = write_run_readme(write("bare", lines=None)).read_text()
    assert "## Results" not in bare
    assert "attnx +scorer=additive" in bare
    query = {"token": {}, "language_tag": {"embedding_dim": 5}}
    config = {"scorer": {"name": "additive", "hidden": 19}, "scope": {"name": "global"}, "scaled": 3, "query": query}
    folder = write(config=config, test_per=8.125, words=7)
    text = write_run_readme(folder).read_text()
    for line in (
        *("# first\n", "| scorer | additive hidden=19 |", "| scope | global |", "| `predictions.tsv` |"),
        "| query | [token,language_tag] language_tag.embedding_dim=5 |",
        "| test_per | 8.12 | % phone error rate |",
        *(f"attnx resume {folder}", f'attnx.open_run("{folder}")'),
    ):
        assert line in text
    assert "scaled" not in text
    assert "`metrics.csv`" not in text


@pytest.mark.parametrize(
    ("trainer", "steps", "reason"),
    [
        ({"max_steps": 70, "max_time": "00:04:00"}, 70, "max_steps=70"),
        ({"max_steps": 70, "max_epochs": 3, "max_time": "00:04:00"}, 70, "max_steps=70"),
        ({"max_steps": 71, "max_epochs": 3}, 70, "max_epochs=3"),
        ({"max_epochs": 3}, 70, "max_epochs=3"),
        ({"max_time": "00:04:00"}, 70, "max_time=00:04:00"),
        ({"max_steps": 70, "patience": 2}, 70, "max_steps=70"),
        ({"max_steps": 70, "patience": 2}, 41, "patience=2"),
    ],
)
def test_a_run_says_what_ended_it(trainer, steps, reason, write):
    config = {"trainer": {"name": "lightning", **trainer}}
    folder = write(config=config, info={"steps": 70}, test_per=8.125, steps=steps, words=7)
    assert f"| steps | {steps} | ended by trainer.{reason} |" in write_run_readme(folder).read_text(encoding="utf-8")


def test_units_match_the_kind_of_example(write, tmp_path):
    """A README of windows of numbers speaks of examples, and of no words or phones."""
    folder = write("numbers", None, test_mse=0.7267, test_examples=120, train_examples_per_second=17814.434)
    text = write_run_readme(folder).read_text(encoding="utf-8")
    assert "| test_mse | 0.7267 |  |" in text
    assert "| train_examples_per_second | 17,814.43 | examples/s in training |" in text
    results = text.partition("## Results")[2]
    assert re.findall(r"\bwords?\b|\bphones?\b|_per\b", results) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "null"),
        (False, "false"),
        (0.1, "0.1"),
        (["token", "last_context"], "[token,last_context]"),
        ({"name": "softmax"}, "softmax"),
        ({"name": "mlp", "depth": 2, "widths": None}, "mlp depth=2"),
        ({"token": {}, "language_tag": {"embedding_dim": 5}}, "[token,language_tag] language_tag.embedding_dim=5"),
    ],
)
def test_a_configuration_is_described_in_one_line(value, message):
    assert node_text(value) == message


@pytest.mark.parametrize(("num_decoder_states", "read"), [(0, "catK"), (1, "cat"), (4, ""), (None, "catK")])
def test_an_alignment_marks_its_source_columns(num_decoder_states, read, tmp_path):
    """An old one has no decoder states."""
    arrays = {"weights": np.zeros((2, 4)), "source": list("catK"), "output": ["K", "AE"], "reference": ["K"]}
    states = {} if num_decoder_states is None else {"num_decoder_states": np.array(num_decoder_states)}
    np.savez(tmp_path / "a.npz", **arrays, **states)
    alignment = read_alignment(tmp_path / "a.npz")
    assert (alignment.num_decoder_states, "".join(alignment.source_symbols)) == (num_decoder_states or 0, read)
    assert "".join(alignment.source) == "catK"


def test_curves_skip_empty_cells_and_keep_the_last_row_of_a_step(tmp_path):
    path = tmp_path / METRICS
    path.write_text("epoch,step,train_loss,valid_wer,rate\n0,5,2.5,,1\n0,7,,61.0,1\n0,5,1.5,,1\n")
    curves = read_curves(tmp_path)
    assert (curves["train_loss"], curves["valid_wer"]) == ({5: 1.5}, {7: 61.0})


@pytest.mark.parametrize("name", ["valid_per_a,b", "valid_per_a\N{LINE SEPARATOR}b"])
def test_a_column_may_have_a_comma(name, tmp_path):
    """Or an end of line that csv does not know: it is named after a tag."""
    text = with_row(with_row("", {"step": "5", name: "3"}), {"step": "7", name: "4", "valid_per_c": "2"})
    (tmp_path / METRICS).write_text(text, encoding="utf-8")
    assert read_curves(tmp_path) == {name: {5: 3, 7: 4}, "valid_per_c": {7: 2}}


def test_rows_of_training_losses_are_no_validations(write):
    folder = write()
    lines = [f"{step},{5 - step / 100}," for step in range(50, 250, 50)] + ["250,2.5,31.0"]
    (folder / METRICS).write_text("\n".join(["step,train_loss,valid_per", *lines]))
    run = read_run(folder)
    assert [len(run.curves[name]) for name in ("train_loss", "valid_per")] == [5, 1]
    assert (run.progress.step, run.progress.curve) == (250, [])


def test_without_data_no_picture_is_drawn(tmp_path):
    """And none of what is not a number."""
    assert draw_curves(tmp_path) is None
    (tmp_path / METRICS).write_text("step,rate\n1,0.5\n")
    assert draw_curves(tmp_path) is None
    for row, problem in (("2,low", "valid_per must be a number, not 'low'"), ("1.5,7", "step must be a whole number")):
        (tmp_path / METRICS).write_text(f"step,valid_per\n1,9.5\n{row}\n")
        with pytest.raises(UserError, match=rf"metrics\.csv:3: {problem}"):
            draw_curves(tmp_path)
    assert list(tmp_path.glob("*.png")) == []


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (RUN_JSON, '{"format": 1,\n "name": }', r"run\.json:2: not valid JSON"),
        (RUN_JSON, "[1]", r"run\.json:1: expected names with values, found a list"),
        (RUN_JSON, b'{"format": 1,\n"name": "\xff"}', r"run\.json:2: not UTF-8"),
        (RUN_JSON, "{}", r"run\.json: format must be a whole number"),
        (RUN_JSON, '{"format": 0}', rf"run\.json: format must be a whole number from 1 to {FORMAT}, not 0"),
        (RUN_JSON, json.dumps({"format": FORMAT + 1}), rf"format {FORMAT + 1} is newer than the {FORMAT}"),
        (RESULTS, "{\n\n7}", r"results\.json:3: not valid JSON"),
        (CONFIG_YAML, "a: 1\nb: [", r"config\.yaml:\d: not valid YAML"),
        (CONFIG_YAML, "a: \x00", r"config\.yaml:1: not valid YAML"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(write, file, content, message):
    folder = write()
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message):
        write_run_readme(folder)
    assert not (folder / "README.md").exists()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="nowhere: not a folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"not a run folder \(it has no run\.json\)"):
        read_run(tmp_path)


def test_a_missing_or_malformed_prediction_is_reported(write):
    with pytest.raises(UserError, match="written when a run is tested"):
        read_predictions(write("bare", lines=None))
    for count, line in ((2, "a\tb"), (6, f"{LINES[0]}\t7")):
        with pytest.raises(UserError, match=rf"predictions\.tsv:3: {count} columns where 5 were expected"):
            read_predictions(write(f"{count} columns", lines=(LINES[0], line)))
    for edits in ("x", "-1", "9" * 5000):
        with pytest.raises(UserError, match=rf"predictions\.tsv:2: edits must be a whole number, not '{edits}'"):
            read_predictions(write(f"{len(edits)} edits", lines=(f"a\tA\tA\t{edits}\t-1",)))


def test_an_unmeasured_value_is_null_and_shown_as_a_dash(tmp_path):
    """A language of the training split may have no test words; JSON has no NaN."""
    (tmp_path / "run.json").write_text('{"format": 1}', encoding="utf-8")
    results = {"test_wer_ady": float("nan"), "test_wer_macro": 12.5, "steps": 7, "test_loss": float("inf")}
    write_json(tmp_path / "results.json", results)
    saved = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (saved["test_wer_ady"], saved["test_loss"]) == (None, None)
    lines = terminal_text(results_table(read_run(tmp_path)), 80).splitlines()[1:]
    cells = {"test_wer_ady": "-", "test_wer_macro": "12.50", "steps": "7", "test_loss": "-"}
    assert [tuple(line.split()[:2]) for line in lines] == list(cells.items())
