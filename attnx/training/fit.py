"""One run from a configuration to a finished folder; what the command and a notebook both call."""

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
from attnx.inference.load import OpenRun, open_run, reopened
from attnx.inference.validate import FINISHED, TO_TRAIN, is_finished, read_resumable
from attnx.models.resolve import resolve
from attnx.registry.plugin_code import reject_parts_of_this_process
from attnx.reports.run.build_all import build_reports
from attnx.reports.run.readme import write_readme
from attnx.reports.run.results_table import file_list, results_table
from attnx.reports.run.start_table import start_table
from attnx.runs.layout import CHECKPOINTS, ERROR, EXPLANATION, METRICS
from attnx.runs.plugin_copies import code_now
from attnx.runs.run import read_run, refuse_links
from attnx.tasks.protocols import signatures_of
from attnx.training import run_folder
from attnx.training.callbacks.step_plan import StepPlan, read_plan
from attnx.training.distributed.devices import needs_launch, rank_infos, resolve_devices, training_device
from attnx.training.distributed.launcher import ProcessTask, can_fork, launch_ranks
from attnx.training.distributed.process_group import rank_info, receive_commands
from attnx.training.distributed.slurm import slurm_job
from attnx.training.failure_report import told
from attnx.training.logger_session import recorded
from attnx.training.plan_steps import measure, plan_steps
from attnx.training.train import PreparedRun, check_fits, placement_of, prepare, train


def fit(config: Mapping[str, Any], overrides: Sequence[str] = (), console: Console | None = None) -> OpenRun:
    """Train, test and report; return the run reopened with its best weights.

    Args:
        config: from :func:`attnx.compose`.
        overrides: what the user asked for, to be noted in the run folder.
        console: where to show progress; left out, the terminal.

    Raises:
        UserError: a mistake in the configuration or the data; nothing was written.
        Interrupted: Ctrl-C or another signal; the run can be resumed.
        RunFailed: the disk is full, memory ran out, the loss is no number ...; what is known of it, in one line.
    """
    config = _whole(config)
    code_now(config)  # a plug-in whose source cannot be kept is told before anything is written
    config = resolve_devices(config)
    if needs_launch(config):
        return _in_processes(ProcessTask("attnx.training.fit:fit", [config, list(overrides)]), config)
    console = console or Console()
    job = prepare(config)
    folder = run_folder.create(config, overrides, _facts(job))
    with _explained(folder, config["trainer"]):
        return _begin(job, folder, console)


def _whole(config: object) -> Mapping[str, Any]:
    """A configuration as :func:`attnx.compose` makes it, with the knobs that it leaves out.

    Raises:
        UserError: it is none, with how to make it one.
    """
    if not isinstance(config, Mapping) or not all(kind in config for kind in TO_TRAIN):
        words = config.split() if isinstance(config, str) else config if isinstance(config, list) else ["scorer=dot"]
        raise UserError(f"fit takes a whole configuration, as compose makes it: attnx.fit(attnx.compose({words!r}))")
    return registry.with_defaults(config)


def _begin(job: PreparedRun, folder: Path, console: Console) -> OpenRun:
    run_folder.save_vocabularies(folder, job.data, job.experiment.task)
    console.print(start_table(folder))
    plan = plan_steps(job, folder, console)
    run_folder.note(folder, **plan.run_fields())
    console.print(_length(plan, job.config["trainer"]))
    with recorded(job, folder, console):
        train(job, folder, plan, console)
        return _finish(job, folder, console)


def resume(folder: str | Path, console: Console | None = None) -> OpenRun:
    """Go on with a run that was stopped, from its last checkpoint; from its beginning if it had none yet.

    Raises:
        UserError: not a run folder, or its checkpoint does not fit.
        Interrupted: as of :func:`fit`.
        RunFailed: as of :func:`fit`.
    """
    path, console = Path(folder), console or Console()
    registry.forget_changed()
    run = read_resumable(path)
    refuse_links(path)
    config, info = {**run.config, "folder": str(path)}, run.info
    if is_finished(run):
        console.print(FINISHED.format(path), highlight=False, markup=False, soft_wrap=True)
        return open_run(path)
    if info.get("status") == "finished":  # killed after its results were written
        with told(path, {}):
            return _shown(path, console)
    config = resolve_devices(config)
    if needs_launch(config):
        return _in_processes(ProcessTask("attnx.training.fit:resume", [str(path)]), config)
    job = prepare(config)
    fingerprint = job.loaders.train_rows.fingerprint()
    if info.get("fingerprint", fingerprint) != fingerprint:
        raise UserError(f"{path}: the training data are not those the run began with; put them back, or start anew")
    if (began := info.get("processes", 1)) != rank_info().world_size:
        raise UserError(
            f"{path}: began with {began} processes (trainer.devices times trainer.num_nodes) and cannot go on with "
            f"{rank_info().world_size}: their shares of the data would be others; set them back, or start anew"
        )
    begun = "plan" in info and any((path / CHECKPOINTS).glob("*.ckpt"))
    if begun:
        check_fits(job.experiment, path)
        plan = read_plan(path, info, config["trainer"].get("max_time"))
    with _explained(path, config["trainer"]):
        run_folder.note(path, status="running", **({"error": None} if "error" in info else {}))
        for file in (ERROR, EXPLANATION):  # of the attempt before
            (path / file).unlink(missing_ok=True)
        if not begun:
            console.print(f"{path}: it had no checkpoint yet, so it starts from its beginning")
            (path / METRICS).unlink(missing_ok=True)
            (path / CHECKPOINTS).mkdir(exist_ok=True)
            return _begin(job, path, console)
        run_folder.save_vocabularies(path, job.data, job.experiment.task)  # it may have been killed amid that
        with recorded(job, path, console):
            train(job, path, plan, console, resume=True)
            return _finish(job, path, console)


@contextmanager
def _explained(folder: Path, trainer: Mapping[str, Any]) -> Iterator[None]:
    """Note how a run ended if it did not end well, and explain what its folder holds all the same.

    Raises:
        Interrupted: as :func:`fit`.
        RunFailed: as :func:`fit`.
    """
    try:
        with told(folder, trainer):
            yield
    except BaseException:
        with suppress(OSError, UserError):  # a disk may be full
            write_readme(folder)
        raise


def _in_processes(work: ProcessTask, config: Mapping[str, Any]) -> OpenRun:
    """Have several processes train; the first one as if it were alone, the others with it."""
    follow, ranks_here = ProcessTask("attnx.training.fit:follow", [config]), rank_infos(config["trainer"])
    if not can_fork(ranks_here[0].backend):
        reject_parts_of_this_process(config, "the processes that train together")
    return reopened(launch_ranks(work, follow, ranks_here))


def follow(config: Mapping[str, Any]) -> None:
    """Do what the first of several processes does, in another one, and write nothing."""
    job = prepare(config)
    for order in receive_commands():
        if order.plan is None:
            measure(job)
        else:
            train(job, Path(order.folder), order.plan, Console(file=io.StringIO()), order.resume)


def _facts(job: PreparedRun) -> dict[str, Any]:
    """What followed from the configuration, for the start table and the run folder."""
    pairs, drawn = job.data.pairs, job.loaders.data.pairs
    return {
        **_followed(job),
        "kernels": job.kernels,
        **_compiler(job),
        **({"compiled": job.compiled} if job.compiled else {}),
        "monitor": job.experiment.task.monitor,
        "maximize": job.experiment.task.maximize,
        "fingerprint": job.loaders.train_rows.fingerprint(),
        **_told(job),
        **_where(job.config),
        **({"slurm_job": slurm_job()} if slurm_job() else {}),
        "parameters": sum(weight.numel() for weight in job.experiment.model.parameters()),
        "data": f"{len(pairs.train) or len(job.loaders.train_rows):,} train, {_share(drawn.valid, pairs.valid)} valid, "
        f"{_share(drawn.test, pairs.test)} test; source {job.data.source}, target {job.data.target}"
        + (f"; tags {' '.join(job.data.tags)}" if job.data.tags else ""),
    }


def _share(drawn: Sequence[Any], part: Sequence[Any]) -> str:
    """How many examples were drawn, and of how many if not all."""
    return f"{len(drawn):,}" + (f" of {len(part):,}" if len(drawn) < len(part) else "")


def _where(config: Mapping[str, Any]) -> dict[str, Any]:
    """On what a run trains, if that is not one process on one device."""
    placed = {part: str(device) for part, device in placement_of(config).items()}
    return {
        **({"placement": placed} if placed else {}),
        **({"processes": rank_info().world_size} if rank_info().world_size > 1 else {}),
    }


def _length(plan: StepPlan, trainer: Mapping[str, Any]) -> str:
    """How long a run is to train."""
    if plan.seconds is None:
        return f"{plan.end:,} steps of {_batch(trainer)}"
    return f"{trainer['max_time']} of training: about {plan.end:,} steps of {_batch(trainer)}"


def _batch(trainer: Mapping[str, Any]) -> str:
    """How much a step sees."""
    if trainer.get("batch_tokens"):
        return f"up to {trainer['batch_tokens'] * trainer['accumulate_grad_batches'] * rank_info().world_size:,} tokens"
    return f"{trainer['batch_size'] * trainer['accumulate_grad_batches'] * rank_info().world_size} rows"


def _told(job: PreparedRun) -> dict[str, Any]:
    """What the task says of its data and metrics, if anything."""
    task = job.experiment.task
    notes = list(getattr(task, "notes", []))
    signatures = signatures_of(task, job.experiment.test_metrics)
    return {name: value for name, value in (("notes", notes), ("signatures", signatures)) if value}


def _followed(job: PreparedRun) -> dict[str, str]:
    """The settings that follow from the configuration, as far as its model resolves any."""
    resolved = resolve(job.config)
    summary: dict[str, str] = {} if resolved is None else resolved.summary()
    return {**summary, "follows": (summary.get("follows", "") + _projection(job)).strip()}


def _projection(job: PreparedRun) -> str:
    project: Any = getattr(getattr(job.experiment.model, "attention", None), "project", None)
    if not hasattr(project, "in_features"):
        return ""
    return f" projection={project.in_features}->{project.out_features} (the scorer needs equal widths)"


def _compiler(job: PreparedRun) -> dict[str, str]:
    """Why what the run could have in C it does not have, if so; a GPU computes nothing in C."""
    found = without_c(job.config) if training_device(job.config["trainer"]).type == "cpu" else None
    return {"compiler": found} if found else {}


def _finish(job: PreparedRun, folder: Path, console: Console) -> OpenRun:
    """Draw and explain what the folder holds, and show the results."""
    # Signatures are whole only now: how many references there were is known.
    run_folder.note(folder, status="finished", **_told(job))
    return _shown(folder, console)


def _shown(folder: Path, console: Console) -> OpenRun:
    build_reports(folder)
    console.print(results_table(read_run(folder)))
    console.print(file_list(folder), highlight=False, soft_wrap=True)
    return reopened(folder)
