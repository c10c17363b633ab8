"""Decodes with yoyodyne as its command ``predict`` does, and prints its words per second.

Run by the interpreter of yoyodyne's own environment, where ``yoyodyne_training.py`` has trained. Its data module
reads the words from a file and its own callback writes the predictions; another reports the start of each batch.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import torch
from decoding import Decoding, read_words, write_outputs
from lightning.pytorch.callbacks import LambdaCallback
from request import read_request
from stopwatch import Stopwatch
from yoyodyne import callbacks, data
from yoyodyne_training import WEIGHTS, build_model, quiet_trainer

WORDS, PREDICTIONS = Path("words.tsv"), Path("predictions.tsv")


def read_predictions() -> list[str]:
    """The outputs; with a beam, a line has all hypotheses and their scores, the best first."""
    with PREDICTIONS.open(encoding="utf-8") as lines:
        return [row[0] if row else "" for row in csv.reader(lines, delimiter="\t")]


def main() -> None:
    request = read_request(Decoding)
    words = read_words(request)
    first = words[: request.batch_words]
    WORDS.write_text("".join(f"{word}\n" for word in (*first, *words)), encoding="utf-8")
    data_module = data.DataModule(
        model_dir=".",
        predict=str(WORDS),
        target_col=0,
        target_sep=" ",
        tie_embeddings=False,
        batch_size=request.batch_words,
    )
    model = build_model(request, data_module, request.width)
    model.load_state_dict(torch.load(WEIGHTS))
    watch = Stopwatch(1, math.ceil(len(words) / request.batch_words))
    progress = LambdaCallback(
        on_predict_batch_start=lambda _1, _2, batch, _3: watch.step_begins(len(batch)),
        on_predict_end=lambda _1, _2: watch.step_begins(0),
    )
    writer = callbacks.PredictionWriter(str(PREDICTIONS), target_sep=" ")
    quiet_trainer(writer, progress).predict(model, data_module)
    write_outputs(request, read_predictions()[len(first) :])
    watch.report("yoyodyne")


if __name__ == "__main__":
    main()
