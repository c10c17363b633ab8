"""Decodes with joeynmt as its mode ``translate`` does, and prints its words per second.

Run by the interpreter of joeynmt's own environment, where ``joeynmt_training.py`` has trained.
"""

from __future__ import annotations

import copy

from decoding import Decoding, measure
from joeynmt.config import parse_global_args
from joeynmt.datasets import StreamDataset
from joeynmt.prediction import predict, prepare
from joeynmt_training import configuration
from request import read_request


def main() -> None:
    request = read_request(Decoding)
    search = {"batch_size": request.batch_words, "batch_type": "sentence", "beam_size": request.width, "n_best": 1}
    args = parse_global_args(configuration(request) | {"testing": search}, rank=0, mode="translate")
    model, _, _, stream = prepare(args, rank=0, mode="translate")

    def load(words: list[str]) -> StreamDataset:
        loaded = copy.copy(stream)
        loaded.reset_cache()
        for word in words:
            loaded.set_item(word)
        return loaded

    def decode(words: StreamDataset) -> list[str]:
        _, _, outputs, _, _, _ = predict(
            model=model,
            data=words,
            device=args.device,
            n_gpu=args.n_gpu,
            normalization="none",
            args=args.test,
            autocast=args.autocast,
        )
        return list(outputs)

    measure("joeynmt", request, load, decode)


if __name__ == "__main__":
    main()
