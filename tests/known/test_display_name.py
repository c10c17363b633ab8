"""A run is named by its differences from the other jobs of its sweep or from the default composition."""

import pytest

import attnx
from attnx.runs.run import Run
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import save_sweep
from attnx.training.logger_session import display_name


def shown_name(*overrides: str, path: str = "multirun/runs/20260131-120000-abcdef", command: bool = True) -> str:
    config = attnx.compose(list(overrides))
    info = {"name": config["name"], "overrides": list(overrides) if command else []}
    run = Run(path)
    run.info, run.config = info, config
    return display_name(run, config)


@pytest.fixture
def sweep(tmp_path):
    """Write a sweep's record, and name one of its jobs."""

    def name(overrides: list[str], *jobs: list[str], number: int = 0) -> str:
        record = Sweep(tmp_path, "attnx -m", overrides, jobs=[SweepJob(place, job) for place, job in enumerate(jobs)])
        save_sweep(record)
        return shown_name(*jobs[number], path=str(record.folder(record.jobs[number])))

    return name


def test_a_job_is_named_by_its_setting(sweep):
    overrides = ["scorer=dot,mlp", "scope=global,local", "seed=range(1,3)", "encoder.hidden_size=7", "name=four"]
    jobs = [
        [f"scorer={scorer}", f"scope={scope}", f"seed={seed}", "encoder.hidden_size=7", "name=four"]
        for scorer in ("dot", "mlp")
        for scope in ("global", "local")
        for seed in (1, 2)
    ]
    assert sweep(overrides, *jobs, number=3) == "scorer=dot scope=local seed=2"


def test_the_first_job_of_a_search_is_named_by_its_setting(sweep):
    """The only job of a sweep by its overrides."""
    overrides = ["optimizer.lr=tag(log,interval(0.001,0.1))", "scorer=dot,mlp", "+query=[token,current_state]"]
    job = ["optimizer.lr=0.02", "scorer=mlp", "query=[token,current_state]"]
    assert sweep(overrides, job) == "optimizer.lr=0.02 scorer=mlp"
    assert sweep(["scorer=dot", "name=one"], ["scorer=dot", "name=one"]) == "scorer=dot"


def test_a_single_run_is_named_by_its_name_or_overrides():
    assert shown_name("name=mine", "scorer=dot") == "mine"
    choices = ["recipe=bahdanau", "decoder.cell=gru"]
    assert shown_name(*choices, "+logger=wandb", "logger.wandb.offline=true", "folder=x") == " ".join(choices)
    assert shown_name() == "20260131-120000-abcdef"


def test_a_run_from_python_is_named_by_its_differences():
    overrides = ["scorer=mlp", "scorer.depth=2", "query=[token,current_state]", "encoder.hidden_size=7", "seed=3"]
    result = shown_name(*overrides, "+logger=wandb", command=False)
    assert sorted(result.split()) == sorted(overrides)
    assert shown_name("scorer=additive", "seed=1", command=False) == "20260131-120000-abcdef"


def test_a_long_name_ends_at_a_word_and_a_long_word_is_cut():
    sizes = [f"{part}.hidden_size=100" for part in ("encoder", "decoder")]
    assert shown_name(*sizes, f"task.train={'long/' * 20}words.tsv") == f"{' '.join(sizes)} ..."
    path = "long/" * 40 + "words.tsv"
    assert shown_name(f"task.train={path}", "scorer=dot") == f"task.train={path}"[:116] + " ..."
