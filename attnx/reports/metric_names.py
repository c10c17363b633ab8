"""Names of metrics: labels, units, and whether higher is better.

Here are the metrics of several tasks; a task declares as much about its own in ``metric_facts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attnx.registry.part import undeclared
from attnx.registry.source_scan import catalog
from attnx.runs.results import CONTEXTS
from attnx.runs.results import VALID as VALID

LOWER_IS_BETTER: Final = ("per", "wer", "cer", "ter", "error_rate", "error", "mse", "mae", "loss", "perplexity",
                          "seconds", "memory_mb")  # fmt: skip
HIGHER_IS_BETTER: Final = ("accuracy", "bleu", "chrf", "f1", "per_second")
ACRONYMS: Final = ("per", "wer", "cer", "ter", "bleu", "mse", "mae")
MAX_PERCENT: Final = 100.0
# Metrics in percent.
PERCENT: Final = ("per", "wer", "cer", "ter", "symbol_error_rate", "sequence_error_rate", "error", "accuracy",
                  "macro_f1")  # fmt: skip
# Metrics not in percent that are errors, which are compared by their ratios.
ERRORS: Final = ("mse", "mae", "perplexity")
# What results are measured in.
UNITS: Final = {
    "test_per": "%  phone error rate",
    "test_wer": "%  word error rate",
    "test_symbol_error_rate": "%  symbol error rate",
    "test_sequence_error_rate": "%  sequence error rate",
    "test_error": "%  wrong answers",
    "test_scaled_error": "0 is perfect, 1 is the training mean",
    "test_mean_absolute_error": "in the data's units, over steps that prediction and reference have",
    "test_root_mean_squared_error": "in the data's units, over steps that prediction and reference have",
    "test_length_error": "steps too many or too few",
    "train_examples_per_second": "examples/s in training",
    "train_flops": "operations a target token in training",
    **{f"decode_flops_{n}": f"operations a decoded token after {n:,} positions" for n in CONTEXTS},
    "state_bytes": "bytes of state, of the longest test example",
    **{f"state_bytes_{n}": f"bytes of state after {n:,} positions" for n in CONTEXTS},
    "train_seconds": "s of training, validation included",
    "train_cpu_seconds": "s of CPU time in it, all threads",
}
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
    for name, facts in declared_facts().items():
        if "higher_is_better" in facts and f"_{name}_" in f"_{key}_":
            return bool(facts["higher_is_better"])
    return None


def declared_facts() -> dict[str, Mapping[str, Any]]:
    """What tasks declare of their own metrics, by name; of two tasks with one name the first counts."""
    tasks = [part for part in catalog().parts.values() if part.kind == "task" and not undeclared(part)]
    return {
        name: facts for part in reversed(tasks) for name, facts in part.declarations.get("metric_facts", {}).items()
    }


def is_percent(key: str) -> bool:
    """Whether a metric is a share in percent."""
    return bool(metric_base(key, PERCENT) or _facts(key).get("is_percent"))


def is_error(key: str) -> bool:
    """Whether a metric is an error, or a share of which the rest to 100 % is one."""
    return bool(is_percent(key) or metric_base(key, ERRORS) or _facts(key).get("is_error"))


def metric_unit(key: str) -> str:
    """What a result is measured in; "" if its name says all."""
    return UNITS.get(key) or str(declared_facts().get(key.removeprefix(TEST), {}).get("unit", ""))


def _facts(key: str) -> Mapping[str, Any]:
    """What a task declares of a metric, also of one for a tag or a size; empty if none does."""
    declared = declared_facts()
    return declared.get(metric_base(key, declared), {})


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
    metric = key.removeprefix(stage)
    labels = {name: str(facts["label"]) for name, facts in declared_facts().items() if "label" in facts}
    name = metric_base(metric, labels) or metric.split("_")[0]
    label = labels.get(name, name.upper() if name in ACRONYMS else name.replace("chrf", "chrF"))
    return (label + metric.removeprefix(name)).replace("_", " ") + (" in validation, best" if stage == VALID else "")
