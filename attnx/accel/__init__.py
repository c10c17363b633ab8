"""Speed alone: the same numbers as the definitions, faster. Delete the folder, and what remains is plain torch.

``enable`` swaps modules of a model for faster ones, ``disable`` undoes it; ``fused_decoder`` is what searches decode
with.
"""

from attnx.accel.fused_decode import fused_decoder as fused_decoder
from attnx.accel.modules import disable as disable
from attnx.accel.modules import enable as enable
