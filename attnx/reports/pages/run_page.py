"""Writes the page of one run, or of two side by side, as one self-contained HTML file (run_page.html, .css, .js).

Its data is embedded as JSON, and its content security policy forbids loading anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnx.config.view import name_and_options, node_text
from attnx.errors import UserError
from attnx.reports.pages.decoding_trace import OpenTraces, Tracer, no_traces, row_spans, trace_examples
from attnx.reports.pages.html_template import fill_page, write_files
from attnx.reports.run.tables import CONFIG_KEYS, result_rows
from attnx.reports.stats.alignment_statistics import Statistics, run_statistics, statistics_rows
from attnx.runs.alignments import Alignment, Weights, read_saved_alignments
from attnx.runs.layout import PAGE
from attnx.runs.run import Run, read_run

WEIGHT_SCALE = 1000  # weights are written in thousandths
MAX_RUNS = 2
PLAYER = ("strips", "read_table", "candidates", "beam_tree", "panels", "player")  # the player's parts

# Source and name of an example; without a source its reference.
ExampleKey = tuple[tuple[str, ...], str]
ExampleIndex = tuple[ExampleKey, int]
Hypotheses = list[dict[str, Any]]


def write_page(
    folders: Sequence[Path | str], path: Path | str | None = None, open_traces: OpenTraces = no_traces
) -> Path:
    """Write the page of one or two runs, by default ``page.html`` in the first one's folder, and return its path.

    Without ``open_traces``, which finds how examples were decoded, it plays saved weights only.

    Raises:
        UserError: no run or too many, no run folder, or one without alignments.
    """
    if not 1 <= len(folders) <= MAX_RUNS:
        raise UserError(f"a page shows one run, or two side by side, not {len(folders)}")
    runs = [read_run(folder) for folder in folders]
    tables = [_tables(run, run_statistics(run.path)[""]) for run in runs]
    by_run = [_examples(run, open_traces(run.path)) for run in runs]
    examples = [
        {"source": source, "name": name if source else "", "runs": [run.get(((source, name), index)) for run in by_run]}
        for (source, name), index in dict.fromkeys(key for run in by_run for key in run)
    ]
    title, data = " and ".join(run.name for run in runs), {"runs": tables, "examples": examples}
    text = fill_page(Path(__file__).with_suffix(".html"), title, data, ["document", "symbols", *PLAYER])
    return write_files({Path(path) if path is not None else Path(folders[0]) / PAGE: text})[0]


def _tables(run: Run, statistics: Statistics) -> dict[str, Any]:
    """The tables of a run, as rows of text."""
    facts = [(key, node_text(run.config[key])) for key in CONFIG_KEYS if key in run.config]
    facts += [("command", str(run.info["command"]))] if run.info.get("command") else []
    results = [
        (row.metric, row.value + (f" ({row.interval})" if row.interval else ""), row.remark) for row in result_rows(run)
    ]
    parts = {kind: name_and_options(run.config[kind])[0] for kind in ("scorer", "normalizer") if kind in run.config}
    return {
        "name": run.name,
        "results": results,
        "facts": facts,
        "statistics": statistics_rows(statistics),
        "parts": parts,
    }


def example_key(best: Alignment) -> ExampleKey:
    """What identifies an example of several runs, by its best hypothesis."""
    return best.source_symbols, best.name if best.source_symbols else " ".join(best.reference)


def _examples(run: Run, tracer: Tracer | str) -> dict[ExampleIndex, Hypotheses]:
    """A run's hypotheses by example; a number tells equal examples apart."""
    counts, saved = Counter[ExampleKey](), dict[ExampleIndex, list[Alignment]]()
    for files in read_saved_alignments(run.path):
        hypotheses = list(files.values())
        key = example_key(hypotheses[0])
        saved[key, counts[key]] = hypotheses
        counts[key] += 1
    traces = trace_examples(tracer, saved)
    return {
        index: [_hypothesis(part) | fields for part, fields in zip(parts, traces[index], strict=True)]
        for index, parts in saved.items()
    }


def _hypothesis(alignment: Alignment) -> dict[str, Any]:
    """A hypothesis; starts and ends of what a step reads, such as ``[1, 3, 5, 6]``, are positions 1, 2 and 5."""
    score, views = alignment.score, []
    for name, weights in alignment.views.items():
        read = row_spans(weights != 0) if (weights == 0).any() else None
        views.append({"name": name, "weights": scale_weights(weights), "read": read})
    return {
        **output_data(alignment),
        "reference": alignment.reference,
        "score": score if score is not None and math.isfinite(score) else None,
        "views": views,
    }


def output_data(alignment: Alignment) -> dict[str, Any]:
    """The output of an alignment as JSON; ``is_right`` is null where the task does not say."""
    return {
        "output": alignment.output,
        "is_right": alignment.is_right,
        "numeric": alignment.is_numeric,
        "decoder_states": alignment.num_decoder_states,
    }


def scale_weights(weights: Weights) -> list[int]:
    """Weights in thousandths, row by row."""
    scaled: list[int] = np.rint(np.nan_to_num(weights).clip(0) * WEIGHT_SCALE).astype(int).ravel().tolist()
    return scaled
