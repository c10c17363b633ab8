"""The private names of Optuna and W&B that attnx uses still exist; test_hydra_internals.py has those of Hydra."""

from __future__ import annotations

from typing import Any

import pytest


def test_optunas_trials_and_hydras_search_space() -> None:
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    from hydra.core.plugins import Plugins

    Plugins.instance()
    from attnx.sweeps.optuna_sweeper import _parse_space

    space, fixed = _parse_space(["optimizer.lr=interval(0.1,0.9)", "seed=1"])
    assert (list(space), fixed) == (["optimizer.lr"], {"seed": "1"})
    study = optuna.create_study()
    trial = optuna.trial.Trial(study, study.ask()._trial_id)
    assert 0.1 <= trial._suggest("optimizer.lr", space["optimizer.lr"]) <= 0.9
    assert study._storage.get_trial(trial._trial_id).intermediate_values == {}


def test_wandbs_service_process(monkeypatch: pytest.MonkeyPatch, work_folder: Any) -> None:
    """Its handle can be killed; else a service that hangs would outlive the run."""
    wandb = pytest.importorskip("wandb")
    from attnx.loggers.wandb_server import stop_service

    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    run = wandb.init(mode="offline", dir=str(work_folder), settings=wandb.Settings(silent=True, console="off"))
    process = wandb.setup()._connection._proc._process
    assert process.poll() is None
    run.finish()
    stop_service(wandb)
    assert process.wait(timeout=30) is not None
