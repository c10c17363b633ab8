"""BLEU, chrF and TER by sacreBLEU, from counts per segment that are summed over processes.

The only module that calls private methods of sacreBLEU: its public ones need the whole corpus at once.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from attnx.errors import UserError
from attnx.metrics.additive_metric import AdditiveMetric
from attnx.registry import register
from attnx.registry.dependencies import require_package

BleuTokenizer = Literal["13a", "zh", "char", "intl", "ja-mecab", "none"]
MAX_REFERENCES = 2**31 - 1
UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
MIN_BLEU_TOKENS = 4  # of the longest n-grams
# Divisible by 1 to 16: mean lengths over up to 16 references become whole numbers.
LENGTH_DENOMINATOR = 720_720


class CorpusScore(AdditiveMetric):
    """Score of a corpus from integer sums over its segments, so that merging processes is exact.

    It is NaN before the first segment. Segments may have different numbers of references.

    Args:
        name: class in ``sacrebleu.metrics``.
        size: number of counts that sacreBLEU makes per segment.
        unit: factor that makes counts integers.
        options: arguments of that class.

    Raises:
        UserError: sacreBLEU, or a package that an option needs, is not installed.
    """

    higher_is_better = None
    sums_dtype = torch.int64
    constant_states = ("min_references", "max_references")
    """States that a bootstrap sample does not change."""

    min_references: Tensor
    max_references: Tensor

    def __init__(self, name: str, size: int, unit: int = 1, **options: Any) -> None:
        super().__init__(size)
        metrics = require_package("sacrebleu.metrics", "translation", f"the metric {name}")
        try:
            self.scorer: Any = getattr(metrics, name)(**options)
        except RuntimeError as error:  # of a tokenization that needs a further package
            raise UserError(f"the metric {name}: {' '.join(str(error).split())}") from error
        self.scorer.num_refs = None  # unknown until the first compute
        self.unit = unit
        self.add_state("min_references", torch.tensor(MAX_REFERENCES), dist_reduce_fx="min")
        self.add_state("max_references", torch.tensor(0), dist_reduce_fx="max")

    def terms(self, prediction: str, reference: Sequence[str]) -> list[int]:
        """Return the counts of a segment: an output and one or more references, as plain text."""
        if not reference:
            raise ValueError("a segment has no reference")
        (counts,) = self.scorer._extract_corpus_statistics([prediction], [[text] for text in reference])
        return [round(count * self.unit) for count in counts]

    def update(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Count a batch of segments; see :meth:`terms`."""
        super().update(predictions, references)
        for texts in references:
            self.min_references = self.min_references.clamp(max=len(texts))
            self.max_references = self.max_references.clamp(min=len(texts))

    def compute(self) -> Tensor:
        """Return the score in percent, a scalar."""
        low, high = self.min_references.item(), self.max_references.item()
        if not high:
            return torch.tensor(torch.nan, device=self.sums.device)
        self.scorer.num_refs = high if low == high else -1
        sums = [total / self.unit for total in self.sums.tolist()]
        return torch.tensor(self.scorer._compute_score_from_stats(sums).score, device=self.sums.device)

    @property
    def signature(self) -> str:
        """The score's signature by sacreBLEU; ``nrefs`` comes from the last :meth:`compute`, if any."""
        return str(self.scorer.get_signature().format())


@register("metric", "bleu")
def bleu(lower: bool = False, tokenize: str = "13a") -> CorpusScore:
    """Precision of n-grams up to 4, with a penalty for brevity, in percent.

    Formula: ``100 min(1, exp(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)``
    Source: Papineni et al. 2002, https://aclanthology.org/P02-1040; sacreBLEU, Post 2018,
        https://aclanthology.org/W18-6319

    Texts are detokenized; sacreBLEU tokenizes them by the rules ``tokenize``. ``lower`` compares them in lower case.
    The signature records both. BLEU is 0 if no reference has four tokens, as an unspaced sentence by the rules 13a.

    >>> metric = bleu()
    >>> metric.update(["a dog runs home now"], [["the dog runs home now"]])
    >>> round(metric.compute().item(), 2)  # (4/5 3/4 2/3 1/2)^(1/4)
    66.87
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    # The lengths of output and reference; per order the matching n-grams and all n-grams.
    return CorpusScore("BLEU", size=2 + 2 * 4, lowercase=lower, tokenize=tokenize)


def tokenizer_for(texts: Iterable[str]) -> BleuTokenizer:
    r"""The tokenization of BLEU that fits the script of most letters: 13a needs spaces between words.

    Chinese is cut into characters beside words (``zh``), Japanese into words if MeCab is installed, and other scripts
    without spaces into characters.

    >>> texts = "Das ist ein Hund.", "\u8fd9\u662f\u72d7 2026", "\u0e2a\u0e27\u0e31\u0e2a", "7 11"
    >>> [tokenizer_for([text]) for text in texts]
    ['13a', 'zh', 'char', '13a']
    """
    letters = [character for text in texts for character in text if character.isalpha()]
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    if 2 * sum(scripts[script] for script in UNSPACED_SCRIPTS) <= len(letters):
        return "13a"
    if scripts["HIRAGANA"] + scripts["KATAKANA"]:
        return "ja-mecab" if importlib.util.find_spec("MeCab") else "char"
    return "zh" if scripts["CJK"] else "char"


@register("metric", "chrf")
def chrf(lower: bool = False) -> CorpusScore:
    """F-score of character n-grams up to 6, recall counted twice, in percent.

    Formula: ``100 (1 + 2^2) P R / (2^2 P + R), P and R the means over n = 1 ... 6``
    Source: Popović 2015, https://aclanthology.org/W15-3049; sacreBLEU, https://github.com/mjpost/sacrebleu

    Spaces are ignored. The reference with the best score counts.

    >>> metric = chrf()
    >>> metric.update(["abc"], [["abd"]])  # P = R = (2/3 + 1/2 + 0/1) / 3
    >>> round(metric.compute().item(), 2)
    38.89
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no'
    """
    # For each order the n-grams of the output, of the reference, and of both.
    return CorpusScore("CHRF", size=3 * 6, lowercase=lower)


@register("metric", "ter")
def ter(lower: bool = False) -> CorpusScore:
    """Edits per 100 reference words: insertions, deletions, substitutions and shifts of word sequences.

    Formula: ``100 sum(edits) / sum(length)``
    Source: Snover et al. 2006, https://aclanthology.org/2006.amta-papers.25; sacreBLEU,
        https://github.com/mjpost/sacrebleu

    Lower is better, and it may exceed 100. The fewest edits to any reference count, over the references' mean length.
    Words are separated by spaces. Case counts; sacreBLEU's own default ignores it, as ``lower`` does.

    >>> metric = ter()
    >>> metric.update(["d e a b c x"], [["a b c d e f"]])  # "d e" is moved, x becomes f: 2 edits of 6 words
    >>> round(metric.compute().item(), 2)
    33.33
    >>> metric.signature.rpartition("|")[0]
    'nrefs:1|case:mixed|tok:tercom|norm:no|punct:yes|asian:no'
    """
    return CorpusScore("TER", size=2, unit=LENGTH_DENOMINATOR, case_sensitive=not lower)
