"""Check, before a sweep writes anything, which of its jobs are equal, or would reject their data or their parts."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attnx import registry
from attnx.data.paths import check_task_files
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.files.printable import show_waiting
from attnx.inference.validate import check_named_files
from attnx.registry.plugin_errors import report_plug_in_errors
from attnx.runs.sweep import Sweep, SweepJob, overrides_key
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.match_widths import setting_key
from attnx.sweeps.processes import ForkServerProcesses
from attnx.sweeps.session import Configs

WAITING = "checking what the jobs will read ..."
ERRORS_FILE, CHECK_JOB, WAIT_SECONDS = "refused.json", -1, 60.0
MAX_DRAWN_EXAMPLES = 1000  # of a task that draws its training split; all of them have the same form


def reject_equal(jobs: Sequence[Sequence[str]], configs: Configs) -> None:
    """Refuse two jobs that are the same setting: a report would take their equal runs for those of two settings."""
    counts = Counter(map(overrides_key, jobs))
    if twice := next((job for job in jobs if counts[overrides_key(job)] > 1), None):
        raise UserError(f"{' '.join(twice)}: two jobs are the same; leave one out")
    settings: dict[str, tuple[tuple[str, str], ...]] = {}
    for job, config in configs.items():
        other = settings.setdefault(json.dumps(config, sort_keys=True), job)
        if other != job:
            pairs = [[pair for pair in one if pair not in two] for one, two in ((other, job), (job, other))]
            first, second = (" ".join(map("=".join, own)) for own in pairs)
            raise UserError(f"{first} and {second} are the same setting; leave one out")


def check_jobs(
    jobs: Sequence[Sequence[str]], configs: Configs, environment: Mapping[str, str], processes: ForkServerProcesses
) -> None:
    """Refuse jobs that would be rejected; they are checked in one process, started as the jobs will be."""
    groups = _group_by_setting(jobs, configs)
    settings = [configs[overrides_key(group[0])] for group in groups]
    _raise_errors(groups, find_errors(settings, environment, processes))


def find_errors(
    settings: Sequence[Mapping[str, Any]], environment: Mapping[str, str], processes: ForkServerProcesses
) -> list[str]:
    """Why each of some settings would be rejected, "" if it would not be; one process tries them, started as jobs are.

    The list is empty if the process was killed; then the jobs will report.
    """
    with TemporaryDirectory(prefix="attnx-") as folder, show_waiting(Console(), WAITING):
        config = {"folder": folder, "settings": settings}
        processes.start(CHECK_JOB, JobSpec(config, [], environment, str(Path.cwd()), check_settings))
        while not processes.wait(WAIT_SECONDS):
            pass
        return [*read_mapping(Path(folder, ERRORS_FILE)).values()]


def check_files(jobs: Sequence[Sequence[str]], configs: Configs) -> None:
    """Refuse jobs that name files which do not exist, before anything slow is imported."""
    groups = _group_by_setting(jobs, configs)
    _raise_errors(groups, [_attempt(check_named_files, configs[overrides_key(group[0])])[1] for group in groups])


def _group_by_setting(jobs: Sequence[Sequence[str]], configs: Configs) -> list[list[Sequence[str]]]:
    """Jobs that differ by seed and folder alone are a group, all of which would be rejected."""
    groups: dict[str, list[Sequence[str]]] = {}
    for job in jobs:
        groups.setdefault(setting_key(configs[overrides_key(job)]), []).append(job)
    return [*groups.values()]


def _raise_errors(groups: Sequence[Sequence[Sequence[str]]], errors: Sequence[str]) -> None:
    """Raise the errors of groups ("" for none) as one line, with the first job unless all have the same error."""
    failed = [(job, error) for group, error in zip(groups, errors, strict=False) for job in group if error]
    if not failed:
        return
    overrides, message = failed[0]
    if len({*errors}) > 1:
        jobs = [SweepJob(index, list(job)) for index, job in enumerate(itertools.chain(*groups))]
        label = Sweep(Path(), "", [], jobs=jobs).label(SweepJob(0, list(overrides)))
        message = f"{len(failed)} of {len(jobs)} jobs cannot run, the first is {label}: {message}"
    raise UserError(message)


def check_settings(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """In a process of its own: prepare a run of each of the ``settings``, and write its error, "" for none.

    Settings with the same task share its data, which are read once. Nothing is trained or compiled.
    """
    by_task: dict[str, dict[int, Mapping[str, Any]]] = {}
    for index, setting in enumerate(config["settings"]):
        by_task.setdefault(json.dumps(setting["task"]), {})[index] = setting
    errors: dict[int, str] = {}
    for settings in by_task.values():
        data, error = _attempt(read_task_data, next(iter(settings.values())))
        for index, setting in settings.items():
            errors[index] = error if data is None else _attempt(_prepare, setting, data)[1]
    write_json(Path(config["folder"], ERRORS_FILE), dict(sorted(errors.items())))


@report_plug_in_errors()
def read_task_data(config: Mapping[str, Any]) -> Any:
    """The task and its data, few of them if it draws them: all have the same form."""
    options = config["task"]
    check_task_files(options)
    if (option := registry.describe("task", options["name"]).declarations.get("num_drawn")) is not None:
        options = {**options, option: min(options[option], MAX_DRAWN_EXAMPLES)}
    task = registry.build("task", options)
    return task, task.load()


@report_plug_in_errors()
def _prepare(config: Mapping[str, Any], data: Any) -> None:
    from attnx.laws.check import check_plug_ins
    from attnx.training.distributed.devices import needs_processes, resolve_devices
    from attnx.training.train import assemble

    check_plug_ins(config)
    resolved = resolve_devices(config)
    if not needs_processes(resolved["trainer"]):
        task, examples = data
        assemble(resolved, task, examples)


def _attempt(action: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """The result of an action, and its UserError; the run itself reports other errors, with a traceback."""
    try:
        return action(*arguments), ""
    except UserError as error:
        return None, str(error)
    except Exception:
        return None, ""
