"""The output of ``attnx predict``: a line each, scores, the N best; alignments as links, JSON or drawn in shades."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size

from attnx.cli.commands.predict.read import ParsedLine
from attnx.runs.alignments import END, head_names

if TYPE_CHECKING:
    from attnx.inference.predictor import Prediction


PHARAOH = (".txt", ".pharaoh")
JSON_LINES = ".jsonl"
# Separators of lines and columns.
SEPARATORS = str.maketrans("\t\r\n", "   ")


class Layout(NamedTuple):
    """The columns: line, rank, score and text of the N best; else the text, after its score if there is one."""

    is_ranked: bool = False
    has_scores: bool = False


def hypotheses(prediction: Prediction) -> list[Prediction]:
    """The hypotheses of a source, best first."""
    return [prediction, *prediction.alternatives]


def labels(prediction: Prediction) -> tuple[list[str], list[str]]:
    """The symbols of the rows (output) and columns (source) of a prediction's weights."""
    assert prediction.weights is not None
    steps, positions = prediction.weights.shape[-2:]
    output = prediction.output if isinstance(prediction.output, list) else map(str, range(len(prediction.output)))
    rows = [*output, END][:steps]
    source = prediction.pair.source if positions > prediction.num_decoder_states else ()
    return rows, [*source, *prediction.state_names(rows)]


def mean_weights(prediction: Prediction) -> np.ndarray[Any, Any]:
    """The weights (t, m), averaged over heads."""
    assert prediction.weights is not None
    return prediction.weights.mean(0) if prediction.weights.ndim == 3 else prediction.weights


def output_text(prediction: Prediction, task: Any) -> str:
    """An output on one line: the task's text, or a matrix as JSON."""
    if isinstance(prediction.output, list):
        return str(task.detokenize(prediction.output)).translate(SEPARATORS)
    return json.dumps([[float(f"{value:.10g}") for value in row] for row in prediction.output.tolist()])


def format_output(line: ParsedLine, prediction: Prediction | None, layout: Layout, task: Any) -> str:
    """The output lines of one input line; without a prediction the same columns, empty."""
    if prediction is None:
        return f"{line.line_number}\t1\t\t\n" if layout.is_ranked else "\t\n" if layout.has_scores else "\n"
    if not layout.is_ranked:
        score = f"{prediction.score:.6f}\t" if layout.has_scores else ""
        return f"{score}{output_text(prediction, task)}\n"
    return "".join(
        f"{line.line_number}\t{rank}\t{hypothesis.score:.6f}\t{output_text(hypothesis, task)}\n"
        for rank, hypothesis in enumerate(hypotheses(prediction), 1)
    )


def format_alignments(line: ParsedLine, prediction: Prediction | None, suffix: str, sites: Sequence[str] = ()) -> str:
    """The alignment lines of one input line: a line for each hypothesis, best first.

    ``sites`` are the model's attention layers that the heads belong to, if there are several.
    """
    if suffix != JSON_LINES:
        return "".join(f"{pharaoh(item)}\n" for item in hypotheses(prediction)) if prediction else "\n"
    if prediction is None:
        return json.dumps({"line": line.line_number, "rank": 1}) + "\n"
    lines = []
    for rank, hypothesis in enumerate(hypotheses(prediction), 1):
        record: dict[str, Any] = {"line": line.line_number, "rank": rank, "score": _finite(hypothesis.score)}
        record["log_probability"] = _finite(hypothesis.log_probability)
        if hypothesis.pair.tag:
            record["tag"] = hypothesis.pair.tag
        rows, columns = labels(hypothesis)
        record |= {"source": columns, "output": rows, "num_decoder_states": hypothesis.num_decoder_states}
        record["weights"] = _rounded(mean_weights(hypothesis))
        if hypothesis.weights is not None and hypothesis.weights.ndim == 3:
            record["names"] = head_names(sites, len(hypothesis.weights))
            record["heads"] = _rounded(hypothesis.weights)
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def pharaoh(prediction: Prediction) -> str:
    """Links ``source-output`` from 0: each output symbol to the source position with the greatest weight.

    A symbol with more weight on a decoder state has no link, nor has the end.
    """
    weights = mean_weights(prediction)[: len(prediction.output)]
    links = []
    for step, row in enumerate(weights):
        position = int(row.argmax())
        if position < weights.shape[1] - prediction.num_decoder_states and row[position] > 0:
            links.append(f"{position}-{step}")
    return " ".join(links)


def _rounded(weights: np.ndarray[Any, Any]) -> Any:
    return np.round(weights.astype(np.float64), 6).tolist()


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


SHADES = " ░▒▓█"
SPACE = "␣"
MAX_LABEL_CELLS = 12


def heatmap(
    weights: Any, rows: Sequence[str], columns: Sequence[str], width: int, decoder_columns: int = 0
) -> Iterator[str]:
    r"""Lines of a heat map of weights (t, m) in five shades.

    Columns that do not fit the width, in cells, are wrapped into blocks. Labels are as wide as a terminal shows them: a
    Chinese character takes two cells, a combining accent none. A bar separates the last columns, of decoder states.

    >>> print("\n".join(heatmap([[1.0, 0.0], [0.3, 0.7]], ["B", "字"], ["b", "ab"], width=20)))
       b ab
    B  █
    字 ░ ▓▓
    """
    row_labels, column_labels = [_label(label) for label in rows], [_label(label) for label in columns]
    label_width = max(map(cell_len, row_labels), default=0)
    bar = len(column_labels) - decoder_columns if decoder_columns else None

    def line(label: str, cells: Iterable[str]) -> str:
        parts = ["│" + cell if column == bar else " " + cell for column, cell in zip(block, cells, strict=True)]
        return "".join([set_cell_size(label, label_width), *parts]).rstrip()

    for block in _blocks([cell_len(label) for label in column_labels], width - label_width):
        yield line("", (column_labels[column] for column in block))
        for row, label in zip(weights, row_labels, strict=False):
            shades = [round(min(max(float(row[column]), 0.0), 1.0) * (len(SHADES) - 1)) for column in block]
            cells = zip(shades, block, strict=True)
            yield line(label, (SHADES[shade] * cell_len(column_labels[column]) for shade, column in cells))


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Ranges of columns that fit the room, with a space before each; at least one column each."""
    start, used = 0, 0
    for column, width in enumerate(widths):
        if column > start and used + width + 1 > room:
            yield range(start, column)
            start, used = column, 0
        used += width + 1
    if widths:
        yield range(start, len(widths))


def _label(symbol: str) -> str:
    """A symbol with visible spaces, and combining accents on a circle."""
    shown = symbol.replace(" ", SPACE)
    shown = "".join(sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in shown)
    if shown and unicodedata.combining(shown[0]):
        shown = "\u25cc" + shown
    return shown if cell_len(shown) <= MAX_LABEL_CELLS else set_cell_size(shown, MAX_LABEL_CELLS - 1) + "…"
