"""A run folder suffices to understand, reopen and repeat the run."""

import io
import json
import subprocess
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from rapidfuzz.distance import Levenshtein
from rich.console import Console
from scipy.stats import binomtest

import attnx
from attnx.cli import main
from attnx.data.splits import hash_fraction
from attnx.metrics.error_rates import PhoneErrorRate
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.runs.run import read_run
from attnx.training import run_folder as writer
from tests.runs.conftest import file_contents, results, run_info, table

PNG = b"\x89PNG\r\n\x1a\n"
SECRET = "sentinel-of-a-secret"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, write_words, small):
    """The folder of one run by the command, pictures and all."""
    home = tmp_path_factory.mktemp("home")
    write_words(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("WANDB_API_KEY", SECRET)
        (home / "mine").mkdir()
        words = ["+scorer=additive", "+scope=local", *small, "trainer.test_examples=5", "folder=one"]
        assert main.run([*words, "--config-dir", "mine"]) == 0
    return home / "one"


def test_a_folder_holds_these_files(run_folder):
    names = {"run.json", "config.yaml", "metrics.csv", "results.json", "predictions.tsv", "resampled.npz"}
    names |= {"alignments", "alignment_statistics.json", "alignments.png", "curves.png", "page.html", "README.md"}
    assert {path.name for path in run_folder.iterdir()} == names | {"checkpoints", "vocabulary"}
    for picture in run_folder.rglob("*.png"):
        assert picture.read_bytes().startswith(PNG)
    readme = (run_folder / "README.md").read_text(encoding="utf-8")
    for phrase in ("attnx --config-dir mine +scorer=", "status finished", 'attnx.open_run("one")', "`run.json`"):
        assert phrase in readme


def test_info_and_configuration_name_parts(run_folder):
    info = run_info(run_folder)
    assert (info["format"], info["status"], info["steps"]) == (1, "finished", 5)
    assert info["command"].startswith("attnx --config-dir mine +scorer=additive +scope=local")
    assert info["versions"]["attnx"] == attnx.__version__
    assert " cores of " in info["machine"]
    text = (run_folder / "config.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    assert (config["scorer"]["name"], config["scope"]["name"], config["task"]["name"]) == ("additive", "local", "g2p")
    # Names, and neither where the code is nor where the run was.
    assert "attnx." not in text
    assert str(run_folder.parent) not in text
    assert "folder" not in config
    assert attnx.compose(_as_overrides(config)) == {**config, "folder": None}


def _as_overrides(config: dict[str, Any]) -> list[str]:
    """The command line that says all that a configuration says."""
    words = [f"+{kind}=[{','.join(config[kind])}]" for kind in MULTI_SELECT_KINDS if config[kind]]
    for kind, node in config.items():
        if isinstance(node, dict) and kind not in MULTI_SELECT_KINDS:
            words.append(f"{kind}={node['name']}")
            words += [f"{kind}.{option}={json.dumps(value)}" for option, value in node.items() if option != "name"]
    return [*words, f"seed={config['seed']}"]


def test_the_readme_says_what_ended_the_run(run_folder):
    """Its configuration has a ``max_time``, too, which has no effect beside ``max_steps``."""
    assert "| steps | 5 |  | ended by trainer.max_steps=5 |" in (run_folder / "README.md").read_text(encoding="utf-8")


def test_a_warm_up_without_an_end_is_a_note(run_folder):
    (note,) = (note for note in read_run(run_folder).info["notes"] if "learning rate" in note)
    assert note == "the learning rate rises until the end: lr_schedule.warmup_steps=100 is more than the 5 steps"


def test_a_prediction_has_its_text_and_prints_short(run_folder):
    word = table(run_folder / "predictions.tsv")[0]["source"].replace(" ", "")
    (prediction,) = attnx.open_run(run_folder).predict([word], need_weights=True, nbest=2, decoding="beam")
    assert prediction.text == " ".join(prediction.output)
    assert [item.text for item in prediction.alternatives] == [
        " ".join(item.output) for item in prediction.alternatives
    ]
    rows, columns = prediction.weights.shape
    assert repr(prediction.alignment) == (
        f"Alignment({' '.join(word)!r} -> {' '.join(prediction.alignment.output)!r}, weights ({rows}, {columns}))"
    )
    assert repr(prediction).startswith(f"Prediction({prediction.text!r}, log_probability=-")
    assert "\n" not in repr(prediction)


def test_predictions_are_the_test_words_in_order_with_their_edits(run_folder):
    lines = (run_folder.parent / "words.tsv").read_text(encoding="utf-8").splitlines()
    entries = dict(line.split("\t") for line in lines)
    rows = table(run_folder / "predictions.tsv")
    result = ["".join(row["source"].split()) for row in rows]
    # Twice 15 % of the words, by their hashes; this run tests five of them.
    tested = [word for word in entries if hash_fraction(word) < 0.3 and word in result]
    assert result == tested
    assert len(result) == 5
    for row, word in zip(rows, tested, strict=True):
        assert row["references"] == entries[word]
        assert int(row["edits"]) == Levenshtein.distance(row["prediction"].split(), entries[word].split())
        assert float(row["log_probability"]) < 0


def test_metrics_have_a_row_per_validation(run_folder):
    rows = table(run_folder / "metrics.csv")
    # Five steps in two validations: after the third, and at the end.
    assert [int(row["step"]) for row in rows] == [3, 5]
    assert all(float(row["valid_loss"]) > 0 and float(row["train_loss"]) > 0 for row in rows[:1])
    scores, predicted = results(run_folder), table(run_folder / "predictions.tsv")
    edits = sum(int(row["edits"]) for row in predicted)
    symbols = sum(len(row["references"].split()) for row in predicted)
    wrong = sum(int(row["edits"]) > 0 for row in predicted)
    assert scores["test_per"] == pytest.approx(100 * edits / symbols)
    assert scores["test_wer"] == pytest.approx(100 * wrong / len(predicted))
    assert scores["steps"] == 5
    exact = binomtest(wrong, len(predicted)).proportion_ci(method="exact")
    assert scores["intervals"]["test_wer"] == pytest.approx([100 * exact.low, 100 * exact.high])
    with np.load(run_folder / "resampled.npz") as drawn:
        assert scores["intervals"]["test_per"] == pytest.approx(np.percentile(drawn["test_per"], [2.5, 97.5]))


def test_losses_are_logged_between_validations(run):
    """Every third step, and at validations; each is the mean of the losses since the row before."""
    steps = ["trainer.max_steps=10", "trainer.num_validations=2"]
    run(*steps, "trainer.log_every_n_steps=1", folder="all")
    run(*steps, "trainer.log_every_n_steps=3", folder="third")
    losses = [float(row["train_loss"]) for row in table("all/metrics.csv")]
    rows = table("third/metrics.csv")
    assert [int(row["step"]) for row in rows] == [3, 5, 6, 9, 10]
    for begin, row in zip((0, 3, 5, 6, 9), rows, strict=True):
        assert float(row["train_loss"]) == pytest.approx(np.mean(losses[begin : int(row["step"])]), rel=1e-5)
    assert [int(row["step"]) for row in rows if row["valid_loss"]] == [5, 10]
    assert len(losses) == 10
    assert read_run("third").progress.curve == [float(row["valid_per"]) for row in rows if row["valid_per"]]


def test_alignments_are_distributions_over_the_source(run_folder):
    arrays = sorted((run_folder / "alignments").glob("*.npz"))
    sources = {"".join(np.load(path)["source"]) for path in arrays}
    assert sources == {"".join(row["source"].split()) for row in table(run_folder / "predictions.tsv")}
    for path in arrays:
        stored = np.load(path)
        assert stored["weights"].shape == (len(stored["output"]), len(stored["source"]))
        assert stored["weights"].sum(-1) == pytest.approx(1, abs=1e-5)
        assert path.with_suffix(".png").is_file()


def test_checkpoints_hold_the_model_and_no_code(run_folder):
    assert {path.name for path in (run_folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    last = torch.load(run_folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] == 5
    num_weights = sum(value.numel() for name, value in last["state_dict"].items() if name.startswith("model."))
    assert num_weights == results(run_folder)["parameters"]


def test_no_secret_is_written(run_folder):
    assert not [name for name, content in file_contents(run_folder).items() if SECRET.encode() in content]


def test_a_reopened_run_predicts_the_same(run_folder):
    run = attnx.open_run(run_folder)
    assert not run.model.training
    rows = table(run_folder / "predictions.tsv")
    # All at once and one by one: what else is in the batch changes nothing.
    sources = ["".join(row["source"].split()) for row in rows]
    for predictions in (run.predict(sources), [run.predict([source])[0] for source in sources]):
        assert [" ".join(prediction.output) for prediction in predictions] == [row["prediction"] for row in rows]
        log_probabilities = [prediction.log_probability for prediction in predictions]
        assert log_probabilities == pytest.approx([float(row["log_probability"]) for row in rows], abs=1e-4)
    drawn = np.load(next((run_folder / "alignments").glob("*.npz")))
    (again,) = run.predict(["".join(drawn["source"])], need_weights=True)
    assert again.weights == pytest.approx(drawn["weights"], abs=1e-5)


def test_a_run_without_attention_has_no_alignments(succeed, words, small):
    succeed("attention=none", *small, "folder=none")
    assert not Path("none/alignments").exists()
    assert not Path("none/alignments.png").exists()
    assert Path("none/curves.png").is_file()
    config = yaml.safe_load(Path("none/config.yaml").read_text(encoding="utf-8"))
    assert not {"scorer", "scope", "query", "normalizer"} & config.keys()
    (prediction,) = attnx.open_run("none").predict(["dab"], need_weights=True)
    assert prediction.weights is None


def test_a_run_without_a_folder_is_written_to_multirun(command, words, sized, no_pictures):
    for name, code in (([], 0), ([], 0), (['name="a|b"'], 0), (["name=a|b"], 2)):
        assert command(*sized("trainer.max_steps=1", *name)).code == code
    folders = list(Path("multirun/runs").iterdir())
    assert len(folders) == 3
    assert attnx.open_run("multirun/runs/a|b").config["name"] == "a|b"
    assert all((folder / "results.json").is_file() for folder in folders)


def test_python_fits_and_reopens_repeatedly(run):
    for folder in ("first", "second"):
        trained = run("+scorer=dot", folder=folder)
        assert trained.folder == Path(folder)
        assert trained.config["scorer"]["name"] == "dot"
        assert trained.source.decode(trained.source.encode("dab")) == ["d", "a", "b"]
    last = attnx.open_run("first", checkpoint="last")
    assert len(last.predict(["dab", "e"])) == 2
    assert last.predict([]) == []


def test_a_list_that_two_options_share_is_read_again(no_pictures, work_folder):
    """YAML would write an alias, which no reader of a run folder follows."""
    words = ["task=pointing", "task.examples=31", "task.num_held_out=7", "trainer.max_steps=1", "folder=one"]
    config = attnx.compose(["recipe=pointer", *words, "encoder.hidden_size=7", "decoder.hidden_size=11"])
    config["task"]["sizes"] = config["task"]["test"] = [5, 3]
    attnx.fit(config, console=Console(file=io.StringIO()))
    assert read_run(Path("one")).config["task"] == config["task"]


def test_a_folder_may_be_moved(runs, work_folder):
    original = attnx.open_run("one").predict(["dab", "skeb"])
    (work_folder / "elsewhere").mkdir()
    Path("one").rename("elsewhere/two")
    moved = attnx.open_run("elsewhere/two").predict(["dab", "skeb"])
    assert [prediction.output for prediction in moved] == [prediction.output for prediction in original]


def test_a_home_folder_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/one")
    assert attnx.compose(['folder="~/two"'])["folder"] == "/home/one/two"


def test_no_run_is_written_inside_another(runs, run):
    files_before = file_contents("one")
    with pytest.raises(attnx.UserError, match=r"folder=one/two: is inside the folder of another run, .*one; "):
        run(folder="one/two")
    assert file_contents("one") == files_before


def test_the_same_command_gives_the_same_weights(run, same_weights):
    options = ["model.dropout=0.2", "encoder.layers=2", "encoder.dropout=0.2", "attention.dropout=0.1"]
    run(*options, folder="one")
    run(*options, folder="two")
    run(*options, "seed=2", folder="other")
    assert same_weights(["one", "two"])
    assert Path("one/predictions.tsv").read_bytes() == Path("two/predictions.tsv").read_bytes()
    assert not same_weights(["one", "other"])


def test_epochs_become_steps(run):
    """And the words of its command are quoted."""
    # Sixty words, of which those whose own number lies in the middle 55 % are trained on, eight a batch.
    options = ["trainer.max_steps=null", "trainer.max_epochs=3", "trainer.accumulate_grad_batches=2"]
    trained = run(*options, "query=[token, last_context]", folder="one")
    info = run_info("one")
    batches = -(-int(info["data"].split()[0]) // 8)
    assert info["steps"] == 3 * -(-batches // 2)
    assert "'query=[token, last_context]'" in info["command"]
    assert trained.folder == Path("one")


def test_a_changed_table_of_a_study_is_no_changed_code(tmp_path, monkeypatch):
    files = [tmp_path / "attnx" / "training" / "run_folder.py", tmp_path / "studies" / "results.csv"]

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)

    git("init", "-q")
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    monkeypatch.setattr(writer, "__file__", str(files[0]))
    states = []
    for file in reversed(files):
        states.append(writer.git_state()["changed"])
        file.write_text("2\n")
    assert [*states, writer.git_state()["changed"]] == [False, False, True]


def test_the_last_weights_are_saved(run, monkeypatch):
    losses = chain([9.0, 4.0, 7.0, 5.0], repeat(3.0))  # four validations, and a test with its draws
    monkeypatch.setattr(PhoneErrorRate, "compute", lambda self: torch.tensor(next(losses)))
    run("trainer.max_steps=8", "trainer.num_validations=4", folder="one")
    best, last = (torch.load(f"one/checkpoints/{name}.ckpt", weights_only=True) for name in ("best", "last"))
    assert (best["global_step"], last["global_step"]) == (4, 8)
