"""Symbols that the model has never seen: found, and copied into the output where attention read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from attnx.data.vocabulary import UNK, Vocabulary
from attnx.training.lightning_module import Prediction


class OutputSymbol(NamedTuple):
    """A symbol of the output, the source position it was read from (-1: none), and its step (None: it was put in)."""

    symbol: str
    position: int
    step: int | None


def unknown_in(source: tuple[str, ...], vocabulary: Vocabulary) -> list[int]:
    """The positions of the symbols that a vocabulary lacks."""
    return [position for position, number in enumerate(vocabulary.encode(source)) if number == UNK]


def with_copies(prediction: Prediction, vocabulary: Vocabulary) -> Prediction:
    """Copy the unknown symbols of the source into the output, each once.

    A copy takes the place of what was written at the steps that read its position most. If there are none, it stands
    before the first symbol that was read from behind it, or at the end. Its weights are those of the first of those
    steps, or 1 at its position. The log-probability stays that of what the model wrote.
    Source: Luong et al. 2015, https://aclanthology.org/P15-1002

    Args:
        prediction: with its weights, whose first columns are the source's.
        vocabulary: the source's.
    """
    source, weights = prediction.pair.source, prediction.weights
    unknown = unknown_in(source, vocabulary)
    if not unknown or weights is None:
        return prediction
    mean = weights.mean(0) if weights.ndim == 3 else weights
    read = [int(row.argmax()) for row in mean]
    known = [OutputSymbol(symbol, read[step], step) for step, symbol in enumerate(prediction.output)]
    found = list(_replaced(known, source, set(unknown)))
    for position in sorted(set(unknown) - {one.position for one in found}):
        later = (place for place, one in enumerate(found) if position < one.position < len(source))
        found.insert(next(later, len(found)), OutputSymbol(source[position], position, None))
    rows = [_row(weights, one) for one in found] + [weights[..., step, :] for step in range(len(known), len(read))]
    return prediction._replace(output=[one.symbol for one in found], weights=np.stack(rows, axis=-2))


def _replaced(written: list[OutputSymbol], source: tuple[str, ...], unknown: set[int]) -> Iterator[OutputSymbol]:
    """What was written, the first symbol of each unknown position as the copy, and its others left out."""
    done: set[int] = set()
    for one in written:
        if one.position not in unknown:
            yield one
        elif one.position not in done:
            done.add(one.position)
            yield one._replace(symbol=source[one.position])


def _row(weights: np.ndarray[Any, Any], one: OutputSymbol) -> Any:
    """A symbol's weights (m,) or (h, m)."""
    if one.step is not None:
        return weights[..., one.step, :]
    row = np.zeros_like(weights[..., 0, :])
    row[..., one.position] = 1
    return row
