"""BLEU, computed by sacreBLEU."""

from __future__ import annotations

from attnx.metrics.sacrebleu_metric import CorpusScore
from attnx.registry import register


@register("metric", "bleu")
def bleu(lower: bool = False) -> CorpusScore:
    """Precision of n-grams up to 4, with a penalty for brevity, in percent.

    Formula: ``100 min(1, exp(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)``
    Source: Papineni et al. 2002, https://aclanthology.org/P02-1040; sacreBLEU, Post 2018,
        https://aclanthology.org/W18-6319

    Texts are detokenized; sacreBLEU tokenizes them by its own rules (13a). ``lower`` compares them in lower case, which
    the signature records.

    >>> metric = bleu()
    >>> metric.update(["a dog runs home now"], [["the dog runs home now"]])
    >>> round(metric.compute().item(), 2)  # (4/5 3/4 2/3 1/2)^(1/4)
    66.87
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    # The lengths of output and reference; per order the matching n-grams and all n-grams.
    return CorpusScore("BLEU", size=2 + 2 * 4, lowercase=lower)
