"""The exported model and its beam search, with numpy, and onnxruntime or torch; without attnx."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BOS, EOS, UNK = 1, 2, 3
NEG_INF = -np.inf
MIN_COVERAGE = 1e-9
MAX_STEPS = 2**31
PLAIN_BEAM = {
    "nbest": 1,
    "length_penalty": "none",
    "length_penalty_alpha": 0.0,
    "coverage_penalty": 0.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
}


class Hypothesis(NamedTuple):
    """A finished output: its score, log-probability and ids."""

    score: float
    log_probability: float
    ids: list[int]


def mean_over_heads(weights: Any) -> Any:
    """(rows, heads, 1, positions) or (rows, 1, positions) -> (rows, 1, positions)."""
    return weights.mean(1) if weights.ndim == 4 else weights


def load_program(folder: Path, name: str, inputs: list[str]) -> Callable[[dict[str, Any]], list[Any]]:
    """Load NAME.onnx or NAME.pt as a function from arrays by name to arrays."""
    if (folder / f"{name}.onnx").exists():
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # faster for steps of so few rows
        session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options)
        used = {tensor.name for tensor in session.get_inputs()}
        return lambda arrays: session.run(None, {key: value for key, value in arrays.items() if key in used})
    import torch

    traced: Any = torch.jit.load(str(folder / f"{name}.pt"))  # type: ignore[no-untyped-call]
    return lambda arrays: [output.numpy() for output in traced(*(torch.from_numpy(arrays[key]) for key in inputs))]


class Model:
    """The model in a folder; decodes one source at a time."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        programs = self.config["programs"].items()
        self.encode_program, self.step_program = (load_program(folder, *program) for program in programs)
        self.source, self.target = self.config["source"], self.config["target"]
        self.ids = {symbol: index for index, symbol in enumerate(self.source) if index > UNK}

    def encode(self, source: Any) -> Any:
        """Convert symbols to ids, or scale a matrix of features."""
        if isinstance(self.source, list):
            return np.array([self.ids.get(symbol, UNK) for symbol in source])
        return ((source - np.array(self.source["mean"])) / self.source["scale"]).astype(np.float32)

    def begin(self, source: Any, tag: str = "") -> list[Any]:
        """Return the state before the first step, of symbols or a matrix of features."""
        encoded, tags = self.encode(source), self.config["tags"]
        inputs = {"source": encoded[None], "source_mask": np.ones((1, len(encoded)), dtype=bool)}
        inputs["tag"] = np.array([tags.index(tag) if tags else 0])
        return self.encode_program(inputs)[: len(self.config["programs"]["decode_step"]) - 1]

    def step(self, symbols: list[int], state: list[Any]) -> tuple[Any, Any, list[Any]]:
        """Last symbols' ids -> log-probabilities (rows, symbols), weights if any, and the next state."""
        names = self.config["programs"]["decode_step"][1:]
        inputs = {"symbol": np.array(symbols), **dict(zip(names, state, strict=True))}
        scores, *outputs = self.step_program(inputs)
        return scores, outputs[0] if len(outputs) > len(names) else None, outputs[-len(names) :]

    def search(self, source: Any, tag: str, settings: dict[str, Any]) -> list[tuple[float, float, list[str]]]:
        """Return the best outputs by a beam: score, log-probability and symbols of each."""
        state, total = self.begin(source, tag), np.zeros(1, dtype=np.float32)
        prefix = self.encode(source).tolist() if self.config["is_continuation"] else []
        max_steps = self._max_steps(len(source), len(prefix), settings)
        beams: list[list[int]] = [[]]
        coverage = np.zeros((1, len(source)), dtype=np.float32)
        best: list[Hypothesis] = []
        for step in range(1, max_steps + 1):
            scores, weights, next_state = self.step([ids[-1] if ids else BOS for ids in beams], state)
            apply_constraints(scores, beams, prefix, settings)
            parents, symbols, total = select_best(total, scores, settings["beam_size"])
            beams = [[*beams[parent], int(symbol)] for parent, symbol in zip(parents, symbols, strict=True)]
            score = total / length_penalty(step, settings)
            if settings["coverage_penalty"]:
                coverage = coverage[parents] + mean_over_heads(weights)[parents, 0, : len(source)]
                score = score + settings["coverage_penalty"] * np.log(coverage.clip(MIN_COVERAGE, 1)).sum(-1)
            is_finished = (symbols == EOS) | (step == max_steps)
            best += [
                Hypothesis(float(score[row]), float(total[row]), beams[row]) for row in np.flatnonzero(is_finished)
            ]
            best = sorted(best, key=lambda hypothesis: -hypothesis.score)[: settings["nbest"]]
            bar = best[-1].score if len(best) == settings["nbest"] else NEG_INF
            # A log-probability only falls, and the penalty of the longest output is the smallest.
            active = np.flatnonzero(~is_finished & (total / length_penalty(max_steps, settings) > bar))
            if not len(active):
                break
            beams, total = [beams[row] for row in active], total[active]
            coverage = coverage[active] if settings["coverage_penalty"] else coverage
            state = [part[parents[active]] for part in next_state]
        return [(score, total, [self.target[i] for i in ids if i > EOS]) for score, total, ids in best]

    @staticmethod
    def _max_steps(source_length: int, prefix_length: int, settings: dict[str, Any]) -> int:
        by_source = float(np.float32(source_length) * np.float32(settings["max_length_ratio"]))
        limit = int(min(by_source, MAX_STEPS)) + settings["max_length_extra"]
        return int(max(limit, settings["min_length"] + 1, prefix_length + 1))

    def __call__(self, source: Any, beam_size: int = 1, tag: str = "") -> tuple[list[str], float]:
        """Return the best output by a plain beam, and its log-probability."""
        settings = {**self.config["decoding"], **PLAIN_BEAM, "beam_size": beam_size}
        _, log_probability, output = self.search(source, tag, settings)[0]
        return output, log_probability


def select_best(total: Any, scores: Any, beam_size: int) -> tuple[Any, Any, Any]:
    """Return parent rows, symbols and log-probabilities of the best continuations, in the order of their rows."""
    candidates = (total[:, None] + scores).ravel()
    order = np.sort(np.argsort(-candidates, kind="stable")[:beam_size])
    order = order[candidates[order] > NEG_INF]
    return *np.divmod(order, scores.shape[1]), candidates[order]


def length_penalty(steps: int, settings: dict[str, Any]) -> float:
    """Return the divisor of the log-probability of ``steps`` steps."""
    if settings["length_penalty"] == "gnmt":
        return float(((5 + steps) / 6) ** settings["length_penalty_alpha"])
    return float(steps) if settings["length_penalty"] == "average" else 1.0


def apply_constraints(scores: Any, beams: list[list[int]], prefix: list[int], settings: dict[str, Any]) -> None:
    """Set the scores of forbidden symbols to -inf; the end is allowed if nothing else is."""
    scores[:, :EOS] = NEG_INF
    step, size, end = len(beams[0]), settings["no_repeat_ngram_size"], scores[:, EOS].copy()
    forced = prefix[step] if step < len(prefix) else None
    forced_scores = None if forced is None else scores[:, forced].copy()
    if step < settings["min_length"]:
        scores[:, EOS] = NEG_INF
    for row, ids in enumerate(beams if 0 < size <= step else []):
        for start in range(step - size + 1):
            if ids[start : start + size - 1] == ids[step - size + 1 :]:
                scores[row, ids[start + size - 1]] = NEG_INF
    if settings["min_length"] or size:
        is_stuck = (scores == NEG_INF).all(-1)
        scores[is_stuck, EOS] = end[is_stuck].clip(min=np.finfo(np.float32).min)
    if forced is not None:
        scores[:] = NEG_INF
        scores[:, forced] = forced_scores
