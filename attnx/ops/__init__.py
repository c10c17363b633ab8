"""Pure tensor functions: no parameters, no state."""

from attnx.ops.monotonic import choice_probabilities as choice_probabilities
from attnx.ops.monotonic import decay_products as decay_products
from attnx.ops.monotonic import hard_monotonic_alignment as hard_monotonic_alignment
from attnx.ops.monotonic import linear_scan as linear_scan
from attnx.ops.monotonic import monotonic_alignment as monotonic_alignment
from attnx.ops.monotonic import start_alignment as start_alignment
from attnx.ops.normalize import at_least_float32 as at_least_float32
from attnx.ops.normalize import entmax as entmax
from attnx.ops.normalize import hardmax as hardmax
from attnx.ops.normalize import has_autocast as has_autocast
from attnx.ops.normalize import is_all_true_on_cpu as is_all_true_on_cpu
from attnx.ops.normalize import is_tracing as is_tracing
from attnx.ops.normalize import masked_normalize as masked_normalize
from attnx.ops.normalize import masked_softmax as masked_softmax
from attnx.ops.normalize import product_dtype as product_dtype
from attnx.ops.normalize import sparsemax as sparsemax
from attnx.ops.normalize import unit_vectors as unit_vectors
from attnx.ops.rotary import apply_rope as apply_rope
from attnx.ops.rotary import rope_cos_sin as rope_cos_sin
from attnx.ops.sampling import reinforce_loss as reinforce_loss
from attnx.ops.sampling import sample_one_hot as sample_one_hot
