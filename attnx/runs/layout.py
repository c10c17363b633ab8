"""What a run folder is called inside, and how symbols stand in its tables, for writers and readers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attnx.files.printable import printable

FORMAT: Final = 1

RUN: Final = "run.json"
CONFIG: Final = "config.yaml"
METRICS: Final = "metrics.csv"
PROFILE: Final = "profile.json"
RESULTS: Final = "results.json"
# What stands in it beside numbers: the 95 % intervals of measures, how the run differs from baselines, and what metrics
# computed, as sacreBLEU writes it.
INTERVALS: Final = "intervals"
BASELINES: Final = "baselines"
SIGNATURES: Final = "signatures"
PREDICTIONS: Final = "predictions.tsv"
MATRICES: Final = "predictions.npz"
RESAMPLED: Final = "resampled.npz"
ALIGNMENTS: Final = "alignments"
CHECKPOINTS: Final = "checkpoints"
# Copies of the plug-ins that it used.
PLUGINS: Final = "plugins"
VOCABULARY: Final = "vocabulary"
# Recordings of Weights & Biases, a folder each.
WANDB: Final = "wandb"
# What a job of a sweep says, and how far it is while it runs; and of the sweep, in the folder above.
LOG: Final = "log.txt"
PROGRESS: Final = "progress.json"
SWEEP: Final = "sweep.json"
LOCK: Final = "sweep.lock"
# How long a training step takes, measured once for all jobs of a sweep, and who measures it.
STEP_TIME: Final = "step_time.json"
MEASURING: Final = "step_time.lock"
STUDY: Final = "study.db"
SOURCE_FEATURES: Final = "features.json"
TARGET_FEATURES: Final = "target_features.json"
EVALUATIONS: Final = "evaluations"
EVALUATION: Final = "evaluation.json"
EXPORT: Final = "export"
# The last file that a run writes.
EXPLANATION: Final = "README.md"
# Of a run that failed: the traceback, and the batch whose loss was no number.
ERROR: Final = "error.txt"
BAD_BATCH: Final = "bad_batch.pt"

# What stands for a space within a symbol, and what for the bar that stands between references.
SPACE, BAR = "␣", "|"
SIGNS: Final = str.maketrans({"\\": "\\\\", SPACE: f"\\{SPACE}", " ": SPACE})
ESCAPED: Final = re.compile(rf"\\(?:x([0-9a-f]{{2}})|u([0-9a-f]{{4}})|([tnr])|([\\|{SPACE}]))")
SPACE_OR_ESCAPED: Final = re.compile(f"{ESCAPED.pattern}|{SPACE}")
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r"}


def write_symbols(symbols: Iterable[str]) -> str:
    r"""Symbols as a field of a table, with spaces between; a space within a symbol reads ``␣``, as in pictures.

    A backslash stands before each ``␣`` and each backslash that a symbol holds itself, and before the symbol ``|``,
    since that stands between references. What is not safe to show reads ``\x1b``, ``\u202e``, ``\t``.

    >>> print(write_symbols(["3", " ", "May", "|", "1 ␣", "\x1b[1m"]))
    3 ␣ May \| 1␣\␣ \x1b[1m
    """
    return " ".join(r"\|" if symbol == BAR else printable(symbol.translate(SIGNS)) for symbol in symbols)


def read_symbols(field: str) -> tuple[str, ...]:
    """What :func:`write_symbols` wrote."""
    return tuple(_read_symbol(word) for word in field.split(" ") if word)


def _read_symbol(word: str) -> str:
    return SPACE_OR_ESCAPED.sub(lambda found: " " if found[0] == SPACE else _unescape(found), word)


def write_field(text: str) -> str:
    r"""A text as a field of a table: a name or a tag, its spaces as they are.

    >>> print(write_field("a b\\c\x1b"))
    a b\\c\x1b
    """
    return printable(text.replace("\\", "\\\\"))


def read_field(field: str) -> str:
    """What :func:`write_field` wrote."""
    return ESCAPED.sub(_unescape, field)


def _unescape(found: re.Match[str]) -> str:
    code, control = found[1] or found[2], found[3]
    return chr(int(code, 16)) if code else CONTROLS[control] if control else found[4]
