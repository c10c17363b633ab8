"""The names of rows and figures, by which the ledger finds what sections measure."""

from __future__ import annotations

Shape = tuple[int, int, int, int]

MILLISECONDS, KERNEL_MILLISECONDS, PEAK = "ms", "ms of kernels", "peak MB"
"""Of a call as its caller waits for it, and of its kernels alone: small calls wait for the host."""
TIMES_RECIPROCALS = "kernels over reciprocals"
WORDS, TOKENS, IDLE, UTILIZATION, PHONE_ERRORS = "words/s", "tokens/s", "idle %", "MFU %", "PER %"
SECONDS = "s in all"

ATTNX, BROADCAST = "attnx", "broadcast form"
WAYS = {"forward": "forward", "both": "forward and backward"}
# A tensor of all pairs and units of the last shape has 8 GB, and the broadcast form keeps several.
SHAPES: tuple[Shape, ...] = ((64, 30, 30, 256), (16, 400, 400, 256), (2, 2000, 2000, 256))
"""Batch, queries, positions and width of operators."""

BY_HAND, GRAPHS = "by hand", "trainer.compile=graphs"
WITH_GRAPHS = f"{ATTNX}, {GRAPHS}"
RUN_THEN_ATTEND, LOOP = "run then attend", "step by step"
"""The first schedule, and the only one with a loop over time, which alone is compiled."""
FLOAT32 = "float32"

SEARCHES = ("greedy", "beam of 5")
LENGTHS = (1024, 8192)
"""Of the sequences of a transformer."""
WINDOW, ALIBI, SOFTCAP = "attnx, window of 128", "attnx, alibi", "attnx, soft cap"
MIXERS, MIXER_LENGTH = ("linear", "retention", "delta", "gated_delta", "gated_linear"), 8192
OWN, WITH_FLA = "definition", "flash-linear-attention"
MAIN = "attnx +scorer=additive +scope=local"
ONE_AT_A_TIME, FOUR_AT_A_TIME, ALL_AT_A_TIME = "one after another", "-j 4", "-j 16, on CPU cores"
"""How jobs are run."""


def operator_row(form: str, way: str, shape: Shape) -> str:
    """The row of an operator."""
    return f"{form}, {WAYS[way]}, {'x'.join(map(str, shape))}"


def training_row(row: str, schedule: str, precision: str) -> str:
    """The row of a training."""
    return f"{row}, {schedule}, {precision}"


def search_row(row: str, search: str) -> str:
    """The row of a search."""
    return f"{row}, {search}"


def transformer_row(row: str, length: int) -> str:
    """The row of a transformer."""
    return f"{row}, causal, length {length:,}"


def mixer_row(mixer: str, way: str, length: int) -> str:
    """The row of a transformer with a mixer in each layer."""
    return f"{mixer} by {way}, length {length:,}"
