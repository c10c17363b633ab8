"""The private APIs of Hydra that attnx uses exist, and one module uses them."""

from pathlib import Path

import attnx
from attnx.config.hydra_internals import BASIC_SWEEPER, override_parser, split_jobs

FOLDER = Path(attnx.__file__).parent


def test_one_module_uses_private_apis():
    for name in ("hydra._internal", "hydra.core.global_hydra", "hydra.core.override_parser"):
        files = [file for file in FOLDER.rglob("*.py") if name in file.read_text("utf-8")]
        assert [str(file.relative_to(FOLDER)) for file in files] == ["config/hydra_internals.py"], name


def test_hydras_grid_splits_into_jobs():
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    assert f"{BasicSweeper.__module__}.{BasicSweeper.__qualname__}" == BASIC_SWEEPER
    parsed = override_parser().parse_overrides(["scorer=dot,mlp", "seed=1"])
    assert [list(job) for job in split_jobs(parsed)] == [["scorer=dot", "seed=1"], ["scorer=mlp", "seed=1"]]


def test_overrides_are_parsed():
    override = override_parser().parse_override("scope.window=1,2")
    assert override.is_sweep_override()
    assert list(override.sweep_string_iterator()) == ["1", "2"]
