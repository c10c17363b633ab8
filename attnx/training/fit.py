"""Runs a configuration from start to finished run folder, for the command and for notebooks."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from attnx import registry
from attnx.errors import UserError, check_words
from attnx.files.process_state import isolated_state
from attnx.inference.checkpoint import check_resumable
from attnx.inference.load import TrainedRun, load_run, open_run
from attnx.inference.validate import KINDS_TO_TRAIN, NOTHING_LEFT, check_complete, read_resumable_run, refuse_equal_cost
from attnx.registry.plugin_code import reject_parts_of_this_process
from attnx.reports.build_all import build_reports
from attnx.reports.run.tables import file_list, results_table, start_table
from attnx.runs.info import RunStatus, update_info
from attnx.runs.layout import CHECKPOINTS, ERROR_TXT, LAST, METRICS, PROGRESS, README, refuse_links
from attnx.runs.run import Run, lock_run, read_run
from attnx.training.callbacks.step_plan import StepPlan, read_plan
from attnx.training.distributed.devices import launched_info, needs_processes, rank_infos, resolve_devices
from attnx.training.distributed.launched_rank import is_main_launch
from attnx.training.distributed.launcher import can_fork, launch_ranks
from attnx.training.distributed.process_group import init_process_group, rank_info, receive_commands
from attnx.training.failure_report import record_failure
from attnx.training.logger_session import logger_session
from attnx.training.plan_steps import measure_step, plan_steps
from attnx.training.run_folder import create_run_folder, save_vocabularies, task_notes
from attnx.training.train import PreparedRun, prepare, train

_training = threading.RLock()  # held by the thread that trains a run


def fit(
    config: Mapping[str, Any],
    overrides: Sequence[str] = (),
    console: Console | None = None,
    is_verbose: bool = False,
    config_dir: str | None = None,
) -> TrainedRun:
    """Train, test and report; return the run opened with its best weights.

    Args:
        config: from :func:`attnx.compose`.
        overrides: of the command, for run.json.
        console: shows progress, where one process trains; by default, and of several processes, the terminal.
        is_verbose: whether all options are shown at the start, and not only those that were set or differ from the
            defaults.
        config_dir: that of compose, for the command in run.json.

    Raises:
        UserError: a mistake in the configuration or the data, or another thread trains; nothing was written.
        Interrupted: a KeyboardInterrupt, by Ctrl-C or another signal; the message says how to resume.
        RunFailed: the disk is full, memory ran out, the loss is not finite ...; with the known cause in one line.
    """
    if not isinstance(config, Mapping) or not all(kind in config for kind in KINDS_TO_TRAIN):
        words = config.split() if isinstance(config, str) else config if isinstance(config, list) else ["scorer=dot"]
        raise UserError(f"fit takes a configuration from compose: attnx.fit(attnx.compose({words!r}))")
    check_words(overrides, "overrides", "fit(config, ['scorer=dot'])")
    refuse_equal_cost(config)
    return fit_job(config, overrides, console, is_verbose, config_dir)


@contextmanager
def sole_training() -> Iterator[None]:
    """Train in a block: it neither takes over what torch, numpy and Python keep for the process, nor changes it.

    Raises:
        UserError: another thread trains, and would draw from the same generators; or the caller is in autocast, whose
            copies of weights would outlive their training.
    """
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        raise UserError("a run is trained in the precision of trainer.precision; call fit outside torch.autocast")
    matmul_precision, allow_tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    if not _training.acquire(blocking=False):
        raise UserError("another thread of this process trains a run; train each run in a process of its own")
    try:
        with isolated_state():
            yield
    finally:
        torch.set_float32_matmul_precision(matmul_precision)
        torch.backends.cudnn.allow_tf32 = allow_tf32
        _training.release()


@sole_training()
def fit_job(
    config: Mapping[str, Any],
    overrides: Sequence[str] = (),
    console: Console | None = None,
    is_verbose: bool = False,
    config_dir: str | None = None,
) -> TrainedRun:
    """Train a run, or a job of a sweep, whose cost was made equal before: see :func:`fit`."""
    config = resolve_devices(check_complete(config, KINDS_TO_TRAIN))
    if needs_processes(config["trainer"]) and rank_info().world_size == 1:
        work = partial(fit_job, config, overrides, is_verbose=is_verbose, config_dir=config_dir)
        return _train_in_ranks(work, config)
    prepared = prepare(config)
    with create_run_folder(prepared, overrides, config_dir) as folder, record_failure(folder, config["trainer"]):
        return _start(prepared, folder, console or Console(), is_verbose)


def _start(prepared: PreparedRun, folder: Path, console: Console, is_verbose: bool = False) -> TrainedRun:
    save_vocabularies(folder, prepared)
    console.print(start_table(read_run(folder), is_verbose))
    plan = plan_steps(prepared, folder, console)
    update_info(folder, **plan.run_fields())
    trainer = prepared.config["trainer"]
    factor = trainer["accumulate_grad_batches"] * rank_info().world_size
    tokens, rows = trainer["batch_tokens"], trainer["batch_size"]
    steps = f"{plan.end:,} steps of {f'up to {tokens * factor:,} tokens' if tokens else f'{rows * factor} rows'}"
    length = steps if plan.seconds is None else f"{trainer['max_time']} of training: about {steps}"
    console.print("\n".join([length, *_warm_up_notes(plan, prepared.config)]))
    return _train(prepared, folder, plan, console)


def _train(prepared: PreparedRun, folder: Path, plan: StepPlan, console: Console, resume: bool = False) -> TrainedRun:
    prepared.notes = [*prepared.notes, *_warm_up_notes(plan, prepared.config)]
    with logger_session(prepared, folder, console):
        train(prepared, folder, plan, console, resume)
        # Signatures are complete now, since the number of references is known.
        update_info(folder, status=RunStatus.FINISHED, **task_notes(prepared))
        return _finish(folder, console)


@sole_training()
def resume(folder: str | Path, console: Console | None = None) -> TrainedRun:
    """Resume a run from its last checkpoint; from its beginning if it has none yet.

    Raises:
        UserError: not a run folder, its checkpoint does not fit, or another process trains the run.
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
        if not is_main_launch():
            return load_run(path)
        with lock_run(path), record_failure(path, {}):
            return _finish(path, console)
    begun = {"init_from": None} if _has_any_checkpoint(run) else {}  # the run to begin with may be gone by now
    config = resolve_devices({**run.config, "folder": str(path), **begun})
    if needs_processes(config["trainer"]) and rank_info().world_size == 1:
        return _train_in_ranks(partial(resume, path), config)
    with lock_run(path):
        prepared = prepare(config)
        _refuse_changed(run, prepared)
        return _continue(run, prepared, console)


def _has_any_checkpoint(run: Run) -> bool:
    return "step_plan" in run.info and any((run.path / CHECKPOINTS).glob("*.ckpt"))


def _continue(run: Run, prepared: PreparedRun, console: Console) -> TrainedRun:
    """Train from the last checkpoint, or from the beginning without one."""
    path, trainer = run.path, prepared.config["trainer"]
    has_checkpoint = _has_any_checkpoint(run)
    if has_checkpoint:
        last = path / CHECKPOINTS / LAST
        if not last.is_file():
            raise UserError(f"{last}: no such checkpoint, and no other one can be resumed; start a new run")
        check_resumable(prepared.module.model, last)
        plan = read_plan(path, run.info, trainer["max_time"])
    with record_failure(path, trainer):
        update_info(path, status=RunStatus.RUNNING, **({"error": None} if "error" in run.info else {}))
        for file in (ERROR_TXT, README, PROGRESS):  # of the previous attempt
            (path / file).unlink(missing_ok=True)
        if not has_checkpoint:
            console.print(f"{path}: has no checkpoint yet, so it starts from the beginning")
            (path / METRICS).unlink(missing_ok=True)
            (path / CHECKPOINTS).mkdir(exist_ok=True)
            return _start(prepared, path, console)
        save_vocabularies(path, prepared)  # it may have been killed while it wrote them
        return _train(prepared, path, plan, console, resume=True)


def _refuse_changed(run: Run, prepared: PreparedRun) -> None:
    """Check that a run resumes with the data and the number of processes it was started with."""
    fingerprints = prepared.loaders.fingerprints.items()
    for split, (name, fingerprint) in zip(("training", "validation", "test"), fingerprints, strict=True):
        if run.info.get(name, fingerprint) != fingerprint:
            raise UserError(f"{run.path}: the {split} data have changed; restore them, or start a new run")
    if (processes := run.info.get("processes", 1)) != rank_info().world_size:
        raise UserError(
            f"{run.path}: was started with {processes} processes (trainer.devices times trainer.num_nodes) and cannot "
            f"resume with {rank_info().world_size}, since batches would be split differently; set them back, or start "
            "a new run"
        )


def _train_in_ranks(work: Callable[[], TrainedRun], config: Mapping[str, Any]) -> TrainedRun:
    """Train in several processes: the main one runs ``work``, the others follow it.

    This process starts them, unless another launcher started it as one of them.
    """
    if info := launched_info(config["trainer"]):
        try:
            with init_process_group(info):
                if info.rank == 0:
                    return work()
                folder = run_worker_rank(config)
        except Exception as error:
            if info.rank and not isinstance(error, UserError):
                error.add_note(f"Rank {info.rank} of {info.world_size} failed.")
            raise
        return load_run(folder)
    ranks = rank_infos(config["trainer"])
    if not can_fork(ranks[0].backend):
        reject_parts_of_this_process(config, "the processes that train together")
    return load_run(launch_ranks(work, partial(run_worker_rank, config), ranks))


def run_worker_rank(config: Mapping[str, Any]) -> Path:
    """Carry out the commands of the main process in another rank, which writes nothing; return the run folder."""
    prepared = prepare(config)
    folder = Path()
    for command in receive_commands():
        folder = Path(command.folder)
        if command.plan is None:
            measure_step(prepared)
        else:
            train(prepared, folder, command.plan, Console(file=io.StringIO()), command.resume)
    return folder


def _warm_up_notes(plan: StepPlan, config: Mapping[str, Any]) -> list[str]:
    """A note if the learning rate only rises."""
    warmup = config["lr_schedule"].get("warmup_steps", 0)
    if warmup <= plan.end:
        return []
    return [
        f"the learning rate rises until the end: lr_schedule.warmup_steps={warmup} is more than the {plan.end:,} steps"
    ]


def _finish(folder: Path, console: Console) -> TrainedRun:
    """Draw the pictures, write the README, and show the results."""
    build_reports(folder)
    console.print(results_table(read_run(folder)))
    console.print(file_list(folder), highlight=False, soft_wrap=True)
    return load_run(folder)
