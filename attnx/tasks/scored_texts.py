"""Tasks whose outputs are texts, scored by BLEU, chrF and TER."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from torch import nn

from attnx import registry
from attnx.data.examples import Pair
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_mapping
from attnx.metrics.per_tag import PerTag, metrics_per_tag, update_all
from attnx.metrics.sacrebleu_scores import MIN_BLEU_TOKENS, BleuTokenizer, tokenizer_for
from attnx.runs.layout import BLEU_OPTIONS
from attnx.tasks.contract import TaskOutput, TextTask

SCORES = ("bleu", "chrf", "ter")
NO_BLEU = (
    f"no reference of the validation has {MIN_BLEU_TOKENS} words, so that BLEU cannot tell outputs apart; chrF chooses "
    "the best weights"
)


class ScoredTextTask(TextTask):
    """A task of texts with the scores of translations."""

    monitor: str
    lower: bool  # whether texts are compared in lower case
    bleu_tokenize: BleuTokenizer | None  # sacreBLEU's tokenization for BLEU; None until it follows from the data
    notes: list[str]

    def fit_scores(self, valid: Sequence[Pair]) -> None:
        """Choose BLEU's tokenization by the script of the references, and the monitor by whether BLEU can tell."""
        texts = [text for pair in valid for text in pair.texts]
        self.bleu_tokenize = self.bleu_tokenize or tokenizer_for(texts)
        tokenize = registry.build("metric", ("bleu", {"tokenize": self.bleu_tokenize})).scorer.tokenizer
        if all(len(tokenize(text).split()) < MIN_BLEU_TOKENS for text in texts):
            self.monitor = self.monitor.replace("bleu", "chrf")
            self.notes.insert(0, NO_BLEU)

    def metrics(self, tags: Sequence[str]) -> dict[str, nn.Module]:
        """Build BLEU, chrF and TER; with several languages, for each, their mean and all sentences."""
        scores: dict[str, dict[str, object]] = {name: {"name": name, "lower": self.lower} for name in SCORES}
        scores["bleu"]["tokenize"] = self.bleu_tokenize or "13a"
        return metrics_per_tag(scores, tags if len(tags) > 1 else ())

    def update(self, metrics: nn.ModuleDict, outputs: Sequence[TaskOutput], pairs: Sequence[Pair]) -> None:
        """Update the metrics with a batch, as texts."""
        texts = [self.detokenize(list(symbols)) for symbols in outputs]
        update_all(metrics, texts, [pair.texts for pair in pairs], [pair.tag for pair in pairs])

    def signatures(self, metrics: nn.ModuleDict) -> dict[str, str]:
        """Return sacreBLEU's signature of each metric, so that scores can be compared."""
        plain = {name: metric.metrics[0] if isinstance(metric, PerTag) else metric for name, metric in metrics.items()}
        return {name: str(metric.signature) for name, metric in plain.items()}

    def save(self, folder: Path) -> None:
        """Write the tokenizers, and BLEU's tokenization, which depends on the data."""
        super().save(folder)
        write_json(folder / BLEU_OPTIONS, {"tokenize": self.bleu_tokenize})

    def restore(self, folder: Path) -> None:
        """Read what :meth:`save` wrote."""
        super().restore(folder)
        saved = read_mapping(folder / BLEU_OPTIONS).get("tokenize")
        if saved in get_args(BleuTokenizer):
            self.bleu_tokenize = self.bleu_tokenize or saved
