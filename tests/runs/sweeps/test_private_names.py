"""The private names of W&B that attnx uses still exist; test_hydra_internals.py has those of Hydra."""

from __future__ import annotations

import pytest


def test_wandbs_service_process(monkeypatch, work_folder):
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
