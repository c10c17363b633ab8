"""Trains, tests and writes a run folder, from a checked configuration."""

from __future__ import annotations

import pickle
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console

from attnx import registry
from attnx.errors import Interrupted, UserError
from attnx.files.parse_number import count_phrase
from attnx.inference.build_model import build_model
from attnx.laws.first_use import check_plug_ins, report_plug_in_errors
from attnx.loggers.collection import Loggers
from attnx.runs.layout import CHECKPOINTS, LAST, METRICS, PROFILE
from attnx.tasks.protocols import SequenceData
from attnx.training import run_folder
from attnx.training.build_kernels import build_kernels
from attnx.training.callbacks.checkpoint import CheckpointManager, SaveInterval
from attnx.training.callbacks.early_stopping import ResumableEarlyStopping
from attnx.training.callbacks.follow_plan import FollowPlan
from attnx.training.callbacks.logs import Logs
from attnx.training.callbacks.metrics_csv import MetricsFile
from attnx.training.callbacks.nan_guard import NanGuard
from attnx.training.callbacks.per_batch_seed import PerBatchSeed
from attnx.training.callbacks.profile import Profile
from attnx.training.callbacks.progress import ShowProgress
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.callbacks.stop_signal import StopSignal
from attnx.training.callbacks.throughput import Throughput
from attnx.training.callbacks.time_budget import TimeBudget
from attnx.training.compiling import compile_steps
from attnx.training.distributed import model_parallel, process_group
from attnx.training.distributed.devices import training_device
from attnx.training.kept_examples import keep_examples
from attnx.training.lightning_module import Settings, TrainingModule
from attnx.training.loaders import Loaders, draw_examples
from attnx.training.peak_memory import peak_memory
from attnx.training.save_test import save_test
from attnx.training.silence_warnings import quieten
from attnx.training.trainers.lightning import TrainerSettings

Config = Mapping[str, Any]


@dataclass
class PreparedRun:
    """A run made ready: everything is built and checked, and nothing is written yet.

    ``data`` is all there is; ``experiment`` and ``loaders`` have what of it is drawn to validate and test on.
    """

    config: Config
    data: SequenceData
    experiment: TrainingModule
    loaders: Loaders
    loggers: Loggers
    callbacks: list[Callback] = field(default_factory=list)
    kernels: str = ""  # which of them were built
    compiled: str | None = None  # what of the model is, if that was asked for
    clock: Callable[[], float] = time.perf_counter  # tells seconds


@report_plug_in_errors()
def prepare(config: Config) -> PreparedRun:
    """Try the plug-in parts, read the data and build the model.

    Raises:
        UserError: a plug-in part breaks a law of its kind; the data, or the parts as they come together, are wrong.
    """
    quieten()
    check_plug_ins(config)
    devices = placement_of(config)
    job = assemble(config, *load(config))
    trainer = config["trainer"]
    job.kernels = build_kernels(job.experiment.model, devices.get("attention", training_device(trainer)))
    if config.get("accel") == "off" and trainer.get("compile", "off") != "off":
        raise UserError(
            f"trainer.compile={trainer['compile']} compiles steps, and accel=off compiles nothing; leave one out"
        )
    job.compiled = compile_steps(job.experiment, job.loaders, trainer)
    return job


def load(config: Config) -> tuple[Any, SequenceData]:
    """Build the task, and read its data.

    Raises:
        UserError: the data are wrong.
    """
    task = registry.build("task", config["task"])
    return task, task.load()


def assemble(config: Config, task: Any, data: SequenceData) -> PreparedRun:
    """Build the model for a task's data, and all that trains it; nothing is compiled.

    Raises:
        UserError: the parts are wrong as they come together, or a device or a package is missing.
    """
    devices, trainer = placement_of(config), config["trainer"]
    if trainer.get("accelerator") == "gpu" and not torch.accelerator.is_available():
        raise UserError("trainer.accelerator=gpu: there is no GPU to be seen here; use auto or cpu")
    lightning.seed_everything(config["seed"], workers=True, verbose=False)
    model = build_model(config, data)
    if devices:
        model_parallel.place_model(model, devices)
    drawn = draw_examples(data, trainer, task.monitor)
    experiment = TrainingModule(
        model=model,
        task=task,
        data=drawn,
        search=registry.build("decoding", config["decoding"]),
        settings=Settings(
            optimizer=_later("optimizer", config, "parameters"),
            lr_schedule=_later("lr_schedule", config, "optimizer", "progress"),
            plan=StepPlan([Revision(0, 0, 1)]),  # until it is known
            sampling=config["model"].get("scheduled_sampling", 0.0),
        ),
    )
    loaders = Loaders(drawn, trainer, config["seed"])
    return PreparedRun(config, data, experiment, loaders, _loggers(config))


def placement_of(config: Config) -> dict[str, torch.device]:
    """The device of each part of the model, if any has one of its own.

    Raises:
        UserError: there is no such device, or steps are to be compiled.
    """
    devices = model_parallel.placement_devices(config.get("placement"), config["trainer"].get("accelerator", "auto"))
    if devices and config["trainer"].get("compile", "off") != "off":
        raise UserError("trainer.compile compiles steps for one device, and placement names several; leave one out")
    return devices


def _loggers(config: Config) -> Loggers:
    """Those that were chosen, in the first of several processes alone."""
    return Loggers(config.get("logger", {}) if process_group.is_main_process() else {})


def train(job: PreparedRun, folder: Path, plan: StepPlan, console: Console, resume: bool = False) -> dict[str, float]:
    """Train as planned, test the best checkpoint, and write results, predictions and alignments.

    Raises:
        Interrupted: by Ctrl-C or another signal; ``last`` was saved.
    """
    process_group.send_command(process_group.RankCommand(plan, str(folder.absolute()), resume))
    job.experiment.settings = job.experiment.settings._replace(plan=plan)
    task = job.experiment.task
    choice = job.config["trainer"]
    interval = SaveInterval(choice.get("checkpoint_every"), choice.get("checkpoint_minutes"))
    with StopSignal() as stopping:
        keep = CheckpointManager(
            folder / CHECKPOINTS, task.monitor, task.maximize, choice.get("save_top_k", 1), interval, stopping
        )
        throughput = Throughput(job.clock)
        trainer = _trainer(job, folder, plan, console, throughput, keep)
        try:
            return _train_and_test(job, folder, console, trainer, throughput, keep, resume)
        except (KeyboardInterrupt, SystemExit):  # the latter is what Lightning makes of the former
            raise Interrupted(folder, stopping.signum or signal.SIGINT) from None


def _train_and_test(
    job: PreparedRun,
    folder: Path,
    console: Console,
    trainer: lightning.Trainer,
    throughput: Throughput,
    keep: CheckpointManager,
    resume: bool,
) -> dict[str, float]:
    last = str(keep.last) if resume else None
    trainer.fit(job.experiment, datamodule=job.loaders, ckpt_path=last, weights_only=True)
    if keep.validated_step != trainer.global_step:  # the run ended between two validations
        trainer.validate(job.experiment, datamodule=job.loaders, verbose=False)
    trained = throughput.elapsed
    # Until the first process has arranged them, the others wait.
    load_weights(
        job.experiment.model, process_group.broadcast_from_main(lambda: keep.best if keep.best.is_file() else keep.last)
    )
    console.print(f"testing on {count_phrase(len(job.loaders.test_rows), 'example')} ...")
    tested = trainer.test(job.experiment, datamodule=job.loaders, verbose=False)[0]
    results = {
        **{name: float(value) for name, value in tested.items()},
        "test_examples": len(job.experiment.predictions),
        "steps": trainer.global_step,
        "train_seconds": trained,
        "train_examples_per_second": throughput.examples_per_second,
        "train_tokens_per_second": throughput.tokens_per_second,
        "parameters": sum(weight.numel() for weight in job.experiment.model.parameters()),
        **peak_memory(),
    }
    if process_group.is_main_process():
        save_test(job.experiment, folder, results)
        keep_examples(job.experiment, job.loaders.test_rows, folder)
    return results


def load_weights(model: torch.nn.Module, checkpoint: Path) -> None:
    """Load the model's weights from a checkpoint, and nothing else from it."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    model.load_state_dict(
        {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}
    )


def _later(kind: str, config: Config, *names: str) -> Any:
    """A builder that is called when what the part is supplied with exists."""
    choice = config[kind]

    def build(*supplied: Any) -> Any:
        return registry.build(kind, choice, **dict(zip(names, supplied, strict=True)))

    return build


def _trainer(
    job: PreparedRun, folder: Path, plan: StepPlan, console: Console, throughput: Throughput, keep: CheckpointManager
) -> lightning.Trainer:
    choice = job.config["trainer"]
    task = job.experiment.task
    callbacks: list[Callback] = [
        PerBatchSeed(job.config["seed"]),
        NanGuard(folder, job.data),
        throughput,
        MetricsFile(folder / METRICS, throughput),
        *(
            [TimeBudget(plan, throughput, lambda plan: run_folder.note(folder, **plan.run_fields()))]
            if plan.seconds
            else []
        ),
        FollowPlan(plan),
        ShowProgress(console, throughput, task.monitor),
        keep,
    ]
    if job.loggers:
        callbacks[-1:-1] = [Logs(job.loggers, throughput, choice["log_every_n_steps"]), *job.callbacks]
    if job.config.get("profile") and process_group.is_main_process():
        callbacks.append(Profile(folder / PROFILE, console))
    if choice["patience"] is not None:
        mode = "max" if task.maximize else "min"
        callbacks.append(ResumableEarlyStopping(task.monitor, patience=choice["patience"], min_delta=0.0, mode=mode))
    settings: TrainerSettings = registry.build("trainer", choice)
    return settings.trainer(callbacks, plan.end, placement_of(job.config))


def check_fits(experiment: TrainingModule, folder: Path) -> None:
    """Check that a run can go on from the last checkpoint in its folder.

    Raises:
        UserError: there is none, or its weights are those of another configuration.
    """
    checkpoint = folder / CHECKPOINTS / LAST
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint; the run stopped before its first one, so start it anew")
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except (OSError, RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise UserError(f"{checkpoint}: cannot be read; it was damaged, so put it back or start anew") from error
    mine = experiment.state_dict()
    for name, weight in mine.items():
        if name not in state:
            raise UserError(f"{checkpoint}: does not fit this configuration: it has no {name}")
        if state[name].shape != weight.shape:
            raise UserError(
                f"{checkpoint}: does not fit this configuration: {name} has shape {tuple(state[name].shape)} there "
                f"and {tuple(weight.shape)} here"
            )
