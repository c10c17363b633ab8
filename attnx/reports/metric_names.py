"""Names of metrics: labels, units, and whether higher is better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attnx.runs.metrics_csv import VALID as VALID

LOWER_IS_BETTER: Final = ("per", "wer", "cer", "ter", "error_rate", "error", "mse", "mae", "rse", "loss", "perplexity",
                          "tour_length", "tour_ratio", "seconds", "memory_mb")  # fmt: skip
HIGHER_IS_BETTER: Final = ("accuracy", "coverage", "well_formed", "bleu", "chrf", "f1", "corr", "per_second")
ACRONYMS: Final = ("per", "wer", "cer", "ter", "bleu", "mse", "mae", "rse", "corr")
MAX_PERCENT: Final = 100.0
# Metrics in percent.
PERCENT: Final = ("per", "wer", "cer", "ter", "symbol_error_rate", "sequence_error_rate", "error", "accuracy",
                  "area_coverage", "triangle_coverage", "well_formed", "macro_f1")  # fmt: skip
# Error rates that can be counted on any part of a test, in percent of symbols or of sequences.
COUNTED: Final = {
    "per": "symbols",
    "wer": "sequences",
    "symbol_error_rate": "symbols",
    "sequence_error_rate": "sequences",
    "error": "sequences",
}
# Suffixes of metrics per tag: the mean over tags, and the metric of all examples.
MACRO: Final = "macro"
MICRO: Final = "micro"
TEST: Final = "test_"


def is_higher_better(key: str) -> bool | None:
    """Whether a higher value of a metric is better, by its name; None if unknown.

    >>> is_higher_better("test_bleu_macro"), is_higher_better("test_mse"), is_higher_better("steps")
    (True, False, None)
    """
    for names, is_higher in ((HIGHER_IS_BETTER, True), (LOWER_IS_BETTER, False)):
        if any(f"_{name}_" in f"_{key}_" for name in names):
            return is_higher
    return None


def metric_base(key: str, names: Iterable[str]) -> str:
    """The base name of a metric without its tag or size, of some names; "" if it is none of them.

    >>> [metric_base(key, PERCENT) for key in ("valid_per_macro", "test_accuracy_5", "test_mse")]
    ['per', 'accuracy', '']
    """
    metric = key.removeprefix(TEST).removeprefix(VALID)
    return next((name for name in names if metric == name or metric.startswith(f"{name}_")), "")


def metric_label(key: str) -> str:
    """A metric's name in text.

    >>> metric_label("test_per_macro"), metric_label("valid_bleu"), metric_label("test_scaled_error")
    ('PER macro', 'BLEU in validation, best', 'scaled error')
    """
    stage = VALID if key.startswith(VALID) else TEST
    name, *words = key.removeprefix(stage).split("_")
    name = name.upper() if name in ACRONYMS else name.replace("chrf", "chrF")
    return " ".join([name, *words]) + (" in validation, best" if stage == VALID else "")
