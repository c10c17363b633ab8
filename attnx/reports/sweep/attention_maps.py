"""The same examples as the best few settings read them: heat maps to lay side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.errors import UserError
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.load_runs import RunRecord
from attnx.runs.alignments import Alignment, read_examples

BEST, SHOWN = 4, 8  # settings, and examples
LONGEST = 24  # symbols on either side of one that is shown, if there are any so short
THOUSAND = 1000

Key = tuple[tuple[str, ...], str]


def maps(comparison: Comparison) -> dict[str, Any] | None:
    """Of the best settings that kept alignments one run each, its best; and the examples that all of them kept."""
    if not comparison.judged:
        return None
    held: list[tuple[int, RunRecord, dict[Key, Alignment]]] = []
    for row in comparison.judged[0].rows:
        runs = comparison.settings[row.place].runs
        pick = max if comparison.judged[0].measure.more else min
        best = pick(row.values, key=lambda seed: row.values[seed])
        run = next(run for run in runs if run.seed == best)
        if examples := _examples(run):
            held.append((row.place, run, examples))
        if len(held) == BEST:
            break
    if not held:
        return None
    common = [key for key in held[0][2] if all(key in examples for _, _, examples in held)]
    return {
        "settings": [{"place": place, "seed": run.seed} for place, run, _ in held],
        "examples": [_shown(key, [examples[key] for _, _, examples in held]) for key in _chosen(common)],
    }


def _examples(run: RunRecord) -> dict[Key, Alignment]:
    """What was read by which example; where no source was read, what should have been written tells them apart."""
    try:
        bests = [next(iter(hypotheses.values())) for hypotheses in read_examples(run.path)]
    except UserError:
        return {}
    return {(one.read, one.name if one.read else " ".join(one.reference)): one for one in bests}


def _chosen(keys: Sequence[Key]) -> list[Key]:
    """Some, evenly from short to long."""
    by_length = sorted(keys, key=lambda key: len(key[0]))
    fitting = [key for key in by_length if len(key[0]) <= LONGEST] or by_length[:1]
    return [fitting[place] for place in evenly_spaced_indices(len(fitting), SHOWN)]


def _shown(key: Key, read: Sequence[Alignment]) -> dict[str, Any]:
    return {
        "read": key[0],
        "name": key[1],
        "reference": read[0].reference,
        "maps": [
            {
                "output": one.output,
                "wrong": one.wrong,
                "judged": one.judged and not one.steps,
                "steps": one.steps,
                "own": one.own,
                "weights": np.rint(np.nan_to_num(one.weights).clip(0) * THOUSAND).astype(int).ravel().tolist(),
            }
            for one in read
        ],
    }
