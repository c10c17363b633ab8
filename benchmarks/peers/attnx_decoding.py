"""Decodes with a run in the working folder as ``attnx predict`` does, and prints its words per second."""

from __future__ import annotations

import gc

from decoding import Decoding, measure
from request import read_request

import attnx

RUN = "run"


def main() -> None:
    request = read_request(Decoding)
    run = attnx.open_run(RUN, decoding="greedy" if request.width == 1 else ("beam", {"beam_size": request.width}))
    gc.freeze()  # as the command predict does after opening a run

    def decode(words: list[str]) -> list[str]:
        predictions = run.decode([run.pair(word) for word in words], batch_size=request.batch_words)
        return [" ".join(prediction.output) for prediction in predictions]

    measure("attnx", request, list, decode)


if __name__ == "__main__":
    main()
