"""The private APIs of Hydra that attnx uses exist, and one module uses them."""

from __future__ import annotations

import inspect
from pathlib import Path

import attnx
from attnx.config.hydra_internals import BASIC_SWEEPER, basic_sweeper, override_parser, split_jobs

FOLDER = Path(attnx.__file__).parent


def test_one_module_uses_private_apis():
    for name in ("hydra._internal", "hydra.core.global_hydra", "hydra.core.override_parser"):
        files = [file for file in FOLDER.rglob("*.py") if name in file.read_text("utf-8")]
        assert [str(file.relative_to(FOLDER)) for file in files] == ["config/hydra_internals.py"], name


def test_the_grid_sweeper_has_what_sweeps_use():
    """It checks each batch by the method that attnx replaces."""
    sweeper = basic_sweeper(max_batch_size=None)
    assert f"{type(sweeper).__module__}.{type(sweeper).__qualname__}" == BASIC_SWEEPER
    assert "self.validate_batch_is_legal(" in inspect.getsource(type(sweeper).sweep)
    assert sweeper.validate_batch_is_legal([["seed=1"]]) is None
    parsed = override_parser().parse_overrides(["scorer=dot,mlp", "seed=1"])
    assert [list(job) for job in split_jobs(parsed)] == [["scorer=dot", "seed=1"], ["scorer=mlp", "seed=1"]]


def test_overrides_are_parsed():
    override = override_parser().parse_override("scope.window=1,2")
    assert override.is_sweep_override()
    assert list(override.sweep_string_iterator()) == ["1", "2"]
