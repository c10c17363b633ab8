"""Writes the attention weights of predictions to ``alignments/NNN.npz``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx.data.examples import Pair
from attnx.files.write_arrays import write_arrays
from attnx.inference.predictor import Prediction
from attnx.models.resolve import resolve_model
from attnx.runs.alignments import Alignment, alignment_arrays
from attnx.runs.layout import ALIGNMENTS
from attnx.runs.run import Run
from attnx.tasks.contract import SequenceTask

# Numbers of a source whose features are saved for the player of the run's page: 64 KiB.
MAX_SAVED_FEATURES = 16_384
SelfAttention = Mapping[int, Mapping[str, Any]]


def save_alignments(
    folder: Path, predictions: Sequence[Prediction], task: SequenceTask, self_attention: SelfAttention | None = None
) -> None:
    """Write the weights of each prediction with its symbols, or the names of its steps, and whether it is right.

    Alternatives go to ``NNN-2.npz``, ``NNN-3.npz`` and so on. ``self_attention`` has the maps of each stream by the
    index of the prediction; they go with the best hypothesis.
    """
    (folder / ALIGNMENTS).mkdir(exist_ok=True)
    config = Run(folder).config
    resolved = resolve_model(config) if config else None
    sites, streams = getattr(resolved, "sites", ()), getattr(resolved, "self_attention_sites", {})
    for index, best in enumerate(predictions):
        for rank, prediction in enumerate((best, *best.alternatives), start=1):
            alignment = prediction.scored_alignment(task)
            if alignment is None:
                continue
            alignment = _with_source(alignment, prediction.pair)
            alignment = alignment._replace(sites=() if alignment.heads is None else sites)
            for stream, maps in (self_attention or {}).get(index, {}).items() if rank == 1 else ():
                alignment = alignment._replace(**{stream: maps, f"{stream}_sites": streams[stream]})
            name = f"{index:03d}" + (f"-{rank}" if rank > 1 else "")
            write_arrays(folder / ALIGNMENTS / f"{name}.npz", alignment_arrays(alignment))


def _with_source(alignment: Alignment, pair: Pair) -> Alignment:
    """Add what else is needed to decode an example again: its tag, its features, and symbols that are no columns."""
    is_small = pair.features is not None and pair.features.size <= MAX_SAVED_FEATURES
    return alignment._replace(
        tag=pair.tag,
        features=pair.features if is_small else None,
        unaligned_source=() if alignment.source_symbols else pair.source,
    )
