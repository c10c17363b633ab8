"""Decodes with a run of attnx in the working folder, through ``attnx.open_run``, and prints its words per second."""

from __future__ import annotations

from decoding import Decoding, measure
from request import read_request

import attnx

RUN = "run"


def main() -> None:
    """Decode as requested."""
    request = read_request(Decoding)
    run = attnx.open_run(RUN, search="greedy" if request.width == 1 else ("beam", {"width": request.width}))

    def decode(words: list[str]) -> list[str]:
        found = run.decode([run.pair(word) for word in words], batch=request.at_once)
        return [" ".join(prediction.output) for prediction in found]

    measure("attnx", request, list, decode)


if __name__ == "__main__":
    main()
