"""What a run folder is called inside: its format number and file names, for writers and readers."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1

RUN: Final = "run.json"
CONFIG: Final = "config.yaml"
METRICS: Final = "metrics.csv"
RESULTS: Final = "results.json"
PREDICTIONS: Final = "predictions.tsv"
ALIGNMENTS: Final = "alignments"
CHECKPOINTS: Final = "checkpoints"
VOCABULARY: Final = "vocabulary"
