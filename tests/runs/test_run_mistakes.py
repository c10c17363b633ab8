"""Mistakes in commands on a trained run: one line, exit code 2, nothing written, no foreign code run."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import attnx
from tests.runs.conftest import change_info, file_contents

# Command lines and phrases of their messages, all before torch is loaded.
MESSAGES = {
    "predict": ["attnx predict RUN [FILE]"],
    "predict nowhere": ["nowhere: not a folder"],
    "predict .": [".: not a run folder (it has no run.json)"],
    "predict words.tsv": ["words.tsv: not a folder"],
    "predict one none.txt": ["none.txt: no such file"],
    "predict one none.txt words.tsv": ["none.txt and words.tsv are both no folders"],
    "predict one words.tsv two": ["words.tsv: is not a run folder; write the file to read after the runs"],
    "predict one words.tsv --nbst 3": ["unknown flag --nbst; did you mean --nbest"],
    "predict one words.tsv --nbest": ["--nbest needs a value"],
    "predict one words.tsv --nbest 0": ["--nbest 0: expected a whole number, 1 or more"],
    "predict one words.tsv --nbest two": ["--nbest two: expected a whole number"],
    "predict one words.tsv --scores=yes": ["--scores takes no value"],
    "predict one words.tsv --column 0": ["--column 0: expected a whole number, 1 or more"],
    "predict one words.tsv --batch -3": ["--batch -3: expected a whole number"],
    "predict one words.tsv --unknown copy": ["--unknown copy: expected one of replace, refuse, keep"],
    "predict one words.tsv --on-error go": ["--on-error go: expected one of stop, skip, keep"],
    "predict one words.tsv --checkpoint first": ["--checkpoint first: expected one of best, last, average"],
    "predict one words.tsv --checkpoint average": ["one/checkpoints: has 1 of the best checkpoints"],
    "predict one words.tsv decodng=beam": ["unknown key 'decodng'; did you mean decoding"],
    "predict one words.tsv scorer=dot": ["unknown key 'scorer'", "decoding"],
    "predict one words.tsv decoding=beem": ["unknown decoding 'beem'; did you mean beam?"],
    "predict one words.tsv decoding=[beam]": ["decoding=[beam]: expected the name of a decoding"],
    "predict one words.tsv decoding=beam,greedy": ["decoding=beam,greedy means several values"],
    "predict one words.tsv decoding=beam decoding=greedy": ["decoding is set twice"],
    "predict one words.tsv decoding=beam decoding.beam_size=0": [
        "decoding.beam_size=0: expected a whole number, 1 or more"
    ],
    "predict one words.tsv decoding=beam decoding.beam_sise=3": [
        "the decoding 'beam' has no option 'beam_sise'; did you mean beam_size?"
    ],
    "predict one words.tsv decoding.beam_size=3": ["the decoding 'greedy' has no option 'beam_size'"],
    "predict one words.tsv decoding=beam decoding.beam_size=2 --nbest 3": [
        "decoding.beam_size=2 holds fewer than the 3 best"
    ],
    "predict one words.tsv decoding=beam decoding.nbest=2 --nbest 3": [
        "decoding.nbest=2 and nbest=3 contradict each other"
    ],
    "predict one words.tsv decoding=greedy --nbest 2": ["decoding=greedy finds one output for each source"],
    "predict one words.tsv decoding=beam decoding.length_penalty=short": [
        "decoding.length_penalty=short: expected one of none, gnmt, average"
    ],
    "predict one words.tsv decoding.max_length_ratio=[": ["decoding.max_length_ratio=["],
    "predict one words.tsv --alignments links": ["--alignments links: unknown format"],
    "predict one words.tsv --out a.txt --alignments a.txt": ["--out and --alignments both name a.txt"],
    "predict one words.tsv --out a.txt --alignments one/../a.txt": ["--out and --alignments both name a.txt"],
    "predict one words.tsv --out a.txt.gz": ["--out a.txt.gz: is written as plain text"],
    "predict one words.tsv --out words.tsv": ["words.tsv: is there already"],
    "predict one words.tsv --out no/a.txt": ["there is no folder no"],
    "predict one words.tsv --tag fr --tag-column 2": ["--tag and --tag-column cannot go together"],
    "predict one other words.tsv": ["other: its vocabulary/source.json differs from one's"],
    "evaluate": ["attnx evaluate RUN"],
    "evaluate one words.tsv": ["words.tsv: is not a run folder; name data by task.test=words.tsv"],
    "evaluate one other": ["other: its vocabulary/source.json differs from one's"],
    "evaluate one elsewhere": ["elsewhere: its training data differ from one's"],
    "evaluate one two --checkpoint average": ["an average needs two or more"],
    "evaluate nowhere": ["nowhere: not a folder"],
    "evaluate one task.train=words.tsv": ["unknown key 'task.train'", "task.test"],
    "evaluate one task.test=[a,b]": ['task.test=["a", "b"]: expected a word or null'],
    "evaluate one task.test=null": ["task.test=null: leave it out"],
    "evaluate one trainer.test_examples=0": ["trainer.test_examples=0: expected a whole number, 1 or more, or null"],
    "evaluate one decoding.beam_size=3": ["the decoding 'greedy' has no option 'beam_size'"],
    "evaluate one --btch 3": ["unknown flag --btch; did you mean --batch?"],
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory, trained_runs, run_lines):
    folder = tmp_path_factory.mktemp("asked")
    shutil.copytree(trained_runs, folder, dirs_exist_ok=True)
    shutil.copytree(folder / "two", folder / "other")
    symbols = json.loads((folder / "other/vocabulary/source.json").read_text(encoding="utf-8"))
    (folder / "other/vocabulary/source.json").write_text(json.dumps([*symbols, "z"]), encoding="utf-8")
    shutil.copytree(folder / "two", folder / "elsewhere")
    change_info(folder / "elsewhere", fingerprint="0" * 16)
    return run_lines(MESSAGES, folder)


@pytest.mark.parametrize("line", MESSAGES)
def test_a_mistake_is_one_line_before_torch(line, answers, assert_one_line):
    assert_one_line(answers[line], MESSAGES[line])


def set_in(file: str, **values: Any) -> None:
    """Change what a JSON or YAML file of the run says; None takes it away."""
    path = Path("one", file)
    config = {**yaml.safe_load(path.read_text(encoding="utf-8")), **values}
    set_values = {key: value for key, value in config.items() if value is not None}
    path.write_text(json.dumps(set_values) if path.suffix == ".json" else yaml.safe_dump(set_values), encoding="utf-8")


def delete_checkpoint() -> None:
    Path("one/checkpoints/best.ckpt").unlink()
    change_info("one", deleted=None)


class Hostile:
    """When unpickled, it leaves a file behind."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("hacked",)


def hostile_plain() -> None:
    Path("one/checkpoints/best.ckpt").write_bytes(pickle.dumps({"state_dict": Hostile()}))


def hostile_torch() -> None:
    """A whole checkpoint of torch's own form, with one thing more in it."""
    file = Path("one/checkpoints/best.ckpt")
    torch.save({**torch.load(file, weights_only=True), "more": Hostile()}, file)


def cut_short() -> None:
    file = Path("one/checkpoints/best.ckpt")
    file.write_bytes(file.read_bytes()[:1009])


def other_shape() -> None:
    set_in("config.yaml", decoder={"name": "recurrent", "hidden_size": 13})


NOT_WHOLE = "is not a complete checkpoint"
RUNS: dict[str, tuple[Callable[[], Any], str]] = {
    "no run.json": (lambda: Path("one/run.json").unlink(), "one: not a run folder (it has no run.json)"),
    "a broken run.json": (lambda: Path("one/run.json").write_text("{"), "one/run.json:1: not valid JSON"),
    "a binary run.json": (lambda: Path("one/run.json").write_bytes(b"{\n\xff"), "one/run.json:2: not UTF-8"),
    "a newer format": (lambda: set_in("run.json", format=2), "format 2 is newer than the 1 known here"),
    "no configuration": (lambda: Path("one/config.yaml").unlink(), "one: is half-written (it has no config.yaml)"),
    "an empty configuration": (lambda: Path("one/config.yaml").write_text(""), "one/config.yaml: has no task"),
    **{
        f"no {key}": (lambda key=key: set_in("config.yaml", **{key: None}), f"one/config.yaml: has no {key}")
        for key in ("seed", "scorer")
    },
    "a strange configuration": (lambda: set_in("config.yaml", decoding=5), "decoding: expected a name and options, fo"),
    "a part that is gone": (
        lambda: set_in("config.yaml", scorer={"name": "addditive"}),
        "one/config.yaml: unknown scorer 'addditive'; did you mean additive?",
    ),
    "a number for options": (
        lambda: set_in("config.yaml", query={"token": 5}),
        "one/config.yaml: query.token=5: expected the options of a query",
    ),
    "no vocabulary": (lambda: shutil.rmtree("one/vocabulary"), "one/vocabulary/source.json: no such file"),
    "no target vocabulary": (lambda: Path("one/vocabulary/target.json").unlink(), "target vocabulary is missing"),
    "a broken vocabulary": (lambda: Path("one/vocabulary/target.json").write_text("[3]"), "is not a list of symbols"),
    "another vocabulary": (
        lambda: Path("one/vocabulary/target.json").write_text('["<pad>", "<bos>", "<eos>", "<unk>", "A"]'),
        "does not fit the run's configuration",
    ),
    "no checkpoint": (lambda: Path("one/checkpoints/best.ckpt").unlink(), "no such checkpoint; choose from last"),
    "no checkpoints": (lambda: shutil.rmtree("one/checkpoints"), "the run stopped before its first one"),
    "an empty checkpoint": (lambda: Path("one/checkpoints/best.ckpt").write_bytes(b""), NOT_WHOLE),
    "a checkpoint cut short": (cut_short, NOT_WHOLE),
    "numbers in place of weights": (
        lambda: torch.save({"state_dict": {5: torch.zeros(1), "model.a": 7.0}}, "one/checkpoints/best.ckpt"),
        NOT_WHOLE,
    ),
    "a deleted checkpoint": (delete_checkpoint, "no such checkpoint; choose from last"),
    "weights of another shape": (other_shape, "does not fit the run's configuration"),
    "a hostile pickle": (hostile_plain, "holds more than plain tensors and numbers"),
    "a hostile checkpoint": (hostile_torch, "holds more than plain tensors and numbers"),
}


@pytest.mark.parametrize(("change", "message"), RUNS.values(), ids=RUNS)
def test_an_incomplete_run_is_refused(change, message, runs, refuse):
    """By every command that opens it, and from Python; what is hostile in it does not run."""
    Path("words.txt").write_text("dab\n", encoding="utf-8")
    change()
    files_before = file_contents()
    for words in (["predict", "one", "words.txt", "--out", "out.txt"], ["evaluate", "one"]):
        assert message in refuse(*words)
    with pytest.raises(attnx.UserError):
        attnx.open_run("one")
    assert file_contents() == files_before


def test_the_hostile_checkpoint_runs_if_unpickled(work_folder):
    """The refused checkpoint is hostile: unpickling it creates a folder."""
    Path("one/checkpoints").mkdir(parents=True)
    hostile_plain()
    pickle.loads(Path("one/checkpoints/best.ckpt").read_bytes())
    assert Path("hacked").is_dir()


def test_an_evaluation_is_not_a_run(runs, refuse):
    Path("one/evaluations/test").mkdir(parents=True)
    Path("one/evaluations/test/evaluation.json").write_text("{}", encoding="utf-8")
    assert "is an evaluation; name its run" in refuse("predict", "one/evaluations/test")
