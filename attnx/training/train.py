"""Trains, tests and writes a run folder, from a checked configuration."""

from __future__ import annotations

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
from attnx.inference.checkpoint import fitting_weights, load_weights
from attnx.inference.predictor import Predictor
from attnx.inference.write_results import EvaluationResult, save_evaluation
from attnx.laws.plug_ins import check_plug_ins, report_plug_in_errors
from attnx.loggers.collection import Loggers
from attnx.runs.info import update_info
from attnx.runs.layout import CHECKPOINTS, LAST, METRICS, PROFILE
from attnx.tasks.contract import SequenceData
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
from attnx.training.lightning_module import Settings, TrainingModule
from attnx.training.loaders import Loaders, draw_examples
from attnx.training.peak_memory import peak_memory
from attnx.training.save_examples import save_examples
from attnx.training.silence_warnings import silence_warnings
from attnx.training.trainers.lightning import TrainerSettings

Config = Mapping[str, Any]


@dataclass
class PreparedRun:
    """A run that is built and checked; nothing is written yet.

    Attributes:
        config: composed and checked.
        data: all examples; ``module`` and ``loaders`` have the samples to validate and test on.
        module: the model and how it is trained.
        loaders: of batches.
        loggers: the configured ones; none outside the main process.
        callbacks: added by the session of the loggers.
        kernels: those that were built.
        compiled: which steps of the model are compiled, if any.
        clock: returns seconds.
    """

    config: Config
    data: SequenceData
    module: TrainingModule
    loaders: Loaders
    loggers: Loggers
    callbacks: list[Callback] = field(default_factory=list)
    kernels: str = ""
    compiled: str | None = None
    clock: Callable[[], float] = time.perf_counter


@report_plug_in_errors()
def prepare(config: Config) -> PreparedRun:
    """Check the plug-in parts, read the data and build the model.

    Raises:
        UserError: a plug-in part breaks a law of its kind, the data are wrong, or parts do not fit each other.
    """
    silence_warnings()
    check_plug_ins(config)
    devices = placement_of(config)
    prepared = assemble(config, *load(config))
    trainer = config["trainer"]
    prepared.kernels = build_kernels(prepared.module.model, devices.get("attention", training_device(trainer)))
    prepared.compiled = compile_steps(prepared.module, prepared.loaders, trainer)
    return prepared


def load(config: Config) -> tuple[Any, SequenceData]:
    """Build the task, and read its data.

    Raises:
        UserError: the data are wrong.
    """
    task = registry.build("task", config["task"])
    return task, task.load()


def assemble(config: Config, task: Any, data: SequenceData) -> PreparedRun:
    """Build the model for a task's data, and everything that trains it; nothing is compiled.

    Raises:
        UserError: the parts do not fit each other, or a device or a package is missing.
    """
    devices, trainer = placement_of(config), config["trainer"]
    if trainer.get("accelerator") == "gpu" and not torch.accelerator.is_available():
        raise UserError("trainer.accelerator=gpu: no GPU is available; use auto or cpu")
    if config.get("accel") == "off" and trainer.get("compile", "off") != "off":
        raise UserError(
            f"trainer.compile={trainer['compile']} compiles steps, and accel=off compiles nothing; leave one out"
        )
    lightning.seed_everything(config["seed"], workers=True, verbose=False)
    model = build_model(config, data)
    if devices:
        model_parallel.place_model(model, devices)
    drawn = draw_examples(data, trainer, task.monitor)
    settings = Settings(
        optimizer=_builder("optimizer", config, "parameters"),
        lr_schedule=_builder("lr_schedule", config, "optimizer", "progress"),
        plan=StepPlan([Revision(0, 0, 1)]),  # replaced when the steps are planned
        sampling=config["model"].get("scheduled_sampling", 0.0),
    )
    predictor = Predictor(model, task, drawn, registry.build("decoding", config["decoding"]))
    loaders = Loaders(drawn, trainer, config["seed"])
    return PreparedRun(config, data, TrainingModule(predictor, settings), loaders, _loggers(config))


def placement_of(config: Config) -> dict[str, torch.device]:
    """The device of each part of the model that ``placement`` names.

    Raises:
        UserError: there is no such device, or steps are to be compiled.
    """
    devices = model_parallel.placement_devices(config.get("placement"), config["trainer"].get("accelerator", "auto"))
    if devices and config["trainer"].get("compile", "off") != "off":
        raise UserError("trainer.compile compiles steps for one device, and placement names several; leave one out")
    return devices


def _loggers(config: Config) -> Loggers:
    """The configured loggers; none outside the main process."""
    return Loggers(config.get("logger", {}) if process_group.is_main_process() else {})


def train(
    prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, resume: bool = False
) -> dict[str, float]:
    """Train as planned, test the best checkpoint, and write results, predictions and alignments.

    Raises:
        Interrupted: by Ctrl-C or another signal; ``last`` was saved.
    """
    process_group.send_command(process_group.RankCommand(plan, str(folder.absolute()), resume))
    module, options = prepared.module, prepared.config["trainer"]
    module.settings = module.settings._replace(plan=plan)
    monitor, maximize = module.task.monitor, module.task.maximize
    interval = SaveInterval(options.get("checkpoint_every"), options.get("checkpoint_minutes"))
    with StopSignal() as stop_signal:
        checkpoints = CheckpointManager(
            folder / CHECKPOINTS, monitor, maximize, options.get("save_top_k", 1), interval, stop_signal
        )
        throughput = Throughput(prepared.clock)
        callbacks = _callbacks(prepared, folder, plan, console, throughput)
        trainer = _trainer(prepared, [*callbacks, checkpoints], plan.end)
        try:
            _fit(prepared, trainer, checkpoints, resume)
            results = _test(prepared, trainer, throughput, console)
            if process_group.is_main_process():
                result = EvaluationResult(results, module.test_metrics, module.predictions)
                save_evaluation(folder, module.task, module.data.tags, result)
                save_examples(module, prepared.loaders.test_rows, folder)
        except (KeyboardInterrupt, SystemExit):  # Lightning turns the former into the latter
            raise Interrupted(folder, stop_signal.signum or signal.SIGINT) from None
        return results


def _fit(prepared: PreparedRun, trainer: lightning.Trainer, checkpoints: CheckpointManager, resume: bool) -> None:
    """Train, and load the best weights."""
    resumed = str(checkpoints.last) if resume else None
    trainer.fit(prepared.module, datamodule=prepared.loaders, ckpt_path=resumed, weights_only=True)
    if checkpoints.validated_step != trainer.global_step:  # the run ended between two validations
        trainer.validate(prepared.module, datamodule=prepared.loaders, verbose=False)
    # The other ranks wait until the main process has written the files.
    best = process_group.broadcast_from_main(
        lambda: checkpoints.best if checkpoints.best.is_file() else checkpoints.last
    )
    load_weights(prepared.module.model, [best])


def _test(
    prepared: PreparedRun, trainer: lightning.Trainer, throughput: Throughput, console: Console
) -> dict[str, float]:
    """Test, and return all results of the run."""
    module, train_seconds = prepared.module, throughput.elapsed
    console.print(f"testing on {count_phrase(len(prepared.loaders.test_rows), 'example')} ...")
    measured = trainer.test(module, datamodule=prepared.loaders, verbose=False)[0]
    return {
        **{name: float(value) for name, value in measured.items()},
        "test_examples": len(module.predictions),
        "steps": trainer.global_step,
        "train_seconds": train_seconds,
        "train_examples_per_second": throughput.examples_per_second,
        "train_tokens_per_second": throughput.tokens_per_second,
        "parameters": sum(weight.numel() for weight in module.model.parameters()),
        **peak_memory(),
    }


def _builder(kind: str, config: Config, *names: str) -> Any:
    """A function that builds a part from its positional arguments, in the order of ``names``."""
    spec = config[kind]

    def build(*arguments: Any) -> Any:
        return registry.build(kind, spec, **dict(zip(names, arguments, strict=True)))

    return build


def _callbacks(
    prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, throughput: Throughput
) -> list[Callback]:
    """The built-in callbacks, the configured ones, and those of loggers."""
    config, task = prepared.config, prepared.module.task
    patience = config["trainer"]["patience"]

    def update_plan(plan: StepPlan) -> None:
        update_info(folder, **plan.run_fields())

    callbacks: list[Callback] = [
        PerBatchSeed(config["seed"]),
        NanGuard(folder, prepared.data),
        throughput,
        MetricsFile(folder / METRICS, throughput),
        *([TimeBudget(plan, throughput, update_plan)] if plan.seconds else []),
        FollowPlan(plan),
        ShowProgress(console, throughput, task.monitor),
        *(registry.build("callback", {"name": name, **knobs}) for name, knobs in config.get("callback", {}).items()),
    ]
    if prepared.loggers:
        callbacks += [Logs(prepared.loggers, throughput, config["trainer"]["log_every_n_steps"]), *prepared.callbacks]
    if config.get("profile") and process_group.is_main_process():
        callbacks.append(Profile(folder / PROFILE, console))
    if patience is not None:
        mode = "max" if task.maximize else "min"
        callbacks.append(ResumableEarlyStopping(task.monitor, patience=patience, min_delta=0.0, mode=mode))
    return callbacks


def _trainer(prepared: PreparedRun, callbacks: list[Callback], steps: int) -> lightning.Trainer:
    settings: TrainerSettings = registry.build("trainer", prepared.config["trainer"])
    return settings.trainer(callbacks, steps, placement_of(prepared.config))


def check_fits(module: TrainingModule, folder: Path) -> None:
    """Check that a run can resume from the last checkpoint in its folder.

    Raises:
        UserError: there is none, it is damaged, or its weights do not fit the model.
    """
    checkpoint = folder / CHECKPOINTS / LAST
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint; the run stopped before its first one, so start a new run")
    fitting_weights(module.model, checkpoint)
