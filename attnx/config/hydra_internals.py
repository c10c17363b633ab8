"""The APIs of Hydra that are not public; no other module imports ``hydra._internal`` or the parser of overrides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def version_base() -> dict[str, str]:
    """The argument by which Hydra 1.3 behaves like itself; from 1.4 on this is the default, and the argument warns."""
    import hydra

    return {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}


def is_glob(override: Any) -> bool:
    """Whether a parsed override is a pattern of names, as ``scorer=glob(*)``."""
    from hydra.core.override_parser.types import ValueType

    return bool(override.value_type is ValueType.GLOB_CHOICE_SWEEP)


def split_jobs(overrides: list[Any]) -> list[Sequence[str]]:
    """The overrides of each job of a grid, from parsed overrides."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    return [job for batch in BasicSweeper.split_arguments(overrides, None) for job in batch]


def override_parser(has_globs: bool = False) -> Any:
    """Hydra's parser of overrides; a parser of globs needs an initialized Hydra, whose groups they match."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create(GlobalHydra.instance().config_loader() if has_globs else None)


def clear_hydra() -> None:
    """Clear Hydra's global state, which allows one initialization at a time."""
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
