"""Run this exported model: python run.py [--width N] [--tag NAME] < sources, one a line.

It needs numpy, and onnxruntime or torch as the files are, and nothing of attnx.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BOS, EOS, UNK = 1, 2, 3


def program(folder: Path, name: str, inputs: list[str]) -> Callable[[dict[str, Any]], list[Any]]:
    """Arrays by name -> arrays, from NAME.onnx or NAME.pt."""
    if (folder / f"{name}.onnx").exists():
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # steps of so few rows are faster on one
        session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options)
        read = {one.name for one in session.get_inputs()}
        return lambda given: session.run(None, {key: value for key, value in given.items() if key in read})
    import torch

    traced: Any = torch.jit.load(str(folder / f"{name}.pt"))  # type: ignore[no-untyped-call]
    return lambda given: [found.numpy() for found in traced(*(torch.from_numpy(given[key]) for key in inputs))]


class Model:
    """The model of a folder; one source at a time, by a beam."""

    def __init__(self, folder: Path) -> None:
        self.told = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.reading, self.stepping = (program(folder, *named) for named in self.told["programs"].items())
        self.ids = {symbol: number for number, symbol in enumerate(self.told["source"]) if number > UNK}

    def begin(self, source: Any, tag: str = "") -> list[Any]:
        """Symbols (or a matrix of features) -> the state before the first step."""
        told = self.told
        if isinstance(told["source"], list):
            source = np.array([self.ids.get(symbol, UNK) for symbol in source])
        else:
            source = ((source - np.array(told["source"]["mean"])) / told["source"]["scale"]).astype(np.float32)
        given = {"source": source[None], "present": np.ones((1, len(source)), dtype=bool)}
        given["tag"] = np.array([told["tags"].index(tag) if told["tags"] else 0])
        return self.reading(given)[: len(told["programs"]["stepping"]) - 1]

    def step(self, symbols: list[int], state: list[Any]) -> tuple[Any, list[Any]]:
        """The last symbols' ids -> log-probabilities (rows, symbols) of what comes next, and the state after."""
        names = self.told["programs"]["stepping"][1:]
        scores, *found = self.stepping({"symbol": np.array(symbols), **dict(zip(names, state, strict=True))})
        return scores, found[-len(names) :]

    def __call__(self, source: Any, width: int = 1, tag: str = "") -> tuple[list[str], float]:
        """Symbols (or a matrix of features) -> the best output's symbols, and its log-probability."""
        told, state, total = self.told, self.begin(source, tag), np.zeros(1, dtype=np.float32)
        written, limit = [[BOS]], int(len(source) * told["ratio"]) + told["extra"]
        best: tuple[float, list[int]] = (-np.inf, [])
        for step in range(1, limit + 1):
            scores, found = self.step([row[-1] for row in written], state)
            scores[:, :EOS] = -np.inf
            likely = (total[:, None] + scores).ravel()
            order = np.argsort(-likely, kind="stable")[:width]
            parents, symbols = np.divmod(order, scores.shape[1])
            rows = [[*written[parent], int(symbol)] for parent, symbol in zip(parents, symbols, strict=True)]
            total, ended = likely[order], (symbols == EOS) | (step == limit)
            best = max(best, *[(float(total[n]), rows[n]) for n in np.flatnonzero(ended)], (-np.inf, []))
            going = np.flatnonzero(~ended & (total > best[0]))  # a log-probability only falls
            if not len(going):
                break
            written, total = [rows[n] for n in going], total[going]
            state = [part[parents[going]] for part in found]
        return [told["target"][number] for number in best[1][1:] if number != EOS], best[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1, help="of the beam; 1 is greedy")
    parser.add_argument("--tag", default="", help="the language, where there are several")
    asked, model = parser.parse_args(), Model(Path(__file__).parent)
    for line in sys.stdin:
        source = list(line.strip()) if model.told["cut"] == "letters" else line.split()
        source = source if isinstance(model.told["source"], list) else np.load(line.strip())
        print(" ".join(model(source, asked.width, asked.tag)[0]) if len(source) else "", flush=True)
