"""Registers parts as choices of Hydra's groups; the only module that uses ConfigStore and the search path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from attnx.config.groups import PART_GROUPS
from attnx.errors import UserError
from attnx.registry.source_scan import MULTI_SELECT_KINDS, Part, catalog


class UserFolder(SearchPathPlugin):
    """Puts the user's folder first on the search path; Hydra's ``--config-dir`` is last, so shipped files would win."""

    folder: ClassVar[Path | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the folder first."""
        if self.folder is not None:
            search_path.prepend("user", f"file://{self.folder}", "main")


def register_configs(config_dir: str | None = None) -> None:
    """Register every part in the catalog as a choice of its kind's group, with the defaults of its options.

    Raises:
        UserError: there is no folder ``config_dir``.
    """
    if config_dir is not None and not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir}: no such folder")
    if config_dir is not None and not os.access(config_dir, os.R_OK | os.X_OK):
        raise UserError(f"--config-dir {config_dir}: cannot be read: Permission denied")
    UserFolder.folder = Path(config_dir).resolve() if config_dir else None
    Plugins.instance().register(UserFolder)
    store = ConfigStore.instance()
    parts_catalog = catalog()
    for kind in PART_GROUPS:
        # An empty group: `callback=[]` is valid without callbacks, and no part of a previous plug-in folder stays.
        store.repo[kind] = {}
        for name in parts_catalog.names(kind):
            part = parts_catalog.parts[kind, name]
            store.store(group=kind, name=name, node=_node(part), package=kind)


def _node(part: Part) -> dict[str, object]:
    options = {option.name: option.default for option in part.options}
    # Members of a multi-select kind are keys of one node, so that a list of choices merges.
    return {part.name: options} if part.kind in MULTI_SELECT_KINDS else {"name": part.name, **options}
