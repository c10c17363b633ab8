"""A search chooses jobs by earlier results, resumes, and prunes hopeless trials."""

import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from attnx.config.compose import compose
from attnx.runs.sweep import Sweep, SweepJob, read_sweep
from attnx.sweeps.overrides import expand_sweep
from attnx.sweeps.record import save_sweep
from attnx.sweeps.search import OptunaSearch, read_search_space
from attnx.sweeps.session import SweepSession
from tests.run_folder import write_run_folder
from tests.runs.conftest import table

optuna = pytest.importorskip("optuna")
OVERRIDES = ["hydra/sweeper=search", "optimizer.lr=tag(log,interval(0.001,0.1))", "name=found"]
SEARCH_FOLDER = Path("multirun/found")
OPTIONS = {"n_trials": 9, "sampler": {"name": "RandomSampler"}, "pruner": None, "seed": 1}


def trials() -> list[Any]:
    study = optuna.load_study(study_name="attnx", storage=f"sqlite:///{SEARCH_FOLDER / 'study.db'}")
    return list(study.get_trials())


def new_sweep(folder: str, **facts: Any) -> Sweep:
    """A sweep in a new folder of the current one."""
    sweep = Sweep(Path(folder).absolute(), "attnx -m", **{"overrides": [], **facts})
    sweep.path.mkdir()
    return sweep


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_a_search_runs_its_number_of_trials_once(sweep):
    answer = sweep(*OVERRIDES, "hydra.sweeper.n_trials=2")
    assert answer.code == 0
    jobs = read_sweep(SEARCH_FOLDER).jobs
    assert [(job.status, job.attempts) for job in jobs] == [("finished", 1)] * 2
    assert len({job.values["optimizer.lr"] for job in jobs}) == 2
    # What decides is validation, at its best.
    for job, trial in zip(jobs, trials(), strict=True):
        rows = table(SEARCH_FOLDER / str(job.index) / "metrics.csv")
        assert trial.value == min(float(row["valid_per"]) for row in rows)
        assert float(job.values["optimizer.lr"]) == trial.params["optimizer.lr"]
    assert sweep(*OVERRIDES, "hydra.sweeper.n_trials=3").code == 0
    assert [job.attempts for job in read_sweep(SEARCH_FOLDER).jobs] == [1, 1, 1]
    assert [trial.params["optimizer.lr"] for trial in trials()[:2]] == [
        float(job.values["optimizer.lr"]) for job in jobs
    ]


@pytest.mark.usefixtures("pruned_jobs")
def test_a_search_of_another_configuration_is_refused(sweep):
    assert sweep(*OVERRIDES, "hydra.sweeper.n_trials=1").code == 0
    answer = sweep(*OVERRIDES, "hydra.sweeper.n_trials=1", "trainer.max_steps=7")
    assert answer.code == 2
    assert "trainer.max_steps: saved 5, requested 7" in answer.err


def test_an_interrupted_job_resumes_in_a_new_trial_of_its_values(stop_sweep, sweep, moody, clear_moods):
    overrides = [*OVERRIDES, "scorer=moody", "hydra.sweeper.n_trials=2"]
    Path("wait").touch()
    stop_sweep(signal.SIGINT)
    assert sweep(*overrides).code == 130
    (cut,) = trials()
    assert not cut.state.is_finished()
    clear_moods()
    assert sweep(*overrides).code == 0
    assert [trial.state.name for trial in trials()] == ["FAIL", "COMPLETE", "COMPLETE"]
    assert trials()[1].params == cut.params
    assert [job.attempts for job in read_sweep(SEARCH_FOLDER).jobs] == [2, 1]


def test_a_failed_trial_is_tried_again_by_the_next_command(sweep, moody, clear_moods):
    """Once, and what has finished then is never trained again."""
    overrides = [*OVERRIDES, "scorer=moody", "hydra.sweeper.n_trials=2"]
    Path("fall").touch()
    assert sweep(*overrides).code == 1
    assert [job.attempts for job in read_sweep(SEARCH_FOLDER).jobs] == [1, 1]
    clear_moods()
    for _ in range(2):
        assert sweep(*overrides).code == 0
        assert [(job.status, job.attempts) for job in read_sweep(SEARCH_FOLDER).jobs] == [("finished", 2)] * 2
        assert [trial.state.name for trial in trials()] == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]
    assert [trial.params for trial in trials()[:2]] == [trial.params for trial in trials()[2:]]


def test_a_job_that_failed_is_not_tried_twice_by_one_command(search):
    """Though its values are suggested again."""
    started = []
    for job, _ in search._jobs():
        job.status, job.best = ("failed", None) if job.values == {"scorer": "dot"} else ("finished", 3.0)
        search._record_trial(job)
        started.append(job.index)
    assert started == [0, 1]
    states = [trial.state.name for trial in search.study.get_trials()]
    assert states == ["FAIL", "FAIL", "COMPLETE", "FAIL", "COMPLETE", "COMPLETE", "FAIL"]


@pytest.mark.parametrize(
    "sampler",
    [{"name": "BruteForceSampler"}, {"name": "GridSampler", "search_space": {"scorer": ["dot", "mlp", "scaled"]}}],
    ids=lambda sampler: sampler["name"],
)
def test_a_search_ends_when_its_space_is_exhausted(sampler, work_folder):
    """What has failed is tried once more by the next command."""
    session = SweepSession(new_sweep("s"), {}, 1)
    for status, started in (("failed", [0, 1, 2]), ("finished", [1])):
        search = OptunaSearch(session, {**OPTIONS, "sampler": sampler}, ["scorer=choice(dot,mlp,scaled)"])
        indices = []
        for job, _ in search._jobs():
            job.status, job.best = (status if job.index == 1 else "finished"), 3.0
            search._record_trial(job)
            indices.append(job.index)
        assert indices == started
    assert sorted(job.values["scorer"] for job in session.sweep.jobs) == ["dot", "mlp", "scaled"]
    assert all(job.status == "finished" for job in session.sweep.jobs)


def test_a_job_that_is_tested_is_not_pruned(work_folder):
    """Its training has ended, and it would lose its results."""
    sweep = new_sweep("s")
    pruner = {"name": "MedianPruner", "n_startup_trials": 1, "n_warmup_steps": 1}
    search = OptunaSearch(SweepSession(sweep, {}, 1), {**OPTIONS, "pruner": pruner}, ["optimizer.lr=interval(0.1,0.9)"])
    done = search._suggest_job()
    curve(sweep.folder(done), [5.0] * 5, maximize=False)
    search._should_prune(done)
    done.status, done.best = "finished", 5.0
    search._record_trial(done)
    # A validation of warm-up prunes nothing, the next ones do, the last one does not.
    for count, is_pruned in ((1, False), (2, True), (4, True), (5, False)):
        job = search._suggest_job()
        curve(sweep.folder(job), [9.0] * count, maximize=False)
        assert search._should_prune(job) is is_pruned, count


def test_an_invalid_trial_fails_and_others_continue(sweep):
    # `scaled` has no option `hidden`; which of the two comes first does not matter.
    answer = sweep(
        "hydra/sweeper=search", "hydra.sweeper.n_trials=2", "name=found",
        "scorer=additive,scaled", "+scorer.hidden_size=13",
        "hydra.sweeper.sampler.name=RandomSampler",
        "~hydra.sweeper.sampler.n_startup_trials", "~hydra.sweeper.sampler.constant_liar",
    )  # fmt: skip
    for job, trial in zip(read_sweep(SEARCH_FOLDER).jobs, trials(), strict=False):
        assert (job.status, trial.state.name) == (
            ("failed", "FAIL") if job.values["scorer"] == "scaled" else ("finished", "COMPLETE")
        )
    assert answer.code in (0, 1)


def curve(folder: Path, values: list[float], maximize: bool, status: str = "running") -> None:
    """A run that has measured this in validation."""
    rows = [f"{10 * number},{value}" for number, value in enumerate(values, start=1)]
    info = {"status": status, "monitor": "valid_x", "maximize": maximize, "steps": 50}
    write_run_folder(folder, curve="\n".join(["step,valid_x", *rows]) + "\n", readme="# A run\n", **info)


@pytest.mark.parametrize("maximize", [False, True])
def test_a_trial_below_the_median_is_pruned(maximize, work_folder):
    sign = -1 if maximize else 1
    sweep = new_sweep("s")
    pruner = {"name": "MedianPruner", "n_startup_trials": 1}
    search = OptunaSearch(SweepSession(sweep, {}, 1), {**OPTIONS, "pruner": pruner}, ["optimizer.lr=interval(0.1,0.9)"])
    done = search._suggest_job()
    assert done is not None
    curve(sweep.folder(done), [sign * 9.0, sign * 5.0, sign * 3.0], maximize)
    assert not search._should_prune(done)  # there is nothing to compare it with
    done.status, done.best, done.maximize = "finished", sign * 3.0, maximize
    search._record_trial(done)
    for values, expected in (([8.0], False), ([10.0], True), ([8.0, 6.0], True), ([8.0, 4.0], False)):
        job = search._suggest_job()
        assert job is not None
        curve(sweep.folder(job), [sign * value for value in values], maximize)
        assert search._should_prune(job) is expected
        assert not search._should_prune(job)  # nothing new was found since
        job.status = "pruned"
        search._record_trial(job)
    states = [trial.state.name for trial in search.study.get_trials()]
    assert states == ["COMPLETE", *["PRUNED"] * 4]
    assert search.study.best_value == 3.0


@pytest.fixture
def search(work_folder):
    """A search of seven trials in ``s``, two at a time, to which the scorers of an iterator are suggested."""

    class Suggestions(optuna.samplers.RandomSampler):  # type: ignore[misc]
        def sample_independent(self, *_: Any) -> str:
            return next(scorers)

    scorers = iter(["dot", "dot", "mlp", "dot", "mlp", "mlp", "dot"])
    search = OptunaSearch(SweepSession(new_sweep("s"), {}, 2), {**OPTIONS, "n_trials": 7}, ["scorer=choice(dot,mlp)"])
    search.study.sampler = Suggestions()
    return search


def test_a_trial_of_a_running_job_takes_its_value(search):
    """Two of three jobs at a time run, and the third asks until no trial is left."""
    dot, mlp, nothing = (search._suggest_job() for _ in range(3))
    assert (dot.values, mlp.values, nothing) == ({"scorer": "dot"}, {"scorer": "mlp"}, None)
    for job, best in ((mlp, 3.0), (dot, 5.0)):
        job.status, job.best = "finished", best
        search._record_trial(job)
    assert [trial.value for trial in search.study.get_trials()] == [5.0, 5.0, 3.0, 5.0, 3.0, 3.0, 5.0]


def test_a_batch_holds_each_job_once(search, work_folder):
    launched: list[list[str]] = []

    def launch(jobs: Iterator[tuple[SweepJob, Any]]) -> None:
        for job, _ in jobs:
            launched.append(job.overrides)
            curve(work_folder / "s" / str(job.index), [7.0], maximize=False, status="finished")

    search.run_in_batches(launch)
    assert launched == [["scorer=dot"], ["scorer=mlp"]]
    assert [trial.value for trial in search.study.get_trials()] == [7.0] * 7


def test_the_search_example_composes():
    assert compose(["experiment=g2p_search"])["trainer"]["max_steps"] == 800


def test_a_missing_optuna_is_reported(refuse, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    line = refuse("-m", "experiment=g2p_search")
    assert "in the clone of attnx, pip install -c constraints.txt -e '.[optuna]'" in line


def test_an_optuna_that_is_too_old_is_reported(refuse, monkeypatch):
    versions = {"optuna": "3.6.1"}
    monkeypatch.setattr(metadata, "version", lambda name: versions.get(name, "99"))
    monkeypatch.setattr(metadata, "requires", lambda name: ["optuna>=4; extra == 'optuna'"])
    expected = "attnx: a search needs optuna 4 or newer, and this is 3.6.1: in the clone of attnx, pip install "
    assert refuse("-m", "experiment=g2p_search").startswith(expected)


# Overrides of a search, and how the line goes on.
REFUSED = {
    "optimizer.lr=0.01": "hydra/sweeper=search: nothing to search; give values: optimizer.lr=interval(0.001,0.01)\n",
    "optimizer.lr=interval(0.1,0.01)": (
        "optimizer.lr=interval(0.1,0.01): expected interval(low, high) with low below high\n"
    ),
    "optimizer.lr=tag(log,interval(0,0.1))": (
        "optimizer.lr=tag(log,interval(0,0.1)): a logarithmic scale begins above 0\n"
    ),
    "optimizer.lr=tag(exp,interval(0.01,0.1))": (
        "optimizer.lr=tag(exp,interval(0.01,0.1)): unknown tag 'exp'; a search knows tag(log, interval(...))\n"
    ),
    "scorer=glob(*)": "scorer=glob(*): a search cannot expand a pattern; list names, as in choice(dot,scaled)",
}
# Options of the search itself.
REFUSED |= {
    f"{OVERRIDES[1]} hydra.sweeper.{option}": f"hydra.sweeper.{message}"
    for option, message in {
        "sampler.name=TPSampler": "sampler.name=TPSampler: Optuna has no such sampler; did you mean TPESampler",
        "sampler.name=os.system": "sampler.name=os.system: Optuna has no such sampler; choose from Brute",
        "sampler.name=RandomSampler": "sampler.n_startup_trials: RandomSampler has no such option; choose from seed; "
        "leave it out: ~hydra.sweeper.sampler.n_startup_trials",
        "pruner.name=Median": "pruner.name=Median: Optuna has no such pruner; did you mean MedianPruner?",
        "pruner.n_warmup_steps=-1": "pruner: MedianPruner: Number of warmup steps cannot be negative",
        "pruner.n_warmup_steps=few": "pruner.n_warmup_steps=few: expected a whole number",
        "n_trials=0": "n_trials=0: expected a whole number, 1 or more",
        "seed=one": "seed=one: expected a whole number, 0 or more",
        "sampler.gama=3": "sampler.gama is not set; +hydra.sweeper.sampler.gama=VALUE adds an option of Optuna's",
    }.items()
}


@pytest.mark.parametrize(("overrides", "message"), REFUSED.items())
def test_a_search_that_cannot_be_made_is_refused(overrides, message, refuse):
    assert refuse("-m", "hydra/sweeper=search", *overrides.split()).startswith(f"attnx: {message}")


def test_a_distribution_that_is_unknown_or_of_a_grid_is_refused(refuse):
    unknown = refuse("-m", "hydra/sweeper=search", "optimizer.lr=normal(0,1)")
    assert "Unknown function 'normal'" in unknown
    assert "interval" in unknown
    assert "hydra/sweeper=search" in refuse("-m", "optimizer.lr=interval(0.001,0.1)")


def test_the_search_space_is_in_hydras_words():
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space = read_search_space(
        [
            "optimizer.lr=tag(log,interval(0.001,0.1))",
            "model.dropout=interval(0.0,0.4)",
            "decoder.layers=int(interval(1.5,3.5))",
            "attention.heads=range(1,8,2)",
            "decoding.temperature=range(0.5,1.0,0.25)",
            "scorer=choice(dot,mlp)",
            "+model.feed=now,next",
            "query=[token],[token,state]",
            "seed=1",
            "~trainer.max_time",
        ]
    )
    assert space.distributions == {
        "optimizer.lr": FloatDistribution(0.001, 0.1, log=True),
        "model.dropout": FloatDistribution(0.0, 0.4),
        "decoder.layers": IntDistribution(1, 3),
        "attention.heads": IntDistribution(1, 7, step=2),
        "decoding.temperature": FloatDistribution(0.5, 0.75, step=0.25),
        "scorer": CategoricalDistribution(["dot", "mlp"]),
        "+model.feed": CategoricalDistribution(["now", "next"]),
        "query": CategoricalDistribution(["[token]", "[token,state]"]),
    }
    assert space.fixed == ["seed=1", "~trainer.max_time"]


@pytest.mark.parametrize(
    "values", ["range(0.1,0.7,0.2)", "range(0.1,0.4,0.1)", "range(0.5,0.05,-0.15)", "range(1,2,0.25)"]
)
def test_a_range_of_decimals_is_searched_in_the_words_of_a_grid(values, work_folder):
    grid = [job[0] for job in expand_sweep([f"model.dropout={values}"]).jobs]
    sampler = {"name": "BruteForceSampler"}
    search = OptunaSearch(
        SweepSession(new_sweep("s"), {}, 1), {**OPTIONS, "sampler": sampler}, [f"model.dropout={values}"]
    )
    for job, _ in search._jobs():
        job.status, job.best = "finished", 3.0
        search._record_trial(job)
    assert sorted(job.overrides for job in search.session.sweep.jobs) == sorted([word] for word in grid)


def test_a_saved_search_reads_back(work_folder):
    sweep = new_sweep("s", overrides=["seed=1"], jobs=[SweepJob(0, ["seed=1"], "pruned", best=2.0)])
    save_sweep(sweep)
    assert read_sweep(sweep.path).jobs[0].status == "pruned"
