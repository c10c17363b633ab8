"""Finds out, before a sweep writes anything, which of its jobs would refuse their data or their parts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from attnx.data.task_files import refuse_missing_files
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.job_process import JobSpec
from attnx.sweeps.processes import Processes
from attnx.sweeps.session import Configs, key

# The launchers whose jobs run on this machine. What a job would find on another one cannot be known here.
FORKING = "hydra_plugins.attnx.ProcessLauncher"
LOCAL = (FORKING, ".JoblibLauncher")
CALL, REFUSED, NUMBER, SECONDS = "attnx.sweeps.preflight:examine", "refused.json", -1, 60.0
# What changes nothing in what a run refuses.
ASIDE = ("seed", "name", "folder")


def is_local(launcher: str, cluster: str) -> bool:
    """Whether a launcher of Hydra's, named by its class and what it sends jobs to, runs them on this machine."""
    return launcher.endswith(LOCAL) or cluster == "local"


def check_jobs(
    jobs: Sequence[Sequence[str]], configs: Configs, environment: Mapping[str, str], processes: Processes
) -> None:
    """Check jobs in a copy of the process that jobs are forked from.

    Args:
        jobs: what is asked of each.
        configs: theirs, composed and checked, by what is asked.
        environment: of a job's process.
        processes: what starts that.

    Raises:
        UserError: some would refuse what they are asked, with the first of them and why.
    """
    settings = _settings(jobs, configs)
    with TemporaryDirectory(prefix="attnx-") as folder, Console().status("checking what the jobs will read ..."):
        chosen = [configs[key(asked[0])] for asked in settings]
        task = JobSpec({"folder": folder, "settings": chosen}, [], environment, str(Path.cwd()), CALL)
        processes.start(NUMBER, task)
        while not processes.wait(SECONDS):
            pass
        refused = read_mapping(Path(folder, REFUSED))  # empty if that process was killed; then the jobs will tell
    _refuse(settings, [*refused.values()])


def check_files(jobs: Sequence[Sequence[str]], configs: Configs) -> None:
    """See that the files are there which jobs name, before anything heavy is imported.

    Raises:
        UserError: some are not, with the first job that names one.
    """
    settings = _settings(jobs, configs)
    _refuse(settings, [_missing(configs[key(asked[0])]) for asked in settings])


def _missing(config: Mapping[str, Any]) -> str:
    try:
        refuse_missing_files(config["task"])
    except UserError as error:
        return str(error)
    return ""


def _settings(jobs: Sequence[Sequence[str]], configs: Configs) -> list[list[Sequence[str]]]:
    """Jobs, those together that are of the same setting."""
    settings: dict[str, list[Sequence[str]]] = {}
    for job in jobs:
        config = {name: value for name, value in configs[key(job)].items() if name not in ASIDE}
        settings.setdefault(json.dumps(config), []).append(job)
    return [*settings.values()]


def _refuse(settings: Sequence[Sequence[Sequence[str]]], refused: Sequence[str]) -> None:
    if any(refused):
        raise UserError(_told(settings, refused))


def _told(settings: Sequence[Sequence[Sequence[str]]], refused: Sequence[str]) -> str:
    """Say it in one line; with the job, unless all are refused for the same reason."""
    if len({*refused}) == 1:
        return refused[0]
    jobs = [SweepJob(number, list(job)) for number, job in enumerate(job for jobs in settings for job in jobs)]
    count = sum(len(jobs) for jobs, why in zip(settings, refused, strict=True) if why)
    first = next(number for number, why in enumerate(refused) if why)
    sweep = Sweep(Path(), "", [], jobs=jobs)
    setting = sweep.label(jobs[sum(map(len, settings[:first]))])
    return f"{count} of {len(jobs)} jobs cannot run, the first is {setting}: {refused[first]}"


def examine(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """In a process of its own: prepare a run of each setting, and write why it is refused, "" if it is not.

    Settings with the same task share its data, so that these are read once. Nothing is trained or compiled.

    Args:
        config: the ``settings``, composed and checked, and the ``folder`` to write into.
        overrides: nothing.
    """
    refused: dict[int, str] = {}
    numbered = sorted(enumerate(config["settings"]), key=_task)
    for _, held in itertools.groupby(numbered, key=_task):
        numbers, settings = zip(*held, strict=True)
        refused |= zip(numbers, _refusals(settings), strict=True)
    write_json(Path(config["folder"], REFUSED), dict(sorted(refused.items())))


def _task(numbered: tuple[int, Mapping[str, Any]]) -> str:
    return json.dumps(numbered[1]["task"])


def _refusals(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why runs of one task would not begin."""
    from attnx.training.train import load

    data: Any = None

    def read() -> None:
        nonlocal data
        refuse_missing_files(settings[0]["task"])
        data = load(settings[0])

    reason = _refusal(read)
    if data is None:
        return [reason] * len(settings)
    return [_refusal(partial(_prepare, setting, data)) for setting in settings]


def _prepare(config: Mapping[str, Any], data: Any) -> None:
    from attnx.laws.first_use import check_plug_ins
    from attnx.training.distributed.devices import several, with_devices
    from attnx.training.train import assemble

    check_plug_ins(config)
    counted = with_devices(config)
    if not several(counted["trainer"]):
        assemble(counted, *data)


def _refusal(act: Callable[[], Any]) -> str:
    """What a user could mend; of whatever else goes wrong the run itself tells, with its traceback."""
    from attnx.laws.first_use import plug_ins_named

    try:
        with plug_ins_named():
            act()
    except UserError as error:
        return str(error)
    except Exception:
        return ""
    return ""
