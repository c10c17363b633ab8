"""Trains the hand-written model by a schedule and prints its words per second; run by any interpreter with torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from by_hand import Batch, HandWrittenModel, make_batches, read_pairs, train
from request import read_request
from stopwatch import Stopwatch, Timing


@dataclass(frozen=True)
class ScheduleTiming(Timing):
    """Steps to time of a model with this schedule."""

    schedule: str


def main() -> None:
    request = read_request(ScheduleTiming)
    watch = Stopwatch(request.warmup, request.steps)
    batches, symbols = make_batches(read_pairs(Path(request.pairs)), request.batch)
    torch.manual_seed(0)

    def timed_batches() -> Iterator[Batch]:
        for batch in batches[: request.updates]:
            watch.step_begins(len(batch.source))
            yield batch

    train(HandWrittenModel(request.schedule, symbols, asdict(request)), timed_batches(), torch.device("cpu"))
    watch.report("torch")


if __name__ == "__main__":
    main()
