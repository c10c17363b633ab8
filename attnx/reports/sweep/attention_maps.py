"""Heat maps of the same examples by the best settings, for the report page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.errors import UserError
from attnx.reports.pages.run_page import scale_weights
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.load_runs import RunRecord
from attnx.runs.alignments import Alignment, read_examples

MAX_SETTINGS, MAX_EXAMPLES = 4, 8
PREFERRED_LENGTH = 24  # source symbols at most, if there are such examples

Key = tuple[tuple[str, ...], str]


def attention_maps(comparison: Comparison) -> dict[str, Any] | None:
    """Examples that the best run of each of the best settings saved alignments of; None without alignments."""
    if not comparison.metrics:
        return None
    selected: list[tuple[int, RunRecord, dict[Key, Alignment]]] = []
    for row in comparison.metrics[0].rows:
        best = max if comparison.metrics[0].measure.is_higher_better else min
        seed = best(row.values, key=row.values.__getitem__)
        run = next(run for run in comparison.settings[row.setting].runs if run.seed == seed)
        if examples := _read_examples(run):
            selected.append((row.setting, run, examples))
        if len(selected) == MAX_SETTINGS:
            break
    if not selected:
        return None
    shared = [key for key in selected[0][2] if all(key in examples for _, _, examples in selected)]
    return {
        "settings": [{"setting": index, "seed": run.seed} for index, run, _ in selected],
        "examples": [_example(key, [examples[key] for _, _, examples in selected]) for key in _select(shared)],
    }


def _read_examples(run: RunRecord) -> dict[Key, Alignment]:
    """Best alignments by source and name; without a source by reference."""
    try:
        bests = [next(iter(hypotheses.values())) for hypotheses in read_examples(run.path)]
    except UserError:
        return {}
    return {
        (best.source_symbols, best.name if best.source_symbols else " ".join(best.reference)): best for best in bests
    }


def _select(keys: Sequence[Key]) -> list[Key]:
    """Some examples, evenly from short to long."""
    by_length = sorted(keys, key=lambda key: len(key[0]))
    short = [key for key in by_length if len(key[0]) <= PREFERRED_LENGTH] or by_length[:1]
    return [short[index] for index in evenly_spaced_indices(len(short), MAX_EXAMPLES)]


def _example(key: Key, alignments: Sequence[Alignment]) -> dict[str, Any]:
    return {
        "read": key[0],
        "name": key[1],
        "reference": alignments[0].reference,
        "maps": [
            {
                "output": alignment.output,
                "wrong": alignment.is_wrong,
                "judged": alignment.is_scored and not alignment.is_numeric,
                "steps": alignment.is_numeric,
                "own": alignment.num_decoder_states,
                "weights": scale_weights(alignment.weights),
            }
            for alignment in alignments
        ],
    }
