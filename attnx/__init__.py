"""attnx: attention as four choices, a scorer, a scope, query inputs and a normalizer, composed and compared.

Names are imported when first used: ``import attnx`` does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnx.version import __version__ as __version__

if TYPE_CHECKING:
    from attnx import attention as attention
    from attnx.config.compose import compose as compose
    from attnx.errors import UserError as UserError
    from attnx.inference.load import open_ensemble as open_ensemble
    from attnx.inference.load import open_run as open_run
    from attnx.registry import register as register
    from attnx.reports.sweep.report import report as report
    from attnx.training.fit import fit as fit

_HOMES = {
    "compose": "attnx.config.compose",
    "UserError": "attnx.errors",
    "register": "attnx.registry",
    "fit": "attnx.training.fit",
    "open_run": "attnx.inference.load",
    "open_ensemble": "attnx.inference.load",
    "report": "attnx.reports.sweep.report",
}


if not TYPE_CHECKING:  # a type checker would take every misspelled name for one of these

    def __getattr__(name: str) -> object:
        import importlib
        import sys

        if name == "attention":
            return importlib.import_module("attnx.attention")
        # No module may bear one of these names: once imported, it would stand in front of the name itself.
        if name not in _HOMES:
            raise AttributeError(f"module 'attnx' has no attribute {name!r}")
        if _HOMES[name] not in sys.modules:
            importlib.import_module("attnx.registry.dependencies").require_core_packages()
        return getattr(importlib.import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), "attention", *_HOMES})
