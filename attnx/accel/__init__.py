"""Speed alone: the same numbers as the definitions, faster. Delete the folder, and what remains is plain torch.

``enable`` swaps modules of a model for faster ones, ``disable`` undoes it; ``fused_decoder`` is what searches decode
with. Names are imported when first used, so that compiling C files does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnx.accel.fused_decode import fused_decoder as fused_decoder
    from attnx.accel.modules import disable as disable
    from attnx.accel.modules import enable as enable
else:

    def __getattr__(name: str) -> object:
        import importlib

        module = {"enable": "modules", "disable": "modules", "fused_decoder": "fused_decode"}.get(name)
        if module is None:
            raise AttributeError(f"module 'attnx.accel' has no attribute {name!r}")
        return getattr(importlib.import_module(f"attnx.accel.{module}"), name)
