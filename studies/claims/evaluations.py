"""evaluations.csv: metrics of claims that are evaluated after training, such as those of a beam search."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attnx.errors import UserError
from attnx.files.atomic_files import atomic_write
from attnx.files.bounded_files import read_rows
from attnx.files.printable import csv_text
from attnx.runs.predictions import Evaluation
from studies.claims.claim import Claim


class EvaluatedClaim(NamedTuple):
    """A row: the command's options, the value of the claim's metric, and the ends of its 95 % interval."""

    claim: str
    runs: str
    options: str
    value: float
    low: float
    high: float


def read_evaluations(path: Path) -> dict[str, EvaluatedClaim]:
    """The rows by claim; none without the file.

    Raises:
        UserError: a row cannot be read, or a claim is there twice.
    """
    evaluations: dict[str, EvaluatedClaim] = {}
    for line, row in enumerate(read_rows(path) if path.is_file() else (), start=2):
        try:
            numbers = [float(row[name]) for name in EvaluatedClaim._fields[3:]]
            evaluation = EvaluatedClaim(row["claim"], row["runs"], row["options"], *numbers)
        except (ValueError, KeyError) as error:
            raise UserError(f"{path}:{line}: cannot be read: {error}") from None
        if evaluations.setdefault(evaluation.claim, evaluation) is not evaluation:
            raise UserError(f"{path}:{line}: {evaluation.claim} is there twice; delete one row")
    return evaluations


def write_evaluations(path: Path, evaluations: Sequence[EvaluatedClaim]) -> None:
    """Write the rows."""
    texts = ([*row[:3], *(f"{number:.6g}" for number in row[3:])] for row in evaluations)
    rows = (dict(zip(EvaluatedClaim._fields, cells, strict=True)) for cells in texts)
    with atomic_write(path) as partial:
        partial.write_text(csv_text(EvaluatedClaim._fields, rows), encoding="utf-8", newline="")


def evaluate_claim(claim: Claim, folders: Sequence[Path]) -> EvaluatedClaim:
    """Evaluate the runs of a claim by `attnx evaluate`, which prints the folder that it writes in its last line.

    Raises:
        UserError: the command failed.
    """
    command = [sys.executable, "-m", "attnx", "evaluate", *map(str, folders), *claim.evaluate]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise UserError(f"{claim.name}: attnx evaluate: {process.stderr.strip()}")
    evaluation = Evaluation(Path(process.stdout.splitlines()[-1].partition(": ")[0]))
    value, interval = evaluation.results[claim.metric], evaluation.intervals.get(claim.metric)
    low, high = interval or (value, value)
    return EvaluatedClaim(claim.name, str(len(folders)), " ".join(claim.evaluate), value, low, high)
