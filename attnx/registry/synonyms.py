"""Names that papers and other programs use for knobs and parts, for hints in messages."""

from __future__ import annotations

from typing import Final

KNOB_SYNONYMS: Final = {"batch": "batch_size", "epochs": "max_epochs", "learning_rate": "lr", "steps": "max_steps"}
"""Names of knobs in other programs."""

PAPER_NAMES: Final = {
    "bahdanau": "additive",
    "bilinear": "multiplicative",
    "dot_product": "dot",
    "general": "multiplicative",
    "location_aware": "location",
    "location_sensitive": "location",
    "scaled_dot_product": "scaled",
}
"""Names of scorers in papers and other programs."""
