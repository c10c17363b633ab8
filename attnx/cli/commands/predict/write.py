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
from attnx.runs.alignments import Alignment, head_names, predicted_links

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


def format_alignments(line: ParsedLine, prediction: Prediction | None, suffix: str, sites: Sequence[str]) -> str:
    """The alignment lines of one input line: a line for each hypothesis, best first.

    ``sites`` are the model's attention layers that the heads belong to, if there are several.
    """
    if prediction is None:
        return json.dumps({"line": line.line_number, "rank": 1}) + "\n" if suffix == JSON_LINES else "\n"
    lines = []
    for rank, hypothesis in enumerate(hypotheses(prediction), 1):
        alignment = hypothesis.alignment
        assert alignment is not None, "the weights were requested"
        if suffix != JSON_LINES:
            lines.append(pharaoh(alignment))
            continue
        record: dict[str, Any] = {"line": line.line_number, "rank": rank, "score": _finite(hypothesis.score)}
        record["log_probability"] = _finite(hypothesis.log_probability)
        if hypothesis.pair.tag:
            record["tag"] = hypothesis.pair.tag
        record |= {"source": alignment.source, "output": alignment.output}
        record |= {"num_decoder_states": alignment.num_decoder_states, "weights": _rounded(alignment.weights)}
        if alignment.heads is not None:
            record["names"] = head_names(sites, len(alignment.heads))
            record["heads"] = _rounded(alignment.heads)
        lines.append(json.dumps(record, ensure_ascii=False))
    return "".join(f"{text}\n" for text in lines)


def pharaoh(alignment: Alignment) -> str:
    """Links ``source-output`` from 0: each output symbol to the source position with the greatest weight.

    A symbol with more weight on a decoder state has no link, nor has the end.
    """
    links = sorted(predicted_links(alignment, alignment.weights), key=lambda link: link[1])
    return " ".join(f"{position}-{step}" for position, step in links)


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
