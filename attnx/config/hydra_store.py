"""From part files and a user's folder to Hydra options: all that knows ConfigStore and the search path."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from attnx.config.groups import CHOSEN
from attnx.errors import UserError
from attnx.registry.source_scan import SETS, Part, catalog


class UserFolder(SearchPathPlugin):
    """Lets Hydra look into a user's own folder first: its ``--config-dir`` comes last, so shipped files would win."""

    folder: ClassVar[Path | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the folder before the one that ships."""
        if self.folder is not None:
            search_path.prepend("user", f"file://{self.folder}", "main")


def store_options(config_dir: str | None = None) -> None:
    """Offer every part in the catalog as an option of its kind's group, with its knobs' defaults.

    Args:
        config_dir: a folder of the user's own configuration files, searched first.

    Raises:
        UserError: there is no such folder.
    """
    if config_dir is not None and not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir}: no such folder")
    UserFolder.folder = Path(config_dir).resolve() if config_dir else None
    Plugins.instance().register(UserFolder)
    store = ConfigStore.instance()
    known = catalog()
    for kind in CHOSEN:
        # A part of a plug-in folder that is no longer in force must not linger in a long-lived process.
        store.repo.pop(kind, None)
        for name in known.names(kind):
            part = known.parts[kind, name]
            store.store(group=kind, name=name, node=_node(part), package=kind)


def _node(part: Part) -> dict[str, object]:
    knobs = {knob.name: knob.default for knob in part.knobs}
    # Of a set, such as a query, each member is a key of the one node, so a list of options merges into a set.
    return {part.name: knobs} if part.kind in SETS else {"name": part.name, **knobs}
