"""Trains yoyodyne's attentive LSTM with its own data module and trainer and prints its words per second.

Run by the interpreter of yoyodyne's own environment. A Lightning callback reports the start of
each step to the watch.
"""

from __future__ import annotations

from lightning.pytorch.callbacks import LambdaCallback
from request import read_request
from stopwatch import Stopwatch, Timing
from yoyodyne_training import train


def main() -> None:
    request = read_request(Timing)
    watch = Stopwatch(request.warmup, request.steps)
    train(request, LambdaCallback(on_train_batch_start=lambda _1, _2, batch, _3: watch.step_begins(len(batch))))
    watch.report("yoyodyne")


if __name__ == "__main__":
    main()
