"""The training task of all libraries, its sizes, and how attnx runs it."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.environments import ROOT, FailedError, run

from attnx.data.examples import Pair, Symbols, read_pairs
from attnx.data.readers.cmudict import read_cmudict
from attnx.errors import UserError

SIZES = {"batch": 128, "embedding": 128, "encoder": 256, "decoder": 256}
"""The same for everybody; the encoder's LSTM has this many units in each of its two directions."""

HIDDEN = 128
"""Units of the additive scorer; the peers have as many as their decoder."""

STEP_BY_STEP = ("+query=previous_state", "model.feed=now")
"""Overrides by which the context enters attnx's recurrence, as it does yoyodyne's."""

LIKE = {
    "yoyodyne": (
        *STEP_BY_STEP,
        "readout.inputs=[state]",
        "readout.tanh=false",
        f"scorer.hidden_size={SIZES['decoder']}",
    ),
    "joeynmt": ("model.feed=none", f"scorer.hidden_size={SIZES['decoder']}"),
}
"""Overrides by which attnx's model is a peer's: the same products of the same sizes.

yoyodyne's state alone is what the output layer sees; joeynmt's context does not enter the recurrence.
"""

ATTNX = (
    "task.train={pairs}",
    "folder={folder}",
    "trainer.max_steps={updates}",
    "trainer.batch_size={batch}",
    "trainer.num_validations=1",
    "trainer.valid_examples=10",
    "trainer.test_examples=10",
    "model.embedding_dim={embedding}",
    "encoder.hidden_size={encoder}",
    "decoder.hidden_size={decoder}",
    "+scorer=additive",
    f"scorer.hidden_size={HIDDEN}",
)
"""The overrides of every run of attnx; `train_attnx` fills the braces."""


def train_attnx(request: dict[str, Any], folder: Path, overrides: Sequence[str], limit: float) -> None:
    """Train as requested, by the command and into this folder.

    Raises:
        FailedError: the run fails or takes longer than ``limit`` seconds.
    """
    settings = [override.format(**request, folder=folder) for override in (*ATTNX, *overrides)]
    run([sys.executable, "-m", "attnx", *settings], ROOT, request["threads"], limit)


def read_speed(folder: Path) -> float:
    """Words per second of a run of attnx, from its folder.

    Raises:
        FailedError: it does not state its speed.
    """
    try:
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return float(results["train_examples_per_second"])
    except (OSError, KeyError) as error:
        raise FailedError(f"its run folder does not state its speed: {error}") from error


def draw(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """A number of random pairs, from a fixed seed."""
    return random.Random(0).sample(pairs, count)


def draw_pairs(count: int, file: Path | None = None) -> list[Pair]:
    """A number of random pairs of a file, or of the shipped CMUdict; the program ends if there are fewer."""
    try:
        pairs = read_pairs(file) if file else read_cmudict()
        if count > len(pairs):
            raise UserError(f"{count} pairs are needed, there are {len(pairs)}: ask for fewer")
    except UserError as error:
        raise SystemExit(f"error: {error}") from error
    return draw(pairs, count)


def write_pairs(pairs: Sequence[Pair], path: Path) -> list[tuple[Symbols, Symbols]]:
    """Write pairs, each with its first pronunciation."""
    sides = [(pair.source, pair.references[0]) for pair in pairs]
    lines = ["".join(letters) + "\t" + " ".join(symbols) + "\n" for letters, symbols in sides]
    path.write_text("".join(lines), encoding="utf-8")
    return sides
