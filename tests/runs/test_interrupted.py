"""A stopped run resumes with the same weights, rows and predictions."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import attnx
from attnx.errors import Interrupted
from attnx.training.callbacks.checkpoint import CheckpointManager
from attnx.training.fit import resume
from attnx.training.lightning_module import TrainingModule
from attnx.training.stop_signal import StopSignal
from tests.runs.conftest import change_info, results, run_info, write_plug_in

# What is run, and the optimizer step at which Ctrl-C is pressed; five batches make an epoch.
CASES = {
    "within an epoch": (["trainer.max_steps=9"], 3),
    "between epochs": (["trainer.max_steps=null", "trainer.max_epochs=2"], 5),
    "where a validation is due": (["trainer.max_steps=12", "trainer.num_validations=3"], 8),
    "at the last step": (["trainer.max_steps=7"], 7),
    "with sampled positions": (["trainer.max_steps=7", "normalizer=reinforced"], 4),
    "in double precision": (["trainer.max_steps=9", "trainer.precision=64"], 4),
    "in double precision with an average": (["trainer.max_steps=9", "trainer.precision=64", "trainer.ema=0.3"], 5),
    "with an average": (["trainer.max_steps=9", "trainer.num_validations=3", "trainer.ema=0.3"], 5),
}
FORKS = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@FORKS
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_ends_with_equal_weights(case, whole_and_cut, succeed, same_weights, metric_rows):
    """Its losses are logged every third step, and the mean of some that were not logged is in the checkpoint."""
    options, step = CASES[case]
    options = [*options, "trainer.log_every_n_steps=3"]
    whole_and_cut(*options, step=step)
    assert run_info("cut")["status"] == "interrupted"
    assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] == step
    succeed("resume", "cut")
    assert same_weights(["whole", "cut"])
    rows = metric_rows("whole")
    assert metric_rows("cut") == rows
    assert [int(row["epoch"]) for row in rows] == [(int(row["step"]) - 1) // 5 for row in rows]
    assert Path("cut/predictions.tsv").read_bytes() == Path("whole/predictions.tsv").read_bytes()


def test_a_second_ctrl_c_stops_at_once_and_can_be_resumed(run, interrupt_at, command):
    handler_before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in a shell's background
    interrupt_at(3, times=2)
    with pytest.raises(Interrupted):
        run(folder="one")
    assert signal.getsignal(signal.SIGINT) is handler_before
    assert command("resume", "one").code == 0
    assert results("one")["steps"] == 5


def test_ctrl_c_ends_a_script_that_goes_on_after_errors(run, interrupt_at):
    interrupt_at(2)
    with pytest.raises(KeyboardInterrupt, match=r"^resume with: attnx resume one$"), suppress(Exception):
        run(folder="one")


EARLY = """
import attnx
from lightning import Callback


@attnx.register("callback", "early")
class Early(Callback):
    def {hook}(self, trainer, *_):
        trainer.should_stop = trainer.global_step >= 3
"""


@pytest.mark.parametrize(
    ("hook", "step"),
    [
        ("on_train_batch_end", "test_step"),
        ("on_train_epoch_end", "validation_step"),
        ("on_train_epoch_end", "test_step"),
    ],
)
def test_a_run_that_a_callback_ended_trains_no_more(hook, step, run, command, monkeypatch, same_weights, metric_rows):
    """It is stopped in its test, or in the validation that follows an end between two validations."""
    compute, stopped = getattr(TrainingModule, step), []

    def stop(self: TrainingModule, *args: Any) -> Any:
        if self.trainer.state.fn != "fit":
            stopped.append(self.trainer.global_step)
            os.kill(os.getpid(), signal.SIGINT)
        return compute(self, *args)

    write_plug_in("early", EARLY.format(hook=hook))
    run("+callback=early", "trainer.max_steps=8", "trainer.num_validations=1", folder="whole")
    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, step, stop)
        with pytest.raises(Interrupted):
            run("+callback=early", "trainer.max_steps=8", "trainer.num_validations=1", folder="cut")
    end = 3 if hook == "on_train_batch_end" else 5
    assert stopped == [end]
    assert command("resume", "cut").code == 0
    assert same_weights(["whole", "cut"])
    assert results("cut")["steps"] == end
    rows = metric_rows("whole")
    assert rows[-1]["step"] == str(end)
    assert rows[-1]["valid_per"]
    assert metric_rows("cut") == rows
    assert Path("cut/predictions.tsv").read_bytes() == Path("whole/predictions.tsv").read_bytes()


LIGHTNINGS = """
import attnx
from lightning import Callback
from lightning.pytorch.callbacks import ModelCheckpoint


@attnx.register("callback", "notes")
class Notes(Callback):
    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        pl_module.log("square", float(trainer.global_step**2))

    def on_train_batch_end(self, trainer, pl_module, *_):
        pl_module.log("step, doubled", 2.0 * trainer.global_step)
        pl_module.log("epoch", 99.0)


@attnx.register("callback", "saved")
class Saved(ModelCheckpoint):
    def __init__(self) -> None:
        super().__init__(dirpath="own/checkpoints", monitor="valid_loss", save_top_k=1)
"""


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists:UserWarning")
def test_what_callbacks_log_and_save_is_kept(whole_and_cut, succeed, metric_rows):
    """A row has what was logged until it was written, in a resumed run too; Lightning's checkpoint makes its folder."""
    write_plug_in("lightnings", LIGHTNINGS)
    options = ["trainer.max_steps=6", "trainer.num_validations=2", "trainer.log_every_n_steps=2"]
    whole_and_cut("+callback=[notes,saved]", *options, step=4)
    succeed("resume", "cut")
    rows = metric_rows("whole")
    logged = [(row["step"], row["square"], row["step, doubled"], bool(row["valid_loss"])) for row in rows]
    assert logged == [("2", "1", "2", False), ("3", "4", "4", True), ("4", "9", "6", False), ("6", "25", "10", True)]
    assert {row["epoch"] for row in rows} == {"0", "1"}
    assert metric_rows("cut") == rows
    assert [*Path("own/checkpoints").glob("*.ckpt")]


@pytest.mark.parametrize("stage", ["on_train_start", "on_validation_start", "on_test_start"])
def test_no_stage_leaves_handlers_of_lightning_installed(stage, tmp_path):
    """Its handler of SIGTERM waits for the other processes, which do not know of the signal."""
    with StopSignal() as stop_signal:
        manager = CheckpointManager(tmp_path, "valid_loss", stop_signal=stop_signal)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        trainer: Any = SimpleNamespace(should_stop=False)
        getattr(manager, stage)(trainer, None)
        assert signal.getsignal(signal.SIGTERM) == stop_signal._handle


@pytest.mark.parametrize(
    ("signals", "count"),
    [("INT", 1), ("INT INT", 2), ("TERM TERM", 1), ("TERM INT", 2), ("INT TERM", 1)],
)
def test_the_signals_of_a_cluster_are_one_stop(signals, count):
    with StopSignal(lambda signum: None) as stop_signal:
        for name in signals.split():
            signal.raise_signal(signal.Signals[f"SIG{name}"])
    assert stop_signal.stop_count == count


def test_a_stop_behind_the_last_step_is_not_lost(tmp_path):
    with StopSignal() as stop_signal:
        manager: Any = CheckpointManager(tmp_path, "valid_loss", stop_signal=stop_signal)
        manager.on_train_start(SimpleNamespace(should_stop=False))
        signal.raise_signal(signal.SIGTERM)
        for stop in (manager.on_train_end, lambda: signal.raise_signal(signal.SIGTERM)):
            with pytest.raises(KeyboardInterrupt):
                stop()


def test_the_command_prints_how_to_resume(command, interrupt_at, words, small, no_pictures):
    interrupt_at(2)
    answer = command(*small, "folder=one")
    assert answer.code == 130
    assert answer.err == "attnx: interrupted; resume with: attnx resume one\n"
    answer = command("resume", "one")  # still pressed at step 2, which is over
    assert (answer.code, answer.err) == (0, "")
    written = {path: path.stat().st_mtime_ns for path in Path("one").rglob("*")}
    answer = command("resume", "one")  # as a loop does that starts again whatever was stopped
    assert answer == (0, "one: finished; there is nothing left to do\n", "")
    assert {path: path.stat().st_mtime_ns for path in Path("one").rglob("*")} == written


def test_a_moved_folder_can_be_resumed(whole_and_cut, succeed, same_weights):
    whole_and_cut("trainer.num_validations=5", step=3)
    Path("cut").rename("moved")
    succeed("resume", "moved")
    assert same_weights(["whole", "moved"])
    assert not Path("cut").exists()


@pytest.fixture
def interrupted_run(run, interrupt_at):
    """Make the run ``one`` that Ctrl-C ends after a step: it validates after the third of five."""

    def make(step: int) -> Path:
        interrupt_at(step)
        with pytest.raises(Interrupted):
            run(folder="one")
        return Path("one")

    return make


def test_an_interrupted_run_can_be_used(interrupted_run):
    """What came after its validation is in the last checkpoint only."""
    folder = interrupted_run(4) / "checkpoints"
    best, last = (torch.load(folder / f"{name}.ckpt", weights_only=True) for name in ("best", "last"))
    assert (best["global_step"], last["global_step"]) == (3, 4)
    assert "validated_state_dict" not in last  # those of the validation are over
    assert attnx.open_run("one").predict(["dab"])


def test_a_checkpoint_that_does_not_fit_is_reported_and_unchanged(interrupted_run, refuse):
    config = interrupted_run(2) / "config.yaml"
    # The decoder is 11 wide; an LSTM has four gates, so its weights have 44 rows.
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("hidden_size: 11", "hidden_size: 13"), encoding="utf-8")
    assert "last.ckpt: does not fit" in refuse("resume", "one")
    with pytest.raises(attnx.UserError, match="does not fit"):
        attnx.open_run("one", checkpoint="last")


def test_a_missing_last_checkpoint_is_reported(interrupted_run, refuse):
    last = interrupted_run(4) / "checkpoints" / "last.ckpt"  # it validated, and so saved its best, after the third step
    content = last.read_bytes()
    last.unlink()
    line = refuse("resume", "one")
    assert "last.ckpt: no such checkpoint, and no other one can be resumed; start a new run" in line
    last.write_bytes(content[: len(content) // 2])
    assert "last.ckpt: is not a complete checkpoint" in refuse("resume", "one")
    last.write_bytes(content)
    state = torch.load(last, weights_only=True)
    for missing in ("optimizer_states", "loops", "pytorch-lightning_version"):
        torch.save({key: value for key, value in state.items() if key != missing}, last)
        assert f"last.ckpt: is not a complete checkpoint (it has no {missing})" in refuse("resume", "one")


def test_a_resumed_run_restores_missing_files(interrupted_run, command, refuse):
    """A truncated vocabulary is rewritten; a truncated configuration is reported before torch is loaded."""
    folder = interrupted_run(3)
    vocabulary, config = folder / "vocabulary" / "source.json", folder / "config.yaml"
    original, text = vocabulary.read_text(encoding="utf-8"), config.read_text(encoding="utf-8")
    vocabulary.write_text(original[:5], encoding="utf-8")
    config.rename("kept.yaml")
    message = "attnx: one: is half-written (it has no config.yaml); start a new run\n"
    assert refuse("resume", "one") == message
    config.write_text(text.partition("trainer:")[0], encoding="utf-8")
    assert "one/config.yaml: " in refuse("resume", "one")
    Path("kept.yaml").replace(config)
    assert command("resume", "one").code == 0
    assert vocabulary.read_text(encoding="utf-8") == original


def test_a_run_without_a_checkpoint_starts_from_the_beginning(whole_and_cut, command, same_weights, metric_rows):
    whole_and_cut("trainer.log_every_n_steps=1", step=2, times=2)
    assert not [*Path("cut/checkpoints").iterdir()]
    answer = command("resume", "cut")
    assert answer.code == 0
    assert "no checkpoint yet" in answer.out
    assert same_weights(["whole", "cut"])
    assert metric_rows("cut") == metric_rows("whole")


@pytest.mark.usefixtures("words", "no_pictures", "shared_server")
@pytest.mark.parametrize("sweep", [False, True], ids=["run", "sweep"])
def test_a_run_outlives_the_reader_of_its_output(small, fork_command, sweep):
    """As in ``attnx | head -1``."""
    reader, writer = os.pipe()

    def write_to_the_pipe() -> None:
        os.close(reader)
        sys.stdout = os.fdopen(writer, "w", buffering=1)

    options = ["-m", "seed=1,2", "name=some"] if sweep else ["folder=one"]
    process = fork_command(*small, *options, prepare=write_to_the_pipe)
    os.close(writer)
    with os.fdopen(reader) as output:
        assert output.readline()
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    for folder in ("multirun/some/0", "multirun/some/1") if sweep else ("one",):
        assert run_info(folder)["status"] == "finished"


def test_ctrl_c_ends_a_process_with_130(words, sized):
    """Also after the reader of its output has gone."""
    overrides = sized("trainer.max_steps=1000000", "trainer.num_validations=100000", "folder=one")
    with subprocess.Popen(
        [sys.executable, "-m", "attnx", *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("step "):
                break
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        err = process.stderr.read()
    assert process.returncode == 130
    assert err == "attnx: interrupted; resume with: attnx resume one\n"
    assert Path("one/checkpoints/last.ckpt").is_file()


@pytest.mark.parametrize(("split", "phrase"), [("valid", "validation"), ("test", "test")])
def test_a_run_resumes_with_its_own_held_out_data_alone(split, phrase, run):
    held_out = Path(f"{split}.tsv")
    held_out.write_text("ab\tAA B\nba\tB AA\n", encoding="utf-8")
    run(f"task.{split}={held_out}", folder="one")
    change_info("one", status="interrupted")
    held_out.write_text("ab\tAA B\nba\tB AA B\n", encoding="utf-8")
    with pytest.raises(attnx.UserError, match=f"one: the {phrase} data have changed"):
        resume("one")
