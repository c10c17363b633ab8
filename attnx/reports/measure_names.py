"""What the names of measures tell: how they are written, and whether more of each is better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LESS: Final = (
    "per",
    "wer",
    "cer",
    "ter",
    "error_rate",
    "error",
    "mse",
    "mae",
    "rse",
    "loss",
    "perplexity",
    "tour_length",
    "tour_ratio",
    "seconds",
    "memory_mb",
)
MORE: Final = ("accuracy", "coverage", "well_formed", "bleu", "chrf", "f1", "corr", "per_second")
SPELLED: Final = {
    "per": "PER",
    "wer": "WER",
    "cer": "CER",
    "ter": "TER",
    "bleu": "BLEU",
    "chrf": "chrF",
    "mse": "MSE",
    "mae": "MAE",
    "rse": "RSE",
    "corr": "CORR",
}
# Measures in percent.
PERCENT: Final = (
    "per",
    "wer",
    "cer",
    "ter",
    "symbol_error_rate",
    "sequence_error_rate",
    "error",
    "accuracy",
    "area_coverage",
    "triangle_coverage",
    "well_formed",
)
# Measures that can be counted again on any part of a test: errors in a hundred symbols, or in a hundred sequences.
COUNTED: Final = {
    "per": "symbols",
    "wer": "sequences",
    "symbol_error_rate": "symbols",
    "sequence_error_rate": "sequences",
    "error": "sequences",
}
# Behind a measure of several tags: its mean over them, and the measure of all examples.
MACRO: Final = "macro"
MICRO: Final = "micro"
TEST: Final = "test_"
VALID: Final = "valid_"


def more_is_better(key: str) -> bool | None:
    """Whether more is better, by the name of a measure; None if the name does not tell.

    >>> more_is_better("test_bleu_macro"), more_is_better("test_mse"), more_is_better("steps")
    (True, False, None)
    """
    name = f"_{key}_"
    for known, better in ((MORE, True), (LESS, False)):
        if any(f"_{one}_" in name for one in known):
            return better
    return None


def measure_base(key: str, names: Iterable[str]) -> str:
    """The name among some that a measure has before its tag or size; "" if it has none of them.

    >>> [measure_base(key, PERCENT) for key in ("valid_per_macro", "test_accuracy_5", "test_mse")]
    ['per', 'accuracy', '']
    """
    measure = key.removeprefix(TEST).removeprefix(VALID)
    return next((name for name in names if measure == name or measure.startswith(f"{name}_")), "")


def label(key: str) -> str:
    """A measure's name as it is written.

    >>> label("test_per_macro"), label("valid_bleu"), label("test_scaled_error")
    ('PER macro', 'BLEU in validation, best', 'scaled error')
    """
    stage = VALID if key.startswith(VALID) else TEST
    words = key.removeprefix(stage).split("_")
    return " ".join([SPELLED.get(words[0], words[0]), *words[1:]]) + (" in validation, best" if stage == VALID else "")
