"""Resuming a folder runs no code from that folder and writes nothing outside it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from attnx.cli import sweep as sweep_command
from attnx.sweeps.overrides import is_safe
from tests.runs.conftest import change_info


@pytest.fixture
def write_record(work_folder):
    """Write the record of a sweep of another user."""

    def write(*overrides: str, number: Any = 0, **facts: Any) -> Path:
        folder = work_folder / "multirun" / "theirs"
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [{"index": number, "overrides": ["scorer=dot"]}]
        record = {"format": 1, "command": "attnx -m", "overrides": list(overrides), "jobs": jobs}
        (folder / "sweep.json").write_text(json.dumps({**record, **facts}), encoding="utf-8")
        return folder

    return write


@pytest.mark.parametrize(
    "entry",
    [
        "+hydra.job.env_set.PYTHONPATH=evil",
        "++hydra.job.env_set={PYTHONPATH: evil}",
        "hydra.launcher._target_=os.system",
        "hydra.launcher={_target_: os.system}",
        "hydra.launcher.setup=[touch evil]",
        "hydra.launcher.partition='gpu\ntouch evil'",
        "+hydra.launcher.additional_parameters.wrap=evil",
        "+hydra.launcher.ray.init.address=evil",
        "+hydra.callbacks.mine._target_=os.system",
        "hydra.searchpath=[file://evil]",
        "hydra.sweep.dir=evil",
        "hydra/launcher=../evil",
        "hydra.sweeper.sampler._target_=os.system",
        "hydra.sweeper.params.hydra.launcher._target_=os.system",
        "~hydra.launcher",
        "experiment=../evil",
        "+experiment=../evil,none",
        "scorer@hydra.launcher=dot",
        "+scorer@_global_=dot",
        "name=${oc.env:HOME}",
        "scorer.hidden_size={_target_: os.system}",
        "evil",
    ],
)
def test_an_entry_that_could_run_code_is_refused(entry, write_record, refuse, monkeypatch):
    """Before anything is composed, since Hydra would then make what the entry names."""
    write_record("scorer=dot", entry)
    monkeypatch.setattr(sweep_command, "sweep", lambda *_: pytest.fail("it was gone on with"))
    line = refuse("resume", "multirun/theirs")
    assert line.startswith(f"attnx: multirun/theirs/sweep.json: holds {entry!r}, which could run code")


@pytest.mark.parametrize(
    "entry",
    [
        "scorer=dot,mlp",
        "hydra.sweeper.sampler.name=RandomSampler",
        "~hydra.sweeper.sampler.n_startup_trials",
        "+scorer=glob(*)",
        "query=[token,last_context]",
        "++scorer.hidden_size=7,11",
        "scorer@attention.other=dot",
        "decoder.hidden_size=${encoder.hidden_size}",
        "optimizer.lr=tag(log,interval(1e-4,1e-2))",
        "name=mine",
        "seed=range(1,9)",
        "placement.attention=cuda:1",
        "task.train='my words.tsv'",
        "~experiment",
        "hydra/launcher=slurm",
        "hydra/sweeper=search",
        "hydra.launcher.partition=gpu",
        "hydra.launcher.name=mine",
        "hydra.launcher.timeout_min=60",
        "hydra.sweeper.n_trials=20",
        "+hydra.sweeper.params.decoder.hidden_size='7,11'",
    ],
)
def test_parts_options_and_launchers_are_accepted(entry):
    assert is_safe(entry)


def test_overrides_of_jobs_are_checked(write_record, refuse):
    file = write_record("scorer=dot") / "sweep.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('[{"index": 0, "overrides": [', '[{"index": 0, "overrides": ["~hydra.job", '))
    assert "sweep.json: holds '~hydra.job'" in refuse("resume", "multirun/theirs")


def test_the_configuration_folder_must_be_given_to_resume(write_record, command, refuse, monkeypatch):
    """Its files could name a launcher of their own."""
    write_record("scorer=dot", config_dir="theirs")
    line = refuse("resume", "multirun/theirs")
    assert "sweep.json: holds the --config-dir 'theirs', which could run code" in line
    calls: list[Any] = []
    monkeypatch.setattr(sweep_command, "sweep", lambda *overrides: calls.append(overrides) or 0)
    assert command("resume", "multirun/theirs", "--config-dir", "mine", "-j", "3").code == 0
    assert calls == [(sweep_command.SweepArgs(["scorer=dot"], "mine", 3), Path("multirun/theirs"))]


def test_as_many_jobs_run_at_a_time_as_before(write_record, command, monkeypatch):
    write_record("scorer=dot", max_parallel=4)
    calls: list[Any] = []
    monkeypatch.setattr(sweep_command, "sweep", lambda args, folder: calls.append(args.max_parallel) or 0)
    assert command("resume", "multirun/theirs").code == 0
    assert command("resume", "multirun/theirs", "-j", "3").code == 0
    assert calls == [4, 3]
    write_record("scorer=dot", max_parallel="many")
    assert "damaged (max_parallel is no number of jobs)" in command("resume", "multirun/theirs").err


def test_a_job_number_that_leaves_the_folder_is_refused(write_record, refuse):
    write_record("scorer=dot", number="../../../evil")
    line = refuse("resume", "multirun/theirs")
    assert "sweep.json: damaged (job 0 has the index '../../../evil')" in line


@pytest.mark.parametrize("place", ["0", "0/checkpoints", "study.db"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(place, write_record, refuse, words, small, work_folder):
    """A job without a checkpoint empties its folder."""
    own_folder = work_folder / "mine"
    own_folder.mkdir()
    (own_folder / "kept").touch()
    link = write_record(*small) / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(own_folder)
    line = refuse("resume", "multirun/theirs")
    assert f"multirun/theirs/{place}: is a link that leads out of multirun/theirs" in line
    assert (own_folder / "kept").exists()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"hydra": {"job": {"env_set": {"PYTHONPATH": "evil"}}}}, "'hydra' is not a key of a run; remove it"),
        ({"_target_": "os.system"}, "'_target_' is not a key of a run; remove it"),
        ({"seed": [1]}, "seed=[1]: expected a whole number"),
        ({"placement": {"attention": [1]}}, "placement.attention=[1]: expected the name of a device"),
        ({"scorer": {"name": "dot", "_target_": "os.system"}}, "the scorer 'dot' has no option '_target_'"),
        ({"scorer": {"name": "os.system"}}, "unknown scorer 'os.system'"),
    ],
)
def test_a_run_resumes_with_parts_and_options_only(entry, message, runs, refuse):
    config = Path("one/config.yaml")
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text(encoding="utf-8")), **entry}), encoding="utf-8")
    assert refuse("resume", "one").startswith(f"attnx: one/config.yaml: {message}")


@pytest.mark.parametrize("place", ["metrics.csv", "wandb", "wandb/offline-run"])
def test_a_run_with_an_outside_link_is_not_resumed(place, runs, refuse, work_folder):
    (work_folder / "mine").touch()
    change_info("one", status="interrupted")
    link = Path("one", place)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(work_folder / "mine")
    assert f"one/{place}: is a link that leads out of one" in refuse("resume", "one")
