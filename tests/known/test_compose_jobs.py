"""Jobs of a sweep have the configurations that each has by itself, by the private APIs of Hydra in one module."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import attnx
from attnx.config import hydra_session
from attnx.config.compose import compose, compose_jobs
from attnx.config.hydra_internals import BASIC_SWEEPER, override_parser, split_jobs
from attnx.errors import UserError


@pytest.fixture
def composed(monkeypatch):
    """The overrides of each composition by Hydra."""
    calls: list[Sequence[str]] = []
    own = hydra_session.compose_by_hydra
    monkeypatch.setattr(hydra_session, "compose_by_hydra", lambda words: calls.append(words) or own(words))
    return calls


def test_a_setting_is_composed_with_two_of_its_seeds(composed):
    jobs = [[f"scorer={scorer}", f"+seed={seed}"] for scorer in ("dot", "mlp") for seed in (3, 3, 1, 4, 5)]
    configs = compose_jobs(jobs)
    assert [list(overrides) for overrides in composed] == [
        [f"scorer={scorer}", f"++seed={seed}"] for scorer in ("dot", "mlp") for seed in (3, 3, 1)
    ]
    assert configs == [compose(job) for job in jobs]
    configs[0]["scorer"]["name"] = "changed"
    assert configs[3]["scorer"]["name"] == "dot"


def test_threads_compose_one_after_the_other():
    with ThreadPoolExecutor(1) as thread:
        with hydra_session.hydra_session([]):
            other = thread.submit(compose, ["seed=3"])
            wait([other], timeout=0.5)
            assert hydra_session.compose_by_hydra([])["seed"] == 1
        assert other.result()["seed"] == 3


def test_a_setting_that_refers_to_its_seed_is_composed_with_each(composed):
    jobs = [["task.train=words${seed}.tsv", f"seed={seed}"] for seed in (1, 2, 3)]
    assert [config["task"]["train"] for config in compose_jobs(jobs)] == ["words1.tsv", "words2.tsv", "words3.tsv"]
    assert len(composed) == 3


@pytest.mark.parametrize("seed", ["many", str(2**40)])
def test_each_seed_is_checked(seed):
    with pytest.raises(UserError, match=f"seed={seed}: expected a whole number"):
        compose_jobs([["seed=1"], ["seed=2"], [f"seed={seed}"]])


FOLDER = Path(attnx.__file__).parent


def test_one_module_uses_private_apis():
    for name in ("hydra._internal", "hydra.core.global_hydra", "hydra.core.override_parser"):
        files = [file for file in FOLDER.rglob("*.py") if name in file.read_text("utf-8")]
        assert [str(file.relative_to(FOLDER)) for file in files] == ["config/hydra_internals.py"], name


def test_hydras_grid_splits_into_jobs():
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    assert f"{BasicSweeper.__module__}.{BasicSweeper.__qualname__}" == BASIC_SWEEPER
    parsed = override_parser().parse_overrides(["scorer=dot,mlp", "seed=1"])
    assert [list(job) for job in split_jobs(parsed)] == [["scorer=dot", "seed=1"], ["scorer=mlp", "seed=1"]]


def test_overrides_are_parsed():
    override = override_parser().parse_override("scope.window=1,2")
    assert override.is_sweep_override()
    assert list(override.sweep_string_iterator()) == ["1", "2"]
