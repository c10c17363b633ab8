"""Metrics and pictures go to all selected loggers, plug-ins too, and no logger can stop a run."""

import ast
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import attnx
from attnx import registry
from attnx.errors import Interrupted
from attnx.files.atomic_files import write_text
from attnx.loggers.contract import Loggers, RunStart
from attnx.loggers.tensorboard import TensorBoard
from attnx.runs.info import RunStatus
from attnx.runs.run import read_run
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import save_sweep
from attnx.training.callbacks.checkpoint import CheckpointManager
from attnx.training.callbacks.metric_rows import gradient_norms
from attnx.training.callbacks.progress import ProgressDisplay
from attnx.training.logger_session import _summary
from tests.run_folder import write_run_folder
from tests.runs.conftest import results, table

JOURNAL = Path(__file__).parents[2] / "docs" / "examples" / "plugins" / "journal.py"
Lines = list[dict[str, Any]]


@pytest.fixture
def journal(work_folder):
    """The example of a logger, in force; and what it wrote for a run."""
    (work_folder / "plugins").mkdir()
    shutil.copy(JOURNAL, "plugins")

    def read(folder: str) -> Lines:
        lines = Path(folder, "journal.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return read


def test_loggers_are_a_set_that_is_empty_by_default():
    assert attnx.compose([])["logger"] == {}
    assert not Loggers({})
    loggers = attnx.compose(["+logger=[wandb,tensorboard]", "logger.wandb.project=mine"])["logger"]
    assert list(loggers) == ["wandb", "tensorboard"]
    assert loggers["wandb"]["project"] == "mine"
    assert list(attnx.compose(["logger=wandb"])["logger"]) == ["wandb"]


def test_a_plug_in_logger_receives_every_event(run, journal):
    """The steps are five, with validations after the third and the last; a row is due every second."""
    Path("mine").mkdir()
    jobs = [SweepJob(0, ["scorer=dot", "seed=1"]), SweepJob(1, ["scorer=mlp"])]
    save_sweep(Sweep(Path("mine"), "attnx -m", [], jobs=jobs))
    run("+scorer=dot", "+query=[token,last_context]", "+logger=journal", "trainer.log_every_n_steps=2", folder="mine/0")
    first, *between, last = journal("mine/0")
    assert (first["group"], first["start"]) == ("mine", "scorer=dot seed=1")
    assert first["seed"] == 1
    assert {"scorer=dot", "scope=global", "query=token", "query=last_context", "task=g2p"} <= set(first["tags"])
    logged = [line for line in between if "shown" not in line]
    assert [line["step"] for line in logged] == [2, 3, 4, 5]
    two, three, four, five = logged
    rows = table("mine/0/metrics.csv")
    assert [int(row["step"]) for row in rows] == [2, 3, 4, 5]
    for line, row in zip(logged, rows, strict=True):
        assert line["train/loss"] == pytest.approx(float(row["train_loss"]), rel=1e-5)
    rows = [row for row in rows if row["valid_per"]]
    for line, row in zip((three, five), rows, strict=True):
        for name in ("loss", "per", "wer", "perplexity"):
            assert line[f"valid/{name}"] == pytest.approx(float(row[f"valid_{name}"]), rel=1e-5)
        assert line["train/learning_rate"] == pytest.approx(float(row["learning_rate"]), rel=1e-5)
        for speed in ("examples_per_second", "tokens_per_second"):
            assert line[f"train/{speed}"] == pytest.approx(float(row[speed]), abs=0.1)
    for line in (two, four):
        assert "valid/per" not in line
        norms = {name.partition("/")[2]: value for name, value in line.items() if name.startswith("gradient_norm/")}
        total = norms.pop("all")
        assert {"encoder", "attention", "decoder", "output"} <= set(norms)
        assert math.hypot(*norms.values()) == pytest.approx(total, rel=1e-5)
    shown = [(line["step"], set(line["shown"])) for line in between if "shown" in line]
    assert shown == [(3, {"valid/alignments"}), (5, {"valid/alignments"}), (5, {"test/predictions"} | shown[-1][1])]
    assert last["end"] == "finished"
    assert last["test/per"] == results("mine/0")["test_per"]
    best = min(rows, key=lambda row: (float(row["valid_per"]), float(row["valid_loss"])))
    assert last["best/step"] == float(best["step"])
    assert last["best/valid_per"] == float(best["valid_per"])


@pytest.mark.parametrize(("maximize", "worse"), [(False, 7.0), (True, 3.0)])
def test_the_best_validation_is_that_of_the_best_checkpoint(maximize, worse, tmp_path):
    """Of equal metrics that of the lowest loss, and of equal losses the earlier."""
    validations = {10: (5.0, 2.0), 20: (5.0, 1.0), 30: (5.0, 1.0), 40: (worse, 0.5)}
    manager = CheckpointManager(tmp_path, "valid_x", maximize)

    def save(path: Path) -> None:
        write_text(path, str(trainer.global_step))

    for step, (metric, loss) in validations.items():
        trainer = SimpleNamespace(
            global_step=step,
            callback_metrics={"valid_x": metric, "valid_loss": loss},
            save_checkpoint=save,
            is_global_zero=True,
            should_stop=False,
        )
        manager.on_validation_end(trainer)
    rows = [f"{step},{metric},{loss}" for step, (metric, loss) in validations.items()]
    folder = write_run_folder(tmp_path / "run", curve="\n".join(["step,valid_x,valid_loss", *rows]) + "\n")
    assert manager.best.read_text(encoding="utf-8") == "20"
    assert _summary(read_run(folder), "valid_x", maximize)["best/step"] == 20


def test_accumulated_gradients_log_one_row_per_step(run, journal):
    overrides = ["trainer.accumulate_grad_batches=2", "trainer.max_steps=3", "trainer.num_validations=1"]
    run("attention=none", "+logger=journal", *overrides, "trainer.log_every_n_steps=1", folder="one")
    assert [line["step"] for line in journal("one") if "train/loss" in line] == [1, 2, 3]


def test_a_resumed_run_restores_logger_state(run, journal, command, interrupt_at):
    interrupt_at(4)
    with pytest.raises(Interrupted):
        run("attention=none", "+logger=journal", "trainer.log_every_n_steps=1", folder="cut")
    assert journal("cut")[-1]["end"] == "interrupted"
    assert command("resume", "cut").code == 0
    lines = journal("cut")
    assert [line["times"] for line in lines if "times" in line] == [1, 2]
    assert [line["step"] for line in lines if "train/loss" in line] == [1, 2, 3, 4, 5]
    assert lines[-1]["end"] == "finished"


def test_a_mean_loss_spans_an_interruption(run, journal, command, interrupt_at):
    interrupt_at(3)
    options = ["attention=none", "+logger=journal", "trainer.log_every_n_steps=2", "trainer.num_validations=1"]
    with pytest.raises(Interrupted):
        run(*options, folder="cut")
    assert command("resume", "cut").code == 0
    logged = {line["step"]: line["train/loss"] for line in journal("cut") if "train/loss" in line}
    written = {int(row["step"]): float(row["train_loss"]) for row in table("cut/metrics.csv")}
    assert set(logged) >= {2, 4}
    assert logged == pytest.approx(written, rel=1e-5)


def test_a_failed_run_is_logged_as_failed(run, journal, monkeypatch):
    def fail(*args: Any) -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(ProgressDisplay, "on_train_batch_end", fail)
    with pytest.raises(RuntimeError, match="the disk is on fire"):
        run("attention=none", "+logger=journal", folder="one")
    assert journal("one")[-1] == {"end": "failed"}


def test_a_logger_whose_state_is_no_json_is_removed(run_start):
    begun, messages = run_start
    loggers = loggers_of(bad=SimpleNamespace(start=lambda run: {"path": run.folder}))
    assert loggers.start(begun) == {}
    assert len(messages) == 1
    assert "is not JSON serializable; the run goes on without this logger" in messages[0]


METHODS = ["start", "log", "show", "finish"]


@pytest.fixture
def run_start(tmp_path):
    """The start of a run, and the messages of loggers to its user."""
    messages: list[str] = []
    return RunStart(tmp_path, "one", None, [], {}, {}, messages.append), messages


def loggers_of(**loggers: Any) -> Loggers:
    result = Loggers({})
    result._loggers = loggers
    return result


@pytest.mark.parametrize("method", METHODS)
def test_a_logger_that_raises_is_removed(method, run_start, tmp_path):
    calls: list[str] = []

    def call(name: str) -> Mapping[str, Any]:
        calls.append(name)
        if name == method:
            raise OSError("no\nroom")
        return {}

    begun, messages = run_start
    loggers = loggers_of(bad=SimpleNamespace(**{name: lambda *_, name=name: call(name) for name in METHODS}))
    (tmp_path / "a.png").touch()
    loggers.start(begun)
    loggers.log(1, {"valid_per": 7.0})
    loggers.show(1, {"picture": tmp_path / "a.png"})
    assert loggers.finish("finished", {}) == {}
    assert messages == ["bad: no room; the run goes on without this logger"]
    # It is finished at last, whatever it did, so that it lets go of what it holds.
    assert calls == list(dict.fromkeys([*METHODS[: METHODS.index(method) + 1], "finish"]))


def test_a_removed_logger_says_how_to_upload_what_it_has(run_start):
    class Fails(SimpleNamespace):
        def log(self, step: int, values: Mapping[str, float]) -> None:
            raise OSError("no room")

    loggers = loggers_of(bad=Fails(start=lambda run: {}, finish=lambda status, summary: f"sync {summary}"))
    loggers.start(run_start[0])
    loggers.log(1, {"valid_per": 7.0})
    assert loggers.finish(RunStatus.FINISHED, {"test_per": 5.0}) == {"bad": "sync {'test/per': 5.0}"}


def test_a_logger_whose_start_is_interrupted_is_finished_in_silence(run_start):
    """It may have no run yet; the one that has started is finished as usual."""
    finished: list[tuple[str, Mapping[str, float]]] = []

    def raising(error: BaseException) -> Any:
        raise error

    def finish(name: str, summary: Mapping[str, float]) -> str:
        finished.append((name, summary))
        return raising(AttributeError("no run")) if name == "slow" else ""

    starts = {"quick": lambda run: {}, "slow": lambda run: raising(KeyboardInterrupt())}
    loggers = loggers_of(
        **{
            name: SimpleNamespace(start=start, finish=lambda status, summary, name=name: finish(name, summary))
            for name, start in starts.items()
        }
    )
    begun, messages = run_start
    with pytest.raises(KeyboardInterrupt):
        loggers.start(begun)
    loggers.finish("interrupted", {"steps": 5.0})
    assert sorted(finished) == [("quick", {"steps": 5.0}), ("slow", {})]
    assert messages == []


def test_only_the_first_process_logs(words, small, journal, monkeypatch):
    from attnx.training.distributed import process_group
    from attnx.training.distributed.launched_rank import RankInfo
    from attnx.training.train import prepare

    for rank in range(2):
        monkeypatch.setattr(process_group, "_rank_info", RankInfo(rank=rank, world_size=2))
        loggers = prepare(attnx.compose([*small, "attention=none", "+logger=journal"])).loggers
        assert bool(loggers) is (rank == 0)


def test_gradient_norms_are_computed_per_part():
    """3-4-5 in the encoder, whose embedding the output shares; 12 in the attention, 84 in the readout: 85 in all."""
    names = "source_encoder", "query", "readout", "output", "idle"
    model = nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in names})
    model["output"].weight = model["source_encoder"].weight
    model["source_encoder"].weight.grad = torch.tensor([[3.0, 4.0]])
    model["query"].weight.grad = torch.tensor([[0.0, 12.0]])
    model["readout"].weight.grad = torch.tensor([[84.0, 0.0]])
    result = {name: float(norm) for name, norm in gradient_norms(model).items()}
    expected = {"encoder": 5.0, "attention": 12.0, "output": 84.0, "all": 85.0}
    assert result == {f"gradient_norm/{part}": norm for part, norm in expected.items()}
    assert gradient_norms(nn.Linear(2, 1)) == {}


def test_unused_loggers_are_not_imported():
    """No file of attnx imports them at its top, but where they are used: W&B alone takes more than a second."""
    for file in Path(attnx.__file__).parent.rglob("*.py"):
        names = set()
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            match node:
                case ast.Import(names=aliases):
                    names |= {alias.name for alias in aliases}
                case ast.ImportFrom(module=str(module)):
                    names.add(module)
        result = {name for name in names if name.partition(".")[0] in ("wandb", "wandb_workspaces", "tensorboard")}
        assert not result, f"{file}: {result}"


def test_tensorboard_logs_the_same_values(run, monkeypatch):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run("+logger=tensorboard", "trainer.log_every_n_steps=2", folder="one")
    events = accumulator.EventAccumulator("one/tensorboard").Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [2, 3, 4, 5]
    valid = [(event.step, event.value) for event in events.Scalars("valid/per")]
    expected = [(int(row["step"]), float(row["valid_per"])) for row in table("one/metrics.csv") if row["valid_per"]]
    assert valid == [(step, pytest.approx(value, rel=1e-5)) for step, value in expected]
    assert [event.step for event in events.Images("valid/alignments")] == [3, 5]
    (predictions,) = events.Tensors("test/predictions/text_summary")
    source = Path("one/predictions.tsv").read_text(encoding="utf-8").splitlines()[1].split("\t")[0]
    assert source in predictions.tensor_proto.string_val[0].decode()
    (end,) = events.Tensors("end/text_summary")
    assert end.tensor_proto.string_val == [b"finished"]


def test_tensorboard_hides_what_a_killed_process_logged_too_much(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    start = RunStart(tmp_path, "one", None, [], {}, {}, print)
    killed, resumed = TensorBoard(), TensorBoard()
    state = killed.start(start)
    for step in (5, 10, 15):
        killed.log(step, {"train/loss": step})
    assert killed._writer is not None
    killed._writer.close()
    time.sleep(1.1)  # files are read in the order of their names, which have seconds
    resumed.start(start._replace(state=state))
    for step in (11, 16):
        resumed.log(step, {"train/loss": step})
    resumed.finish(RunStatus.FINISHED, {})
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 11, 16]
    time.sleep(1.1)
    tested = TensorBoard()  # resumed in the test: nothing was logged too much
    tested.start(start._replace(state=state))
    tested.show(16, {})
    tested.finish(RunStatus.FINISHED, {"test_per": 7.0})
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 11, 16]
    assert [event.step for event in events.Scalars("summary/test_per")] == [16]


def test_a_missing_package_is_reported_before_anything_is_written(run, work_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    registry.find("logger", "tensorboard")
    with pytest.raises(attnx.UserError, match=r"pip install -c constraints.txt -e '\.\[tensorboard\]'"):
        run("+logger=tensorboard", folder="one")
    assert not Path("one").exists()
