"""Hydra's compose API with attnx's configurations; its errors become one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attnx.config.groups import conf_folder
from attnx.config.hydra_errors import translate_hydra_error
from attnx.config.hydra_internals import clear_hydra, version_base
from attnx.errors import UserError


@contextmanager
def hydra_session(overrides: Sequence[str], config_dir: str | None = None) -> Iterator[None]:
    """Initialize Hydra for a block, in which ``hydra.compose`` works.

    Args:
        overrides: what the block composes, for messages.
        config_dir: a folder of the user's own configuration files, searched first.

    Raises:
        UserError: the block raises it, or an error of Hydra.
    """
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from attnx.config.hydra_store import register_configs

    register_configs(config_dir)
    clear_hydra()
    try:
        with initialize_config_dir(str(conf_folder().resolve()), **version_base()):
            yield
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(translate_hydra_error(error, overrides)) from error
