"""Validation and test samples: equal for all runs, with every tag."""

from collections import Counter
from pathlib import Path

import pytest

from attnx import registry
from attnx.config.compose import compose
from attnx.laws.candidate import Candidate
from attnx.laws.task import NUM_EXAMPLES, TaskLaws
from attnx.problems.pointing.saved_points import read_points
from attnx.training.loaders import draw_examples
from tests.refusal import refused
from tests.runs.conftest import fit_run, results, run_info, table

LANGUAGES = ("ady", "fre", "ita")


def test_runs_and_evaluations_share_their_test_sample(words, run, command):
    """Whatever the seed, however letters are cut, and in whatever order the file has them."""
    run("trainer.test_examples=4", folder="one")
    run("trainer.test_examples=4", "seed=2", "task.graphemes=nfd", folder="two")
    lines = words.read_text(encoding="utf-8").splitlines(keepends=True)
    words.write_text("".join(lines[::-1]), encoding="utf-8")
    run("trainer.test_examples=4", folder="three")
    tested = [[row["source"] for row in table(f"{name}/predictions.tsv")] for name in ("one", "two", "three")]
    assert tested[0] == tested[1] == tested[2][::-1]
    assert len(set(tested[0])) == 4
    words.write_text("".join(lines), encoding="utf-8")
    assert command("evaluate", "two").code == 0
    assert [row["source"] for row in table("two/evaluations/test/predictions.tsv")] == tested[0]


@pytest.fixture
def many(work_folder):
    """Words in three languages, to train, validate and test on; language after language in one table."""
    spelled = ["".join([a, b, c]) for a in "abc" for b in "abc" for c in "abc"]
    parts = {"train": spelled[:15], "valid": spelled[15:21], "test": spelled[21:]}
    for part, content in parts.items():
        lines = [f"{' '.join(word)}\t{' '.join(word.upper())}\t{tag}\n" for tag in LANGUAGES for word in content]
        (work_folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    return work_folder


TAGGED = ["task=sequences", "task.tagged=true", "model.tag_inputs=[decoder]"]
TAGGED += [f"task.{part}={part}.tsv" for part in ("train", "valid", "test")]


def test_the_validation_sample_has_every_tag(many, run):
    """Though the table has them one after the other; and all of them are measured."""
    run(*TAGGED, "trainer.valid_examples=3", "trainer.test_examples=4", folder="one")
    for row in table("one/metrics.csv"):
        rates = [float(row[f"valid_sequence_error_rate_{tag}"]) for tag in LANGUAGES]
        assert float(row["valid_sequence_error_rate_macro"]) == pytest.approx(sum(rates) / 3, rel=1e-4)
        assert "nan" not in row.values()
    tags = Counter(row["tag"] for row in table("one/predictions.tsv"))
    assert sorted(tags.values()) == [1, 1, 2]
    assert "3 of 18 valid, 4 of 18 test" in run_info("one")["data"]


def test_a_mean_over_tags_needs_them_all(many, run, succeed):
    """Without each of them in the test no mean is written or shown, nor anything of what was not measured."""
    lines = Path("test.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("test.tsv").write_text("".join(line for line in lines if "\tfre" not in line), encoding="utf-8")
    run(*TAGGED, folder="one")
    names = {name for name in results("one") if name.startswith("test_sequence")}
    assert names == {f"test_sequence_error_rate_{which}" for which in ("micro", "ady", "ita")}
    intervals = results("one").get("intervals", {})
    assert not [name for name in intervals if "macro" in name or "fre" in name]
    output = succeed("evaluate", "one", "trainer.test_examples=1")
    assert "macro" not in output
    assert "-\n" not in output


REFUSED = {
    "trainer.valid_examples=2: valid_symbol_error_rate_macro, which selects the best weights, is the mean over 3 "
    "tags; set 3 or more, or null for all": ["trainer.valid_examples=2"],
    "the validation split has no example of 'fre', and valid_symbol_error_rate_macro, which selects the best weights, "
    "is the mean over 3 tags; name a task.valid that has some, or hold out more examples": ["task.valid=lacking.tsv"],
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_validation_without_a_tag_is_refused(message, many, run):
    lines = Path("valid.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("lacking.tsv").write_text("".join(line for line in lines if "\tfre" not in line), encoding="utf-8")
    overrides = [word for word in TAGGED if word.partition("=")[0] != REFUSED[message][0].partition("=")[0]]
    with refused(message):
        run(*overrides, *REFUSED[message], folder="one")
    assert not Path("one").exists()


def test_the_laws_of_a_task_cover_every_tag(many):
    """Its metric, a mean over tags, is found though the first tag alone has more examples than are tried."""
    options = {"train": "train.tsv", "valid": "train.tsv", "test": "test.tsv", "tagged": True}
    lines = Path("train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    extra_lines = [f"{'a ' * number}a\tA\tady\n" for number in range(3, 3 + NUM_EXAMPLES)]
    Path("train.tsv").write_text("".join([*extra_lines, *lines]), encoding="utf-8")
    TaskLaws(Candidate("task", "sequences", options)).monitor_is_measured()


def test_saved_points_are_those_of_the_test_sample(no_pictures, work_folder):
    """An answer is drawn among its own points."""
    overrides = ["recipe=pointer", "task=pointing", "task.problem=sorting", "task.examples=31", "task.num_held_out=40"]
    overrides += ["model.embedding_dim=5", "scorer.hidden_size=3", "trainer.max_steps=2", "trainer.test_examples=9"]
    fit_run(overrides, "one")
    points = read_points(Path("one/vocabulary"))
    rows = table("one/predictions.tsv")
    assert len(points) == len(rows) == 9
    for point, row in zip(points, rows, strict=True):
        assert row["references"] == " ".join(str(place + 1) for place in point[:, 0].argsort())


@pytest.mark.needs_data("babi")
def test_several_tasks_are_validated_on_each():
    """Each has its share of 500, which are not the first one's."""
    config = compose(["recipe=entnet", "task.tasks=[1,4,15]"])
    task = registry.build("task", config["task"])
    read = task.load()
    drawn = draw_examples(read, config["trainer"], task.monitor).pairs.valid
    counts = Counter(pair.tag for pair in drawn)
    exact = {tag: 500 * sum(pair.tag == tag for pair in read.pairs.valid) / len(read.pairs.valid) for tag in read.tags}
    assert len(counts) == 3
    assert all(abs(counts[tag] - exact[tag]) < 1 for tag in read.tags)
