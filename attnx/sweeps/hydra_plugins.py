"""Hydra's sweepers of attnx, and the registration of its launchers and sweepers as plug-ins of Hydra's."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from attnx.config.hydra_internals import basic_sweeper
from attnx.sweeps.expand_overrides import PLUGIN_MODULE
from attnx.sweeps.launchers import ProcessLauncher, SlurmLauncher
from attnx.sweeps.optuna_sweeper import OptunaSweeper


class GridSweeper(Sweeper):
    """Runs every combination: Hydra's own sweeper, which does not compose each job again.

    It holds that sweeper and does not inherit from it: Hydra executes the files of its plug-ins again when it looks
    for them, and a class imported before no longer works.
    """

    __module__ = PLUGIN_MODULE

    def __init__(self, **options: Any) -> None:
        self.sweeper = basic_sweeper(**options)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.sweeper.setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> None:
        """Run all jobs."""
        self.sweeper.sweep(arguments)


def register_plugins() -> None:
    """Register attnx's launchers and sweepers with Hydra.

    Hydra takes plug-ins from the package ``hydra_plugins`` only, so this module goes by a name in it, too.
    """
    package = PLUGIN_MODULE.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:  # no other plug-in is installed
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = []
    sys.modules[PLUGIN_MODULE] = sys.modules[__name__]
    for plugin in (ProcessLauncher, SlurmLauncher, GridSweeper, OptunaSweeper):
        Plugins.instance().register(plugin)
