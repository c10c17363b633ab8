"""Trains joeynmt's LSTMs with Bahdanau attention through its own `train` and prints its words per second.

Run by the interpreter of joeynmt's own environment. A subclass of its TrainManager reports the start
of each step to the watch.
"""

from __future__ import annotations

from joeynmt import training
from joeynmt.batch import Batch
from joeynmt_training import train
from request import read_request
from stopwatch import Stopwatch, Timing


def timed_manager(watch: Stopwatch) -> type[training.TrainManager]:
    """Derive a TrainManager from joeynmt's that reports every training batch to the watch."""

    class TimedManager(training.TrainManager):
        def _train_step(self, batch: Batch) -> tuple[float, int]:
            watch.step_begins(batch.nseqs)
            return super()._train_step(batch)

    return TimedManager


def main() -> None:
    request = read_request(Timing)
    watch = Stopwatch(request.warmup, request.steps)
    training.TrainManager = timed_manager(watch)
    train(request)
    watch.report("joeynmt")


if __name__ == "__main__":
    main()
