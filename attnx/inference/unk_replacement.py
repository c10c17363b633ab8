"""Copies unknown source symbols into the output, where attention aligns them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnx.data.vocabulary import UNK, Vocabulary
from attnx.inference.predictor import Prediction


class OutputSymbol(NamedTuple):
    """An output symbol, its source position (-1: none), and its step (None: it was inserted)."""

    symbol: str
    position: int
    step: int | None


def unknown_positions(source: tuple[str, ...], vocabulary: Vocabulary) -> list[int]:
    """The positions of the symbols that are not in a vocabulary."""
    return [position for position, symbol_id in enumerate(vocabulary.encode(source)) if symbol_id == UNK]


def with_copies(prediction: Prediction, vocabulary: Vocabulary) -> Prediction:
    """Copy the unknown symbols of the source into the output, each once, and into its alternatives.

    A copy replaces the output of the steps that attend to its position most. Without such a step it is inserted before
    the first symbol aligned to a later position, or at the end. Its weights are those of the first of these steps, or 1
    at its position. The log-probability stays the model's. The vocabulary is the source's.
    Source: Luong et al. 2015, https://aclanthology.org/P15-1002
    """
    source, weights = prediction.pair.source, prediction.weights
    unknown = {*unknown_positions(source, vocabulary)}
    if not unknown or weights is None:
        return prediction
    mean = weights.mean(0) if weights.ndim == 3 else weights
    aligned = [int(row.argmax()) if row.any() else -1 for row in mean]  # a step may read nothing
    output = [OutputSymbol(symbol, aligned[step], step) for step, symbol in enumerate(prediction.output)]
    first_steps = {symbol.position: symbol.step for symbol in reversed(output)}
    symbols = [
        symbol._replace(symbol=source[symbol.position]) if symbol.position in unknown else symbol
        for symbol in output
        if symbol.position not in unknown or symbol.step == first_steps[symbol.position]
    ]
    for position in sorted(unknown - first_steps.keys()):
        later = (index for index, symbol in enumerate(symbols) if position < symbol.position < len(source))
        symbols.insert(next(later, len(symbols)), OutputSymbol(source[position], position, None))
    rows = []
    for symbol in symbols:
        row = np.zeros_like(weights[..., 0, :]) if symbol.step is None else weights[..., symbol.step, :]
        if symbol.step is None:
            row[..., symbol.position] = 1
        rows.append(row)
    rows += [weights[..., step, :] for step in range(len(output), len(aligned))]
    copied = [symbol.symbol for symbol in symbols]
    names = tuple(prediction.output)
    weights = np.stack(rows, axis=-2)
    alternatives = tuple(with_copies(alternative, vocabulary) for alternative in prediction.alternatives)
    return prediction._replace(output=copied, weights=weights, alternatives=alternatives, model_output=names)
