"""Decodes one source greedily: ``python example.py [TAG] SYMBOL ...``, or ``MATRIX.npy`` for a source of features.

Give the symbols that the model reads, such as the letters of a word, as words of the command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

BOS, EOS, UNK = 1, 2, 3


def load(folder: Path, name: str, input_names: list[str]) -> Callable[..., list[Any]]:
    """The program as a function of its inputs; a session takes only those that the model reads."""
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
    read = {argument.name for argument in session.get_inputs()}
    return lambda *arrays: session.run(None, {n: a for n, a in zip(input_names, arrays, strict=False) if n in read})


def decode(folder: Path, words: list[str]) -> list[str]:
    """The likeliest symbol of every step, until the end symbol or the limit of the length."""
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    encode, decode_step = (load(folder, name, names) for name, names in model["programs"].items())
    tag = 0
    if model["tags"]:
        name, *words = words
        if name not in model["tags"]:
            sys.exit(f"{name}: unknown tag; give one of {', '.join(model['tags'])} before the source")
        tag, words = model["tags"].index(name), [f"<tag:{name}>", *words] if model["tag_token"] else words
    if isinstance(model["source"], list):  # the symbols by their ids
        ids = {symbol: index for index, symbol in enumerate(model["source"])}
        source = np.array([ids.get(word, UNK) for word in words])  # (s,)
    else:  # the scales of features
        source = (np.load(words[0]) - model["source"]["mean"]) / model["source"]["scale"]  # (s, f)
        source = source.astype(np.float32)
    states = len(model["programs"]["decode_step"]) - 1
    state = encode(source[None], np.ones((1, len(source)), bool), np.array([tag]))[:states]
    prefix = source.tolist() if model["is_continuation"] else []  # a language model goes on from its source
    limit = max(len(prefix) + 1, int(len(source) * model["max_length_ratio"] + 1e-6) + model["max_length_extra"])
    output = [BOS]
    while output[-1] != EOS and len(output) <= limit:
        log_probabilities, *outputs = decode_step(np.array(output[-1:]), *state)
        state, step = outputs[-states:], len(output) - 1  # the attention weights come first, if there are any
        output.append(prefix[step] if step < len(prefix) else EOS + int(log_probabilities[0, EOS:].argmax()))
    return [model["target"][symbol] for symbol in output if symbol > EOS]


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    print(*decode(Path(__file__).parent, sys.argv[1:]))
