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
from attnx.tasks.protocols import SequenceData

METHODS = ("load", "metrics", "update", "symbols", "text", "save", "restore")
FACTS = {"monitor": str, "maximize": bool, "smoothing": float}
SHOWN = 20  # so many examples are judged, or one of each tag


def declarations(task: Candidate) -> None:
    """A task has a ``monitor``, ``maximize`` and ``smoothing``, and the methods of attnx.tasks.protocols."""
    part = task.build()
    for fact, type_ in FACTS.items():
        found = getattr(part, fact, None)
        right = isinstance(found, type_) or (type_ is float and isinstance(found, int))
        require(right, fact, f"its {fact} is {found!r}; it must be a {type_.__name__}")
    missing = [name for name in METHODS if not callable(getattr(part, name, None))]
    require(not missing, "", f"{type(part).__name__} has no method {', '.join(missing)}")


def loaded(part: Any) -> SequenceData:
    """Its data, of the right type, no part of them empty."""
    data = part.load()
    require(isinstance(data, SequenceData), "load", f"it returned {described(data)} instead of a SequenceData")
    for name, pairs in data.pairs._asdict().items():
        held = len(pairs) or (name == "train" and data.rows is not None)
        require(held, "load", f"its {name} part holds no pairs")
    assert isinstance(data, SequenceData)
    return data


def the_monitor_is_measured(task: Candidate) -> None:
    """Its metrics are modules by name; shown the references as outputs they measure, the monitor among them."""
    part = task.build()
    data = loaded(part)
    metrics = part.metrics(data.tags)
    right = isinstance(metrics, dict) and all(isinstance(one, nn.Module) for one in metrics.values())
    require(right, "metrics", "it returned no dictionary of torchmetrics Metrics")
    pairs, held = sample_examples(data.pairs.valid, max(SHOWN, len(data.tags))), nn.ModuleDict(metrics)
    part.update(held, [pair.references[0] for pair in pairs], pairs)
    logged = {"valid_loss", *(["valid_perplexity"] if isinstance(data.target, Vocabulary) else [])}
    for name, metric in held.items():
        found = metric.compute()  # type: ignore[operator]
        entries = found if isinstance(found, dict) else [""]
        logged |= {f"valid_{name}{entry and '_' + entry}" for entry in entries}
    require(part.monitor in logged, "monitor", f"monitor is {part.monitor!r}; logged are {', '.join(sorted(logged))}")


def it_is_saved_and_restored(task: Candidate) -> None:
    """Restored from what it saved, a task makes the same texts of outputs."""
    part, other = task.build(), task.build()
    data = loaded(part)
    with tempfile.TemporaryDirectory() as folder:
        part.save(Path(folder))
        other.restore(Path(folder))
    for pair in data.pairs.test[:SHOWN]:
        if isinstance(data.target, Vocabulary):
            written = [str(symbol) for symbol in pair.references[0]]
            require(other.text(written) == part.text(written), "restore", "restored, it makes another text")


QUICK = (declarations,)
LAWS = (*QUICK, the_monitor_is_measured, it_is_saved_and_restored)
