"""The reference nearest to a prediction by edit distance."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein


def nearest_reference(prediction: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, Sequence[str]]:
    """Return (edits, reference) for the reference with the fewest edits; the first of equals.

    Edits are insertions, deletions and substitutions of whole symbols; each costs 1.

    Raises:
        ValueError: there is no reference.

    >>> nearest_reference(["K", "AE", "T"], [["K", "AA", "R"], ["K", "AE", "T", "S"]])
    (1, ['K', 'AE', 'T', 'S'])
    """
    if not references:
        raise ValueError(f"no reference for the prediction {' '.join(prediction)!r}")
    edits = [Levenshtein.distance(prediction, reference) for reference in references]
    best = edits.index(min(edits))
    return edits[best], references[best]
