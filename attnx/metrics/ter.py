"""TER: how much a translation must be edited to become its reference."""

from __future__ import annotations

from attnx.metrics.sacrebleu_metric import CorpusScore
from attnx.registry import register

# Divisible by 1 to 16, so that lengths averaged over up to 16 references are whole numbers of it.
PARTS = 720_720


@register("metric", "ter")
def ter(lower: bool = False) -> CorpusScore:
    """Edits per 100 words of the reference: words put in, left out or exchanged, and runs of words moved.

    Formula: ``100 sum(edits) / sum(length)``
    Source: Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25; sacreBLEU,
        https://github.com/mjpost/sacrebleu

    Lower is better, and it may exceed 100. Of several references the fewest edits count, over their mean length. Words
    are what stands between spaces.

    >>> metric = ter()
    >>> metric.update(["d e a b c x"], [["a b c d e f"]])  # "d e" is moved, x becomes f: 2 edits of 6 words
    >>> round(metric.compute().item(), 2)
    33.33
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|tok:tercom|norm:no|punct:yes|asian:no'
    """
    return CorpusScore("TER", width=2, unit=PARTS, case_sensitive=not lower)
