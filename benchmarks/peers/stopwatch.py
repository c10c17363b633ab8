"""What the peers' scripts share: the measurement they are asked for, and a watch for whole training steps."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch


@dataclass(frozen=True)
class Request:
    """One measurement: on which pairs (lines of ``word<TAB>phone phone``), at which sizes, how long."""

    pairs: Path
    batch: int
    embedding: int
    encoder: int
    """LSTM units in each of the encoder's two directions."""
    decoder: int
    warmup: int
    """Steps that are run and not timed."""
    steps: int
    """Steps that are timed."""
    threads: int

    @property
    def updates(self) -> int:
        """Steps to train: the watch stops where the step after the last timed one starts."""
        return self.warmup + self.steps + 1


def read_request() -> Request:
    """Read the JSON object that is the script's only argument and set torch's threads as it says."""
    wanted = json.loads(sys.argv[1])
    request = Request(**{**wanted, "pairs": Path(wanted["pairs"])})
    torch.set_num_threads(request.threads)
    return request


@dataclass
class Stopwatch:
    """Times from the start of one step to the start of a later one: every part of a step is inside."""

    warmup: int
    steps: int
    begun: int = 0
    words: int = 0
    started: float = 0.0
    seconds: float = 0.0

    def step_begins(self, pairs: int) -> None:
        """Tell the watch that a step begins whose batch holds this many pairs."""
        if self.begun == self.warmup:
            self.started = time.perf_counter()
        if self.begun == self.warmup + self.steps:
            self.seconds = time.perf_counter() - self.started
        elif self.begun >= self.warmup:
            self.words += pairs
        self.begun += 1

    def report(self, package: str) -> None:
        """Print the measurement as one line of JSON, the last line of the standard output.

        Raises:
            RuntimeError: training ended before the last timed step did.
        """
        if self.begun <= self.warmup + self.steps:
            raise RuntimeError(f"training ended early, at step {self.begun}")
        measured = {
            "words_per_second": self.words / self.seconds,
            "words": self.words,
            "seconds": self.seconds,
        }
        installed = {"package": package, "version": version(package), "torch": torch.__version__}
        print(json.dumps(measured | installed))
