"""A stopwatch for complete steps, and the training that it times."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib.metadata import version

import torch
from request import Training


@dataclass(frozen=True)
class Timing(Training):
    """Which updates are timed; the watch stops at the start of the step after the last timed one."""

    warmup: int
    """Steps that are run and not timed."""
    steps: int
    """Steps that are timed."""


@dataclass
class Stopwatch:
    """Times from the start of one step to the start of a later one, so that all parts of a step count."""

    warmup: int
    steps: int
    begun: int = 0
    words: int = 0
    started: float = 0.0
    seconds: float = 0.0

    def step_begins(self, words: int) -> None:
        """Report to the watch that a step with this many words begins."""
        if self.begun == self.warmup:
            self.started = time.perf_counter()
        if self.begun == self.warmup + self.steps:
            self.seconds = time.perf_counter() - self.started
        elif self.begun >= self.warmup:
            self.words += words
        self.begun += 1

    def report(self, package: str) -> None:
        """Print the measurement as one line of JSON, the last line of the standard output.

        Raises:
            RuntimeError: it ended before the last timed step did.
        """
        if self.begun <= self.warmup + self.steps:
            raise RuntimeError(f"it ended early, at step {self.begun}")
        measured = {
            "words_per_second": self.words / self.seconds,
            "words": self.words,
            "seconds": self.seconds,
        }
        installed = {"package": package, "version": version(package), "torch": torch.__version__}
        print(json.dumps(measured | installed))
