"""Runs a configuration from start to finished run folder, for the command and for notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from attnx import registry
from attnx.accel.prebuild import without_c
from attnx.errors import UserError
from attnx.inference.load import TrainedRun, load_run, open_run
from attnx.inference.validate import KINDS_TO_TRAIN, NOTHING_LEFT, read_resumable_run
from attnx.models.resolve import resolve_model
from attnx.registry.plugin_code import reject_parts_of_this_process
from attnx.reports.run.build_all import build_reports
from attnx.reports.run.readme import write_run_readme
from attnx.reports.run.tables import file_list, results_table, start_table
from attnx.runs.info import update_info
from attnx.runs.layout import CHECKPOINTS, ERROR, EXPLANATION, METRICS
from attnx.runs.naming import refuse_links
from attnx.runs.plugin_copies import current_code
from attnx.runs.run import Run, read_run
from attnx.runs.status import RunStatus
from attnx.tasks.contract import metric_signatures
from attnx.training.callbacks.step_plan import StepPlan, read_plan
from attnx.training.distributed.devices import needs_launch, rank_infos, resolve_devices, training_device
from attnx.training.distributed.launcher import ProcessTask, can_fork, launch_ranks
from attnx.training.distributed.process_group import rank_info, receive_commands
from attnx.training.distributed.slurm import slurm_job
from attnx.training.failure_report import record_failure
from attnx.training.logger_session import logger_session
from attnx.training.plan_steps import measure_step, plan_steps
from attnx.training.run_folder import create_run_folder, save_vocabularies
from attnx.training.train import PreparedRun, check_fits, placement_of, prepare, train


def fit(config: Mapping[str, Any], overrides: Sequence[str] = (), console: Console | None = None) -> TrainedRun:
    """Train, test and report; return the run opened with its best weights.

    Args:
        config: from :func:`attnx.compose`.
        overrides: of the command, for run.json.
        console: shows progress; by default the terminal.

    Raises:
        UserError: a mistake in the configuration or the data; nothing was written.
        Interrupted: by Ctrl-C or another signal; the run can be resumed.
        RunFailed: the disk is full, memory ran out, the loss is not finite ...; with the known cause in one line.
    """
    config = _complete(config)
    current_code(config)  # a plug-in whose source cannot be copied is refused before anything is written
    config = resolve_devices(config)
    if needs_launch(config):
        return _launch(ProcessTask("attnx.training.fit:fit", [config, list(overrides)]), config)
    console = console or Console()
    prepared = prepare(config)
    folder = create_run_folder(config, overrides, _derived_facts(prepared))
    with _failure_recorded(folder, config["trainer"]):
        return _start(prepared, folder, console)


def _complete(config: object) -> Mapping[str, Any]:
    """A configuration from :func:`attnx.compose`, with defaults filled in.

    Raises:
        UserError: it is something else.
    """
    if not isinstance(config, Mapping) or not all(kind in config for kind in KINDS_TO_TRAIN):
        words = config.split() if isinstance(config, str) else config if isinstance(config, list) else ["scorer=dot"]
        raise UserError(f"fit takes a configuration from compose: attnx.fit(attnx.compose({words!r}))")
    return registry.with_defaults(config)


def _start(prepared: PreparedRun, folder: Path, console: Console) -> TrainedRun:
    save_vocabularies(folder, prepared.data, prepared.module.task)
    console.print(start_table(folder))
    plan = plan_steps(prepared, folder, console)
    update_info(folder, **plan.run_fields())
    console.print(_length(plan, prepared.config["trainer"]))
    return _train(prepared, folder, plan, console)


def _train(prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, resume: bool = False) -> TrainedRun:
    with logger_session(prepared, folder, console):
        train(prepared, folder, plan, console, resume)
        # Signatures are complete now, since the number of references is known.
        update_info(folder, status=RunStatus.FINISHED, **_task_notes(prepared))
        return _finish(folder, console)


def resume(folder: str | Path, console: Console | None = None) -> TrainedRun:
    """Resume a run from its last checkpoint; from its beginning if it has none yet.

    Raises:
        UserError: not a run folder, or its checkpoint does not fit.
        Interrupted: as :func:`fit`.
        RunFailed: as :func:`fit`.
    """
    path, console = Path(folder), console or Console()
    registry.forget_changed()
    run = read_resumable_run(path)
    refuse_links(path)
    if run.is_finished:
        console.print(NOTHING_LEFT.format(path), highlight=False, markup=False, soft_wrap=True)
        return open_run(path)
    if run.recorded_status == RunStatus.FINISHED:  # killed after its results were written
        with record_failure(path, {}):
            return _finish(path, console)
    config = resolve_devices({**run.config, "folder": str(path)})
    if needs_launch(config):
        return _launch(ProcessTask("attnx.training.fit:resume", [str(path)]), config)
    prepared = prepare(config)
    _refuse_changed(run, prepared)
    return _continue(run, prepared, console)


def _continue(run: Run, prepared: PreparedRun, console: Console) -> TrainedRun:
    """Train from the last checkpoint, or from the beginning without one."""
    path, trainer = run.path, prepared.config["trainer"]
    has_checkpoint = "plan" in run.info and any((path / CHECKPOINTS).glob("*.ckpt"))
    if has_checkpoint:
        check_fits(prepared.module, path)
        plan = read_plan(path, run.info, trainer.get("max_time"))
    with _failure_recorded(path, trainer):
        update_info(path, status=RunStatus.RUNNING, **({"error": None} if "error" in run.info else {}))
        for file in (ERROR, EXPLANATION):  # of the previous attempt
            (path / file).unlink(missing_ok=True)
        if not has_checkpoint:
            console.print(f"{path}: has no checkpoint yet, so it starts from the beginning")
            (path / METRICS).unlink(missing_ok=True)
            (path / CHECKPOINTS).mkdir(exist_ok=True)
            return _start(prepared, path, console)
        save_vocabularies(path, prepared.data, prepared.module.task)  # it may have been killed while it wrote them
        return _train(prepared, path, plan, console, resume=True)


def _refuse_changed(run: Run, prepared: PreparedRun) -> None:
    """Check that a run resumes with the data and the number of processes it was started with.

    Raises:
        UserError: they are different.
    """
    fingerprint = prepared.loaders.train_rows.fingerprint()
    if run.info.get("fingerprint", fingerprint) != fingerprint:
        raise UserError(f"{run.path}: the training data have changed; restore them, or start a new run")
    if (processes := run.info.get("processes", 1)) != rank_info().world_size:
        raise UserError(
            f"{run.path}: was started with {processes} processes (trainer.devices times trainer.num_nodes) and cannot "
            f"resume with {rank_info().world_size}, since batches would be split differently; set them back, or start "
            "a new run"
        )


@contextmanager
def _failure_recorded(folder: Path, trainer: Mapping[str, Any]) -> Iterator[None]:
    """Record why a run failed in its folder, and write its README all the same.

    Raises:
        Interrupted: as :func:`fit`.
        RunFailed: as :func:`fit`.
    """
    try:
        with record_failure(folder, trainer):
            yield
    except BaseException:
        with suppress(OSError, UserError):  # the disk may be full
            write_run_readme(folder)
        raise


def _launch(work: ProcessTask, config: Mapping[str, Any]) -> TrainedRun:
    """Train in several processes: the main one runs ``work``, the others follow it."""
    workers, ranks = ProcessTask("attnx.training.fit:run_worker_rank", [config]), rank_infos(config["trainer"])
    if not can_fork(ranks[0].backend):
        reject_parts_of_this_process(config, "the processes that train together")
    return load_run(launch_ranks(work, workers, ranks))


def run_worker_rank(config: Mapping[str, Any]) -> None:
    """Carry out the commands of the main process in another rank, which writes nothing."""
    prepared = prepare(config)
    for command in receive_commands():
        if command.plan is None:
            measure_step(prepared)
        else:
            train(prepared, Path(command.folder), command.plan, Console(file=io.StringIO()), command.resume)


def _derived_facts(prepared: PreparedRun) -> dict[str, Any]:
    """Values derived from the configuration and the data, for the start table and run.json."""
    task, module, processes = prepared.module.task, prepared.module, rank_info().world_size
    placement = {part: str(device) for part, device in placement_of(prepared.config).items()}
    facts: dict[str, Any] = {
        **_derived_settings(prepared),
        "kernels": prepared.kernels,
        "compiler": _missing_compiler(prepared.config),
        "compiled": prepared.compiled,
        "monitor": task.monitor,
        "maximize": task.maximize,
        "fingerprint": prepared.loaders.train_rows.fingerprint(),
        **_task_notes(prepared),
        "placement": placement,
        "processes": processes if processes > 1 else None,
        "slurm_job": slurm_job(),
        "parameters": sum(weight.numel() for weight in module.model.parameters()),
        "data": _describe_data(prepared),
    }
    optional = ("compiler", "compiled", "placement", "processes", "slurm_job")
    return {name: value for name, value in facts.items() if value or name not in optional}


def _describe_data(prepared: PreparedRun) -> str:
    """The sizes of the parts, and how sources and targets are encoded."""
    pairs, samples = prepared.data.pairs, prepared.loaders.data.pairs
    train_count = len(pairs.train) or len(prepared.loaders.train_rows)
    parts = f"{_sample_size(samples.valid, pairs.valid)} valid, {_sample_size(samples.test, pairs.test)} test"
    tags = f"; tags {' '.join(prepared.data.tags)}" if prepared.data.tags else ""
    return f"{train_count:,} train, {parts}; source {prepared.data.source}, target {prepared.data.target}{tags}"


def _sample_size(sample: Sequence[Any], part: Sequence[Any]) -> str:
    """The number of examples, and of how many if it is a sample."""
    return f"{len(sample):,}" + (f" of {len(part):,}" if len(sample) < len(part) else "")


def _length(plan: StepPlan, trainer: Mapping[str, Any]) -> str:
    """How long a run is to train, in words."""
    steps = f"{plan.end:,} steps of {_batch_size(trainer)}"
    return steps if plan.seconds is None else f"{trainer['max_time']} of training: about {steps}"


def _batch_size(trainer: Mapping[str, Any]) -> str:
    """The examples of a step, in words."""
    factor = trainer["accumulate_grad_batches"] * rank_info().world_size
    if trainer.get("batch_tokens"):
        return f"up to {trainer['batch_tokens'] * factor:,} tokens"
    return f"{trainer['batch_size'] * factor} rows"


def _task_notes(prepared: PreparedRun) -> dict[str, Any]:
    """The task's notes on its data, and the signatures of its metrics, if it has any."""
    task = prepared.module.task
    signatures = metric_signatures(task, prepared.module.test_metrics)
    facts = {"notes": list(getattr(task, "notes", [])), "signatures": signatures}
    return {name: value for name, value in facts.items() if value}


def _derived_settings(prepared: PreparedRun) -> dict[str, str]:
    """The schedule, and settings derived from others."""
    resolved = resolve_model(prepared.config)
    settings: dict[str, str] = {} if resolved is None else resolved.summary()
    return {**settings, "derived": (settings.get("derived", "") + _projection(prepared)).strip()}


def _projection(prepared: PreparedRun) -> str:
    project: Any = getattr(getattr(prepared.module.model, "attention", None), "project", None)
    if not hasattr(project, "in_features"):
        return ""
    return f" projection={project.in_features}->{project.out_features} (the scorer needs equal widths)"


def _missing_compiler(config: Mapping[str, Any]) -> str | None:
    """Why the run does without C code that it could use; a GPU does not use any."""
    return without_c(config) if training_device(config["trainer"]).type == "cpu" else None


def _finish(folder: Path, console: Console) -> TrainedRun:
    """Draw the pictures, write the README, and show the results."""
    build_reports(folder)
    console.print(results_table(read_run(folder)))
    console.print(file_list(folder), highlight=False, soft_wrap=True)
    return load_run(folder)
