"""chrF, computed by sacreBLEU."""

from __future__ import annotations

from attnx.metrics.sacrebleu_metric import CorpusScore
from attnx.registry import register


@register("metric", "chrf")
def chrf(lower: bool = False) -> CorpusScore:
    """F-score of character n-grams up to 6, recall counted twice, in percent.

    Formula: ``100 (1 + 2^2) P R / (2^2 P + R), P and R the means over n = 1 ... 6``
    Source: Popović 2015, https://aclanthology.org/W15-3049; sacreBLEU, https://github.com/mjpost/sacrebleu

    Spaces are ignored. Of several references the one with the best score counts.

    >>> metric = chrf()
    >>> metric.update(["abc"], [["abd"]])  # P = R = (2/3 + 1/2 + 0/1) / 3
    >>> round(metric.compute().item(), 2)
    38.89
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no'
    """
    # Per order the n-grams of the output, of the reference, and of both.
    return CorpusScore("CHRF", size=3 * 6, lowercase=lower)
