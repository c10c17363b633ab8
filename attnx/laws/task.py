"""The laws of every task over pairs of sequences."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from attnx.data.sample import sample_examples
from attnx.data.vocabulary import Vocabulary
from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require
from attnx.tasks.contract import SequenceData

METHODS = ("load", "metrics", "update", "tokenize", "detokenize", "save", "restore")
FACTS = {"monitor": str, "maximize": bool, "smoothing": float}
NUM_EXAMPLES = 20  # that are evaluated, or one of each tag


def declarations(task: Candidate) -> None:
    """A task has a ``monitor``, ``maximize`` and ``smoothing``, and the methods of attnx.tasks.contract."""
    part = task.build()
    for fact, type_ in FACTS.items():
        value = getattr(part, fact, None)
        right = isinstance(value, type_) or (type_ is float and isinstance(value, int))
        require(right, fact, f"its {fact} is {value!r}; it must be a {type_.__name__}")
    missing = [name for name in METHODS if not callable(getattr(part, name, None))]
    require(not missing, "", f"{type(part).__name__} has no method {', '.join(missing)}")


def loaded(part: Any) -> SequenceData:
    """The task's data, its type checked and no split empty."""
    data = part.load()
    require(isinstance(data, SequenceData), "load", f"it returned {described(data)} instead of a SequenceData")
    for name, pairs in data.pairs._asdict().items():
        has_pairs = len(pairs) or (name == "train" and data.rows is not None)
        require(has_pairs, "load", f"its {name} split has no pairs")
    assert isinstance(data, SequenceData)
    return data


def monitor_is_measured(task: Candidate) -> None:
    """Its metrics are modules by name, and the monitor is one of them or of the validation loss."""
    part = task.build()
    data = loaded(part)
    metrics = part.metrics(data.tags)
    right = isinstance(metrics, dict) and all(isinstance(metric, nn.Module) for metric in metrics.values())
    require(right, "metrics", "it returned no dictionary of torchmetrics Metrics")
    pairs, modules = sample_examples(data.pairs.valid, max(NUM_EXAMPLES, len(data.tags))), nn.ModuleDict(metrics)
    part.update(modules, [pair.references[0] for pair in pairs], pairs)
    logged = {"valid_loss", *(["valid_perplexity"] if isinstance(data.target, Vocabulary) else [])}
    for name, metric in modules.items():
        result = metric.compute()  # type: ignore[operator]
        entries = result if isinstance(result, dict) else [""]
        logged |= {f"valid_{name}{entry and '_' + entry}" for entry in entries}
    require(part.monitor in logged, "monitor", f"monitor is {part.monitor!r}; logged are {', '.join(sorted(logged))}")


def restored_tasks_are_the_same(task: Candidate) -> None:
    """A task that is saved and restored detokenizes outputs to the same texts."""
    part, restored = task.build(), task.build()
    data = loaded(part)
    with tempfile.TemporaryDirectory() as folder:
        part.save(Path(folder))
        restored.restore(Path(folder))
    for pair in data.pairs.test[:NUM_EXAMPLES]:
        if isinstance(data.target, Vocabulary):
            written = [str(symbol) for symbol in pair.references[0]]
            require(
                restored.detokenize(written) == part.detokenize(written), "restore", "restored, it gives another text"
            )


QUICK = (declarations,)
LAWS = (*QUICK, monitor_is_measured, restored_tasks_are_the_same)
