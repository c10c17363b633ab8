"""Has Hydra carry out a command line: sweeps, printing configurations, completing choices."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from attnx.config.groups import conf_folder
from attnx.config.hydra_errors import translate_hydra_error
from attnx.config.hydra_internals import version_base
from attnx.config.hydra_session import register_configs
from attnx.errors import UserError


def run_hydra(argv: Sequence[str], task: Callable[[Any], Any], config_dir: str | None) -> int:
    """Run Hydra with flags and overrides; ``task`` gets the configuration of each job. Returns the exit code.

    Raises:
        UserError: an error of Hydra, in one line.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from attnx.sweeps.sweepers import register_plugins

    register_configs(config_dir)
    register_plugins()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing a traceback and exiting
    previous_argv, sys.argv = sys.argv, ["attnx", *argv]
    try:
        hydra.main(config_path=str(conf_folder().resolve()), config_name="config", **version_base())(task)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(translate_hydra_error(error, argv)) from error
    finally:
        sys.argv = previous_argv
    return 0


def print_from_hydra(flags: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """``--cfg hydra``, ``--info``, ``--shell-completion`` and the like."""
    return run_hydra([*flags, *overrides], lambda config: None, config_dir)
