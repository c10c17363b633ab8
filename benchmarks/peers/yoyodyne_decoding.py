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

WORDS, WRITTEN = Path("words.tsv"), Path("written.tsv")


def read_written() -> list[str]:
    """The outputs; with a beam, a line has all hypotheses and their scores, the best first."""
    with WRITTEN.open(encoding="utf-8") as lines:
        return [row[0] if row else "" for row in csv.reader(lines, delimiter="\t")]


def main() -> None:
    """Decode the first batch untimed, then all words."""
    request = read_request(Decoding)
    words = read_words(request)
    first = words[: request.at_once]
    WORDS.write_text("".join(f"{word}\n" for word in (*first, *words)), encoding="utf-8")
    asked = data.DataModule(
        model_dir=".",
        predict=str(WORDS),
        target_col=0,
        target_sep=" ",
        tie_embeddings=False,
        batch_size=request.at_once,
    )
    model = build_model(request, asked, request.width)
    model.load_state_dict(torch.load(WEIGHTS))
    watch = Stopwatch(1, math.ceil(len(words) / request.at_once))
    told = LambdaCallback(
        on_predict_batch_start=lambda _1, _2, batch, _3: watch.step_begins(len(batch)),
        on_predict_end=lambda _1, _2: watch.step_begins(0),
    )
    writer = callbacks.PredictionWriter(str(WRITTEN), target_sep=" ")
    quiet_trainer(writer, told).predict(model, asked)
    write_outputs(request, read_written()[len(first) :])
    watch.report("yoyodyne")


if __name__ == "__main__":
    main()
