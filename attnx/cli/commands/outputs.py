"""How predictions are written: a line each, with scores, the best N, and alignments in two forms."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnx.cli.commands.inputs import Line
from attnx.errors import UserError
from attnx.runs.alignments import named_heads

if TYPE_CHECKING:
    from attnx.training.lightning_module import Prediction

END = "</s>"
PHARAOH = (".txt", ".pharaoh")
JSON_LINES = ".jsonl"
# What would break a line of the output in two, or a column.
BREAKS = str.maketrans("\t\r\n", "   ")


class Form(NamedTuple):
    """How a line is written.

    Attributes:
        several: whether the best N are asked for: columns line, rank, score and text.
        scores: whether a score stands before the text.
    """

    several: bool = False
    scores: bool = False


def hypotheses(prediction: Prediction) -> list[Prediction]:
    """What was found for a source, best first."""
    return [prediction, *prediction.others]


def labels(prediction: Prediction) -> tuple[list[str], list[str]]:
    """The names of the rows (what was written) and columns (what was read) of a prediction's weights."""
    assert prediction.weights is not None
    steps, positions = prediction.weights.shape[-2:]
    written = prediction.output if isinstance(prediction.output, list) else map(str, range(len(prediction.output)))
    rows = [*written, END][:steps]
    read = prediction.pair.source if positions > prediction.own else ()
    return rows, [*read, *rows[: prediction.own]]


def mean_weights(prediction: Prediction) -> np.ndarray[Any, Any]:
    """The weights (t, m), of several heads their mean."""
    assert prediction.weights is not None
    return prediction.weights.mean(0) if prediction.weights.ndim == 3 else prediction.weights


def text_of(prediction: Prediction, task: Any) -> str:
    """An output on one line: the task's text, or the rows of a matrix as JSON."""
    if isinstance(prediction.output, list):
        return str(task.text(prediction.output)).translate(BREAKS)
    return json.dumps([[float(f"{number:.7g}") for number in row] for row in prediction.output.tolist()])


def written(line: Line, prediction: Prediction | None, form: Form, task: Any) -> str:
    """The lines of the output for one of the input; of an empty one the same, with nothing in them."""
    if prediction is None:
        return f"{line.number}\t1\t\t\n" if form.several else "\t\n" if form.scores else "\n"
    if not form.several:
        score = f"{prediction.score:.6f}\t" if form.scores else ""
        return f"{score}{text_of(prediction, task)}\n"
    return "".join(
        f"{line.number}\t{rank}\t{one.score:.6f}\t{text_of(one, task)}\n"
        for rank, one in enumerate(hypotheses(prediction), 1)
    )


def check_alignments(file: Path) -> None:
    """See that the name of a file says in which form alignments are to be written.

    Raises:
        UserError: it does not.
    """
    if file.suffix not in (*PHARAOH, JSON_LINES):
        raise UserError(
            f"--alignments {file}: its name does not say what it is to be; "
            f"{' and '.join(PHARAOH)} are Pharaoh's form, {JSON_LINES} is JSON with the weights"
        )


def aligned(line: Line, prediction: Prediction | None, suffix: str, sites: Sequence[str] = ()) -> str:
    """The lines of the file of alignments for one of the input: one for each hypothesis, in the output's order.

    ``sites`` are the places in the model that the heads belong to, where attention has several.
    """
    if suffix != JSON_LINES:
        return "".join(f"{pharaoh(one)}\n" for one in hypotheses(prediction)) if prediction else "\n"
    if prediction is None:
        return json.dumps({"line": line.number, "rank": 1}) + "\n"
    return "".join(_json(line.number, rank, one, sites) for rank, one in enumerate(hypotheses(prediction), 1))


def pharaoh(prediction: Prediction) -> str:
    """Links ``source-output``, counted from 0: of each output symbol to the source position that it read most.

    A symbol that read the decoder's own states more than any source position has none, nor has the end.
    """
    return " ".join(f"{position}-{step}" for step, position in _links(prediction))


def _links(prediction: Prediction) -> Iterator[tuple[int, int]]:
    weights = mean_weights(prediction)[: len(prediction.output)]
    for step, row in enumerate(weights):
        position = int(row.argmax())
        if position < weights.shape[1] - prediction.own and row[position] > 0:
            yield step, position


def _json(line: int, rank: int, prediction: Prediction, sites: Sequence[str]) -> str:
    held: dict[str, Any] = {"line": line, "rank": rank, "score": _finite(prediction.score)}
    held["log_probability"] = _finite(prediction.log_probability)
    if prediction.pair.tag:
        held["tag"] = prediction.pair.tag
    rows, columns = labels(prediction)
    held |= {"source": columns, "output": rows, "own": prediction.own}
    held["weights"] = _rounded(mean_weights(prediction))
    if prediction.weights is not None and prediction.weights.ndim == 3:
        held["names"] = named_heads(sites, len(prediction.weights))
        held["heads"] = _rounded(prediction.weights)
    return json.dumps(held, ensure_ascii=False) + "\n"


def _rounded(weights: np.ndarray[Any, Any]) -> Any:
    return np.round(weights.astype(np.float64), 6).tolist()


def _finite(number: float) -> float | None:
    return round(number, 6) if math.isfinite(number) else None
