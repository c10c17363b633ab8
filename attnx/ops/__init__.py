"""Pure tensor functions: no parameters, no state."""

from attnx.ops.entmax import entmax as entmax
from attnx.ops.hardmax import hardmax as hardmax
from attnx.ops.linear_scan import decay_products as decay_products
from attnx.ops.linear_scan import linear_scan as linear_scan
from attnx.ops.masked_normalize import masked_normalize as masked_normalize
from attnx.ops.masked_normalize import masked_softmax as masked_softmax
from attnx.ops.monotonic_alignment import choice_probabilities as choice_probabilities
from attnx.ops.monotonic_alignment import hard_monotonic_alignment as hard_monotonic_alignment
from attnx.ops.monotonic_alignment import monotonic_alignment as monotonic_alignment
from attnx.ops.monotonic_alignment import start_alignment as start_alignment
from attnx.ops.reinforce import reinforce_loss as reinforce_loss
from attnx.ops.rotary import apply_rope as apply_rope
from attnx.ops.rotary import rope_cos_sin as rope_cos_sin
from attnx.ops.sample_one_hot import sample_one_hot as sample_one_hot
from attnx.ops.sparsemax import sparsemax as sparsemax
