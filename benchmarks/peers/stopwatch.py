"""A watch for whole steps, and the training that is timed with it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from importlib.metadata import version

import torch
from request import Training


@dataclass(frozen=True)
class Timing(Training):
    """Of these updates some are timed; the watch stops where the step after the last timed one starts."""

    warmup: int
    """Steps that are run and not timed."""
    steps: int
    """Steps that are timed."""


@dataclass
class Stopwatch:
    """Times from the start of one step to the start of a later one: every part of a step is inside."""

    warmup: int
    steps: int
    begun: int = 0
    words: int = 0
    started: float = 0.0
    seconds: float = 0.0

    def step_begins(self, words: int) -> None:
        """Tell the watch that a step begins which has this many words."""
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
