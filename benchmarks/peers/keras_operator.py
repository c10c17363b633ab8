"""Measures keras.layers.AdditiveAttention on torch: reads requests, a line of JSON each, and answers with a line.

Run by the interpreter of keras' own environment; the only argument is how many threads torch may use.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
from measures import Work, draw_tensors, peak, seconds, work_of
from torch import Tensor


def work(shape: list[int], way: str) -> Work:
    """The layer's attention; its scale is the vector v."""
    queries, keys, values, v, grad_context = draw_tensors(*shape)
    layer = keras.layers.AdditiveAttention()
    layer.build([(None, None, shape[-1])] * 3)
    layer.scale.assign(v)

    def read(queries: Tensor, keys: Tensor, values: Tensor, _: Tensor) -> Tensor:
        context: Tensor = layer([queries, values, keys])
        return context

    return work_of(read, [queries, keys, values, layer.scale.value], grad_context, way)


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        measure = {"seconds": seconds, "peak": peak}[request["measure"]]
        print(json.dumps(measure(work(request["shape"], request["way"]))), flush=True)


if __name__ == "__main__":
    main()
