"""Check, before a sweep writes anything, which of its jobs would reject their data or their parts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attnx.data.paths import check_task_files
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.expand_overrides import PLUGIN_MODULE
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.processes import Processes
from attnx.sweeps.session import Configs, overrides_key

# Launchers whose jobs run on this machine. What jobs find on another machine is not known here.
FORKING_LAUNCHER = f"{PLUGIN_MODULE}.ProcessLauncher"
LOCAL_LAUNCHERS = (FORKING_LAUNCHER, ".JoblibLauncher")
CHECK_TARGET, ERRORS_FILE, CHECK_JOB, WAIT_SECONDS = "attnx.sweeps.preflight:check_settings", "refused.json", -1, 60.0
# Keys that do not change whether a run is rejected.
NEUTRAL_KEYS = ("seed", "name", "folder")


def is_local(launcher: str, cluster: str) -> bool:
    """Whether a launcher, given by its class and its cluster, runs jobs on this machine."""
    return launcher.endswith(LOCAL_LAUNCHERS) or cluster == "local"


def check_jobs(
    jobs: Sequence[Sequence[str]], configs: Configs, environment: Mapping[str, str], processes: Processes
) -> None:
    """Check jobs in one process, started as the jobs will be.

    Args:
        jobs: the overrides of each.
        configs: their configurations, composed and checked, by :func:`attnx.sweeps.session.overrides_key`.
        environment: of a job's process.
        processes: starts the process.

    Raises:
        UserError: some would be rejected; with the first of them and the reason.
    """
    settings = _group_by_setting(jobs, configs)
    with TemporaryDirectory(prefix="attnx-") as folder, Console().status("checking what the jobs will read ..."):
        to_check = [configs[overrides_key(group[0])] for group in settings]
        config = {"folder": folder, "settings": to_check}
        processes.start(CHECK_JOB, JobSpec(config, [], environment, str(Path.cwd()), CHECK_TARGET))
        while not processes.wait(WAIT_SECONDS):
            pass
        errors = read_mapping(Path(folder, ERRORS_FILE))  # empty if the process was killed; then the jobs will report
    _raise_errors(settings, [*errors.values()])


def check_files(jobs: Sequence[Sequence[str]], configs: Configs) -> None:
    """Check that the files which jobs name exist, before anything slow is imported.

    Raises:
        UserError: some do not, with the first job that names one.
    """
    settings = _group_by_setting(jobs, configs)
    tasks = [configs[overrides_key(group[0])]["task"] for group in settings]
    _raise_errors(settings, [_error_of(partial(check_task_files, task)) for task in tasks])


def _group_by_setting(jobs: Sequence[Sequence[str]], configs: Configs) -> list[list[Sequence[str]]]:
    """Jobs grouped by their configuration without the neutral keys."""
    settings: dict[str, list[Sequence[str]]] = {}
    for job in jobs:
        config = {name: value for name, value in configs[overrides_key(job)].items() if name not in NEUTRAL_KEYS}
        settings.setdefault(json.dumps(config), []).append(job)
    return [*settings.values()]


def _raise_errors(settings: Sequence[Sequence[Sequence[str]]], errors: Sequence[str]) -> None:
    """Raise the errors of settings ("" for none) as one line, with the first job unless all have the same error."""
    if not any(errors):
        return
    if len({*errors}) == 1:
        raise UserError(errors[0])
    jobs = [SweepJob(index, list(job)) for index, job in enumerate(job for group in settings for job in group)]
    count = sum(len(group) for group, error in zip(settings, errors, strict=True) if error)
    first = next(index for index, error in enumerate(errors) if error)
    job = Sweep(Path(), "", [], jobs=jobs).label(jobs[sum(map(len, settings[:first]))])
    raise UserError(f"{count} of {len(jobs)} jobs cannot run, the first is {job}: {errors[first]}")


def check_settings(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """In a process of its own: prepare a run of each setting, and write its error, "" for none.

    Settings with the same task share its data, which are read once. Nothing is trained or compiled.

    Args:
        config: the ``settings``, composed and checked, and the ``folder`` to write into.
        overrides: none.
    """
    errors: dict[int, str] = {}
    by_task = sorted(enumerate(config["settings"]), key=_task_key)
    for _, group in itertools.groupby(by_task, key=_task_key):
        indices, settings = zip(*group, strict=True)
        errors |= zip(indices, _errors_of_task(settings), strict=True)
    write_json(Path(config["folder"], ERRORS_FILE), dict(sorted(errors.items())))


def _task_key(indexed: tuple[int, Mapping[str, Any]]) -> str:
    return json.dumps(indexed[1]["task"])


def _errors_of_task(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The errors of settings with the same task."""
    from attnx.laws.plug_ins import report_plug_in_errors
    from attnx.training.train import load

    data: Any = None

    @report_plug_in_errors()
    def read() -> None:
        nonlocal data
        check_task_files(settings[0]["task"])
        data = load(settings[0])

    error = _error_of(read)
    if data is None:
        return [error] * len(settings)
    return [_error_of(partial(report_plug_in_errors()(_prepare), setting, data)) for setting in settings]


def _prepare(config: Mapping[str, Any], data: Any) -> None:
    from attnx.laws.plug_ins import check_plug_ins
    from attnx.training.distributed.devices import needs_processes, resolve_devices
    from attnx.training.train import assemble

    check_plug_ins(config)
    resolved = resolve_devices(config)
    if not needs_processes(resolved["trainer"]):
        assemble(resolved, *data)


def _error_of(act: Callable[[], Any]) -> str:
    """The message of the UserError that an action raises; the run itself reports other errors, with a traceback."""
    try:
        act()
    except UserError as error:
        return str(error)
    except Exception:
        return ""
    return ""
