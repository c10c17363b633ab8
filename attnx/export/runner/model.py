"""The exported model and its search, with numpy, and onnxruntime or torch as the files are; nothing of attnx."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BOS, EOS, UNK = 1, 2, 3
NEVER = -np.inf
PLAIN = {
    "nbest": 1,
    "length_penalty": "none",
    "length_penalty_alpha": 0.0,
    "coverage_penalty": 0.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
}


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
    """The model of a folder; one source at a time."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.reading, self.stepping = (program(folder, *named) for named in self.config["programs"].items())
        self.source, self.target = self.config["source"], self.config["target"]
        self.ids = {symbol: number for number, symbol in enumerate(self.source) if number > UNK}

    def encode(self, source: Any) -> Any:
        """Symbols as ids, or a matrix of features scaled."""
        if isinstance(self.source, list):
            return np.array([self.ids.get(symbol, UNK) for symbol in source])
        return ((source - np.array(self.source["mean"])) / self.source["scale"]).astype(np.float32)

    def begin(self, source: Any, tag: str = "") -> list[Any]:
        """Symbols, or a matrix of features -> the state before the first step."""
        encoded, tags = self.encode(source), self.config["tags"]
        given = {"source": encoded[None], "present": np.ones((1, len(encoded)), dtype=bool)}
        given["tag"] = np.array([tags.index(tag) if tags else 0])
        return self.reading(given)[: len(self.config["programs"]["stepping"]) - 1]

    def step(self, symbols: list[int], state: list[Any]) -> tuple[Any, Any, list[Any]]:
        """The last symbols' ids -> log-probabilities (rows, symbols) of the next, weights if any, the state after."""
        names = self.config["programs"]["stepping"][1:]
        scores, *found = self.stepping({"symbol": np.array(symbols), **dict(zip(names, state, strict=True))})
        return scores, found[0] if len(found) > len(names) else None, found[-len(names) :]

    def search(self, source: Any, tag: str, settings: dict[str, Any]) -> list[tuple[float, float, list[str]]]:
        """The best outputs by a beam: score, log-probability and symbols of each."""
        state, total = self.begin(source, tag), np.zeros(1, dtype=np.float32)
        prefix = self.encode(source).tolist() if self.config["continues"] else []
        limit = int(np.float32(len(source)) * np.float32(settings["max_length_ratio"])) + settings["max_length_extra"]
        limit = max(limit, settings["min_length"] + 1, len(prefix) + 1)
        written: list[list[int]] = [[]]
        covered = np.zeros((1, len(source)), dtype=np.float32)
        best: list[tuple[float, float, list[int]]] = []
        for step in range(1, limit + 1):
            scores, weights, found = self.step([row[-1] if row else BOS for row in written], state)
            narrow(scores, written, prefix, settings)
            likely = (total[:, None] + scores).ravel()
            order = np.sort(np.argsort(-likely, kind="stable")[: settings["beam_size"]])
            order = order[likely[order] > NEVER]
            parents, symbols = np.divmod(order, scores.shape[1])
            written = [[*written[parent], int(symbol)] for parent, symbol in zip(parents, symbols, strict=True)]
            total, ended = likely[order], (symbols == EOS) | (step == limit)
            score = total / penalty(step, settings)
            if settings["coverage_penalty"]:
                read = weights.mean(1) if weights.ndim == 4 else weights
                covered = covered[parents] + read[parents, 0, : len(source)]
                score = score + settings["coverage_penalty"] * np.log(covered.clip(1e-9, 1)).sum(-1)
            best += [(float(score[row]), float(total[row]), written[row]) for row in np.flatnonzero(ended)]
            best = sorted(best, key=lambda one: -one[0])[: settings["nbest"]]
            bar = best[-1][0] if len(best) == settings["nbest"] else NEVER
            # A log-probability only falls, and no penalty is kinder than that of the longest output.
            going = np.flatnonzero(~ended & (total / penalty(limit, settings) > bar))
            if not len(going):
                break
            written, total = [written[row] for row in going], total[going]
            covered = covered[going] if settings["coverage_penalty"] else covered
            state = [part[parents[going]] for part in found]
        return [(one, other, [self.target[number] for number in row if number > EOS]) for one, other, row in best]

    def __call__(self, source: Any, width: int = 1, tag: str = "") -> tuple[list[str], float]:
        """Symbols, or a matrix -> the best output by a beam without other rules, and its log-probability."""
        settings = {**self.config["decoding"], **PLAIN, "beam_size": width}
        _, log_probability, output = self.search(source, tag, settings)[0]
        return output, log_probability


def penalty(steps: int, settings: dict[str, Any]) -> float:
    """By what the log-probability of so many steps is divided."""
    if settings["length_penalty"] == "gnmt":
        return float(((5 + steps) / 6) ** settings["length_penalty_alpha"])
    return float(steps) if settings["length_penalty"] == "average" else 1.0


def narrow(scores: Any, written: list[list[int]], prefix: list[int], settings: dict[str, Any]) -> None:
    """Write -inf over the scores of what may not come next; the end may where nothing else does."""
    scores[:, :EOS] = NEVER
    step, size, end = len(written[0]), settings["no_repeat_ngram_size"], scores[:, EOS].copy()
    forced = prefix[step] if step < len(prefix) else None
    kept = None if forced is None else scores[:, forced].copy()
    if step < settings["min_length"]:
        scores[:, EOS] = NEVER
    for row, symbols in enumerate(written if 0 < size <= step else []):
        for start in range(step - size + 1):
            if symbols[start : start + size - 1] == symbols[step - size + 1 :]:
                scores[row, symbols[start + size - 1]] = NEVER
    if settings["min_length"] or size:
        stuck = (scores == NEVER).all(-1)
        scores[stuck, EOS] = end[stuck].clip(min=np.finfo(np.float32).min)
    if forced is not None:
        scores[:] = NEVER
        scores[:, forced] = kept
