"""Hydra's compose API with the parts as its groups; what it composes as plain containers, its errors as one line."""

from __future__ import annotations

import builtins
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from attnx.config.groups import PART_GROUPS, conf_folder
from attnx.config.hydra_errors import translate_hydra_error
from attnx.config.hydra_internals import clear_hydra, version_base
from attnx.config.view import dotted_keys, value_text
from attnx.errors import UserError
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.registry.source_scan import catalog

ENVIRONMENT: Final = re.compile(r"\$\{.*\boc\.env\b", re.DOTALL)
_session = threading.RLock()
"""Held by the thread that has Hydra's session, of which a process has one."""


@contextmanager
def hydra_session(overrides: Sequence[str], config_dir: str | None = None) -> Iterator[None]:
    """Initialize Hydra for a block, in which ``hydra.compose`` works; its overrides are for messages.

    Raises:
        UserError: the block raises it, or an error of Hydra.
    """
    try:
        with _session:
            register_configs(config_dir)
            clear_hydra()
            with initialize_config_dir(str(conf_folder().resolve()), **version_base()):
                yield
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, YAMLError, OSError, RecursionError, ValueError) as error:
        raise UserError(translate_hydra_error(error, overrides, config_dir)) from error


def compose_by_hydra(overrides: Sequence[str], return_hydra_config: bool = False) -> Any:
    """What Hydra composes, in a session; with its own configuration if that is asked for.

    Raises:
        HydraException: it cannot, or fails at a value that it does not expect.
    """
    try:
        return compose("config", [*overrides], return_hydra_config=return_hydra_config)
    except (AssertionError, AttributeError, TypeError) as error:
        raise HydraException(f"Hydra cannot read {' '.join(overrides)}: {error}") from error


class PartSource(ConfigSource):
    """Gives Hydra each part in the catalog as a choice of its kind's group, with the defaults of its options.

    Hydra copies its ConfigStore for each composition; with all parts in it that took a third of the time.
    """

    @staticmethod
    def scheme() -> str:
        """The start of its address on the search path."""
        return "parts"

    def available(self) -> bool:
        """It needs no folder."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether this is a kind or all; a kind without parts is one, too: `callback=[]` is valid without callbacks."""
        return config_path.rstrip("/") in ("", *PART_GROUPS)

    def is_config(self, config_path: str) -> bool:
        """Whether this is a part: ``scorer/dot``."""
        return _kind_and_name(config_path) in catalog().parts and self.is_group(config_path.partition("/")[0])

    def load_config(self, config_path: str) -> ConfigResult:
        """The node of a part."""
        part = catalog().parts[_kind_and_name(config_path)]
        options = {option.name: option.default for option in part.options}
        # Members of a multi-select kind are keys of one node, so that a list of choices merges.
        node = {part.name: options} if part.kind in MULTI_SELECT_KINDS else {"name": part.name, **options}
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(node), {"package": part.kind})

    def list(self, config_path: str, results_filter: ObjectType | None) -> builtins.list[str]:
        """The parts of a kind, or all kinds."""
        group = config_path.rstrip("/")
        listed, type_listed = (catalog().names(group), ObjectType.CONFIG) if group else (PART_GROUPS, ObjectType.GROUP)
        return sorted(listed) if results_filter in (None, type_listed) else []


def _kind_and_name(config_path: str) -> tuple[str, str]:
    kind, _, name = config_path.partition("/")
    return kind, name.removesuffix(".yaml")


class SearchPath(SearchPathPlugin):
    """Puts the user's folder first; Hydra's ``--config-dir`` is last, so shipped files would win. Parts are last."""

    user_folder: ClassVar[Path | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the folder before what is shipped, and the parts behind it."""
        if self.user_folder is not None:
            search_path.prepend("user", f"file://{self.user_folder}", "main")
        search_path.append("parts", f"{PartSource.scheme()}://")


def register_configs(config_dir: str | None = None) -> None:
    """Register every part in the catalog, and the files in the user's folder, as choices of groups.

    Raises:
        UserError: there is no folder ``config_dir``.
    """
    if config_dir is not None and not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir}: no such folder")
    if config_dir is not None and not os.access(config_dir, os.R_OK | os.X_OK):
        raise UserError(f"--config-dir {config_dir}: cannot be read: Permission denied")
    SearchPath.user_folder = Path(config_dir).resolve() if config_dir else None
    for plugin in (SearchPath, PartSource):
        Plugins.instance().register(plugin)


def plain_config(config: Any) -> dict[str, Any]:
    """The configuration with its references resolved.

    Raises:
        UserError: a value reads a variable of the environment, which would be written into the run folder.
    """
    written: Any = OmegaConf.to_container(config, resolve=False)
    for key, value in dotted_keys(written).items():
        if ENVIRONMENT.search(text := value_text(value)):
            raise UserError(
                f"{key}={text}: a value of the environment, which may be a secret, would be written into the run "
                "folder; give the value itself"
            )
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}
