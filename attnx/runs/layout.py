"""File names inside a run folder, an evaluation's and a sweep's; every other package takes them from here."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1

# What a run is, and its configuration.
RUN_JSON: Final = "run.json"
CONFIG_YAML: Final = "config.yaml"
# Locked, and there, while a process trains the run.
RUN_LOCK: Final = "run.lock"
# What it measured.
METRICS: Final = "metrics.csv"
PROFILE: Final = "profile"
RESULTS: Final = "results.json"
COST: Final = "cost.json"
PREDICTIONS: Final = "predictions.tsv"
MATRICES: Final = "predictions.npz"
RESAMPLED: Final = "resampled.npz"
ALIGNMENTS: Final = "alignments"
ALIGNMENT_STATISTICS: Final = "alignment_statistics.json"
# Pictures and pages drawn from these.
ALIGNMENTS_PICTURE: Final = "alignments.png"
CURVES_PICTURE: Final = "curves.png"
PREDICTIONS_PICTURE: Final = "predictions.png"
PAGE: Final = "page.html"
README: Final = "README.md"  # the last file that a run writes
# The weights.
CHECKPOINTS: Final = "checkpoints"
BEST: Final = "best.ckpt"
LAST: Final = "last.ckpt"
# What encodes and decodes symbols, and kept test data.
VOCABULARY: Final = "vocabulary"
SOURCE_SYMBOLS: Final = "source.json"
TARGET_SYMBOLS: Final = "target.json"
SOURCE_FEATURES: Final = "features.json"
TARGET_FEATURES: Final = "target_features.json"
TAGS: Final = "tags.json"
OUTPUT_LIMIT: Final = "output_limit.json"
BLEU_OPTIONS: Final = "bleu.json"
# Copies of plug-ins, and the loggers' own folders.
PLUGINS: Final = "plugins"
WANDB: Final = "wandb"
TENSORBOARD: Final = "tensorboard"
# A failed run's traceback, and the batch whose loss was not finite.
ERROR_TXT: Final = "error.txt"
BAD_BATCH: Final = "bad_batch.pt"
# Evaluations and exports of a run.
EVALUATIONS: Final = "evaluations"
EVALUATION: Final = "evaluation.json"
EXPORT: Final = "export"
# A sweep's job: its output, and its step while it runs.
LOG_TXT: Final = "log.txt"
PROGRESS: Final = "progress.json"
# Environment variable naming a job's progress file; a run that is no job of a sweep has none.
PROGRESS_VARIABLE: Final = "ATTNX_PROGRESS"
# The sweep's folder: its record and lock, what asks its jobs to end, the seconds of a training step with the lock of
# its measurement, and a search's trials.
SWEEP_JSON: Final = "sweep.json"
SWEEP_LOCK: Final = "sweep.lock"
STOP_REQUEST: Final = "stop_requested"
STEP_TIME: Final = "step_time.json"
STEP_TIME_LOCK: Final = "step_time.lock"
STUDY: Final = "study.db"

# Sections of results.json: 95 % intervals, differences from baselines, and exact definitions of metrics.
INTERVALS: Final = "intervals"
BASELINES: Final = "baselines"
SIGNATURES: Final = "signatures"


def ranked_checkpoint(rank: int) -> str:
    """The checkpoint file of a rank among the best: ``best.ckpt``, ``best-2.ckpt`` ..."""
    return BEST if rank == 1 else f"best-{rank}.ckpt"
