"""Translation edit rate (TER), computed by sacreBLEU."""

from __future__ import annotations

from attnx.metrics.sacrebleu_metric import CorpusScore
from attnx.registry import register

# Divisible by 1 to 16: mean lengths over up to 16 references become whole numbers.
LENGTH_DENOMINATOR = 720_720


@register("metric", "ter")
def ter(lower: bool = False) -> CorpusScore:
    """Edits per 100 reference words: insertions, deletions, substitutions and shifts of word sequences.

    Formula: ``100 sum(edits) / sum(length)``
    Source: Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25; sacreBLEU,
        https://github.com/mjpost/sacrebleu

    Lower is better, and it may exceed 100. Of several references the fewest edits count, over their mean length. Words
    are separated by spaces.

    >>> metric = ter()
    >>> metric.update(["d e a b c x"], [["a b c d e f"]])  # "d e" is moved, x becomes f: 2 edits of 6 words
    >>> round(metric.compute().item(), 2)
    33.33
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|tok:tercom|norm:no|punct:yes|asian:no'
    """
    return CorpusScore("TER", size=2, unit=LENGTH_DENOMINATOR, case_sensitive=not lower)
