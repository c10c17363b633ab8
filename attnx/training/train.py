"""Builds a run from a checked configuration, trains and tests it, and writes its folder."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import lightning
import numpy as np
import torch
from rich.console import Console

from attnx import registry
from attnx.data.batches import collate
from attnx.data.output_limit import OutputLimit
from attnx.decoding.contracts import StepModel
from attnx.decoding.state_bytes import state_bytes
from attnx.errors import Interrupted
from attnx.files.parse_number import count_phrase
from attnx.inference.checkpoint import load_weights
from attnx.inference.load import build_model, init_weights
from attnx.inference.model_cost import ModelCost, count_cost
from attnx.inference.predictor import Predictor
from attnx.inference.write_results import EvaluationResult, save_evaluation
from attnx.laws.check import check_plug_ins
from attnx.loggers.contract import Loggers
from attnx.models.resolve import ResolvedConfig, resolve_model
from attnx.registry.plugin_errors import report_plug_in_errors
from attnx.runs.layout import CHECKPOINTS, METRICS, resume_command
from attnx.tasks.contract import SequenceData
from attnx.training.callbacks.checkpoint import CheckpointManager, ResumableEarlyStopping
from attnx.training.callbacks.heat_maps import HeatMaps
from attnx.training.callbacks.metric_rows import MetricRows
from attnx.training.callbacks.nan_guard import NanGuard
from attnx.training.callbacks.per_batch_seed import PerBatchSeed
from attnx.training.callbacks.progress import ProgressDisplay
from attnx.training.callbacks.step_plan import StepPlan, StepPlanCallback, TimeBudget
from attnx.training.callbacks.throughput import Throughput, peak_memory
from attnx.training.callbacks.weight_average import WeightAverage
from attnx.training.compiling import build_kernels, compile_in_training
from attnx.training.distributed import process_group
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.model_parallel import place_model, placement_devices
from attnx.training.lightning_module import TrainingModule
from attnx.training.loaders import TrainingDataModule, draw_examples
from attnx.training.save_examples import save_examples
from attnx.training.stop_signal import StopSignal
from attnx.training.trainer import silence_warnings

Config = Mapping[str, Any]


@dataclass
class PreparedRun:
    """A run that is built and checked; nothing is written yet."""

    resolved: ResolvedConfig  #: the configuration, and what its model derives from it
    data: SequenceData  #: all examples; ``module`` and ``loaders`` have the samples to validate and test on
    module: TrainingModule  #: the model and how it is trained
    loaders: TrainingDataModule  #: of batches
    loggers: Loggers  #: the configured ones; none outside the main process
    devices: Mapping[str, torch.device]  #: of the parts of the model; empty if they are all on one
    initialized: str | None = None  #: which weights come from another run, if any
    notes: Sequence[str] = ()  #: what is suspicious about data, decoding and metrics, the most important first
    kernels: str = ""  #: those that were built
    compiled: str | None = None  #: what of the model torch has compiled, if anything
    clock: Callable[[], float] = time.perf_counter  #: returns seconds

    @property
    def config(self) -> Config:
        """The configuration, composed and checked."""
        return self.resolved.config

    @property
    def parameters(self) -> int:
        """How many parameters the model has."""
        return sum(weight.numel() for weight in self.module.model.parameters())

    @cached_property
    def cost(self) -> ModelCost:
        """The operations of a token, counted when they are first asked for."""
        return count_cost(self.resolved, self.data, self.loaders.train_rows, self.parameters)


@report_plug_in_errors()
def prepare(config: Config) -> PreparedRun:
    """Check the plug-in parts, read the data and build the model.

    Raises:
        UserError: a plug-in part breaks a law of its kind, the data are wrong, or parts do not fit each other.
    """
    silence_warnings()
    check_plug_ins(config)
    task = registry.build("task", config["task"])
    prepared = assemble(config, task, task.load())
    trainer, model = config["trainer"], prepared.module.model
    if config.get("init_from") is not None:
        prepared.initialized = init_weights(model, prepared.resolved, prepared.data, config["init_from"])
    attention_device = prepared.devices.get("attention", training_device(trainer))
    prepared.kernels = build_kernels(model, attention_device)
    prepared.compiled = compile_in_training(prepared.module, prepared.loaders, trainer)
    return prepared


def assemble(config: Config, task: Any, data: SequenceData) -> PreparedRun:
    """Build the model for a task's data, and everything that trains it; nothing is compiled.

    Raises:
        UserError: the parts do not fit each other, or a device or a package is missing.
    """
    resolved, trainer = resolve_model(config), config["trainer"]
    devices = placement_devices(config.get("placement", {}), trainer["accelerator"])
    for set_seed in (random.seed, np.random.seed, torch.manual_seed):
        set_seed(config["seed"])
    model = build_model(resolved, data)
    if devices:
        place_model(model, devices)
    drawn = draw_examples(data, trainer, task.monitor)
    loaders = TrainingDataModule(drawn, trainer, config["seed"])
    limit, rows, target = OutputLimit(), loaders.train_rows, cast("StepModel", model).target
    if target.steps is None and not task.is_continuation:  # else a source is how its target begins
        limit = OutputLimit.from_lengths(rows.lengths(np.arange(len(rows))))
    data, drawn = replace(data, output_limit=limit), replace(drawn, output_limit=limit)
    module = TrainingModule(
        Predictor(model, task, drawn, registry.build("decoding", config["decoding"])),
        build_optimizer=partial(registry.build, "optimizer", config["optimizer"]),
        build_lr_schedule=partial(registry.build, "lr_schedule", config["lr_schedule"]),
        scheduled_sampling=config["model"].get("scheduled_sampling", 0.0),
    )
    # Built here for its errors, before anything is written, and again when the length of the run is known.
    module.build_lr_schedule(optimizer=module.build_optimizer(parameters=model.parameters()), progress=float)
    loggers = Loggers(config.get("logger", {}) if process_group.is_main_process() else {})
    notes = [*data.unknown_notes("validation", data.pairs.valid), *data.unknown_notes("test", data.pairs.test)]
    return PreparedRun(resolved, data, module, loaders, loggers, devices, notes=[*notes, *task.notes])


def train(prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, resume: bool = False) -> None:
    """Train as planned, test the best checkpoint, write results, predictions and alignments; a signal interrupts.

    Raises:
        Interrupted: by Ctrl-C or another signal; ``last`` was saved.
    """
    process_group.send_command(process_group.RankCommand(plan, str(folder.absolute()), resume))
    module, options = prepared.module, prepared.config["trainer"]
    module.step_plan, task = plan, module.task
    with StopSignal() as stop_signal:
        checkpoints = CheckpointManager(
            folder / CHECKPOINTS,
            task.monitor,
            task.maximize,
            count=options["save_top_k"],
            steps=options["checkpoint_every"],
            minutes=options["checkpoint_minutes"],
            stop_signal=stop_signal,
        )
        throughput = Throughput(prepared.clock)
        callbacks = [*_callbacks(prepared, folder, plan, console, throughput), checkpoints]
        trainer = registry.build("trainer", options).trainer(callbacks, plan.end, prepared.devices, folder)
        # Lightning restores weights before it converts the module, and so would round those of a checkpoint.
        trainer.precision_plugin.convert_module(module)
        try:
            resumed = str(checkpoints.last) if resume else None
            trainer.fit(module, datamodule=prepared.loaders, ckpt_path=resumed, weights_only=True)
            if checkpoints.validated_step != trainer.global_step:  # the run ended between two validations
                trainer.validate(module, datamodule=prepared.loaders, verbose=False)
            # The other ranks wait until the main process has written the files.
            best = process_group.broadcast_from_main(
                lambda: checkpoints.best if checkpoints.best.is_file() else checkpoints.last
            )
            load_weights(module.model, [best])
            results = _test(prepared, trainer, throughput, console)
            if process_group.is_main_process():
                result = EvaluationResult(results, module.test_metrics, module.predictions)
                save_evaluation(folder, task, module.data.tags, result)
                cut_notes = module.predictor.cut_notes(module.predictions)
                prepared.notes = [*cut_notes, *prepared.notes]
                console.print("\n".join(cut_notes), end="\n" if cut_notes else "", markup=False, highlight=False)
                save_examples(module, prepared.loaders.test_rows, prepared.resolved, folder)
        except (KeyboardInterrupt, SystemExit) as stop:
            # Lightning answers a KeyboardInterrupt by sys.exit; any other SystemExit is an error of who exits.
            if not isinstance(stop, KeyboardInterrupt) and not isinstance(stop.__context__, KeyboardInterrupt):
                raise
            signum = stop_signal.signum or signal.SIGINT
            raise Interrupted(f"resume with: {resume_command(folder)}", signum) from None


def _test(
    prepared: PreparedRun, trainer: lightning.Trainer, throughput: Throughput, console: Console
) -> dict[str, float]:
    """Test, and return all results of the run."""
    module, train_seconds, train_cpu_seconds = prepared.module, throughput.elapsed, throughput.cpu_seconds
    console.print(f"testing on {count_phrase(len(prepared.loaders.test_rows), 'example')} ...")
    measured = trainer.test(module, datamodule=prepared.loaders, verbose=False)[0]
    return {
        **{name: float(value) for name, value in measured.items()},
        "test_examples": len(module.predictions),
        "steps": trainer.global_step,
        "train_seconds": train_seconds,
        "train_cpu_seconds": train_cpu_seconds,
        "train_examples_per_second": throughput.examples_per_second,
        "train_tokens_per_second": throughput.tokens_per_second,
        "parameters": prepared.parameters,
        **(prepared.cost.results() if process_group.is_main_process() else {}),
        **({} if module.task.has_labels else {"state_bytes": _largest_state(prepared, trainer)}),
        **peak_memory(),
    }


def _largest_state(prepared: PreparedRun, trainer: lightning.Trainer) -> int:
    """How many bytes the model keeps of the longest test example, as it decodes in the run's precision."""
    module, rows = prepared.module, prepared.loaders.test_rows
    lengths = rows.lengths(np.arange(len(rows)))
    longest = int(lengths.sum(1).argmax())
    model, precision = cast("StepModel", module.model.eval()), trainer.precision_plugin
    with precision.forward_context():
        source, _ = model.target.prepare(precision.convert_input(collate([rows[longest]]).source).to(module.device))
        return state_bytes(model, source, steps=int(lengths[longest, 1]))


def _callbacks(
    prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, throughput: Throughput
) -> list[lightning.Callback]:
    """The built-in callbacks, the configured ones, and the loggers'."""
    config, task, loggers = prepared.config, prepared.module.task, prepared.loggers
    options = config["trainer"]
    callbacks = [
        PerBatchSeed(config["seed"]),
        NanGuard(folder, prepared.data),
        throughput,
        *([TimeBudget(plan, throughput, folder)] if plan.seconds else []),
        StepPlanCallback(plan),
        MetricRows(folder / METRICS, throughput, options["log_every_n_steps"], loggers),
        ProgressDisplay(console, throughput, task.monitor),
        *(registry.build("callback", choice) for choice in config.get("callback", {}).items()),
    ]
    if loggers:
        callbacks.append(HeatMaps(loggers, prepared.loaders))
    if options["patience"] is not None:
        patience, min_improvement = options["patience"], options["min_improvement"]
        callbacks.append(ResumableEarlyStopping(task.monitor, task.maximize, patience, min_improvement))
    if options["ema"] is not None:
        callbacks.append(WeightAverage(options["ema"]))  # the last, so that all others see one validation's weights
    return callbacks
