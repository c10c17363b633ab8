"""The laws of every task over pairs of sequences."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from attnx.data.examples import digest
from attnx.data.sample import sample_examples
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted
from attnx.laws.laws import PartLaws, quick
from attnx.laws.violation import Violation, describe_type, require
from attnx.tasks.contract import SequenceData, SequenceTask

DECLARED = {"monitor": str, "maximize": bool, "label_smoothing": float}
MAX_SHARED = 0.1  # of the examples of a split that are in another
NUM_DRAWN = 1000  # training examples of a task that draws them
NUM_EXAMPLES = 20  # that are evaluated, or one of each tag


class TaskLaws(PartLaws):
    """The laws of every task."""

    kind = "task"

    def _build(self) -> Any:
        drawn, options = self.candidate.declaration("num_drawn"), self.candidate.options
        return replace(self.candidate, options={drawn: NUM_DRAWN, **options} if drawn else options).build()

    @quick
    def declarations(self) -> None:
        """A task inherits ``SequenceTask``, and has ``monitor``, ``maximize`` and ``label_smoothing``."""
        inherits = SequenceTask in type(self.part).__mro__
        require(inherits, "", f"the class {type(self.part).__name__} must inherit attnx.tasks.contract.SequenceTask")
        for name, type_ in DECLARED.items():
            value = getattr(self.part, name, None)
            fits = isinstance(value, type_) or (type_ is float and isinstance(value, int))
            require(fits, name, f"its {name} is {value!r}; it must be a {type_.__name__}")

    def _load(self, part: SequenceTask | None = None) -> SequenceData:
        """The data of the task, or of another one, its type checked and no split empty."""
        data = (part or self.part).load()
        is_data = isinstance(data, SequenceData)
        require(is_data, "load", f"it returned {describe_type(data)} instead of a SequenceData")
        for name, pairs in data.pairs._asdict().items():
            has_pairs = len(pairs) or (name == "train" and data.rows is not None)
            require(has_pairs, "load", f"its {name} split has no pairs")
        assert isinstance(data, SequenceData)
        return data

    def equal_calls_agree(self) -> None:
        """Two loads give the same examples in the same order: what is drawn or shuffled follows from a seed."""
        first, second = (_digests(self._load(self._build())) for _ in range(2))
        for name, digests in first.items():
            is_same = second[name] == digests
            order = " in another order" if sorted(second[name]) == sorted(digests) else ""
            require(is_same, "load", f"a second load gives other data{order}: the {name} split differs")

    def splits_do_not_overlap(self) -> None:
        """Splits do not overlap: at most a tenth of the examples of one are in another, as short texts recur.

        A model is tested on what it was neither trained on nor chosen by.
        """
        data = self._load()
        digests = _digests(data)
        for first, second in itertools.combinations(digests, 2):
            earlier = {*digests[first]}
            shared = [number for number, key in enumerate(digests[second]) if key in earlier]
            if len(shared) > MAX_SHARED * len(digests[second]):
                source = quoted(data.pairs._asdict()[second][shared[0]].source_text)
                count = f"{len(shared):,} of {count_phrase(len(digests[second]), 'example')}"
                where = f"{count} of the {second} split are in the {first} split, too"
                raise Violation("load", f"{where}; the first: {source}")

    def monitor_is_measured(self) -> None:
        """Its metrics are modules by name, and the monitor is one of them or of the validation loss."""
        part, data = self.part, self._load()
        metrics = part.metrics(data.tags)
        are_modules = isinstance(metrics, dict) and all(isinstance(metric, nn.Module) for metric in metrics.values())
        require(are_modules, "metrics", "it returned no dictionary of torchmetrics Metrics")
        pairs, modules = sample_examples(data.pairs.valid, max(NUM_EXAMPLES, len(data.tags))), nn.ModuleDict(metrics)
        outputs = [list(pair.references[0]) if pair.target is None else pair.target for pair in pairs]
        part.update(modules, outputs, pairs)
        logged = {"valid_loss", *(["valid_perplexity"] if isinstance(data.target, Vocabulary) else [])}
        for name, metric in modules.items():
            result = metric.compute()  # type: ignore[operator]
            entries = result if isinstance(result, dict) else [""]
            logged |= {f"valid_{name}{entry and '_' + entry}" for entry in entries}
        message = f"monitor is {part.monitor!r}; logged are {', '.join(sorted(logged))}"
        require(part.monitor in logged, "monitor", message)

    def restored_tasks_are_the_same(self) -> None:
        """A task that is saved and restored detokenizes outputs to the same texts, and tokenizes these alike."""
        data, restored = self._load(), self._build()
        with tempfile.TemporaryDirectory() as folder:
            data.save_sides(Path(folder))
            self.part.save(Path(folder))
            restored.restore(Path(folder))
        for pair in data.pairs.test[:NUM_EXAMPLES] if isinstance(data.target, Vocabulary) else ():
            written = [str(symbol) for symbol in pair.references[0]]
            text = self.part.detokenize(written)
            require(restored.detokenize(written) == text, "restore", "restored, it gives another text")
            if isinstance(data.source, Vocabulary):
                same = _tokenized(restored, text, pair.tag) == _tokenized(self.part, text, pair.tag)
                require(same, "restore", "restored, it tokenizes a text differently")


def _digests(data: SequenceData) -> dict[str, list[bytes]]:
    """A digest of each example, by split; of training data that are encoded, one of all."""
    digests = {name: [digest(pair) for pair in pairs] for name, pairs in data.pairs._asdict().items()}
    return {**digests, "train": [data.rows.fingerprint().encode()]} if data.rows is not None else digests


def _tokenized(task: SequenceTask, text: str, tag: str) -> object:
    """The symbols of a text, or why the task does not take it."""
    try:
        return tuple(task.tokenize(text, tag))
    except UserError as error:
        return str(error)
