"""Has Hydra print configurations, and complete choices."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from attnx.config.groups import conf_folder
from attnx.config.hydra_errors import translate_hydra_error
from attnx.config.hydra_internals import version_base
from attnx.config.hydra_session import register_configs
from attnx.errors import UserError


def print_from_hydra(flags: Sequence[str], overrides: Sequence[str], config_dir: str | None = None) -> int:
    """``--cfg hydra``, ``--info``, ``--shell-completion`` and the like; returns the exit code.

    Raises:
        UserError: an error of Hydra, in one line.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    register_configs(config_dir)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing a traceback and exiting
    argv = [*flags, *overrides]
    previous_argv, sys.argv = sys.argv, ["attnx", *argv]
    try:
        main = hydra.main(config_path=str(conf_folder().resolve()), config_name="config", **version_base())
        main(lambda config: None)()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(translate_hydra_error(error, argv)) from error
    finally:
        sys.argv = previous_argv
    return 0
