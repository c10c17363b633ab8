"""``attnx evaluate``: scores of any data next to the run, never overwritten; and comparisons."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import attnx
from attnx import registry
from attnx.cli.commands import evaluate
from attnx.inference.trained_run import TrainedRun as Opened
from attnx.reports.run.evaluated_examples import read_examples
from attnx.reports.significant_digits import format_difference, format_interval, format_with_interval
from attnx.reports.stats.bootstrap import percentile_interval, two_sided_p
from attnx.runs.predictions import read_run_or_evaluation
from tests.runs.conftest import file_contents, results, table, write_lines, write_parts
from tests.terminal_text import compare_folders


def scores(folder: str | Path) -> dict[str, float]:
    return {name: value for name, value in results(folder).items() if name.startswith("test_")}


@pytest.fixture
def extra_words(runs):
    """Seven words in ``more.tsv``, the first of which none can pronounce so."""
    lines = ["dab\tS S S S S S", "kes\tK EH S", "be\tB EH", "sab\tS AA B", "ded\tD EH D", "kk\tK K", "aska\tAA S K AA"]
    Path("more.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def test_the_test_part_of_a_run_scores_equally(runs, command, succeed):
    output = succeed("evaluate", "one")
    assert output.splitlines()[-1] == "one/evaluations/test: start with README.md"
    assert scores("one/evaluations/test") == pytest.approx(scores("one"), rel=1e-6)
    evaluated, trained = (table(f"{folder}/predictions.tsv") for folder in ("one/evaluations/test", "one"))
    for first, second in zip(evaluated, trained, strict=True):
        assert float(first.pop("log_probability")) == pytest.approx(float(second.pop("log_probability")), abs=1e-4)
        assert first == second
    words = len(evaluated)
    command("evaluate", "one", "trainer.test_examples=3")
    assert len(table("one/evaluations/test-examples=3/predictions.tsv")) == 3 < words


def test_evaluation_accepts_other_data_and_searches(extra_words, succeed, runs):
    Path("words.tsv").unlink()  # other data are evaluated on without those that the run was trained on
    output = succeed("evaluate", "one", "task.test=more.tsv", "decoding=beam", "decoding.beam_size=3")
    folder = Path("one/evaluations/more-beam-beam_size=3")
    names = {"README.md", "evaluation.json", "results.json", "predictions.tsv", "resampled.npz"}
    assert set(file_contents(folder)) == names | {"by_length.tsv", "by_symbol.tsv", "confusions.tsv"}
    rows = table(folder / "predictions.tsv")
    assert [f"{row['source'].replace(' ', '')}\t{row['references']}" for row in rows] == extra_words
    best = attnx.open_run("one").predict(
        [line.split("\t")[0] for line in extra_words], decoding=("beam", {"beam_size": 3})
    )
    assert [row["prediction"] for row in rows] == [" ".join(hypothesis.output) for hypothesis in best]
    edits = [int(row["edits"]) for row in rows]
    symbols = sum(len(row["references"].split()) for row in rows)
    result = scores(folder)
    assert result["test_per"] == pytest.approx(100 * sum(edits) / symbols)
    assert result["test_wer"] == pytest.approx(100 * sum(edit > 0 for edit in edits) / 7)
    by_symbol = table(folder / "by_symbol.tsv")
    assert sum(int(row["errors"]) for row in by_symbol) == sum(edits) > 0
    assert sum(int(row["references"]) for row in by_symbol) == symbols
    confused = sum(int(row["times"]) for row in table(folder / "confusions.tsv"))
    assert confused == sum(int(row["substituted"]) for row in by_symbol)
    assert sum(int(row["examples"]) for row in table(folder / "by_length.tsv")) == 7
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert "attnx evaluate one task.test=more.tsv decoding=beam decoding.beam_size=3" in page
    for title in ("results", "errors by length", "errors by symbol", "most confused"):
        assert title in output
    wrong = sum(edit > 0 for edit in edits)
    exact = binomtest(wrong, 7).proportion_ci(method="exact")
    assert read_run_or_evaluation(folder).intervals["test_wer"] == pytest.approx((100 * exact.low, 100 * exact.high))
    for text in (page, output):
        assert format_interval(*read_run_or_evaluation(folder).intervals["test_per"]) in text
    info = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert info["settings"]["decoding"]["beam_size"] == 3


def test_nothing_is_overwritten(extra_words, command, runs, monkeypatch):
    """The same again is shown; other data of the same name, or other weights, are put beside it."""
    arguments = ("evaluate", "one", "task.test=more.tsv")
    first = command(*arguments)
    content_before = file_contents("one")

    def not_again(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(Opened, "decode", not_again)
        again = command(*arguments)
    assert again.code == 0
    assert again.out.splitlines()[:-1] == first.out.splitlines()[:-1]
    message = "one/evaluations/more: exists already, with the same weights, decoding and data"
    assert again.out.splitlines()[-1] == message
    assert file_contents("one") == content_before
    Path("more.tsv").write_text("\n".join(extra_words[:5]) + "\n", encoding="utf-8")
    assert command(*arguments).out.splitlines()[-1] == "one/evaluations/more-2: start with README.md"
    assert [results(f"one/evaluations/{name}")["test_examples"] for name in ("more", "more-2")] == [7, 5]
    assert command(*arguments).out.splitlines()[-1].startswith("one/evaluations/more-2: exists already")
    Path("one/checkpoints/best.ckpt").write_bytes(Path("two/checkpoints/best.ckpt").read_bytes())
    assert command(*arguments).out.splitlines()[-1] == "one/evaluations/more-3: start with README.md"


@pytest.mark.parametrize(
    ("words", "link"),
    [
        (("page",), "page.html"),
        (("plot",), "alignments.png"),
        (("stats",), "alignment_statistics.json"),
        (("evaluate",), "evaluations"),
        (("export",), "export"),
        (("runs", "prune", "keep=none", "--yes"), "README.md"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_commands_do_not_write_through_links(words, link, runs, command, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("safe", encoding="utf-8")
    Path("one", link).unlink(missing_ok=True)
    Path("one", link).symlink_to(outside)
    answer = command(*words, "one") if words[0] != "runs" else command("runs", "prune", "one", *words[2:])
    assert answer.code != 0
    assert f"one/{link}: is a link that leads out of one, where nothing may be written" in answer.err
    assert outside.read_text(encoding="utf-8") == "safe"


def test_an_evaluation_whose_name_was_taken_has_the_next(extra_words, runs, command, monkeypatch):
    """Another process has evaluated on other data of the same name meanwhile."""
    (runs / "other").mkdir()
    (runs / "other" / "more.tsv").write_text("\n".join(extra_words[:5]) + "\n", encoding="utf-8")
    write_tables = evaluate.write_tables

    def evaluate_other(*arguments: Any) -> None:
        monkeypatch.setattr(evaluate, "write_tables", write_tables)
        assert command("evaluate", "one", "task.test=other/more.tsv").code == 0
        write_tables(*arguments)

    monkeypatch.setattr(evaluate, "write_tables", evaluate_other)
    answer = command("evaluate", "one", "task.test=more.tsv")
    assert answer.out.splitlines()[-1] == "one/evaluations/more-2: start with README.md"
    folders = ["one/evaluations/more", "one/evaluations/more-2"]
    assert [results(folder)["test_examples"] for folder in folders] == [5, 7]
    assert sorted(map(str, Path("one/evaluations").iterdir())) == folders


def test_an_ensemble_of_a_run_with_itself_scores_as_the_run(runs, succeed):
    succeed("evaluate", "one", "one")
    assert scores("one/evaluations/test-ensemble=2") == pytest.approx(scores("one"), rel=1e-6)


def test_runs_are_evaluated_as_the_ensemble_that_predicts(extra_words, runs, command, succeed):
    """Its folder is the first run's; the same ensemble again is shown, another one of the same size has its own."""
    arguments = ("task.test=more.tsv", "decoding=beam", "decoding.beam_size=3")
    answer = command("evaluate", "one", "two", *arguments)
    folder = Path("one/evaluations/more-ensemble=2-beam-beam_size=3")
    assert (answer.code, answer.err, answer.out.splitlines()[-1]) == (0, "", f"{folder}: start with README.md")
    sources = [line.partition("\t")[0] for line in extra_words]
    Path("words.txt").write_text("\n".join(sources) + "\n", encoding="utf-8")
    predicted = command("predict", "one", "two", "words.txt", *arguments[1:]).out.splitlines()
    rows = table(folder / "predictions.tsv")
    assert [row["prediction"] for row in rows] == predicted
    wrong = sum(int(row["edits"]) > 0 for row in rows)
    assert scores(folder)["test_wer"] == pytest.approx(100 * wrong / 7)
    assert (folder / "resampled.npz").is_file()
    assert json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["runs"] == ["one", "two"]
    assert "by the mean of its 2 runs at each step: one, two." in (folder / "README.md").read_text(encoding="utf-8")
    again = command("evaluate", "one", "two", *arguments)
    assert again.out.splitlines()[-1] == f"{folder}: exists already, with the same weights, decoding and data"
    second = command("evaluate", "one", "one", *arguments).out.splitlines()[-1]
    assert second == f"{folder}-2: start with README.md"
    compared = succeed("compare", str(folder), f"{folder}-2")
    assert "WER against the first" in compared
    assert command("evaluate", "one", *arguments).out.splitlines()[-1].startswith("one/evaluations/more-beam-beam")


def test_each_member_of_an_ensemble_is_averaged(extra_words, runs, command):
    """The checkpoints of each, not those of all: two different means predict, and their digests are compared."""
    shutil.copy("two/checkpoints/best.ckpt", "one/checkpoints/best-2.ckpt")
    shutil.copy("two/checkpoints/last.ckpt", "two/checkpoints/best-2.ckpt")
    assert command("evaluate", "one", "two", "task.test=more.tsv", "--checkpoint", "average").code == 0
    folder = Path("one/evaluations/more-ensemble=2-average")
    settings = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["settings"]
    assert len(settings["weights"]) == 4
    expected = attnx.open_ensemble(["one", "two"], checkpoint="average").predict(
        [line.split("\t")[0] for line in extra_words]
    )
    rows = table(folder / "predictions.tsv")
    assert [row["prediction"] for row in rows] == [" ".join(item.output) for item in expected]


def test_an_interrupted_evaluation_leaves_nothing(extra_words, command, runs, monkeypatch):
    def press(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Opened, "decode", press)
    answer = command("evaluate", "one", "task.test=more.tsv")
    assert (answer.code, answer.out) == (130, "")
    assert "nothing was written" in answer.err
    assert not Path("one/evaluations").exists()


def test_a_note_on_what_is_not_read_is_printed_and_saved(extra_words, runs, succeed):
    """Each time that the evaluation is shown; a first line of known phones is no such line."""
    Path("named.tsv").write_text("\n".join(["word\tpronunciation", *extra_words]) + "\n", encoding="utf-8")
    note = r"the first line of named.tsv is taken for names of columns, and not read: 'word\tpronunciation'"
    for _ in range(2):
        assert f"note: {note}" in succeed("evaluate", "one", "task.test=named.tsv").splitlines()
    saved = json.loads(Path("one/evaluations/named/evaluation.json").read_text(encoding="utf-8"))
    assert note in saved["notes"]
    lines = ["dad\tD AA D"] + [f"{'bes' * (n % 3 + 1)}{'k' * n}\tB EH S" for n in range(40)]
    Path("many.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert "taken for names" not in succeed("evaluate", "one", "task.test=many.tsv")
    assert len(table("one/evaluations/many/predictions.tsv")) == len(lines)


@pytest.mark.parametrize("count", [None, 5])
def test_a_changed_test_file_is_no_longer_that_of_the_run(count, run, command, refuse):
    """Of a sample what was drawn; named as other data it is evaluated on."""
    words = [f"{first}{second}{third}\tB" for first in "abd" for second in "ek" for third in "sab"]
    Path("test.tsv").write_text("\n".join(words) + "\n", encoding="utf-8")
    sample = [] if count is None else [f"trainer.test_examples={count}"]
    run("task.test=test.tsv", *sample, folder="one")
    assert command("evaluate", "one").code == 0
    assert scores("one/evaluations/test") == pytest.approx(scores("one"), rel=1e-6)
    assert command("evaluate", "one", "trainer.test_examples=3").code == 0
    Path("test.tsv").write_text("\n".join(f"{word} K" for word in words) + "\n", encoding="utf-8")
    assert "the data of its test split have changed since it was trained" in refuse("evaluate", "one")
    assert command("evaluate", "one", "task.test=test.tsv").code == 0


MISTAKES = {
    "task.test=none.tsv": "none.tsv: no such file",
    "task.test=$NOT_SET/a.tsv": "the environment variable NOT_SET is not set",
    "task.test=bad.tsv": "bad.tsv:2: no tab",
    "task.test=binary.tsv": "binary.tsv:2: byte 0xff",
    "task.test=empty.tsv": "empty.tsv: holds no pairs",
    "task.test=fre_test.tsv task.test=more.tsv": "task.test is set twice",
    "task.test=tagged": "tagged: holds the tag 'fre', which is not one of this run's: it has none",
    "trainer.test_examples=2": "the data of its test split have changed since it was trained",
}


@pytest.mark.parametrize(("overrides", "message"), MISTAKES.items())
def test_mistaken_data_give_one_line_and_leave_nothing(overrides, message, extra_words, runs, refuse):
    Path("bad.tsv").write_text("dab\tD AA B\nkes K EH S\n", encoding="utf-8")
    Path("binary.tsv").write_bytes(b"dab\tD AA B\nk\xff\tK\n")
    Path("empty.tsv").write_text("", encoding="utf-8")
    Path("tagged").mkdir()
    Path("tagged/fre_test.tsv").write_text("dab\tD AA B\n", encoding="utf-8")
    Path("words.tsv").write_text("dab\tD AA B\n" + Path("words.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    assert message in refuse("evaluate", "one", *overrides.split())


def test_evaluations_are_compared_as_runs_are(extra_words, runs, command, succeed, refuse):
    for name in ("one", "two"):
        assert command("evaluate", name, "task.test=more.tsv").code == 0
    succeed("compare", "one/evaluations/more", "two/evaluations/more", "one")
    folders = ["one/evaluations/more", "two/evaluations/more", "one"]
    rows, _ = compare_folders(*folders)
    assert rows["metric"] == ["one/more", "two/more", "one"]
    for folder, cell in zip(folders, rows["test_wer"], strict=True):
        assert cell == format_with_interval(
            results(folder)["test_wer"], *read_run_or_evaluation(folder).intervals["test_wer"]
        )
    assert rows["test_examples"][:2] == ["7", "7"]
    assert not any("against the first" in name for name in rows)  # the run itself had another test
    _, text = compare_folders(*folders[:2])
    expected = results(folders[1])["test_wer"] - results(folders[0])["test_wer"]
    first, second = (read_examples(Path(folder)).resampled["test_wer"] for folder in folders[:2])
    cell = format_difference(expected, *percentile_interval(second - first))
    assert f"{cell}, p {two_sided_p(second - first):.3f}" in text
    Path("one/evaluations/more/evaluation.json").write_text('{"format": 2}', encoding="utf-8")
    line = refuse("compare", "one/evaluations/more", "one")
    assert "evaluation.json: format 2 is newer than the 1 known here" in line


def test_numbers_are_evaluated(run, command, refuse):
    for number in range(43):
        steps = np.arange(2 + number % 5, dtype=np.float32)
        np.save(f"in{number}.npy", np.stack([steps + number, steps % 3], axis=1))
        Path(f"out{number}.csv").write_text("a,b\n" + "".join(f"{step * 10},{number}\n" for step in steps))
    parts = write_parts("in{0}.npy\tout{0}.csv".format)
    run("task=sequences", "task.source=features", "task.target=features", *parts, "trainer.max_steps=20", folder="one")
    assert command("evaluate", "one").code == 0
    assert scores("one/evaluations/test") == pytest.approx(scores("one"), rel=1e-4)
    by_column = table("one/evaluations/test/by_column.tsv")
    assert [row["column"] for row in by_column] == ["a", "b"]
    mean = sum(float(row["mean_absolute_error"]) for row in by_column) / 2
    assert mean == pytest.approx(scores("one")["test_mean_absolute_error"], rel=1e-4)
    assert sum(int(row["examples"]) for row in table("one/evaluations/test/by_length.tsv")) == 7
    assert command("evaluate", "one", "one").code == 0
    assert scores("one/evaluations/test-ensemble=2") == pytest.approx(scores("one/evaluations/test"), rel=1e-4)
    np.save("wide.npy", np.zeros((3, 3), np.float32))
    Path("wide.tsv").write_text("wide.npy\tout3.csv\n", encoding="utf-8")
    line = refuse("evaluate", "one", "task.test=wide.tsv")
    assert "the source wide.npy has 3 features a step, but this run was trained on 2" in line


TASKS: dict[str, dict[str, Any]] = {
    "g2p": {"graphemes": "nfd"},
    "sequences": {"source": "characters", "tagged": False},
    "translation": {"tokenizer": "word", "lower": True},
}


@pytest.mark.parametrize("name", TASKS)
def test_a_test_file_is_read_without_the_other_parts(name, work_folder):
    """Every task gives the pairs that loading everything gives, once it has what was learned from the training data."""
    letters = [a + b + c for a in "abé" for b in "xyz" for c in "pqr"]
    for part, words in (("train", letters[:20]), ("test", letters[20:])):
        write_lines(f"{part}.tsv", [f"{word}\t{' '.join(word.upper())}" for word in words])
    options = {**TASKS[name], "train": "train.tsv", "test": "test.tsv", "holdout": 0.2}
    data = (task := registry.build("task", (name, options))).load()
    Path("vocabulary").mkdir()
    data.save_sides(Path("vocabulary"))
    task.save(Path("vocabulary"))
    Path("train.tsv").unlink()
    alone = registry.build("task", (name, options))
    alone.restore(Path("vocabulary"))
    assert alone.test_pairs() == data.pairs.test
    assert len(data.pairs.test) == 7
