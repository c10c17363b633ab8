"""The measures by which runs can be compared, and whether more of each is better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attnx.reports.outcome import UNITS
from attnx.reports.sweep.gather import Found

LESS = ("per", "wer", "cer", "ter", "error_rate", "error", "loss", "perplexity")
MORE = ("accuracy", "bleu", "chrf", "f1")
SPELLED = {"per": "PER", "wer": "WER", "cer": "CER", "ter": "TER", "bleu": "BLEU", "chrf": "chrF"}
TEST, VALID = "test_", "valid_"
PERCENT = ("per", "wer", "cer", "ter", "symbol_error_rate", "sequence_error_rate", "accuracy")


class Measure(NamedTuple):
    """Something measured of each run.

    Attributes:
        key: as in results.json; of validations, as in metrics.csv.
        label: as it is written.
        more: whether more is better.
        digits: after the point.
        unit: what its values are.
    """

    key: str
    label: str
    more: bool
    digits: int
    unit: str

    def said(self, value: float) -> str:
        """A value of it, in text."""
        return f"{value:,.{self.digits}f}"


def measures(runs: Sequence[Found], monitor: str, maximise: bool) -> list[Measure]:
    """All of them, what the best weights were chosen by first, as it was in the test."""
    primary = monitor.replace(VALID, TEST, 1)
    keys = dict.fromkeys([primary, *(key for run in runs for key in run.results if key.startswith(TEST)), monitor])
    found = []
    for key in keys:
        values = [value for run in runs if (value := value_of(run, key)) is not None]
        more = maximise if key in (primary, monitor) else more_is_better(key)
        if values and more is not None:
            unit = UNITS.get(key, "%" if _base(key) in PERCENT else "")
            found.append(Measure(key, label(key), more, _digits(values), unit))
    return found


def value_of(run: Found, key: str) -> float | None:
    """What a run has by a measure: of one of validation its best."""
    if not key.startswith(VALID):
        return run.results.get(key)
    values = run.curves.get(key, {}).values()
    return (max if run.maximise else min)(values) if values else None


def more_is_better(key: str) -> bool | None:
    """Whether more is better, by the name of a measure; None if the name does not tell."""
    name = f"_{key}_"
    for known, better in ((MORE, True), (LESS, False)):
        if any(f"_{one}_" in name for one in known):
            return better
    return None


def label(key: str) -> str:
    """A measure's name as it is written.

    >>> label("test_per_macro"), label("valid_bleu"), label("test_scaled_error")
    ('PER macro', 'BLEU in validation, best', 'scaled error')
    """
    stage = VALID if key.startswith(VALID) else TEST
    words = key.removeprefix(stage).split("_")
    return " ".join([SPELLED.get(words[0], words[0]), *words[1:]]) + (" in validation, best" if stage == VALID else "")


def _base(key: str) -> str:
    name = key.removeprefix(TEST).removeprefix(VALID)
    return next((one for one in PERCENT if name == one or name.startswith(f"{one}_")), "")


def _digits(values: Iterable[float]) -> int:
    """Two, or more where values are small."""
    largest = max(map(abs, values))
    return 2 if largest >= 1 or largest == 0 else 4
