"""The private APIs of Hydra that attnx uses exist, and one module uses them."""

from __future__ import annotations

import inspect
from pathlib import Path

import attnx
from attnx.config.hydra_internals import BASIC_SWEEPER, basic_sweeper, override_parser

FOLDER = Path(attnx.__file__).parent


def test_one_module_uses_private_apis() -> None:
    private = ("hydra._internal", "overrides_parser import", "global_hydra import")
    files = [file for file in FOLDER.rglob("*.py") if any(name in file.read_text("utf-8") for name in private)]
    assert [str(file.relative_to(FOLDER)) for file in files] == ["config/hydra_internals.py"]


def test_the_grid_sweeper_has_what_sweeps_use() -> None:
    sweeper = basic_sweeper()
    assert f"{sweeper.__module__}.{sweeper.__qualname__}" == BASIC_SWEEPER
    assert [*inspect.signature(sweeper.split_arguments).parameters] == ["overrides", "max_batch_size"]
    assert [*inspect.signature(sweeper.validate_batch_is_legal).parameters] == ["self", "batch"]


def test_overrides_are_parsed() -> None:
    override = override_parser().parse_override("scope.window=1,2")
    assert override.is_sweep_override()
    assert list(override.sweep_string_iterator()) == ["1", "2"]
